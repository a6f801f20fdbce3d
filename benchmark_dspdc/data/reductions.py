"""Low-rank factorizations ``A ~ U V`` of a data matrix; ``A`` itself is never formed.

Every function returns a `Reduction`, which also maps test samples: for any coefficient vector
``w`` of the reduced problem the predictions of the training samples are ``U @ (V @ w)`` and those
of test samples are ``A_test @ w``, where ``transform(X_test)`` gives ``A_test`` as a pair of
factors again or, after an instance reduction, as a matrix.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from ..engine.checks import as_matrix, check_int, check_number, choose
from ..engine.threads import one_thread
from .common import random_stream

__all__ = ["REDUCTIONS", "Reduction", "feature", "instance", "nystroem", "reduce", "svd"]

#: Names accepted by `reduce`.
REDUCTIONS = ("feature", "instance", "svd", "nystroem")


class Reduction(NamedTuple):
    """A factorization and its extension to test samples.

    Attributes
    ----------
    U : ndarray of shape (n, d)
        Left factor, C-contiguous float64.
    V : ndarray of shape (d, q)
        Right factor, C-contiguous float64; ``q`` is the number of features, or the number of
        training samples for a kernel matrix.
    transform : callable
        ``transform(X_test)`` gives the matrix of the test samples, a pair ``(U_test, V_test)`` or
        a matrix, as `erm` takes them. It can be pickled.
    """

    U: np.ndarray
    V: np.ndarray
    transform: Callable


def feature(X, d, seed):
    """Project the features at random: ``A = X G' G``.

    Parameters
    ----------
    X : array_like or scipy sparse of shape (n, p)
        Samples; not modified.
    d : int
        Number of random directions, at most ``p``.
    seed : int
        Non-negative.

    Returns
    -------
    Reduction
        ``U = X G'`` and ``V = G``, the entries of the ``d x p`` matrix ``G`` being drawn from
        ``N(0, 1/d)``. Test samples: ``U_test = X_test G'`` with the same ``V``.
    """
    X = as_matrix(X, "X")
    d = check_int(d, "d", high=X.shape[1], reason="the number of features")
    V = random_stream(seed, "feature reduction").standard_normal((d, X.shape[1]))
    V /= np.sqrt(d)
    return Reduction(_times(X, V.T), V, partial(_project, V=V))


def instance(X, d, seed):
    """Mix the samples at random: ``A = G' G X``.

    Parameters
    ----------
    X : array_like or scipy sparse of shape (n, p)
        Samples; not modified.
    d : int
        Number of random mixtures, at most ``n``.
    seed : int
        Non-negative.

    Returns
    -------
    Reduction
        ``U = G'`` and ``V = G X``, the entries of the ``d x n`` matrix ``G`` being drawn from
        ``N(0, 1/d)``. Only the training samples are mixed and the features keep their meaning, so
        ``A_test = X_test``, and `transform` returns just that.
    """
    X = as_matrix(X, "X")
    n, p = X.shape
    d = check_int(d, "d", high=n, reason="the number of samples")
    U = random_stream(seed, "instance reduction").standard_normal((n, d))
    U /= np.sqrt(d)
    V = np.ascontiguousarray(_times(X.T, U).T)
    return Reduction(U, V, partial(_identity, n_features=p))


def svd(X, d, seed):
    """Truncate the singular value decomposition.

    Parameters
    ----------
    X : array_like or scipy sparse of shape (n, p)
        Samples; not modified.
    d : int
        Rank, at most ``min(n, p)``.
    seed : int
        Non-negative; seeds the randomized range finder.

    Returns
    -------
    Reduction
        ``U`` holds the left singular vectors times the singular values, ``V`` the right singular
        vectors as rows. Test samples: ``U_test = X_test V'``, so that ``U_test V`` is the
        projection of the test samples onto the row space of ``V``.

    Notes
    -----
    Uses `sklearn.utils.extmath.randomized_svd`: the result is close to the best approximation of
    rank ``d``, not equal to it.
    """
    from sklearn.utils.extmath import randomized_svd

    X = as_matrix(X, "X")
    d = check_int(d, "d", high=min(X.shape), reason="the smaller dimension of X")
    # scikit-learn takes the legacy generator; the bit stream below is still that of our seeds.
    bits = random_stream(seed, "svd reduction").bit_generator
    with one_thread():
        left, singular, V = randomized_svd(
            X, n_components=d, random_state=np.random.RandomState(bits)
        )
    V = np.ascontiguousarray(V)
    return Reduction(np.ascontiguousarray(left * singular), V, partial(_project, V=V))


def nystroem(X, d, seed, gamma=None):
    """Approximate the RBF kernel matrix with landmark samples.

    Parameters
    ----------
    X : array_like or scipy sparse of shape (n, p)
        Samples; not modified.
    d : int
        Number of landmarks, at most ``n``; they are drawn from the rows without replacement.
    seed : int
        Non-negative.
    gamma : float, optional
        Positive; the kernel is ``exp(-gamma * ||x - y||^2)``. The default is
        ``1 / (p * var(X))``, the variance being that of all entries (one if all entries are
        equal), as in scikit-learn's ``gamma="scale"``.

    Returns
    -------
    Reduction
        ``U = K(X, L) K(L, L)^(-1/2)`` with ``L`` the landmarks, and ``V = U'``; ``A = U V`` is
        ``n x n``. Test samples: ``U_test = K(X_test, L) K(L, L)^(-1/2)`` with the same ``V``, so
        that ``A_test`` approximates ``K(X_test, X)``.

    Notes
    -----
    The product ``K(X, L) K(L, L)^+ K(L, X)`` can be split in many ways. The symmetric split gives
    both factors the singular values ``sqrt(sigma)`` of the product, and so the condition number
    ``sqrt(kappa)``, while ``U = K(X, L)`` would leave the ill-conditioned inverse to ``V`` alone.
    Eigenvalues of ``K(L, L)`` below ``d * eps`` times the largest, which duplicates among the
    landmarks produce, count as zero.
    """
    X = as_matrix(X, "X")
    n, p = X.shape
    d = check_int(d, "d", high=n, reason="the number of samples")
    if gamma is None:
        variance = _variance(X)
        gamma = 1.0 / (p * variance) if variance > 0 else 1.0
    else:
        gamma = check_number(gamma, "gamma", 0.0, strict=True)
    chosen = random_stream(seed, "nystroem landmarks").choice(n, size=d, replace=False)
    landmarks = X[np.sort(chosen)]
    with one_thread():
        values, vectors = linalg.eigh(_kernel(landmarks, landmarks, gamma))
        keep = values > d * np.finfo(float).eps * values[-1]
        kept = vectors[:, keep]
        root = (kept / np.sqrt(values[keep])) @ kept.T
    kernel_map = partial(_kernel_features, landmarks=landmarks, gamma=gamma, root=root)
    U = kernel_map(X)
    V = np.ascontiguousarray(U.T)
    return Reduction(U, V, partial(_kernel_pair, kernel_map=kernel_map, n_features=p, V=V))


def reduce(X, name, d, seed, gamma=None):
    """Apply one of the reductions by name.

    Parameters
    ----------
    X : array_like or scipy sparse of shape (n, p)
        Samples; not modified.
    name : {"feature", "instance", "svd", "nystroem"}
        See the function of that name.
    d : int
        Rank of the factorization.
    seed : int
        Non-negative.
    gamma : float, optional
        Kernel parameter, for ``"nystroem"`` only.

    Returns
    -------
    Reduction

    Raises
    ------
    ValueError
        If the name is unknown, ``d`` is out of range for it, ``X`` is not a finite matrix, or
        ``gamma`` is not a positive number or has no meaning for the reduction.
    """
    choose(name, REDUCTIONS, "reduction")
    if name == "nystroem":
        return nystroem(X, d, seed, gamma=gamma)
    if gamma is not None:
        raise ValueError(
            f"gamma has no meaning for the reduction {name!r}: got {gamma!r}, allowed is None."
        )
    return {"feature": feature, "instance": instance, "svd": svd}[name](X, d, seed)


def _times(X, B):
    """Multiply into a C-contiguous ndarray, on one BLAS thread."""
    with one_thread():
        return np.ascontiguousarray(X @ B)


def _check_test(X_test, n_features):
    X_test = as_matrix(X_test, "X_test")
    if X_test.shape[1] != n_features:
        raise ValueError(
            f"X_test does not fit the training samples: got {X_test.shape[1]} columns, allowed "
            f"are {n_features}."
        )
    return X_test


# The maps below are module-level functions bound with `partial`, not closures, so that a
# `Reduction` survives pickling on its way to a worker process.


def _project(X_test, V):
    return _times(_check_test(X_test, V.shape[1]), V.T), V


def _identity(X_test, n_features):
    return _check_test(X_test, n_features)


def _kernel(X, landmarks, gamma):
    from sklearn.metrics.pairwise import rbf_kernel

    return rbf_kernel(X, landmarks, gamma=gamma)


def _kernel_features(X, landmarks, gamma, root):
    with one_thread():
        return _kernel(X, landmarks, gamma) @ root


def _kernel_pair(X_test, kernel_map, n_features, V):
    return kernel_map(_check_test(X_test, n_features)), V


def _variance(X):
    """Variance of all entries, the zeros of a sparse matrix included."""
    if not sparse.issparse(X):
        return X.var()
    size = X.shape[0] * X.shape[1]
    mean = X.data.sum() / size
    return (np.square(X.data - mean).sum() + (size - X.nnz) * mean**2) / size

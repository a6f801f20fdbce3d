"""Low-rank factorizations ``A ~ U V`` of a data matrix; ``A`` itself is never formed.

The four reductions take the samples ``X``, dense or sparse of shape (n, p) and not modified, the
rank ``d`` and a non-negative seed, and return a `Reduction`, which also maps test samples: for any
coefficient vector ``w`` of the reduced problem the predictions of the training samples are
``U @ (V @ w)`` and those of test samples are ``A_test @ w``, where ``transform(X_test)`` gives
``A_test`` as a pair of factors again or, after an instance reduction, as a matrix.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from ..engine.checks import as_matrix, check_int, check_number, choose
from ..engine.threads import one_thread
from . import libsvm
from .common import random_stream
from .store import stored


class Reduction(NamedTuple):
    """A factorization and its extension to test samples.

    The factors, of shapes (n, d) and (d, q), are C-contiguous; ``q`` is the number of features, or
    the number of training samples for a kernel matrix. `transform` gives the matrix of test
    samples, a pair ``(U_test, V_test)`` or a matrix, as `erm` takes them.
    """

    U: np.ndarray
    V: np.ndarray
    transform: Callable


def feature(X, d, seed):
    """Project the features at random: ``A = X G' G``.

    ``U = X G'`` and ``V = G``, the entries of the ``d x p`` matrix ``G`` being drawn from
    ``N(0, 1/d)``; ``d`` is at most ``p``. Test samples: ``U_test = X_test G'`` with the same
    ``V``.
    """
    X = as_matrix(X, "X")
    d = check_int(d, "d", high=X.shape[1], reason="the number of features")
    V = random_stream(seed, "feature reduction").standard_normal((d, X.shape[1]))
    V /= np.sqrt(d)
    return _projected(_times(X, V.T), V)


def instance(X, d, seed):
    """Mix the samples at random: ``A = G' G X``.

    ``U = G'`` and ``V = G X``, the entries of the ``d x n`` matrix ``G`` being drawn from
    ``N(0, 1/d)``; ``d`` is at most ``n``. Only the training samples are mixed and the features
    keep their meaning, so ``A_test = X_test``, and `transform` returns just that.
    """
    X = as_matrix(X, "X")
    n, p = X.shape
    d = check_int(d, "d", high=n, reason="the number of samples")
    U = random_stream(seed, "instance reduction").standard_normal((n, d))
    U /= np.sqrt(d)
    V = np.ascontiguousarray(_times(X.T, U).T)
    return Reduction(U, V, lambda X_test: _check_test(X_test, p))


def svd(X, d, seed):
    """Truncate the singular value decomposition.

    ``U`` holds the left singular vectors times the singular values, ``V`` the right singular
    vectors as rows; ``d`` is at most ``min(n, p)``. Test samples: ``U_test = X_test V'``, so that
    ``U_test V`` is the projection of the test samples onto the row space of ``V``.

    Uses `sklearn.utils.extmath.randomized_svd`, whose range finder the seed is for: the result is
    close to the best approximation of rank ``d``, not equal to it.
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
    return _projected(np.ascontiguousarray(left * singular), np.ascontiguousarray(V))


def nystroem(X, d, seed, gamma=None):
    """Approximate the RBF kernel matrix ``exp(-gamma * ||x - y||^2)`` with landmark samples.

    ``U = K(X, L) K(L, L)^(-1/2)`` with ``L`` the landmarks, ``d <= n`` rows of ``X`` drawn without
    replacement, and ``V = U'``; ``A = U V`` is ``n x n``. Test samples:
    ``U_test = K(X_test, L) K(L, L)^(-1/2)`` with the same ``V``, so that ``A_test`` approximates
    ``K(X_test, X)``.

    The default of ``gamma`` is ``1 / (p * var(X))``, the variance being that of all entries (one
    if all entries are equal), as in scikit-learn's ``gamma="scale"``.

    Notes
    -----
    The product ``K(X, L) K(L, L)^+ K(L, X)`` can be split in many ways. The symmetric split gives
    both factors the singular values ``sqrt(sigma)`` of the product, and so the condition number
    ``sqrt(kappa)``, while ``U = K(X, L)`` would leave the ill-conditioned inverse to ``V`` alone.
    Eigenvalues of ``K(L, L)`` below ``d * eps`` times the largest, which duplicates among the
    landmarks produce, count as zero.
    """
    from sklearn.metrics.pairwise import rbf_kernel

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
        values, vectors = linalg.eigh(rbf_kernel(landmarks, landmarks, gamma=gamma))
        keep = values > d * np.finfo(float).eps * values[-1]
        kept = vectors[:, keep]
        root = (kept / np.sqrt(values[keep])) @ kept.T

    def features(samples):
        with one_thread():
            return rbf_kernel(samples, landmarks, gamma=gamma) @ root

    U = features(X)
    V = np.ascontiguousarray(U.T)
    return Reduction(U, V, lambda X_test: (features(_check_test(X_test, p)), V))


#: Those that `reduce` takes by name.
REDUCTIONS = {"feature": feature, "instance": instance, "svd": svd, "nystroem": nystroem}


def reduce(X, name, d, seed):
    """Apply one of `REDUCTIONS` by name."""
    return choose(name, REDUCTIONS, "reduction")(X, d, seed)


def _version(name):
    """The files that the data are made of; None if some of them may still be downloaded."""
    return libsvm.version(name, test=True) if libsvm.has_all_parts(name) else None


@stored(version=_version)
def load_reduced(name, reduction, d, seed, scale="none"):
    """Load a LIBSVM data set, with its test part, and reduce it; computed once a machine.

    Of the `Labelled` data that `load_libsvm` gives, ``X`` becomes the pair ``(U, V)`` and
    ``X_test`` what `Reduction.transform` makes of it.
    """
    data = libsvm.load(name, scale=scale)
    reduced = reduce(data.X, reduction, d, seed)
    X_test = None if data.X_test is None else reduced.transform(data.X_test)
    return data._replace(X=(reduced.U, reduced.V), X_test=X_test)


def _times(X, B):
    """Multiply into a C-contiguous ndarray, on one BLAS thread."""
    with one_thread():
        return np.ascontiguousarray(X @ B)


def _projected(U, V):
    """The reduction whose test samples are multiplied by ``V'``."""
    return Reduction(U, V, lambda X_test: (_times(_check_test(X_test, V.shape[1]), V.T), V))


def _variance(X):
    """Variance of all entries, the zeros of a sparse matrix included."""
    if not sparse.issparse(X):
        return X.var()
    size = X.shape[0] * X.shape[1]
    mean = X.data.sum() / size
    return (np.square(X.data - mean).sum() + (size - X.nnz) * mean**2) / size


def _check_test(X_test, n_features):
    X_test = as_matrix(X_test, "X_test")
    if X_test.shape[1] != n_features:
        raise ValueError(
            f"X_test does not fit the training samples: got {X_test.shape[1]} columns, allowed "
            f"are {n_features}."
        )
    return X_test

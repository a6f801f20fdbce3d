"""Synthetic data sets, functions of their arguments alone."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

from ..engine.checks import check_int, check_number, choose
from ..engine.threads import one_thread
from .common import random_stream
from .store import stored

# Entries drawn at a time (32 MiB of float64). A constant, because the grouping of the rows decides
# the rounding of the products accumulated over them.
CHUNK_ENTRIES = 2**22

# Margins of the planted models are scaled to this standard deviation before the labels are drawn:
# about one label in eight then disagrees with the sign of its margin.
MARGIN_SCALE = 4.0


class FactorizedData(NamedTuple):
    """A factorized data matrix ``A = U V``, which is never formed, and its labels -1.0 or +1.0.

    The factors, of shapes (n, d) and (d, p), are C-contiguous; `beta` are the coefficients behind
    the labels.
    """

    U: np.ndarray
    V: np.ndarray
    b: np.ndarray
    beta: np.ndarray


class ClassificationData(NamedTuple):
    """A dense or CSR matrix, and labels -1.0 or +1.0 of a logistic model with planted `beta`."""

    X: object
    b: np.ndarray
    beta: np.ndarray


@stored()
def factorized(n=5000, p=100, d=20, reduction="feature", n_informative=50, seed=0):
    """Generate the randomly reduced data of the first experiment of the DSPDC paper.

    Parameters
    ----------
    n, p : int, default=5000 and 100
        Number of samples, and of features.
    d : int, default=20
        Rank of the factorization, at most ``min(n, p)``.
    reduction : {"feature", "instance"}, default="feature"
        With ``X`` the ``n x p`` sample matrix, ``"feature"`` takes ``U = X G'`` and ``V = G``
        with ``G`` of shape ``d x p``; ``"instance"`` takes ``U = G'`` and ``V = G X`` with ``G``
        of shape ``d x n``. The entries of ``G`` are drawn from ``N(0, 1/d)``.
    n_informative : int, default=50
        The first ``min(n_informative, p)`` coefficients are one, the others zero.
    seed : int, default=0
        Non-negative.

    Returns
    -------
    FactorizedData

    Notes
    -----
    The entries of ``X`` are standard normal and ``Pr(b_i = 1) = sigmoid(X_i' beta)``: the labels
    belong to the samples before the reduction. ``X`` is drawn in groups of rows that are dropped
    once used, so the memory needed is that of the two factors plus a constant. The result is the
    same bit for bit whatever the number of BLAS threads.

    References
    ----------
    A. W. Yu, Q. Lin and T. Yang, "Doubly stochastic primal-dual coordinate method for bilinear
    saddle-point problem", arXiv:1508.03390.
    """
    n, p = check_int(n, "n"), check_int(p, "p")
    d = check_int(d, "d", high=min(n, p), reason=f"min(n, p) with n={n} and p={p}")
    choose(reduction, ("feature", "instance"), "reduction")
    n_informative = check_int(n_informative, "n_informative")
    samples = random_stream(seed, "factorized samples")
    projection = random_stream(seed, "factorized projection")
    coins = random_stream(seed, "factorized labels")

    beta = np.zeros(p)
    beta[:n_informative] = 1.0
    U = np.empty((n, d))
    if reduction == "feature":
        V = projection.standard_normal((d, p))
        V /= np.sqrt(d)
    else:
        V = np.zeros((d, p))
    margin = np.empty(n)
    with one_thread():
        for rows in _row_groups(n, p):
            X = samples.standard_normal((rows.stop - rows.start, p))
            margin[rows] = X[:, :n_informative].sum(axis=1)
            if reduction == "feature":
                np.matmul(X, V.T, out=U[rows])
            else:
                U[rows] = projection.standard_normal((X.shape[0], d))
                U[rows] /= np.sqrt(d)
                V += U[rows].T @ X
    return FactorizedData(U, V, _draw_labels(margin, coins), beta)


def dense_classification(n, p, seed):
    """Generate Gaussian rows with labels from a logistic model.

    Parameters
    ----------
    n, p : int
        Number of samples, and of features.
    seed : int
        Non-negative.

    Returns
    -------
    ClassificationData
        ``X`` is a C-contiguous ndarray whose rows have norm about one: the entries are drawn from
        ``N(0, 1/p)``. The labels are noisy: about one in eight disagrees with the sign of
        ``X @ beta``.
    """
    n, p = check_int(n, "n"), check_int(p, "p")
    beta = random_stream(seed, "dense coefficients").standard_normal(p)
    X = random_stream(seed, "dense samples").standard_normal((n, p))
    X /= np.sqrt(p)
    with one_thread():
        margin = X @ beta
    spread = margin.std() or 1.0
    margin *= MARGIN_SCALE / spread
    beta *= MARGIN_SCALE / spread
    return ClassificationData(X, _draw_labels(margin, random_stream(seed, "dense labels")), beta)


def unscaled_classification(n, p, correlation, decades, seed):
    """Dense rows as they come from somewhere: correlated columns in units of their own.

    Parameters
    ----------
    n, p : int
    correlation : float, from 0 to below 1
        Of any two columns.
    decades : float, >= 0
        The columns are multiplied with 10^u, u uniform over so many decades around 0.
    seed : int
        Non-negative.

    Returns
    -------
    ClassificationData
        As `dense_classification`, whose samples and labels these are for correlation 0.
    """
    correlation = check_number(correlation, "correlation", 0.0, high=0.999)
    decades = check_number(decades, "decades", 0.0, high=12.0)
    X, _, beta = dense_classification(n, p, seed)
    common = random_stream(seed, "dense common").standard_normal((n, 1))
    X = np.sqrt(1.0 - correlation) * X + np.sqrt(correlation / p) * common
    with one_thread():
        margin = X @ beta
    margin *= MARGIN_SCALE / (margin.std() or 1.0)
    b = _draw_labels(margin, random_stream(seed, "dense labels"))
    units = 10.0 ** random_stream(seed, "dense units").uniform(-decades / 2, decades / 2, p)
    return ClassificationData(X * units, b, beta / units)


def uneven_classification(n, p, row_nnz, spread, seed):
    """`sparse_classification` with rows of very different norms, log-normal with this spread.

    As counts of words have where texts are of different lengths; sparse rows of unit norm are
    what they become once they are normalised.
    """
    spread = check_number(spread, "spread", 0.0, high=5.0)
    X, b, beta = sparse_classification(n, p, row_nnz, seed)
    norms = random_stream(seed, "sparse norms").lognormal(sigma=spread, size=n)
    return ClassificationData(sparse.csr_array(X.multiply(norms[:, None])), b, beta)


@stored()
def sparse_classification(n, p, row_nnz, seed):
    """Generate text-like sparse rows with labels from a sparse logistic model.

    Parameters
    ----------
    n, p : int
        Number of samples, and of features.
    row_nnz : int
        Stored entries of each row, at most ``p``.
    seed : int
        Non-negative.

    Returns
    -------
    ClassificationData
        ``X`` is a CSR array with sorted indices, positive entries and rows of norm one. The
        labels are noisy, about one in eight disagrees with the planted model, and about balanced.

    Notes
    -----
    The columns of a row are drawn one after the other without replacement, column ``j`` with
    probability proportional to ``1 / (10 + rank_j)`` for a random ranking of the columns: a few
    columns occur in most rows and most columns in few, as words do. The values are log-normal, as
    tf-idf weights roughly are. About one coefficient in twenty is not zero, frequent columns being
    preferred because a rare one would hardly influence a label.
    """
    n, p = check_int(n, "n"), check_int(p, "p")
    row_nnz = check_int(row_nnz, "row_nnz", high=p, reason=f"a row has p={p} columns")
    popularity = 1.0 / (10.0 + random_stream(seed, "sparse ranks").permutation(p))
    popularity /= popularity.sum()

    indices = _draw_columns(n, row_nnz, popularity, random_stream(seed, "sparse pattern"))
    data = random_stream(seed, "sparse values").lognormal(sigma=0.5, size=(n, row_nnz))
    data /= np.sqrt((data * data).sum(axis=1, keepdims=True))
    indptr = row_nnz * np.arange(n + 1, dtype=indices.dtype)
    X = sparse.csr_array((data.ravel(), indices.ravel(), indptr), shape=(n, p))

    planted = random_stream(seed, "sparse coefficients")
    beta = np.zeros(p)
    support = planted.choice(p, size=max(1, p // 20), replace=False, p=popularity)
    beta[support] = planted.standard_normal(len(support))
    margin = X @ beta
    spread = margin.std() or 1.0
    beta *= MARGIN_SCALE / spread
    margin = MARGIN_SCALE * (margin - np.median(margin)) / spread
    return ClassificationData(X, _draw_labels(margin, random_stream(seed, "sparse labels")), beta)


def _row_groups(n, p):
    """Cut ``range(n)`` into slices of at most `CHUNK_ENTRIES` entries of ``p`` columns."""
    step = max(1, CHUNK_ENTRIES // p)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _draw_labels(margin, rng):
    """Draw +1 with probability ``sigmoid(margin)``, else -1."""
    return np.where(rng.random(len(margin)) < expit(margin), 1.0, -1.0)


def _draw_columns(n, k, popularity, rng):
    """Draw ``k`` distinct columns, sorted, for each of ``n`` rows, by successive sampling.

    That is drawing with replacement, with the probabilities `popularity`, until ``k`` different
    columns have come up. It is quick unless a row must contain columns that hardly ever come up,
    so the number of draws is limited. A row that is still incomplete is completed by the Gumbel
    top-k method, which continues the same sampling from the columns not yet held but touches all
    ``p`` of them.
    """
    p = len(popularity)
    cumulative = np.cumsum(popularity)
    cumulative[-1] = 1.0  # rounding must not leave room above the last column
    logarithm = np.log(popularity)
    draws = k + k // 2 + 10
    columns = np.empty((n, k), dtype=np.int32 if max(p, n * k) < 2**31 else np.int64)
    for rows in _row_groups(n, draws):
        drawn = np.searchsorted(cumulative, rng.random((rows.stop - rows.start, draws)), "right")
        # A stable sort puts the first draw of a column in front of its repetitions.
        order = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, axis=1)
        fresh = np.ones(drawn.shape, dtype=bool)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        first = np.empty_like(fresh)
        np.put_along_axis(first, order, fresh, axis=1)
        first &= np.cumsum(first, axis=1) <= k
        complete = first.sum(axis=1) == k
        columns[rows][complete] = np.sort(drawn[complete][first[complete]].reshape(-1, k), axis=1)

        incomplete = np.flatnonzero(~complete)
        for group in _row_groups(len(incomplete), p):
            these = incomplete[group]
            scores = logarithm + rng.gumbel(size=(len(these), p))
            held = first[these]
            scores[np.nonzero(held)[0], drawn[these][held]] = np.inf
            chosen = np.argpartition(scores, p - k, axis=1)[:, p - k:]
            columns[rows.start + these] = np.sort(chosen, axis=1)
    return columns

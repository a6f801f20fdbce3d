"""Synthetic data of the problems whose variables are matrices."""

from typing import NamedTuple

import numpy as np

from ..engine.checks import check_int, check_number
from ..engine.progress import tracked
from ..engine.symmetric import diagonal, pack, packed_length
from .common import random_stream
from .store import stored

# Entries drawn at a time, at least one matrix: 2 MiB, which stay in the cache until packed.
CHUNK_ENTRIES = 2**18


class MatrixRiskData(NamedTuple):
    """Data matrices of order ``d`` of the multiple-matrix risk problem, and labels -1 or +1.

    `packed`, of shape (n, p, t) with ``t = d (d + 1) / 2``, is the packed form, see
    `benchmark_dspdc.engine.symmetric`, of the symmetrised ``D_i^j``.
    """

    packed: np.ndarray
    b: np.ndarray
    d: int


class TraceRegressionData(NamedTuple):
    """Rank-one measurements of matrices.

    `measurements` are vectors ``z_ij``, of shape (n, p, d): measurement ``i`` of matrix ``j`` is
    ``z_ij z_ij'``. `b` is ``sum_j z_ij' X_j z_ij`` plus noise, with the positive semidefinite
    matrices ``X_j`` of `truth`.
    """

    measurements: np.ndarray
    b: np.ndarray
    truth: np.ndarray


@stored()
def matrix_risk_data(n=100, p=100, d=100, seed=0):
    """Generate the data of the paper's matrix risk minimization (figure 3).

    Parameters
    ----------
    n, p : int, default=100
        Number of samples, and of matrices a sample.
    d : int, default=100
        Order of the matrices.
    seed : int, default=0
        Non-negative.

    Returns
    -------
    MatrixRiskData
        The entries of ``D_i^j`` are standard normal, and ``b_i`` is +1 if the sum over ``j`` of
        ``<D_i^j, I>`` is positive, else -1. The variables are symmetric, so only
        ``(D_i^j + (D_i^j)') / 2`` matters; that is what is kept.

    Notes
    -----
    The paper's rule for ``b_i`` lacks the sum over ``j``. The matrices are drawn a few at a time,
    in the order of ``(i, j)``, so that at ``n = p = 100`` and ``d = 200`` there is hardly more
    memory in use than the 1.6 GB of the result.
    """
    n, p, d = check_int(n, "n"), check_int(p, "p"), check_int(d, "d")
    rng = random_stream(seed, "matrix risk")
    packed = np.empty((n, p, packed_length(d)))
    b = np.empty(n)
    drawn = np.empty((min(p, max(1, CHUNK_ENTRIES // d**2)), d, d))
    positions = diagonal(d)
    for i in tracked(range(n), "matrices"):
        for j in range(0, p, len(drawn)):
            part = drawn[:p - j]
            rng.standard_normal(out=part)
            pack(part, out=packed[i, j:j + len(part)])
        b[i] = 1.0 if packed[i][:, positions].sum() > 0 else -1.0
    return MatrixRiskData(packed, b, d)


@stored()
def trace_regression_data(n=400, p=4, d=20, rank=2, noise=0.1, seed=0):
    """Generate rank-one measurements of low-rank matrices.

    Parameters
    ----------
    n, p : int, default=400 and 4
        Number of measurements, and of matrices.
    d, rank : int, default=20 and 2
        Order of the matrices, and their rank, at most ``d``.
    noise : float, default=0.1
        Standard deviation of the noise, as a share of that of the measurements without it.
    seed : int, default=0
        Non-negative.

    Returns
    -------
    TraceRegressionData
        ``z_ij`` is standard normal, ``X_j`` a multiple of ``W_j W_j'`` with a standard normal
        ``d x rank`` matrix ``W_j``.

    Notes
    -----
    The variance of ``z' X z`` is ``2 |X|_F^2``, so the matrices are scaled to
    ``|X_j|_F^2 = 1 / (2 p)``: the measurements then have variance one whatever the sizes.
    """
    n, p, d = check_int(n, "n"), check_int(p, "p"), check_int(d, "d")
    rank = check_int(rank, "rank", high=d, reason="the order d of the matrices")
    noise = check_number(noise, "noise", low=0)
    W = random_stream(seed, "trace regression truth").standard_normal((p, d, rank))
    truth = np.einsum("jkr,jlr->jkl", W, W)
    truth /= np.sqrt(2 * p) * np.linalg.norm(truth, axis=(1, 2))[:, None, None]
    measurements = random_stream(seed, "trace regression vectors").standard_normal((n, p, d))
    b = noise * random_stream(seed, "trace regression noise").standard_normal(n)
    for j in range(p):
        z = measurements[:, j]
        b += np.einsum("ik,kl,il->i", z, truth[j], z, optimize=False)
    return TraceRegressionData(measurements, b, truth)

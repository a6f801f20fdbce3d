"""Block sizes (m, q) for DSPDC: those of the least predicted time.

Theorem 1 gives the iterations of a pair (m, q) once Lambda is known. That is
estimated here for all pairs at once, from the norms of a sample of rows: the
estimates decide which pair is taken, its step sizes are then made with a
constant that is exact or certified. The time of an iteration is a sum of what
it does, each with a price in nanoseconds. The prices are stored, so that a
choice depends on the problem alone; `calibrated` measures them on this machine
instead.
"""

import math
from typing import NamedTuple

import numpy as np

from ..engine.sampling import block_size
from ..engine.threads import single_threaded
from ..state import primal_dual_cost
from ..state.lazy import moves_lazily
from .steps import iterations_per_nat, split_iterations

#: Predicted times are for this relative accuracy.
ACCURACY = 1e-6


class Prices(NamedTuple):
    """Nanoseconds of the parts of an iteration."""

    #: Draws, bookkeeping.
    fixed: float
    #: With entries of A, or of U and V.
    multiply_add: float
    #: A dual step, without its product.
    dual: float
    #: A primal step on a number, or, where a matrix is projected, for each of its numbers.
    primal: float
    #: A coordinate of a kept product, all of which an iteration on a dense A renews.
    swept: float = 0.0
    #: A multiply-add where all of x moves lazily.
    lazy: float = 0.0
    #: A primal step on a matrix, besides its numbers.
    block: float = 0.0


#: Measured on one core of an AMD EPYC (AVX2), November 2026; dual steps of the smoothed hinge.
PRICES = {
    "factorized": Prices(150.0, 0.106, 3.3, 0.0),
    "dense": Prices(100.0, 0.31, 5.0, 1.0, swept=0.8),
    "csr": Prices(100.0, 3.5, 2.0, 1.0, lazy=8.5),
    "matrix blocks": Prices(1e5, 0.6, 3.0, 130.0, block=4e4),
    "rank-one sums": Prices(1e5, 0.015, 3.0, 65.0, block=2e4),
}


class Choice(NamedTuple):
    """A pair of block sizes, why, and how many pairs were compared.

    Iterations and seconds are predicted for a relative accuracy of `ACCURACY`.
    """

    m: int
    q: int
    Lambda: float
    iterations: float
    seconds: float
    examined: int

    def describe(self):
        """One line for people."""
        each = self.seconds / self.iterations
        return (
            f"m={self.m}, q={self.q} of {self.examined} pairs: Lambda about {self.Lambda:.3g}, "
            f"{self.iterations:.3g} iterations of {1e6 * each:.3g} us to {ACCURACY:g}"
        )


def parts(operator, m, q):
    """What an iteration does, one row a pair: the counts that `Prices` are for."""
    n, p = operator.shape
    r, s = n / m, p / q
    multiply_adds, width = primal_dual_cost(operator, r, s), float(operator.column_width)
    primal, block = q * width, q if width > 1 else 0.0
    swept = lazy = 0.0
    if operator.kind == "dense":
        swept = np.where(r >= s, p, n)
    elif operator.kind == "csr":
        alone = moves_lazily(operator, r, s)
        # Single rows are fetched ahead.
        lazy = np.where(alone, np.where(np.equal(m, 1), 0.6, 1.0) * multiply_adds, 0.0)
        multiply_adds = np.where(alone, 0.0, multiply_adds)
        primal = np.where(alone, 0.0, primal)
    counts = np.broadcast_arrays(1.0, multiply_adds, m, primal, swept, lazy, block, q)[:-1]
    return np.stack(counts, axis=-1)


def iteration_seconds(operator, loss, m, q, prices=None):
    """Modelled time of an iteration, for arrays of m and q."""
    if prices is None:
        prices = PRICES[operator.kind]
        prices = prices._replace(dual=prices.dual + getattr(loss, "dual_nanoseconds", 0.0))
    return 1e-9 * parts(operator, m, q) @ np.array(prices)


def estimated_root(operator):
    """A function of (m, q) that estimates sqrt(Lambda) for random blocks of those sizes.

    With ``usual=True`` the norm of a usual block is estimated in place of the largest.

    Norms of blocks of random rows grow like alpha + beta sqrt(m), alpha being
    due to single rows and beta to what rows have in common; the same for
    columns. The four numbers of the product of both come from single entries,
    rows, columns and the whole of a sample of rows. Of entries and rows once
    the heaviest are taken, which count in small blocks, and once the mean, from
    which blocks larger than the sample are told.
    """
    p = operator.shape[1]
    size, norms2 = operator.sample
    entry, row, column, usual_entry, usual_row, whole = np.sqrt(norms2)
    span = math.sqrt(size) - 1.0 if size > 1 else 1.0
    breadth = math.sqrt(p) - 1.0 if p > 1 else 1.0

    def root(m, q, usual=False):
        up, along = (np.sqrt(m) - 1.0) / span, (np.sqrt(q) - 1.0) / breadth
        of_rows = usual_entry + along * (usual_row - usual_entry)
        last = column + along * (whole - column)
        found = of_rows + up * np.maximum(last - of_rows, 0.0)
        if usual:
            return found
        heaviest = entry + along * (row - entry)
        return np.maximum(heaviest + up * np.maximum(last - heaviest, 0.0), found)

    return root


def _sizes(value, total, name):
    """Block sizes to look at: a grid for "auto", else the one that is given.

    Those of 1, 2, 3, 4, 6, 8, 11, ... blocks, and single coordinates.
    """
    if value != "auto":
        return np.array([block_size(value, total, name)])
    counts = np.round(2.0 ** np.arange(0.0, math.log2(total) + 0.5, 0.5))
    counts = np.append(counts[counts < total], total).astype(np.int64)
    return np.unique(-(-total // counts))


@single_threaded
def choose_blocks(problem, root, m="auto", q="auto", prices=None, steps="theorem", part=1.0):
    """The pair (m, q) of the least predicted time; what is given in place of "auto" is kept.

    `root` is of `estimated_root`, and `prices` are those of the parts of an iteration, None for
    the stored ones. Where every block has a step of its own (``steps="block"``) the usual block
    counts and not the heaviest; `part` is the part of Lambda that steps are made with.
    """
    operator = problem.operator
    n, p = operator.shape
    ms, qs = np.meshgrid(_sizes(m, n, "m"), _sizes(q, p, "q"), indexing="ij")
    ms, qs = ms.ravel(), qs.ravel()
    by_block = steps == "block"
    Lambda = root(ms, qs, usual=by_block) ** 2
    # Blocks of a partition are balanced, so that their number decides.
    r, s = np.ceil(n / ms), np.ceil(p / qs)
    scale = part * Lambda / (problem.lam * problem.gamma * n)
    per_nat = split_iterations(r, s, scale) if by_block else iterations_per_nat(r, s, scale)
    iterations = per_nat * math.log(1.0 / ACCURACY)
    seconds = iterations * iteration_seconds(operator, problem.loss, n / r, p / s, prices)
    best = int(np.argmin(seconds))
    return Choice(
        int(ms[best]), int(qs[best]), float(Lambda[best]), float(iterations[best]),
        float(seconds[best]), len(ms),
    )


def calibrated(problem, iteration_time, seconds=0.05):
    """Prices that fit iterations measured on this machine, for this kind of problem.

    A few pairs of block sizes are timed, for so many seconds together, and the prices that are not
    negative and fit best are taken. ``iteration_time(m, q, most)`` measures the seconds of an
    iteration, for so long at most.
    """
    from scipy.optimize import nnls  # slow to load, and seldom needed

    n, p = problem.shape
    pairs = sorted({
        (m, q) for m in (1, max(1, n // 30), max(1, n // 4)) for q in (1, max(1, p // 4), p)
    })
    found = 1e9 * np.array([iteration_time(m, q, seconds / len(pairs)) for m, q in pairs])
    ms, qs = np.array(pairs).T
    counts = parts(problem.operator, np.ceil(n / np.ceil(n / ms)), np.ceil(p / np.ceil(p / qs)))
    weights = 1.0 / found
    return Prices(*nnls(counts * weights[:, None], found * weights)[0])

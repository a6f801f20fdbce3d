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

#: Rows, at most, from whose norms the heaviest of a usual block is told.
SOME = 1000


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
    "dense": Prices(25.0, 0.15, 7.5, 0.0, swept=1.2),
    "csr": Prices(30.0, 1.3, 23.0, 0.8, lazy=8.5),
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
    """
    return _SampledNorms(operator).root


def estimated_norms2(operator, dual, primal):
    """An estimate of max_J |A_I^J|^2 for each dual block I of two partitions.

    That of rows which are alike, by its Frobenius norm, or the heaviest of its rows if that is
    more.
    """
    norms, q = _SampledNorms(operator), primal.largest
    rows, firsts = operator.row_norms2[dual.order], dual.starts[:-1]
    sums, heaviest = (gathered.reduceat(rows, firsts) for gathered in (np.add, np.maximum))
    alike = norms.alike2(dual.largest, q) * sums / max(sums.mean(), 1e-300)
    return np.maximum(norms.part2(q) * heaviest, alike)


def estimated_column_norms2(operator, dual, primal):
    """An estimate of |A^J|^2 for each block of columns, all rows of `dual` together.

    That of columns which are alike, by its Frobenius norm, or the heaviest of its columns if
    that is more and they are numbers.
    """
    usual2 = float(estimated_root(operator)(dual.largest, primal.largest)) ** 2
    columns, firsts = operator.column_norms2[primal.order], primal.starts[:-1]
    sums = np.add.reduceat(columns, firsts)
    alike = usual2 * sums / max(sums.mean(), 1e-300)
    if operator.column_width > 1:
        return alike
    return np.maximum(np.maximum.reduceat(columns, firsts), alike)


class _SampledNorms:
    """Norms of random blocks, as told from a sample of rows.

    Norms of blocks of random rows grow like alpha + beta sqrt(m), alpha being
    due to single rows and beta to what rows have in common; the same for
    columns. The four numbers of the product of both come from single entries,
    rows, columns and the whole of the sample. Of entries and rows once
    the heaviest are taken, which count in small blocks, and once the mean, from
    which blocks larger than the sample are told. Where rows are uneven a usual block weighs
    what the heaviest of its rows does.
    """

    def __init__(self, operator):
        n, p = operator.shape
        size, norms2 = operator.sample
        found = np.sqrt(norms2)
        self.entry, self.row, self.column, self.usual_entry, self.usual_row, self.whole = found
        self.row = max(self.row, math.sqrt(operator.row_norms2.max()))
        self.span = math.sqrt(size) - 1.0 if size > 1 else 1.0
        self.breadth = math.sqrt(p) - 1.0 if p > 1 else 1.0
        # The heaviest of m rows is about the mean of an m-th part of them, the heaviest.
        some = np.sort(operator.row_norms2[::-(-n // SOME)])[::-1]
        self.tops = np.cumsum(some) / np.arange(1, len(some) + 1)

    def _grown(self, first, up, last):
        return first + up * np.maximum(last - first, 0.0)

    def _ends(self, q):
        """Norms of a usual and of the heaviest row, and of the sample, cut to q columns."""
        along = (np.sqrt(q) - 1.0) / self.breadth
        return (
            self.usual_entry + along * (self.usual_row - self.usual_entry),
            self.entry + along * (self.row - self.entry),
            self.column + along * (self.whole - self.column),
        )

    def part2(self, q):
        """Part of a row's squared norm that lies in q columns."""
        return (self._ends(q)[0] / self.usual_row) ** 2

    def alike2(self, m, q):
        """The squared norm of m usual rows in q columns."""
        row, _, last = self._ends(q)
        return self._grown(row, (np.sqrt(m) - 1.0) / self.span, last) ** 2

    def root(self, m, q, usual=False):
        top2 = self.tops[np.ceil(len(self.tops) / np.asarray(m)).astype(np.int64) - 1]
        found = np.sqrt(np.maximum(self.part2(q) * top2, self.alike2(m, q)))
        if usual:
            return found
        _, heaviest, last = self._ends(q)
        up = (np.sqrt(m) - 1.0) / self.span
        return np.maximum(self._grown(heaviest, up, last), found)


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
    # Nothing comes closer before each block has been met once.
    iterations = per_nat * math.log(1.0 / ACCURACY) + by_block * np.maximum(r, s)
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

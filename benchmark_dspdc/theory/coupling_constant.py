"""The coupling constant Lambda: a bound on |A_I^J|^2 over the blocks drawn.

Step sizes are safe for any Lambda at least as large as the squared norm of
every block (I, J) that an iteration can touch, and fast when it is close.

``partition``
    The maximum over the pairs of blocks of two partitions: exact, or a stated
    upper bound when there are too many pairs to look at within a budget.
``bound``
    Valid for all subsets of sizes m and q:
    min(|A|^2, m max_i sum of the q largest a_ij^2, q max_j sum of the m largest a_ij^2).
``auto``
    For partitions the exact value where that takes at most a twentieth of the
    run that is predicted, or a millisecond. Else it is estimated
    from a sample of rows, and the ``partition`` one taken if the run then does
    not get anywhere. For subsets ``bound``.
``heuristic``
    m q max_i |A_i|^2 / p, the paper's suggestion. It can lie *below* the true
    constant (on the paper's first problem at m = 1, q = 50: 1162 against 1331
    for a partition), and the theorems do not cover it then.

What is called an upper bound is one; see `benchmark_dspdc.operators.gram` for how.
"""

from numbers import Real
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_number, choose
from ..engine.meter import spend
from ..engine.progress import tracked
from ..engine.sampling import Partition
from ..engine.threads import side_by_side, single_threaded
from ..operators.gram import largest_norm2, top_eigenvalue
from .block_sizes import estimated_column_norms2, estimated_norms2

#: Pairs of blocks whose norms are kept at most.
MOST_PAIRS = 10 ** 7

#: Multiply-adds that computing a constant may take at least; see `Operator.constant_passes`.
LEAST_BUDGET = 3e8

KINDS = ("auto", "partition", "bound", "heuristic")
GIVEN = "given"
HEURISTIC = "heuristic, may lie below the true constant"
ESTIMATED = "estimated from a sample of rows"
ESTIMATED_BY_POWER = "estimated by power iteration, watched"
ESTIMATED_AND_WATCHED = "estimated from a sample of rows, watched"


class Constant(NamedTuple):
    """A value and, in words, what is known of it."""

    value: float
    kind: str

    @property
    def is_bound(self):
        """Whether it is known to be at least the true constant, as the theorems ask."""
        return self.kind not in (
            GIVEN, HEURISTIC, ESTIMATED, ESTIMATED_BY_POWER, ESTIMATED_AND_WATCHED
        )


def least(bounds, what):
    """The least of some bounds, and which one that is."""
    best = min(bounds, key=lambda bound: bound.value)
    return Constant(best.value, f"{what} ({best.kind})")


def check_kind(Lambda):
    """Raise unless it is a word that `coupling_constant` knows, or a number."""
    if isinstance(Lambda, Real) and not isinstance(Lambda, bool):
        check_number(Lambda, "Lambda", 0.0)
    else:
        choose(Lambda, KINDS, "Lambda")


@single_threaded
def coupling_constant(problem, Lambda, dual, primal, heuristic_scale=1.0):
    """Lambda for DSPDC with blocks of two partitions or subsets: a number, or one of `KINDS`.

    "auto" is "partition" for partitions and "bound" for subsets here. The scale is for the
    heuristic alone.
    """
    check_number(heuristic_scale, "heuristic_scale", 0.0, strict=True)
    check_kind(Lambda)
    if not isinstance(Lambda, str):
        return Constant(float(Lambda), GIVEN)
    partitioned = isinstance(dual, Partition) and isinstance(primal, Partition)
    if Lambda == "auto":
        Lambda = "partition" if partitioned else "bound"
    operator = problem.operator
    if Lambda == "partition":
        if not partitioned:
            raise ValueError(
                "Lambda='partition' needs sampling='partition': with sampling='subset' blocks "
                "are not fixed; use Lambda='bound', 'heuristic' or a number"
            )
        return partition_constant(operator, dual, primal)
    m, q = dual.largest, primal.largest
    if Lambda == "bound":
        return subset_bound(operator, m, q)
    value = heuristic_scale * m * q * float(operator.row_norms2.max()) / operator.shape[1]
    return Constant(value, HEURISTIC)


def budget(operator):
    """Multiply-adds that computing one constant may take."""
    return max(LEAST_BUDGET, operator.constant_passes * operator.multiply_adds)


def partition_constant(operator, dual, primal, limit=None):
    """The maximum of |A_I^J|^2 over all pairs of blocks, or an upper bound of it.

    `limit` is the number of multiply-adds that it may take; None for `budget`.
    """
    limit = budget(operator) if limit is None else limit
    if dual.largest == primal.largest == 1:
        return Constant(*operator.largest_entry2(limit))
    found = exact_constant(operator, dual, primal, limit)
    return found or _partition_bound(operator, dual, primal, limit)


@single_threaded
def exact_constant(operator, dual, primal, limit):
    """The maximum of |A_I^J|^2 over all pairs of blocks, None if that takes too long."""
    if dual.largest == primal.largest == 1:
        value, kind = operator.largest_entry2(limit)
        return Constant(value, kind) if kind == "exact" else None
    if _has_single_lines(operator, dual, primal):
        sums = _sums_of_lines(operator, dual, primal, limit)
        return None if sums is None else Constant(float(sums.max()), "exact")
    pairs = operator.pairs(dual, primal)
    return Constant(largest_norm2(pairs), "exact") if pairs.cost <= limit else None


def _has_single_lines(operator, dual, primal):
    """Whether blocks are parts of single rows or columns of numbers: norms are sums of squares."""
    return dual.largest == 1 or primal.largest * operator.column_width == 1


def _sums_of_lines(operator, dual, primal, limit):
    if dual.largest == 1:
        return operator.block_sums(primal, False, limit)
    return operator.block_sums(dual, True, limit)


@single_threaded
def pair_norms2(operator, dual, primal):
    """|A_I^J|^2 of every pair of blocks of two partitions, or upper bounds, and which of the two.

    None in place of an array of shape (r, s) if there are more than `MOST_PAIRS`.
    """
    limit = budget(operator)
    shape = len(dual.starts) - 1, len(primal.starts) - 1
    if shape[0] * shape[1] > MOST_PAIRS:
        return None, "too many pairs"
    if _has_single_lines(operator, dual, primal):
        single_rows = dual.largest == 1
        sums = _sums_of_lines(operator, dual, primal, limit)
        if sums is not None and sums.shape[1] == shape[single_rows]:
            return sums[dual.order] if single_rows else sums[primal.order].T, "exact"
    elif (pairs := operator.pairs(dual, primal)).cost <= limit:
        return norms2_of_pairs(pairs), "exact"
    rows, _ = row_blocks_norm2(operator, dual, each=True)
    columns, _ = column_blocks_norm2(operator, primal)
    bounds = np.minimum(rows[:, None], columns)
    sums = operator.block_sums(primal, False, limit)
    if sums is not None:
        bounds = np.minimum(bounds, _frobenius(sums, dual))
    return bounds, "upper bounds"


@single_threaded
def row_block_shares(operator, dual, primal, limit):
    """How heavy each dual block I is beside the heaviest: max_J |A_I^J|^2 over that of all blocks.

    Exact for single rows that meet all columns, and where all pairs can be had within so many
    multiply-adds; else norms are estimated. Returns the shares and whether they are exact; all 1
    where all norms are zero.
    """
    blocks, columns, exact = len(dual.starts) - 1, len(primal.starts) - 1, True
    if dual.largest == 1 and columns == 1:
        norms2 = operator.row_norms2[dual.order]
    elif blocks * columns <= MOST_PAIRS and operator.pairs(dual, primal).cost <= limit:
        norms2 = pair_norms2(operator, dual, primal)[0].max(axis=1)
    else:
        norms2, exact = estimated_norms2(operator, dual, primal), False
    largest = float(norms2.max())
    return (norms2 / largest if largest > 0.0 else np.ones(blocks)), exact


def _frobenius(sums, dual):
    """Squared norms of blocks; one column stands for all where it is their maximum."""
    return np.add.reduceat(sums[dual.order], dual.starts[:-1], axis=0)


def _partition_bound(operator, dual, primal, limit):
    n, p = operator.shape
    found = [norm2(operator, limit)]
    for rows, columns, name in (
        (dual, whole(p), "the norm of whole rows of a block"),
        (whole(n), primal, "the norm of whole columns of a block"),
    ):
        if (pairs := operator.pairs(rows, columns)).cost <= limit:
            found.append(Constant(largest_norm2(pairs), name))
    sums = operator.block_sums(primal, False, limit)
    if sums is not None:
        largest = float(_frobenius(sums, dual).max())
        found.append(Constant(largest, "Frobenius norm of a block"))
    largest = dual.largest * float(operator.row_norms2.max())
    found.append(Constant(largest, "Frobenius norm of a block's rows"))
    found += [Constant(*bound) for bound in operator.more_bounds(dual, primal, limit)]
    return least(found, "upper bound")


def whole(total):
    """The partition into a single block."""
    return Partition(np.array([0, total]), np.arange(total))


@single_threaded
def norm2(operator, limit=None):
    """|A|^2, exactly where a Gram matrix can be had, else an upper bound.

    `limit` is the number of multiply-adds that it may take; None for `budget`.
    """
    pairs = operator.pairs(whole(operator.shape[0]), whole(operator.shape[1]))
    if pairs.cost <= (budget(operator) if limit is None else limit):
        return Constant(largest_norm2(pairs), "|A|^2")
    frobenius = Constant(float(operator.row_norms2.sum()), "squared Frobenius norm of A")
    bound = Constant(operator.norm2_bound(), "|A|^2 by Collatz-Wielandt")
    return min(frobenius, bound, key=lambda c: c.value)


@single_threaded
def row_blocks_norm2(operator, blocks, each):
    """|A_I|^2 of the blocks of rows of a partition, of each or the largest, and what is known."""
    if blocks.largest == 1:
        norms2 = operator.row_norms2[blocks.order]
        return norms2 if each else float(norms2.max()), "exact"
    columns = whole(operator.shape[1])
    if not each:
        return partition_constant(operator, blocks, columns)
    pairs = operator.pairs(blocks, columns)
    if pairs.cost <= budget(operator):
        return norms2_of_pairs(pairs)[:, 0], "exact"
    ones = np.ones(blocks.largest)
    frobenius = np.add.reduceat(operator.row_norms2[blocks.order], blocks.starts[:-1])
    bounds = [
        operator.scaled_norm2(rows, ones[:len(rows)], exact=False)
        for rows in tracked(blocks.blocks, "norms of batches")
    ]
    return np.minimum(frobenius, bounds), "upper bounds"


@single_threaded
def column_blocks_norm2(operator, blocks):
    """|A^J|^2 of each block of columns of a partition, and what is known of it."""
    frobenius = np.add.reduceat(operator.column_norms2[blocks.order], blocks.starts[:-1])
    if blocks.largest * operator.column_width == 1:
        return frobenius, "exact"
    pairs = operator.pairs(whole(operator.shape[0]), blocks)
    if pairs.cost <= budget(operator):
        return norms2_of_pairs(pairs)[0], "exact"
    return np.minimum(frobenius, norm2(operator).value), "upper bounds"


@single_threaded
def normalised_norms2(operator, blocks):
    """For each block of rows I, the s with |A_I' dy|^2 <= s sum_i |a_i|^2 dy_i^2.

    That is the squared norm of the block with its rows normalised, at most the
    number of rows; an upper bound of it where the Gram matrices are too large.
    """
    norms = np.sqrt(operator.row_norms2)
    cost = operator.pairs(blocks, whole(operator.shape[1])).cost
    exact = cost <= budget(operator)
    spend(cost if exact else 0.0)

    def of_block(rows):
        rows = rows[norms[rows] > 0.0]
        if len(rows) < 2:
            return 1.0
        return min(len(rows), operator.scaled_norm2(rows, 1.0 / norms[rows], exact=exact))

    # Methods on numbers are timed on one thread, those on matrices on several.
    every = side_by_side if operator.column_width > 1 else map
    return np.array(list(every(of_block, blocks.blocks)), dtype=np.float64)


#: Rows that `sampled_norm2` looks at together, and how often.
SAMPLED_ROWS, SAMPLES = 1000, 2

#: Fewer rows say little; see `sampled_norm2`.
FEWEST_ROWS = 16

#: What the norms of all blocks may cost before a method begins: passes over the data, or
#: multiply-adds where that is little.
SET_UP_PASSES, LEAST_SET_UP = 3.0, 5e6

#: How much batches are held back; see `benchmark_dspdc.methods.sdca.SDCA`.
SCALINGS = ("auto", "tight", "safe", "sampled")


def set_up_budget(operator):
    """Multiply-adds that the norms of blocks may take, unless certified ones are asked for."""
    return max(LEAST_SET_UP, SET_UP_PASSES * operator.multiply_adds)


def affordable(operator, pairs):
    """Whether the exact norms of these blocks are within that budget."""
    return pairs.cost <= set_up_budget(operator)


def batch_scales(operator, blocks, scaling, rng):
    """How much SDCA holds each batch back, and which of `SCALINGS` that is."""
    sizes = np.diff(blocks.starts).astype(np.float64)
    limit = None
    if scaling == "auto":
        pairs = operator.pairs(blocks, whole(operator.shape[1]))
        scaling = "tight" if blocks.largest == 1 or affordable(operator, pairs) else "sampled"
        limit = set_up_budget(operator)
    if scaling == "safe" or blocks.largest == 1:
        return sizes, scaling
    if scaling == "tight":
        return normalised_norms2(operator, blocks), scaling
    return np.minimum(sizes, sampled_norm2(operator, blocks.largest, rng, limit)), scaling


@single_threaded
def sampled_norm2(operator, m, rng, limit=None):
    """An estimate of the largest `normalised_norms2` of random blocks of m rows.

    From smaller blocks: the mean over all small blocks of a large one is no less, for
    equal numbers of rows, than the large block's own. `limit` is the number of
    multiply-adds that it may take, None for any.
    """
    norms = np.sqrt(operator.row_norms2)
    rows = np.flatnonzero(norms > 0.0)
    size = min(m, SAMPLED_ROWS, len(rows))
    if size < 2:
        return 1.0
    while limit is not None and size > FEWEST_ROWS and (
        SAMPLES * _block_cost(operator, size) > limit
    ):
        size = max(size // 2, FEWEST_ROWS)
    # Samples of all rows would be the same.
    count = SAMPLES if size < len(rows) else 1
    samples = [np.sort(rng.choice(rows, size, replace=False)) for _ in range(count)]
    found = [operator.scaled_norm2(some, 1.0 / norms[some], exact=True) for some in samples]
    one = Partition(np.array([0, size]), np.arange(size))
    spend(count * operator.pairs(one, whole(operator.shape[1])).cost * size / operator.shape[0])
    return float(min(m, 1.0 + (max(found) - 1.0) * (m - 1.0) / (size - 1.0)))


def _block_cost(operator, m):
    """Multiply-adds of the exact norm of m rows."""
    n, p = operator.shape
    count = -(-n // m)
    starts = (np.arange(count + 1) * n) // count
    return operator.pairs(Partition(starts, None), whole(p)).cost / count


@single_threaded
def quick_norms2(operator, dual, primal, rows, raised=1.0):
    """|A_I|^2 of the blocks of rows of `dual`, or |A^J|^2 of those of columns of `primal`.

    Of the two partitions one is of a single block. Exact where that is cheap; else
    estimates from a sample of rows, times `CAUTION` and `raised`, and no more than the Frobenius
    norms. Returns the norms and what is known of them, `ESTIMATED_AND_WATCHED` for estimates.
    """
    blocks = dual if rows else primal
    if blocks.largest * (1 if rows else operator.column_width) == 1:
        norms2 = operator.row_norms2 if rows else operator.column_norms2
        return norms2[blocks.order], "exact"
    pairs = operator.pairs(dual, primal)
    if affordable(operator, pairs):
        return norms2_of_pairs(pairs).ravel(), "exact"
    if rows:
        lines, found = operator.row_norms2, estimated_norms2(operator, dual, primal)
    else:
        lines = operator.column_norms2
        found = estimated_column_norms2(operator, dual, primal)
    frobenius = np.add.reduceat(lines[blocks.order], blocks.starts[:-1])
    return np.minimum(raised * CAUTION * found, frobenius), ESTIMATED_AND_WATCHED


def norms2_of_pairs(pairs):
    """|A_I^J|^2 of all pairs of blocks, of shape (r, s)."""
    spend(pairs.cost)
    return np.array([
        [top_eigenvalue(pairs.gram(k, l)) for l in range(pairs.shape[1])]
        for k in tracked(range(pairs.shape[0]), "norms of batches")
    ])


def ascent_step(operator, dual, primal, y):
    """A step of `largest_norm2_below` from y: the new y, not normalised, its squared length."""
    root = root_weights(operator)
    x = _heaviest(primal, root * operator.rmatvec(y))
    return _heaviest(dual, operator.matvec(root * _normalised(x)))


def largest_norm2_below(operator, dual, primal, steps=20):
    """A lower bound on the largest |A_I^J|^2 over the pairs of blocks of two partitions.

    y'Ax is raised in turn over unit vectors x and y that are zero outside of a block, each time
    of the best block: power iteration where all of A is one block. It begins once at the
    heaviest row and once at a random vector, and takes two passes a step at most.
    """
    n = operator.shape[0]
    lengths = np.sqrt(operator.row_norms2)
    signs = np.where(np.random.default_rng(0).random(n) < 0.5, -1.0, 1.0)
    best = 0.0
    for y in (np.eye(1, n, int(lengths.argmax()))[0], lengths * signs):
        before = 0.0
        for _ in range(steps):
            y = ascent_step(operator, dual, primal, y)
            value = float(y @ y)
            best = max(best, value)
            if value <= before * (1.0 + 1e-6):
                break
            y, before = _normalised(y), value
    return best


#: Passes of the power iteration that begins a run, and what its result is taken times. From
#: below, it was 0.7 to 1 of |A|^2 on what was tried (November 2026); runs watch it.
POWER_STEPS, CAUTION = 2, 1.3


@single_threaded
def estimated_norm2(operator, steps=POWER_STEPS):
    """|A|^2 from below, by so many steps of power iteration, each a pass."""
    root = root_weights(operator)
    y = np.where(np.random.default_rng(0).random(operator.shape[0]) < 0.5, -1.0, 1.0)
    value = 0.0
    for _ in range(steps):
        x = root * operator.rmatvec(y)
        y = operator.matvec(root * _normalised(x))
        value = float(y @ y)
    spend(steps * operator.multiply_adds)
    return value


def root_weights(operator):
    """The factors sqrt(w_j) of blocks in norms, in the shape of x."""
    root = np.sqrt(getattr(operator, "weights", np.ones(operator.shape[1])))
    return root.reshape((-1,) + (1,) * (len(operator.x_shape) - 1))


def _heaviest(blocks, values):
    """The values of the block with the largest sum of squares, zero elsewhere."""
    squares = (values * values).reshape(len(values), -1).sum(axis=1)
    sums = np.add.reduceat(squares[blocks.order], blocks.starts[:-1])
    chosen = blocks.block(int(sums.argmax()))
    out = np.zeros_like(values)
    out[chosen] = values[chosen]
    return out


def _normalised(values):
    size = np.linalg.norm(values)
    return values / size if size > 0.0 else values


def subset_bound(operator, m, q):
    """An upper bound on |A_I^J|^2 over all |I| = m, |J| = q."""
    limit = budget(operator)
    return least([
        norm2(operator),
        Constant(m * operator.largest_head(q, False, limit), "m times the heaviest q of a row"),
        Constant(q * operator.largest_head(m, True, limit), "q times the heaviest m of a column"),
    ], "upper bound over subsets")

"""Single entries of A, drawn at random, for methods that sample (i, j).

The bilinear map  B(x, y) = (A'y, -A x)  is the sum over the entries of
B_ij(x, y) = (a_ij y_i e_j, -a_ij x_j e_i). If (i, j) comes with probability
pi_ij then B_ij/pi_ij is B on average, and

    |B|^2_pi = max(max_i sum_j a_ij^2/pi_ij, max_j sum_i a_ij^2/pi_ij)

is the least constant with  E |B_ij(z)/pi_ij|^2 <= |B|^2_pi |z|^2.  With N
entries that are not zero:

uniform
    pi_ij = 1/N, and the constant is N max(max_i |A_i|^2, max_j |A^j|^2).
nonuniform
    pi_ij = a_ij^2/|A|_F^2, and it is |A|_F^2 times the largest number of such
    entries in a row or a column.
nonuniform, A = UV
    Entries are not stored, and their squares take O(npd) to find. Instead
    pi_ij = r_i c_j with r and c proportional to |U_i|^2 and |V^j|^2, or to
    |A_i|^2 and |A^j|^2, whichever has the smaller constant. For such a product
    sum_j a_ij^2/c_j = U_i' (sum_j V^j V^j'/c_j) U_i, so it is exact at O((n + p) d^2).
blocks of matrices
    A block A_i^j is an entry, |A_i^j|_F stands for |a_ij|, and the constant is an upper bound.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import entry, generic
from ..engine.kernel_cache import njit
from ..engine.sampling import alias_table, below, by_odds, uniform
from ..engine.simd import prefetch
from ..engine.symmetric import pack, unpack
from ..model.regularizers import conjugate_blocks, reg_conjugate_gradient
from ..operators.dense import DenseOperator
from ..operators.factorized import FactorizedOperator
from ..operators.gram import gram, quadratic_forms
from ..operators.matrix_blocks import BlockOperator, MatrixOperator
from ..operators.rank_one import RankOneOperator
from ..operators.sparse import SparseOperator

# Which one ---------------------------------------------------------------------------------

class Even(NamedTuple):
    """One of so many, all alike."""

    count: int


class Uneven(NamedTuple):
    """One of many by an `alias_table`; `total` is the sum of the weights it was made of."""

    odds: np.ndarray
    total: float


@generic
def toss(table, state):
    """A place, uniform, and a chance to decide with."""


@generic(default=True)
def look_up(table, k):
    """Ask for what the table has at a place."""


@generic(default=True)
def decide(table, k, chance):
    """The random index, from `toss`; the place itself unless a table has odds."""
    return k


@toss.register(Even)
def toss_even(table, state):
    return below(state, table.count), 0.0


@toss.register(Uneven)
def toss_uneven(table, state):
    k = below(state, table.odds.shape[0])
    return k, uniform(state)


@look_up.register(Uneven)
def fetch_odds(table, k):
    prefetch(table.odds, 2 * k)


@decide.register(Uneven)
def decide_by_odds(table, k, chance):
    return by_odds(table.odds, k, chance)


@generic
def boosted(table, a):
    """a/pi of an entry a, where pi is even, or proportional to a^2."""


@boosted.register(Even)
def boost_even(table, a):
    return a * table.count


@boosted.register(Uneven)
def boost_by_square(table, a):
    return table.total / a


def uneven(weights):
    """The table of probabilities proportional to these weights."""
    weights = np.ascontiguousarray(weights, dtype=np.float64).ravel()
    total = float(weights.sum())
    return Uneven(alias_table(weights, total), total)


def probabilities(table):
    """What a table draws, for tests: the probability of each index."""
    if isinstance(table, Even):
        return np.full(table.count, 1.0 / table.count)
    out = table.odds[:, 0].copy()
    np.add.at(out, table.odds[:, 1].astype(np.int64), 1.0 - out)
    return out / len(out)


# Entries -----------------------------------------------------------------------------------

#: Entries that are on their way at a time: tables and data are read at random, and a single
#: one would wait for memory three times.
AHEAD = 64


class Slots(NamedTuple):
    """Entries on their way: rows or places, columns, and chances."""

    rows: np.ndarray
    columns: np.ndarray
    chances: np.ndarray


def slots():
    """Room for `AHEAD` entries."""
    return Slots(*np.zeros((2, AHEAD), dtype=np.int64), np.zeros((AHEAD, 2)))


class DenseEntries(NamedTuple):
    """Entries of a C-contiguous array; `cost` is that of one and its two uses, as below."""

    a: np.ndarray
    table: object
    slots: Slots
    cost: int = 2


class SparseEntries(NamedTuple):
    """The entries that are not zero, with their rows and columns."""

    data: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    table: object
    slots: Slots
    cost: int = 2


class FactorEntries(NamedTuple):
    """A = UV: rows and columns by tables of their own, with 1/r_i and 1/c_j."""

    cost: int
    U: np.ndarray
    Vt: np.ndarray
    rows: object
    columns: object
    row_boosts: np.ndarray
    column_boosts: np.ndarray
    slots: Slots


@generic
def throw(entries, state, slot):
    """Draw the random numbers of an entry."""


@generic
def settle(entries, slot):
    """Find out which it is."""


@generic
def collect(entries, slot):
    """i, j and a_ij/pi_ij."""


@throw.register(DenseEntries, SparseEntries)
def throw_once(entries, state, slot):
    k, chance = toss(entries.table, state)
    look_up(entries.table, k)
    entries.slots.rows[slot] = k
    entries.slots.chances[slot, 0] = chance


@settle.register(DenseEntries)
def settle_dense(entries, slot):
    slots = entries.slots
    k = decide(entries.table, slots.rows[slot], slots.chances[slot, 0])
    prefetch(entries.a, k)
    p = entries.a.shape[1]
    i = k // p
    slots.rows[slot] = i
    slots.columns[slot] = k - i * p


@collect.register(DenseEntries)
def collect_dense(entries, slot):
    i, j = entries.slots.rows[slot], entries.slots.columns[slot]
    return i, j, boosted(entries.table, entries.a[i, j])


@settle.register(SparseEntries)
def settle_sparse(entries, slot):
    slots = entries.slots
    k = decide(entries.table, slots.rows[slot], slots.chances[slot, 0])
    prefetch(entries.data, k)
    prefetch(entries.rows, k)
    prefetch(entries.columns, k)
    slots.rows[slot] = k


@collect.register(SparseEntries)
def collect_sparse(entries, slot):
    k = entries.slots.rows[slot]
    return (np.int64(entries.rows[k]), np.int64(entries.columns[k]),
            boosted(entries.table, entries.data[k]))


@throw.register(FactorEntries)
def throw_twice(entries, state, slot):
    slots = entries.slots
    i, slots.chances[slot, 0] = toss(entries.rows, state)
    j, slots.chances[slot, 1] = toss(entries.columns, state)
    look_up(entries.rows, i)
    look_up(entries.columns, j)
    slots.rows[slot] = i
    slots.columns[slot] = j


@settle.register(FactorEntries)
def settle_factors(entries, slot):
    slots, width = entries.slots, entries.U.shape[1]
    i = decide(entries.rows, slots.rows[slot], slots.chances[slot, 0])
    j = decide(entries.columns, slots.columns[slot], slots.chances[slot, 1])
    for k in range(0, width, 8):
        prefetch(entries.U, i * width + k)
        prefetch(entries.Vt, j * width + k)
    slots.rows[slot] = i
    slots.columns[slot] = j


@collect.register(FactorEntries)
def collect_from_factors(entries, slot):
    i, j = entries.slots.rows[slot], entries.slots.columns[slot]
    a = 0.0
    for k in range(entries.U.shape[1]):
        a += entries.U[i, k] * entries.Vt[j, k]
    return i, j, a * (entries.row_boosts[i] * entries.column_boosts[j])


@njit
def draw_entry(entries, state):
    """i, j and a_ij/pi_ij of a random entry."""
    throw(entries, state, 0)
    settle(entries, 0)
    return collect(entries, 0)


class EpochPoint(NamedTuple):
    """The iterate and what an epoch keeps.

    Attributes
    ----------
    x, y : ndarray
    old_x, old_y : ndarray
        The snapshot.
    dx, dy : ndarray
        x - old_x and y - old_y.
    pull : ndarray
        lam tau xbar - A'old_y/n.
    margins : ndarray
        A old_x.
    centre : ndarray
        ybar.
    of_x, of_y : ndarray
        Sums over the entries drawn; zero between iterations. of_x is packed for matrices.
    """

    x: np.ndarray
    y: np.ndarray
    old_x: np.ndarray
    old_y: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    pull: np.ndarray
    margins: np.ndarray
    centre: np.ndarray
    of_x: np.ndarray
    of_y: np.ndarray


@generic(default=True)
def add_entries(entries, count, random, point):
    """of_x_j += (a_ij/pi_ij) dy_i and of_y_i += (a_ij/pi_ij) dx_j for so many random entries.

    Returns the multiply-adds done.
    """
    for first in range(0, count, AHEAD):
        size = min(AHEAD, count - first)
        for slot in range(size):
            throw(entries, random, slot)
        for slot in range(size):
            settle(entries, slot)
        for slot in range(size):
            i, j, weight = collect(entries, slot)
            point.of_y[i] += weight * point.dx[j]
            point.of_x[j] += weight * point.dy[i]
    return entries.cost * count


@generic(default=True)
def primal_move(entries, reg, point, hold, share):
    """The primal step, `reg` being g plus the quadratic terms; hold may be one a coordinate.

    Returns the number of eigendecompositions done.
    """
    for j in range(point.x.shape[0]):
        new = reg_conjugate_gradient(
            reg, j, entry(hold, j) * point.x[j] + point.pull[j] - share * point.of_x[j]
        )
        point.x[j] = new
        point.dx[j] = new - point.old_x[j]
        point.of_x[j] = 0.0
    return 0


# Blocks of matrices ------------------------------------------------------------------------

class BlockEntries:
    """Blocks A_i^j that are not zero, in the order of columns.

    Attributes
    ----------
    table : Even or Uneven
    rows, columns : ndarray
    boosts : ndarray
        1/pi of each.
    """

    def __init__(self, operator, table, rows, columns, boosts):
        self.operator, self.table = operator, table
        self.rows, self.columns, self.boosts = rows, columns, boosts

    def drawn(self, count, state):
        """Positions of the blocks drawn, each once, and 1/pi times how often they were."""
        positions = np.empty(count, dtype=np.int64)
        _pick_many(self.table, state, positions)
        positions, times = np.unique(positions, return_counts=True)
        return positions, times * self.boosts[positions]


class MatrixEntries(BlockEntries):
    """Blocks that are stored."""

    def add(self, positions, boosts, X, dy, of_x, of_y):
        """`add_entries` of given blocks, X and of_x packed; returns the multiply-adds done."""
        rows, columns = self.rows[positions], self.columns[positions]
        products = np.empty(len(rows))
        cuts = np.searchsorted(columns, np.arange(self.operator.shape[1] + 1))
        self.operator.in_spans(
            lambda lo, hi: _add_blocks(
                self.operator.A, rows, columns, cuts[lo], cuts[hi], boosts, X, dy, of_x, products
            ), max(1, len(rows) // len(X)), len(X),
        )
        of_y += np.bincount(rows, boosts * products, len(of_y))
        return 2 * len(rows) * X.shape[1]


class RankOneEntries(BlockEntries):
    """Blocks that are sums of rank-one terms: each is a row of an operator with a block a row.

    `parts` has for the groups' own blocks and for the shared one: the operator,
    the first of its blocks among all, the positions and which rows they are.
    """

    def __init__(self, operator, table, rows, columns, boosts):
        super().__init__(operator, table, rows, columns, boosts)
        self.parts = []
        of_shared = columns == operator.common
        for blocks, mine in (("own", ~of_shared), ("shared", of_shared)):
            if mine.any():
                part, keys = _single_blocks(operator, blocks)
                first = 1 if blocks == "own" and operator.common >= 0 else 0
                row = np.zeros(len(rows), dtype=np.int64)
                row[mine] = np.searchsorted(
                    keys, rows[mine] * part.shape[1] + columns[mine] - first
                )
                self.parts.append((part, first, mine, row))

    def add(self, positions, boosts, X, dy, of_x, of_y):
        done = 0
        for part, first, mine, row in self.parts:
            chosen = mine[positions]
            if not chosen.any():
                continue
            some, weights = positions[chosen], boosts[chosen]
            plan, blocks = part.plan(row[some]), slice(first, first + part.shape[1])
            products = np.empty(len(some))
            part.row_products(plan, X[blocks], products)
            of_y += np.bincount(self.rows[some], weights * products, len(of_y))
            part.add_rows(plan, weights * dy[self.rows[some]], of_x[blocks])
            done += 2 * part.row_cost(plan)
        return done


def _single_blocks(operator, blocks):
    """The blocks of an operator as rows of one, and for each i p + j to find it by."""
    groups, n_groups = operator._groups_of_terms, len(operator.own)
    counts = np.diff(operator.indptr)
    of_row = np.repeat(np.arange(operator.shape[0]), counts)
    p = 1 if blocks == "shared" else n_groups
    keys = of_row * p + (0 if blocks == "shared" else groups)
    order = np.argsort(keys, kind="stable")
    keys, first = np.unique(keys[order], return_index=True)
    part = RankOneOperator(
        operator.points, operator.starts, operator.ends, operator.vector_starts,
        np.append(first, len(order)), operator.terms[order], operator.signs[order], blocks,
    )
    return part, keys


@njit
def _pick_many(table, state, out):
    for k in range(out.shape[0]):
        place, chance = toss(table, state)
        out[k] = decide(table, place, chance)


@njit(nogil=True)
def _add_blocks(A, rows, columns, lo, hi, boosts, X, dy, of_x, products):
    for e in range(lo, hi):
        i, j = rows[e], columns[e]
        weight = boosts[e] * dy[i]
        total = 0.0
        for c in range(A.shape[2]):
            total += A[i, j, c] * X[j, c]
            of_x[j, c] += weight * A[i, j, c]
        products[e] = total


@add_entries.register(MatrixEntries, RankOneEntries)
def add_matrices(entries, count, random, point):
    drawn = entries.drawn(count, random)
    return entries.add(*drawn, pack(point.dx), point.dy, point.of_x, point.of_y)


@primal_move.register(MatrixEntries, RankOneEntries)
def move_matrices(entries, reg, point, hold, share):
    matrices = unpack(point.of_x, reg.d)
    matrices *= -share
    matrices += hold * point.x
    matrices += point.pull
    done = conjugate_blocks(reg, np.arange(len(matrices)), matrices)
    point.x[:] = matrices
    np.subtract(matrices, point.old_x, out=point.dx)
    point.of_x[:] = 0.0
    return done


# From operators ----------------------------------------------------------------------------

class Sampling(NamedTuple):
    """What `entries_of` finds.

    Attributes
    ----------
    entries : NamedTuple or BlockEntries
        For `add_entries`.
    count : int
        Entries that can be drawn.
    constant : float
        |B|^2_pi of the module, or an upper bound of it.
    cost : float
        Multiply-adds of an entry, on average.
    kind : str
        What is known of the constant.
    """

    entries: object
    count: int
    constant: float
    cost: float = 2.0
    kind: str = "exact"


@singledispatch
def entries_of(operator, nonuniform):
    """How to draw the entries of an operator, uniformly or not: a `Sampling`."""
    raise TypeError(f"entries of {type(operator).__name__} cannot be drawn")


def _stored_constant(operator, nonuniform, count, longest):
    """|B|^2_pi of so many stored entries that are not zero, the most in a row or column given."""
    if nonuniform:
        return float(operator.row_norms2.sum()) * float(longest)
    return count * float(max(operator.row_norms2.max(), operator.column_norms2.max()))


@entries_of.register(DenseOperator)
def dense_entries(operator, nonuniform):
    A, count = operator.A, np.count_nonzero(operator.A)
    # By squares, zeros are never drawn.
    if count < A.size and not (nonuniform and count > A.size // 2):
        rows, columns = np.nonzero(A)
        return _listed(operator, nonuniform, A[rows, columns], rows, columns)
    longest = max(np.count_nonzero(A, axis=axis).max() for axis in (0, 1))
    table = uneven(A * A) if nonuniform else Even(A.size)
    constant = _stored_constant(operator, nonuniform, count, longest)
    return Sampling(DenseEntries(A, table, slots()), count, constant)


@entries_of.register(SparseOperator)
def sparse_entries(operator, nonuniform):
    csr = operator.csr
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    inside = csr.data != 0.0
    return _listed(
        operator, nonuniform, csr.data[inside], rows[inside], csr.indices[inside]
    )


def _listed(operator, nonuniform, data, rows, columns):
    if not len(data):
        return _nothing()
    table = uneven(data * data) if nonuniform else Even(len(data))
    constant = _listed_constant(operator, nonuniform, rows, columns)
    places = rows.astype(np.uint32), columns.astype(np.uint32)
    return Sampling(SparseEntries(data, *places, table, slots()), len(data), constant)


def _listed_constant(operator, nonuniform, rows, columns):
    longest = max(np.bincount(rows).max(), np.bincount(columns).max())
    return _stored_constant(operator, nonuniform, len(rows), longest)


def _nothing():
    none = np.zeros((2, 0), dtype=np.uint32)
    return Sampling(SparseEntries(np.zeros(0), *none, Even(0), slots()), 0, 0.0)


@entries_of.register(FactorizedOperator)
def factor_entries(operator, nonuniform):
    n, p = operator.shape
    U, Vt = operator.U, operator.Vt
    if not nonuniform:
        constant = n * p * float(max(operator.row_norms2.max(), operator.column_norms2.max()))
        entries = FactorEntries(
            operator.d + 2, U, Vt, Even(n), Even(p), np.full(n, float(n)), np.full(p, float(p)),
            slots(),
        )
        return Sampling(entries, n * p, constant, operator.d + 2.0)
    found = [
        _product(operator, np.maximum(r, 0.0), np.maximum(c, 0.0)) for r, c in (
            (np.einsum("ij,ij->i", U, U), np.einsum("ij,ij->i", Vt, Vt)),
            (operator.row_norms2, operator.column_norms2),
        ) if r.max() > 0.0 and c.max() > 0.0
    ]
    return min(found, key=lambda sampling: sampling.constant, default=_nothing())


def _product(operator, r, c):
    """Rows with probabilities proportional to r and columns to c, independently."""
    boosts = []
    for weights in (r, c):
        boost = np.zeros(len(weights))
        boost[weights > 0.0] = weights.sum() / weights[weights > 0.0]
        boosts.append(boost)
    (of_rows, of_columns), (U, Vt) = boosts, (operator.U, operator.Vt)
    scaled_U, scaled_Vt = U * np.sqrt(of_rows)[:, None], Vt * np.sqrt(of_columns)[:, None]
    constant = float(max(
        quadratic_forms(scaled_U, gram(scaled_Vt)).max(),
        quadratic_forms(scaled_Vt, gram(scaled_U)).max(),
    ))
    entries = FactorEntries(operator.d + 2, U, Vt, uneven(r), uneven(c), *boosts, slots())
    return Sampling(entries, r.size * c.size, constant, operator.d + 2.0)


@entries_of.register(BlockOperator)
def block_entries(operator, nonuniform):
    norms = operator.block_norms
    if isinstance(operator, MatrixOperator):
        columns, rows = np.nonzero(norms.A.T)
        values, kind, cost = norms.A[rows, columns], MatrixEntries, 2.0 * operator.A.shape[2]
    else:
        csr = norms.csr.T.tocsr()
        columns = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        inside = csr.data != 0.0
        columns, values = columns[inside], csr.data[inside]
        rows = csr.indices[inside].astype(np.int64)
        kind = RankOneEntries
        cost = 2.0 * operator.d ** 2 * len(operator.terms) / max(1, operator.shape[0])
        if not operator._one_group:
            cost /= max(1.0, len(values) / operator.shape[0])
    if not len(values):
        return Sampling(kind(operator, Even(0), rows, columns, values), 0, 0.0, cost)
    if nonuniform:
        table = uneven(values ** 2)
        boosts = table.total / values ** 2
    else:
        table, boosts = Even(len(values)), np.full(len(values), float(len(values)))
    return Sampling(
        kind(operator, table, rows, columns, boosts), len(values),
        _listed_constant(norms, nonuniform, rows, columns), cost, "upper bound (Frobenius norms)",
    )

"""What accelerated coordinate methods keep: two vectors u and v, and their products.

Their iterates are combinations scale * u + v, and a coordinate step changes
one block of u and of v. Two kinds, each for stored rows, factors and blocks of
matrices:

dual
    u and v are dual vectors; A'u and A'v are kept, and a product is
    <A_i, grad g*(w)> with w = -(scale A'u + A'v)/n.
primal
    u and v are primal vectors; A u and A v are kept, and a product is
    <A^j, phi'(scale A u + A v)>.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic, index
from ..engine.kernel_cache import njit
from ..engine.symmetric import pack, unpack
from ..model.losses import derivative_all, loss_derivative
from ..model.regularizers import conjugate_blocks, reg_conjugate_gradient
from ..operators.factorized import FactorizedOperator
from ..operators.matrix_blocks import BlockOperator
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    DenseRows,
    SparseRows,
    row_span,
    rows_axpy,
    rows_dot,
    rows_prefetch,
    rows_size,
)
from .primal_dual import primal_dual_cost


class PairPoint(NamedTuple):
    """The iterate scale[0] u + v.

    Attributes
    ----------
    u, v : ndarray
    scale : ndarray of shape (1,)
    b : ndarray
        Labels.
    map : NamedTuple or PSDFrobenius
        What lies between the two products with A: the regulariser for dual vectors, the
        loss for primal ones.
    buffer : ndarray
        Products of a block, then changes.
    """

    u: np.ndarray
    v: np.ndarray
    scale: np.ndarray
    b: np.ndarray
    map: object
    buffer: np.ndarray


class DualPair(NamedTuple):
    """Rows of A, with A'u and A'v as vectors."""

    point: PairPoint
    rows: object
    u: np.ndarray
    v: np.ndarray
    n: float


class FactorDualPair(NamedTuple):
    """A = UV, with U'u and U'v kept; all of w and x are formed, O(p d)."""

    point: PairPoint
    d: int
    rows: DenseRows
    Vt: DenseRows
    u: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    x: np.ndarray
    n: float


class PrimalPair(NamedTuple):
    """Columns of A, stored as rows of A', with A u and A v as vectors."""

    point: PairPoint
    rows: object
    u: np.ndarray
    v: np.ndarray


class FactorPrimalPair(NamedTuple):
    """A = UV, with V u and V v kept; all of A x is formed, O(n d). `rows` are those of V'."""

    point: PairPoint
    d: int
    U: DenseRows
    rows: DenseRows
    u: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    slopes: np.ndarray


class BlockDualPair:
    """The dual pair where x is made of matrices; A'u and A'v are packed."""

    def __init__(self, operator, point):
        self.operator, self.point = operator, point
        self.u, self.v = operator.packed_zeros(), operator.packed_zeros()
        self.plans = {}

    def plan(self, order, lo, hi):
        if lo not in self.plans:
            self.plans[lo] = self.operator.plan(order[lo:hi])
        return self.plans[lo]


class BlockPrimalPair:
    """The primal pair where x is made of matrices."""

    def __init__(self, operator, point):
        self.operator, self.point = operator, point
        self.u, self.v = np.zeros((2, operator.shape[0]))


@generic
def pair_products(pair, scale, order, lo, hi):
    """The products of a block of coordinates, in the buffer.

    Returns the number of eigendecompositions done.
    """


@generic(default=True)
def pair_add(pair, order, lo, hi, of_u, of_v):
    """Take note of u_i += of_u buffer[k] and v_i += of_v buffer[k]; may spoil the buffer."""
    change = pair.point.buffer
    _scale(change, hi - lo, of_u)
    rows_axpy(pair.rows, order, lo, hi, change, pair.u)
    _scale(change, hi - lo, of_v / of_u)
    rows_axpy(pair.rows, order, lo, hi, change, pair.v)


@generic(default=True)
def pair_fetch(pair, order, lo, hi):
    """A block that comes soon: a hint to fetch its rows."""
    rows_prefetch(pair.rows, order, lo, hi)


@generic(default=True)
def pair_cost(pair, order, lo, hi):
    """Multiply-adds of `pair_products` and `pair_add`."""
    return 3 * rows_size(pair.rows, order, lo, hi)


@njit(inline=True)
def rescale(pair, factor):
    """Take the factor of u into u and its products."""
    u = pair.point.u
    for i in range(u.shape[0]):
        u[i] *= factor
    for k in range(pair.u.shape[0]):
        pair.u[k] *= factor
    pair.point.scale[0] = 1.0


@njit(inline=True)
def _scale(change, size, factor):
    for k in range(size):
        change[k] *= factor


# Rows of A, dual ------------------------------------------------------------------------

@pair_products.register(DualPair)
def dual_products(pair, scale, order, lo, hi):
    for k in range(lo, hi):
        pair.point.buffer[k - lo] = _dot_conjugate(
            pair.rows, pair.point.map, scale, -1.0 / pair.n, index(order, k), pair.u, pair.v
        )
    return 0


@generic
def _dot_conjugate(rows, reg, scale, shift, i, u, v):
    """sum_j a_ij (grad g*)_j at shift (scale u_j + v_j)."""


@_dot_conjugate.register(DenseRows)
def dense_dot_conjugate(rows, reg, scale, shift, i, u, v):
    total = 0.0
    for j in range(rows.a.shape[1]):
        total += rows.a[i, j] * reg_conjugate_gradient(reg, j, shift * (scale * u[j] + v[j]))
    return total


@_dot_conjugate.register(SparseRows)
def sparse_dot_conjugate(rows, reg, scale, shift, i, u, v):
    start, end = row_span(rows, i)
    total = 0.0
    for e in range(start, end):
        j = rows.indices[e]
        total += rows.data[e] * reg_conjugate_gradient(reg, j, shift * (scale * u[j] + v[j]))
    return total


@pair_products.register(FactorDualPair)
def factor_dual_products(pair, scale, order, lo, hi):
    for k in range(pair.mixed.shape[0]):
        pair.mixed[k] = (scale * pair.u[k] + pair.v[k]) / -pair.n
    p = pair.x.shape[0]
    rows_dot(pair.Vt, None, 0, p, pair.mixed, pair.x)
    for j in range(p):
        pair.x[j] = reg_conjugate_gradient(pair.point.map, j, pair.x[j])
    pair.mixed[:] = 0.0
    rows_axpy(pair.Vt, None, 0, p, pair.x, pair.mixed)
    rows_dot(pair.rows, order, lo, hi, pair.mixed, pair.point.buffer)
    return 0


@pair_cost.register(FactorDualPair)
def factor_dual_cost(pair, order, lo, hi):
    return pair.d * (2 * pair.x.shape[0] + 3 * (hi - lo))


# Columns of A, primal --------------------------------------------------------------------

@generic
def _dot_derivative(rows, loss, b, scale, j, u, v):
    """sum_i a_ij phi_i'(scale u_i + v_i)."""


@_dot_derivative.register(DenseRows)
def dense_dot_derivative(rows, loss, b, scale, j, u, v):
    total = 0.0
    for i in range(rows.a.shape[1]):
        total += rows.a[j, i] * loss_derivative(loss, scale * u[i] + v[i], b[i])
    return total


@_dot_derivative.register(SparseRows)
def sparse_dot_derivative(rows, loss, b, scale, j, u, v):
    start, end = row_span(rows, j)
    total = 0.0
    for e in range(start, end):
        i = rows.indices[e]
        total += rows.data[e] * loss_derivative(loss, scale * u[i] + v[i], b[i])
    return total


@pair_products.register(PrimalPair)
def primal_products(pair, scale, order, lo, hi):
    for k in range(lo, hi):
        pair.point.buffer[k - lo] = _dot_derivative(
            pair.rows, pair.point.map, pair.point.b, scale, index(order, k), pair.u, pair.v
        )
    return 0


@pair_products.register(FactorPrimalPair)
def factor_primal_products(pair, scale, order, lo, hi):
    for k in range(pair.mixed.shape[0]):
        pair.mixed[k] = scale * pair.u[k] + pair.v[k]
    n = pair.slopes.shape[0]
    rows_dot(pair.U, None, 0, n, pair.mixed, pair.slopes)
    for i in range(n):
        pair.slopes[i] = loss_derivative(pair.point.map, pair.slopes[i], pair.point.b[i])
    pair.mixed[:] = 0.0
    rows_axpy(pair.U, None, 0, n, pair.slopes, pair.mixed)
    rows_dot(pair.rows, order, lo, hi, pair.mixed, pair.point.buffer)
    return 0


@pair_cost.register(FactorPrimalPair)
def factor_primal_cost(pair, order, lo, hi):
    return pair.d * (2 * pair.slopes.shape[0] + 3 * (hi - lo))


# Blocks of matrices ------------------------------------------------------------------------

@pair_fetch.register(BlockDualPair, BlockPrimalPair)
def fetch_no_matrices(pair, order, lo, hi):
    pass


@pair_products.register(BlockDualPair)
def matrix_dual_products(pair, scale, order, lo, hi):
    operator = pair.operator
    w = scale * pair.u + pair.v
    w /= -operator.shape[0]
    x = unpack(w, operator.d)
    done = conjugate_blocks(pair.point.map, np.arange(len(x)), x)
    operator.row_products(pair.plan(order, lo, hi), pack(x), pair.point.buffer)
    return done


@pair_add.register(BlockDualPair)
def add_matrix_rows(pair, order, lo, hi, of_u, of_v):
    change, none = pair.point.buffer[:hi - lo], np.zeros(len(pair.u), dtype=bool)
    plan = pair.plan(order, lo, hi)
    pair.operator.add_rows(plan, of_u * change, pair.u, pair.u, none)
    pair.operator.add_rows(plan, of_v * change, pair.v, pair.v, none)


@pair_cost.register(BlockDualPair)
def cost_of_matrix_rows(pair, order, lo, hi):
    return 3 * pair.operator.row_cost(pair.plan(order, lo, hi))


@pair_products.register(BlockPrimalPair)
def matrix_primal_products(pair, scale, order, lo, hi):
    slopes = derivative_all(pair.point.map, scale * pair.u + pair.v, pair.point.b)
    pair.operator.add_columns(order[lo:hi], slopes, pair.point.buffer[:hi - lo])
    return 0


@pair_add.register(BlockPrimalPair)
def add_matrix_columns(pair, order, lo, hi, of_u, of_v):
    product = pair.operator.column_products(order[lo:hi], pair.point.buffer[:hi - lo])
    pair.u += of_u * product
    pair.v += of_v * product


@pair_cost.register(BlockPrimalPair)
def cost_of_matrix_columns(pair, order, lo, hi):
    return 2 * pair.operator.column_cost(order[lo:hi])


# From operators -----------------------------------------------------------------------------

def dual_pair(problem, largest):
    """State for accelerated dual methods at zero, with blocks of at most so many rows."""
    point = _point(problem, (problem.shape[0],), problem.reg, largest)
    return make_dual_pair(problem.operator, point)


def primal_pair(problem, largest):
    """State for accelerated primal methods at zero, with blocks of at most so many columns."""
    point = _point(problem, problem.x_shape, problem.loss, largest)
    return make_primal_pair(problem.operator, point)


def _point(problem, shape, map, largest):
    u, v = np.zeros((2, *shape))
    return PairPoint(u, v, np.ones(1), problem.b, map, np.empty((largest, *shape[1:])))


@singledispatch
def make_dual_pair(operator, point):
    """`dual_pair` of a kind of operator."""
    raise TypeError(f"{type(operator).__name__} has no dual pair")


@singledispatch
def make_primal_pair(operator, point):
    """`primal_pair` of a kind of operator."""
    raise TypeError(f"{type(operator).__name__} has no primal pair")


@singledispatch
def dual_pair_cost(operator, r):
    """Multiply-adds of an average block with `dual_pair`, r = n/m."""
    return 1.5 * operator.multiply_adds / r


@singledispatch
def primal_pair_cost(operator, s):
    """Multiply-adds of an average block with `primal_pair`, s = p/q."""
    return 1.5 * operator.multiply_adds / s


@make_dual_pair.register(StoredOperator)
def stored_dual_pair(operator, point):
    n, p = operator.shape
    return DualPair(point, operator.rows, *np.zeros((2, p)), float(n))


@make_primal_pair.register(StoredOperator)
def stored_primal_pair(operator, point):
    return PrimalPair(point, operator.columns, *np.zeros((2, operator.shape[0])))


@make_dual_pair.register(FactorizedOperator)
def factor_dual_pair(operator, point):
    (n, p), width = operator.shape, operator.U.shape[1]
    return FactorDualPair(
        point, operator.d, DenseRows(operator.U), DenseRows(operator.Vt), *np.zeros((3, width)),
        np.zeros(p), float(n),
    )


@make_primal_pair.register(FactorizedOperator)
def factor_primal_pair(operator, point):
    n, width = operator.shape[0], operator.U.shape[1]
    return FactorPrimalPair(
        point, operator.d, DenseRows(operator.U), DenseRows(operator.Vt), *np.zeros((3, width)),
        np.zeros(n),
    )


@dual_pair_cost.register(FactorizedOperator)
def factor_dual_pair_cost(operator, r):
    n, p = operator.shape
    return operator.d * (2 * p + 3 * n / r)


@primal_pair_cost.register(FactorizedOperator)
def factor_primal_pair_cost(operator, s):
    n, p = operator.shape
    return operator.d * (2 * n + 3 * p / s)


make_dual_pair.register(BlockOperator)(BlockDualPair)
make_primal_pair.register(BlockOperator)(BlockPrimalPair)


@primal_pair_cost.register(BlockOperator)
def block_primal_pair_cost(operator, s):
    return primal_dual_cost(operator, 1.0, s)

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
from ..operators.matrix_blocks import BlockOperator, Plans
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    DenseRows,
    SparseRows,
    multiply_transposed,
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


class DualSide(NamedTuple):
    """u and v are dual: products go through grad g*, at w = -A'y/n."""

    n: float

    dual = True


class PrimalSide(NamedTuple):
    """u and v are primal: products go through phi'."""

    n: float = -1.0

    dual = False


class Pair(NamedTuple):
    """Rows of A, or columns as rows of A', and the products of u and v with them."""

    point: PairPoint
    side: object
    rows: object
    u: np.ndarray
    v: np.ndarray


class FactorPair(NamedTuple):
    """A = UV with the products of u and v with the factor whose rows belong to them.

    `rows` are of that factor, `others` of the other one; all of what lies between is
    formed in `between`, O((n + p) d).
    """

    point: PairPoint
    side: object
    d: int
    rows: DenseRows
    others: DenseRows
    u: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    between: np.ndarray


class BlockDualPair:
    """The dual pair where x is made of matrices; A'u and A'v are packed."""

    def __init__(self, operator, point):
        self.operator, self.point = operator, point
        self.u, self.v = operator.packed_zeros(), operator.packed_zeros()
        self.plans = Plans(operator, True)


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


@generic
def through(side, point, k, value):
    """The map between the two products with A, at the coordinate k."""


@through.register(DualSide)
def through_conjugate(side, point, k, value):
    return reg_conjugate_gradient(point.map, k, value)


@through.register(PrimalSide)
def through_derivative(side, point, k, value):
    return loss_derivative(point.map, value, point.b[k])


# Stored rows and factors ------------------------------------------------------------------

@pair_products.register(Pair)
def stored_products(pair, scale, order, lo, hi):
    for k in range(lo, hi):
        pair.point.buffer[k - lo] = _dot_through(pair.rows, pair, scale, index(order, k))
    return 0


@generic
def _dot_through(rows, pair, scale, i):
    """sum_j a_ij f_j(-(scale u_j + v_j)/n), f the map of the side; n = -1 for the primal."""


@_dot_through.register(DenseRows)
def dense_dot_through(rows, pair, scale, i):
    u, v, shift = pair.u, pair.v, -1.0 / pair.side.n
    total = 0.0
    for j in range(rows.a.shape[1]):
        total += rows.a[i, j] * through(pair.side, pair.point, j, shift * (scale * u[j] + v[j]))
    return total


@_dot_through.register(SparseRows)
def sparse_dot_through(rows, pair, scale, i):
    u, v, shift = pair.u, pair.v, -1.0 / pair.side.n
    start, end = row_span(rows, i)
    total = 0.0
    for e in range(start, end):
        j = rows.indices[e]
        value = shift * (scale * u[j] + v[j])
        total += rows.data[e] * through(pair.side, pair.point, j, value)
    return total


@pair_products.register(FactorPair)
def factor_products(pair, scale, order, lo, hi):
    mixed, between = pair.mixed, pair.between
    for k in range(mixed.shape[0]):
        mixed[k] = (scale * pair.u[k] + pair.v[k]) / -pair.side.n
    total = between.shape[0]
    rows_dot(pair.others, None, 0, total, mixed, between)
    for j in range(total):
        between[j] = through(pair.side, pair.point, j, between[j])
    mixed[:] = 0.0
    rows_axpy(pair.others, None, 0, total, between, mixed)
    rows_dot(pair.rows, order, lo, hi, mixed, pair.point.buffer)
    return 0


@pair_cost.register(FactorPair)
def cost_of_factors(pair, order, lo, hi):
    return pair.d * (2 * pair.between.shape[0] + 3 * (hi - lo))


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
    operator.row_products(pair.plans.turn_to(order, lo, hi), pack(x), pair.point.buffer)
    return done


@pair_add.register(BlockDualPair)
def add_matrix_rows(pair, order, lo, hi, of_u, of_v):
    change = pair.point.buffer[:hi - lo]
    pair.operator.add_rows(pair.plans.current, of_u * change, pair.u)
    pair.operator.add_rows(pair.plans.current, of_v * change, pair.v)


@pair_cost.register(BlockDualPair)
def cost_of_matrix_rows(pair, order, lo, hi):
    return 3 * pair.operator.row_cost(pair.plans.current)


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
    n = problem.shape[0]
    return _pair(problem, DualSide(float(n)), (n,), problem.reg, largest)


def primal_pair(problem, largest):
    """State for accelerated primal methods at zero, with blocks of at most so many columns."""
    return _pair(problem, PrimalSide(), problem.x_shape, problem.loss, largest)


def _pair(problem, side, shape, map, largest):
    u, v = np.zeros((2, *shape))
    buffer = np.empty((largest, *shape[1:]))
    point = PairPoint(u, v, np.ones(1), problem.b, map, buffer)
    return make_pair(problem.operator, point, side)


@singledispatch
def make_pair(operator, point, side):
    """`dual_pair` or `primal_pair`, as the side says, of a kind of operator."""
    raise TypeError(f"{type(operator).__name__} has no pair")


@singledispatch
def load_pair(pair, operator):
    """Keep the products that belong to v, where u is zero."""
    raise TypeError(f"{type(pair).__name__} cannot begin anywhere but at zero")


@load_pair.register(Pair)
def load_stored_pair(pair, operator):
    product = operator.rmatvec if pair.side.dual else operator.matvec
    pair.v[:] = product(pair.point.v)


@load_pair.register(FactorPair)
def load_factor_pair(pair, operator):
    multiply_transposed(pair.rows, pair.point.v, pair.v)


@load_pair.register(BlockDualPair)
def load_matrix_dual_pair(pair, operator):
    pair.v[:] = operator.rmatvec_packed(pair.point.v)


@load_pair.register(BlockPrimalPair)
def load_matrix_primal_pair(pair, operator):
    pair.v[:] = operator.matvec(pair.point.v)


@singledispatch
def dual_pair_cost(operator, r):
    """Multiply-adds of an average block with `dual_pair`, r = n/m."""
    return 1.5 * operator.multiply_adds / r


@singledispatch
def primal_pair_cost(operator, s):
    """Multiply-adds of an average block with `primal_pair`, s = p/q."""
    return 1.5 * operator.multiply_adds / s


@make_pair.register(StoredOperator)
def stored_pair(operator, point, side):
    (n, p), dual = operator.shape, side.dual
    rows = operator.rows if dual else operator.columns
    return Pair(point, side, rows, *np.zeros((2, p if dual else n)))


@make_pair.register(FactorizedOperator)
def factor_pair(operator, point, side):
    rows, others = operator.sides(transposed=not side.dual)
    kept = np.zeros((3, rows.shape[1]))
    return FactorPair(
        point, side, operator.d, DenseRows(rows), DenseRows(others), *kept, np.zeros(len(others))
    )


@make_pair.register(BlockOperator)
def block_pair(operator, point, side):
    return (BlockDualPair if side.dual else BlockPrimalPair)(operator, point)


@dual_pair_cost.register(FactorizedOperator)
def factor_dual_pair_cost(operator, r):
    n, p = operator.shape
    return operator.d * (2 * p + 3 * n / r)


@primal_pair_cost.register(FactorizedOperator)
def factor_primal_pair_cost(operator, s):
    n, p = operator.shape
    return operator.d * (2 * n + 3 * p / s)


@primal_pair_cost.register(BlockOperator)
def block_primal_pair_cost(operator, s):
    return primal_dual_cost(operator, 1.0, s)

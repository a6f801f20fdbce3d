"""What accelerated coordinate methods keep: the products of two vectors u and v.

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


class DualPair(NamedTuple):
    """Rows of A, with w, A'u and A'v as vectors."""

    rows: object
    u: np.ndarray
    v: np.ndarray
    n: float


class FactorDualPair(NamedTuple):
    """A = UV, with U'u and U'v kept; all of w and x are formed, O(p d)."""

    d: int
    U: DenseRows
    Vt: DenseRows
    u: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    x: np.ndarray
    n: float


class PrimalPair(NamedTuple):
    """Columns of A, stored as rows of A', with A u and A v as vectors."""

    rows: object
    u: np.ndarray
    v: np.ndarray


class FactorPrimalPair(NamedTuple):
    """A = UV, with V u and V v kept; all of A x is formed, O(n d)."""

    d: int
    U: DenseRows
    Vt: DenseRows
    u: np.ndarray
    v: np.ndarray
    mixed: np.ndarray
    slopes: np.ndarray


@generic
def pair_products(pair, map, b, scale, order, lo, hi, out):
    """The products of a block of coordinates; `map` is the regulariser or the loss.

    Returns the number of eigendecompositions done.
    """


@generic
def pair_add(pair, order, lo, hi, change, of_u, of_v):
    """Take note of u_i += of_u change[k] and v_i += of_v change[k]; may spoil `change`."""


@generic
def pair_fetch(pair, order, lo, hi):
    """A block that comes soon: a hint to fetch its rows."""


@generic
def pair_cost(pair, order, lo, hi):
    """Multiply-adds of `pair_products` and `pair_add`."""


@generic
def rescale(pair, factor):
    """u *= factor."""


def _rescale(pair, factor):
    for k in range(pair.u.shape[0]):
        pair.u[k] *= factor


@njit(inline=True)
def _scale(change, size, factor):
    for k in range(size):
        change[k] *= factor


# Rows of A, dual ------------------------------------------------------------------------

@pair_products.register(DualPair)
def _(pair, map, b, scale, order, lo, hi, out):
    for k in range(lo, hi):
        out[k - lo] = _dot_conjugate(
            pair.rows, map, scale, -1.0 / pair.n, index(order, k), pair.u, pair.v
        )
    return 0


@generic
def _dot_conjugate(rows, reg, scale, shift, i, u, v):
    """sum_j a_ij (grad g*)_j at shift (scale u_j + v_j)."""


@_dot_conjugate.register(DenseRows)
def _(rows, reg, scale, shift, i, u, v):
    total = 0.0
    for j in range(rows.a.shape[1]):
        total += rows.a[i, j] * reg_conjugate_gradient(reg, shift * (scale * u[j] + v[j]))
    return total


@_dot_conjugate.register(SparseRows)
def _(rows, reg, scale, shift, i, u, v):
    start, end = row_span(rows, i)
    total = 0.0
    for e in range(start, end):
        j = rows.indices[e]
        total += rows.data[e] * reg_conjugate_gradient(reg, shift * (scale * u[j] + v[j]))
    return total


@pair_products.register(FactorDualPair)
def _(pair, map, b, scale, order, lo, hi, out):
    for k in range(pair.mixed.shape[0]):
        pair.mixed[k] = (scale * pair.u[k] + pair.v[k]) / -pair.n
    p = pair.x.shape[0]
    rows_dot(pair.Vt, None, 0, p, pair.mixed, pair.x)
    for j in range(p):
        pair.x[j] = reg_conjugate_gradient(map, pair.x[j])
    pair.mixed[:] = 0.0
    rows_axpy(pair.Vt, None, 0, p, pair.x, pair.mixed)
    rows_dot(pair.U, order, lo, hi, pair.mixed, out)
    return 0


@pair_add.register(DualPair)
def _(pair, order, lo, hi, change, of_u, of_v):
    _scale(change, hi - lo, of_u)
    rows_axpy(pair.rows, order, lo, hi, change, pair.u)
    _scale(change, hi - lo, of_v / of_u)
    rows_axpy(pair.rows, order, lo, hi, change, pair.v)


@pair_add.register(FactorDualPair)
def _(pair, order, lo, hi, change, of_u, of_v):
    _scale(change, hi - lo, of_u)
    rows_axpy(pair.U, order, lo, hi, change, pair.u)
    _scale(change, hi - lo, of_v / of_u)
    rows_axpy(pair.U, order, lo, hi, change, pair.v)


@pair_fetch.register(DualPair)
def _(pair, order, lo, hi):
    rows_prefetch(pair.rows, order, lo, hi)


@pair_fetch.register(FactorDualPair)
def _(pair, order, lo, hi):
    rows_prefetch(pair.U, order, lo, hi)


@pair_cost.register(DualPair)
def _(pair, order, lo, hi):
    return 3 * rows_size(pair.rows, order, lo, hi)


@pair_cost.register(FactorDualPair)
def _(pair, order, lo, hi):
    return pair.d * (2 * pair.x.shape[0] + 3 * (hi - lo))


# Columns of A, primal --------------------------------------------------------------------

@generic
def _dot_derivative(rows, loss, b, scale, j, u, v):
    """sum_i a_ij phi_i'(scale u_i + v_i)."""


@_dot_derivative.register(DenseRows)
def _(rows, loss, b, scale, j, u, v):
    total = 0.0
    for i in range(rows.a.shape[1]):
        total += rows.a[j, i] * loss_derivative(loss, scale * u[i] + v[i], b[i])
    return total


@_dot_derivative.register(SparseRows)
def _(rows, loss, b, scale, j, u, v):
    start, end = row_span(rows, j)
    total = 0.0
    for e in range(start, end):
        i = rows.indices[e]
        total += rows.data[e] * loss_derivative(loss, scale * u[i] + v[i], b[i])
    return total


@pair_products.register(PrimalPair)
def _(pair, map, b, scale, order, lo, hi, out):
    for k in range(lo, hi):
        out[k - lo] = _dot_derivative(
            pair.rows, map, b, scale, index(order, k), pair.u, pair.v
        )
    return 0


@pair_products.register(FactorPrimalPair)
def _(pair, map, b, scale, order, lo, hi, out):
    for k in range(pair.mixed.shape[0]):
        pair.mixed[k] = scale * pair.u[k] + pair.v[k]
    n = pair.slopes.shape[0]
    rows_dot(pair.U, None, 0, n, pair.mixed, pair.slopes)
    for i in range(n):
        pair.slopes[i] = loss_derivative(map, pair.slopes[i], b[i])
    pair.mixed[:] = 0.0
    rows_axpy(pair.U, None, 0, n, pair.slopes, pair.mixed)
    rows_dot(pair.Vt, order, lo, hi, pair.mixed, out)
    return 0


@pair_add.register(PrimalPair)
def _(pair, order, lo, hi, change, of_u, of_v):
    _scale(change, hi - lo, of_u)
    rows_axpy(pair.rows, order, lo, hi, change, pair.u)
    _scale(change, hi - lo, of_v / of_u)
    rows_axpy(pair.rows, order, lo, hi, change, pair.v)


@pair_add.register(FactorPrimalPair)
def _(pair, order, lo, hi, change, of_u, of_v):
    _scale(change, hi - lo, of_u)
    rows_axpy(pair.Vt, order, lo, hi, change, pair.u)
    _scale(change, hi - lo, of_v / of_u)
    rows_axpy(pair.Vt, order, lo, hi, change, pair.v)


@pair_fetch.register(PrimalPair)
def _(pair, order, lo, hi):
    rows_prefetch(pair.rows, order, lo, hi)


@pair_fetch.register(FactorPrimalPair)
def _(pair, order, lo, hi):
    rows_prefetch(pair.Vt, order, lo, hi)


@pair_cost.register(PrimalPair)
def _(pair, order, lo, hi):
    return 3 * rows_size(pair.rows, order, lo, hi)


@pair_cost.register(FactorPrimalPair)
def _(pair, order, lo, hi):
    return pair.d * (2 * pair.slopes.shape[0] + 3 * (hi - lo))


# Blocks of matrices ------------------------------------------------------------------------

for _kind in (DualPair, FactorDualPair, PrimalPair, FactorPrimalPair):
    rescale.register(_kind)(_rescale)


class BlockDualPair:
    """The dual pair where x is made of matrices; A'u and A'v are packed."""

    def __init__(self, operator):
        self.operator = operator
        self.u, self.v = operator.packed_zeros(), operator.packed_zeros()
        self.plans = {}

    def plan(self, order, lo, hi):
        if lo not in self.plans:
            self.plans[lo] = self.operator.plan(order[lo:hi])
        return self.plans[lo]


class BlockPrimalPair:
    """The primal pair where x is made of matrices."""

    def __init__(self, operator):
        self.operator = operator
        self.u, self.v = np.zeros((2, operator.shape[0]))


@pair_products.register(BlockDualPair)
def _(pair, map, b, scale, order, lo, hi, out):
    operator = pair.operator
    w = scale * pair.u + pair.v
    w /= -operator.shape[0]
    x = unpack(w, operator.d)
    done = conjugate_blocks(map, np.arange(len(x)), x)
    operator.row_products(pair.plan(order, lo, hi), pack(x), out)
    return done


@pair_add.register(BlockDualPair)
def _(pair, order, lo, hi, change, of_u, of_v):
    plan, none = pair.plan(order, lo, hi), np.zeros(len(pair.u), dtype=bool)
    pair.operator.add_rows(plan, of_u * change[:hi - lo], pair.u, pair.u, none)
    pair.operator.add_rows(plan, of_v * change[:hi - lo], pair.v, pair.v, none)


@pair_cost.register(BlockDualPair)
def _(pair, order, lo, hi):
    return 3 * pair.operator.row_cost(pair.plan(order, lo, hi))


@pair_products.register(BlockPrimalPair)
def _(pair, map, b, scale, order, lo, hi, out):
    slopes = derivative_all(map, scale * pair.u + pair.v, b)
    pair.operator.add_columns(order[lo:hi], slopes, out[:hi - lo])
    return 0


@pair_add.register(BlockPrimalPair)
def _(pair, order, lo, hi, change, of_u, of_v):
    product = pair.operator.column_products(order[lo:hi], change[:hi - lo])
    pair.u += of_u * product
    pair.v += of_v * product


@pair_cost.register(BlockPrimalPair)
def _(pair, order, lo, hi):
    return 2 * pair.operator.column_cost(order[lo:hi])


for _kind in (BlockDualPair, BlockPrimalPair):
    pair_fetch.register(_kind)(lambda pair, order, lo, hi: None)
    rescale.register(_kind)(_rescale)


# From operators -----------------------------------------------------------------------------

@singledispatch
def dual_pair(operator):
    """State for accelerated dual methods, at zero."""
    raise TypeError(f"{type(operator).__name__} has no dual pair")


@singledispatch
def dual_pair_cost(operator, r):
    """Multiply-adds of an average block with `dual_pair`, r = n/m."""
    return 1.5 * operator.multiply_adds / r


@singledispatch
def primal_pair(operator):
    """State for accelerated primal methods, at zero."""
    raise TypeError(f"{type(operator).__name__} has no primal pair")


@singledispatch
def primal_pair_cost(operator, s):
    """Multiply-adds of an average block with `primal_pair`, s = p/q."""
    return 1.5 * operator.multiply_adds / s


@dual_pair.register(StoredOperator)
def stored_dual_pair(operator):
    n, p = operator.shape
    return DualPair(operator.rows, *np.zeros((2, p)), float(n))


@primal_pair.register(StoredOperator)
def stored_primal_pair(operator):
    return PrimalPair(operator.columns, *np.zeros((2, operator.shape[0])))


@dual_pair.register(FactorizedOperator)
def factor_dual_pair(operator):
    (n, p), width = operator.shape, operator.U.shape[1]
    return FactorDualPair(
        operator.d, DenseRows(operator.U), DenseRows(operator.Vt), *np.zeros((3, width)),
        np.zeros(p), float(n),
    )


@dual_pair_cost.register(FactorizedOperator)
def factor_dual_pair_cost(operator, r):
    n, p = operator.shape
    return operator.d * (2 * p + 3 * n / r)


@primal_pair.register(FactorizedOperator)
def factor_primal_pair(operator):
    n, width = operator.shape[0], operator.U.shape[1]
    return FactorPrimalPair(
        operator.d, DenseRows(operator.U), DenseRows(operator.Vt), *np.zeros((3, width)),
        np.zeros(n),
    )


@primal_pair_cost.register(FactorizedOperator)
def factor_primal_pair_cost(operator, s):
    n, p = operator.shape
    return operator.d * (2 * n + 3 * p / s)


dual_pair.register(BlockOperator)(BlockDualPair)
primal_pair.register(BlockOperator)(BlockPrimalPair)


@primal_pair_cost.register(BlockOperator)
def block_primal_pair_cost(operator, s):
    return primal_dual_cost(operator, 1.0, s)

"""What the primal-dual loop keeps on stored and on factorised matrices.

There are three ways to have both products of an iteration cheaply:

`RowState` (n/m >= p/q)
    keeps A'y and the vector xbar; walks rows of A. O(m p), or O(nnz(I) + q).
`ColumnState` (n/m < p/q)
    keeps A x and the vector ybar; walks columns of A. O(q n), or O(nnz(J) + m).
`FactorState`, A = UV
    keeps U'y and V x (Algorithm 2 of the paper). O(d (m + q)).

A kept product is stored as a pair (base, delta): delta is what the current
iteration added, so that base + r delta is the product with the extrapolated
point, and absorbing it costs no more than creating it did. An extrapolated
vector drops back to the plain one where the previous iteration moved it.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import index
from ..engine.kernel_cache import njit
from ..engine.sampling import Partition
from ..engine.simd import aligned
from ..operators.factorized import FactorizedOperator
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    TILE,
    DenseRows,
    absorb,
    multiply_transposed,
    rows_axpy,
    rows_dot,
    rows_prefetch,
    rows_size,
)
from .iteration import (
    Point,
    announce,
    close,
    column_products,
    forget,
    in_order,
    iteration_cost,
    load,
    push_dual,
    push_primal,
    row_products,
    turn,
)


class RowState(NamedTuple):
    point: Point
    dy: np.ndarray
    dx: np.ndarray
    rows: object
    xbar: np.ndarray
    w: np.ndarray
    dw: np.ndarray


class ColumnState(NamedTuple):
    point: Point
    dy: np.ndarray
    dx: np.ndarray
    columns: object
    ybar: np.ndarray
    z: np.ndarray
    dz: np.ndarray


class FactorState(NamedTuple):
    """U as `rows` and V' as `columns`; w, ybar, z and xbar are their products with U and V.

    Further `kept`, the U'y that an iteration which leaves y as it was returns to.
    """

    point: Point
    dy: np.ndarray
    dx: np.ndarray
    d: int
    rows: DenseRows
    columns: DenseRows
    w: np.ndarray
    dw: np.ndarray
    ybar: np.ndarray
    z: np.ndarray
    dz: np.ndarray
    xbar: np.ndarray
    kept: np.ndarray


# Rows of A walked, A'y kept ---------------------------------------------------

@row_products.register(RowState, FactorState)
def products_with_rows(state, momentum, tile):
    rows_dot(state.rows, tile.order, tile.lo, tile.hi, state.xbar, state.dy)


@push_dual.register(RowState, FactorState)
def add_rows(state, boost, tile):
    rows_axpy(state.rows, tile.order, tile.lo, tile.hi, state.dy, state.dw)


@turn.register(RowState)
def drop_back_to_x(state, boost, previous):
    order, lo, hi = previous
    x = state.point.x
    if hi - lo == x.shape[0]:
        return                     # the next block is everything too, and overwrites it
    for k in range(lo, hi):
        j = index(order, k)
        state.xbar[j] = x[j]


@column_products.register(RowState)
def look_up_columns(state, boost, tile):
    order, lo, hi = tile
    for k in range(lo, hi):
        j = index(order, k)
        state.dx[k - lo] = state.w[j] + boost * state.dw[j]


@push_primal.register(RowState)
def extrapolate_x(state, momentum, tile):
    order, lo, hi = tile
    x = state.point.x
    for k in range(lo, hi):
        j = index(order, k)
        state.xbar[j] = x[j] + (momentum - 1.0) * state.dx[k - lo]


@close.register(RowState)
def absorb_rows(state, momentum, rows):
    absorb(state.rows, rows.order, rows.lo, rows.hi, state.w, state.dw)


@forget.register(RowState)
def discard_rows(state, rows):
    absorb(state.rows, rows.order, rows.lo, rows.hi, None, state.dw)


@announce.register(RowState, FactorState)
def fetch_rows(state, order, ahead):
    rows_prefetch(state.rows, order, ahead[0], ahead[1])


@iteration_cost.register(RowState)
def cost_of_rows(state, rows, columns):
    return 2 * rows_size(state.rows, rows.order, rows.lo, rows.hi)


@load.register(RowState)
def load_rows(state, operator, x_order, y_order):
    state.xbar[:] = state.point.x
    state.w[:] = in_order(operator.rmatvec(state.point.y), x_order)


# Columns of A walked, A x kept ------------------------------------------------

@row_products.register(ColumnState)
def look_up_rows(state, momentum, tile):
    order, lo, hi = tile
    for k in range(lo, hi):
        i = index(order, k)
        state.dy[k - lo] = state.z[i] + momentum * state.dz[i]


@push_dual.register(ColumnState)
def extrapolate_y(state, boost, tile):
    # Between iterations ybar is y, which a rule need not change.
    order, lo, hi = tile
    for k in range(lo, hi):
        state.ybar[index(order, k)] += boost * state.dy[k - lo]


@turn.register(ColumnState)
def absorb_columns(state, boost, previous):
    absorb(state.columns, previous.order, previous.lo, previous.hi, state.z, state.dz)


@column_products.register(ColumnState, FactorState)
def products_with_columns(state, boost, tile):
    rows_dot(state.columns, tile.order, tile.lo, tile.hi, state.ybar, state.dx)


@push_primal.register(ColumnState, FactorState)
def add_columns(state, momentum, tile):
    rows_axpy(state.columns, tile.order, tile.lo, tile.hi, state.dx, state.dz)


@close.register(ColumnState)
def drop_back_to_y(state, momentum, rows):
    forget(state, rows)


@forget.register(ColumnState)
def drop_back_to_any_y(state, rows):
    order, lo, hi = rows
    y = state.point.y
    for k in range(lo, hi):
        i = index(order, k)
        state.ybar[i] = y[i]


@iteration_cost.register(ColumnState)
def cost_of_columns(state, rows, columns):
    return 2 * rows_size(state.columns, columns.order, columns.lo, columns.hi)


@load.register(ColumnState)
def load_columns(state, operator, x_order, y_order):
    state.ybar[:] = state.point.y
    state.z[:] = in_order(operator.matvec(state.point.x), y_order)
    state.dz[:] = 0.0


# A = UV, U'y and Vx kept ------------------------------------------------------

@njit(inline=True)
def _extrapolate(base, delta, factor, bar):
    """bar = base + factor delta; base += delta; delta = 0."""
    for k in range(base.shape[0]):
        step = delta[k]
        bar[k] = base[k] + factor * step
        base[k] += step
        delta[k] = 0.0


@turn.register(FactorState)
def extrapolate_left_product(state, boost, previous):
    _extrapolate(state.w, state.dw, boost, state.ybar)


@close.register(FactorState)
def extrapolate_right_product(state, momentum, rows):
    _extrapolate(state.z, state.dz, momentum, state.xbar)


@forget.register(FactorState)
def return_to_kept(state, rows):
    for k in range(state.w.shape[0]):
        state.w[k] = state.kept[k]
    _extrapolate(state.z, state.dz, 1.0, state.xbar)


@iteration_cost.register(FactorState)
def cost_of_factors(state, rows, columns):
    # Rows may be padded with zeros for speed; those do not count.
    return 2 * state.d * ((rows.hi - rows.lo) + (columns.hi - columns.lo))


@load.register(FactorState)
def load_factors(state, operator, x_order, y_order):
    multiply_transposed(state.rows, state.point.y, state.w)
    multiply_transposed(state.columns, state.point.x, state.z)
    state.xbar[:] = state.z
    state.kept[:] = state.w


# From operators -----------------------------------------------------------------------------

def primal_dual_state(problem, dual, primal, kind, by_coordinate=False):
    """The state of the primal-dual loop on a problem, at x = 0 and y = 0.

    Parameters
    ----------
    problem : Problem
    dual, primal : Partition, Subset, Weighted or Stepped
        How blocks are drawn.
    kind : NamedTuple
        What rows are multiplied with, for states that move x lazily; see `lazy`.
    by_coordinate : bool
        Whether tau is one a coordinate.

    Returns
    -------
    state : NamedTuple, or an object where the blocks of x are matrices
    dual, primal : the samplers to use with it
        Where storage has been arranged by the blocks of a partition, the order is None:
        x, or y and b, are then in the order of the partition that was given, and a block
        is contiguous.
    x_order, y_order : ndarray or None
        Those orders, None where nothing was rearranged.
    """
    keep = "rows" if dual.inverse_probability >= primal.inverse_probability else "columns"
    state, *used = make_state(problem.operator, problem, keep, dual, primal, kind, by_coordinate)
    orders = (
        given.order if sampler.order is None else None
        for given, sampler in zip((primal, dual), reversed(used), strict=True)
    )
    return state, *used, *orders


@singledispatch
def make_state(operator, problem, keep, dual, primal, kind, by_coordinate):
    """`primal_dual_state` of a kind of operator: the state and the samplers to use with it.

    `keep` says whether to walk rows (and keep A'y) or columns (and keep A x), for
    operators where that is a choice.
    """
    raise TypeError(f"{type(operator).__name__} has no primal-dual state")


@singledispatch
def primal_dual_cost(operator, r, s):
    """Multiply-adds of an average iteration with that state, r = n/m and s = p/q."""
    return operator.multiply_adds / np.maximum(r, s)


def point_at_zero(problem, given, used, x=None):
    """x = 0 and y = 0, with labels in the order of the dual sampler that is used."""
    b = problem.b if used.order is not None else problem.b[given.order]
    x = np.zeros(problem.x_shape) if x is None else x
    return Point(x, np.zeros(problem.shape[0]), b, problem.reg)


@make_state.register(StoredOperator)
def stored_state(operator, problem, keep, dual, primal, kind, by_coordinate):
    n, p = operator.shape
    buffer = np.empty(TILE)
    if keep == "rows":
        rows, used = _numbered(operator.rows, primal)
        point = point_at_zero(problem, dual, dual)
        return RowState(point, buffer, buffer, rows, *np.zeros((3, p))), dual, used
    columns, used = _numbered(operator.columns, dual)
    point = point_at_zero(problem, dual, used)
    return ColumnState(point, buffer, buffer, columns, *np.zeros((3, n))), used, primal


def _numbered(rows, sampler):
    """Number the entries of rows by the blocks of a partition, if that is cheap."""
    if not isinstance(sampler, Partition):
        return rows, sampler
    if len(sampler.starts) > 2:
        if isinstance(rows, DenseRows):
            return rows, sampler
        position = np.empty(len(sampler.order), dtype=rows.indices.dtype)
        position[sampler.order] = np.arange(len(sampler.order))
        rows = rows._replace(indices=position[rows.indices])
    return rows, Partition(sampler.starts, None)


@make_state.register(FactorizedOperator)
def factor_state(operator, problem, keep, dual, primal, kind, by_coordinate):
    U, used_dual = _arranged(operator.U, dual)
    Vt, used_primal = _arranged(operator.Vt, primal)
    whole_lines = -(-U.shape[1] // 8) * 8
    kept = aligned((7, whole_lines))[:, :U.shape[1]]
    buffer = np.empty(TILE)
    point = point_at_zero(problem, dual, used_dual)
    state = FactorState(point, buffer, buffer, operator.d, DenseRows(U), DenseRows(Vt), *kept)
    return state, used_dual, used_primal


@primal_dual_cost.register(FactorizedOperator)
def factor_cost(operator, r, s):
    n, p = operator.shape
    return 2 * operator.d * (n / r + p / s)


def _arranged(matrix, sampler):
    """Rows of a partition's blocks side by side, so that a block is one stream."""
    if isinstance(sampler, Partition):
        if len(sampler.starts) > 2:
            matrix = np.take(matrix, sampler.order, axis=0, out=aligned(matrix.shape))
        return matrix, Partition(sampler.starts, None)
    return matrix, sampler

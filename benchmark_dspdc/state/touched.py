"""What PURE-CD keeps: x, w = A'y/n, and xbar, the point that the last proximal steps gave.

`primal_products` takes proximal steps of the coordinates of x that have entries in the
batch, and leaves them in xbar; `push` moves x to xbar less omega times the change of w.
So x is touched where w changes, and nowhere else.

`TouchedRows` walks stored rows: O(nnz) of them on sparse data.
`TouchedFactors` has A = UV: all of x is touched, and both products with V cost
O(p d), as for all methods whose x is nonlinear in A'y.
`TouchedBlocks` has matrices, and is plain Python.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, entry, generic
from ..engine.simd import aligned
from ..engine.symmetric import pack, unpack
from ..model.regularizers import primal_step, reg_prox
from ..operators.factorized import FactorizedOperator
from ..operators.matrix_blocks import BlockOperator, Plans
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    DenseRows,
    SparseRows,
    row_span,
    rows_axpy,
    rows_dot,
    rows_size,
)
from .dual import (
    DualPoint,
    announce_batch,
    batch_cost,
    fetch_batch,
    fetch_no_matrices,
    primal_moves,
    primal_products,
    push,
    rest,
)


class TouchedRows(NamedTuple):
    """tau is a number, or one a coordinate; dw is a buffer for the change of w."""

    point: DualPoint
    rows: object
    x: np.ndarray
    w: np.ndarray
    xbar: np.ndarray
    tau: object
    omega: float
    dw: np.ndarray

    @property
    def shown(self):
        """The last proximal point: where g is finite, and with its exact zeros."""
        return self.xbar.copy()


class TouchedFactors(NamedTuple):
    """U as `rows` and V' as `columns`; v and du are buffers for products with them."""

    point: DualPoint
    d: int
    rows: DenseRows
    columns: DenseRows
    x: np.ndarray
    w: np.ndarray
    xbar: np.ndarray
    tau: float
    omega: float
    dw: np.ndarray
    v: np.ndarray
    du: np.ndarray

    shown = TouchedRows.shown


class TouchedBlocks:
    """x written out, w and xbar packed; steps are weighted by the blocks' moduli."""

    #: As of `BlockKeptDual`.
    TOGETHER = 32

    def __init__(self, operator, point, x, w, tau, omega):
        self.operator, self.point, self.tau = operator, point, tau
        self.plans, self.blocks = Plans(operator, True), None
        self.x, self.w, self.xbar = x, w, pack(x)
        self.dw, self.wanted = operator.packed_zeros(), np.ones(len(x), dtype=bool)
        self.omega = omega * point.reg.weights

    @property
    def shown(self):
        """As of `TouchedRows`."""
        return unpack(self.xbar, self.operator.d)

    def some(self):
        """The blocks that are touched, a few at a time."""
        return np.split(self.blocks, range(self.TOGETHER, len(self.blocks), self.TOGETHER))


# Stored rows --------------------------------------------------------------------------------

@generic
def rows_prox_dot(rows, order, lo, hi, state, out):
    """Proximal steps of the coordinates that the rows touch; out[k] = <row k, xbar>."""


@generic
def rows_settle(rows, order, lo, hi, state):
    """x = xbar where the rows have entries."""


@generic
def rows_correct(rows, order, lo, hi, state, coef):
    """w += sum_k coef[k] row k, and x = xbar less omega times that where the rows have entries."""


@primal_products.register(TouchedRows)
def products_after_steps(state, order, lo, hi):
    rows_prox_dot(state.rows, order, lo, hi, state, state.point.buffer)
    return 0


@push.register(TouchedRows)
def push_touched(state, order, lo, hi):
    changes, n = state.point.buffer, state.point.b.shape[0]
    for k in range(hi - lo):
        changes[k] /= n
    rows_correct(state.rows, order, lo, hi, state, changes)
    return 0


@rest.register(TouchedRows)
def rest_touched(state, order, lo, hi):
    rows_settle(state.rows, order, lo, hi, state)


@batch_cost.register(TouchedRows)
def cost_of_touched(state, order, lo, hi):
    return 2 * rows_size(state.rows, order, lo, hi)


@generic
def rows_moves(rows, order, lo, hi):
    """Proximal steps that `rows_prox_dot` takes."""


@primal_moves.register(TouchedRows)
def moves_of_rows(state, order, lo, hi):
    return rows_moves(state.rows, order, lo, hi)


@rows_prox_dot.register(DenseRows)
def dense_prox_dot(rows, order, lo, hi, state, out):
    prox_all(state)
    rows_dot(rows, order, lo, hi, state.xbar, out)


@rows_settle.register(DenseRows)
def dense_settle(rows, order, lo, hi, state):
    settle_all(state)


@rows_correct.register(DenseRows)
def dense_correct(rows, order, lo, hi, state, coef):
    dw = state.dw
    for j in range(dw.shape[0]):
        dw[j] = 0.0
    rows_axpy(rows, order, lo, hi, coef, dw)
    correct_all(state)


@rows_moves.register(DenseRows)
def dense_moves(rows, order, lo, hi):
    return rows.a.shape[1]


@rows_prox_dot.register(SparseRows)
def sparse_prox_dot(rows, order, lo, hi, state, out):
    data, columns = rows.data, rows.indices
    reg, x, w, xbar, tau = state.point.reg, state.x, state.w, state.xbar, state.tau
    for k in range(lo, hi):
        start, end = row_span(rows, at(order, k))
        total = 0.0
        for e in range(start, end):
            j = columns[e]
            step = entry(tau, j)
            # A coordinate that two rows touch gets the same step twice, as x waits.
            new = reg_prox(reg, j, x[j] - step * w[j], step)
            xbar[j] = new
            total += data[e] * new
        out[k - lo] = total


@rows_settle.register(SparseRows)
def sparse_settle(rows, order, lo, hi, state):
    columns, x, xbar = rows.indices, state.x, state.xbar
    for k in range(lo, hi):
        start, end = row_span(rows, at(order, k))
        for e in range(start, end):
            x[columns[e]] = xbar[columns[e]]


@rows_correct.register(SparseRows)
def sparse_correct(rows, order, lo, hi, state, coef):
    data, columns = rows.data, rows.indices
    x, w, xbar, omega = state.x, state.w, state.xbar, state.omega
    if lo + 1 == hi:
        start, end = row_span(rows, at(order, lo))
        for e in range(start, end):
            j = columns[e]
            change = coef[0] * data[e]
            w[j] += change
            x[j] = xbar[j] - omega * change
        return
    rows_settle(rows, order, lo, hi, state)
    for k in range(lo, hi):
        c = coef[k - lo]
        if c != 0.0:
            start, end = row_span(rows, at(order, k))
            for e in range(start, end):
                j = columns[e]
                change = c * data[e]
                w[j] += change
                x[j] -= omega * change


@rows_moves.register(SparseRows)
def sparse_moves(rows, order, lo, hi):
    return rows_size(rows, order, lo, hi)


# All of x -----------------------------------------------------------------------------------

@generic
def prox_all(state):
    """xbar = prox of x - tau w."""


@generic
def settle_all(state):
    """x = xbar."""


@generic
def correct_all(state):
    """w += dw and x = xbar - omega dw."""


@prox_all.register(TouchedRows, TouchedFactors)
def prox_of_all(state):
    reg, x, w, xbar, tau = state.point.reg, state.x, state.w, state.xbar, state.tau
    for j in range(x.shape[0]):
        step = entry(tau, j)
        xbar[j] = reg_prox(reg, j, x[j] - step * w[j], step)


@settle_all.register(TouchedRows, TouchedFactors)
def settle_x(state):
    for j in range(state.x.shape[0]):
        state.x[j] = state.xbar[j]


@correct_all.register(TouchedRows, TouchedFactors)
def correct_x(state):
    x, w, xbar, dw, omega = state.x, state.w, state.xbar, state.dw, state.omega
    for j in range(x.shape[0]):
        w[j] += dw[j]
        x[j] = xbar[j] - omega * dw[j]


# A = UV -------------------------------------------------------------------------------------

@primal_products.register(TouchedFactors)
def products_with_both_factors(state, order, lo, hi):
    prox_all(state)
    for k in range(state.v.shape[0]):
        state.v[k] = 0.0
    rows_axpy(state.columns, None, 0, state.x.shape[0], state.xbar, state.v)
    rows_dot(state.rows, order, lo, hi, state.v, state.point.buffer)
    return 0


@push.register(TouchedFactors)
def push_both_factors(state, order, lo, hi):
    changes, n = state.point.buffer, state.point.b.shape[0]
    for k in range(hi - lo):
        changes[k] /= n
    for k in range(state.du.shape[0]):
        state.du[k] = 0.0
    rows_axpy(state.rows, order, lo, hi, changes, state.du)
    rows_dot(state.columns, None, 0, state.x.shape[0], state.du, state.dw)
    correct_all(state)
    return 0


@rest.register(TouchedFactors)
def rest_factors(state, order, lo, hi):
    settle_all(state)


@batch_cost.register(TouchedFactors)
def cost_of_both_factors(state, order, lo, hi):
    return 2 * state.d * ((hi - lo) + state.x.shape[0])


@primal_moves.register(TouchedFactors)
def moves_all(state, order, lo, hi):
    return state.x.shape[0]


# Matrices -----------------------------------------------------------------------------------

announce_batch.register(TouchedBlocks)(fetch_no_matrices)
fetch_batch.register(TouchedBlocks)(fetch_no_matrices)


@primal_products.register(TouchedBlocks)
def products_after_projections(state, order, lo, hi):
    plan = state.plans.turn_to(order, lo, hi)
    state.blocks = state.operator.touched(plan)
    done = 0
    for some in state.some():
        # x is the last proximal point less a correction: what it was before is not needed.
        w = unpack(state.w[some], state.operator.d)
        done += primal_step(
            state.point.reg, some, 0, len(some), state.x, state.tau, state.tau, w
        )
        state.xbar[some] = pack(state.x[some])
    state.operator.row_products(plan, state.xbar, state.point.buffer)
    return done


@push.register(TouchedBlocks)
def push_blocks(state, order, lo, hi):
    coef = state.point.buffer[:hi - lo] / state.operator.shape[0]
    state.operator.add_rows(state.plans.current, coef, state.w, state.dw, state.wanted)
    for some in state.some():
        state.x[some] -= state.omega[some, None, None] * unpack(state.dw[some], state.operator.d)
    return 0


@batch_cost.register(TouchedBlocks)
def cost_of_blocks(state, order, lo, hi):
    return 2 * state.operator.row_cost(state.plans.current)


@primal_moves.register(TouchedBlocks)
def moves_of_blocks(state, order, lo, hi):
    return len(state.blocks)


# From operators -----------------------------------------------------------------------------

def touched_state(problem, largest, tau, omega, x, y):
    """PURE-CD's state at x and y, which it keeps, for batches of at most so many rows."""
    operator, point = problem.operator, DualPoint(y, problem.b, problem.reg, np.empty(largest))
    w = operator.rmatvec_packed(y) / len(y) if y.any() else None
    return make_touched_state(operator, point, x, w, tau, omega)


@singledispatch
def make_touched_state(operator, point, x, w, tau, omega):
    """`touched_state` of a kind of operator; w None is zero."""
    raise TypeError(f"{type(operator).__name__} has no state for PURE-CD")


@make_touched_state.register(StoredOperator)
def touched_rows_state(operator, point, x, w, tau, omega):
    p = operator.shape[1]
    if np.ndim(tau):
        # What belongs to a coordinate side by side: random access then takes one line of memory.
        *vectors, steps = aligned((p, 4)).T
        steps[:], tau, dw = tau, steps, np.zeros(0)
    else:
        *vectors, dw = np.zeros((4, p))
    vectors[0][:] = vectors[2][:] = x
    vectors[1][:] = 0.0 if w is None else w
    return TouchedRows(point, operator.rows, *vectors, tau, omega, dw)


@make_touched_state.register(FactorizedOperator)
def touched_factors_state(operator, point, x, w, tau, omega):
    U, Vt = operator.U, operator.Vt
    w = np.zeros_like(x) if w is None else w
    return TouchedFactors(
        point, operator.d, DenseRows(U), DenseRows(Vt), x, w, x.copy(), tau, omega,
        np.zeros_like(x), *np.zeros((2, U.shape[1])),
    )


@make_touched_state.register(BlockOperator)
def touched_blocks_state(operator, point, x, w, tau, omega):
    return TouchedBlocks(operator, point, x, operator.packed_zeros() if w is None else w, tau,
                         omega)

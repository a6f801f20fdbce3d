"""What dual-only methods keep: w = -A'y/n, from which x = grad g*(w).

`KeptDual` walks stored rows and takes x from w entry by entry on the way.
`FactorKeptDual` has A = UV: after each change of y the products w = -V'u/n
and v = V x are renewed, which costs O(p d) an iteration; there is no way
around it for a nonlinear x(w) (the paper's table 1 says the same).
`BlockKeptDual` has matrices, and is plain Python.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, generic, index
from ..engine.kernel_cache import njit
from ..engine.simd import prefetch
from ..engine.symmetric import pack, unpack
from ..model.regularizers import (
    conjugate_blocks,
    reg_conjugate,
    reg_conjugate_gradient,
    reg_modulus,
    reg_threshold,
    reg_thresholds,
    reg_value,
)
from ..operators.factorized import FactorizedOperator
from ..operators.matrix_blocks import BlockOperator, Plans
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    DenseRows,
    SparseRows,
    row_span,
    rows_announce,
    rows_axpy,
    rows_dot,
    rows_prefetch,
    rows_size,
)


class DualPoint(NamedTuple):
    """y, its labels, the regulariser, and a buffer for the products of a batch."""

    y: np.ndarray
    b: np.ndarray
    reg: object
    buffer: np.ndarray


class KeptDual(NamedTuple):
    point: DualPoint
    rows: object
    w: np.ndarray
    n: float


class FactorKeptDual(NamedTuple):
    """U as `rows` and V' as `columns`."""

    point: DualPoint
    d: int
    rows: DenseRows
    columns: DenseRows
    w: np.ndarray
    x: np.ndarray
    v: np.ndarray
    du: np.ndarray
    n: float


class BlockKeptDual:
    """w = -A'y/n kept, and x = grad g*(w) of the blocks where w has changed renewed."""

    #: Blocks that are renewed together: enough for the threads, not so many as to need much
    #: memory.
    TOGETHER = 32

    def __init__(self, operator, point, fixed):
        self.point, self.operator = point, operator
        self.plans = Plans(operator, fixed)
        self.w, self.x = operator.packed_zeros(), operator.packed_zeros()

    def renew(self, blocks):
        """Returns the number of eigendecompositions done."""
        done = 0
        for k in range(0, len(blocks), self.TOGETHER):
            some = blocks[k:k + self.TOGETHER]
            matrices = unpack(self.w[some], self.operator.d)
            done += conjugate_blocks(self.point.reg, some, matrices)
            self.x[some] = pack(matrices)
        return done


@generic
def primal_products(state, order, lo, hi):
    """buffer[k] = <A_i, x> with x = grad g*(w), or as the state has it.

    Returns the number of eigendecompositions done.
    """


@generic
def push(state, order, lo, hi):
    """Take note of y_i += buffer[k], and renew what depends on it.

    Returns the number of eigendecompositions done.
    """


@generic(default=True)
def rest(state, order, lo, hi):
    """End an iteration that leaves y as it was, in place of `push`."""


@generic(default=True)
def primal_moves(state, order, lo, hi):
    """Proximal steps of primal coordinates that go with a batch."""
    return 0


@generic(default=True)
def refresh(state):
    """Renew what depends on w; once, before the first iteration.

    Returns the number of eigendecompositions done.
    """
    return 0


@generic(default=True)
def announce_batch(state, order, lo):
    """A batch that comes later: a hint to fetch where its first row is."""
    rows_announce(state.rows, order, lo)


@generic(default=True)
def fetch_batch(state, order, lo, hi, rho):
    """A batch that comes soon: a hint to fetch its rows and dual coordinates."""
    i = index(order, lo)
    prefetch(state.point.y, i)
    prefetch(state.point.b, i)
    prefetch(rho, i)
    rows_prefetch(state.rows, order, lo, hi)


@generic
def batch_cost(state, order, lo, hi):
    """Multiply-adds of `primal_products` and `push` for a batch."""


@njit(inline=True)
def _add_changes(state, order, lo, hi, out):
    """out -= sum_k buffer[k] row k/n."""
    changes = state.point.buffer
    for k in range(hi - lo):
        changes[k] *= -1.0 / state.n
    rows_axpy(state.rows, order, lo, hi, changes, out)


@singledispatch
def conjugate_at(state):
    """g*(w)."""
    return reg_conjugate(state.point.reg, state.w)


# Stored rows --------------------------------------------------------------------------------

@primal_products.register(KeptDual)
def products_through_conjugate(state, order, lo, hi):
    rows_dot_conjugate(state.rows, order, lo, hi, state.point.reg, state.w, state.point.buffer)
    return 0


@push.register(KeptDual)
def push_rows(state, order, lo, hi):
    _add_changes(state, order, lo, hi, state.w)
    return 0


@batch_cost.register(KeptDual)
def cost_of_rows(state, order, lo, hi):
    return 2 * rows_size(state.rows, order, lo, hi)


# A = UV -------------------------------------------------------------------------------------

@primal_products.register(FactorKeptDual)
def products_with_left_factor(state, order, lo, hi):
    rows_dot(state.rows, order, lo, hi, state.v, state.point.buffer)
    return 0


@push.register(FactorKeptDual)
def push_factors(state, order, lo, hi):
    state.du[:] = 0.0
    _add_changes(state, order, lo, hi, state.du)
    p = state.w.shape[0]
    rows_dot(state.columns, None, 0, p, state.du, state.x)
    for j in range(p):
        state.w[j] += state.x[j]
    return refresh(state)


@refresh.register(FactorKeptDual)
def refresh_factors(state):
    p = state.w.shape[0]
    for j in range(p):
        state.x[j] = reg_conjugate_gradient(state.point.reg, j, state.w[j])
    state.v[:] = 0.0
    rows_axpy(state.columns, None, 0, p, state.x, state.v)
    return 0


@batch_cost.register(FactorKeptDual)
def cost_of_factors(state, order, lo, hi):
    return 2 * state.d * ((hi - lo) + state.w.shape[0])


# Matrices -----------------------------------------------------------------------------------

@announce_batch.register(BlockKeptDual)
@fetch_batch.register(BlockKeptDual)
def fetch_no_matrices(*_):
    pass


@primal_products.register(BlockKeptDual)
def products_with_matrices(state, order, lo, hi):
    plan = state.plans.turn_to(order, lo, hi)
    state.operator.row_products(plan, state.x, state.point.buffer)
    return 0


@push.register(BlockKeptDual)
def push_matrices(state, order, lo, hi):
    coef = state.point.buffer[:hi - lo] / -state.operator.shape[0]
    blocks = state.operator.add_rows(state.plans.current, coef, state.w)
    return refresh(state) if blocks is None else state.renew(blocks)


@refresh.register(BlockKeptDual)
def refresh_matrices(state):
    return state.renew(np.arange(len(state.w)))


@conjugate_at.register(BlockKeptDual)
def conjugate_at_matrices(state):
    # By Fenchel's equality, as x = grad g*(w) is kept.
    x = unpack(state.x, state.operator.d)
    return float(np.vdot(state.w, state.x)) - reg_value(state.point.reg, x)


@batch_cost.register(BlockKeptDual)
def cost_of_matrices(state, order, lo, hi):
    return 2 * state.operator.row_cost(state.plans.current)


# Products with grad g*(w), which is taken entry by entry on the way ---------------------------

@generic
def rows_dot_threshold(rows, order, lo, hi, reg, w, out):
    """out[k] = <row k, lam grad g*(w)>."""


@njit(inline=True)
def rows_dot_conjugate(rows, order, lo, hi, reg, w, out):
    """out[k] = <row k, grad g*(w)>."""
    if reg_thresholds(reg):
        rows_dot_threshold(rows, order, lo, hi, reg, w, out)
    else:
        rows_dot(rows, order, lo, hi, w, out)
    scale = 1.0 / reg_modulus(reg)
    for k in range(hi - lo):
        out[k] *= scale


@rows_dot_threshold.register(DenseRows)
def dense_dot_threshold(rows, order, lo, hi, reg, w, out):
    a = rows.a
    d = a.shape[1]
    k = lo
    while k + 4 <= hi:
        i0 = at(order, k)
        i1 = at(order, k + 1)
        i2 = at(order, k + 2)
        i3 = at(order, k + 3)
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for j in range(d):
            xj = reg_threshold(reg, j, w[j])
            s0 += a[i0, j] * xj
            s1 += a[i1, j] * xj
            s2 += a[i2, j] * xj
            s3 += a[i3, j] * xj
        out[k - lo] = s0
        out[k - lo + 1] = s1
        out[k - lo + 2] = s2
        out[k - lo + 3] = s3
        k += 4
    while k < hi:
        i = at(order, k)
        s0 = 0.0
        for j in range(d):
            s0 += a[i, j] * reg_threshold(reg, j, w[j])
        out[k - lo] = s0
        k += 1


@rows_dot_threshold.register(SparseRows)
def sparse_dots_threshold(rows, order, lo, hi, reg, w, out):
    data, columns = rows.data, rows.indices
    for k in range(lo, hi):
        start, end = row_span(rows, at(order, k))
        out[k - lo] = _sparse_dot_threshold(data, columns, start, end, reg, w)


@njit(inline=True, reassociate=False)
def _sparse_dot_threshold(data, columns, start, end, reg, w):
    one, two = np.uint64(1), np.uint64(2)
    s0 = 0.0
    s1 = 0.0
    e = start
    while e + two <= end:
        j0, j1 = columns[e], columns[e + one]
        s0 += data[e] * reg_threshold(reg, j0, w[j0])
        s1 += data[e + one] * reg_threshold(reg, j1, w[j1])
        e += two
    if e < end:
        s0 += data[e] * reg_threshold(reg, columns[e], w[columns[e]])
    return s0 + s1


# From operators -----------------------------------------------------------------------------

def dual_state(problem, largest, fixed=True):
    """State for dual-only methods at y = 0, for batches of at most so many rows, fixed or not."""
    n = problem.shape[0]
    point = DualPoint(np.zeros(n), problem.b, problem.reg, np.empty(largest))
    return make_dual_state(problem.operator, point, fixed)


@singledispatch
def make_dual_state(operator, point, fixed):
    """`dual_state` of a kind of operator."""
    raise TypeError(f"{type(operator).__name__} has no dual state")


@singledispatch
def dual_cost(operator, r):
    """Multiply-adds of an average batch with that state, r = n/m."""
    return operator.multiply_adds / r


@make_dual_state.register(StoredOperator)
def stored_dual_state(operator, point, fixed):
    n, p = operator.shape
    return KeptDual(point, operator.rows, np.zeros(p), float(n))


@make_dual_state.register(FactorizedOperator)
def factor_dual_state(operator, point, fixed):
    U, Vt, (n, p) = operator.U, operator.Vt, operator.shape
    return FactorKeptDual(
        point, operator.d, DenseRows(U), DenseRows(Vt), *np.zeros((2, p)),
        *np.zeros((2, U.shape[1])), float(n),
    )


@dual_cost.register(FactorizedOperator)
def factor_dual_cost(operator, r):
    n, p = operator.shape
    return 2 * operator.d * (n / r + p)


make_dual_state.register(BlockOperator)(BlockKeptDual)

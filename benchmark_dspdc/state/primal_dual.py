"""What DSPDC keeps between iterations so that both its products are cheap.

An iteration needs <A_i, xbar> for a few rows and <A^j, ybar> for a few
columns, xbar and ybar being extrapolated points that differ from x and y only
on the blocks updated last. There are three ways to have both, and one kernel
runs on any of them:

`RowCoupling` (n/m >= p/q)
    keeps A'y and the vector xbar; walks rows of A. O(m p), or O(nnz(I) + q).
`ColumnCoupling` (n/m < p/q)
    keeps A x and the vector ybar; walks columns of A. O(q n), or O(nnz(J) + m).
`FactorCoupling`, A = UV
    keeps U'y and V x (Algorithm 2 of the paper). O(d (m + q)).

A kept product is stored as a pair (base, delta): delta is what the current
iteration added, so that base + r delta is the product with the extrapolated
point, and absorbing it costs no more than creating it did. An extrapolated
vector drops back to the plain one where the previous iteration moved it.

The calls of one iteration, in order: `announce` and `expect`, which are hints,
`row_products` and `push_dual` for each tile of the dual block, `turn`, then
`column_products` and `push_primal` for each tile of the primal block, `close`.
In between, `turn` is given the primal block of the previous iteration.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic, index
from ..engine.kernel_cache import njit
from ..engine.sampling import Partition
from ..operators.factorized import FactorizedOperator
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    DenseRows,
    absorb,
    aligned,
    discard,
    multiply_transposed,
    rows_axpy,
    rows_dot,
    rows_prefetch,
    rows_size,
)


class RowCoupling(NamedTuple):
    rows: object
    xbar: np.ndarray
    w: np.ndarray
    dw: np.ndarray

    def load(self, operator, x, y):
        """Keep what belongs to x and y, both in the kernel's order."""
        self.xbar[:] = x
        self.w[:] = operator.rmatvec(y)


class ColumnCoupling(NamedTuple):
    columns: object
    ybar: np.ndarray
    z: np.ndarray
    dz: np.ndarray


class FactorCoupling(NamedTuple):
    d: int
    U: DenseRows
    Vt: DenseRows
    u: np.ndarray
    du: np.ndarray
    ubar: np.ndarray
    v: np.ndarray
    dv: np.ndarray
    vbar: np.ndarray

    def load(self, operator, x, y):
        multiply_transposed(self.U, y, self.u)
        multiply_transposed(self.Vt, x, self.v)
        self.vbar[:] = self.v


@generic
def row_products(c, momentum, order, lo, hi, out):
    """out[k] = <A_i, xbar>, with xbar = x_old + momentum (x - x_old)."""


@generic
def push_dual(c, boost, order, lo, hi, y, dy):
    """Take note of y_i += dy[k] (y is the new vector, dy the change)."""


@generic
def turn(c, boost, order, lo, hi, x):
    """End the dual half; forget the extrapolation of the previous primal block."""


@generic
def column_products(c, boost, order, lo, hi, out):
    """out[k] = <A^j, ybar>, with ybar = y_old + boost (y - y_old)."""


@generic
def push_primal(c, momentum, order, lo, hi, x, dx):
    """Take note of x_j += dx[k]."""


@generic
def close(c, momentum, order, lo, hi, y):
    """End the iteration; ``order[lo:hi]`` is its dual block."""


@generic
def forget(c, base, order, lo, hi):
    """End an iteration that leaves y as it was; base is a copy of the product with y kept."""


@generic
def announce(c, order, lo, hi):
    """The next iteration will have this dual block; a hint to fetch its rows."""


@generic
def expect(c, order, lo, hi):
    """This iteration will have this primal block, if lo >= 0; before its dual half."""


@generic
def iteration_cost(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    """Multiply-adds of an iteration with these blocks."""


# Rows of A walked, A'y kept ---------------------------------------------------

@row_products.register(RowCoupling)
def _(c, momentum, order, lo, hi, out):
    rows_dot(c.rows, order, lo, hi, c.xbar, out)


@push_dual.register(RowCoupling)
def _(c, boost, order, lo, hi, y, dy):
    rows_axpy(c.rows, order, lo, hi, dy, c.dw)


@turn.register(RowCoupling)
def _(c, boost, order, lo, hi, x):
    if hi - lo == x.shape[0]:
        return                     # the next block is everything too, and overwrites it
    for k in range(lo, hi):
        j = index(order, k)
        c.xbar[j] = x[j]


@column_products.register(RowCoupling)
def _(c, boost, order, lo, hi, out):
    for k in range(lo, hi):
        j = index(order, k)
        out[k - lo] = c.w[j] + boost * c.dw[j]


@push_primal.register(RowCoupling)
def _(c, momentum, order, lo, hi, x, dx):
    for k in range(lo, hi):
        j = index(order, k)
        c.xbar[j] = x[j] + (momentum - 1.0) * dx[k - lo]


@close.register(RowCoupling)
def _(c, momentum, order, lo, hi, y):
    absorb(c.rows, order, lo, hi, c.w, c.dw)


@forget.register(RowCoupling)
def _(c, base, order, lo, hi):
    discard(c.rows, order, lo, hi, c.dw)


@announce.register(RowCoupling)
def _(c, order, lo, hi):
    rows_prefetch(c.rows, order, lo, hi)


@expect.register(RowCoupling)
def _(c, order, lo, hi):
    pass


@iteration_cost.register(RowCoupling)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * rows_size(c.rows, dual_order, dual_lo, dual_hi)


# Columns of A walked, A x kept ------------------------------------------------

@row_products.register(ColumnCoupling)
def _(c, momentum, order, lo, hi, out):
    for k in range(lo, hi):
        i = index(order, k)
        out[k - lo] = c.z[i] + momentum * c.dz[i]


@push_dual.register(ColumnCoupling)
def _(c, boost, order, lo, hi, y, dy):
    for k in range(lo, hi):
        i = index(order, k)
        c.ybar[i] = y[i] + (boost - 1.0) * dy[k - lo]


@turn.register(ColumnCoupling)
def _(c, boost, order, lo, hi, x):
    absorb(c.columns, order, lo, hi, c.z, c.dz)


@column_products.register(ColumnCoupling)
def _(c, boost, order, lo, hi, out):
    rows_dot(c.columns, order, lo, hi, c.ybar, out)


@push_primal.register(ColumnCoupling)
def _(c, momentum, order, lo, hi, x, dx):
    rows_axpy(c.columns, order, lo, hi, dx, c.dz)


@close.register(ColumnCoupling)
def _(c, momentum, order, lo, hi, y):
    for k in range(lo, hi):
        i = index(order, k)
        c.ybar[i] = y[i]


@announce.register(ColumnCoupling)
def _(c, order, lo, hi):
    pass


@expect.register(ColumnCoupling)
def _(c, order, lo, hi):
    pass


@iteration_cost.register(ColumnCoupling)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * rows_size(c.columns, primal_order, primal_lo, primal_hi)


# A = UV, U'y and Vx kept ------------------------------------------------------

@njit(inline=True)
def _extrapolate(base, delta, factor, bar):
    """bar = base + factor delta; base += delta; delta = 0."""
    for k in range(base.shape[0]):
        step = delta[k]
        bar[k] = base[k] + factor * step
        base[k] += step
        delta[k] = 0.0


@row_products.register(FactorCoupling)
def _(c, momentum, order, lo, hi, out):
    rows_dot(c.U, order, lo, hi, c.vbar, out)


@push_dual.register(FactorCoupling)
def _(c, boost, order, lo, hi, y, dy):
    rows_axpy(c.U, order, lo, hi, dy, c.du)


@turn.register(FactorCoupling)
def _(c, boost, order, lo, hi, x):
    _extrapolate(c.u, c.du, boost, c.ubar)


@column_products.register(FactorCoupling)
def _(c, boost, order, lo, hi, out):
    rows_dot(c.Vt, order, lo, hi, c.ubar, out)


@push_primal.register(FactorCoupling)
def _(c, momentum, order, lo, hi, x, dx):
    rows_axpy(c.Vt, order, lo, hi, dx, c.dv)


@close.register(FactorCoupling)
def _(c, momentum, order, lo, hi, y):
    _extrapolate(c.v, c.dv, momentum, c.vbar)


@forget.register(FactorCoupling)
def _(c, base, order, lo, hi):
    for k in range(c.u.shape[0]):
        c.u[k] = base[k]
    _extrapolate(c.v, c.dv, 1.0, c.vbar)


@announce.register(FactorCoupling)
def _(c, order, lo, hi):
    rows_prefetch(c.U, order, lo, hi)


@expect.register(FactorCoupling)
def _(c, order, lo, hi):
    pass


@iteration_cost.register(FactorCoupling)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    # Rows may be padded with zeros for speed; those do not count.
    return 2 * c.d * ((dual_hi - dual_lo) + (primal_hi - primal_lo))


# From operators -----------------------------------------------------------------------------

@singledispatch
def primal_dual_state(operator, keep, dual, primal):
    """State for DSPDC's kernel, at x = 0 and y = 0.

    Parameters
    ----------
    operator : Operator
    keep : {"rows", "columns"}
        Whether to walk rows (and keep A'y) or columns (and keep A x), for
        operators where that is a choice.
    dual, primal : Partition or Subset
        How blocks are drawn.

    Returns
    -------
    coupling : NamedTuple
    dual, primal : the samplers to use with it
        Where the operator has arranged its storage by the blocks of a
        partition, the order is None: x, or y and b, are then in the order
        of the partition that was given, and a block is contiguous.
    """
    raise TypeError(f"{type(operator).__name__} has no primal-dual state")


@singledispatch
def primal_dual_cost(operator, r, s):
    """Multiply-adds of an average iteration with that state, r = n/m and s = p/q."""
    return operator.multiply_adds / np.maximum(r, s)


@primal_dual_state.register(StoredOperator)
def stored_state(operator, keep, dual, primal):
    n, p = operator.shape
    if keep == "rows":
        rows, primal = _numbered(operator.rows, primal)
        return RowCoupling(rows, *np.zeros((3, p))), dual, primal
    columns, dual = _numbered(operator.columns, dual)
    return ColumnCoupling(columns, *np.zeros((3, n))), dual, primal


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


@primal_dual_state.register(FactorizedOperator)
def factor_state(operator, keep, dual, primal):
    U, dual = _arranged(operator.U, dual)
    Vt, primal = _arranged(operator.Vt, primal)
    whole_lines = -(-U.shape[1] // 8) * 8
    kept = aligned((6, whole_lines))[:, :U.shape[1]]
    return FactorCoupling(operator.d, DenseRows(U), DenseRows(Vt), *kept), dual, primal


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

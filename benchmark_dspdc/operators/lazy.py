"""Rows of a sparse matrix, for methods that move all of x in every iteration.

Such an iteration moves a coordinate outside the rows drawn by a proximal step
with the gradient it had before. So it need not be touched: when it is asked
for, all the steps since are made up for at once, by the closed form that
`benchmark_dspdc.regularizers.coast` has. An iteration then costs O(nnz(I)),
not O(p).
"""

from typing import NamedTuple

import numpy as np

from ..jit import at, njit
from ..regularizers import coast, coast_and_add, reg_prox
from ..rules import dual_step
from . import couplings
from .rows import SparseRows, row_span, rows_axpy, rows_prefetch, rows_size


class LazyRows(NamedTuple):
    """As `RowCoupling`, with x up to date only where ``last`` is the clock.

    Attributes
    ----------
    rows : SparseRows
    before : ndarray of shape (p,)
        x one iteration before ``last``, for the extrapolation.
    w, dw : ndarray of shape (p,)
        A'y, and what the current iteration adds to it.
    last : ndarray of shape (p,)
        The iteration that x_j is of.
    clock : ndarray of shape (1,)
        Iterations done.
    total : ndarray of shape (p,) or (0,)
        The sum of all iterates, as far as x_j is; only if it has entries.
    """

    rows: SparseRows
    before: np.ndarray
    w: np.ndarray
    dw: np.ndarray
    last: np.ndarray
    clock: np.ndarray
    total: np.ndarray

    def load(self, operator, x, y):
        """Keep what belongs to x, which must be up to date, and y."""
        self.before[:] = x
        self.w[:] = operator.rmatvec(y)
        self.last[:] = 0
        self.clock[:] = 0


def lazy_rows(rows, p):
    """At x = 0 and y = 0, without a sum."""
    return LazyRows(
        rows, np.zeros(p), np.zeros(p), np.zeros(p), np.zeros(p, dtype=np.int64),
        np.zeros(1, dtype=np.int64), np.zeros(0),
    )


@njit(inline=True)
def _make_up(c, reg, constants, x, j, now):
    """Bring x_j up to date."""
    behind = now - c.last[j]
    if behind == 0:
        return
    gradient = c.w[j] * (constants.tau_over_n / constants.tau)
    if c.total.shape[0] > 0:
        x[j], added = coast_and_add(reg, constants.coasting, x[j], gradient, behind)
        c.total[j] += added
    elif constants.momentum == 1.0:
        x[j] = coast(reg, constants.coasting, x[j], gradient, behind)
    else:
        before = coast(reg, constants.coasting, x[j], gradient, behind - 1)
        c.before[j] = before
        x[j] = reg_prox(reg, before - constants.tau * gradient, constants.tau)
    c.last[j] = now


@njit
def lazy_dual_half(c, rule, reg, order, lo, hi, b, x, y, constants, dy):
    """Products with the rows at the extrapolated point, the rule, and A'dy."""
    now = c.clock[0]
    tile = dy.shape[0]
    data, columns = c.rows.data, c.rows.indices
    theta = constants.momentum - 1.0
    for k in range(lo, hi, tile):
        end = min(k + tile, hi)
        for l in range(k, end):
            start, stop = row_span(c.rows, at(order, l))
            product = 0.0
            for e in range(start, stop):
                j = columns[e]
                _make_up(c, reg, constants, x, j, now)
                value = x[j]
                if theta != 0.0:
                    value += theta * (value - c.before[j])
                product += data[e] * value
            dy[l - k] = product
        dual_step(rule, order, k, end, b, y, dy)
        rows_axpy(c.rows, order, k, end, dy, c.dw)


@njit
def lazy_primal_half(c, reg, order, lo, hi, x, constants, absorb):
    """The proximal step of the coordinates in the rows ``order[lo:hi]``; ends the iteration.

    With `absorb` what the iteration added stays in A'y.
    """
    now = c.clock[0]
    columns = c.rows.indices
    for k in range(lo, hi):
        start, stop = row_span(c.rows, at(order, k))
        for e in range(start, stop):
            j = columns[e]
            if c.last[j] > now:
                continue
            added = c.dw[j]
            product = c.w[j] + constants.boost * added
            if absorb:
                c.w[j] += added
            c.dw[j] = 0.0
            old = x[j]
            new = reg_prox(reg, old - constants.tau_over_n * product, constants.tau)
            c.before[j] = old
            x[j] = new
            c.last[j] = now + 1
            if c.total.shape[0] > 0:
                c.total[j] += new
    c.clock[0] = now + 1


@njit
def settle(c, reg, x, constants):
    """Bring all of x up to date."""
    for j in range(x.shape[0]):
        _make_up(c, reg, constants, x, j, c.clock[0])


def settled(c, reg, x, constants):
    """All of x as of now; what is kept is left as it is."""
    x = x.copy()
    copies = c._replace(before=c.before.copy(), last=c.last.copy(), total=c.total.copy())
    settle(copies, reg, x, constants)
    return x


@couplings.announce.register(LazyRows)
def _(c, order, lo, hi):
    rows_prefetch(c.rows, order, lo, hi)


@couplings.expect.register(LazyRows)
def _(c, order, lo, hi):
    pass


@couplings.turn.register(LazyRows)
def _(c, boost, order, lo, hi, x):
    pass


@couplings.close.register(LazyRows)
def _(c, momentum, order, lo, hi, y):
    pass


@couplings.forget.register(LazyRows)
def _(c, base, order, lo, hi):
    pass                                     # the primal half has done it


@couplings.iteration_cost.register(LazyRows)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * rows_size(c.rows, dual_order, dual_lo, dual_hi)

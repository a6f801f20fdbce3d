"""Rows of a sparse matrix, for methods that move all of x in every iteration.

Such an iteration moves a coordinate outside the rows drawn by a proximal step
with the gradient it had before. So it need not be touched: when it is asked
for, all the steps since are made up for at once, by the closed form that
`benchmark_dspdc.model.regularizers.coast` has. An iteration then costs O(nnz(I)),
not O(p).
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, generic
from ..engine.kernel_cache import njit
from ..engine.sampling import Partition
from ..engine.simd import prefetch
from ..model.dual_rules import dual_step
from ..model.regularizers import coast, coast_and_add, reg_prox
from ..operators.row_loops import SparseRows, aligned, row_span, rows_prefetch, rows_size
from ..operators.sparse import SparseOperator
from . import primal_dual as couplings


class Plain(NamedTuple):
    """Nothing but x is asked for."""

    width: int = 4


class Extrapolated(NamedTuple):
    """Rows are multiplied with x + theta (x - x one iteration before)."""

    width: int = 8


class Summed(NamedTuple):
    """The sum of all iterates is kept."""

    width: int = 8


#: What the doubles of a coordinate are. Together they are a cache line, or half of one.
X, W, LAST, DW, BEFORE, TOTAL, POINT, SNAPSHOT = range(8)


class LazyRows(NamedTuple):
    """As `RowCoupling`, with a coordinate up to date only where ``LAST`` is the clock.

    Attributes
    ----------
    kind : NamedTuple
        What has to be made up for.
    rows : SparseRows
    state : ndarray of shape (p, kind.width)
        x, A'y, the iteration that these are of, and what the current iteration
        adds to A'y; further x one iteration before, and sums.
    clock : ndarray of shape (2,)
        Iterations done, and the row of the next one, if it is a single one, or -1.
    """

    kind: object
    rows: SparseRows
    state: np.ndarray
    clock: np.ndarray

    @property
    def x(self):
        return self.state[:, X]

    @property
    def total(self):
        return self.state[:, TOTAL]

    def copied(self):
        """The same with its own memory, but for the matrix."""
        return self._replace(state=self.state.copy(), clock=self.clock.copy())

    def load(self, operator, x, y):
        """Keep what belongs to x, which must be up to date, and y."""
        if isinstance(self.kind, Extrapolated):
            self.state[:, BEFORE] = x
        self.state[:, W] = operator.rmatvec(y)
        self.state[:, LAST] = 0.0
        self.clock[0] = 0


def lazy_rows(rows, p, kind):
    """At x = 0 and y = 0."""
    return LazyRows(kind, rows, aligned((p, kind.width)), np.array([0, -1]))


@njit(inline=True)
def fetch_states(c, i):
    """Ask for the states of a row's coordinates, all at once; they lie anywhere in memory."""
    columns = c.rows.indices
    width = c.state.shape[1]
    start, stop = row_span(c.rows, i)
    for e in range(start, stop):
        prefetch(c.state, np.int64(columns[e]) * width)


@generic
def make_up(kind, state, reg, constants, j, now):
    """Bring the coordinate j up to date, and return what rows are multiplied with."""


@generic
def take_step(kind, state, reg, j, now, constants, added):
    """The proximal step of the coordinate j, which must be up to date."""


@make_up.register(Plain)
def _(kind, state, reg, constants, j, now):
    x = state[j, X]
    behind = np.int64(now - state[j, LAST])
    if behind > 0:
        gradient = state[j, W] * constants.over_n
        x = coast(reg, constants.coasting, x, gradient, behind)
        state[j, X] = x
        state[j, LAST] = now
    return x


@make_up.register(Extrapolated)
def _(kind, state, reg, constants, j, now):
    x = state[j, X]
    behind = np.int64(now - state[j, LAST])
    if behind > 0:
        gradient = state[j, W] * constants.over_n
        before = coast(reg, constants.coasting, x, gradient, behind - 1)
        x = reg_prox(reg, before - constants.tau * gradient, constants.tau)
        state[j, BEFORE] = before
        state[j, X] = x
        state[j, LAST] = now
    return x + (constants.momentum - 1.0) * (x - state[j, BEFORE])


@make_up.register(Summed)
def _(kind, state, reg, constants, j, now):
    x = state[j, X]
    behind = np.int64(now - state[j, LAST])
    if behind > 0:
        gradient = state[j, W] * constants.over_n
        x, added = coast_and_add(reg, constants.coasting, x, gradient, behind)
        state[j, TOTAL] += added
        state[j, X] = x
        state[j, LAST] = now
    return x


@njit(inline=True)
def _stepped(state, reg, j, constants, added):
    """x_j after a proximal step with A'y as if it had changed by r times `added`."""
    product = state[j, W] + constants.boost * added
    return reg_prox(reg, state[j, X] - constants.tau_over_n * product, constants.tau)


@take_step.register(Plain)
def _(kind, state, reg, j, now, constants, added):
    state[j, X] = _stepped(state, reg, j, constants, added)
    state[j, LAST] = now + 1


@take_step.register(Extrapolated)
def _(kind, state, reg, j, now, constants, added):
    new = _stepped(state, reg, j, constants, added)
    state[j, BEFORE] = state[j, X]
    state[j, X] = new
    state[j, LAST] = now + 1


@take_step.register(Summed)
def _(kind, state, reg, j, now, constants, added):
    new = _stepped(state, reg, j, constants, added)
    state[j, X] = new
    state[j, TOTAL] += new
    state[j, LAST] = now + 1


@njit(inline=True)
def lazy_dual_half(c, rule, reg, order, lo, hi, b, y, constants, dy):
    """Products with the rows, and the rule.

    Of a single row the change stays in ``dy[0]``; of several A'dy is added up.
    """
    now = c.clock[0]
    tile = dy.shape[0]
    data, columns, state = c.rows.data, c.rows.indices, c.state
    for k in range(lo, hi, tile):
        end = min(k + tile, hi)
        for l in range(k, end):
            if hi - lo > 1:
                fetch_states(c, at(order, l))
            start, stop = row_span(c.rows, at(order, l))
            product = 0.0
            for e in range(start, stop):
                product += data[e] * make_up(c.kind, state, reg, constants, columns[e], now)
            dy[l - k] = product
        dual_step(rule, order, k, end, b, y, dy)
        if hi - lo > 1:
            _add_up(c, order, k, end, dy)


@njit(inline=True)
def _add_up(c, order, lo, hi, dy):
    data, columns, state = c.rows.data, c.rows.indices, c.state
    for k in range(lo, hi):
        start, stop = row_span(c.rows, at(order, k))
        for e in range(start, stop):
            state[columns[e], DW] += dy[k - lo] * data[e]


@njit(inline=True)
def lazy_primal_half(c, reg, order, lo, hi, constants, absorb, dy):
    """The proximal step of the coordinates in the rows ``order[lo:hi]``; ends the iteration.

    With `absorb` what the iteration added stays in A'y.
    """
    now = c.clock[0]
    data, columns, state = c.rows.data, c.rows.indices, c.state
    if hi - lo > 1:
        for k in range(lo, hi):
            start, stop = row_span(c.rows, at(order, k))
            for e in range(start, stop):
                j = columns[e]
                if state[j, LAST] <= now:
                    added = state[j, DW]
                    state[j, DW] = 0.0
                    take_step(c.kind, state, reg, j, now, constants, added)
                    if absorb:
                        state[j, W] += added
    elif dy[0] != 0.0:
        # Else it is a step like any other, to be made up for. By now the next row is at hand.
        if c.clock[1] >= 0:
            fetch_states(c, c.clock[1])
        start, stop = row_span(c.rows, at(order, lo))
        for e in range(start, stop):
            j = columns[e]
            added = dy[0] * data[e]
            take_step(c.kind, state, reg, j, now, constants, added)
            if absorb:
                state[j, W] += added
    c.clock[0] = now + 1


@generic
def settle(c, reg, constants):
    """Bring all coordinates up to date."""


@settle.register(LazyRows)
def _(c, reg, constants):
    for j in range(c.state.shape[0]):
        make_up(c.kind, c.state, reg, constants, np.uint64(j), c.clock[0])


def settled(c, reg, constants):
    """A copy in which all coordinates are up to date."""
    c = c.copied()
    settle(c, reg, constants)
    return c


def register_rows(cls):
    """What a coupling does that has ``rows``, a ``clock``, and its work in its two halves."""
    @couplings.announce.register(cls)
    def _(c, order, lo, hi):
        rows_prefetch(c.rows, order, lo, hi)
        c.clock[1] = at(order, lo) if hi - lo == 1 else -1

    @couplings.expect.register(cls)
    def _(c, order, lo, hi):
        pass

    @couplings.turn.register(cls)
    def _(c, boost, order, lo, hi, x):
        pass

    @couplings.close.register(cls)
    def _(c, momentum, order, lo, hi, y):
        pass

    @couplings.forget.register(cls)
    def _(c, base, order, lo, hi):
        pass

    @couplings.iteration_cost.register(cls)
    def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
        return 2 * rows_size(c.rows, dual_order, dual_lo, dual_hi)


register_rows(LazyRows)


def moves_lazily(operator, r, s):
    """Whether a sparse operator's x is moved lazily, with r and s dual and primal blocks."""
    return (s == 1.0) & (operator.csr.nnz / r < operator.LAZY * operator.shape[1])


@couplings.primal_dual_state.register(SparseOperator)
def sparse_state(operator, keep, dual, primal):
    p = operator.shape[1]
    if moves_lazily(operator, dual.inverse_probability, primal.inverse_probability):
        coupling = lazy_rows(operator.rows, p, Extrapolated())
        return coupling, dual, Partition(np.array([0, p]), None)
    return couplings.stored_state(operator, keep, dual, primal)

"""Rows of a sparse matrix, for methods that move all of x in every iteration.

Such an iteration moves a coordinate outside the rows drawn by a proximal step
with the gradient it had before. So it need not be touched: when it is asked
for, all the steps since are made up for at once, by the closed form of
`benchmark_dspdc.model.regularizers.coasting`. An iteration then costs O(nnz(I)),
not O(p).
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, entry, generic
from ..engine.kernel_cache import njit
from ..engine.sampling import FAR
from ..engine.simd import aligned, prefetch, prefetch_many
from ..model.regularizers import reg_prox
from ..model.regularizers.coasting import coast, coast_and_add, coasting
from ..operators.row_loops import TILE, SparseRows, row_span, rows_prefetch
from .iteration import (
    Point,
    announce,
    coasting_of,
    dual_half,
    dual_step,
    iteration_cost,
    keeps_change,
    load,
    primal_half,
    settle,
    solution,
)
from .primal_dual import cost_of_rows, point_at_zero


class Plain(NamedTuple):
    """Nothing but x is asked for."""

    width: int = 4


class Extrapolated(NamedTuple):
    """Rows are multiplied with x + theta (x - x one iteration before)."""

    width: int = 4


class Summed(NamedTuple):
    """The sum of all iterates is kept."""

    width: int = 4


#: What iterations change beside the point.
OF_A_RUN = ("memory", "clock", "scale")

#: What the doubles of a coordinate are. Together they are a cache line, or half of one. The
#: fourth is x one iteration before or the sum of all iterates, as the kind has it.
X, W, LAST, BEFORE, POINT, SNAPSHOT = range(6)
TOTAL = BEFORE

#: How many iterations before its use a row's number is looked at, and its entries are fetched.
FOUND, FETCHED = 6, 3


class LazyRows(NamedTuple):
    """As `RowState`, with a coordinate up to date only where ``LAST`` is the clock.

    Attributes
    ----------
    kind : NamedTuple
        What has to be made up for.
    rows : SparseRows
    memory : ndarray of shape (p, kind.width)
        x, A'y, the iteration that these are of, and what the kind needs.
    added : ndarray of shape (p,), or (0,) where blocks are single rows
        What the current iteration adds to A'y.
    clock : ndarray of shape (2,)
        Iterations done, and the first row of the next one, or -1.
    """

    point: Point
    dy: np.ndarray
    kind: object
    rows: SparseRows
    memory: np.ndarray
    added: np.ndarray
    clock: np.ndarray


def lazy_rows(problem, rows, dual, kind):
    """At x = 0 and y = 0."""
    memory = aligned((problem.shape[1], kind.width))
    point = point_at_zero(problem, dual, dual, memory[:, X])
    added = np.zeros(len(memory) if dual.largest > 1 else 0)
    return LazyRows(point, np.empty(TILE), kind, rows, memory, added, np.array([0, -1]))


# Coordinates lie anywhere in memory. Those of a row are asked for one by one while the entries
# of the row before it are worked on: all at once they would be more than can be under way.

@njit(inline=True)
def entries_after(state, order, k, hi):
    """The range of entries of the row that comes after ``order[k]``."""
    if k + 1 < hi:
        return row_span(state.rows, at(order, k + 1))
    if state.clock[1] >= 0:
        return row_span(state.rows, state.clock[1])
    return np.uint64(0), np.uint64(0)


@njit(inline=True)
def fetch_coordinate(state, e):
    """Ask for what is kept of the coordinate that the entry e is in."""
    prefetch_many(state.memory, np.int64(state.rows.indices[e]) * state.memory.shape[1])


@generic
def make_up(kind, memory, reg, steps, j, now):
    """Bring the coordinate j up to date, and return what rows are multiplied with."""


@generic(default=True)
def note_step(kind, memory, j, new):
    """Keep what is asked for beside x when x_j becomes `new`."""


@njit(inline=True)
def take_step(kind, memory, reg, j, now, steps, added):
    """The proximal step of the coordinate j, which must be up to date.

    It is taken with A'y as if that had changed by r times `added`.
    """
    product = memory[j, W] + steps.boost * added
    new = reg_prox(
        reg, j, memory[j, X] - entry(steps.tau_over_n, j) * product, entry(steps.tau, j)
    )
    note_step(kind, memory, j, new)
    memory[j, X] = new
    memory[j, LAST] = now + 1


@make_up.register(Plain)
def make_up_plain(kind, memory, reg, steps, j, now):
    x = memory[j, X]
    behind = np.int64(now - memory[j, LAST])
    if behind > 0:
        gradient = memory[j, W] * steps.over_n
        x = coast(reg, steps.coasting, j, x, gradient, behind)
        memory[j, X] = x
        memory[j, LAST] = now
    return x


@make_up.register(Extrapolated)
def make_up_extrapolated(kind, memory, reg, steps, j, now):
    x = memory[j, X]
    behind = np.int64(now - memory[j, LAST])
    if behind > 0:
        gradient = memory[j, W] * steps.over_n
        before = coast(reg, steps.coasting, j, x, gradient, behind - 1)
        tau = entry(steps.tau, j)
        x = reg_prox(reg, j, before - tau * gradient, tau)
        memory[j, BEFORE] = before
        memory[j, X] = x
        memory[j, LAST] = now
    return x + (steps.momentum - 1.0) * (x - memory[j, BEFORE])


@make_up.register(Summed)
def make_up_summed(kind, memory, reg, steps, j, now):
    x = memory[j, X]
    behind = np.int64(now - memory[j, LAST])
    if behind > 0:
        gradient = memory[j, W] * steps.over_n
        x, added = coast_and_add(reg, steps.coasting, j, x, gradient, behind)
        memory[j, TOTAL] += added
        memory[j, X] = x
        memory[j, LAST] = now
    return x


@note_step.register(Extrapolated)
def note_before(kind, memory, j, new):
    memory[j, BEFORE] = memory[j, X]


@note_step.register(Summed)
def note_sum(kind, memory, j, new):
    memory[j, TOTAL] += new


@dual_half.register(LazyRows)
def lazy_dual_half(state, rule, steps, rows):
    """Products with the rows, and the rule.

    Of a single row the change stays in ``dy[0]``; of several A'dy is added up.
    """
    order, lo, hi = rows
    now = state.clock[0]
    dy, memory, reg = state.dy, state.memory, state.point.reg
    data, columns = state.rows.data, state.rows.indices
    tile = dy.shape[0]
    for k in range(lo, hi, tile):
        end = min(k + tile, hi)
        for l in range(k, end):
            start, stop = row_span(state.rows, at(order, l))
            coming, last = entries_after(state, order, l, hi)
            product = 0.0
            for e in range(start, stop):
                if coming < last:
                    fetch_coordinate(state, coming)
                    coming += np.uint64(1)
                product += data[e] * make_up(state.kind, memory, reg, steps, columns[e], now)
            for e in range(coming, last):
                fetch_coordinate(state, e)
            dy[l - k] = product
        dual_step(rule, order, k, end, state.point.b, state.point.y, dy)
        if hi - lo > 1:
            _add_up(state, order, k, end)


@njit(inline=True)
def _add_up(state, order, lo, hi):
    data, columns = state.rows.data, state.rows.indices
    for k in range(lo, hi):
        start, stop = row_span(state.rows, at(order, k))
        for e in range(start, stop):
            state.added[columns[e]] += state.dy[k - lo] * data[e]


@primal_half.register(LazyRows)
def lazy_primal_half(state, rule, steps, rows, columns):
    """The proximal step of the coordinates in the rows; all others are made up for later."""
    order, lo, hi = rows
    now = state.clock[0]
    data, indices = state.rows.data, state.rows.indices
    memory, reg, dy = state.memory, state.point.reg, state.dy
    if hi - lo > 1:
        for k in range(lo, hi):
            start, stop = row_span(state.rows, at(order, k))
            for e in range(start, stop):
                j = indices[e]
                if memory[j, LAST] <= now:
                    added = state.added[j]
                    state.added[j] = 0.0
                    take_step(state.kind, memory, reg, j, now, steps, added)
                    if keeps_change(rule):
                        memory[j, W] += added
    elif dy[0] != 0.0:
        # Else it is a step like any other, to be made up for.
        start, stop = row_span(state.rows, at(order, lo))
        for e in range(start, stop):
            j = indices[e]
            added = dy[0] * data[e]
            take_step(state.kind, memory, reg, j, now, steps, added)
            if keeps_change(rule):
                memory[j, W] += added
    state.clock[0] = now + 1
    return 0


@settle.register(LazyRows)
def make_up_all(state, steps):
    for j in range(state.memory.shape[0]):
        make_up(state.kind, state.memory, state.point.reg, steps, np.uint64(j), state.clock[0])


@solution.register(LazyRows)
def settled_x(state, steps):
    return settled(state, steps).memory[:, X].copy()


def settled(state, steps):
    """The state with a memory of its own, in which all coordinates are up to date."""
    own = {name: getattr(state, name).copy() for name in OF_A_RUN if hasattr(state, name)}
    state = state._replace(**own)
    settle(state, steps)
    return state


@coasting_of.register(LazyRows)
def coasting_with_tables(state, tau, lam):
    return coasting(tau, lam)


@load.register(LazyRows)
def load_memory(state, operator, x_order, y_order):
    if isinstance(state.kind, Extrapolated):
        state.memory[:, BEFORE] = state.point.x
    state.memory[:, W] = operator.rmatvec(state.point.y)
    state.memory[:, LAST] = 0.0
    state.clock[0] = 0


def fetch_in_stages(state, order, ahead):
    """Ask for what tells the next thing to ask for: a row's number, its place, its entries."""
    if ahead[0] >= 0:
        prefetch(order, ahead[2 * FAR - 2])
        i = at(order, ahead[2 * FOUND - 2])
        prefetch(state.rows.indptr, i)
        prefetch(state.point.y, i)
        prefetch(state.point.b, i)
        rows_prefetch(state.rows, order, ahead[2 * FETCHED - 2], ahead[2 * FETCHED - 1])
        state.clock[1] = at(order, ahead[0])


announce.register(LazyRows)(fetch_in_stages)
iteration_cost.register(LazyRows)(cost_of_rows)


def moves_lazily(operator, r, s):
    """Whether a sparse operator's x is moved lazily, with r and s dual and primal blocks."""
    return (s == 1.0) & (operator.csr.nnz / r < operator.LAZY * operator.shape[1])

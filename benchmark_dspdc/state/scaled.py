"""Rows of a sparse matrix where steps are linear: nothing is made up for, only scaled.

Without an l1 term a proximal step is x = a (x - (tau/n) w), a = 1/(1 + tau lam),
for all coordinates but those of the rows drawn, w being A'y. So x = alpha u +
beta w with two numbers alpha and beta that follow the steps, and u and w change
in the rows drawn alone. An iteration costs O(nnz(I)) as in `lazy`, without its
closed forms and its clock.
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, generic
from ..engine.kernel_cache import njit
from ..engine.sampling import Partition
from ..engine.simd import aligned
from ..model.regularizers import reg_prox, reg_thresholds
from ..operators.row_loops import TILE, SparseRows, row_span
from ..operators.sparse import SparseOperator
from .iteration import (
    Point,
    announce,
    dual_half,
    dual_step,
    iteration_cost,
    keeps_change,
    load,
    primal_half,
    settle,
    solution,
)
from .lazy import (
    Plain,
    Summed,
    entries_after,
    fetch_coordinate,
    fetch_in_stages,
    lazy_rows,
    moves_lazily,
    settled,
)
from .primal_dual import cost_of_rows, make_state, point_at_zero, stored_state

#: What the doubles of a coordinate are: total = ALPHA_SUM u + BETA_SUM w + REST.
U, W, REST, SPARE = range(4)

#: What the scale has.
ALPHA, BETA, ALPHA_SUM, BETA_SUM = range(4)

#: u is renewed before alpha falls below this, as it would grow beyond all bounds.
LEAST = 1e-3


class ScaledRows(NamedTuple):
    """As `LazyRows`, for regularisers that do not threshold.

    Attributes
    ----------
    kind : Plain or Summed
    rows : SparseRows
    memory : ndarray of shape (p, 2 or 4)
        u and w; further what the sum of all iterates has besides them.
    scale : ndarray of shape (4,)
        alpha, beta, and the sums of both.
    clock : ndarray of shape (2,)
        Iterations since u was renewed, and the row of the next one as in `LazyRows`.
    limit : int
        The most iterations until it is renewed: with as much of x in beta w as
        that many steps make, little is lost by cancellation.
    """

    point: Point
    dy: np.ndarray
    kind: object
    rows: SparseRows
    memory: np.ndarray
    scale: np.ndarray
    clock: np.ndarray
    limit: int


def scaled_rows(problem, rows, dual, kind):
    """At x = 0 and y = 0."""
    p = problem.shape[1]
    # Renewing u then takes less than a fourth of the iterations' time.
    epochs = max(1.0, 4.0 * p / max(len(rows.data), 1))
    limit = int(epochs * dual.inverse_probability)
    memory = aligned((p, 2 if isinstance(kind, Plain) else 4))
    return ScaledRows(
        point_at_zero(problem, dual, dual, memory[:, U]), np.empty(max(TILE, dual.largest)), kind,
        rows, memory, np.array([1.0, 0.0, 0.0, 0.0]), np.array([0, -1]), limit,
    )


@make_state.register(SparseOperator)
def sparse_state(operator, problem, keep, dual, primal, kind, by_coordinate):
    if not moves_lazily(operator, dual.inverse_probability, primal.inverse_probability):
        return stored_state(operator, problem, keep, dual, primal, kind, by_coordinate)
    linear = isinstance(kind, (Plain, Summed)) and not reg_thresholds(problem.reg)
    make = scaled_rows if linear and not by_coordinate else lazy_rows
    whole = Partition(np.array([0, operator.shape[1]]), None)
    return make(problem, operator.rows, dual, kind), dual, whole


@generic
def add_rest(kind, memory, j, added):
    """Keep the sum of all iterates, where there is one."""


@add_rest.register(Plain)
def add_nothing(kind, memory, j, added):
    pass


@add_rest.register(Summed)
def add_to_sum(kind, memory, j, added):
    memory[j, REST] += added


@dual_half.register(ScaledRows)
def scaled_dual_half(state, rule, steps, rows):
    """Products with the rows, and the rule; the buffer has room for all of them."""
    order, lo, hi = rows
    data, columns, memory = state.rows.data, state.rows.indices, state.memory
    alpha, beta = state.scale[ALPHA], state.scale[BETA]
    for k in range(lo, hi):
        start, stop = row_span(state.rows, at(order, k))
        of_u = 0.0
        of_w = 0.0
        coming, last = entries_after(state, order, k, hi)
        for e in range(start, stop):
            if coming < last:
                fetch_coordinate(state, coming)
                coming += np.uint64(1)
            j = columns[e]
            of_u += data[e] * memory[j, U]
            of_w += data[e] * memory[j, W]
        for e in range(coming, last):
            fetch_coordinate(state, e)
        state.dy[k - lo] = alpha * of_u + beta * of_w
    dual_step(rule, order, lo, hi, state.point.b, state.point.y, state.dy)


@primal_half.register(ScaledRows)
def scaled_primal_half(state, rule, steps, rows, columns):
    """The step of all coordinates."""
    order, lo, hi = rows
    data, indices = state.rows.data, state.rows.indices
    memory, scale = state.memory, state.scale
    shrink = reg_prox(state.point.reg, 0, 1.0, steps.tau)
    step = shrink * steps.tau_over_n
    alpha, beta = shrink * scale[ALPHA], shrink * scale[BETA] - step
    # Of a change c of w, x takes -step r c; that part of it which beta w has is taken out.
    of_u = -(steps.boost * step + (beta if keeps_change(rule) else 0.0)) / alpha
    of_rest = -(scale[ALPHA_SUM] * of_u + (scale[BETA_SUM] if keeps_change(rule) else 0.0))
    for k in range(lo, hi):
        change = state.dy[k - lo]
        if change != 0.0:
            start, stop = row_span(state.rows, at(order, k))
            for e in range(start, stop):
                j = indices[e]
                added = change * data[e]
                memory[j, U] += of_u * added
                if keeps_change(rule):
                    memory[j, W] += added
                add_rest(state.kind, memory, j, of_rest * added)
    scale[ALPHA], scale[BETA] = alpha, beta
    scale[ALPHA_SUM] += alpha
    scale[BETA_SUM] += beta
    state.clock[0] += 1
    if alpha < LEAST or state.clock[0] >= state.limit:
        _renew(state)
    return 0


@njit(cache=False)
def _renew(state):
    """u = x, and the sum as it is."""
    memory, scale = state.memory, state.scale
    for j in range(memory.shape[0]):
        u, w = memory[j, U], memory[j, W]
        memory[j, U] = scale[ALPHA] * u + scale[BETA] * w
        add_rest(state.kind, memory, j, scale[ALPHA_SUM] * u + scale[BETA_SUM] * w)
    scale[ALPHA] = 1.0
    scale[BETA] = scale[ALPHA_SUM] = scale[BETA_SUM] = 0.0
    state.clock[0] = 0


@settle.register(ScaledRows)
def renew_all(state, steps):
    _renew(state)


@solution.register(ScaledRows)
def renewed_x(state, steps):
    return settled(state, steps).memory[:, U].copy()


@load.register(ScaledRows)
def load_scaled(state, operator, x_order, y_order):
    state.memory[:, W] = operator.rmatvec(state.point.y)


announce.register(ScaledRows)(fetch_in_stages)
iteration_cost.register(ScaledRows)(cost_of_rows)

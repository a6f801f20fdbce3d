"""What a method follows along the iterates of an epoch: nothing, their mean, or Katyusha's points.

A tracker is part of the rule `Difference`. States that move x lazily follow where a
coordinate moves; their kind says what, and their memory is the tracker's.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic
from ..engine.kernel_cache import njit
from ..engine.symmetric import pack
from ..model.regularizers import reg_prox
from ..model.regularizers.coasting import phase, powers_of
from ..operators.row_loops import multiply_transposed
from .iteration import Difference, finish, forget
from .lazy import (
    LAST,
    POINT,
    SNAPSHOT,
    TOTAL,
    LazyRows,
    Plain,
    Summed,
    W,
    X,
    make_up,
    note_step,
    settled,
)
from .primal_dual import FactorState, RowState
from .primal_dual_matrices import BlockRows
from .scaled import REST, ScaledRows


@finish.register(Difference)
def finish_and_follow(rule, state, steps, rows):
    forget(state, rows)
    follow(rule.tracker, state)


@generic(interpreted=True)
def follow(tracker, state):
    """Take note of the new x."""


class Nothing(NamedTuple):
    """No tracker: the last iterate is what counts."""

    width: int = 0

    kind = Plain()


class Mean(NamedTuple):
    """The sum of the iterates, for their mean."""

    total: np.ndarray

    kind = Summed()


@follow.register(Nothing)
def follow_nothing(tracker, state):
    pass


@follow.register(Mean)
def follow_sum(tracker, state):
    add_to_total(state, tracker.total)


@generic(default=True)
def add_to_total(state, total):
    """total += x."""
    x = state.point.x
    for j in range(total.shape[0]):
        total[j] += x[j]


@add_to_total.register(LazyRows, ScaledRows)
def total_is_kept_where_x_moves(state, total):
    pass


@add_to_total.register(BlockRows)
def add_matrices(state, total):
    total += state.point.x


@singledispatch
def total_of(state):
    """Room for the sum of the iterates."""
    return np.zeros(state.point.x.shape)


@total_of.register(LazyRows)
def total_in_memory(state):
    return state.memory[:, TOTAL]


@total_of.register(ScaledRows)
def total_in_scaled_memory(state):
    return state.memory[:, REST]


# Katyusha -------------------------------------------------------------------------------------

class Blended(NamedTuple):
    """The weights of Katyusha's points; on sparse data, the kind of `LazyRows`.

    decay is 1/(1 + alpha lam), by which a point of an epoch weighs less than the next.
    """

    tau1: float
    tau2: float
    beta: float
    decay: float
    width: int = 8


class Points(NamedTuple):
    """The three points of Katyusha; the state's x is z, the one that proximal steps move.

    Gradients are taken at tau1 z + hold with hold = tau2 snapshot + beta point,
    beta = 1 - tau1 - tau2; then point = hold + tau1 z with the new z.

    Attributes
    ----------
    mix : Blended
    snapshot, point, hold : ndarray of the shape of x
    total : ndarray
        The points of the epoch added up with their weights.
    held, based : ndarray
        V hold and V snapshot where A = UV, else empty.
    """

    mix: Blended
    snapshot: np.ndarray
    point: np.ndarray
    hold: np.ndarray
    total: np.ndarray
    held: np.ndarray
    based: np.ndarray


@follow.register(Points)
def follow_points(tracker, state):
    blend(state, tracker)


@generic
def blend(state, points):
    """Renew the points that follow z, and what rows are multiplied with."""


@njit(inline=True)
def _follow_coordinate(points, x, j):
    mix = points.mix
    point = points.hold[j] + mix.tau1 * x[j]
    points.point[j] = point
    points.total[j] = mix.decay * points.total[j] + point
    points.hold[j] = mix.tau2 * points.snapshot[j] + mix.beta * point


@blend.register(RowState)
def blend_rows(state, points):
    x = state.point.x
    for j in range(x.shape[0]):
        _follow_coordinate(points, x, j)
        state.xbar[j] = points.mix.tau1 * x[j] + points.hold[j]


@blend.register(FactorState)
def blend_factors(state, points):
    mix, x = points.mix, state.point.x
    for j in range(x.shape[0]):
        _follow_coordinate(points, x, j)
    for k in range(state.z.shape[0]):
        image = points.held[k] + mix.tau1 * state.z[k]
        points.held[k] = mix.tau2 * points.based[k] + mix.beta * image
        state.xbar[k] = mix.tau1 * state.z[k] + points.held[k]


@blend.register(BlockRows)
def blend_matrices(state, points):
    mix, x = points.mix, state.point.x
    np.add(points.hold, mix.tau1 * x, out=points.point)
    points.total[:] = mix.decay * points.total + points.point
    np.add(mix.tau2 * points.snapshot, mix.beta * points.point, out=points.hold)
    pack(mix.tau1 * x + points.hold, state.xbar)


@blend.register(LazyRows)
def points_are_kept_where_x_moves(state, points):
    pass


@singledispatch
def points_of(state, mix):
    """`Points` at zero."""
    width = len(state.z) if isinstance(state, FactorState) else 0
    return Points(mix, *np.zeros((4, *state.point.x.shape)), *np.zeros((2, width)))


@points_of.register(LazyRows)
def points_in_memory(state, mix):
    memory, empty = state.memory, np.zeros(0)
    hold = np.zeros(len(memory))
    return Points(
        mix, memory[:, SNAPSHOT], memory[:, POINT], hold, memory[:, TOTAL], empty, empty
    )


@singledispatch
def begin_at(state, points):
    """After `load`: rows are multiplied with tau1 z + hold."""


@begin_at.register(RowState)
def begin_rows_at(state, points):
    state.xbar[:] = points.mix.tau1 * state.point.x + points.hold


@begin_at.register(BlockRows)
def begin_matrices_at(state, points):
    pack(points.mix.tau1 * state.point.x + points.hold, state.xbar)


@begin_at.register(FactorState)
def begin_factors_at(state, points):
    multiply_transposed(state.columns, points.hold, points.held)
    multiply_transposed(state.columns, points.snapshot, points.based)
    state.xbar[:] = points.mix.tau1 * state.z + points.held


@singledispatch
def shown_point(state, points, steps):
    """The point that Katyusha shows, up to date."""
    return points.point.copy()


@shown_point.register(LazyRows)
def shown_point_of_memory(state, points, steps):
    return settled(state, steps).memory[:, POINT].copy()


# Katyusha on sparse rows: coordinates are made up for when they are asked for -----------------

@njit(inline=True)
def _glide(mix, coasting, j, k, drift, z, point, total, snapshot):
    """k steps during which z_i = a^i z - drift (1 - a^i)/lam, in closed form."""
    # Written so that no division is left in a loop over coordinates.
    a, beta = mix.decay, mix.beta
    over_lam, over_sum = 1.0 / coasting.lam, 1.0 / (mix.tau1 + mix.tau2)
    over_step, over_gap = 1.0 / (coasting.tau * a), 1.0 / (a - beta)
    power, sums = powers_of(coasting, j, k)
    rest = -drift * over_lam
    fixed = (mix.tau1 * rest + mix.tau2 * snapshot) * over_sum
    slow = (mix.tau1 * a * over_gap) * (z - rest)
    fast = point - fixed - slow
    # beta is at most 1/2.
    faded = 0.0 if k > 80 else beta ** k
    total = (
        power * total + fixed * (sums * over_step) + k * power * slow
        + fast * ((beta * over_gap) * (power - faded))
    )
    return power * z - sums * drift, fixed + slow * power + fast * faded, total


@make_up.register(Blended)
def make_up_blended(mix, memory, reg, steps, j, now):
    left = np.int64(now - memory[j, LAST])
    z, point, snapshot = memory[j, X], memory[j, POINT], memory[j, SNAPSHOT]
    if left > 0:
        total = memory[j, TOTAL]
        gradient = memory[j, W] * steps.over_n
        while left > 0:
            k, drift = phase(reg, steps.coasting, j, z, gradient, left)
            if k <= 1:
                z = reg_prox(reg, j, z - steps.tau * gradient, steps.tau)
                point = mix.tau2 * snapshot + mix.beta * point + mix.tau1 * z
                total = mix.decay * total + point
                left -= 1
            else:
                z, point, total = _glide(
                    mix, steps.coasting, j, k, drift, z, point, total, snapshot
                )
                left -= k
        memory[j, X], memory[j, POINT], memory[j, TOTAL] = z, point, total
        memory[j, LAST] = now
    return mix.tau1 * z + mix.tau2 * snapshot + mix.beta * point


@note_step.register(Blended)
def note_blended(mix, memory, j, new):
    point = mix.tau2 * memory[j, SNAPSHOT] + mix.beta * memory[j, POINT] + mix.tau1 * new
    memory[j, POINT] = point
    memory[j, TOTAL] = mix.decay * memory[j, TOTAL] + point

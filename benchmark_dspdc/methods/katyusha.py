"""Katyusha: SVRG accelerated by a momentum that pulls back to the snapshot.

References
----------
Z. Allen-Zhu. Katyusha: the first direct acceleration of stochastic gradient
methods. JMLR 18(221), 2018 (Algorithm 2, option II).
"""

import math
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic
from ..engine.kernel_cache import njit
from ..engine.sampling import draw
from ..engine.symmetric import pack
from ..model.dual_rules import Difference
from ..model.regularizers import powers_of, reg_phase, reg_prox
from ..operators.row_loops import multiply_transposed
from ..state.lazy import LAST, POINT, SNAPSHOT, TOTAL, LazyRows, W, X, make_up, settled, take_step
from ..state.primal_dual import (
    FactorCoupling,
    RowCoupling,
    announce,
    expect,
    forget,
    iteration_cost,
    turn,
)
from ..state.primal_dual_matrices import BlockRows
from ..theory import steps as formulas
from .dspdc import Block, dual_half
from .svrg import SVRG, snapshot_half


class Blended(NamedTuple):
    """The weights of the points; on sparse data, the kind of `LazyRows`.

    decay is 1/(1 + alpha lam), by which a point of an epoch weighs less than the next.
    """

    tau1: float
    tau2: float
    beta: float
    decay: float
    width: int = 8


class Points(NamedTuple):
    """The three points of Katyusha; the kernel's x is z, the one that proximal steps move.

    Gradients are taken at tau1 z + hold with hold = tau2 snapshot + beta point,
    beta = 1 - tau1 - tau2; then point = hold + tau1 z with the new z.

    Attributes
    ----------
    snapshot, point, hold : ndarray of the shape of x
    total : ndarray
        The points of the epoch added up with their weights.
    held, based : ndarray
        V hold and V snapshot where A = UV, else empty.
    """

    snapshot: np.ndarray
    point: np.ndarray
    hold: np.ndarray
    total: np.ndarray
    held: np.ndarray
    based: np.ndarray


@generic
def blend(coupling, mix, points, x):
    """Renew the points that follow z, and the mixed one."""


@njit(inline=True)
def _follow(mix, points, x, j):
    point = points.hold[j] + mix.tau1 * x[j]
    points.point[j] = point
    points.total[j] = mix.decay * points.total[j] + point
    points.hold[j] = mix.tau2 * points.snapshot[j] + mix.beta * point


@blend.register(RowCoupling)
def _(coupling, mix, points, x):
    for j in range(x.shape[0]):
        _follow(mix, points, x, j)
        coupling.xbar[j] = mix.tau1 * x[j] + points.hold[j]


@blend.register(FactorCoupling)
def _(coupling, mix, points, x):
    for j in range(x.shape[0]):
        _follow(mix, points, x, j)
    for k in range(coupling.v.shape[0]):
        image = points.held[k] + mix.tau1 * coupling.v[k]
        points.held[k] = mix.tau2 * points.based[k] + mix.beta * image
        coupling.vbar[k] = mix.tau1 * coupling.v[k] + points.held[k]


@blend.register(BlockRows)
def _(coupling, mix, points, x):
    np.add(points.hold, mix.tau1 * x, out=points.point)
    points.total[:] = mix.decay * points.total + points.point
    np.add(mix.tau2 * points.snapshot, mix.beta * points.point, out=points.hold)
    pack(mix.tau1 * x + points.hold, coupling.xbar)


# Sparse rows: coordinates are made up for when they are asked for -----------------------

@njit(inline=True)
def _glide(mix, coasting, k, drift, z, point, total, snapshot):
    """k steps during which z_i = a^i z - drift (1 - a^i)/lam, in closed form."""
    # Written so that no division is left in a loop over coordinates.
    a, beta = mix.decay, mix.beta
    over_lam, over_sum = 1.0 / coasting.lam, 1.0 / (mix.tau1 + mix.tau2)
    over_step, over_gap = 1.0 / (coasting.tau * a), 1.0 / (a - beta)
    power, sums = powers_of(coasting, k)
    rest = -drift * over_lam
    fixed = (mix.tau1 * rest + mix.tau2 * snapshot) * over_sum
    slow = (mix.tau1 * a * over_gap) * (z - rest)
    fast = point - fixed - slow
    # beta is at most 1/2.
    faded = 0.0 if k > 80 else _power(beta, k)
    total = (
        power * total + fixed * (sums * over_step) + k * power * slow
        + fast * ((beta * over_gap) * (power - faded))
    )
    return power * z - sums * drift, fixed + slow * power + fast * faded, total


@njit(inline=True)
def _power(base, k):
    """base^k by squaring."""
    result = 1.0
    while k > 0:
        if k % 2 == 1:
            result *= base
        base *= base
        k //= 2
    return result


@make_up.register(Blended)
def _(mix, state, reg, constants, j, now):
    left = np.int64(now - state[j, LAST])
    z, point, snapshot = state[j, X], state[j, POINT], state[j, SNAPSHOT]
    if left > 0:
        total = state[j, TOTAL]
        gradient = state[j, W] * constants.over_n
        while left > 0:
            k, drift = reg_phase(reg, constants.coasting, z, gradient, left)
            if k <= 1:
                z = reg_prox(reg, z - constants.tau * gradient, constants.tau)
                point = mix.tau2 * snapshot + mix.beta * point + mix.tau1 * z
                total = mix.decay * total + point
                left -= 1
            else:
                z, point, total = _glide(
                    mix, constants.coasting, k, drift, z, point, total, snapshot
                )
                left -= k
        state[j, X], state[j, POINT], state[j, TOTAL] = z, point, total
        state[j, LAST] = now
    return mix.tau1 * z + mix.tau2 * snapshot + mix.beta * point


@take_step.register(Blended)
def _(mix, state, reg, j, now, constants, added):
    product = state[j, W] + constants.boost * added
    z = reg_prox(reg, state[j, X] - constants.tau_over_n * product, constants.tau)
    point = mix.tau2 * state[j, SNAPSHOT] + mix.beta * state[j, POINT] + mix.tau1 * z
    state[j, X] = z
    state[j, POINT] = point
    state[j, TOTAL] = mix.decay * state[j, TOTAL] + point
    state[j, LAST] = now + 1


@blend.register(LazyRows)
def _(coupling, mix, points, x):
    pass                                     # done where x moves


@njit
def iterate(coupling, mix, points, rule, reg, b, x, y, base, dual, c, state, ahead, counters, dy,
            dx, n_iterations):
    """Inner iterations from a snapshot, whose dual point y is; `base` is what is kept of A'y."""
    p = x.shape[0]
    columns = Block(None, 0, p)
    for _ in range(n_iterations):
        lo, hi = draw(dual, state, ahead)
        announce(coupling, dual.order, ahead[0], ahead[1])
        expect(coupling, None, 0, p)
        rows = Block(dual.order, lo, hi)
        dual_half(coupling, rule, reg, rows, b, x, y, c, dy)
        turn(coupling, c.boost, None, 0, p, x)
        counters[2] += snapshot_half(coupling, reg, rows, columns, x, c, dx)
        forget(coupling, base, dual.order, lo, hi)
        blend(coupling, mix, points, x)
        counters[0] += iteration_cost(coupling, dual.order, lo, hi, None, 0, p)
        counters[1] += p


class Katyusha(SVRG):
    """Katyusha: SVRG accelerated by a momentum that pulls back to the snapshot.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    epoch : float
        Inner iterations from a snapshot, in units of the number of batches;
        the author uses 2.

    Notes
    -----
    The point shown is the author's y_k; the snapshots are weighted means of
    it. Iterations to accuracy eps: O((r + sqrt(r L/lam)) log(1/eps)), L the
    largest smoothness of a batch's mean loss.
    """

    name = "katyusha"

    def setup(self, seeds, m=1, epoch=2.0):
        dual, L = self._batches(seeds, m)
        length = self._epoch_length(epoch, dual)
        tau1, tau2, alpha = formulas.katyusha(length, L, self.problem.lam)
        decay = 1.0 / (1.0 + alpha * self.problem.lam)
        self._mix = Blended(tau1, tau2, 1.0 - tau1 - tau2, decay)
        self._start(
            seeds, dual, self._whole(), formulas.Steps(alpha, float("inf"), 0.0), self._mix
        )
        self._rule = Difference(self.problem.loss)
        self._begin_epochs(length, iterate)
        self._points = self._make_points()
        self._weight = -math.expm1(length * math.log(decay)) / (1.0 - decay)
        self.info.update(tau1=tau1, tau2=tau2, alpha=alpha)

    def _make_points(self):
        coupling = self._coupling
        width = coupling.v.shape[0] if isinstance(coupling, FactorCoupling) else 0
        points = Points(*np.zeros((4, *self.problem.x_shape)), *np.zeros((2, width)))
        if isinstance(coupling, LazyRows):
            state = coupling.state
            points = points._replace(
                snapshot=state[:, SNAPSHOT], point=state[:, POINT], total=state[:, TOTAL]
            )
        return points

    def _new_epoch(self, first):
        coupling, mix, points = self._coupling, self._mix, self._points
        self._settle()
        if not first:
            np.divide(points.total, self._weight, out=points.snapshot)
            points.total[:] = 0.0
        np.add(mix.tau2 * points.snapshot, mix.beta * points.point, out=points.hold)
        self._take_snapshot(np.ascontiguousarray(points.snapshot))
        if isinstance(coupling, RowCoupling):
            coupling.xbar[:] = mix.tau1 * self._x + points.hold
        elif isinstance(coupling, BlockRows):
            pack(mix.tau1 * self._x + points.hold, coupling.xbar)
        elif isinstance(coupling, FactorCoupling):
            multiply_transposed(coupling.Vt, points.hold, points.held)
            multiply_transposed(coupling.Vt, points.snapshot, points.based)
            coupling.vbar[:] = mix.tau1 * coupling.v + points.held

    def _inner_iterations(self, count):
        self._kernel(
            self._coupling, self._mix, self._points, self._rule, self.problem.reg, self._b,
            self._x, self._y, self._base, self._dual, self._constants, self._generator,
            self._memory[0], self._counters, self._dy, self._dx, count,
        )

    @property
    def x(self):
        coupling = self._coupling
        if not isinstance(coupling, LazyRows):
            return self._points.point.copy()
        return settled(coupling, self.problem.reg, self._constants).state[:, POINT].copy()

"""Katyusha: SVRG accelerated by a momentum that pulls back to the snapshot.

References
----------
Z. Allen-Zhu. Katyusha: the first direct acceleration of stochastic gradient
methods. JMLR 18(221), 2018 (Algorithm 2, option II).
"""

import math
from typing import NamedTuple

import numpy as np

from .. import steps as formulas
from ..checks import check_number
from ..jit import at, generic, njit
from ..operators.block_couplings import BlockRows
from ..operators.couplings import (
    FactorCoupling,
    RowCoupling,
    announce,
    expect,
    forget,
    iteration_cost,
    turn,
)
from ..operators.lazy import LazyRows
from ..operators.rows import multiply_transposed, row_span, rows_axpy
from ..regularizers import powers_of, reg_phase, reg_prox
from ..rules import Difference, dual_step
from ..sampling import draw
from ..symmetric import pack
from .dspdc import Block, dual_half
from .svrg import SVRG, snapshot_half


class Mixing(NamedTuple):
    """The three points of Katyusha; the kernel's x is z, the one that proximal steps move.

    Gradients are taken at tau1 z + hold with hold = tau2 snapshot + beta point,
    beta = 1 - tau1 - tau2; then point = hold + tau1 z with the new z.

    Attributes
    ----------
    snapshot, point, hold : ndarray of the shape of x
    total : ndarray
        The points of the epoch added up, each weighing 1/decay times the one before it.
    decay : float
        1/(1 + alpha lam).
    held, based : ndarray
        V hold and V snapshot where A = UV, else empty.
    """

    tau1: float
    tau2: float
    beta: float
    decay: float
    snapshot: np.ndarray
    point: np.ndarray
    hold: np.ndarray
    total: np.ndarray
    held: np.ndarray
    based: np.ndarray


@generic
def gradient_half(coupling, mix, rule, reg, rows, b, x, y, c, dy):
    """`dual_half` at the mixed point."""


@generic
def moving_half(coupling, mix, reg, rows, columns, x, c, dx):
    """`snapshot_half`, and the points that follow z where only few are touched."""


@generic
def blend(coupling, mix, x):
    """Renew the points that follow z, and the mixed one."""


for _kind in (RowCoupling, FactorCoupling, BlockRows):
    gradient_half.register(_kind)(
        lambda coupling, mix, rule, reg, rows, b, x, y, c, dy: dual_half(
            coupling, rule, reg, rows, b, x, y, c, dy
        )
    )
    moving_half.register(_kind)(
        lambda coupling, mix, reg, rows, columns, x, c, dx: snapshot_half(
            coupling, reg, rows, columns, x, c, dx
        )
    )


@njit(inline=True)
def _follow(mix, x, j):
    point = mix.hold[j] + mix.tau1 * x[j]
    mix.point[j] = point
    mix.total[j] = mix.decay * mix.total[j] + point
    mix.hold[j] = mix.tau2 * mix.snapshot[j] + mix.beta * point


@blend.register(RowCoupling)
def _(coupling, mix, x):
    for j in range(x.shape[0]):
        _follow(mix, x, j)
        coupling.xbar[j] = mix.tau1 * x[j] + mix.hold[j]


@blend.register(FactorCoupling)
def _(coupling, mix, x):
    for j in range(x.shape[0]):
        _follow(mix, x, j)
    for k in range(coupling.v.shape[0]):
        image = mix.held[k] + mix.tau1 * coupling.v[k]
        mix.held[k] = mix.tau2 * mix.based[k] + mix.beta * image
        coupling.vbar[k] = mix.tau1 * coupling.v[k] + mix.held[k]


@blend.register(BlockRows)
def _(coupling, mix, x):
    np.add(mix.hold, mix.tau1 * x, out=mix.point)
    mix.total[:] = mix.decay * mix.total + mix.point
    np.add(mix.tau2 * mix.snapshot, mix.beta * mix.point, out=mix.hold)
    pack(mix.tau1 * x + mix.hold, coupling.xbar)


# Sparse rows: coordinates are made up for when they are asked for -----------------------

@njit(inline=True)
def _glide(mix, coasting, k, drift, z, point, total, snapshot):
    """k steps during which z_i = a^i z - drift (1 - a^i)/lam, in closed form."""
    a, beta = mix.decay, mix.beta
    power, sums = powers_of(coasting, k)
    rest = -drift / coasting.lam
    fixed = (mix.tau1 * rest + mix.tau2 * snapshot) / (mix.tau1 + mix.tau2)
    slow = mix.tau1 * a * (z - rest) / (a - beta)
    fast = point - fixed - slow
    faded = math.pow(beta, np.float64(k))
    total = (
        power * total + fixed * sums / (coasting.tau * a) + k * power * slow
        + fast * beta * (power - faded) / (a - beta)
    )
    return power * z - sums * drift, fixed + slow * power + fast * faded, total


@njit(inline=True)
def _make_up(c, mix, reg, constants, x, j, now):
    left = now - c.last[j]
    if left == 0:
        return
    gradient = c.w[j] * (constants.tau_over_n / constants.tau)
    z, point, total, snapshot = x[j], mix.point[j], mix.total[j], mix.snapshot[j]
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
    x[j], mix.point[j], mix.total[j] = z, point, total
    c.last[j] = now


@gradient_half.register(LazyRows)
def _(coupling, mix, rule, reg, rows, b, x, y, c, dy):
    order, lo, hi = rows
    now = coupling.clock[0]
    tile = dy.shape[0]
    data, columns = coupling.rows.data, coupling.rows.indices
    for k in range(lo, hi, tile):
        end = min(k + tile, hi)
        for l in range(k, end):
            start, stop = row_span(coupling.rows, at(order, l))
            product = 0.0
            for e in range(start, stop):
                j = columns[e]
                _make_up(coupling, mix, reg, c, x, j, now)
                product += data[e] * (
                    mix.tau1 * x[j] + mix.tau2 * mix.snapshot[j] + mix.beta * mix.point[j]
                )
            dy[l - k] = product
        dual_step(rule, order, k, end, b, y, dy)
        rows_axpy(coupling.rows, order, k, end, dy, coupling.dw)


@moving_half.register(LazyRows)
def _(coupling, mix, reg, rows, columns, x, c, dx):
    now = coupling.clock[0]
    for k in range(rows.lo, rows.hi):
        start, stop = row_span(coupling.rows, at(rows.order, k))
        for e in range(start, stop):
            j = coupling.rows.indices[e]
            if coupling.last[j] > now:
                continue
            product = coupling.w[j] + c.boost * coupling.dw[j]
            coupling.dw[j] = 0.0
            z = reg_prox(reg, x[j] - c.tau_over_n * product, c.tau)
            point = mix.tau2 * mix.snapshot[j] + mix.beta * mix.point[j] + mix.tau1 * z
            x[j] = z
            mix.point[j] = point
            mix.total[j] = mix.decay * mix.total[j] + point
            coupling.last[j] = now + 1
    coupling.clock[0] = now + 1
    return 0


@blend.register(LazyRows)
def _(coupling, mix, x):
    pass


@njit
def settle(coupling, mix, reg, x, c):
    """Bring all coordinates up to date."""
    for j in range(x.shape[0]):
        _make_up(coupling, mix, reg, c, x, j, coupling.clock[0])


@njit
def iterate(coupling, mix, rule, reg, b, x, y, base, dual, c, state, ahead, counters, dy, dx,
            n_iterations):
    """Inner iterations from a snapshot, whose dual point y is; `base` is what is kept of A'y."""
    p = x.shape[0]
    columns = Block(None, 0, p)
    for _ in range(n_iterations):
        lo, hi = draw(dual, state, ahead)
        announce(coupling, dual.order, ahead[0], ahead[1])
        expect(coupling, None, 0, p)
        rows = Block(dual.order, lo, hi)
        gradient_half(coupling, mix, rule, reg, rows, b, x, y, c, dy)
        turn(coupling, c.boost, None, 0, p, x)
        counters[2] += moving_half(coupling, mix, reg, rows, columns, x, c, dx)
        forget(coupling, base, dual.order, lo, hi)
        blend(coupling, mix, x)
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
        check_number(epoch, "epoch", 0.0, strict=True)
        dual, L = self._batches(seeds, m)
        length = max(1, round(epoch * dual.inverse_probability))
        tau1, tau2, alpha = formulas.katyusha(length, L, self.problem.lam)
        self._start(seeds, dual, self._whole(), formulas.Steps(alpha, float("inf"), 0.0))
        self._rule = Difference(self.problem.loss)
        self._begin_epochs(length, iterate)
        factors = isinstance(self._coupling, FactorCoupling)
        decay = 1.0 / (1.0 + alpha * self.problem.lam)
        width = self._coupling.v.shape[0] if factors else 0
        self._mix = Mixing(
            tau1, tau2, 1.0 - tau1 - tau2, decay, *np.zeros((4, *self.problem.x_shape)),
            *np.zeros((2, width)),
        )
        self._weight = -math.expm1(length * math.log(decay)) / (1.0 - decay)
        self.info.update(tau1=tau1, tau2=tau2, alpha=alpha)

    def _new_epoch(self, first):
        coupling, mix = self._coupling, self._mix
        if isinstance(coupling, LazyRows):
            settle(coupling, mix, self.problem.reg, self._x, self._constants)
        if not first:
            np.divide(mix.total, self._weight, out=mix.snapshot)
            mix.total[:] = 0.0
        np.add(mix.tau2 * mix.snapshot, mix.beta * mix.point, out=mix.hold)
        self._take_snapshot(mix.snapshot)
        if isinstance(coupling, RowCoupling):
            coupling.xbar[:] = mix.tau1 * self._x + mix.hold
        elif isinstance(coupling, BlockRows):
            pack(mix.tau1 * self._x + mix.hold, coupling.xbar)
        elif isinstance(coupling, FactorCoupling):
            multiply_transposed(coupling.Vt, mix.hold, mix.held)
            multiply_transposed(coupling.Vt, mix.snapshot, mix.based)
            coupling.vbar[:] = mix.tau1 * coupling.v + mix.held

    def _inner_iterations(self, count):
        self._kernel(
            self._coupling, self._mix, self._rule, self.problem.reg, self._b, self._x, self._y,
            self._base, self._dual, self._constants, self._generator, self._memory[0],
            self._counters, self._dy, self._dx, count,
        )

    @property
    def x(self):
        coupling, mix = self._coupling, self._mix
        if not isinstance(coupling, LazyRows):
            return mix.point.copy()
        coupling = coupling._replace(last=coupling.last.copy())
        mix = mix._replace(point=mix.point.copy(), total=mix.total.copy())
        settle(coupling, mix, self.problem.reg, self._x.copy(), self._constants)
        return mix.point

"""What a method makes of a product z = <A_i, x>: the rules by which y changes.

Methods that walk rows of A differ in little else. A rule is a NamedTuple, so
that kernels are compiled for it; to add one, register `dual_change` for it.
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import entry, generic, index
from ..engine.kernel_cache import njit
from .losses import dual_prox, loss_derivative


class Ascent(NamedTuple):
    """y_i = `dual_prox` with rho, a number or one a coordinate; rho = 0 gives phi'(z).

    DSPDC, SPDC, SDCA; with rho = 0 SAGA's table of derivatives.
    """

    loss: object
    rho: object


class Difference(NamedTuple):
    """phi'(z) - y_i, and y stays: it belongs to a snapshot (SVRG, Katyusha)."""

    loss: object


class Averaged(NamedTuple):
    """y_i = phi'(z_i) with z_i = (z + tau z_i)/(1 + tau), a point that follows (RPDG)."""

    loss: object
    points: np.ndarray
    tau: float


@generic
def dual_change(rule, i, z, b, y):
    """Carry out the rule for the coordinate i, and return the change."""


@dual_change.register(Ascent)
def _(rule, i, z, b, y):
    new = dual_prox(rule.loss, z, b[i], y[i], entry(rule.rho, i))
    change = new - y[i]
    y[i] = new
    return change


@dual_change.register(Difference)
def _(rule, i, z, b, y):
    return loss_derivative(rule.loss, z, b[i]) - y[i]


@dual_change.register(Averaged)
def _(rule, i, z, b, y):
    point = (z + rule.tau * rule.points[i]) / (1.0 + rule.tau)
    rule.points[i] = point
    new = loss_derivative(rule.loss, point, b[i])
    change = new - y[i]
    y[i] = new
    return change


@njit(inline=True, cache=True)
def dual_step(rule, order, lo, hi, b, y, buffer):
    """`dual_change` of the coordinates ``order[lo:hi]``.

    On entry the buffer holds the products z_i, on return the changes.
    Returns whether there was any.
    """
    moved = False
    for k in range(lo, hi):
        change = dual_change(rule, index(order, k), buffer[k - lo], b, y)
        buffer[k - lo] = change
        moved |= change != 0.0
    return moved

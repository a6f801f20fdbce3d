"""Losses phi_i: value, derivative, conjugate and the dual proximal step.

A loss is a NamedTuple, so that numba specialises every kernel on its type;
``gamma`` is the strong convexity of the conjugate, i.e. phi is
(1/gamma)-smooth. ``b`` is the label (a real target for the square loss,
-1 or +1 otherwise).

To add a loss: a class here with ``gamma``, the four
functions below registered for it, and an entry in `LOSSES`.
"""

import math
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic
from ..engine.kernel_cache import njit


class Square(NamedTuple):
    """phi(z) = (z - b)^2 / 2."""

    gamma: float = 1.0


class Logistic(NamedTuple):
    """phi(z) = log(1 + exp(-b z))."""

    gamma: float = 4.0


class SmoothedHinge(NamedTuple):
    """phi(z) = 0 if bz >= 1, 1/2 - bz if bz <= 0, (1 - bz)^2 / 2 otherwise."""

    gamma: float = 1.0


LOSSES = {"square": Square(), "logistic": Logistic(), "smoothed_hinge": SmoothedHinge()}

#: Losses whose labels must be -1 or +1.
CLASSIFICATION = ("logistic", "smoothed_hinge")


@generic
def loss_value(loss, z, b):
    """phi(z)."""


@generic
def loss_derivative(loss, z, b):
    """phi'(z): a dual-feasible value for every z."""


@generic
def loss_conjugate(loss, beta, b):
    """phi*(beta), infinite outside its domain."""


@generic
def nearest_in_domain(loss, beta, b):
    """The point of the conjugate's domain that is nearest to beta."""


@generic
def dual_prox(loss, z, b, y, rho):
    """argmax over beta of  z beta - phi*(beta) - (rho/2)(beta - y)^2,  rho >= 0.

    Every dual step of every method is this one. ``rho = 0`` gives phi'(z).
    """


# Square ----------------------------------------------------------------------

@loss_value.register(Square)
def _(loss, z, b):
    return 0.5 * (z - b) * (z - b)


@loss_derivative.register(Square)
def _(loss, z, b):
    return z - b


@loss_conjugate.register(Square)
def _(loss, beta, b):
    return 0.5 * beta * beta + b * beta


@nearest_in_domain.register(Square)
def _(loss, beta, b):
    return beta


@dual_prox.register(Square)
def _(loss, z, b, y, rho):
    return (z - b + rho * y) / (1.0 + rho)


# Smoothed hinge --------------------------------------------------------------

@loss_value.register(SmoothedHinge)
def _(loss, z, b):
    slack = 1.0 - b * z
    if slack <= 0.0:
        return 0.0
    if slack >= 1.0:
        return slack - 0.5
    return 0.5 * slack * slack


@loss_derivative.register(SmoothedHinge)
def _(loss, z, b):
    return -b * min(max(1.0 - b * z, 0.0), 1.0)


@loss_conjugate.register(SmoothedHinge)
def _(loss, beta, b):
    s = b * beta
    if s < -1.0 or s > 0.0:
        return math.inf
    return s + 0.5 * s * s


@njit(inline=True)
def _clipped(beta, b):
    """The nearest value with -b beta in [0, 1]."""
    return -b * min(max(-b * beta, 0.0), 1.0)


@nearest_in_domain.register(SmoothedHinge)
def _(loss, beta, b):
    return _clipped(beta, b)


@dual_prox.register(SmoothedHinge)
def _(loss, z, b, y, rho):
    # With s = b beta the unconstrained maximiser is (bz - 1 + rho s0)/(1 + rho).
    s = (b * z - 1.0 + rho * (b * y)) / (1.0 + rho)
    return b * min(max(s, -1.0), 0.0)


# Logistic --------------------------------------------------------------------

@njit(inline=True)
def sigmoid(u):
    """1 / (1 + exp(-u)) without overflow."""
    e = math.exp(-abs(u))
    return 1.0 / (1.0 + e) if u >= 0.0 else e / (1.0 + e)


@loss_value.register(Logistic)
def _(loss, z, b):
    t = -b * z
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@loss_derivative.register(Logistic)
def _(loss, z, b):
    return -b * sigmoid(-b * z)


@loss_conjugate.register(Logistic)
def _(loss, beta, b):
    s = -b * beta
    if s < 0.0 or s > 1.0:
        return math.inf
    value = 0.0
    if s > 0.0:
        value += s * math.log(s)
    if s < 1.0:
        value += (1.0 - s) * math.log1p(-s)
    return value


@nearest_in_domain.register(Logistic)
def _(loss, beta, b):
    return _clipped(beta, b)


@njit(inline=True)
def _logistic_dual(t, s0, rho):
    """The s in [0, 1] with  log((1 - s)/s) = t + rho (s - s0).

    In terms of the margin u = t + rho (s - s0), s = sigmoid(-u) and u is the
    root of the increasing function h(u) = u - t - rho (sigmoid(-u) - s0).
    Where the penalty is weak the root is near t, where it is strong s is near
    s0, so one of the two is the start; from there third-order (Halley) steps
    take two or three exponentials. Steps that leave the bracket, or do not
    shrink, give way to bisection.
    """
    low = t - rho * s0
    high = t + rho * (1.0 - s0)
    u = t
    if rho > 16.0 and 1e-12 < s0 < 1.0 - 1e-12:
        u = min(max(math.log((1.0 - s0) / s0), low), high)
    sigma = sigmoid(-u)
    if rho == 0.0:
        return sigma
    last = math.inf
    before = math.inf
    for _ in range(200):
        h = (u - t) - rho * (sigma - s0)
        if h > 0.0:
            high = u
        else:
            low = u
        curvature = sigma * (1.0 - sigma)
        slope = 1.0 + rho * curvature
        # h'' = rho s (1 - s)(2 s - 1), with s = sigmoid(-u)
        bend = rho * curvature * (2.0 * sigma - 1.0)
        newton = h / slope
        step = newton / max(1.0 - 0.5 * newton * bend / slope, 0.5)
        new = u - step
        bisected = abs(step) > 0.5 * before or not low <= new <= high
        if bisected:
            new = 0.5 * (low + high)
            step = u - new
        before = last
        last = abs(step)
        if last <= 1e-4 and not bisected:
            # The error left in u is below step^3/2, and s(u) is 1/4-Lipschitz.
            if slope < 2.0:
                s = sigma + step * curvature * (1.0 - 0.5 * step * (2.0 * sigma - 1.0))
            else:
                s = s0 + (new - t) / rho
            return min(max(s, 0.0), 1.0)
        if new == u or high - low <= 4e-16 * max(abs(low), abs(high)):
            break
        u = new
        sigma = sigmoid(-u)
    # Of the two expressions for s, the better conditioned one.
    s = sigma if rho * sigma * (1.0 - sigma) < 1.0 else s0 + (u - t) / rho
    return min(max(s, 0.0), 1.0)


@dual_prox.register(Logistic)
def _(loss, z, b, y, rho):
    return -b * _logistic_dual(b * z, -b * y, rho)


# Sums over all coordinates ------------------------------------------------------------------

@njit
def loss_sum(loss, z, b):
    """Sum of phi_i(z_i)."""
    total = 0.0
    for i in range(z.shape[0]):
        total += loss_value(loss, z[i], b[i])
    return total


@njit
def conjugate_sum(loss, y, b):
    """Sum of phi_i*(y_i)."""
    total = 0.0
    for i in range(y.shape[0]):
        total += loss_conjugate(loss, y[i], b[i])
    return total


@njit(allocates=True)
def derivative_all(loss, z, b):
    """The vector phi_i'(z_i)."""
    out = np.empty_like(z)
    for i in range(z.shape[0]):
        out[i] = loss_derivative(loss, z[i], b[i])
    return out


@njit(allocates=True)
def nearest_feasible(loss, y, b):
    """The vector of `nearest_in_domain`."""
    out = np.empty_like(y)
    for i in range(y.shape[0]):
        out[i] = nearest_in_domain(loss, y[i], b[i])
    return out

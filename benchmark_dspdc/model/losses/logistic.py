"""The logistic loss."""

import math
from typing import NamedTuple

from ...engine.kernel_cache import njit
from .loss import dual_prox, loss_conjugate, loss_derivative, loss_value, nearest_in_domain
from .smoothed_hinge import nearest_to_hinge_domain


class Logistic(NamedTuple):
    """phi(z) = log(1 + exp(-b z))."""

    gamma: float = 4.0

    classification = True
    dual_nanoseconds = 70.0


@njit(inline=True)
def sigmoid(u):
    """1 / (1 + exp(-u)) without overflow."""
    e = math.exp(-abs(u))
    return 1.0 / (1.0 + e) if u >= 0.0 else e / (1.0 + e)


@loss_value.register(Logistic)
def logistic_value(loss, z, b):
    t = -b * z
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@loss_derivative.register(Logistic)
def logistic_derivative(loss, z, b):
    return -b * sigmoid(-b * z)


@loss_conjugate.register(Logistic)
def logistic_conjugate(loss, beta, b):
    s = -b * beta
    if s < 0.0 or s > 1.0:
        return math.inf
    value = 0.0
    if s > 0.0:
        value += s * math.log(s)
    if s < 1.0:
        value += (1.0 - s) * math.log1p(-s)
    return value


nearest_in_domain.register(Logistic)(nearest_to_hinge_domain)


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
def logistic_dual_prox(loss, i, z, b, y, rho):
    return -b * _logistic_dual(b * z, -b * y, rho)

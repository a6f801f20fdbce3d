"""The logistic loss."""

import math
from typing import NamedTuple

from ...engine.kernel_cache import njit
from ...engine.lanes import (
    at_least,
    at_most,
    exp_of_minus,
    rough_exp_of_minus,
    rough_log,
    where_less,
)
from .loss import (
    dual_prox,
    dual_proxes,
    dual_proxes_in_lanes,
    loss_conjugate,
    loss_derivative,
    loss_value,
    nearest_in_domain,
)
from .smoothed_hinge import nearest_to_hinge_domain


class Logistic(NamedTuple):
    """phi(z) = log(1 + exp(-b z))."""

    gamma: float = 4.0

    classification = True
    dual_nanoseconds = 8.0


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


#: Where of a margin's two approximations the second begins, and log(1 - s) as both take it.
_FAR, _LOG_OF_REST = 2.0, math.log(0.7)

_HUGE = 1e300


@njit(inline=True, cache=True)
def margin_near(c, rho):
    """The u >= 0 with  u = c + rho s,  s = 1/(1 + exp(u)),  up to 0.25; c must be >= -rho/2.

    With w = rho s this is  w + log(w) = log(rho (1 - s)) - c,  and the right side is as good
    as known, 1 - s being between 1/2 and 1. A small w comes from the expansion at w = 1,
    and u = c + w. A large one is the right side less most of its log, and u = log((1 - s)/s),
    as c + w would be a small difference of large numbers.
    """
    x = rough_log(rho) + (_LOG_OF_REST - c)
    d = at_least(at_most(x, _FAR), -2.0) - 1.0
    near = c + (1.0 + d * (0.5 + d * 0.0625))
    x_far = at_least(x, _FAR)
    w = x_far - 0.75 * rough_log(x_far)
    far = rough_log(at_least(rho - w, 0.5 * rho)) - rough_log(w)
    return at_least(where_less(x, _FAR, near, far), at_least(c, 0.0))


@njit(inline=True)
def _margin_step(u, e, t, s0, rho):
    """A step of fourth order to the root of  h(u) = u - t - rho (s - s0),  s = e/(1 + e).

    Here e = exp(-u). Returns what to take from u, s, and s (1 - s).
    """
    below = 1.0 + e
    s = e / below
    slope_of_s = s * (1.0 - s)
    # h/h' with both times below^2, as a division that waits for another takes twice the time
    scale = below * below + rho * e
    h = below * ((u - t) * below - rho * (e - s0 * below))
    # Where rounding errors of t and rho s0 exceed 1 a step means nothing, and must not overflow.
    newton = at_least(at_most(h / scale, 1.0), -1.0)
    # The series of the inverse function; second and third are h's derivatives over k! h'.
    share = rho * e / scale
    second = share * (s - 0.5)
    third = share * (1.0 / 6.0 - slope_of_s)
    step = newton * (1.0 + newton * (second + newton * (2.0 * second * second - third)))
    return step, s, slope_of_s


@njit(inline=True)
def _logistic_dual(t, s0, rho):
    """The s in [0, 1] with  log((1 - s)/s) = t + rho (s - s0).

    The margin u = t + rho (s - s0) is found first. Of s and 1 - s the smaller one is
    computed, so u >= 0. As it depends on t - rho s0 and rho alone, a start within 0.25 of
    it can be had in all cases; a step from there leaves an error below 1e-4, and another
    none. There are no branches: numbers and `lanes` take the same way.
    """
    # What overflowed is as good as very large.
    t, rho = at_least(at_most(t, _HUGE), -_HUGE), at_most(rho, _HUGE)
    middle = rho * (s0 - 0.5)
    near_t = where_less(t, middle, 0.0 - t, t)
    near_s = where_less(t, middle, 1.0 - s0, s0)
    u = margin_near(near_t - rho * near_s, rho)
    u = u - _margin_step(u, rough_exp_of_minus(u), near_t, near_s, rho)[0]
    step, s, slope = _margin_step(u, exp_of_minus(u), near_t, near_s, rho)
    # s at u - step, by its derivatives over k! slope
    second, third = 0.5 - s, 1.0 / 6.0 - slope
    s = at_most(at_least(s + slope * step * (1.0 + step * (second + step * third)), 0.0), 1.0)
    return where_less(t, middle, 1.0 - s, s)


@dual_prox.register(Logistic)
def logistic_dual_prox(loss, i, z, b, y, rho):
    return b * (0.0 - _logistic_dual(b * z, b * (0.0 - y), rho))


dual_proxes.register(Logistic)(dual_proxes_in_lanes)

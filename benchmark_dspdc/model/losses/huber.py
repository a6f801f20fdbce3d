"""The Huber loss: square near the target, linear far from it, so that outliers weigh less.

References
----------
P. J. Huber. Robust estimation of a location parameter. Annals of Mathematical
Statistics 35, 1964.
"""

import math
from typing import NamedTuple

from ...engine.checks import check_number
from .loss import dual_prox, loss_conjugate, loss_derivative, loss_value, nearest_in_domain


class Huber(NamedTuple):
    """phi(z) = u^2/2 if |u| <= delta, delta |u| - delta^2/2 otherwise, u = z - b."""

    delta: float = 1.0
    gamma: float = 1.0

    classification = False
    dual_nanoseconds = 0.0

    def checked(self):
        """The same with delta as a float, or a ValueError."""
        return Huber(check_number(self.delta, "delta", 0.0, strict=True))


@loss_value.register(Huber)
def huber_value(loss, z, b):
    u = abs(z - b)
    if u <= loss.delta:
        return 0.5 * u * u
    return loss.delta * (u - 0.5 * loss.delta)


@loss_derivative.register(Huber)
def huber_derivative(loss, z, b):
    return min(max(z - b, -loss.delta), loss.delta)


@loss_conjugate.register(Huber)
def huber_conjugate(loss, beta, b):
    if abs(beta) > loss.delta:
        return math.inf
    return 0.5 * beta * beta + b * beta


@nearest_in_domain.register(Huber)
def nearest_to_huber_domain(loss, beta, b):
    return min(max(beta, -loss.delta), loss.delta)


@dual_prox.register(Huber)
def huber_dual_prox(loss, i, z, b, y, rho):
    # The square loss's maximiser, clipped: on an interval a concave parabola has no other.
    return min(max((z - b + rho * y) / (1.0 + rho), -loss.delta), loss.delta)

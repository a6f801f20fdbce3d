"""The smoothed hinge loss of the paper's experiments."""

import math
from typing import NamedTuple

from .loss import dual_prox, loss_conjugate, loss_derivative, loss_value, nearest_in_domain


class SmoothedHinge(NamedTuple):
    """phi(z) = 0 if bz >= 1, 1/2 - bz if bz <= 0, (1 - bz)^2 / 2 otherwise."""

    gamma: float = 1.0

    classification = True
    dual_nanoseconds = 0.0


@loss_value.register(SmoothedHinge)
def hinge_value(loss, z, b):
    slack = 1.0 - b * z
    if slack <= 0.0:
        return 0.0
    if slack >= 1.0:
        return slack - 0.5
    return 0.5 * slack * slack


@loss_derivative.register(SmoothedHinge)
def hinge_derivative(loss, z, b):
    return -b * min(max(1.0 - b * z, 0.0), 1.0)


@loss_conjugate.register(SmoothedHinge)
def hinge_conjugate(loss, beta, b):
    s = b * beta
    if s < -1.0 or s > 0.0:
        return math.inf
    return s + 0.5 * s * s


@nearest_in_domain.register(SmoothedHinge)
def nearest_to_hinge_domain(loss, beta, b):
    # That is where -b beta is in [0, 1].
    return -b * min(max(-b * beta, 0.0), 1.0)


@dual_prox.register(SmoothedHinge)
def hinge_dual_prox(loss, i, z, b, y, rho):
    # With s = b beta the unconstrained maximiser is (bz - 1 + rho s0)/(1 + rho).
    s = (b * z - 1.0 + rho * (b * y)) / (1.0 + rho)
    return b * min(max(s, -1.0), 0.0)

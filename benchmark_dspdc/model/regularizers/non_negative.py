"""The elastic net on the non-negative orthant."""

from typing import NamedTuple

from .elastic_net import ElasticNet
from .regularizer import (
    ONE_PHASE,
    TO_ZERO,
    coordinate_conjugate,
    coordinate_value,
    into_domain,
    reg_conjugate_gradient,
    reg_modulus,
    reg_outlook,
    reg_prox,
)


class NonNegative(NamedTuple):
    """g(x) = lambda1 sum_j x_j + (lambda2/2) |x|^2 for x >= 0, infinite elsewhere."""

    lambda1: float = 0.0
    lambda2: float = 1e-2

    checked = ElasticNet.checked


@reg_modulus.register(NonNegative)
def non_negative_modulus(reg):
    return reg.lambda2


@coordinate_value.register(NonNegative)
def non_negative_value(reg, j, x):
    if x < 0.0:
        return float("inf")
    return reg.lambda1 * x + 0.5 * reg.lambda2 * x * x


@coordinate_conjugate.register(NonNegative)
def non_negative_conjugate(reg, j, w):
    excess = max(w - reg.lambda1, 0.0)
    return excess * excess / (2.0 * reg.lambda2)


@reg_prox.register(NonNegative)
def non_negative_prox(reg, j, c, tau):
    return max(c - tau * reg.lambda1, 0.0) / (1.0 + tau * reg.lambda2)


@reg_conjugate_gradient.register(NonNegative)
def non_negative_conjugate_gradient(reg, j, w):
    return max(w - reg.lambda1, 0.0) / reg.lambda2


@into_domain.register(NonNegative)
def into_orthant(reg, x):
    for j in range(x.shape[0]):
        x[j] = max(x[j], 0.0)


@reg_outlook.register(NonNegative)
def non_negative_outlook(reg, j, power, sums, x, gradient):
    drift = gradient + reg.lambda1
    if drift >= 0.0 and x == 0.0:
        return ONE_PHASE, 0.0, 0.0
    # Drawn down, x stays at zero once it is there; else it never gets there.
    end = power * x - sums * drift
    if drift <= 0.0 or end > 0.0:
        return ONE_PHASE, drift, end
    return TO_ZERO, drift, 0.0

"""The elastic net."""

import math
from typing import NamedTuple

from ...engine.checks import check_number
from ...engine.kernel_cache import njit
from .regularizer import (
    ONE_PHASE,
    SEVERAL,
    TO_ZERO,
    coordinate_conjugate,
    coordinate_value,
    reg_conjugate_gradient,
    reg_modulus,
    reg_outlook,
    reg_prox,
    reg_threshold,
    reg_thresholds,
)


class ElasticNet(NamedTuple):
    """g(x) = lambda1 |x|_1 + (lambda2/2) |x|^2."""

    lambda1: float = 0.0
    lambda2: float = 1e-2

    def checked(self):
        """The same with its constants as floats, or a ValueError."""
        return type(self)(
            check_number(self.lambda1, "lambda1", 0.0),
            check_number(self.lambda2, "lambda2", 0.0, strict=True),
        )


@njit(inline=True)
def soft(c, threshold):
    """Soft thresholding, without a branch so that loops over it vectorise."""
    return c - min(max(c, -threshold), threshold)


@reg_modulus.register(ElasticNet)
def elastic_net_modulus(reg):
    return reg.lambda2


@coordinate_value.register(ElasticNet)
def elastic_net_value(reg, j, x):
    return reg.lambda1 * abs(x) + 0.5 * reg.lambda2 * x * x


@coordinate_conjugate.register(ElasticNet)
def elastic_net_conjugate(reg, j, w):
    excess = max(abs(w) - reg.lambda1, 0.0)
    return excess * excess / (2.0 * reg.lambda2)


@reg_prox.register(ElasticNet)
def elastic_net_prox(reg, j, c, tau):
    return soft(c, tau * reg.lambda1) * (1.0 / (1.0 + tau * reg.lambda2))


@reg_conjugate_gradient.register(ElasticNet)
def elastic_net_conjugate_gradient(reg, j, w):
    return soft(w, reg.lambda1) * (1.0 / reg.lambda2)


@reg_threshold.register(ElasticNet)
def elastic_net_threshold(reg, j, w):
    return soft(w, reg.lambda1)


@reg_thresholds.register(ElasticNet)
def elastic_net_thresholds(reg):
    return reg.lambda1 > 0.0


@reg_outlook.register(ElasticNet)
def elastic_net_outlook(reg, j, power, sums, x, gradient):
    if reg.lambda1 == 0.0:
        return ONE_PHASE, gradient, power * x - sums * gradient
    # Where x will be, and whether it crosses zero, is found without branches on signs: they
    # would often be guessed wrong.
    side = math.copysign(1.0, x if x != 0.0 else -gradient)
    drift = gradient + side * reg.lambda1
    end = power * x - sums * drift
    # On its way x does not turn round. So it crosses zero if it ends on the other side, and
    # if it could not stay there.
    beyond = min(side * end, 0.0)
    crosses = min(-beyond, abs(gradient) - reg.lambda1) > 0.0
    stays = x == 0.0 and beyond < 0.0
    outlook = ONE_PHASE if beyond == 0.0 or stays else TO_ZERO
    return SEVERAL if crosses else outlook, 0.0 if stays else drift, end - side * beyond

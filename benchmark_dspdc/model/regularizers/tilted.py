"""A regulariser minus a linear function, as proximal-point methods have it inside.

With (kappa/2)|x - c|^2 added, g becomes `augmented` by kappa, and tilted by kappa c.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from .regularizer import (
    coordinate_conjugate,
    coordinate_value,
    into_domain,
    reg_conjugate_gradient,
    reg_modulus,
    reg_outlook,
    reg_prox,
)


class Tilted(NamedTuple):
    """g(x) - <shift, x>, g being the base; the shift may be changed in place."""

    base: object
    shift: np.ndarray


@singledispatch
def tilted(reg, shape):
    """The regulariser with a `shift` of its own, for points of this shape; g as it is at first."""
    return Tilted(reg, np.zeros(shape))


@reg_modulus.register(Tilted)
def tilted_modulus(reg):
    return reg_modulus(reg.base)


@coordinate_value.register(Tilted)
def tilted_value(reg, j, x):
    return coordinate_value(reg.base, j, x) - reg.shift[j] * x


@coordinate_conjugate.register(Tilted)
def tilted_conjugate(reg, j, w):
    return coordinate_conjugate(reg.base, j, w + reg.shift[j])


@reg_prox.register(Tilted)
def tilted_prox(reg, j, c, tau):
    return reg_prox(reg.base, j, c + tau * reg.shift[j], tau)


@reg_conjugate_gradient.register(Tilted)
def tilted_conjugate_gradient(reg, j, w):
    return reg_conjugate_gradient(reg.base, j, w + reg.shift[j])


@into_domain.register(Tilted)
def into_tilted_domain(reg, x):
    into_domain(reg.base, x)


@reg_outlook.register(Tilted)
def tilted_outlook(reg, j, power, sums, x, gradient):
    return reg_outlook(reg.base, j, power, sums, x, gradient - reg.shift[j])

"""The square loss."""

from typing import NamedTuple

from .loss import dual_prox, loss_conjugate, loss_derivative, loss_value, nearest_in_domain


class Square(NamedTuple):
    """phi(z) = (z - b)^2 / 2."""

    gamma: float = 1.0

    classification = False
    dual_nanoseconds = 0.0


@loss_value.register(Square)
def square_value(loss, z, b):
    return 0.5 * (z - b) * (z - b)


@loss_derivative.register(Square)
def square_derivative(loss, z, b):
    return z - b


@loss_conjugate.register(Square)
def square_conjugate(loss, beta, b):
    return 0.5 * beta * beta + b * beta


@nearest_in_domain.register(Square)
def nearest_real(loss, beta, b):
    return beta


@dual_prox.register(Square)
def square_dual_prox(loss, i, z, b, y, rho):
    return (z - b + rho * y) / (1.0 + rho)

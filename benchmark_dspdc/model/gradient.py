"""A' phi'(A x), and A' of a dual step at A x, in one reading of A where it is stored."""

from functools import singledispatch

import numpy as np

from ..engine.kernel_cache import njit
from ..operators.factorized import FactorizedOperator
from ..operators.operator import Operator, StoredOperator
from ..operators.row_loops import (
    TILE,
    DenseRows,
    multiply,
    multiply_transposed,
    rows_axpy,
    rows_dot,
)
from .losses import derivative_all, dual_prox, loss_derivative


@singledispatch
def loss_gradient(operator, loss, b, x):
    """A' phi'(A x)."""
    raise TypeError(f"{type(operator).__name__} is not an operator")


@loss_gradient.register(Operator)
def gradient_in_two_products(operator, loss, b, x):
    return operator.rmatvec(derivative_all(loss, operator.matvec(x), b))


@loss_gradient.register(StoredOperator)
def gradient_of_stored(operator, loss, b, x):
    out = np.empty(operator.shape[1])
    _gradient_of_rows(operator.rows, loss, b, x, out, np.empty(TILE))
    return out


@loss_gradient.register(FactorizedOperator)
def gradient_of_factors(operator, loss, b, x):
    return _through_factors(operator, x, lambda U, v, u: _gradient_of_rows(
        U, loss, b, v, u, np.empty(TILE)
    ))


def _through_factors(operator, x, of_rows):
    """V'u, where `of_rows` fills u given U and v = V x."""
    U, Vt = DenseRows(operator.U), DenseRows(operator.Vt)
    v, u = np.empty((2, operator.Vt.shape[1]))
    multiply_transposed(Vt, np.ascontiguousarray(x, dtype=np.float64), v)
    of_rows(U, v, u)
    out = np.empty(operator.shape[1])
    multiply(Vt, u, out)
    return out


@njit
def _gradient_of_rows(rows, loss, b, v, out, buffer):
    """out = M' phi'(M v), reading M once, as many rows at a time as the buffer has room for."""
    out[:] = 0.0
    n = b.shape[0]
    for lo in range(0, n, buffer.shape[0]):
        hi = min(lo + buffer.shape[0], n)
        rows_dot(rows, None, lo, hi, v, buffer)
        for k in range(hi - lo):
            buffer[k] = loss_derivative(loss, buffer[k], b[lo + k])
        rows_axpy(rows, None, lo, hi, buffer, out)


@singledispatch
def dual_step_gradient(operator, loss, b, x, y, rho):
    """A'y for the y after a step of all dual coordinates at A x; y is changed in place."""
    raise TypeError(f"{type(operator).__name__} is not an operator")


@dual_step_gradient.register(Operator)
def dual_step_in_two_products(operator, loss, b, x, y, rho):
    dual_steps(loss, operator.matvec(x), b, y, rho)
    return operator.rmatvec(y)


@dual_step_gradient.register(StoredOperator)
def dual_step_of_stored(operator, loss, b, x, y, rho):
    out = np.empty(operator.shape[1])
    _dual_step_of_rows(operator.rows, loss, b, x, y, rho, out, np.empty(TILE))
    return out


@dual_step_gradient.register(FactorizedOperator)
def dual_step_of_factors(operator, loss, b, x, y, rho):
    return _through_factors(operator, x, lambda U, v, u: _dual_step_of_rows(
        U, loss, b, v, y, rho, u, np.empty(TILE)
    ))


@njit
def dual_steps(loss, z, b, y, rho):
    """`dual_prox` of all coordinates, z being the products."""
    for i in range(y.shape[0]):
        y[i] = dual_prox(loss, i, z[i], b[i], y[i], rho)


@njit
def _dual_step_of_rows(rows, loss, b, x, y, rho, out, buffer):
    """The same as `_gradient_of_rows`, with a dual step in the place of the derivative."""
    out[:] = 0.0
    n = b.shape[0]
    for lo in range(0, n, buffer.shape[0]):
        hi = min(lo + buffer.shape[0], n)
        rows_dot(rows, None, lo, hi, x, buffer)
        for k in range(hi - lo):
            i = lo + k
            y[i] = dual_prox(loss, i, buffer[k], b[i], y[i], rho)
            buffer[k] = y[i]
        rows_axpy(rows, None, lo, hi, buffer, out)

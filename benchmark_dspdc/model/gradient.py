"""A' phi'(A x), in one reading of A where it is stored."""

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
from .losses import derivative_all, loss_derivative


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
    U, Vt = DenseRows(operator.U), DenseRows(operator.Vt)
    v, u = np.empty((2, operator.Vt.shape[1]))
    multiply_transposed(Vt, np.ascontiguousarray(x, dtype=np.float64), v)
    _gradient_of_rows(U, loss, b, v, u, np.empty(TILE))
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

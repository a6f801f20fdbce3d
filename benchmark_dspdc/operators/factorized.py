"""A = UV, never formed."""

from functools import cached_property

import numpy as np
import scipy.linalg

from ..checks import as_array
from ..sampling import Partition
from ..threads import single_threaded
from .base import Operator
from .couplings import FactorCoupling
from .dual import FactorKeptDual
from .rows import DenseRows, multiply, multiply_transposed


class FactorizedOperator(Operator):
    """A = UV with U of shape (n, d) and V of shape (d, p).

    V is stored transposed, so that a coordinate of x owns a contiguous row as
    a coordinate of y does, and rows are padded with zeros to a multiple of
    four doubles and aligned to cache lines.
    """

    kind = "factorized"

    def __init__(self, U, V):
        U = as_array(U, "U", 2)
        V = as_array(V, "V", 2)
        if U.shape[1] != V.shape[0]:
            raise ValueError(
                f"U and V must have a common inner dimension d, got U of shape {U.shape} "
                f"and V of shape {V.shape}"
            )
        self.d = U.shape[1]
        self.shape = (U.shape[0], V.shape[1])
        self.U = _padded(U)
        self.Vt = _padded(V.T)

    @property
    def multiply_adds(self):
        return 2 * self.d * sum(self.shape)

    def matvec(self, x):
        v = np.empty(self.Vt.shape[1])
        multiply_transposed(DenseRows(self.Vt), np.ascontiguousarray(x, dtype=np.float64), v)
        out = np.empty(self.shape[0])
        multiply(DenseRows(self.U), v, out)
        return out

    def rmatvec(self, y):
        u = np.empty(self.U.shape[1])
        multiply_transposed(DenseRows(self.U), np.ascontiguousarray(y, dtype=np.float64), u)
        out = np.empty(self.shape[1])
        multiply(DenseRows(self.Vt), u, out)
        return out

    @cached_property
    def row_norms2(self):
        return quadratic_forms(self.U, gram(self.Vt))

    @cached_property
    def column_norms2(self):
        return quadratic_forms(self.Vt, gram(self.U))

    @cached_property
    def right_root(self):
        """A square root of V V', so that |U_I V| = |U_I right_root|."""
        return square_root(gram(self.Vt))

    def row_block(self, indices):
        return self.U[indices] @ self.Vt.T

    def miniature(self):
        return FactorizedOperator(np.eye(4), np.eye(4))

    def coupling(self, keep, dual, primal):
        U, dual = _arranged(self.U, dual)
        Vt, primal = _arranged(self.Vt, primal)
        kept = aligned((6, _whole_lines(U.shape[1])))[:, :U.shape[1]]
        return FactorCoupling(self.d, DenseRows(U), DenseRows(Vt), *kept), dual, primal

    def kept_dual(self, y):
        u = np.empty(self.U.shape[1])
        multiply_transposed(DenseRows(self.U), y, u)
        n, p = self.shape
        return FactorKeptDual(
            self.d, DenseRows(self.U), DenseRows(self.Vt), -self.rmatvec(y) / n, np.zeros(p),
            np.zeros_like(u), np.zeros_like(u), float(n),
        )


@single_threaded
def gram(rows):
    """M'M of a matrix stored by rows."""
    return rows.T @ rows


@single_threaded
def quadratic_forms(rows, Q):
    """The numbers m_i' Q m_i over the rows m_i."""
    return np.einsum("ij,ij->i", rows @ Q, rows)


@single_threaded
def square_root(H):
    """The symmetric square root of a positive semi-definite matrix."""
    values, vectors = scipy.linalg.eigh(H)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def aligned(shape):
    """A zero array whose data start at a cache line, so that no vector load straddles two."""
    size = int(np.prod(shape))
    raw = np.zeros(size + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip:skip + size].reshape(shape)


def _whole_lines(width):
    return -(-width // 8) * 8


def _padded(matrix):
    rows, width = matrix.shape
    out = aligned((rows, -(-width // 4) * 4))
    out[:, :width] = matrix
    return out


def _arranged(matrix, sampler):
    """Rows of a partition's blocks side by side, so that a block is one stream."""
    if isinstance(sampler, Partition):
        if len(sampler.starts) > 2:
            matrix = np.take(matrix, sampler.order, axis=0, out=aligned(matrix.shape))
        return matrix, Partition(sampler.starts, None)
    return matrix, sampler

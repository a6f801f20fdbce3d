"""A stored as an ndarray."""

from functools import cached_property

import numpy as np

from ..checks import as_array
from .base import StoredOperator
from .rows import DenseRows


class DenseOperator(StoredOperator):
    """A dense matrix, stored by rows; a transposed copy is made if columns are needed."""

    kind = "dense"

    def __init__(self, A):
        self.A = as_array(A, "A", 2)
        self.shape = self.A.shape

    @property
    def multiply_adds(self):
        return 2 * self.A.size

    @property
    def rows(self):
        return DenseRows(self.A)

    @cached_property
    def columns(self):
        return DenseRows(np.ascontiguousarray(self.A.T))

    @cached_property
    def row_norms2(self):
        return np.einsum("ij,ij->i", self.A, self.A)

    @cached_property
    def column_norms2(self):
        return np.einsum("ij,ij->j", self.A, self.A)

    def row_block(self, indices):
        return self.A[indices]

    def miniature(self):
        return DenseOperator(np.eye(4))

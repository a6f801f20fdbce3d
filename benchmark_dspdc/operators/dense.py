"""A stored as an ndarray."""

from functools import cached_property

import numpy as np

from ..engine.checks import as_array
from ..engine.meter import spend
from .gram import chunks, largest_head_of_rows
from .operator import StoredOperator
from .row_loops import DenseRows


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
        spend(self.A.size)
        return np.einsum("ij,ij->i", self.A, self.A)

    def column_squares(self, weights):
        return np.einsum("ij,ij,i->j", self.A, self.A, weights)

    @property
    def entries(self):
        return self.A

    def row_block(self, indices):
        return self.A[indices]

    def _pair_cost(self, m, q, count):
        return self.A.size * min(m, q) + count * (2e4 + m * q)

    def block_sums(self, blocks, transposed, budget):
        A = self.A.T if transposed else self.A
        spend(A.size)
        out = np.empty((len(A), len(blocks.starts) - 1))
        for rows in chunks(*A.shape):
            squares = A[rows][:, blocks.order] ** 2
            out[rows] = np.add.reduceat(squares, blocks.starts[:-1], axis=1)
        return out

    def largest_head(self, size, transposed, budget):
        A = self.A.T if transposed else self.A
        norms2 = self.column_norms2 if transposed else self.row_norms2
        if size >= A.shape[1]:
            return float(norms2.max())
        return largest_head_of_rows(norms2, A.shape[1], size, lambda rows: A[rows])

    def weighted(self, weights):
        return DenseOperator(self.A * np.sqrt(weights))

    def miniature(self):
        return DenseOperator(np.eye(4))

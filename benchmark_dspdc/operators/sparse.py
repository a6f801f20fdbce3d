"""A stored as CSR, with CSC made when a method walks columns."""

from functools import cached_property

import numpy as np
import scipy.sparse

from ..engine.checks import as_csr
from ..engine.kernel_cache import njit
from ..engine.meter import spend
from .operator import StoredOperator
from .row_loops import SparseRows


class SparseOperator(StoredOperator):
    """A sparse matrix. Duplicates are summed and indices sorted, on a copy."""

    kind = "csr"
    norm_price = 2.0

    #: All of x is moved lazily where an average block of rows has fewer entries than this
    #: share of x.
    LAZY = 0.05

    def __init__(self, A):
        self.csr = as_csr(A, "A")
        self.shape = self.csr.shape

    @property
    def multiply_adds(self):
        # A matrix of zeros still has a unit of work.
        return 2 * max(self.csr.nnz, 1)

    @cached_property
    def rows(self):
        return _storage(self.csr)

    @cached_property
    def columns(self):
        return _storage(self.csr.T.tocsr())

    def _with(self, data):
        """The matrix with other entries in the same places."""
        return scipy.sparse.csr_array((data, self.csr.indices, self.csr.indptr), shape=self.shape)

    @cached_property
    def _squares(self):
        return self._with(self.csr.data ** 2)

    @cached_property
    def row_norms2(self):
        spend(self.csr.nnz)
        return np.asarray(self._squares.sum(axis=1)).ravel()

    def column_squares(self, weights):
        return self._squares.T @ weights

    @property
    def entries(self):
        return self.csr

    def row_block(self, indices):
        return self.csr[indices]

    def _pair_cost(self, m, q, count):
        per_row = self.csr.nnz / self.shape[0]
        return self.csr.nnz * max(1.0, per_row) + count * 2e5

    def block_sums(self, blocks, transposed, budget):
        spend(self.csr.nnz)
        squares = self._squares.T if transposed else self._squares
        n, p = squares.shape
        n_blocks = len(blocks.starts) - 1
        label = np.empty(p, dtype=np.int64)
        label[blocks.order] = np.repeat(np.arange(n_blocks), np.diff(blocks.starts))
        indicator = scipy.sparse.csr_array(
            (np.ones(p), label, np.arange(p + 1)), shape=(p, n_blocks)
        )
        sums = squares @ indicator
        if n * n_blocks <= 1e7:
            return sums.toarray()
        return sums.max(axis=1).toarray().reshape(-1, 1)

    def largest_head(self, size, transposed, budget):
        rows = self.columns if transposed else self.rows
        return _largest_head(rows.data, rows.indptr, size)

    def touch_probabilities(self, blocks, probabilities):
        out, last = np.zeros(self.shape[1]), np.full(self.shape[1], -1)
        _add_touches(
            self.rows.indices, self.rows.indptr, blocks.starts, blocks.order, probabilities, last,
            out,
        )
        return out

    def weighted(self, weights):
        return SparseOperator(self._with(self.csr.data * np.sqrt(weights)[self.csr.indices]))

    def miniature(self):
        return SparseOperator(scipy.sparse.eye_array(4, format="csr"))


@njit(allocates=True)
def _largest_head(data, indptr, size):
    best = 0.0
    for i in range(indptr.shape[0] - 1):
        squares = data[indptr[i]:indptr[i + 1]] ** 2
        if squares.sum() > best:
            if squares.shape[0] > size:
                squares = np.sort(squares)[squares.shape[0] - size:]
            best = max(best, squares.sum())
    return best


@njit
def _add_touches(indices, indptr, starts, order, probabilities, last, out):
    """Add the probability of each block to the columns that have entries in it."""
    for k in range(starts.shape[0] - 1):
        for l in range(starts[k], starts[k + 1]):
            i = order[l]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if last[j] != k:
                    last[j] = k
                    out[j] += probabilities[k]


def _storage(csr):
    # One integer width for all, so that kernels are compiled once; 32 bits
    # halve the memory traffic of the index stream. None is negative.
    width, indices = np.uint64 if csr.shape[1] > 2 ** 32 else np.uint32, csr.indices
    if indices.itemsize == np.dtype(width).itemsize:
        indices = indices.view(width)
    return SparseRows(
        csr.data, indices.astype(width, copy=False), csr.indptr.astype(np.int64, copy=False)
    )

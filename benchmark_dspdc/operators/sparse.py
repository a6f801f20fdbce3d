"""A stored as CSR, with CSC made when a method walks columns."""

from functools import cached_property

import numpy as np
import scipy.sparse

from .base import StoredOperator, check_finite
from .rows import SparseRows


class SparseOperator(StoredOperator):
    """A sparse matrix. Duplicates are summed and indices sorted, on a copy."""

    kind = "csr"

    def __init__(self, A):
        if A.ndim != 2:
            raise ValueError(f"A must have 2 dimensions, got shape {A.shape}")
        if 0 in A.shape:
            raise ValueError(f"A must not be empty, got shape {A.shape}")
        if A.dtype.kind not in "biuf":
            raise ValueError(f"A must hold real numbers, got dtype {A.dtype}")
        csr = scipy.sparse.csr_array(A)
        if csr.dtype != np.float64:
            csr = csr.astype(np.float64)
        check_finite(csr.data, "A")
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        self.csr = csr
        self.shape = csr.shape

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

    @cached_property
    def _squares(self):
        squared = self.csr.copy()
        squared.data = squared.data ** 2
        return squared

    @cached_property
    def row_norms2(self):
        return np.asarray(self._squares.sum(axis=1)).ravel()

    @cached_property
    def column_norms2(self):
        return np.asarray(self._squares.sum(axis=0)).ravel()

    def row_block(self, indices):
        return self.csr[indices]


def _storage(csr):
    # One integer width for all, so that kernels are compiled once; int32
    # column numbers halve the memory traffic of the index stream.
    wide = csr.shape[1] >= 2 ** 31
    return SparseRows(
        csr.data,
        csr.indices.astype(np.int64 if wide else np.int32, copy=False),
        csr.indptr.astype(np.int64, copy=False),
    )

"""What every operator offers, and the checks that they share."""

from abc import ABC, abstractmethod

import numpy as np

from ..sampling import Partition
from .couplings import ColumnCoupling, RowCoupling
from .dual import KeptDual
from .rows import multiply, multiply_transposed


class Operator(ABC):
    """An n x p matrix A.

    Attributes
    ----------
    shape : tuple of int
    kind : str
        Name shown to users.
    multiply_adds : int
        Multiply-adds of one A x plus one A'y: the unit of ``passes``.
    """

    kind = None
    shape = None

    @property
    @abstractmethod
    def multiply_adds(self): ...

    @abstractmethod
    def matvec(self, x):
        """A x."""

    @abstractmethod
    def rmatvec(self, y):
        """A'y."""

    @property
    @abstractmethod
    def row_norms2(self):
        """|A_i|^2 for every row."""

    @property
    @abstractmethod
    def column_norms2(self):
        """|A^j|^2 for every column."""

    @abstractmethod
    def row_block(self, indices):
        """The rows `indices` as an ndarray, or a CSR array; for constants."""

    @abstractmethod
    def miniature(self):
        """A tiny operator of the same kind and types."""

    @abstractmethod
    def coupling(self, keep, dual, primal):
        """State for DSPDC's kernel, at x = 0 and y = 0.

        Parameters
        ----------
        keep : {"rows", "columns"}
            Whether to walk rows (and keep A'y) or columns (and keep A x), for
            operators where that is a choice.
        dual, primal : Partition or Subset
            How blocks are drawn.

        Returns
        -------
        coupling : NamedTuple
        dual, primal : the samplers to use with it
            Where the operator has arranged its storage by the blocks of a
            partition, the order is None: x, or y and b, are then in the order
            of the partition that was given, and a block is contiguous.
        """

    @abstractmethod
    def kept_dual(self, y):
        """State for dual-only methods: w = -A'y/n kept up to date; see `dual`."""


class StoredOperator(Operator):
    """An operator with its entries stored by rows, and by columns on demand."""

    @property
    @abstractmethod
    def rows(self):
        """Storage of A by rows."""

    @property
    @abstractmethod
    def columns(self):
        """Storage of A' by rows."""

    def matvec(self, x):
        out = np.empty(self.shape[0])
        multiply(self.rows, np.ascontiguousarray(x, dtype=np.float64), out)
        return out

    def rmatvec(self, y):
        out = np.empty(self.shape[1])
        multiply_transposed(self.rows, np.ascontiguousarray(y, dtype=np.float64), out)
        return out

    def coupling(self, keep, dual, primal):
        n, p = self.shape
        if keep == "rows":
            rows, primal = self._by_blocks(self.rows, primal)
            return RowCoupling(rows, *np.zeros((3, p))), dual, primal
        columns, dual = self._by_blocks(self.columns, dual)
        return ColumnCoupling(columns, *np.zeros((3, n))), dual, primal

    def _by_blocks(self, rows, sampler):
        """Number the entries of rows by the blocks of a partition, if that is cheap."""
        if isinstance(sampler, Partition) and len(sampler.starts) == 2:
            return rows, Partition(sampler.starts, None)
        return rows, sampler

    def kept_dual(self, y):
        return KeptDual(self.rows, -self.rmatvec(y) / self.shape[0], float(self.shape[0]))

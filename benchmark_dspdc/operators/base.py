"""What every operator offers, and the checks that they share."""

from abc import ABC, abstractmethod

import numpy as np

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
    def coupling(self, keep, x, y, dual, primal):
        """State for DSPDC's kernel.

        Parameters
        ----------
        keep : {"rows", "columns"}
            Whether to walk rows (and keep A'y) or columns (and keep A x), for
            operators where that is a choice.
        x, y : ndarray
            Starting point.
        dual, primal : Partition or Subset
            How blocks are drawn.

        Returns
        -------
        coupling : NamedTuple
        dual, primal : the samplers to use with it
            The operator may have rearranged its storage, in which case a
            sampler's order is None and x, y, b are in the original samplers'
            order.
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

    def coupling(self, keep, x, y, dual, primal):
        if keep == "rows":
            w = self.rmatvec(y)
            state = RowCoupling(self.rows, x.copy(), w, np.zeros_like(w))
        else:
            z = self.matvec(x)
            state = ColumnCoupling(self.columns, y.copy(), z, np.zeros_like(z))
        return state, dual, primal

    def kept_dual(self, y):
        return KeptDual(self.rows, -self.rmatvec(y) / self.shape[0], float(self.shape[0]))

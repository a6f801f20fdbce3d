"""What every operator offers, and the checks that they share."""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import scipy.sparse

from ..engine.meter import spend
from .gram import (
    LARGEST_GRAM,
    Norms2,
    Pairs,
    collatz_wielandt,
    norms2_of_block,
    smaller_gram,
    top_eigenvalue,
)
from .row_loops import multiply, multiply_transposed, norm2_below, total_columns

#: Rows of a sample, at most, and the steps of power iteration that tell their norm.
SAMPLE, SAMPLING_STEPS = 128, 10


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

    #: Nanoseconds of a multiply-add of `pairs` and the other norms, as measured on one core
    #: of an AMD EPYC (AVX2), November 2026.
    norm_price = 1.1

    #: What computing a constant of the step sizes may cost, in passes.
    constant_passes = 50

    @property
    def x_shape(self):
        """Shape of a primal point: (p,), or (p, d, d) where its blocks are matrices."""
        return (self.shape[1],)

    @property
    def entries(self):
        """A as an ndarray, a CSR array or the pair (U, V); None if it is none of these."""
        return None

    @property
    def column_width(self):
        """Numbers in a primal block."""
        return 1

    @property
    @abstractmethod
    def multiply_adds(self): ...

    @abstractmethod
    def matvec(self, x):
        """A x."""

    @abstractmethod
    def rmatvec(self, y):
        """A'y."""

    def rmatvec_packed(self, y):
        """A'y, in packed form where its blocks are matrices."""
        return self.rmatvec(y)

    @abstractmethod
    def products_of_rows(self, rows, x, y):
        """A_I x and A_I'y for some rows I; as many multiply-adds as an iteration with them."""

    @property
    @abstractmethod
    def row_norms2(self):
        """|A_i|^2 for every row."""

    @property
    @abstractmethod
    def column_norms2(self):
        """|A^j|^2 for every column."""

    # For constants. `transposed` exchanges the roles of rows and columns, and
    # `budget` is the number of multiply-adds that an answer may take.

    @abstractmethod
    def pairs(self, dual, primal):
        """`Pairs` of the blocks of two partitions."""

    @abstractmethod
    def block_sums(self, blocks, transposed, budget):
        """S[i, J] = sum over j in J of a_ij^2 for each row and block, or None if too costly.

        May be given as the maximum over J, one column, where it would be too large.
        """

    @abstractmethod
    def largest_head(self, size, transposed, budget):
        """max over rows of the sum of the `size` largest a_ij^2, or an upper bound of it."""

    def largest_entry2(self, budget):
        """The largest a_ij^2 and "exact", or an upper bound of it and what that is."""
        return self.largest_head(1, False, budget), "exact"

    @abstractmethod
    def scaled_norm2(self, rows, scale, exact):
        """|diag(scale) A_I|^2, or an upper bound of it."""

    def touch_probabilities(self, blocks, probabilities):
        """How likely each column has an entry in a block of rows that is drawn so; or one for all.
        """
        return 1.0

    @abstractmethod
    def norm2_bound(self):
        """A cheap upper bound on |A|^2, infinite if there is none."""

    def more_bounds(self, dual, primal, budget):
        """Upper bounds (value, kind) on |A_I^J|^2 that only this operator knows of."""
        return []

    @cached_property
    def sample(self):
        """How many rows a sample has, and its `Norms2`; the same for all seeds."""
        n, size = self.shape[0], self.sample_size(SAMPLE)
        rows = np.arange(n)
        if size < n:
            rows = np.unique(np.random.default_rng(0).integers(0, n, size))
        spend(self.sample_cost(len(rows)))
        return len(rows), self.sampled_norms2(rows)

    def sample_cost(self, size):
        """Multiply-adds of `sampled_norms2` of so many rows: power iteration, as a rule."""
        return SAMPLING_STEPS * self.multiply_adds * size / self.shape[0]

    def sample_size(self, most):
        """How many rows to take for `sampled_norms2`, at most so many."""
        return min(most, self.shape[0])

    def sampled_norms2(self, rows):
        """`Norms2` of a block of some rows."""
        return norms2_of_block(self.row_block(rows))

    @abstractmethod
    def miniature(self):
        """A tiny operator of the same kind and types."""


class NumbersOperator(Operator):
    """Columns that are numbers each, in units of their own."""

    @property
    @abstractmethod
    def column_norms2(self):
        """The sum of a_ij^2 over the rows, for every column."""

    @abstractmethod
    def column_squares(self, weights):
        """The sum of weights_i a_ij^2 over the rows, for every column."""

    @property
    def column_counts(self):
        """Entries of every column that are not zero, or that may be."""
        return np.full(self.shape[1], float(self.shape[0]))

    def column_units(self, of_directions=False):
        """The root mean square of the entries of every column that are not zero.

        Of A, or of A with rows of length one.
        """
        squares = self.column_norms2
        if of_directions:
            norms2 = self.row_norms2
            weights = np.divide(1.0, norms2, out=np.zeros(len(norms2)), where=norms2 > 0.0)
            squares = self.column_squares(weights)
        return np.sqrt(squares / np.maximum(self.column_counts, 1))

    @abstractmethod
    def weighted(self, weights):
        """A diag(weights)^(1/2), for norms alone."""


class StoredOperator(NumbersOperator):
    """An operator with its entries stored by rows, and by columns on demand."""

    @property
    @abstractmethod
    def rows(self):
        """Storage of A by rows."""

    @property
    @abstractmethod
    def columns(self):
        """Storage of A' by rows."""

    @cached_property
    def _totals(self):
        n, p = self.shape
        counts, squares = np.zeros(p), np.zeros(p)
        spend(self.multiply_adds / 2)
        total_columns(self.rows, np.arange(n), counts, squares)
        return counts, squares

    @property
    def column_counts(self):
        return self._totals[0]

    @property
    def column_norms2(self):
        return self._totals[1]

    def sampled_norms2(self, rows):
        p = self.shape[1]
        squares = np.zeros(p)
        largest = total_columns(self.rows, rows, np.zeros(p), squares)
        norms2, total = self.row_norms2[rows], squares.sum()
        whole = norm2_below(self.rows, rows, np.ones(p), np.empty(len(rows)), SAMPLING_STEPS)
        found = (
            largest, norms2.max(), squares.max(), total / (len(rows) * p), total / len(rows), whole
        )
        return Norms2(*np.maximum(found, 1e-300).tolist())

    def matvec(self, x):
        out = np.empty(self.shape[0])
        multiply(self.rows, np.ascontiguousarray(x, dtype=np.float64), out)
        return out

    def rmatvec(self, y):
        out = np.empty(self.shape[1])
        multiply_transposed(self.rows, np.ascontiguousarray(y, dtype=np.float64), out)
        return out

    @property
    @abstractmethod
    def entries(self):
        """A as an ndarray or CSR array."""

    @abstractmethod
    def row_block(self, indices):
        """The rows `indices` as an ndarray or CSR array."""

    def products_of_rows(self, rows, x, y):
        block = self.row_block(rows)
        return block @ x, block.T @ y

    def pairs(self, dual, primal):
        shape = (len(dual.starts) - 1, len(primal.starts) - 1)
        side, count = min(dual.largest, primal.largest), shape[0] * shape[1]
        cost = self._pair_cost(dual.largest, primal.largest, count) + count * side ** 3 / 3
        return Pairs(
            shape, cost if side <= LARGEST_GRAM else np.inf,
            lambda k, l: smaller_gram(self.row_block(dual.block(k))[:, primal.block(l)]),
        )

    @abstractmethod
    def _pair_cost(self, m, q, count):
        """Multiply-adds, or their time's worth, of cutting out all blocks and their products."""

    def scaled_norm2(self, rows, scale, exact):
        block = self.row_block(rows)
        if scipy.sparse.issparse(block):
            block = scipy.sparse.diags_array(scale) @ block
        else:
            block = block * scale[:, None]
        return top_eigenvalue(smaller_gram(block)) if exact else collatz_wielandt(block)

    def norm2_bound(self):
        return collatz_wielandt(self.entries)

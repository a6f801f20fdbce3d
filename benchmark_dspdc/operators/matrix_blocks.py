"""Operators whose columns are blocks: x_j is a symmetric d x d matrix.

Row i has a symmetric matrix A_i^j for each block j, and
(A x)_i = sum_j <A_i^j, X_j>. `MatrixOperator` stores these matrices, packed;
`benchmark_dspdc.operators.rank_one` has those of low rank, which are never formed.

Iterations take milliseconds here, so their loop runs in Python (see
`benchmark_dspdc.state.primal_dual_matrices`) on the few products of `BlockOperator`. Norms are
those of the blocks sqrt(w_j) A^j. With w_j = lam/lam_j they are the norms that
step sizes need when the blocks' moduli lam_j differ: substituting
x_j -> x_j sqrt(lam/lam_j) makes all moduli equal to lam.
"""

import copy
from abc import abstractmethod
from functools import cached_property

import numpy as np

from ..engine.kernel_cache import njit
from ..engine.meter import spend
from ..engine.symmetric import pack, packed_length, unpack
from ..engine.threads import side_by_side
from .dense import DenseOperator
from .gram import LARGEST_GRAM, Pairs, norms2_of_block, top_eigenvalue
from .operator import Operator


def indices(order, lo, hi):
    """The coordinates ``order[lo:hi]``; order None is the identity."""
    return np.arange(lo, hi) if order is None else order[lo:hi]


class Plans:
    """An operator's plans of row blocks; those of a partition are kept."""

    def __init__(self, operator, fixed):
        self.operator, self.fixed = operator, fixed
        self.kept, self.current = {}, None

    def turn_to(self, order, lo, hi):
        """The plan of the block that an iteration begins with; `current` until the next."""
        if not (self.fixed and lo in self.kept):
            self.kept[lo] = self.operator.plan(indices(order, lo, hi))
        self.current = self.kept[lo]
        return self.current


class BlockOperator(Operator):
    """An n x p array of symmetric d x d matrices A_i^j, with `weights` w_j of the norms."""

    d = None
    weights = None

    @property
    def x_shape(self):
        return (self.shape[1], self.d, self.d)

    @property
    def column_width(self):
        return packed_length(self.d)

    def weighted(self, weights):
        """The same operator with other weights in its norms; nothing is copied."""
        other = copy.copy(self)
        if not np.array_equal(weights, self.weights):
            vars(other).pop("block_norms", None)
            other.weights = np.asarray(weights, dtype=np.float64)
        return other

    def packed_zeros(self):
        """p packed zero matrices."""
        return np.zeros((self.shape[1], packed_length(self.d)))

    # Products. X and A'y are kept packed, and rows are named by a plan, made
    # once for those that are used again.

    @abstractmethod
    def plan(self, rows):
        """What the products with the rows need to know of them."""

    @abstractmethod
    def row_products(self, plan, X, out):
        """out[k] = sum_j <A_i^j, X_j>, X packed."""

    @abstractmethod
    def add_rows(self, plan, coef, total, delta=None, wanted=None):
        """total_j += sum_k coef[k] A_i^j, packed, and delta_j is that where wanted, if anywhere.

        Returns the blocks j that the rows touch, None for all; delta is not set elsewhere.
        """

    def touched(self, plan):
        """The blocks that the rows touch."""
        return np.arange(self.shape[1])

    @abstractmethod
    def column_products(self, columns, matrices):
        """sum over j in columns of <A_i^j, matrices[j]> for every row i."""

    @abstractmethod
    def add_columns(self, columns, y, out):
        """out[k] = sum_i y_i A_i^j, written out."""

    @abstractmethod
    def row_cost(self, plan):
        """Multiply-adds of one product with the rows."""

    @abstractmethod
    def column_cost(self, columns):
        """Multiply-adds of one product with the columns."""

    @cached_property
    def _none_wanted(self):
        return np.zeros(self.shape[1], dtype=bool)

    @cached_property
    def _all_rows(self):
        return self.plan(np.arange(self.shape[0]))

    def matvec(self, x):
        x = np.ascontiguousarray(x, dtype=np.float64).reshape(self.x_shape)
        out = np.empty(self.shape[0])
        self.row_products(self._all_rows, pack(x), out)
        return out

    def rmatvec(self, y):
        return unpack(self.rmatvec_packed(y), self.d)

    def rmatvec_packed(self, y):
        total = self.packed_zeros()
        y = np.ascontiguousarray(y, dtype=np.float64)
        self.add_rows(self._all_rows, y, total)
        return total

    def products_of_rows(self, rows, x, y):
        plan, out, total = self.plan(rows), np.empty(len(rows)), self.packed_zeros()
        self.row_products(plan, pack(x), out)
        self.add_rows(plan, np.ascontiguousarray(y, dtype=np.float64), total)
        return out, unpack(total, self.d)

    # Norms.

    @cached_property
    @abstractmethod
    def block_norms(self):
        """The n x p operator of the numbers sqrt(w_j) |A_i^j|, whose norm bounds that of A."""

    @abstractmethod
    def gram(self, rows, columns=None, scale=None):
        """The products sum_j w_j <A_i^j, A_k^j> of rows, each scaled if asked to."""

    @abstractmethod
    def gram_cost(self, m):
        """Multiply-adds, or their time's worth, of the Gram matrix of m rows."""

    @property
    def row_norms2(self):
        return self.block_norms.row_norms2

    @property
    def column_norms2(self):
        return self.block_norms.column_norms2

    def block_sums(self, *asked):
        return self.block_norms.block_sums(*asked)

    def largest_head(self, *asked):
        return self.block_norms.largest_head(*asked)

    def norm2_bound(self):
        return self.block_norms.norm2_bound()

    def pairs(self, dual, primal):
        shape = (len(dual.starts) - 1, len(primal.starts) - 1)
        m = dual.largest
        cost = shape[0] * (self.gram_cost(m) + shape[1] * m ** 3 / 3)
        return Pairs(
            shape, cost if m <= LARGEST_GRAM else np.inf,
            lambda k, l: self.gram(dual.block(k), primal.block(l)),
        )

    #: Passes that the Gram matrix of sampled rows may take, unless there are so few.
    SAMPLING_PASSES, FEWEST = 2.0, 16

    def sample_size(self, most):
        size = min(most, self.shape[0])
        while size > self.FEWEST and self.gram_cost(size) > (
            self.SAMPLING_PASSES * self.multiply_adds
        ):
            size -= 1
        return size

    def sample_cost(self, size):
        return 2.0 * self.gram_cost(size)

    def sampled_norms2(self, rows):
        found = norms2_of_block(self.block_norms.row_block(rows), steps=0)
        heaviest = [int(np.argmax(self.column_norms2))]
        # Rounding may leave them a little below what they are at least.
        return found._replace(
            column=max(found.entry, top_eigenvalue(self.gram(rows, heaviest))),
            whole=max(found.row, top_eigenvalue(self.gram(rows))),
        )

    def scaled_norm2(self, rows, scale, exact):
        if exact:
            return top_eigenvalue(self.gram(rows, scale=scale))
        return self.block_norms.scaled_norm2(rows, scale, exact)


class MatrixOperator(BlockOperator):
    """Matrices stored as they are, symmetrised and packed.

    Parameters
    ----------
    packed : ndarray of shape (n, p, d (d + 1)/2)
        See `benchmark_dspdc.engine.symmetric`; half the memory, and half the time of
        a product, which waits for memory.
    d : int
    """

    kind = "matrix blocks"
    norm_price = 0.06

    #: Enough for the Gram matrix of up to 120 rows, which takes n/2 passes.
    constant_passes = 60

    #: Entries that one thread multiplies at a time, at least; products are summed
    #: by blocks, so results do not depend on the number of threads.
    SPAN = 2 ** 18

    def __init__(self, packed, d, weights=None):
        self.A = packed
        self.d = d
        self.shape = packed.shape[:2]
        self.weights = np.ones(self.shape[1]) if weights is None else weights

    @property
    def multiply_adds(self):
        return 2 * self.A.size

    def plan(self, rows):
        return np.ascontiguousarray(rows, dtype=np.int64)

    def in_spans(self, function, n_rows, n_blocks):
        """Call ``function(lo, hi)`` for parts of the blocks, side by side."""
        step = -(-self.SPAN // (n_rows * self.A.shape[2]))
        spans = [(k, min(k + step, n_blocks)) for k in range(0, n_blocks, step)]
        side_by_side(lambda span: function(*span), spans)

    def row_products(self, plan, X, out):
        partial = np.empty((self.shape[1], len(plan)))
        self.in_spans(
            lambda lo, hi: _dot_blocks(self.A, plan, None, lo, hi, X, partial), len(plan),
            self.shape[1],
        )
        out[:len(plan)] = partial.sum(axis=0)

    def add_rows(self, plan, coef, total, delta=None, wanted=None):
        if wanted is None:
            delta, wanted = total, self._none_wanted
        coef = np.ascontiguousarray(coef[:len(plan)])
        self.in_spans(
            lambda lo, hi: _add_rows(self.A, plan, lo, hi, coef, total, delta, wanted),
            len(plan), self.shape[1],
        )

    def column_products(self, columns, matrices):
        columns = np.ascontiguousarray(columns, dtype=np.int64)
        partial, X = np.empty((len(columns), self.shape[0])), pack(matrices)
        self.in_spans(
            lambda lo, hi: _dot_blocks(self.A, None, columns, lo, hi, X, partial), self.shape[0],
            len(columns),
        )
        return partial.sum(axis=0)

    def add_columns(self, columns, y, out):
        columns = np.ascontiguousarray(columns, dtype=np.int64)
        packed = np.empty((len(columns), self.A.shape[2]))
        self.in_spans(
            lambda lo, hi: _add_columns(self.A, columns, lo, hi, y, packed), self.shape[0],
            len(columns),
        )
        unpack(packed, self.d, out)

    def row_cost(self, plan):
        return len(plan) * self.shape[1] * self.A.shape[2]

    def column_cost(self, columns):
        return len(columns) * self.shape[0] * self.A.shape[2]

    @cached_property
    def block_norms(self):
        spend(self.A.size)
        squares = np.einsum("ijk,ijk->ij", self.A, self.A)
        return DenseOperator(np.sqrt(squares * self.weights))

    def gram(self, rows, columns=None, scale=None):
        K = np.zeros((len(rows), len(rows)))
        for j in range(self.shape[1]) if columns is None else columns:
            block = self.A[rows, j]
            K += self.weights[j] * (block @ block.T)
        return K if scale is None else K * scale[:, None] * scale

    def gram_cost(self, m):
        return m * m * self.shape[1] * self.A.shape[2]

    def miniature(self):
        return MatrixOperator(pack(np.ones((4, 3, 2, 2))), 2)


@njit(nogil=True)
def _dot_blocks(A, rows, columns, lo, hi, X, partial):
    """partial[k, i] = <A_i^j, X_k> for the blocks lo <= k < hi; None stands for all."""
    n = A.shape[0] if rows is None else len(rows)
    for k in range(lo, hi):
        j = k if columns is None else columns[k]
        for e in range(n):
            i = e if rows is None else rows[e]
            total = 0.0
            for c in range(A.shape[2]):
                total += A[i, j, c] * X[k, c]
            partial[k, e] = total


@njit(inline=True)
def _add(A, i, j, coef, out, k):
    for c in range(A.shape[2]):
        out[k, c] += coef * A[i, j, c]


@njit(nogil=True)
def _add_rows(A, rows, lo, hi, coef, total, delta, wanted):
    """total_j += sum over rows of coef_i A_i^j for lo <= j < hi; by way of delta_j if wanted."""
    for j in range(lo, hi):
        if wanted[j]:
            for c in range(A.shape[2]):
                delta[j, c] = 0.0
        for e in range(len(rows)):
            if coef[e] != 0.0:
                _add(A, rows[e], j, coef[e], delta if wanted[j] else total, j)
        if wanted[j]:
            for c in range(A.shape[2]):
                total[j, c] += delta[j, c]


@njit(nogil=True)
def _add_columns(A, columns, lo, hi, y, out):
    """out_k = sum over all rows of y_i A_i^j for lo <= k < hi."""
    for k in range(lo, hi):
        for c in range(A.shape[2]):
            out[k, c] = 0.0
        for i in range(A.shape[0]):
            if y[i] != 0.0:
                _add(A, i, columns[k], y[i], out, k)

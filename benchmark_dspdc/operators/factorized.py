"""A = UV, never formed."""

import functools
from functools import cached_property

import numpy as np

from ..engine.checks import as_array
from ..engine.meter import spend
from ..engine.simd import aligned
from ..engine.threads import single_threaded
from .gram import (
    Pairs,
    chunks,
    gram,
    largest_head_of_rows,
    quadratic_forms,
    smaller_gram,
    square_root,
    top_eigenvalue,
)
from .operator import SAMPLING_STEPS, NumbersOperator
from .row_loops import DenseRows, multiply, multiply_transposed

#: Sums of squares of entries that are larger could overflow.
LARGEST_ENTRY = 1e120


class FactorizedOperator(NumbersOperator):
    """A = UV with U of shape (n, d) and V of shape (d, p).

    V is stored transposed, so that a coordinate of x owns a contiguous row as
    a coordinate of y does, and rows are padded with zeros to a multiple of
    four doubles and aligned to cache lines.
    """

    kind = "factorized"
    norm_price = 0.25

    def __init__(self, U, V):
        U = as_array(U, "U", 2)
        V = as_array(V, "V", 2)
        if U.shape[1] != V.shape[0]:
            raise ValueError(
                f"U and V must have a common inner dimension d, got U of shape {U.shape} "
                f"and V of shape {V.shape}"
            )
        for name, factor in (("U", U), ("V", V)):
            # Norms of A alone do not show it where the other factor is tiny or zero.
            if not abs(factor).max() < LARGEST_ENTRY:
                raise ValueError(
                    f"{name} must have entries of size below {LARGEST_ENTRY:g}, got "
                    f"{abs(factor).max():.3g}; divide it and multiply the other factor"
                )
        self.d = U.shape[1]
        self.shape = (U.shape[0], V.shape[1])
        self.U = _padded(U)
        self.Vt = _padded(V.T)

    @property
    def entries(self):
        return self.U[:, :self.d], self.Vt[:, :self.d].T

    @property
    def multiply_adds(self):
        return 2 * self.d * sum(self.shape)

    def matvec(self, x):
        return _product(self.U, self.Vt, x)

    def rmatvec(self, y):
        return _product(self.Vt, self.U, y)

    @cached_property
    def row_norms2(self):
        spend(sum(self.shape) * self.d ** 2)
        return quadratic_forms(self.U, gram(self.Vt))

    @cached_property
    def column_norms2(self):
        spend(sum(self.shape) * self.d ** 2)
        return quadratic_forms(self.Vt, gram(self.U))

    #: Rows that tell the units of columns, where there are several times as many.
    UNIT_ROWS = 2000

    def column_units(self, of_directions=False):
        if self.shape[0] < 5 * self.UNIT_ROWS:
            return super().column_units(of_directions)
        return self._some_rows.column_units(of_directions)

    @cached_property
    def _some_rows(self):
        U, V = self.entries
        return FactorizedOperator(U[::self.shape[0] // self.UNIT_ROWS], V)

    def column_squares(self, weights):
        return quadratic_forms(self.Vt, gram(self.U * np.sqrt(weights)[:, None]))

    @cached_property
    def right_root(self):
        """A square root of V V', so that |U_I V| = |U_I right_root|."""
        return square_root(gram(self.Vt))

    def sides(self, transposed):
        """U and V' as (left, right), or the other way round."""
        return (self.Vt, self.U) if transposed else (self.U, self.Vt)

    def pairs(self, dual, primal):
        shape = (len(dual.starts) - 1, len(primal.starts) - 1)
        m, q, d = dual.largest, primal.largest, self.U.shape[1]
        side = min(m, q, d)
        cost = sum(self.shape) * d * d + shape[0] * shape[1] * (
            side * d * (side + d) + side ** 3 / 3 + 2e4
        )

        @functools.lru_cache(maxsize=1)
        def left(k):
            return gram(self.U[dual.block(k)])

        @functools.cache
        def right(l):
            H = gram(self.Vt[primal.block(l)])
            return square_root(H) if side == d else H

        def gram_of(k, l):
            if side == d:
                return right(l) @ left(k) @ right(l)
            if side == m:
                block = self.U[dual.block(k)]
                return block @ right(l) @ block.T
            block = self.Vt[primal.block(l)]
            return block @ left(k) @ block.T

        @functools.cache
        def all_left():
            # Blocks are of two sizes at most; the smaller ones get a row of zeros.
            sizes = np.diff(dual.starts)
            places = np.minimum(dual.starts[:-1, None] + np.arange(m), len(dual.order) - 1)
            blocks = self.U[dual.order[places]]
            blocks[np.flatnonzero(sizes < m), m - 1:] = 0.0
            return blocks.transpose(0, 2, 1) @ blocks

        def stack(l):
            return right(l) @ all_left() @ right(l)

        alike = shape[0] > 1 and np.diff(dual.starts).min() >= m - 1
        return Pairs(shape, cost, gram_of, stack if side == d and alike else None)

    def block_sums(self, blocks, transposed, budget):
        left, right = self.sides(transposed)
        n, width = left.shape
        n_blocks = len(blocks.starts) - 1
        if n * width * min(n_blocks * width, len(right)) > budget or n * n_blocks > 2e8:
            return None
        spend(n * width * min(n_blocks * width, len(right)))
        out = np.empty((n, n_blocks))
        if n_blocks * width < len(right):
            for k, block in enumerate(blocks.blocks):
                out[:, k] = quadratic_forms(left, gram(right[block]))
        else:
            arranged = right[blocks.order].T
            for rows in chunks(n, len(right)):
                squares = (left[rows] @ arranged) ** 2
                out[rows] = np.add.reduceat(squares, blocks.starts[:-1], axis=1)
        return out

    def largest_head(self, size, transposed, budget):
        left, right = self.sides(transposed)
        norms2 = self.column_norms2 if transposed else self.row_norms2
        if size >= len(right) or left.size * len(right) > budget:
            return float(norms2.max())
        return largest_head_of_rows(norms2, len(right), size, lambda rows: left[rows] @ right.T)

    #: Passes that a sample of rows of A may take, which have to be formed, or multiply-adds
    #: where that is little; and the fewest rows.
    SAMPLING_PASSES, LEAST_SAMPLING, FEWEST = 4.5, 4e6, 16

    def sample_size(self, most):
        allowed = max(self.SAMPLING_PASSES * self.multiply_adds, self.LEAST_SAMPLING)
        return min(most, self.shape[0], max(self.FEWEST, int(allowed / self.sample_cost(1))))

    def sample_cost(self, size):
        return size * self.shape[1] * (self.d + 2.0 * SAMPLING_STEPS)

    def row_block(self, indices):
        """Rows of A, for small samples of them."""
        return self.U[indices] @ self.Vt.T

    def products_of_rows(self, rows, x, y):
        U = self.U[rows]
        return U @ (self.Vt.T @ x), self.Vt @ (U.T @ y)

    def largest_entry2(self, budget):
        if self.U.size * len(self.Vt) <= budget:
            return super().largest_entry2(budget)
        factors = [float(np.einsum("ij,ij->i", M, M).max()) for M in (self.U, self.Vt)]
        value, kind = min(
            (factors[0] * factors[1], "Cauchy-Schwarz on U and V"),
            (float(self.row_norms2.max()), "the largest row norm"),
            (float(self.column_norms2.max()), "the largest column norm"),
        )
        return value, f"upper bound ({kind})"

    def scaled_norm2(self, rows, scale, exact):
        if not exact:
            return np.inf
        return top_eigenvalue(smaller_gram((self.U[rows] * scale[:, None]) @ self.right_root))

    def norm2_bound(self):
        return np.inf

    def weighted(self, weights):
        U, V = self.entries
        return FactorizedOperator(U, V * np.sqrt(weights))

    def miniature(self):
        return FactorizedOperator(np.eye(4), np.eye(4))


def _product(left, right, v):
    """left (right' v)."""
    inner, out = np.empty(right.shape[1]), np.empty(len(left))
    multiply_transposed(DenseRows(right), np.ascontiguousarray(v, dtype=np.float64), inner)
    multiply(DenseRows(left), inner, out)
    return out


#: The largest A = UV that `materialized` forms, in bytes.
LARGEST_PRODUCT = 4e9


def product_refused(U, V):
    """Why UV would not be formed, or None."""
    size = 8.0 * len(U) * np.shape(V)[1]
    if size <= LARGEST_PRODUCT:
        return None
    return (
        f"A = UV of shape {(len(U), np.shape(V)[1])} would take {size / 1e9:.3g} GB, more than "
        f"the limit of {LARGEST_PRODUCT / 1e9:g} GB; use materialize=False"
    )


@single_threaded
def materialized(U, V):
    """A = UV, unless it would take too much memory."""
    operator = FactorizedOperator(U, V)      # checks both
    if reason := product_refused(U, V):
        raise ValueError(reason)
    return operator.U @ operator.Vt.T


def _padded(matrix):
    rows, width = matrix.shape
    out = aligned((rows, -(-width // 4) * 4))
    out[:, :width] = matrix
    return out

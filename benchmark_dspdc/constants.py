"""The coupling constant Lambda: a bound on |A_I^J|^2 over the blocks drawn.

Step sizes are safe for any Lambda at least as large as the squared norm of
every block (I, J) that an iteration can touch, and fast when it is close.

``partition``
    The maximum over the pairs of blocks of two partitions: exact, or a stated
    upper bound when there are too many pairs to look at within a budget.
``bound``
    Valid for all subsets of sizes m and q:
    min(|A|^2, m max_i sum of the q largest a_ij^2, q max_j sum of the m largest a_ij^2).
``heuristic``
    m q max_i |A_i|^2 / p, the paper's suggestion. It can lie *below* the true
    constant (on the paper's first problem at m = 1, q = 50: 1162 against 1331
    for a partition), and the theorems do not cover it then.

Every "upper bound" here is one: eigenvalues come from LAPACK, comparisons
from Cholesky factorisations, and for matrices too large for either from the
Frobenius norm or a Collatz-Wielandt bound on |A|. Power iteration, which
approaches a norm from below, is never used as a bound.
"""

import functools
from numbers import Real
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse

from .checks import check_number, choose
from .jit import njit
from .operators.factorized import gram, quadratic_forms, square_root
from .sampling import Partition
from .threads import single_threaded

#: Multiply-adds that computing a constant may take, at least and in passes.
LEAST_BUDGET = 3e8
BUDGET_IN_PASSES = 50

#: Largest side of a Gram matrix that is ever formed.
LARGEST_GRAM = 2500


class Constant(NamedTuple):
    """A value and, in words, what is known of it."""

    value: float
    kind: str


@single_threaded
def coupling_constant(problem, Lambda, dual, primal, heuristic_scale=1.0):
    """Lambda for DSPDC.

    Parameters
    ----------
    problem : Problem
    Lambda : {"auto", "partition", "bound", "heuristic"} or float
    dual, primal : Partition or Subset
    heuristic_scale : float
        Only for the heuristic.

    Returns
    -------
    Constant
    """
    check_number(heuristic_scale, "heuristic_scale", 0.0, strict=True)
    if isinstance(Lambda, Real) and not isinstance(Lambda, bool):
        return Constant(check_number(Lambda, "Lambda", 0.0), "given")
    choose(Lambda, ("auto", "partition", "bound", "heuristic"), "Lambda")
    partitioned = isinstance(dual, Partition) and isinstance(primal, Partition)
    if Lambda == "auto":
        Lambda = "partition" if partitioned else "bound"
    operator = problem.operator
    if Lambda == "partition":
        if not partitioned:
            raise ValueError(
                "Lambda='partition' needs sampling='partition': with sampling='subset' blocks "
                "are not fixed; use Lambda='bound', 'heuristic' or a number"
            )
        return partition_constant(operator, dual, primal)
    m, q = dual.largest, primal.largest
    if Lambda == "bound":
        return subset_bound(operator, m, q)
    value = heuristic_scale * m * q * float(operator.row_norms2.max()) / operator.shape[1]
    return Constant(value, "heuristic, may lie below the true constant")


def budget(operator):
    """Multiply-adds that computing one constant may take."""
    return max(LEAST_BUDGET, BUDGET_IN_PASSES * operator.multiply_adds)


def partition_constant(operator, dual, primal):
    """The maximum of |A_I^J|^2 over all pairs of blocks, or an upper bound of it."""
    if dual.largest == 1 or primal.largest == 1:
        sums = _block_sums(operator, dual, primal)
        if sums is not None:
            return Constant(float(sums.max()), "exact")
    elif (pairs := _pairs(operator, dual, primal)).cost <= budget(operator):
        return Constant(_largest_eigenvalue(pairs), "exact")
    return _partition_bound(operator, dual, primal)


def _partition_bound(operator, dual, primal):
    whole_dual, whole_primal = _whole(operator.shape[0]), _whole(operator.shape[1])
    found = [norm2(operator)]
    for rows, columns, name in (
        (dual, whole_primal, "the norm of whole rows of a block"),
        (whole_dual, primal, "the norm of whole columns of a block"),
    ):
        if (pairs := _pairs(operator, rows, columns)).cost <= budget(operator):
            found.append(Constant(_largest_eigenvalue(pairs), name))
    sums = _block_sums(operator, dual, primal)
    if sums is not None:
        # Rows of a block, then the blocks: the largest Frobenius norm.
        per_block = np.add.reduceat(sums[dual.order], dual.starts[:-1], axis=0)
        found.append(Constant(float(per_block.max()), "Frobenius norm of a block"))
    found.append(Constant(
        dual.largest * float(operator.row_norms2.max()), "Frobenius norm of a block's rows"
    ))
    best = min(found, key=lambda c: c.value)
    return Constant(best.value, f"upper bound ({best.kind})")


def _whole(total):
    return Partition(np.array([0, total]), np.arange(total))


# Sums of squares: exact for single rows or columns, Frobenius norms otherwise ---

def _block_sums(operator, dual, primal):
    """S[i, J] = sum of a_ij^2 over j in J, or over i in I if primal blocks are single.

    For blocks of one row the largest of them is the constant; in general their
    sums over a block of rows are squared Frobenius norms. None if too costly.
    """
    if primal.largest == 1 and dual.largest > 1:
        return _sums(operator, dual, transposed=True)
    return _sums(operator, primal, transposed=False)


def _sums(operator, blocks, transposed):
    n, p = operator.shape if not transposed else operator.shape[::-1]
    n_blocks = len(blocks.starts) - 1
    if operator.kind == "csr":
        squares = operator._squares.T if transposed else operator._squares
        label = np.empty(p, dtype=np.int64)
        label[blocks.order] = np.repeat(np.arange(n_blocks), np.diff(blocks.starts))
        indicator = scipy.sparse.csr_array(
            (np.ones(p), label, np.arange(p + 1)), shape=(p, n_blocks)
        )
        grouped = squares @ indicator
        if n * n_blocks <= 1e7:
            return grouped.toarray()
        # Too wide to hold as an array; its largest entry is all that single
        # rows need, and the sum over rows bounds the rest.
        return grouped.max(axis=1).toarray().reshape(-1, 1)
    if n * n_blocks > 2e8:
        return None
    if operator.kind == "dense":
        A = operator.A.T if transposed else operator.A
        out = np.empty((n, n_blocks))
        for rows in _chunks(n, p):
            squares = A[rows][:, blocks.order] ** 2
            out[rows] = np.add.reduceat(squares, blocks.starts[:-1], axis=1)
        return out
    left, right = (operator.Vt, operator.U) if transposed else (operator.U, operator.Vt)
    width = left.shape[1]
    if min(n_blocks * width, p) * n * width > budget(operator):
        return None
    out = np.empty((n, n_blocks))
    if n_blocks * width < p:
        for k, block in enumerate(blocks.blocks):
            out[:, k] = quadratic_forms(left, gram(right[block]))
    else:
        arranged = right[blocks.order].T
        for rows in _chunks(n, p):
            out[rows] = np.add.reduceat((left[rows] @ arranged) ** 2, blocks.starts[:-1], axis=1)
    return out


def _chunks(n, width, entries=4_000_000):
    """Slices of rows that keep a temporary of that width small."""
    step = max(1, entries // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


# Pairs of blocks: Gram matrices -------------------------------------------------

class _Pairs(NamedTuple):
    """All pairs of blocks.

    ``shape`` counts them, ``cost`` estimates the multiply-adds of looking at
    all, and ``gram(k, l)`` gives the smaller Gram matrix of a pair.
    """

    shape: tuple
    cost: float
    gram: object


def _pairs(operator, dual, primal):
    find = _factor_pairs if operator.kind == "factorized" else _stored_pairs
    return find(operator, dual, primal)


def _stored_pairs(operator, dual, primal):
    rows, columns = dual.blocks, primal.blocks
    m, q = dual.largest, primal.largest
    count, side = len(rows) * len(columns), min(m, q)
    # Cutting a block out, its Gram matrix, a Cholesky factorisation.
    if operator.kind == "csr":
        per_row = operator.csr.nnz / operator.shape[0]
        cost = operator.csr.nnz * max(1.0, per_row) + count * (side ** 3 / 3 + 2e5)
    else:
        cost = operator.A.size * side + count * (side ** 3 / 3 + 2e4 + m * q)

    def gram_of(k, l):
        return _smaller_gram(operator.row_block(rows[k])[:, columns[l]])

    return _Pairs((len(rows), len(columns)), cost if side <= LARGEST_GRAM else np.inf, gram_of)


def _factor_pairs(operator, dual, primal):
    rows, columns = dual.blocks, primal.blocks
    m, q, d = dual.largest, primal.largest, operator.U.shape[1]
    side = min(m, q, d)
    cost = sum(operator.shape) * d * d + len(rows) * len(columns) * (
        side * d * (side + d) + side ** 3 / 3 + 2e4
    )

    @functools.lru_cache(maxsize=1)
    def left(k):
        return gram(operator.U[rows[k]])

    @functools.cache
    def right(l):
        H = gram(operator.Vt[columns[l]])
        return square_root(H) if side == d else H

    # |U_I V^J|^2 is the largest eigenvalue of each of these.
    def gram_of(k, l):
        if side == d:
            return right(l) @ left(k) @ right(l)
        if side == m:
            block = operator.U[rows[k]]
            return block @ right(l) @ block.T
        block = operator.Vt[columns[l]]
        return block @ left(k) @ block.T

    return _Pairs((len(rows), len(columns)), cost, gram_of)


def _largest_eigenvalue(pairs):
    """The largest eigenvalue of all the Gram matrices.

    Most pairs need no eigenvalue: K is below the record c if its trace is, or
    if c I - K has a Cholesky factorisation.
    """
    record = 0.0
    for k in range(pairs.shape[0]):
        for l in range(pairs.shape[1]):
            K = pairs.gram(k, l)
            if np.trace(K) <= record:
                continue
            if record > 0.0:
                shifted = -K
                shifted.flat[::len(K) + 1] += record
                if scipy.linalg.lapack.dpotrf(shifted, overwrite_a=True)[1] == 0:
                    continue
            record = max(record, top_eigenvalue(K))
    return record


def top_eigenvalue(K):
    last = len(K) - 1
    return max(0.0, float(scipy.linalg.eigh(
        K, eigvals_only=True, subset_by_index=[last, last], check_finite=False
    )[0]))


# The whole matrix -----------------------------------------------------------------

@single_threaded
def norm2(operator):
    """|A|^2, exactly where a Gram matrix can be had, else the smaller of two bounds."""
    n, p = operator.shape
    if min(n, p) <= LARGEST_GRAM or operator.kind == "factorized":
        pairs = _pairs(operator, _whole(n), _whole(p))
        if pairs.cost <= budget(operator):
            return Constant(_largest_eigenvalue(pairs), "|A|^2")
    frobenius = Constant(float(operator.row_norms2.sum()), "squared Frobenius norm of A")
    collatz = Constant(_collatz_wielandt(operator), "|A|^2 by Collatz-Wielandt")
    return min(frobenius, collatz, key=lambda c: c.value)


def _collatz_wielandt(operator):
    """The bound below, for operators with stored entries."""
    if operator.kind == "factorized":
        return np.inf
    return collatz_wielandt(operator.csr if operator.kind == "csr" else operator.A)


def collatz_wielandt(matrix, steps=15):
    """An upper bound on |A|^2 from |A| taken entry by entry.

    For M = |A|'|A|, which has no negative entry, and any positive vector v the
    largest eigenvalue is at most max_j (Mv)_j / v_j, and |A|_2^2 is at most
    that eigenvalue. Starting from v = 1 a few steps make the bound tight;
    for non-negative data (text, counts) it then is |A|^2 itself.
    """
    absolute = abs(matrix)
    v = np.ones(absolute.shape[1])
    best = np.inf
    for _ in range(steps):
        image = absolute.T @ (absolute @ v)
        best = min(best, float(np.max(image / v)))
        if best == 0.0:
            break
        # Keep v positive where a column is empty.
        v = np.maximum(image / image.max(), 1e-8 * v)
    return best


# Batches of normalised rows ---------------------------------------------------------

@single_threaded
def normalised_norms2(operator, blocks):
    """For each block of rows I, the s with |A_I' dy|^2 <= s sum_i |a_i|^2 dy_i^2.

    That is the squared norm of the block with its rows normalised, at most the
    number of rows; an upper bound of it where the Gram matrices are too large.
    """
    norms = np.sqrt(operator.row_norms2)
    side = min(blocks.largest, operator.U.shape[1] if operator.kind == "factorized" else
               operator.shape[1])
    affordable = side <= LARGEST_GRAM and (
        len(blocks.starts) * (2e4 + side ** 3) + operator.multiply_adds * side <= budget(operator)
    )
    out = np.ones(len(blocks.starts) - 1)
    for k, rows in enumerate(blocks.blocks):
        rows = rows[norms[rows] > 0.0]
        if len(rows) > 1:
            out[k] = min(len(rows), _normalised_norm2(operator, rows, norms[rows], affordable))
    return out


def _normalised_norm2(operator, rows, norms, affordable):
    if operator.kind == "factorized":
        if not affordable:
            return np.inf
        U, root = operator.U[rows] / norms[:, None], operator.right_root
        return top_eigenvalue(_smaller_gram(U @ root))
    block = operator.row_block(rows)
    if scipy.sparse.issparse(block):
        block = scipy.sparse.diags_array(1.0 / norms) @ block
    else:
        block = block / norms[:, None]
    return top_eigenvalue(_smaller_gram(block)) if affordable else collatz_wielandt(block)


def _smaller_gram(block):
    """B B' or B'B, whichever is smaller."""
    if block.shape[0] > block.shape[1]:
        block = block.T
    K = block @ block.T
    return K.toarray() if scipy.sparse.issparse(K) else K


# Subsets ----------------------------------------------------------------------------

def subset_bound(operator, m, q):
    """An upper bound on |A_I^J|^2 over all |I| = m, |J| = q."""
    found = [
        norm2(operator),
        Constant(
            m * _largest_head(operator, q, transposed=False), "m times the heaviest q of a row"
        ),
        Constant(
            q * _largest_head(operator, m, transposed=True), "q times the heaviest m of a column"
        ),
    ]
    best = min(found, key=lambda c: c.value)
    return Constant(best.value, f"upper bound over subsets ({best.kind})")


def _largest_head(operator, size, transposed):
    """max over rows of the sum of the `size` largest a_ij^2 (columns if transposed)."""
    n, p = operator.shape if not transposed else operator.shape[::-1]
    norms2 = operator.column_norms2 if transposed else operator.row_norms2
    if size >= p:
        return float(norms2.max())
    if operator.kind == "csr":
        rows = operator.columns if transposed else operator.rows
        return _largest_sparse_head(rows.data, rows.indptr, size)
    if operator.kind == "factorized":
        left, right = (operator.Vt, operator.U) if transposed else (operator.U, operator.Vt)
        if n * p * left.shape[1] > budget(operator):
            return float(norms2.max())

        def block(rows):
            return left[rows] @ right.T
    else:
        A = operator.A.T if transposed else operator.A

        def block(rows):
            return A[rows]
    best = 0.0
    for rows in _chunks(n, p):
        # Rows that could not win are not sorted.
        rows = np.arange(rows.start, rows.stop)[norms2[rows] > best]
        if len(rows):
            squares = block(rows) ** 2
            heads = np.partition(squares, p - size, axis=1)[:, p - size:].sum(axis=1)
            best = max(best, float(heads.max()))
    return best


@njit(allocates=True)
def _largest_sparse_head(data, indptr, size):
    best = 0.0
    for i in range(indptr.shape[0] - 1):
        squares = data[indptr[i]:indptr[i + 1]] ** 2
        if squares.sum() > best:
            if squares.shape[0] > size:
                squares = np.sort(squares)[squares.shape[0] - size:]
            best = max(best, squares.sum())
    return best

"""Linear algebra behind the constants: Gram matrices, norms and bounds on them.

A squared norm is the largest eigenvalue of the smaller Gram matrix. What is
called a bound here is one: eigenvalues come from LAPACK, comparisons from
Cholesky factorisations, and for matrices too large for either there is
`collatz_wielandt`. Power iteration approaches a norm from below and is not used.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse

from ..engine.meter import spend
from ..engine.threads import single_threaded

#: Largest side of a Gram matrix that is ever formed.
LARGEST_GRAM = 2500


class Pairs(NamedTuple):
    """All pairs of blocks of two partitions."""

    #: Numbers of blocks of rows and of columns.
    shape: tuple
    #: About the multiply-adds of looking at all of them.
    cost: float
    #: ``gram(k, l)`` is a matrix whose largest eigenvalue is |A_I^J|^2.
    gram: Callable
    #: ``stack(l)`` are those of all k, one array, where that is the faster way.
    stack: Callable = None


@single_threaded
def gram(rows):
    """M'M of a matrix stored by rows."""
    return rows.T @ rows


@single_threaded
def quadratic_forms(rows, Q):
    """The numbers m_i' Q m_i over the rows m_i."""
    return np.einsum("ij,ij->i", rows @ Q, rows)


@single_threaded
def square_root(H):
    """The symmetric square root of a positive semi-definite matrix."""
    values, vectors = scipy.linalg.eigh(H)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def smaller_gram(block):
    """B B' or B'B as an ndarray, whichever is smaller."""
    if block.shape[0] > block.shape[1]:
        block = block.T
    K = block @ block.T
    return K.toarray() if scipy.sparse.issparse(K) else K


def top_eigenvalue(K):
    """The largest eigenvalue of a positive semi-definite matrix."""
    last = len(K) - 1
    return max(0.0, float(scipy.linalg.eigh(
        K, eigvals_only=True, subset_by_index=[last, last], check_finite=False
    )[0]))


def certified_top(K, slack=0.01):
    """An upper bound on the largest eigenvalue of a positive semi-definite matrix.

    At most `slack` above the eigenvalue, unless that is hard to find: power
    iteration guesses it from below, and a Cholesky factorisation of c I - K
    proves that no eigenvalue is above c.
    """
    if len(K) <= 100:
        return top_eigenvalue(K)
    v = K.sum(axis=1)
    guess = 0.0
    for _ in range(60):
        size = np.linalg.norm(v)
        if size == 0.0:
            break
        image = K @ (v / size)
        guess, v = np.linalg.norm(image), image
    limit = float(np.abs(K).sum(axis=1).max())
    bound = guess * (1.0 + slack)
    while 0.0 < bound < limit:
        if _is_below(K, bound):
            return bound
        bound *= 1.0 + slack
        slack *= 2.0
    return limit


def _is_below(K, bound):
    """Whether a Cholesky factorisation proves that no eigenvalue is above the bound."""
    shifted = -K
    shifted.flat[::len(K) + 1] += bound
    return scipy.linalg.lapack.dpotrf(shifted, overwrite_a=True)[1] == 0


def largest_norm2(pairs):
    """The largest |A_I^J|^2 over all pairs.

    Most pairs need no eigenvalue: K is below the record c if its trace is, or
    if c I - K has a Cholesky factorisation.
    """
    record = 0.0
    spend(pairs.cost)
    if pairs.stack is not None:
        for l in range(pairs.shape[1]):
            record = _largest_of_stack(pairs.stack(l), record)
        return record
    for k in range(pairs.shape[0]):
        for l in range(pairs.shape[1]):
            K = pairs.gram(k, l)
            if np.trace(K) > record and not (record > 0.0 and _is_below(K, record)):
                record = max(record, top_eigenvalue(K))
    return record


def _largest_of_stack(stack, record):
    """The largest eigenvalue of all the matrices, or the record if that is larger."""
    stack = stack[np.trace(stack, axis1=1, axis2=2) > record]
    while len(stack):
        # Power iteration only says where to look first.
        v = stack[:, :, 0] + stack.sum(axis=2)
        for _ in range(15):
            size = np.linalg.norm(v, axis=1, keepdims=True)
            v = (stack @ (v / np.maximum(size, 1e-300))[:, :, None])[:, :, 0]
        best = np.argmax(np.linalg.norm(v, axis=1))
        record = max(record, top_eigenvalue(stack[best]))
        stack = np.delete(stack, best, axis=0)
        shifted = -stack
        shifted[:, *np.diag_indices(stack.shape[1])] += record
        try:
            np.linalg.cholesky(shifted)
            break
        except np.linalg.LinAlgError:
            stack = stack[np.trace(stack, axis1=1, axis2=2) > record]
    return record


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
    spend(2.0 * steps * (matrix.nnz if scipy.sparse.issparse(matrix) else matrix.size))
    for _ in range(steps):
        image = absolute.T @ (absolute @ v)
        best = min(best, float(np.max(image / v)))
        if best == 0.0:
            break
        # Keep v positive where a column is empty.
        v = np.maximum(image / image.max(), 1e-8 * v)
    return best


class Norms2(NamedTuple):
    """Squared norms in a block of A, for estimates: the largest of each kind, means, its own."""

    entry: float
    row: float
    column: float
    mean_entry: float
    mean_row: float
    whole: float


def norms2_of_block(block, steps=10):
    """Squared norms in a block; its own by power iteration, hence from below."""
    squares = abs(block) ** 2
    rows = squares.sum(axis=1)
    found = [squares.max(), rows.max(), squares.sum(axis=0).max(), squares.mean(), rows.mean()]
    v = np.ones(block.shape[1])
    norm2 = 0.0
    for _ in range(steps):
        image = block.T @ (block @ v)
        norm2 = np.linalg.norm(image)
        if norm2 == 0.0:
            break
        v = image / norm2
    return Norms2(*np.maximum([*found, norm2], 1e-300).tolist())


def chunks(n, width, entries=4_000_000):
    """Slices of rows that keep a temporary of that width small."""
    step = max(1, entries // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def largest_head_of_rows(norms2, width, size, block):
    """max over rows of the sum of the `size` largest squares.

    ``block(indices)`` gives rows of length `width` as an array. Rows that could not win by
    their `norms2` are not looked at.
    """
    best = 0.0
    for part in chunks(len(norms2), width):
        rows = np.arange(part.start, part.stop)[norms2[part] > best]
        if len(rows):
            squares = block(rows) ** 2
            heads = np.partition(squares, width - size, axis=1)[:, width - size:].sum(axis=1)
            best = max(best, float(heads.max()))
    return best

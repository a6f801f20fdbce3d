"""Projection on the cone of positive semidefinite matrices.

The projection of a symmetric M = V diag(l) V' is V diag(max(l, 0)) V'. It is
found here with an error, in the Frobenius norm, below 1e-12 of the norm of M.

1. When M, shifted by a part of the allowed error, has a Cholesky factor, M is
   its own projection; when -M has, the projection is zero. A `Projector`
   remembers how many eigenvalues of each sign a block had, and so tries this
   only where it may succeed.
2. Else M is reduced to a tridiagonal T, and Sturm sequences count the negative
   and the positive eigenvalues of T. The vectors of the smaller side are
   enough: M+ is the sum of l v v' over the positive ones, and M + sum |l| v v'
   over the negative ones. The latter cancels if M+ is far smaller than M: its
   error is small beside M and not beside M+, which must be semidefinite to
   rounding of its own. Then the positive side is taken, whatever its size.
3. Those eigenvalues are found by bisection, all at once, and their vectors by
   twisted factorisations. The vectors are checked; when eigenvalues are so
   close that they fail, divide and conquer finds all eigenvectors of T, and
   should that fail, the QR algorithm.

Compiled code calls LAPACK at its addresses in scipy, with the interpreter's
lock released, so that matrices can be projected side by side on several threads.

References
----------
Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., Theorem 10.3:
if Cholesky succeeds, R'R = A + E with |E| <= gamma |R'||R|, gamma =
(d+1)u / (1 - (d+1)u); hence ||E||_F <= gamma trace(A).
Parlett and Dhillon, Fernando's solution to Wilkinson's problem: an application
of double factorization, Linear Algebra and its Applications 267, 1997.
"""

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from .checks import check_buffer
from .kernel_cache import njit
from .simd import aligned
from .threads import kept_by_thread, side_by_side

#: Of the error allowed, 1e-12 of the Frobenius norm: what a matrix that counts
#: as semidefinite may be away from the cone, what eigenvalues so close to zero
#: that they count as zero may weigh together, and what the defect of the
#: computed eigenvectors may be. The rest is for rounding.
CHOLESKY_ERROR = 8e-13
ZERO_ERROR = 1e-13
VECTOR_ERROR = 1e-13

#: A projection this part of its matrix, or less, is not found by subtraction.
SMALL_PART = 1e-2

UNIT_ROUNDOFF = np.finfo(float).eps / 2
UNKNOWN = -1
INFINITE_BITS = 0x7FF0000000000000


class ProjectionError(ArithmeticError):
    """A matrix has no projection: it is not finite, or no eigensolver succeeded."""


# Loops over matrices --------------------------------------------------------------

_TILE = 16


@njit(nogil=True)
def _symmetrize(M, bits):
    """Replace M by its symmetric part; returns the largest |entry|, as an integer.

    `bits` is M seen as integers: for the absolute values of floats, the order
    is the same, NaN comes after infinity, and the maximum vectorises.
    """
    d = M.shape[0]
    for i0 in range(0, d, _TILE):
        i1 = min(i0 + _TILE, d)
        for j0 in range(0, i1, _TILE):
            for i in range(i0, i1):
                for j in range(j0, min(j0 + _TILE, i)):
                    a, b = M[i, j], M[j, i]
                    if a != b:
                        # Not 0.5 (a + b), which may overflow.
                        a = 0.5 * a + 0.5 * b
                        M[i, j] = a
                        M[j, i] = a
    top = 0
    for i in range(d):
        for j in range(d):
            top = max(top, bits[i, j] & 0x7FFFFFFFFFFFFFFF)
    return top


@njit(nogil=True)
def _measure(M, factor):
    """Frobenius norm, trace, least and largest diagonal entry of factor M."""
    squares, trace = 0.0, 0.0
    low, high = math.inf, -math.inf
    for i in range(M.shape[0]):
        for j in range(M.shape[0]):
            squares += (factor * M[i, j]) ** 2
        a = factor * M[i, i]
        trace += a
        low, high = min(low, a), max(high, a)
    return math.sqrt(squares), trace, low, high


@njit(nogil=True)
def _shifted(M, A, factor, shift):
    """A = factor M + shift I."""
    for i in range(M.shape[0]):
        for j in range(M.shape[0]):
            A[i, j] = factor * M[i, j]
        A[i, i] += shift


@njit(nogil=True)
def _combine(M, C, keep, factor):
    """M = keep M + factor C, symmetric; of C only the lower triangle is read."""
    d = M.shape[0]
    for i0 in range(0, d, _TILE):
        i1 = min(i0 + _TILE, d)
        for j0 in range(0, i1, _TILE):
            for i in range(i0, i1):
                for j in range(j0, min(j0 + _TILE, i + 1)):
                    a = keep * M[i, j] + factor * C[i, j]
                    M[i, j] = a
                    M[j, i] = a


# The tridiagonal matrix -----------------------------------------------------------

#: Sturm sequences side by side that take hardly more time than one: divisions
#: have to wait for each other in one of them, and not between them.
LANES = 32


@njit(nogil=True)
def _counts_below(diagonal, off, x, pivots, counts, n):
    """How many eigenvalues of T are below each of n values x, by Sturm sequences."""
    for k in range(n):
        pivots[k] = 1.0
        counts[k] = 0.0
    for i in range(diagonal.shape[0]):
        # A pivot of zero gives an infinite one, then one as if the matrix began
        # anew; only 0 / 0 must not be.
        square = off[i - 1] ** 2 + 1e-290 if i > 0 else 0.0
        for k in range(n):
            pivot = (diagonal[i] - x[k]) - square / pivots[k]
            pivots[k] = pivot
            counts[k] += 1.0 if pivot < 0.0 else 0.0


@njit(nogil=True, allocates=True)
def _bisect(diagonal, off, first, count, values, work):
    """Eigenvalues first to first + count - 1 of T, to rounding of its norm.

    An interval is cut at several points at once as long as there are lanes.
    """
    d = diagonal.shape[0]
    bound = 0.0
    for i in range(d):
        radius = (abs(off[i - 1]) if i > 0 else 0.0) + (abs(off[i]) if i < d - 1 else 0.0)
        bound = max(bound, abs(diagonal[i]) + radius)
    cuts = max(1, LANES // count)
    n = cuts * count
    x, pivots, counts = work[:n], work[n:2 * n], work[2 * n:3 * n]
    lows, highs = work[3 * n:3 * n + count], work[3 * n + count:3 * n + 2 * count]
    for k in range(count):
        lows[k], highs[k] = -bound, bound
    width = 2.0 * bound
    while width > UNIT_ROUNDOFF * bound:
        for k in range(count):
            for c in range(cuts):
                x[k * cuts + c] = lows[k] + (c + 1) * ((highs[k] - lows[k]) / (cuts + 1))
        _counts_below(diagonal, off, x, pivots, counts, n)
        for k in range(count):
            c = 0
            while c < cuts and counts[k * cuts + c] <= first + k:
                lows[k] = x[k * cuts + c]
                c += 1
            if c < cuts:
                highs[k] = x[k * cuts + c]
        width /= cuts + 1
    for k in range(count):
        values[k] = 0.5 * (lows[k] + highs[k])


@njit(inline=True)
def _flushed(z):
    """Zero for what is far below rounding: arithmetic with denormal numbers is slow."""
    return z if abs(z) > 1e-100 else 0.0


@njit(nogil=True)
def _twisted(diagonal, off, values, count, Z, up, down):
    """Row k of Z = null vector of T - values[k] I, nearly.

    The factorisations from both ends, kept in `up` and `down`, are joined at
    the row where the last pivot is the smallest.
    """
    d = diagonal.shape[0]
    for i in range(d - 1, -1, -1):
        for k in range(count):
            pivot = diagonal[i] - values[k]
            if i < d - 1:
                pivot -= off[i] ** 2 / up[i + 1, k]
            up[i, k] = pivot if abs(pivot) > 1e-200 else 1e-200
    for i in range(d):
        for k in range(count):
            pivot = diagonal[i] - values[k]
            if i > 0:
                pivot -= off[i - 1] ** 2 / down[i - 1, k]
            down[i, k] = pivot if abs(pivot) > 1e-200 else 1e-200
    for k in range(count):
        twist, least = 0, math.inf
        for i in range(d):
            last = abs(up[i, k] + down[i, k] - (diagonal[i] - values[k]))
            if last < least:
                twist, least = i, last
        Z[k, twist] = 1.0
        for i in range(twist - 1, -1, -1):
            Z[k, i] = _flushed(-Z[k, i + 1] * off[i] / down[i, k])
        for i in range(twist + 1, d):
            Z[k, i] = _flushed(-Z[k, i - 1] * off[i - 1] / up[i, k])


@njit(nogil=True)
def _polish(values, Z, count):
    """Make the first rows of Z orthonormal, which they nearly are, by Gram-Schmidt.

    Vectors of eigenvalues far from each other are orthogonal as they are.
    """
    near = 0.05 * max(abs(values[0]), abs(values[count - 1]))
    for k in range(count):
        for m in range(k + 1):
            if values[k] - values[m] > near:
                continue
            dot = 0.0
            for i in range(Z.shape[1]):
                dot += Z[k, i] * Z[m, i]
            if m < k:
                for i in range(Z.shape[1]):
                    Z[k, i] -= dot * Z[m, i]
            else:
                dot = 1.0 / math.sqrt(dot)
                for i in range(Z.shape[1]):
                    Z[k, i] *= dot


@njit(nogil=True)
def _defect(diagonal, off, values, Z, count):
    """How far the first rows of Z are from orthonormal eigenvectors.

    The Frobenius norm of T Z' - Z' diag(values), plus that of Z Z' - I times
    the largest |value|: each bounds its part of the error of Z' diag(values) Z.
    """
    d = diagonal.shape[0]
    residual, skewness, top = 0.0, 0.0, 0.0
    for k in range(count):
        top = max(top, abs(values[k]))
        for i in range(d):
            r = (diagonal[i] - values[k]) * Z[k, i]
            if i > 0:
                r += off[i - 1] * Z[k, i - 1]
            if i < d - 1:
                r += off[i] * Z[k, i + 1]
            residual += r * r
        for m in range(k + 1):
            dot = 0.0
            for i in range(d):
                dot += Z[k, i] * Z[m, i]
            skewness += (dot - 1.0) ** 2 if m == k else 2.0 * dot * dot
    return math.sqrt(residual) + math.sqrt(skewness) * top


# LAPACK ---------------------------------------------------------------------------

#: Routines, each with its arguments: letters for choices, else parts of a workspace.
ROUTINES = {
    "dpotrf": "U n A n info",
    "dsytrd": "L n A n diagonal off tau work size info",
    "dstedc": "I n values off_copy Z n work size iwork isize info",
    "dsteqr": "I n values off_copy Z n work info",
    "dormtr": "L L N n count A n tau Z n work size info",
    "dsyrk": "U N n count one Z n zero A n",
}
LETTERS = np.frombuffer(b"ILNU", np.uint8)

#: Bytes of a line of the table of calls: a routine's address and those of its arguments.
LINE = 8 * 14
POTRF, SYTRD, STEDC, STEQR, ORMTR, SYRK = range(0, 6 * LINE, LINE)

#: The scalars that LAPACK reads or writes, and places of two of them. They are 64 bits wide
#: and begin as zeros, so that LAPACK may have integers of 32 bits as well as of 64.
INTEGERS = ("n", "info", "count", "size", "isize")
INFO, COUNT = 1, 2


@intrinsic(prefer_literal=True)
def _call(typing_context, line, n_arguments):
    """Call the routine of a line of the table, given by its address."""
    if not isinstance(n_arguments, types.IntegerLiteral):
        return None
    word = ir.IntType(64)

    def generate(context, builder, signature, given):
        cells = builder.inttoptr(given[0], word.as_pointer())
        address, *arguments = (
            builder.load(builder.gep(cells, [ir.Constant(word, k)]))
            for k in range(1 + n_arguments.literal_value)
        )
        routine = ir.FunctionType(ir.VoidType(), [word] * len(arguments))
        builder.call(builder.inttoptr(address, routine.as_pointer()), arguments)
        return context.get_dummy_value()

    return types.void(types.int64, n_arguments), generate


class Workspace(NamedTuple):
    """What one thread needs to project matrices of size d."""

    #: Address of the table of calls: what LAPACK is given stays where it is.
    calls: int
    integers: np.ndarray
    #: The matrix, brought to a size of about 1, then what LAPACK makes of it.
    A: np.ndarray
    #: A row is an eigenvector of the tridiagonal matrix T; for LAPACK, a column.
    Z: np.ndarray
    values: np.ndarray
    #: T, and a copy of its off-diagonal for LAPACK to destroy.
    diagonal: np.ndarray
    off: np.ndarray
    off_copy: np.ndarray
    work: np.ndarray


@kept_by_thread(4)
def workspace(d):
    """Allocated in one piece, which lives as long as any array of the workspace.

    Everything begins at a multiple of 64 bytes, so that rounding cannot depend
    on where a workspace lies.
    """
    # Enough for divide and conquer, for blocks of 64 columns, and for `_bisect`.
    size, isize = 64 + 64 * d + d * d, 3 + 5 * d
    lengths = dict(
        A=d * d, Z=d * d, values=d, diagonal=d, off=d, off_copy=d, tau=d, work=size,
        iwork=isize, integers=len(INTEGERS), reals=2, calls=len(ROUTINES) * LINE // 8,
    )
    ends = np.cumsum([-(-length // 8) * 8 for length in lengths.values()])
    pieces = zip(lengths.items(), np.split(aligned(ends[-1]), ends[:-1]), strict=True)
    part = {name: piece[:length] for (name, length), piece in pieces}
    part["reals"][:] = 0.0, 1.0
    part["integers"] = part["integers"].view(np.int64)
    part["integers"][:] = d, 0, 0, size, isize

    at = {name: array.ctypes.data for name, array in part.items()}
    at |= {name: at["integers"] + 8 * k for k, name in enumerate(INTEGERS)}
    at |= {"zero": at["reals"], "one": at["reals"] + 8}
    at |= {letter: LETTERS.ctypes.data + k for k, letter in enumerate("ILNU")}
    table = part["calls"].view(np.int64).reshape(len(ROUTINES), -1)
    for line, (routine, arguments) in zip(table, ROUTINES.items(), strict=True):
        library = "blas" if routine == "dsyrk" else "lapack"
        address = get_cython_function_address(f"scipy.linalg.cython_{library}", routine)
        given = [at[name] for name in arguments.split()]
        line[:1 + len(given)] = address, *given
    part |= dict(calls=at["calls"], A=part["A"].reshape(d, d), Z=part["Z"].reshape(d, d))
    return Workspace(*(part[name] for name in Workspace._fields))


# Eigensolvers for the tridiagonal matrix ------------------------------------------

@njit(nogil=True, allocates=True)
def bisection(space, low, high, tol):
    """Eigenpairs low to high - 1, counted from the smallest, to the first rows of `Z`.

    Returns whether they were found: vectors of eigenvalues close together fail, and are
    accepted by what they are, their residuals and products up to `tol`.
    """
    d, count = space.Z.shape[0], high - low
    # The smaller side has at most d / 2 eigenvalues: this fits.
    half = d * count
    _bisect(space.diagonal, space.off, low, count, space.values, space.work)
    for k in range(1, count):
        if space.values[k] - space.values[k - 1] < 0.1 * tol:
            return False
    _twisted(space.diagonal, space.off, space.values, count, space.Z,
             space.work[:half].reshape(d, count), space.work[half:2 * half].reshape(d, count))
    _polish(space.values, space.Z, count)
    return _defect(space.diagonal, space.off, space.values, space.Z, count) <= tol


def _from_all(line, n_arguments):
    """`bisection`, but from all eigenvectors by a routine; what LAPACK reports is believed."""
    @njit(nogil=True)
    def solve(space, low, high, tol):
        d = space.Z.shape[0]
        for i in range(d):
            space.values[i] = space.diagonal[i]
            space.off_copy[i] = space.off[i]
        _call(space.calls + line, n_arguments)
        if low > 0:
            for k in range(high - low):
                space.values[k] = space.values[low + k]
                for i in range(d):
                    space.Z[k, i] = space.Z[low + k, i]
        return space.integers[INFO] == 0
    return solve


#: In the order in which they are tried; the QR algorithm is slow and hardly ever fails.
EIGENSOLVERS = {
    "bisection": bisection, "divide_and_conquer": _from_all(STEDC, 11), "qr": _from_all(STEQR, 8),
}


def _eigenpairs(space, low, high, tol):
    for name, solver in EIGENSOLVERS.items():
        # Bisection has room for the smaller side only.
        if name == "bisection" and 2 * (high - low) > space.Z.shape[0]:
            continue
        if solver(space, low, high, tol):
            return
    raise ProjectionError(f"none of {', '.join(EIGENSOLVERS)} found its eigenvectors")


# One matrix -------------------------------------------------------------------------

@njit(inline=True)
def _has_factor(space, M, factor, shift):
    _shifted(M, space.A, factor, shift)
    _call(space.calls + POTRF, 5)
    return space.integers[INFO] == 0


@njit(inline=True)
def _cholesky_shift(d, norm, trace):
    """What may be added to the diagonal such that success still bounds the error.

    If A + sI + E is semidefinite, A is no further from the cone than
    s sqrt(d) + ||E||_F. Should the bound of ||E||_F alone be too much, s is
    negative, and A no further than ||E||_F - |s|.
    """
    gamma = (d + 1) * UNIT_ROUNDOFF
    left = CHOLESKY_ERROR * norm - gamma / (1.0 - gamma) * abs(trace)
    return left / math.sqrt(d) if left > 0.0 else left


@njit(inline=True)
def _scale(top):
    """The power of two that brings the largest entry, given as bits, to about 1."""
    exponent = 1023 - (top >> 52)
    return math.ldexp(1.0, min(max(exponent, -1000), 1000))


@njit(nogil=True, allocates=True)
def _begin(space, M, bits, last_negative, last_positive):
    """Settle M by Cholesky, or reduce it to a tridiagonal matrix and count signs.

    Returns whether M is still to be decomposed, how many eigenvalues are below and above zero
    by more than rounding, a factor that brings M to a size of about 1, and the Frobenius norm of
    that, which is infinite if M is not finite.
    """
    d = M.shape[0]
    top = _symmetrize(M, bits)
    if top >= INFINITE_BITS:
        return False, 0, 0, 0.0, math.inf
    if top == 0:
        return False, 0, 0, 0.0, 0.0
    factor = _scale(top)
    norm, trace, low, high = _measure(M, factor)
    shift = _cholesky_shift(d, norm, trace)
    if last_negative <= 0 and low + shift > 0.0 and _has_factor(space, M, factor, shift):
        return False, 0, d, factor, norm
    if last_positive <= 0 and high - shift < 0.0 and _has_factor(space, M, -factor, shift):
        _combine(M, M, 0.0, 0.0)
        return False, d, 0, factor, norm
    _shifted(M, space.A, factor, 0.0)
    _call(space.calls + SYTRD, 10)
    zero = ZERO_ERROR * norm / math.sqrt(d)
    x, pivots, counts = space.work[0:2], space.work[2:4], space.work[4:6]
    x[0], x[1] = -zero, zero
    _counts_below(space.diagonal, space.off, x, pivots, counts, 2)
    return True, int(counts[0]), d - int(counts[1]), factor, norm


@njit(nogil=True)
def _end(space, M, keep, count, factor):
    """M = keep M + the sum of |l| v v' over the eigenpairs in the first rows of `Z`."""
    for k in range(count):
        root = math.sqrt(abs(space.values[k]))
        for i in range(space.Z.shape[1]):
            space.Z[k, i] *= root
    space.integers[COUNT] = count
    if count > 0:
        _call(space.calls + ORMTR, 13)
    _call(space.calls + SYRK, 10)
    _combine(M, space.A, keep, 1.0 / factor)


def _project_one(M, bits, last_negative, last_positive):
    """Project M in place.

    Returns the numbers of negative and of positive eigenvalues, and whether
    Cholesky was not enough to know.
    """
    d, space = M.shape[0], workspace(M.shape[0])
    decompose, negative, positive, factor, norm = _begin(
        space, M, bits, last_negative, last_positive)
    if norm == math.inf:
        raise ProjectionError("an entry is not finite")
    if decompose:
        keep, low, high = 0.0, d - positive, d
        if positive > negative:
            keep, low, high = 1.0, 0, negative
        if low < high:
            _eigenpairs(space, low, high, VECTOR_ERROR * norm)
            rest = norm ** 2 - np.sum(space.values[:high - low] ** 2)
            if keep == 1.0 and rest < (SMALL_PART * norm) ** 2:
                keep, low, high = 0.0, d - positive, d
                _eigenpairs(space, low, high, VECTOR_ERROR * norm)
        _end(space, M, keep, high - low, factor)
    return negative, positive, decompose


# Many -------------------------------------------------------------------------------

#: Smaller matrices take so little time that threads mostly wait for the
#: interpreter: two took 1.4 times as long as one at d = 16, and 0.6 at d = 48.
WORTH_THREADS = 48


def each(function, items, d):
    """``[function(item) for item in items]``, side by side if matrices of size d are worth it."""
    if d >= WORTH_THREADS:
        return side_by_side(function, items)
    return side_by_side(lambda every: [function(item) for item in every], [items])[0]


class Projector:
    """Projects blocks on the cone of positive semidefinite matrices.

    It has p blocks of d x d, and remembers the signs of each block's last spectrum. What is
    remembered decides what is tried first, and changes results by rounding only.
    """

    def __init__(self, p, d):
        if p < 0 or d < 1:
            raise ValueError(f"p must be at least 0 and d at least 1, got p={p} and d={d}")
        self.p, self.d = p, d
        #: Number of negative and of positive eigenvalues of each block.
        self.signs = np.full((p, 2), UNKNOWN)

    def project(self, blocks, matrices):
        """Replace matrices by their projections, side by side on `n_threads` threads.

        Parameters
        ----------
        blocks : sequence of int
            The block that each matrix belongs to.
        matrices : array (len(blocks), d, d), float64, C-contiguous
            Symmetric up to rounding; of others the symmetric part is projected.
            On return exactly symmetric.

        Returns
        -------
        int
            How many eigendecompositions were done; Cholesky settled the others.
        """
        check_buffer(matrices, (len(blocks), self.d, self.d), "matrices")
        for block in blocks:
            if not 0 <= block < self.p:
                raise ValueError(f"blocks must be from 0 to {self.p - 1}, got {block}")
        bits = matrices.view(np.int64)
        # Read before and written after, so that threads cannot change what is tried.
        tasks = [(k, int(block), *self.signs[block].tolist()) for k, block in enumerate(blocks)]

        def project_task(task):
            k, block, negative, positive = task
            try:
                return _project_one(matrices[k], bits[k], negative, positive)
            except ProjectionError as error:
                raise ProjectionError(f"block {block} has no projection: {error}") from None

        done = each(project_task, tasks, self.d)
        for block, (negative, positive, _) in zip(blocks, done, strict=True):
            self.signs[block] = negative, positive
        return sum(decomposed for _, _, decomposed in done)


def _batch(matrices):
    """A new C-contiguous float64 array (n, d, d) and the shape given."""
    batch = np.array(matrices, dtype=float, order="C")
    shape = batch.shape
    if len(shape) not in (2, 3) or shape[-1] != shape[-2] or shape[-1] == 0:
        raise ValueError(
            "expected a square matrix (d, d) or a batch of them (n, d, d), d at least 1, "
            f"got shape {shape}"
        )
    return batch.reshape(-1, *shape[-2:]), shape


def project(matrices):
    """The projection of a matrix (d, d), or of each of a batch (n, d, d), as a new array."""
    batch, shape = _batch(matrices)
    Projector(len(batch), shape[-1]).project(range(len(batch)), batch)
    return batch.reshape(shape)


def is_psd(matrices, tol=1e-12, least=0.0):
    """Whether each X has a Cholesky factor of X + s I, s = tol max(||X||_F, least).

    If so, the least eigenvalue is at least -s - (d+1) sqrt(d) u ||X||_F,
    u = 1.1e-16. A matrix that is not finite is not semidefinite.

    Parameters
    ----------
    matrices : array (d, d) or (n, d, d)
        Of matrices that are not symmetric, the symmetric part counts.
    tol : float, at least 0
        With 0, a singular matrix may fail by rounding.
    least : float, or array (n,)
        A norm below which matrices are as good as zero.
    """
    if not 0.0 <= tol < math.inf:
        raise ValueError(f"tol must be finite and at least 0, got {tol}")
    batch, shape = _batch(matrices)
    bits, least = batch.view(np.int64), np.broadcast_to(least, len(batch)).astype(float)

    def is_psd_one(k):
        return _is_psd_one(workspace(shape[-1]), batch[k], bits[k], tol, least[k])
    found = np.array(each(is_psd_one, range(len(batch)), shape[-1]), dtype=bool)
    return bool(found[0]) if len(shape) == 2 else found


@njit(nogil=True)
def _is_psd_one(space, M, bits, tol, least):
    top = _symmetrize(M, bits)
    if top == 0 or top >= INFINITE_BITS:
        return top == 0
    factor = _scale(top)
    norm, _, low, _ = _measure(M, factor)
    shift = tol * max(norm, factor * least)
    return low + shift >= 0.0 and _has_factor(space, M, factor, shift)

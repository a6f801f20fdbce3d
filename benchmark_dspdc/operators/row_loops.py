"""Row-wise storage of a matrix, and the four loops that methods run over it.

A method never asks for "the matrix"; it asks for products with, and updates
along, a few rows. `DenseRows` and `SparseRows` answer alike. Columns of A are
rows of A' in a second storage of the same kinds.

In every function ``order`` names the rows to visit: rows ``order[lo:hi]``, or
rows ``lo:hi`` themselves if ``order`` is None (contiguous, hence faster).
Buffers (``out``, ``coef``) are indexed from 0.
"""

import math
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, generic, index
from ..engine.kernel_cache import njit
from ..engine.simd import (
    add,
    fma,
    load,
    mul,
    prefetch,
    prefetch_many,
    splat,
    store,
    total,
    totals,
)

#: Coordinates handled together: their rows are read for the product and again
#: for the update while still in the first-level cache. 32 and 64 were equal
#: within noise, 8 a third slower (d = 50, AVX2, November 2026).
TILE = 64


class DenseRows(NamedTuple):
    """A C-contiguous array of shape (number of rows, length of a row)."""

    a: np.ndarray


class SparseRows(NamedTuple):
    """CSR arrays; `indices` are unsigned, sorted and without duplicates in a row."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


@generic
def rows_dot(rows, order, lo, hi, v, out):
    """out[k] = <row k, v>."""


@generic
def rows_axpy(rows, order, lo, hi, coef, v):
    """v += sum_k coef[k] row k."""


@generic
def absorb(rows, order, lo, hi, base, delta):
    """base += delta unless base is None; delta = 0, where the rows have entries."""


@generic
def rows_size(rows, order, lo, hi):
    """Number of stored entries of the rows, i.e. multiply-adds of one product."""


@generic
def column_totals(rows, order, lo, hi, counts, squares):
    """Add up each column's entries that are not zero, and their squares; returns the largest."""


@generic(default=True)
def rows_announce(rows, order, k):
    """Ask for what tells where row k is."""


@generic
def rows_prefetch(rows, order, lo, hi):
    """Ask for the first of the rows; random access to them waits for memory otherwise."""


# Dense -----------------------------------------------------------------------

@rows_dot.register(DenseRows)
def dense_dots(rows, order, lo, hi, v, out):
    a = rows.a
    d = a.shape[1]
    whole = d - d % 4
    zero = splat(0.0)
    k = lo
    while k + 8 <= hi:
        r0, r1, r2, r3 = at(order, k), at(order, k + 1), at(order, k + 2), at(order, k + 3)
        r4, r5, r6, r7 = at(order, k + 4), at(order, k + 5), at(order, k + 6), at(order, k + 7)
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = zero
        for j in range(0, whole, 4):
            vj = load(v, j)
            s0 = fma(load(a, r0 * d + j), vj, s0)
            s1 = fma(load(a, r1 * d + j), vj, s1)
            s2 = fma(load(a, r2 * d + j), vj, s2)
            s3 = fma(load(a, r3 * d + j), vj, s3)
            s4 = fma(load(a, r4 * d + j), vj, s4)
            s5 = fma(load(a, r5 * d + j), vj, s5)
            s6 = fma(load(a, r6 * d + j), vj, s6)
            s7 = fma(load(a, r7 * d + j), vj, s7)
        store(out, k - lo, totals(s0, s1, s2, s3))
        store(out, k - lo + 4, totals(s4, s5, s6, s7))
        for j in range(whole, d):
            for l in range(8):
                out[k - lo + l] += a[at(order, k + l), j] * v[j]
        k += 8
    while k + 2 <= hi:
        r0, r1 = at(order, k), at(order, k + 1)
        s0 = s1 = zero
        for j in range(0, whole, 4):
            vj = load(v, j)
            s0 = fma(load(a, r0 * d + j), vj, s0)
            s1 = fma(load(a, r1 * d + j), vj, s1)
        out[k - lo] = total(s0)
        out[k - lo + 1] = total(s1)
        for j in range(whole, d):
            out[k - lo] += a[r0, j] * v[j]
            out[k - lo + 1] += a[r1, j] * v[j]
        k += 2
    if k < hi:
        i = at(order, k)
        i0 = i * d
        s0 = s1 = s2 = s3 = zero
        j = 0
        while j + 16 <= d:
            s0 = fma(load(a, i0 + j), load(v, j), s0)
            s1 = fma(load(a, i0 + j + 4), load(v, j + 4), s1)
            s2 = fma(load(a, i0 + j + 8), load(v, j + 8), s2)
            s3 = fma(load(a, i0 + j + 12), load(v, j + 12), s3)
            j += 16
        while j + 4 <= d:
            s0 = fma(load(a, i0 + j), load(v, j), s0)
            j += 4
        dot = total(add(add(s0, s1), add(s2, s3)))
        while j < d:
            dot += a[i, j] * v[j]
            j += 1
        out[k - lo] = dot


@rows_axpy.register(DenseRows)
def dense_axpy(rows, order, lo, hi, coef, v):
    a = rows.a
    d = a.shape[1]
    whole = d - d % 4
    k = lo
    while k + 8 <= hi:
        c = k - lo
        i0, i1, i2, i3 = at(order, k), at(order, k + 1), at(order, k + 2), at(order, k + 3)
        i4, i5, i6, i7 = at(order, k + 4), at(order, k + 5), at(order, k + 6), at(order, k + 7)
        c0, c1, c2 = splat(coef[c]), splat(coef[c + 1]), splat(coef[c + 2])
        c3, c4, c5 = splat(coef[c + 3]), splat(coef[c + 4]), splat(coef[c + 5])
        c6, c7 = splat(coef[c + 6]), splat(coef[c + 7])
        for j in range(0, whole, 4):
            # Two chains, so that the next multiply-add need not wait.
            s = fma(c0, load(a, i0 * d + j), load(v, j))
            t = mul(c1, load(a, i1 * d + j))
            s = fma(c2, load(a, i2 * d + j), s)
            t = fma(c3, load(a, i3 * d + j), t)
            s = fma(c4, load(a, i4 * d + j), s)
            t = fma(c5, load(a, i5 * d + j), t)
            s = fma(c6, load(a, i6 * d + j), s)
            t = fma(c7, load(a, i7 * d + j), t)
            store(v, j, add(s, t))
        for j in range(whole, d):
            for l in range(8):
                v[j] += coef[c + l] * a[at(order, k + l), j]
        k += 8
    while k + 2 <= hi:
        c = k - lo
        i = at(order, k)
        i2nd = at(order, k + 1)
        c0 = splat(coef[c])
        c1 = splat(coef[c + 1])
        for j in range(0, whole, 4):
            s = fma(c0, load(a, i * d + j), load(v, j))
            store(v, j, fma(c1, load(a, i2nd * d + j), s))
        for j in range(whole, d):
            v[j] += coef[c] * a[i, j] + coef[c + 1] * a[i2nd, j]
        k += 2
    if k < hi:
        i = at(order, k)
        last = coef[k - lo]
        c0 = splat(last)
        for j in range(0, whole, 4):
            store(v, j, fma(c0, load(a, i * d + j), load(v, j)))
        for j in range(whole, d):
            v[j] += last * a[i, j]


@absorb.register(DenseRows)
def dense_absorb(rows, order, lo, hi, base, delta):
    for j in range(delta.shape[0]):
        if base is not None:
            base[j] += delta[j]
        delta[j] = 0.0


@rows_size.register(DenseRows)
def dense_size(rows, order, lo, hi):
    return (hi - lo) * rows.a.shape[1]


@rows_prefetch.register(DenseRows)
def dense_prefetch(rows, order, lo, hi):
    if lo < hi:
        d = rows.a.shape[1]
        start = at(order, lo) * d
        for j in range(0, d, 8):
            prefetch(rows.a, start + j)


# Sparse ----------------------------------------------------------------------

# Subscripts are unsigned (see `index`), entry by entry what a bare loop in C does.

@njit(inline=True)
def row_span(rows, i):
    """The range of a row's entries."""
    return np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])


@rows_dot.register(SparseRows)
def sparse_dots(rows, order, lo, hi, v, out):
    data, columns = rows.data, rows.indices
    for k in range(lo, hi):
        start, end = row_span(rows, at(order, k))
        out[k - lo] = _sparse_dot(data, columns, start, end, v)


@njit(inline=True, reassociate=False)
def _sparse_dot(data, columns, start, end, v):
    # Four sums by hand; one alone would wait for each addition.
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    s0 = s1 = s2 = s3 = 0.0
    e = start
    while e + four <= end:
        e1, e2, e3 = e + one, e + two, e + three
        s0 += data[e] * v[columns[e]]
        s1 += data[e1] * v[columns[e1]]
        s2 += data[e2] * v[columns[e2]]
        s3 += data[e3] * v[columns[e3]]
        e += four
    while e < end:
        s0 += data[e] * v[columns[e]]
        e += one
    return (s0 + s2) + (s1 + s3)


@rows_axpy.register(SparseRows)
def sparse_axpy(rows, order, lo, hi, coef, v):
    data, columns = rows.data, rows.indices
    for k in range(lo, hi):
        c = coef[k - lo]
        if c != 0.0:
            start, end = row_span(rows, at(order, k))
            for e in range(start, end):
                v[columns[e]] += c * data[e]


@absorb.register(SparseRows)
def sparse_absorb(rows, order, lo, hi, base, delta):
    # An entry met twice adds zero the second time.
    columns = rows.indices
    for k in range(lo, hi):
        start, end = row_span(rows, at(order, k))
        for e in range(start, end):
            j = columns[e]
            if base is not None:
                base[j] += delta[j]
            delta[j] = 0.0


@rows_size.register(SparseRows)
def sparse_size(rows, order, lo, hi):
    size = 0
    for k in range(lo, hi):
        i = at(order, k)
        size += rows.indptr[i + 1] - rows.indptr[i]
    return size


@rows_announce.register(SparseRows)
def sparse_announce(rows, order, k):
    prefetch(rows.indptr, at(order, k))


@rows_prefetch.register(SparseRows)
def sparse_prefetch(rows, order, lo, hi):
    if lo < hi:
        i = at(order, lo)
        start, end = rows.indptr[i], rows.indptr[i + 1]
        for e in range(start, end, 8):
            prefetch_many(rows.data, e)
        for e in range(start, end, 16):
            prefetch_many(rows.indices, e)


# Norms -----------------------------------------------------------------------

@column_totals.register(DenseRows)
def dense_column_totals(rows, order, lo, hi, counts, squares):
    largest = 0.0
    for k in range(lo, hi):
        i = index(order, k)
        for j in range(rows.a.shape[1]):
            square = rows.a[i, j] ** 2
            counts[j] += 1.0 if rows.a[i, j] != 0.0 else 0.0
            squares[j] += square
            largest = max(largest, square)
    return largest


@column_totals.register(SparseRows)
def sparse_column_totals(rows, order, lo, hi, counts, squares):
    largest = 0.0
    for k in range(lo, hi):
        start, stop = row_span(rows, index(order, k))
        for e in range(start, stop):
            if rows.data[e] != 0.0:
                square = rows.data[e] ** 2
                counts[rows.indices[e]] += 1.0
                squares[rows.indices[e]] += square
                largest = max(largest, square)
    return largest


@njit
def total_columns(rows, order, counts, squares):
    """`column_totals` of some rows."""
    return column_totals(rows, order, 0, len(order), counts, squares)


@njit
def norm2_below(rows, order, v, out, steps):
    """The squared norm of some rows by power iteration from v, hence from below."""
    norm2 = 0.0
    for _ in range(steps):
        rows_dot(rows, order, 0, len(order), v, out)
        v[:] = 0.0
        rows_axpy(rows, order, 0, len(order), out, v)
        norm2 = 0.0
        for j in range(v.shape[0]):
            norm2 += v[j] * v[j]
        norm2 = math.sqrt(norm2)
        if norm2 == 0.0:
            break
        for j in range(v.shape[0]):
            v[j] /= norm2
    return norm2


# Whole products --------------------------------------------------------------

@njit
def multiply(rows, v, out):
    """out = M v for M the stored matrix."""
    rows_dot(rows, None, 0, out.shape[0], v, out)


@njit
def multiply_transposed(rows, y, out):
    """out = M' y."""
    out[:] = 0.0
    rows_axpy(rows, None, 0, y.shape[0], y, out)

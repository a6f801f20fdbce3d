"""Quadratic forms v'Mv and sums of c v v', for many vectors and a symmetric matrix a group.

Both take half the multiply-adds of a matrix product, as only a triangle of M,
or of the sum, is needed; matrices are packed (`benchmark_dspdc.engine.symmetric`), and
the two inner loops are written for that, with vectors of four doubles. A group
of a mini-batch has some 40 vectors; dgemm had 0.6 of its rate on that few (AVX2,
November 2026).

Where a group has more vectors than points it is cheaper still to map the
points first: (z_a - z_b)'M(z_a - z_b) is (z_a - z_b)'(M z_a - M z_b), and the
sum of c (z_a - z_b)(z_a - z_b)' is Z'(L Z), L being a Laplacian with weights c.
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import index
from ..engine.kernel_cache import njit
from ..engine.simd import aligned, fma, mul, prefetch, store, vectors_of
from ..engine.symmetric import ROOT, packed_length
from ..engine.threads import kept_by_thread

#: Vectors whose forms are computed together.
LANES = 16

load16, splat16 = vectors_of(LANES)
load8, splat8 = vectors_of(8)

#: Vectors that are summed together: two slices of order 128 stay in the
#: second-level cache.
SLICE = 128

#: Vectors that are asked for before they are needed.
AHEAD = 12


class Vectors(NamedTuple):
    """All vectors of an operator, by groups; see `benchmark_dspdc.operators.rank_one`."""

    points: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    #: The block of each group's own, -1 for none.
    own: np.ndarray
    #: The block that all share, -1 for none.
    common: int


class Selection(NamedTuple):
    """Some of the vectors, sorted: `ids`, the `groups` that occur, and where each begins."""

    ids: np.ndarray
    groups: np.ndarray
    bounds: np.ndarray


class Sums(NamedTuple):
    """Where sums of c v v' go, packed.

    total_j += the sum of a group with the block j of its own, delta_j = it where wanted, and
    the sum over all groups is added to `shared`, unless that is empty.
    """

    total: np.ndarray
    delta: np.ndarray
    wanted: np.ndarray
    shared: np.ndarray


class Workspace(NamedTuple):
    """Scratch memory of a thread."""

    lanes: np.ndarray
    forms: np.ndarray
    group: np.ndarray
    metric: np.ndarray
    vectors: np.ndarray
    scaled: np.ndarray
    total: np.ndarray


@kept_by_thread(1)
def workspace(d):
    """The calling thread's workspace for matrices of order d."""
    width = (d + 7) // 8 * 8
    return Workspace(
        aligned(max(d * LANES, SLICE)), aligned(LANES), aligned(SLICE), aligned(packed_length(d)),
        # One row more, and six more: a tile may reach over the last one.
        aligned((SLICE + 1, width)), aligned((SLICE, width)), aligned((width + 6, width)),
    )


# Rows and vectors -------------------------------------------------------------------

@njit(nogil=True)
def signed_sums(indptr, terms, signs, values, out):
    """out[i] = sum over the terms of row i of sign times value."""
    for i in range(len(indptr) - 1):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += signs[e] * values[terms[e]]
        out[i] = total


@njit(nogil=True)
def spread(indptr, terms, signs, coef, out):
    """out[k] = sum over the rows that have vector k of sign times coefficient."""
    for k in range(len(out)):
        out[k] = 0.0
    for i in range(len(indptr) - 1):
        if coef[i] != 0.0:
            for e in range(indptr[i], indptr[i + 1]):
                out[terms[e]] += signs[e] * coef[i]


@njit(allocates=True, nogil=True)
def terms_in_range(indptr, terms, first, last):
    """How many terms of each row are in a range."""
    out = np.zeros(len(indptr) - 1, dtype=np.int64)
    for i in range(len(out)):
        for e in range(indptr[i], indptr[i + 1]):
            out[i] += first <= terms[e] < last
    return out


@njit(allocates=True, nogil=True)
def signed_squares(indptr, terms, signs, rows, first, last, V, weight, scale, out):
    """out[i, k] = scale_i scale_k weight sum of s_e s_f V_ef^2 over the terms in a range."""
    column = np.empty(len(V))
    for i in range(len(rows)):
        column[:] = 0.0
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            if first <= terms[e] < last:
                factor = weight * scale[rows[i]] * signs[e]
                for f in range(len(V)):
                    column[f] += factor * V[terms[e] - first, f] ** 2
        for k in range(i + 1):
            total = 0.0
            for f in range(indptr[rows[k]], indptr[rows[k] + 1]):
                if first <= terms[f] < last:
                    total += signs[f] * column[terms[f] - first]
            total *= scale[rows[k]]
            out[i, k] = total
            out[k, i] = total


@njit
def squares_by_group(points, ends, indptr, terms, signs, groups, out):
    """Entry e is s_e sum over the row's terms f of the same group of s_f (v_e'v_f)^2."""
    d = points.shape[1]
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            a, b = ends[terms[e], 0], ends[terms[e], 1]
            out[e] = 0.0
            for f in range(indptr[i], indptr[i + 1]):
                if groups[f] != groups[e]:
                    continue
                other, base = ends[terms[f], 0], ends[terms[f], 1]
                dot = 0.0
                for c in range(d):
                    v = points[a, c] - (points[b, c] if b >= 0 else 0.0)
                    w = points[other, c] - (points[base, c] if base >= 0 else 0.0)
                    dot += v * w
                out[e] += signs[e] * signs[f] * dot * dot


@njit(inline=True)
def fetch(points, ends, ids, first, last):
    """Ask for the points of vectors that come soon; they lie anywhere in memory."""
    d = points.shape[1]
    for e in range(first, min(last, len(ids))):
        a, b = ends[ids[e], 0], ends[ids[e], 1]
        for c in range(0, d, 8):
            prefetch(points, a * d + c)
            if b >= 0:
                prefetch(points, b * d + c)


@njit(inline=True)
def fetch_part(X, j, first, last):
    """Ask for entries of the packed matrix X_j."""
    t = X.shape[1]
    for c in range(first, min(last, t), 8):
        prefetch(X, j * t + c)


# Quadratic forms ---------------------------------------------------------------------

@njit(inline=True)
def _lanes(points, ends, ids, first, count, V):
    """Vectors ids[first:first + count] as columns of V, of shape (d, LANES); others zero."""
    d = points.shape[1]
    if count < LANES:
        for c in range(d * LANES):
            V[c] = 0.0
    for e in range(count):
        a, b = ends[ids[first + e], 0], ends[ids[first + e], 1]
        for c in range(d):
            V[c * LANES + e] = points[a, c] - points[b, c] if b >= 0 else points[a, c]


@njit(inline=True)
def forms_of_lanes(M, d, V, out):
    """v'Mv for each column of V, M packed, two rows at a time.

    That is the sum over a of v_a (m_aa v_a + sqrt(2) sum over c < a of m_ac v_c).
    """
    zero, root = splat16(0.0), splat16(ROOT)
    forms = zero
    for a in range(0, d - 1, 2):
        row = a * (a + 1) // 2
        below = row + a + 1
        s = t = zero
        for c in range(a):
            v = load16(V, c * LANES)
            s = fma(splat16(M[index(None, row + c)]), v, s)
            t = fma(splat16(M[index(None, below + c)]), v, t)
        v = load16(V, a * LANES)
        forms = fma(fma(splat16(M[index(None, row + a)]), v, mul(root, s)), v, forms)
        t = fma(splat16(M[index(None, below + a)]), v, t)
        v = load16(V, (a + 1) * LANES)
        forms = fma(fma(splat16(M[index(None, below + a + 1)]), v, mul(root, t)), v, forms)
    store(out, 0, forms)
    if d % 2 == 1:
        a = d - 1
        row = a * (a + 1) // 2
        for e in range(LANES):
            total = 0.0
            for c in range(a):
                total += M[row + c] * V[c * LANES + e]
            v = V[a * LANES + e]
            out[e] += (ROOT * total + M[row + a] * v) * v


@njit(inline=True)
def group_metric(X, own, common, M):
    """M = X_own + X_common, packed, or the one of the two that there is."""
    if own >= 0 and common >= 0:
        for c in range(X.shape[1]):
            M[c] = X[own, c] + X[common, c]
    else:
        for c in range(X.shape[1]):
            M[c] = X[max(own, common), c]


@njit(allocates=True, nogil=True)
def quadratic_forms(vectors, some, X, span, space, out):
    """out[e] = v'Mv for the vectors ids[e] of the groups of a span, M = X_own + X_common."""
    points, starts, ends, own = vectors.points, vectors.starts, vectors.ends, vectors.own
    ids, groups, bounds = some
    d = points.shape[1]
    M = space.metric
    lo, hi = span
    for t in range(lo, hi):
        g = groups[t]
        first, last = bounds[t], bounds[t + 1]
        start, size = starts[g], starts[g + 1] - starts[g]
        group_metric(X, own[g], vectors.common, M)
        if last - first > 2 * size:
            metric = np.empty((d, d))
            for a in range(d):
                for c in range(a):
                    metric[a, c] = M[a * (a + 1) // 2 + c] / ROOT
                    metric[c, a] = metric[a, c]
                metric[a, a] = M[a * (a + 3) // 2]
            mapped = np.dot(points[start:start + size], metric)
            for e in range(first, last):
                a, b = ends[ids[e], 0], ends[ids[e], 1]
                total = 0.0
                if b >= 0:
                    for c in range(d):
                        total += (points[a, c] - points[b, c]) * (
                            mapped[a - start, c] - mapped[b - start, c]
                        )
                else:
                    for c in range(d):
                        total += points[a, c] * mapped[a - start, c]
                out[e] = total
            continue
        for begin in range(first, last, LANES):
            count = min(LANES, last - begin)
            fetch(points, ends, ids, begin + count, begin + count + LANES)
            if t + 1 < hi and own[groups[t + 1]] >= 0:
                share = X.shape[1] * LANES // (last - first) + 8
                done = (begin - first) // LANES * share
                fetch_part(X, own[groups[t + 1]], done, done + share)
            _lanes(points, ends, ids, begin, count, space.lanes)
            forms_of_lanes(M, d, space.lanes, space.forms)
            for e in range(count):
                out[begin + e] = space.forms[e]


# Sums of c v v' ----------------------------------------------------------------------

@njit(inline=True)
def add_slice(D, T, count, width, fresh, W):
    """Lower triangle of W = or += sum over the first rows of D and T of their outer products.

    In tiles of 6 x 8, which may reach above the diagonal and below the last row.
    """
    zero = splat8(0.0)
    for a in range(0, width, 6):
        for c in range(0, min(a + 6, width), 8):
            at = a * width + c
            s0 = s1 = s2 = s3 = s4 = s5 = zero
            if not fresh:
                s0 = load8(W, at)
                s1 = load8(W, at + width)
                s2 = load8(W, at + 2 * width)
                s3 = load8(W, at + 3 * width)
                s4 = load8(W, at + 4 * width)
                s5 = load8(W, at + 5 * width)
            for k in range(count):
                t = load8(T, k * width + c)
                s0 = fma(splat8(D[index(None, k), index(None, a)]), t, s0)
                s1 = fma(splat8(D[index(None, k), index(None, a + 1)]), t, s1)
                s2 = fma(splat8(D[index(None, k), index(None, a + 2)]), t, s2)
                s3 = fma(splat8(D[index(None, k), index(None, a + 3)]), t, s3)
                s4 = fma(splat8(D[index(None, k), index(None, a + 4)]), t, s4)
                s5 = fma(splat8(D[index(None, k), index(None, a + 5)]), t, s5)
            store(W, at, s0)
            store(W, at + width, s1)
            store(W, at + 2 * width, s2)
            store(W, at + 3 * width, s3)
            store(W, at + 4 * width, s4)
            store(W, at + 5 * width, s5)


@njit(inline=True)
def add_packed(W, d, j, sums):
    """Add the lower triangle of W, the sum of a group with the block j, where it belongs."""
    total, delta, wanted, shared = sums
    for a in range(d):
        row = a * (a + 1) // 2
        for c in range(a):
            W[a, c] *= ROOT
        if j >= 0:
            for c in range(a + 1):
                total[j, row + c] += W[a, c]
        if shared.shape[0] > 0:
            for c in range(a + 1):
                shared[row + c] += W[a, c]
    if j >= 0 and wanted[j]:
        for a in range(d):
            row = a * (a + 1) // 2
            for c in range(a + 1):
                delta[j, row + c] = W[a, c]


@njit(allocates=True, nogil=True)
def rank_one_sums(vectors, some, coef, sums, span, space):
    """`Sums` of coef[e] v v' over the vectors ids[e] of each group of a span."""
    points, starts, ends, own = vectors.points, vectors.starts, vectors.ends, vectors.own
    ids, groups, bounds = some
    d = points.shape[1]
    D, T, W = space.vectors, space.scaled, space.total
    total = sums.total
    lo, hi = span
    for t in range(lo, hi):
        g = groups[t]
        first, last = bounds[t], bounds[t + 1]
        start, size = starts[g], starts[g + 1] - starts[g]
        used = 0
        for e in range(first, last):
            used += coef[e] != 0.0
        if own[g] >= 0:
            fetch_part(total, own[g], 0, total.shape[1])
        if used > 2 * size:
            image = np.zeros((size, d))
            for e in range(first, last):
                if coef[e] != 0.0:
                    a, b = ends[ids[e], 0], ends[ids[e], 1]
                    if b >= 0:
                        for c in range(d):
                            step = coef[e] * (points[a, c] - points[b, c])
                            image[a - start, c] += step
                            image[b - start, c] -= step
                    else:
                        for c in range(d):
                            image[a - start, c] += coef[e] * points[a, c]
            W[:d, :d] = np.dot(points[start:start + size].T, image)
        else:
            e = first
            fresh = True
            while e < last or fresh:
                count = 0
                while e < last and count < SLICE:
                    if coef[e] != 0.0:
                        fetch(points, ends, ids, e + AHEAD, e + AHEAD + 1)
                        a, b = ends[ids[e], 0], ends[ids[e], 1]
                        for c in range(d):
                            D[count, c] = points[a, c] - points[b, c] if b >= 0 else points[a, c]
                            T[count, c] = coef[e] * D[count, c]
                        count += 1
                    e += 1
                add_slice(D, T, count, W.shape[1], fresh, W)
                fresh = False
        add_packed(W, d, own[g], sums)


# Both at once ------------------------------------------------------------------------

@njit(inline=True)
def gather(points, ends, ids, first, last, D):
    """Vectors ids[first:last] as rows of D."""
    d = points.shape[1]
    fetch(points, ends, ids, first, min(first + AHEAD, last))
    for e in range(first, last):
        fetch(points, ends, ids, e + AHEAD, e + AHEAD + 1)
        a, b = ends[ids[e], 0], ends[ids[e], 1]
        for c in range(d):
            D[e - first, c] = points[a, c] - points[b, c] if b >= 0 else points[a, c]


@njit(inline=True)
def turned(D, first, count, d, V):
    """Rows of D as columns of V, of shape (d, LANES); others zero."""
    if count < LANES:
        for c in range(d * LANES):
            V[c] = 0.0
    for e in range(count):
        for c in range(d):
            V[c * LANES + e] = D[first + e, c]

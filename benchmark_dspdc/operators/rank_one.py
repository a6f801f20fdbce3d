"""Rows made of a few signed rank-one matrices, none of which is ever formed.

Row i has  A_i^j = sum_k s_k v_k v_k'  over its terms k that belong to block j.
A vector is a difference of two points, v = z_a - z_b, or a point itself
(b = -1), and vectors come in groups. What a group stands for is the same for
all its vectors: a block of its own, a block that all groups share, or both.

* MT-LMNN: a group is a task, a row is a triplet (u, v, w) with the terms
  +(z_u - z_w) and -(z_u - z_v), the shared block is X_0, the own one X_T.
* Trace regression: group j has the vectors z_ij, row i a term in each group.

So A x = S q with S the sparse n x K matrix of signs, and q_k = v_k' M_g v_k
the quadratic forms of the group's metric M_g, the sum of its blocks. A vector
that occurs in several rows is used once. Groups are multiplied by GEMM, in
slices of rows that fit the cache; where a group has more vectors than points
it is cheaper to map the points first, as (z_a - z_b)'M(z_a - z_b) is
(z_a - z_b)'(M z_a - M z_b).
"""

import itertools
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..jit import njit
from ..threads import side_by_side
from .blocks import BlockOperator
from .gram import certified_top
from .sparse import SparseOperator

#: Vectors multiplied together: two slices and a metric of order 128 fit a
#: second-level cache of 512 kB.
SLICE = 128

#: Groups are dealt out to threads in this many parts at most; the shared block
#: is summed part by part, so the result does not depend on the number of threads.
PARTS = 16


class Plan(NamedTuple):
    """Rows of the operator, and the distinct vectors in them.

    Attributes
    ----------
    ids : ndarray
        The vectors, sorted, hence by groups.
    groups, bounds : ndarray
        Groups that occur, and where the vectors of each begin and end in `ids`.
    indptr, terms, signs : ndarray
        CSR arrays of the rows; `terms` are positions in `ids`.
    """

    ids: np.ndarray
    groups: np.ndarray
    bounds: np.ndarray
    indptr: np.ndarray
    terms: np.ndarray
    signs: np.ndarray


class RankOneOperator(BlockOperator):
    """Signed sums of rank-one matrices.

    Parameters
    ----------
    points : ndarray of shape (N, d)
    starts : ndarray of shape (G + 1,)
        Points of group g are ``starts[g]:starts[g + 1]``.
    ends : ndarray of shape (K, 2)
        Vector k is points[a] - points[b], or points[a] if b is -1; both in one group.
    vector_starts : ndarray of shape (G + 1,)
        Vectors of group g are ``vector_starts[g]:vector_starts[g + 1]``.
    indptr, terms, signs : ndarray
        CSR arrays of S: row i has the vectors ``terms[indptr[i]:indptr[i + 1]]``.
    blocks : {"own", "shared", "both"}
        What a group stands for. The shared block is the first one; if there
        is one, all terms of a row must be in one group.
    """

    kind = "rank-one sums"

    # Passes are cheap here beside the eigendecompositions, but there are few of them.
    constant_passes = 2

    def __init__(self, points, starts, ends, vector_starts, indptr, terms, signs, blocks="own",
                 weights=None):
        self.points = points
        self.starts = np.asarray(starts, dtype=np.int64)
        self.ends = np.ascontiguousarray(ends, dtype=np.int32)
        self.vector_starts = np.asarray(vector_starts, dtype=np.int64)
        self.indptr = np.asarray(indptr, dtype=np.int64)
        self.terms = np.ascontiguousarray(terms, dtype=np.int32)
        self.signs = np.ascontiguousarray(signs, dtype=np.int8)
        self.d = points.shape[1]
        n_groups = len(self.starts) - 1
        self.common = -1 if blocks == "own" else 0
        self.own = {
            "own": np.arange(n_groups), "both": np.arange(1, n_groups + 1),
            "shared": np.full(n_groups, -1),
        }[blocks]
        p = {"own": n_groups, "both": n_groups + 1, "shared": 1}[blocks]
        self.shape = (len(self.indptr) - 1, p)
        self.weights = np.ones(p) if weights is None else weights

    @property
    def multiply_adds(self):
        return 2 * len(self.terms) * self.d ** 2

    def coupling_cost(self, r, s):
        # The column of the shared block is as long as all others together.
        times = 2 if self.common >= 0 and len(self.own) > 1 and r < s else 1
        return times * super().coupling_cost(r, s)

    def stored(self, matrices, out=None):
        if out is None:
            return np.ascontiguousarray(matrices)
        out[:] = matrices
        return out

    def written_out(self, stored, out=None):
        return self.stored(stored, out)

    # Products with rows.

    def plan(self, rows):
        rows = np.asarray(rows, dtype=np.int64)
        counts = self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        if len(rows) == self.shape[0]:
            ids = np.arange(len(self.ends))
            terms = self.terms[entries]
        else:
            ids, terms = np.unique(self.terms[entries], return_inverse=True)
        cuts = np.searchsorted(ids, self.vector_starts)
        groups = np.flatnonzero(np.diff(cuts))
        return Plan(
            ids.astype(np.int32), groups, np.append(cuts[groups], cuts[-1]), indptr,
            terms.astype(np.int32), self.signs[entries],
        )

    def row_products(self, plan, X, out):
        forms = np.empty(len(plan.ids))
        self._forms(plan.ids, plan.groups, plan.bounds, X, forms)
        _signed_sums(plan.indptr, plan.terms, plan.signs, forms, out)

    def add_rows(self, plan, coef, total, delta):
        c = np.empty(len(plan.ids))
        _spread(plan.indptr, plan.terms, plan.signs, coef, c)
        return self._updates(plan.ids, plan.groups, plan.bounds, c, total, delta)

    def _forms(self, ids, groups, bounds, X, out):
        """out[k] = v_k' M v_k for the vectors of the groups."""
        def part(span):
            _forms(
                self.points, self.starts, self.ends, ids, groups, bounds, self.own, self.common,
                X, *span, out,
            )
        side_by_side(part, _parts(bounds))

    def _updates(self, ids, groups, bounds, c, total, delta):
        """delta_j = sum_k c_k v_k v_k', total_j += delta_j; returns the blocks touched."""
        parts = _parts(bounds)
        shared = np.zeros((len(parts) if self.common >= 0 else 0, self.d, self.d))
        if self.common >= 0 and self.own[0] < 0:
            # No block of their own: what a group adds is needed only for the sum.
            total, total_shared = np.empty((1, 0, 0)), total

        def part(numbered):
            k, span = numbered
            _updates(
                self.points, self.starts, self.ends, ids, groups, bounds, self.own, c, *span,
                total, delta, shared[k] if self.common >= 0 else None,
            )
        side_by_side(part, list(enumerate(parts)))
        blocks = self.own[groups]
        if self.common < 0:
            return blocks
        shared.sum(axis=0, out=delta[0])
        if self.own[0] < 0:
            total_shared[0] += delta[0]
            return np.zeros(1, dtype=np.int64)
        total[0] += delta[0]
        return np.append(0, blocks)

    def sum_of_vectors(self, c):
        """The blocks sum_k c_k v_k v_k'."""
        plan, total = self._all_rows, np.zeros(self.x_shape)
        self._updates(plan.ids, plan.groups, plan.bounds, c, total, np.empty_like(total))
        return total

    # Products with columns: whole groups.

    def _groups_of(self, columns):
        if self.common >= 0 and self.common in columns:
            return np.arange(len(self.own))
        return np.flatnonzero(np.isin(self.own, columns))

    def _whole_groups(self, groups):
        counts = self.vector_starts[groups + 1] - self.vector_starts[groups]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        ids = np.repeat(self.vector_starts[groups] - bounds[:-1], counts) + np.arange(bounds[-1])
        return ids.astype(np.int32), bounds

    def column_products(self, columns, matrices):
        X = np.zeros(self.x_shape)
        X[columns] = matrices
        groups = self._groups_of(columns)
        ids, bounds = self._whole_groups(groups)
        found = np.empty(len(ids))
        self._forms(ids, groups, bounds, X, found)
        forms = np.zeros(len(self.ends))
        forms[ids] = found
        out = np.empty(self.shape[0])
        _signed_sums(self.indptr, self.terms, self.signs, forms, out)
        return out

    def add_columns(self, columns, y, out):
        c = np.empty(len(self.ends))
        _spread(self.indptr, self.terms, self.signs, y, c)
        groups = self._groups_of(columns)
        ids, bounds = self._whole_groups(groups)
        total = np.zeros(self.x_shape)
        self._updates(ids, groups, bounds, c[ids], total, np.empty_like(total))
        out[:] = total[columns]

    @cached_property
    def _terms_of_columns(self):
        per_vector = np.bincount(self.terms, minlength=len(self.ends))
        per_group = np.add.reduceat(per_vector, self.vector_starts[:-1])
        counts = np.zeros(self.shape[1], dtype=np.int64)
        if self.own[0] >= 0:
            counts[self.own] = per_group
        if self.common >= 0:
            counts[0] = per_group.sum()
        return counts

    def row_cost(self, plan):
        return len(plan.terms) * self.d ** 2

    def column_cost(self, columns):
        return int(self._terms_of_columns[columns].sum()) * self.d ** 2

    # Norms.

    def vectors(self, ids):
        """The vectors themselves, one a row."""
        a, b = self.ends[ids].T
        out = self.points[a]
        inside = b >= 0
        out[inside] -= self.points[b[inside]]
        return out

    def _squared_products(self, plan, first, last):
        V = self.vectors(plan.ids[first:last])
        V = V @ V.T
        V *= V
        return V

    def _signs_of(self, plan, first, last):
        S = scipy.sparse.csr_array(
            (plan.signs.astype(np.float64), plan.terms, plan.indptr),
            shape=(len(plan.indptr) - 1, len(plan.ids)),
        )
        return S if (first, last) == (0, len(plan.ids)) else S[:, first:last]

    def _product(self, plan, first, last):
        """The rows' products, of the vectors in that range alone."""
        S = self._signs_of(plan, first, last)
        return S @ (S @ self._squared_products(plan, first, last)).T

    def gram(self, rows, columns=None, scale=None):
        plan = self.plan(rows)
        K = np.zeros((len(rows), len(rows)))
        if self.common >= 0 and (columns is None or self.common in columns):
            K += self.weights[self.common] * self._product(plan, 0, len(plan.ids))
        for t, g in enumerate(plan.groups):
            j = self.own[g]
            if j >= 0 and (columns is None or j in columns):
                K += self.weights[j] * self._product(plan, *plan.bounds[t:t + 2])
        return K if scale is None else K * scale[:, None] * scale

    def gram_cost(self, m):
        vectors = min(m * len(self.terms) / self.shape[0], len(self.ends))
        return vectors ** 2 * (self.d + 20) + m * vectors * 10

    @cached_property
    def block_norms(self):
        """From <A_i^j, A_i^j> = sum over pairs of terms of s s' (v'v')^2, row by row."""
        n, p = self.shape
        entries = np.empty(len(self.terms))
        groups = self._groups_of_terms
        _squares_by_group(
            self.points, self.ends, self.indptr, self.terms, self.signs, groups, entries
        )
        rows = np.repeat(np.arange(n), np.diff(self.indptr))
        found = []
        if self.own[0] >= 0:
            found.append((rows, self.own[groups], entries))
        if self.common >= 0:
            # All terms of a row are in one group then, so the shared block has them all.
            found.append((rows, np.zeros_like(rows), entries))
        rows, columns, squares = (np.concatenate(part) for part in zip(*found, strict=True))
        squares = scipy.sparse.csr_array(
            (squares * self.weights[columns], (rows, columns)), shape=(n, p)
        )
        squares.sum_duplicates()
        squares.data = np.sqrt(np.maximum(squares.data, 0.0))
        return SparseOperator(squares)

    #: Rows whose shared part is looked at together. On 192,000 triplets of 100
    #: tasks in blocks of 2000 rows the bound is 1.3 times the norm, with 500
    #: rows 1.8 times, with 2000 it is the norm at three times the cost.
    CHUNK = 1000

    def more_bounds(self, dual, primal, budget):
        value = max(side_by_side(
            lambda I: max(self.rows_norm2(I, J, None, self.CHUNK) for J in primal.blocks),
            dual.blocks,
        ))
        return [(value, f"norms of {self.CHUNK} rows added up")]

    def scaled_norm2(self, rows, scale, exact):
        if exact:
            return super().scaled_norm2(rows, scale, exact)
        return self.rows_norm2(rows, None, scale, self.CHUNK)

    def rows_norm2(self, rows, columns=None, scale=None, chunk=None):
        """An upper bound on |A_I^J|^2 of large blocks of rows.

        The shared block's part is a sum over chunks of rows, each certified by
        a Cholesky factorisation. The sum is nearly attained if the rows have a
        direction in common, which those of triplets do. The groups' own parts
        are added up, or, if each row is of one group, their maximum is taken:
        rows of different groups then are orthogonal.
        """
        scale = np.ones(len(rows)) if scale is None else scale
        shared = 0.0
        if self.common >= 0 and (columns is None or self.common in columns):
            n_chunks = -(-len(rows) // (chunk or len(rows)))
            shared = sum(
                certified_top(
                    self.weights[self.common] * self._scaled_product(rows[k], scale[k])
                ) for k in np.array_split(np.arange(len(rows)), n_chunks)
            )
        if self.own[0] < 0:
            return shared
        plan = self.plan(rows)
        own = 0.0
        for t, g in enumerate(plan.groups):
            j = self.own[g]
            if columns is not None and j not in columns:
                continue
            S = self._signs_of(plan, *plan.bounds[t:t + 2])
            inside = np.flatnonzero(np.diff(S.indptr))
            S = S[inside]
            V = self._squared_products(plan, *plan.bounds[t:t + 2])
            K = self.weights[j] * (S @ (S @ V).T) * scale[inside, None] * scale[inside]
            if not self._one_group:
                own += certified_top(K)
            elif np.abs(K).sum(axis=1).max() > own:
                own = max(own, certified_top(K))
        return shared + own

    @cached_property
    def _groups_of_terms(self):
        return np.repeat(np.arange(len(self.own)), np.diff(self.vector_starts))[self.terms]

    @cached_property
    def _one_group(self):
        """Whether all terms of a row are in one group, for each row."""
        first = np.repeat(self._groups_of_terms[self.indptr[:-1]], np.diff(self.indptr))
        return bool(np.array_equal(first, self._groups_of_terms))

    def _scaled_product(self, rows, scale):
        plan = self.plan(rows)
        return self._product(plan, 0, len(plan.ids)) * scale[:, None] * scale

    def miniature(self):
        ends = np.array([[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5]])
        blocks = "own" if self.common < 0 else ("shared" if self.own[0] < 0 else "both")
        return RankOneOperator(
            np.arange(12.0).reshape(6, 2) % 5.0, [0, 3, 6], ends, [0, 3, 6], [0, 2, 4, 6, 8],
            [0, 1, 1, 2, 3, 4, 4, 5], [1, -1] * 4, blocks,
        )


def _parts(bounds):
    """Ranges of groups with about equal numbers of vectors, at most `PARTS` of them."""
    n_groups = len(bounds) - 1
    goals = bounds[0] + (bounds[-1] - bounds[0]) * np.arange(1, PARTS) / PARTS
    cuts = np.unique(np.concatenate([[0], np.searchsorted(bounds[:-1], goals), [n_groups]]))
    return [(int(lo), int(hi)) for lo, hi in itertools.pairwise(cuts)]


@njit(nogil=True)
def _signed_sums(indptr, terms, signs, values, out):
    for i in range(len(indptr) - 1):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += signs[e] * values[terms[e]]
        out[i] = total


@njit(nogil=True)
def _spread(indptr, terms, signs, coef, out):
    for k in range(len(out)):
        out[k] = 0.0
    for i in range(len(indptr) - 1):
        if coef[i] != 0.0:
            for e in range(indptr[i], indptr[i + 1]):
                out[terms[e]] += signs[e] * coef[i]


@njit(inline=True)
def _gather(points, ends, ids, first, count, D):
    """The vectors ids[first:first + count] as the first rows of D."""
    d = points.shape[1]
    for e in range(count):
        k = ids[first + e]
        a, b = ends[k, 0], ends[k, 1]
        if b >= 0:
            for c in range(d):
                D[e, c] = points[a, c] - points[b, c]
        else:
            for c in range(d):
                D[e, c] = points[a, c]


@njit(allocates=True, nogil=True)
def _forms(points, starts, ends, ids, groups, bounds, own, common, X, lo, hi, out):
    d = points.shape[1]
    D = np.empty((SLICE, d))
    T = np.empty((SLICE, d))
    M = np.empty((d, d))
    for t in range(lo, hi):
        g = groups[t]
        block = own[g] if own[g] >= 0 else common
        first, last = bounds[t], bounds[t + 1]
        both = own[g] >= 0 and common >= 0
        if both:
            for a in range(d):
                for c in range(d):
                    M[a, c] = X[own[g], a, c] + X[common, a, c]
        metric = M if both else X[block]
        size = starts[g + 1] - starts[g]
        if last - first > size:
            start = starts[g]
            mapped = np.dot(points[start:start + size], metric)
            for e in range(first, last):
                k = ids[e]
                a, b = ends[k, 0], ends[k, 1]
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
        for begin in range(first, last, SLICE):
            count = min(SLICE, last - begin)
            _gather(points, ends, ids, begin, count, D)
            np.dot(D[:count], metric, T[:count])
            for e in range(count):
                total = 0.0
                for c in range(d):
                    total += D[e, c] * T[e, c]
                out[begin + e] = total


@njit(allocates=True, nogil=True)
def _updates(points, starts, ends, ids, groups, bounds, own, coef, lo, hi, total, delta, shared):
    d = points.shape[1]
    D = np.empty((SLICE, d))
    T = np.empty((SLICE, d))
    W = np.empty((d, d))
    P = np.empty((d, d))
    for t in range(lo, hi):
        g = groups[t]
        first, last = bounds[t], bounds[t + 1]
        size = starts[g + 1] - starts[g]
        used = 0
        for e in range(first, last):
            used += coef[e] != 0.0
        if used > size:
            # sum c (z_a - z_b)(z_a - z_b)' = Z'(L Z), L the Laplacian with weights c.
            start = starts[g]
            image = np.zeros((size, d))
            for e in range(first, last):
                if coef[e] != 0.0:
                    k = ids[e]
                    a, b = ends[k, 0], ends[k, 1]
                    if b >= 0:
                        for c in range(d):
                            step = coef[e] * (points[a, c] - points[b, c])
                            image[a - start, c] += step
                            image[b - start, c] -= step
                    else:
                        for c in range(d):
                            image[a - start, c] += coef[e] * points[a, c]
            np.dot(points[start:start + size].T, image, W)
        else:
            e = first
            begun = False
            while e < last:
                count = 0
                while e < last and count < SLICE:
                    if coef[e] != 0.0:
                        _gather(points, ends, ids, e, 1, D[count:])
                        for c in range(d):
                            T[count, c] = coef[e] * D[count, c]
                        count += 1
                    e += 1
                if count > 0:
                    if begun:
                        np.dot(D[:count].T, T[:count], P)
                        for a in range(d):
                            for c in range(d):
                                W[a, c] += P[a, c]
                    else:
                        np.dot(D[:count].T, T[:count], W)
                        begun = True
            if not begun:
                for a in range(d):
                    for c in range(d):
                        W[a, c] = 0.0
        if own[g] >= 0:
            j = own[g]
            for a in range(d):
                for c in range(d):
                    delta[j, a, c] = W[a, c]
                    total[j, a, c] += W[a, c]
        if shared is not None:
            for a in range(d):
                for c in range(d):
                    shared[a, c] += W[a, c]


@njit
def _squares_by_group(points, ends, indptr, terms, signs, groups, out):
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

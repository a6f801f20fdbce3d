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
that occurs in several rows is used once. How forms and sums are computed is
in `benchmark_dspdc.operators.rank_one_loops`.
"""

import itertools
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..engine.meter import spend
from ..engine.symmetric import pack, packed_length, unpack
from ..engine.threads import side_by_side
from .gram import certified_top
from .matrix_blocks import BlockOperator
from .rank_one_loops import (
    Selection,
    Sums,
    Vectors,
    quadratic_forms,
    rank_one_sums,
    signed_squares,
    signed_sums,
    spread,
    squares_by_group,
    terms_in_range,
    workspace,
)
from .sparse import SparseOperator

#: Groups are dealt out to threads in this many parts at most; the shared block
#: is summed part by part, so the result does not depend on the number of threads.
PARTS = 8

#: Multiply-adds below which a second thread costs more than it brings.
LEAST_WORK = 1e6


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
    by_group, row_bounds : ndarray or None
        The rows sorted by group, and where those of each group begin and end,
        if all terms of a row are in one group.
    """

    ids: np.ndarray
    groups: np.ndarray
    bounds: np.ndarray
    indptr: np.ndarray
    terms: np.ndarray
    signs: np.ndarray
    by_group: np.ndarray
    row_bounds: np.ndarray

    @property
    def vectors(self):
        return Selection(self.ids, self.groups, self.bounds)


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
    norm_price = 0.7

    # Beside the eigendecompositions a pass is cheap, and a run takes tens of them, not thousands.
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
        by_group = row_bounds = None
        if self._one_group:
            group = self._groups_of_rows[rows]
            by_group = np.argsort(group, kind="stable")
            row_bounds = np.append(np.searchsorted(group[by_group], groups), len(rows))
        return Plan(
            ids.astype(np.int32), groups, np.append(cuts[groups], cuts[-1]), indptr,
            terms.astype(np.int32), self.signs[entries], by_group, row_bounds,
        )

    def row_products(self, plan, X, out):
        forms = np.empty(len(plan.ids))
        self._forms(plan.vectors, X, forms)
        signed_sums(plan.indptr, plan.terms, plan.signs, forms, out)

    def add_rows(self, plan, coef, total, delta=None, wanted=None):
        c = np.empty(len(plan.ids))
        spread(plan.indptr, plan.terms, plan.signs, coef, c)
        return self._add_vectors(plan.vectors, c, total, delta, wanted)

    def _forms(self, some, X, out):
        """out[k] = v_k' M v_k for some of the vectors, M the metric of their group."""
        side_by_side(
            lambda span: quadratic_forms(
                self.all_vectors, some, X, span, workspace(self.d), out
            ), self._parts(some.bounds),
        )

    def _parts(self, bounds):
        """Ranges of groups with about equal numbers of vectors, at most `PARTS` of them."""
        n_groups, n_vectors = len(bounds) - 1, bounds[-1] - bounds[0]
        if n_vectors * self.d ** 2 < LEAST_WORK:
            return [(0, n_groups)]
        goals = bounds[0] + n_vectors * np.arange(1, PARTS) / PARTS
        cuts = np.unique(np.concatenate([[0], np.searchsorted(bounds[:-1], goals), [n_groups]]))
        return [(int(lo), int(hi)) for lo, hi in itertools.pairwise(cuts)]

    def _add_vectors(self, some, c, total, delta=None, wanted=None):
        """`add_rows` of sum_k c_k v_k v_k' over some of the vectors."""
        if wanted is None:
            delta, wanted = total, self._none_wanted
        return self.in_parts(
            lambda span, sums: rank_one_sums(
                self.all_vectors, some, c, sums, span, workspace(self.d)
            ), some, total, delta, wanted,
        )

    def in_parts(self, function, some, total, delta, wanted):
        """Call a function of a span of groups and `Sums` for each part of a selection's groups.

        Adds up what goes to the shared block, and returns the blocks touched.
        """
        groups, parts = some.groups, self._parts(some.bounds)
        shared = np.zeros((len(parts), packed_length(self.d) if self.common >= 0 else 0))
        side_by_side(
            lambda k: function(parts[k], Sums(total, delta, wanted, shared[k])),
            range(len(parts)),
        )
        blocks = self._blocks_of(groups)
        if self.common < 0:
            return blocks
        added = shared.sum(axis=0)
        total[self.common] += added
        if wanted[self.common]:
            delta[self.common] = added
        return blocks

    def _blocks_of(self, groups):
        """The blocks that vectors of some groups are in."""
        blocks = self.own[groups] if self.own[0] >= 0 else np.zeros(0, dtype=np.int64)
        return blocks if self.common < 0 else np.append(self.common, blocks)

    def touched(self, plan):
        return self._blocks_of(plan.groups)

    def touch_probabilities(self, blocks, probabilities):
        return self.block_norms.touch_probabilities(blocks, probabilities)

    @property
    def all_vectors(self):
        """The vectors as the loops of `rank_one_loops` take them."""
        return Vectors(self.points, self.starts, self.ends, self.own, self.common)

    def sum_of_vectors(self, c):
        """The blocks sum_k c_k v_k v_k'."""
        total = self.packed_zeros()
        self._add_vectors(self._all_rows.vectors, c, total)
        return unpack(total, self.d)

    # Products with columns: whole groups.

    def _vectors_of(self, columns):
        """The vectors of the groups that have one of these blocks."""
        groups = np.arange(len(self.own))
        if self.common < 0 or self.common not in columns:
            groups = np.flatnonzero(np.isin(self.own, columns))
        counts = self.vector_starts[groups + 1] - self.vector_starts[groups]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        ids = np.repeat(self.vector_starts[groups] - bounds[:-1], counts) + np.arange(bounds[-1])
        return Selection(ids.astype(np.int32), groups, bounds)

    def column_products(self, columns, matrices):
        X = self.packed_zeros()
        X[columns] = pack(matrices)
        some = self._vectors_of(columns)
        found = np.empty(len(some.ids))
        self._forms(some, X, found)
        forms = np.zeros(len(self.ends))
        forms[some.ids] = found
        out = np.empty(self.shape[0])
        signed_sums(self.indptr, self.terms, self.signs, forms, out)
        return out

    def add_columns(self, columns, y, out):
        c = np.empty(len(self.ends))
        spread(self.indptr, self.terms, self.signs, y, c)
        some, total = self._vectors_of(columns), self.packed_zeros()
        self._add_vectors(some, c[some.ids], total)
        unpack(total[columns], self.d, out)

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

    def _products(self, plan, first, last, weight, scale):
        """Rows that have vectors of a range, and the products of their parts in that range."""
        V = self.vectors(plan.ids[first:last])
        rows = np.flatnonzero(terms_in_range(plan.indptr, plan.terms, first, last))
        K = np.empty((len(rows), len(rows)))
        signed_squares(
            plan.indptr, plan.terms, plan.signs, rows, first, last, V @ V.T, weight, scale, K
        )
        return rows, K

    def gram(self, rows, columns=None, scale=None):
        plan = self.plan(rows)
        scale = np.ones(len(rows)) if scale is None else scale
        out = np.zeros((len(rows), len(rows)))
        parts = [
            (self.own[g], *plan.bounds[t:t + 2]) for t, g in enumerate(plan.groups)
        ] + [(self.common, 0, len(plan.ids))]
        for j, first, last in parts:
            if j >= 0 and (columns is None or j in columns):
                inside, K = self._products(plan, first, last, self.weights[j], scale)
                out[np.ix_(inside, inside)] += K
        return out

    def gram_cost(self, m):
        vectors = min(m * len(self.terms) / self.shape[0], len(self.ends))
        return vectors ** 2 * (self.d + 20) + m * vectors * 10

    @cached_property
    def block_norms(self):
        """From <A_i^j, A_i^j> = sum over pairs of terms of s s' (v'v')^2, row by row."""
        n, p = self.shape
        # The products of a row's vectors with each other.
        spend(self.d * float(np.sum(np.diff(self.indptr) ** 2)))
        entries = np.empty(len(self.terms))
        groups = self._groups_of_terms
        squares_by_group(
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
        value = float(max(side_by_side(
            lambda I: max(self.rows_norm2(I, J, None, self.CHUNK) for J in primal.blocks),
            dual.blocks,
        )))
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
            for part in np.array_split(np.arange(len(rows)), n_chunks):
                plan = self.plan(rows[part])
                shared += certified_top(self._products(
                    plan, 0, len(plan.ids), self.weights[self.common], scale[part]
                )[1])
        if self.own[0] < 0:
            return shared
        plan = self.plan(rows)
        own = 0.0
        for t, g in enumerate(plan.groups):
            j = self.own[g]
            if columns is not None and j not in columns:
                continue
            K = self._products(plan, *plan.bounds[t:t + 2], self.weights[j], scale)[1]
            if not self._one_group:
                own += certified_top(K)
            elif np.abs(K).sum(axis=1).max() > own:
                own = max(own, certified_top(K))
        return shared + own

    @cached_property
    def _groups_of_terms(self):
        return np.repeat(np.arange(len(self.own)), np.diff(self.vector_starts))[self.terms]

    @cached_property
    def _groups_of_rows(self):
        """The group of each row's first term."""
        return self._groups_of_terms[self.indptr[:-1]]

    @cached_property
    def _one_group(self):
        """Whether all terms of a row are in one group, for each row."""
        first = np.repeat(self._groups_of_rows, np.diff(self.indptr))
        return bool(np.array_equal(first, self._groups_of_terms))

    def miniature(self):
        ends = np.array([[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5]])
        blocks = "own" if self.common < 0 else ("shared" if self.own[0] < 0 else "both")
        # Rows of one group have kernels of their own.
        terms = [0, 1, 1, 2, 3, 4, 4, 5] if self._one_group else [0, 3, 1, 4, 2, 5, 0, 4]
        return RankOneOperator(
            np.arange(12.0).reshape(6, 2) % 5.0, [0, 3, 6], ends, [0, 3, 6], [0, 2, 4, 6, 8],
            terms, [1, -1] * 4, blocks,
        )

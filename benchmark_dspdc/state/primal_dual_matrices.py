"""What methods keep between iterations on block operators.

The same calls as in `couplings` and `dual`, for matrices instead of numbers;
an iteration is a few large products, so all this is plain Python and the
methods' loops run on it as they are. Dual blocks are handled whole.
"""

from functools import singledispatch

import numpy as np

from ..engine.kernel_cache import njit
from ..engine.sampling import Partition, Weighted
from ..engine.symmetric import pack, pack_step, unpack, unpack_sum
from ..model.dual_rules import dual_change, dual_step
from ..model.regularizers import conjugate_blocks
from ..operators.matrix_blocks import BlockOperator
from ..operators.rank_one import RankOneOperator
from ..operators.rank_one_loops import (
    AHEAD,
    LANES,
    SLICE,
    add_packed,
    add_slice,
    fetch,
    fetch_part,
    forms_of_lanes,
    gather,
    group_metric,
    turned,
    workspace,
)
from . import dual
from . import primal_dual as couplings

#: Blocks that are renewed together: enough for the threads, not so many as to need much memory.
TOGETHER = 32


class _Plans:
    """The operator's plans of row blocks; those of a partition are kept."""

    def __init__(self, operator, fixed):
        self.operator = operator
        self.kept = {} if fixed else None
        self.current = None

    def turn_to(self, order, lo, hi):
        """The plan of the block that an iteration begins with; `current` until the next."""
        plan = None if self.kept is None else self.kept.get(lo)
        if plan is None:
            plan = self.operator.plan(_indices(order, lo, hi))
            if self.kept is not None:
                self.kept[lo] = plan
        self.current = plan
        return plan


def _indices(order, lo, hi):
    return np.arange(lo, hi) if order is None else order[lo:hi]


class BlockRows:
    """Rows walked, A'y kept, with what the current iteration added to it in `dw`."""

    def __init__(self, operator, sampler):
        self.operator = operator
        self.plans = _Plans(operator, isinstance(sampler, Partition | Weighted))
        self.xbar, self.w, self.dw = (operator.packed_zeros() for _ in range(3))
        self.touched, self.wanted = np.zeros((2, operator.shape[1]), dtype=bool)

    def load(self, operator, x, y):
        pack(x, self.xbar)
        self.w[:] = operator.rmatvec_packed(y)

    def ascend(self, rule, order, lo, hi, b, y, dy):
        """The dual half of an iteration."""
        plan = self.plans.turn_to(order, lo, hi)
        blocks = dual_ascent(
            self.operator, plan, _indices(order, lo, hi), rule, b, y, self.xbar, self.w, self.dw,
            self.wanted, dy,
        )
        self.touched[:] = blocks is None
        if blocks is not None:
            self.touched[blocks] = True


class BlockColumns:
    """Columns walked, A x kept, with what the last iteration added to it in `dz`."""

    def __init__(self, operator, sampler):
        self.operator = operator
        self.ybar, self.z, self.dz = np.zeros((3, operator.shape[0]))


@couplings.turn.register(BlockRows)
def _(c, boost, order, lo, hi, x):
    if lo < hi < lo + len(x):
        pack_step(_indices(order, lo, hi), x, None, 0.0, c.xbar)


@couplings.column_products.register(BlockRows)
def _(c, boost, order, lo, hi, out):
    # w contains dw already.
    unpack_sum(_indices(order, lo, hi), c.w, c.dw, boost - 1.0, c.touched, out)


@couplings.push_primal.register(BlockRows)
def _(c, momentum, order, lo, hi, x, dx):
    pack_step(_indices(order, lo, hi), x, dx, momentum - 1.0, c.xbar)


@couplings.close.register(BlockRows)
def _(c, momentum, order, lo, hi, y):
    pass


@couplings.forget.register(BlockRows)
def _(c, base, order, lo, hi):
    c.w[c.touched] = base[c.touched]


@couplings.announce.register(BlockRows)
def _(c, order, lo, hi):
    pass


@couplings.expect.register(BlockRows)
def _(c, order, lo, hi):
    # Of what the dual half adds to A'y, only these blocks will be asked for.
    c.wanted[:] = lo < 0
    if lo >= 0:
        c.wanted[_indices(order, lo, hi)] = True


@couplings.iteration_cost.register(BlockRows)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * c.operator.row_cost(c.plans.current)


@couplings.row_products.register(BlockColumns)
def _(c, momentum, order, lo, hi, out):
    rows = _indices(order, lo, hi)
    out[:len(rows)] = c.z[rows] + momentum * c.dz[rows]


@couplings.push_dual.register(BlockColumns)
def _(c, boost, order, lo, hi, y, dy):
    rows = _indices(order, lo, hi)
    c.ybar[rows] = y[rows] + (boost - 1.0) * dy[:len(rows)]


@couplings.turn.register(BlockColumns)
def _(c, boost, order, lo, hi, x):
    c.z += c.dz


@couplings.column_products.register(BlockColumns)
def _(c, boost, order, lo, hi, out):
    c.operator.add_columns(_indices(order, lo, hi), c.ybar, out[:hi - lo])


@couplings.push_primal.register(BlockColumns)
def _(c, momentum, order, lo, hi, x, dx):
    c.dz[:] = c.operator.column_products(_indices(order, lo, hi), dx[:hi - lo])


@couplings.close.register(BlockColumns)
def _(c, momentum, order, lo, hi, y):
    rows = _indices(order, lo, hi)
    c.ybar[rows] = y[rows]


@couplings.announce.register(BlockColumns)
def _(c, order, lo, hi):
    pass


@couplings.expect.register(BlockColumns)
def _(c, order, lo, hi):
    pass


@couplings.iteration_cost.register(BlockColumns)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return 2 * c.operator.column_cost(_indices(primal_order, primal_lo, primal_hi))


class BlockKeptDual:
    """w = -A'y/n kept, and x = grad g*(w) of the blocks where w has changed renewed."""

    def __init__(self, operator, w):
        self.operator = operator
        self.plans = _Plans(operator, True)
        self.w = w
        self.x = np.empty_like(self.w)
        self.wanted = np.zeros(len(self.w), dtype=bool)


@dual.primal_products.register(BlockKeptDual)
def _(c, reg, order, lo, hi, out):
    c.operator.row_products(c.plans.turn_to(order, lo, hi), c.x, out)


@dual.push.register(BlockKeptDual)
def _(c, reg, order, lo, hi, dy):
    coef = dy[:hi - lo] / -c.operator.shape[0]
    # What a batch adds is never asked for by itself.
    return _renew(c, reg, c.operator.add_rows(c.plans.current, coef, c.w, c.w, c.wanted))


@dual.refresh.register(BlockKeptDual)
def _(c, reg):
    return _renew(c, reg, None)


def _renew(c, reg, blocks):
    blocks = np.arange(len(c.w)) if blocks is None else blocks
    done = 0
    for k in range(0, len(blocks), TOGETHER):
        some = blocks[k:k + TOGETHER]
        matrices = unpack(c.w[some], c.operator.d)
        done += conjugate_blocks(reg, some, matrices)
        c.x[some] = pack(matrices)
    return done


@dual.announce.register(BlockKeptDual)
def _(c, order, lo):
    pass


@dual.fetch.register(BlockKeptDual)
def _(c, order, lo, hi, b, y, rho):
    pass


@dual.batch_cost.register(BlockKeptDual)
def _(c, order, lo, hi):
    return 2 * c.operator.row_cost(c.plans.current)


# Dual steps of a block of rows ----------------------------------------------------------------

@singledispatch
def dual_ascent(operator, plan, rows, rule, b, y, X, total, delta, wanted, buffer):
    """Dual steps of the rows at z = A x, and `add_rows` of the changes of y."""
    operator.row_products(plan, X, buffer)
    dual_step(rule, rows, 0, len(rows), b, y, buffer)
    return operator.add_rows(plan, buffer, total, delta, wanted)


@dual_ascent.register(RankOneOperator)
def dual_ascent_by_groups(operator, plan, rows, rule, b, y, X, total, delta, wanted, buffer):
    if plan.by_group is None or np.diff(plan.bounds).max() > SLICE:
        return dual_ascent.dispatch(object)(
            operator, plan, rows, rule, b, y, X, total, delta, wanted, buffer
        )
    forms = np.empty(len(plan.ids))

    def part(span, shared):
        ascend_groups(
            operator.points, operator.ends, plan.ids, plan.groups, plan.bounds, operator.own,
            operator.common, plan.indptr, plan.terms, plan.signs, plan.by_group, plan.row_bounds,
            rows, X, rule, b, y, forms, *span, workspace(operator.d), total, delta, wanted, shared,
        )
    return operator.in_parts(part, plan.groups, plan.bounds, total, delta, wanted)


@njit(nogil=True)
def ascend_groups(points, ends, ids, groups, bounds, own, common, indptr, terms, signs, by_group,
                  row_bounds, rows, X, rule, b, y, forms, lo, hi, space, total, delta, wanted,
                  shared):
    """Dual steps of the rows of the groups lo to hi - 1, and what they add to A'y.

    For rows with all their terms in one group: `quadratic_forms`, the dual
    step, and `rank_one_sums` of the changes, group by group, so that a group's
    vectors are collected once. Up to ``SLICE`` vectors a group.
    """
    d = points.shape[1]
    M, D, T, W = space.metric, space.vectors, space.scaled, space.total
    for t in range(lo, hi):
        g = groups[t]
        first, last = bounds[t], bounds[t + 1]
        count = last - first
        gather(points, ends, ids, first, last, D)
        group_metric(X, own[g], common, M)
        if own[g] >= 0:
            fetch_part(total, own[g], 0, total.shape[1])
        for begin in range(0, count, LANES):
            some = min(LANES, count - begin)
            turned(D, begin, some, d, space.lanes)
            forms_of_lanes(M, d, space.lanes, space.forms)
            for e in range(some):
                forms[first + begin + e] = space.forms[e]
        if t + 1 < hi:
            fetch(points, ends, ids, last, last + AHEAD)
            if own[groups[t + 1]] >= 0:
                fetch_part(X, own[groups[t + 1]], 0, X.shape[1])
        # From here on `space.lanes` holds coefficients of the vectors.
        coef = space.lanes
        for e in range(count):
            coef[e] = 0.0
        for k in range(row_bounds[t], row_bounds[t + 1]):
            r = by_group[k]
            z = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                z += signs[e] * forms[terms[e]]
            step = dual_change(rule, rows[r], z, b, y)
            for e in range(indptr[r], indptr[r + 1]):
                coef[terms[e] - first] += signs[e] * step
        used = 0
        for e in range(count):
            if coef[e] != 0.0:
                for c in range(d):
                    v = D[e, c]
                    D[used, c] = v
                    T[used, c] = coef[e] * v
                used += 1
        if used == 0 and not (own[g] >= 0 and wanted[own[g]]):
            continue
        add_slice(D, T, used, W.shape[1], True, W)
        add_packed(W, d, own[g], total, delta, wanted, shared)


# From operators -----------------------------------------------------------------------------

@couplings.primal_dual_state.register(BlockOperator)
def block_state(operator, keep, dual, primal):
    kind = BlockRows if keep == "rows" else BlockColumns
    return kind(operator, dual), dual, primal


@couplings.primal_dual_cost.register(RankOneOperator)
def rank_one_cost(operator, r, s):
    # The column of the shared block is as long as all others together.
    times = np.where((r < s) & (operator.common >= 0 and len(operator.own) > 1), 2, 1)
    return times * (operator.multiply_adds / np.maximum(r, s))


@dual.dual_state.register(BlockOperator)
def block_dual_state(operator, y):
    return BlockKeptDual(operator, operator.rmatvec_packed(y) / -operator.shape[0])

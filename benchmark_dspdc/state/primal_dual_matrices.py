"""What the primal-dual loop keeps where the blocks of x are matrices.

The same calls as for numbers; an iteration is a few large products, so all this is
plain Python and `iterate` runs on it as it is. Dual blocks are handled whole.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.kernel_cache import njit
from ..engine.psd_projection import each
from ..engine.sampling import Partition, Weighted
from ..engine.symmetric import pack, pack_step, unpack_sum
from ..engine.threads import kept_by_thread
from ..model.regularizers import primal_step
from ..operators.matrix_blocks import BlockOperator, Plans, indices
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
from .iteration import (
    close,
    column_products,
    dual_change,
    dual_half,
    dual_step,
    expect,
    forget,
    iteration_cost,
    load,
    primal_half,
    push_dual,
    push_primal,
    row_products,
    turn,
)
from .primal_dual import make_state, point_at_zero, primal_dual_cost


class BlockRows:
    """Rows walked, A'y kept, with what the current iteration added to it in `dw`.

    `kept` is the A'y that an iteration which leaves y as it was returns to, once loaded.
    """

    def __init__(self, operator, problem, dual):
        self.operator = operator
        self.point = point_at_zero(problem, dual, dual)
        self.dy = np.empty(dual.largest)
        self.plans = Plans(operator, isinstance(dual, Partition | Weighted))
        self.xbar, self.w, self.dw = (operator.packed_zeros() for _ in range(3))
        self.kept = None
        self.touched, self.wanted = np.zeros((2, operator.shape[1]), dtype=bool)


class BlockColumns:
    """Columns walked, A x kept, with what the last iteration added to it in `dz`."""

    def __init__(self, operator, problem, dual, primal):
        self.operator = operator
        self.point = point_at_zero(problem, dual, dual)
        self.dy = np.empty(dual.largest)
        self.dx = np.empty((primal.largest, *problem.x_shape[1:]))
        self.ybar, self.z, self.dz = np.zeros((3, operator.shape[0]))


@make_state.register(BlockOperator)
def block_state(operator, problem, keep, dual, primal, kind, by_coordinate):
    if keep == "rows":
        return BlockRows(operator, problem, dual), dual, primal
    return BlockColumns(operator, problem, dual, primal), dual, primal


@primal_dual_cost.register(RankOneOperator)
def rank_one_cost(operator, r, s):
    # The column of the shared block is as long as all others together.
    times = np.where((r < s) & (operator.common >= 0 and len(operator.own) > 1), 2, 1)
    return times * (operator.multiply_adds / np.maximum(r, s))


# Rows walked ----------------------------------------------------------------------------------

@dual_half.register(BlockRows)
def ascend_rows(state, rule, steps, rows):
    plan = state.plans.turn_to(rows.order, rows.lo, rows.hi)
    dual = DualRows(indices(*rows), state.point.b, state.point.y)
    kept = state.w, state.dw, state.wanted
    blocks = dual_ascent(state.operator, plan, rule, dual, state.xbar, kept, state.dy)
    state.touched[:] = blocks is None
    if blocks is not None:
        state.touched[blocks] = True


@kept_by_thread(1)
def _block_buffer(shape):
    """Room for one matrix, which stays in the cache of the thread that asks."""
    return np.empty((1, *shape))


@primal_half.register(BlockRows)
def step_matrices(state, rule, steps, rows, columns):
    # Blocks have nothing to do with each other here, so each is done on one thread.
    x = state.point.x

    def step(k):
        block, buffer = indices(columns.order, k, k + 1), _block_buffer(x.shape[1:])
        # w contains dw already.
        unpack_sum(block, state.w, state.dw, steps.boost - 1.0, state.touched, buffer)
        done = primal_step(
            state.point.reg, columns.order, k, k + 1, x, steps.tau, steps.tau_over_n, buffer
        )
        pack_step(block, x, buffer, steps.momentum - 1.0, state.xbar)
        return done
    return sum(each(step, range(columns.lo, columns.hi), x.shape[1]))


@turn.register(BlockRows)
def drop_matrices_back(state, boost, previous):
    x = state.point.x
    if previous.lo < previous.hi < previous.lo + len(x):
        pack_step(indices(*previous), x, None, 0.0, state.xbar)


@forget.register(BlockRows)
def return_to_kept_matrices(state, rows):
    state.w[state.touched] = state.kept[state.touched]


@expect.register(BlockRows)
def want_columns(state, columns):
    # Of what the dual half adds to A'y, only these blocks will be asked for.
    state.wanted[:] = columns.lo < 0
    if columns.lo >= 0:
        state.wanted[indices(*columns)] = True


@iteration_cost.register(BlockRows)
def cost_of_matrix_rows(state, rows, columns):
    return 2 * state.operator.row_cost(state.plans.current)


@load.register(BlockRows)
def load_matrices(state, operator, x_order, y_order):
    pack(state.point.x, state.xbar)
    state.w[:] = operator.rmatvec_packed(state.point.y) if state.point.y.any() else 0.0
    state.kept = state.w.copy()


# Columns walked -------------------------------------------------------------------------------

@load.register(BlockColumns)
def load_matrix_columns(state, operator, x_order, y_order):
    state.ybar[:] = state.point.y
    state.z[:] = operator.matvec(state.point.x)
    state.dz[:] = 0.0


@row_products.register(BlockColumns)
def look_up_matrix_rows(state, momentum, tile):
    rows = indices(*tile)
    state.dy[:len(rows)] = state.z[rows] + momentum * state.dz[rows]


@push_dual.register(BlockColumns)
def extrapolate_y_for_matrices(state, boost, tile):
    rows = indices(*tile)
    state.ybar[rows] += boost * state.dy[:len(rows)]


@turn.register(BlockColumns)
def absorb_matrix_columns(state, boost, previous):
    state.z += state.dz


@column_products.register(BlockColumns)
def products_with_matrix_columns(state, boost, tile):
    state.operator.add_columns(indices(*tile), state.ybar, state.dx[:tile.hi - tile.lo])


@push_primal.register(BlockColumns)
def add_matrix_columns(state, momentum, tile):
    changes = state.dx[:tile.hi - tile.lo]
    state.dz[:] = state.operator.column_products(indices(*tile), changes)


@close.register(BlockColumns)
def drop_back_to_y_for_matrices(state, momentum, rows):
    forget(state, rows)


@forget.register(BlockColumns)
def drop_back_to_any_y_for_matrices(state, rows):
    rows = indices(*rows)
    state.ybar[rows] = state.point.y[rows]


@iteration_cost.register(BlockColumns)
def cost_of_matrix_columns(state, rows, columns):
    return 2 * state.operator.column_cost(indices(*columns))


# Dual steps of a block of rows ----------------------------------------------------------------

class DualRows(NamedTuple):
    """Which dual coordinates are stepped, and their vectors."""

    rows: np.ndarray
    b: np.ndarray
    y: np.ndarray


@singledispatch
def dual_ascent(operator, plan, rule, dual, X, kept, buffer):
    """Dual steps of the rows at z = A x, and `add_rows` of the changes of y to what is kept.

    Returns the blocks touched, None for all.
    """
    operator.row_products(plan, X, buffer)
    dual_step(rule, dual.rows, 0, len(dual.rows), dual.b, dual.y, buffer)
    return operator.add_rows(plan, buffer, *kept)


@dual_ascent.register(RankOneOperator)
def dual_ascent_by_groups(operator, plan, rule, dual, X, kept, buffer):
    if plan.by_group is None or np.diff(plan.bounds).max() > SLICE:
        return dual_ascent.dispatch(object)(operator, plan, rule, dual, X, kept, buffer)
    return operator.in_parts(
        lambda span, sums: ascend_groups(
            operator.all_vectors, plan, rule, dual, X, sums, span, workspace(operator.d)
        ), plan, *kept,
    )


@njit(nogil=True)
def ascend_groups(vectors, plan, rule, dual, X, sums, span, space):
    """Dual steps of the rows of the groups of a span, and what they add to A'y.

    For rows with all their terms in one group: `quadratic_forms`, the dual
    step, and `rank_one_sums` of the changes, group by group, so that a group's
    vectors are collected once. Up to ``SLICE`` vectors a group.
    """
    points, ends, own = vectors.points, vectors.ends, vectors.own
    ids, groups, bounds = plan.ids, plan.groups, plan.bounds
    forms = space.group
    d = points.shape[1]
    M, D, T, total_of_group = space.metric, space.vectors, space.scaled, space.total
    lo, hi = span
    for t in range(lo, hi):
        g = groups[t]
        first, last = bounds[t], bounds[t + 1]
        count = last - first
        gather(points, ends, ids, first, last, D)
        group_metric(X, own[g], vectors.common, M)
        if own[g] >= 0:
            fetch_part(sums.total, own[g], 0, sums.total.shape[1])
        for begin in range(0, count, LANES):
            some = min(LANES, count - begin)
            turned(D, begin, some, d, space.lanes)
            forms_of_lanes(M, d, space.lanes, space.forms)
            for e in range(some):
                forms[begin + e] = space.forms[e]
        if t + 1 < hi:
            fetch(points, ends, ids, last, last + AHEAD)
            if own[groups[t + 1]] >= 0:
                fetch_part(X, own[groups[t + 1]], 0, X.shape[1])
        # From here on `space.lanes` holds coefficients of the vectors.
        coef = space.lanes
        for e in range(count):
            coef[e] = 0.0
        for k in range(plan.row_bounds[t], plan.row_bounds[t + 1]):
            r = plan.by_group[k]
            z = 0.0
            for e in range(plan.indptr[r], plan.indptr[r + 1]):
                z += plan.signs[e] * forms[plan.terms[e] - first]
            step = dual_change(rule, dual.rows[r], z, dual.b, dual.y)
            for e in range(plan.indptr[r], plan.indptr[r + 1]):
                coef[plan.terms[e] - first] += plan.signs[e] * step
        used = 0
        for e in range(count):
            if coef[e] != 0.0:
                for c in range(d):
                    v = D[e, c]
                    D[used, c] = v
                    T[used, c] = coef[e] * v
                used += 1
        if used == 0 and not (own[g] >= 0 and sums.wanted[own[g]]):
            continue
        add_slice(D, T, used, total_of_group.shape[1], True, total_of_group)
        add_packed(total_of_group, d, own[g], sums)

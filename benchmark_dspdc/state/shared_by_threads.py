"""A state that several threads work on inside one iteration.

All threads run the same loop and draw the same blocks, and of a block each does its part. What a
part adds to a kept product goes to a sum of its own; those are added when all are done. So the
threads compute what one would, but for the order of that addition. Waking a sleeping thread takes
longer than most iterations, so they look at each other's count until all have come as far, and
now and then let the system run something else.
"""

import os
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from ..engine.kernel_cache import njit
from ..engine.simd import element
from .iteration import Block, close, dual_half, iteration_cost, primal_half, solution, turn
from .primal_dual import ColumnState, FactorState, RowState

#: Integers between counts, so that each has a cache line, and looks at another's between yields.
APART, PATIENCE = 8, 2000

#: Fields, of which a state has one or both, that sum up what the dual and the primal half of an
#: iteration add to a product.
SUMS = ("dw", "dz")


class Shared(NamedTuple):
    """What the thread `me` has of a state: the whole, and that with its own sums of a half."""

    whole: NamedTuple
    dual: NamedTuple
    primal: NamedTuple
    dual_sums: np.ndarray
    primal_sums: np.ndarray
    counts: np.ndarray
    me: int


def longest_sum(state):
    """The longest sum that each thread would have of its own; None if threads cannot share."""
    if os.name == "posix" and isinstance(state, RowState | ColumnState | FactorState):
        return max(len(getattr(state, name, ())) for name in SUMS)


def shares(state, threads):
    """The shares of as many threads in a state that is at its start."""
    sums = [np.zeros((threads, len(getattr(state, name, ())))) for name in SUMS]

    def with_sums_of(*mine):
        fields = {name: sums[k][mine[k]] for k, name in enumerate(SUMS) if hasattr(state, name)}
        return state._replace(dy=np.empty_like(state.dy), dx=np.empty_like(state.dx), **fields)
    counts, whole = np.zeros(threads * APART, dtype=np.int64), with_sums_of(0, 0)
    return [Shared(whole, with_sums_of(me, 0), with_sums_of(0, me), *sums, counts, me)
            for me in range(threads)]


@intrinsic
def _publish(typingctx, array, offset, value):
    """Write an integer after everything that was written before."""
    def generate(context, builder, signature, args):
        pointer = element(context, builder, signature, args)
        builder.store_atomic(args[2], pointer, ordering="release", align=8)
        return context.get_dummy_value()
    return types.void(array, types.intp, types.int64), generate


@intrinsic
def _look(typingctx, array, offset):
    """Read an integer before anything that is read after."""
    def generate(context, builder, signature, args):
        pointer = element(context, builder, signature, args)
        return builder.load_atomic(pointer, ordering="acquire", align=8)
    return types.int64(array, types.intp), generate


_let_others_run = types.ExternalFunction("sched_yield", types.int32())


@njit(inline=True)
def wait_for_all(counts, me):
    """Return when every thread has called this as often; `me` is the caller's number."""
    count = counts[me * APART] + 1
    _publish(counts, me * APART, count)
    for other in range(counts.shape[0] // APART):
        looks = 0
        while _look(counts, other * APART) < count:
            looks += 1
            if looks % PATIENCE == 0:
                _let_others_run()


@njit(inline=True)
def part_of(state, block):
    """The part of a block that a thread does; but for the last a multiple of 8 coordinates."""
    order, lo, hi = block
    threads = state.dual_sums.shape[0]
    each = ((hi - lo + 8 * threads - 1) // (8 * threads)) * 8
    first = min(lo + state.me * each, hi)
    return Block(order, first, min(first + each, hi))


@njit(inline=True)
def has_all_sums(state, sums):
    """Wait until all parts are done; the first thread adds their sums up and gets True."""
    wait_for_all(state.counts, state.me)
    if state.me > 0:
        return False
    for other in range(1, sums.shape[0]):
        for k in range(sums.shape[1]):
            sums[0, k] += sums[other, k]
            sums[other, k] = 0.0
    return True


@dual_half.register(Shared)
def shared_dual_half(state, rule, steps, rows):
    dual_half(state.dual, rule, steps, part_of(state, rows))


@primal_half.register(Shared)
def shared_primal_half(state, rule, steps, rows, columns):
    return primal_half(state.primal, rule, steps, rows, part_of(state, columns))


@turn.register(Shared)
def shared_turn(state, boost, previous):
    if has_all_sums(state, state.dual_sums):
        turn(state.whole, boost, previous)
    wait_for_all(state.counts, state.me)


@close.register(Shared)
def shared_close(state, momentum, rows):
    if has_all_sums(state, state.primal_sums):
        close(state.whole, momentum, rows)
    wait_for_all(state.counts, state.me)


@iteration_cost.register(Shared)
def shared_cost(state, rows, columns):
    return iteration_cost(state.whole, rows, columns)


@solution.register(Shared)
def shared_solution(state, steps):
    return solution(state.whole, steps)

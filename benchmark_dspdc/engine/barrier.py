"""A barrier for kernels that run on several threads at once.

Threads inside compiled code cannot wait for each other through Python, and
waking a sleeping one takes longer than most iterations. So they look at each
other's count until all have come as far, and let the system run something
else now and then, in case that another is not running at all.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .kernel_cache import njit

#: Counts are this many integers apart, so that each has a cache line.
APART = 8

#: How often to look before the system is asked to run something else.
PATIENCE = 2000


def new_board(threads):
    """Counts of as many threads, none of which has come to a barrier."""
    return np.zeros(threads * APART, dtype=np.int64)


def _pointer(context, builder, array_type, array, offset):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


@intrinsic
def _publish(typingctx, array, offset, value):
    """Write an integer after everything that was written before."""
    def generate(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], pointer, ordering="release", align=8)
        return context.get_dummy_value()
    return types.void(array, types.intp, types.int64), generate


@intrinsic
def _look(typingctx, array, offset):
    """Read an integer before anything that is read after."""
    def generate(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, ordering="acquire", align=8)
    return types.int64(array, types.intp), generate


@intrinsic
def _let_others_run(typingctx):
    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()
    return types.void(), generate


@njit(inline=True)
def wait_for_all(board, me):
    """Return when every thread has called this as often; `me` is the caller's number."""
    count = board[me * APART] + 1
    _publish(board, me * APART, count)
    for other in range(board.shape[0] // APART):
        looks = 0
        while _look(board, other * APART) < count:
            looks += 1
            if looks == PATIENCE:
                looks = 0
                _let_others_run()

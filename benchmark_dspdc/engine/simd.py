"""Vectors of four doubles for numba kernels.

LLVM vectorises a long sum by itself but leaves short rows (d = 20 or 50, the
sizes of factorised data) mostly to scalar remainder loops. These few
operations let a kernel say what it wants: on rows of 20 doubles that was
worth a factor of 2 (AVX2, November 2026). They lower to generic LLVM vector
code, so they work on any target numba has.

Offsets are in doubles from the start of a C-contiguous array, whatever its
number of dimensions.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

WIDTH = 4

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_INT32 = ir.IntType(32)
_REASSOCIATE = ("reassoc", "contract", "nsz")


class _Vec(types.Type):
    def __init__(self):
        super().__init__(name="Vec4")


vec = _Vec()


@register_model(_Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager, front_end_type):
        super().__init__(manager, front_end_type, _VECTOR)


def _mask(*lanes):
    return ir.Constant(ir.VectorType(_INT32, WIDTH), list(lanes))


def _pointer(context, builder, array_type, array, offset):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, offset):
    """Four doubles from `offset` on; no alignment is assumed."""
    def generate(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.load(pointer, align=8)
    return vec(array, types.intp), generate


@intrinsic
def store(typingctx, array, offset, value):
    """Write four doubles from `offset` on."""
    def generate(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()
    return types.void(array, types.intp, vec), generate


@intrinsic
def splat(typingctx, scalar):
    """The same double four times."""
    def generate(context, builder, signature, args):
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, args[0], ir.Constant(_INT32, 0))
        return builder.shuffle_vector(first, undefined, _mask(0, 0, 0, 0))
    return vec(types.float64), generate


@intrinsic
def add(typingctx, x, y):
    """x + y."""
    def generate(context, builder, signature, args):
        return builder.fadd(args[0], args[1], flags=_REASSOCIATE)
    return vec(vec, vec), generate


@intrinsic
def mul(typingctx, x, y):
    """x * y."""
    def generate(context, builder, signature, args):
        return builder.fmul(args[0], args[1], flags=_REASSOCIATE)
    return vec(vec, vec), generate


@intrinsic
def fma(typingctx, x, y, z):
    """x * y + z, rounded once."""
    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.fma.v{WIDTH}f64"
        )
        return builder.call(function, args)
    return vec(vec, vec, vec), generate


@intrinsic
def total(typingctx, x):
    """Sum of the four lanes."""
    def generate(context, builder, signature, args):
        lane = [
            builder.extract_element(args[0], ir.Constant(_INT32, k)) for k in range(WIDTH)
        ]
        return builder.fadd(builder.fadd(lane[0], lane[2]), builder.fadd(lane[1], lane[3]))
    return types.float64(vec), generate


@intrinsic
def totals(typingctx, a, b, c, d):
    """The four sums (total(a), total(b), total(c), total(d)) as one vector."""
    def generate(context, builder, signature, args):
        def pairwise(x, y):
            even = builder.shuffle_vector(x, y, _mask(0, 4, 2, 6))
            odd = builder.shuffle_vector(x, y, _mask(1, 5, 3, 7))
            return builder.fadd(even, odd)
        ab, cd = pairwise(args[0], args[1]), pairwise(args[2], args[3])
        return builder.fadd(
            builder.shuffle_vector(ab, cd, _mask(0, 1, 4, 5)),
            builder.shuffle_vector(ab, cd, _mask(2, 3, 6, 7)),
        )
    return vec(vec, vec, vec, vec), generate


@intrinsic
def prefetch(typingctx, array, offset):
    """Ask for the cache line that holds element `offset`; a hint, never an error."""
    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        pointer = builder.bitcast(builder.gep(data, [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte] + [_INT32] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # read, keep in all levels, data
        builder.call(function, [pointer] + [ir.Constant(_INT32, k) for k in (0, 3, 1)])
        return context.get_dummy_value()
    return types.void(array, types.intp), generate

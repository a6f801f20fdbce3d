"""Vectors of doubles for numba kernels.

LLVM vectorises a long sum by itself but leaves short rows (d = 20 or 50, the
sizes of factorised data) mostly to scalar remainder loops. These few
operations let a kernel say what it wants: on rows of 20 doubles that was
worth a factor of 2 (AVX2, November 2026). They lower to generic LLVM vector
code, so they work on any target numba has; a vector that is wider than the
registers takes several.

Offsets are in doubles from the start of a C-contiguous array, whatever its
number of dimensions.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

_INT32 = ir.IntType(32)
_REASSOCIATE = ("reassoc", "contract", "nsz")


class Vec(types.Type):
    """Numba's type of vectors of so many doubles."""

    def __init__(self, width):
        super().__init__(name=f"Vec{width}")
        self.vector = ir.VectorType(ir.DoubleType(), width)


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.vector)


def _mask(*lanes):
    return ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes))


def element(context, builder, signature, args, to=None):
    """The address of element args[1] of the array args[0], as a pointer to an LLVM type."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    pointer = builder.gep(data, [args[1]])
    return pointer if to is None else builder.bitcast(pointer, to.as_pointer())


def call(builder, name, result, arguments):
    """Call a function that LLVM or the system knows by name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def spread(builder, scalar, vector):
    """A number in all lanes of an LLVM type of vectors."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, undefined, _mask(*[0] * vector.count))


def vectors_of(width):
    """`load` and `splat` for vectors of so many doubles."""
    vec = Vec(width)

    @intrinsic
    def load(typingctx, array, offset):
        """Doubles from `offset` on; no alignment is assumed."""
        def generate(context, builder, signature, args):
            pointer = element(context, builder, signature, args, vec.vector)
            return builder.load(pointer, align=8)
        return vec(array, types.intp), generate

    @intrinsic
    def splat(typingctx, scalar):
        """The same double in all lanes."""
        def generate(context, builder, signature, args):
            return spread(builder, args[0], vec.vector)
        return vec(types.float64), generate

    return load, splat


load, splat = vectors_of(4)


@intrinsic
def store(typingctx, array, offset, value):
    """Write a vector's doubles from `offset` on."""
    def generate(context, builder, signature, args):
        pointer = element(context, builder, signature, args, value.vector)
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()
    return types.void(array, types.intp, value), generate


@intrinsic
def add(typingctx, x, y):
    """x + y."""
    def generate(context, builder, signature, args):
        return builder.fadd(args[0], args[1], flags=_REASSOCIATE)
    return x(x, x), generate


@intrinsic
def mul(typingctx, x, y):
    """x * y."""
    def generate(context, builder, signature, args):
        return builder.fmul(args[0], args[1], flags=_REASSOCIATE)
    return x(x, x), generate


@intrinsic
def fma(typingctx, x, y, z):
    """x * y + z, rounded once."""
    def generate(context, builder, signature, args):
        return call(builder, f"llvm.fma.v{x.vector.count}f64", x.vector, args)
    return x(x, x, x), generate


@intrinsic
def total(typingctx, x):
    """Sum of the lanes of a vector of four."""
    def generate(context, builder, signature, args):
        lane = [builder.extract_element(args[0], ir.Constant(_INT32, k)) for k in range(4)]
        return builder.fadd(builder.fadd(lane[0], lane[2]), builder.fadd(lane[1], lane[3]))
    return types.float64(x), generate


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
    return a(a, a, a, a), generate


def _prefetch_to(locality):
    @intrinsic
    def prefetch(typingctx, array, offset):
        """Ask for the cache line that holds element `offset`; a hint, never an error."""
        def generate(context, builder, signature, args):
            pointer = element(context, builder, signature, args, ir.IntType(8))
            # read, where to, data
            hints = [ir.Constant(_INT32, k) for k in (0, locality, 1)]
            call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, *hints])
            return context.get_dummy_value()
        return types.void(array, types.intp), generate
    return prefetch


#: Into all levels of the cache.
prefetch = _prefetch_to(3)

#: Into the second level, which has room for more requests under way than the first: for many
#: lines that lie anywhere in much memory.
prefetch_many = _prefetch_to(2)


def aligned(shape):
    """A zero array whose data start at a cache line, so that no vector load straddles two."""
    size = int(np.prod(shape))
    raw = np.zeros(size + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip:skip + size].reshape(shape)

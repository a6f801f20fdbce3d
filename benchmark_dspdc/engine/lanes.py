"""Formulas that are written once, for a number and for a vector of numbers.

LLVM does not vectorise a loop that calls an exponential, nor one over coordinates in an
order. Here the vectors of `simd` get the operators of numbers, and both get
the few functions without branches that a formula needs instead of ``if`` and ``math.exp``.
A number beside a vector stands for all its lanes.

Numba lets LLVM reorder sums here as elsewhere; what must be rounded as written is `fused`.
"""

import math
import operator

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, overload, type_callable

from .dispatch import index
from .kernel_cache import OPTIONS, njit
from .simd import Vec, call, spread, store, vectors_of

#: Lanes of a vector in formulas: two registers of AVX2, so that one works while the other waits.
LANES = 8

_load, _ = vectors_of(LANES)
_INT32, _INT64, _DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()

# Added to a whole number it makes the last bit of the sum count ones.
_MAGIC = 1.5 * 2.0 ** 52


def _signature(*kinds):
    """That of a function of numbers and vectors: it gives a vector if it is given one."""
    kinds = [kind if isinstance(kind, Vec) else types.float64 for kind in kinds]
    result = next((kind for kind in kinds if isinstance(kind, Vec)), types.float64)
    return result(*kinds)


def _alike(builder, signature, args):
    """The arguments as values of the type that is returned."""
    kind = signature.return_type
    if not isinstance(kind, Vec):
        return args
    return [
        value if isinstance(given, Vec) else spread(builder, value, kind.vector)
        for given, value in zip(signature.args, args, strict=True)
    ]


def _same(value, number, kind=None):
    """A constant for every lane of a value, as a double or of another type."""
    lanes = isinstance(value.type, ir.VectorType) and value.type.count
    one = ir.Constant(kind or _DOUBLE, number)
    return ir.Constant(ir.VectorType(one.type, lanes), [one] * lanes) if lanes else one


def _cast(value, kind):
    """The type of so many lanes of another kind."""
    lanes = isinstance(value.type, ir.VectorType) and value.type.count
    return ir.VectorType(kind, lanes) if lanes else kind


# The operators of numbers ----------------------------------------------------------------------

def _give_operator(function, instruction):
    @type_callable(function)
    def kind_of(context):
        def both(x, y):
            if isinstance(x, Vec) or isinstance(y, Vec):
                return _signature(x, y)
        return both

    def generate(context, builder, signature, args):
        return getattr(builder, instruction)(*_alike(builder, signature, args))
    for pair in ((Vec, Vec), (Vec, types.Float), (types.Float, Vec)):
        lower_builtin(function, *pair)(generate)


for _function, _instruction in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _give_operator(_function, _instruction)


# Functions of numbers and vectors --------------------------------------------------------------

@intrinsic
def where_less(typingctx, a, b, x, y):
    """x where a < b, else y; so y where a or b is not a number."""
    def generate(context, builder, signature, args):
        a, b, x, y = _alike(builder, signature, args)
        return builder.select(builder.fcmp_ordered("<", a, b), x, y)
    return _signature(a, b, x, y), generate


@njit(inline=True)
def at_least(x, least):
    """max(x, least), where what is not a number stays so."""
    return where_less(x, least, least, x)


@njit(inline=True)
def at_most(x, most):
    """min(x, most), where what is not a number stays so."""
    return where_less(most, x, most, x)


@intrinsic
def fused(typingctx, x, y, z):
    """x y + z, rounded once."""
    def generate(context, builder, signature, args):
        return _known(builder, "fma", *_alike(builder, signature, args))
    return _signature(x, y, z), generate


def _known(builder, name, x, *others):
    """A function that LLVM has for numbers and vectors."""
    lanes = f"v{x.type.count}" if isinstance(x.type, ir.VectorType) else ""
    return call(builder, f"llvm.{name}.{lanes}f64", x.type, [x, *others])


def polynomial(*coefficients):
    """The function of x with these coefficients, that of x^0 first.

    Neighbours are joined in pairs, and those again, so that few terms wait for others.
    """
    @intrinsic
    def value(typingctx, x):
        def generate(context, builder, signature, args):
            power = args[0]
            terms = [_same(power, coefficient) for coefficient in coefficients]
            while len(terms) > 1:
                pairs = zip(terms[1::2], terms[::2], strict=False)
                joined = [_known(builder, "fma", upper, power, lower) for upper, lower in pairs]
                terms = joined + terms[2 * len(joined):]
                power = builder.fmul(power, power)
            return terms[0]
        return _signature(x), generate
    return value


@intrinsic
def _nearest(typingctx, x):
    """The whole number next to x."""
    def generate(context, builder, signature, args):
        return _known(builder, "rint", *args)
    return _signature(x), generate


@intrinsic
def _two_to(typingctx, k):
    """2^k for a whole number -1023 < k < 1024."""
    def generate(context, builder, signature, args):
        value = args[0]
        last_bits = builder.bitcast(
            builder.fadd(value, _same(value, _MAGIC)), _cast(value, _INT64)
        )
        exponent = builder.add(last_bits, _same(value, 1023, _INT64))
        return builder.bitcast(builder.shl(exponent, _same(value, 52, _INT64)), value.type)
    return _signature(k), generate


_exp = polynomial(*(1.0 / math.factorial(k) for k in range(14)))
_rough_exp = polynomial(*(1.0 / math.factorial(k) for k in range(6)))

# log(2) as a sum, of which k times the first is exact for the k that occur.
_LOG_2 = 0.6931471805599453
_LOG_2_FIRST = float.fromhex("0x1.62e42fee00000p-1")
_LOG_2_REST = float.fromhex("0x1.a39ef35793c76p-33")


#: Beyond it exp(-u) would be no normal number, and is taken to be 0.
_LARGEST = 708.0


@njit(inline=True)
def exp_of_minus(u):
    """exp(-u) to the last bits, for u >= -1."""
    # exp(-u) = 2^k exp(r) with |r| <= log(2)/2
    near = at_most(u, _LARGEST)
    k = _nearest(near * (-1.0 / _LOG_2))
    r = fused(k, -_LOG_2_REST, fused(k, -_LOG_2_FIRST, 0.0 - near))
    return where_less(_LARGEST, u, 0.0, _two_to(k) * _exp(r))


@njit(inline=True)
def rough_exp_of_minus(u):
    """exp(-u) to 4e-6 of it, for u >= -1."""
    near = at_most(u, _LARGEST)
    k = _nearest(near * (-1.0 / _LOG_2))
    r = fused(k, -_LOG_2, 0.0 - near)
    return where_less(_LARGEST, u, 0.0, _two_to(k) * _rough_exp(r))


@intrinsic
def _leading_bits(typingctx, x):
    """The first half of the bits of x > 0, as a number."""
    def generate(context, builder, signature, args):
        bits = builder.bitcast(args[0], _cast(args[0], _INT64))
        half = builder.lshr(bits, _same(args[0], 32, _INT64))
        return builder.sitofp(builder.trunc(half, _cast(args[0], _INT32)), args[0].type)
    return _signature(x), generate


@njit(inline=True)
def rough_log(x):
    """log(x) up to 0.03 for normal x > 0: the exponent, and the mantissa as if linear."""
    return _leading_bits(x) * (_LOG_2 / 2.0 ** 20) - (1023.0 - 0.043) * _LOG_2


# Coordinates of arrays --------------------------------------------------------------------------

@intrinsic
def _together(typingctx, numbers):
    """A tuple of numbers as a vector."""
    kind = Vec(len(numbers))

    def generate(context, builder, signature, args):
        vector = ir.Constant(kind.vector, ir.Undefined)
        for k in range(len(numbers)):
            number = builder.extract_value(args[0], k)
            vector = builder.insert_element(vector, number, ir.Constant(_INT32, k))
        return vector
    return kind(numbers), generate


@intrinsic
def _apart(typingctx, vector):
    """The lanes of a vector as a tuple."""
    kind = types.UniTuple(types.float64, vector.vector.count)

    def generate(context, builder, signature, args):
        numbers = [
            builder.extract_element(args[0], ir.Constant(_INT32, k)) for k in range(kind.count)
        ]
        return context.make_tuple(builder, kind, numbers)
    return kind(vector), generate


@intrinsic
def any_nonzero(typingctx, vector):
    """Whether a lane is not 0."""
    def generate(context, builder, signature, args):
        nonzero = builder.fcmp_unordered("!=", args[0], _same(args[0], 0.0))
        lanes = vector.vector.count
        return call(builder, f"llvm.vector.reduce.or.v{lanes}i1", ir.IntType(1), [nonzero])
    return types.boolean(vector), generate


def take(values, order, k):
    """A vector of ``values[order[k:k + LANES]]``; a number that stands for all as it is."""


def put(values, order, k, vector):
    """``values[order[k:k + LANES]] = vector``, whose coordinates differ."""


def _side_by_side(values, order):
    return isinstance(order, types.NoneType) and values.layout == "C"


@overload(take, jit_options=OPTIONS | {"forceinline": True})
def _take(values, order, k):
    if not isinstance(values, types.Array):
        return lambda values, order, k: values
    if _side_by_side(values, order):
        return lambda values, order, k: _load(values, k)

    def gather(values, order, k):
        return _together((
            values[index(order, k)], values[index(order, k + 1)], values[index(order, k + 2)],
            values[index(order, k + 3)], values[index(order, k + 4)], values[index(order, k + 5)],
            values[index(order, k + 6)], values[index(order, k + 7)],
        ))
    return gather


@overload(put, jit_options=OPTIONS | {"forceinline": True})
def _put(values, order, k, vector):
    if _side_by_side(values, order):
        return lambda values, order, k, vector: store(values, k, vector)

    def scatter(values, order, k, vector):
        lanes = _apart(vector)
        for l in range(LANES):
            values[index(order, k + l)] = lanes[l]
    return scatter

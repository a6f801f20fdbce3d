"""Dispatch on types: one function, a body for each type of its first argument."""

import functools
import inspect

import numpy as np
from numba.core import types
from numba.extending import overload

from .kernel_cache import OPTIONS, njit
from .threads import single_threaded


def generic(declaration=None, *, default=False, interpreted=False):
    """Declare a function dispatched on the type of its first argument.

    The declaration's signature and docstring are the contract. Bodies are added
    with ``name.register(Type)``. For NamedTuple types they are compiled, into
    whatever calls them or, when called from Python, by themselves; for any other
    type they run as they are.

    Parameters
    ----------
    default : bool
        Whether the declaration's own body serves the types that have none; else
        it is never run.
    interpreted : bool
        When called from Python run all bodies as they are: for those that do
        less than it takes to hand the arguments to compiled code.

    Examples
    --------
    >>> @generic
    ... def value(loss, z, b):
    ...     "phi(z) for the label b."
    >>> @value.register(Square)
    ... def square_value(loss, z, b):
    ...     return 0.5 * (z - b) ** 2
    >>> value.covers(Square), value.covers(int), value.argument
    (True, False, 'loss')
    """
    if declaration is None:
        return functools.partial(generic, default=default, interpreted=interpreted)
    bodies, callables = {}, {}
    fallback = declaration if default else None

    @functools.wraps(declaration)
    def call(first, *args):
        cls = type(first)
        if cls not in callables:
            body = bodies.get(cls, fallback)
            if body is None:
                raise TypeError(
                    f"{declaration.__name__} is not defined for {cls.__name__}; "
                    f"it is for {', '.join(sorted(c.__name__ for c in bodies))}"
                )
            compiled = issubclass(cls, tuple) and not interpreted
            callables[cls] = njit(body) if compiled else body
        return callables[cls](first, *args)

    def register(*classes):
        def decorate(body):
            bodies.update(dict.fromkeys(classes, body))
            return body
        return decorate

    def choose(*args):
        return bodies.get(getattr(args[0], "instance_class", None), fallback)

    overload(
        call, strict=False,
        jit_options=OPTIONS | {"forceinline": True},
    )(choose)
    call.register = register
    call.covers = lambda cls: default or cls in bodies
    call.argument = next(iter(inspect.signature(declaration).parameters))
    return call


def runner(kernel, state):
    """A compiled loop, or the same loop in Python for a state that is no NamedTuple.

    Where the blocks of x are matrices an iteration takes milliseconds, and the
    products that it asks for are compiled or BLAS.
    """
    return kernel if isinstance(state, tuple) else single_threaded(kernel.py_func)


@njit(inline=True)
def at(order, k):
    """The k-th index of an order that may be the identity (None)."""
    if order is None:
        return k
    return order[k]


@njit(inline=True)
def index(order, k):
    """`at`, unsigned: numba then needs no test for a negative index, and loops vectorise.

    For subscripts only; numba turns arithmetic of signed with unsigned into floats.
    """
    return np.uint64(at(order, k))


def entry(values, k):
    """The k-th of some values, or the value itself where one number stands for all."""
    return values if np.ndim(values) == 0 else values[k]


@overload(entry, jit_options=OPTIONS | {"forceinline": True})
def _entry(values, k):
    if isinstance(values, types.Array):
        return lambda values, k: values[k]
    return lambda values, k: values

"""One thread for BLAS where results must not depend on how many there are."""

import functools

from threadpoolctl import ThreadpoolController

# Inspecting the loaded libraries takes milliseconds, so once for all calls.
_controller = functools.cache(ThreadpoolController)


def one_thread():
    """Context in which BLAS and LAPACK use one thread."""
    return _controller().limit(limits=1, user_api="blas")


def single_threaded(function):
    """Decorator: run the function's BLAS and LAPACK calls on one thread.

    A product split over threads is summed in another order, and the last bits
    of constants, hence of whole curves, would differ between a run alone and
    a run beside others.
    """
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with one_thread():
            return function(*args, **kwargs)
    return wrapped

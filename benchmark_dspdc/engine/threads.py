"""How many threads to use: one for BLAS, several for independent pieces of work."""

import functools
import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from numbers import Real

import scipy.linalg  # noqa: F401  (its BLAS is another library than numpy's, to be limited too)
from threadpoolctl import ThreadpoolController

VARIABLE = "BENCHMARK_DSPDC_THREADS"

# Inspecting the loaded libraries takes milliseconds, so once for all calls.
_controller = functools.cache(ThreadpoolController)


# One thread for BLAS ------------------------------------------------------------------

class _OneThread(ContextDecorator):
    """The limit belongs to the process, so entering it again only counts how often."""

    def __init__(self):
        self._lock = threading.Lock()
        self._depth = 0
        self._limit = None

    def __enter__(self):
        with self._lock:
            if self._depth == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._depth += 1
        return self

    def __exit__(self, *error):
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._limit.restore_original_limits()
                self._limit = None


#: Decorator: the function's BLAS and LAPACK calls run on one thread. A product split over threads
#: is summed in another order, and the last bits of constants, hence of whole curves, would differ
#: between a run alone and a run beside others.
single_threaded = _OneThread()


def one_thread():
    """Context in which BLAS and LAPACK use one thread. Cheap to enter when inside already."""
    return single_threaded


# Several threads for independent work -------------------------------------------------

def kept_by_thread(most):
    """Decorator: each thread keeps what the function made it for its last few arguments.

    For scratch memory, which threads must not share and which would cost page faults if it
    were fresh at every call.
    """
    def decorate(make):
        kept = threading.local()

        @functools.wraps(make)
        def get(argument):
            made = kept.__dict__.setdefault("made", {})
            if argument not in made:
                if len(made) >= most:
                    made.clear()
                made[argument] = make(argument)
            return made[argument]
        return get
    return decorate


def available_cpus():
    """How many CPUs this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


# Asked when this module is loaded, before anything here limits BLAS. A process
# that shares the machine, as joblib's workers do, was told its part by then.
_BLAS_AT_START = min(
    (pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"),
    default=available_cpus(),
)


def n_threads():
    """How many threads this process may use.

    The environment variable BENCHMARK_DSPDC_THREADS if it is set, here or
    where the work was sent from (see `at_most`); else the
    CPUs given to this process, or what BLAS was allowed when this package was
    loaded if that is less: joblib gives its workers their part of the cores in
    this way, so that runs side by side do not claim the same cores.
    """
    if given := (getattr(_inside, "settings", None) or os.environ).get(VARIABLE):
        if not (given.isascii() and given.isdigit() and int(given) >= 1):
            raise ValueError(f"{VARIABLE} must be a whole number of at least 1, got {given!r}")
        return int(given)
    return min(available_cpus(), _BLAS_AT_START, getattr(_inside, "most", sys.maxsize))


_inside = threading.local()


@contextmanager
def at_most(count, settings=None):
    """Context in which `n_threads` is at most this, unless the environment variable is set.

    `settings` are taken in place of this process's environment: those of the process that the
    work comes from.
    """
    outside = getattr(_inside, "most", sys.maxsize), getattr(_inside, "settings", None)
    _inside.most, _inside.settings = count, settings
    try:
        yield
    finally:
        _inside.most, _inside.settings = outside


_lock = threading.Lock()
_pools = {}


def _helpers(count):
    """The pool of `count` threads; created when first needed."""
    with _lock:
        if count not in _pools:
            _pools[count] = ThreadPoolExecutor(count, thread_name_prefix="benchmark_dspdc")
        return _pools[count]


def _forget_threads():
    # Threads do not survive a fork, and a lock may have been held by one of them.
    global _lock, _meeting
    _lock, _meeting = threading.Lock(), threading.Lock()
    _pools.clear()
    single_threaded._lock = threading.Lock()
    _inside.busy = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def side_by_side(function, items):
    """``[function(item) for item in items]`` on `n_threads` threads, BLAS on one each.

    Each thread, the caller's too, takes the next item when it is done with
    one. Of the errors raised, that of the first item is passed on; items not
    begun by then are left out. Called inside itself, it is a plain loop.
    """
    items = list(items)
    alone = len(items) <= 1 or getattr(_inside, "busy", False)
    count = 1 if alone else min(n_threads(), len(items))
    with one_thread():
        if count == 1:
            return [function(item) for item in items]
        return _on_threads(function, items, count)


def _on_threads(function, items, count):
    results, errors = [None] * len(items), {}
    following, lock = itertools.count(), threading.Lock()

    def work():
        _inside.busy = True
        try:
            while True:
                with lock:
                    k = next(following)
                if k >= len(items) or errors:
                    return
                try:
                    results[k] = function(items[k])
                except BaseException as error:
                    errors[k] = error
        finally:
            _inside.busy = False

    helpers = [_helpers(count - 1).submit(work) for _ in range(count - 1)]
    work()
    for helper in helpers:
        # One that has not begun by now finds nothing left to do.
        if not helper.cancel():
            helper.result()
    if errors:
        raise errors[min(errors)]
    return results


# Threads that wait for each other ------------------------------------------------------

_meeting = threading.Lock()


def check_threads(value):
    """A number of threads that can run at the same time, or a ValueError."""
    most = available_cpus()
    # A result file has 1.0 where other methods have no such option.
    real = isinstance(value, Real) and not isinstance(value, bool)
    if real and value in range(1, most + 1):
        return int(value)
    raise ValueError(
        f"threads must be an integer from 1 to {most}, the CPUs of this process, got {value!r}"
    )


def all_at_once(function, first, *others):
    """``function(*first)``, and at the same time ``function(*args)`` for all others.

    For functions that wait for each other, so each has a thread that no other
    meeting of this kind can take away.
    """
    if not others:
        function(*first)
        return
    with _meeting:
        helpers = [_helpers(len(others)).submit(function, *args) for args in others]
        function(*first)
        for helper in helpers:
            helper.result()

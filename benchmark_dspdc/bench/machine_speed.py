"""A kernel whose time stands for the machine's speed, for times as ratios.

Seconds mean nothing on another machine, or on this one when it is busy. The objective measures
this loop at each point of every solver, while the solver's clock stands still, and a result file
has both.
"""

import functools
import time

import numpy as np

from ..engine.kernel_cache import njit

#: The loop's matrix, 320 kB, fits the second-level cache, as the rows of most kernels do.
SHAPE = (100, 400)

#: A measurement is the best of so many; the first ones wake the processor up.
TRIALS = 12


@njit
def _loop(A, x, y):
    """A dot product and an axpy with every row, what coordinate methods are made of."""
    for i in range(A.shape[0]):
        dot = y[i]
        for j in range(A.shape[1]):
            dot += A[i, j] * x[j]
        dot *= 1e-12
        for j in range(A.shape[1]):
            x[j] += dot * A[i, j]


@functools.cache
def _data():
    rng = np.random.default_rng(0)
    return rng.standard_normal(SHAPE), rng.standard_normal(SHAPE[1]), rng.standard_normal(SHAPE[0])


def reference_seconds():
    """The best time of the loop, now; a tenth of a millisecond in all."""
    A, x, y = _data()
    best = np.inf
    for _ in range(TRIALS):
        begun = time.perf_counter()
        _loop(A, x, y)
        best = min(best, time.perf_counter() - begun)
    return best

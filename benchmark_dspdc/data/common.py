"""Random streams of the data layer."""

import zlib

import numpy as np

from ..checks import check_int


def random_stream(seed, purpose):
    """Make the random generator of one purpose.

    Parameters
    ----------
    seed : int
        Non-negative.
    purpose : str
        Says what the numbers are for.

    Returns
    -------
    numpy.random.Generator

    Notes
    -----
    The purpose is part of the entropy. Without it ``seed=0`` for the data and ``seed=0`` for a
    random projection would draw the very same numbers, and the projection would depend on the
    data it is applied to.
    """
    seed = check_int(seed, "seed", low=0)
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])

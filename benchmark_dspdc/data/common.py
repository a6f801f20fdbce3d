"""Random streams and identifiers of the data layer."""

import zlib

import numpy as np

from ..engine.checks import as_given, check_int


def random_stream(seed, purpose):
    """Make the random generator of one purpose.

    The purpose, a text, is part of the entropy. Without it ``seed=0`` for the data and ``seed=0``
    for a random projection would draw the very same numbers, and the projection would depend on
    the data it is applied to.
    """
    seed = check_int(seed, "seed", low=0)
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def as_ids(values, name, length):
    """Read the labels or the tasks of so many points: numbers without NaN, or strings."""
    ids = as_given(values, name, "numbers or strings")
    if ids.dtype.kind == "O" and all(isinstance(value, str) for value in ids.flat):
        ids = ids.astype(str)
    if ids.dtype.kind not in "biufUS":
        raise ValueError(f"{name} must be numbers or strings, got dtype {ids.dtype}")
    if ids.ndim != 1:
        raise ValueError(f"{name} must have 1 dimension(s), got shape {ids.shape}")
    if len(ids) != length:
        raise ValueError(f"{name} must be as many as the points, {length}, got {len(ids)}")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise ValueError(
            f"{name} must not be NaN, got one at index {int(np.isnan(ids).argmax())}"
        )
    return ids


def show_id(value):
    """Write a label or a task for a message: ``3``, ``2.5`` or ``'cat'``."""
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else repr(value)

"""Checks of what users give: each says what is wrong, what was given and what is allowed."""

import difflib
import math
from numbers import Integral, Real

import numpy as np
import scipy.sparse


def choose(value, allowed, name):
    """`allowed[value]` of a dict, or the value itself if it is among the allowed ones."""
    if isinstance(value, str | int) and not isinstance(value, bool) and value in allowed:
        return allowed[value] if isinstance(allowed, dict) else value
    words = [str(a) for a in allowed]
    # Letters in another order are the likeliest slip, and difflib's least likely guess.
    close = [word for word in words if sorted(word) == sorted(str(value).lower())]
    close += difflib.get_close_matches(str(value), words, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    options = ", ".join(repr(a) for a in allowed)
    raise ValueError(f"{name} must be one of {options}, got {value!r}{hint}")


def is_auto(value):
    """Whether a value is the word "auto"; an array is not, and has no single answer to ==."""
    return isinstance(value, str) and value == "auto"


def check_number(value, name, low=-math.inf, strict=False, high=math.inf):
    """A finite float from `low` to `high`; if strict, neither of the two."""
    above, below = (">", "<") if strict else (">=", "<=")
    limits = [f"{above} {low:g}"] if low > -math.inf else []
    if high < math.inf:
        limits.append(f"{below} {high:g}")
    allowed = f"a finite number {' and '.join(limits)}".rstrip()
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    except OverflowError:
        number = None
    good = number is not None and math.isfinite(number) and low <= number <= high
    if not good or (strict and number in (low, high)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def check_int(value, name, low=1, high=None, reason=""):
    """An int in a closed range; `reason` says where the limits come from."""
    allowed = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    if reason:
        allowed = f"{allowed} ({reason})"
    integral = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not integral or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return int(value)


def as_given(array, name, kind="real numbers"):
    """The array of what is given, whatever its type and shape; `kind` says what it should hold."""
    try:
        return np.asarray(array)
    except ValueError as error:
        reason = "with rows of different lengths"
        if isinstance(error, UnicodeError):
            reason = "that mixes bytes and strings"
        raise ValueError(
            f"{name} must be an array of {kind}, got {type(array).__name__} {reason}"
        ) from None


def as_array(array, name, ndim):
    """A finite C-contiguous float64 array, without touching the given one."""
    given = as_given(array, name)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of real numbers, got dtype {given.dtype}")
    if given.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {given.shape}")
    if given.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {given.shape}")
    out = np.ascontiguousarray(given, dtype=np.float64)
    _check_finite(out, name)
    return out


def check_buffer(array, shape, name):
    """Raise unless it is an array of this shape that compiled loops can write to."""
    given = type(array).__name__
    if isinstance(array, np.ndarray):
        fits = array.dtype == np.float64 and array.shape == shape
        if fits and array.flags.c_contiguous and array.flags.writeable:
            return
        given = f"{array.dtype} of shape {array.shape}"
    raise ValueError(
        f"{name} must be a writable C-contiguous float64 array of shape {shape}, got {given}"
    )


def as_csr(matrix, name):
    """A finite float64 CSR array, indices sorted and unique, without touching the given one."""
    if matrix.ndim != 2:
        raise ValueError(f"{name} must have 2 dimension(s), got shape {matrix.shape}")
    if 0 in matrix.shape:
        raise ValueError(f"{name} must not be empty, got shape {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a matrix of real numbers, got dtype {matrix.dtype}")
    _check_indices(matrix, name)
    csr = scipy.sparse.csr_array(matrix).astype(np.float64, copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    _check_finite(csr.data, name, lambda k: (
        int(np.searchsorted(csr.indptr, k[0], side="right")) - 1, int(csr.indices[k[0]])
    ))
    return csr


def _check_indices(matrix, name):
    """Raise unless all indices of a sparse matrix are inside of it.

    scipy does not look, and compiled loops, its own too, would read and write elsewhere.
    """
    if matrix.format in ("csr", "csc", "bsr"):
        starts, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
        blocks = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        sizes = [total // width for total, width in zip(matrix.shape, blocks, strict=True)]
        major, minor = reversed(sizes) if matrix.format == "csc" else sizes
        stored = min(len(indices), len(matrix.data))
        good = (
            len(starts) == major + 1 and starts[0] == 0 and starts[-1] <= stored
            and bool(np.all(starts[1:] >= starts[:-1]))
        )
        inside = [(indices, minor)]
    elif matrix.format == "coo":
        good = all(len(indices) == len(matrix.data) for indices in matrix.coords)
        inside = zip(matrix.coords, matrix.shape, strict=True)
    else:
        return
    for indices, size in inside:
        good = good and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < size))
    if not good:
        raise ValueError(
            f"{name} must be a sparse matrix with indices inside of its shape, got other ones in "
            f"{matrix.format} of shape {matrix.shape}"
        )


def as_matrix(matrix, name):
    """`as_csr` of a sparse matrix, `as_array` of anything else."""
    return as_csr(matrix, name) if scipy.sparse.issparse(matrix) else as_array(matrix, name, 2)


def _check_finite(array, name, index_of=None):
    # A sum is finite unless an entry is not (or it overflows): no temporary needed.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(k) for k in bad[0])
        shown = where if index_of is None else index_of(where)
        raise ValueError(
            f"{name} must be finite, got {array[where]} at index "
            f"{shown if len(shown) > 1 else shown[0]} ({len(bad)} such entries in all)"
        )


def check_flag(value, name):
    """True or False; benchopt hands such words of a config on as strings."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name} must be true or false, got {value!r}")

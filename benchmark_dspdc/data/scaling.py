"""Scaling of columns and rows, learnt on the training part and applied to both parts."""

from functools import partial

import numpy as np
from scipy import sparse

from ..engine.checks import choose

#: Scalings that keep the zeros of a sparse matrix.
SPARSE_SCALES = ("none", "maxabs", "unit_rows")
#: All scalings; ``"standardize"`` shifts the columns and needs a dense matrix.
SCALES = (*SPARSE_SCALES, "standardize")


def scale_parts(X, X_test, name):
    """Scale the training part and, with the same column factors, the test part, if there is one.

    Both are ndarrays or CSR arrays, and new ones are returned, except that the scaling ``"none"``
    gives those that came. ``"maxabs"`` divides each column by its largest absolute value,
    ``"unit_rows"`` each row by its Euclidean norm; ``"standardize"``, for dense matrices only,
    shifts each column to mean zero and divides it by its standard deviation. What would be divided
    by zero is not: zero columns and rows stay as they are, and constant columns become zero under
    ``"standardize"``.
    """
    choose(name, SCALES, "scale")
    if name == "none":
        return X, X_test
    if name == "unit_rows":
        scale = _unit_rows
    else:
        shift, factor = (None, _largest(X, axis=0)) if name == "maxabs" else _moments(X)
        scale = partial(_columns, shift=shift, factor=factor)
    return tuple(None if part is None else scale(part.astype(np.float64)) for part in (X, X_test))


def _largest(X, axis):
    """Largest absolute values of the columns or the rows."""
    if sparse.issparse(X):
        return abs(X).max(axis=axis).toarray().ravel()
    # Two reductions instead of abs(X), which would be one more matrix of this size.
    return np.maximum(X.max(axis=axis), -X.min(axis=axis))


def _moments(X):
    """Means and standard deviations of the columns."""
    if sparse.issparse(X):
        raise ValueError(
            "scale 'standardize' needs a dense matrix because it shifts the columns: got a "
            f"sparse one, allowed are {', '.join(map(repr, SPARSE_SCALES))}."
        )
    shift, factor = X.mean(axis=0), X.std(axis=0)
    # The rounding error of the mean of a constant column must not become its unit of length.
    constant = np.ptp(X, axis=0) == 0
    shift[constant] = X[0, constant]
    factor[constant] = 0.0
    return shift, factor


# The functions below change the matrix that they are given, and return it.

def _divide(X, divisors, axis):
    """Divide the columns or the rows; zeros do not divide."""
    divisors = np.where(divisors == 0, 1.0, divisors)
    # Division, not multiplication by a reciprocal: the reciprocal of a subnormal overflows.
    if sparse.issparse(X):
        X.data /= divisors[X.indices] if axis == 0 else np.repeat(divisors, np.diff(X.indptr))
    else:
        X /= divisors if axis == 0 else divisors[:, None]
    return X


def _columns(X, shift, factor):
    """Shift the columns and divide them."""
    if shift is not None:
        X -= shift
    return _divide(X, factor, axis=0)


def _unit_rows(X):
    """Divide each row by its norm; zero rows stay.

    The row is first divided by its largest entry, so that no square over- or underflows.
    """
    X = _divide(X, _largest(X, axis=1), axis=1)
    norms2 = X.power(2).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return _divide(X, np.sqrt(norms2), axis=1)

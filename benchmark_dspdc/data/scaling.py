"""Scaling of columns and rows, learnt on the training part and applied to both parts."""

from functools import partial

import numpy as np
from scipy import sparse

from ..engine.checks import choose

#: Scalings that keep the zeros of a sparse matrix.
SPARSE_SCALES = ("none", "maxabs", "unit_rows")
#: All scalings; ``"standardize"`` shifts the columns and needs a dense matrix.
SCALES = (*SPARSE_SCALES, "standardize")


def scale_parts(X, X_test, name, allowed=SCALES):
    """Scale the training part and, with the same column factors, the test part.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array of shape (n, p)
        Training rows; not modified, nor are the test rows.
    X_test : as ``X``, or None
    name : str
        ``"none"``; ``"maxabs"``, each column divided by its largest absolute value;
        ``"unit_rows"``, each row divided by its Euclidean norm; ``"standardize"``, each column
        shifted to mean zero and divided by its standard deviation (dense matrices only).
        Columns or rows that would be divided by zero are not divided: zero columns and rows
        stay as they are, and constant columns become zero under ``"standardize"``.
    allowed : sequence of str, optional
        Those that the caller offers.

    Returns
    -------
    X, X_test : as given
        New matrices, except that the scaling ``"none"`` gives those that came.
    """
    choose(name, allowed, "scale")
    if name == "none":
        return X, X_test
    if name == "unit_rows":
        scale = _unit_rows
    else:
        shift, factor = (None, _largest(X, axis=0)) if name == "maxabs" else _moments(X)
        scale = partial(_columns, shift=shift, factor=_divisor(factor))
    return scale(X), None if X_test is None else scale(X_test)


def _largest(X, axis):
    """Largest absolute values of the columns or the rows."""
    if sparse.issparse(X):
        return abs(X).max(axis=axis).toarray().ravel()
    # Two reductions instead of abs(X), which would be one more matrix of this size.
    return np.maximum(X.max(axis=axis), -X.min(axis=axis))


def _divisor(values):
    """The values with ones for zeros, so that what would be divided by zero stays."""
    return np.where(values == 0, 1.0, values)


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


def _columns(X, shift, factor):
    """Shift the columns and divide them."""
    # Division, not multiplication by a reciprocal: the reciprocal of a subnormal overflows.
    if sparse.issparse(X):
        return _with_data(X, X.data / factor[X.indices])
    if shift is None:
        return X / factor
    scaled = X - shift
    scaled /= factor
    return scaled


def _with_data(X, data):
    """Build a CSR array with the pattern of ``X`` that shares no memory with it."""
    return sparse.csr_array((data, X.indices.copy(), X.indptr.copy()), shape=X.shape)


def _unit_rows(X):
    """Divide each row by its norm; zero rows stay.

    The row is first divided by its largest entry, so that no square over- or underflows.
    """
    if sparse.issparse(X):
        lengths = np.diff(X.indptr)
        data = X.data / np.repeat(_divisor(_largest(X, axis=1)), lengths)
        norms = np.sqrt(_with_data(X, data * data).sum(axis=1))
        data /= np.repeat(_divisor(norms), lengths)
        return _with_data(X, data)
    scaled = X / _divisor(_largest(X, axis=1))[:, None]
    scaled /= _divisor(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))[:, None]
    return scaled

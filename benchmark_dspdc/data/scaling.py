"""Scaling of columns and rows, learnt on the training part and applied to both parts."""

from functools import partial

import numpy as np
from scipy import sparse

from ..engine.checks import choose

__all__ = ["SCALES", "SPARSE_SCALES", "scale_parts"]

#: Scalings that keep the zeros of a sparse matrix.
SPARSE_SCALES = ("none", "maxabs", "unit_rows")
#: All scalings; ``"standardize"`` shifts the columns and needs a dense matrix.
SCALES = (*SPARSE_SCALES, "standardize")


def scale_parts(X, X_test, name, allowed=SCALES):
    """Scale the training part and, with the same column factors, the test part.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array of shape (n, p)
        Training rows; not modified.
    X_test : as ``X``, or None
        Test rows; not modified.
    name : str
        ``"none"``; ``"maxabs"``, each column divided by its largest absolute value;
        ``"unit_rows"``, each row divided by its Euclidean norm; ``"standardize"``, each column
        shifted to mean zero and divided by its standard deviation (dense matrices only).
        Columns or rows that would be divided by zero are not divided: zero columns and rows
        stay as they are, and constant columns become zero under ``"standardize"``.
    allowed : sequence of str, optional
        The subset of `SCALES` that the caller offers.

    Returns
    -------
    X, X_test : as given
        New matrices, except that the scaling ``"none"`` gives those that came.

    Raises
    ------
    ValueError
        If the name is not allowed, or for ``"standardize"`` with a sparse matrix.
    """
    choose(name, allowed, "scale")
    if name == "none":
        return X, X_test
    if name == "unit_rows":
        scale = _unit_rows
    else:
        scale = partial(_columns, **(_largest(X) if name == "maxabs" else _moments(X)))
    return scale(X), None if X_test is None else scale(X_test)


def _largest(X):
    if sparse.issparse(X):
        return dict(factor=abs(X).max(axis=0).toarray().ravel())
    # Two reductions instead of abs(X), which would be one more matrix of this size.
    return dict(factor=np.maximum(X.max(axis=0), -X.min(axis=0)))


def _moments(X):
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
    return dict(factor=factor, shift=shift)


def _columns(X, factor, shift=None):
    """Shift the columns, and divide them by factors that are not zero."""
    # Division, not multiplication by a reciprocal: the reciprocal of a subnormal overflows.
    factor = np.where(factor == 0, 1.0, factor)
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
        largest = abs(X).max(axis=1).toarray().ravel()
        largest[largest == 0] = 1.0
        data = X.data / np.repeat(largest, lengths)
        norms = np.sqrt(_with_data(X, data * data).sum(axis=1))
        norms[norms == 0] = 1.0
        data /= np.repeat(norms, lengths)
        return _with_data(X, data)
    largest = np.maximum(X.max(axis=1), -X.min(axis=1))
    largest[largest == 0] = 1.0
    scaled = X / largest[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    norms[norms == 0] = 1.0
    scaled /= norms[:, None]
    return scaled

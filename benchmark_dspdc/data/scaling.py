"""Scaling of columns and rows, learnt on the training part and applied to both parts."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..engine.checks import choose

__all__ = ["SCALES", "SPARSE_SCALES", "Scaling", "fit_scaling", "scale_parts"]

#: Scalings that keep the zeros of a sparse matrix.
SPARSE_SCALES = ("none", "maxabs", "unit_rows")
#: All scalings; ``"standardize"`` shifts the columns and needs a dense matrix.
SCALES = (*SPARSE_SCALES, "standardize")


class Scaling(NamedTuple):
    """A scaling with the column statistics of the training part.

    Attributes
    ----------
    name : str
        One of `SCALES`.
    shift, factor : ndarray of shape (p,) or None
        Subtracted from, respectively divided into, each column.
    """

    name: str
    shift: np.ndarray | None
    factor: np.ndarray | None

    def apply(self, X):
        """Scale a matrix.

        Parameters
        ----------
        X : ndarray or scipy.sparse.csr_array
            Matrix with the columns of the training part; not modified.

        Returns
        -------
        ndarray or scipy.sparse.csr_array
            A new matrix, except that the scaling ``"none"`` gives ``X`` itself.
        """
        if self.name == "none":
            return X
        if self.name == "unit_rows":
            return _unit_rows(X)
        # Division, not multiplication by a reciprocal: the reciprocal of a subnormal overflows.
        if sparse.issparse(X):
            return _with_data(X, X.data / self.factor[X.indices])
        if self.shift is None:
            return X / self.factor
        scaled = X - self.shift
        scaled /= self.factor
        return scaled


def fit_scaling(X, name, allowed=SCALES):
    """Learn a scaling from the training part.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array of shape (n, p)
        Training rows; not modified.
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
    Scaling

    Raises
    ------
    ValueError
        If the name is not allowed, or for ``"standardize"`` with a sparse matrix.
    """
    choose(name, allowed, "scale")
    shift = factor = None
    if name == "maxabs":
        if sparse.issparse(X):
            factor = abs(X).max(axis=0).toarray().ravel()
        else:
            # Two reductions instead of abs(X), which would be one more matrix of this size.
            factor = np.maximum(X.max(axis=0), -X.min(axis=0))
    elif name == "standardize":
        if sparse.issparse(X):
            raise ValueError(
                "scale 'standardize' needs a dense matrix because it shifts the columns: got a "
                f"sparse one, allowed are {', '.join(map(repr, SPARSE_SCALES))}."
            )
        shift = X.mean(axis=0)
        factor = X.std(axis=0)
        # The rounding error of the mean of a constant column must not become its unit of length.
        constant = np.ptp(X, axis=0) == 0
        shift[constant] = X[0, constant]
        factor[constant] = 0.0
    if factor is not None:
        factor[factor == 0] = 1.0
    return Scaling(name, shift, factor)


def scale_parts(X, X_test, name, allowed=SCALES):
    """Scale the training part and, with the same column factors, the test part.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array of shape (n, p)
        Training rows; not modified.
    X_test : as ``X``, or None
        Test rows; not modified.
    name : str
        See `fit_scaling`.
    allowed : sequence of str, optional
        See `fit_scaling`.

    Returns
    -------
    X, X_test : as given
        The scaled parts.
    """
    scaling = fit_scaling(X, name, allowed)
    return scaling.apply(X), None if X_test is None else scaling.apply(X_test)


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

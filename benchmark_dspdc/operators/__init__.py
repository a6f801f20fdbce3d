"""The matrix A of a problem: dense, sparse, or factorised as UV.

To add an operator: a class with the members of `Operator`, and, if none of
the three couplings fits it, a coupling of its own (see `couplings`).
"""

import numpy as np
import scipy.sparse

from .base import Operator
from .dense import DenseOperator
from .factorized import FactorizedOperator
from .sparse import SparseOperator

__all__ = ["DenseOperator", "FactorizedOperator", "Operator", "SparseOperator", "as_operator"]


def as_operator(A):
    """The operator for an ndarray, a scipy sparse matrix or array, or a pair (U, V)."""
    if isinstance(A, Operator):
        return A
    if isinstance(A, tuple | list) and len(A) == 2 and not _is_nested_numbers(A):
        return FactorizedOperator(*A)
    if scipy.sparse.issparse(A):
        return SparseOperator(A)
    return DenseOperator(A)


def _is_nested_numbers(A):
    # [[1, 2], [3, 4]] is a matrix with two rows, not a pair of factors.
    return all(np.ndim(part) < 2 for part in A)

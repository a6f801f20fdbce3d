"""The matrix A of a problem: dense, sparse, or factorised as UV.

To add an operator: a class with the members of `Operator`, and states of its own
if its rows are not stored (see `benchmark_dspdc.state`).
"""

import scipy.sparse

from ..engine.checks import as_given
from .dense import DenseOperator
from .factorized import FactorizedOperator, materialized, product_refused
from .operator import Operator
from .sparse import SparseOperator

__all__ = [
    "DenseOperator", "FactorizedOperator", "Operator", "SparseOperator", "as_operator",
    "is_factorized", "materialized", "product_refused",
]


def as_operator(A):
    """The operator for an ndarray, a scipy sparse matrix or array, or a pair (U, V)."""
    if isinstance(A, Operator):
        return A
    if is_factorized(A):
        return FactorizedOperator(*A)
    if scipy.sparse.issparse(A):
        return SparseOperator(A)
    return DenseOperator(A)


def is_factorized(A):
    """Whether A is a pair of factors; [[1, 2], [3, 4]] is a matrix with two rows."""
    return isinstance(A, tuple | list) and len(A) == 2 and any(
        # A sparse factor is no array.
        (part if hasattr(part, "ndim") else as_given(part, "A")).ndim >= 2 for part in A
    )

"""LIBSVM data sets reduced to a product of factors, computed once a machine."""

from typing import NamedTuple

import numpy as np

from .libsvm import has_all_parts, load, version
from .reductions import reduce
from .store import stored

__all__ = ["ReducedData", "load_reduced"]


class ReducedData(NamedTuple):
    """A labelled data set with ``A = U V``.

    Attributes
    ----------
    U, V : ndarray
        The factors; see `reduce`.
    b : ndarray of shape (n,)
        As of `Labelled`, and so are `b_test`, `task` and `label_rule`.
    reduction : str
        Its name.
    left_test : ndarray, scipy.sparse.csr_array or None
        The left factor of the test samples, whose right one is ``V``; after an instance
        reduction their matrix itself.
    """

    U: np.ndarray
    V: np.ndarray
    b: np.ndarray
    left_test: object
    b_test: np.ndarray | None
    task: str
    label_rule: str
    reduction: str

    @property
    def A_test(self):
        """The matrix of the test samples as `erm` takes it, None if there are none."""
        if self.left_test is None or self.reduction == "instance":
            return self.left_test
        return self.left_test, self.V


def _version(name):
    """The files that the data are made of; None if some of them may still be downloaded."""
    return version(name, test=True) if has_all_parts(name) else None


@stored(version=_version)
def load_reduced(name, reduction, d, seed, scale="none"):
    """Load a LIBSVM data set, with its test part, and reduce it.

    Parameters
    ----------
    name, scale : str
        As of `load_libsvm`.
    reduction, d, seed : str, int, int
        As of `reduce`.

    Returns
    -------
    ReducedData
    """
    data = load(name, scale=scale)
    reduced = reduce(data.X, reduction, d, seed)
    A_test = None if data.X_test is None else reduced.transform(data.X_test)
    left_test = A_test[0] if isinstance(A_test, tuple) else A_test
    return ReducedData(
        reduced.U, reduced.V, data.b, left_test, data.b_test, data.task, data.label_rule,
        reduction,
    )

"""Small data sets that ship with scikit-learn: no network, no cache."""

import numpy as np

from ..engine.checks import choose
from .common import random_stream
from .labels import Labelled, binary_rule
from .scaling import scale_parts

#: Names accepted by `load`.
NAMES = ("breast_cancer", "digits", "diabetes")


def load(name, scale="none", seed=0):
    """Load one of scikit-learn's bundled data sets with a random train/test split.

    Parameters
    ----------
    name : {"breast_cancer", "digits", "diabetes"}
        Two classes (569 x 30), ten classes (1797 x 64) and regression (442 x 10).
    scale : {"none", "maxabs", "unit_rows", "standardize"}, default="none"
        Scaling of the features, see `scale_parts`.
    seed : int, default=0
        Non-negative; decides which rows are test rows.

    Returns
    -------
    Labelled
        One row in five is a test row. Classes are cut in half as for the LIBSVM sets: digits 0..4
        become -1 and 5..9 become +1. The target of the regression is shifted and scaled to mean
        zero and variance one on the training rows, the test target by the same numbers.

    Notes
    -----
    The features of ``"diabetes"`` are the measurements themselves, not the columns of norm one
    that scikit-learn gives by default: scaling is left to the argument.
    """
    # It takes longer to import than all else, and few runs need it.
    from sklearn import datasets

    choose(name, NAMES, "bundled dataset")
    options = {"scaled": False} if name == "diabetes" else {}
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, **options)
    X = np.ascontiguousarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)

    order = random_stream(seed, "bundled split").permutation(len(y))
    n_test = round(0.2 * len(y))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    X_train, X_test = scale_parts(X[train], X[test], scale)
    if name == "diabetes":
        task, mean, deviation = "regression", y[train].mean(), y[train].std()
        b = (y - mean) / deviation
        rule = (
            f"target shifted by -{mean:.6g} and divided by {deviation:.6g}: mean zero and "
            "variance one on the training rows"
        )
    else:
        task, rule = "classification", binary_rule(y[train], name)
        b = rule.apply(y)
    return Labelled(X_train, b[train], X_test, b[test], task, str(rule))

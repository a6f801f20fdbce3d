"""Data sets and their low-rank factorizations, independent of benchopt."""

from .bundled import load as load_bundled
from .knn import task_knn_errors
from .libsvm import import_file, is_cached
from .libsvm import load as load_libsvm
from .libsvm import raw as raw_libsvm
from .matrix import matrix_risk_data, trace_regression_data
from .metric_learning import load_metric_learning
from .reductions import REDUCTIONS, load_reduced, reduce
from .synthetic import (
    dense_classification,
    factorized,
    sparse_classification,
    uneven_classification,
    unscaled_classification,
)

__all__ = [
    "REDUCTIONS", "dense_classification", "factorized", "import_file", "is_cached", "load_bundled",
    "load_libsvm", "load_metric_learning", "load_reduced", "matrix_risk_data", "raw_libsvm",
    "reduce", "sparse_classification", "task_knn_errors", "trace_regression_data",
    "uneven_classification", "unscaled_classification",
]

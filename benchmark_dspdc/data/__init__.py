"""Data sets and their low-rank factorizations, independent of benchopt."""

from .bundled import load as load_bundled
from .histograms import HistogramData, aloi_like
from .knn import KnnErrors, task_knn_errors
from .labels import Labelled, LabelRule
from .libsvm import ImportSummary, RawData, data_home, import_file, is_cached
from .libsvm import load as load_libsvm
from .libsvm import raw as raw_libsvm
from .matrix import MatrixRiskData, TraceRegressionData, matrix_risk_data, trace_regression_data
from .metric_learning import METRIC_SCALES, METRIC_SOURCES, MetricData, load_metric_learning
from .reduced import ReducedData, load_reduced
from .reductions import REDUCTIONS, Reduction, feature, instance, nystroem, reduce, svd
from .scaling import SCALES
from .synthetic import (
    ClassificationData,
    FactorizedData,
    dense_classification,
    factorized,
    sparse_classification,
)
from .triplets import Triplets

__all__ = [
    "METRIC_SCALES",
    "METRIC_SOURCES",
    "REDUCTIONS",
    "SCALES",
    "ClassificationData",
    "FactorizedData",
    "HistogramData",
    "ImportSummary",
    "KnnErrors",
    "LabelRule",
    "Labelled",
    "MatrixRiskData",
    "MetricData",
    "RawData",
    "ReducedData",
    "Reduction",
    "TraceRegressionData",
    "Triplets",
    "aloi_like",
    "data_home",
    "dense_classification",
    "factorized",
    "feature",
    "import_file",
    "instance",
    "is_cached",
    "load_bundled",
    "load_libsvm",
    "load_metric_learning",
    "load_reduced",
    "matrix_risk_data",
    "nystroem",
    "raw_libsvm",
    "reduce",
    "sparse_classification",
    "svd",
    "task_knn_errors",
    "trace_regression_data",
]

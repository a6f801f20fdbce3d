"""Data sets and their low-rank factorizations, independent of benchopt."""

from .bundled import load as load_bundled
from .labels import Labelled, LabelRule
from .libsvm import ImportSummary, RawData, data_home, import_file, is_cached
from .libsvm import load as load_libsvm
from .libsvm import raw as raw_libsvm
from .reductions import REDUCTIONS, Reduction, feature, instance, nystroem, reduce, svd
from .scaling import SCALES
from .synthetic import (
    ClassificationData,
    FactorizedData,
    dense_classification,
    factorized,
    sparse_classification,
)

__all__ = [
    "REDUCTIONS",
    "SCALES",
    "ClassificationData",
    "FactorizedData",
    "ImportSummary",
    "LabelRule",
    "Labelled",
    "RawData",
    "Reduction",
    "data_home",
    "dense_classification",
    "factorized",
    "feature",
    "import_file",
    "instance",
    "is_cached",
    "load_bundled",
    "load_libsvm",
    "nystroem",
    "raw_libsvm",
    "reduce",
    "sparse_classification",
    "svd",
]

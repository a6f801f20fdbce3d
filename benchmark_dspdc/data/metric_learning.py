"""Points, classes and tasks for metric learning, cut into a training and a test part."""

import math
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from ..engine.checks import check_int, check_number, choose
from ..engine.progress import tracked
from ..engine.threads import single_threaded
from . import libsvm
from .common import random_stream, show_id
from .histograms import aloi_like
from .store import stored

#: Names accepted by `load_metric_learning`, and how many classes their tasks have by default.
METRIC_SOURCES = {
    "aloi": 10, "aloi_like": 10, "letter": 2, "mnist": 2, "pendigits": 2, "digits": 2,
}

#: Number of features by default, if not all.
N_FEATURES = {"mnist": 128}

#: Scalings of the points; each is one factor for all features.
METRIC_SCALES = ("impostor", "range", "none")

# Points whose nearest impostor is looked for, to find the typical distance.
SCALE_SAMPLE = 2000
# Rows made dense at a time.
CHUNK_ROWS = 4096


class MetricData(NamedTuple):
    """Points of several classification tasks, each part in the order of the source.

    The points are float64 and C-contiguous, the tasks ``0 .. n_tasks - 1``.
    """

    points: np.ndarray
    labels: np.ndarray
    tasks: np.ndarray
    points_test: np.ndarray
    labels_test: np.ndarray
    tasks_test: np.ndarray


def _version(source):
    """What the data depend on beside the arguments, None if it cannot be told."""
    if source in ("digits", "aloi_like"):
        return ""  # come with the packages
    return libsvm.version(source) if source in METRIC_SOURCES else None


@stored(version=_version)
@single_threaded
def load_metric_learning(source, d=None, n_tasks=None, train=0.6, scale="impostor", seed=0,
                         max_per_class=None, n_classes=None):
    """Load a data set for multi-task metric learning.

    Parameters
    ----------
    source : {"aloi", "aloi_like", "letter", "mnist", "pendigits", "digits"}
        ``"aloi"``, ``"letter"``, ``"mnist"`` and ``"pendigits"`` are LIBSVM sets: from the cache,
        else downloaded; of those with a test file only the training file is used. ``"digits"``
        comes with scikit-learn, ``"aloi_like"`` is synthetic, see `aloi_like`.
    d : int, optional
        Number of features. Fewer than the source has are its first principal components. The
        default is 128 for ``"mnist"`` and all features for the others.
    n_tasks : int, optional
        The sorted classes are cut into this many consecutive groups of nearly equal size. The
        default gives groups of ten for ``"aloi"`` and ``"aloi_like"``, and of two for the others.
    train : float, default=0.6
        Share of each class that is for training, rounded down: 64 of the 108 images of an object
        of ALOI.
    scale : {"impostor", "range", "none"}, default="impostor"
        A number by which all features are divided, learnt on the training part. ``"impostor"``:
        the root of the median squared distance of a training point to the nearest one of another
        class of its task, after the principal components were taken; such distances are then
        about 1, the margin of the hinge. ``"range"``: the largest absolute entry of the training
        points (255 for ``"mnist"``, 16 for ``"digits"``, 100 for ``"pendigits"``, 1 for
        ``"letter"``). ``"none"``: 1.
    seed : int, default=0
        Non-negative; decides which points are for training, and draws ``"aloi_like"``.
    max_per_class : int, optional
        Use at most this many points of a class, training and test together.
    n_classes : int, optional
        Use only this many classes, the first of the sorted ones.

    Returns
    -------
    MetricData

    Notes
    -----
    The principal components are those of the training points, whose mean is subtracted from both
    parts. They are not scaled to equal variance: with all of them, distances stay what they were.
    """
    choose(source, list(METRIC_SOURCES), "source")
    choose(scale, METRIC_SCALES, "scale")
    train = check_number(train, "train", low=0, high=1, strict=True)
    if n_classes is not None:
        n_classes = check_int(n_classes, "n_classes", low=2)
    X, y = _read(source, n_classes, seed)
    classes = np.unique(y)
    if n_classes is not None:
        check_int(n_classes, "n_classes", low=2, high=len(classes), reason=f"those of {source}")
        classes = classes[:n_classes]
    if n_tasks is None:
        n_tasks = max(1, len(classes) // METRIC_SOURCES[source])
    n_tasks = check_int(n_tasks, "n_tasks", high=len(classes) // 2,
                        reason=f"a task needs two of the {len(classes)} classes")
    sizes = [len(part) for part in np.array_split(classes, n_tasks)]
    task_of_class = np.repeat(np.arange(n_tasks), sizes)

    rows, rows_test = _split(y, classes, train, max_per_class, seed)
    X, X_test = X[rows], X[rows_test]
    tasks, tasks_test = (
        task_of_class[np.searchsorted(classes, y[part])] for part in (rows, rows_test)
    )
    factor = abs(X).max() or 1.0 if scale == "range" else 1.0
    X, X_test = _take_components(X, X_test, d, source)
    if scale == "impostor":
        factor = math.sqrt(np.median(_impostor_distances(X, y[rows], tasks)))
        if factor == 0:
            raise ValueError(
                "scale 'impostor' needs points that differ between classes, got a median distance "
                "of zero; allowed are 'range' and 'none'"
            )
    X /= factor
    X_test /= factor
    return MetricData(X, y[rows], tasks, X_test, y[rows_test], tasks_test)


def _read(source, n_classes, seed):
    """Give all points, dense or sparse, and integer labels where they are integers."""
    if source == "aloi_like":
        return aloi_like(n_classes or 1000, seed=seed)
    if source == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        X, y = libsvm.raw(source)
    whole = np.rint(y)
    return X, whole.astype(np.int64) if np.array_equal(whole, y) else y


def _split(y, classes, train, max_per_class, seed):
    """Choose the training and the test rows, either in the order of the source."""
    if max_per_class is not None:
        max_per_class = check_int(max_per_class, "max_per_class", low=2)
    rng = random_stream(seed, "metric learning split")
    training, test = [], []
    for c in classes:
        members = rng.permutation(np.flatnonzero(y == c))[:max_per_class]
        # A product such as 0.29 * 100 falls just short of the integer that is meant.
        number = math.floor(train * len(members) + 1e-9)
        if number < 1 or number == len(members):
            raise ValueError(
                f"train must leave points of each class for training and for test, got {train:g} "
                f"with {len(members)} points of class {show_id(c)}"
            )
        training.append(members[:number])
        test.append(members[number:])
    return np.sort(np.concatenate(training)), np.sort(np.concatenate(test))


def _take_components(X, X_test, d, source):
    """Reduce both parts to ``d`` principal components of the first; new dense arrays."""
    width = X.shape[1]
    if d is None:
        d = min(N_FEATURES[source], *X.shape) if source in N_FEATURES else width
    d = check_int(d, "d", high=width, reason=f"the features of {source}")
    if d == width:
        return _dense(X), _dense(X_test)
    if d > X.shape[0]:
        raise ValueError(f"d must be at most the {X.shape[0]} training points, got {d}")
    mean = np.asarray(X.mean(axis=0)).ravel()
    covariance = np.zeros((width, width))
    for start in tracked(range(0, X.shape[0], CHUNK_ROWS), "covariance"):
        part = _dense(X[start:start + CHUNK_ROWS]) - mean
        covariance += part.T @ part
    _, vectors = linalg.eigh(covariance / X.shape[0])
    kept = vectors[:, ::-1][:, :d]
    # Of the two signs of an eigenvector, the one with a positive largest entry.
    kept = kept * np.sign(kept[abs(kept).argmax(axis=0), np.arange(d)])
    return X @ kept - mean @ kept, X_test @ kept - mean @ kept


def _dense(X):
    return X.toarray() if sparse.issparse(X) else np.array(X, dtype=np.float64, order="C")


def _impostor_distances(points, labels, tasks):
    """Squared distances to the nearest impostor of `SCALE_SAMPLE` points, evenly spaced."""
    sample = np.unique(np.linspace(0, len(points) - 1, SCALE_SAMPLE).astype(np.int64))
    norms = np.einsum("ij,ij->i", points, points)
    distances = []
    for task in np.unique(tasks[sample]):
        rows = np.flatnonzero(tasks == task)
        for u in np.array_split(sample[tasks[sample] == task], 10):
            table = norms[u, None] + norms[rows] - 2 * points[u] @ points[rows].T
            table[labels[u, None] == labels[rows]] = np.inf
            distances.append(table.min(axis=1, initial=np.inf))
    return np.maximum(np.concatenate(distances), 0.0)

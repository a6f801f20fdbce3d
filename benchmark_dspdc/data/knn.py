"""Errors of the nearest-neighbour vote in each task, under the task's metric."""

from typing import NamedTuple

import numpy as np

from ..engine.checks import as_array, check_int
from ..engine.kernel_cache import njit
from ..engine.threads import single_threaded
from .common import as_ids, show_id
from .triplets import insert

# Entries of the table of distances held at a time (32 MiB of float64).
CHUNK_ENTRIES = 2**22


class KnnErrors(NamedTuple):
    """Shares of wrong votes: of all test points, and of those of each task, NaN if it has none.

    `task_names` are the tasks of the training points, sorted.
    """

    overall: float
    by_task: np.ndarray
    task_names: np.ndarray


@single_threaded
def task_knn_errors(train_points, train_labels, train_tasks, test_points, test_labels, test_tasks,
                    metrics=None, k=3):
    """Let the nearest training points of its task vote on each test point.

    Parameters
    ----------
    train_points, test_points : array_like of shape (N, d) and (N_test, d)
        Points; not modified.
    train_labels, train_tasks, test_labels, test_tasks : array_like of shape (N,) or (N_test,)
        Their classes and tasks: integers, strings or floats.
    metrics : array_like of shape (G, d, d) or None, default=None
        A positive semidefinite matrix ``M`` for each task, in the sorted order of the training
        tasks: the squared distance is ``(x - z)' M (x - z)``. None is the Euclidean distance in
        all tasks.
    k : int, default=3
        Number of votes.

    Returns
    -------
    KnnErrors

    Notes
    -----
    If several classes have the most votes, the one of them with the nearest point wins; for
    ``k = 3`` and three classes this is the class of the nearest point. Of equally distant points
    the one given first is nearer. Distances come from norms and products of the points shifted to
    their task's mean, so ties are those of these numbers, not of exact arithmetic.
    """
    train_points = as_array(train_points, "train_points", 2)
    test_points = as_array(test_points, "test_points", 2)
    if train_points.shape[1] != test_points.shape[1]:
        raise ValueError(
            f"test_points must have d={train_points.shape[1]} columns as train_points have, got "
            f"{test_points.shape[1]}"
        )
    train_labels = as_ids(train_labels, "train_labels", len(train_points))
    train_tasks = as_ids(train_tasks, "train_tasks", len(train_points))
    test_labels = as_ids(test_labels, "test_labels", len(test_points))
    test_tasks = as_ids(test_tasks, "test_tasks", len(test_points))
    k = check_int(k, "k")
    names, sizes = np.unique(train_tasks, return_counts=True)
    if len(unknown := np.setdiff1d(test_tasks, names)):
        raise ValueError(
            f"test_tasks must be among the {len(names)} training tasks, got "
            f"{show_id(unknown[0])}, which has no training points"
        )
    if len(few := np.flatnonzero(sizes < k)):
        raise ValueError(
            f"k must be at most the number of training points of each task, got k={k} and "
            f"{sizes[few[0]]} points in task {show_id(names[few[0]])}"
        )
    if metrics is not None:
        metrics = as_array(metrics, "metrics", 3)
        wanted = len(names), *2 * train_points.shape[1:]
        if metrics.shape != wanted:
            raise ValueError(
                f"metrics must have shape {wanted}, a matrix for each training task, got "
                f"{metrics.shape}"
            )
        metrics = (metrics + metrics.transpose(0, 2, 1)) / 2
    # One code for both parts; a class that was never seen in training is always wrong.
    codes = np.unique(np.concatenate([train_labels, test_labels]), return_inverse=True)[1]
    train_codes, test_codes = codes[:len(train_labels)], codes[len(train_labels):]

    wrong, counts = np.zeros((2, len(names)), dtype=np.int64)
    for j, name in enumerate(names):
        rows, queries = train_tasks == name, test_tasks == name
        metric = None if metrics is None else metrics[j]
        counts[j] = np.count_nonzero(queries)
        if counts[j]:
            votes = _vote(train_points[rows], train_codes[rows], test_points[queries], metric, k)
            wrong[j] = np.count_nonzero(votes != test_codes[queries])
    by_task = np.full(len(names), np.nan)
    np.divide(wrong, counts, out=by_task, where=counts > 0)
    return KnnErrors(float(wrong.sum() / counts.sum()), by_task, names)


def _vote(points, codes, queries, metric, k):
    """Vote of the ``k`` nearest points on each query."""
    mean = points.mean(axis=0)
    points, queries = points - mean, queries - mean
    mapped = points if metric is None else points @ metric
    norms = np.einsum("ij,ij->i", mapped, points) / 2
    step = max(1, CHUNK_ENTRIES // len(points))
    products = np.empty((min(step, len(queries)), len(points)))
    votes = np.empty(len(queries), dtype=codes.dtype)
    best, found = np.empty(k), np.empty(k, dtype=np.int64)
    for start in range(0, len(queries), step):
        part = queries[start:start + step]
        np.matmul(part, mapped.T, out=products[:len(part)])
        _count(products, norms, codes, start, len(part), best, found, votes)
    return votes


@njit
def _count(products, norms, codes, start, rows, best, found, votes):
    k = best.shape[0]
    for r in range(rows):
        for a in range(k):
            best[a] = np.inf
        for i in range(norms.shape[0]):
            # Half the squared distance, less what all points have in common.
            value = norms[i] - products[r, i]
            if value < best[k - 1]:
                insert(value, i, best, found, 0, k)
        # The first of the classes with the most votes, from the nearest point on.
        most = 0
        for a in range(k):
            count = 0
            for c in range(k):
                count += codes[found[c]] == codes[found[a]]
            if count > most:
                most = count
                votes[start + r] = codes[found[a]]

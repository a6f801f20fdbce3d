"""Triplets of multi-task large margin nearest neighbours: who is near whom, and who intrudes."""

from typing import NamedTuple

import numpy as np

from ..engine.checks import as_array, check_int
from ..engine.kernel_cache import njit
from ..engine.progress import tracked
from ..engine.threads import side_by_side
from .common import as_ids, random_stream, show_id
from .store import stored

# Entries of the table of products held at a time (32 MiB of float64).
CHUNK_ENTRIES = 2**22

# Cells that hold as many points as are looked through for each; points a cell, and steps, that
# move its centre. Of the nearest three impostors of 20,000 points of mnist 91 % are among 4000
# candidates (November 2026); twice as many cells find 95 % in 1.3 times the time.
CELLS, TAUGHT, LLOYD = 32, 30, 3


class Triplets(NamedTuple):
    """Points of several tasks and their triplets ``(u, v, w)``.

    Point ``v`` is a target neighbour of ``u``, one of the nearest points of its class, and ``w``
    an impostor, one of the nearest points of other classes. All three are of one task.
    """

    #: Those given, of shape (N, d), a task's next to each other and there in the given order.
    points: np.ndarray
    #: Their classes.
    labels: np.ndarray
    #: ``points = given_points[order]``.
    order: np.ndarray
    #: The G tasks, sorted.
    task_names: np.ndarray
    #: Task ``j`` has the points ``starts[j] .. starts[j + 1] - 1``.
    starts: np.ndarray
    #: The ordered pairs ``(u, v)`` and ``(u, w)`` that occur, each once, as rows of ``points``:
    #: shape (K, 2), int32. Sorted by task, then by ``u``; of one ``u`` first its neighbours, then
    #: its impostors, either from the nearest to the farthest.
    pairs: np.ndarray
    #: Range of each task in ``pairs``.
    pair_starts: np.ndarray
    #: Triplet ``i`` is made of ``pairs[near[i]] = (u, v)`` and ``pairs[far[i]] = (u, w)``; int32,
    #: sorted by ``u``, then ``v``, then ``w`` in the order of ``pairs``.
    near: np.ndarray
    far: np.ndarray
    #: Rows of ``pairs`` that are target neighbours, int32: the sets N_j of the paper.
    neighbor_pairs: np.ndarray
    #: The points of each point's target neighbours and impostors, of shape (N, n_neighbors) and
    #: (N, n_impostors); -1 where there are too few.
    neighbors: np.ndarray
    impostors: np.ndarray


def triplets(points, labels, tasks, n_neighbors=3, n_impostors=1, partial=False,
             candidates=None):
    """Find the triplets of the MT-LMNN problem.

    Parameters
    ----------
    points : array_like of shape (N, d)
        Training points; not modified.
    labels, tasks : array_like of shape (N,)
        Class and task of each point: integers, strings or floats. A class means nothing outside
        its task, so two tasks may use the same labels.
    n_neighbors : int, default=3
        Target neighbours of a point.
    n_impostors : int, default=1
        Impostors of a point. The paper's text has one, which makes 191,808 triplets of its 63,936
        training points; the 1,142,658 that it reports come near six.
    partial : bool, default=False
        Whether a class or a task may be too small. Its points then have the neighbours and
        impostors that there are, and points that lack either are in no pair.
    candidates : int or None, default=None
        Look for each point among about so many of its task, those of the cells around it, so that
        the work grows with the number of points and not with its square. None is all of them.

    Returns
    -------
    Triplets
        With ``n = N * n_neighbors * n_impostors`` triplets: each target neighbour of a point is
        combined with each of its impostors. Fewer if `partial`.

    Notes
    -----
    Near means the Euclidean distance, as the sum over the coordinates, in their order, of squared
    differences in double precision; of equally distant points the one that comes first in
    ``Triplets.points`` is nearer. A point is not its own neighbour, a copy of it may be.

    The products of all pairs of a task, one GEMM for some rows at a time, only rule points out: a
    point is kept if its distance from this formula exceeds that of the last place by no more than
    the rounding errors of both formulas can explain. The places are then given by the sum.
    """
    points = as_array(points, "points", 2)
    labels = as_ids(labels, "labels", len(points))
    tasks = as_ids(tasks, "tasks", len(points))
    n_neighbors = check_int(n_neighbors, "n_neighbors")
    n_impostors = check_int(n_impostors, "n_impostors")
    if candidates is not None:
        candidates = check_int(candidates, "candidates", 100)
    largest = len(points) * max(n_neighbors + n_impostors, n_neighbors * n_impostors)
    if largest >= 2**31:
        raise ValueError(
            f"too many triplets or pairs: got {largest} from {len(points)} points, n_neighbors="
            f"{n_neighbors} and n_impostors={n_impostors}, allowed are fewer than {2**31}"
        )
    task_names, task_codes = np.unique(tasks, return_inverse=True)
    codes = np.unique(labels, return_inverse=True)[1]
    order = np.argsort(task_codes, kind="stable")
    starts = np.searchsorted(task_codes[order], np.arange(len(task_names) + 1))
    points, labels, codes = points[order], labels[order], codes[order]
    if not partial:
        for j, name in enumerate(task_names):
            _check_task(labels[starts[j]:starts[j + 1]], name, n_neighbors, n_impostors)
    if partial:
        # There may not be so many in any task.
        most = int(np.diff(starts).max()) - 1
        n_neighbors, n_impostors = min(n_neighbors, most), min(n_impostors, most)
    search = _search_all if partial else _search_tasks
    found = search(points, codes, starts, task_names, n_neighbors, n_impostors, candidates)
    return _joined(points, labels, order, task_names, starts, found[:, :n_neighbors],
                   found[:, n_neighbors:])


def with_impostors(found, mapped, weights, candidates=None):
    """Give up impostors that do nothing for others that are nearer by now.

    Parameters
    ----------
    found : Triplets
    mapped : ndarray of shape (N, k)
        ``found.points``, such that Euclidean distances are those of a learned metric.
    weights : ndarray of shape (n,)
        What each triplet does: its dual variable, zero of those that keep their margin.
    candidates : int or None
        As for `triplets`.

    Returns
    -------
    Triplets
        With the same points and neighbours, and as many impostors. Of each point those that do
        something stay, as the optimum would be another one without them. The nearest among
        `mapped` points take the places of the others.
    """
    neighbors, old = found.neighbors, found.impostors
    width = old.shape[1]
    codes = np.unique(found.labels, return_inverse=True)[1]
    new = _search_all(mapped, codes, found.starts, found.task_names, 0, width, candidates)
    used = np.zeros((len(old), neighbors.shape[1] + width))
    used[_in_pairs(neighbors, old)] = np.bincount(
        found.far, weights=abs(weights), minlength=len(found.pairs)
    )
    used = used[:, neighbors.shape[1]:] > 0.0
    # Places: first those that do something, then the nearest, then the others.
    again = _among(old, new)
    twice = _among(new, np.where(used, old, -1))
    places = np.hstack([
        np.where(used, 0.0, np.where(again | (old < 0), np.inf, width + 1.0)),
        np.where(twice | (new < 0), np.inf, 1.0 + np.arange(width)),
    ])
    chosen = np.argsort(places, axis=1, kind="stable")[:, :width]
    impostors = np.take_along_axis(np.hstack([old, new]), chosen, axis=1)
    impostors[np.isinf(np.take_along_axis(places, chosen, axis=1))] = -1
    return _joined(*found[:5], neighbors, impostors)


def _among(some, others):
    """Which entries are also in the same row of another array."""
    return np.column_stack([(some[:, [k]] == others).any(axis=1) for k in range(some.shape[1])])


def kept_triplets(old, new):
    """Which triplets of two `Triplets` with the same neighbours are the same.

    Returns
    -------
    of_old, of_new : ndarray
        Their numbers in `old` and in `new`.
    """
    def keys(found):
        # Neighbour pairs are the same in both, so their places name them.
        place = np.searchsorted(found.neighbor_pairs, found.near)
        return place * len(found.points) + found.pairs[found.far, 1]
    return np.intersect1d(keys(old), keys(new), assume_unique=True, return_indices=True)[1:]


def _joined(points, labels, order, task_names, starts, neighbors, impostors):
    """`Triplets` of each point's neighbours with its impostors; -1 is none."""
    found, there = np.hstack([neighbors, impostors]), _in_pairs(neighbors, impostors)
    n_neighbors = neighbors.shape[1]
    pairs = np.empty((np.count_nonzero(there), 2), dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = np.nonzero(there)[0], found[there]
    numbers = np.full(found.shape, -1, dtype=np.int32)
    numbers[there] = np.arange(len(pairs))
    near, far = np.broadcast_arrays(
        numbers[:, :n_neighbors, None], numbers[:, None, n_neighbors:]
    )
    both = (near >= 0) & (far >= 0)
    pair_starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])[starts]
    first = numbers[:, :n_neighbors]
    return Triplets(
        points, labels, order, task_names, starts, pairs, pair_starts, near[both], far[both],
        first[first >= 0], neighbors, impostors,
    )


def _in_pairs(neighbors, impostors):
    """Which neighbours, then impostors, make pairs: those of points that have both."""
    near, far = neighbors >= 0, impostors >= 0
    both = near.any(axis=1, keepdims=True) & far.any(axis=1, keepdims=True)
    return np.hstack([near & both, far & both])


def _check_task(labels, task, n_neighbors, n_impostors):
    """Refuse a task in which a point lacks neighbours or impostors."""
    classes, counts = np.unique(labels, return_counts=True)
    where = f"task {show_id(task)}"
    if len(classes) < 2:
        raise ValueError(
            f"{where} has one class only: got {show_id(classes[0])} for all {len(labels)} points, "
            "allowed are two or more classes"
        )
    if len(few := np.flatnonzero(counts <= n_neighbors)):
        raise ValueError(
            f"class {show_id(classes[few[0]])} of {where} has too few points for n_neighbors="
            f"{n_neighbors}: got {counts[few[0]]}, allowed are {n_neighbors + 1} or more "
            f"({len(few)} such classes in the task)"
        )
    others = len(labels) - counts
    if len(few := np.flatnonzero(others < n_impostors)):
        raise ValueError(
            f"{where} has too few points outside class {show_id(classes[few[0]])} for "
            f"n_impostors={n_impostors}: got {others[few[0]]}, allowed are {n_impostors} or more"
        )


# What is kept on disk are row numbers: a user's points are the user's.
@stored()
def _search_tasks(*given):
    """`_search_all`, kept for those who pose the same problem again."""
    return _search_all(*given)


def _search_all(points, codes, starts, task_names, n_neighbors, n_impostors, candidates=None):
    """Rows of the neighbours of each point, then of its impostors; -1 where there are too few."""
    found = np.full((len(points), n_neighbors + n_impostors), -1, dtype=np.int32)
    for j in tracked(range(len(task_names)), "neighbours"):
        rows = np.arange(starts[j], starts[j + 1])
        if candidates is None or len(rows) <= candidates:
            _search(points, codes, rows, rows, n_neighbors, found, task_names[j])
            continue
        # Neighbours apart from impostors, as near a point there may be few of its class.
        near, far = (np.full((len(points), k), -1, np.int32) for k in (n_neighbors, n_impostors))
        for code in np.unique(codes[rows]) if n_neighbors else ():
            own = rows[codes[rows] == code]
            _search_cells(points, codes, own, candidates, n_neighbors, near, task_names[j])
        _search_cells(points, codes, rows, candidates, 0, far, task_names[j])
        found[rows] = np.hstack([near[rows], far[rows]])
    return found


def _search_cells(points, codes, rows, candidates, n_neighbors, found, task):
    """`_search` some rows, each among about so many of them: those of the cells around it.

    Without neighbours, those of other classes only. A quarter are drawn from all rows.
    """
    if len(rows) <= candidates:
        _search(points, codes, rows, rows, n_neighbors, found, task)
        return
    # The same points are always searched in the same way.
    rng = random_stream(len(rows), "cells")
    some = rows[rng.choice(len(rows), candidates // 4, replace=False)]
    centres, owner = _cells(points[rows], -(-CELLS * len(rows) // candidates), rng)
    ends = np.cumsum(np.bincount(owner, minlength=len(centres)))[:-1]
    cells = np.split(rows[np.argsort(owner, kind="stable")], ends)

    def search(c):
        near = np.argsort(((centres - centres[c]) ** 2).sum(axis=1))
        for code in np.unique(codes[cells[c]]):
            members = [some]
            left = candidates - len(some)
            for k in near:
                cell = cells[k] if n_neighbors else cells[k][codes[cells[k]] != code]
                members.append(cell[:left])
                left -= len(members[-1])
                if left == 0:
                    break
            members = np.unique(np.concatenate(members))
            queries = cells[c][codes[cells[c]] == code]
            _search(points, codes, queries, members, n_neighbors, found, task)
    side_by_side(search, range(len(cells)))


def _cells(points, count, rng):
    """Centres of so many cells, and the cell of each point: k-means of some of the points."""
    some = points[rng.choice(len(points), min(len(points), TAUGHT * count), replace=False)]
    centres = some[:count].copy()
    for _ in range(LLOYD):
        owner = _nearest(some, centres)
        sizes = np.bincount(owner, minlength=count)
        firsts, full = np.cumsum(sizes) - sizes, sizes > 0
        sums = np.add.reduceat(some[np.argsort(owner, kind="stable")], firsts[full])
        centres[full] = sums / sizes[full, None]
    return centres, _nearest(points, centres)


def _nearest(points, centres):
    half, step = (centres ** 2).sum(axis=1) / 2, max(1, CHUNK_ENTRIES // len(centres))
    return np.concatenate([
        (half - points[k:k + step] @ centres.T).argmin(axis=1)
        for k in range(0, len(points), step)
    ])


def _search(points, codes, queries, members, n_neighbors, found, task):
    """Fill some rows of ``found``: neighbours first, then impostors, both among ``members``."""
    # Shifting to the mean makes the products, and with them their rounding errors, small; it
    # moves a difference of two points by one rounding of either.
    with np.errstate(over="ignore", invalid="ignore"):
        centred = points[members]
        mean = centred.mean(axis=0)
        centred -= mean
        asked = centred if queries is members else points[queries] - mean
        norms, own = (np.einsum("ij,ij->i", part, part) for part in (centred, asked))
        # |c_u - c_v|^2 by norms and a product is wrong by at most (d + 4) units in the last place
        # of (|c_u| + |c_v|)^2, the sum of squares by at most d + 2 and the shift by 4 of them.
        # Twice the total, in eps = two units, leaves room; `tiny` is for squares that underflow.
        slack = (np.sqrt(own) + np.sqrt(norms.max())) ** 2
        slack *= 2 * (points.shape[1] + 8) * np.finfo(float).eps
        slack += points.shape[1] * np.finfo(float).tiny
    if not np.isfinite(slack).all():
        raise ValueError(
            f"points of task {show_id(task)} are too large: got entries up to "
            f"{abs(points[members]).max():.3g}, allowed are those whose squared distances do "
            "not overflow"
        )
    norms /= 2
    step = max(1, CHUNK_ENTRIES // len(members))
    products = np.empty((min(step, len(queries)), len(members)))
    best = np.empty(found.shape[1])
    for row in range(0, len(queries), step):
        part = queries[row:row + step]
        np.matmul(asked[row:row + step], centred.T, out=products[:len(part)])
        _select(points, codes, part, members, products, norms, slack[row:row + step],
                n_neighbors, best, found)


@njit(inline=True, exact=True)
def _squared_distance(points, u, v):
    total = 0.0
    for k in range(points.shape[1]):
        difference = points[u, k] - points[v, k]
        total += difference * difference
    return total


@njit(inline=True)
def insert(value, item, best, items, first, last):
    """Put a value into the sorted ``best[first:last]`` if it is among the least; its item beside.

    Equal values keep the order in which they came.
    """
    place = last
    while place > first and value < best[place - 1]:
        place -= 1
        if place + 1 < last:
            best[place + 1], items[place + 1] = best[place], items[place]
    if place < last:
        best[place], items[place] = value, item


@njit(nogil=True)
def _select(points, codes, queries, members, products, norms, slack, n_neighbors, best, found):
    """Choose for each query among the members; half distances less own norm screen."""
    n_found = found.shape[1]
    for r in range(queries.shape[0]):
        u = queries[r]
        for k in range(n_found):
            best[k] = np.inf
        for other in range(norms.shape[0]):
            v = members[other]
            value = norms[other] - products[r, other]
            if codes[v] != codes[u]:
                if value < best[n_found - 1]:
                    insert(value, v, best, found[u], n_neighbors, n_found)
            elif value < best[n_neighbors - 1] and v != u:
                insert(value, v, best, found[u], 0, n_neighbors)
        near_limit = best[n_neighbors - 1] + slack[r]
        far_limit = best[n_found - 1] + slack[r]

        for k in range(n_found):
            best[k], found[u, k] = np.inf, -1
        for other in range(norms.shape[0]):
            v = members[other]
            value = norms[other] - products[r, other]
            same = codes[v] == codes[u]
            if value <= (near_limit if same else far_limit) and v != u:
                first, last = (0, n_neighbors) if same else (n_neighbors, n_found)
                insert(_squared_distance(points, u, v), v, best, found[u], first, last)

"""Properties of the data of the matrix problems: triplets, sources, generators, 3-NN scores."""

import re
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from conftest import real_file
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from benchmark_dspdc.data import common, histograms, knn, libsvm, matrix, metric_learning, triplets
from benchmark_dspdc.data.metric_learning import load_metric_learning
from benchmark_dspdc.engine import symmetric

pytestmark = pytest.mark.usefixtures("home")


def make_points(kind="normal", n=150, d=5, n_tasks=3, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "normal":
        points = rng.standard_normal((n, d))
    elif kind == "grid":  # many ties and copies
        points = rng.integers(0, 3, (n, d)).astype(float)
    else:  # far from the origin, where products alone would lose all digits
        points = rng.integers(0, 3, (n, d)) + 1e9
    tasks = np.arange(n) % n_tasks
    return points, rng.permutation(np.arange(n) // n_tasks % n_classes), tasks


def brute_force(points, labels, n_neighbors, n_impostors):
    """Neighbours and impostors in one task, by sorting all distances and indices."""
    found = []
    for u, point in enumerate(points):
        # Summed coordinate by coordinate; NumPy's own sum has another order.
        distances = np.zeros(len(points))
        for k in range(points.shape[1]):
            distances += (points[:, k] - point[k]) ** 2
        order = np.lexsort((np.arange(len(points)), distances))
        near = [v for v in order if labels[v] == labels[u] and v != u][:n_neighbors]
        far = [v for v in order if labels[v] != labels[u]][:n_impostors]
        found.append(near + far)
    return np.array(found)


def found_of(data, width):
    """Second points of the pairs, a row for each first point."""
    n_points = len(data.points)
    assert np.array_equal(data.pairs[:, 0], np.repeat(np.arange(n_points), width))
    return data.pairs[:, 1].reshape(n_points, width)


# --- triplets -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "grid", "far"])
@pytest.mark.parametrize("n_neighbors, n_impostors", [(3, 1), (1, 1), (2, 6), (5, 3)])
@pytest.mark.parametrize("chunk", [2**22, 100])
def test_neighbors_and_impostors_are_those_of_brute_force(
    kind, n_neighbors, n_impostors, chunk, monkeypatch
):
    monkeypatch.setattr(triplets, "CHUNK_ENTRIES", chunk)
    points, labels, tasks = make_points(kind)
    data = triplets.triplets(points, labels, tasks, n_neighbors, n_impostors)
    found = found_of(data, n_neighbors + n_impostors)
    for j in range(3):
        rows = slice(data.starts[j], data.starts[j + 1])
        expected = brute_force(data.points[rows], data.labels[rows], n_neighbors, n_impostors)
        np.testing.assert_array_equal(found[rows], expected + data.starts[j])


def test_sums_are_neither_reordered_nor_fused():
    # Copies of a point with permuted coordinates are ties of two-term sums only without fused
    # multiply-adds; with many coordinates, last bits show the order of the sum.
    rng = np.random.default_rng(0)
    base = rng.standard_normal((20, 2))
    pairs = np.vstack([np.zeros((4, 2)), base, base[:, ::-1]])
    wide = rng.permuted(np.tile(rng.standard_normal(37), (60, 1)), axis=1)
    for points in (pairs, np.vstack([np.zeros((4, 37)), wide])):
        labels = np.arange(len(points)) // 2 % 2
        data = triplets.triplets(points, labels, np.zeros(len(points)), 5, 10)
        np.testing.assert_array_equal(found_of(data, 15), brute_force(points, labels, 5, 10))


@pytest.mark.parametrize("kind", [
    lambda codes: codes,
    lambda codes: codes / 2 - 1,
    lambda codes: np.array(["ant", "bee", "cat", "dog"])[codes],
    lambda codes: np.array(["ant", "bee", "cat", "dog"], dtype=object)[codes],
    lambda codes: codes.tolist(),
])
def test_layout_is_sorted_by_task_and_each_pair_occurs_once(kind):
    points, labels, tasks = make_points("grid")
    tasks = np.random.default_rng(1).permutation(tasks)
    data = triplets.triplets(points, kind(labels), kind(tasks), 2, 3)
    np.testing.assert_array_equal(data.points, points[data.order])
    np.testing.assert_array_equal(data.labels, np.asarray(kind(labels))[data.order])
    np.testing.assert_array_equal(data.task_names, np.unique(kind(tasks)))
    task_of = np.repeat(np.arange(3), np.diff(data.starts))
    np.testing.assert_array_equal(task_of, tasks[data.order])
    for j in range(3):
        assert (np.diff(data.order[data.starts[j]:data.starts[j + 1]]) > 0).all()

    pairs, near, far = data.pairs, data.near, data.far
    assert pairs.dtype == near.dtype == far.dtype == data.neighbor_pairs.dtype == np.int32
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 150 * 5
    assert len(near) == len(far) == 150 * 2 * 3
    assert (pairs[near, 0] == pairs[far, 0]).all()
    assert (data.labels[pairs[near, 0]] == data.labels[pairs[near, 1]]).all()
    assert (data.labels[pairs[far, 0]] != data.labels[pairs[far, 1]]).all()
    assert len(np.unique(np.stack([near, far]), axis=1).T) == len(near)
    np.testing.assert_array_equal(np.unique(near), data.neighbor_pairs)
    starts = data.pair_starts
    for j in range(3):
        assert (task_of[pairs[starts[j]:starts[j + 1]]] == j).all()
    assert starts[0] == 0 and starts[-1] == len(pairs)
    assert (np.diff(pairs[near, 0]) >= 0).all()


def blobs(n=3000, d=8, n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    return rng.standard_normal((n_classes, d))[labels] + rng.standard_normal((n, d)), labels


def test_search_in_cells_finds_most_of_the_nearest():
    points, labels = blobs()
    exact = triplets.triplets(points, labels, np.zeros(3000), 3, 3)
    for candidates, least in ((300, 0.6), (1200, 0.9), (3000, 1.0)):
        some = triplets.triplets(points, labels, np.zeros(3000), 3, 3, candidates=candidates)
        for name in ("neighbors", "impostors"):
            one, other = getattr(some, name), getattr(exact, name)
            assert np.mean([(one == other[:, [k]]).any(axis=1) for k in range(3)]) >= least
        assert (labels[some.neighbors] == labels[:, None]).all()
        assert (labels[some.impostors] != labels[:, None]).all()
        again = triplets.triplets(points, labels, np.zeros(3000), 3, 3, candidates=candidates)
        np.testing.assert_array_equal(again.pairs, some.pairs)


def test_cells_look_at_about_as_many_points_as_asked(monkeypatch):
    looked, search = [], triplets._search

    def counted(points, codes, queries, members, *given):
        looked.append((len(queries), len(members)))
        return search(points, codes, queries, members, *given)
    monkeypatch.setattr(triplets, "_search", counted)
    for points in (blobs()[0], np.zeros((3000, 2))):       # all at one place: a cell of them all
        looked.clear()
        found = triplets.triplets(points, np.arange(3000) % 7, np.zeros(3000), 2, 2,
                                  candidates=400)
        assert max(members for _, members in looked) <= 440
        assert sum(queries for queries, _ in looked) == 2 * 3000
        assert (found.neighbors >= 0).all() and (found.impostors >= 0).all()


def test_tasks_that_are_small_are_searched_whole():
    points, labels, tasks = make_points()
    whole = triplets.triplets(points, labels, tasks)
    some = triplets.triplets(points, labels, tasks, candidates=100)
    np.testing.assert_array_equal(some.pairs, whole.pairs)
    with pytest.raises(ValueError, match="candidates must be an integer >= 100, got 10"):
        triplets.triplets(points, labels, tasks, candidates=10)


def test_tiny_and_large_numbers_are_searched_exactly():
    points, labels, tasks = make_points("grid")
    # In the last all squares underflow: every distance is zero, and the index alone decides.
    for factor, same in ((2.0**-500, points), (2.0**500, points), (2.0**-600, 0 * points)):
        found, expected = (triplets.triplets(x, labels, tasks) for x in (factor * points, same))
        np.testing.assert_array_equal(found.pairs, expected.pairs)


def test_given_arrays_are_not_modified_and_results_do_not_depend_on_threads():
    points, labels, tasks = make_points(n=600, d=64)
    copies = points.copy(), labels.copy(), tasks.copy()
    with threadpool_limits(1):
        one = triplets.triplets(points, labels, tasks)
    with threadpool_limits(2):
        two = triplets.triplets(points, labels, tasks)
    for a, b in zip((*one, *copies), (*two, points, labels, tasks), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.shares_memory(one.points, points)


# --- 3-NN errors ----------------------------------------------------------------------------


def make_parts(seed=0, d=6):
    points, labels, tasks = make_points(n=400, d=d, seed=seed)
    points = points + labels[:, None]
    train = np.random.default_rng(seed).random(400) < 0.6
    return [values[part] for part in (train, ~train) for values in (points, labels, tasks)]


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("given", ["none", "array"])
@pytest.mark.parametrize("chunk", [2**22, 100])
def test_votes_are_those_of_the_nearest_mapped_points(k, given, chunk, monkeypatch):
    monkeypatch.setattr(knn, "CHUNK_ENTRIES", chunk)
    parts = make_parts()
    factors = np.random.default_rng(3).standard_normal((3, 6, 4))
    metrics = factors @ factors.transpose(0, 2, 1)
    errors = knn.task_knn_errors(*parts, k=k, metrics={
        "none": None, "array": metrics,
    }[given])
    for j in range(3):
        train, test = parts[2] == j, parts[5] == j
        maps = np.eye(6) if given == "none" else factors[j]
        near = NearestNeighbors(n_neighbors=k).fit(parts[0][train] @ maps).kneighbors(
            parts[3][test] @ maps, return_distance=False)
        # Of equally many the first counted is taken, whose point is the nearest of the tied.
        votes = [Counter(row).most_common(1)[0][0] for row in parts[1][train][near]]
        assert errors.by_task[j] == (votes != parts[4][test]).mean()
    shares = np.bincount(parts[5]) / len(parts[5])
    assert errors.overall == pytest.approx(errors.by_task @ shares)
    np.testing.assert_array_equal(errors.task_names, [0, 1, 2])


@pytest.mark.parametrize("train, labels, k, winner", [
    # Three different votes go to the nearest point.
    ([1.0, -2.0, 3.0, 50.0], "cbaz", 3, "c"),
    # Two against two: the pair with the nearest point wins, not the one with the smaller label.
    ([1.0, 2.0, 3.0, 4.0], "baab", 4, "b"),
    # Equally distant points count in the given order.
    ([1.0, 1.0, 1.0], "bca", 1, "b"), ([1.0, 1.0, 1.0], "abc", 1, "a"),
])
def test_ties_go_to_the_nearest_then_to_the_first_point(train, labels, k, winner):
    points, tasks = np.array(train)[:, None], [0] * len(train)
    for label in set(labels):
        errors = knn.task_knn_errors(points, list(labels), tasks, [[0.0]], [label], [0], k=k)
        assert errors.overall == (label != winner)


def test_task_without_test_points_has_no_error_and_unseen_classes_are_wrong():
    codes = [0] * 4 + [1] * 4
    errors = knn.task_knn_errors(
        np.arange(8.0)[:, None], codes, codes, [[0.0], [1.0]], [0, 9], [0, 0]
    )
    assert errors.overall == 0.5 and errors.by_task[0] == 0.5 and np.isnan(errors.by_task[1])


# --- the stand-in for ALOI ------------------------------------------------------------------


def test_metrics_learnt_on_the_aloi_stand_in_lower_the_error():
    data = load_metric_learning("aloi_like", n_classes=200)
    assert data.points.shape == (200 * 64, 128) and data.points_test.shape == (200 * 44, 128)
    # Inverse covariances inside classes: that of all tasks, and that of each.
    covariances = []
    for task in np.unique(data.tasks):
        centred = np.vstack([data.points[data.labels == c] - data.points[data.labels == c].mean(0)
                             for c in np.unique(data.labels[data.tasks == task])])
        covariances.append(centred.T @ centred / len(centred))
    shared, *own = (np.linalg.inv(S + 0.1 * np.trace(S) / 128 * np.eye(128))
                    for S in (np.mean(covariances, axis=0), *covariances))
    plain, with_shared, with_own = (
        knn.task_knn_errors(*data[:6], metrics=metrics).overall
        for metrics in (None, [shared] * len(own), own)
    )
    assert 0.12 < plain < 0.20
    assert with_shared < 0.6 * plain
    assert with_own < 0.3 * with_shared


def test_aloi_stand_in_has_histograms_with_distances_about_the_margin():
    points, labels = histograms.aloi_like(100)
    assert points.shape == (10800, 128) and np.array_equal(labels, np.arange(10800) // 108)
    assert points.min() >= 0 and points.flags.c_contiguous
    np.testing.assert_allclose(points.sum(axis=1), histograms.MASS)
    distances = metric_learning._impostor_distances(points, labels, labels // 10)
    assert 0.7 < np.median(distances) < 1.4


def test_fewer_classes_of_the_aloi_stand_in_are_the_first_of_more():
    few, more = histograms.aloi_like(13, 6, 9, seed=4), histograms.aloi_like(31, 6, 9, seed=4)
    np.testing.assert_array_equal(few.points, more.points[:13 * 6])
    other = histograms.aloi_like(13, 6, 9, seed=5)
    assert not np.array_equal(few.points, other.points)


# --- sources --------------------------------------------------------------------------------


def aloi_text(smallest, n_classes=20, n_images=10, d=128):
    """Lines as ALOI has them: the object, then the bins that are not empty, from one on."""
    points, labels = histograms.aloi_like(n_classes, n_images, d, seed=3)
    lines = []
    for i in np.random.default_rng(0).permutation(len(labels)):
        bins = [f"{k + 1}:{value:.6g}" for k, value in enumerate(points[i]) if value > smallest]
        lines.append(f"{labels[i]} {' '.join(bins)}\n")
    return "".join(lines).encode()


@pytest.mark.parametrize("smallest, dense", [(0.05, True), (0.2, False)])
def test_aloi_in_its_file_format_becomes_tasks_of_ten_objects(smallest, dense, tmp_path):
    path = tmp_path / "aloi"
    path.write_bytes(aloi_text(smallest))
    summary = libsvm.import_file("aloi", path)
    assert summary.shape == (200, 128) and summary.dense == dense
    data = load_metric_learning("aloi", scale="none")
    assert data.points.shape == (120, 128) and data.points_test.shape == (80, 128)
    X, y = libsvm.raw("aloi")
    rows = np.column_stack([y, X if dense else X.toarray()])
    both = np.vstack([np.column_stack([data.labels, data.points]),
                      np.column_stack([data.labels_test, data.points_test])])
    np.testing.assert_array_equal(np.unique(both, axis=0), np.unique(rows, axis=0))
    assert data.labels.dtype == np.int64
    np.testing.assert_array_equal(data.tasks, data.labels // 10)
    np.testing.assert_array_equal(data.tasks_test, data.labels_test // 10)
    found = triplets.triplets(*data[:3])
    assert len(found.near) == 360
    with pytest.raises(OSError, match="letter"):
        load_metric_learning("letter")


@pytest.mark.parametrize("count, share, number", [
    (108, 0.6, 64), (10, 0.6, 6), (5, 0.6, 3), (7, 0.6, 4),
    (100, 0.29, 29),  # which the product falls short of
])
def test_training_share_of_each_class_is_rounded_down(count, share, number):
    y = np.repeat([3, 1, 2], count)
    train, test = metric_learning._split(y, np.unique(y), share, None, 0)
    assert (np.bincount(y[train])[1:] == number).all()
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(3 * count))


@pytest.mark.parametrize("n_tasks, sizes", [(None, [2, 2, 2, 2, 2]), (3, [4, 3, 3]), (1, [10])])
def test_classes_are_cut_into_consecutive_groups(n_tasks, sizes):
    data = load_metric_learning("digits", n_tasks=n_tasks)
    for labels, tasks in ((data.labels, data.tasks), (data.labels_test, data.tasks_test)):
        expected = np.repeat(np.arange(len(sizes)), sizes)
        np.testing.assert_array_equal(tasks, expected[labels])


def test_principal_components_are_those_of_the_training_points():
    data = load_metric_learning("digits", d=20, scale="none")
    full = load_metric_learning("digits", scale="none")
    model = PCA(20, svd_solver="full").fit(full.points)
    expected = model.transform(full.points_test)
    signs = np.sign((expected * data.points_test).sum(axis=0))
    np.testing.assert_allclose(data.points_test, expected * signs, atol=1e-9)
    np.testing.assert_allclose(data.points.mean(axis=0), 0, atol=1e-10)


def test_sparse_sources_give_the_same_components_as_dense_ones(monkeypatch):
    X, _ = load_digits(return_X_y=True)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.3)
    monkeypatch.setattr(metric_learning, "CHUNK_ROWS", 100)
    one, two = (
        metric_learning._take_components(stored[:1000], stored[1000:], 9, "digits")
        for stored in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(one[0], two[0], atol=1e-9)
    np.testing.assert_allclose(one[1], two[1], atol=1e-9)


def test_scales_divide_by_the_largest_entry_or_make_impostors_one_away():
    plain = load_metric_learning("digits", scale="none")
    ranged = load_metric_learning("digits", scale="range")
    np.testing.assert_array_equal(ranged.points_test, plain.points_test / 16)
    scaled = load_metric_learning("digits")
    factor = plain.points.max() / scaled.points.max()
    np.testing.assert_allclose(scaled.points_test, plain.points_test / factor)
    found = triplets.triplets(*scaled[:3])
    far = found.pairs[found.far[::3]]
    distances = ((found.points[far[:, 0]] - found.points[far[:, 1]]) ** 2).sum(axis=1)
    assert np.median(distances) == pytest.approx(1.0, abs=1e-9)


def test_loading_is_a_function_of_the_seed_whatever_the_threads():
    first, other = (load_metric_learning("digits", seed=s, d=30) for s in (1, 2))
    assert not np.array_equal(first.points, other.points)
    with threadpool_limits(2):
        again = load_metric_learning("digits", seed=1, d=30)
    assert all(map(np.array_equal, first, again))


def test_subsampling_keeps_the_share_of_each_class():
    data = load_metric_learning("digits", max_per_class=20, n_classes=6)
    assert (np.bincount(data.labels) == [12] * 6).all()
    assert (np.bincount(data.labels_test) == [8] * 6).all()
    assert len(np.unique(data.tasks)) == 3


@pytest.mark.parametrize(
    "source, file, n_tasks, shape, error",
    [("letter", "letter.scale.bz2", 13, (8990, 16), 0.02),
     ("pendigits", "pendigits.bz2", 5, (4494, 16), 0.01)],
)
def test_real_small_sources(source, file, n_tasks, shape, error):
    libsvm.import_file(source, real_file(file))
    data = load_metric_learning(source)
    assert data.points.shape == shape and data.tasks.max() == n_tasks - 1
    assert knn.task_knn_errors(*data[:6]).overall < error
    assert len(triplets.triplets(*data[:3], n_impostors=2).near) == 6 * len(data.points)


# --- matrix problems ------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 16, 63, 64, 65, 130])
@pytest.mark.parametrize("batch", [(), (0,), (3,), (2, 2)])
def test_packing_keeps_inner_products_and_unpacking_inverts_it(d, batch):
    rng = np.random.default_rng(d)
    A, B = rng.standard_normal((2, *batch, d, d))
    kept, half = A.copy(), (A + np.swapaxes(A, -1, -2)) / 2
    packed = symmetric.pack(A)
    assert packed.shape == (*batch, d * (d + 1) // 2)
    rows, columns = np.tril_indices(d)
    expected = half[..., rows, columns] * np.where(rows == columns, 1, np.sqrt(2))
    np.testing.assert_allclose(packed, expected, rtol=1e-14, atol=1e-15)
    products = (half * (B + np.swapaxes(B, -1, -2)) / 2).sum(axis=(-2, -1))
    np.testing.assert_allclose((packed * symmetric.pack(B)).sum(axis=-1), products, atol=1e-10)
    back = symmetric.unpack(packed, d)
    np.testing.assert_allclose(back, half, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(back, np.swapaxes(back, -1, -2))
    np.testing.assert_array_equal(packed[..., symmetric.diagonal(d)],
                                  np.diagonal(A, axis1=-2, axis2=-1))
    np.testing.assert_allclose(symmetric.pack(back), packed, rtol=1e-15)
    np.testing.assert_array_equal(A, kept)
    # The same, where it is told to write.
    there = np.empty_like(packed), np.empty_like(back)
    assert symmetric.pack(np.asfortranarray(A), out=there[0]) is there[0]
    assert symmetric.unpack(packed, d, out=there[1]) is there[1]
    np.testing.assert_array_equal(there[0], packed)
    np.testing.assert_array_equal(there[1], back)


@pytest.mark.parametrize("chunk", [2**18, 1, 50])
def test_matrix_risk_data_is_the_stated_construction_whatever_the_chunks(chunk, monkeypatch):
    n, p, d, seed = 12, 7, 4, 3
    monkeypatch.setattr(matrix, "CHUNK_ENTRIES", chunk)
    data = matrix.matrix_risk_data(n, p, d, seed)
    D = common.random_stream(seed, "matrix risk").standard_normal((n, p, d, d))
    np.testing.assert_array_equal(data.packed, symmetric.pack(D))
    traces = np.trace(D, axis1=2, axis2=3).sum(axis=1)
    np.testing.assert_array_equal(data.b, np.where(traces > 0, 1.0, -1.0))
    assert set(np.unique(data.b)) == {-1.0, 1.0} and data.d == d
    assert not np.array_equal(data.packed, matrix.matrix_risk_data(n, p, d, seed + 1).packed)


def test_matrix_risk_data_needs_hardly_more_memory_than_its_result():
    tracemalloc.start()
    size = matrix.matrix_risk_data(20, 50, 100).packed.nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size + 2**22


def test_trace_regression_data_are_quadratic_forms_with_the_stated_variance():
    data = matrix.trace_regression_data(20000, 3, 6, rank=2, noise=0.0, seed=1)
    forms = np.einsum("ijk,jkl,ijl->i", data.measurements, data.truth, data.measurements)
    np.testing.assert_allclose(data.b, forms, atol=1e-12)
    assert data.b.var() == pytest.approx(1.0, abs=0.05)
    values = np.linalg.eigvalsh(data.truth)
    assert (abs(values[:, :4]) < 1e-12).all() and (values[:, 4:] > 1e-3).all()
    noisy = matrix.trace_regression_data(20000, 3, 6, rank=2, noise=0.3, seed=1)
    np.testing.assert_array_equal(noisy.measurements, data.measurements)
    assert (noisy.b - data.b).std() == pytest.approx(0.3, rel=0.03)


# --- what is refused ------------------------------------------------------------------------

#: Arguments that each function takes, of which one is changed.
TAKEN = {
    triplets.triplets: dict(
        points=np.arange(16.0).reshape(8, 2), labels=[0, 0, 0, 0, 1, 1, 1, 1], tasks=[7] * 8,
    ),
    knn.task_knn_errors: dict(
        train_points=np.arange(8.0)[:, None], train_labels=[0, 1] * 4,
        train_tasks=[0] * 4 + [1] * 4, test_points=[[0.0], [1.0]], test_labels=[0, 1],
        test_tasks=[0, 1],
    ),
    load_metric_learning: dict(source="digits"),
    symmetric.pack: dict(matrices=np.eye(2)), symmetric.unpack: dict(packed=np.ones(3), d=2),
}


# Of triplets there is more in test_matrix_problems, of those that mt_lmnn makes.
@pytest.mark.parametrize("function, change, message", [
    *((triplets.triplets, change, message) for change, message in (
        (dict(labels=[[0]] * 8), "labels must have 1 dimension(s), got shape (8, 1)"),
        (dict(labels=[[0], []] * 4),
         "labels must be an array of numbers or strings, got list with rows of different lengths"),
        (dict(tasks=[b"\xda", "x"] * 4),
         "tasks must be an array of numbers or strings, got list that mixes bytes and strings"),
        (dict(labels=[None] * 8), "labels must be numbers or strings, got dtype object"),
        (dict(points=np.linspace(-1e200, 1e200, 16).reshape(8, 2)),
         "points of task 7 are too large: got entries up to 1e+200, allowed are"),
        (dict(n_neighbors=1, labels=list("aaaaaaab"), tasks=["x"] * 8),
         "class 'b' of task 'x' has too few points for n_neighbors=1: got 1, allowed are 2 or "),
        (dict(n_neighbors=3 * 10**8), "too many triplets or pairs: got 2400000008 from 8 points"),
    )),
    *((knn.task_knn_errors, change, message) for change, message in (
        (dict(test_points=np.zeros((2, 3))),
         "test_points must have d=1 columns as train_points have, got 3"),
        (dict(test_tasks=[0, 5]), "test_tasks must be among the 2 training tasks, got 5, which "),
        (dict(k=5), "k must be at most the number of training points of each task, got k=5 and "),
        *((dict(metrics=np.ones(shape)), "metrics must have shape (2, 1, 1), a matrix for each "
                                         f"training task, got {shape}")
          for shape in ((1, 1, 1), (2, 2, 2))),
        (dict(metrics=[[[1.0]], [[np.inf]]]), "metrics must be finite, got inf at index (1, 0, "),
        (dict(test_labels=[0]), "test_labels must be as many as the points, 2, got 1"),
    )),
    *((load_metric_learning, change, message) for change, message in (
        (dict(source="iris"), "source must be one of 'aloi', 'aloi_like', 'letter', 'mnist', "),
        (dict(scale="unit"), "scale must be one of 'impostor', 'range', 'none', got 'unit'"),
        (dict(d=65), "d must be an integer from 1 to 64 (the features of digits), got 65"),
        (dict(n_tasks=6), "n_tasks must be an integer from 1 to 5 (a task needs two of the 10 "),
        (dict(n_classes=11), "n_classes must be an integer from 2 to 10 (those of digits), got"),
        (dict(train=1.0), "train must be a finite number > 0 and < 1, got 1.0"),
        (dict(train=0.001), "train must leave points of each class for training and for test, "),
        (dict(max_per_class=1), "max_per_class must be an integer >= 2, got 1"),
        (dict(max_per_class=5, d=40), "d must be at most the 30 training points, got 40"),
    )),
    (symmetric.pack, dict(matrices=np.ones((2, 3))),
     "matrices must be square, of shape (..., d, d), got shape (2, 3)"),
    (symmetric.unpack, dict(packed=np.ones(5)),
     "packed must have shape (..., 3) for d=2, got shape (5,)"),
    (symmetric.unpack, dict(d=0), "d must be an integer >= 1, got 0"),
    (symmetric.unpack, dict(out=[1]),
     "out must be a writable C-contiguous float64 array of shape (2, 2), got list"),
    *((symmetric.pack, dict(out=out), "out must be a writable C-contiguous float64 array of shape")
      for out in (np.ones(4), np.ones(6)[::2], np.ones(3, np.float32))),
])
def test_bad_arguments_are_refused_with_their_place(function, change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        function(**(TAKEN[function] | change))


def test_equal_points_in_all_classes_cannot_give_a_scale(monkeypatch):
    monkeypatch.setattr(metric_learning, "_read", lambda *_: (np.zeros((8, 2)), np.arange(8) % 2))
    load = load_metric_learning.__wrapped__  # without the store
    with pytest.raises(ValueError, match="scale 'impostor' needs points that differ"):
        load("digits")
    assert not load("digits", scale="range").points.any()

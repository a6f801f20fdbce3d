"""Properties of the data layer: generators, reductions, the LIBSVM cache and its import."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import shutil
import tracemalloc
import warnings
from pathlib import Path
from unittest.mock import Mock

import libsvmdata
import numpy as np
import pytest
from conftest import real_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from benchmark_dspdc.data import (
    bundled,
    common,
    labels,
    libsvm,
    libsvm_text,
    reductions,
    scaling,
    synthetic,
)
from benchmark_dspdc.data.histograms import aloi_like
from benchmark_dspdc.data.matrix import trace_regression_data
from benchmark_dspdc.engine import checks

SMALL = b"+1 1:0.5 3:2\n-1 2:1.5\n+1 3:-4e-1 4:1\n-1 1:7\n"
SMALL_X = np.array([[0.5, 0, 2, 0], [0, 1.5, 0, 0], [0, 0, -0.4, 1], [7, 0, 0, 0]])
SMALL_Y = np.array([1.0, -1.0, 1.0, -1.0])

COMPRESSIONS = {
    "plain": lambda text: text, "bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress,
}


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def write(tmp_path):
    """Write bytes to a file outside the cache."""
    def written(content, name="data.txt"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name
    return written


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def random_matrix(kind, n=40, p=17, seed=3):
    X = sparse.random_array((n, p), density=0.3, rng=np.random.default_rng(seed), format="csr")
    return X.toarray() if kind == "dense" else X.asformat(kind)


def assert_same(first, second):
    """Of two tuples the arrays are equal, and stored in the same way."""
    for a, b in zip(first, second, strict=True):
        assert type(a) is type(b)
        if sparse.issparse(a):
            assert_same((a.data, a.indices, a.indptr), (b.data, b.indices, b.indptr))
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, strict=True)


# --- checks and random streams --------------------------------------------------------------


def test_check_int_accepts_numpy_integers_and_both_ends():
    for value in (np.int32(1), np.int64(5)):
        assert type(checks.check_int(value, "d", 1, 5)) is int


def test_random_streams_of_one_seed_differ_by_purpose():
    first = common.random_stream(0, "one").random(100)
    assert not np.isin(first, common.random_stream(0, "two").random(100)).any()
    assert not np.isin(first, np.random.default_rng(0).random(100)).any()
    assert np.array_equal(first, common.random_stream(0, "one").random(100))


MIDDLE = random_matrix("dense")

REFUSED = [
    *((checks.check_int, (value, "d"), f"d must be an integer >= 1, got {value!r}")
      for value in (1.0, True, "3", None)),
    (checks.check_int, (0, "d", 1, 5), "d must be an integer from 1 to 5, got 0"),
    (checks.check_int, (6, "d", 1, 5), "d must be an integer from 1 to 5, got 6"),
    (checks.as_matrix, (np.zeros(3), "X"), "X must have 2 dimension(s), got shape (3,)"),
    (checks.as_matrix, (np.zeros((0, 2)), "X"), "X must not be empty, got shape (0, 2)"),
    (checks.as_matrix, ([[1j]], "X"), "X must be an array of real numbers, got dtype complex128"),
    (checks.as_matrix, ([[np.nan]], "X"), "X must be finite, got nan at index (0, 0) (1 such"),
    (checks.as_matrix, (sparse.csr_array([[np.inf, 0.0]]), "X"), "X must be finite, got inf"),
    (synthetic.factorized, (9, -1), "p must be an integer >= 1, got -1"),
    (synthetic.factorized, (10, 5, 6),
     "d must be an integer from 1 to 5 (min(n, p) with n=10 and p=5), got 6"),
    (synthetic.factorized, (9, 9, 2, "rows"), "reduction must be one of 'feature', 'instance'"),
    (synthetic.factorized, (9, 9, 2, "feature", 5, -1), "seed must be an integer >= 0, got -1"),
    (aloi_like, (2, 2, 1), "d must be an integer >= 2, got 1"),
    (trace_regression_data, (9, 2, 4, 5), "rank must be an integer from 1 to 4 (the order d of"),
    (trace_regression_data, (9, 2, 4, 2, -1), "noise must be a finite number >= 0, got -1"),
    *((reductions.reduce, (MIDDLE, name, d, 0), f"d must be an integer from 1 to {limit} (the ")
      for name, limit in (("feature", 17), ("instance", 40), ("svd", 17), ("nystroem", 40))
      for d in (0, limit + 1)),
    (reductions.reduce, (MIDDLE, "pca", 2, 0), "reduction must be one of 'feature', 'instance', "),
    *((reductions.nystroem, (MIDDLE, 2, 0, gamma),
       f"gamma must be a finite number > 0, got {gamma}") for gamma in (0.0, np.inf, np.nan)),
    (bundled.load, ("iris",), "bundled dataset must be one of 'breast_cancer', 'digits', "),
    (bundled.load, ("digits", "l2"), "scale must be one of 'none', 'maxabs', 'unit_rows', "),
    (scaling.scale_parts, (random_matrix("csr"), None, "standardize"),
     "scale 'standardize' needs a dense matrix because it shifts the columns: got a sparse one, "
     "allowed are 'none', 'maxabs'"),
    *((libsvm.load, ("set", scale),
       f"scale must be one of 'none', 'maxabs', 'unit_rows', got {scale!r}")
      for scale in ("standardize", "MAXABS", None)),
    *((libsvm.import_file, ("set", "nowhere", width),
       f"n_features must be an integer from 1 to 268435456, got {width}")
      for width in (0, 2**28 + 1)),
    (labels.binary_rule(np.array([1.0, 2.0]), "set").apply, ([1.0, -1.0],),
     "the labels include classes unknown to the training set: got -1, allowed are 1..2"),
    (labels.binary_rule, (np.full(4, 3.0), "set"), "dataset 'set' has one class only: got 3 in "),
]


@pytest.mark.parametrize("function, arguments, message", REFUSED)
def test_arguments_out_of_range_are_refused(function, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        function(*arguments)


# --- synthetic data -------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["feature", "instance"])
def test_factorized_equals_the_explicit_construction(reduction, monkeypatch):
    n, p, d, seed = 30, 9, 4, 11
    monkeypatch.setattr(synthetic, "CHUNK_ENTRIES", 4 * p)  # several groups of rows
    data = synthetic.factorized(n, p, d, reduction, n_informative=5, seed=seed)
    X = common.random_stream(seed, "factorized samples").standard_normal((n, p))
    projection = common.random_stream(seed, "factorized projection")
    if reduction == "feature":
        G = projection.standard_normal((d, p)) / np.sqrt(d)
        A = X @ G.T @ G
    else:
        G = projection.standard_normal((n, d)).T / np.sqrt(d)
        A = G.T @ G @ X
    np.testing.assert_allclose(data.U @ data.V, A, atol=1e-12)
    assert np.array_equal(data.beta, [1.0] * 5 + [0.0] * 4)
    assert data.U.shape == (n, d) and data.V.shape == (d, p)
    assert data.U.flags.c_contiguous and data.V.flags.c_contiguous


def test_factorized_labels_follow_the_logistic_model():
    n, p = 40000, 12
    data = synthetic.factorized(n, p, 3, n_informative=6, seed=5)
    X = common.random_stream(5, "factorized samples").standard_normal((n, p))
    probability = 1 / (1 + np.exp(-X @ data.beta))
    assert set(np.unique(data.b)) == {-1.0, 1.0}
    for low in np.arange(0, 1, 0.2):
        inside = (probability >= low) & (probability < low + 0.2)
        deviation = 0.5 / np.sqrt(inside.sum())
        frequency = (data.b[inside] == 1).mean()
        assert abs(frequency - probability[inside].mean()) < 4 * deviation


def test_factorized_never_holds_the_sample_matrix(monkeypatch):
    monkeypatch.setattr(synthetic, "CHUNK_ENTRIES", 2**14)
    tracemalloc.start()
    data = synthetic.factorized(50000, 100, 2, "instance")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * (data.U.nbytes + data.b.nbytes) < 50000 * 100 * 8


@pytest.mark.parametrize("n, p, k", [(500, 3000, 40), (200, 30, 25), (20, 7, 7), (3, 1, 1)])
def test_sparse_rows_have_unit_norm_and_the_asked_number_of_distinct_columns(n, p, k):
    X, b, _ = synthetic.sparse_classification(n, p, k, seed=2)
    assert X.shape == (n, p) and X.has_canonical_format
    assert (np.diff(X.indptr) == k).all()
    assert X.data.min() > 0
    np.testing.assert_allclose(np.sqrt((X * X).sum(axis=1)), 1)
    assert set(np.unique(b)) <= {-1.0, 1.0} and len(b) == n
    assert X.indices.dtype == X.indptr.dtype == np.int32


def successive(weights):
    """Of two columns that are drawn one after the other, the probabilities that one is among."""
    found = np.zeros(len(weights))
    for i, j in np.ndindex(len(weights), len(weights)):
        if i != j:
            found[[i, j]] += weights[i] * weights[j] / (1 - weights[i])
    return found


# The second so uneven that most rows must be completed by another method.
@pytest.mark.parametrize("weights", [[0.5, 0.25, 0.15, 0.1], [0.999, 0.0006, 0.0003, 0.0001]])
def test_sparse_columns_have_the_probabilities_of_successive_sampling(weights):
    columns = synthetic._draw_columns(40000, 2, np.array(weights), np.random.default_rng(0))
    frequencies = np.bincount(columns.ravel()) / 40000
    np.testing.assert_allclose(frequencies, successive(weights), atol=0.01)


def test_completing_a_row_keeps_the_columns_drawn_before():
    class Stuck(np.random.Generator):
        def random(self, size):
            return np.full(size, 0.99995)  # the rarest column, again and again

    weights = np.array([0.999, 0.0006, 0.0003, 0.0001])
    columns = synthetic._draw_columns(50, 2, weights, Stuck(np.random.PCG64(0)))
    assert (columns[:, 1] == 3).all() and (columns[:, 0] < 3).all()


def test_sparse_labels_are_balanced_and_learnable():
    X, b, beta = synthetic.sparse_classification(4000, 2000, 30, seed=0)
    margin = X @ beta
    agreement = (np.sign(margin - np.median(margin)) == b).mean()
    assert 0.84 < agreement < 0.91
    assert abs(b.mean()) < 0.05
    assert np.count_nonzero(beta) == 100


def test_dense_columns_are_not_correlated_and_rows_have_about_unit_norm():
    X, b, beta = synthetic.dense_classification(20000, 20, 4)
    np.testing.assert_allclose(np.corrcoef(X.T), np.eye(20), atol=0.04)
    np.testing.assert_allclose(X.std(axis=0) * np.sqrt(20), 1, atol=0.03)
    assert abs((X * X).sum(axis=1).mean() - 1) < 0.03
    assert 0.85 < (np.sign(X @ beta) == b).mean() < 0.90


def reduced(name):
    def make(X, seed):
        found = reductions.reduce(X, name, 7, seed)
        test = found.transform(X[::-1])
        return found.U, found.V, *(test if isinstance(test, tuple) else (test,))
    return make


# Sizes for which OpenBLAS rounds differently on two threads than on one.
GENERATED = {
    "factorized feature": lambda X, seed: synthetic.factorized(997, 301, 7, "feature", seed=seed),
    "factorized instance": lambda X, seed: synthetic.factorized(
        997, 301, 7, "instance", seed=seed),
    "dense": lambda X, seed: synthetic.dense_classification(997, 301, seed),
    "sparse": lambda X, seed: synthetic.sparse_classification(997, 301, 20, seed),
} | {name: reduced(name) for name in reductions.REDUCTIONS}


@pytest.mark.parametrize("name", GENERATED)
def test_results_depend_on_the_seed_and_not_on_the_number_of_blas_threads(name):
    X = np.random.default_rng(5).standard_normal((997, 301))
    with threadpool_limits(1):
        one, other = GENERATED[name](X, 0), GENERATED[name](X, 1)
    with threadpool_limits(2):
        assert_same(one, GENERATED[name](X, 0))
    assert not np.array_equal(dense(one[0]), dense(other[0]))


# --- reductions -----------------------------------------------------------------------------

KINDS = ["dense", "csr", "csc", "coo"]


@pytest.mark.parametrize("kind", KINDS)
def test_feature_and_instance_reductions_equal_the_explicit_products(kind):
    X = random_matrix(kind)
    U, V, transform = reductions.feature(X, 5, seed=0)
    np.testing.assert_allclose(U, dense(X) @ V.T, atol=1e-13)
    U_test, V_test = transform(X)
    np.testing.assert_allclose(U_test @ V_test, dense(X) @ V.T @ V, atol=1e-13)
    assert abs(reductions.feature(np.ones((2, 400)), 300, 0).V.var() * 300 - 1) < 0.02
    U, V, transform = reductions.instance(X, 5, seed=0)
    np.testing.assert_allclose(V, U.T @ dense(X), atol=1e-13)
    np.testing.assert_array_equal(dense(transform(X)), dense(X))


@pytest.mark.parametrize("kind", KINDS)
def test_svd_reduction_is_close_to_the_best_approximation(kind):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((40, 6)) * 0.1 ** np.arange(6)) @ rng.standard_normal((6, 17))
    stored = X if kind == "dense" else sparse.csr_array(X).asformat(kind)
    U, V, transform = reductions.svd(stored, 4, seed=0)
    best = np.linalg.svd(X, compute_uv=False)[4]
    assert np.linalg.norm(X - U @ V, 2) < 1.01 * best
    np.testing.assert_allclose(V @ V.T, np.eye(4), atol=1e-12)
    U_test, V_test = transform(stored)
    np.testing.assert_allclose(U_test @ V_test, X @ V.T @ V, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nystroem_reduction_equals_the_landmark_formula(kind):
    X = random_matrix(kind)
    U, V, transform = reductions.nystroem(X, 8, seed=1, gamma=0.7)
    landmarks = np.sort(common.random_stream(1, "nystroem landmarks").choice(40, 8, replace=False))
    K = rbf_kernel(dense(X), gamma=0.7)
    inverse = np.linalg.pinv(K[np.ix_(landmarks, landmarks)], hermitian=True)
    np.testing.assert_allclose(U @ V, K[:, landmarks] @ inverse @ K[landmarks], atol=1e-9)
    np.testing.assert_array_equal(V, U.T)
    U_test, V_test = transform(X[:5] if kind in ("dense", "csr") else X.tocsr()[:5])
    np.testing.assert_allclose(U_test @ V_test, (U @ V)[:5], atol=1e-9)
    # The default counts the zeros of a sparse matrix.
    expected = reductions.nystroem(X, 8, 1, gamma=1 / (17 * dense(X).var()))
    np.testing.assert_allclose(reductions.nystroem(X, 8, 1).U, expected.U, atol=1e-9)


def test_nystroem_survives_duplicate_landmarks_and_constant_data():
    X = np.repeat(np.random.default_rng(0).standard_normal((5, 3)), 4, axis=0)
    U, V, _ = reductions.nystroem(X, 20, seed=0)
    np.testing.assert_allclose(U @ V, rbf_kernel(X, gamma=1 / (3 * X.var())), atol=1e-10)
    U, V, _ = reductions.nystroem(np.ones((6, 2)), 3, seed=0)
    np.testing.assert_allclose(U @ V, np.ones((6, 6)))


@pytest.mark.parametrize("name", reductions.REDUCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_reduction_by_name_is_contiguous_and_leaves_the_input(name, kind):
    X = random_matrix(kind)
    before = X.copy()
    result = reductions.reduce(X, name, 5, 0)
    assert_same(result[:2], getattr(reductions, name)(X, 5, 0)[:2])
    assert result.U.flags.c_contiguous and result.V.flags.c_contiguous
    assert result.U.shape == (40, 5) and result.V.shape[0] == 5
    # A pair of factors or, after an instance reduction, one matrix.
    assert isinstance(result.transform(X), tuple) == (name != "instance")
    assert type(X) is type(before)
    np.testing.assert_array_equal(dense(X), dense(before))
    with pytest.raises(ValueError, match="X_test does not fit .* got 16 columns, allowed are 17"):
        result.transform(np.zeros((3, 16)))


# --- labels and scaling ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes, negative, sentence",
    [
        ([1, 2], [1], "labels 1 -> -1, 2 -> +1"),
        ([-1, 1], [-1], "labels -1 -> -1, 1 -> +1"),
        ([0.5, 4], [0.5], "labels 0.5 -> -1, 4 -> +1"),
        ([1, 2, 3], [1], "classes 1 -> -1, 2..3 -> +1"),
        (range(1, 21), range(1, 11), "classes 1..10 -> -1, 11..20 -> +1"),
        ([1, 3, 4, 9], [1, 3], "classes {1, 3} -> -1, {4, 9} -> +1"),
        (range(0, 60, 2), range(0, 30, 2),
         "classes {0, 2, 4, ..., 28} (15 values) -> -1, {30, 32, 34, ..., 58} (15 values) -> +1"),
    ],
)
def test_classes_are_cut_in_half_as_the_rule_says(classes, negative, sentence):
    y = np.random.default_rng(0).permutation(np.repeat(np.array(classes, dtype=float), 3))
    rule = labels.binary_rule(y, "set")
    assert str(rule) == sentence
    np.testing.assert_array_equal(rule.apply(y), np.where(np.isin(y, list(negative)), -1.0, 1.0))


def test_task_is_guessed_from_the_labels():
    given = (np.arange(100.0), np.arange(101.0), np.array([1.0, 2.5]))
    assert list(map(labels.guess_task, given)) == ["classification", "regression", "regression"]


SCALING_X = np.array([[1.0, 0.0, -4.0], [2.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
SCALING_TEST = np.array([[4.0, 5.0, 2.0]])


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_columns_are_scaled_by_the_training_part_and_rows_by_themselves(kind):
    X, X_test = (
        A.copy() if kind == "dense" else sparse.csr_array(A) for A in (SCALING_X, SCALING_TEST)
    )
    scaled, scaled_test = scaling.scale_parts(X, X_test, "maxabs")
    np.testing.assert_array_equal(dense(scaled), SCALING_X / [2, 1, 4])
    np.testing.assert_array_equal(dense(scaled_test), SCALING_TEST / [2, 1, 4])
    scaled, scaled_test = scaling.scale_parts(X, X_test, "unit_rows")
    np.testing.assert_allclose(dense(scaled), SCALING_X / np.sqrt([[17], [13], [1]]))
    np.testing.assert_allclose(dense(scaled_test), SCALING_TEST / np.sqrt(45))
    (scaled.data if kind == "csr" else scaled)[...] = -1.0
    np.testing.assert_array_equal(dense(X), SCALING_X)  # as it was


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("size", [1e200, 1e-200, 5e-324])
def test_scaling_survives_extreme_entries(kind, size):
    X = np.array([[size, 0.0], [size, size]])
    X = X if kind == "dense" else sparse.csr_array(X)
    np.testing.assert_array_equal(dense(scaling.scale_parts(X, None, "maxabs")[0]),
                                  [[1, 0], [1, 1]])
    np.testing.assert_allclose(dense(scaling.scale_parts(X, None, "unit_rows")[0]),
                               [[1, 0], [0.5**0.5, 0.5**0.5]])


def test_standardize_uses_the_training_statistics_and_zeroes_constant_columns():
    X = np.column_stack([np.arange(5.0), np.full(5, 0.1), np.arange(5.0) ** 2])
    X = np.vstack([X, X, X])  # fifteen times 0.1: the computed mean is not 0.1
    scaled, scaled_test = scaling.scale_parts(X, X[:2] + 1.0, "standardize")
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 0, 1])
    assert (scaled[:, 1] == 0).all()
    np.testing.assert_allclose(scaled_test[:, 0], (X[:2, 0] + 1 - 2) / np.sqrt(2))


# --- bundled sets ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, shape, task, rule",
    [("breast_cancer", (569, 30), "classification", "labels 0 -> -1, 1 -> +1"),
     ("digits", (1797, 64), "classification", "classes 0..4 -> -1, 5..9 -> +1"),
     ("diabetes", (442, 10), "regression", "mean zero and variance one on the training rows")],
)
def test_bundled_sets_are_split_and_labelled(name, shape, task, rule):
    data = bundled.load(name, scale="standardize")
    n_test = round(0.2 * shape[0])
    assert data.X.shape == (shape[0] - n_test, shape[1]) and data.X_test.shape[0] == n_test
    assert data.task == task and rule in data.label_rule
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-12)
    if task == "regression":
        assert abs(data.b.mean()) < 1e-12 and abs(data.b.std() - 1) < 1e-12
        assert 0.5 < data.b_test.std() < 1.5
    else:
        assert set(np.unique(data.b)) == set(np.unique(data.b_test)) == {-1.0, 1.0}
    assert_same(data, bundled.load(name, scale="standardize", seed=0))
    assert not np.array_equal(data.b, bundled.load(name, seed=1).b)


def test_bundled_sets_are_all_rows_as_measured_unless_scaled():
    data = bundled.load("digits")
    rows = np.vstack([data.X, data.X_test])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, np.ascontiguousarray(load_digits().data)))
    assert 70 < bundled.load("diabetes").X[:, 0].max() < 90  # ages
    assert abs(bundled.load("diabetes", scale="maxabs").X).max(axis=0).tolist() == [1.0] * 10


# --- the LIBSVM cache -----------------------------------------------------------------------


def test_data_home_is_that_of_libsvmdata_and_is_read_at_call_time(monkeypatch):
    for setting in ({"LIBSVMDATA_HOME": "one", "XDG_DATA_HOME": "two"}, {"XDG_DATA_HOME": "two"},
                    {"LIBSVMDATA_HOME": ""}, {}):
        for variable in ("LIBSVMDATA_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in setting.items():
            monkeypatch.setenv(variable, value)
        assert libsvm.data_home() == libsvmdata.abstraction._get_data_home("libsvm")


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", ["mushrooms", "my-own_set.v2+x"])
def test_imported_file_is_loaded_again_whatever_its_compression_and_name(
    compression, name, write
):
    # A misleading extension: the bytes decide.
    path = write(COMPRESSIONS[compression](SMALL), "data.zip")
    assert not libsvm.is_cached(name)
    summary = libsvm.import_file(name, path)
    assert libsvm.is_cached(name)
    assert summary[:6] == (name, (4, 4), 6, False, "classification", ((-1.0, 2), (1.0, 2)))
    assert all(file.is_file() for file in summary.files)
    assert "4 rows x 4 features, 6 stored entries" in str(summary)
    data = libsvm.load(name)
    assert isinstance(data.X, sparse.csr_array) and data.X.has_sorted_indices
    assert data.X.dtype == np.float64 and data.X.indices.dtype == np.int32
    assert data.X_test is None and data.b_test is None
    for X, y in (data[:2], libsvm.raw(name)):
        np.testing.assert_array_equal(X.toarray(), SMALL_X)
        np.testing.assert_array_equal(y, SMALL_Y)


@settings(max_examples=30, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_import_round_trip_keeps_every_entry(home, tmp_path, data):
    n, p = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
    numbers = st.floats(allow_nan=False, allow_infinity=False) | st.just(0.0)
    X = np.array(data.draw(st.lists(numbers, min_size=n * p, max_size=n * p))).reshape(n, p)
    X[0, -1] = 1.5  # the width of the file is that of the matrix
    y = np.arange(n) % 2
    lines = []
    for row, label in zip(X.tolist(), y, strict=True):
        entries = [f"{j}:{value!r}" for j, value in enumerate(row, start=1) if value]
        lines.append(" ".join([str(label), *entries]) + "\n")
    path = tmp_path / "round.txt"
    path.write_text("".join(lines))
    summary = libsvm.import_file("round-trip", path)
    loaded, labels_ = libsvm.raw("round-trip")
    np.testing.assert_array_equal(dense(loaded), X)
    np.testing.assert_array_equal(labels_, y)
    assert summary.dense == isinstance(loaded, np.ndarray)
    assert summary.dense == (summary.stored >= 0.5 * n * p)
    assert len(list(home.iterdir())) == 2


@pytest.mark.parametrize("name, text", [
    ("a1a", SMALL), ("rcv1.binary", SMALL), ("fourclass", b"1 1:2 2:3\n-1 1:5 2:1\n"),
    ("abalone", b"15 1:1 2:2 3:3 4:4 5:5\n7 1:1 2:2 3:3 4:4\n"),
])
def test_import_gives_the_files_that_libsvmdata_itself_writes_and_finds(
    name, text, write, home, tmp_path, monkeypatch
):
    libsvm.import_file(name, write(text))
    dataset, theirs = libsvmdata.ALL_DATASETS[name], tmp_path / "theirs"
    theirs.mkdir()
    dataset._load_file_and_save_data(write(text, "raw"), theirs / name)
    ours = {file.name for file in home.iterdir()}
    assert ours == {file.name for file in theirs.iterdir()}
    for file in ours:
        read = np.load if file.endswith(".npy") else sparse.load_npz
        assert_same([read(home / file)], [read(theirs / file)])
    monkeypatch.setattr(dataset, "dataset_dir", home)
    X, y = libsvmdata.fetch_dataset(name)  # without a download
    loaded = libsvm.raw(name)
    np.testing.assert_array_equal(dense(X), dense(loaded.X))
    np.testing.assert_array_equal(y, loaded.y)
    assert sparse.issparse(X) or (X.flags.f_contiguous and loaded.X.flags.c_contiguous)


# Lines in the style of files that are large, and of what other programs write.
STYLES = {
    "rcv1.binary": (b"1 440:0.0267 730:0.0524 47236:0.0365 \n-1 8:0.0423 34:0.0571 \n", 47236,
                    [1.0, -1.0], "labels -1 -> -1, 1 -> +1"),
    "aloi": (b"0 1:19 2:53 128:4\n1 1:2\n2 3:1 4:9\n3 5:1\n", 128,
             [-1.0, -1.0, 1.0, 1.0], "classes 0..1 -> -1, 2..3 -> +1"),
    "real-sim": (b"-1 15:0.1 21:0.0415\n+1 20958:0.3\n", 20958, [-1.0, 1.0],
                 "labels -1 -> -1, 1 -> +1"),
    "windows": (b"# c\r\n1 qid:4 1:2 # c\r\n\r\n2 1:3\r\n", 1, [-1.0, 1.0],
                "labels 1 -> -1, 2 -> +1"),
    "abalone_scale": (b"15 1:1\n7 2:1\n", 8, [15.0, 7.0], "target as given, not scaled"),
    "halves": (b"0.5 1:1\n7 2:1\n", 2, [0.5, 7.0], "target as given, not scaled"),
}


@pytest.mark.parametrize("name", STYLES)
def test_files_in_the_style_of_many_programs(name, write):
    text, width, b, sentence = STYLES[name]
    assert libsvm.import_file(name, write(bz2.compress(text))).shape[1] == width
    data = libsvm.load(name, test=False)
    assert data.X.shape[1] == width and data.label_rule == sentence
    np.testing.assert_array_equal(data.b, b)


def test_many_classes_are_classification_when_listed_and_regression_when_not(write):
    path = write(b"".join(b"%d 1:%d\n" % (i, i + 1) for i in range(1000)))
    assert libsvm.import_file("aloi", path).task == "classification"
    data = libsvm.load("aloi")
    assert data.label_rule == "classes 0..499 -> -1, 500..999 -> +1" and data.b.sum() == 0
    assert "1000 classes, 0: 1, 1: 1, 2: 1, ..., 999: 1\n" in str(libsvm.import_file("aloi", path))
    assert "targets from 0 to 999" in str(libsvm.import_file("other", path))
    data = libsvm.load("other")
    assert data.task == "regression" and data.b[999] == 999.0


def test_load_scales_both_parts_with_the_training_factors(write):
    libsvm.import_file("set", write(SMALL))
    libsvm.import_file("set_test", write(b"1 1:14\n-1 2:3 3:1\n"))
    data = libsvm.load("set", scale="maxabs")
    np.testing.assert_array_equal(data.X.toarray(), SMALL_X / [7, 1.5, 2, 1])
    np.testing.assert_array_equal(data.X_test.toarray(), [[2.0, 0, 0, 0], [0, 2, 0.5, 0]])
    np.testing.assert_array_equal(data.b_test, [1, -1])


FULL = b"1 1:1 2:2 3:3\n2 1:4 2:5 3:6\n"
HOLES = b"1 2:2\n2 3:6\n2 3:1\n"


@pytest.mark.parametrize("train", [FULL, HOLES])
@pytest.mark.parametrize("test", [FULL, HOLES])
def test_test_part_has_the_container_and_the_width_of_the_training_part(train, test, write):
    libsvm.import_file("set", write(train))
    libsvm.import_file("set_test", write(test))
    data = libsvm.load("set")
    assert type(data.X) is type(data.X_test)
    np.testing.assert_array_equal(dense(data.X_test), dense(libsvm.raw("set_test").X))
    libsvm.import_file("set_test", write(b"1 1:5 4:1\n2 2:6 5:1\n"))
    with pytest.warns(UserWarning, match="2 features that set lacks; their 2 entries are dropped"):
        data = libsvm.load("set")
    np.testing.assert_array_equal(dense(data.X_test), [[5, 0, 0], [0, 6, 0]])
    for width in (2, 9):
        libsvm.import_file("set_test", write(b"1 1:5\n2 2:6\n"), n_features=width)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is lost with columns of zeros
            data = libsvm.load("set")
        np.testing.assert_array_equal(dense(data.X_test), [[5, 0, 0], [0, 6, 0]])


def test_test_labels_follow_the_training_rule(write):
    libsvm.import_file("set", write(b"1 1:1\n2 1:1\n3 1:1\n4 1:1\n"))
    # The classes 1 and 2 alone would be cut between the two.
    for text, expected in ((b"2 1:1\n3 1:2\n", [-1.0, 1.0]), (b"1 1:1\n2 1:2\n", [-1.0, -1.0])):
        libsvm.import_file("set_test", write(text))
        assert libsvm.load("set").b_test.tolist() == expected
    libsvm.import_file("set_test", write(b"1 1:1\n7 1:2\n"))
    with pytest.raises(ValueError, match=r"set_test .*unknown to the training set: got 7"):
        libsvm.load("set")
    assert libsvm.load("set", test=False).X_test is None


def test_missing_test_part_warns_only_when_one_is_listed(write):
    libsvm.import_file("a9a", write(SMALL))
    with pytest.warns(UserWarning, match="'a9a' is used without its test part: .* import-libsvm "
                                         "a9a_test FILE"):
        data = libsvm.load("a9a")
    assert data.X_test is None and data.b_test is None
    libsvm.import_file("mushrooms", write(SMALL))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert libsvm.load("mushrooms").X_test is None
        assert libsvm.load("a9a", test=False).X_test is None


def test_what_is_not_there_is_named_with_close_matches_and_the_import_command(write, home):
    with pytest.raises(OSError, match="'real-sim' is not in the cache .* download failed: no "
                       "network for .*/real-sim.bz2 in tests. .* import-libsvm real-sim FILE"):
        libsvm.load("real-sim")
    assert list(home.iterdir()) == []
    libsvm.import_file("my-mushrooms", write(SMALL))
    with pytest.raises(ValueError, match="'rcv1.binray' is unknown.*Close matches: rcv1.binary.*"
                       "python -m benchmark_dspdc import-libsvm rcv1.binray FILE"):
        libsvm.load("rcv1.binray")
    with pytest.raises(ValueError, match="Close matches: .*my-mushrooms"):
        libsvm.raw("mushrooms")
    _, y_file = libsvm.import_file("set", write(SMALL)).files
    y_file.unlink()
    assert not libsvm.is_cached("set")
    with pytest.raises(ValueError, match="'set' is unknown"):
        libsvm.load("set")


def test_download_is_cached_and_touches_no_other_set(write, home, monkeypatch):
    libsvm.import_file("duke breast-cancer", write(SMALL))
    download = Mock(side_effect=lambda address, path, **options: Path(path).write_bytes(
        b"2 1:1 10:3\n4 1:2\n"))
    monkeypatch.setattr(libsvmdata.abstraction, "download", download)
    for _ in range(2):
        data = libsvm.load("breast-cancer")
        assert data.X.shape == (2, 10) and data.label_rule == "labels 2 -> -1, 4 -> +1"
    download.assert_called_once()
    assert download.call_args.args[0].endswith("binary/breast-cancer")
    assert libsvm.is_cached("duke breast-cancer") and len(list(home.iterdir())) == 4
    # Nor is a set taken for one whose name it ends with.
    libsvm.import_file("xa9a", write(SMALL))
    assert not libsvm.is_cached("a9a") and not libsvm.is_cached("xa9")


def test_sets_that_no_method_can_use_are_refused(write):
    for function in (libsvm.load, libsvm.raw, lambda name: libsvm.import_file(name, write(SMALL))):
        with pytest.raises(ValueError, match="'yeast' .*got a multilabel set, allowed are binary"):
            function("yeast")
    libsvm.import_file("set", write(b"1 1:1\n1 2:1\n"))
    assert libsvm.raw("set").y.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="one class only"):
        libsvm.load("set")


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a\\b", "a b", "a\n",
                                  "a\x00", "é", None, 3, "x" * 129, Path("a"), "/etc/x", "C:x"])
def test_names_that_could_leave_the_cache_are_refused(name, write, home):
    path = write(SMALL)
    for function in (libsvm.load, libsvm.raw, libsvm.is_cached,
                     lambda name: libsvm.import_file(name, path)):
        with pytest.raises(ValueError, match="dataset name is not valid: got .*, allowed are"):
            function(name)
    assert not home.exists()


# Of scikit-learn's reader, which finds what is no LIBSVM format, a few errors stand for all.
BAD_FILES = {
    "empty": (b"", "there are no data: got 0 labels"),
    "labels only": (b"1\n2\n3\n", "got 3 labels without a single index:value"),
    "cut after the colon": (b"1 1:1\n1 3:", "line 2 .*'1 3:'"),
    "cut before the colon": (b"1 1:1\n2 2:1\n1 3", "line 3 .*without a colon"),
    "binary": (bytes(range(1, 256)), "line 1"),
    "nan value": (b"1 1:1\n1 2:nan\n", r"X must be finite, got nan at index \(1, 1\)"),
    "overflowing value": (b"1 1:1e999\n", "X must be finite, got inf"),
    "nan label": (b"1 1:1\nnan 2:1\n", "y must be finite, got nan at index 1"),
    "repeated index": (b"1 2:1 2:1\n", "line 1 .*increasing indices"),
    "xz": (lzma.compress(b"1 1:1\nx 1:1\n"), "line 2 is not in LIBSVM format: got 'x 1:1'"),
    "long line": (gzip.compress(SMALL[:13] + b" " * 10**6),
                  "line 2 is too long: got more than 300 bytes"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_with_file_place_and_reason(case, write, home, monkeypatch):
    monkeypatch.setattr(libsvm_text, "MAX_LINE_BYTES", 300)
    content, message = BAD_FILES[case]
    path = write(content)
    with pytest.raises(ValueError, match=message) as caught:
        libsvm.import_file("set", path)
    shown = str(caught.value)
    assert shown.startswith(f"{path}: ") and ("allowed" in shown or "must be" in shown)
    assert not home.exists()


TEXT = b"".join(b"%d %d:%.9f 50:1\n" % (i % 2, i % 49 + 1, 1 / (i + 1)) for i in range(3000))


@pytest.mark.parametrize("compression", ["bz2", "gz", "xz"])
def test_cut_and_damaged_compressed_files_are_refused(compression, write, home):
    whole = COMPRESSIONS[compression](TEXT)
    middle = len(whole) // 2
    damaged = whole[:middle] + bytes(255 - byte for byte in whole[middle:])
    for part in (whole[:10], whole[:middle], whole[:-1], damaged):
        with pytest.raises(ValueError, match="damaged or cut off|not in LIBSVM format"):
            libsvm.import_file("set", write(part))
    assert not home.exists()
    # Of several streams all are read.
    libsvm.import_file("set", write(2 * COMPRESSIONS[compression](SMALL)))
    assert libsvm.raw("set").X.shape == (8, 4)


def test_zero_based_files_and_a_last_line_without_line_end_are_read(write):
    libsvm.import_file("zero", write(b"1 0:5 2:6\n2 1:7\n"))
    np.testing.assert_array_equal(dense(libsvm.raw("zero").X), [[5, 0, 6], [0, 7, 0]])
    with pytest.warns(UserWarning, match="the last line has no line end"):
        libsvm.import_file("set", write(SMALL[:-1]))
    np.testing.assert_array_equal(dense(libsvm.raw("set").X), SMALL_X)


@pytest.mark.parametrize("name, what", [("nowhere", "there is no such"), ("", "not a regular")])
def test_missing_files_and_directories_are_refused(name, what, tmp_path, home):
    with pytest.raises(ValueError, match=f"{name}: {what} file; allowed"):
        libsvm.import_file("set", tmp_path / name)


def test_number_of_features_comes_from_the_argument_then_the_table_then_the_file(write):
    path = write(SMALL)
    assert libsvm.import_file("set", path).shape == (4, 4)
    assert libsvm.import_file("set", path, n_features=10).shape == (4, 10)
    assert libsvm.import_file("a9a", path).shape == (4, 123)
    assert libsvm.import_file("a9a", path, n_features=7).shape == (4, 7)
    with pytest.raises(ValueError, match="too many features for dataset 'fourclass': got 4, "
                                         "allowed by libsvmdata's table are 2"):
        libsvm.import_file("fourclass", path)
    with pytest.raises(ValueError, match="got 4, allowed by n_features are 3"):
        libsvm.import_file("set", path, n_features=3)


class Kill(BaseException):
    """Stands for a signal: no handler for ordinary errors stops it."""


def import_killed_at(step, path, monkeypatch):
    """Import a file, killed before the given file operation; tell whether it was reached."""
    count = 0

    def killing(function):
        def wrapper(*args, **kwargs):
            nonlocal count
            count += 1
            if count >= step:  # a killed process does not clean up
                raise Kill
            return function(*args, **kwargs)
        return wrapper

    with monkeypatch.context() as patch, contextlib.suppress(Kill):
        for owner, attribute in ((os, "replace"), (np, "save"), (sparse, "save_npz"),
                                 (Path, "unlink"), (shutil, "rmtree")):
            patch.setattr(owner, attribute, killing(getattr(owner, attribute)))
        libsvm.import_file("set", path)
    return count >= step


@pytest.mark.parametrize("old, new", [(SMALL, FULL), (FULL, SMALL), (SMALL, HOLES)])
def test_killed_import_leaves_the_old_or_the_new_set_or_none_but_no_mixture(
    old, new, write, monkeypatch
):
    path_old, path_new = write(old, "old"), write(new, "new")
    expected = []
    for path in (path_old, path_new):
        libsvm.import_file("set", path)
        expected.append(libsvm.raw("set"))
    seen = []
    for step in range(1, 50):
        libsvm.import_file("set", path_old)
        if not import_killed_at(step, path_new, monkeypatch):
            break
        seen.append(0.5)  # none
        if libsvm.is_cached("set"):
            found = libsvm.raw("set")
            seen[-1] = int(len(found.y) == len(expected[1].y))
            assert type(found.X) is type(expected[seen[-1]].X)
            assert_same(found, expected[seen[-1]])
    # First the old set survives, then for a moment none does, then the new one does.
    assert seen == sorted(seen) and set(seen) == {0, 0.5, 1}


def test_failed_write_leaves_no_trace(write, home, monkeypatch):
    libsvm.import_file("set", write(SMALL))
    before = sorted(home.iterdir())
    monkeypatch.setattr(np, "save", Mock(side_effect=OSError("no space left on device")))
    with pytest.raises(OSError, match="no space left"):
        libsvm.import_file("set", write(FULL))
    assert sorted(home.iterdir()) == before
    np.testing.assert_array_equal(dense(libsvm.raw("set").X), SMALL_X)


def test_leftovers_of_killed_processes_are_removed_after_a_day(write, home):
    old, recent = home / ".writing-old", home / ".writing-recent"
    for directory in (old, recent):
        directory.mkdir(parents=True)
        (directory / "part").write_bytes(b"x")
    os.utime(old, (0, 0))
    libsvm.import_file("set", write(SMALL))
    assert not old.exists() and recent.exists()


def test_set_replaced_while_it_is_read_is_read_again(write, monkeypatch):
    path_old, path_new = write(SMALL, "old"), write(b"3 9:9\n" * 3 + b"4 9:9\n", "new")
    libsvm.import_file("set", path_old)
    load_npz = sparse.load_npz
    replaced = []

    def slow(file, **kwargs):
        # The labels of the old set have been read, X not yet.
        if not replaced:
            replaced.append(libsvm.import_file("set", path_new))
        return load_npz(file, **kwargs)

    monkeypatch.setattr(sparse, "load_npz", slow)
    X, y = libsvm.raw("set")
    assert replaced and y.tolist() == [3, 3, 3, 4] and X.shape == (4, 9)


class Exploit:
    def __reduce__(self):
        return os._exit, (66,)


def claim(shape):
    """The beginning of an .npy file that claims such an array, and little else."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, dict(descr="<f8", fortran_order=False, shape=shape)
    )
    return file.getvalue() + bytes(64)


DAMAGES = {
    "pickle": "Object arrays", "text": ".", "cut": ".", "claim": ".",
    "shape": r"X must have 2 rows as y has|y must have 1 dimension\(s\), got shape \(3, 2",
    "rows": "X must have [23] rows as y has labels, got shape",
    "nan": "[Xy] must be finite, got nan",
    "complex": "[Xy] must be an array of real numbers, got dtype complex128",
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_cache_is_refused_and_nothing_is_unpickled(which, damage, write, home):
    file = libsvm.import_file("set", write(FULL)).files[which]
    shape = ((2, 3), (2,))[which]
    if damage in ("text", "cut", "claim"):
        file.write_bytes({"text": b"not an array", "cut": file.read_bytes()[:-5],
                          "claim": claim((10**15, *shape[1:]))}[damage])
    else:
        np.save(file, {
            "pickle": np.full(shape, Exploit(), dtype=object), "shape": np.ones((3,) + shape),
            "rows": np.ones((3,) + shape[1:]), "complex": np.ones(shape, dtype=complex),
            "nan": np.full(shape, np.nan),
        }[damage], allow_pickle=True)
    with pytest.raises(ValueError, match=r"set_[Xy]\.npy cannot be used: "
                                         f"({DAMAGES[damage]}).*; allowed are"):
        libsvm.load("set")


@pytest.mark.parametrize("change, message", [
    ({"indices": np.array([0, 1000])}, "indices"), ({"indptr": np.array([0, 3, 2])}, "."),
    ({"data": np.array([Exploit()] * 2)}, "Object arrays"), ({"format": np.array("csr")}, "csc"),
    ({"shape": np.array([10**12, 2])}, "X must have 2 rows as y has labels, got shape"),
])
def test_damaged_sparse_cache_is_refused(change, message, home):
    home.mkdir(parents=True)
    np.save(home / "set_y.npy", np.ones(2))
    good = dict(format=np.array("csc"), shape=np.array([2, 2]), data=np.ones(2),
                indices=np.arange(2), indptr=np.arange(3))
    np.savez(home / "set_X.npz", **good)
    assert libsvm.raw("set").X.toarray().tolist() == np.eye(2).tolist()
    np.savez(home / "set_X.npz", **good | change, allow_pickle=True)
    with pytest.raises(ValueError, match=f"set_X.npz cannot be used: .*{message}"):
        libsvm.raw("set")
    (home / "set_X.npz").write_bytes(b"PK\x03\x04 truncated")
    with pytest.raises(ValueError, match="set_X.npz cannot be used"):
        libsvm.raw("set")


def test_cache_with_wide_indices_or_other_numbers_is_brought_into_form(home):
    home.mkdir(parents=True)
    X = sparse.csc_array(SMALL_X.astype(np.float32))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    sparse.save_npz(home / "set_X.npz", X)
    np.save(home / "set_y.npy", SMALL_Y.astype(np.int8))
    loaded, y = libsvm.raw("set")
    assert isinstance(loaded, sparse.csr_array) and loaded.dtype == y.dtype == np.float64
    assert loaded.indices.dtype == loaded.indptr.dtype == np.int32
    np.testing.assert_array_equal(loaded.toarray(), SMALL_X.astype(np.float32))


# --- real files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, shape, entries, task",
    [("a9a", (32561, 123), 451592, "classification"),
     ("mushrooms", (8124, 112), 170604, "classification"),
     ("australian", (690, 14), 9660, "classification"),
     ("housing_scale", (506, 13), 6578, "regression")],
)
def test_real_files(name, shape, entries, task):
    summary = libsvm.import_file(name, real_file(f"{name}.bz2"))
    assert summary.shape == shape and summary.stored == entries and summary.task == task
    if name == "a9a":
        libsvm.import_file("a9a_test", real_file("a9a.t.bz2"))
        assert libsvm.load("a9a").X_test.shape == (16281, 123)
    data = libsvm.load(name, scale="maxabs")
    assert data.X.shape == shape and data.task == task
    assert sparse.issparse(data.X) == (name in ("a9a", "mushrooms"))
    assert abs(data.X).max() == 1.0

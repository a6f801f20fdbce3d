"""Generated data on disk: the same bits, generated once, and what happens when things go wrong."""

import ast
import importlib
import logging
import os
import resource
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import joblib
import numpy as np
import pytest
from conftest import REPO, copy_of_benchmark

from benchmark_dspdc import data
from benchmark_dspdc.data import libsvm, store
from benchmark_dspdc.data.triplets import triplets
from benchmark_dspdc.engine import kernel_cache


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty store that keeps everything."""
    monkeypatch.setenv("BENCHMARK_DSPDC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(store.VARIABLE, "4")
    monkeypatch.setattr(store, "WORTH", 0.0)
    return tmp_path / "cache" / "data"


class Pair(NamedTuple):
    numbers: np.ndarray
    note: str


class Counted:
    """A stored function that counts how often it generates."""

    def __init__(self):
        self.calls, self.get = 0, store.stored()(self.numbers)

    def numbers(self, n, seed=0):
        self.calls += 1
        return Pair(np.random.default_rng(seed).standard_normal(n), f"seed {seed}")


def entries(place):
    return sorted(place.glob("*.pkl"))


# The same data --------------------------------------------------------------------------

GENERATED = {
    "matrix_risk": lambda: data.matrix_risk_data(6, 3, 5, seed=1),
    "trace_regression": lambda: data.trace_regression_data(20, 3, 4),
    "factorized": lambda: data.factorized(60, 20, 5),
    "factorized instance": lambda: data.factorized(60, 20, 5, reduction="instance"),
    "sparse": lambda: data.sparse_classification(80, 50, 5, seed=0),
    "digits": lambda: data.load_metric_learning("digits"),
    "digits, components": lambda: data.load_metric_learning("digits", d=4, scale="range"),
    "aloi_like": lambda: data.load_metric_learning("aloi_like", n_classes=20),
    "triplets": lambda: triplets(*data.load_metric_learning("digits", max_per_class=12, d=4)[:3]),
}


def assert_same_bits(one, two):
    """By joblib's hash, of types, shapes, the order in memory and every byte."""
    assert joblib.hash(one) == joblib.hash(two)


@pytest.mark.parametrize("name", GENERATED)
def test_stored_data_have_the_bits_of_generated_ones(name, place, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setenv(store.VARIABLE, "0")
        plain = GENERATED[name]()
    assert not place.exists()
    caplog.set_level(logging.INFO, store.__name__)
    first = GENERATED[name]()
    assert "generated" in caplog.text and "read" not in caplog.text
    caplog.clear()
    second = GENERATED[name]()
    assert "read" in caplog.text and "generated" not in caplog.text
    for other in (first, second):
        assert_same_bits(plain, other)


# Keys -------------------------------------------------------------------------------------

def test_every_argument_makes_other_data_if_that_takes_time(place, monkeypatch):
    counted = Counted()
    for _ in range(2):
        for arguments in ((5,), (6,), (5, 1), ((2, 3),)):
            counted.get(*arguments)
        counted.get(n=5, seed=0)
    assert counted.calls == len(entries(place)) == 4
    monkeypatch.setattr(store, "WORTH", 60.0)  # what takes no time is not kept
    counted.get(7)
    assert len(entries(place)) == 4


def test_wrong_arguments_are_refused_as_without_a_store(place):
    data.factorized(60, 20, 5, seed=1)
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got True"):
        data.factorized(60, 20, 5, seed=True)
    for source in ("nowhere", ["digits"], lambda: 0):
        with pytest.raises(ValueError, match="source must be one of"):
            data.load_metric_learning(source)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        data.factorized(60, 20, 5, depth=1)
    assert not list(place.glob("*.lock"))


def test_an_edit_of_what_generates_makes_other_data(tmp_path, monkeypatch):
    copy = copy_of_benchmark(tmp_path, "benchmark_dspdc") / "benchmark_dspdc"
    monkeypatch.setattr(kernel_cache, "PACKAGE", copy)
    monkeypatch.setattr(store, "PACKAGE", copy)
    seen = [store._sources.__wrapped__()]
    for name in ("cli.py", "data/matrix.py", "engine/symmetric.py"):
        with copy.joinpath(name).open("a") as file:
            file.write("# edited\n")
        seen.append(store._sources.__wrapped__())
    assert seen[0] == seen[1] != seen[2] != seen[3]


def test_all_sources_that_data_are_made_of_are_known():
    package = REPO / "benchmark_dspdc"
    for file in (file for room in store.ROOMS for file in package.joinpath(room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                assert module.relative_to(package).parts[0] in store.ROOMS, (file, node.module)


def put(folder, name, factor=1):
    """Import a data set of four classes under a name."""
    lines = (f"{i % 4} 1:{factor * i / 7} 2:{i * i % 11} 3:{i % 5}\n" for i in range(80))
    (folder / "file").write_text("".join(lines))
    libsvm.import_file(name, folder / "file", n_features=3)


@pytest.mark.parametrize("reduction", data.REDUCTIONS)
def test_reductions_of_a_libsvm_file_are_computed_once(place, home, tmp_path, caplog, reduction):
    def load():
        caplog.clear()
        return data.load_reduced("own", reduction, 3, 0, scale="maxabs")

    caplog.set_level(logging.INFO, store.__name__)
    put(tmp_path, "own")
    without = load()
    assert without.X_test is without.b_test is None
    put(tmp_path, "own_test")
    first = load()
    assert "generated" in caplog.text
    again = load()
    assert "read" in caplog.text and "generated" not in caplog.text
    assert_same_bits(first, again)
    # What it was, computed by hand.
    plain = data.load_libsvm("own", scale="maxabs")
    expected = data.reduce(plain.X, reduction, 3, 0)
    assert_same_bits(((expected.U, expected.V), plain.b), tuple(again[:2]))
    assert_same_bits(expected.transform(plain.X_test), again.X_test)


def test_a_replaced_libsvm_file_is_another_source(place, home, tmp_path):
    def load(factor):
        put(tmp_path, "letter", factor)
        return (data.load_metric_learning("letter", d=2),
                data.load_reduced("letter", "svd", 2, 0))

    assert libsvm.version("letter") is None
    points, reduced = load(1)
    assert_same_bits(points, data.load_metric_learning("letter", d=2))
    others = load(2)
    assert others[0].points.tobytes() != points.points.tobytes()
    assert others[1].X[0].tobytes() != reduced.X[0].tobytes()
    assert len(entries(place)) == 4


def test_a_reduction_is_not_kept_while_its_test_part_may_be_downloaded(place, home, tmp_path):
    put(tmp_path, "a9a")
    with pytest.warns(UserWarning, match="without its test part"):
        data.load_reduced("a9a", "svd", 2, 0)
    assert entries(place) == []


# Faults -----------------------------------------------------------------------------------

def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [
    flip, os.unlink, lambda file: os.truncate(file, file.stat().st_size - 8),
    lambda file: file.write_bytes(b""), lambda file: file.write_bytes(b"text"),
    lambda file: joblib.dump({}, file),
    lambda file: joblib.dump((joblib.load(file)[0], Pair(np.ones(1000), "seed 0")), file),
])
def test_damaged_entries_are_generated_anew(damage, place):
    counted = Counted()
    first = counted.get(1000)
    file, = entries(place)
    damage(file)
    for _ in range(2):
        assert_same_bits(first, counted.get(1000))
        assert counted.calls == 2
    assert entries(place) == [file]


def test_a_full_disk_leaves_data_in_memory_and_a_warning(place):
    counted = Counted()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.warns(RuntimeWarning, match="data cannot be kept in"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            first, second = counted.get(100000), counted.get(100000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert_same_bits(first, second)
    assert counted.calls == 2
    assert list(place.iterdir()) == []


def test_a_home_that_cannot_be_written_leaves_data_in_memory_and_one_warning(place):
    place.parent.write_text("not a directory")
    counted = Counted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # as users have it
        counted.get(5)
        counted.get(6)
    assert counted.calls == 2
    told, = caught
    assert "data cannot be kept in" in str(told.message) and store.VARIABLE in str(told.message)


def test_errors_of_a_function_are_its_own(place):
    @store.stored()
    def fails(n):
        raise OSError("no network")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(OSError, match="no network"):
                fails(1)
    assert list(place.iterdir()) == []


# Room -------------------------------------------------------------------------------------

def test_what_was_not_used_for_longest_makes_room(place, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, "0.00003")
    counted = Counted()
    for seed in range(3):  # 8 kB each, 30 kB in all
        counted.get(1000, seed)
        for k, file in enumerate(sorted(entries(place), key=lambda f: f.stat().st_mtime_ns)):
            os.utime(file, (k + 2, k + 2))
    # Of a process that was killed.
    place.joinpath(".left").write_bytes(bytes(100))
    os.utime(place / ".left", (1, 1))
    counted.get(1000, 0)  # now the last used
    counted.get(1000, 3)
    assert counted.calls == 4
    counted.get(1000, 0)
    assert counted.calls == 4
    counted.get(1000, 1)
    assert counted.calls == 5
    assert len(list(place.iterdir())) == 3


def test_what_is_too_large_is_not_kept(place, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, "0.00003")
    with pytest.warns(RuntimeWarning, match="has 1.6e-05 GB, allowed for one are 1.5e-05"):
        Counted().get(2000)
    assert list(place.iterdir()) == []
    assert 1.7e9 < store.LARGEST_PART * store.LIMIT_GB * 1e9  # matrix risk of the paper fits


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "much", ""])
def test_a_wrong_limit_is_named(value, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, value)
    with pytest.raises(ValueError, match=f"{store.VARIABLE} must be a finite number >= 0"):
        Counted().get(5)


# Processes --------------------------------------------------------------------------------

def test_two_that_begin_at_once_generate_once(place):
    calls = []

    @store.stored()
    def slow(n):
        calls.append(n)
        time.sleep(0.3)
        return list(range(n))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(slow, (9, 9))) == [list(range(9))] * 2
    assert calls == [9] and list(place.iterdir()) == entries(place)


SLOW = """
import os, time
from benchmark_dspdc.data.store import stored

@stored()
def slow(n):
    print("begun", flush=True)
    time.sleep(float(os.environ.get("SECONDS", "0")))
    return list(range(n))
"""


@pytest.mark.nightly
def test_a_process_killed_while_it_generates_holds_up_nobody(place, tmp_path, monkeypatch):
    tmp_path.joinpath("slow_module.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    slow = importlib.import_module("slow_module").slow
    killed = subprocess.Popen(
        [sys.executable, "-c", "import slow_module; slow_module.slow(9)"], cwd=tmp_path,
        env=os.environ | {"SECONDS": "600", "PYTHONPATH": str(REPO)}, stdout=subprocess.PIPE,
    )
    assert killed.stdout.readline() == b"begun\n"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slow, 9)
        time.sleep(0.3)
        assert not waiting.done()
        killed.kill()
        assert waiting.result(timeout=60) == list(range(9))
    killed.communicate()
    assert list(place.iterdir()) == entries(place) != []

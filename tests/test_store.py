"""Generated data on disk: the same bits, generated once, and what happens when things go wrong."""

import ast
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
from conftest import REPO
from scipy import sparse

from benchmark_dspdc import data
from benchmark_dspdc.data import libsvm, store
from benchmark_dspdc.data.triplets import triplets
from benchmark_dspdc.engine import kernel_cache as jit


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty store that keeps everything."""
    monkeypatch.setenv("BENCHMARK_DSPDC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(store.VARIABLE, "4")
    monkeypatch.setattr(store, "WORTH", 0.0)
    monkeypatch.setattr(store, "_warned", False)
    return tmp_path / "cache" / "data"


class Pair(NamedTuple):
    numbers: np.ndarray
    note: str


class Counted:
    """A stored function that counts how often it generates."""

    def __init__(self):
        self.calls = 0
        self.get = store.stored(Pair)(self.numbers)

    def numbers(self, n, seed=0, progress=False):
        self.calls += 1
        return Pair(np.random.default_rng(seed).standard_normal(n), f"seed {seed}")


def entries(place):
    return sorted(file.parent for file in place.glob("*/fields.json"))


# The same data --------------------------------------------------------------------------

def found_triplets():
    metric = data.load_metric_learning("digits", max_per_class=12, d=4)
    return triplets(metric.points, metric.labels, metric.tasks)


GENERATED = {
    "matrix_risk": lambda: data.matrix_risk_data(6, 3, 5, seed=1),
    "trace_regression": lambda: data.trace_regression_data(20, 3, 4),
    "factorized": lambda: data.factorized(60, 20, 5),
    "factorized instance": lambda: data.factorized(60, 20, 5, reduction="instance"),
    "sparse": lambda: data.sparse_classification(80, 50, 5, seed=0),
    "digits": lambda: data.load_metric_learning("digits"),
    "digits, components": lambda: data.load_metric_learning("digits", d=4, scale="range"),
    "aloi_like": lambda: data.load_metric_learning("aloi_like", n_classes=20),
    "triplets": found_triplets,
}


def assert_same_bits(one, two):
    assert type(one) is type(two)
    if isinstance(one, tuple):
        for a, b in zip(one, two, strict=True):
            assert_same_bits(a, b)
    elif sparse.issparse(one):
        assert one.shape == two.shape
        assert one.has_canonical_format == two.has_canonical_format
        for part in ("data", "indices", "indptr"):
            assert_same_bits(getattr(one, part), getattr(two, part))
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        assert one.tobytes() == two.tobytes()
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED"):
            assert one.flags[flag] == two.flags[flag], flag
    else:
        assert one == two


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
    second, third = GENERATED[name](), GENERATED[name]()
    assert "read" in caplog.text and "generated" not in caplog.text
    for other in (first, second, third):
        assert_same_bits(plain, other)


def test_arrays_in_any_order_are_read_as_they_were(place):
    class Orders(NamedTuple):
        rows: np.ndarray
        columns: np.ndarray
        empty: np.ndarray
        names: np.ndarray

    table = np.arange(12.0).reshape(3, 4)
    orders = Orders(table, np.asfortranarray(table), np.empty((0, 3)), np.array(["a", "bc"]))
    get = store.stored(Orders)(lambda n: orders)
    get(1)
    assert get(1) is not orders
    assert_same_bits(orders, get(1))


def test_what_takes_no_time_is_not_kept(place, monkeypatch):
    monkeypatch.setattr(store, "WORTH", 60.0)
    counted = Counted()
    counted.get(5)
    counted.get(5)
    assert counted.calls == 2
    assert list(place.iterdir()) == []


# Keys -------------------------------------------------------------------------------------

def test_every_argument_but_progress_makes_other_data(place):
    counted = Counted()
    for _ in range(2):
        for arguments in ((5,), (6,), (5, 1)):
            counted.get(*arguments)
        counted.get(n=np.int64(5), seed=0, progress=True)
    assert counted.calls == 3
    assert len(entries(place)) == 3


def test_arrays_count_by_their_content(place):
    calls = []

    @store.stored(Pair)
    def doubled(values, scale=1.0):
        calls.append(1)
        return Pair(2 * np.multiply(scale, values), "")

    values = np.arange(6.0).reshape(2, 3)
    assert_same_bits(doubled(values), doubled(values.copy()))
    doubled(np.asfortranarray(values))
    assert len(calls) == 1
    for other in (values + 1, values.astype(np.float32), values.reshape(3, 2)):
        doubled(other)
    assert len(calls) == 4
    doubled(values, scale=[1.0])  # a list has no name
    doubled(values, scale=[1.0])
    assert len(calls) == 6


def test_wrong_arguments_are_refused_as_without_a_store(place):
    data.factorized(60, 20, 5, seed=1)
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got True"):
        data.factorized(60, 20, 5, seed=True)
    with pytest.raises(ValueError, match="source must be one of"):
        data.load_metric_learning("nowhere")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        data.factorized(60, 20, 5, depth=1)
    assert not list(place.glob("*.lock"))


def test_an_edit_of_what_generates_makes_other_data(tmp_path, monkeypatch):
    copy = tmp_path / "benchmark_dspdc"
    shutil.copytree(REPO / "benchmark_dspdc", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "PACKAGE", copy)
    monkeypatch.setattr(store, "PACKAGE", copy)
    seen = [store._sources.__wrapped__()]
    for name in ("cli.py", "data/matrix.py", "engine/symmetric.py"):
        with copy.joinpath(name).open("a") as file:
            file.write("# edited\n")
        seen.append(store._sources.__wrapped__())
    assert seen[0] == seen[1] != seen[2] != seen[3]


def test_all_sources_that_data_are_made_of_are_known():
    package = REPO / "benchmark_dspdc"
    known = {package / name for name in store.OTHER_SOURCES}
    for file in [*package.glob("data/*.py"), *known]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = file.parents[node.level - 1] / f"{node.module.replace('.', '/')}.py"
                if module.parent != package / "data":
                    assert module in known, (file, node.module)


def test_a_replaced_libsvm_file_is_another_source(place, home, tmp_path, caplog):
    lines = [f"{i % 4} 1:{i / 7} 2:{(i * i) % 11}\n" for i in range(80)]
    path = tmp_path / "letter.txt"

    def load():
        path.write_text("".join(lines))
        libsvm.import_file("letter", path, n_features=2)
        return data.load_metric_learning("letter", d=2)

    assert libsvm.version("letter") is None
    first = load()
    assert_same_bits(first, data.load_metric_learning("letter", d=2))
    lines = [line.replace("1:", "1:1") for line in lines]
    assert load().points.tobytes() != first.points.tobytes()
    assert len(entries(place)) == 2


@pytest.mark.parametrize("reduction", data.REDUCTIONS)
def test_reductions_of_a_libsvm_file_are_computed_once(place, home, tmp_path, caplog, reduction):
    def put(name, factor):
        text = "".join(
            f"{(-1) ** i} 1:{factor * (i % 7)} 2:{i % 5} 3:{i * i % 11}\n" for i in range(40)
        )
        (tmp_path / "file").write_text(text)
        libsvm.import_file(name, tmp_path / "file", n_features=3)

    def load():
        caplog.clear()
        return data.load_reduced("own", reduction, 3, 0, scale="maxabs")

    caplog.set_level(logging.INFO, store.__name__)
    put("own", 1)
    without = load()
    assert without.A_test is without.b_test is None
    put("own_test", 1)
    first = load()
    assert "generated" in caplog.text
    again = load()
    assert "read" in caplog.text and "generated" not in caplog.text
    assert_same_bits(first, again)
    # What it was, computed by hand.
    plain = data.load_libsvm("own", scale="maxabs")
    expected = data.reduce(plain.X, reduction, 3, 0)
    assert_same_bits((expected.U, expected.V, plain.b), tuple(again[:3]))
    assert_same_bits(expected.transform(plain.X_test), again.A_test)
    put("own", 2)
    load()
    assert "generated" in caplog.text


def test_a_reduction_is_not_kept_while_its_test_part_may_be_downloaded(place, home, tmp_path):
    (tmp_path / "file").write_text("".join(f"{(-1) ** i} 1:{i} 2:1\n" for i in range(9)))
    libsvm.import_file("a9a", tmp_path / "file")
    with pytest.warns(UserWarning, match="without its test part"):
        data.load_reduced("a9a", "svd", 2, 0)
    assert entries(place) == []


# Faults -----------------------------------------------------------------------------------

def truncate(file):
    os.truncate(file, file.stat().st_size - 8)


def flip(file):
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def other_shape(file):
    np.save(file, np.load(file).reshape(2, -1))


def huge(file):
    content = file.read_bytes()
    small, large = b"(1000,), }          ", b"(10000000000000,), }"
    assert small in content
    file.write_bytes(content.replace(small, large))


def pickled(file):
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize("damage", [
    truncate, flip, other_shape, huge, pickled, os.unlink, lambda file: file.write_bytes(b""),
])
def test_damaged_arrays_are_generated_anew(damage, place):
    counted = Counted()
    first = counted.get(1000)
    folder, = entries(place)
    damage(folder / "numbers.npy")
    assert_same_bits(first, counted.get(1000))
    assert counted.calls == 2
    assert_same_bits(first, counted.get(1000))
    assert counted.calls == 2
    assert entries(place) == [folder]


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null"])
def test_damaged_fields_are_generated_anew(text, place):
    counted = Counted()
    counted.get(10)
    fields = entries(place)[0] / "fields.json"
    inner, expected = json.loads(fields.read_text())
    for damaged in (text, json.dumps([inner.replace("seed 0", "seed 1"), expected])):
        fields.write_text(damaged)
        before = counted.calls
        assert counted.get(10).note == "seed 0"
        assert counted.calls == before + 1


class Matrix(NamedTuple):
    A: sparse.csr_array


@pytest.mark.parametrize("part, entry", [
    ("indices", 10**6), ("indices", 3), ("indices", -1), ("indptr", 3),
])
def test_a_matrix_with_indices_out_of_range_is_generated_anew(place, part, entry):
    """Although its sums are those of what is there."""
    calls = []

    @store.stored(Matrix)
    def diagonal(n):
        calls.append(n)
        return Matrix(sparse.csr_array(np.eye(n)))

    first = diagonal(3)
    folder, = entries(place)
    found = diagonal(3)
    assert len(calls) == 1
    getattr(found.A, part)[1] = entry
    store._write(folder, found)
    assert_same_bits(first, diagonal(3))
    assert_same_bits(first, diagonal(3))
    assert len(calls) == 2


def test_a_full_disk_leaves_data_in_memory_and_one_warning(place):
    counted = Counted()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.warns(RuntimeWarning, match="data cannot be kept in .* 496 written") as caught:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            first, second = counted.get(100000), counted.get(100000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert len(caught) == 1
    assert_same_bits(first, second)
    assert counted.calls == 2
    assert list(place.iterdir()) == []


def test_a_disk_is_not_filled_to_the_brim(place, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.warns(RuntimeWarning, match="the disk is nearly full"):
        Counted().get(1000)
    assert list(place.iterdir()) == []


def test_a_home_that_cannot_be_written_leaves_data_in_memory_and_one_warning(place):
    place.parent.write_text("not a directory")
    counted = Counted()
    with pytest.warns(RuntimeWarning, match="data cannot be kept") as caught:
        counted.get(5)
        counted.get(5)
    assert len(caught) == 1
    assert counted.calls == 2


def test_errors_of_a_function_are_its_own(place):
    @store.stored(Pair)
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
        for k, folder in enumerate(sorted(entries(place), key=lambda f: f.stat().st_mtime_ns)):
            os.utime(folder, (k, k))
    counted.get(1000, 0)  # now the last used
    counted.get(1000, 3)
    assert counted.calls == 4
    counted.get(1000, 0)
    assert counted.calls == 4
    counted.get(1000, 1)
    assert counted.calls == 5
    assert len(entries(place)) == 3


def test_what_is_too_large_is_not_kept_and_told_once(place, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, "0.00003")
    with pytest.warns(RuntimeWarning, match="has 1.6e-05 GB, allowed for one are 1.5e-05") as told:
        Counted().get(2000)
        Counted().get(2001)
    assert len(told) == 1
    assert list(place.iterdir()) == []
    assert 1.7e9 < store.LARGEST_PART * store.LIMIT_GB * 1e9  # matrix risk of the paper fits


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "much", ""])
def test_a_wrong_limit_is_named(value, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, value)
    with pytest.raises(ValueError, match=f"{store.VARIABLE} must be a finite number >= 0"):
        Counted().get(5)


def test_what_killed_processes_left_is_removed_after_a_day(place):
    place.mkdir(parents=True)
    for name in (".writing-old", ".removed-old", ".writing-new"):
        place.joinpath(name).mkdir()
    for name in (".writing-old", ".removed-old"):
        os.utime(place / name, (time.time() - 90000,) * 2)
    Counted().get(5)
    assert [folder.name for folder in place.glob(".*")] == [".writing-new"]


# Processes --------------------------------------------------------------------------------

SCRIPT = """
import logging, sys, time
from typing import NamedTuple
import numpy as np
from benchmark_dspdc.data.store import stored

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")

class Result(NamedTuple):
    numbers: np.ndarray

@stored(Result)
def slow(n):
    print("begun", flush=True)
    time.sleep(float(sys.argv[1]))
    return Result(np.arange(float(n)))

print("ready", flush=True)
sys.stdin.readline()
print(slow(1000).numbers.sum(), flush=True)
"""


def start(*seconds):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(number)], cwd=REPO, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for number in seconds
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    return processes


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def test_processes_that_begin_at_once_generate_once(place):
    processes = start(0.5, 0.5)
    for process in processes:
        go(process)
    shown = [process.communicate(timeout=60)[0] for process in processes]
    assert all("499500.0" in text for text in shown)
    assert sum("generated" in text for text in shown) == 1
    assert sum("read" in text for text in shown) == 1
    assert list(place.iterdir()) == entries(place)


def test_a_process_killed_while_it_generates_holds_up_nobody(place):
    killed, other = start(600, 0.2)
    go(killed)
    assert killed.stdout.readline() == "begun\n"
    go(other)
    time.sleep(0.3)  # it waits by now
    killed.send_signal(signal.SIGKILL)
    shown = other.communicate(timeout=60)[0]
    killed.communicate()
    assert "generated" in shown and "499500.0" in shown
    assert len(entries(place)) == 1


def test_who_has_waited_too_long_generates_too(place, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 0.2)
    counted = Counted()
    counted.get(5)
    folder, = entries(place)
    shutil.rmtree(folder)
    with store.FileLock(folder.with_suffix(".lock")):
        # Another thread, as one that waited for itself would be told so at once.
        with (pytest.warns(RuntimeWarning, match="could not be acquired"),
              ThreadPoolExecutor(1) as pool):
            pool.submit(counted.get, 5).result()
    assert counted.calls == 2

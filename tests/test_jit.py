import functools
import os
import resource
import subprocess
import sys
from typing import NamedTuple

import pytest
from conftest import REPO, copy_of_benchmark

from benchmark_dspdc.bench import benchopt_process
from benchmark_dspdc.engine import kernel_cache as jit
from benchmark_dspdc.engine.dispatch import generic
from benchmark_dspdc.engine.kernel_cache import njit


class Metre(NamedTuple):
    value: float


class Foot(NamedTuple):
    value: float


@generic
def in_metres(length, count):
    """A length, count times."""


@in_metres.register(Metre)
def metres_in_metres(length, count):
    return length.value * count


@in_metres.register(Foot)
def feet_in_metres(length, count):
    return 0.3048 * length.value * count


@njit(cache=False)
def twice(length):
    return in_metres(length, 2)


def test_generic_functions_choose_their_body_by_type_in_python_and_compiled():
    assert in_metres(Metre(3.0), 2) == twice(Metre(3.0)) == 6.0
    assert in_metres(Foot(10.0), 2) == twice(Foot(10.0)) == pytest.approx(6.096)


def test_kernels_contain_no_reference_counting():
    twice(Metre(1.0))
    assert "NRT_incref" not in next(iter(twice.inspect_llvm().values()))


# Two hashes ---------------------------------------------------------------------------

#: Rooms and modules by what their changes are other ones of.
KERNELS_AND_CURVES = {"engine", "operators", "model", "state", "methods"}
CURVES = {"theory", "data", "solver.py", "problems.py", "sklearn.py", "bench/plugins.py",
          "bench/peers.py", "bench/tasks.py", "bench/machine_speed.py"}
NEITHER = {"bench/paper_run.py", "bench/predicted_table.py", "report", "guard", "cli.py",
           "comparing.py", "result.py", "__init__.py", "__main__.py", "version.py"}


def test_a_change_invalidates_kernels_and_curves_that_depend_on_it_alone(tmp_path, monkeypatch):
    copy = copy_of_benchmark(tmp_path, "benchmark_dspdc") / "benchmark_dspdc"
    monkeypatch.setattr(jit, "PACKAGE", copy)

    def hashes():
        return [jit.source_hash(jit.sources(names))
                for names in (jit.KERNEL_SOURCES, benchopt_process.CURVE_SOURCES)]

    before = hashes()
    assert before == [jit.KERNEL_HASH, benchopt_process.CURVE_HASH]
    every = KERNELS_AND_CURVES | CURVES | NEITHER
    assert {file.name for file in copy.iterdir()} == {room.partition("/")[0] for room in every}
    for room in every:
        file = copy / room if room.endswith(".py") else max(copy.joinpath(room).rglob("*.py"))
        source = file.read_bytes()
        file.write_bytes(source + b"#")
        changed = tuple(new != old for new, old in zip(hashes(), before, strict=True))
        assert changed == (room in KERNELS_AND_CURVES, room not in NEITHER), file
        file.write_bytes(source)
    # Also that of a file's name.
    (copy / "model" / "gradient.py").rename(copy / "model" / "other.py")
    assert not set(hashes()) & set(before)


def test_no_kernel_is_in_a_room_that_no_hash_knows():
    """Those of data and bench inline nothing of each other; their own file is in their name."""
    for file in (REPO / "benchmark_dspdc").rglob("*.py"):
        room = file.relative_to(REPO / "benchmark_dspdc").parts[0]
        if room not in (*jit.KERNEL_SOURCES, "data", "bench"):
            assert "njit" not in file.read_text(), file


SCRIPT = """
import numpy as np
from benchmark_dspdc.engine import kernel_cache
from benchmark_dspdc.engine.symmetric import pack
print(pack(np.eye(2)[None]).sum(), *kernel_cache.CACHE_DIRECTORY.glob("*.nbc"))
"""


def test_equal_sources_share_kernels_wherever_they_are(tmp_path):
    def run(place, edited=None):
        copy = copy_of_benchmark(tmp_path / place, "benchmark_dspdc") / "benchmark_dspdc"
        if edited is not None:
            copy.joinpath(edited).write_text(copy.joinpath(edited).read_text() + "#")
        env = os.environ | {"BENCHMARK_DSPDC_CACHE": str(tmp_path / "cache"), "PYTHONPATH": "."}
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=copy.parent,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {name: os.stat(name).st_mtime_ns for name in done.stdout.split()[1:]}

    first = run("one")
    assert len(first) >= 1
    assert run("two", edited="report/page.py") == first
    assert not set(run("three", edited="operators/dense.py")) & set(first)


# The cache of kernels -----------------------------------------------------------------

@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of kernels, and no word yet of what is not kept."""
    monkeypatch.setattr(jit, "CACHE_DIRECTORY", tmp_path / "kernels")
    monkeypatch.setattr(jit, "_not_kept", functools.cache(jit._not_kept.__wrapped__))
    (tmp_path / "kernels").mkdir()
    return tmp_path / "kernels"


def plus(number):
    """A kernel as another process would compile it, with nothing but the cache."""
    def kernel(x):
        return x + number
    return njit(kernel)


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def test_each_signature_and_each_closure_has_a_file_of_its_own(cache, recwarn):
    for _ in range(2):
        one, two = plus(1.0), plus(2.0)
        assert one(1.0) == 2.0 and one(1) == 2.0 and two(1.0) == 3.0
    assert hits(one) == 2 and hits(two) == 1
    assert len([*cache.iterdir()]) == 3
    assert not recwarn.list


def test_types_of_one_name_have_kernels_of_their_own(cache):
    def kernel(length):
        return length.value

    for _ in range(2):
        class Length(NamedTuple):
            value: float
        compiled = njit(kernel)
        assert compiled(Length(1.0)) == 1.0 and hits(compiled) == 0


def cut(content):
    return content[:len(content) // 2]


@pytest.mark.parametrize("damage", [cut, lambda content: b"", lambda content: b"garbage" * 99])
def test_a_damaged_kernel_is_compiled_anew_and_mended(cache, recwarn, damage):
    assert plus(1.0)(1.0) == 2.0
    (file,) = cache.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(RuntimeWarning, match="is damaged .*; compiling anew"):
        assert plus(1.0)(1.0) == 2.0
    again = plus(1.0)
    recwarn.clear()
    assert again(1.0) == 2.0 and hits(again) == 1 and not recwarn.list


def test_where_kernels_cannot_be_written_that_is_told_once_and_nothing_stops(cache, tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.warns(RuntimeWarning) as told:
            assert plus(1.0)(1.0) == 2.0 and plus(2.0)(2.0) == 4.0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    (warning,) = told
    assert str(warning.message).endswith(f"not kept in {cache}: File too large")
    # Nor is half of one left, or put elsewhere.
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_kernel_that_is_in_no_file_is_compiled_without_a_word(cache, recwarn):
    space = {"njit": njit}
    exec("@njit\ndef kernel(x):\n    return x + 1.0\n", space)
    assert space["kernel"](1.0) == 2.0
    assert not recwarn.list and not [*cache.iterdir()]


def test_old_cache_versions_are_forgotten(tmp_path):
    for k in range(9):
        (tmp_path / f"numba-{k}").mkdir()
        os.utime(tmp_path / f"numba-{k}", (k, k))
    (tmp_path / "something else").mkdir()
    # The oldest is the one in use.
    jit._forget_old_versions(tmp_path / "numba-0")
    left = sorted(d.name for d in tmp_path.iterdir())
    assert left == ["numba-0", "numba-5", "numba-6", "numba-7", "numba-8", "something else"]


@pytest.mark.parametrize("fallback", [True, False])
def test_a_home_that_cannot_be_written_gets_a_cache_elsewhere_or_none(
        tmp_path, monkeypatch, capsys, fallback):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("BENCHMARK_DSPDC_CACHE", str(blocked))
    monkeypatch.setattr(jit, "fallback_home", lambda: tmp_path if fallback else blocked)
    directory = jit._cache_directory()
    where = f"go to {directory}" if fallback else "are not kept"
    assert capsys.readouterr().err == (
        f"benchmark_dspdc: {blocked} cannot be written; compiled kernels {where}\n"
    )
    monkeypatch.setattr(jit, "CACHE_DIRECTORY", directory)
    assert plus(1.0)(1.0) == 2.0
    assert len([*tmp_path.rglob("*.nbc")]) == fallback

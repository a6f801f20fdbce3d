import errno
import fcntl
import functools
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import filelock
import pytest
from conftest import REPO

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
def _(length, count):
    return length.value * count


@in_metres.register(Foot)
def _(length, count):
    return 0.3048 * length.value * count


class Chain:
    value = 20.1168


@in_metres.register(Chain)
def _(length, count):
    return length.value * count


@njit(cache=False)
def twice(length):
    return in_metres(length, 2)


def test_generic_functions_choose_their_body_by_type_in_python_and_compiled():
    assert in_metres(Metre(3.0), 2) == twice(Metre(3.0)) == 6.0
    assert in_metres(Foot(10.0), 2) == twice(Foot(10.0)) == pytest.approx(6.096)
    assert in_metres(Chain(), 2) == pytest.approx(40.2336)


def test_a_type_without_a_body_is_named():
    with pytest.raises(TypeError, match="in_metres is not defined for float; it is for Chain"):
        in_metres(3.0, 2)


def test_kernels_contain_no_reference_counting():
    twice(Metre(1.0))
    assert "NRT_incref" not in next(iter(twice.inspect_llvm().values()))


SCRIPT = """
import numpy as np
from benchmark_dspdc import erm, solve
result = solve(erm(np.eye(3), np.ones(3), "square", 0.0, 1.0), "fista", tol=1e-12)
print(result.x[0])
"""


def test_an_edited_overload_in_another_file_is_never_served_from_the_cache(tmp_path):
    copy = tmp_path / "benchmark_dspdc"
    shutil.copytree(REPO / "benchmark_dspdc", copy, ignore=shutil.ignore_patterns("__pycache__"))
    env = os.environ | {"BENCHMARK_DSPDC_CACHE": str(tmp_path / "cache"), "PYTHONPATH": "."}

    def run():
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    # min (1/3) sum (x_i - 1)^2/2 + x^2/2 has x = 1/4.
    assert run() == pytest.approx(0.25)
    losses = copy / "model" / "losses.py"
    source = losses.read_text()
    # Another target, in an overload that the cached kernel has inlined.
    changed = source.replace("return (z - b + rho * y) / (1.0 + rho)",
                             "return (z - 2.0 * b + rho * y) / (1.0 + rho)")
    changed = changed.replace("return 0.5 * (z - b) * (z - b)",
                              "return 0.5 * (z - 2.0 * b) * (z - 2.0 * b)")
    changed = changed.replace("return 0.5 * beta * beta + b * beta",
                              "return 0.5 * beta * beta + 2.0 * b * beta")
    changed = changed.replace("return z - b\n", "return z - 2.0 * b\n")
    assert changed != source
    losses.write_text(changed)
    assert run() == pytest.approx(0.5)
    assert len(list((tmp_path / "cache").glob("numba-*"))) == 2


def test_a_change_of_any_file_of_the_package_is_another_version(tmp_path, monkeypatch):
    copy = tmp_path / "benchmark_dspdc"
    shutil.copytree(REPO / "benchmark_dspdc", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "PACKAGE", copy)
    assert jit.source_hash() == jit.SOURCE_HASH
    seen = {jit.SOURCE_HASH}
    for file in copy.rglob("*.py"):
        source = file.read_bytes()
        file.write_bytes(source + b"#")
        assert jit.source_hash() not in seen, file
        seen.add(jit.source_hash())
        file.write_bytes(source)
    # Also that of a file's name.
    (copy / "cli.py").rename(copy / "other.py")
    assert jit.source_hash() not in seen


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of kernels, and no word yet of what is not kept."""
    monkeypatch.setattr(jit, "CACHE_DIRECTORY", tmp_path / "kernels")
    monkeypatch.setattr(jit, "_not_kept", functools.cache(jit._not_kept.__wrapped__))
    (tmp_path / "kernels").mkdir()
    return tmp_path / "kernels"


def plus(number):
    """A kernel as another process would compile it, with that process's view of the cache."""
    def kernel(x):
        return x + number
    return njit(kernel)


def files(cache, suffix):
    return sorted(file.name for file in cache.rglob(f"*{suffix}"))


def test_kernels_saved_after_an_index_was_emptied_take_no_file_of_others(cache):
    """What a process that has read the old index reads next is still its own kernel."""
    one, two = plus(1.0), plus(1.0)
    assert one(1.0) == 2.0
    (first,) = files(cache, ".nbc")
    content = next(cache.rglob(first)).read_bytes()
    one._cache.flush()
    assert two(1) == 2.0
    assert len(files(cache, ".nbc")) == 2
    assert next(cache.rglob(first)).read_bytes() == content


def test_a_lock_that_another_process_holds_for_long_holds_up_nobody(cache, monkeypatch, recwarn):
    monkeypatch.setattr(jit, "LOCK_SECONDS", 0.1)
    with filelock.FileLock(cache / "lock"):
        assert plus(1.0)(1.0) == 2.0
    assert len(files(cache, ".nbc")) == len(files(cache, ".nbi")) == 1
    assert not recwarn.list
    # And it was let go of.
    with filelock.FileLock(cache / "lock", timeout=0):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_kernels_are_kept_all_the_same(cache, monkeypatch, recwarn,
                                                                number):
    def flock(*arguments):
        raise OSError(number, os.strerror(number))
    monkeypatch.setattr(fcntl, "flock", flock)
    assert plus(1.0)(1.0) == 2.0
    again = plus(1.0)
    assert again(1.0) == 2.0 and sum(again.stats.cache_hits.values()) == 1
    assert not recwarn.list


def test_an_index_that_is_damaged_and_cannot_be_mended_stops_no_run(cache, monkeypatch):
    one = plus(1.0)
    assert one(1.0) == 2.0
    next(cache.rglob("*.nbi")).write_bytes(b"garbage")

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(jit._KernelCache, "flush", full)
    with pytest.warns(RuntimeWarning) as told:
        assert plus(1.0)(1.0) == 2.0
        assert plus(1.0)(2.0) == 3.0
    words = [str(warning.message) for warning in told]
    assert sum("is damaged" in word for word in words) == 2
    assert sum("are not kept" in word for word in words) == 1


@pytest.mark.parametrize("suffix", [".nbc", ".nbi"])
def test_a_single_changed_bit_in_a_cache_is_seen(cache, recwarn, suffix):
    assert plus(1.0)(1.0) == 2.0
    (file,) = cache.rglob(f"*{suffix}")
    whole = file.read_bytes()
    # The first byte, some in between, and the last one, of the sum itself.
    for place in (*range(0, len(whole), len(whole) // 20), len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 1
        file.write_bytes(changed)
        reader = plus(1.0)._cache._cache_file
        with pytest.raises(ValueError, match="has not the sum that was written"):
            reader._load_index() if suffix == ".nbi" else reader._load_data(file.name)
    file.write_bytes(whole)
    again = plus(1.0)
    assert again(1.0) == 2.0 and sum(again.stats.cache_hits.values()) == 1
    assert not recwarn.list


def test_a_kernel_that_is_in_no_file_is_compiled_without_a_word(cache, recwarn):
    space = {"njit": njit}
    exec("@njit\ndef kernel(x):\n    return x + 1.0\n", space)
    assert space["kernel"](1.0) == 2.0
    assert not recwarn.list and not files(cache, ".nbc")


def test_old_cache_versions_are_forgotten(tmp_path, monkeypatch):
    for k in range(9):
        (tmp_path / f"numba-{k}").mkdir()
        os.utime(tmp_path / f"numba-{k}", (k, k))
    (tmp_path / "something else").mkdir()
    jit._forget_old_versions(tmp_path)
    left = sorted(d.name for d in tmp_path.iterdir())
    assert left == ["numba-5", "numba-6", "numba-7", "numba-8", "something else"]


def test_a_home_that_cannot_be_written_gets_a_cache_elsewhere(tmp_path, monkeypatch, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("BENCHMARK_DSPDC_CACHE", str(blocked))
    directory = jit._cache_directory()
    assert directory.is_dir()
    assert blocked not in directory.parents
    told = f"benchmark_dspdc: {blocked} cannot be written; compiled kernels go to {directory}\n"
    assert capsys.readouterr().err == told


def test_where_no_folder_can_be_written_kernels_are_not_kept(tmp_path, monkeypatch, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("BENCHMARK_DSPDC_CACHE", str(blocked))
    monkeypatch.setattr(jit, "fallback_home", lambda: blocked)
    monkeypatch.setattr(jit, "CACHE_DIRECTORY", jit._cache_directory())
    assert "cannot be written; compiled kernels are not kept" in capsys.readouterr().err
    compiled = njit(lambda x: x + 1.0)
    assert compiled(1.0) == 2.0 and compiled._cache.cache_path is None

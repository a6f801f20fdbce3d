"""Generated data on disk, so that each machine generates them once and not once a task.

benchopt sends a worker the name of a data set, not the data, and a worker makes them anew for each
curve. A function that is `stored` keeps its result in a folder under the cache home,
``data/<function>-<key>``: an .npy file for each array and ``fields.json``. The key is a hash of
the arguments, of the sources that generate data, and of the releases of the packages that they
use, so no edit can leave old data in use.

A folder appears by a rename, complete or not at all, and all it has is checked by sums when it is
read: what is damaged is generated anew. Arrays are read into memory rather than mapped, so that a
method runs at the same speed on data that were read and on data that were generated.
"""

import contextlib
import functools
import hashlib
import inspect
import json
import logging
import os
import shutil
import time
import uuid
import warnings
import zlib
from importlib.metadata import version as release
from numbers import Integral, Real

import numpy as np
from filelock import FileLock
from scipy import sparse

from ..engine.cache_dirs import cache_home
from ..engine.kernel_cache import PACKAGE, source_hash

__all__ = ["stored"]

logger = logging.getLogger(__name__)

#: How many GB the store may take, if not `LIMIT_GB`. 0 is no store.
VARIABLE = "BENCHMARK_DSPDC_STORE_GB"

#: Room for the paper's largest data, 1.6 GB of matrix risk, twice.
LIMIT_GB = 4.0

#: Nothing larger than this part of the limit is kept: it would push all else out.
LARGEST_PART = 0.5

#: What takes fewer seconds to generate is not kept.
WORTH = 0.1

#: How many seconds to wait for another process that generates the same, before doing it too.
PATIENCE = 900.0

#: Files outside of this folder that decide what is generated here.
OTHER_SOURCES = tuple(
    f"engine/{name}.py"
    for name in (
        "cache_dirs", "checks", "dispatch", "kernel_cache", "progress", "symmetric", "threads",
    )
)

#: Arguments that do not change a result.
NO_MATTER = ("progress",)


def stored(result, version=None):
    """Decorator: keep what a function returns on disk.

    Parameters
    ----------
    result : type
        The NamedTuple that the function returns; its fields are arrays, CSR arrays, numbers,
        strings or None.
    version : callable, optional
        What the result depends on beside the arguments, as a string, from the first argument;
        None if that cannot be told, and then nothing is stored.
    """
    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            generate = functools.partial(function, *args, **kwargs)
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError:
                return generate()  # it says itself what is wrong
            given.apply_defaults()
            key = _key(function, given.arguments, version) if limit() > 0 else None
            if key is None:
                return generate()
            folder = cache_home() / "data" / f"{function.__name__.strip('_')}-{key}"
            found = _read(folder, result)
            return _once(folder, result, generate) if found is None else found
        return call
    return decorate


def limit():
    """Bytes that the store may take."""
    given = os.environ.get(VARIABLE, str(LIMIT_GB))
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"{VARIABLE} must be a finite number >= 0, got {given!r}")
    return number * 1e9


# Keys ---------------------------------------------------------------------------------

@functools.cache
def _sources():
    files = [*PACKAGE.joinpath("data").glob("*.py"), *(PACKAGE / name for name in OTHER_SOURCES)]
    packages = ("numpy", "scipy", "scikit-learn")
    return [source_hash(files), *(f"{name} {release(name)}" for name in packages)]


def _key(function, arguments, version):
    """A short name of a call, None if it has arguments of a kind that cannot be named."""
    first = next(iter(arguments.values()))
    try:
        parts = {name: _named(x) for name, x in arguments.items() if name not in NO_MATTER}
        parts["version"] = "" if version is None else version(first)
    except TypeError:
        return None
    if parts["version"] is None:
        return None
    text = json.dumps([function.__module__, function.__name__, _sources(), parts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named(value):
    """An argument as JSON has it; of an array its content counts."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUS":
        return [value.dtype.str, *value.shape, hashlib.sha256(_bytes(value, "C")).hexdigest()]
    raise TypeError(type(value).__name__)


# Generating once -----------------------------------------------------------------------

def _once(folder, result, generate):
    """Generate and keep, or read what another process has generated meanwhile."""
    # The lock is the kernel's and ends with the process, however that ends.
    lock = FileLock(folder.with_suffix(".lock"), timeout=PATIENCE, fallback_to_soft=False)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:  # a timeout is one, too
        _warn(folder.parent, error)
        return generate()
    try:
        found = _read(folder, result)
        if found is None:
            begun = time.perf_counter()
            found = generate()
            seconds = time.perf_counter() - begun
            logger.info("generated %s in %.2f s", folder.name, seconds)
            if seconds >= WORTH:
                _keep(folder, found)
        return found
    finally:
        # Who waits for a file that is gone begins anew with a new one.
        with contextlib.suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


def _keep(folder, found):
    """Write a result, unless it is too large."""
    size = sum(array.nbytes for array in _arrays(found).values())
    home, most = folder.parent, LARGEST_PART * limit()
    if size > most:
        _warn(home, f"{folder.name} has {size / 1e9:.2g} GB, allowed for one are "
                    f"{most / 1e9:.2g}, half of {VARIABLE}")
        return
    scratch = None
    try:
        _make_room(home, size)
        if shutil.disk_usage(home).free < 2 * size:
            raise OSError("the disk is nearly full")
        scratch = home / f".writing-{uuid.uuid4().hex}"
        scratch.mkdir()
        _write(scratch, found)
        _remove(folder)  # if it is there, it is damaged
        os.rename(scratch, folder)
    except OSError as error:
        _warn(home, error)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)  # what was not renamed


_warned = False


def _warn(home, error):
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"data cannot be kept in {home} and are generated in memory each time: {error}. "
            f"{VARIABLE}=0 turns this off.", RuntimeWarning, stacklevel=5,
        )


def _make_room(home, size):
    """Remove what was used least recently, and what killed processes left a day ago."""
    for leftover in (*home.glob(".writing-*"), *home.glob(".removed-*")):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > 86400:
                shutil.rmtree(leftover, ignore_errors=True)
    entries = []
    for fields in home.glob("*/fields.json"):
        # Other processes remove, too.
        with contextlib.suppress(FileNotFoundError):
            taken = sum(file.stat().st_size for file in fields.parent.iterdir())
            entries.append((fields.parent.stat().st_mtime, taken, fields.parent))
    total = size + sum(taken for _, taken, _ in entries)
    for _, taken, folder in sorted(entries):
        if total <= limit():
            break
        _remove(folder)
        total -= taken


def _remove(folder):
    # All at once, so that nobody reads a part of it.
    gone = folder.parent / f".removed-{uuid.uuid4().hex}"
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)


# Files ---------------------------------------------------------------------------------

#: The arrays that a CSR array consists of.
CSR = ("data", "indices", "indptr")


def _arrays(found):
    """The arrays of a result by the names of their files."""
    arrays = {}
    for name, value in found._asdict().items():
        if sparse.issparse(value):
            arrays |= {f"{name}.{part}": getattr(value, part) for part in CSR}
        elif isinstance(value, np.ndarray):
            # An .npy file has the rows or the columns in order, nothing else.
            arrays[name] = value if value.flags.forc else np.ascontiguousarray(value)
    return arrays


def _bytes(array, order):
    return np.ravel(array, order=order).view(np.uint8)


def _write(folder, found):
    arrays = _arrays(found)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    # Shapes of CSR arrays, and what is no array.
    rest = {
        name: list(value.shape) if sparse.issparse(value) else value
        for name, value in found._asdict().items() if name not in arrays
    }
    fields = {"rest": rest, "sums": {name: _sum(array) for name, array in arrays.items()}}
    text = json.dumps(fields)
    folder.joinpath("fields.json").write_text(json.dumps([text, zlib.crc32(text.encode())]))


def _read(folder, result):
    """What a folder has, None if there is none or it is damaged."""
    begun = time.perf_counter()
    try:
        text, expected = json.loads(folder.joinpath("fields.json").read_text())
        _agree(zlib.crc32(text.encode()), expected)
        fields = json.loads(text)
        arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False)
                  for name in fields["sums"]}
        for name, array in arrays.items():
            _agree(_sum(array), fields["sums"][name])
        values = {
            name: arrays[name] if name in arrays
            else _csr(name, arrays, fields["rest"][name]) if f"{name}.data" in arrays
            else fields["rest"][name]
            for name in result._fields
        }
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # whatever numpy makes of damaged files
        logger.warning("%s is generated anew: %s", folder, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(folder)  # used just now
    logger.info("read %s in %.2f s", folder.name, time.perf_counter() - begun)
    return result(**values)


def _csr(name, arrays, shape):
    parts = (arrays[f"{name}.{part}"] for part in CSR)
    matrix = sparse.csr_array(tuple(parts), shape=tuple(shape))
    # Sums tell what was written, not that it is a matrix: with an index out of range compiled
    # code would read and write outside of its arrays.
    matrix.check_format(full_check=True)
    return matrix


def _sum(array):
    """Checksum of an array's content, type, shape and order."""
    kind = f"{array.dtype.str} {array.shape} {array.flags.c_contiguous}"
    return zlib.crc32(_bytes(array, "K"), zlib.crc32(kind.encode()))


def _agree(found, expected):
    if found != expected:
        raise ValueError("its sums are not those that were written")

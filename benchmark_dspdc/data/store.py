"""Generated data on disk, so that each machine generates them once and not once a task.

benchopt sends a worker the name of a data set, not the data, and a worker makes them anew for each
curve. A function that is `stored` keeps its result in a file under the cache home,
``data/<function>-<key>.pkl``. The key is a hash of the arguments, of the sources that generate
data, and of the releases of the packages that they use, so no edit can leave old data in use.

A file appears by a rename, complete or not at all, and holds a checksum of its content: what is
damaged is generated anew. Arrays are read into memory rather than mapped, so that a method runs at
the same speed on data that were read and on data that were generated.
"""

import contextlib
import functools
import inspect
import logging
import os
import pickle
import time
import uuid
import warnings
from importlib.metadata import version as release
from pathlib import Path

from filelock import FileLock

from ..engine.cache_dirs import cache_home
from ..engine.kernel_cache import source_hash

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).resolve().parent.parent

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

#: Rooms whose sources decide what is generated.
ROOMS = ("data", "engine")


def stored(version=lambda argument: ""):
    """Decorator: keep what a function returns on disk.

    `version` gives, from the first argument, what the result depends on beside the arguments, as a
    string; None if that cannot be told, and then nothing is stored.
    """
    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **kwargs):
            try:
                file = _file_of(function, signature.bind(*args, **kwargs), version)
            except (TypeError, pickle.PicklingError):
                file = None  # of wrong arguments the function says itself what is wrong
            if file is None:
                return function(*args, **kwargs)
            found = _read(file)
            return _once(file, function, args, kwargs) if found is None else found
        return call
    return decorate


def limit():
    """Bytes that the store may take."""
    given = os.environ.get(VARIABLE, str(LIMIT_GB))
    with contextlib.suppress(ValueError):
        if 0 <= float(given) < float("inf"):
            return 1e9 * float(given)
    raise ValueError(f"{VARIABLE} must be a finite number >= 0, got {given!r}")


def _file_of(function, given, version):
    """Where a call's result is kept, None if it is not."""
    if limit() == 0:
        return None
    given.apply_defaults()
    stamp = version(next(iter(given.arguments.values())))
    if stamp is None:
        return None
    name = function.__name__.strip("_")
    key = _hash([function.__module__, name, given.arguments, _sources(), stamp])
    return cache_home() / "data" / f"{name}-{key}.pkl"


@functools.cache
def _sources():
    """What changes with the sources and the packages that data are made with."""
    files = [file for room in ROOMS for file in PACKAGE.joinpath(room).rglob("*.py")]
    return [source_hash(files), *map(release, ("numpy", "scipy", "scikit-learn"))]


def _hash(value):
    # It takes a tenth of a second to import, which not every user of the package needs.
    import joblib

    return joblib.hash(value, hash_name="sha1")


def _once(file, function, args, kwargs):
    """Generate and keep, or read what another process has generated meanwhile."""
    with contextlib.ExitStack() as held:
        # The lock is the kernel's and ends with the process, however that ends. Without one, as
        # on some file systems or after a long wait, the same is generated twice.
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = file.with_suffix(".lock")
            held.enter_context(FileLock(lock, timeout=PATIENCE, fallback_to_soft=False))
            held.callback(lock.unlink, missing_ok=True)
        found = _read(file)
        if found is None:
            begun = time.perf_counter()
            found = function(*args, **kwargs)
            seconds = time.perf_counter() - begun
            logger.info("generated %s in %.2f s", file.name, seconds)
            if seconds >= WORTH:
                _keep(file, found)
        return found


def _read(file):
    """What a file has, None if there is none or it is damaged."""
    import joblib

    begun = time.perf_counter()
    try:
        expected, found = joblib.load(file)
        if _hash(found) != expected:
            raise ValueError("it has not the checksum that was written")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # whatever unpickling makes of damaged files
        logger.warning("%s is generated anew: %s", file, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(file)  # used just now
    logger.info("read %s in %.2f s", file.name, time.perf_counter() - begun)
    return found


def _keep(file, found):
    """Write a result, and remove what was used least recently if there is too much."""
    import joblib

    scratch = file.with_name(f".{uuid.uuid4().hex}")
    try:
        joblib.dump((_hash(found), found), scratch)
        size, most = scratch.stat().st_size / 1e9, LARGEST_PART * limit() / 1e9
        if size > most:
            raise OSError(f"{file.name} has {size:.2g} GB, allowed for one are {most:.2g}, half "
                          f"of {VARIABLE}")
        scratch.replace(file)
        _make_room(file.parent)
    except OSError as error:
        # Always from the same line, so that it is told once.
        warnings.warn(
            f"data cannot be kept in {file.parent} and are generated in memory each time: "
            f"{error.strerror or error}. {VARIABLE}=0 turns this off.", RuntimeWarning,
            stacklevel=1,
        )
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


def _make_room(home):
    files = []
    for file in home.iterdir():
        # Other processes remove, too.
        with contextlib.suppress(FileNotFoundError):
            if file.is_file():
                files.append((file.stat().st_mtime, file.stat().st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= limit():
            break
        file.unlink(missing_ok=True)
        total -= size

"""Where files are kept that are not results: compiled kernels, curves, generated data."""

import functools
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def cache_home():
    """``$BENCHMARK_DSPDC_CACHE``, else the package's own folder in the user's cache directory."""
    if home := os.environ.get("BENCHMARK_DSPDC_CACHE"):
        return Path(home)
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "benchmark_dspdc"
    return Path.home() / ".cache" / "benchmark_dspdc"


@functools.cache
def fallback_home():
    """A folder of this user's that can be written where a home cannot.

    Compiled kernels are code, so a folder that others could have filled is not taken.
    """
    home = _usual_fallback()
    with suppress(OSError):
        home.mkdir(mode=0o700, exist_ok=True)
        if _is_own(home):
            return home
    return Path(tempfile.mkdtemp(prefix="benchmark_dspdc-"))


def has_fallback():
    """Whether `fallback_home` is there already, so that something may be in it."""
    return fallback_home.cache_info().currsize > 0 or _is_own(_usual_fallback())


def _usual_fallback():
    return Path(tempfile.gettempdir()) / f"benchmark_dspdc-{os.getuid()}"


def _is_own(folder):
    """Whether a folder is there that this user alone can write."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return own and not found.st_mode & 0o022


def is_writable(folder):
    """Whether files can be made in a folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A folder that exists may still not be writable, whatever its mode says.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def write_whole(file, content):
    """Write a file that is there as a whole or, where the disk is full, as before.

    The content is text or bytes. A link in its place is replaced; what it leads to stays as it is.
    """
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    # A name that nobody can foresee, and "x": no link that waits there is followed.
    scratch = file.with_name(f".{secrets.token_hex(8)}")
    try:
        with scratch.open("xb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        scratch.replace(file)
    finally:
        scratch.unlink(missing_ok=True)

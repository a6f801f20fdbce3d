"""LIBSVM data sets, from libsvmdata's cache, its downloads, or files that the user has.

The cache is that of libsvmdata: a directory ``libsvm`` with the files ``<name>_X.npz`` (CSC) or
``<name>_X.npy`` (dense, Fortran order) and ``<name>_y.npy``. What one package puts there the other
one finds. Only the directory and the file format are shared, not libsvmdata's search: that matches
file names with an unanchored regular expression and, when the number of matches is not two,
deletes them, so that asking for ``breast-cancer`` removes a cached ``duke breast-cancer``.
"""

import bz2
import contextlib
import difflib
import errno
import gzip
import io
import lzma
import math
import os
import re
import shutil
import tempfile
import time
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.progress import wrap_file
from scipy import sparse

from ..engine.cache_dirs import fallback_home, has_fallback, is_writable
from ..engine.checks import as_array, as_matrix, check_int, choose
from .labels import Labelled, binary_rule, guess_task
from .scaling import SPARSE_SCALES, scale_parts

__all__ = ["ImportSummary", "RawData", "data_home", "import_file", "is_cached", "load", "raw"]

NAME_PATTERN = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,127}")

# scikit-learn's parser keeps an index in a C int, and scipy's 32-bit matrices need one more.
MAX_INDEX = 2**31 - 2

# An import takes 12 bytes of memory for each feature, as the cached CSC form has a pointer for it.
# The widest LIBSVM sets have some fifty million features.
MAX_FEATURES = 2**28

# Without an explicit number up to this many features, or up to so many for each stored entry, are
# believed. Real sets have more entries than features.
BELIEVED_FEATURES = 2**20
FEATURES_PER_ENTRY = 100

# A compressed file may unpack to this many times what was read of it so far, and this many bytes
# more: LIBSVM text shrinks to a tenth or so, a decompression bomb is one in a thousand and less.
# `max_bytes` replaces the rule, for a user who knows the file. For a cached matrix it is the same,
# over all its arrays: a thousand ones shrink to nothing, but their indices do not. Matrices of
# ones were measured at 5 to 12 times their file, one-hot columns, sorted or not, among them.
MAX_RATIO = 100
RATIO_SLACK = 2**24

# Of the text if the user gives no other limit; the largest LIBSVM sets have some tens of them.
MAX_TEXT_BYTES = 64 * 2**30

# Room for ten million entries in a row; bounds the memory that a file without line ends, or one
# that decompresses to a single line, can take.
MAX_LINE_BYTES = 2**28

# Two processes that import the same name meet at most a few times; only a directory with foreign
# files in it stays in the way for longer.
COMMIT_ATTEMPTS = 100

MAGIC = (
    (b"BZh", "bzip2", bz2.open),
    (b"\x1f\x8b", "gzip", gzip.open),
    (b"\xfd7zXZ\x00", "xz", lzma.open),
)

#: Readers of numpy's headers, none of which can hold code.
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
}

NUMPY_PACKS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

DECOMPRESSION_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)

CACHE_ERRORS = (
    AttributeError, EOFError, IndexError, KeyError, OSError, TypeError, ValueError,
    MemoryError, OverflowError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error,
)


class RawData(NamedTuple):
    """A data set with its labels as they are in the source.

    Attributes
    ----------
    X : ndarray of shape (n, p) or scipy.sparse.csr_array
        Rows are samples, float64; C-contiguous if dense, sorted indices if sparse.
    y : ndarray of shape (n,)
        Class labels or targets, float64.
    """

    X: object
    y: np.ndarray


class ImportSummary(NamedTuple):
    """What `import_file` put into the cache; ``str()`` gives a text for the terminal.

    Attributes
    ----------
    name : str
        Name of the data set.
    shape : tuple of int
        Rows and features.
    stored : int
        Stored entries of the file, explicit zeros included.
    dense : bool
        Whether the matrix was saved dense.
    task : {"classification", "regression"}
        What `load` will take the labels for.
    labels : tuple of (float, int) pairs
        For classification the classes with their frequencies, for regression the smallest and
        the largest target with their frequencies.
    files : tuple of pathlib.Path
        The two files written.
    """

    name: str
    shape: tuple
    stored: int
    dense: bool
    task: str
    labels: tuple
    files: tuple

    def __str__(self):
        n, p = self.shape
        words = [f"{value:g}: {count}" for value, count in self.labels]
        if self.task == "regression":
            labels = f"targets from {self.labels[0][0]:g} to {self.labels[-1][0]:g}"
        elif len(words) > 10:
            labels = f"{len(words)} classes, {', '.join(words[:3])}, ..., {words[-1]}"
        else:
            labels = f"{len(words)} classes, {', '.join(words)}"
        kind = "dense" if self.dense else "sparse"
        return (
            f"{self.name}: {n} rows x {p} features, {self.stored} stored entries "
            f"({self.stored / (n * p):.3%}), saved {kind}\n"
            f"{self.task}: {labels}\n"
            + "\n".join(str(path) for path in self.files)
        )


def data_home():
    """Give the directory of the cache.

    Returns
    -------
    pathlib.Path
        The subdirectory ``libsvm`` of ``$LIBSVMDATA_HOME``, else of ``$XDG_DATA_HOME``, else of
        ``data`` in the home directory. It need not exist.

    Notes
    -----
    The rule is libsvmdata's, but the environment is read at every call; libsvmdata reads it once,
    when it is imported.
    """
    for variable in ("LIBSVMDATA_HOME", "XDG_DATA_HOME"):
        if variable in os.environ:
            return Path(os.environ[variable]) / "libsvm"
    return Path.home() / "data" / "libsvm"


def is_cached(name):
    """Tell whether a data set can be had without a download.

    Parameters
    ----------
    name : str
        Name of the data set.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If the name is not one a data set can have.
    """
    return _find(_check_name(name)) is not None


def version(name, test=False):
    """Tell which data set the cache has under a name.

    Parameters
    ----------
    name : str
        Name of the data set.
    test : bool, default=False
        Whether its test part belongs to it.

    Returns
    -------
    str or None
        Another one after the files were replaced; None if they are not there.
    """
    files = _find(_check_name(name))
    if files is not None and test:
        files += _find(f"{name}_test") or ()
    stamp = files and _stamp(files)
    return None if stamp is None else repr([data_home(), stamp])


def has_all_parts(name):
    """Tell whether a data set is in the cache, with its test part if libsvmdata lists one."""
    test = f"{name}_test"
    return is_cached(name) and (test not in _table() or is_cached(test))


class FromLibsvm:
    """Mixin of benchopt's data sets that are read from this cache.

    benchopt's cache knows a data set by its parameters. The files that were imported under the
    name in the parameter `named_by` belong to the key as well.
    """

    named_by = "name"

    def _get_state(self):
        return {"files": version(self._parameters[self.named_by], test=True)}

    def __setstate__(self, state):
        pass


def raw(name):
    """Load a data set with its labels as they are in the source.

    Parameters
    ----------
    name : str
        A name in the cache, or one of libsvmdata, which is then downloaded.

    Returns
    -------
    RawData

    Raises
    ------
    ValueError
        If the name is unknown, is that of a multilabel set, or its cached files are damaged.
    OSError
        If the data set must be downloaded and cannot be.
    """
    name = _check_name(name)
    dataset = _table().get(name)
    if dataset is not None and dataset.task_name == "multilabel":
        raise ValueError(
            f"dataset {name!r} is not supported: got a multilabel set, allowed are binary, "
            "multiclass and regression sets."
        )
    if _find(name) is None:
        if dataset is None:
            raise ValueError(_unknown(name))
        _fetch(name)
    return _read(name)


def load(name, scale="none", test=True):
    """Load a data set for classification with labels -1 and +1, or for regression.

    Parameters
    ----------
    name : str
        A name in the cache, or one of libsvmdata, which is then downloaded.
    scale : {"none", "maxabs", "unit_rows"}, default="none"
        Divide each column by its largest absolute value, or each row by its Euclidean norm. Zero
        columns and rows stay. The test part is scaled with the column factors of the training
        part.
    test : bool, default=True
        Whether to look for a test part, the data set ``<name>_test``: in the cache, else, if
        libsvmdata lists it, by a download.

    Returns
    -------
    Labelled
        ``X`` is dense if the cache holds a dense array, else CSR. For classification the sorted
        classes are cut in half: the ``k // 2`` lowest become -1 and the others +1. ``label_rule``
        says which, and the same rule maps the test labels. For regression ``b`` is the target
        as it is. ``X_test`` and ``b_test`` are None if there is no test part or ``test`` is false.

    Raises
    ------
    ValueError
        If the name or the scaling is unknown, the set is a multilabel one or has one class only,
        the test part has other classes, or the cached files are damaged.
    OSError
        If the data set must be downloaded and cannot be.

    Warns
    -----
    UserWarning
        If a test part is listed by libsvmdata but cannot be downloaded, or has features that the
        training part lacks.

    Notes
    -----
    The task is the one libsvmdata lists. Of a name it does not list, the labels decide: it is
    regression if a label is not an integer or there are more than 100 distinct ones.

    The test part gets the width of the training part. Missing columns are filled with zeros;
    features beyond the width were never seen in training, so no coefficient could use them, and
    they are dropped.
    """
    choose(scale, SPARSE_SCALES, "scale")
    name = _check_name(name)
    X, y = raw(name)
    task = _task(name, y)
    rule = binary_rule(y, name) if task == "classification" else None

    X_test = y_test = None
    test_part = _test_part(name) if test else None
    if test_part is not None:
        X_test = _fit_width(test_part.X, X, name)
        y_test = test_part.y
    X, X_test = scale_parts(X, X_test, scale, SPARSE_SCALES)
    if rule is None:
        return Labelled(X, y, X_test, y_test, task, "target as given, not scaled")
    if y_test is not None:
        y_test = rule.apply(y_test, f"the labels of {name}_test (see load(..., test=False))")
    return Labelled(X, rule.apply(y), X_test, y_test, task, str(rule))


def import_file(name, path, n_features=None, max_bytes=None, progress=False):
    """Put a LIBSVM-format file that the user has into the cache.

    Parameters
    ----------
    name : str
        Name under which `load`, and libsvmdata if it lists the name, will find the data set:
        letters, digits and ``. _ + -``, not starting with a dot. A test part is called
        ``<name>_test``.
    path : str or path-like
        The file: plain text, or compressed with bzip2, gzip or xz. Its first bytes decide, not
        its name.
    n_features : int, optional
        Number of features, up to 2**28. The default is the number in libsvmdata's table if the
        name is listed, else the largest index in the file, if that is at most 2**20 or 100 times
        the stored entries.
    max_bytes : int, optional
        Largest accepted size of the text after decompression. The default is 2**36, and for a
        compressed file no more than 100 times its own size and 2**24: what unpacks to more is a
        decompression bomb rather than data.
    progress : bool, default=False
        Show a progress bar over the file's bytes.

    Returns
    -------
    ImportSummary

    Raises
    ------
    ValueError
        If the name is not allowed, or the file is missing, empty, damaged, cut off, larger than
        ``max_bytes``, not in LIBSVM format, has more than ``n_features`` features or fewer than
        one entry for a hundred of them, or has NaN or infinite numbers.
    OSError
        If the file may not be read or the cache not be written.

    Warns
    -----
    UserWarning
        If the last line has no line end: the file may have been cut inside its last number, which
        nothing else would show.

    Notes
    -----
    The layout is exactly libsvmdata's: dense in Fortran order if at least half of the entries are
    stored, else CSC with sorted indices. As in libsvmdata, indices count from one unless the file
    has an index zero. A data set of that name in the cache is replaced; if the process is killed
    on the way, the cache holds either the old data set or the new one.

    Multilabel files, whose lines begin with several labels, are not supported.
    """
    name = _check_name(name)
    listed = _table().get(name)
    if listed is not None and listed.task_name == "multilabel":
        raise ValueError(
            f"dataset {name!r} cannot be imported: got a multilabel set, allowed are binary, "
            "multiclass and regression sets."
        )
    if max_bytes is not None:
        max_bytes = check_int(max_bytes, "max_bytes")
    X, y = _parse_as(name, path, n_features, max_bytes, progress)
    stored = X.nnz
    files = _store(name, X, y)
    values, counts = np.unique(y, return_counts=True)
    task = _task(name, y)
    if task == "regression":
        values, counts = values[[0, -1]], counts[[0, -1]]
    return ImportSummary(
        name, X.shape, stored, files[0].suffix == ".npy", task,
        tuple(zip(values.tolist(), counts.tolist(), strict=True)), files,
    )


def _table():
    """Give libsvmdata's data sets by name."""
    # It imports scikit-learn, which takes longer than all else.
    import libsvmdata

    return libsvmdata.ALL_DATASETS


def _task(name, y):
    """Tell the task from libsvmdata's table, else from the labels."""
    if name not in _table():
        return guess_task(y)
    return "regression" if _table()[name].task_name == "regression" else "classification"


def _check_name(name):
    """Refuse names that could leave the cache directory or hide in it."""
    # One of libsvmdata's own names contains a space; listed names are harmless as they are.
    if isinstance(name, str) and (name in _table() or NAME_PATTERN.fullmatch(name)):
        return name
    raise ValueError(
        f"dataset name is not valid: got {name!r}, allowed are 1 to 128 letters, digits and "
        "the characters . _ + - with no dot in front, or a name listed by libsvmdata."
    )


def _import_command(name):
    word = f'"{name}"' if " " in name else name
    return f"python -m benchmark_dspdc import-libsvm {word} FILE"


def _unknown(name):
    home = data_home()
    names = set(_table())
    if home.is_dir():
        names.update(path.name.removesuffix("_y.npy") for path in home.glob("*_y.npy"))
    close = difflib.get_close_matches(name, sorted(names), n=5)
    hint = f" Close matches: {', '.join(close)}." if close else ""
    return (
        f"dataset {name!r} is unknown: it is neither in the cache {home} nor listed by libsvmdata."
        f"{hint} A file in LIBSVM format can be put into the cache with: {_import_command(name)}"
    )


# --- the cache ------------------------------------------------------------
#
# A data set is two files, and two renames are not one atomic step. New files are therefore written
# to a scratch directory inside the cache, which is renamed to `.<name>.ready` once both are
# complete. That rename is the moment at which the new data set replaces the old one: whoever finds
# a `.ready` directory, be it after a kill, moves its contents into place before looking further.
# The files live in subdirectories because libsvmdata's search would count, and delete, temporary
# files next to the real ones whose names contain the name of a data set.


def _pending(home, name):
    """Give the files of a committed data set that are not in place yet."""
    ready = home / f".{name}.ready"
    parts = [ready / f"{name}{suffix}" for suffix in ("_X.npz", "_X.npy", "_y.npy")]
    return [part for part in parts if part.exists()]


def _finish_commit(home, name):
    """Move the files of a committed data set into place, if there is one."""
    ready = home / f".{name}.ready"
    if not ready.is_dir():
        return
    # The obsolete form of X goes before X comes, and y comes last: wherever this is interrupted,
    # doing it again completes it.
    obsolete = {f"{name}_X.npz": f"{name}_X.npy", f"{name}_X.npy": f"{name}_X.npz"}
    for part in _pending(home, name):
        if part.name in obsolete:
            (home / obsolete[part.name]).unlink(missing_ok=True)
        # Another process may be finishing the same commit at the same time.
        with contextlib.suppress(FileNotFoundError):
            os.replace(part, home / part.name)
    try:
        ready.rmdir()
    except OSError as error:
        # Removed by that other process, or already the next commit.
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _home_to_write():
    """The directory of the cache or, where it cannot be written, one that can."""
    home = data_home()
    if is_writable(home):
        return home
    other = fallback_home() / "libsvm"
    other.mkdir(parents=True, exist_ok=True)
    warnings.warn(
        f"{home} cannot be written; data go to {other}. $LIBSVMDATA_HOME names another place.",
        stacklevel=3,
    )
    return other


def _find(name):
    """Give the paths of X and y in the cache, or None unless both are there."""
    found = _find_in(data_home(), name)
    if found is None and has_fallback():
        found = _find_in(fallback_home() / "libsvm", name)
    return found


def _find_in(home, name):
    while True:
        _finish_commit(home, name)
        y = home / f"{name}_y.npy"
        if y.is_file():
            # The order is libsvmdata's, for the case that both forms are there.
            for suffix in (".npz", ".npy"):
                X = home / f"{name}_X{suffix}"
                if X.is_file():
                    return X, y
        if not _pending(home, name):
            return None


def _store(name, X, y):
    """Write a data set into the cache in libsvmdata's layout; give the two paths."""
    home = _home_to_write()
    _remove_leftovers(home)
    scratch = Path(tempfile.mkdtemp(prefix=".writing-", dir=home))
    try:
        if sparse.issparse(X) and X.nnz < 0.5 * X.shape[0] * X.shape[1]:
            # The matrix class, not the array class: it is what libsvmdata saves and returns.
            X = sparse.csc_matrix(X)
            X.sort_indices()
            suffix = ".npz"
            file = scratch / f"{name}_X.npz"
            sparse.save_npz(file, X)
            unpacked, allowed = _sizes(file)
            if unpacked > allowed:
                # Equal columns by the thousand, or empty ones by the million, as the user gave
                # them; unpacked they are not taken for a bomb.
                sparse.save_npz(file, X, compressed=False)
        else:
            X = X.toarray(order="F") if sparse.issparse(X) else np.asfortranarray(X)
            suffix = ".npy"
            np.save(scratch / f"{name}_X.npy", X, allow_pickle=False)
        np.save(scratch / f"{name}_y.npy", y, allow_pickle=False)
        for attempt in range(COMMIT_ATTEMPTS):
            _finish_commit(home, name)
            try:
                os.rename(scratch, home / f".{name}.ready")
                break
            except OSError as error:
                # Another process committed the same name just now; its data set goes first.
                in_use = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
                if not in_use or attempt == COMMIT_ATTEMPTS - 1:
                    raise
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _finish_commit(home, name)
    return home / f"{name}_X{suffix}", home / f"{name}_y.npy"


def _remove_leftovers(home):
    """Remove what processes killed a day ago or earlier were writing."""
    for pattern in (".writing-*", ".fetch-*"):
        for leftover in home.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - leftover.stat().st_mtime > 86400:
                    shutil.rmtree(leftover, ignore_errors=True)


def _read(name):
    """Read a data set from the cache and check it."""
    while True:
        files = _find(name)
        if files is None:
            raise ValueError(_unknown(name))
        before = _stamp(files)
        data = problem = None
        try:
            data = _read_files(name, *files)
        except ValueError as error:
            problem = error
        # Files that another process replaced meanwhile may not belong together.
        if before is None or before != _stamp(files) or _pending(files[0].parent, name):
            continue
        if problem is not None:
            raise problem
        return data


def _stamp(files):
    """Give something that changes when one of the files is replaced; None if one is missing."""
    try:
        return [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in map(os.stat, files)]
    except FileNotFoundError:
        return None


def _read_files(name, X_path, y_path):
    path = X_path
    try:
        _check_arrays(X_path)
        if X_path.suffix == ".npz":
            X = sparse.load_npz(X_path)
            _require(X.format in ("csc", "csr"), f"X must be in format csc or csr, got {X.format}")
            _require(
                len(X.data) <= math.prod(X.shape),
                f"it has {len(X.data)} stored entries, allowed in shape {X.shape} are "
                f"{math.prod(X.shape)}",
            )
            # Indices out of range would make compiled code read and write outside its arrays.
            X.check_format(full_check=True)
            _check_width(X)
        else:
            X = np.load(X_path, allow_pickle=False)
        path = y_path
        _check_arrays(y_path)
        y = as_array(np.load(y_path, allow_pickle=False), "y", 1)
        if sparse.issparse(X):
            # Before room is made for rows that are only claimed.
            _check_labels(X, y)
        path = X_path
        X = as_matrix(X, "X")
        if sparse.issparse(X):
            X = _narrow_indices(X)
        path = y_path
        _check_labels(X, y)
    except CACHE_ERRORS as error:
        raise ValueError(
            f"the cached file {path} cannot be used: {error}; allowed are the finite numeric "
            f"matrix and labels that libsvmdata saves. Delete {X_path.name} and {y_path.name}, "
            f"or replace them with: {_import_command(name)}"
        ) from error
    return RawData(X, y)


def _believed_features(X):
    """Up to how many features are believed of a sparse matrix that says no more of them."""
    return max(BELIEVED_FEATURES, FEATURES_PER_ENTRY * X.nnz)


def _check_width(X):
    """Raise if a cached matrix claims a width for which its file has no reason.

    In CSC, which libsvmdata and imports write, each feature has a pointer in the file, those of
    ``n_features`` too. In CSR the width is a number alone.
    """
    believed = _believed_features(X)
    _require(
        X.format == "csc" or X.shape[1] <= believed,
        f"it claims {X.shape[1]} features for {X.nnz} stored entries, allowed in format csr are "
        f"{believed}; an import with --n-features can have more",
    )


def _check_labels(X, y):
    n = X.shape[0]
    _require(len(y) == n, f"y must have {n} labels as X has rows, got {len(y)}")


def _check_arrays(path):
    """Raise unless a cached file has the bytes that the headers of its arrays claim.

    Room for an array is made before its bytes are read, so a header alone could take all memory.
    """
    with open(path, "rb") as file:
        if path.suffix == ".npy":
            _check_array(file, os.path.getsize(path))
            return
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            # Deflate shrinks to no less than a thousandth; bytes that are counted twice, or other
            # compressions, could claim any size.
            _require(
                sum(member.compress_size for member in members) <= os.path.getsize(path)
                and all(member.compress_type in NUMPY_PACKS for member in members),
                "it is packed in a way that numpy does not",
            )
            unpacked, allowed = _sizes(path)
            _require(
                unpacked <= allowed,
                f"it unpacks to too much: got {unpacked} bytes, allowed are {MAX_RATIO} times its "
                f"own and {RATIO_SLACK}, {allowed} in all",
            )
            for member in members:
                with archive.open(member) as part:
                    _check_array(part, member.file_size)


def _sizes(path):
    """The bytes that an .npz file says it unpacks to, more are not read; and those it may."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    return unpacked, MAX_RATIO * os.path.getsize(path) + RATIO_SLACK


def _check_array(file, size):
    version = np.lib.format.read_magic(file)
    _require(version in HEADERS, f"it has an array of an unknown version {version}")
    shape, _, dtype = HEADERS[version](file)
    claimed = math.prod(shape) * dtype.itemsize
    there = size - file.tell()
    # A pickle has whatever size it has; it is refused later, without being looked at.
    _require(
        dtype.hasobject or claimed == there,
        f"the header of an array claims {claimed} bytes, got {there}",
    )


def _narrow_indices(X):
    """Use 32-bit indices if they suffice, so that compiled code meets one type only."""
    if max(X.nnz, *X.shape) < 2**31:
        X.indices = X.indices.astype(np.int32, copy=False)
        X.indptr = X.indptr.astype(np.int32, copy=False)
    return X


def _require(condition, message):
    if not condition:
        raise ValueError(message)


def _fetch(name):
    """Have libsvmdata download a data set, and put it into the cache.

    libsvmdata knows the address and sees a download that was cut. What came is read as an import
    is, with the same limits: libsvmdata's own reader unpacks all of it to the disk first.
    """
    import libsvmdata

    dataset = _table()[name]
    home = _home_to_write()
    previous = dataset.dataset_dir
    # libsvmdata works in a directory of its own: next to the cached files it would delete those
    # whose names end with this one, and leave a partial download if killed.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as scratch:
        dataset.dataset_dir = Path(scratch)
        dataset._load_file_and_save_data = lambda file, _: _parse_as(name, file)
        try:
            X, y = libsvmdata.fetch_dataset(name)
        except Exception as error:  # the downloader wraps and leaks errors of many libraries
            reason = " ".join(str(error).split()) or type(error).__name__
            raise OSError(
                f"dataset {name!r} is not in the cache {home} and its download failed: {reason}. "
                f"Get {dataset.dataset_url} by other means and put it into the cache with: "
                f"{_import_command(name)}"
            ) from error
        finally:
            dataset.dataset_dir = previous
            del dataset._load_file_and_save_data
    _store(name, X, y)


def _test_part(name):
    """Give the raw test part of a data set, or None."""
    test_name = f"{name}_test"
    if _find(test_name) is None:
        if test_name not in _table():
            return None
        try:
            _fetch(test_name)
        except OSError as error:
            warnings.warn(f"{name!r} is used without its test part: {error}", stacklevel=3)
            return None
    return _read(test_name)


def _fit_width(X_test, X, name):
    """Give the test rows the container and the columns of the training rows."""
    p = X.shape[1]
    extra = X_test.shape[1] - p
    if extra > 0:
        dropped = X_test[:, p:]
        lost = dropped.count_nonzero() if sparse.issparse(dropped) else np.count_nonzero(dropped)
        if lost:
            warnings.warn(
                f"{name}_test has {extra} features that {name} lacks; their {lost} entries are "
                "dropped.",
                stacklevel=3,
            )
        X_test = X_test[:, :p]
    if sparse.issparse(X):
        X_test = sparse.csr_array(X_test)
        if extra < 0:
            X_test.resize((X_test.shape[0], p))
        return X_test
    if sparse.issparse(X_test):
        X_test = X_test.toarray()
    if extra < 0:
        X_test = np.pad(X_test, ((0, 0), (0, -extra)))
    return np.ascontiguousarray(X_test)


# --- LIBSVM text ----------------------------------------------------------


class _FileError(ValueError):
    """An error whose message already names the file."""


class _Unpacked(io.RawIOBase):
    """What a compressed file unpacks to, as long as that is in proportion to what was read.

    Parameters
    ----------
    stream : file object
        The decompressor.
    packed : file object
        What it reads from; its position tells how much was read.
    path : path-like
    """

    def __init__(self, stream, packed, path):
        self.stream = stream
        self.packed = packed
        self.path = path
        self.size = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        part = self.stream.read(len(buffer))
        buffer[:len(part)] = part
        self.size += len(part)
        read = self.packed.tell()
        if self.size > MAX_RATIO * read + RATIO_SLACK:
            raise _FileError(
                f"{self.path}: the file unpacks to too much: got {self.size} bytes from the first "
                f"{read}, allowed are {MAX_RATIO} times as many and {RATIO_SLACK}, or max_bytes "
                "if that is given."
            )
        return len(part)


class _Lines:
    """The lines of a text, counted and limited, for scikit-learn's parser to iterate over."""

    def __init__(self, stream, path, max_bytes):
        self.stream = stream
        self.path = path
        self.max_bytes = max_bytes
        self.number = 0
        self.line = b""

    def read(self, size=-1):
        """Exist only because scikit-learn recognises a file by it."""
        return self.stream.read(size)

    def __iter__(self):
        left = self.max_bytes
        while line := self.stream.readline(MAX_LINE_BYTES + 1):
            self.number += 1
            self.line = line
            left -= len(line)
            if left < 0:
                raise _FileError(
                    f"{self.path}: the text is too long: got more than {self.max_bytes} bytes at "
                    f"line {self.number}, allowed by max_bytes are {self.max_bytes}."
                )
            if len(line) > MAX_LINE_BYTES:
                raise _FileError(
                    f"{self.path}: line {self.number} is too long: got more than "
                    f"{MAX_LINE_BYTES} bytes, allowed are {MAX_LINE_BYTES}."
                )
            yield line


def _shown(file, path, progress):
    """The same file, its position shown as a progress bar if wanted."""
    if not progress:
        return contextlib.nullcontext(file)
    return wrap_file(file, os.path.getsize(path), description=f"reading {os.path.basename(path)}")


def _parse(path, max_bytes, progress):
    """Read a LIBSVM-format file into a CSR matrix, as wide as its largest index, and labels."""
    from sklearn.datasets import load_svmlight_file

    if not os.path.exists(path):
        raise ValueError(f"{path}: there is no such file; allowed is a file in LIBSVM format.")
    if not os.path.isfile(path):
        raise ValueError(f"{path}: not a regular file; allowed is a file in LIBSVM format.")
    with open(path, "rb") as raw, _shown(raw, path, progress) as file:
        head = raw.read(8)
        raw.seek(0)
        kind, opener = next(
            ((kind, opener) for magic, kind, opener in MAGIC if head.startswith(magic)),
            ("plain text", None),
        )
        text = file if opener is None else opener(file)
        if opener is not None and max_bytes is None:
            text = io.BufferedReader(_Unpacked(text, raw, path), 2**16)
        lines = _Lines(text, path, MAX_TEXT_BYTES if max_bytes is None else max_bytes)
        try:
            X, y = load_svmlight_file(lines)
        except _FileError:
            raise
        except DECOMPRESSION_ERRORS as error:
            raise ValueError(
                f"{path}: the {kind} data is damaged or cut off after line {lines.number}: got "
                f"{error}; allowed is a complete file, plain or compressed with bzip2, gzip or xz."
            ) from error
        except (ValueError, OverflowError) as error:
            start = lines.line[:60].decode("latin-1").rstrip("\r\n")
            raise ValueError(
                f"{path}: line {lines.number} is not in LIBSVM format, read as {kind}: got "
                f"{start!r} ({_explain(error)}); allowed are lines 'label index:value index:value "
                f"...' with one label and increasing indices up to {MAX_INDEX}, plain or "
                "compressed with bzip2, gzip or xz."
            ) from error
    if X.shape[0] == 0:
        raise ValueError(f"{path}: the file is empty: got no rows, allowed are one or more.")
    if X.nnz == 0:
        raise ValueError(
            f"{path}: the file has no features: got {X.shape[0]} labels without a single "
            "index:value, allowed are lines 'label index:value index:value ...'."
        )
    if X.shape[1] > MAX_INDEX:
        raise ValueError(
            f"{path}: a feature index is too large: got {X.shape[1]}, allowed are indices up to "
            f"{MAX_INDEX}."
        )
    bad = np.flatnonzero(~np.isfinite(X.data))
    if len(bad):
        row = np.searchsorted(X.indptr, bad[0], side="right")
        raise ValueError(
            f"{path}: row {row} has a value that is not finite: got {X.data[bad[0]]} for feature "
            f"{X.indices[bad[0]] + 1}; allowed are finite numbers."
        )
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise ValueError(
            f"{path}: row {bad[0] + 1} has a label that is not finite: got {y[bad[0]]}; allowed "
            "are finite numbers."
        )
    if not lines.line.endswith(b"\n"):
        warnings.warn(
            f"{path}: the last line has no line end; if the file was cut off, its last number "
            "may be wrong.",
            stacklevel=3,
        )
    return X, y


def _parse_as(name, path, n_features=None, max_bytes=None, progress=False):
    """Read a LIBSVM-format file into a CSR matrix, as wide as the data set is, and labels."""
    listed = _table().get(name)
    if n_features is not None:
        n_features = check_int(n_features, "n_features", high=MAX_FEATURES)
        source = "n_features"
    elif listed is not None:
        n_features, source = listed.n_features, "libsvmdata's table"
    X, y = _parse(path, max_bytes, progress)
    if n_features is None:
        n_features = X.shape[1]
        believed = min(MAX_FEATURES, _believed_features(X))
        if n_features > believed:
            raise ValueError(
                f"{path}: feature index {n_features} is suspiciously large for {X.nnz} stored "
                f"entries: allowed without an explicit n_features are indices up to {believed}."
            )
    elif X.shape[1] > n_features:
        raise ValueError(
            f"{path}: too many features for dataset {name!r}: got {X.shape[1]}, allowed by "
            f"{source} are {n_features}."
        )
    X.resize((X.shape[0], n_features))
    return X, y


def _explain(error):
    """Say in terms of the file what the parser complained about in terms of Python."""
    text = str(error)
    if "unpack" in text:
        return "an entry without a colon"
    if isinstance(error, OverflowError):
        return "an index that is too large"
    if "Feature indices" in text:
        return "indices that do not increase"
    return text

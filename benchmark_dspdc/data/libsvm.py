"""LIBSVM data sets, from libsvmdata's cache, its downloads, or files that the user has.

The cache is that of libsvmdata: a directory ``libsvm`` with the files ``<name>_X.npz`` (CSC) or
``<name>_X.npy`` (dense, Fortran order) and ``<name>_y.npy``. What one package puts there the other
one finds. Only the directory and the file format are shared, not libsvmdata's search: that matches
file names with an unanchored regular expression and, when the number of matches is not two,
deletes them, so that asking for ``breast-cancer`` removes a cached ``duke breast-cancer``.
"""

import contextlib
import difflib
import os
import re
import shlex
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock
from scipy import sparse

from ..engine.cache_dirs import fallback_home, has_fallback, is_writable
from ..engine.checks import as_array, as_matrix, check_int, choose
from .labels import Labelled, binary_rule, guess_task
from .libsvm_text import read_text
from .scaling import SPARSE_SCALES, scale_parts

NAME_PATTERN = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,127}")

# An import takes 12 bytes of memory for each feature, as the cached CSC form has a pointer for it.
# The widest LIBSVM sets have some fifty million features.
MAX_FEATURES = 2**28

# Without an explicit number up to this many features, or up to so many for each stored entry, are
# believed. Real sets have more entries than features.
BELIEVED_FEATURES = 2**20
FEATURES_PER_ENTRY = 100


class RawData(NamedTuple):
    """A data set with its labels as they are in the source; `X` is an ndarray or a CSR array."""

    X: object
    y: np.ndarray


class ImportSummary(NamedTuple):
    """What `import_file` put into the cache; ``str()`` gives a text for the terminal.

    `labels` are the classes with their frequencies, for regression the smallest and the largest
    target with theirs; `stored` counts explicit zeros as well.
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
        labels = f"targets from {self.labels[0][0]:g} to {self.labels[-1][0]:g}"
        if self.task == "classification":
            words = [f"{value:g}: {count}" for value, count in self.labels]
            shown = words if len(words) <= 10 else [*words[:3], "...", words[-1]]
            labels = f"{len(words)} classes, {', '.join(shown)}"
        return (
            f"{self.name}: {n} rows x {p} features, {self.stored} stored entries "
            f"({self.stored / (n * p):.3%}), saved {'dense' if self.dense else 'sparse'}\n"
            f"{self.task}: {labels}\n" + "\n".join(map(str, self.files))
        )


def data_home():
    """The cache: ``libsvm`` in ``$LIBSVMDATA_HOME``, ``$XDG_DATA_HOME`` or ``~/data``.

    The rule is libsvmdata's, but the environment is read at every call; libsvmdata reads it once,
    when it is imported. The directory need not exist.
    """
    for variable in ("LIBSVMDATA_HOME", "XDG_DATA_HOME"):
        if variable in os.environ:
            return Path(os.environ[variable]) / "libsvm"
    return Path.home() / "data" / "libsvm"


def is_cached(name):
    """Tell whether a data set is there without a download."""
    return _find(_check_name(name)) is not None


def version(name, test=False):
    """A text, changing with the files of a data set, and of its test part; None without them."""
    files = _find(_check_name(name)) or ()
    if files and test:
        files += _find(f"{name}_test") or ()
    stamp = _stamp(files)
    return repr([data_home(), stamp]) if stamp else None


def has_all_parts(name):
    """Tell whether a data set is in the cache, with its test part if libsvmdata lists one."""
    test = f"{name}_test"
    return is_cached(name) and (test not in _table() or is_cached(test))


class FromLibsvm:
    """Mixin of benchopt's data sets that are read from this cache.

    benchopt's cache knows a data set by its parameters. The files that were imported under the
    name in the parameter `named_by` belong to the key as well. A subclass has `load`; data that
    are not there and cannot be downloaded are said to be unavailable, and benchopt skips them.
    """

    named_by = "name"

    def get_data(self):
        try:
            return self.load()
        except OSError as error:
            return dict(unavailable=str(error))

    def _get_state(self):
        return {"files": version(self._parameters[self.named_by], test=True)}

    def __setstate__(self, state):
        pass


def raw(name):
    """Load a data set with its labels as they are in the source: a `RawData`.

    It is in the cache, or one of libsvmdata, which is then downloaded. A ValueError or OSError is
    raised if there is no such set, its cached files are damaged, or its download fails.
    """
    if _listed(name) and _find(name) is None:
        _fetch(name)
    return _read(name)


def load(name, scale="none", test=True):
    """Load a data set for classification with labels -1 and +1, or for regression.

    Parameters
    ----------
    name : str
        A name in the cache, or one of libsvmdata, which is then downloaded.
    scale : {"none", "maxabs", "unit_rows"}, default="none"
        See `scale_parts`.
    test : bool, default=True
        Whether to look for a test part, ``<name>_test``, in the cache or, if libsvmdata lists it,
        by a download; if that fails, there is a warning.

    Returns
    -------
    Labelled
        ``X`` is dense if the cache holds a dense array, else CSR. For classification the sorted
        classes are cut in half, see `binary_rule`; for regression ``b`` is the target as it is.
        The test part gets the width of the training part: features never seen in training are
        dropped, with a warning if they have entries.

    Raises
    ------
    ValueError, OSError
        As `raw`; also if the set has one class only, or the test part has other classes.
    """
    choose(scale, SPARSE_SCALES, "scale")
    X, y = raw(name)
    task = _task(name, y)
    rule = binary_rule(y, name) if task == "classification" else None
    X_test = y_test = None
    if test and (f"{name}_test" in _table() or _find(f"{name}_test")):
        try:
            X_test, y_test = raw(f"{name}_test")
            X_test = _fit_width(X_test, X, name)
        except OSError as error:
            warnings.warn(f"{name!r} is used without its test part: {error}", stacklevel=2)
    X, X_test = scale_parts(X, X_test, scale)
    if rule is None:
        return Labelled(X, y, X_test, y_test, task, "target as given, not scaled")
    if y_test is not None:
        y_test = rule.apply(y_test, f"the labels of {name}_test (see load(..., test=False))")
    return Labelled(X, rule.apply(y), X_test, y_test, task, str(rule))


def read_file(path):
    """Read a LIBSVM-format file as it is, beside the cache: a `RawData`, stored as `load` has it.

    The limits on its size and width are those of `import_file`.
    """
    # A file is known by its folder too, so that no listed set is meant.
    X, y = _parse(os.path.abspath(path), path)
    return RawData(X.toarray() if _is_dense(X) else X, y)


def import_file(name, path, n_features=None, max_bytes=None, progress=False):
    """Put a LIBSVM-format file that the user has into the cache.

    Parameters
    ----------
    name : str
        Name under which `load`, and libsvmdata if it lists the name, will find the data set:
        letters, digits and ``. _ + -``. A test part is called ``<name>_test``.
    path : str or path-like
        Plain text, or compressed with bzip2, gzip or xz.
    n_features : int, optional
        Number of features, up to 2**28. The default is the number in libsvmdata's table if the
        name is listed, else the largest index in the file, if that is at most 2**20 or 100 times
        the stored entries.
    max_bytes : int, optional
        Largest accepted size of the text after decompression. The default is 2**36, and no more
        than 100 times the file's own size and 2**24: what unpacks to more is a decompression bomb
        rather than data.
    progress : bool, default=False
        Show a progress bar over the file's bytes.

    Returns
    -------
    ImportSummary

    Notes
    -----
    The layout is libsvmdata's: dense in Fortran order if at least half of the entries are stored,
    else CSC with sorted indices. A data set of that name in the cache is replaced; if the process
    is killed on the way, the cache holds the old one, the new one or none, but no mixture.
    """
    _listed(name)
    if max_bytes is not None:
        max_bytes = check_int(max_bytes, "max_bytes")
    if n_features is not None:
        n_features = check_int(n_features, "n_features", high=MAX_FEATURES)
    X, y = _parse(name, path, n_features, max_bytes, progress)
    files = _store(name, X, y)
    values, counts = np.unique(y, return_counts=True)
    task = _task(name, y)
    if task == "regression":
        values, counts = values[[0, -1]], counts[[0, -1]]
    return ImportSummary(
        name, X.shape, X.nnz, files[0].suffix == ".npy", task,
        tuple(zip(values.tolist(), counts.tolist(), strict=True)), files,
    )


# Names ----------------------------------------------------------------------------------

def _table():
    """Give libsvmdata's data sets by name."""
    # It imports scikit-learn, which takes longer than all else.
    import libsvmdata

    return libsvmdata.ALL_DATASETS


def _check_name(name):
    """Refuse names that could leave the cache directory or hide in it."""
    # One of libsvmdata's own names contains a space; listed names are harmless as they are.
    if isinstance(name, str) and (name in _table() or NAME_PATTERN.fullmatch(name)):
        return name
    raise ValueError(
        f"dataset name is not valid: got {name!r}, allowed are 1 to 128 letters, digits and "
        "the characters . _ + - with no dot in front, or a name listed by libsvmdata."
    )


def _listed(name):
    """What libsvmdata's table says of a name, None if it is not there."""
    listed = _table().get(_check_name(name))
    if listed is not None and listed.task_name == "multilabel":
        raise ValueError(
            f"dataset {name!r} is not supported: got a multilabel set, allowed are binary, "
            "multiclass and regression sets."
        )
    return listed


def _task(name, y):
    listed = _table().get(name)
    if listed is None:
        return guess_task(y)
    return "regression" if listed.task_name == "regression" else "classification"


def _import_command(name):
    return f"python -m benchmark_dspdc import-libsvm {shlex.quote(name)} FILE"


# The cache ------------------------------------------------------------------------------

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


@contextlib.contextmanager
def _scratch(home):
    """A directory for half of a data set, where libsvmdata's search does not see it."""
    # Of a process that was killed a day ago or earlier.
    for leftover in home.glob(".writing-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > 86400:
                shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=home) as folder:
        yield Path(folder)


def _find(name):
    """Give the paths of X and y in the cache, or None unless both are there."""
    homes = [data_home()] + ([fallback_home() / "libsvm"] if has_fallback() else [])
    for home in homes:
        y = home / f"{name}_y.npy"
        # The order is libsvmdata's, for the case that both forms are there.
        for X in (home / f"{name}_X.npz", home / f"{name}_X.npy"):
            if X.is_file() and y.is_file():
                return X, y
    return None


def _is_dense(X):
    """Whether a matrix is dense in libsvmdata's layout."""
    return X.nnz >= 0.5 * X.shape[0] * X.shape[1]


def _store(name, X, y):
    """Write a data set into the cache in libsvmdata's layout; give the two paths."""
    home = _home_to_write()
    sparse_X, dense_X, y_file = (home / f"{name}_{end}" for end in ("X.npz", "X.npy", "y.npy"))
    is_sparse = not _is_dense(X)
    X_file = sparse_X if is_sparse else dense_X
    with _scratch(home) as scratch, contextlib.ExitStack() as held:
        if is_sparse:
            # The matrix class, not the array class: it is what libsvmdata saves and returns.
            X = sparse.csc_matrix(X)
            X.sort_indices()
            sparse.save_npz(scratch / X_file.name, X)
        else:
            np.save(scratch / X_file.name, X.toarray(order="F"), allow_pickle=False)
        np.save(scratch / y_file.name, y, allow_pickle=False)
        # For two imports of one name at once; where there are no locks, they are on their own.
        with contextlib.suppress(OSError):
            held.enter_context(FileLock(home / ".lock", timeout=60, fallback_to_soft=False))
            held.callback(Path.unlink, home / ".lock", missing_ok=True)
        # Without labels there is no data set: wherever this ends, it leaves no mixture of two.
        for file in (y_file, sparse_X, dense_X):
            file.unlink(missing_ok=True)
        for file in (X_file, y_file):
            os.replace(scratch / file.name, file)
    return X_file, y_file


def _stamp(files):
    """Give something that changes when one of the files is replaced; None if one is missing."""
    try:
        return [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in map(os.stat, files)]
    except FileNotFoundError:
        return None


def _read(name):
    """Read a data set from the cache and check it."""
    while files := _find(name):
        before = _stamp(files)
        data = _read_files(name, *files)
        # Files that another process replaced meanwhile may not belong together.
        if before == _stamp(files):
            return data
    home = data_home()
    names = {path.name.removesuffix("_y.npy") for path in home.glob("*_y.npy")} | set(_table())
    close = difflib.get_close_matches(name, sorted(names), n=5)
    hint = f" Close matches: {', '.join(close)}." if close else ""
    raise ValueError(
        f"dataset {name!r} is unknown: it is neither in the cache {home} nor listed by libsvmdata."
        f"{hint} A file in LIBSVM format can be put into the cache with: {_import_command(name)}"
    )


def _read_files(name, X_file, y_file):
    file = y_file
    try:
        y = as_array(np.load(y_file, allow_pickle=False), "y", 1)
        file = X_file
        is_sparse = X_file.suffix == ".npz"
        X = sparse.load_npz(X_file) if is_sparse else np.load(X_file, allow_pickle=False)
        # Before room is made for rows that are only claimed. In CSC each feature has a pointer.
        if X.shape[:1] != y.shape:
            raise ValueError(f"X must have {len(y)} rows as y has labels, got shape {X.shape}")
        if is_sparse and X.format != "csc":
            raise ValueError(f"X must be in format csc, got {X.format}")
        X = as_matrix(X, "X")
    except Exception as error:  # whatever numpy and zipfile make of damaged files
        raise ValueError(
            f"the cached file {file} cannot be used: {error}; allowed are the finite numeric "
            f"matrix and labels that libsvmdata saves. Delete {X_file.name} and {y_file.name}, "
            f"or replace them with: {_import_command(name)}"
        ) from error
    if is_sparse and max(X.nnz, *X.shape) < 2**31:
        # So that compiled code meets one type only.
        X.indices = X.indices.astype(np.int32, copy=False)
        X.indptr = X.indptr.astype(np.int32, copy=False)
    return RawData(X, y)


def _fetch(name):
    """Have libsvmdata's downloader get a data set, and put it into the cache.

    What came is read as an import is, with the same limits: libsvmdata's own reader unpacks all
    of it to the disk first, and deletes cached files whose names end with this one.
    """
    from libsvmdata import abstraction

    address, home = _table()[name].dataset_url, _home_to_write()
    with _scratch(home) as scratch:
        try:
            abstraction.download(address, scratch / "file", progressbar=False, verbose=False)
            X, y = _parse(name, scratch / "file")
        except Exception as error:  # the downloader wraps and leaks errors of many libraries
            reason = " ".join(str(error).split()) or type(error).__name__
            raise OSError(
                f"dataset {name!r} is not in the cache {home} and its download failed: {reason}. "
                f"Get {address} by other means and put it into the cache with: "
                f"{_import_command(name)}"
            ) from error
    _store(name, X, y)


def _fit_width(X_test, X, name):
    """Give the test rows the container and the columns of the training rows."""
    p = X.shape[1]
    X_test = sparse.csr_array(X_test)
    lost = X_test[:, p:].count_nonzero()
    if lost:
        warnings.warn(
            f"{name}_test has {X_test.shape[1] - p} features that {name} lacks; their {lost} "
            "entries are dropped.", stacklevel=3,
        )
    X_test = X_test[:, :p]
    X_test.resize((X_test.shape[0], p))
    return X_test if sparse.issparse(X) else X_test.toarray()


def _parse(name, path, n_features=None, max_bytes=None, progress=False):
    """Read a file into labels and a CSR matrix, as wide as is asked for, listed or else believed.
    """
    X, y = read_text(path, max_bytes, progress)
    found, allowed, source = X.shape[1], n_features, "n_features"
    if n_features is None and name in _table():
        allowed = n_features = _table()[name].n_features
        source = "libsvmdata's table"
    elif n_features is None:
        allowed = min(MAX_FEATURES, max(BELIEVED_FEATURES, FEATURES_PER_ENTRY * X.nnz))
        source = f"{X.nnz} stored entries, without n_features,"
    if found > allowed:
        raise ValueError(
            f"{path}: too many features for dataset {name!r}: got {found}, allowed by {source} "
            f"are {allowed}."
        )
    X.resize((len(y), n_features or found))
    return X, y

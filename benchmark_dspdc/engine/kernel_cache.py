"""Compilation: a disk cache that cannot be stale, and dispatch on types.

Two small tools on top of numba.

``njit``
    ``numba.njit`` with a disk cache whose directory is named after a hash of
    all the package's sources. Numba itself invalidates a cached kernel only
    when the kernel's own file changes, not when an overload that it inlines
    from another file does; with a directory per state of the sources, no edit
    can leave an old kernel in use.

``generic``
    Declares a function whose body is chosen by the type of its first
    argument. Inside compiled code the choice is made when compiling, so it
    costs nothing; from plain Python the same call works too. One algorithm
    then serves every operator, loss and regulariser.
"""

import functools
import hashlib
import io
import os
import shutil
import sys
import uuid
import warnings
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import filelock
import numba
from numba.core import caching, types
from numba.extending import register_jitable

from .cache_dirs import cache_home, fallback_home, is_writable

PACKAGE = Path(__file__).resolve().parent.parent

#: Reassociation lets LLVM vectorise sums; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

#: Cached kernels of older sources are kept for this many other versions, so
#: that switching between two branches does not recompile everything.
KEPT_VERSIONS = 4

#: How long to wait for another process that saves a kernel, which takes it milliseconds.
LOCK_SECONDS = 10.0


def source_hash(paths=None):
    """Hash of Python sources, by default all of the package's, and of what compiles them."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(PACKAGE.rglob("*.py") if paths is None else paths):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _prepare_cache(home):
    directory = home / f"numba-{SOURCE_HASH}"
    if not is_writable(directory):
        raise OSError(f"{directory} cannot be written")
    os.utime(directory)
    return directory


def _forget_old_versions(home):
    others = [d for d in home.glob("numba-*") if d.name != f"numba-{SOURCE_HASH}"]
    for old in sorted(others, key=lambda d: d.stat().st_mtime)[:-KEPT_VERSIONS]:
        shutil.rmtree(old, ignore_errors=True)


def _cache_directory():
    home = cache_home()
    try:
        directory = _prepare_cache(home)
        _forget_old_versions(home)
        return directory
    except OSError:
        directory = None
    # A read-only home still gets a working, if colder, cache; a full disk none.
    with suppress(OSError):
        directory = _prepare_cache(fallback_home())
    where = "are not kept" if directory is None else f"go to {directory}"
    print(f"benchmark_dspdc: {home} cannot be written; compiled kernels {where}",
          file=sys.stderr, flush=True)
    return directory


SOURCE_HASH = source_hash()
CACHE_DIRECTORY = _cache_directory()


class _Locator(caching._CacheLocator):
    """Where the code of a function is kept.

    Numba names folders after the place of the sources, so that every clone of a version, and
    every copy, compiles all over again. Here the sources' hash is the name: equal sources share
    their kernels, wherever they are.
    """

    def __init__(self, py_func, py_file):
        file = Path(py_file).resolve()
        self._line = py_func.__code__.co_firstlineno
        self._py_file = py_file
        if PACKAGE in file.parents:
            self._folder, self._stamp = file.parent.relative_to(PACKAGE), SOURCE_HASH
        else:
            self._folder = self.get_suitable_cache_subpath(py_file)
            self._stamp = hashlib.sha256(file.read_bytes()).hexdigest()

    def get_cache_path(self):
        return str(CACHE_DIRECTORY / self._folder)

    def get_source_stamp(self):
        return self._stamp

    def get_disambiguator(self):
        return str(self._line)

    @classmethod
    def from_function(cls, py_func, py_file):
        locator = cls(py_func, py_file)
        locator.ensure_cache_path()
        return locator


class _Kernel(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _SummedFiles(caching.IndexDataCacheFile):
    """Numba's two kinds of files, each with a checksum at its end.

    Without it a changed byte of machine code is a wrong number and no error. A file is replaced
    as a whole, so what is there always has its own sum, whoever wrote it.
    """

    @contextmanager
    def _open_for_write(self, path):
        content = io.BytesIO()
        with super()._open_for_write(path) as file:
            yield content
            file.write(content.getvalue() + _sum(content.getvalue()))

    def _load_index(self):
        with suppress(FileNotFoundError):  # nothing is kept yet
            _check_sum(self._index_path)
        return super()._load_index()

    def _load_data(self, name):
        _check_sum(self._data_path(name))
        # Behind the end of a pickle nothing is read.
        return super()._load_data(name)


def _sum(content):
    return hashlib.sha256(content).digest()


def _check_sum(path):
    content = Path(path).read_bytes()
    size = len(content) - hashlib.sha256().digest_size
    if _sum(content[:size]) != content[size:]:
        raise ValueError(f"{path} has not the sum that was written")


class _KernelCache(caching.FunctionCache):
    """The code of a function on disk, as long as that can be read and written."""

    _impl_class = _Kernel

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file = _SummedFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, signature, context):
        try:
            return super().load_overload(signature, context)
        except Exception as error:
            warnings.warn(
                f"the cache {self.cache_path} is damaged ({error!r}); compiling anew",
                RuntimeWarning, stacklevel=2,
            )
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature, data):
        if not all(map(_of_the_package, data.signature.args)):
            return
        # Numba counts the files of a function, so two processes that add to an index at once, or
        # one that adds after another has emptied it, would give two kernels one file, and the
        # index would name the code of one as that of the other.
        unique = f"{self._impl.filename_base}.{{number:d}}-{uuid.uuid4().hex[:12]}.nbc"
        self._cache_file._data_name_pattern = unique
        try:
            with _one_at_a_time():
                super().save_overload(signature, data)
        except Exception as error:
            # What was compiled works all the same.
            _not_kept(getattr(error, "strerror", None) or repr(error))


def _of_the_package(kind):
    """Whether all classes in a numba type are this package's.

    A change of what others define for theirs, such as the step of a loss, changes no source here,
    and processes that do not have these classes could not read the index.
    """
    if not isinstance(kind, types.BaseTuple):
        return True
    own = getattr(kind, "instance_class", tuple).__module__.split(".")[0]
    return own in (PACKAGE.name, "builtins") and all(map(_of_the_package, kind))


@contextmanager
def _one_at_a_time():
    """Wait for other processes that save kernels, where that is possible.

    Of two that write an index at once one loses its entry, and compiles again the next time: no
    reason to wait for long, nor for keeping nothing where there are no locks. The lock is the
    kernel's and ends with the process, however that ends.
    """
    lock = filelock.FileLock(
        CACHE_DIRECTORY / "lock", timeout=LOCK_SECONDS, fallback_to_soft=False
    )
    with ExitStack() as held:
        with suppress(OSError):  # a timeout is one, too
            held.enter_context(lock)
        yield


def _keep(compiled):
    # What was typed in or made by exec has no file that could be known again.
    if CACHE_DIRECTORY is None or not os.path.isfile(compiled.py_func.__code__.co_filename):
        return
    try:
        compiled._cache = _KernelCache(compiled.py_func)
    except OSError:
        _not_kept("no folder can be made")


@functools.cache
def _not_kept(why):
    # Cached, so that it is told once.
    warnings.warn(f"compiled kernels are not kept in {CACHE_DIRECTORY}: {why}", RuntimeWarning,
                  stacklevel=2)


#: Kernels own no memory, so numba need not count references in them. With the
#: counting, every use of an array out of a NamedTuple is an atomic increment
#: and decrement: 100 of the 450 ns of an iteration on small factors. Nothing
#: calls them as C functions, whose wrappers would be compiled as well.
OPTIONS = {
    "fastmath": FASTMATH, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True,
}


def njit(function=None, *, inline=False, cache=None, allocates=False, reassociate=True,
         nogil=False, exact=False):
    """``numba.njit`` with this package's cache and floating-point rules.

    Parameters
    ----------
    inline : bool
        Force LLVM to inline the function into its callers.
    cache : bool
        Keep the compiled code on disk. Only what Python calls directly needs
        it, so by default what is inlined is not kept.
    allocates : bool
        Whether the function creates or slices arrays. A kernel should not.
    reassociate : bool
        Whether sums may be reordered, and so be vectorised. Not wanted where
        the vectorised form needs gathers.
    nogil : bool
        Let other Python threads run meanwhile.
    exact : bool
        Whether every operation is rounded by itself, in the order written, so
        that a result is the same on all machines and equal sums are equal.
    """
    def decorate(f):
        options = OPTIONS | {"_nrt": allocates, "forceinline": inline, "nogil": nogil}
        if not reassociate:
            options["fastmath"] = FASTMATH - {"reassoc"}
        if exact:
            options["fastmath"] = False
        if inline and not cache:
            return register_jitable(**options)(f)
        compiled = numba.njit(f, **options)
        if cache is None or cache:
            _keep(compiled)
        return compiled
    return decorate if function is None else decorate(function)

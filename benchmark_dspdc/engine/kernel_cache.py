"""Compilation with a disk cache that cannot be stale.

``njit`` is ``numba.njit`` with a cache whose folder is named after a hash of the sources that
kernels are made of. Numba itself compiles a kernel anew only when the kernel's own file changes,
not when an overload does that it inlines from another file; with a folder for each state of the
sources no edit can leave an old kernel in use. Equal sources share their kernels, wherever they
are: a new clone compiles nothing.
"""

import functools
import hashlib
import os
import pickle
import shutil
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numba
from numba.core import caching, compiler, serialize
from numba.extending import register_jitable

from .cache_dirs import cache_home, fallback_home, is_writable, write_whole

PACKAGE = Path(__file__).resolve().parent.parent

#: The rooms whose functions are compiled into kernels of other files.
KERNEL_SOURCES = ("engine", "operators", "model", "state", "methods")

#: Reassociation lets LLVM vectorise sums; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

#: Cached kernels of older sources are kept for this many other versions, so
#: that switching between two branches does not recompile everything.
KEPT_VERSIONS = 4


def sources(names):
    """The Python files of some rooms and modules of the package."""
    def places(path):
        inside = path.relative_to(PACKAGE)
        return {str(place) for place in (inside, *inside.parents)}
    return [path for path in PACKAGE.rglob("*.py") if not places(path).isdisjoint(names)]


def source_hash(paths):
    """Hash of Python files, with their places beside the package, and of what compiles them."""
    digest = hashlib.sha256(numba.__version__.encode())
    for place, path in sorted((os.path.relpath(path, PACKAGE), path) for path in paths):
        content = Path(path).read_bytes()
        digest.update(f"{place} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def _cache_directory():
    home, name = cache_home(), f"numba-{KERNEL_HASH}"
    if is_writable(home / name):
        _forget_old_versions(home / name)
        return home / name
    # A read-only home still gets a working, if colder, cache; a full disk none.
    directory, where = None, "are not kept"
    with suppress(OSError):
        if is_writable(fallback_home() / name):
            directory = fallback_home() / name
            where = f"go to {directory}"
    print(f"benchmark_dspdc: {home} cannot be written; compiled kernels {where}",
          file=sys.stderr, flush=True)
    return directory


def _forget_old_versions(current):
    with suppress(OSError):  # another process may do the same
        os.utime(current)
        others = [folder for folder in current.parent.glob("numba-*") if folder != current]
        for old in sorted(others, key=lambda folder: folder.stat().st_mtime)[:-KEPT_VERSIONS]:
            shutil.rmtree(old, ignore_errors=True)


KERNEL_HASH = source_hash(sources(KERNEL_SOURCES))
CACHE_DIRECTORY = _cache_directory()

# Kernels that are defined elsewhere, as in tests, have the content of their file in their name.
_hash_of_file = functools.cache(lambda path: source_hash([path]))


class _KernelFiles(caching.NullCache):
    """Compiled code on disk, a file for each signature of a function.

    Numba's own cache has an index for each function. Two processes that add to it at once may
    give two kernels one file, and the code of one is then taken for that of the other. Without
    an index nothing is shared: a file says itself what it is of, and is replaced as a whole.
    """

    # Of the signature, the processor, the byte code and what is in closures.
    _index_key = caching.Cache._index_key

    def __init__(self, function):
        self._py_func, self._folder = function, CACHE_DIRECTORY

    def _file(self, key):
        code = self._py_func.__code__
        path = os.path.realpath(code.co_filename)
        known = (_hash_of_file(path), code.co_firstlineno, sys.implementation.cache_tag, key)
        digest = hashlib.sha256(repr(known).encode()).hexdigest()[:20]
        name = f"{Path(path).stem}.{self._py_func.__name__}-{digest}.nbc"
        return self._folder / name

    def load_overload(self, signature, context):
        if not all(map(_is_known, signature)):
            return None
        context.refresh()
        key = self._index_key(signature, context.codegen())
        file = self._file(key)
        try:
            kept, code = pickle.loads(file.read_bytes())
            # Two types may have one name.
            return compiler.CompileResult._rebuild(context, *code) if kept == key else None
        except FileNotFoundError:
            return None
        except Exception as error:
            warnings.warn(f"the kernel {file} is damaged ({error!r}); compiling anew",
                          RuntimeWarning, stacklevel=2)
            return None

    def save_overload(self, signature, compiled):
        if not all(map(_is_known, signature)):
            return
        key = self._index_key(signature, compiled.codegen)
        try:
            if compiled.library.has_dynamic_globals or compiled.lifted:
                raise ValueError(f"{self._py_func.__name__} has what is of this process alone")
            write_whole(self._file(key), serialize.dumps((key, compiled._reduce())))
        except Exception as error:
            # What was compiled works all the same.
            _not_kept(getattr(error, "strerror", None) or repr(error))


def _is_known(kind):
    """Whether a type is numba's or the package's own.

    A loss from a user's file brings bodies that are compiled into our kernels, and that may
    change while our sources do not.
    """
    inside = all(map(_is_known, getattr(kind, "types", ())))
    module = getattr(getattr(kind, "instance_class", None), "__module__", PACKAGE.name)
    return inside and module.partition(".")[0] == PACKAGE.name


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
        # What was typed in or made by exec has no file that could be known again.
        named = os.path.isfile(f.__code__.co_filename)
        if cache is not False and named and CACHE_DIRECTORY is not None:
            compiled._cache = _KernelFiles(f)
        return compiled
    return decorate if function is None else decorate(function)

"""Arrays from files of numpy and scipy, which are never unpickled."""

from pathlib import Path

import numpy as np
import scipy.sparse

#: What files of data have, and of a whole model.
DATA, MODEL = ("A", "b"), ("A", "b", "coef")


def read_parts(files, names):
    """The arrays of these names, `DATA` or `MODEL`, of one .npz or of a file each.

    A may be sparse.
    """
    files = [Path(file) for file in files]
    each = f"{'two' if names == DATA else 'three'} files, of {', '.join(names[:-1])}"
    each = f"{each} and {names[-1]}"
    if len(files) == 1:
        found = read_arrays(files[0])
        if not isinstance(found, dict) or not set(names) <= set(found):
            has = ", ".join(found) if isinstance(found, dict) else "one array"
            raise ValueError(
                f"{files[0]} must be an .npz with the arrays {', '.join(names)}, got {has}; or "
                f"give {each}"
            )
        return tuple(found[name] for name in names)
    if len(files) != len(names):
        raise ValueError(f"give one file, or {each}, got {len(files)}")
    made = []
    for file, name in zip(files, names, strict=True):
        found = read_arrays(file)
        if isinstance(found, dict):
            if len(found) != 1:
                raise ValueError(f"{file} must hold {name} alone, got {', '.join(found)}")
            (found,) = found.values()
        made.append(found)
    return tuple(made)


def read_arrays(file):
    """An array of a .npy or of scipy's .npz, or a dict of those of numpy's .npz."""
    try:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            return found
        with found:
            if {"format", "shape", "data"} <= set(found.files):
                return scipy.sparse.load_npz(file)
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise ValueError(f"no such file: {file}") from None
    except Exception:  # whatever numpy and zipfile make of other files
        raise ValueError(
            f"{file} must be a .npy or .npz file of numbers, as numpy.save, numpy.savez and "
            "scipy.sparse.save_npz write them, got something else"
        ) from None

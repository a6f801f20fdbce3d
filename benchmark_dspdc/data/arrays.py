"""Arrays from files of numpy and scipy, which are never unpickled."""

from pathlib import Path

import numpy as np
import scipy.sparse

#: What a file of a whole model has.
PARTS = ("A", "b", "coef")


def read_model(files):
    """A, b and coef, of one .npz with these names, or of three files; A may be sparse."""
    files = [Path(file) for file in files]
    if len(files) == 1:
        found = read_arrays(files[0])
        if not isinstance(found, dict) or not set(PARTS) <= set(found):
            has = ", ".join(found) if isinstance(found, dict) else "one array"
            raise ValueError(
                f"{files[0]} must be an .npz with the arrays {', '.join(PARTS)}, got {has}; or "
                "give three files, of A, b and coef"
            )
        return tuple(found[name] for name in PARTS)
    if len(files) != 3:
        raise ValueError(f"give one file, or three of A, b and coef, got {len(files)}")
    made = []
    for file, name in zip(files, PARTS, strict=True):
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

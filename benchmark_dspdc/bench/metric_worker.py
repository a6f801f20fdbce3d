"""Fits a metric-learning package in an environment of its own; `metric_peers` starts it.

Nothing of this package is imported here, and of the environment numpy and the package alone.
A frame, either way, is the length of a NumPy archive (8 bytes, big-endian) and the archive.
The first request brings X and y, and is answered when the package is loaded; each of the
others brings the options of a fit.
"""

import io
import os
import sys
import time
import types
import warnings

import numpy as np


def metric_learn():
    from metric_learn import LMNN

    def fit(X, y, n_neighbors, max_iter, regularization, seed):
        # Its steps are numbered from 2 to below max_iter.
        return LMNN(n_neighbors=n_neighbors, max_iter=max_iter + 2, random_state=seed,
                    regularization=regularization).fit(X, y)
    return fit


def pylmnn():
    # It imports GPyOpt, for a search that is not used here, and does not declare it.
    unused = types.ModuleType("GPyOpt.methods")
    unused.BayesianOptimization = None
    sys.modules.update({"GPyOpt": types.ModuleType("GPyOpt"), "GPyOpt.methods": unused})
    from pylmnn import LargeMarginNearestNeighbor

    def fit(X, y, n_neighbors, max_iter, regularization, seed):
        return LargeMarginNearestNeighbor(
            n_neighbors=n_neighbors, max_iter=max_iter, random_state=seed,
            weight_push_loss=1.0 - regularization,
        ).fit(X, y)
    return fit


#: By the names of their environments: what loads the package and gives its fit.
LOADERS = {"metric-learn": metric_learn, "pylmnn": pylmnn}


def receive(stream):
    """The arrays of the next frame by their names, None at the end of the stream."""
    if len(head := stream.read(8)) < 8:
        return None
    frame = io.BytesIO(stream.read(int.from_bytes(head, "big")))
    with np.load(frame, allow_pickle=False) as found:
        return dict(found)


def send(stream, **arrays):
    archive = io.BytesIO()
    np.savez(archive, **arrays)
    stream.write(len(archive.getvalue()).to_bytes(8, "big") + archive.getvalue())
    stream.flush()


def peak_memory():
    """Bytes of memory that this process has held at most."""
    try:
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line[:6] == "VmHWM:")
    except (OSError, StopIteration):
        # Where there is no such file; in bytes on macOS.
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(load, requests, answers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, fit = receive(requests), load()
        send(answers)
        while (options := receive(requests)) is not None:
            options = {name: value.item() for name, value in options.items()}
            begun = time.perf_counter()
            model = fit(**data, **options)
            seconds = time.perf_counter() - begun
            # Both count their start as an iteration.
            send(answers, components=model.components_, seconds=seconds,
                 iterations=model.n_iter_ - 1, peak_memory=peak_memory())


if __name__ == "__main__":
    # What a package prints goes with the messages, not among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    main(LOADERS[sys.argv[1]], sys.stdin.buffer, answers)

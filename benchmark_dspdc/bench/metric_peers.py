"""Packages that learn metrics, each in a pinned environment of its own, through a worker process.

They need older releases of scikit-learn or scipy than this package. `make peers-metric` builds
their environments; `metric_worker.py` runs in them. Both learn one linear map for all points, by
large margin nearest neighbours (Weinberger & Saul, JMLR 10, 2009). Their objectives are not ours,
so errors and times can be compared with them, and gaps cannot.
"""

import os
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..engine.checks import as_array, check_int, check_number, choose
from ..problems import MetricProblem
from .metric_worker import receive, send

#: Where the environments are, and the files that pin them.
FOLDER = Path(__file__).parents[2]

#: For each peer, what the squared number of points times the number of features may be at most.
#: metric-learn keeps the differences of all pairs that are impostors: some 2 GB, if a third are.
METRIC_PEERS = {"metric-learn": 9e8, "pylmnn": 3e10}

#: Names by which libraries are told to use one thread.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerDied(RuntimeError):
    """A worker ended before it had answered; the message has the last line that it printed."""


class Fit(NamedTuple):
    """What a worker has learned, L with M = L'L, and in how many iterations."""

    components: np.ndarray
    seconds: float
    peak_memory: int
    iterations: int


def python_of(name):
    """The interpreter of a peer's environment."""
    return FOLDER / f".venv-{name}" / "bin" / "python"


def command(name):
    """What starts a worker; isolated, so that modules beside it shadow none."""
    return [str(python_of(name)), "-I", str(Path(__file__).with_name("metric_worker.py")), name]


def pins(name):
    """The releases in a peer's environment, as text."""
    return (FOLDER / "environments" / f"{name}.txt").read_text("utf-8")


def not_metrics(name):
    """Why a solver that learns metrics cannot be run on other problems."""
    return f"{name} learns metrics; this problem is not metric learning (data set MTLMNN)"


def refuses(name, problem=None):
    """Why the peer cannot be run, on the problem if there is one, or None."""
    if problem is not None and not isinstance(problem, MetricProblem):
        return not_metrics(name)
    if not python_of(name).exists():
        return f"the environment .venv-{name} is missing; build it with `make peers-metric`"
    return None


def fit_peer(name, X, y, n_neighbors=3, max_iter=50, seed=0, regularization=0.5):
    """Learn a linear map with another package.

    Parameters
    ----------
    name : {"metric-learn", "pylmnn"}
    X : array_like of shape (n, d)
    y : array_like of shape (n,)
    n_neighbors : int, default=3
        Target neighbours of a point.
    max_iter : int, default=50
        Iterations at most.
    seed : int, default=0
        For the package, and for the choice of points where there are too many; see `METRIC_PEERS`.
    regularization : float, default=0.5
        The weight of near neighbours, between 0 and 1; that of impostors is what is left to 1.

    Returns
    -------
    components : ndarray of shape (d, d)
        L; the squared distance is ``|L (x - z)|^2``.
    seconds : float
        Of the fit in the worker; its start, imports and the transfer are not in it.
    peak_memory : int
        Bytes that the worker has held at most, its packages included.
    """
    choose(name, list(METRIC_PEERS), "name")
    if (reason := refuses(name)) is not None:
        raise ValueError(reason)
    worker = Worker(name, X, y, n_neighbors, seed, regularization)
    try:
        return worker.fit(max_iter)[:3]
    finally:
        worker.close()


class Worker:
    """A process that has a peer's package loaded and the points, and fits as often as asked.

    The parameters are those of `fit_peer`.
    """

    def __init__(self, name, X, y, n_neighbors=3, seed=0, regularization=0.5):
        self.name, self.seed = name, seed
        self.options = dict(
            n_neighbors=check_int(n_neighbors, "n_neighbors"), seed=seed % 2 ** 31,
            regularization=check_number(regularization, "regularization", 0.0, True, 1.0),
        )
        X, classes = as_array(X, "X", 2), np.unique(y, return_inverse=True)[1]
        most = int(np.sqrt(METRIC_PEERS[name] / X.shape[1]))
        rows = subset(classes, most, self.options["n_neighbors"] + 1, seed)
        # A file, as nobody reads a pipe while the worker computes.
        self._messages = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._messages,
            env=os.environ | dict.fromkeys(THREADS, "1"),
        )
        self.close = weakref.finalize(self, _end, self._process, self._messages)
        self._ask(X=X[rows], y=classes[rows])

    def fit(self, max_iter):
        """The `Fit` from the package's own start, in that many iterations at most."""
        found = self._ask(max_iter=check_int(max_iter, "max_iter"), **self.options)
        return Fit(found["components"], float(found["seconds"]), int(found["peak_memory"]),
                   int(found["iterations"]))

    def _ask(self, **arrays):
        try:
            send(self._process.stdin, **arrays)
            found = receive(self._process.stdout)
        except OSError:
            found = None
        if found is not None:
            return found
        code = self._process.wait()
        self._messages.seek(0)
        lines = self._messages.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        self.close()
        raise WorkerDied(f"the worker of {self.name} ended with code {code}: {last}")


def _end(process, messages):
    """End a worker, which may be in the middle of a fit."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, messages):
        try:
            stream.close()
        except OSError:
            pass     # what was not sent cannot be any more


def subset(classes, most, least, seed):
    """Rows of all points, or about `most` chosen at random, the same share of each class.

    Of each class there are `least` points, if it has so many.
    """
    n = len(classes)
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(seed).permutation(n)
    rows = []
    for k in range(classes.max() + 1):
        own = order[classes[order] == k]
        rows.append(own[:max(least, int(len(own) * most / n))])
    return np.sort(np.concatenate(rows))

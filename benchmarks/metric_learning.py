"""What `MultiTaskLMNN` brings and costs, and other packages: for docs/metric-learning.md.

    python benchmarks/metric_learning.py errors      # 3-NN errors by cross-validation, defaults
    python benchmarks/metric_learning.py constants   # the same with other constants
    python benchmarks/metric_learning.py sizes       # seconds over points, mnist
    python benchmarks/metric_learning.py paper       # 1.15 million triplets, as in the paper
    python benchmarks/metric_learning.py peers       # needs `make peers-metric`

letter, pendigits and mnist come from libsvmdata's cache, or the network.
"""

import multiprocessing
import os
import sys
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from benchmark_dspdc import MultiTaskLMNN, mt_lmnn, solve
from benchmark_dspdc.bench.metric_peers import METRIC_PEERS, fit_peer, refuses
from benchmark_dspdc.bench.metric_worker import peak_memory
from benchmark_dspdc.data import libsvm
from benchmark_dspdc.data.histograms import aloi_like
from benchmark_dspdc.data.metric_learning import load_metric_learning

#: The defaults were chosen on the first three.
SETS = ("letter", "digits", "aloi_like", "pendigits", "mnist", "letter, tasks of 2",
        "pendigits, tasks of 2", "digits, standardised", "breast_cancer",
        "breast_cancer, standardised", "wine", "wine, standardised", "iris")

#: What the defaults are compared with, one constant changed at a time.
OTHERS = (dict(lambda0=1e-3), dict(lambda0=0.1), dict(margin=0.3), dict(margin=3.0),
          dict(n_impostors=1), dict(n_impostors=10), dict(refresh=0), dict(lam=0.1))


def load(name, points=10000):
    """Points, classes and tasks (or None) of a set; of mnist some points, 64 components."""
    base, _, how = name.partition(", ")
    if base == "aloi_like":
        X, y = aloi_like(100)
        return X, y, y // 10
    if base in ("letter", "pendigits", "mnist"):
        X, y = libsvm.raw(base)
        X = X.toarray() if hasattr(X, "toarray") else X
    else:
        X, y = getattr(datasets, f"load_{base}")(return_X_y=True)
    y = y.astype(int)
    if base == "mnist":
        rows = np.random.default_rng(0).permutation(len(y))[:points]
        X, y = PCA(64, svd_solver="covariance_eigh").fit_transform(X[rows]), y[rows]
    if how == "standardised":
        X = StandardScaler().fit_transform(X)
    return X, y, (y - y.min()) // 2 if how == "tasks of 2" else None


def folds(y):
    """Three folds of large sets, five of small ones, five times where very small."""
    for seed in range(5 if len(y) < 1000 else 1):
        yield from StratifiedKFold(3 if len(y) > 3000 else 5, shuffle=True,
                                   random_state=seed).split(y, y)


def error(model, X, y, tasks, train, test):
    given, asked = (None if tasks is None else tasks[rows] for rows in (train, test))
    begun = time.perf_counter()
    model.fit(X[train], y[train], given)
    return time.perf_counter() - begun, 1.0 - model.score(X[test], y[test], asked)


def errors(options=({},), sets=SETS):
    """3-NN errors in per cent; the standard error is that of a share of all points."""
    print(f"{'data':30} {'points':>6} {'d':>3}  Euclid  se     learned, seconds a fit")
    for name in sets:
        X, y, tasks = load(name)
        # As lambda0 grows the metric becomes the Euclidean one.
        models = [MultiTaskLMNN(lambda0=1e9, lam=1e9, refresh=0)]
        models += [MultiTaskLMNN(random_state=0, max_seconds=60, **some) for some in options]
        found = np.array([
            [error(model, X, y, tasks, *parts) for model in models] for parts in folds(y)
        ]).mean(axis=0)
        plain = found[0, 1]
        spread = np.sqrt(plain * (1.0 - plain) / len(y))
        shown = "  ".join(f"{100 * e:5.2f} {(e - plain) / spread:+5.1f} se {s:5.2f}"
                          for s, e in found[1:])
        print(f"{name:30} {len(y):6} {X.shape[1]:3}  {100 * plain:5.2f}  {100 * spread:4.2f}  "
              f"{shown}", flush=True)


def constants():
    for some in OTHERS:
        print(some)
        errors([some], SETS[:5])


def sizes():
    """Seconds and rounds of a fit on the first points of mnist, 128 components."""
    X, y = libsvm.raw("mnist")
    X = PCA(128, svd_solver="covariance_eigh").fit_transform(
        X.toarray() if hasattr(X, "toarray") else X)
    MultiTaskLMNN(random_state=0).fit(X[:500], y[:500])      # compiled
    for n in (3750, 7500, 15000, 30000, 60000):
        model, begun = MultiTaskLMNN(random_state=0), time.perf_counter()
        model.fit(X[:n], y[:n])
        print(f"{n:6} points {time.perf_counter() - begun:6.2f} s, {len(model.rounds_)} rounds, "
              f"solving {sum(row['seconds'] for row in model.rounds_):5.2f} s, "
              f"{peak_memory() / 1e9:.2f} GB", flush=True)


def paper():
    """The paper's 100 tasks on the stand-in of ALOI's size, one and six impostors a pair."""
    data = load_metric_learning("aloi_like")
    for n_impostors in (1, 6):
        begun = time.perf_counter()
        problem = mt_lmnn(*data[:3], n_impostors=n_impostors)
        built = time.perf_counter() - begun
        print(f"{problem.shape[0]} triplets, {problem.shape[1]} matrices, built in {built:.2f} s,"
              f" {peak_memory() / 1e9:.2f} GB")
        for method, some in (("auto", {}), ("dspdc", {}), ("sdca", dict(m=1.0))):
            history = solve(problem, method, tol=1e-4, max_seconds=300, **some).history
            reached = [history.seconds[history.relative_gap <= gap].min() for gap in (1e-3, 1e-4)]
            print(f"  {method:6} to 1e-3 {reached[0]:6.2f} s, to 1e-4 {reached[1]:6.2f} s, "
                  f"{peak_memory() / 1e9:.2f} GB", flush=True)


def ours(arrays):
    """Seconds of a fit, compiled before, test error and memory, in a process of its own."""
    X, y, X_test, y_test = arrays
    MultiTaskLMNN(random_state=0).fit(X[:300], y[:300])
    begun = time.perf_counter()
    model = MultiTaskLMNN(random_state=0).fit(X, y)
    seconds = time.perf_counter() - begun
    return seconds, 1.0 - model.score(X_test, y_test), peak_memory()


def peers():
    """Error, seconds and memory of each package with its defaults on the same splits."""
    cases = [("digits", 1797), ("letter", 15000), ("mnist", 3000), ("mnist", 15000)]
    for name, points in cases:
        X, y, _ = load(name, points)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
        votes = KNeighborsClassifier(3)
        plain = 1.0 - votes.fit(X, y).score(X_test, y_test)
        print(f"{name}, {len(y)} of {len(y) + len(y_test)} points for training, d = {X.shape[1]}: "
              f"Euclidean {100 * plain:.2f} %")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, wrong, memory = pool.apply(ours, [(X, y, X_test, y_test)])
        print(f"  {'MultiTaskLMNN':13} {100 * wrong:5.2f} % {seconds:7.2f} s "
              f"{memory / 1e9:5.2f} GB", flush=True)
        for peer in METRIC_PEERS:
            if (reason := refuses(peer)) is not None:
                print(f"  {peer:13} {reason}")
                continue
            most = int(np.sqrt(METRIC_PEERS[peer] / X.shape[1]))
            L, seconds, memory = fit_peer(peer, X, y, max_iter=1000 if peer == "metric-learn"
                                          else 50)
            wrong = 1.0 - votes.fit(X @ L.T, y).score(X_test @ L.T, y_test)
            kept = "" if len(y) <= most else f", fitted on {most} points"
            print(f"  {peer:13} {100 * wrong:5.2f} % {seconds:7.2f} s {memory / 1e9:5.2f} GB"
                  f"{kept}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    # Searches of an earlier call would be free.
    os.environ["BENCHMARK_DSPDC_STORE_GB"] = "0"
    parts = dict(errors=errors, constants=constants, sizes=sizes, paper=paper, peers=peers)
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(__doc__)
    parts[sys.argv[1]]()

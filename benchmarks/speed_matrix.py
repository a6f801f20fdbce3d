"""Measure the matrix problems: projections beside eigh, products beside dgemm, iterations."""

import os
import subprocess
import sys
import time
from unittest.mock import patch

import numpy as np
import speed

from benchmark_dspdc.data import load_metric_learning, store
from benchmark_dspdc.engine.psd_projection import Projector
from benchmark_dspdc.engine.sampling import partition
from benchmark_dspdc.engine.symmetric import pack
from benchmark_dspdc.engine.threads import VARIABLE, n_threads
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.problems import mt_lmnn
from benchmark_dspdc.solver import prepare

#: Name of a spectrum, and the largest time allowed at d = 128 as a part of eigh's.
SPECTRA = {
    "half negative": 1.05,
    "5 % negative": 0.6,
    "5 % positive": 0.6,
    "semidefinite": 0.1,
    "singular + 1e-6": 0.1,
}
SIZES = (128, 200, 16)
BATCH = 20


def spectrum(name, d, rng):
    """Eigenvalues of about 1 in absolute value, with the signs that the name tells."""
    l = np.abs(rng.standard_normal(d)) + 1e-3
    few = max(1, round(0.05 * d))
    if name == "half negative":
        l[:d // 2] *= -1.0
    elif name == "5 % negative":
        l[:few] *= -1.0
    elif name == "5 % positive":
        l[few:] *= -1.0
    elif name == "singular + 1e-6":
        l[:d // 2] = 0.0
        l += 1e-6
    return l


def symmetric(l, rng):
    """A symmetric matrix with eigenvalues l and random eigenvectors."""
    Q = np.linalg.qr(rng.standard_normal((len(l), len(l))))[0]
    M = (Q * l) @ Q.T
    return 0.5 * (M + M.T)


def by_eigh(M):
    """The projection as one would write it."""
    l, V = np.linalg.eigh(M)
    return (V * np.maximum(l, 0.0)) @ V.T


def psd_kernels():
    """One matrix against eigh and the product, one thread; a batch on two threads."""
    for d in SIZES:
        for name, bound in SPECTRA.items():
            yield one_matrix(name, d, ("time_to_eigh", "<=", bound) if d == 128 else None)
    for name in ("half negative", "5 % negative"):
        # A machine with one core has nothing to show here.
        possible = n_threads() >= 2
        yield batch(name, 128, ("rate_to_one_thread", ">=", 1.6) if possible else None)


def one_matrix(name, d, target=None):
    """Time of a projection over that of eigh and the product."""
    rng = np.random.default_rng(0)
    M = symmetric(spectrum(name, d, rng), rng)
    projector, X = Projector(1, d), np.empty((1, d, d))

    def own():
        X[0] = M
        projector.project([0], X)

    seconds, eigh = speed.in_turn(own, lambda: by_eigh(M), repeats=100)
    row = dict(
        kernel=f"PSD projection d={d} {name}", ns_per_iteration=1e9 * seconds,
        ns_per_entry=1e9 * seconds / d ** 2, time_to_eigh=seconds / eigh,
    )
    return speed.judged(row, target)


def batch(name, d, target=None):
    """Rate of a batch of matrices on two threads over that on one."""
    rng = np.random.default_rng(0)
    M = np.array([symmetric(spectrum(name, d, rng), rng) for _ in range(BATCH)])
    projector, X = Projector(BATCH, d), np.empty_like(M)

    best = {1: np.inf, 2: np.inf}
    for _ in range(30):
        for threads in best:
            X[:] = M
            with patch.dict(os.environ, {VARIABLE: str(threads)}):
                seconds = speed.timed(lambda: projector.project(range(BATCH), X))
            best[threads] = min(best[threads], seconds)
    row = dict(
        kernel=f"PSD projection d={d} {name}, {BATCH} matrices on 2 threads",
        ns_per_iteration=1e9 * best[2] / BATCH, rate_to_one_thread=best[1] / best[2],
    )
    return speed.judged(row, target)


# Triplets ------------------------------------------------------------------------------

def triplet_kernels():
    """Products of mini-batches with triplets, and DSPDC's iterations, at the paper's size."""
    data = load_metric_learning("aloi_like")
    problem = mt_lmnn(data.points, data.labels, data.tasks)
    yield from triplet_products(problem)
    bound = ("time_to_projections", "<=", 1.8)
    for method, options, target in (
        # As in the paper, 20 of 101 blocks; a partition has six blocks of 17.
        ("dspdc", dict(m=2000, q=20, sampling="subset", Lambda="heuristic"), bound),
        ("dspdc", dict(m=2000, q=20), bound),
        ("dspdc", dict(m=8000, q=40), None), ("spdc", dict(m=2000), None),
        ("sdca", dict(m=2000), None),
    ):
        yield iteration(problem, method, options, target)


def triplet_products(problem, m=2000):
    """Products with, and sums of, m random triplets on one thread.

    A triplet counts as two quadratic forms of d^2 multiply-adds, whatever is
    really done.
    """
    operator = problem.operator
    rng = np.random.default_rng(0)
    plans = [operator.plan(I) for I in partition(problem.shape[0], m, rng).blocks[:20]]
    X = pack(rng.standard_normal(problem.x_shape))
    out, total, delta = np.empty(m), np.zeros_like(X), np.zeros_like(X)
    wanted = np.ones(problem.shape[1], dtype=bool)
    coef = rng.standard_normal(m)
    dgemm = speed.Dgemm()
    turn = iter(range(10 ** 9))

    def products():
        operator.row_products(plans[next(turn) % len(plans)], X, out)

    def sums():
        operator.add_rows(plans[next(turn) % len(plans)], coef, total, delta, wanted)

    with patch.dict(os.environ, {VARIABLE: "1"}):
        seconds = speed.in_turn(products, sums, dgemm, repeats=40)
    peak = dgemm.multiply_adds / seconds[2]
    done = 2 * m * operator.d ** 2
    for name, taken, target in (
        ("products", seconds[0], ("to_dgemm", ">=", 0.4)), ("sums", seconds[1], None)
    ):
        yield speed.judged(dict(
            kernel=f"triplets d={operator.d}, {name} of {m} rows in {problem.shape[1] - 1} tasks",
            ns_per_iteration=1e9 * taken, multiply_adds_per_second=done / taken,
            to_dgemm=done / taken / peak,
        ), target)


def iteration(problem, method, options, target, repeats=8):
    """Time of an iteration over that of its projections alone, on all threads.

    In turn: some iterations, and the projections of the one after them again.
    """
    prepare(METHODS[method], problem, options)
    begun = time.perf_counter()
    algorithm = METHODS[method](problem, **options)
    setup = time.perf_counter() - begun
    n_iterations = 20 if method == "dspdc" else 4
    algorithm.advance(3 * n_iterations)
    project, seen = Projector.project, []

    def record(projector, blocks, matrices):
        seen.append((list(blocks), projector.signs.copy(), matrices.copy()))
        return project(projector, blocks, matrices)

    taken, alone = [], []
    for _ in range(repeats):
        taken.append(speed.timed(lambda: algorithm.advance(n_iterations)) / n_iterations)
        seen.clear()
        with patch.object(Projector, "project", record):
            algorithm.advance(1)
        blocks = [j for some, _, _ in seen for j in some]
        matrices = np.concatenate([given for _, _, given in seen])
        projector = Projector(problem.shape[1], problem.operator.d)
        for _ in range(3):
            for some, signs, _ in seen:
                projector.signs[some] = signs[some]
            batch = matrices.copy()
            alone.append(speed.timed(lambda: projector.project(blocks, batch)))  # noqa: B023
    shown = " ".join(f"{key}={value}" for key, value in options.items())
    row = dict(
        kernel=f"{method.upper()} MT-LMNN {problem.shape[0]} triplets d={problem.operator.d} "
               f"{shown}: {len(blocks)} projections, {n_threads()} threads, "
               f"set-up {setup:.1f} s",
        ns_per_iteration=1e9 * min(taken), setup_seconds=setup,
        time_to_projections=float(np.median(taken) / np.median(alone)),
    )
    if target is None:
        return row | dict(target=f"{row['time_to_projections']:.2f} times its projections")
    return speed.judged(row, target)


# Sizes ---------------------------------------------------------------------------------

PEAK = """
from benchmark_dspdc.bench.processor import peak_memory
print(peak_memory() / 1e9)
"""

RISK_SCRIPT = """
from benchmark_dspdc import matrix_risk
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.data import matrix_risk_data
data = matrix_risk_data(100, 100, 200)
problem = matrix_risk(data.packed, data.b, lam=0.01)
for name, options in (("dspdc", dict(m=20, q=20)), ("dspdc", dict(m=50, q=5)),
                      ("spdc", dict(m=20)), ("sdca", dict(m=20))):
    algorithm = METHODS[name](problem, **options)
    algorithm.advance(2)
    problem.certify(algorithm.x, algorithm.y)
    del algorithm
""" + PEAK

LMNN_SCRIPT = """
import sys, time
from benchmark_dspdc import mt_lmnn
from benchmark_dspdc.data import load_metric_learning
data = load_metric_learning("aloi_like")
begun = time.perf_counter()
problem = mt_lmnn(data.points, data.labels, data.tasks, n_impostors=int(sys.argv[1]))
print(time.perf_counter() - begun)
print(problem.shape[0])
""" + PEAK


def sizes():
    """Memory and building time at the paper's sizes, each in a process of its own."""
    def row(kernel, unit, value, bound):
        return speed.judged({"kernel": kernel, unit: value}, (unit, "<=", bound))

    name = "matrix risk n=p=100 d=200: data, two iterations of each method, GB"
    yield row(name, "gigabytes", *_numbers(RISK_SCRIPT), 2.2)
    for n_impostors in (1, 6):
        seconds, n, gigabytes = _numbers(LMNN_SCRIPT, n_impostors)
        name = f"MT-LMNN {n:.0f} triplets, 100 tasks, d=128: building"
        yield row(f"{name}, seconds", "seconds", seconds, 120)
        yield row(f"{name}, GB", "gigabytes", gigabytes, 1.5)


def _numbers(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], text=True, check=True,
        stdout=subprocess.PIPE, env=os.environ | {store.VARIABLE: "0"},
    )
    return [float(line) for line in done.stdout.split()]


GROUPS = {"psd": psd_kernels, "triplets": triplet_kernels, "matrix-sizes": sizes}

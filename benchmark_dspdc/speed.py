"""Measure every kernel, and the machine in the same run.

``python -m benchmark_dspdc speed`` prints, for each kernel, its multiply-adds
a second beside what the machine can do at that moment: dgemm, and a bare loop
over the same memory. On a shared machine only the ratios mean something, so
the two sides of a ratio are timed in turn and each is represented by its best
time. Everything runs on one thread.
"""

import json
import platform
import resource
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table

from .algorithms import METHODS
from .data import dense_classification, factorized, sparse_classification
from .jit import njit
from .losses import LOSSES
from .problem import erm
from .solver import solve, warm_up
from .threads import single_threaded
from .version import __version__

REPEATS = 15


def in_turn(*functions, repeats=REPEATS):
    """Best time of each function, called in turn so that all see the same machine."""
    best = [np.inf] * len(functions)
    for function in functions:
        function()
    for _ in range(repeats):
        for k, function in enumerate(functions):
            begun = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - begun)
    return best


def fresh_epochs(problem, options, n_iterations, bare, repeats=REPEATS):
    """Best time of a method's first iterations, and of a bare loop in turn.

    From the start, because later many steps are zero and their updates skipped.
    """
    best_method, best_bare = np.inf, np.inf
    for repeat in range(repeats):
        algorithm = METHODS["sdca"](problem, seed=repeat, **options)
        begun = time.perf_counter()
        algorithm.advance(n_iterations)
        middle = time.perf_counter()
        bare()
        best_method = min(best_method, middle - begun)
        best_bare = min(best_bare, time.perf_counter() - middle)
    return best_method, best_bare


# The machine ----------------------------------------------------------------------

class Dgemm:
    """Multiply-adds a second of a matrix product that fits the cache."""

    def __init__(self, size=512):
        rng = np.random.default_rng(0)
        self.a, self.b = rng.standard_normal((2, size, size))
        self.multiply_adds = size ** 3

    def __call__(self):
        return self.a @ self.b


@njit(cache=False)
def bare_dense(A, order, w):
    """A dot and an axpy with each row, nothing else."""
    for k in range(order.shape[0]):
        i = order[k]
        dot = 0.0
        for j in range(A.shape[1]):
            dot += A[i, j] * w[j]
        dot *= 1e-30
        for j in range(A.shape[1]):
            w[j] += dot * A[i, j]


@njit(cache=False, reassociate=False)
def bare_sparse(data, columns, indptr, order, w):
    """A gather-dot and a scatter-axpy with each row, nothing else."""
    for k in range(order.shape[0]):
        i = order[k]
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        dot = 0.0
        for e in range(start, end):
            dot += data[e] * w[columns[e]]
        dot *= 1e-30
        for e in range(start, end):
            w[columns[e]] += dot * data[e]


# The kernels ----------------------------------------------------------------------

FACTORIZED = [(5000, 100, 20, 1, 50), (10000, 500, 50, 1, 50), (10000, 500, 50, 500, 500)]


def factorized_dspdc():
    """Multiply-adds of DSPDC on A = UV, an iteration counted as 2d(m + q)."""
    dgemm = Dgemm()
    for n, p, d, m, q in FACTORIZED:
        data = factorized(n, p, d)
        for loss in ("smoothed_hinge", "logistic"):
            problem = erm((data.U, data.V), data.b, loss, 1e-3, 1e-2)
            algorithm = METHODS["dspdc"](problem, m=m, q=q)
            n_iterations = int(1e8 / (2 * d * (m + q))) + 1
            seconds, machine = in_turn(lambda: algorithm.advance(n_iterations), dgemm)  # noqa: B023
            rate = n_iterations * 2 * d * (m + q) / seconds
            peak = dgemm.multiply_adds / machine
            yield dict(
                kernel=f"DSPDC (n,p,d,m,q)=({n},{p},{d},{m},{q}) {loss}",
                figure=f"{1e9 * seconds / n_iterations:.0f} ns an iteration, "
                       f"{rate / 1e9:.2f} G multiply-adds/s",
                ratio=rate / peak, against="dgemm's rate",
                target=">= 0.30" if loss == "smoothed_hinge" else None,
            )


def dense_kernels():
    """Time of a pass over a dense matrix, an entry."""
    n, p = 10000, 500
    data = dense_classification(n, p, seed=0)
    dgemm, order = Dgemm(), np.random.default_rng(0).permutation(n).astype(np.uint64)
    w = np.ones(p)
    hinge = None
    for loss in LOSSES:
        for l1 in (0.0, 1e-4):
            problem = erm(data.X, data.b, loss, l1, 1e-4)
            warm_up(METHODS["sdca"], problem, {})
            machine = in_turn(dgemm)[0]
            seconds, bare = fresh_epochs(
                problem, {}, n, lambda: bare_dense(data.X, order, w), repeats=7
            )
            machine = min(machine, in_turn(dgemm)[0])
            entry = 1e9 * seconds / (n * p)
            scaled = entry * dgemm.multiply_adds / machine / 20e9
            if loss == "smoothed_hinge" and l1 == 0.0:
                hinge = scaled
            yield dict(
                kernel=f"SDCA dense {n} x {p}, {loss}, lambda1={l1:g}",
                figure=f"{entry:.2f} ns an entry and pass, {scaled:.2f} at a dgemm of 20 G/s",
                ratio=seconds / bare, against="bare dot and axpy",
                target="<= 1.0 ns at 20 G/s" if loss == "smoothed_hinge" else (
                    "<= 1.6 ns at 20 G/s" if loss == "logistic" else None
                ),
                measured=scaled, hinge=hinge,
            )
    for method, options in (("dspdc", dict(m=100, q=250)), ("spdc", dict(m=100))):
        problem = erm(data.X, data.b, "smoothed_hinge", 1e-4, 1e-4)
        algorithm = METHODS[method](problem, **options)
        n_iterations = 100
        before = algorithm.passes
        algorithm.advance(n_iterations)
        passes = algorithm.passes - before
        seconds, bare = in_turn(
            lambda: algorithm.advance(n_iterations),  # noqa: B023
            lambda: bare_dense(data.X, order, w), repeats=7,
        )
        yield dict(
            kernel=f"{method.upper()} dense {n} x {p}, {options}",
            figure=f"{1e9 * seconds / (passes * n * p):.2f} ns an entry and pass",
            ratio=seconds / passes / bare, against="bare dot and axpy", target=None,
        )


def sparse_kernels():
    """Time of a pass over sparse rows, a stored entry."""
    data = sparse_classification(20000, 47000, 85, seed=0)
    for loss in ("smoothed_hinge", "logistic"):
        yield _sparse_sdca(f"synthetic 20000 x 47000, 85 a row, {loss}", data.X, data.b, loss)


def _sparse_sdca(name, X, b, loss, l1=0.0, l2=1e-4):
    problem = erm(X, b, loss, l1, l2)
    rows, n = problem.operator.rows, X.shape[0]
    order = np.random.default_rng(0).permutation(n).astype(np.uint64)
    w = np.ones(X.shape[1])
    warm_up(METHODS["sdca"], problem, dict(order="permuted"))

    def bare():
        bare_sparse(rows.data, rows.indices, rows.indptr, order, w)

    bare()
    seconds, loop = fresh_epochs(problem, dict(order="permuted"), n, bare)
    return dict(
        kernel=f"SDCA CSR {name}",
        figure=f"{1e9 * seconds / X.nnz:.2f} ns a stored entry and pass",
        ratio=seconds / loop, against="bare gather-dot and scatter-axpy",
        target="<= 1.3" if loss == "smoothed_hinge" else None,
    )


def sparse_dspdc():
    """A DSPDC iteration on CSR at p = 1e3, 1e5, 1e7 and the same number of entries."""
    n, row_nnz = 2000, 20
    times = {}
    for p in (10 ** 3, 10 ** 5, 10 ** 7):
        rng = np.random.default_rng(0)
        columns = np.sort(rng.integers(0, p, (n, row_nnz)), axis=1)
        A = scipy.sparse.csr_array(
            (rng.standard_normal(n * row_nnz), columns.ravel(), row_nnz * np.arange(n + 1)),
            shape=(n, p),
        )
        problem = erm(A, np.where(rng.random(n) < 0.5, -1.0, 1.0), lambda2=1e-2)
        # A'y is kept when n/m >= p/q: then an iteration walks rows of A.
        by_rows = METHODS["dspdc"](problem, m=1, q=10000 if p > 10000 else p, Lambda=1.0)
        fixed = METHODS["dspdc"](problem, m=20, q=20, Lambda=1.0)
        times[p] = [
            seconds / 2000 for seconds in in_turn(
                lambda: by_rows.advance(2000), lambda: fixed.advance(2000)  # noqa: B023
            )
        ]
        times[p].append(by_rows.info)
    for p, (rows, both, info) in times.items():
        work = info["q"] + 3 * row_nnz * info["m"]
        yield dict(
            kernel=f"DSPDC CSR p={p:.0e}, m={info['m']}, q={info['q']}, 20 entries a row, "
                   f"keeping products with {info['keep']}",
            figure=f"{1e9 * rows:.0f} ns an iteration, {1e9 * rows / work:.2f} ns for each of "
                   "q + 3 nnz(I)",
            ratio=rows / work / (times[10 ** 5][0] / (times[10 ** 5][2]["q"] + 60)),
            against="p = 1e5, for each", target=None,
        )
        yield dict(
            kernel=f"DSPDC CSR p={p:.0e}, m=20, q=20, 20 entries a row",
            figure=f"{1e9 * both:.0f} ns an iteration",
            ratio=both / times[10 ** 3][1], against="p = 1e3", target=None,
        )


REAL = (
    # file, labels of +1, scaling of rows, seconds known to gap 1e-6 at l2 = 1e-2 and 1e-4
    ("a9a", lambda y: y > 0, False, (0.05, 0.16)),
    ("news20", lambda y: y <= 10, True, (0.065, 0.049)),
    ("covtype.libsvm.binary.scale", lambda y: y == 1, False, (1.1, 1.05)),
)


def real_data(folder):
    """SDCA on real files: the kernel, and time to gap 1e-6 in permuted order."""
    from sklearn.datasets import load_svmlight_file
    from sklearn.preprocessing import normalize

    for name, positive, unit_rows, known in REAL:
        files = sorted(folder.glob(f"{name}.bz2")) + sorted(folder.glob(name))
        if not files:
            continue
        X, y = load_svmlight_file(str(files[0]))
        X = scipy.sparse.csr_array(normalize(X) if unit_rows else X)
        b = np.where(positive(y), 1.0, -1.0)
        yield _sparse_sdca(f"{name}, smoothed_hinge", X, b, "smoothed_hinge")
        for l2, seconds_known in zip((1e-2, 1e-4), known, strict=True):
            problem = erm(X, b, "smoothed_hinge", 0.0, l2)
            runs = [
                solve(problem, "sdca", order="permuted", tol=1e-6, seed=seed).history
                for seed in range(5)
            ]
            seconds = float(np.median([run["seconds"].iloc[-1] for run in runs]))
            yield dict(
                kernel=f"SDCA on {name}, lambda2={l2:g}, to gap 1e-6",
                figure=f"{seconds:.4f} s (median of 5 seeds), "
                       f"{np.median([run['passes'].iloc[-1] for run in runs]):.1f} passes",
                ratio=seconds / seconds_known, against=f"{seconds_known} s", target="<= 1.0",
            )


GROUPS = {
    "factorized": factorized_dspdc,
    "dense": dense_kernels,
    "sparse": sparse_kernels,
    "dspdc-sparse": sparse_dspdc,
}


@single_threaded
def run(json_file=None, only=None, data=None, console=None):
    """Measure, print a table, and write the figures as JSON if asked to."""
    console = console or Console()
    groups = dict(GROUPS)
    if data is not None:
        if not Path(data).is_dir():
            raise ValueError(f"--data must be a folder with LIBSVM files, got {data}")
        groups["real"] = lambda: real_data(Path(data))
    if only is not None:
        groups = {name: group for name, group in groups.items() if only in name}
        if not groups:
            raise ValueError(f"--only must be part of one of {', '.join(GROUPS)}, got {only!r}")
    dgemm = Dgemm()
    peak = dgemm.multiply_adds / in_turn(dgemm)[0]
    console.print(f"this machine, one thread: dgemm {peak / 1e9:.1f} G multiply-adds/s")
    rows = []
    table = Table("kernel", "measured", "ratio", "to", "target")
    for name, group in groups.items():
        with console.status(f"measuring {name}"):
            rows += [dict(group=name, **row) for row in group()]
    for row in rows:
        table.add_row(
            row["kernel"], row["figure"], f"{row['ratio']:.2f}", row["against"],
            row["target"] or "",
        )
    console.print(table)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    console.print(f"largest memory of this process: {memory:.2f} GB")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(dict(
            version=__version__, machine=platform.processor() or platform.machine(),
            dgemm=peak, rows=rows,
        ), indent=1))
        console.print(f"written: {json_file}", soft_wrap=True)

"""Measure every kernel, and the machine in the same run.

``python -m benchmark_dspdc speed`` prints, for each kernel, its multiply-adds
a second beside what the machine can do at that moment: dgemm, and a bare loop
of a dot product and an axpy over the same rows in the same kind of order. On a
shared machine only ratios mean something, so the sides of a ratio are timed in
turn and each is represented by its best time. Everything runs on one thread
but for the group "shared", and for iterations and batches on matrices, which say so.
"""

import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table

from benchmark_dspdc.bench.processor import peak_memory
from benchmark_dspdc.data import dense_classification, factorized, sparse_classification
from benchmark_dspdc.engine.kernel_cache import njit
from benchmark_dspdc.engine.threads import available_cpus, single_threaded
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.model.losses import LOSSES
from benchmark_dspdc.problems import erm
from benchmark_dspdc.solver import solve, warm_up
from benchmark_dspdc.theory.block_sizes import iteration_seconds
from benchmark_dspdc.version import __version__

REPEATS = 15

#: (n, p, d, m, q) of the factorised kernels.
FACTORIZED = [(5000, 100, 20, 1, 50), (10000, 500, 50, 1, 50), (10000, 500, 50, 500, 500)]


# The machine ----------------------------------------------------------------------

class Dgemm:
    """A matrix product that fits the cache."""

    def __init__(self, size=512):
        rng = np.random.default_rng(0)
        self.a, self.b = rng.standard_normal((2, size, size))
        self.multiply_adds = size ** 3

    def __call__(self):
        return self.a @ self.b


@njit(inline=True)
def _bare_row(A, i, w):
    dot = 0.0
    for j in range(A.shape[1]):
        dot += A[i, j] * w[j]
    dot *= 1e-30
    for j in range(A.shape[1]):
        w[j] += dot * A[i, j]


@njit(cache=False)
def bare_dense(A, order, w):
    """A dot and an axpy with each row, nothing else."""
    for k in range(order.shape[0]):
        _bare_row(A, order[k], w)


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


def bare_pass(problem):
    """A bare loop over all rows of a stored operator, in random order."""
    rows, (n, p) = problem.operator.rows, problem.shape
    order = np.random.default_rng(0).permutation(n).astype(np.uint64)
    w = np.ones(p)
    if problem.operator.kind == "dense":
        return functools.partial(bare_dense, rows.a, order, w)
    return functools.partial(bare_sparse, rows.data, rows.indices, rows.indptr, order, w)


@njit(cache=False)
def bare_blocks(U, Vt, m, q, n_iterations, w):
    """The rows that iterations on A = UV read, a dot and an axpy with each."""
    row, column = 0, 0
    for _ in range(n_iterations):
        row = (row + 7919 * m) % (U.shape[0] - m + 1)
        column = (column + 7919 * q) % (Vt.shape[0] - q + 1)
        for k in range(m):
            _bare_row(U, row + k, w)
        for k in range(q):
            _bare_row(Vt, column + k, w)


# Timing -----------------------------------------------------------------------------

def timed(function):
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def in_turn(*functions, repeats=None):
    """Best time of each function, called in turn so that all see the same machine."""
    for function in functions:
        function()
    times = [[timed(function) for function in functions] for _ in range(repeats or REPEATS)]
    return np.min(times, axis=0)


def measure(name, make, n_iterations, bare=None, target=None, repeats=None):
    """One row of the table: a method's kernel against dgemm and a bare loop.

    Parameters
    ----------
    name : str
    make : callable
        ``make(seed)`` gives a fresh algorithm; each repetition times its first
        iterations, because later many steps are zero and their updates skipped.
    n_iterations : int
    bare : callable and its multiply-adds, or None
    target : tuple (key of the row, "<=" or ">=", bound) or None
    """
    dgemm = Dgemm()
    make(0).advance(n_iterations)
    if bare is not None:
        bare[0]()
    best = np.full(3, np.inf)
    for repeat in range(repeats or REPEATS):
        algorithm = make(repeat)
        algorithm.advance(0)
        times = (
            timed(lambda: algorithm.advance(n_iterations)),  # noqa: B023
            timed(dgemm),
            timed(bare[0]) if bare is not None else np.inf,
        )
        best = np.minimum(best, times)
    done = algorithm.passes * algorithm.problem.operator.multiply_adds
    rate, peak = done / best[0], dgemm.multiply_adds / best[1]
    row = dict(
        kernel=name, ns_per_iteration=1e9 * best[0] / n_iterations,
        # An entry is read for a product and again for an update.
        ns_per_entry=2e9 / rate, multiply_adds_per_second=rate, to_dgemm=rate / peak,
        to_bare_loop=None if bare is None else rate / (bare[1] / best[2]),
    )
    row["ns_per_entry_at_20G"] = row["ns_per_entry"] * peak / 20e9
    row["time_to_bare_loop"] = None if bare is None else 1.0 / row["to_bare_loop"]
    return judged(row, target)


def judged(row, target):
    """A row with its target, a tuple (key of the row, "<=" or ">=", bound) or None."""
    if target is None:
        return row | dict(target=None, reached=None)
    key, sign, bound = target
    text = f"{key.replace('_', ' ')} {row[key]:.2f} {sign} {bound:g}"
    reached = row[key] <= bound if sign == "<=" else row[key] >= bound
    return row | dict(target=text, reached=bool(reached))


# The kernels ----------------------------------------------------------------------

def factorized_kernels():
    """DSPDC on A = UV, an iteration counted as 2d(m + q); SPDC and SDCA beside it."""
    for n, p, d, m, q in FACTORIZED:
        data = factorized(n, p, d)
        for loss in LOSSES:
            problem = erm((data.U, data.V), data.b, loss, 1e-3, 1e-2)

            def make(seed, problem=problem, m=m, q=q):
                return METHODS["dspdc"](problem, seed=seed, m=m, q=q)

            n_iterations = int(1e8 / (2 * d * (m + q))) + 1
            operator = problem.operator
            loop = functools.partial(
                bare_blocks, operator.U, operator.Vt, m, q, n_iterations,
                np.ones(operator.U.shape[1]),
            )
            yield measure(
                f"DSPDC UV ({n},{p},{d}) m={m} q={q} {loss}", make, n_iterations,
                bare=(loop, 2 * d * (m + q) * n_iterations),
                target=("to_dgemm", ">=", 0.3) if loss == "smoothed_hinge" else None,
            )
    n, p, d = FACTORIZED[0][:3]
    data = factorized(n, p, d)
    problem = erm((data.U, data.V), data.b, "smoothed_hinge", 1e-3, 1e-2)
    for method in ("spdc", "sdca"):
        yield measure(
            f"{method.upper()} UV ({n},{p},{d}) m=1 smoothed_hinge",
            lambda seed, method=method: METHODS[method](problem, seed=seed), 5000,
        )


def dense_kernels():
    """All methods on a dense matrix larger than the cache."""
    n, p = 10000, 500
    data = dense_classification(n, p, seed=0)
    for loss in LOSSES:
        bound = {"smoothed_hinge": 1.0, "logistic": 1.6}.get(loss)
        for l1 in (0.0, 1e-4):
            problem = erm(data.X, data.b, loss, l1, 1e-4)
            yield measure(
                f"SDCA dense {n} x {p} {loss} lambda1={l1:g}",
                lambda seed, problem=problem: METHODS["sdca"](problem, seed=seed), n,
                bare=(bare_pass(problem), 2 * n * p), repeats=9,
                target=bound and ("ns_per_entry_at_20G", "<=", bound),
            )
    problem = erm(data.X, data.b, "smoothed_hinge", 1e-4, 1e-4)
    for method, options in (
        ("dspdc", dict(m=100, q=250)), ("dspdc", dict(m=5000, q=5)), ("spdc", dict(m=100)),
        ("spdc", dict(m=1)),
    ):
        shown = " ".join(f"{key}={value}" for key, value in options.items())
        yield measure(
            f"{method.upper()} dense {n} x {p} {shown} smoothed_hinge",
            lambda seed, method=method, options=options: METHODS[method](
                problem, seed=seed, **options
            ),
            100 if options["m"] > 1 else 10000, bare=(bare_pass(problem), 2 * n * p), repeats=7,
        )


def sparse_kernels():
    """SDCA on sparse rows of the size of a text collection."""
    data = sparse_classification(20000, 47000, 85, seed=0)
    for loss in LOSSES:
        for l1 in (0.0, 1e-4):
            yield sparse_sdca("20000 x 47000", data.X, data.b, loss, l1)


def sparse_sdca(name, X, b, loss, l1=0.0, l2=1e-4):
    problem = erm(X, b, loss, l1, l2)
    return measure(
        f"SDCA CSR {name} {loss} lambda1={l1:g}",
        lambda seed: METHODS["sdca"](problem, seed=seed, order="permuted"), X.shape[0],
        bare=(bare_pass(problem), 2 * X.nnz),
        target=("time_to_bare_loop", "<=", 1.3) if loss == "smoothed_hinge" else None,
    )


def settled(algorithm):
    """Write to all its vectors once: fresh memory costs a page fault at its first use."""
    state = algorithm._loop.state
    for vector in (*state.point[:2], *state):
        if isinstance(vector, np.ndarray):
            vector += 0
    return algorithm


def random_rows(n, p, row_nnz=20):
    """Sparse rows and labels that are much alike at every p."""
    rng = np.random.default_rng(0)
    A = scipy.sparse.csr_array(
        (rng.standard_normal(n * row_nnz), rng.integers(0, p, n * row_nnz),
         row_nnz * np.arange(n + 1)), shape=(n, p),
    )
    return A, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def sparse_dspdc():
    """A DSPDC iteration on CSR at p = 1e3, 1e5, 1e7, the rest being equal."""
    first = {}
    for p in (10 ** 3, 10 ** 5, 10 ** 7):
        problem = erm(*random_rows(20000, p))
        for m, q in ((1, 500), (20, 20)):
            row = measure(
                f"DSPDC CSR 20000 x {p:.0e}, 20 entries a row, m={m} q={q}",
                lambda seed, problem=problem, m=m, q=q: settled(METHODS["dspdc"](
                    problem, seed=seed, m=m, q=q, Lambda=1.0
                )), 2000, repeats=5,
            )
            keep = METHODS["dspdc"](problem, m=m, q=q, Lambda=1.0).info["keep"]
            first.setdefault((m, q), row["ns_per_iteration"])
            row["kernel"] += f" (walks {keep})"
            row["ns_to_p_1e3"] = row["ns_per_iteration"] / first[m, q]
            row["target"] = f"{row['ns_to_p_1e3']:.2f} times the time at p = 1e3"
            yield row


REAL = (
    # file, labels of +1, rows of unit norm, seconds known to gap 1e-6 at l2 = 1e-2 and 1e-4
    ("a9a", lambda y: y > 0, False, (0.05, 0.16)),
    ("news20", lambda y: y <= 10, True, (0.065, 0.049)),
    ("covtype.libsvm.binary.scale", lambda y: y == 1, False, (1.1, 1.05)),
)


def real_data(folder):
    """SDCA on real files, permuted order: the kernel, and seconds to gap 1e-6."""
    from sklearn.datasets import load_svmlight_file
    from sklearn.preprocessing import normalize

    for name, positive, unit_rows, known in REAL:
        files = sorted(folder.glob(f"{name}.bz2")) + sorted(folder.glob(name))
        if not files:
            continue
        X, y = load_svmlight_file(str(files[0]))
        X = scipy.sparse.csr_array(normalize(X) if unit_rows else X)
        b = np.where(positive(y), 1.0, -1.0)
        yield sparse_sdca(name, X, b, "smoothed_hinge")
        for l2, seconds_known in zip((1e-2, 1e-4), known, strict=True):
            problem = erm(X, b, "smoothed_hinge", 0.0, l2)
            warm_up(METHODS["sdca"], problem, dict(order="permuted"))
            runs = [
                solve(problem, "sdca", order="permuted", tol=1e-6, seed=seed).history.iloc[-1]
                for seed in range(5)
            ]
            yield judged(dict(
                kernel=f"SDCA {name} lambda2={l2:g}: seconds to gap 1e-6, median of 5 seeds",
                seconds=float(np.median([run["seconds"] for run in runs])),
                passes=float(np.median([run["passes"] for run in runs])),
            ), ("seconds", "<=", seconds_known))
    yield from covtype_memory(folder)


MEMORY_SCRIPT = """
import sys
from benchmark_dspdc import erm
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.data import import_file, load_libsvm, reduce
from benchmark_dspdc.bench.processor import peak_memory
if not import_file("covtype.binary", sys.argv[1]): raise SystemExit
data = load_libsvm("covtype.binary", scale="maxabs")
reduced = reduce(data.X, "feature", 20, 0)
problem = erm((reduced.U, reduced.V), data.b)
for name, method in METHODS.items():
    algorithm = method(problem)
    algorithm.advance(max(1, round(algorithm.iterations_per_pass)))
print(peak_memory() / 1e9)
"""


def covtype_memory(folder):
    """Load covtype, reduce it to d = 20, do a pass of each method; in a process of its own."""
    files = sorted(folder.glob("covtype.libsvm.binary.bz2"))
    if not files:
        return
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY_SCRIPT, str(files[0])], text=True, check=True,
            stdout=subprocess.PIPE, env=os.environ | {"LIBSVMDATA_HOME": home},
        )
    kernel = "covtype, feature reduction d=20, one pass of each method: GB of memory"
    yield judged(dict(kernel=kernel, gigabytes=float(done.stdout)), ("gigabytes", "<=", 1.5))


#: (n, p, d, m, q) of iterations on several threads; d = None for a dense A.
SHARED = [
    (10000, 500, 50, 1000, 500), (200000, 20000, 50, 20000, 20000),
    (20000, 1000, None, 2000, 1000), (20000, 1000, None, 20000, 200),
]


def shared_iterations():
    """DSPDC's iteration on two threads over that on one."""
    rng = np.random.default_rng(0)
    for n, p, d, m, q in SHARED:
        A = rng.standard_normal((n, d or p))
        A = A if d is None else (A, rng.standard_normal((d, p)))
        b = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        for loss in ("smoothed_hinge", "logistic"):
            problem = erm(A, b, loss, 1e-3, 1e-2)
            both = [
                METHODS["dspdc"](problem, m=m, q=q, Lambda=float(n * p), threads=threads)
                for threads in (1, 2)
            ]
            count = max(1, int(0.03 / iteration_seconds(problem.operator, problem.loss, m, q)))
            one, two = in_turn(*(functools.partial(k.advance, count) for k in both)) / count
            kind = "dense" if d is None else "UV"
            yield dict(
                kernel=f"DSPDC {kind} ({n},{p},{d or p}) m={m} q={q} {loss} on 2 threads",
                ns_per_iteration=1e9 * two, rate_of_two_threads=one / two,
                target=f"{one / two:.2f} times the rate of one thread",
            )


GROUPS = {
    "factorized": factorized_kernels, "dense": dense_kernels, "sparse": sparse_kernels,
    "dspdc-sparse": sparse_dspdc,
}

if available_cpus() > 1:
    GROUPS["shared"] = shared_iterations


# The table ----------------------------------------------------------------------------

@single_threaded
def run(json_file=None, only=None, data=None, console=None, peers=False):
    """Measure, print a table, and write the figures as JSON if asked to."""
    # Late, as they use this module.
    import speed_matrix
    import speed_peers

    console = console or Console()
    groups = known = speed_peers.GROUPS if peers else GROUPS | speed_matrix.GROUPS
    if data is not None:
        if not Path(data).is_dir():
            raise ValueError(f"--data must be a folder with LIBSVM files, got {data}")
        groups = groups | {"real": lambda: real_data(Path(data))}
    if only is not None:
        groups = {name: group for name, group in groups.items() if only in name}
        if not groups:
            raise ValueError(f"--only must be part of one of {', '.join(known)}, got {only!r}")
    dgemm = Dgemm()
    peak = dgemm.multiply_adds / in_turn(dgemm)[0]
    console.print(f"this machine, one thread: dgemm {peak / 1e9:.1f} G multiply-adds/s")
    rows = []
    for name, group in groups.items():
        with console.status(f"measuring {name}") as status:
            for row in group():
                rows.append(dict(group=name, **row))
                status.update(f"measuring {name}: {row['kernel']}")
    console.print(_table(rows))
    console.print(f"largest memory of this process: {peak_memory() / 1e9:.2f} GB")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(dict(
            version=__version__, machine=platform.processor() or platform.machine(),
            dgemm=peak, rows=rows,
        ), indent=1))
        console.print(f"written: {json_file}", soft_wrap=True)


def _table(rows):
    table = Table()
    table.add_column("kernel", overflow="fold")
    for name in ("ns/iteration", "ns/entry", "G madd/s", "of dgemm", "of bare loop"):
        table.add_column(name, justify="right")
    table.add_column("target", overflow="fold")

    def shown(row, key, style, scale=1.0):
        value = row.get(key)
        return "" if value is None else format(value * scale, style)

    for row in rows:
        mark = {True: "[green]ok[/] ", False: "[red]missed[/] ", None: ""}[row.get("reached")]
        table.add_row(
            row["kernel"], shown(row, "ns_per_iteration", ".0f"),
            shown(row, "ns_per_entry", ".2f"),
            shown(row, "multiply_adds_per_second", ".2f", 1e-9), shown(row, "to_dgemm", ".2f"),
            shown(row, "to_bare_loop", ".2f"), mark + (row.get("target") or ""),
        )
    return table

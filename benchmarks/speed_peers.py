"""Measure our methods beside the packages that people use instead, on one thread.

``python -m benchmark_dspdc speed --peers``. All times of a row are of one run,
and a row gives our time over the other's to a relative suboptimality
(P(x) - P*)/P*, where P* is certified. A package's time is that of its cheapest
budget that gets there; ours is that of the first check that does, set-up
included, certificates excluded. Each is the best of `REPEATS`, taken in turn.
"""

import functools
import math
import time

import numpy as np
import speed

from benchmark_dspdc.bench.peers import PEERS
from benchmark_dspdc.data import dense_classification, sparse_classification
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.problems import erm
from benchmark_dspdc.solver import solve

REPEATS = 3

#: Seconds after which a search for a target is given up.
PATIENCE = 180.0

#: (n, p), and (n, p, entries a row): a dense matrix, and rows of the size of a text collection.
DENSE = (10000, 500)
SPARSE = (20000, 47000, 85)

#: p at which iterations are timed, 20 entries a row, and the number of rows.
WIDTHS = (10 ** 3, 10 ** 5, 10 ** 7)
LAZY_ROWS = 20000

#: Our methods that compete, the best of them counting.
OURS = (
    ("sdca", dict(order="permuted")), ("sdca", dict(order="random")), ("saga", {}),
    ("katyusha", {}), ("dspdc", {}), ("asdca", {}), ("fista", {}),
)
STOCHASTIC = tuple((method, options) for method, options in OURS if method != "fista")
CYANURE = (("cyanure", "qning-svrg"), ("cyanure", "catalyst-miso"), ("cyanure", "acc-svrg"))


# Data -----------------------------------------------------------------------------------

@functools.cache
def dense_data():
    return dense_classification(*DENSE, seed=0)


@functools.cache
def sparse_data():
    return sparse_classification(*SPARSE, seed=0)


def optimum(problem):
    """P*, from the method that certifies it best; the relative gap is 1e-12 or what can be had."""
    best = None
    for method, options in (("sdca", dict(order="permuted")), ("asdca", {}), ("katyusha", {})):
        found = solve(problem, method, tol=1e-12, max_seconds=PATIENCE, **options)
        if best is None or found.primal < best[0]:
            best = found.primal, found.relative_gap
        if found.relative_gap <= 1e-12:
            break
    return best


# Time to a target -----------------------------------------------------------------------

def name_of(method, options):
    return " ".join([method, *map(str, options.values())])


def our_seconds(problem, level, method, options, limit):
    """The method's own seconds to a value of P at most `level`; infinite if not in time."""
    history = solve(
        problem, method, tol=0.0, max_seconds=limit,
        callback=lambda row: bool(row["primal"] <= level), **options,
    ).history
    reached = history[history["primal"] <= level]
    return float(reached["seconds"].iloc[0]) if len(reached) else math.inf


def our_times(problem, level, ours):
    """Seconds of each of our methods; those that are far behind are not run to the end."""
    times, limit = {}, PATIENCE
    for choice in ours:
        begun = time.perf_counter()
        times[name_of(*choice)] = our_seconds(problem, level, *choice, limit)
        if math.isfinite(times[name_of(*choice)]):
            limit = min(limit, 5.0 * (time.perf_counter() - begun) + 1.0)
    return times


class PeerTimer:
    """Finds the cheapest budget of a package's solver for a value of P, and times it again."""

    def __init__(self, problem, name, solver):
        self.problem, self.label = problem, f"{name.replace('_', ' ')} {solver}"
        self.peer = PEERS[name](problem, solver)
        self.peer.warm_up()
        # What budgets reached and took so far, for the next target.
        self.tried = {}

    def run(self, budget):
        begun = time.perf_counter()
        x = self.peer.fit(budget)
        seconds = time.perf_counter() - begun
        value = self.problem.primal(x)
        self.tried[budget] = value
        return seconds, value

    def budget_for(self, level):
        """The smallest budget on a grid 20 % apart that reaches the level, None if not in time."""
        for budget, value in sorted(self.tried.items()):
            if value <= level:
                return budget
        begun, budget = time.perf_counter(), max(self.tried, default=0)
        while time.perf_counter() - begun < PATIENCE:
            budget = max(budget + 1, int(1.2 * budget))
            if self.run(budget)[1] <= level:
                return budget
        return None


def race(title, problem, ours, peers, targets, bound):
    """Rows of our best method's time over that of the best of some packages' solvers."""
    value, gap = optimum(problem)
    timers = [
        PeerTimer(problem, name, solver) for name, solver in peers
        if PEERS[name].refuses(problem, solver) is None
    ]
    if not timers:
        yield dict(kernel=title, target=PEERS[peers[0][0]].refuses(problem, peers[0][1]))
        return
    for target in targets:
        level = value * (1.0 + target)
        budgets = {timer: timer.budget_for(level) for timer in timers}
        own = our_times(problem, level, ours)
        # Only those that can be the best are timed again.
        close = [c for c in ours if own[name_of(*c)] <= 1.5 * min(own.values()) < math.inf]
        other = {timer.label: math.inf for timer in timers}
        for _ in range(REPEATS):
            for timer, budget in budgets.items():
                if budget is not None:
                    other[timer.label] = min(other[timer.label], timer.run(budget)[0])
            for choice in close:
                seconds = our_seconds(problem, level, *choice, PATIENCE)
                own[name_of(*choice)] = min(own[name_of(*choice)], seconds)
        yield compared(f"{title} to {target:g}", own, other, gap, bound)


def compared(title, own, other, gap, bound):
    """The row of a comparison: the best of each side, and the ratio if both got there."""
    first, second = min(own, key=own.get), min(other, key=other.get)
    row = dict(
        kernel=f"{title}: {first} {own[first]:.4g} s, {second} {other[second]:.4g} s "
               f"(P* within {gap:.0e})",
        seconds=_finite(own[first]), seconds_of_peer=_finite(other[second]),
        all_seconds={name: _finite(seconds) for name, seconds in (own | other).items()},
    )
    late = [name for name, times in ((first, own), (second, other)) if times[name] == math.inf]
    if late:
        text = f"not reached in {PATIENCE:g} s: {', '.join(late)}"
        return row | dict(target=text, reached=own[first] < math.inf)
    row["ratio"] = own[first] / other[second]
    return speed.judged(row, ("ratio", "<=", bound))


def _finite(seconds):
    return seconds if math.isfinite(seconds) else None


# The comparisons --------------------------------------------------------------------------

def saga():
    """Our SAGA and scikit-learn's, l2-regularised logistic regression."""
    for title, data in (("dense", dense_data()), ("CSR", sparse_data())):
        n, p = data.X.shape
        problem = erm(data.X, data.b, "logistic", 0.0, 1.0 / n)
        yield from race(
            f"SAGA {title} {n} x {p} logistic lambda2=1/n", problem, [("saga", {})],
            [("sklearn_logistic", "saga")], (1e-4, 1e-6), 0.6,
        )


def liblinear():
    """The best of our methods and liblinear's dual coordinate descent."""
    data = sparse_data()
    n, p = data.X.shape
    for lambda2 in (1e-4, 1e-6):
        problem = erm(data.X, data.b, "logistic", 0.0, lambda2)
        yield from race(
            f"CSR {n} x {p} logistic lambda2={lambda2:g}", problem, OURS,
            [("sklearn_logistic", "liblinear")], (1e-3, 1e-6), 1.0,
        )


def cyanure():
    """The best of our stochastic methods and the best of cyanure's, elastic net."""
    data = dense_data()
    n, p = data.X.shape
    problem = erm(data.X, data.b, "logistic", 1e-4, 1e-4)
    yield from race(
        f"dense {n} x {p} logistic elastic net 1e-4", problem, STOCHASTIC, CYANURE, (1e-6,), 1.0
    )


def lazy():
    """An iteration on CSR with 20 entries a row at growing p: lazy updates do not see p."""
    first = {}
    for p in WIDTHS:
        problem = erm(*speed.random_rows(LAZY_ROWS, p), "logistic", 1e-4, 1e-3)
        for method in ("saga", "svrg", "katyusha", "spdc", "rpdg"):
            row = dict(
                kernel=f"{method.upper()} CSR {LAZY_ROWS} x {p:.0e}, 20 entries a row",
                ns_per_iteration=1e9 * iteration_seconds(method, problem),
            )
            first.setdefault(method, row["ns_per_iteration"])
            row["ns_to_smallest_p"] = row["ns_per_iteration"] / first[method]
            times = f"{row['ns_to_smallest_p']:.2f} times the time at p = {WIDTHS[0]:.0e}"
            yield row | dict(target=times, reached=None)


def iteration_seconds(method, problem, n_iterations=4000):
    """Best time of an iteration between two snapshots, which take O(nnz + p) by themselves."""
    best = math.inf
    for repeat in range(REPEATS):
        algorithm = METHODS[method](problem, seed=repeat)
        touch(vars(algorithm).values())
        algorithm.advance(n_iterations)
        seconds = speed.timed(lambda: algorithm.advance(n_iterations))  # noqa: B023
        best = min(best, seconds / n_iterations)
    return best


def touch(values):
    """Write to all vectors once: fresh memory costs a page fault at its first use."""
    for value in values:
        if isinstance(value, tuple):
            touch(value)
        elif isinstance(value, np.ndarray) and value.flags.writeable:
            value += 0


GROUPS = {
    "peers-saga": saga, "peers-liblinear": liblinear, "peers-cyanure": cyanure,
    "peers-lazy": lazy,
}

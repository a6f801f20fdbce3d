"""Measure what `benchmark_dspdc.theory.ranking` stores: prices of iterations and fits of rates.

    python benchmarks/ranking.py               # half an hour, on an idle machine
    python benchmarks/ranking.py sdna qning    # these methods alone

Every method of the ranking is run to 1e-6, or for some seconds, on problems that are named here
and lie apart from the held-out half of configs/regret.yml. The nanoseconds of its iterations give
its prices, its iterations beside its rate its factor. The tables are printed, to be pasted.
"""

import sys

import numpy as np
import scipy.sparse
from scipy.optimize import nnls

from benchmark_dspdc import erm, matrix_risk, mt_lmnn, solve
from benchmark_dspdc.data import (
    factorized,
    load_bundled,
    load_metric_learning,
    matrix_risk_data,
    sparse_classification,
    unscaled_classification,
)
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.solver import apart, warm_up
from benchmark_dspdc.theory import ranking

SECONDS = 2.0

#: Kinds of data whose columns are matrices.
MATRICES = ("matrix blocks", "rank-one sums")

def problems():
    """The named problems, a pair (name, problem) each."""
    for n, p, d in ((5000, 100, 20), (2000, 400, 40)):
        data = factorized(n, p, d, seed=7)
        for loss, l1, l2 in (("smoothed_hinge", 1e-3, 1e-2), ("square", 1e-4, 1e-5)):
            yield f"factorized {n} {loss}", erm((data.U, data.V), data.b, loss, l1, l2)
    for n, p, row_nnz in ((5000, 10000, 60), (8000, 2000, 20)):
        data = sparse_classification(n, p, row_nnz, 7)
        for loss, l1, l2 in (("smoothed_hinge", 1e-3, 1e-2), ("logistic", 0.0, 1e-4),
                             ("square", 1e-4, 1e-5)):
            yield f"sparse {n} {loss}", erm(data.X, data.b, loss, l1, l2)
    for n, p, correlation in ((4000, 200, 0.9), (2000, 50, 0.3)):
        data = unscaled_classification(n, p, correlation, 0.0, 7)
        for loss, l1, l2 in (("smoothed_hinge", 1e-3, 1e-2), ("logistic", 0.0, 1e-4),
                             ("square", 1e-4, 1e-5)):
            yield f"dense {n} {loss}", erm(data.X, data.b, loss, l1, l2)
    for n, p, spread in ((6000, 3000, 1.0), (3000, 8000, 1.5)):
        # Rows of very different norms.
        data, rng = sparse_classification(n, p, 30, 7), np.random.default_rng(7)
        rows = scipy.sparse.diags_array(np.exp(spread * rng.standard_normal(n))) @ data.X
        for loss, l1, l2 in (("smoothed_hinge", 1e-3, 1e-2), ("logistic", 0.0, 1e-4),
                             ("square", 1e-4, 1e-4)):
            yield f"uneven {n} {loss}", erm(rows, data.b, loss, l1, l2)
    data = load_bundled("digits", scale="standardize")
    yield "digits", erm(data.X, data.b, "smoothed_hinge", 1e-3, 1e-2)
    for n, p, d in ((60, 20, 40), (200, 8, 20)):
        data = matrix_risk_data(n, p, d, 7)
        for loss, lam in (("smoothed_hinge", 0.1), ("logistic", 0.02), ("square", 0.05)):
            yield f"matrix risk {n} {loss}", matrix_risk(data.packed, data.b, loss, lam)
    for source in ("digits", "aloi_like"):
        data = load_metric_learning(source, seed=7)
        for lam in (0.1, 0.01):
            problem = mt_lmnn(data.points, data.labels, data.tasks, lam=lam)
            yield f"metric learning {source} {lam}", problem


def measured(problem, method, options):
    """Iterations to 1e-6, or those done, and nanoseconds of an iteration and of the set-up."""
    warm_up(METHODS[method], problem, options)
    result = solve(apart(problem), method, tol=1e-6, max_seconds=SECONDS, **options)
    history, per_pass = result.history, METHODS[method](problem, **options).iterations_per_pass
    set_up, seconds = history.seconds.iloc[0], history.seconds.iloc[-1]
    iterations = history.passes.iloc[-1] * per_pass
    return iterations, 1e9 * (seconds - set_up) / iterations, 1e9 * set_up


def fitted(rows):
    """The `Fit` of pairs (condition, epochs a nat)."""
    x, y = np.log(rows).T
    power = float(np.clip(np.polyfit(x, y, 1)[0], 0.0, 1.0))
    rest = y - power * x
    return f"Fit({np.exp(np.mean(rest)):.2g}, {power:.2g}, {np.exp(np.std(rest)):.2g})"


def straight(rows):
    """The line of pairs (x, y) with the least relative errors, and no negative numbers."""
    x, y = np.array(rows).T
    return nnls(np.stack([1.0 / y, x / y], axis=1), np.ones(len(y)))[0]


def main(wanted):
    conditions, prices, set_ups = {}, {}, {}
    for name, problem in problems():
        c, kind = ranking.letters(problem), problem.operator.kind
        _, epoch, condition = ranking.own_condition(c)
        runs = [("dspdc", {}, epoch, condition)] + [
            (method, rival.options, rival.epoch(c), rival.condition(c))
            for method, rival in ranking.rivals(problem).items()
        ]
        for method, options, epoch, condition in runs:
            if wanted and method not in wanted:
                continue
            iterations, each, set_up = measured(problem, method, options)
            epochs = iterations / (epoch * ranking.NATS)
            print(f"{name:30} {method:9} condition {condition:9.3g}: {epochs:9.3g} epochs a nat, "
                  f"{each:10.0f} ns, set up {set_up:10.0f} ns", flush=True)
            conditions.setdefault((method, ranking.circumstance(problem)), []).append(
                (condition, epochs)
            )
            set_ups.setdefault((method, kind), []).append((epoch * each, set_up))
            if method != "dspdc" and kind not in MATRICES:
                work = ranking.rivals(problem)[method].multiply_adds(c)
                prices.setdefault((method, kind), []).append((work, each))
    print("\nFITS = {")
    for (method, of), rows in conditions.items():
        print(f'    ("{method}", "{of}"): {fitted(rows)},')
    print("}\n\nSET_UPS = {")
    for (method, kind), rows in set_ups.items():
        # Of the others it is no work on all of A.
        if kind in MATRICES or method in ("pdhg", "rpdhg", "fista"):
            fixed, passes = straight(rows)
            print(f'    ("{method}", "{kind}"): ({1e-9 * fixed:.2g}, {passes:.2g}),')
    print("}")
    print("\nPRICES_OF = {")
    for (method, kind), rows in prices.items():
        fixed, slope = straight(rows)
        print(f'    ("{method}", "{kind}"): Price({fixed:.3g}, {slope:.3g}),')
    print("}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

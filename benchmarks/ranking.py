"""Measure what `benchmark_dspdc.theory.ranking` stores: prices of iterations and fits of rates.

    python benchmarks/ranking.py            # some five minutes, on an idle machine

Every method of the ranking is run to 1e-6, or for some seconds, on problems that are named here
and lie apart from the held-out half of configs/regret.yml. The nanoseconds of its iterations give
its prices, its iterations beside its rate its factor. The tables are printed, to be pasted.
"""

import math
import sys

import numpy as np
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
from benchmark_dspdc.theory import ranking

SECONDS = 1.5

#: Methods whose steps are not made with lam, or follow what the run meets.
ADAPTING = ("dspdc", "saga", "svrg", "fista")


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
    data = load_bundled("digits", scale="standardize")
    yield "digits", erm(data.X, data.b, "smoothed_hinge", 1e-3, 1e-2)
    data = matrix_risk_data(60, 20, 40, 7)
    yield "matrix risk", matrix_risk(data.packed, data.b, "smoothed_hinge", 0.1)
    data = load_metric_learning("digits", seed=7)
    yield "metric learning", mt_lmnn(data.points, data.labels, data.tasks)


def measured(problem, method, options):
    """Iterations to 1e-6, or nan, and nanoseconds an iteration."""
    solve(problem, method, max_passes=0.1, **options)
    result = solve(problem, method, tol=1e-6, max_seconds=SECONDS, **options)
    history = result.history
    seconds = history.seconds.iloc[-1] - history.seconds.iloc[0]
    iterations = history.passes.iloc[-1] * METHODS[method](problem, **options).iterations_per_pass
    if result.status != "converged":
        return math.nan, 1e9 * seconds / iterations
    return iterations, 1e9 * seconds / iterations


def main():
    conditions, prices = {}, {}
    for name, problem in problems():
        c, kind = ranking.letters(problem), problem.operator.kind
        _, epoch, condition = ranking.own_condition(c)
        runs = [("dspdc", {}, epoch, condition)] + [
            (method, rival.options, rival.epoch(c), rival.condition(c))
            for method, rival in ranking.rivals(problem).items()
        ]
        for method, options, epoch, condition in runs:
            iterations, each = measured(problem, method, options)
            epochs = iterations / (epoch * ranking.NATS)
            print(f"{name:30} {method:9} condition {condition:9.3g}: {epochs:9.3g} epochs a nat, "
                  f"{each:10.0f} ns", flush=True)
            conditions.setdefault(method, []).append((condition, epochs))
            if method != "dspdc":
                work = ranking.rivals(problem)[method].multiply_adds(c)
                rest = max(each - ranking.projections(problem), 0.01 * each)
                prices.setdefault((method, kind), []).append((work, rest))
    print("\nFITS = {")
    for method, rows in conditions.items():
        x, y = np.log([row for row in rows if np.isfinite(row[1])]).T
        power = np.clip(np.polyfit(x, y, 1)[0], 0.0, 1.0) if method in ADAPTING else 1.0
        factor, spread = np.exp(np.mean(y - power * x)), np.exp(np.std(y - power * x))
        print(f'    "{method}": Fit({factor:.2g}, {power:.2g}, {spread:.2g}),')
    print("}\n\nPRICES_OF = {")
    for (method, kind), rows in prices.items():
        work, each = np.array(rows).T
        (fixed, slope), _ = nnls(np.stack([1.0 / each, work / each], axis=1), np.ones(len(each)))
        print(f'    ("{method}", "{kind}"): Price({fixed:.3g}, {slope:.3g}),')
    print("}")


if __name__ == "__main__":
    sys.exit(main())

"""Measure what each part of the self-tuned DSPDC brings: the table of docs/steps.md.

    python benchmarks/ablation.py           # some two minutes

Passes to a relative gap of 1e-6, median of three seeds, with one part off in each column. None of
the problems is of the held-out half of configs/regret.yml.
"""

import sys
from unittest import mock

import numpy as np

from benchmark_dspdc import erm, matrix_risk, mt_lmnn, solve
from benchmark_dspdc.data import (
    factorized,
    load_bundled,
    load_libsvm,
    load_metric_learning,
    matrix_risk_data,
    sparse_classification,
    unscaled_classification,
)
from benchmark_dspdc.methods import adaptive
from benchmark_dspdc.theory import setting

SEED = 0

HINGE, SQUARE = ("smoothed_hinge", 1e-3, 1e-2), ("square", 1e-4, 1e-5)

ALL_OFF = {"steps": "theorem", "order": "random", "adaptive": False}

#: What is off, and the options that say so; three are no options, see `passes`.
COLUMNS = {
    "self-tuned": {},
    "theorem's steps": {"steps": "theorem"},
    "random order": {"order": "random"},
    "not adaptive": {"adaptive": False},
    "whole product": {},
    "no column steps": {"column_steps": False},
    "start at 0": {},
    "all off": ALL_OFF,
}


def problems():
    """The named problems, a pair (name, problem) each."""
    data = factorized(5000, 100, 20, seed=SEED)
    for loss in (HINGE, SQUARE):
        yield f"factorised 5000 x 100, {loss[0]}", erm((data.U, data.V), data.b, *loss)
    data = sparse_classification(5000, 10000, 60, SEED)
    for loss in (HINGE, SQUARE):
        yield f"sparse 5000 x 10000, {loss[0]}", erm(data.X, data.b, *loss)
    data = unscaled_classification(4000, 200, 0.9, 0.0, SEED)
    for loss in (HINGE, SQUARE):
        yield f"dense, correlated 0.9, {loss[0]}", erm(data.X, data.b, *loss)
    data = load_bundled("digits", scale="standardize")
    for loss in (HINGE, SQUARE):
        yield f"digits, {loss[0]}", erm(data.X, data.b, *loss)
    data = unscaled_classification(2000, 50, 0.5, 3.0, SEED)
    yield "units over 3 decades, logistic", erm(data.X, data.b, "logistic", 1e-5, 1e-4)
    try:
        data = load_libsvm("mushrooms")
        yield "mushrooms, logistic", erm(data.X, data.b, "logistic", 1e-4, 1e-4)
    except (OSError, ValueError) as error:
        print(f"mushrooms left out: {error}", file=sys.stderr)
    data = matrix_risk_data(60, 20, 40, SEED)
    for loss in ("smoothed_hinge", "square"):
        yield f"matrix risk d = 40, {loss}", matrix_risk(data.packed, data.b, loss, 0.1)
    data = load_metric_learning("digits")
    yield "metric learning, digits", mt_lmnn(data.points, data.labels, data.tasks)


def passes(problem, column):
    """Median passes to 1e-6, infinite if that takes more than 20 seconds."""
    options, found = dict(COLUMNS[column]), []
    part = 1.0 if column == "whole product" else setting.PART
    if column in ("start at 0", "all off"):
        options.update(x0=np.zeros(problem.x_shape), y0=np.zeros(problem.shape[0]))
    with mock.patch.object(setting, "PART", part), mock.patch.object(adaptive, "PART", part):
        for seed in range(3):
            result = solve(problem, "dspdc", tol=1e-6, seed=seed, max_seconds=20, **options)
            converged = result.status == "converged"
            found.append(result.history.passes.iloc[-1] if converged else np.inf)
    return float(np.median(found))


def main():
    rows = []
    print("| problem | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    for name, problem in problems():
        rows.append([passes(problem, column) for column in COLUMNS])
        print(f"| {name} | " + " | ".join(f"{each:,.3g}" for each in rows[-1]) + " |", flush=True)
    table = np.array(rows)
    means = np.exp(np.mean(np.log(table / table[:, :1]), axis=0))
    print("| times self-tuned, geometric mean | " + " | ".join(f"{x:.2g}" for x in means) + " |")


if __name__ == "__main__":
    sys.exit(main())

"""Every method where the unknowns are matrices: the authors' pseudo-code, optima."""

import functools

import cvxpy as cp
import numpy as np
import pytest
import transcriptions_field as authors
from matrix_cases import ALL_RUNS, PROBLEMS, SMALL, risk_problem
from replay import drawn_batches
from test_field import TRANSCRIBED, authors_iterates, compare
from transcriptions import positive_part

from benchmark_dspdc import solve
from benchmark_dspdc.methods import METHODS

ITERATIONS = 30
KINDS = {
    "blocks, square": lambda: SMALL["blocks"]("square"),
    "blocks": lambda: SMALL["blocks"]("smoothed_hinge"),
    "moduli far apart": lambda: risk_problem(n=12, p=4, d=3, lam=[0.3, 0.02, 0.1, 1]),
    "equal moduli": lambda: risk_problem(n=12, p=4, d=3, lam=0.3),
    "one block": lambda: SMALL["one block"]("smoothed_hinge"),
    "trace": lambda: SMALL["trace"]("square"),
    "metrics": lambda: SMALL["metrics"]("smoothed_hinge", lambda0=0.2, lam=0.7),
    "metrics, logistic": lambda: SMALL["metrics"]("logistic", lambda0=0.3, lam=0.1),
}


def by_day(pairs, chosen):
    """Pairs as parameters of a test; but for the chosen ones only at night."""
    return [
        pytest.param(*pair, marks=() if chosen(*pair) else pytest.mark.nightly) for pair in pairs
    ]


@pytest.mark.parametrize(("run", "kind"), by_day(
    [(run, kind) for run in TRANSCRIBED for kind in KINDS],
    # A tracker of its own is a kernel of its own.
    lambda run, kind: kind in ("moduli far apart", "one block")
    or (kind == "metrics" and run != "svrg last"),
))
def test_iterates_are_those_of_the_authors_pseudo_code(run, kind):
    method, given, options = TRANSCRIBED[run]
    written = KINDS[kind]()
    n, p = written.problem.shape
    given = {k: min(v, n if k == "m" else p) if k in "mq" else v for k, v in given.items()}
    if run == "apcg_primal blocks":
        given = dict(q=min(p, 2))
    algorithm = METHODS[method](written.problem, seed=5, **given)
    problem = authors.Matrices(*written.parts)
    if method == "asdca":
        options = dict(batches=(
            drawn_batches(algorithm, ITERATIONS, 5), int(algorithm.info["r"])
        ))
    iterates = authors_iterates(
        method, problem, given.get("m", given.get("q")), 5, ITERATIONS, **options
    )
    checks = (1, 2, 4, 5, 12, 24, 25, ITERATIONS)
    compare([algorithm], iterates, problem, checks, rtol=1e-8)


def test_restarts_are_decided_in_the_metric_of_the_steps():
    """Moduli far apart: the momentum points uphill in one metric and not in the other."""
    for seed in range(8):
        written = risk_problem("square", n=12, p=4, d=3, lam=[3.0, 0.01, 0.1, 1.0], seed=seed)
        problem = authors.Matrices(*written.parts)
        algorithm = METHODS["fista"](written.problem)
        iterates = [(x, None) for x, _ in authors.fista(problem, 60)]
        compare([algorithm], iterates, problem, (10, 20, 40, 60), rtol=1e-7)


# Optima ------------------------------------------------------------------------------------

def optimum_by_cvxpy(written):
    n, p, d, _ = written.D.shape
    X = [cp.Variable((d, d), PSD=True) for _ in range(p)]
    flat = written.D.reshape(n, p, d * d)
    z = sum(flat[:, j] @ cp.vec(X[j], order="C") for j in range(p))
    margin = cp.multiply(written.b, z)
    slack = cp.Variable(n)
    risk = {
        "square": lambda: cp.sum_squares(z - written.b) / 2,
        "huber": lambda: cp.sum(cp.huber(z - written.b, 1)) / 2,
        "logistic": lambda: cp.sum(cp.logistic(-margin)),
        "smoothed_hinge": lambda: cp.sum(cp.pos(1 - margin - slack)) + cp.sum_squares(slack) / 2,
    }[written.loss]()
    reg = sum(
        written.lam[j] / 2 * cp.sum_squares(X[j] - written.centre[j])
        + cp.sum(cp.multiply(written.linear[j], X[j])) for j in range(p)
    )
    tight = dict(tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)
    value = cp.Problem(cp.Minimize(risk / n + reg)).solve(solver=cp.CLARABEL, **tight)
    return value, np.array([positive_part(x.value) for x in X])


@functools.cache
def solved(kind):
    """A problem, and its solution, which another solver agrees with."""
    written = PROBLEMS[kind]()
    value, X = optimum_by_cvxpy(written)
    assert written.problem.primal(X) == pytest.approx(value, rel=1e-6)
    best = solve(written.problem, "sdca", m=5, tol=1e-12, max_seconds=None, max_passes=20000)
    assert best.primal == pytest.approx(value, rel=1e-6)
    # Strong convexity: a small gap means a small distance.
    assert written.distance2(best.x, X) / 2 <= best.gap + 1e-6 * abs(value)
    return written, best


@pytest.mark.parametrize(("kind", "name"), by_day(
    [(kind, name) for kind in PROBLEMS for name in ALL_RUNS],
    # SAGA and SVRG take long on the metrics.
    lambda kind, name: kind == "matrix_risk" or (
        kind == "mt_lmnn" and name not in ("saga", "svrg", "asvrg_sp uniform", "spdc subset")
    ) or (
        name in ("dspdc rows", "dspdc columns", "sdca")
        and kind in ("matrix_risk-huber", "trace_regression", "mt_lmnn-shared")
    ),
))
def test_every_method_finds_the_optimum_of_an_independent_solver(kind, name):
    written, best = solved(kind)
    method, options = ALL_RUNS[name]
    result = solve(
        written.problem, method, tol=1e-8, max_seconds=None, max_passes=20000, **options
    )
    assert result.status == "converged", result
    assert result.relative_gap <= 1e-8
    assert best.primal - 1e-10 <= result.primal <= best.primal + result.gap + 1e-10
    assert result.dual <= best.primal + 1e-10
    distance = np.sqrt(written.distance2(result.x, best.x))
    assert distance <= np.sqrt(2.0 * result.gap) + np.sqrt(2.0 * max(best.gap, 0.0)) + 1e-7

"""Every method where the unknowns are matrices: the authors' pseudo-code, optima."""

import functools
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from matrix_cases import ALL_RUNS, PROBLEMS, RUNS, SMALL, risk_problem
from method_cases import CASES, TRANSCRIBED, compare, minimum_by_cvxpy
from transcriptions import positive_part

from benchmark_dspdc import solve
from benchmark_dspdc.methods import METHODS

ITERATIONS = 40


def nightly_unless(chosen, cases):
    """Tuples as parameters of a test; but for the chosen ones only at night."""
    return [
        pytest.param(*case, marks=() if chosen(*case) else pytest.mark.nightly) for case in cases
    ]


def by_day(name, kind, moduli):
    if "importance" in name:
        return kind == "heavy rows"
    if name in RUNS or name in ("asvrg_sp single", "asvrg_sp uniform single"):
        return kind in ("blocks", "one block", "numbers", "trace", "metrics", "shared metric")
    # A tracker of its own is a kernel of its own.
    return "asvrg" not in name and kind in ("moduli far apart", "one block", "metrics") and (
        kind != "metrics" or name != "svrg last"
    )


@pytest.mark.parametrize(("name", "kind", "moduli"), nightly_unless(by_day, [
    (name, kind, moduli) for name, kind, moduli in product(TRANSCRIBED, SMALL, ("each", "least"))
    if moduli == "each" or name in RUNS or "asvrg_sp" in name
]))
def test_iterates_are_those_of_the_authors_pseudo_code(name, kind, moduli):
    written = SMALL[kind]()
    case = CASES[name].on(*written.problem.shape)
    algorithm, plain = case.start(written.problem, moduli=moduli), written.plain(moduli)
    iterates = case.transcribed(plain, algorithm, case.options, ITERATIONS)
    compare(algorithm, iterates, plain, (1, 2, 4, 5, 12, 24, 25, ITERATIONS), rtol=1e-8)


def test_restarts_are_decided_in_the_metric_of_the_steps():
    """Moduli far apart: the momentum points uphill in one metric and not in the other."""
    for seed in range(8):
        written = risk_problem("square", n=12, p=4, d=3, lam=[3.0, 0.01, 0.1, 1.0], seed=seed)
        algorithm, plain = METHODS["fista"](written.problem), written.plain()
        iterates = CASES["fista"].transcribed(plain, algorithm, {}, 60)
        compare(algorithm, iterates, plain, (10, 20, 40, 60), rtol=1e-7)


# Optima ------------------------------------------------------------------------------------

def optimum_by_cvxpy(written):
    n, p, d, _ = written.D.shape
    X = [cp.Variable((d, d), PSD=True) for _ in range(p)]
    flat = written.D.reshape(n, p, d * d)
    z = sum(flat[:, j] @ cp.vec(X[j], order="C") for j in range(p))
    reg = sum(
        written.lam[j] / 2 * cp.sum_squares(X[j] - written.centre[j])
        + cp.sum(cp.multiply(written.linear[j], X[j])) for j in range(p)
    )
    value = minimum_by_cvxpy(written.loss, z, written.b, reg, tol=1e-8)
    return value, np.array([positive_part(x.value) for x in X])


@functools.cache
def solved(kind):
    """A problem, and its solution, which another solver agrees with."""
    written = (PROBLEMS | SMALL)[kind]()
    value, X = optimum_by_cvxpy(written)
    assert written.problem.primal(X) == pytest.approx(value, rel=1e-6)
    best = solve(written.problem, "sdca", m=5, tol=1e-12, max_seconds=None, max_passes=20000)
    assert best.primal == pytest.approx(value, rel=1e-6)
    # Strong convexity: a small gap means a small distance.
    assert written.distance2(best.x, X) / 2 <= best.gap + 1e-6 * abs(value)
    return written, best


#: Blocks drawn by importance where rows have very different lengths, and elsewhere at night.
BY_IMPORTANCE = [name for name in CASES if "importance" in name and "only" not in name]


@pytest.mark.parametrize(("kind", "name"), nightly_unless(
    # SAGA, SVRG and S2CD take long on the metrics.
    lambda kind, name: kind in ("matrix_risk", "heavy rows") or (
        kind == "mt_lmnn" and name not in (
            "saga batches", "svrg batches", "l_svrg batches", "s2cd", "asvrg_sp uniform",
            "spdc subset",
        )
    ) or (
        name in ("dspdc rows", "dspdc columns", "sdca")
        and kind in ("matrix_risk-huber", "trace_regression", "mt_lmnn-shared")
    ),
    [*product(PROBLEMS, ALL_RUNS), *product(("heavy rows", "trace", "metrics"), BY_IMPORTANCE)],
))
def test_every_method_finds_the_optimum_of_an_independent_solver(kind, name):
    written, best = solved(kind)
    method, options, _ = CASES[name].on(*written.problem.shape)
    result = solve(
        written.problem, method, tol=1e-8, max_seconds=None, max_passes=20000, **options
    )
    assert result.status == "converged", result
    assert result.relative_gap <= 1e-8
    assert best.primal - 1e-10 <= result.primal <= best.primal + result.gap + 1e-10
    assert result.dual <= best.primal + 1e-10
    distance = np.sqrt(written.distance2(result.x, best.x))
    assert distance <= np.sqrt(2.0 * result.gap) + np.sqrt(2.0 * max(best.gap, 0.0)) + 1e-7

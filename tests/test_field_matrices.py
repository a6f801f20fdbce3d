"""Every method where the unknowns are matrices: the authors' pseudo-code, optima."""

import numpy as np
import pytest
import transcriptions_field as authors
from conftest import daily
from replay import drawn_batches
from test_field import FIELD, TRANSCRIBED, authors_iterates, compare
from test_matrix_problems import metric_problem, risk_problem, trace_problem

from benchmark_dspdc import matrix_risk, solve
from benchmark_dspdc.methods import METHODS

ITERATIONS = 30
SMALL = {
    "blocks, square": lambda: risk_problem("square", n=12, p=4, d=3),
    "blocks": lambda: risk_problem(n=12, p=4, d=3),
    "moduli far apart": lambda: risk_problem(n=12, p=4, d=3, lam=[0.3, 0.02, 0.1, 1]),
    "equal moduli": lambda: risk_problem(n=12, p=4, d=3, lam=0.3),
    "one block": lambda: risk_problem(n=12, p=1, d=4),
    "trace": lambda: trace_problem(n=12, p=3, d=3),
    "metrics": lambda: metric_problem(
        "smoothed_hinge", sizes=(4, 4, 4), d=3, n_impostors=1, lambda0=0.2, lam=0.7
    ),
    "metrics, logistic": lambda: metric_problem(
        "logistic", sizes=(4, 4, 4), d=3, n_impostors=1, lambda0=0.3, lam=0.1
    ),
}


@pytest.mark.parametrize("kind", daily(
    SMALL, "blocks", "moduli far apart", "equal moduli", "one block", "metrics"
))
@pytest.mark.parametrize("run", TRANSCRIBED)
def test_iterates_are_those_of_the_authors_pseudo_code(run, kind):
    method, given, options = TRANSCRIBED[run]
    written = SMALL[kind]()
    n, p = written.problem.shape
    given = {k: min(v, n if k == "m" else p) if k in "mq" else v for k, v in given.items()}
    if run == "apcg_primal blocks":
        given = dict(q=min(p, 2))
    algorithm = METHODS[method](written.problem, seed=5, **given)
    problem = authors.Matrices(
        written.D, written.b, written.loss, written.lam, written.centre, written.linear
    )
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
        problem = authors.Matrices(
            written.D, written.b, written.loss, written.lam, written.centre, written.linear
        )
        algorithm = METHODS["fista"](written.problem)
        iterates = [(x, None) for x, _ in authors.fista(problem, 60)]
        compare([algorithm], iterates, problem, (10, 20, 40, 60), rtol=1e-7)


# Optima ------------------------------------------------------------------------------------

OPTIMA = {
    "matrix_risk, square": lambda: risk_problem("square", n=24, p=4, d=4),
    "matrix_risk": lambda: risk_problem(n=24, p=4, d=4),
    "trace_regression": lambda: trace_problem(n=24, p=3, d=3),
    "mt_lmnn": lambda: metric_problem(sizes=(6, 4, 6), d=3),
}


@pytest.fixture(scope="module", params=daily(OPTIMA, "matrix_risk", "mt_lmnn"))
def solved(request):
    written = OPTIMA[request.param]()
    return written, solve(written.problem, "sdca", tol=1e-12, max_seconds=None, max_passes=20000)


@pytest.mark.parametrize("method", sorted({*FIELD, "dspdc"}))
def test_every_method_closes_the_gap(method, solved):
    written, reference = solved
    problem = written.problem
    options = {
        "apcg_primal": dict(q=2), "dspdc": dict(m=6, q=2), "pdhg": {}, "fista": {}, "asvrg_sp": {},
    }
    result = solve(
        problem, method, tol=1e-8, max_seconds=None, max_passes=20000,
        **options.get(method, dict(m=6)),
    )
    assert result.status == "converged", result
    assert reference.primal - 1e-10 <= result.primal <= reference.primal + result.gap + 1e-10
    # By strong convexity a gap bounds the distance.
    distance2 = np.sum((result.x - reference.x) ** 2, axis=(1, 2)) @ written.lam
    bound = np.sqrt(2.0 * result.gap) + np.sqrt(2.0 * max(reference.gap, 0.0))
    assert np.sqrt(distance2) <= bound + 1e-7


@pytest.mark.parametrize("method", FIELD)
def test_matrices_of_zeros_are_no_obstacle(method):
    written = risk_problem("square", n=12, p=3, d=3)
    problem = matrix_risk(0.0 * written.D, written.b, "square", written.lam)
    algorithm = METHODS[method](problem, seed=1)
    algorithm.advance(200)
    assert problem.certify(algorithm.x, algorithm.y).own_gap <= 1e-12

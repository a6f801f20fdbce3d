"""What a method does before its first iteration: a few passes, whatever A is and however large."""

import numpy as np
import pytest
import scipy.sparse

from benchmark_dspdc import erm, matrix_risk, solve, trace_regression
from benchmark_dspdc.methods import METHODS, saddle
from benchmark_dspdc.theory import coupling_constant

#: Passes that a set-up may take, on a million numbers stored. On A = UV norms of single rows take
#: D/2 more, and nothing cheaper is exact.
MOST, D = 5.0, 8


def labels(rng, n):
    return np.where(rng.random(n) < 0.5, -1.0, 1.0)


def dense(rng):
    return erm(rng.standard_normal((2000, 500)), labels(rng, 2000), "smoothed_hinge")


def csr(rng):
    A = scipy.sparse.random_array((20000, 5000), density=0.01, rng=rng, format="csr")
    return erm(A, labels(rng, 20000), "smoothed_hinge")


def factorized(rng):
    U, V = rng.standard_normal((120000, D)), rng.standard_normal((D, 5000))
    return erm((U, V), labels(rng, 120000), "smoothed_hinge")


def matrices(rng):
    D = rng.standard_normal((300, 10, 26, 26))
    return matrix_risk(D + D.transpose(0, 1, 3, 2), rng.standard_normal(300), "square")


def rank_one(rng):
    return trace_regression(rng.standard_normal((200, 10, 22)), rng.standard_normal(200))


PROBLEMS = {f.__name__: f for f in (dense, csr, factorized, matrices, rank_one)}

RUNS = [(name, {}) for name in METHODS] + [
    (name, {"m": 0.1}) for name in METHODS if "m" in METHODS[name].setup.__code__.co_varnames
] + [("apcg_primal", {"q": 0.1})]


@pytest.mark.parametrize("kind", [
    kind if kind == "dense" else pytest.param(kind, marks=pytest.mark.nightly)
    for kind in PROBLEMS
])
@pytest.mark.parametrize(("method", "options"), [
    pytest.param(name, options, id=f"{name} {options or ''}".strip()) for name, options in RUNS
])
def test_a_set_up_takes_a_few_passes(method, options, kind):
    # A problem of its own: operators keep what they have found.
    algorithm = METHODS[method](PROBLEMS[kind](np.random.default_rng(0)), seed=0, **options)
    most = MOST + (D / 2 if kind == "factorized" else 0.0)
    assert 0.0 <= algorithm.info["set_up_passes"] <= most
    assert algorithm.info["set_up_seconds"] > 0.0


def with_rough_estimates(monkeypatch, times):
    """Norms are estimated, however small A is, and come out so many times too large."""
    monkeypatch.setattr(coupling_constant, "affordable", lambda operator, pairs: False)
    monkeypatch.setattr(coupling_constant, "CAUTION", 1.3 * times)


@pytest.mark.parametrize(("method", "options"), [
    ("saga", dict(m=20)), ("svrg", dict(m=20)), ("katyusha", dict(m=20)), ("rpdg", dict(m=20)),
    ("apcg_primal", dict(q=10)),
])
def test_norms_that_are_too_small_are_found_out_and_raised(method, options, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 40))
    problem = erm(A, labels(rng, 200), "smoothed_hinge", 1e-3, 1e-2)
    with_rough_estimates(monkeypatch, 0.05)
    result = solve(problem, method, tol=1e-8, max_seconds=None, max_passes=20000, **options)
    assert result.status == "converged", result
    assert result.info["raised"] > 5.0
    exact = METHODS[method](problem, norms="certified", **options)
    assert "raised" not in exact.info and "watched" not in exact.info["L_kind"]


@pytest.mark.parametrize("method", ["pdhg", "rpdhg"])
def test_steps_too_long_for_the_norm_are_shortened(method, monkeypatch):
    monkeypatch.setattr(saddle, "CAUTION", 0.02)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 40))
    problem = erm(A, labels(rng, 200), "smoothed_hinge", 1e-3, 1e-2)
    algorithm = METHODS[method](problem)
    begun = algorithm.info["norm2"]
    monkeypatch.setattr(saddle, "CAUTION", 1.3)
    algorithm.advance(3000)
    assert algorithm.info["shrunk"] >= 1
    assert algorithm.info["norm2"] > 5.0 * begun
    assert problem.gap(algorithm.x, algorithm.y) < 1e-8


def test_backtracking_counts_what_failed():
    rng = np.random.default_rng(0)
    problem = erm(rng.standard_normal((200, 40)), labels(rng, 200), "smoothed_hinge", 1e-3, 1e-2)
    algorithm = METHODS["fista"](problem)
    algorithm.advance(50)
    assert algorithm.info["trials"] >= 1
    assert algorithm.passes == 50 + algorithm.info["trials"] / 2

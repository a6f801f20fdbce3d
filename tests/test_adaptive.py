"""Steps that follow the curvature."""

import math

import numpy as np
import pytest
from conftest import OPERATORS, make_problem
from test_choice import figure_1

from benchmark_dspdc import erm, solve
from benchmark_dspdc.data import sparse_classification
from benchmark_dspdc.methods import adaptive
from benchmark_dspdc.methods.adaptive import FAILURES, PATIENCE, Curvature, movement
from benchmark_dspdc.methods.dspdc import DSPDC
from benchmark_dspdc.theory import steps as formulas


@pytest.mark.parametrize("lambda1", [0.0, 1e-4])
def test_lazy_rows_are_settled_before_steps_change(lambda1, monkeypatch):
    data = sparse_classification(300, 500, 10, 0)
    runs = []
    for share in (0.5, 0.0):
        problem = erm(data.X, data.b, "smoothed_hinge", lambda1, 1e-3)
        monkeypatch.setattr(problem.operator, "LAZY", share)
        algorithm = DSPDC(problem, m=5, q=1.0, adaptive=True, seed=2)
        algorithm.advance(1000)
        runs.append(algorithm)
    assert type(runs[0]._loop.state) is not type(runs[1]._loop.state)
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-8, atol=1e-10)
    assert runs[0].info["modulus"] == pytest.approx(runs[1].info["modulus"], rel=1e-6)


def test_small_moduli_do_not_slow_an_adaptive_run_down():
    problem = figure_1(lambda2=1e-5)
    fixed = solve(problem, m=100, q=1.0, tol=1e-5, max_passes=300)
    assert fixed.status == "max_passes"
    found = solve(problem, m=100, q=1.0, tol=1e-5, max_passes=300, adaptive=True)
    assert found.status == "converged"
    assert found.info["modulus"] > 10 * problem.lam


def test_the_modulus_is_the_curvature_of_a_quadratic():
    # y follows A x - b, and all directions have the same curvature.
    n, p = 40, 8
    A = np.linalg.qr(np.random.default_rng(0).standard_normal((n, p)))[0] * math.sqrt(0.5 * n)
    problem = erm(A, np.random.default_rng(1).standard_normal(n), "square", 0.0, 1e-6)
    algorithm = DSPDC(problem, m=n, q=p, adaptive=True)
    algorithm.advance(100)
    assert 0.1 < algorithm.info["modulus"] < 2.0


def test_movement_is_squared_and_taken_note_of():
    rng = np.random.default_rng(0)
    new, old = rng.standard_normal((2, 17))
    expected = np.sum((new - old) ** 2)
    assert movement(new, old) == pytest.approx(expected)
    np.testing.assert_array_equal(new, old)
    assert movement(new, old) == 0.0


def curvature(Lambda=100.0, r=10.0, s=1.0):
    return Curvature(make_problem(), r, s, Lambda)


def test_a_steady_ratio_of_movements_is_the_modulus():
    seen = curvature(Lambda=1e5)
    ratio = 0.37
    for k in range(100):
        scale = math.exp(-0.1 * k)
        seen.observe(scale, ratio * seen.n / seen.gamma * scale)
    assert seen.modulus == pytest.approx(seen.lam + ratio, rel=1e-6)
    assert seen.trusted


def test_the_modulus_stays_between_that_of_g_and_the_most_that_helps():
    seen = curvature()
    for ratio in (1e-30, 1e30):
        for k in range(60):
            seen.observe(0.5 ** k, ratio * 0.5 ** k)
        assert seen.lam <= seen.modulus <= seen.most
    assert curvature(Lambda=1e-30).modulus == curvature().lam


def test_a_run_that_does_not_get_anywhere_ends_with_the_steps_of_the_theorem():
    seen = curvature()
    count = 0
    while seen.observe(1.0, 1.0):
        count += 1
        assert count < 2 * FAILURES * PATIENCE
    assert count >= (PATIENCE - 1) * FAILURES
    assert seen.modulus == seen.lam
    assert seen.Lambda == seen.bound


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_run_that_blows_up_is_not_trusted_any_more(value):
    assert not curvature().observe(value, 1.0)
    assert not curvature().observe(1.0, value)


def test_distrusted_steps_are_those_of_theorem_1_with_a_certified_constant(monkeypatch):
    monkeypatch.setattr(adaptive, "PATIENCE", 1)
    monkeypatch.setattr(Curvature, "_check_progress", lambda self, *_: self._fail(FAILURES))
    problem = figure_1()
    algorithm = DSPDC(problem, m=100, q=1.0, adaptive=True)
    assert algorithm.info["Lambda_kind"].startswith("estimated")
    algorithm.advance(200)
    info = algorithm.info
    assert not info["trusted"]
    assert info["Lambda_kind"] == "exact"
    assert info["Lambda"] == DSPDC(problem, m=100, q=1.0).info["Lambda"]
    expected = formulas.dspdc(
        problem.shape[0], info["r"], info["s"], info["Lambda"], problem.lam, problem.gamma
    )
    assert (info["tau"], info["sigma"], info["theta"]) == tuple(expected)
    assert solve(problem, m=100, q=1.0, adaptive=True, tol=1e-8).status == "converged"


def test_a_hostile_estimate_does_not_keep_a_run_from_converging(monkeypatch):
    # A Lambda far too small makes the first steps blow up; the theorem's then recover.
    monkeypatch.setattr("benchmark_dspdc.theory.setting.CAUTION", 1e-4)
    result = solve(make_problem("dense", "smoothed_hinge"), m=5, q=4, adaptive=True, tol=1e-8)
    assert result.status == "converged"
    assert not result.info["trusted"]


def test_a_run_that_overflows_begins_anew(monkeypatch):
    # With the square loss y is not bounded, and steps far too long end in inf and nan.
    monkeypatch.setattr("benchmark_dspdc.theory.setting.CAUTION", 1e-9)
    problem = make_problem("dense", "square")
    for adaptive_steps in (True, False):
        monkeypatch.setattr("benchmark_dspdc.theory.setting.exact_constant", lambda *_: None)
        algorithm = DSPDC(problem, m=5, q=4, adaptive=adaptive_steps)
        algorithm.advance(20000)
        assert not algorithm.info["trusted"]
        assert np.isfinite(algorithm.x).all()
        assert problem.certify(algorithm.x, algorithm.y).relative_gap < 1e-6


def test_estimated_constants_are_watched_and_replaced(monkeypatch):
    # The exact constant is out of reach, the estimate far too small; steps are not adaptive.
    monkeypatch.setattr("benchmark_dspdc.theory.setting.exact_constant", lambda *_: None)
    problem = make_problem("dense", "smoothed_hinge")
    algorithm = DSPDC(problem, m=5, q=4)
    assert algorithm.info["Lambda_kind"].startswith("estimated")
    assert "rate" not in algorithm.info
    expected = formulas.dspdc(
        problem.shape[0], algorithm.info["r"], algorithm.info["s"], algorithm.info["Lambda"],
        problem.lam, problem.gamma,
    )
    assert (algorithm.info["tau"], algorithm.info["sigma"]) == (expected.tau, expected.sigma)
    result = solve(problem, m=5, q=4, tol=1e-8)
    assert result.status == "converged"
    assert result.info["trusted"]
    monkeypatch.setattr("benchmark_dspdc.theory.setting.CAUTION", 1e-4)
    result = solve(problem, m=5, q=4, tol=1e-8)
    assert result.status == "converged"
    assert not result.info["trusted"]
    assert result.info["Lambda_kind"] == "exact"
    assert result.info["Lambda"] == DSPDC(problem, m=5, q=4, Lambda="partition").info["Lambda"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("steps", ["theorem", "block"])
def test_an_explosion_leaves_no_rounding_errors_behind(operator, steps):
    problem = make_problem(operator)
    algorithm = DSPDC(problem, m=5, q=1.0, adaptive=True, steps=steps)
    algorithm.advance(400)
    assert problem.certify(algorithm.x, algorithm.y).relative_gap < 1e-4
    # Thrown far away, with products that are kept for there: on the way back they lose digits.
    algorithm._loop.settle()
    algorithm._loop.point.x[:] += 1e11
    algorithm._loop.renew()
    algorithm.advance(3000)
    assert algorithm._curvature.failures > 0
    assert problem.certify(algorithm.x, algorithm.y).relative_gap < 1e-9

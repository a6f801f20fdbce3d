"""Steps that follow the curvature."""

import math

import numpy as np
import pytest
from conftest import OPERATORS, PAPER, make_problem, uneven_factors
from matrix_cases import risk_problem
from test_block_steps import products_of_steps, steps_of
from test_choice import figure_1

from benchmark_dspdc import erm, solve
from benchmark_dspdc.data import sparse_classification
from benchmark_dspdc.methods import adaptive, dspdc
from benchmark_dspdc.methods.adaptive import (
    CURVATURE,
    EARLY,
    FAILURES,
    FAR,
    OBSERVATIONS,
    PATIENCE,
    Curvature,
    movement,
)
from benchmark_dspdc.methods.dspdc import DSPDC
from benchmark_dspdc.theory import steps as formulas
from benchmark_dspdc.theory.block_sizes import estimated_norms2


class SameTheta(DSPDC):
    """Of the first xbar after a change lazy rows have the new theta, others the old one."""

    def _steps(self, *values):
        steps, iterations = super()._steps(*values)
        return steps._replace(theta=0.99), iterations


@pytest.mark.parametrize("lambda1", [0.0, 1e-4])
def test_lazy_rows_are_settled_before_steps_change(lambda1, monkeypatch):
    data = sparse_classification(300, 500, 10, 0)
    runs = []
    for share in (0.5, 0.0):
        problem = erm(data.X, data.b, "smoothed_hinge", lambda1, 1e-3)
        monkeypatch.setattr(problem.operator, "LAZY", share)
        algorithm = SameTheta(problem, m=5, q=1.0, seed=2)
        algorithm.advance(1000)
        runs.append(algorithm)
    assert type(runs[0]._loop.state) is not type(runs[1]._loop.state)
    assert runs[0].info["modulus"] > 1.2 * problem.lam       # where it began
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-8, atol=1e-10)
    assert runs[0].info["modulus"] == pytest.approx(runs[1].info["modulus"], rel=1e-6)


def test_small_moduli_do_not_slow_an_adaptive_run_down():
    problem = figure_1(lambda2=1e-5)
    paper = solve(problem, m=100, q=1.0, tol=1e-5, max_passes=400, **PAPER)
    assert paper.status == "max_passes"
    fixed = solve(problem, m=100, q=1.0, tol=1e-5, max_passes=400, adaptive=False)
    assert fixed.status == "max_passes"
    for options in ({}, PAPER | dict(adaptive=True)):
        found = solve(problem, m=100, q=1.0, tol=1e-5, max_passes=400, **options)
        assert found.status == "converged"
        assert found.info["modulus"] > 5 * problem.lam


def quadratic(curvature, scale=1.0):
    """y follows A x - b, and all directions have the same curvature; x is in units of 1/scale."""
    n, p = 40, 8
    A = np.linalg.qr(np.random.default_rng(0).standard_normal((n, p)))[0]
    A *= scale * math.sqrt(curvature * n)
    b = np.random.default_rng(1).standard_normal(n)
    return erm(A, b, "square", 0.0, 1e-6 * scale ** 2)


def test_the_modulus_is_the_part_that_is_assumed_of_the_curvature_of_a_quadratic():
    problem = quadratic(curvature=0.5)
    algorithm = DSPDC(problem, m=40, q=8)
    moduli = []
    while problem.certify(algorithm.x, algorithm.y).relative_gap > 1e-12:
        algorithm.advance(1)
        assert algorithm.iterations < 100
        moduli.append(algorithm.info["modulus"])
    mean = math.exp(np.mean(np.log(moduli)))
    assert CURVATURE * 0.1 < mean < CURVATURE * 2.0


@pytest.mark.parametrize(("m", "q"), [(40, 8), (10, 8), (5, 4)])
def test_units_of_x_are_of_no_account(m, q):
    one, other = (DSPDC(quadratic(0.5, scale), m=m, q=q) for scale in (1.0, 8.0))
    for _ in range(6):
        for algorithm in (one, other):
            algorithm.advance(10)
        assert other.info["modulus"] == pytest.approx(64.0 * one.info["modulus"], rel=1e-6)
        np.testing.assert_allclose(8.0 * other.x, one.x, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(other.y, one.y, rtol=1e-8, atol=1e-8)


def test_movement_is_squared_weighed_and_taken_note_of():
    rng = np.random.default_rng(0)
    new, old = rng.standard_normal((2, 17, 3))
    weights = rng.random(17)
    expected = weights @ np.sum((new - old) ** 2, axis=1)
    assert movement(new, old, weights) == pytest.approx(expected)
    np.testing.assert_array_equal(new, old)
    assert movement(new, old, weights) == 0.0


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("m", "q"), [(4, 5), (13, 2)])
def test_movements_are_those_in_units_of_the_steps(operator, m, q):
    # Whatever order the coordinates have inside.
    problem = make_problem(operator, factors=uneven_factors)
    algorithm = DSPDC(problem, m=m, q=q, seed=1)
    x, y = algorithm.x, algorithm.y
    algorithm.advance(algorithm._until - 1)
    dx2, dy2 = algorithm._movements([seen.copy() for seen in algorithm._seen])
    tau, sigma = steps_of(algorithm)
    assert algorithm.info["column_steps"] and tau.max() > 3.0 * tau.min()
    assert dx2 == pytest.approx(np.sum((algorithm.x - x) ** 2 * tau.min() / tau))
    assert dy2 == pytest.approx(np.sum((algorithm.y - y) ** 2 * sigma.min() / sigma))


def curvature(Lambda=100.0, r=10.0, s=1.0):
    return Curvature(make_problem(), r, s, Lambda)


def test_a_steady_ratio_of_movements_tells_the_moduli_of_both_sides():
    for times in (30.0, 1.0, 1.0 / 30.0):
        seen = curvature(Lambda=1e5)
        ratio = times * seen.lam
        for k in range(100):
            scale = math.exp(-0.1 * k)
            seen.observe(scale, ratio * seen.n / seen.gamma * scale)
        assert seen.modulus == pytest.approx(seen.lam * (1.0 + CURVATURE * times), rel=1e-6)
        assert seen.dual_modulus == pytest.approx(
            seen.gamma * (1.0 + CURVATURE / times), rel=1e-6
        )
        assert seen.trusted


def test_first_observations_come_early_and_then_ever_later():
    seen = curvature(Lambda=1e5, r=7.0)
    seen.modulus, periods = seen.lam, []
    for k in range(12):
        periods.append(seen.period)
        # The balance of lam and gamma, at which nothing changes but by CURVATURE.
        seen.observe(0.9 ** k, seen.lam * seen.n / seen.gamma * 0.9 ** k)
    usual = math.ceil(seen.per_nat / OBSERVATIONS)
    assert periods[:3] == [7 * EARLY, 14 * EARLY, 28 * EARLY] and usual > 28 * EARLY
    assert periods[-1] == usual


def test_on_a_well_conditioned_dual_x_gets_longer_steps_than_lam_and_gamma_say():
    # The regulariser keeps nearly all matrices at zero, and x is soon what belongs to y.
    problem = risk_problem(n=24, p=6, d=8).problem
    passes = {}
    for name, options in (("both sides", {}), ("lam and gamma", {"adaptive": False})):
        result = solve(problem, "dspdc", m=24, q=1, order="permuted", tol=1e-6, **options)
        assert result.status == "converged"
        passes[name] = result.history.passes.iloc[-1]
    assert result.info["adaptive"] is False
    assert passes["both sides"] < passes["lam and gamma"]


def test_steps_begin_by_lam_where_there_are_as_many_unknowns_as_rows():
    for problem, many in (
        (make_problem(n=30, p=12), False), (make_problem(n=12, p=12), True),
        (make_problem(n=12, p=30), True), (risk_problem(n=24, p=4, d=2).problem, False),
        # Four symmetric matrices of three numbers each.
        (risk_problem(n=12, p=4, d=2).problem, True),
    ):
        seen = Curvature(problem, 10.0, 2.0, 1e5)
        assert seen.most > 10.0 * seen.lam
        assert seen.modulus == (seen.lam if many else seen.most)
        assert Curvature(problem, 10.0, 2.0, 1e5, follows=False).modulus == seen.lam


@pytest.mark.parametrize("at_rest", ["x", "y"])
def test_where_one_of_the_two_rests_the_other_gets_longer_steps_but_not_at_once(at_rest):
    seen = curvature(Lambda=1e5)
    seen.modulus = math.sqrt(seen.lam * seen.most)
    moduli = [seen.modulus]
    for k in range(40):
        moved = 0.5 ** k
        assert seen.observe(*((0.0, moved) if at_rest == "x" else (moved, 0.0)))
        moduli.append(seen.modulus)
    far = FAR if at_rest == "x" else 1.0 / FAR
    assert moduli[1] == pytest.approx(seen.lam + CURVATURE * far * moduli[0])
    assert seen.lam < moduli[1] < seen.most
    changes = np.diff(moduli)
    if at_rest == "x":
        assert (changes >= 0.0).all() and moduli[-1] == seen.most
    else:
        assert (changes <= 0.0).all() and moduli[-1] == pytest.approx(seen.lam, rel=0.01)
    assert (seen.failures, seen.trusted) == (0, True)
    # Nothing at all moves: nothing is to be learned.
    seen.observe(0.0, 0.0)
    assert seen.modulus == moduli[-1]


def test_the_modulus_stays_between_that_of_g_and_the_most_that_helps():
    seen = curvature()
    for ratio in (1e-30, 1e30):
        for k in range(60):
            seen.observe(0.5 ** k, ratio * 0.5 ** k)
        assert seen.lam <= seen.modulus <= seen.most
        assert 1.0 <= seen.dual_modulus / seen.gamma <= seen.most / seen.lam
    assert curvature(Lambda=1e-30).modulus == curvature().lam


def test_a_run_that_does_not_get_anywhere_ends_with_the_steps_of_the_theorem():
    seen = curvature()
    count = 0
    while seen.observe(1.0, 1.0):
        count += 1
        assert count < 2 * FAILURES * PATIENCE
    assert count >= (PATIENCE - 1) * FAILURES
    assert (seen.modulus, seen.dual_modulus) == (seen.lam, seen.gamma)
    assert seen.Lambda == seen.bound


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_run_that_blows_up_is_not_trusted_any_more(value):
    assert not curvature().observe(value, 1.0)
    assert not curvature().observe(1.0, value)


@pytest.mark.parametrize("steps", ["theorem", "block"])
def test_distrusted_steps_are_those_of_theorem_1_with_a_certified_constant(steps, monkeypatch):
    monkeypatch.setattr(adaptive, "PATIENCE", 1)
    monkeypatch.setattr(Curvature, "_check_progress", lambda self, *_: self._fail(FAILURES))
    problem = figure_1()
    algorithm = DSPDC(problem, m=100, q=1.0, steps=steps, adaptive=True)
    assert algorithm.info["Lambda_kind"].startswith("estimated")
    algorithm.advance(200)
    info = algorithm.info
    assert not info["trusted"]
    assert info["Lambda_kind"] == "exact"
    asked = PAPER | dict(steps=steps, column_steps=info["column_steps"], Lambda="partition")
    assert info["Lambda"] == DSPDC(problem, m=100, q=1.0, **asked).info["Lambda"]
    values = (
        problem.shape[0], info["r"], info["s"], info["Lambda"], problem.lam, problem.gamma
    )
    expected = formulas.dspdc_split(*values)[0] if steps == "block" else formulas.dspdc(*values)
    assert (info["tau"], info["sigma"], info["theta"]) == tuple(expected)
    assert solve(problem, m=100, q=1.0, steps=steps, tol=1e-8).status == "converged"


def uneven_blocks():
    """Long rows are spread over all columns, short ones lie in one: Frobenius norms mislead."""
    rng = np.random.default_rng(0)
    A = rng.choice([-1.0, 1.0], (24, 12))
    A[::2] = 0.0
    A[::2, 0] = 1.0
    return A, erm(A, rng.standard_normal(24), "square", 0.0, 1e-3)


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("affordable", [True, False])
def test_distrusted_steps_meet_the_condition_of_the_theorem_for_all_pairs_of_blocks(
        follows, affordable, monkeypatch):
    monkeypatch.setattr(Curvature, "_check_progress", lambda self, *_: self._fail(FAILURES))
    monkeypatch.setattr(dspdc, "AT_ONCE", 0.0)
    if not affordable:
        monkeypatch.setattr(dspdc, "budget", lambda operator: 0.0)
    A, problem = uneven_blocks()
    for m, q in ((1, 1), (3, 2)):
        algorithm = DSPDC(problem, m=m, q=q, adaptive=follows)
        assert algorithm.info["steps"] == "block"
        # Before, they are estimated, and too long for some.
        assert products_of_steps(algorithm, A).max() > 1.0
        algorithm.advance(2 * algorithm._until)
        assert not algorithm.info["trusted"]
        products = products_of_steps(algorithm, A)
        assert products.max() <= 1.0 + 1e-9
        if affordable:
            # With equality for every dual block.
            np.testing.assert_allclose(products.max(axis=1), 1.0, rtol=1e-9)


def underestimate(monkeypatch, factor):
    """Let estimates of Lambda be too small by a factor."""
    monkeypatch.setattr(
        "benchmark_dspdc.theory.setting.estimated_norms2",
        lambda *blocks: factor * estimated_norms2(*blocks),
    )


def test_a_hostile_estimate_does_not_keep_a_run_from_converging(monkeypatch):
    # A Lambda far too small makes the first steps blow up; the theorem's then recover.
    underestimate(monkeypatch, 1e-4)
    result = solve(make_problem("dense", "smoothed_hinge"), m=5, q=4, adaptive=True, tol=1e-8)
    assert result.status == "converged"
    assert not result.info["trusted"]


def test_a_run_that_overflows_begins_anew(monkeypatch):
    # With the square loss y is not bounded, and steps far too long end in inf and nan.
    underestimate(monkeypatch, 1e-9)
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
    algorithm = DSPDC(problem, m=5, q=4, **PAPER)
    assert algorithm.info["Lambda_kind"].startswith("estimated")
    assert "rate" not in algorithm.info
    expected = formulas.dspdc(
        problem.shape[0], algorithm.info["r"], algorithm.info["s"], algorithm.info["Lambda"],
        problem.lam, problem.gamma,
    )
    assert (algorithm.info["tau"], algorithm.info["sigma"]) == (expected.tau, expected.sigma)
    result = solve(problem, m=5, q=4, tol=1e-8, **PAPER)
    assert result.status == "converged"
    assert result.info["trusted"]
    monkeypatch.setattr("benchmark_dspdc.theory.setting.CAUTION", 1e-4)
    result = solve(problem, m=5, q=4, tol=1e-8, **PAPER)
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

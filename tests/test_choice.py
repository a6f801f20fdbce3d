"""Block sizes by predicted time."""

import numpy as np
import pytest
import scipy.sparse
from conftest import OPERATORS, PAPER, make_factors, make_problem

from benchmark_dspdc import erm, matrix_risk, solve
from benchmark_dspdc.data import factorized
from benchmark_dspdc.engine.sampling import partition
from benchmark_dspdc.methods import dspdc
from benchmark_dspdc.methods.dspdc import DSPDC
from benchmark_dspdc.operators import as_operator
from benchmark_dspdc.theory.block_sizes import (
    PRICES,
    Prices,
    calibrated,
    choose_blocks,
    estimated_root,
    iteration_seconds,
    parts,
)
from benchmark_dspdc.theory.coupling_constant import ESTIMATED, partition_constant
from benchmark_dspdc.theory.setting import PART
from benchmark_dspdc.theory.steps import dspdc_split, iterations_per_nat


def figure_1(n=1500, p=60, d=12, lambda2=1e-2):
    data = factorized(n=n, p=p, d=d, seed=0)
    return erm((data.U, data.V), data.b, "smoothed_hinge", 1e-3, lambda2)


def matrices(n=24, p=6, d=4):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((n, p, d, d))
    b = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return matrix_risk(D + D.transpose(0, 1, 3, 2), b, lam=0.5)


def rough_root(problem):
    return estimated_root(problem.operator)


@pytest.mark.parametrize("m", [1, 10, 100, 1500])
@pytest.mark.parametrize("q", [1, 8, 60])
def test_estimates_are_near_the_exact_constants(m, q):
    operator = figure_1().operator
    rng = np.random.default_rng(1)
    exact = partition_constant(operator, partition(1500, m, rng), partition(60, q, rng))
    assert exact.kind == "exact"
    estimate = float(rough_root(figure_1())(m, q)) ** 2
    assert 0.4 <= estimate / exact.value <= 1.6


def test_estimates_at_the_corners_of_a_small_matrix_are_its_norms():
    A = np.random.default_rng(0).standard_normal((20, 9))
    for stored in (A, scipy.sparse.csr_array(A), (A, np.eye(9))):
        root = rough_root(erm(stored, np.ones(20), "square"))
        assert root(1, 1) == pytest.approx(np.abs(A).max())
        assert root(1, 9) == pytest.approx(np.linalg.norm(A, axis=1).max())
        assert root(20, 1) == pytest.approx(np.linalg.norm(A, axis=0).max())
        assert 0.85 <= root(20, 9) / np.linalg.norm(A, 2) <= 1.0 + 1e-12
        # Of a usual block: means in place of the largest, where these are not the same.
        assert root(1, 1, usual=True) == pytest.approx(np.sqrt(np.mean(A ** 2)))
        assert root(1, 9, usual=True) == pytest.approx(np.sqrt(np.sum(A ** 2) / 20))
        assert root(20, 9, usual=True) == pytest.approx(root(20, 9))
        assert root(5, 4, usual=True) < root(5, 4)


def test_estimates_for_matrices_use_the_norms_of_blocks():
    problem = matrices()
    operator = problem.operator
    found = operator.sampled_norms2(np.arange(24))
    norms2 = operator.block_norms.row_block(np.arange(24)) ** 2
    assert found.entry == pytest.approx(norms2.max())
    assert found.row == pytest.approx(norms2.sum(axis=1).max())
    assert found.mean_entry == pytest.approx(norms2.mean())
    assert found.mean_row == pytest.approx(norms2.sum(axis=1).mean())
    assert found.whole == pytest.approx(np.linalg.eigvalsh(operator.gram(np.arange(24)))[-1])
    assert found.entry <= found.column <= norms2.sum(axis=0).max()


@pytest.mark.parametrize(("steps", "part"), [("theorem", 1.0), ("block", 1.0), ("block", PART)])
def test_the_choice_is_the_least_of_all_pairs(steps, part):
    problem = figure_1()
    n, p = problem.shape
    root = rough_root(problem)
    choice = choose_blocks(problem, root, steps=steps, part=part)

    def predicted(m, q):
        r, s = np.ceil(n / m), np.ceil(p / q)
        each = iteration_seconds(problem.operator, problem.loss, n / r, p / s)
        if steps == "theorem":
            scale = root(m, q) ** 2 / (problem.lam * problem.gamma * n)
            return float(iterations_per_nat(r, s, scale) * np.log(1e6) * each)
        # Each block has a step of its own: the usual one counts. A visit of a coordinate makes
        # its distance smaller by a factor, once an epoch, and the first epoch gains nothing.
        Lambda = part * root(m, q, usual=True) ** 2
        tau, sigma, _ = dspdc_split(n, r, s, Lambda, problem.lam, problem.gamma)[0]
        nats = min(np.log1p(tau * problem.lam) / s, np.log1p(sigma * problem.gamma / n) / r)
        return float((0.5 / nats * np.log(1e6) + max(r, s)) * each)

    assert choice.seconds == pytest.approx(predicted(choice.m, choice.q))
    for m in (1, 15, 70, 200, 1500):
        for q in (1, 7, 30, 60):
            assert choice.seconds <= 1.1 * predicted(m, q)


def test_the_choice_follows_the_prices():
    problem = figure_1()
    n, p = problem.shape
    # With iterations that cost the same whatever they do, take everything.
    fixed = Prices(1e5, 0.0, 0.0, 0.0)
    ms, qs = np.array([1.0, n]), np.array([1.0, p])
    assert iteration_seconds(problem.operator, problem.loss, ms, qs, fixed) == pytest.approx(1e-4)
    counts = parts(problem.operator, np.array([10.0]), np.array([6.0]))[0]
    assert list(counts) == [1.0, 2 * 12 * 16, 10.0, 6.0, 0.0, 0.0, 0.0]


def test_what_is_given_is_kept():
    problem = figure_1()
    root = rough_root(problem)
    assert choose_blocks(problem, root, m=7).m == 7
    assert choose_blocks(problem, root, q=0.5).q == 30
    algorithm = DSPDC(problem, m=7, q="auto")
    assert algorithm.info["m"] == 7
    assert "of" in algorithm.info["choice"]


@pytest.mark.parametrize(("options", "kind"), [({}, ESTIMATED), (PAPER, "exact")])
def test_auto_is_the_default_and_says_why(options, kind):
    problem = figure_1()
    result = solve(problem, "dspdc", tol=1e-8, **options)
    assert result.status == "converged"
    info = result.info
    assert info["choice"].startswith("m=") and "iterations of" in info["choice"]
    assert info["predicted_iterations"] > 0.0
    assert 0.0 < info["choosing_seconds"] < 60.0
    assert info["Lambda_kind"] == kind


@pytest.mark.parametrize("options", [{}, dict(adaptive=False), PAPER])
def test_the_blocks_of_a_run_are_those_of_the_least_time_for_its_steps(options):
    problem = figure_1()
    algorithm = DSPDC(problem, column_steps=False, **options)
    info = algorithm.info
    part = PART if info["adaptive"] else 1.0
    found = choose_blocks(problem, rough_root(problem), steps=info["steps"], part=part)
    assert info["choice"] == found.describe()
    assert info["predicted_seconds"] == found.seconds


def test_all_seeds_choose_alike_whatever_the_machine(monkeypatch):
    problem = figure_1()
    infos = [DSPDC(problem, seed=seed).info for seed in (3, 3, 4)]
    assert infos[0]["choice"] == infos[1]["choice"] == infos[2]["choice"]

    def not_to_be_called(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(dspdc, "calibrated", not_to_be_called)
    DSPDC(problem, seed=3)
    with pytest.raises(AssertionError):
        DSPDC(problem, seed=3, calibrate=True)


def test_every_kind_of_operator_has_prices():
    kinds = {make_problem(operator).operator.kind for operator in OPERATORS}
    assert kinds | {"matrix blocks", "rank-one sums"} == set(PRICES)


def test_calibration_fits_what_it_measured():
    problem = figure_1()
    prices = calibrated(problem, DSPDC(problem)._iteration_time, seconds=0.02)
    assert min(prices) >= 0.0
    n, p = problem.shape
    every = np.array([1.0, 50.0, n]), np.array([float(p)] * 3)
    times = iteration_seconds(problem.operator, problem.loss, *every, prices)
    assert np.all(times > 0.0)
    assert np.all(np.diff(times) >= 0.0)


def test_sparse_rows_that_are_moved_lazily_are_priced_as_such():
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((50, 400), density=0.02, rng=rng, format="csr")
    operator = erm(A, np.ones(50), "square").operator
    all_of_x = parts(operator, np.array([1.0]), np.array([400.0]))[0]
    some = parts(operator, np.array([1.0]), np.array([200.0]))[0]
    assert all_of_x[1] == all_of_x[3] == 0.0 and all_of_x[5] > 0.0
    assert some[1] > 0.0 and some[3] == 200.0 and some[5] == 0.0


def test_factors_of_one_column_and_one_row():
    U, V = make_factors(5, 1, 1, 0)
    assert solve(erm((U, V), np.ones(5)), tol=1e-8).status == "converged"
    assert solve(erm((U[:1], V), np.ones(1)), tol=1e-8).status == "converged"


def test_constants_are_exact_where_that_is_cheap_and_estimated_elsewhere(monkeypatch):
    problem = figure_1()
    assert DSPDC(problem, **PAPER).info["Lambda_kind"] == "exact"
    limits = []

    def out_of_reach(operator, dual, primal, limit):
        limits.append(limit * operator.norm_price)
    monkeypatch.setattr("benchmark_dspdc.theory.setting.exact_constant", out_of_reach)
    run = DSPDC(problem, **PAPER)
    assert run.info["Lambda_kind"] == ESTIMATED
    # First for a millisecond, then for a twentieth of what is predicted.
    expected = choose_blocks(problem, rough_root(problem), run.info["m"], run.info["q"]).seconds
    assert limits == pytest.approx([1e6, 0.05e9 * expected])
    sizes = dict(m=run.info["m"], q=run.info["q"])
    exact = DSPDC(problem, **sizes, Lambda="partition", **PAPER).info["Lambda"]
    assert 0.8 <= run.info["Lambda"] / exact <= 2.0
    # Steps that adapt themselves are not worth waiting for it, except that of single rows.
    limits.clear()
    tuned = DSPDC(problem, **sizes, column_steps=False).info
    assert (limits, tuned["Lambda_kind"]) == ([], ESTIMATED)
    assert 0.7 <= tuned["Lambda"] / exact <= 1.5
    rows = DSPDC(problem, m=1, q=1.0, column_steps=False).info
    assert (limits, rows["Lambda_kind"]) == ([], "exact")
    assert rows["Lambda"] == problem.operator.row_norms2.max()


def test_samples_of_matrices_are_as_large_as_time_allows(monkeypatch):
    operator = matrices().operator
    assert operator.sample_size(128) == operator.FEWEST
    monkeypatch.setattr(type(operator), "SAMPLING_PASSES", np.inf)
    assert operator.sample_size(128) == 24
    assert operator.sample_size(20) == 20


def test_rows_with_a_direction_in_common_are_told_from_a_sample():
    # One heavy row hides in a sample of 128 what all rows have in common.
    rng = np.random.default_rng(0)
    A = 0.3 * rng.standard_normal((4000, 50)) + 0.3 * np.ones(50)
    A[::50] *= 6.0
    root = rough_root(erm(A, np.ones(4000), "square"))
    for m in (400, 4000):
        exact = partition_constant(
            as_operator(A), partition(4000, m, rng), partition(50, 50, rng)
        ).value
        assert 0.6 <= root(m, 50) ** 2 / exact <= 1.7


def test_losses_from_elsewhere_have_the_usual_price():
    operator = figure_1().operator
    assert iteration_seconds(operator, object(), 10, 10) == iteration_seconds(
        operator, figure_1().loss, 10, 10
    )

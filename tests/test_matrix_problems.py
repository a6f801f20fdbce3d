"""Problems whose unknowns are matrices: values, iterates, work, failures, metrics, input."""

import copy
import dataclasses
import pickle
from itertools import chain

import numpy as np
import pytest
import transcriptions
from conftest import PAPER, daily
from matrix_cases import (
    ALL_RUNS,
    PROBLEMS,
    RUNS,
    block_norm2,
    feasible_dual,
    flat_of,
    metric_data,
    metric_problem,
    random_psd,
    risk_problem,
    run,
    trace_problem,
)
from method_cases import CASES
from replay import drawn_batches, drawn_blocks
from sklearn.neighbors import KNeighborsClassifier

from benchmark_dspdc import erm, matrix_risk, mt_lmnn, solve, trace_regression
from benchmark_dspdc.data import task_knn_errors
from benchmark_dspdc.engine import psd_projection as psd
from benchmark_dspdc.engine.symmetric import pack
from benchmark_dspdc.methods import DSPDC, METHODS, SDCA
from benchmark_dspdc.methods.method import start_of
from benchmark_dspdc.model.regularizers import (
    PSDFrobenius,
    conjugate_point,
    reg_conjugate,
    reg_value,
)
from benchmark_dspdc.operators.matrix_blocks import MatrixOperator
from benchmark_dspdc.solver import option_names
from benchmark_dspdc.theory.coupling_constant import coupling_constant

#: By day one loss of each kind of problem.
BY_DAY = ("matrix_risk", "trace_regression", "mt_lmnn", "mt_lmnn-shared")


@pytest.fixture(params=daily(PROBLEMS, *BY_DAY))
def written(request):
    return PROBLEMS[request.param]()


runs = pytest.mark.parametrize("name", RUNS)


# Values and certificates -------------------------------------------------------------------

def test_values_are_those_of_the_formulas_and_duality_is_weak(written):
    rng = np.random.default_rng(0)
    problem = written.problem
    for _ in range(10):
        X, y = random_psd(rng, *problem.x_shape[:2]), feasible_dual(written, rng)
        primal, dual = problem.primal(X), problem.dual(y)
        assert primal == pytest.approx(written.primal(X), rel=1e-11)
        assert primal >= dual
        certificate = problem.certify(X, y)
        assert certificate.primal == primal
        assert certificate.dual >= dual
        assert certificate.gap >= 0.0


# The regulariser, and what it remembers ----------------------------------------------------

def random_reg(rng, p=3, d=4, shifted=True):
    lam = rng.random(p) + 0.05
    centre, linear = rng.standard_normal((2, p, d, d))
    centre, linear = centre + centre.swapaxes(1, 2), linear + linear.swapaxes(1, 2)
    if not shifted:
        return PSDFrobenius(lam, d), lam, 0.0 * centre, 0.0 * linear
    return PSDFrobenius(lam, d, centre, linear), lam, centre, linear


@pytest.mark.parametrize("shifted", [False, True])
def test_fenchel_inequality_holds_with_equality_at_the_conjugate_point(shifted):
    rng = np.random.default_rng(0)
    for _ in range(20):
        reg, lam, centre, linear = random_reg(rng, shifted=shifted)
        W = rng.standard_normal((3, 4, 4)) * 3
        W = W + W.swapaxes(1, 2)
        best = np.empty_like(W)
        conjugate_point(reg, W, best)
        conjugate = reg_conjugate(reg, W)
        assert conjugate == pytest.approx(np.vdot(W, best) - reg_value(reg, best), rel=1e-10)
        for X in (random_psd(rng, 3, 4), best + 0.01 * random_psd(rng, 3, 4)):
            value = lam @ np.sum((X - centre) ** 2, axis=(1, 2)) / 2 + np.vdot(linear, X)
            assert reg_value(reg, X) == pytest.approx(value, rel=1e-10)
            assert value + conjugate >= np.vdot(W, X) - 1e-10 * abs(value)


def test_a_point_outside_the_cone_has_an_infinite_value(written):
    problem = written.problem
    X = np.tile(np.eye(problem.x_shape[1]), (problem.shape[1], 1, 1))
    assert np.isfinite(problem.primal(X))
    X[-1, -1, -1] = -1e-6
    assert problem.primal(X) == np.inf
    assert problem.certify(X).primal == np.inf
    X[-1, -1, -1] = np.nan
    assert not np.isfinite(problem.primal(X))


def counted_projections(monkeypatch):
    """A list that gets (blocks, eigendecompositions) of every projection from now on."""
    seen, original = [], psd.Projector.project

    def project(self, blocks, matrices):
        done = original(self, blocks, matrices)
        seen.append(([int(block) for block in blocks], done))
        return done
    monkeypatch.setattr(psd.Projector, "project", project)
    return seen


@pytest.mark.parametrize("shifted", [False, True])
def test_only_changed_blocks_are_projected_again_with_the_same_bits(shifted, monkeypatch):
    rng = np.random.default_rng(0)
    reg, *_ = random_reg(rng, p=5, d=6, shifted=shifted)
    seen = counted_projections(monkeypatch)

    def symmetric(k):
        W = rng.standard_normal((k, 6, 6))
        return W + W.swapaxes(1, 2)

    def check(W, todo):
        fresh = copy.deepcopy(reg)
        fresh._known = []
        expected = fresh.projected(W.copy()), reg_conjugate(fresh, W.copy())
        seen.clear()
        given = W.copy()
        found = reg.projected(given), reg_conjugate(reg, given)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1] == expected[1]
        np.testing.assert_array_equal(given, W)
        assert sorted(chain.from_iterable(blocks for blocks, _ in seen)) == todo
        given[:] = np.nan       # what is remembered is not the caller's array

    first = symmetric(5)
    check(first, [0, 1, 2, 3, 4])
    check(first, [])
    second = first.copy()
    second[[1, 3]] = symmetric(2)
    check(second, [1, 3])
    check(first, [])
    third = second.copy()
    third[3], third[4] = first[3], symmetric(1)[0]
    check(third, [4])
    check(symmetric(5), [0, 1, 2, 3, 4])
    check(third, [])
    check(second, [3, 4])


def test_certificates_do_not_depend_on_what_was_certified_before(written):
    problem = written.problem
    rng = np.random.default_rng(0)
    pairs = [
        (random_psd(rng, *problem.x_shape[:2]), feasible_dual(written, rng)) for _ in range(4)
    ]
    pairs[2] = (pairs[1][0], pairs[2][1])
    fresh = [pickle.loads(pickle.dumps(problem)).certify(*pair) for pair in pairs]
    for k in (0, 1, 2, 1, 3, 0):
        assert problem.certify(*pairs[k]) == fresh[k]


def test_running_a_method_does_not_change_the_problem(written):
    problem = written.problem
    X = np.tile(np.eye(problem.x_shape[1]), (problem.shape[1], 1, 1))
    y = feasible_dual(written, np.random.default_rng(0))
    before = problem.certify(X, y)
    for name in RUNS:
        run(problem, name, 20)
    assert problem.certify(X, y) == before


# Iterates ----------------------------------------------------------------------------------

@runs
@pytest.mark.parametrize("kind", daily(
    ["trace_regression", "mt_lmnn", "mt_lmnn-logistic", "mt_lmnn-shared"],
    "trace_regression", "mt_lmnn", "mt_lmnn-shared",
))
def test_rank_one_sums_give_the_iterates_of_explicit_matrices(kind, name):
    written = PROBLEMS[kind]()
    one, other = run(written.problem, name, 0), run(written.explicit(), name, 0)
    for _ in range(40):
        one.advance(1)
        other.advance(1)
        np.testing.assert_allclose(one.y, other.y, atol=1e-10)
        scale = max(1.0, np.abs(other.x).max())
        np.testing.assert_allclose(one.x, other.x, atol=1e-10 * scale)
    for key, value in one.info.items():
        if key not in ("Lambda_kind", "sampling", "set_up_passes", "set_up_seconds"):
            assert value == (
                pytest.approx(other.info[key], rel=1e-9) if isinstance(value, float)
                else other.info[key]
            ), key


@pytest.mark.parametrize("moduli", ["each", "least"])
@pytest.mark.parametrize(("make", "options"), [
    (risk_problem, dict(lam=[0.05, 1.0, 0.2, 5.0])), (metric_problem, dict(lam=8.0)),
    (trace_problem, {}),
])
def test_lambda_is_that_of_blocks_divided_by_the_roots_of_their_moduli(make, options, moduli):
    written = make(**options)
    problem = written.problem
    n, p = problem.shape
    algorithm = DSPDC(problem, seed=0, m=6, q=2, moduli=moduli, **PAPER)
    flat = flat_of(written.D, written.weights(moduli) / problem.lam)
    dual, primal = algorithm._loop.blocks.dual, algorithm._loop.blocks.primal
    exact = max(block_norm2(flat, I, J) for I in dual.blocks for J in primal.blocks)
    info = algorithm.info
    assert info["Lambda"] / problem.lam == pytest.approx(exact, rel=1e-9)
    tau, sigma, theta = transcriptions.remark_1(
        n, p, n / info["r"], p / info["s"], exact, 1.0, problem.gamma, 1
    )
    # For moduli of one; block j then has tau/lam_j.
    assert info["tau"] * problem.lam == pytest.approx(tau, rel=1e-9)
    assert info["sigma"] == pytest.approx(sigma, rel=1e-9)
    assert info["theta"] == pytest.approx(theta, rel=1e-9)
    heuristic = coupling_constant(algorithm.problem, "heuristic", dual, primal).value
    rows = np.sum(flat ** 2, axis=(1, 2)).max() * problem.lam
    assert heuristic == pytest.approx(info["m"] * info["q"] * rows / p, rel=1e-9)
    # Values stay.
    X = random_psd(np.random.default_rng(0), *problem.x_shape[:2])
    assert algorithm.problem.primal(X) == problem.primal(X)


# Where runs begin ---------------------------------------------------------------------------

@pytest.mark.parametrize("moduli", ["each", "least"])
@pytest.mark.parametrize("method", sorted(k for k, v in METHODS.items() if v.moves_x))
def test_every_method_with_an_x_of_its_own_begins_at_the_least_of_g(method, moduli):
    written = metric_problem(lambda0=0.4, lam=2.0)
    algorithm = METHODS[method](written.problem, moduli=moduli)
    algorithm.advance(0)
    # Centre and linear term differ between the blocks, and some are cut off by the cone.
    least = np.array([
        transcriptions.positive_part(lam * centre - linear) / lam for lam, centre, linear
        in zip(written.lam, written.centre, written.linear, strict=True)
    ])
    assert least.any() and not np.allclose(least, written.centre)
    np.testing.assert_allclose(algorithm.x, least, atol=1e-12)


def test_the_least_of_g_is_a_better_begin_than_zero():
    problem = metric_problem().problem
    zero = np.zeros(problem.x_shape), np.zeros(problem.shape[0])
    # y is zero in either case; the dual value is that of phi'(A x) where that is better.
    options = dict(m=6, q=2, steps="theorem", order="random", adaptive=False)
    algorithm = DSPDC(problem, **options)
    assert not algorithm.y.any()
    first = problem.certify(algorithm.x, algorithm.y)
    assert first.gap < 0.9 * problem.certify(*zero).gap
    # A start that is given is kept.
    given = DSPDC(problem, **options, start=start_of(problem, *zero))
    assert not given.x.any()
    # As many iterations lead further.
    for each in (algorithm, given):
        each.advance(100)
    gaps = [problem.certify(each.x, each.y).gap for each in (algorithm, given)]
    assert gaps[0] < gaps[1]


# Work ---------------------------------------------------------------------------------------

@runs
def test_eigendecompositions_are_counted_and_no_block_is_projected_in_vain(
    written, name, monkeypatch
):
    problem = written.problem
    p = problem.shape[1]
    algorithm = run(problem, name, 0)
    seen = counted_projections(monkeypatch)
    begun = algorithm.eigendecompositions
    assert begun <= (p if "sdca" in name else 0)
    limit = p if CASES[name].method != "dspdc" else algorithm.info["q"]
    for _ in range(30):
        before = algorithm.eigendecompositions
        seen.clear()
        algorithm.advance(1)
        assert sum(len(blocks) for blocks, _ in seen) <= limit
        assert algorithm.eigendecompositions - before == sum(done for _, done in seen)
    if isinstance(problem.operator, MatrixOperator):
        assert algorithm.eigendecompositions > begun


def test_sdca_projects_only_the_blocks_that_a_row_touches(monkeypatch):
    written = metric_problem()
    algorithm = SDCA(written.problem, seed=3)
    batches = drawn_batches(algorithm, 40, 3)
    seen = counted_projections(monkeypatch)
    for batch in batches:
        before = algorithm.y
        seen.clear()
        algorithm.advance(1)
        moved = not np.array_equal(before, algorithm.y)
        assert [blocks for blocks, _ in seen] == ([[0, written.T[batch[0]]]] if moved else [])


@pytest.mark.parametrize("kind", ["matrix_risk", "trace_regression", "mt_lmnn"])
def test_passes_are_the_share_of_the_data_that_was_read(kind):
    written = PROBLEMS[kind]()
    problem = written.problem
    n, p = problem.shape
    for q in (2, p):
        algorithm = DSPDC(problem, m=6, q=q)
        sizes = [len(I) for I, _ in drawn_blocks(algorithm, 10, 0)]
        assert algorithm.passes == 0.0
        algorithm.advance(10)
        assert algorithm.passes == pytest.approx(sum(sizes) / n)
    if kind == "trace_regression":         # all rows move
        algorithm = SDCA(problem, m=1)
        algorithm.advance(n)
        assert algorithm.passes == pytest.approx(1.0)
        assert algorithm.coordinate_updates == n
    # Columns: all are equally long, but for the shared one, which is as long as the others.
    algorithm = DSPDC(problem, m=1.0, q=1)
    blocks = [J[0] for _, J in drawn_blocks(algorithm, 12, 0)]
    # A x is kept, which at argmin g is zero but for the metrics.
    begun = algorithm.passes
    assert begun == (1.0 if kind == "mt_lmnn" else 0.0)
    algorithm.advance(12)
    rows = np.full(p, n / p)
    if kind == "mt_lmnn":
        rows = np.array([n, *np.bincount(written.T)[1:]])
    assert algorithm.passes - begun == pytest.approx(rows[blocks].sum() / n)


@runs
def test_iterations_per_pass_tells_the_work_of_a_pass(written, name):
    algorithm = run(written.problem, name, 0)
    n_iterations = max(100, 5 * round(algorithm.iterations_per_pass + 1))
    algorithm.advance(n_iterations)
    expected = n_iterations / algorithm.iterations_per_pass
    if written.loss == "smoothed_hinge" and "sdca" in name:
        # Rows that do not move are half the work.
        assert expected / 2 <= algorithm.passes <= 1.25 * expected
    else:
        assert algorithm.passes == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("name", [*RUNS, "asvrg_sp"])
def test_equal_seeds_give_equal_iterates_however_cut_and_on_any_number_of_threads(
    written, name, monkeypatch
):
    def result(threads, seed, *pieces):
        monkeypatch.setenv("BENCHMARK_DSPDC_THREADS", str(threads))
        algorithm = run(written.problem, name, 0, seed)
        for piece in pieces:
            algorithm.advance(piece)
        return algorithm

    whole, cut = result(1, 1, 40), result(2, 1, 1, 7, 0, 20, 12)
    np.testing.assert_array_equal(whole.x, cut.x)
    np.testing.assert_array_equal(whole.y, cut.y)
    for counted in ("passes", "coordinate_updates", "eigendecompositions"):
        assert getattr(whole, counted) == getattr(cut, counted)
    told = ("set_up_passes", "set_up_seconds")
    one, other = ({k: v for k, v in run.info.items() if k not in told} for run in (whole, cut))
    assert one == other
    assert not np.array_equal(whole.y, result(1, 2, 40).y) or whole.info["r"] == 1


@pytest.mark.parametrize(("make", "options"), [
    # Large enough for every product to be cut into several parts.
    (metric_problem, dict(sizes=[12] * 20, d=12, n_neighbors=3)),
    (risk_problem, dict(n=20, p=20, d=24)),
])
def test_equal_seeds_give_equal_curves_on_any_number_of_threads(make, options, monkeypatch):
    columns = ["passes", "primal", "dual", "gap", "own_gap", "eigendecompositions"]
    problem, curves = make(**options).problem, []
    for threads in (1, 2, 3):
        monkeypatch.setenv("BENCHMARK_DSPDC_THREADS", str(threads))
        curves.append(solve(problem, m=10, q=7, seed=2, tol=0, max_passes=4).history[columns])
    assert curves[0].equals(curves[1])
    assert curves[0].equals(curves[2])


# Failures -----------------------------------------------------------------------------------

def failing_after(monkeypatch, n_calls):
    calls = []

    def failing(solver):
        def wrapped(*args):
            calls.append(1)
            return solver(*args) if len(calls) <= n_calls else False
        return wrapped
    for solver_name, solver in psd.EIGENSOLVERS.items():
        monkeypatch.setitem(psd.EIGENSOLVERS, solver_name, failing(solver))


@pytest.mark.parametrize("name", ["dspdc rows", "dspdc columns", "spdc batches", "sdca batches"])
def test_a_failing_eigensolver_ends_the_run_with_the_best_point_so_far(name, monkeypatch):
    problem = risk_problem().problem
    method, options, _ = CASES[name].on(*problem.shape)
    solve(problem, method, max_passes=1, **options)      # compiled, so that 150 are of the run
    failing_after(monkeypatch, 150)
    with pytest.warns(RuntimeWarning, match=f"{method} ended: block . has no projection: none of"):
        result = solve(problem, method, tol=1e-13, **options)
    assert result.status == "eigensolver failed"
    assert len(result.history) > 1
    assert np.isfinite(result.gap)
    assert result.gap == result.history["gap"].min()
    monkeypatch.undo()
    assert problem.certify(result.x, result.y).gap == result.gap


def test_an_eigensolver_that_fails_from_the_start_is_an_error(monkeypatch):
    problem = risk_problem().problem
    failing_after(monkeypatch, 0)
    with pytest.raises(psd.ProjectionError, match="has no projection"):
        solve(problem)


def test_a_step_without_end_fails_no_sooner_than_the_run():
    # What is compiled before is tried on a tiny problem, where such a step leaves the numbers.
    rng = np.random.default_rng(0)
    problem = mt_lmnn(rng.random((24, 3)), np.arange(24) % 2, np.repeat([0, 1], 12))
    assert np.isfinite(solve(problem, "saga", m=1, step=1.7e308, max_passes=0.5).gap)


@pytest.mark.parametrize("scale", daily([1.0, 255.0, 1e6], 1e6))
@pytest.mark.parametrize("method", METHODS)
def test_large_data_with_constant_columns_does_not_look_divergent(method, scale):
    # X_0 is the identity across columns that never change, beside large negative eigenvalues.
    rng = np.random.default_rng(0)
    points = np.zeros((24, 12))
    points[:, :4] = scale * rng.random((24, 4))
    problem = mt_lmnn(points, np.arange(24) % 2, np.repeat([0, 1], 12), n_impostors=2)
    options = dict(m=10) if "m" in option_names(METHODS[method]) else {}
    result = solve(problem, method, **options, max_passes=5, tol=1e-10)
    assert result.status in ("max_passes", "converged")
    assert np.isfinite(result.history["primal"]).all()


@pytest.mark.parametrize("name", ALL_RUNS)
def test_the_smallest_problems_zero_matrices_and_identical_points_are_no_obstacle(name):
    rng = np.random.default_rng(0)
    problems = [
        matrix_risk(rng.standard_normal(shape), np.ones(shape[0]), lam=0.5)
        for shape in ((1, 1, 3, 3), (1, 3, 2, 2), (4, 1, 1, 1), (1, 1, 1, 1))
    ]
    D, ones = rng.standard_normal((6, 3, 2, 2)), np.ones(6)
    D[1], D[:, 2] = 0.0, 0.0
    problems += [
        matrix_risk(D, ones, lam=0.5), matrix_risk(0.0 * D, ones),
        mt_lmnn(np.ones((12, 3)), np.arange(12) % 2, np.repeat([0, 1], 6), 2),
    ]
    if name in RUNS:
        problems.append(trace_regression(np.zeros((6, 3, 2)), ones))
    for problem in problems:
        method, options, _ = CASES[name].on(*problem.shape)
        assert solve(problem, method, tol=1e-9, **options).status == "converged"


@pytest.mark.parametrize("scale", [1e-60, 1e-8, 1e8, 1e60])
def test_a_problem_scaled_with_its_modulus_has_the_same_iterates(scale):
    rng = np.random.default_rng(0)
    D, b = rng.standard_normal((8, 2, 3, 3)), np.where(rng.random(8) < 0.5, 1.0, -1.0)
    for name in RUNS:
        one = run(matrix_risk(D, b, lam=0.5), name, 20)
        other = run(matrix_risk(scale * D, b, lam=0.5 * scale ** 2), name, 20)
        np.testing.assert_allclose(other.y, one.y, atol=1e-10)
        np.testing.assert_allclose(scale * other.x, one.x, atol=1e-10)


# Metrics ------------------------------------------------------------------------------------

@pytest.mark.parametrize("metrics", ["multi-task", "shared"])
@pytest.mark.parametrize("named", [str, int, float])
def test_metric_and_transform_of_a_task(named, metrics):
    data = dict(sizes=(20, 30, 26), d=4, named=named)
    problem = metric_problem(metrics=metrics, n_neighbors=3, **data).problem
    result = solve(problem, m=10, tol=1e-4)
    train, test = metric_data(**data), metric_data(**data, seed=1)
    names, matrices, wrong = np.unique(train[2]).tolist(), {}, []
    for k, name in enumerate(names):
        M = matrices[name] = result.metric(name)
        want = result.x[0] + (result.x[1 + k] if metrics == "multi-task" else 0.0)
        np.testing.assert_array_equal(M, want)
        mapped = [
            (result.transform(points[tasks == name], name), labels[tasks == name])
            for points, labels, tasks in (train, test)
        ]
        difference = train[0][train[2] == name]
        difference = difference[0] - difference[1]
        assert np.sum((mapped[0][0][0] - mapped[0][0][1]) ** 2) == pytest.approx(
            difference @ M @ difference, rel=1e-9
        )
        wrong.append(1.0 - KNeighborsClassifier(3).fit(*mapped[0]).score(*mapped[1]))
    np.testing.assert_array_equal(problem.learned.metrics(result.x), list(matrices.values()))
    errors = task_knn_errors(*train, *test, problem.learned.metrics(result.x)).by_task
    np.testing.assert_allclose(errors, wrong)
    result.metric(name)[:] = np.nan          # a copy
    assert np.isfinite(result.x).all()


def test_wrong_tasks_points_and_problems_are_refused():
    result = solve(metric_problem(named=int).problem, max_passes=1, tol=0)
    with pytest.raises(ValueError, match="task must be one of 10, 20, 30, got 40"):
        result.metric(40)
    with pytest.raises(ValueError, match="task must be one of 10, 20, 30, got '10'"):
        result.metric("10")
    for wrong in (None, [10, 20], np.nan):
        with pytest.raises(ValueError, match="task must be one of"):
            result.transform(np.ones((2, 4)), wrong)
    with pytest.raises(ValueError, match="Z must have 4 columns"):
        result.transform(np.ones((2, 3)), 10)
    with pytest.raises(ValueError, match="Z must be finite"):
        result.transform(np.full((2, 4), np.nan), 10)
    named = solve(metric_problem(sizes=[4] * 8).problem, max_passes=1, tol=0)
    with pytest.raises(ValueError, match="'10', .*, \\.\\.\\., got 10"):
        named.metric(10)
    for problem in (risk_problem().problem, erm(np.eye(3), np.ones(3))):
        other = dataclasses.replace(result, problem=problem, metrics=None)
        with pytest.raises(ValueError, match="metric is for problems of metric learning"):
            other.metric(10)
        with pytest.raises(ValueError, match="transform is for problems of metric learning"):
            other.transform(np.ones((1, 3)), 10)


# Input --------------------------------------------------------------------------------------

def test_matrices_that_are_not_symmetric_are_symmetrised():
    rng = np.random.default_rng(0)
    D = rng.standard_normal((10, 3, 4, 4))
    b = np.where(rng.random(10) < 0.5, -1.0, 1.0)
    kept = D.copy()
    symmetric = (D + D.swapaxes(2, 3)) / 2
    results = [
        solve(matrix_risk(given, b, lam=0.1), m=3, q=2, max_passes=5, tol=0)
        for given in (D, symmetric, pack(D), D.swapaxes(2, 3), np.asfortranarray(D))
    ]
    np.testing.assert_array_equal(D, kept)
    for result in results[1:]:
        np.testing.assert_allclose(result.x, results[0].x, atol=1e-12)


def test_a_single_matrix_of_measurements_may_be_given_as_such():
    rng = np.random.default_rng(0)
    z, b = rng.standard_normal((10, 3)), rng.standard_normal(10)
    one, other = trace_regression(z, b), trace_regression(z[:, None], b)
    assert one.x_shape == other.x_shape == (1, 3, 3)
    X = np.eye(3)[None]
    assert one.primal(X) == other.primal(X) == pytest.approx(
        np.mean((np.sum(z ** 2, axis=1) - b) ** 2) / 2 + 0.01 * 3 / 2
    )


def with_entry(shape, where, value):
    out = np.ones(shape)
    out[where] = value
    return out


def good_input(function):
    if function is mt_lmnn:
        names = ("points", "labels", "tasks")
        return dict(zip(names, metric_data(sizes=(8, 8)), strict=True)) | dict(n_neighbors=3)
    if function is trace_regression:
        return dict(measurements=np.ones((3, 2, 2)), b=np.ones(3))
    return dict(D=np.ones((3, 2, 2, 2)), b=np.array([1.0, -1.0, 1.0]))


#: What is changed of good input, and the message. Of triplets there is more in test_metric_data.
BAD = {
    matrix_risk: [
        (dict(D=with_entry((3, 2, 2, 2), (1, 0, 0, 1), np.nan)),
         "D must be finite.*block 0 of row 1"),
        (dict(D=with_entry((3, 2, 3), (2, 1, 1), np.nan)), "D must be finite.*\\(2, 1, 1\\)"),
        # Infinities that cancel when symmetrised.
        (dict(D=np.array([[1.0, np.inf], [-np.inf, 1.0]]) * np.ones((3, 2, 1, 1))),
         "D must be finite"),
        (dict(D=np.ones((3, 2))), "D must have shape.*got shape \\(3, 2\\)"),
        (dict(D=np.ones((3, 2, 2, 3))), "D must have shape.*\\(3, 2, 2, 3\\)"),
        (dict(D=np.ones((3, 2, 4))), "D must have shape.*\\(3, 2, 4\\)"),
        (dict(D=np.ones((0, 2, 2, 2)), b=[]), "non-empty"),
        (dict(D=np.ones((3, 0, 2, 2))), "non-empty"),
        (dict(D=np.ones((3, 2, 0, 0))), "non-empty"),
        (dict(D=np.ones((3, 2, 2, 2), dtype=complex)), "real numbers.*complex"),
        (dict(D=[[np.ones((2, 2))], [np.ones((3, 3))], [np.ones((2, 2))]]), "D must"),
        (dict(D=np.full((3, 2, 2, 2), 1e150)), "badly scaled"),
        (dict(b=[1.0]), "b must have one entry for each of the 3 rows, got 1"),
        (dict(b=np.ones((3, 1))), "b must have 1 dim"),
        (dict(b=[1.0, np.nan, 1.0]), "b must be finite"),
        (dict(b=[0, 1, 1]), "labels must be -1 or"),
        (dict(loss="hinge"), "loss must be one of"),
        (dict(lam=0.0), "lam must be a finite number > 0, got 0"),
        (dict(lam=[0.1, 0.0]), "lam must be > 0.*got 0.0 for block 1"),
        (dict(lam=[np.nan, 0.1]), "lam must be finite.*index 0"),
        (dict(lam=[0.1]), "lam must be a number or one for each of the 2"),
        (dict(lam=np.ones((2, 2))), "lam must have 1 dim"),
    ],
    trace_regression: [
        (dict(measurements=with_entry((3, 2, 2), (1, 1, 0), np.nan)),
         "measurements must be finite.*\\(1, 1, 0\\)"),
        (dict(measurements=with_entry((3, 2), (1, 0), np.nan)),
         "measurements must be finite, got nan at index \\(1, 0"),
        (dict(measurements=np.ones((3, 2, 2, 2))), "measurements must"),
        (dict(measurements=np.ones(3)), "measurements must have"),
        (dict(measurements=np.ones((0, 2, 2)), b=[]), "measurements must not be empty"),
        (dict(b=[1.0]), "b must have one entry for each of the 3"),
        (dict(b=[1.0, np.inf, 1.0]), "b must be finite"),
        (dict(b=[1.0, 1e160, 1.0]), "badly scaled"),
        (dict(lam=[-1.0, 1.0]), "got -1.0 for block 0"),
    ],
    mt_lmnn: [
        (dict(n_neighbors=4), "too few points for n_neighbors=4"),
        (dict(n_impostors=5), "n_impostors=5"),
        (dict(labels=np.zeros(15)), "labels must be as many as the points, 16, got 15"),
        (dict(tasks=np.zeros(15)), "tasks must be as many as the points, 16, got 15"),
        (dict(labels=np.zeros(16)), "task '10' has one class only"),
        (dict(labels=np.full(16, np.nan)), "labels must not be NaN"),
        (dict(points=np.full((16, 2), np.nan)), "points must be finite"),
        (dict(points=np.ones(16)), "points must have 2 dim"),
        (dict(points=np.arange(32.0).reshape(16, 2) * 1e60), "badly scaled"),
        (dict(lambda0=0), "lambda0 must be a finite number > 0 and < 1e.100, got 0"),
        (dict(lambda0=1.7e308), "lambda0 must be a finite number > 0 and < 1e"),
        (dict(lam=-0.1), "lam must be a finite number > 0, got -0.1"),
        (dict(loss="square"), "loss must be one of"),
        (dict(metrics="common"), "metrics must be one of 'multi-task'"),
        (dict(n_neighbors=0), "n_neighbors must be"),
        (dict(n_impostors=0.5), "n_impostors must be"),
    ],
}


@pytest.mark.parametrize(("function", "change", "message"), [
    (function, *case) for function, cases in BAD.items() for case in cases
])
def test_bad_input_is_refused_with_what_is_wrong_and_what_is_allowed(function, change, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        function(**(good_input(function) | change))


# Pickling -----------------------------------------------------------------------------------

@pytest.mark.parametrize("written", daily(PROBLEMS, "matrix_risk", "mt_lmnn"), indirect=True)
def test_problems_and_results_can_be_pickled(written):
    problem = written.problem
    result = solve(problem, m=4, tol=1e-4)
    for method in METHODS:
        solve(problem, method, max_passes=1)
    again = pickle.loads(pickle.dumps(problem))
    assert type(again) is type(problem)
    assert repr(again) == repr(problem)
    same = solve(again, m=4, tol=1e-4)
    np.testing.assert_array_equal(same.x, result.x)
    assert same.gap == result.gap
    loaded = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(loaded.x, result.x)
    assert loaded.history.equals(result.history)
    assert problem.certify(loaded.x, loaded.y).gap == result.gap
    if hasattr(problem, "learned"):
        np.testing.assert_array_equal(loaded.metric("10"), result.metric("10"))

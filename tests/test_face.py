"""What a user in a notebook sees: results, comparisons, paths, warm starts, certificates."""

import pickle

import matplotlib
import numpy as np
import pytest
from conftest import OPERATORS, make_problem
from matrix_cases import metric_problem, risk_problem, trace_problem
from sklearn.linear_model import LogisticRegression, Ridge

from benchmark_dspdc import certify, compare, erm, methods, mt_lmnn, path, solve
from benchmark_dspdc.methods import METHODS

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def result():
    return solve(make_problem(), "sdca", tol=1e-7)


def test_a_result_is_shown_in_eight_lines_with_its_status_first(result):
    lines = str(result).splitlines()
    assert len(lines) <= 8 and max(map(len, lines)) <= 80
    assert lines[0].split() == ["status", "converged"]
    assert repr(result) == str(result) and result == result and result != 5
    assert "<table>" in result._repr_html_() and "converged" in result._repr_html_()
    assert len(result._repr_html_()) < 2000


def test_a_result_is_pickled_without_the_data():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3000, 40))
    found = solve(erm(A, np.sign(A @ np.ones(40))), "sdca", tol=1e-3)
    again = pickle.loads(pickle.dumps(found))
    assert len(pickle.dumps(found)) < A.nbytes / 10
    assert again.problem is None and again.gap == found.gap
    np.testing.assert_array_equal(again.x, found.x)
    assert "converged" in str(again)


def test_metrics_outlive_the_data():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((40, 3))
    problem = mt_lmnn(points, np.arange(40) % 2, np.zeros(40, int))
    found = solve(problem, "sdca", m=0.2, tol=1e-2)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.metric(0), found.metric(0))
    np.testing.assert_array_equal(again.transform(points, 0), found.transform(points, 0))


def test_a_result_draws_its_curve(result):
    axes = result.plot("passes")
    (line,) = axes.get_lines()
    assert line.get_label() == "SDCA" and axes.get_xlabel() == "passes over the data"
    assert len(line.get_xdata()) > 5
    with pytest.raises(ValueError, match="x must be one of 'seconds', 'passes'"):
        result.plot("time")


def test_methods_are_compared_in_a_frame_and_a_picture():
    problem = make_problem()
    frame = compare(problem, {"mine": ("SDCA", dict(order="permuted")), "FISTA": "fista"},
                    tol=1e-6, seeds=2)
    assert list(frame.columns) == [
        "status", "s to 1e-2", "s to 1e-4", "s to 1e-6", "seconds", "passes", "relative_gap",
    ]
    assert set(frame.index) == {"mine", "FISTA"} and (frame["status"] == "converged").all()
    assert frame["s to 1e-6"].is_monotonic_increasing
    assert [len(runs) for runs in frame.results.values()] == [2, 2]
    axes = matplotlib.pyplot.gca()
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"mine", "FISTA"}
    few = compare(problem, ["dspdc"], tol=1e-3, plot=False)
    assert list(few.columns)[:2] == ["status", "s to 1e-2"] and list(few.index) == ["DSPDC"]
    for given, message in (
        (["sdac"], "method must be one of .*did you mean 'sdca'"),
        (["sdca", "SDCA"], "methods must be different"), ({}, "at least one method"),
        ({"a": ("dspdc",)}, r"methods\['a'\] must be a method's name or a pair"),
        ({"a": 5}, "must be a method's name or a pair"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(problem, given)
    with pytest.raises(ValueError, match="problem must be a Problem"):
        path(problem.A, [1.0])
    with pytest.raises(ValueError, match="lambdas must be an array of real numbers"):
        path(problem, ["a"])


@pytest.mark.parametrize("name", ["SDCA", "Sdca", "APCG-Primal"])
def test_names_of_methods_are_taken_in_any_case(name):
    assert solve(make_problem(), name, tol=1e-3).method == name.lower().replace("-", "_")


def test_methods_are_told_with_their_family():
    assert methods()["sdca"].startswith("dual coordinate: ")


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
def test_labels_0_and_1_are_refused_with_the_remedy_or_taken_if_said(loss):
    A = np.random.default_rng(0).standard_normal((6, 2))
    b = np.array([0, 1, 1, 0, 1, 0])
    with pytest.raises(ValueError, match=r'got 2 distinct value\(s\): 0, 1; pass labels="01"'):
        erm(A, b, loss)
    with pytest.raises(ValueError, match='got booleans; pass labels="01"'):
        erm(A, np.ones(6, bool), loss)
    for given in (b, b.astype(bool)):
        np.testing.assert_array_equal(erm(A, given, loss, labels="01").b, 2 * b - 1)
    with pytest.raises(ValueError, match='="01" is for labels 0 and 1 or booleans, got 1, 2'):
        erm(A, b + 1, loss, labels="01")
    np.testing.assert_array_equal(erm(A, b.astype(float), "square").b, b)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_problem_shows_its_data(operator):
    problem = make_problem(operator)
    A = problem.A
    if operator == "factorized":
        A = A[0] @ A[1]
    x = np.random.default_rng(0).standard_normal(problem.shape[1])
    np.testing.assert_allclose(A @ x, problem.operator.matvec(x))
    assert problem.b.shape == problem.shape[:1]


# Warm starts ----------------------------------------------------------------------------

#: Few rows or few columns a block, so that rows and columns are walked.
WALKS = [("dspdc", dict(m=3, q=0.5)), ("dspdc", dict(m=0.5, q=2)), ("spdc", dict(m=2)),
         ("dspdc", dict(m=3, q=0.5, probabilities="importance"))]
STARTED = [*((name, {}) for name in METHODS), *WALKS]


def check_start(problem, method, options):
    # Near the optimum, so that a run from zero would take far longer.
    good = solve(problem, "fista", tol=1e-10)
    cold = solve(problem, method, tol=1e-6, **options)
    warm = solve(problem, method, tol=1e-6, x0=good.x, y0=good.y, **options)
    assert cold.status == warm.status == "converged"
    assert len(warm.history) <= max(3, len(cold.history) // 4), len(warm.history)
    assert warm.history["relative_gap"].iloc[0] <= 1e-6 or method in ("apcg", "sdca", "asdca")
    # And goes on from there rather than stay.
    rough = solve(problem, method, tol=1e-3, **options)
    on = solve(problem, method, tol=1e-6, x0=rough.x, y0=rough.y, **options)
    assert on.status == "converged"
    assert on.history["relative_gap"].iloc[0] <= 0.5 * cold.history["relative_gap"].iloc[0]


@pytest.mark.parametrize(("method", "options"), STARTED)
def test_every_method_begins_where_it_is_told(method, options):
    check_start(make_problem("dense"), method, options)


@pytest.mark.nightly
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("method", "options"), STARTED)
def test_every_method_begins_where_it_is_told_on_every_operator(method, options, operator):
    check_start(make_problem(operator), method, options)


@pytest.mark.parametrize("method", ["dspdc", "svrg", "apcg", "katyusha"])
def test_methods_begin_where_they_are_told_on_sparse_rows(method):
    check_start(make_problem("csr"), method, {})


@pytest.mark.nightly
@pytest.mark.parametrize("make", [risk_problem, trace_problem, metric_problem])
@pytest.mark.parametrize(("method", "options"), STARTED)
def test_every_method_begins_where_it_is_told_on_matrices(method, options, make):
    check_start(make().problem, method, options)


def test_of_a_start_one_part_is_enough_and_bad_ones_are_refused():
    problem = make_problem()
    good = solve(problem, "sdca", tol=1e-9)
    for part in (dict(x0=good.x), dict(y0=good.y)):
        assert solve(problem, "dspdc", tol=1e-6, **part).history["relative_gap"].iloc[0] < 1e-4
    with pytest.raises(ValueError, match=r"x0 must have shape \(\d+,\), got \(3,\)"):
        solve(problem, x0=np.zeros(3))
    with pytest.raises(ValueError, match="y0 must be finite"):
        solve(problem, y0=np.full(problem.shape[0], np.nan))


def test_a_path_begins_each_problem_at_the_last_solution():
    problem = make_problem()
    values = np.geomspace(0.05, 1e-3, 5)
    frame = path(problem, values, "sdca", order="permuted", tol=1e-7)
    assert list(frame["lambda1"]) == list(values) and (frame["status"] == "converged").all()
    assert frame["nonzeros"].is_monotonic_increasing
    alone = solve(erm(problem.A, problem.b, lambda1=values[-1], lambda2=problem.reg.lambda2),
                  "sdca", order="permuted", tol=1e-7)
    np.testing.assert_allclose(frame.results[-1].x, alone.x, atol=1e-3)
    assert frame["passes"].iloc[-1] < alone.history["passes"].iloc[-1]
    other = path(problem, [0.1, 0.05], "sdca", constant="lambda2")
    assert list(other["lambda2"]) == [0.1, 0.05]
    with pytest.raises(ValueError, match="constant must be one of 'lambda1', 'lambda2'"):
        path(problem, [1.0], constant="lam")


def test_a_path_of_matrices_is_over_lam():
    problem = risk_problem().problem
    frame = path(problem, [0.2, 0.1], "sdca", m=0.2, tol=1e-4)
    assert list(frame["lam"]) == [0.2, 0.1] and (frame["status"] == "converged").all()


# Models from elsewhere ------------------------------------------------------------------

def test_models_of_scikit_learn_are_certified():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 8))
    b = np.sign(A @ np.ones(8) + rng.standard_normal(200))
    model = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(A, b)
    found = certify(A, b, model.coef_, loss="logistic", lambda2=1 / (0.5 * 200))
    assert 0.0 <= found.relative_gap < 1e-8
    rough = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-1).fit(A, b)
    assert certify(A, b, rough.coef_, loss="logistic", lambda2=0.01).gap > found.gap
    ridge = Ridge(alpha=3.0, fit_intercept=False).fit(A, b)
    assert certify(A, b, ridge.coef_, loss="square", lambda2=3.0 / 200).relative_gap < 1e-10
    # The model's own problem and no other.
    assert certify(A, b, ridge.coef_, loss="square", lambda2=1.0).relative_gap > 1e-3
    dual = erm(A, b, "logistic", lambda2=0.01).dual_from_primal(model.coef_[0])
    again = certify(A, b, model.coef_, "logistic", lambda2=0.01, dual=dual)
    assert again.gap == pytest.approx(found.gap)


@pytest.mark.parametrize(("given", "message"), [
    (dict(coef=np.zeros(3)), "coef must have 2 entries, .* got 3; an intercept is the"),
    (dict(coef=np.zeros((2, 2))), "coef must have 1 dimension"),
    (dict(dual=np.zeros(3)), "dual must have 4 entries, one a row of A, got 3"),
    (dict(loss="hinge"), "loss must be one of"),
])
def test_what_cannot_be_certified_is_refused(given, message):
    A, b = np.eye(4)[:, :2], np.array([1, -1, 1, -1])
    with pytest.raises(ValueError, match=message):
        certify(**dict(A=A, b=b, coef=np.zeros(2), loss="logistic") | given)

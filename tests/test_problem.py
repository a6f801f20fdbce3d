import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from conftest import LOSSES, OPERATORS, daily, make_factors, make_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import minimum_by_cvxpy
from sklearn import linear_model

from benchmark_dspdc import SmoothedHinge, erm, solve
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.model.losses import Huber, loss_name
from benchmark_dspdc.model.regularizers import ElasticNet, NonNegative


def dense(problem):
    return np.array([problem.operator.rmatvec(row) for row in np.eye(problem.shape[0])])


def optimum_by_cvxpy(problem):
    x, reg = cp.Variable(problem.shape[1]), problem.reg
    return minimum_by_cvxpy(
        loss_name(problem.loss), dense(problem) @ x, problem.b,
        reg.lambda1 * cp.norm1(x) + reg.lambda2 / 2 * cp.sum_squares(x),
        [x >= 0] if isinstance(reg, NonNegative) else [], problem.loss.delta,
    )


def robust(stored, delta=0.5, lambda1=0.02, lambda2=0.1, regularizer=NonNegative):
    """Huber's loss, with outliers, and x >= 0, which binds; "lazy" is sparse data."""
    rng = np.random.default_rng(0)
    U, V = make_factors()
    A = U @ V
    if stored == "lazy":
        A = np.where(rng.random((40, 60)) < 0.05, 3.0 * rng.standard_normal((40, 60)), 0.0)
    b = A @ rng.standard_normal(A.shape[1]) + 0.1 * rng.standard_normal(len(A))
    b[::7] += 5.0
    given = {"dense": A, "factorized": (U, V)}
    return erm(
        given[stored] if stored in given else scipy.sparse.csr_array(A), b, Huber(delta=delta),
        regularizer=regularizer(lambda1=lambda1, lambda2=lambda2),
    )


@pytest.mark.parametrize(("method", "stored"), [
    pytest.param(method, stored, marks=() if (method, stored) in {
        ("dspdc", "dense"), ("sdca", "dense"), ("fista", "dense"), ("svrg", "lazy"),
        ("apcg_primal", "dense"),
    } else pytest.mark.nightly) for method in METHODS for stored in (*OPERATORS, "lazy")
])
def test_robust_regression_with_x_at_least_zero_has_the_optimum_of_another_solver(method, stored):
    problem = robust(stored)
    expected = optimum_by_cvxpy(problem)
    result = solve(problem, method, tol=1e-9, max_seconds=None, max_passes=1e5)
    assert result.status == "converged"
    assert result.primal == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert result.dual <= expected + 1e-8
    assert result.x.min() == 0.0 < result.x.max()
    # Both parts of the problem matter: neither loss nor constraint can be left out.
    residuals = problem.operator.matvec(result.x) - problem.b
    assert np.abs(residuals).max() > 0.5 > np.abs(residuals).min()
    assert expected > optimum_by_cvxpy(robust(stored, regularizer=ElasticNet)) + 1e-4


def test_losses_and_regularisers_are_given_by_name_or_as_objects():
    A, b = np.dot(*make_factors()), np.linspace(-2.0, 2.0, 30)
    named = erm(A, b, "huber", 0.02, 0.3, regularizer="non_negative")
    given = erm(A, b, loss=Huber(), regularizer=NonNegative(lambda1=0.02, lambda2=0.3))
    assert (named.loss, named.reg) == (given.loss, given.reg) == (Huber(1.0), (0.02, 0.3))
    assert type(named.reg) is type(given.reg) is NonNegative
    assert erm(A, b, Huber(delta=2), regularizer=NonNegative()).loss.delta == 2.0
    assert "huber" in repr(named) and "NonNegative" in repr(named)
    x = np.full(12, -0.1)
    assert named.primal(x) == np.inf
    assert np.isfinite(named.primal(-x))


@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_solutions_agree_with_scikit_learn_where_the_model_coincides(operator):
    problem = make_problem(operator, "square", lambda1=0.0, n=60)
    A, n = dense(problem), 60
    x = linear_model.Ridge(alpha=n * 0.1, fit_intercept=False, tol=1e-12).fit(A, problem.b).coef_
    np.testing.assert_allclose(solve(problem, tol=0.0).x, x, atol=1e-7)

    problem = make_problem(operator, "square", lambda1=0.05, n=60)
    model = linear_model.ElasticNet(
        alpha=0.15, l1_ratio=1 / 3, fit_intercept=False, tol=1e-14, max_iter=100_000
    )
    np.testing.assert_allclose(
        solve(problem, tol=0.0).x, model.fit(A, problem.b).coef_, atol=1e-6
    )

    problem = make_problem(operator, "logistic", lambda1=0.0, n=60)
    model = linear_model.LogisticRegression(
        C=1 / (n * 0.1), fit_intercept=False, tol=1e-12, max_iter=10_000
    )
    np.testing.assert_allclose(
        solve(problem, tol=0.0).x, model.fit(A, problem.b).coef_[0], atol=1e-6
    )


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=30, deadline=None)
@given(scale=st.floats(-6, 4), seed=st.integers(0, 10_000))
def test_weak_duality_holds_at_random_points(loss, operator, scale, seed):
    problem = make_problem(operator, loss)
    rng = np.random.default_rng(seed)
    x = 10.0 ** scale * rng.standard_normal(problem.shape[1])
    y = -problem.b * rng.random(problem.shape[0])
    primal, dual = problem.primal(x), problem.dual(y)
    assert primal >= dual - 1e-12 * (abs(primal) + abs(dual))
    assert problem.gap(x, y) <= primal - dual + 1e-12 * abs(primal)


@pytest.mark.parametrize("loss", LOSSES)
def test_gap_uses_the_better_of_the_two_dual_points_and_own_gap_the_given_one(loss):
    problem = make_problem(loss=loss)
    x = np.full(problem.shape[1], 0.1)
    derived = problem.dual(problem.dual_from_primal(x))
    for y in (np.zeros(problem.shape[0]), problem.dual_from_primal(x)):
        certificate = problem.certify(x, y)
        assert certificate.primal == problem.primal(x)
        assert certificate.dual == max(problem.dual(y), derived)
        assert certificate.own_gap == problem.primal(x) - problem.dual(y)
    only_x = problem.certify(x)
    assert only_x.gap == only_x.own_gap == problem.primal(x) - derived


def test_a_method_with_only_y_gets_its_x_from_the_conjugate():
    problem = make_problem()
    y = -0.3 * problem.b
    x = problem.primal_from_dual(y)
    assert problem.certify(y=y) == problem.certify(x, y)
    w = -dense(problem).T @ y / problem.shape[0]
    expected = np.sign(w) * np.maximum(np.abs(w) - 0.01, 0) / 0.1
    np.testing.assert_allclose(x, expected, atol=1e-15)


def test_an_infeasible_dual_point_has_value_minus_infinity():
    problem = make_problem(loss="smoothed_hinge")
    assert problem.dual(problem.b) == -np.inf
    assert np.isfinite(problem.gap(np.zeros(problem.shape[1]), problem.b))


def bad(A=None, b=None, **options):
    A = np.ones((3, 2)) if A is None else A
    b = np.array([1.0, -1.0, 1.0]) if b is None else b
    return lambda: erm(A, b, **options)


def damaged(part, value, kind="csr"):
    """A sparse matrix with an index that is none, which scipy does not notice."""
    matrix = scipy.sparse.csr_matrix(np.ones((3, 2))).asformat(kind)
    getattr(matrix, part)[1] = value
    return matrix


nan = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]])
BAD = {
    "NaN in A": (bad(nan), "A must be finite.*nan at index"),
    "inf in A": (bad(np.full((3, 2), np.inf)), "A must be finite"),
    "NaN in sparse A": (
        bad(scipy.sparse.csr_array(nan)), "A must be finite, got nan at index \\(0, 1\\)"
    ),
    "sparse duplicates that overflow": (
        bad(scipy.sparse.coo_array(([1e308] * 2, ([1, 1], [0, 0])), shape=(3, 2))),
        "A must be finite, got inf at index \\(1, 0\\)"
    ),
    "sparse index too large": (bad(damaged("indices", 7)), "A must be a sparse.*inside.*csr"),
    "sparse index negative": (bad(damaged("indices", -1)), "A must be a sparse.*inside"),
    "sparse row ends before it begins": (bad(damaged("indptr", 5)), "A must be a sparse.*inside"),
    "index of columns too large": (bad(damaged("indices", 7, "csc")), "sparse.*inside.*csc"),
    "index of blocks too large": (bad(damaged("indices", 7, "bsr")), "sparse.*inside.*bsr"),
    "index of entries too large": (bad(damaged("row", 7, "coo")), "sparse.*inside.*coo"),
    "lambda2 huge": (bad(lambda2=10 ** 400), "lambda2 must be a finite number"),
    "NaN in U": (bad((nan, np.eye(2))), "U must be finite"),
    "NaN in V": (bad((np.ones((3, 2)), np.full((2, 2), np.nan))), "V must be finite"),
    "NaN in b": (bad(b=[1.0, np.nan, 1.0]), "b must be finite"),
    "labels 0 and 1": (bad(b=[0, 1, 1]), "labels must be -1 or .1.*got 2 distinct.*0, 1"),
    "labels for logistic": (bad(b=[1, 2, 1], loss="logistic"), "labels must be -1 or"),
    "too few labels": (bad(b=[1.0]), "b must have one entry for each of the 3 rows, got 1"),
    "labels as a column": (bad(b=np.ones((3, 1))), "b must have 1 dim"),
    "A of one dimension": (bad(np.ones(3)), "A must have 2 dim"),
    "A of three dimensions": (bad(np.ones((3, 2, 2))), "A must have 2 dim"),
    "factors that do not fit": (
        bad((np.ones((3, 2)), np.ones((3, 4)))), "inner dimension.*\\(3, 2\\).*\\(3, 4\\)"
    ),
    "empty A": (bad(np.ones((0, 2)), b=[]), "must not be empty.*\\(0, 2\\)"),
    "no columns": (bad(np.ones((3, 0))), "must not be empty"),
    "empty sparse A": (bad(scipy.sparse.csr_array((3, 0))), "must not be empty"),
    "complex A": (bad(np.ones((3, 2), dtype=complex)), "real numbers.*complex"),
    "complex sparse A": (bad(scipy.sparse.csr_array([[1j], [1], [1]])), "real numbers"),
    "A of strings": (bad(np.full((3, 2), "a")), "real numbers"),
    "A is None": (bad(np.array(None)), "real numbers"),
    "ragged A": (bad([[1, 2], [1], [3, 4]]), "real numbers"),
    "ragged row of two": (bad([[], [None, ()]]), "A must be an array of real numbers, got list"),
    "A too large": (bad(np.full((3, 2), 1e150)), "too badly scaled.*must be below 1e.?200, got"),
    "factors too large": (bad((np.full((3, 2), 1e90), np.full((2, 2), 1e90))), "too badly scaled"),
    "sparse A too large": (bad(scipy.sparse.csr_array(np.full((3, 2), 1e160))), "badly scaled"),
    "targets too large": (bad(b=[1.7e308, 6.0, 1.0], loss="square"), "too badly scaled"),
    "targets too large for lambda2": (
        bad(b=[1e90, 1.0, 1.0], loss="square", lambda2=1e-30), "too badly scaled"
    ),
    "A too large for lambda2": (bad(np.full((3, 2), 1e95), lambda2=1e-12), "too badly scaled"),
    "lambda2 zero": (bad(lambda2=0.0), "lambda2 must be a finite number > 0, got 0"),
    "lambda2 negative": (bad(lambda2=-1), "lambda2"),
    "lambda2 NaN": (bad(lambda2=float("nan")), "lambda2"),
    "lambda2 a string": (bad(lambda2="0.1"), "lambda2.*got '0.1'"),
    "lambda1 negative": (bad(lambda1=-1e-3), "lambda1 must be a finite number >= 0"),
    "delta zero": (bad(loss=Huber(delta=0.0)), "delta must be a finite number > 0, got 0"),
    "delta a string": (bad(loss=Huber(delta="1")), "delta must be a finite number > 0, got '1'"),
    "lambda1 of an object": (
        bad(regularizer=NonNegative(lambda1=-1.0)), "lambda1 must be a finite number >= 0, got -1"
    ),
    "lambda2 of an object": (
        bad(regularizer=NonNegative(lambda2=0.0)), "lambda2 must be a finite number > 0, got 0"
    ),
    "lambda2 of x >= 0": (bad(regularizer="non_negative", lambda2=-1.0), "lambda2 must be"),
    "constants given twice": (
        bad(regularizer=NonNegative(lambda1=0.1), lambda1=0.2),
        "lambda1 and lambda2 are those of the regularizer NonNegative.*got lambda1=0.2"
    ),
    "unknown regularizer": (
        bad(regularizer="nonnegative"), "regularizer must be one of.*did you mean 'non_negative'"
    ),
    "a loss that is none": (bad(loss=NonNegative()), "loss must be one of"),
    "a regularizer that is none": (bad(regularizer=Huber()), "regularizer must be one of"),
    "unknown loss": (
        bad(loss="smooth_hinge"), "loss must be one of.*did you mean 'smoothed_hinge'"
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_refused_with_what_is_wrong_and_what_is_allowed(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=f"(?s){message}") as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_gamma_of_a_loss_follows_from_the_loss():
    with pytest.raises(ValueError, match="gamma of the smoothed_hinge loss is 1, got 3.0"):
        erm(np.eye(2), np.ones(2), loss=SmoothedHinge(gamma=3.0))

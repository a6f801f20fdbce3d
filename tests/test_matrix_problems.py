import copy
import pickle
from itertools import chain, combinations

import cvxpy as cp
import numpy as np
import pytest
import transcriptions
from conftest import LOSSES, daily
from replay import drawn_batches, drawn_blocks
from sklearn.neighbors import KNeighborsClassifier

from benchmark_dspdc import erm, matrix_risk, mt_lmnn, solve, trace_regression
from benchmark_dspdc.data import task_knn_errors
from benchmark_dspdc.engine import psd_projection as psd
from benchmark_dspdc.engine.sampling import partition
from benchmark_dspdc.engine.symmetric import pack, unpack
from benchmark_dspdc.methods import DSPDC, METHODS, SDCA, SPDC
from benchmark_dspdc.model.dual_rules import Ascent
from benchmark_dspdc.model.losses import LOSSES as LOSSES_BY_NAME
from benchmark_dspdc.model.problem import Problem
from benchmark_dspdc.model.regularizers import (
    PSDFrobenius,
    conjugate_point,
    reg_conjugate,
    reg_value,
)
from benchmark_dspdc.operators.matrix_blocks import MatrixOperator
from benchmark_dspdc.operators.rank_one import RankOneOperator
from benchmark_dspdc.solver import option_names
from benchmark_dspdc.state.primal_dual_matrices import dual_ascent
from benchmark_dspdc.theory import coupling_constant as coupling
from benchmark_dspdc.theory.coupling_constant import (
    coupling_constant,
    norm2,
    normalised_norms2,
    partition_constant,
    subset_bound,
)

# Problems, each with all that it stands for written out -----------------------------------


class Written:
    """A problem beside its matrices D (n, p, d, d), moduli, centre and linear term."""

    def __init__(self, problem, D, loss, lam, centre=None, linear=None):
        self.problem, self.D, self.loss, self.b = problem, D, loss, problem.b
        self.lam = np.asarray(lam, dtype=float)
        zero = np.zeros(D.shape[1:])
        self.centre = zero if centre is None else centre
        self.linear = zero if linear is None else linear

    def explicit(self):
        """The same problem with its matrices stored."""
        d = self.D.shape[2]
        reg = PSDFrobenius(self.lam, d, self.centre, self.linear)
        operator = MatrixOperator(pack(self.D), d, reg.weights)
        return Problem(operator, self.b, self.problem.loss, reg)

    def primal(self, X):
        z = np.einsum("ijkl,jkl->i", self.D, X)
        margin = self.b * z
        risk = {
            "square": (z - self.b) ** 2 / 2,
            "logistic": np.logaddexp(0, -margin),
            "smoothed_hinge": np.where(
                margin >= 1, 0, np.where(margin <= 0, 0.5 - margin, (1 - margin) ** 2 / 2)
            ),
        }[self.loss]
        squares = np.sum((X - self.centre) ** 2, axis=(1, 2))
        return risk.mean() + self.lam @ squares / 2 + np.sum(self.linear * X)


def risk_problem(loss="smoothed_hinge", n=24, p=4, d=5, lam=None, seed=0):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((n, p, d, d))
    z = np.einsum("ijkk->i", D) + rng.standard_normal(n)
    b = z if loss == "square" else np.where(z >= 0, 1.0, -1.0)
    lam = np.linspace(0.4, 1.0, p) if lam is None else np.broadcast_to(lam, p)
    return Written(matrix_risk(D, b, loss, lam), (D + D.swapaxes(2, 3)) / 2, loss, lam)


def trace_problem(n=30, p=3, d=4, seed=0, lam=None):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, p, d))
    b = np.sum(z[:, :, 0] ** 2, axis=1) + rng.standard_normal(n)
    lam = np.linspace(3.0, 1.0, p) if lam is None else np.broadcast_to(lam, p)
    D = z[..., :, None] * z[..., None, :]
    return Written(trace_regression(z, b, lam), D, "square", lam)


def metric_data(sizes=(6, 4, 6), d=4, seed=0, n_classes=2, named=str):
    """Points of several tasks, not sorted."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat([named(10 * (k + 1)) for k in range(len(sizes))], sizes)
    labels = np.concatenate([np.arange(size) % n_classes for size in sizes])
    points = rng.standard_normal((sum(sizes), d)) + 0.8 * labels[:, None]
    order = rng.permutation(len(points))
    return points[order], labels[order], tasks[order]


def metric_problem(loss="smoothed_hinge", metrics="multi-task", n_neighbors=1, n_impostors=2,
                   lambda0=1.0, lam=2.0, **data):
    points, labels, tasks = metric_data(**data)
    problem = mt_lmnn(
        points, labels, tasks, n_neighbors, n_impostors, lambda0, lam, loss, metrics
    )
    found = transcriptions.mt_lmnn_triplets(points, labels, tasks, n_neighbors, n_impostors)
    n_tasks = len(set(tasks))
    Z, T, C = transcriptions.mt_lmnn_matrices(points, *found, n_tasks)
    n, d, _ = Z.shape
    p = 1 + n_tasks if metrics == "multi-task" else 1
    D = np.zeros((n, p, d, d))
    D[:, 0] = Z
    if p > 1:
        D[np.arange(n), T] = Z
    centre = np.zeros((p, d, d))
    centre[0] = np.eye(d)
    lams = np.array([lambda0] + [lam] * (p - 1))
    written = Written(problem, D, loss, lams, centre, C[:p] / n)
    written.Z, written.T, written.C = Z, T, C
    return written


PROBLEMS = {
    **{f"matrix_risk-{loss}": (lambda loss=loss: risk_problem(loss)) for loss in LOSSES},
    "trace_regression": trace_problem,
    "mt_lmnn": metric_problem,
    "mt_lmnn-logistic": lambda: metric_problem("logistic"),
    "mt_lmnn-shared": lambda: metric_problem(metrics="shared"),
}
RANK_ONE = ["trace_regression", "mt_lmnn", "mt_lmnn-logistic", "mt_lmnn-shared"]
METRIC = ["mt_lmnn", "mt_lmnn-logistic", "mt_lmnn-shared"]


@pytest.fixture(params=PROBLEMS)
def written(request):
    return PROBLEMS[request.param]()


#: For tests of all methods, which by day need no more than one loss of each problem.
all_methods = pytest.mark.parametrize("written", daily(
    PROBLEMS, "matrix_risk-smoothed_hinge", "mt_lmnn", "mt_lmnn-shared"
), indirect=True)


# (method, options): rows walked, columns walked, both ways of sampling.
RUNS = {
    "dspdc rows": ("dspdc", dict(m=4, q=0.5, Lambda="partition")),
    "dspdc columns": ("dspdc", dict(m=0.7, q=1, Lambda="partition")),
    "dspdc rows subset": ("dspdc", dict(m=4, q=0.5, sampling="subset")),
    "dspdc columns subset": ("dspdc", dict(m=0.7, q=1, sampling="subset")),
    "spdc": ("spdc", dict(m=3)),
    "spdc subset": ("spdc", dict(m=3, sampling="subset")),
    "spdc with the steps of dspdc": ("spdc", dict(m=3, steps="dspdc", Lambda="partition")),
    "sdca": ("sdca", dict(m=1)),
    "sdca batches": ("sdca", dict(m=5, order="permuted")),
    "sdca safe": ("sdca", dict(m=3, scaling="safe")),
}


SOLVED = [*RUNS][:5] + ["sdca", "sdca batches"]


def run(problem, name, n_iterations, seed=1, **more):
    method, options = RUNS[name]
    algorithm = METHODS[method](problem, seed=seed, **options, **more)
    algorithm.advance(n_iterations)
    return algorithm


def random_psd(rng, p, d):
    factors = rng.standard_normal((p, d, d)) * rng.exponential(size=(p, 1, 1))
    return factors @ factors.swapaxes(1, 2)


def feasible_dual(written, rng):
    u = rng.random(len(written.b))
    return rng.standard_normal(len(u)) if written.loss == "square" else -written.b * u


# The optimum -------------------------------------------------------------------------------

def optimum_by_cvxpy(written):
    n, p, d, _ = written.D.shape
    X = [cp.Variable((d, d), PSD=True) for _ in range(p)]
    flat = written.D.reshape(n, p, d * d)
    z = sum(flat[:, j] @ cp.vec(X[j], order="C") for j in range(p))
    margin = cp.multiply(written.b, z)
    if written.loss == "square":
        risk = cp.sum_squares(z - written.b) / 2
    elif written.loss == "logistic":
        risk = cp.sum(cp.logistic(-margin))
    else:
        slack = cp.Variable(n)
        risk = cp.sum(cp.pos(1 - margin - slack)) + cp.sum_squares(slack) / 2
    reg = sum(
        written.lam[j] / 2 * cp.sum_squares(X[j] - written.centre[j])
        + cp.sum(cp.multiply(written.linear[j], X[j])) for j in range(p)
    )
    tight = dict(tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)
    value = cp.Problem(cp.Minimize(risk / n + reg)).solve(solver=cp.CLARABEL, **tight)
    return value, np.array([transcriptions.positive_part(x.value) for x in X])


@all_methods
def test_optimal_value_agrees_with_an_independent_solver_whatever_the_method(written):
    compare_with_cvxpy(written, SOLVED)


def test_optimal_value_of_trace_regression_agrees_with_an_independent_solver():
    """By some methods, as for the square loss little is compiled by day."""
    compare_with_cvxpy(trace_problem(), ["dspdc rows", "spdc", "sdca"])


def compare_with_cvxpy(written, names):
    problem = written.problem
    expected, X = optimum_by_cvxpy(written)
    assert problem.primal(X) == pytest.approx(expected, rel=1e-6)
    for name in names:
        method, options = RUNS[name]
        result = solve(problem, method, tol=1e-8, **options)
        assert result.status == "converged", name
        assert result.relative_gap <= 1e-8, name
        assert result.primal == pytest.approx(expected, rel=1e-6), name
        assert result.dual <= expected * (1 + 1e-6)
        # Strong convexity: a small gap means a small distance.
        distance = np.sum((result.x - X) ** 2, axis=(1, 2)) @ written.lam / 2
        assert distance <= result.gap + 1e-6 * abs(expected), name


def test_columns_and_rows_are_both_walked(written):
    kept = {name: run(written.problem, name, 0).info["keep"] for name in list(RUNS)[:4]}
    p = written.problem.shape[1]
    for name, keep in kept.items():
        assert keep == ("columns" if "columns" in name and p > 1 else "rows")


def test_values_are_those_of_the_formulas_and_duality_is_weak(written):
    rng = np.random.default_rng(0)
    problem = written.problem
    p, d = problem.x_shape[:2]
    for _ in range(10):
        X, y = random_psd(rng, p, d), feasible_dual(written, rng)
        primal, dual = problem.primal(X), problem.dual(y)
        assert primal == pytest.approx(written.primal(X), rel=1e-11)
        assert primal >= dual
        certificate = problem.certify(X, y)
        assert certificate.primal == primal
        assert certificate.dual >= dual
        assert certificate.gap >= 0.0


def test_the_minimiser_is_better_than_feasible_points_near_it(written):
    problem = written.problem
    best = solve(problem, "sdca", m=5, tol=1e-9)
    rng = np.random.default_rng(0)
    p, d = problem.x_shape[:2]
    for size in (1e-3, 1e-1):
        noise = size * rng.standard_normal((p, d, d))
        nearby = psd.project(best.x + noise + noise.swapaxes(1, 2))
        assert problem.primal(nearby) >= best.dual


# Iterates ----------------------------------------------------------------------------------

ITERATIONS = 40
SMALL = {
    "blocks": lambda loss: risk_problem(loss, n=12, p=4, d=4),
    "one block": lambda loss: risk_problem(loss, n=12, p=1, d=4),
    "numbers": lambda loss: risk_problem(loss, n=12, p=4, d=1),
    "trace": lambda loss: trace_problem(n=12, p=3, d=3),
    "metrics": lambda loss: metric_problem(loss, sizes=(4, 4, 4), d=3, n_impostors=1),
    "shared metric": lambda loss: metric_problem(
        loss, "shared", sizes=(4, 4, 4), d=3, n_impostors=1
    ),
}


KINDS = [
    (loss, kind) for kind in SMALL for loss in LOSSES
    if ("metric" not in kind or loss != "square") and (kind != "trace" or loss == "square")
]


def weights_of(written, moduli):
    lam = written.lam
    return lam.min() / lam if moduli == "each" else np.ones(len(lam))


def replayed(cls, written, seed, m, q, sampling, **options):
    if cls is DSPDC:
        options["q"] = q
    algorithm = cls(written.problem, seed=seed, m=m, sampling=sampling, **options)
    algorithm.m_, algorithm.q_, algorithm.sampling_ = m, q, sampling
    return algorithm, drawn_blocks(algorithm, ITERATIONS, seed)


def steps_of(written, algorithm, Lambda, moduli):
    n, p = written.problem.shape
    r, s = algorithm.info["r"], algorithm.info["s"]
    tau, sigma, theta = transcriptions.remark_1(
        n, p, n / r, p / s, Lambda, written.lam.min(), written.problem.gamma, 1
    )
    return tau * weights_of(written, moduli), sigma, theta, r


def assert_same(algorithm, expected, tol=1e-9):
    X, y = expected
    scale = max(1.0, np.abs(X).max())
    np.testing.assert_allclose(algorithm.x, X.reshape(algorithm.x.shape), atol=tol * scale)
    np.testing.assert_allclose(algorithm.y, y, atol=tol)
    assert np.abs(X).max() > 1e-4      # something happened


@pytest.mark.parametrize("moduli", ["each", "least"])
@pytest.mark.parametrize("sampling", ["partition", "subset"])
@pytest.mark.parametrize(("m", "q"), [(2, 2), (8, 1)])
@pytest.mark.parametrize(("loss", "kind"), KINDS)
def test_dspdc_agrees_with_algorithms_1_and_3_of_the_paper(loss, kind, m, q, sampling, moduli):
    written = SMALL[kind](loss)
    p = written.problem.shape[1]
    q = min(p, q)
    Lambda = 5.0
    algorithm, blocks = replayed(
        DSPDC, written, 3, m, q, sampling, Lambda=Lambda, moduli=moduli
    )
    assert algorithm.info["keep"] == ("columns" if m == 8 and p > 1 else "rows")
    steps = steps_of(written, algorithm, Lambda, moduli)
    algorithm.advance(ITERATIONS)
    assert_same(algorithm, transcriptions.matrix_algorithm_1(
        written.D, written.b, loss, written.lam, written.centre, written.linear, *steps, blocks
    ))
    if kind == "metrics":
        assert_same(algorithm, transcriptions.algorithm_3(
            written.Z, written.T, written.C, loss, 1.0, 2.0, *steps, blocks
        ))
    if kind == "numbers":
        assert_same(algorithm, transcriptions.clipped_algorithm_1(
            written.D[:, :, 0, 0], written.b, loss, written.lam, *steps, blocks
        ))


@pytest.mark.parametrize("moduli", ["each", "least"])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize(("loss", "kind"), KINDS)
def test_spdc_agrees_with_its_authors_pseudo_code(loss, kind, m, moduli):
    written = SMALL[kind](loss)
    p = written.problem.shape[1]
    algorithm, blocks = replayed(SPDC, written, 5, m, p, "partition", moduli=moduli)
    algorithm.advance(ITERATIONS)
    assert_same(algorithm, transcriptions.matrix_spdc(
        written.D, written.b, loss, written.lam, weights_of(written, moduli), written.centre,
        written.linear, written.problem.gamma, [I for I, _ in blocks],
    ))


@pytest.mark.parametrize("moduli", ["each", "least"])
@pytest.mark.parametrize(
    ("m", "scaling", "order"),
    [(1, "tight", "random"), (5, "tight", "permuted"), (5, "safe", "random")],
)
@pytest.mark.parametrize(("loss", "kind"), KINDS)
def test_sdca_agrees_with_its_authors_pseudo_code(loss, kind, m, scaling, order, moduli):
    written = SMALL[kind](loss)
    algorithm = SDCA(
        written.problem, seed=4, m=m, scaling=scaling, order=order, moduli=moduli
    )
    batches = drawn_batches(algorithm, ITERATIONS, 4)
    algorithm.advance(ITERATIONS)
    divisors = written.lam if moduli == "each" else np.full_like(written.lam, written.lam.min())
    assert_same(algorithm, transcriptions.matrix_sdca(
        written.D, written.b, loss, written.lam, divisors, written.centre, written.linear,
        batches, scaling == "safe",
    ))


@pytest.mark.parametrize("sampling", ["partition", "subset"])
def test_spdc_with_dspdc_steps_is_dspdc_with_all_blocks(sampling):
    for written in (risk_problem(), metric_problem()):
        problem = written.problem
        one = SPDC(problem, seed=2, m=4, steps="dspdc", sampling=sampling)
        other = DSPDC(problem, seed=2, m=4, q=problem.shape[1], sampling=sampling)
        for algorithm in (one, other):
            algorithm.advance(50)
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y, other.y)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("kind", RANK_ONE)
def test_rank_one_sums_give_the_iterates_of_explicit_matrices(kind, name):
    written = PROBLEMS[kind]()
    explicit = written.explicit()
    one, other = run(written.problem, name, 0), run(explicit, name, 0)
    for _ in range(40):
        one.advance(1)
        other.advance(1)
        assert_close = np.testing.assert_allclose
        assert_close(one.y, other.y, atol=1e-10)
        assert_close(one.x, other.x, atol=1e-10 * max(1.0, np.abs(other.x).max()))
    for key, value in one.info.items():
        if key not in ("Lambda_kind", "sampling"):
            assert value == (
                pytest.approx(other.info[key], rel=1e-9) if isinstance(value, float)
                else other.info[key]
            ), key


@pytest.mark.parametrize("name", ["dspdc rows", "dspdc columns", "sdca batches"])
def test_rank_one_sums_of_large_groups_give_the_iterates_of_explicit_matrices(name):
    # More vectors than a slice holds and more than points, or one of the two.
    written = metric_problem(sizes=(160, 8), d=3, n_neighbors=3, n_impostors=3)
    explicit = written.explicit()
    method, options = RUNS[name]
    # The constants of so many rows are bounds, which differ.
    options = options | (dict(m=150) if method == "sdca" else dict(Lambda=1e4))
    one, other = (METHODS[method](problem, seed=1, **options)
                  for problem in (written.problem, explicit))
    for _ in range(10):
        one.advance(1)
        other.advance(1)
        np.testing.assert_allclose(one.y, other.y, atol=1e-9)
        np.testing.assert_allclose(one.x, other.x, atol=1e-9 * max(1.0, np.abs(other.x).max()))


# The rank-one operator ----------------------------------------------------------------------

def random_rank_one(blocks, rng, sizes, n_vectors, n, d=3, plain=0.3, weights=None):
    """Groups of random vectors, rows of random terms; and the same as an explicit operator."""
    n_groups = len(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    vector_starts = np.concatenate([[0], np.cumsum(n_vectors)])
    points = rng.standard_normal((starts[-1], d))
    ends = np.concatenate([
        rng.integers(starts[g], starts[g + 1], size=(n_vectors[g], 2)) for g in range(n_groups)
    ])
    ends[rng.random(len(ends)) < plain, 1] = -1
    group_of = np.repeat(np.arange(n_groups), n_vectors)
    rows = []
    for _ in range(n):
        group = rng.integers(n_groups)
        allowed = len(ends) if blocks == "own" else np.flatnonzero(group_of == group)
        rows.append(rng.choice(allowed, size=rng.integers(1, 5)))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    terms = np.concatenate(rows)
    signs = rng.choice([-1, 1], size=len(terms))
    V = points[ends[:, 0]] - np.where(ends[:, 1:] >= 0, points[ends[:, 1]], 0.0)
    p = {"own": n_groups, "shared": 1, "both": n_groups + 1}[blocks]
    D = np.zeros((n, p, d, d))
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            outer = signs[e] * np.outer(V[terms[e]], V[terms[e]])
            if blocks != "own":
                D[i, 0] += outer
            if blocks != "shared":
                D[i, group_of[terms[e]] + (blocks == "both")] += outer
    weights = rng.random(p) + 0.1 if weights is None else weights
    one = RankOneOperator(
        points, starts, ends, vector_starts, indptr, terms, signs, blocks, weights
    )
    return one, MatrixOperator(pack(D), d, weights), D


SHAPES = {
    "more vectors than points": dict(sizes=[4, 3, 5], n_vectors=[20, 2, 9], n=30),
    "more points than vectors": dict(sizes=[30, 40], n_vectors=[8, 12], n=20),
    "several slices": dict(sizes=[400, 10], n_vectors=[300, 30], n=250),
    "one group": dict(sizes=[6], n_vectors=[9], n=8),
    "many groups": dict(sizes=[3] * 40, n_vectors=[4] * 40, n=60),
    "one row": dict(sizes=[3, 3], n_vectors=[2, 2], n=1),
    "d is one": dict(sizes=[4, 3], n_vectors=[6, 3], n=10, d=1),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blocks", ["own", "shared", "both"])
def test_dual_steps_of_rank_one_sums_are_those_of_explicit_matrices(blocks, shape, loss):
    rng = np.random.default_rng(4)
    one, other, _ = random_rank_one(blocks, rng, **SHAPES[shape])
    n, p = one.shape
    X = pack(rng.standard_normal(one.x_shape))
    b = np.sign(rng.standard_normal(n))
    start = -b * rng.random(n)
    wanted = rng.random(p) < 0.5
    rows = rng.permutation(n)[:-(-2 * n // 3)]
    found = []
    for operator in (one, other):
        y, total, delta = start.copy(), X.copy(), np.full_like(X, np.nan)
        touched = dual_ascent(
            operator, operator.plan(rows), rows, Ascent(LOSSES_BY_NAME[loss], 0.7), b, y, X.copy(),
            total, delta, wanted, np.empty(n),
        )
        found.append((y, total))
        touched = np.arange(p) if touched is None else touched
        given = touched[wanted[touched]]
        np.testing.assert_allclose(delta[given], (total - X)[given], rtol=1e-9, atol=1e-9)
        assert np.isnan(delta[~wanted]).all()
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9, atol=1e-9)
    assert (found[0][0] != start).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blocks", ["own", "shared", "both"])
def test_products_of_rank_one_sums_are_those_of_explicit_matrices(blocks, shape):
    rng = np.random.default_rng(3)
    one, other, D = random_rank_one(blocks, rng, **SHAPES[shape])
    n, p, d, _ = D.shape
    X = rng.standard_normal((p, d, d))
    X = X + X.swapaxes(1, 2)
    y = rng.standard_normal(n) * (rng.random(n) < 0.7)
    close = dict(rtol=1e-10, atol=1e-10)
    assert one.shape == other.shape == (n, p)
    for operator in (one, other):
        np.testing.assert_allclose(operator.matvec(X), np.einsum("ijkl,jkl->i", D, X), **close)
        np.testing.assert_allclose(
            operator.rmatvec(y), np.einsum("i,ijkl->jkl", y, D), **close
        )
        for size in {1, -(-n // 3), n}:
            rows = rng.permutation(n)[:size]
            plan = operator.plan(rows)
            packed = pack(X)
            out = np.full(size + 2, np.nan)
            operator.row_products(plan, packed, out)
            np.testing.assert_allclose(
                out[:size], np.einsum("ijkl,jkl->i", D[rows], X), **close
            )
            assert np.isnan(out[size:]).all()
            coef = y[rows]
            total, delta = packed.copy(), np.full_like(packed, np.nan)
            wanted = rng.random(p) < 0.5
            touched = operator.add_rows(plan, np.append(coef, [7.0]), total, delta, wanted)
            expected = np.einsum("i,ijkl->jkl", coef, D[rows])
            np.testing.assert_allclose(unpack(total, d), X + expected, **close)
            touched = np.arange(p) if touched is None else touched
            assert len(set(touched)) == len(touched)
            given = touched[wanted[touched]]
            np.testing.assert_allclose(unpack(delta[given], d), expected[given], **close)
            assert np.isnan(delta[~wanted]).all()
            rest = np.setdiff1d(np.arange(p), touched)
            assert not expected[rest].any()
            np.testing.assert_allclose(
                operator.gram(rows), _gram(D[rows], operator.weights), rtol=1e-9, atol=1e-9
            )
            some = rng.permutation(p)[:-(-p // 2)]
            scale = rng.random(size)
            np.testing.assert_allclose(
                operator.gram(rows, some, scale),
                _gram(D[rows][:, some], operator.weights[some]) * np.outer(scale, scale),
                rtol=1e-9, atol=1e-9,
            )
        for size in {1, -(-p // 2), p}:
            columns = rng.permutation(p)[:size]
            np.testing.assert_allclose(
                operator.column_products(columns, X[columns]),
                np.einsum("ijkl,jkl->i", D[:, columns], X[columns]), **close,
            )
            out = np.full((size, d, d), np.nan)
            operator.add_columns(columns, y, out)
            np.testing.assert_allclose(
                out, np.einsum("i,ijkl->jkl", y, D[:, columns]), **close
            )
        squares = np.sum(D ** 2, axis=(2, 3)) * operator.weights
        np.testing.assert_allclose(operator.row_norms2, squares.sum(axis=1), **close)
        np.testing.assert_allclose(operator.column_norms2, squares.sum(axis=0), **close)
        # Row products with what row products were made of: nothing was changed.
        np.testing.assert_allclose(operator.matvec(X), np.einsum("ijkl,jkl->i", D, X), **close)


def _gram(D, weights):
    flat = (D * np.sqrt(weights)[:, None, None]).reshape(len(D), -1)
    return flat @ flat.T


def test_zero_coefficients_add_nothing_and_leave_no_rubbish():
    one = random_rank_one("both", np.random.default_rng(0), [4, 5], [6, 7], 9)[0]
    total, delta = one.packed_zeros(), np.full_like(one.packed_zeros(), np.nan)
    wanted = np.ones(one.shape[1], dtype=bool)
    touched = one.add_rows(one.plan(np.arange(9)), np.zeros(9), total, delta, wanted)
    assert not total.any()
    assert not delta[touched].any()


@pytest.mark.parametrize("n_impostors", [1, 3, 10])
def test_mt_lmnn_is_what_its_formula_says(n_impostors):
    # Two classes of 12 points in the first task: every other point an impostor of some.
    written = metric_problem(n_neighbors=3, n_impostors=n_impostors, sizes=(24, 22), d=5)
    problem, D = written.problem, written.D
    rng = np.random.default_rng(0)
    X = random_psd(rng, *problem.x_shape[:2])
    y = -rng.random(len(D))
    np.testing.assert_allclose(
        problem.operator.matvec(X), np.einsum("ijkl,jkl->i", D, X), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(
        problem.operator.rmatvec(y), np.einsum("i,ijkl->jkl", y, D), rtol=1e-10, atol=1e-10
    )
    assert problem.primal(X) == pytest.approx(written.primal(X), rel=1e-12)


# Constants ----------------------------------------------------------------------------------

def flat_of(D, weights):
    n, p = D.shape[:2]
    return (D * np.sqrt(weights)[:, None, None]).reshape(n, p, -1)


def block_norm2(flat, I, J):
    part = flat[np.ix_(I, J)].reshape(len(I), -1)
    return np.linalg.norm(part, 2) ** 2


CONSTANTS = [
    "matrix_risk-square", "trace_regression", "mt_lmnn", "mt_lmnn-shared", "own", "shared", "both",
]


def operator_of(case):
    if case in PROBLEMS:
        written = PROBLEMS[case]()
        return written.problem.operator, written.D
    one, _, D = random_rank_one(case, np.random.default_rng(5), [5, 4, 9], [9, 5, 6], 24)
    return one, D


@pytest.mark.parametrize("case", CONSTANTS)
@pytest.mark.parametrize(("m", "q"), [(1, 1), (1, 2), (1, 9), (5, 1), (5, 2), (12, 9), (99, 1)])
def test_partition_constant_is_the_largest_weighted_block_norm(case, m, q, monkeypatch):
    operator, D = operator_of(case)
    n, p = operator.shape
    flat = flat_of(D, operator.weights)
    rng = np.random.default_rng(1)
    dual, primal = partition(n, min(m, n), rng), partition(p, min(p, q), rng)
    exact = max(block_norm2(flat, I, J) for I in dual.blocks for J in primal.blocks)
    constant = partition_constant(operator, dual, primal)
    assert constant.kind == "exact"
    assert constant.value == pytest.approx(exact, rel=1e-9)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    for chunk in (1, 3, 1000):
        monkeypatch.setattr(RankOneOperator, "CHUNK", chunk)
        constant = partition_constant(operator, dual, primal)
        assert constant.value >= exact * (1 - 1e-10)
        if m > 1:
            assert constant.kind.startswith("upper bound (")
            assert constant.value <= dual.largest * operator.row_norms2.max() * (1 + 1e-10)


@pytest.mark.parametrize("case", ["mt_lmnn", "mt_lmnn-shared", "own", "both"])
def test_norms_of_chunks_of_rows_added_up_are_an_upper_bound(case):
    operator, D = operator_of(case)
    n, p = operator.shape
    flat = flat_of(D, operator.weights)
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows = rng.permutation(n)[:rng.integers(1, n + 1)]
        columns = rng.permutation(p)[:rng.integers(1, p + 1)]
        scale = rng.random(len(rows)) + 0.1
        part = flat[rows] * scale[:, None, None]
        exact = block_norm2(part, np.arange(len(rows)), columns)
        for chunk in (1, 4, None):
            bound = operator.rows_norm2(rows, columns, scale, chunk)
            assert bound >= exact * (1 - 1e-10)
        if operator.common >= 0:
            shared_alone = operator.rows_norm2(rows, np.array([0]), scale)
            assert shared_alone == pytest.approx(
                block_norm2(part, np.arange(len(rows)), [0]), rel=1e-9
            )
        if case == "mt_lmnn":
            # Rows of different tasks are orthogonal outside the shared block.
            own = np.arange(1, p)
            assert operator.rows_norm2(rows, own, scale) == pytest.approx(
                block_norm2(part, np.arange(len(rows)), own), rel=1e-9
            )


def test_norms_of_large_chunks_are_certified():
    rng = np.random.default_rng(0)
    written = metric_problem(sizes=(80, 60), d=4, n_neighbors=2, n_impostors=2)
    operator = written.problem.operator
    flat = flat_of(written.D, operator.weights)
    n, p = operator.shape
    rows = rng.permutation(n)[:400]
    exact = block_norm2(flat, rows, np.arange(p))
    bounds = [operator.rows_norm2(rows, None, None, chunk) for chunk in (None, 200, 50)]
    assert exact <= bounds[0] * (1 + 1e-10)
    assert bounds[0] <= bounds[1] * 1.03 <= bounds[2] * 1.03 ** 2
    assert bounds[0] <= 2.1 * exact


@pytest.mark.parametrize("case", CONSTANTS)
def test_norms_of_normalised_rows_are_exact_or_upper_bounds(case, monkeypatch):
    operator, D = operator_of(case)
    n = operator.shape[0]
    flat = flat_of(D, operator.weights).reshape(n, -1)
    norms = np.linalg.norm(flat, axis=1)
    blocks = partition(n, 5, np.random.default_rng(2))
    exact = [np.linalg.norm(flat[I] / norms[I, None], 2) ** 2 for I in blocks.blocks]
    np.testing.assert_allclose(normalised_norms2(operator, blocks), exact, rtol=1e-8)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    for chunk in (1, 2, 1000):
        monkeypatch.setattr(RankOneOperator, "CHUNK", chunk)
        bounds = normalised_norms2(operator, blocks)
        assert (bounds >= np.array(exact) * (1 - 1e-8)).all()
        assert (bounds <= np.diff(blocks.starts)).all()


@pytest.mark.parametrize("case", ["matrix_risk-square", "trace_regression", "mt_lmnn"])
def test_subset_bound_covers_all_subsets(case, monkeypatch):
    problem = {
        "matrix_risk-square": lambda: risk_problem("square", n=6, p=3, d=3),
        "trace_regression": lambda: trace_problem(n=6, p=3, d=3),
        "mt_lmnn": lambda: metric_problem(sizes=(4, 4), d=3, n_impostors=1),
    }[case]()
    operator = problem.problem.operator
    n, p = operator.shape
    flat = flat_of(problem.D, operator.weights)
    for m in (1, 2, 4, n):
        for q in (1, 2, p):
            largest = max(
                block_norm2(flat, I, J)
                for I in combinations(range(n), m) for J in combinations(range(p), q)
            )
            assert subset_bound(operator, m, q).value >= largest * (1 - 1e-10)
    assert norm2(operator).value == pytest.approx(largest, rel=1e-9)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    assert norm2(operator).value >= largest * (1 - 1e-10)


@pytest.mark.parametrize("moduli", ["each", "least"])
def test_lambda_is_that_of_blocks_divided_by_the_roots_of_their_moduli(moduli):
    for written in (risk_problem(lam=[0.05, 1.0, 0.2, 5.0]), metric_problem(lam=8.0)):
        problem = written.problem
        n, p = problem.shape
        algorithm = DSPDC(problem, seed=0, m=6, q=2, moduli=moduli)
        lam = written.lam if moduli == "each" else np.full(p, written.lam.min())
        flat = flat_of(written.D, 1.0 / lam)
        exact = max(
            block_norm2(flat, I, J)
            for I in algorithm._dual.blocks for J in algorithm._primal.blocks
        )
        info = algorithm.info
        assert info["Lambda"] / problem.lam == pytest.approx(exact, rel=1e-9)
        tau, sigma, theta = transcriptions.remark_1(
            n, p, n / info["r"], p / info["s"], exact, 1.0, problem.gamma, 1
        )
        # For moduli of one; block j then has tau/lam_j.
        assert info["tau"] * problem.lam == pytest.approx(tau, rel=1e-9)
        assert info["sigma"] == pytest.approx(sigma, rel=1e-9)
        assert info["theta"] == pytest.approx(theta, rel=1e-9)
        heuristic = coupling_constant(
            algorithm.problem, "heuristic", algorithm._dual, algorithm._primal
        ).value
        rows = np.sum(flat ** 2, axis=(1, 2)).max() * problem.lam
        assert heuristic == pytest.approx(info["m"] * info["q"] * rows / p, rel=1e-9)


def test_moduli_change_steps_and_not_values():
    problem = risk_problem(lam=[0.05, 1.0, 0.2, 5.0]).problem
    X = random_psd(np.random.default_rng(0), 4, 5)
    for moduli in ("each", "least"):
        algorithm = DSPDC(problem, moduli=moduli)
        assert algorithm.problem.primal(X) == problem.primal(X)
    assert DSPDC(problem, m=6, q=2).info["Lambda"] < DSPDC(
        problem, m=6, q=2, moduli="least"
    ).info["Lambda"]


# The regulariser and the certificate -----------------------------------------------------

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


def test_conjugate_agrees_with_an_independent_solver():
    rng = np.random.default_rng(1)
    reg, lam, centre, linear = random_reg(rng, p=1, d=3)
    W = rng.standard_normal((1, 3, 3))
    W = W + W.swapaxes(1, 2)
    X = cp.Variable((3, 3), PSD=True)
    gain = cp.sum(cp.multiply(W[0] - linear[0], X)) - lam[0] / 2 * cp.sum_squares(X - centre[0])
    best = cp.Problem(cp.Maximize(gain)).solve(solver=cp.CLARABEL)
    assert reg_conjugate(reg, W) == pytest.approx(best, rel=1e-6)


def test_a_point_outside_the_cone_has_an_infinite_value(written):
    problem = written.problem
    p, d = problem.x_shape[:2]
    X = np.tile(np.eye(d), (p, 1, 1))
    assert np.isfinite(problem.primal(X))
    X[-1, -1, -1] = -1e-6
    assert problem.primal(X) == np.inf
    assert problem.certify(X).primal == np.inf
    X[-1, -1, -1] = np.nan
    assert not np.isfinite(problem.primal(X))


def counted_projections(monkeypatch):
    """A list that gets the blocks of every projection from now on."""
    seen, original = [], psd.Projector.project

    def project(self, blocks, matrices):
        seen.append([int(block) for block in blocks])
        return original(self, blocks, matrices)
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
        assert sorted(chain.from_iterable(seen)) == todo
        given[:] = np.nan       # what is remembered is not the caller's array

    first = symmetric(5)
    check(first, [0, 1, 2, 3, 4])
    check(first, [])
    second = first.copy()
    second[[1, 3]] = symmetric(2)
    check(second, [1, 3])
    check(first, [])
    third = second.copy()
    third[0] = first[0]
    third[3] = first[3]
    third[4] = symmetric(1)[0]
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
    fresh = []
    for pair in pairs:
        alone = pickle.loads(pickle.dumps(problem))
        fresh.append(alone.certify(*pair))
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


# Work ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", RUNS)
def test_eigendecompositions_are_counted_and_no_block_is_projected_in_vain(
    written, name, monkeypatch
):
    problem = written.problem
    p = problem.shape[1]
    algorithm = run(problem, name, 0)
    done, original = [], psd.Projector.project

    def project(self, blocks, matrices):
        found = original(self, blocks, matrices)
        done.append((len(blocks), found))
        return found
    monkeypatch.setattr(psd.Projector, "project", project)
    begun = algorithm.eigendecompositions
    assert begun <= (p if "sdca" in name else 0)
    limit = p if "dspdc" != RUNS[name][0] else algorithm.info["q"]
    for _ in range(30):
        before = algorithm.eigendecompositions
        done.clear()
        algorithm.advance(1)
        assert sum(size for size, _ in done) <= limit
        assert algorithm.eigendecompositions - before == sum(found for _, found in done)
    assert algorithm.eigendecompositions <= begun + 30 * limit
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
        moved = not np.array_equal(before, algorithm._y)
        assert seen == ([[0, written.T[batch[0]]]] if moved else [])


def test_passes_are_the_share_of_the_data_that_was_read():
    for written in (risk_problem("square"), trace_problem(n=24), metric_problem("logistic")):
        problem = written.problem
        n, p = problem.shape
        for m, q in ((6, 2), (6, p)):
            algorithm = DSPDC(problem, m=m, q=q)
            algorithm.advance(10)
            sizes = [len(I) for I, _ in _blocks_of(algorithm, m, q)]
            assert algorithm.passes == pytest.approx(sum(sizes) / n)
        algorithm = SDCA(problem, m=1)
        algorithm.advance(n)
        assert algorithm.passes == pytest.approx(1.0)
        assert algorithm.coordinate_updates == n
    # Columns: all are equally long, but for the shared one, which is as long as the others.
    for written in (risk_problem("square"), trace_problem(n=24)):
        algorithm = DSPDC(written.problem, m=1.0, q=1)
        algorithm.advance(12)
        assert algorithm.passes == pytest.approx(12 / written.problem.shape[1])
    written = metric_problem("logistic")
    algorithm = DSPDC(written.problem, m=1.0, q=1)
    algorithm.advance(12)
    n = written.problem.shape[0]
    rows = [n if J[0] == 0 else np.sum(written.T == J[0])
            for _, J in _blocks_of(algorithm, 1.0, 1, 12)]
    assert algorithm.passes == pytest.approx(sum(rows) / n)


def _blocks_of(algorithm, m, q, n_iterations=10):
    algorithm.m_, algorithm.q_, algorithm.sampling_ = m, q, "partition"
    return drawn_blocks(algorithm, n_iterations, 0)


@pytest.mark.parametrize("name", RUNS)
def test_iterations_per_pass_tells_the_work_of_a_pass(written, name):
    algorithm = run(written.problem, name, 0)
    n_iterations = max(200, 5 * round(algorithm.iterations_per_pass + 1))
    algorithm.advance(n_iterations)
    expected = n_iterations / algorithm.iterations_per_pass
    if written.loss == "smoothed_hinge" and "sdca" in name:
        # Rows that do not move are half the work.
        assert expected / 2 <= algorithm.passes <= 1.25 * expected
    else:
        assert algorithm.passes == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("name", RUNS)
def test_equal_seeds_give_equal_iterates_however_cut_and_on_any_number_of_threads(
    written, name, monkeypatch
):
    def result(threads, seed, pieces):
        monkeypatch.setenv("BENCHMARK_DSPDC_THREADS", str(threads))
        method, options = RUNS[name]
        algorithm = METHODS[method](written.problem, seed=seed, **options)
        for piece in pieces:
            algorithm.advance(piece)
        return algorithm

    whole, cut = result(1, 1, [40]), result(2, 1, [1, 7, 0, 20, 12])
    np.testing.assert_array_equal(whole.x, cut.x)
    np.testing.assert_array_equal(whole.y, cut.y)
    assert whole.passes == cut.passes
    assert whole.coordinate_updates == cut.coordinate_updates
    assert whole.eigendecompositions == cut.eigendecompositions
    assert whole.info == cut.info
    assert not np.array_equal(whole.y, result(1, 2, [40]).y) or whole.info["r"] == 1


def test_equal_seeds_give_equal_curves_on_any_number_of_threads(monkeypatch):
    # Large enough for every product to be cut into several parts.
    columns = ["passes", "primal", "dual", "gap", "own_gap", "eigendecompositions"]
    for problem in (
        metric_problem(sizes=[12] * 20, d=12, n_neighbors=3).problem,
        risk_problem(n=20, p=20, d=24).problem,
    ):
        curves = []
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


@pytest.mark.parametrize("name", ["dspdc rows", "dspdc columns", "spdc", "sdca batches"])
def test_a_failing_eigensolver_ends_the_run_with_the_best_point_so_far(name, monkeypatch):
    problem = risk_problem().problem
    method, options = RUNS[name]
    solve(problem, method, max_passes=1, **options)
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


def test_steps_that_are_too_long_end_as_diverged_with_the_best_point_kept():
    problem = risk_problem("square", lam=1e-3).problem
    result = solve(problem, m=1.0, q=1.0, Lambda=1e-6, max_seconds=20)
    assert result.status == "diverged"
    assert np.isfinite(result.gap)


@pytest.mark.parametrize("d", [3, 8, 40])
@pytest.mark.parametrize("ratio", [1e1, 1e3, 1e7, 1e12])
def test_a_projection_far_smaller_than_its_matrix_is_semidefinite_in_itself(ratio, d):
    rng = np.random.default_rng(0)
    for n_negative in {1, d // 3, d // 2}:
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        values = 0.1 + rng.random(d)
        values[:n_negative] *= -ratio
        M = (Q * values) @ Q.T
        X = psd.project(M)
        assert psd.is_psd(X, PSDFrobenius.TOLERANCE / 10)
        error = np.linalg.norm(X - (Q * np.maximum(values, 0)) @ Q.T)
        assert error <= 1e-12 * np.linalg.norm(M)


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


@pytest.mark.parametrize("name", RUNS)
def test_the_smallest_problems_are_solved(name):
    rng = np.random.default_rng(0)
    method, options = RUNS[name]
    options = options | dict(m=1)
    for shape in ((1, 1, 3, 3), (1, 3, 2, 2), (4, 1, 1, 1), (1, 1, 1, 1)):
        problem = matrix_risk(rng.standard_normal(shape), np.ones(shape[0]), lam=0.5)
        assert solve(problem, method, tol=1e-9, **options).status == "converged"


@pytest.mark.parametrize("name", RUNS)
def test_zero_matrices_and_identical_points_are_no_obstacle(name):
    method, options = RUNS[name]
    D = np.random.default_rng(0).standard_normal((6, 3, 2, 2))
    D[1], D[:, 2] = 0.0, 0.0
    ones = np.ones(6)
    for problem in (
        matrix_risk(D, ones, lam=0.5), matrix_risk(0.0 * D, ones),
        trace_regression(np.zeros((6, 3, 2)), ones),
        mt_lmnn(np.ones((12, 3)), np.arange(12) % 2, np.repeat([0, 1], 6), 2),
    ):
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
    points, labels, tasks = metric_data(**data)
    queries, expected, query_tasks = metric_data(**data, seed=1)
    matrices, wrong = {}, {}
    for k, name in enumerate(np.unique(tasks).tolist()):
        M = result.metric(name)
        want = result.x[0] + (result.x[1 + k] if metrics == "multi-task" else 0.0)
        np.testing.assert_array_equal(M, want)
        matrices[name] = M
        mapped = result.transform(points, name)
        difference = points[0] - points[1]
        assert np.sum((mapped[0] - mapped[1]) ** 2) == pytest.approx(
            difference @ M @ difference, rel=1e-9
        )
        inside, asked = tasks == name, query_tasks == name
        model = KNeighborsClassifier(3).fit(
            result.transform(points[inside], name), labels[inside]
        )
        found = model.predict(result.transform(queries[asked], name))
        wrong[name] = np.mean(found != expected[asked])
    np.testing.assert_array_equal(problem.metrics(result.x), list(matrices.values()))
    for given in (matrices, problem.metrics(result.x)):
        errors = task_knn_errors(points, labels, tasks, queries, expected, query_tasks, given)
        np.testing.assert_allclose(errors.by_task, list(wrong.values()))
    result.metric(name)[:] = np.nan          # a copy
    assert np.isfinite(result.x).all()


def test_learning_metrics_helps_where_a_direction_is_noise():
    rng = np.random.default_rng(0)
    tasks, labels = np.repeat([1, 2], 60), np.tile([0, 1], 60)
    def draw_points():
        points = rng.standard_normal((120, 5))
        points[:, 0] = 2.0 * labels + 0.3 * rng.standard_normal(120)
        points[:, 1:] *= 3.0
        return points
    train, test = draw_points(), draw_points()
    result = solve(mt_lmnn(train, labels, tasks, lambda0=0.1, lam=1.0), m=60, tol=1e-3)
    split = (train, labels, tasks, test, labels, tasks)
    learned = task_knn_errors(*split, result.problem.metrics(result.x)).overall
    assert learned < 0.5 * task_knn_errors(*split).overall


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
        other = solve(problem, max_passes=1, tol=0)
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


def bad_risk(D=None, b=None, **options):
    D = np.ones((3, 2, 2, 2)) if D is None else D
    b = np.array([1.0, -1.0, 1.0]) if b is None else b
    return lambda: matrix_risk(D, b, **options)


def bad_trace(z=None, b=None, **options):
    z = np.ones((3, 2, 2)) if z is None else z
    return lambda: trace_regression(z, np.ones(3) if b is None else b, **options)


def bad_metric(change=None, **options):
    def call():
        data = dict(zip(("points", "labels", "tasks"), metric_data(sizes=(8, 8), named=str),
                        strict=True))
        if change is not None:
            change(data)
        mt_lmnn(**data, **{"n_neighbors": 3, **options})
    return call


def with_entry(shape, where, value):
    out = np.ones(shape)
    out[where] = value
    return out


def few_points(data):
    # A class of task '20' with three points.
    chosen = np.flatnonzero((data["tasks"] == "20") & (data["labels"] == 1))
    data["labels"][chosen[3:]] = 0


def one_class(data):
    data["labels"][data["tasks"] == "20"] = 1


def replaced(name, value):
    def change(data):
        data[name] = value(data[name])
    return change


BAD = {
    "NaN in D": (bad_risk(with_entry((3, 2, 2, 2), (1, 0, 0, 1), np.nan)),
                 "D must be finite.*block 0 of row 1"),
    "inf in D": (bad_risk(with_entry((3, 2, 2, 2), (2, 1, 1, 1), np.inf)),
                 "D must be finite.*block 1 of row 2"),
    "NaN in packed D": (bad_risk(with_entry((3, 2, 3), (2, 1, 1), np.nan)),
                        "D must be finite.*\\(2, 1, 1\\)"),
    "infinities that cancel": (
        bad_risk(np.where(np.arange(4).reshape(2, 2) == 1, np.inf,
                          np.where(np.arange(4).reshape(2, 2) == 2, -np.inf, 1.0))
                 * np.ones((3, 2, 1, 1))), "D must be finite"),
    "D of two dimensions": (bad_risk(np.ones((3, 2))), "D must have shape.*got shape \\(3, 2\\)"),
    "D not square": (bad_risk(np.ones((3, 2, 2, 3))), "D must have shape.*\\(3, 2, 2, 3\\)"),
    "length not packed": (bad_risk(np.ones((3, 2, 4))), "D must have shape.*\\(3, 2, 4\\)"),
    "D empty": (bad_risk(np.ones((0, 2, 2, 2)), b=[]), "non-empty"),
    "D without blocks": (bad_risk(np.ones((3, 0, 2, 2))), "non-empty"),
    "D of order zero": (bad_risk(np.ones((3, 2, 0, 0))), "non-empty"),
    "D complex": (bad_risk(np.ones((3, 2, 2, 2), dtype=complex)), "real numbers.*complex"),
    "D of strings": (bad_risk(np.full((3, 2, 2, 2), "a")), "real numbers"),
    "D ragged": (bad_risk([[np.ones((2, 2))], [np.ones((3, 3))], [np.ones((2, 2))]]), "D must"),
    "D too large": (bad_risk(np.full((3, 2, 2, 2), 1e150)), "badly scaled"),
    "b too short": (bad_risk(b=[1.0]), "b must have one entry for each of the 3 rows, got 1"),
    "b a column": (bad_risk(b=np.ones((3, 1))), "b must have 1 dim"),
    "b NaN": (bad_risk(b=[1.0, np.nan, 1.0]), "b must be finite"),
    "labels 0 and 1": (bad_risk(b=[0, 1, 1]), "labels must be -1 or"),
    "labels 1 and 2": (bad_risk(b=[1, 2, 1], loss="logistic"), "labels must be -1 or"),
    "unknown loss": (bad_risk(loss="hinge"), "loss must be one of"),
    "lam zero": (bad_risk(lam=0.0), "lam must be a finite number > 0, got 0"),
    "lam negative": (bad_risk(lam=-1), "lam must be"),
    "lam NaN": (bad_risk(lam=float("nan")), "lam must be"),
    "lam of a block": (bad_risk(lam=[0.1, 0.0]), "lam must be > 0.*got 0.0 for block 1"),
    "lam of a block NaN": (bad_risk(lam=[np.nan, 0.1]), "lam must be finite.*index 0"),
    "lam too short": (bad_risk(lam=[0.1]), "lam must be a number or one for each of the 2"),
    "lam a string": (bad_risk(lam="0.1"), "lam must be"),
    "lam a matrix": (bad_risk(lam=np.ones((2, 2))), "lam must have 1 dim"),
    "measurements NaN": (bad_trace(with_entry((3, 2, 2), (1, 1, 0), np.nan)),
                         "measurements must be finite.*\\(1, 1, 0\\)"),
    "measurement NaN": (bad_trace(with_entry((3, 2), (1, 0), np.nan)),
                        "measurements must be finite, got nan at index \\(1, 0"),
    "measurements of four dimensions": (bad_trace(np.ones((3, 2, 2, 2))), "measurements must"),
    "measurements of one dimension": (bad_trace(np.ones(3)), "measurements must have"),
    "measurements empty": (bad_trace(np.ones((0, 2, 2)), b=[]), "measurements must not be empty"),
    "measurements ragged": (bad_trace([[[1.0, 2.0]], [[1.0]]]), "measurements must"),
    "targets too short": (bad_trace(b=[1.0]), "b must have one entry for each of the 3"),
    "targets NaN": (bad_trace(b=[1.0, np.inf, 1.0]), "b must be finite"),
    "targets too large": (bad_trace(b=[1.0, 1e160, 1.0]), "badly scaled"),
    "lam of a measured block": (bad_trace(lam=[-1.0, 1.0]), "got -1.0 for block 0"),
    "few points": (bad_metric(few_points), "class 1 of task '20' has too few points.*got 3"),
    "too many neighbours": (bad_metric(n_neighbors=4), "too few points for n_neighbors=4"),
    "too many impostors": (bad_metric(n_impostors=5), "n_impostors=5"),
    "one class": (bad_metric(one_class), "task '20' has one class only"),
    "labels too short": (bad_metric(replaced("labels", lambda v: v[:-1])),
                         "labels must be as many as the points, 16, got 15"),
    "tasks too short": (bad_metric(replaced("tasks", lambda v: v[:-1])),
                        "tasks must be as many as the points, 16, got 15"),
    "points NaN": (bad_metric(replaced("points", lambda v: v * np.nan)), "points must be finite"),
    "points of one dimension": (bad_metric(replaced("points", lambda v: v[:, 0])),
                                "points must have 2 dim"),
    "points too large": (bad_metric(replaced("points", lambda v: v * 1e60)), "badly scaled"),
    "labels NaN": (bad_metric(replaced("labels", lambda v: v * np.nan)), "labels must not be NaN"),
    "lambda0 zero": (bad_metric(lambda0=0), "lambda0 must be a finite number > 0 and < 1e.100, "
                     "got 0"),
    "lambda0 huge": (bad_metric(lambda0=1.7e308), "lambda0 must be a finite number > 0 and < 1e"),
    "lam of metrics": (bad_metric(lam=-0.1), "lam must be a finite number > 0, got -0.1"),
    "square loss": (bad_metric(loss="square"), "loss must be one of"),
    "unknown metrics": (bad_metric(metrics="common"), "metrics must be one of 'multi-task'"),
    "no neighbours": (bad_metric(n_neighbors=0), "n_neighbors must be"),
    "half an impostor": (bad_metric(n_impostors=0.5), "n_impostors must be"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_refused_with_what_is_wrong_and_what_is_allowed(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def test_unknown_moduli_are_refused():
    with pytest.raises(ValueError, match="moduli must be one of 'each', 'least', got 'all'"):
        solve(risk_problem().problem, moduli="all")


# Pickling -----------------------------------------------------------------------------------

@all_methods
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
    assert loaded.problem.certify(loaded.x, loaded.y).gap == result.gap
    if hasattr(problem, "task_names"):
        np.testing.assert_array_equal(loaded.metric("10"), result.metric("10"))

"""Every method: optima, identities, estimators, rates, lazy against eager."""

from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import transcriptions_field as authors
from conftest import LOSSES, OPERATORS, daily, make_factors, make_problem, uneven_factors
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import CASES, TRANSCRIBED, N, P, compare, minimum_by_cvxpy, optimum
from replay import drawn_parts
from transcriptions import Vectors, dual_step, slope
from transcriptions import value as loss_value

from benchmark_dspdc import erm, solve
from benchmark_dspdc.bench.tasks import TASKS
from benchmark_dspdc.engine.sampling import draw, generator, partition, weighted
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.methods.katyusha import TUNED
from benchmark_dspdc.methods.method import Start
from benchmark_dspdc.methods.qning import QNing
from benchmark_dspdc.model.regularizers import (
    reg_conjugate_gradient,
    reg_modulus,
    reg_outlook,
    reg_prox,
)
from benchmark_dspdc.model.regularizers.regularizer import UNKNOWN
from benchmark_dspdc.operators import factorized
from benchmark_dspdc.operators.sparse import SparseOperator
from benchmark_dspdc.state.iteration import Ascent, load
from benchmark_dspdc.state.lazy import LazyRows
from benchmark_dspdc.state.scaled import ScaledRows

FIELD = sorted(set(METHODS) - {"dspdc", "sdca"})
D = 5

#: Methods that move all of x in every iteration, and make up for it lazily on sparse data.
LAZY = (
    "saga", "svrg", "katyusha", "l_svrg", "l_katyusha", "rpdg", "spdc", "spdhg",
)


def is_lazy(algorithm):
    loop = algorithm._inner._loop if isinstance(algorithm, QNing) else algorithm._loop
    return isinstance(loop.state, (LazyRows, ScaledRows))


def written_out(case, operator, loss, lambda1, lambda2):
    """A problem for a case of `CASES`, and the same for the transcriptions."""
    # Importance is for rows and columns of very different lengths.
    factors = uneven_factors if "importance" in case else make_factors
    problem = make_problem(operator, loss, lambda1, lambda2, N, P, D, factors=factors)
    return problem, Vectors(np.dot(*factors(N, P, D)), problem.b, loss, lambda1, lambda2)


def by_day(case, operator, loss):
    """Kernels that other tests have too; operators are compared in tests/test_algorithms.py."""
    if "pure_cd" in case and case != "pure_cd":
        # Importance by day where there is nothing to compile: on matrices.
        return case == "pure_cd batches" and (operator, loss) == ("csr", "smoothed_hinge")
    if "importance" in case:
        return (operator, loss) == ("dense", "square")
    if "asvrg_sp" in case:
        return loss == "smoothed_hinge" and (operator == "csr" or "uniform" not in case)
    if case in ("dspdc rows", "dspdc columns"):
        return loss == "smoothed_hinge" or (operator, loss) == ("dense", "square")
    if case == "dspdc auto" or "adaptive" in case:
        return loss == "smoothed_hinge" and (operator == "csr" or case == "dspdc auto")
    return (operator, loss) == ("dense", "smoothed_hinge")


def on_operators(cases):
    return pytest.mark.parametrize(("case", "operator", "loss"), [
        pytest.param(*each, marks=() if by_day(*each) else pytest.mark.nightly)
        for each in product(cases, OPERATORS, LOSSES)
    ])


@cache
def best_by_cvxpy(uneven, loss, lambda1, lambda2):
    """The optimum of the problems of `written_out`, by another solver."""
    _, plain = written_out("importance" if uneven else "", "dense", loss, lambda1, lambda2)
    x = cp.Variable(P)
    reg = lambda1 * cp.norm1(x) + lambda2 / 2 * cp.sum_squares(x)
    return minimum_by_cvxpy(loss, plain.A @ x, plain.b, reg), x.value


@pytest.mark.parametrize("lambda1", [0.0, 0.02])
@on_operators(CASES)
def test_every_method_finds_the_optimum_of_an_independent_solver(case, operator, loss, lambda1):
    problem, _ = written_out(case, operator, loss, lambda1, 0.2)
    value, x = best_by_cvxpy("importance" in case, loss, lambda1, 0.2)
    method, options, _ = CASES[case]
    result = solve(problem, method, tol=1e-9, max_seconds=None, max_passes=20000, **options)
    assert result.status == "converged", result
    assert result.primal == pytest.approx(value, rel=1e-8, abs=1e-8)
    assert result.dual <= value + 1e-8
    # By strong convexity a gap bounds the distance.
    assert np.linalg.norm(result.x - x) <= np.sqrt(2.0 * result.gap / problem.lam) + 1e-5
    if "probabilities" in options:
        assert result.info["probabilities"] == "importance"


def sparse_problem(loss, lambda1, seed=0, n=60, p=300, lambda2=0.02):
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random_array((n, p), density=0.02, rng=rng, format="csr")
    A.data[:] = rng.standard_normal(len(A.data))
    z = A @ rng.standard_normal(p)
    b = z if loss in ("square", "huber") else np.where(z >= 0.0, 1.0, -1.0)
    return A, b, loss, lambda1, lambda2


def lazy_and_eager(monkeypatch, method, arguments, counts=(1, 1, 5, 30, 200, 60, 500), **options):
    """Both ways to run a method give the same iterates; returns the first."""
    regularizer = options.pop("regularizer", None)
    runs = []
    for share in (np.inf, 0.0):
        problem = erm(*arguments, regularizer=regularizer or "elastic_net")
        monkeypatch.setattr(problem.operator, "LAZY", share, raising=False)
        runs.append(METHODS[method](problem, seed=3, **options))
    one, other = runs
    assert is_lazy(one) and not is_lazy(other)
    for count in counts:
        for algorithm in runs:
            algorithm.advance(count)
        scale = np.abs(other.x).max()
        np.testing.assert_allclose(one.x, other.x, rtol=1e-10, atol=1e-12 * min(1.0, scale))
    assert one.x.any()
    assert one.passes == other.passes
    return one


@pytest.mark.parametrize("lambda1", [0.0, 1e-3, 0.01])
@pytest.mark.parametrize("loss", daily(LOSSES, "smoothed_hinge"))
@pytest.mark.parametrize("method", LAZY)
def test_lazy_and_eager_iterates_agree(method, loss, lambda1, monkeypatch):
    lazy_and_eager(monkeypatch, method, sparse_problem(loss, lambda1))


@pytest.mark.nightly
@pytest.mark.parametrize("lambda1", [0.0, 0.01])
def test_lazy_rows_take_the_steps_of_importance(lambda1, monkeypatch):
    A, *rest = sparse_problem("square", lambda1)
    A.data[:] *= 4.0 ** np.random.default_rng(1).standard_normal(len(A.data))
    lazy_and_eager(monkeypatch, "spdc", (A, *rest), probabilities="importance")


class Box(NamedTuple):
    """(lambda2/2) x_j^2 for |x_j| <= radii[j]; of many steps at once it says nothing."""

    lambda2: float
    radii: np.ndarray


@reg_modulus.register(Box)
def box_modulus(reg):
    return reg.lambda2


@reg_conjugate_gradient.register(Box)
def box_conjugate_gradient(reg, j, w):
    return min(max(w / reg.lambda2, -reg.radii[j]), reg.radii[j])


@reg_prox.register(Box)
def box_prox(reg, j, c, tau):
    return min(max(c / (1.0 + tau * reg.lambda2), -reg.radii[j]), reg.radii[j])


@pytest.mark.parametrize("method", daily(LAZY, "svrg"))
@pytest.mark.parametrize("kind", ["non_negative", "non_negative with l1", "box"])
def test_other_regularisers_move_lazily_too(method, kind, monkeypatch):
    # Without an l1 term the steps are not linear either; of a box only its prox is known.
    lambda1 = 0.01 if "l1" in kind else 0.0
    A, b, loss, *lambdas = sparse_problem("smoothed_hinge" if kind == "box" else "huber", lambda1)
    if kind == "box":
        radii = np.linspace(0.02, 0.4, A.shape[1])
        reg = Box(lambdas[1], radii)
        one = lazy_and_eager(monkeypatch, method, (A, b, loss), regularizer=reg)
        assert reg_outlook(reg, 0, 1.0, 1.0, 1.0, 1.0)[0] == UNKNOWN
        # What Katyusha shows is a mean of what its steps give.
        stepped = np.abs(settled_x(one))
        assert (stepped == radii).any() and (stepped <= radii).all()
        assert (np.abs(one.x) <= radii + 1e-12).all()
        return
    one = lazy_and_eager(monkeypatch, method, (A, b, loss, *lambdas), regularizer="non_negative")
    assert isinstance(one._loop.state, LazyRows)
    assert one.x.min() == 0.0 < one.x.max()


@pytest.mark.parametrize("lambda1", [0.0, 1e-3])
@pytest.mark.parametrize("method", LAZY)
def test_lazy_iterates_with_batches_and_many_steps_apart(method, lambda1, monkeypatch):
    # More than the table of powers holds.
    A, *rest = sparse_problem("smoothed_hinge", lambda1, n=700, p=4000)
    for m in (1, 7, 90):
        lazy_and_eager(monkeypatch, method, (A[:, :200], *rest), (3000,), m=m)


def test_sparse_operators_choose_lazy_rows_where_rows_are_short():
    A, b, *_ = sparse_problem("square", 0.0)
    assert SparseOperator.LAZY == 0.05
    assert is_lazy(METHODS["saga"](erm(A, b, "square")))
    full = scipy.sparse.csr_array(np.ones((4, 3)))
    assert not is_lazy(METHODS["saga"](erm(full, b[:4], "square")))


@pytest.mark.parametrize("method, options", [
    ("saga", {}), ("svrg", {}), ("saga", {"m": 90}),
    pytest.param("svrg", {"snapshot": "last"}, marks=pytest.mark.nightly),
])
@pytest.mark.parametrize("loss", daily(["smoothed_hinge", "logistic"], "smoothed_hinge"))
def test_linear_steps_with_a_scale_that_falls_fast(method, options, loss, monkeypatch):
    # A step shrinks x by half and more, so that u is renewed all the time, or is not for long.
    for lambda2 in (1e-9, 5.0):
        given = sparse_problem(loss, 0.0, n=300, p=4000, lambda2=lambda2)
        one = lazy_and_eager(monkeypatch, method, given, (1, 7, 900), **options)
        assert isinstance(one._loop.state, ScaledRows)


# The authors' pseudo-code ----------------------------------------------------------------

ITERATIONS = 200
CHECKS = (1, 2, 9, 10, 11, 59, 60, 61, 100, ITERATIONS)


@pytest.mark.parametrize("lambda1", [0.0, 0.02])
@on_operators(TRANSCRIBED)
def test_iterates_are_those_of_the_authors_pseudo_code(case, operator, loss, lambda1):
    run = CASES[case]
    problem, plain = written_out(case, operator, loss, lambda1, 0.02)
    algorithm = run.start(problem)
    # Small differences of large numbers decide on the steps: of gradients, or of P and D.
    rtol = 1e-7 if case in ("qning batches", "rpdhg averages") else 1e-9
    iterates = list(run.transcribed(plain, algorithm, run.options, ITERATIONS))
    compare(algorithm, iterates, plain, CHECKS, rtol)
    if run.method == "fista":
        assert algorithm.info["restarts"] >= 1
    if run.method == "asdca":
        assert algorithm.info["rounds"] >= 1


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("method", ["apcg", "apcg_primal"])
def test_vectors_that_vanish_are_scaled_up_in_time(method, share):
    """Well conditioned, with few blocks: the factor of u falls below its limit many times."""
    problem, plain = written_out(method, "dense", "smoothed_hinge", 0.02, 5.0)
    options = dict(q=round(share * P)) if method == "apcg_primal" else dict(m=round(share * N))
    run = CASES[method]._replace(options=options)
    algorithm, iterations = run.start(problem), 500
    assert algorithm._c.rho ** iterations < 1e-160
    iterates = run.transcribed(plain, algorithm, options, iterations)
    compare(algorithm, iterates, plain, (1, 10, 50, 100, 200, 250, iterations))


@pytest.mark.parametrize("case", daily(
    CASES, *(case for case in CASES if not case.startswith("pure_cd") or "imp" not in case)
))
def test_no_data_to_speak_of_and_zero_rows_are_no_obstacle(case):
    # On problems whose kernels there are by day.
    loss = "square" if "importance" in case else "smoothed_hinge"
    sparse = "adaptive" in case or "pure_cd" in case or "asvrg_sp uniform" in case
    A = np.dot(*make_factors(N, P, D))
    alone = np.zeros_like(A)
    alone[0] = 1.0
    method, options, _ = CASES[case]
    for data in (0.0 * A, 1e-9 * A, alone):
        stored = scipy.sparse.csr_array(data) if sparse else data
        problem = erm(stored, np.where(np.arange(N) % 3, 1.0, -1.0), loss, 0.0, 1.0)
        assert solve(problem, method, tol=1e-12, **options).status == "converged"
    # And where all that there is is moved at once.
    whole = {name: 1.0 for name in ("m", "q") if name in options}
    assert solve(problem, method, tol=1e-12, **(options | whole)).status == "converged"


# Estimators of the gradient ----------------------------------------------------------------

def settled_x(algorithm):
    """x as the kernel has it; to make up for lazy steps changes only when they are taken."""
    algorithm._loop.settle()
    return algorithm._loop.point.x.copy()


def with_forced_block(make, before, k):
    """x after some iterations, and after one more with the k-th block.

    Partitions draw blocks ahead; the first of them is replaced.
    """
    algorithm = make()
    algorithm.advance(before)
    old, blocks = settled_x(algorithm), algorithm._loop.blocks
    blocks.dual_ahead[:2] = blocks.dual.starts[k:k + 2]
    algorithm.advance(1)
    return old, settled_x(algorithm)


def snapshot_due(algorithm):
    """The snapshot of the next iteration if the coin has just been tossed for a new one."""
    return algorithm._next if algorithm._inner == algorithm._length else None


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("operator", [*OPERATORS, "lazy"])
@pytest.mark.parametrize("method", [
    "saga", "svrg", "katyusha", "l_svrg", "l_katyusha", "rpdg", *daily(["rpdg uniform"]), "spdc",
])
def test_estimators_are_unbiased(method, operator, m, monkeypatch):
    """The mean over the block drawn, each with its probability, is what it stands for.

    Without an l1 term a proximal step x' = (x - tau G)/(1 + tau lam) tells the
    estimator G. SAGA, SVRG, Katyusha, L-SVRG, L-Katyusha: the gradient of the mean loss where
    it is taken. SPDC, RPDG: A'y/n with every coordinate of y renewed.
    """
    loss, lambda2, before = "smoothed_hinge", 0.05, 37
    if operator == "lazy":
        A, b, *rest = sparse_problem(loss, 0.0, lambda2=lambda2)
        problem, A = erm(A, b, *rest), A.toarray()
        monkeypatch.setattr(problem.operator, "LAZY", np.inf)
    else:
        problem = make_problem(operator, loss, 0.0, lambda2, N, P, D)
        A, b = np.dot(*make_factors(N, P, D)), problem.b
    n = len(b)
    method, _, uniform = method.partition(" ")
    options = dict(m=m) | (dict(sampling="uniform") if uniform else {})

    def make():
        return METHODS[method](problem, seed=5, **options)

    algorithm = make()
    assert is_lazy(algorithm) == (operator == "lazy")
    tau = algorithm._loop.steps.tau
    blocks = drawn_parts(n, m, 0, 5)[0]
    probabilities = np.full(len(blocks), 1 / len(blocks))
    plain = Vectors(A, b, loss, 0.0, lambda2)
    if method == "rpdg":
        probabilities, tau_dual, eta, alpha = authors.rpdg_constants(plain, blocks, bool(uniform))
        np.testing.assert_allclose(tau, 1 / eta)
    mean = 0.0
    for k, p in enumerate(probabilities):
        old, new = with_forced_block(make, before, k)
        mean = mean + p * (old - (1 + tau * lambda2) * new) / tau

    algorithm.advance(before - 1)
    previous = settled_x(algorithm)
    algorithm.advance(1)
    x = settled_x(algorithm)
    np.testing.assert_allclose(x, old, rtol=1e-12, atol=1e-15)
    if method in ("katyusha", "l_katyusha"):
        points = algorithm._points
        mix = points.mix
        due = snapshot_due(algorithm) if method == "l_katyusha" else None
        w = points.snapshot if due is None else due
        x = mix.tau1 * x + mix.tau2 * w + mix.beta * points.point
    if method in ("rpdg", "spdc"):
        theta = alpha if method == "rpdg" else algorithm.info["theta"]
        z = A @ (x + theta * (x - previous))
        order = slice(None) if algorithm._loop.y_order is None else algorithm._loop.y_order
    if method == "rpdg":
        points = np.empty(n)
        points[order] = algorithm._loop.rule.points
        y = slope(loss, (z + tau_dual * points) / (1 + tau_dual), b)
    elif method == "spdc":
        rho = n / algorithm.info["sigma"]
        y = np.array([dual_step(loss, z[i], b[i], algorithm.y[i], rho) for i in range(n)])
    else:
        y = slope(loss, A @ x, b)
    np.testing.assert_allclose(mean, A.T @ y / n, rtol=1e-9, atol=1e-11)


# The optimum as a fixed point ----------------------------------------------------------------

@pytest.mark.parametrize("operator", [*OPERATORS, "lazy"])
@pytest.mark.parametrize("method", LAZY)
def test_variance_reduced_methods_stay_at_the_optimum(method, operator):
    loss = "smoothed_hinge"
    if operator == "lazy":
        A, b, _, lambda1, lambda2 = sparse_problem(loss, 2e-3)
        problem, A = erm(A, b, loss, lambda1, lambda2), A.toarray()
    else:
        lambda1, lambda2 = 0.02, 0.05
        problem = make_problem(operator, loss, lambda1, lambda2, N, P, D)
        A, b = np.dot(*make_factors(N, P, D)), problem.b
    plain = Vectors(A, b, loss, lambda1, lambda2)
    best, y = optimum(plain)
    np.testing.assert_allclose(
        best, plain.prox(best - A.T @ y / len(b), 1.0), atol=1e-14 * np.abs(best).max() + 1e-15
    )
    assert (best == 0).any()
    assert (best != 0).sum() >= 3

    for m in (1, 4):
        algorithm = METHODS[method](problem, seed=3, m=m, start=Start(best, y))
        for _ in range(4):
            algorithm.advance(50)
            np.testing.assert_allclose(algorithm.x, best, atol=1e-11)
        if algorithm.y is not None:
            np.testing.assert_allclose(algorithm.y, y, atol=1e-11)


# Published rates ------------------------------------------------------------------------------

SEEDS = range(10)


@pytest.fixture(scope="module", params=daily(LOSSES, "smoothed_hinge"))
def rated(request):
    """A small problem of moderate condition, with its solution."""
    loss, lambda1, lambda2 = request.param, 0.01, 0.05
    problem = make_problem("dense", loss, lambda1, lambda2, N, P, D)
    A = np.dot(*make_factors(N, P, D))
    plain = Vectors(A, problem.b, loss, lambda1, lambda2)
    x, y = optimum(plain)
    R2 = np.sum(A ** 2, axis=1).max()
    F = plain.F(x)
    assert abs(F - authors.problem_dual(plain, y)) < 1e-13
    return SimpleNamespace(
        problem=problem, plain=plain, x=x, y=y, F=F, n=N, lam=lambda2, gamma=plain.gamma,
        R2=R2, L=R2 / plain.gamma, kappa=R2 / plain.gamma / lambda2,
    )


def mean_over_seeds(method, problem, at, measure, **options):
    """The mean over seeds of a measure of the algorithm after given numbers of iterations."""
    total = np.zeros(len(at))
    for seed in SEEDS:
        algorithm = METHODS[method](problem, seed=seed, **options)
        for j, k in enumerate(at):
            algorithm.advance(k - algorithm.iterations)
            total[j] += measure(algorithm)
    return total / len(SEEDS)


def assert_below(measured, bounds, floor=1e-14):
    """Every value below its bound, and the last bound is one that says something."""
    measured, bounds = np.asarray(measured), np.asarray(bounds)
    assert (measured <= bounds + floor).all(), (measured, bounds)
    assert bounds[-1] < 0.2 * bounds[0]


def test_rate_of_saga(rated):
    """Defazio et al. 2014, Theorem 1 and its corollary, for mu-strongly convex and L-smooth f_i.

    With the step 1/(2(mu n + L)):  E|x_k - x*|^2 <= (1 - mu/(2(mu n + L)))^k
    (|x_0 - x*|^2 + n/(mu n + L) (f(x_0) - <f'(x*), x_0 - x*> - f(x*))).
    The l2 term is in the f_i, so L is the losses' plus mu.
    """
    n, mu, L, x = rated.n, rated.lam, rated.L + rated.lam, rated.x
    plain, zero = rated.plain, np.zeros(P)

    def f(x):
        return loss_value(plain.loss, plain.A @ x, plain.b).mean() + mu / 2 * x @ x

    slope = plain.A.T @ rated.y / n + mu * x
    start = x @ x + n / (mu * n + L) * (f(zero) + slope @ x - f(x))
    at = np.arange(1, 11) * 20 * n
    measured = mean_over_seeds(
        "saga", rated.problem, at, lambda a: np.sum((a.x - x) ** 2), step="strong"
    )
    assert_below(measured, (1 - mu / (2 * (mu * n + L))) ** at * start)


def test_rate_of_svrg(rated):
    """Xiao & Zhang 2014, Theorem 3.1, with eta = 0.1/L and m = 100 L/mu.

    E P(x_s) - P* <= rho^s (P(x_0) - P*),
    rho = 1/(mu eta (1 - 4 L eta) m) + 4 L eta (m + 1)/((1 - 4 L eta) m), below 5/6 there.
    """
    L, mu = rated.L, rated.lam
    eta, m = 0.1 / L, round(100 * rated.kappa)
    rho = 1 / (mu * eta * (1 - 4 * L * eta) * m) + 4 * L * eta * (m + 1) / (
        (1 - 4 * L * eta) * m
    )
    assert rho == pytest.approx(5 / 6, abs=1e-3)
    at = np.arange(1, 11) * m

    def gap(algorithm):
        assert algorithm.info["epoch"] == m
        return rated.plain.F(algorithm._tracker.total / m) - rated.F

    measured = mean_over_seeds("svrg", rated.problem, at, gap, step="theory")
    assert_below(measured, rho ** np.arange(1, 11) * (rated.plain.F(np.zeros(P)) - rated.F))


@pytest.mark.parametrize("q", daily([1, 4, P], 4))
def test_rate_of_s2cd(rated, q):
    """The bound in the method's Notes, h = 1/16 and M = 65 s L/mu, about 2/3 an epoch.

    E P(x_k) - P* <= rho^k (P(x_0) - P*),
    rho = (s L/(mu h M) + (s - 1)/M + 4 h (M + 1)/M)/(1 - 4 h).
    """
    L, mu, n, s = rated.L, rated.lam, rated.n, -(-P // q)
    h, M = 1 / 16, round(65 * s * rated.kappa)
    rho = (s * L / (mu * h * M) + (s - 1) / M + 4 * h * (M + 1) / M) / (1 - 4 * h)
    assert rho == pytest.approx(2 / 3, abs=0.01)
    at = np.arange(1, 9) * M

    def gap(algorithm):
        assert algorithm.info["epoch"] == M
        x, order = np.empty(P), algorithm._loop.x_order
        x[slice(None) if order is None else order] = algorithm._tracker.total / M
        return rated.plain.F(x) - rated.F

    measured = mean_over_seeds("s2cd", rated.problem, at, gap, q=q, epoch=M / (n * s))
    assert_below(measured, rho ** np.arange(1, 9) * (rated.plain.F(np.zeros(P)) - rated.F))


@pytest.mark.parametrize("m", [1, 5])
def test_rate_of_spdhg(rated, m):
    """Chambolle et al. 2018, section 6: both sides strongly convex, serial uniform sampling.

    E[(1 - rho^2)(1/tau + 2 lam)|x_k - x*|^2 + r (1/sigma + 2 delta)|y_k - y*|^2]
    <= theta^k ((1/tau + 2 lam)|x_0 - x*|^2 + r (1/sigma + 2 delta)|y_0 - y*|^2), rho = 0.99,
    delta = gamma/n. Here x is a step ahead of the authors'.
    """
    n, lam, delta, r = rated.n, rated.lam, rated.gamma / rated.n, -(-rated.n // m)
    at = np.arange(1, 11) * 10 * r
    bounds = {}

    def weighed(x, y, info, share):
        of_x = (1 / info["tau"] + 2 * lam) * np.sum((x - rated.x) ** 2)
        of_y = r * (1 / info["sigma"] + 2 * delta) * np.sum((y - rated.y) ** 2)
        return share * of_x + of_y

    def measure(algorithm):
        info, k = algorithm.info, algorithm.iterations
        assert info["rate"] == 1 - info["theta"]
        start = weighed(np.zeros(P), np.zeros(n), info, 1.0)
        bounds.setdefault(k, []).append(info["theta"] ** k * start)
        return weighed(algorithm.x, algorithm.y, info, 1 - 0.99 ** 2)

    measured = mean_over_seeds("spdhg", rated.problem, at, measure, m=m)
    assert_below(measured, [np.mean(bounds[k]) for k in at])


@pytest.mark.parametrize("epoch", [0.3, 2.0, 30.0])
def test_rate_of_katyusha(rated, epoch):
    """Allen-Zhu 2018, the inequality behind Theorem 2.1, which hides its constant in O(.).

    With theta = 1 + alpha sigma, S = sum of theta^j over an epoch of m steps,
    Phi = (tau2/tau1) S (F(snapshot) - F*) + ((1 - tau1 - tau2)/tau1) (F(y) - F*)
    + |z - x*|^2/(2 alpha):  an epoch divides E Phi by
    min(theta^m, (1 - theta (1 - tau1 - tau2))/tau2), which is theta^m if
    m sigma/L <= 3/4, and else at least 3/2.
    """
    L, sigma, m = rated.L, rated.lam, round(epoch * rated.n)
    tau2, tau1 = 1 / 2, min(np.sqrt(m * sigma / (3 * L)), 1 / 2)
    alpha = 1 / (3 * tau1 * L)
    theta = 1 + alpha * sigma
    rest = 1 - tau1 - tau2
    rate = min(theta ** m, (1 - theta * rest) / tau2)
    assert rate >= (theta ** m if m * sigma / L <= 3 / 4 else 1.5) * (1 - 1e-12)
    S = (theta ** m - 1) / (theta - 1)
    epochs = int(np.ceil(8 / np.log(rate)))
    at = np.arange(1, epochs + 1) * m

    def potential(snapshot, y, z):
        F = rated.plain.F
        return tau2 / tau1 * S * (F(snapshot) - rated.F) + rest / tau1 * (F(y) - rated.F) + np.sum(
            (z - rated.x) ** 2
        ) / (2 * alpha)

    def measure(algorithm):
        snapshot = algorithm._points.total / algorithm._weight
        return potential(snapshot, algorithm.x, algorithm._loop.point.x)

    measured = mean_over_seeds("katyusha", rated.problem, at, measure, epoch=epoch)
    zero = np.zeros(P)
    bounds = rate ** -np.arange(1.0, epochs + 1) * potential(zero, zero, zero)
    assert_below(measured, bounds, floor=1e-13 * bounds[0])


@pytest.mark.parametrize("p", [1 / N, 0.005, 0.3])
def test_rate_of_l_svrg(rated, p):
    """Kovalev, Horvath & Richtarik 2020, Theorem 5: E Phi_k <= max(1 - eta mu, 1 - p/2)^k Phi_0.

    Phi = |x - x*|^2 + (4 eta^2/(p n)) sum_i |grad f_i(w) - grad f_i(x*)|^2, eta = 1/(6L). With the
    strong convexity in g a step contracts by (1 + eta mu)^-2 <= 1 - eta mu, and by convexity
    and smoothness alone what is left of the proof needs (1 + eta mu)^2 <= 5/2.
    """
    n, plain, eta = rated.n, rated.plain, 1 / (6 * rated.L)
    norms2 = np.sum(plain.A ** 2, axis=1)

    def potential(x, y):
        return np.sum((x - rated.x) ** 2) + 4 * eta ** 2 / (p * n) * norms2 @ (y - rated.y) ** 2

    def measure(algorithm):
        due = snapshot_due(algorithm)
        return potential(algorithm.x, algorithm._loop.y if due is None else plain.slopes(due))

    rate = max(1 - eta * rated.lam, 1 - p / 2)
    at = np.arange(1, 11) * int(np.ceil(0.3 / (1 - rate)))
    measured = mean_over_seeds("l_svrg", rated.problem, at, measure, probability=p)
    zero = np.zeros(P)
    assert_below(measured, rate ** at * potential(zero, plain.slopes(zero)))


@pytest.mark.parametrize("p", [1 / N, 0.005, 0.3])
def test_rate_of_l_katyusha(rated, p):
    """Kovalev, Horvath & Richtarik 2020, Theorem 11 and before, with F for f: all of sigma in g.

    Psi = L (1 + eta sigma)/(2 eta) |z - x*|^2 + (F(y) - F*)/theta1
    + theta2 (1 + theta1)/(p theta1) (F(w) - F*), and E Psi goes down by the largest of
    1/(1 + eta sigma), 1 - theta1 (1 - theta2) and 1 - p theta1/(1 + theta1) an iteration.
    """
    L, sigma, F = rated.L, rated.lam / rated.L, rated.plain.F
    theta2, theta1 = 1 / 2, min(np.sqrt(2 * sigma / (3 * p)), 1 / 2)
    eta = theta2 / ((1 + theta2) * theta1)
    rate = max(
        1 / (1 + eta * sigma), 1 - theta1 * (1 - theta2), 1 - p * theta1 / (1 + theta1)
    )

    def potential(z, y, w):
        return L * (1 + eta * sigma) / (2 * eta) * np.sum((z - rated.x) ** 2) + (
            F(y) - rated.F + theta2 * (1 + theta1) / p * (F(w) - rated.F)
        ) / theta1

    def measure(algorithm):
        due = snapshot_due(algorithm)
        w = algorithm._points.snapshot if due is None else due
        return potential(algorithm._loop.point.x, algorithm.x, w)

    at = np.arange(1, 11) * int(np.ceil(0.5 / (1 - rate)))
    measured = mean_over_seeds("l_katyusha", rated.problem, at, measure, probability=p)
    zero = np.zeros(P)
    bounds = rate ** at * potential(zero, zero, zero)
    assert_below(measured, bounds, floor=1e-13 * bounds[0])


@pytest.mark.parametrize("sampling", ["authors", "uniform"])
def test_rate_of_rpdg(rated, sampling):
    """Lan & Zhou 2018, main theorem: E|x_k - x*|^2 <= (1 + 3 L_f/mu) alpha^k |x_0 - x*|^2.

    L_f is the smoothness of the mean loss, alpha = 1 - 1/(n + 1 + sqrt((n-1)^2 + 4nC)),
    C = 8 sum L_i/mu; 2 for 1 with uniform sampling, C = 8 n max L_i/mu.
    """
    n, mu, plain = rated.n, rated.lam, rated.plain
    L = np.sum(plain.A ** 2, axis=1) / (n * rated.gamma)
    C = 8 / mu * (L.sum() if sampling == "authors" else n * L.max())
    share = 1 if sampling == "authors" else 2
    alpha = 1 - share / (n + 1 + np.sqrt((n - 1) ** 2 + 4 * n * C))
    L_f = np.linalg.norm(plain.A, 2) ** 2 / (n * rated.gamma)
    at = np.arange(1, 11) * 20 * n
    measured = mean_over_seeds(
        "rpdg", rated.problem, at, lambda a: np.sum((a.x - rated.x) ** 2), sampling=sampling
    )
    assert_below(measured, (1 + 3 * L_f / mu) * alpha ** at * np.sum(rated.x ** 2))


@pytest.mark.parametrize("m", [1, 5])
def test_rate_of_apcg(rated, m):
    """Lin, Lu & Xiao 2015, Theorem 2.1, gamma_0 = mu, on the negative dual, N blocks.

    E F(x_k) - F* <= (1 - sqrt(mu)/N)^k (F(x_0) - F* + (mu/2)|x_0 - x*|_L^2).
    """
    n, plain = rated.n, rated.plain
    blocks = {seed: drawn_parts(n, m, 0, seed)[0] for seed in SEEDS}
    bounds, r = [], -(-n // m)
    at = np.arange(1, 11) * 5 * r

    for seed in SEEDS:
        L = np.array([
            np.linalg.norm(plain.A[I], 2) ** 2 / (rated.lam * n ** 2) + rated.gamma / n
            for I in blocks[seed]
        ])
        mu = rated.gamma / n / L.max()
        norm2 = sum(
            l * np.sum(rated.y[I] ** 2)
            for l, I in zip(authors.raised(L, rated.gamma / n), blocks[seed], strict=True)
        )
        start = rated.F - authors.problem_dual(plain, np.zeros(n)) + mu / 2 * norm2
        bounds.append((1 - np.sqrt(mu) / r) ** at * start)
    measured = mean_over_seeds(
        "apcg", rated.problem, at, lambda a: rated.F - authors.problem_dual(plain, a.y), m=m
    )
    assert_below(measured, np.mean(bounds, axis=0))


def test_rate_of_apcg_on_the_primal(rated):
    """The same theorem on the primal, one coordinate a step."""
    n, plain = rated.n, rated.plain
    L = np.sum(plain.A ** 2, axis=0) / (rated.gamma * n) + rated.lam
    mu = rated.lam / L.max()
    norm2 = authors.raised(L, rated.lam) @ rated.x ** 2
    start = plain.F(np.zeros(P)) - rated.F + mu / 2 * norm2
    at = np.arange(1, 11) * 5 * P
    measured = mean_over_seeds(
        "apcg_primal", rated.problem, at, lambda a: plain.F(a.x) - rated.F
    )
    assert_below(measured, (1 - np.sqrt(mu) / P) ** at * start)


def test_rate_of_asdca(rated):
    """Shalev-Shwartz & Zhang 2016, proof of Theorem 1: P(w_t) - P* <= xi_t in every round,

    xi_t = (1 - eta/2)^(t-1) (1 + eta^-2)(P(0) - D(0)), eta = sqrt(mu/(mu + kappa)),
    mu = lam/2, kappa = R^2/(gamma n) - lam.
    """
    plain, mu = rated.plain, rated.lam / 2
    kappa = rated.R2 / (rated.gamma * rated.n) - rated.lam
    eta = np.sqrt(mu / (mu + kappa))
    first = (1 + eta ** -2) * (
        plain.F(np.zeros(P)) - authors.problem_dual(plain, np.zeros(rated.n))
    )
    for seed in range(3):
        algorithm = METHODS["asdca"](rated.problem, seed=seed)
        seen = []
        while algorithm.info["rounds"] < 30:
            algorithm.advance(rated.n)
            if algorithm.info["rounds"] > len(seen):
                seen.append(plain.F(algorithm._before) - rated.F)
        assert_below(seen, first * (1 - eta / 2) ** np.arange(1, 31))


def test_rate_of_pdhg(rated):
    """Chambolle & Pock 2011, Theorem 3 with theta = 1/(1 + mu) = omega.

    lam|x_N - x*|^2 + (1 - omega) delta |y_N - y*|^2
    <= omega^N (lam|x_0 - x*|^2 + delta |y_0 - y*|^2), delta = gamma/n.
    """
    n, delta = rated.n, rated.gamma / rated.n
    mu = 2 * np.sqrt(rated.lam * delta) * n / np.linalg.norm(rated.plain.A, 2)
    omega = 1 / (1 + mu)
    algorithm = METHODS["pdhg"](rated.problem, step="norm")
    measured = []
    for _ in range(60):
        algorithm.advance(1)
        measured.append(
            rated.lam * np.sum((algorithm.x - rated.x) ** 2)
            + (1 - omega) * delta * np.sum((algorithm.y - rated.y) ** 2)
        )
    start = rated.lam * rated.x @ rated.x + delta * rated.y @ rated.y
    assert_below(measured, omega ** np.arange(1, 61) * start)


def test_rate_of_sdca(rated):
    """Shalev-Shwartz & Zhang 2013: E[D* - D(y_t)] <= (1 - 1/(n + kappa))^t (D* - D(0)),

    kappa = R^2/(lam gamma).
    """
    plain, n = rated.plain, rated.n
    start = rated.F - authors.problem_dual(plain, np.zeros(n))
    at = np.arange(1, 11) * 10 * n
    measured = mean_over_seeds(
        "sdca", rated.problem, at, lambda a: rated.F - authors.problem_dual(plain, a.y)
    )
    assert_below(measured, (1 - 1 / (n + rated.kappa)) ** at * start)


@pytest.mark.parametrize("m", [1, 5])
def test_rate_of_spdc(rated, m):
    """Zhang & Xiao 2015, Theorem 1:

    (1/(2 tau) + lam) E|x_t - x*|^2 + (1/(4 sigma) + gamma) E|y_t - y*|^2/m
    <= theta^t ((1/(2 tau) + lam)|x_0 - x*|^2 + (1/(2 sigma) + gamma)|y_0 - y*|^2/m).
    """
    n, lam, gamma, R = rated.n, rated.lam, rated.gamma, np.sqrt(rated.R2)
    tau = np.sqrt(m * gamma / (n * lam)) / (2 * R)
    sigma = np.sqrt(n * lam / (m * gamma)) / (2 * R)
    theta = 1 - 1 / (n / m + R * np.sqrt(n / (m * lam * gamma)))

    def weighed(x, y, k):
        return (1 / (2 * tau) + lam) * np.sum((x - rated.x) ** 2) + (
            1 / (k * sigma) + gamma
        ) * np.sum((y - rated.y) ** 2) / m

    at = np.arange(1, 11) * 10 * -(-n // m)
    measured = mean_over_seeds(
        "spdc", rated.problem, at, lambda a: weighed(a.x, a.y, 4), m=m
    )
    assert_below(measured, theta ** at * weighed(np.zeros(P), np.zeros(n), 2))


# Identities -------------------------------------------------------------------------------------

@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("operator", OPERATORS)
def test_saga_is_spdc_without_a_dual_penalty(operator, m):
    problem = make_problem(operator)
    one = METHODS["saga"](problem, seed=2, m=m)
    other = METHODS["spdc"](problem, seed=2, m=m)
    other._loop.steps, other._loop.rule = one._loop.steps, Ascent(problem.loss, 0.0)
    other._loop.point.y[:] = one._loop.point.y
    load(other._loop.state, problem.operator, None, None)
    for algorithm in (one, other):
        algorithm.advance(200)
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)


class ForcedCoins(NamedTuple):
    """Coins that end every epoch after so many iterations."""

    length: int

    def geometric(self, probability):
        return self.length


def test_l_svrg_is_svrg_but_for_the_step_between_snapshot_and_renewal(monkeypatch):
    """With a coin that falls when an epoch of SVRG ends, and equal steps.

    SVRG's next snapshot is x after the last step, L-SVRG's x before it. So they are the same up to
    the end of the first epoch and not after it; and for ever if L-SVRG took x after the step.
    """
    problem, length = make_problem("dense"), 2 * N

    def start():
        svrg = METHODS["svrg"](problem, seed=2, snapshot="last", step=1 / 6)
        loopless = METHODS["l_svrg"](problem, seed=2)
        loopless._coins = ForcedCoins(length)
        return svrg, loopless

    def advance(both, count):
        for algorithm in both:
            algorithm.advance(count)
        return np.array_equal(both[0].x, both[1].x)

    both = start()
    assert advance(both, length)
    assert both[0].x.any() and not advance(both, 1)

    def renewed_after_the_step(self, count):
        self._loop.advance(count)
        self._loop.settle()
        self._next = self._point().copy()

    monkeypatch.setattr(METHODS["l_svrg"], "_inner_iterations", renewed_after_the_step)
    both = start()
    assert advance(both, 7 * length + 3)
    assert both[0].passes == both[1].passes


def test_l_katyusha_is_katyusha_until_the_first_renewal():
    """Katyusha's constants for epochs of 2r are those for p = 1/r, and it too begins at w = y = z.

    Its next snapshot is a weighted mean, so that there is no equality beyond.
    """
    problem = make_problem("dense")
    katyusha, loopless = (METHODS[name](problem, seed=2) for name in ("katyusha", "l_katyusha"))
    loopless._coins = ForcedCoins(2 * N)
    for count, equal in ((2 * N, True), (1, False)):
        katyusha.advance(count)
        loopless.advance(count)
        assert np.array_equal(katyusha.x, loopless.x) == equal
    assert (loopless.info["theta1"], loopless.info["tau"]) == (
        katyusha.info["tau1"], katyusha.info["alpha"]
    )


@pytest.mark.parametrize("method", ["l_svrg", "l_katyusha"])
def test_iterations_between_snapshots_are_geometric(method):
    """One over the probability in the mean, its root and 1 - p times that as deviation."""
    problem, lengths = make_problem("dense"), []
    for seed in range(10):
        algorithm = METHODS[method](problem, seed=seed, m=3)
        assert algorithm.info["probability"] == 1 / 10
        for _ in range(2000):
            algorithm.advance(1)
            if algorithm._inner == algorithm._length:
                lengths.append(algorithm._length)
        assert algorithm.passes == pytest.approx(2000 / algorithm.iterations_per_pass, rel=0.1)
    mean, deviation = 10, np.sqrt(0.9) * 10
    assert abs(np.mean(lengths) - mean) < 4 * deviation / np.sqrt(len(lengths))
    assert min(lengths) == 1 and np.std(lengths) == pytest.approx(deviation, rel=0.15)


def test_steps_by_name_are_the_authors():
    problem = make_problem("dense")

    def run(method, **options):
        algorithm = METHODS[method](problem, seed=1, **options)
        algorithm.advance(150)
        return algorithm

    practice = run("svrg")
    assert (practice.info["step"], practice.info["epoch"]) == (0.1, 2 * N)
    for same in (dict(step="practice"), dict(step=0.1, epoch=2.0)):
        np.testing.assert_array_equal(run("svrg", **same).x, practice.x)
    theory = run("svrg", step="theory").info
    assert theory["step"] == 0.1
    assert theory["epoch"] == round(100 * theory["L"] / problem.lam)
    assert run("svrg", step="theory", epoch=2.0).info["epoch"] == 2 * N
    known = run("katyusha")
    assert known.info["step"] == 1.0
    np.testing.assert_array_equal(run("katyusha", step=1.0).x, known.x)
    longer = run("katyusha", step=2.5).info
    assert longer["tau1"] * longer["alpha"] == pytest.approx(2.5 / (3 * longer["L"]))
    assert run("l_svrg").info["step"] == 1 / 6


@pytest.mark.parametrize(("method", "options", "message"), [
    ("katyusha", dict(step=0.0), "step must be a finite number > 0"),
    ("svrg", dict(step="third"), "step must be one of 'theory', 'practice', got 'third'"),
    ("svrg", dict(epoch="long"), "epoch must be a finite number"),
    ("l_svrg", dict(probability=1.5), "probability must be a finite number >= 1e-12 and <= 1"),
    ("l_katyusha", dict(probability=0), "probability must be a finite number"),
])
def test_steps_and_probabilities_that_make_no_sense_are_refused(method, options, message):
    with pytest.raises(ValueError, match=message):
        solve(make_problem("dense"), method, **options)


def test_katyusha_tunes_its_step_as_its_author_does_and_the_work_counts():
    problem = make_problem("dense")
    values, work = {}, 0.0
    for step in TUNED:
        trial = METHODS["katyusha"](problem, seed=1, step=step)
        trial.advance(N)
        values[step] = problem.primal(trial.x)
        work += trial.passes + 0.5
    tuned = METHODS["katyusha"](problem, seed=1, step="practice")
    assert tuned.info["step"] == min(values, key=values.get) > 1.0
    assert tuned.passes == pytest.approx(work)
    known = METHODS["katyusha"](problem, seed=1, step=tuned.info["step"])
    for algorithm in (tuned, known):
        algorithm.advance(90)
    np.testing.assert_array_equal(tuned.x, known.x)


@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_spdhg_of_one_block_is_pdhg_that_extrapolates_y(operator):
    problem, plain = written_out("spdhg", operator, "smoothed_hinge", 0.02, 0.05)
    algorithm = METHODS["spdhg"](problem, m=N)
    tau, sigma, theta = (algorithm.info[name] for name in ("tau", "sigma", "theta"))
    assert algorithm.info["rate"] == 1.0 - theta
    K = plain.A / N
    np.testing.assert_allclose(tau * sigma * np.linalg.norm(K, 2) ** 2, 0.99 ** 2 / theta)
    x, y = np.zeros(P), np.zeros(N)
    for k in range(1, 101):
        rho = N / sigma
        new = np.array([
            dual_step(plain.loss, plain.A[i] @ x, plain.b[i], y[i], rho) for i in range(N)
        ])
        x = plain.prox(x - tau * K.T @ (new + theta * (new - y)), tau)
        y = new
        algorithm.advance(1)
        if k in (1, 2, 30, 100):
            np.testing.assert_allclose(algorithm.x, x, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(algorithm.y, y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("snapshot", daily(["average", "last"], "average"))
@pytest.mark.parametrize("operator", [*daily(OPERATORS, "dense"), "lazy"])
def test_s2cd_with_all_columns_is_svrg(operator, snapshot, monkeypatch):
    problem = make_problem("csr" if operator == "lazy" else operator)
    if operator == "lazy":
        monkeypatch.setattr(problem.operator, "LAZY", np.inf)
    options = dict(seed=2, m=4, step=0.1, epoch=2.0, snapshot=snapshot)
    one = METHODS["s2cd"](problem, q=P, **options)
    other = METHODS["svrg"](problem, **options)
    assert is_lazy(one) == is_lazy(other) == (operator == "lazy")
    for algorithm in (one, other):
        algorithm.advance(200)
    np.testing.assert_array_equal(one.x, other.x)
    assert one.passes == other.passes


@pytest.mark.parametrize(("m", "q"), [(4, 5), (13, 2)])
@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_s2cd_is_unbiased_over_rows_and_columns(operator, m, q):
    """Over all pairs (I, J) the mean step is that of full gradient steps, by the share of J."""
    lambda2, before = 0.05, 37
    problem, plain = written_out("s2cd", operator, "smoothed_hinge", 0.0, lambda2)

    def make():
        algorithm = METHODS["s2cd"](problem, seed=5, m=m, q=q)
        algorithm.advance(before)
        return algorithm

    algorithm = make()
    old, tau = algorithm.x, algorithm._loop.steps.tau
    dual, primal = (
        len(sampler.starts) - 1
        for sampler in (algorithm._loop.blocks.dual, algorithm._loop.blocks.primal)
    )
    mean = np.zeros(P)
    for k, l in product(range(dual), range(primal)):
        algorithm = make()
        blocks = algorithm._loop.blocks
        blocks.dual_ahead[:2] = blocks.dual.starts[k:k + 2]
        blocks.primal_ahead[:2] = blocks.primal.starts[l:l + 2]
        algorithm.advance(1)
        moved = algorithm.x != old
        assert moved.sum() == np.diff(blocks.primal.starts)[l]
        # Without an l1 term a step x' = (x - tau G)/(1 + tau lam) tells the estimator G.
        mean[moved] += ((old - (1 + tau * lambda2) * algorithm.x) / tau)[moved] / dual
    np.testing.assert_allclose(
        mean, plain.A.T @ plain.slopes(old) / N, rtol=1e-9, atol=1e-11
    )


@settings(max_examples=100, deadline=None)
@given(weights=st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e6)), min_size=1, max_size=40),
       uniform=st.floats(0.01, 1.0))
def test_tables_give_blocks_their_probabilities(weights, uniform):
    """The probability that a draw of (place, coin) ends at a block, added up exactly."""
    weights = np.array(weights)
    count = len(weights)
    share = weights / weights.sum() if weights.any() else np.full(count, 1 / count)
    probabilities = uniform / count + (1 - uniform) * share
    probabilities /= probabilities.sum()
    blocks = partition(3 * count, 3, np.random.default_rng(0))
    sampler = weighted(blocks, probabilities)
    threshold, alias = sampler.odds.T
    assert (threshold >= -1e-12).all()
    assert (threshold <= 1 + 1e-12).all()
    found = threshold / count
    np.add.at(found, alias.astype(int), (1 - threshold) / count)
    np.testing.assert_allclose(found, probabilities, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(sampler.boosts[blocks.starts[:-1]], 1 / probabilities)


def test_weighted_draws_have_their_probabilities():
    probabilities = np.array([0.02, 0.4, 0.08, 0.1, 0.25, 0.15])
    blocks = partition(12, 2, np.random.default_rng(1))
    sampler = weighted(blocks, probabilities)
    state, ahead = generator(7), np.full(2, -1)
    drawn = np.array([draw(sampler, state, ahead) for _ in range(20000)])
    assert set(drawn[:, 1] - drawn[:, 0]) == {2}
    counts = np.bincount(np.searchsorted(blocks.starts, drawn[:, 0]), minlength=6)
    assert scipy.stats.chisquare(counts, 20000 * probabilities).pvalue > 1e-3
    # Draws that follow each other are independent.
    places = np.searchsorted(blocks.starts, drawn[:, 0])
    pairs = np.bincount(6 * places[:-1:2] + places[1::2], minlength=36)
    expected = np.outer(probabilities, probabilities).ravel() * pairs.sum()
    assert scipy.stats.chisquare(pairs, expected).pvalue > 1e-3


# A = UV formed after all -------------------------------------------------------------------

@pytest.mark.parametrize("yes", [True, "true", "True"])
def test_factors_are_formed_on_request(yes):
    U, V = make_factors(N, P, D)
    b = np.ones(N)
    formed = erm((U, V), b, materialize=yes)
    assert formed.operator.kind == "dense"
    np.testing.assert_allclose(formed.operator.A, U @ V, rtol=1e-12, atol=1e-14)
    for no in (False, "false"):
        assert erm((U, V), b, materialize=no).operator.kind == "factorized"
    assert erm(U @ V, b, materialize=True).operator.kind == "dense"
    with pytest.raises(ValueError, match="materialize must be true or false, got 'maybe'"):
        erm((U, V), b, materialize="maybe")


def test_factors_whose_product_is_too_large_are_not_formed(monkeypatch):
    monkeypatch.setattr(factorized, "LARGEST_PRODUCT", 100.0)
    with pytest.raises(ValueError, match=r"would take 2.\d+e-06 GB, more than the limit of 1e-07"):
        erm(make_factors(N, P, D), np.ones(N), materialize=True)
    refusal = TASKS["erm"].refuses("logistic", A=make_factors(N, P, D), materialize="true")
    assert "use materialize=False" in refusal
    assert TASKS["erm"].refuses("logistic", A=make_factors(N, P, D)) is None

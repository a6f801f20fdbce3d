"""Blocks drawn by importance: probabilities, unbiasedness, iterates, optima, rates."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse
import transcriptions_importance as plain
from conftest import LOSSES, OPERATORS, daily
from replay import drawn_batches
from scipy.stats import chisquare
from test_matrix_problems import metric_problem, risk_problem, trace_problem
from transcriptions import matrix_step, primal_step, prox_sdca

from benchmark_dspdc import erm, solve
from benchmark_dspdc.engine.sampling import (
    draw,
    generator,
    partition,
    stepped,
    weighted,
)
from benchmark_dspdc.methods import DSPDC, METHODS, SDCA, SPDC
from benchmark_dspdc.theory import coupling_constant as coupling
from benchmark_dspdc.theory import steps
from benchmark_dspdc.theory.coupling_constant import pair_norms2
from benchmark_dspdc.theory.importance import majorants

N, P, D = 30, 12, 5
ITERATIONS = 200


def uneven_factors(n=N, p=P, d=D, seed=0, heavy=8.0):
    """A tenth of the rows and a sixth of the columns are much longer than the others."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.permutation(n) < n / 10, heavy, 0.5)
    columns = np.where(rng.permutation(p) < p / 6, heavy / 2, 0.5)
    U = rng.standard_normal((n, d)) * rows[:, None]
    return U, rng.standard_normal((d, p)) / np.sqrt(d) * columns


def uneven_problem(operator="dense", loss="square", lambda1=0.01, lambda2=0.1, **shape):
    U, V = uneven_factors(**shape)
    A = U @ V
    rng = np.random.default_rng(7)
    z = A @ np.linspace(-1.0, 1.0, A.shape[1]) + 0.5 * rng.standard_normal(len(A))
    b = z if loss == "square" else np.where(z >= 0.0, 1.0, -1.0)
    stored = {"dense": A, "csr": scipy.sparse.csr_array(A), "factorized": (U, V)}[operator]
    return erm(stored, b, loss, lambda1, lambda2), A


def partitions(n, p, m, q, seed):
    """The partitions that a method with this seed makes, and its generator."""
    seeds = np.random.SeedSequence(seed)
    rng = np.random.default_rng(seeds.spawn(1)[0])
    blocks = partition(n, m, rng), partition(p, q, rng)
    return *blocks, generator(seeds.generate_state(1)[0])


def drawn(dual, primal, parameters, state, n_iterations):
    """Which blocks a run will use."""
    _, p, q, _, tau = parameters
    ahead = np.full((2, 2), -1)
    if len(p) > 1:
        dual = weighted(dual, p)
    if len(q) > 1:
        primal = stepped(primal, q, tau, tau)
    draws = []
    for _ in range(n_iterations):
        lo, first = draw(dual, state, ahead[0])[0], draw(primal, state, ahead[1])[0]
        draws.append((np.searchsorted(dual.starts, lo), np.searchsorted(primal.starts, first)))
    return draws


# Probabilities and steps --------------------------------------------------------------------

def test_equal_norms_give_equal_probabilities_and_the_steps_of_uniform_sampling():
    rng = np.random.default_rng(0)
    for n, p in ((12, 12), (20, 6), (6, 20)):
        A = np.where(rng.random((n, p)) < 0.5, 1.0, -1.0)
        problem = erm(A, rng.standard_normal(n), "square", 0.0, 0.1)
        other = DSPDC(problem, m=1, q=1).info
        given = DSPDC(problem, m=1, q=1, probabilities="importance")
        np.testing.assert_allclose(given._loop.blocks.dual.boosts, n, rtol=1e-12)
        np.testing.assert_allclose(given._loop.blocks.primal.boosts, p, rtol=1e-12)
        np.testing.assert_allclose(given._loop.blocks.primal.taus, other["tau"], rtol=1e-9)
        np.testing.assert_allclose(given._loop.rule.rho, n / other["sigma"], rtol=1e-9)
        # Remark 1's own equation, of which the paper's theta takes an upper bound: (K - r)(K - s)
        # = r^2 s^2 Lambda/(lam gamma n). For r = s the two are equal.
        K, scale = given.info["iterations_per_nat"], 1.0 / (0.1 * n)
        assert (K - n) * (K - p) == pytest.approx((n * p) ** 2 * scale, rel=1e-9)
        assert K <= steps.iterations_per_nat(n, p, scale) * (1.0 + 1e-12)
        if n == p:
            assert given.info["theta"] == pytest.approx(other["theta"], rel=1e-12)

        sdca = SDCA(problem, probabilities="importance")
        np.testing.assert_allclose(sdca._ascent.batches.choice.boosts, n, rtol=1e-12)
        assert sdca.info["iterations_per_nat"] == pytest.approx(n + p / 0.1)
        spdc = SPDC(problem, probabilities="importance")
        np.testing.assert_allclose(spdc._loop.blocks.dual.boosts, n, rtol=1e-12)
        expected = 2 * (n + np.sqrt(p * n / 0.1))
        assert spdc.info["iterations_per_nat"] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_dspdc_probabilities_meet_the_conditions_of_the_theorem(seed):
    rng = np.random.default_rng(seed)
    r, s = rng.integers(1, 40, 2)
    n, lam, gamma = 100, 10.0 ** rng.uniform(-8, 4), 10.0 ** rng.uniform(-3, 3)
    a, b = np.exp(3 * rng.standard_normal(r)), np.exp(3 * rng.standard_normal(s))
    a[rng.random(r) < 0.1] = 0.0
    found = steps.dspdc_importance(n, a, b, lam, gamma)
    K = found.iterations
    assert found.p.sum() == pytest.approx(1.0)
    assert found.q.sum() == pytest.approx(1.0)
    assert min(found.p.min(), found.q.min()) > 0.0
    # tau_J sigma_I |A_I^J|^2 <= n^2 p_I q_J/4, and both halves contract by 1 - 1/K.
    products = np.outer(found.sigma / found.p * a ** 2, found.tau / found.q * b ** 2)
    assert products.max() <= n ** 2 / 4 * (1.0 + 1e-8)
    assert np.max(1 / (2 * lam * found.tau * found.q) + 1 / found.q) <= K * (1.0 + 1e-8)
    assert np.max(n / (2 * gamma * found.sigma * found.p) + 1 / found.p) <= K * (1.0 + 1e-8)
    # Not above the bound that is stated, nor above uniform probabilities.
    scale = 1.0 / np.sqrt(lam * gamma * n)
    assert K <= (r + s + a.sum() * b.sum() * scale) * (1.0 + 1e-9)
    largest = (a.max() * b.max()) ** 2
    assert K <= steps.iterations_per_nat(r, s, largest * scale ** 2) * (1.0 + 1e-9)
    assert np.isfinite(found.theta()).all()
    np.testing.assert_allclose(found.theta(2), (1 - 1 / (2 * K)) / found.q)


def test_dspdc_probabilities_are_the_best_for_a_majorant():
    # Any other probabilities need a larger K.
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.standard_normal(6)), np.exp(rng.standard_normal(4))
    found = steps.dspdc_importance(50, a, b, 0.1, 1.0)

    def least(p, q):
        """The least K that p and q allow for."""
        low, high = 1.0 / min(p.min(), q.min()), 1e9
        for _ in range(200):
            K = 0.5 * (low + high)
            left = np.outer(p * (K * p - 1), q * (K * q - 1))
            enough = (left >= np.outer(a, b) ** 2 / 5.0).all()
            low, high = (low, K) if enough else (K, high)
        return high

    assert least(found.p, found.q) == pytest.approx(found.iterations, rel=1e-6)
    for size in (0.3, 0.01):
        for _ in range(100):
            p = found.p * np.exp(size * rng.standard_normal(6))
            q = found.q * np.exp(size * rng.standard_normal(4))
            assert least(p / p.sum(), q / q.sum()) >= found.iterations * (1.0 - 1e-9)


@pytest.mark.parametrize("loss", daily(LOSSES, "square"))
def test_without_coupling_the_steps_by_importance_are_finite(loss):
    found = steps.dspdc_importance(10, np.zeros(5), np.zeros(2), 0.1, 1.0)
    np.testing.assert_allclose(found.p, 0.2)
    np.testing.assert_allclose(found.q, 0.5)
    assert found.iterations == 5.0
    assert np.isfinite(found.tau).all() and np.isfinite(found.sigma).all()
    assert np.isfinite(steps.spdc_importance(10, np.zeros(5), 0.1, 1.0).tau).all()
    problem = erm(np.zeros((6, 4)), np.ones(6), loss)
    for method in ("dspdc", "spdc", "sdca"):
        assert solve(problem, method, tol=1e-8, probabilities="importance").status == "converged"


@pytest.mark.parametrize(("m", "q"), [(1, 4), (7, 1), (7, 5), (1, 1)])
@pytest.mark.parametrize("operator", OPERATORS)
def test_norms_of_all_pairs(operator, m, q, monkeypatch):
    problem, A = uneven_problem(operator)
    dual, primal, _ = partitions(N, P, m, q, 0)
    exact = plain.block_norms(A, dual.blocks, primal.blocks) ** 2
    norms2, kind = pair_norms2(problem.operator, dual, primal)
    assert kind == "exact"
    np.testing.assert_allclose(norms2, exact, rtol=1e-9)
    found, largest, _ = majorants(problem.operator, dual, primal)
    assert largest == pytest.approx(exact.max())
    assert all((np.outer(*pair) ** 2 >= exact * (1 - 1e-9)).all() for pair in found)

    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    bounds, kind = pair_norms2(problem.operator, dual, primal)
    assert (bounds >= exact * (1 - 1e-9)).all()
    assert kind == "upper bounds" or 1 in (m, q)
    monkeypatch.setattr(coupling, "MOST_PAIRS", 1)
    assert pair_norms2(problem.operator, dual, primal)[0] is None
    found, largest, _ = majorants(problem.operator, dual, primal)
    assert largest >= exact.max() * (1 - 1e-9)
    assert all((np.outer(*pair) ** 2 >= exact * (1 - 1e-9)).all() for pair in found)


def test_batches_are_drawn_with_their_probabilities():
    problem, A = uneven_problem(n=10)
    algorithm = SDCA(problem, seed=3, probabilities="importance")
    weights = 1.0 + np.sum(A ** 2, axis=1) / (problem.lam * problem.gamma * 10)
    expected = weights / weights.sum()
    np.testing.assert_allclose(algorithm._ascent.batches.choice.boosts, 1.0 / expected)
    rows = np.concatenate(drawn_batches(algorithm, 20_000, 3, expected))
    assert chisquare(np.bincount(rows, minlength=10), 20_000 * expected).pvalue > 1e-4


# Iterates of a transcription --------------------------------------------------------------------

CASES = {
    "dspdc rows": ("dspdc", dict(m=4, q=5)),
    "dspdc columns": ("dspdc", dict(m=13, q=2)),
    "dspdc gap": ("dspdc", dict(m=4, q=5, theorem=2)),
    "dspdc rows only": ("dspdc", dict(m=1, q=12)),
    "dspdc columns only": ("dspdc", dict(m=30, q=1)),
    "spdc": ("spdc", dict(m=1)),
    "spdc batches": ("spdc", dict(m=5)),
    "spdc dspdc": ("spdc", dict(m=5, steps="dspdc")),
}


def expected_iterates(A, b, loss, step, lam, gamma, method, options, groups=None, seed=3):
    """The transcription's x, y, xbar; `groups` are the columns of each primal coordinate."""
    n, p = len(A), A.shape[1] if groups is None else len(groups)
    dual, primal, state = partitions(n, p, options["m"], options.get("q", p), seed)
    primal_blocks = primal.blocks
    if groups is not None:
        primal_blocks = [np.concatenate([groups[j] for j in J]) for J in primal_blocks]
    norms = plain.block_norms(A, dual.blocks, primal_blocks)
    authors = method == "spdc" and "steps" not in options
    parameters = (
        plain.spdc_parameters(norms[:, 0], n, lam, gamma) if authors
        else plain.dspdc_parameters(norms, n, lam, gamma)
    )
    contraction = 1 - 1 / (options.get("theorem", 1) * parameters[0])
    draws = drawn(dual, primal, parameters, state, ITERATIONS)
    return plain.dspdc(
        A, b, loss, step, parameters, contraction, dual.blocks, primal_blocks, draws
    )


@pytest.mark.parametrize("loss", daily(LOSSES, "square"))
@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
@pytest.mark.parametrize("case", CASES)
def test_iterates_are_those_of_the_transcription(case, operator, loss):
    method, options = CASES[case]
    problem, A = uneven_problem(operator, loss)
    algorithm = METHODS[method](problem, seed=3, probabilities="importance", **options)
    iterates = expected_iterates(
        A, problem.b, loss, lambda J, c, tau: primal_step(c, tau, 0.01, 0.1), problem.lam,
        problem.gamma, method, options,
    )
    done = 0
    for t, (x, y, _) in enumerate(iterates, 1):
        if t in (1, 2, 3, 10, 50, ITERATIONS):
            algorithm.advance(t - done)
            np.testing.assert_allclose(algorithm.x, x, atol=1e-8)
            np.testing.assert_allclose(algorithm.y, y, atol=1e-8)
            done = t
    assert done == ITERATIONS


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("loss", daily(LOSSES, "square"))
@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_sdca_iterates_are_those_of_the_transcription(operator, loss, m):
    problem, A = uneven_problem(operator, loss)
    algorithm = SDCA(problem, seed=4, m=m, probabilities="importance")
    blocks, _, _ = partitions(N, P, m, P, 4)
    parts = [np.array([i]) for i in range(N)] if m == 1 else blocks.blocks

    def scale_of(K):
        return np.linalg.norm(A[K] / np.linalg.norm(A[K], axis=1, keepdims=True), 2) ** 2

    worst = np.array([scale_of(K) * np.max(np.sum(A[K] ** 2, axis=1)) for K in parts])
    weights = 1.0 + worst / (problem.lam * problem.gamma * N)
    batches = drawn_batches(algorithm, ITERATIONS, 4, weights / weights.sum())
    x, y = prox_sdca(A, problem.b, loss, 0.01, 0.1, batches, scale_of)
    algorithm.advance(ITERATIONS)
    np.testing.assert_allclose(algorithm.x, x, atol=1e-8)
    np.testing.assert_allclose(algorithm.y, y, atol=1e-8)


@pytest.mark.nightly
@pytest.mark.parametrize("lambda1", [0.0, 0.01])
def test_lazy_rows_take_the_steps_of_importance(lambda1, monkeypatch):
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((60, 300), density=0.02, rng=rng, format="csr")
    A.data[:] = rng.standard_normal(len(A.data)) * 4.0 ** rng.standard_normal(len(A.data))
    iterates = []
    for share in (np.inf, 0.0):
        problem = erm(A, rng.permutation(60) - 30.0, "square", lambda1, 0.02)
        problem.b[:] = A @ np.ones(300)
        monkeypatch.setattr(problem.operator, "LAZY", share, raising=False)
        algorithm = SPDC(problem, seed=2, probabilities="importance")
        algorithm.advance(900)
        iterates.append(algorithm.x)
    np.testing.assert_allclose(iterates[0], iterates[1], rtol=1e-9, atol=1e-10)
    assert np.abs(iterates[0]).max() > 0.01


def heavy_rows(written):
    """The same with two heavy rows, its blocks stored."""
    written.D[:2] *= 6.0
    written.b[:2] *= 6.0 if written.loss == "square" else 1.0
    written.problem = written.explicit()
    return written


MATRICES = {
    "blocks": lambda: heavy_rows(
        risk_problem("square", n=12, p=4, d=3, lam=[0.5, 0.3, 0.4, 1.0])
    ),
    "trace": lambda: trace_problem(n=12, p=3, d=3),
    "metrics": lambda: metric_problem(
        "smoothed_hinge", sizes=(4, 4, 4), d=3, n_impostors=1, lambda0=0.2, lam=0.7
    ),
}


@pytest.mark.parametrize(("m", "q"), [(2, 2), (12, 1), (2, 4)])
@pytest.mark.parametrize("kind", daily(MATRICES, "blocks"))
def test_matrix_iterates_are_those_of_the_transcription(kind, m, q):
    written = MATRICES[kind]()
    n, p, d, _ = written.D.shape
    q = min(p, q)
    algorithm = DSPDC(written.problem, seed=3, m=m, q=q, probabilities="importance")
    # In X_j/sqrt(w_j), w_j = lam/lam_j, all moduli are alike.
    roots = np.sqrt(written.lam.min() / written.lam)
    A = (written.D * roots[:, None, None]).reshape(n, -1)

    def step(J, c, tau):
        out = []
        for j, C in zip(J[::d * d] // (d * d), c.reshape(-1, d, d), strict=True):
            own = tau * roots[j] ** 2
            out.append(matrix_step(
                roots[j] * C, own, written.lam[j], written.centre[j], written.linear[j]
            ) / roots[j])
        return np.ravel(out)

    iterates = expected_iterates(
        A, written.b, written.loss, step, written.lam.min(), written.problem.gamma, "dspdc",
        dict(m=m, q=q), np.arange(p * d * d).reshape(p, -1),
    )
    for t, (x, y, _) in enumerate(iterates, 1):
        algorithm.advance(1)
        if t % 20 in (1, 0):
            X = x.reshape(p, d, d) * roots[:, None, None]
            np.testing.assert_allclose(algorithm.x, X, atol=1e-8)
            np.testing.assert_allclose(algorithm.y, y, atol=1e-8)
    assert t == ITERATIONS


# Optima and rates --------------------------------------------------------------------------

RUNS = [
    ("dspdc", dict(m=4, q=0.4)), ("dspdc", dict(m=0.5, q=1)), ("spdc", dict(m=2)),
    ("spdc", dict(m=2, steps="dspdc")), ("sdca", dict(m=1)), ("sdca", dict(m=3)),
]


@pytest.mark.parametrize("kind", daily([*OPERATORS, *MATRICES], "dense", "blocks"))
@pytest.mark.parametrize(("method", "options"), RUNS)
def test_the_gap_closes_on_every_operator(method, options, kind):
    if kind in MATRICES:
        problem = MATRICES[kind]().problem
    else:
        problem, _ = uneven_problem(kind, lambda2=0.2)
    result = solve(
        problem, method, tol=1e-8, max_seconds=None, max_passes=20_000,
        probabilities="importance", **options,
    )
    assert result.status == "converged"
    assert result.relative_gap <= 1e-8
    assert result.info["probabilities"] == "importance"


@cache
def solved():
    problem, A = uneven_problem(n=24, p=8, d=8, lambda1=0.02, lambda2=0.3)
    result = solve(problem, "pdhg", tol=1e-15, max_seconds=None, max_passes=5000)
    assert result.relative_gap < 1e-13
    return problem, A, result.x, result.y


@pytest.mark.parametrize(("m", "q"), [(1, 1), (5, 3), (24, 2), (3, 8)])
def test_delta_contracts_in_the_mean_over_all_pairs_of_blocks(m, q):
    # The inequality of the theorem itself, at the iterates of a run and at random points.
    problem, A, best_x, best_y = solved()
    n, lam, gamma = len(A), problem.lam, problem.gamma
    dual, primal, state = partitions(n, A.shape[1], m, q, 0)
    found, _, _ = majorants(problem.operator, dual, primal)
    importance = min(
        (steps.dspdc_importance(n, *pair, lam, gamma) for pair in found),
        key=lambda each: each.iterations,
    )
    K, p, q = importance.iterations, importance.p, importance.q
    parameters = K, p, q, importance.sigma, importance.tau
    thetas = importance.theta()
    fixed = lam, gamma, parameters, dual.blocks, primal.blocks

    def step(J, c, tau):
        return primal_step(c, tau, 0.02, 0.3)

    rng = np.random.default_rng(0)
    draws = drawn(dual, primal, parameters, state, 60)
    run = list(plain.dspdc(
        A, problem.b, "square", step, parameters, 1 - 1 / K, dual.blocks, primal.blocks, draws
    ))
    states = [
        (x, y, before, J) for (before, _, _), (x, y, _), (_, J)
        in zip(run[::9], run[1::9], draws[1::9], strict=False)
    ]
    for size in (0.01, 1.0, 100.0):
        for J in range(len(primal.blocks)):
            before = best_x + size * rng.standard_normal(len(best_x))
            x = before.copy()
            x[primal.blocks[J]] += size * rng.standard_normal(len(primal.blocks[J]))
            states.append((x, best_y + size * rng.standard_normal(n), before, J))
    for x, y, before, J in states:
        xbar = x + thetas[J] * (x - before)
        mean = 0.0
        for k, I in enumerate(dual.blocks):
            for l, L in enumerate(primal.blocks):
                new_x, new_y, _ = plain.dspdc_iteration(
                    A, problem.b, "square", step, x, y, xbar, I, L, n / importance.sigma[k],
                    importance.tau[l], 1 / p[k], thetas[l],
                )
                after = plain.delta(A, *fixed, new_x, new_y, x, best_x, best_y)
                mean += p[k] * q[l] * after
        now = plain.delta(A, *fixed, x, y, before, best_x, best_y)
        assert now >= 0.0
        assert mean <= (1 - 1 / K) * now * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("m", [1, 4])
def test_the_dual_gap_of_sdca_shrinks_at_the_rate_of_its_theorem(m):
    problem, A, _, best_y = solved()
    best = problem.dual(best_y)
    measured, bounds = [], []
    at = np.array([10, 40, 160, 320])
    for seed in range(60):
        algorithm = SDCA(problem, seed=seed, m=m, probabilities="importance")
        row = []
        for t in at:
            algorithm.advance(t - algorithm.iterations)
            row.append(best - problem.dual(algorithm.y))
        measured.append(row)
        K = algorithm.info["iterations_per_nat"]
        bounds.append((1 - 1 / K) ** at * (best - problem.dual(np.zeros(len(A)))))
        if m == 1:
            assert K == pytest.approx(
                len(A) + np.sum(A ** 2) / (problem.lam * problem.gamma * len(A))
            )
    assert (np.mean(measured, axis=0) <= np.mean(bounds, axis=0) + 1e-13).all()


@pytest.mark.parametrize(("method", "options", "factor"), [
    ("dspdc", dict(m=1, q=1), 20.0), ("dspdc", dict(m=20, q=4), 2.0), ("spdc", dict(m=1), 3.0),
    ("spdc", dict(m=1, steps="dspdc"), 4.0), ("sdca", dict(m=1), 3.0),
])
def test_importance_takes_fewer_iterations_where_norms_are_uneven(method, options, factor):
    problem, _ = uneven_problem(n=100, p=24, d=6, lambda1=1e-4, lambda2=2e-2)
    taken = {}
    for probabilities in ("uniform", "importance"):
        updates = []
        for seed in range(3):
            result = solve(
                problem, method, tol=1e-5, seed=seed, max_seconds=None, max_passes=20_000,
                probabilities=probabilities, **options,
            )
            assert result.status == "converged"
            updates.append(result.history.coordinate_updates.iloc[-1])
        taken[probabilities] = np.median(updates)
    assert taken["uniform"] > factor * taken["importance"]


# Options -----------------------------------------------------------------------------------

BAD = {
    "dspdc subsets": ("dspdc", dict(sampling="subset"), "needs sampling='partition', got"),
    "spdc subsets": ("spdc", dict(sampling="subset"), "needs sampling='partition', got"),
    "spdc subsets, dspdc": (
        "spdc", dict(sampling="subset", steps="dspdc"), "needs sampling='partition', got"
    ),
    "permuted": ("sdca", dict(order="permuted"), "needs order='random', got order='permuted'"),
    "heuristic": ("dspdc", dict(Lambda="heuristic"), "Lambda must be .* got 'heuristic'"),
    "a number": ("dspdc", dict(Lambda=3.0), "Lambda must be 'auto' or 'partition', got 3.0"),
} | {
    f"unknown, {method}": (
        method, dict(probabilities="norms"), "probabilities must be one of 'uniform', 'importance'"
    ) for method in ("dspdc", "spdc", "sdca")
}


@pytest.mark.parametrize("case", BAD)
def test_what_importance_cannot_do_is_refused_with_the_reason(case):
    method, options, message = BAD[case]
    problem, _ = uneven_problem()
    options = dict(probabilities="importance") | options
    with pytest.raises(ValueError, match=message):
        METHODS[method].validate(problem, **options)
    with pytest.raises(ValueError, match=message):
        METHODS[method](problem, **options)

"""Blocks drawn by importance: probabilities, unbiasedness, rates."""

from functools import cache, partial

import numpy as np
import pytest
import transcriptions_importance as plain
from conftest import OPERATORS, PAPER, make_problem, uneven_factors
from method_cases import N, P
from replay import drawn_batches, drawn_pairs, partitions
from scipy.stats import chisquare
from transcriptions import Vectors, algorithm_1, dspdc_iteration

from benchmark_dspdc import erm, solve
from benchmark_dspdc.engine.sampling import Partition
from benchmark_dspdc.methods import DSPDC, METHODS, SDCA, SPDC
from benchmark_dspdc.methods.loop import _restored
from benchmark_dspdc.theory import coupling_constant as coupling
from benchmark_dspdc.theory import steps
from benchmark_dspdc.theory.coupling_constant import pair_norms2
from benchmark_dspdc.theory.importance import majorants


def uneven_problem(operator="dense", lambda1=0.01, lambda2=0.1, **shape):
    problem = make_problem(operator, "square", lambda1, lambda2, factors=uneven_factors, **shape)
    return problem, np.dot(*uneven_factors(**shape))


# Probabilities and steps --------------------------------------------------------------------

def test_equal_norms_give_equal_probabilities_and_the_steps_of_uniform_sampling():
    rng = np.random.default_rng(0)
    for n, p in ((12, 12), (20, 6), (6, 20)):
        A = np.where(rng.random((n, p)) < 0.5, 1.0, -1.0)
        problem = erm(A, rng.standard_normal(n), "square", 0.0, 0.1)
        other = DSPDC(problem, m=1, q=1, **PAPER).info
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


def test_without_coupling_the_steps_by_importance_are_finite():
    found = steps.dspdc_importance(10, np.zeros(5), np.zeros(2), 0.1, 1.0)
    np.testing.assert_allclose(found.p, 0.2)
    np.testing.assert_allclose(found.q, 0.5)
    assert found.iterations == 5.0
    assert np.isfinite(found.tau).all() and np.isfinite(found.sigma).all()
    assert np.isfinite(steps.spdc_importance(10, np.zeros(5), 0.1, 1.0).tau).all()


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


# Unbiased, block by block ---------------------------------------------------------------------

@pytest.mark.parametrize(("method", "options"), [
    ("dspdc", dict(m=4, q=5)), ("dspdc", dict(m=1, q=1)), ("dspdc", dict(m=13, q=2)),
    ("spdc", dict(m=4)), ("spdc", dict(m=4, steps="dspdc")),
])
def test_the_mean_over_all_blocks_is_the_full_step(method, options):
    # Square loss and no l1 term: x is linear in ybar, and y in xbar, so that means of what the
    # kernel computes tell of their means.
    problem, A = uneven_problem(lambda1=0.0)

    def at_40():
        algorithm = METHODS[method](problem, seed=1, probabilities="importance", **options)
        algorithm.advance(40)
        return algorithm

    start = at_40()
    dual, primal = start._loop.blocks.dual, start._loop.blocks.primal
    x, y, rho = start.x, start.y, start._loop.rule.rho
    columns = np.arange(P) if primal.order is None else primal.order
    p = 1.0 / dual.boosts[dual.starts[:-1]]
    q, taus = np.ones(1), np.array([start.info["tau"]])
    if not isinstance(primal, Partition):
        q, taus = 1.0 / primal.boosts[primal.starts[:-1]], primal.taus[primal.starts[:-1]]
    assert p.sum() == pytest.approx(1.0)
    assert q.sum() == pytest.approx(1.0)
    assert p.max() > 1.5 * p.min()

    tau_of = np.empty(P)
    gradients = np.zeros((len(p), P))
    mean_ybar, mean_ahead = np.zeros(N), np.zeros(N)
    for k in range(len(p)):
        for l in range(len(q)):
            one = at_40()
            one._loop.blocks.dual_ahead[:2] = dual.starts[k:k + 2]
            if len(q) > 1:
                one._loop.blocks.primal_ahead[:2] = primal.starts[l:l + 2]
            one.advance(1)
            I = dual.order[dual.starts[k]:dual.starts[k + 1]]
            J = columns[primal.starts[l]:primal.starts[l + 1]]
            assert (np.delete(one.y, I) == np.delete(y, I)).all()
            assert (np.delete(one.x, J) == np.delete(x, J)).all()
            if l == 0:
                mean_ybar += p[k] * y + (one.y - y)
            # What the kernel took for <A^J, ybar>/n, from the step that it did.
            tau_of[J] = taus[l]
            gradients[k, J] = (x[J] - one.x[J] * (1.0 + taus[l] * problem.lam)) / taus[l]
            mean_ahead += p[k] * q[l] * (_products_with_xbar(one, A) - A @ one.x)
    z = _products_with_xbar(start, A)
    np.testing.assert_allclose(mean_ybar, (z - problem.b + rho * y) / (1.0 + rho), atol=1e-8)
    np.testing.assert_allclose(p @ gradients, A.T @ mean_ybar / N, atol=1e-8)
    full = (x - tau_of * (p @ gradients)) / (1.0 + tau_of * problem.lam)
    contraction = 1.0 - 1.0 / start.info["iterations_per_nat"]
    np.testing.assert_allclose(mean_ahead, contraction * (A @ (full - x)), atol=1e-8)


def _products_with_xbar(algorithm, A):
    """A xbar for the next dual step, from what the kernel keeps."""
    state, blocks = algorithm._loop.state, algorithm._loop.blocks
    if hasattr(state, "xbar"):
        return A @ state.xbar
    return state.z + blocks.primal.momenta[blocks.previous[0]] * state.dz


# Rates --------------------------------------------------------------------------------------

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

    written = Vectors(A, problem.b, "square", 0.02, 0.3)
    tau, sigma = plain.by_coordinate(parameters, dual.blocks, primal.blocks)
    rng = np.random.default_rng(0)
    draws = drawn_pairs(dual, primal, parameters, state, 60)
    run = list(algorithm_1(
        written, tau, sigma, [thetas[l] for _, l in draws], [1 / p[k] for k, _ in draws],
        [(dual.blocks[k], primal.blocks[l]) for k, l in draws],
    ))
    states = [
        (x, y, before, J) for (before, _), (x, y), (_, J)
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
                new_x, new_y, _ = dspdc_iteration(
                    written, x, y, xbar, I, L, tau, sigma, thetas[l], 1 / p[k]
                )
                after = plain.delta(A, *fixed, new_x, new_y, x, best_x, best_y)
                mean += p[k] * q[l] * after
        now = plain.delta(A, *fixed, x, y, before, best_x, best_y)
        assert now >= 0.0
        assert mean <= (1 - 1 / K) * now * (1 + 1e-9) + 1e-12


def assert_shrinks(method, options, nats, measures):
    """The mean over seeds of a measure is below that of its bounds, (1 - 1/K)^t times the first.

    Of an algorithm `measures` gives the function of x and y, and what it is at the start.
    """
    measured, bounds = [], []
    for seed in range(60):
        algorithm = METHODS[method](
            solved()[0], seed=seed, probabilities="importance", **options
        )
        K = algorithm.info["iterations_per_nat"]
        if seed == 0:
            at = np.unique((K * np.array(nats)).astype(int))
        # Partitions differ between seeds, and so do K and the weights.
        measure, first = measures(algorithm)
        bounds.append((1 - 1 / K) ** at * first)
        row = []
        for t in at:
            algorithm.advance(t - algorithm.iterations)
            row.append(measure(algorithm.x, algorithm.y))
        measured.append(row)
    assert (np.mean(measured, axis=0) <= np.mean(bounds, axis=0) + 1e-13).all()


@pytest.mark.parametrize(("method", "options"), [
    ("dspdc", dict(m=1, q=1)), ("dspdc", dict(m=5, q=3)), ("dspdc", dict(m=24, q=2)),
    ("spdc", dict(m=1)), ("spdc", dict(m=5)),
])
def test_distances_shrink_at_the_rate_of_the_theorem(method, options):
    problem, A, best_x, best_y = solved()

    def measures(algorithm):
        weights = distance_weights(algorithm, len(A), problem.lam, problem.gamma)

        def W(k, x, y):
            of_x, of_y = weights(k)
            return of_x @ (x - best_x) ** 2 + of_y @ (y - best_y) ** 2
        return partial(W, 4), W(2, np.zeros_like(best_x), np.zeros(len(A)))
    assert_shrinks(method, options, (0.5, 1, 2, 4, 8), measures)


def distance_weights(algorithm, n, lam, gamma):
    """Those of W_k: (s_J/(2 tau_J) + s_J lam) and (r_I/(k sigma_I) + r_I gamma/n)."""
    dual, primal = algorithm._loop.blocks.dual, algorithm._loop.blocks.primal
    taus, s = np.full(algorithm.problem.shape[1], algorithm.info["tau"]), 1.0
    if not isinstance(primal, Partition):
        taus, s = per_coordinate(primal, primal.taus), per_coordinate(primal, primal.boosts)
    r = 1.0 if isinstance(dual, Partition) else per_coordinate(dual, dual.boosts)
    rho = _restored(algorithm._loop.rule.rho, algorithm._loop.y_order)
    return lambda k: (s * (0.5 / taus + lam), r * (rho / (k * n) + gamma / n))


def per_coordinate(sampler, at_starts):
    out = np.empty(len(sampler.order))
    out[sampler.order] = np.repeat(at_starts[sampler.starts[:-1]], np.diff(sampler.starts))
    return out


@pytest.mark.parametrize("m", [1, 4])
def test_the_dual_gap_of_sdca_shrinks_at_the_rate_of_its_theorem(m):
    problem, A, _, best_y = solved()
    n, best = len(A), problem.dual(best_y)

    def measures(algorithm):
        if m == 1:
            expected = n + np.sum(A ** 2) / (problem.lam * problem.gamma * n)
            assert algorithm.info["iterations_per_nat"] == pytest.approx(expected)
        return lambda x, y: best - problem.dual(y), best - problem.dual(np.zeros(n))
    assert_shrinks("sdca", dict(m=m), (0.1, 0.5, 2, 4), measures)


@pytest.mark.parametrize(("method", "options", "factor"), [
    ("dspdc", dict(m=1, q=1, **PAPER), 20.0), ("dspdc", dict(m=20, q=4, **PAPER), 2.0),
    ("spdc", dict(m=1), 3.0),
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


def test_an_order_that_is_no_word_is_refused():
    with pytest.raises(ValueError, match="order must be one of 'random', 'permuted', got array"):
        solve(make_problem(), "sdca", probabilities="importance", order=np.array([1.0, 2.0]))

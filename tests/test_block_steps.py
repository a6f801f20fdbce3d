"""Steps by block, the split between the two sides, and blocks in permuted order."""

import numpy as np
import pytest
from conftest import make_problem, stored_as
from method_cases import compare
from replay import drawn_blocks
from test_theorems import assert_holds, assert_violated, distances, solved
from transcriptions import Vectors, algorithm_1

from benchmark_dspdc import erm, solve
from benchmark_dspdc.engine.sampling import draw, generator, partition, permuted
from benchmark_dspdc.methods import DSPDC
from benchmark_dspdc.theory.coupling_constant import row_block_shares, whole
from benchmark_dspdc.theory.steps import LEAST_SHARE, dspdc, dspdc_split

N, P, D = 12, 8, 2
SEEDS = 48


def uneven(operator="dense", loss="smoothed_hinge", lambda2=0.1):
    """A = UV with rows of very different norms, one of them zero, and its solution."""
    rng = np.random.default_rng(0)
    U, V = rng.choice([-1.0, 1.0], (N, D)), rng.choice([-1.0, 1.0], (D, P))
    U *= np.geomspace(0.1, 2.0, N)[:, None]
    U[0] = 0.0
    b = np.where(rng.random(N) > 0.5, 1.0, -1.0)
    return solved(erm(stored_as(operator, U, V), b, loss, 0.0, lambda2), U @ V, lambda2)


@pytest.fixture(scope="module")
def case():
    return uneven()


def blocks_of(algorithm):
    """The index arrays of the dual and the primal blocks, and sigma of each dual coordinate."""
    loop = algorithm._loop
    found = []
    for sampler, order in ((loop.blocks.dual, loop.y_order), (loop.blocks.primal, loop.x_order)):
        order = sampler.order if order is None else order
        found.append(np.split(order, sampler.starts[1:-1]))
    n = algorithm.problem.shape[0]
    rho = np.empty(n)
    rho[slice(None) if loop.y_order is None else loop.y_order] = loop.rule.rho
    with np.errstate(divide="ignore"):
        return *found, n / rho


SIZES = [(1, P), (1, 3), (4, 3), (5, P), (N, 2), (N, P)]


@pytest.mark.parametrize(("m", "q"), SIZES)
def test_the_conditions_of_the_theorem_are_met_by_every_pair_of_blocks(case, m, q):
    algorithm = DSPDC(case.problem, m=m, q=q, steps="block", Lambda="partition")
    dual, primal, sigma = blocks_of(algorithm)
    tau, r, s = algorithm.info["tau"], len(dual), len(primal)
    lam, gamma = case.problem.lam, case.problem.gamma
    K = 1.0 / algorithm.info["rate"]
    products = []
    for rows in dual:
        assert len(set(sigma[rows])) == 1
        norms2 = [np.linalg.norm(case.A[np.ix_(rows, columns)], 2) ** 2 for columns in primal]
        if max(norms2) > 0.0:
            products.append(tau * sigma[rows[0]] * max(norms2) * 4.0 * r * s / N**2)
            assert r + N * r / (2.0 * gamma * sigma[rows[0]]) <= K * (1.0 + 1e-12)
    # Condition (1) with equality: no block is held back more than it must be.
    np.testing.assert_allclose(products, 1.0, rtol=1e-9)
    assert s + s / (2.0 * lam * tau) <= K * (1.0 + 1e-12)
    assert algorithm.info["theta"] == pytest.approx(s * (1.0 - 1.0 / K))


def shares(case, m, q, fault=None, nats=6.0):
    """measured/bound of the theorem of docs/steps.md at ten times, a row for each seed."""
    n, rows = N, []
    lam, gamma = case.moduli.min(), case.problem.gamma
    for seed in range(1 if (m, q) == (N, P) else SEEDS):
        algorithm = DSPDC(case.problem, seed=seed, m=m, q=q, steps="block", Lambda="partition")
        dual, primal, sigma = blocks_of(algorithm)
        r, s, K = len(dual), len(primal), 1.0 / algorithm.info["rate"]
        tau = algorithm.info["tau"]
        if fault is not None:
            fault(algorithm)

        def W(k, x, y, r=r, s=s, tau=tau, sigma=sigma):
            dx, _ = distances(case, x, y)
            weights = r / (k * sigma) + r * gamma / n
            return (s / (2 * tau) + s * lam) * dx + weights @ (y - case.y) ** 2
        at = np.ceil(np.linspace(0.0, nats * K, 11)[1:]).astype(int)
        bounds = (1.0 - 1.0 / K) ** at * W(2, np.zeros(P), np.zeros(N))
        measured = []
        for t in at:
            algorithm.advance(t - algorithm.iterations)
            measured.append(W(4, algorithm.x, algorithm.y))
        rows.append(measured / bounds)
    return np.array(rows)


@pytest.mark.parametrize("operator", ["dense", "csr", "factorized"])
@pytest.mark.parametrize(("m", "q"), SIZES)
def test_the_theorem_holds_for_steps_by_block(m, q, operator):
    assert_holds(shares(uneven(operator), m, q))


def longer(factor):
    def fault(algorithm):
        loop = algorithm._loop
        loop.rule = loop.rule._replace(rho=loop.rule.rho / factor)
        loop.steps = loop.steps._replace(
            tau=factor * loop.steps.tau, tau_over_n=factor * loop.steps.tau_over_n
        )
    return fault


def for_all(algorithm):
    """The step of the lightest block for all of them."""
    loop = algorithm._loop
    rho = np.full_like(loop.rule.rho, loop.rule.rho[loop.rule.rho > 0.0].min())
    loop.rule = loop.rule._replace(rho=rho)


@pytest.mark.parametrize(("fault", "m"), [(longer(6.0), 4), (for_all, 1)])
def test_steps_that_are_too_long_violate_the_bound(fault, m):
    assert_violated(shares(uneven(lambda2=0.01), m, P, fault, nats=10.0))


@pytest.mark.parametrize(("r", "s"), [(1, 1), (10, 1), (1, 10), (7, 7), (1000, 3)])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e-3, 1.0, 1e4])
def test_the_split_keeps_the_product_and_makes_K_little_larger(r, s, scale):
    n, lam, gamma = 100, 0.1, 2.0
    Lambda = scale * lam * gamma * n
    paper, (steps, K) = (f(n, r, s, Lambda, lam, gamma) for f in (dspdc, dspdc_split))
    q1, q2 = s / (2 * lam * steps.tau), n * r / (2 * gamma * steps.sigma)
    assert K == pytest.approx(max(s + q1, r + q2), rel=1e-9)
    if scale > 0.0:
        assert steps.tau * steps.sigma == pytest.approx(n**2 / (4 * r * s * Lambda), rel=1e-9)
    # The paper's own K solves (K - r)(K - s) = r^2 s^2 Lambda/(lam gamma n).
    both = max(s + s / (2 * lam * paper.tau), r + n * r / (2 * gamma * paper.sigma))
    assert K <= (1.0 + LEAST_SHARE) * both * (1.0 + 1e-9)
    # x is held back no more than before, where there are more dual blocks.
    assert steps.tau >= paper.tau * (1.0 - 1e-9) if r >= s else steps.sigma >= paper.sigma * 0.999


def test_shares_are_exact_for_rows_and_estimated_where_norms_cost_too_much(case):
    operator = case.problem.operator
    rows = partition(N, 1, np.random.default_rng(0))
    found, exact = row_block_shares(operator, rows, whole(P), 0)
    norms2 = np.sum(case.A**2, axis=1)[rows.order]
    np.testing.assert_allclose(found, norms2 / norms2.max())
    assert exact
    blocks = partition(N, 4, np.random.default_rng(0))
    found, exact = row_block_shares(operator, blocks, whole(P), np.inf)
    norms2 = np.array([np.linalg.norm(case.A[I], 2) ** 2 for I in blocks.blocks])
    np.testing.assert_allclose(found, norms2 / norms2.max())
    assert exact
    found, exact = row_block_shares(operator, blocks, whole(P), 0)
    norms2 = np.array([np.sum(case.A[I] ** 2) for I in blocks.blocks])
    np.testing.assert_allclose(found, norms2 / norms2.max())
    assert not exact
    zero = erm(np.zeros((4, 2)), np.ones(4)).operator
    np.testing.assert_array_equal(row_block_shares(zero, whole(4), whole(2), 0)[0], [1.0])


@pytest.mark.parametrize("order", ["random", "permuted"])
@pytest.mark.parametrize(("m", "q"), [(1, P), (4, 3), (5, P)])
def test_a_run_agrees_with_algorithm_1_with_the_steps_of_its_blocks(case, m, q, order):
    algorithm = DSPDC(case.problem, seed=3, m=m, q=q, steps="block", order=order)
    *_, sigma = blocks_of(algorithm)
    blocks = drawn_blocks(algorithm, 60, 3)
    tau, theta, r = (algorithm.info[name] for name in ("tau", "theta", "r"))
    plain = Vectors(case.A, case.problem.b, "smoothed_hinge", 0.0, 0.1)
    iterates = algorithm_1(plain, tau, np.minimum(sigma, 1e300), theta, r, blocks)
    compare(algorithm, iterates, plain, (1, 2, 20, 60))


def test_in_permuted_order_every_block_comes_once_an_epoch():
    blocks = permuted(partition(10, 3, np.random.default_rng(0)))
    random, ahead = generator(0), np.full(2, -1)
    epochs = [[int(draw(blocks, random, ahead)[0]) for _ in range(4)] for _ in range(30)]
    assert all(sorted(epoch) == list(blocks.starts[:-1]) for epoch in epochs)
    assert len(set(map(tuple, epochs))) > 10
    one = permuted(partition(5, 5, None))
    assert draw(one, random, ahead) == (0, 5)


@pytest.mark.parametrize("operator", ["dense", "csr", "factorized"])
@pytest.mark.parametrize("options", [
    dict(steps="block"), dict(order="permuted"), dict(steps="block", order="permuted"),
    dict(steps="block", order="permuted", adaptive=True),
])
def test_runs_reach_the_optimum_and_say_what_they_did(operator, options):
    problem = make_problem(operator)
    best = solve(problem, "sdca", tol=1e-10)
    found = solve(problem, "dspdc", tol=1e-8, **options)
    assert found.status == "converged"
    assert found.primal == pytest.approx(best.primal, abs=1e-7)
    for name, value in options.items():
        assert found.info[name] == value


def test_only_covered_runs_have_a_rate(case):
    def rate(**options):
        return DSPDC(case.problem, m=4, q=3, **options).predicted_rate
    assert np.isfinite(rate(steps="block", Lambda="partition"))
    assert np.isnan(rate(steps="block", order="permuted"))
    assert np.isnan(rate(steps="block", Lambda=100.0))


@pytest.mark.parametrize(("A", "b"), [
    (np.zeros((4, 3)), np.ones(4)), (np.ones((1, 3)), np.ones(1)), (np.ones((5, 1)), np.ones(5)),
    (np.eye(4)[:, :3], np.array([1.0, -1.0, 1.0, -1.0])), (np.full((4, 2), 3.0), -np.ones(4)),
])
def test_empty_single_and_constant_data_work(A, b):
    for options in (dict(), dict(m=1, q=1), dict(adaptive=True)):
        found = solve(erm(A, b, lambda2=0.1), "dspdc", steps="block", order="permuted", tol=1e-8,
                      **options)
        assert found.status == "converged", options


@pytest.mark.parametrize(("options", "message"), [
    (dict(steps="row"), "steps must be one of 'theorem', 'block', got 'row'"),
    (dict(order="cyclic"), "order must be one of 'random', 'permuted', got 'cyclic'"),
    (dict(steps="block", sampling="subset"), "steps='block' is for the blocks of a partition that "
                                             "are equally likely, got sampling='subset'"),
    (dict(order="permuted", probabilities="importance"), "order='permuted' is for the blocks of"),
])
def test_what_cannot_be_is_refused_with_the_reason(options, message):
    with pytest.raises(ValueError, match=message):
        solve(make_problem(), "dspdc", **options)

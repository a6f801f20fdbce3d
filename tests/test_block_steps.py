"""Steps by block, the split between the two sides, and blocks in permuted order."""

import numpy as np
import pytest
import scipy.sparse
from conftest import OPERATORS, PAPER, make_problem, stored_as, uneven_factors
from matrix_cases import risk_problem
from method_cases import compare
from replay import drawn_blocks
from test_theorems import assert_holds, assert_violated, distances, solved
from transcriptions import Vectors, algorithm_1

from benchmark_dspdc import erm, solve
from benchmark_dspdc.engine.sampling import draw, generator, partition, permuted
from benchmark_dspdc.methods import DSPDC
from benchmark_dspdc.methods.dspdc import COMMON, UNEVEN
from benchmark_dspdc.theory.block_sizes import estimated_norms2
from benchmark_dspdc.theory.coupling_constant import row_block_shares, whole
from benchmark_dspdc.theory.setting import practice
from benchmark_dspdc.theory.steps import LEAST_SHARE, balanced_share, dspdc, dspdc_split

N, P, D = 12, 8, 2
SEEDS = 48

#: Steps by block and nothing else that the paper has not.
BLOCK = PAPER | dict(steps="block", column_steps=False)


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
    return *found, steps_of(algorithm)[1]


def steps_of(algorithm):
    """tau of each primal and sigma of each dual coordinate, as the kernel has them."""
    loop, found = algorithm._loop, []
    for values, order, size in zip(
        (loop.steps.tau, loop.rule.rho), (loop.x_order, loop.y_order),
        reversed(algorithm.problem.shape), strict=True,
    ):
        out = np.empty(size)
        out[slice(None) if order is None else order] = values
        found.append(out)
    tau, rho = found
    with np.errstate(divide="ignore"):
        return tau, len(rho) / rho


def products_of_steps(algorithm, A):
    """|diag(sigma)^(1/2) A_I^J diag(tau)^(1/2)|^2 4 r s/n^2 of all pairs of blocks.

    The theorem asks for at most 1. Without coupling a step may be infinite; 0 then.
    """
    dual, primal, _ = blocks_of(algorithm)
    tau, sigma = steps_of(algorithm)
    n = len(A)
    weighed = np.sqrt(np.where(np.isfinite(sigma), sigma, 0.0))[:, None] * A * np.sqrt(tau)
    return 4.0 * len(dual) * len(primal) / n ** 2 * np.array([
        [np.linalg.norm(weighed[np.ix_(I, J)], 2) ** 2 for J in primal] for I in dual
    ])


SIZES = [(1, P), (1, 3), (4, 3), (5, P), (N, 2), (N, P)]


@pytest.mark.parametrize(("m", "q"), SIZES)
def test_the_conditions_of_the_theorem_are_met_by_every_pair_of_blocks(case, m, q):
    algorithm = DSPDC(case.problem, m=m, q=q, Lambda="partition", **BLOCK)
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
        algorithm = DSPDC(case.problem, seed=seed, m=m, q=q, Lambda="partition", **BLOCK)
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


def test_the_split_lets_x_and_y_come_closer_equally_fast():
    for product in np.geomspace(1e-5, 0.15, 30):
        delta = balanced_share(product)
        assert delta / (2 * product) == pytest.approx(np.log1p(1 / (2 * delta)), rel=0.125)
    assert balanced_share(10.0) == LEAST_SHARE
    # Of the steps themselves, an epoch of many blocks.
    n, lam, gamma = 1000, 0.1, 2.0
    (tau, sigma, _), _ = dspdc_split(n, n, 1, 0.02 * lam * gamma * n, lam, gamma)
    assert n * np.log1p(tau * lam) == pytest.approx(np.log1p(sigma * gamma / n), rel=0.125)


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
    estimated, exact = row_block_shares(operator, blocks, whole(P), 0)
    assert not exact and estimated.max() == 1.0
    np.testing.assert_allclose(estimated, norms2 / norms2.max(), rtol=0.6)
    zero = erm(np.zeros((4, 2)), np.ones(4)).operator
    np.testing.assert_array_equal(row_block_shares(zero, whole(4), whole(2), 0)[0], [1.0])


def test_estimated_norms_of_blocks_with_heavy_rows():
    # A block is no lighter than its heaviest row, and rows that have much in common add up.
    rng = np.random.default_rng(0)
    for A in (np.exp(1.5 * rng.standard_normal((400, 1))) * rng.standard_normal((400, 200)),
              1.0 + 0.1 * rng.standard_normal((400, 200))):
        operator, blocks = erm(A, np.ones(400)).operator, partition(400, 8, rng)
        found = estimated_norms2(operator, blocks, whole(200))
        norms2 = np.array([np.linalg.norm(A[I], 2) ** 2 for I in blocks.blocks])
        heaviest = np.array([np.sum(A[I] ** 2, axis=1).max() for I in blocks.blocks])
        assert np.all(found >= heaviest * (1.0 - 1e-12))
        assert np.all((0.5 <= found / norms2) & (found / norms2 <= 2.0))


@pytest.mark.parametrize("order", ["random", "permuted"])
@pytest.mark.parametrize(("m", "q"), [(1, P), (4, 3), (5, P)])
def test_a_run_agrees_with_algorithm_1_with_the_steps_of_its_blocks(case, m, q, order):
    algorithm = DSPDC(case.problem, seed=3, m=m, q=q, **(BLOCK | dict(order=order)))
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
    PAPER, BLOCK, PAPER | dict(order="permuted"), BLOCK | dict(order="permuted"),
    BLOCK | dict(order="permuted", adaptive=True),
    dict(steps="block", order="permuted", adaptive=True, column_steps=True),
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
    assert np.isfinite(rate(**BLOCK))
    assert np.isfinite(rate(Lambda="partition", **BLOCK))
    assert np.isfinite(rate(Lambda="partition", **(BLOCK | dict(column_steps=True))))
    assert np.isnan(rate(**(BLOCK | dict(order="permuted"))))
    assert np.isnan(rate(**(BLOCK | dict(adaptive=True))))
    assert np.isnan(rate(Lambda=100.0, **BLOCK))
    assert np.isnan(rate())


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("U", "V"), [
    (np.zeros((4, 1)), np.zeros((1, 3))), (np.ones((1, 1)), np.ones((1, 3))),
    (np.ones((5, 1)), np.ones((1, 1))), (np.ones((1, 1)), np.ones((1, 1))),
    (np.eye(4), np.eye(4)[:, :3]), (np.ones((4, 1)), np.full((1, 2), 3.0)),
    # Rows and columns of zeros beside some in very different units.
    (np.diag([0.0, 1.0, 1.0, 2.0]), np.array([[1.0, 0, 1], [1, 0, 0.01], [0, 0, 9], [5, 0, 1]])),
])
def test_empty_single_and_constant_data_work(U, V, operator):
    b = np.where(np.arange(len(U)) % 2, -1.0, 1.0)
    problem = erm(stored_as(operator, U, V), b, lambda2=0.1)
    for options in (
        dict(), dict(m=1, q=1), dict(adaptive=False), dict(column_steps=True), dict(m=1.0, q=1.0),
        dict(m=1, q=1, steps="theorem"),
    ):
        found = solve(problem, "dspdc", tol=1e-8, **options)
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


# What "auto" stands for --------------------------------------------------------------------

TUNED, AS_IN_THE_PAPER = ("block", "permuted", True), ("theorem", "random", False)


@pytest.mark.parametrize(("options", "expected"), [
    ({}, TUNED), (dict(steps="theorem"), ("theorem", "permuted", True)),
    (dict(order="random"), ("block", "random", True)),
    (dict(adaptive=False), ("block", "permuted", False)),
    (dict(sampling="subset"), AS_IN_THE_PAPER),
    (dict(sampling="subset", adaptive=True), ("theorem", "random", True)),
    (dict(probabilities="importance"), AS_IN_THE_PAPER),
    *((dict(Lambda=Lambda), AS_IN_THE_PAPER) for Lambda in ("partition", "bound", 3.0)),
    (dict(Lambda="heuristic"), AS_IN_THE_PAPER),
    # What is asked for is had, also with a Lambda.
    (dict(Lambda="partition", steps="block"), ("block", "random", False)),
    (dict(Lambda=3.0, order="permuted", adaptive=True), ("theorem", "permuted", True)),
])
def test_auto_is_practice_except_where_the_paper_has_blocks_or_a_lambda_of_its_own(
        options, expected):
    assert practice(**options) == expected
    names = ("steps", "order", "adaptive")
    asked = options | {name: "auto" for name in names if name not in options}
    settled = DSPDC.settled(**asked)
    assert tuple(settled[name] for name in names) == expected
    if options.get("probabilities") != "importance":
        info = DSPDC(make_problem(), m=4, q=3, **options).info
        assert tuple(info[name] for name in names) == expected


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_done_by_default_is_what_can_be_asked_for_bit_for_bit(operator):
    problem = make_problem(operator, factors=uneven_factors)
    named = dict(steps="block", order="permuted", adaptive=True, column_steps=True)
    runs = [
        DSPDC(problem, seed=seed, m=5, q=4, **options)
        for seed, options in ((3, {}), (3, {}), (3, named), (4, {}))
    ]
    for algorithm in runs:
        algorithm.advance(500)
    one, same, asked, other = runs
    for again in (same, asked):
        np.testing.assert_array_equal(one.x, again.x)
        np.testing.assert_array_equal(one.y, again.y)
        assert one.passes == again.passes
    assert not np.array_equal(one.x, other.x)


# Steps by column ---------------------------------------------------------------------------

def in_units(units, n=60, density=1.0, seed=0):
    """Columns in these units; of each row only a share is there."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, len(units))) * units
    return np.where(rng.random(A.shape) < density, A, 0.0)


def posed_as(operator, A, lambda2=0.1):
    b = np.where(np.arange(len(A)) % 2, -1.0, 1.0)
    return erm(stored_as(operator, A, np.eye(A.shape[1])), b, lambda2=lambda2)


UNITS = np.array([0.01, 1.0, 30.0, 1.0, 0.1, 2.0, 0.5, 1.0])


@pytest.mark.parametrize("operator", OPERATORS)
def test_columns_in_other_units_have_steps_of_their_own(operator):
    A = in_units(UNITS)
    algorithm = DSPDC(posed_as(operator, A), m=10, q=3)
    assert algorithm.info["column_steps"]
    tau, _ = steps_of(algorithm)
    units = np.sqrt(np.mean(A ** 2, axis=0))
    np.testing.assert_allclose(tau, tau.min() * units.max() / units)
    # What is told is the shortest, that of the largest unit.
    assert algorithm.info["tau"] == pytest.approx(tau.min())
    alike, _ = steps_of(DSPDC(posed_as(operator, A), m=10, q=3, column_steps=False))
    assert len(set(alike)) == 1


def test_columns_without_entries_have_the_shortest_step():
    A = in_units(UNITS)
    A[:, 3] = 0.0
    tau, _ = steps_of(DSPDC(posed_as("dense", A), m=10, q=3))
    assert tau[3] == tau.min() and np.isfinite(tau).all()


def test_columns_have_steps_of_their_own_only_where_units_are_uneven_and_known():
    def switched_on(A, operator="csr", **options):
        return DSPDC(posed_as(operator, A), m=10, q=3, **options).info["column_steps"]
    just = np.where(np.arange(8) % 2, 1.0, 0.9 * UNEVEN)
    assert not switched_on(np.sign(in_units(np.ones(8))) * just)
    assert switched_on(np.sign(in_units(np.ones(8))) * just, column_steps=True)
    assert switched_on(np.sign(in_units(np.ones(8))) * np.where(just > 1.0, 1.1 * UNEVEN, 1.0))
    # Half of the columns are rare, and only these differ.
    for entries, expected in ((COMMON - 1, False), (COMMON, True)):
        A = np.sign(in_units(np.ones(8), n=2 * COMMON))
        A[entries:, ::2] = 0.0
        A[:, 0] *= 100.0
        assert switched_on(A) == switched_on(A, "dense") == expected
    # Where all are rare the most common ones tell.
    A = np.sign(in_units(UNITS, n=12)) * UNITS
    assert switched_on(A)
    A[2:, UNITS != 1.0] = 0.0
    assert not switched_on(A)
    assert not switched_on(np.zeros((12, 8)))
    assert not switched_on(np.zeros((12, 8)), column_steps=True)


@pytest.mark.parametrize("operator", OPERATORS)
def test_heavy_rows_alone_do_not_tell_the_unit_of_a_column(operator):
    A = np.sign(in_units(np.ones(8), n=60))
    # Half of the columns are heavier in a tenth of the rows, which are heavy altogether.
    A[:6] *= 100.0
    A[:6, ::2] *= 20.0
    units = posed_as(operator, A).operator.column_units()
    assert units.max() > UNEVEN * units.min()
    assert not DSPDC(posed_as(operator, A), m=10, q=3).info["column_steps"]
    np.testing.assert_allclose(
        posed_as(operator, A).operator.column_units(of_directions=True),
        np.sqrt(np.mean((A / np.linalg.norm(A, axis=1)[:, None]) ** 2, axis=0)),
    )
    # In all rows they do.
    A[:, ::2] *= 20.0
    assert DSPDC(posed_as(operator, A), m=10, q=3).info["column_steps"]


def test_entries_that_are_stored_zeros_do_not_tell_a_unit():
    A = in_units(UNITS, density=0.4)
    stored = scipy.sparse.csr_array(np.where(A == 0.0, 7.0, A))
    stored.data[stored.data == 7.0] = 0.0
    for form in (A, scipy.sparse.csr_array(A), stored):
        operator = erm(form, np.ones(len(A))).operator
        np.testing.assert_array_equal(operator.column_counts, np.count_nonzero(A, axis=0))


@pytest.mark.parametrize("operator", OPERATORS)
def test_norms_are_measured_in_units_of_the_steps(operator):
    A, weights = in_units(UNITS), np.linspace(0.5, 4.0, 8)
    problem = posed_as(operator, A)
    weighted = problem.weighted(weights)
    full = A * np.sqrt(weights)
    np.testing.assert_allclose(weighted.operator.row_norms2, np.sum(full ** 2, axis=1))
    np.testing.assert_allclose(weighted.operator.column_norms2, np.sum(full ** 2, axis=0))
    np.testing.assert_allclose(weighted.operator.matvec(np.ones(8)), full.sum(axis=1))
    assert problem.weighted(None) is problem
    # The problem itself stays as it is.
    np.testing.assert_allclose(problem.operator.row_norms2, np.sum(A ** 2, axis=1))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("m", "q"), [(1, 8), (1, 3), (7, 3), (10, 8), (60, 2), (60, 8)])
def test_steps_by_column_meet_the_conditions_of_the_theorem_for_all_blocks(operator, m, q):
    A = in_units(UNITS)
    A[5] = 0.0
    problem = posed_as(operator, A)
    options = BLOCK | dict(column_steps=True, Lambda="partition")
    algorithm = DSPDC(problem, m=m, q=q, **options)
    K, (tau, sigma) = 1.0 / algorithm.info["rate"], steps_of(algorithm)
    dual, primal, _ = blocks_of(algorithm)
    heaviest = products_of_steps(algorithm, A).max(axis=1)
    # No more than the theorem allows, and for every dual block all of it.
    np.testing.assert_allclose(heaviest[heaviest > 0.0], 1.0, rtol=1e-9)
    assert (heaviest == 0.0).sum() == (m == 1)
    r, s, lam, gamma = len(dual), len(primal), problem.lam, problem.gamma
    assert (s + s / (2.0 * lam * tau) <= K * (1.0 + 1e-12)).all()
    assert (r + len(A) * r / (2.0 * gamma * sigma) <= K * (1.0 + 1e-12)).all()
    assert algorithm.info["theta"] == pytest.approx(s * (1.0 - 1.0 / K))


def test_a_lambda_that_is_given_is_not_taken_for_one_in_other_units():
    A = np.ones((20, 30)) * np.where(np.arange(30) > 0, 0.05, 1.0)
    problem, Lambda = posed_as("dense", A), np.linalg.norm(A, 2) ** 2
    algorithm = DSPDC(problem, m=20, q=30, Lambda=Lambda, steps="block")
    assert not algorithm.info["column_steps"]
    assert products_of_steps(algorithm, A).max() == pytest.approx(1.0)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("m", "q"), [(1, 8), (7, 3), (60, 2)])
def test_a_run_by_default_agrees_with_algorithm_1_until_its_steps_change(operator, m, q):
    A = in_units(UNITS)
    problem = posed_as(operator, A)
    algorithm = DSPDC(problem, seed=3, m=m, q=q)
    count = min(algorithm._until - 1, 60)
    blocks, (tau, sigma) = drawn_blocks(algorithm, count, 3), steps_of(algorithm)
    theta, r = (algorithm.info[name] for name in ("theta", "r"))
    plain = Vectors(A, problem.b, "smoothed_hinge", problem.reg.lambda1, 0.1)
    iterates = algorithm_1(plain, tau, sigma, theta, r, blocks)
    compare(algorithm, iterates, plain, (1, 2, count))


@pytest.mark.parametrize(("problem", "options", "got"), [
    (make_problem(), dict(steps="theorem"), "steps='theorem' and dense"),
    (make_problem(), dict(Lambda="partition"), "steps='theorem' and dense"),
    (make_problem(), dict(sampling="subset"), "steps='theorem' and dense"),
    (risk_problem().problem, {}, "steps='block' and matrix blocks"),
])
def test_steps_by_column_are_refused_where_there_are_none(problem, options, got):
    message = f"column_steps=True is for columns of numbers and steps='block', got {got}"
    with pytest.raises(ValueError, match=message):
        solve(problem, "dspdc", column_steps=True, **options)
    with pytest.raises(ValueError, match="column_steps must be true or false, got 'some'"):
        solve(problem, "dspdc", column_steps="some")

"""SDNA, and batches whose norms are estimated: identities, its theorem, watched estimates."""

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import transcriptions_field as authors
from conftest import OPERATORS, make_factors, make_problem
from matrix_cases import SMALL
from method_cases import optimum
from transcriptions import Vectors

from benchmark_dspdc import erm, solve
from benchmark_dspdc.engine.sampling import generator
from benchmark_dspdc.methods import METHODS, apcg, dual_ascent, sdna
from benchmark_dspdc.state.gram_ascent import DRAWN, SHUFFLED, take_rows
from benchmark_dspdc.theory import coupling_constant
from benchmark_dspdc.theory.block_sizes import estimated_norms2

N, P, D = 30, 12, 5


def correlated(n=200, p=40, rank=4, loss="smoothed_hinge", lambda2=1e-4):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    A += 0.3 * rng.standard_normal((n, p))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    z = A @ rng.standard_normal(p)
    return erm(A, z if loss == "square" else np.sign(z), loss, 0.0, lambda2)


def assert_same_run(problem, order="random"):
    one, other = (METHODS[name](problem, seed=3, m=1, order=order) for name in ("sdca", "sdna"))
    for algorithm in (one, other):
        algorithm.advance(100)
    np.testing.assert_array_equal(one.y, other.y)
    assert one.y.any()
    np.testing.assert_array_equal(one._counters, other._counters)


@pytest.mark.parametrize("operator", OPERATORS)
def test_sdna_with_single_rows_is_sdca(operator):
    for order in ("random", "permuted"):
        assert_same_run(make_problem(operator, "smoothed_hinge", 0.01, 0.05, N, P, D), order)


@pytest.mark.parametrize("kind", ["blocks", "metrics"])
def test_sdna_with_single_rows_is_sdca_on_matrices(kind):
    assert_same_run(SMALL[kind]().problem)


@pytest.mark.parametrize(("inner", "m"), [(0.1, 5), (1e-12, 5), (0.1, 10), (0.1, 15)])
def test_rate_of_sdna(inner, m):
    """Qu et al. 2016, their theorem for uniform samplings, on a partition into r blocks:

    E[D* - D(y_t)] <= (1 - s/r)^t (D* - D(0)), s = lambda_min((I + E[A_S A_S']/(m gamma lam))^-1).
    """
    lambda2 = 0.05
    problem = make_problem("dense", "smoothed_hinge", 0.01, lambda2, N, P, D)
    plain = Vectors(np.dot(*make_factors(N, P, D)), problem.b, "smoothed_hinge", 0.01, lambda2)
    best = plain.F(optimum(plain)[0])
    r = N // m
    at, total, bounds = np.arange(1, 11) * 4 * r, np.zeros(10), []
    for seed in range(10):
        algorithm = METHODS["sdna"](problem, seed=seed, m=m, inner=inner, blocks="fixed")
        starts, order = algorithm._ascent.batches.starts, algorithm._ascent.batches.order
        norm2 = max(
            np.linalg.norm(plain.A[order[lo:hi]], 2) ** 2
            for lo, hi in pairwise(starts)
        )
        share = 1 / (1 + norm2 / r / (m * plain.gamma * lambda2))
        bounds.append((1 - share / r) ** at * (best - authors.problem_dual(plain, np.zeros(N))))
        for j, t in enumerate(at):
            algorithm.advance(t - algorithm.iterations)
            total[j] += best - authors.problem_dual(plain, algorithm.y)
    assert (total / 10 <= np.mean(bounds, axis=0) + 1e-14).all()


def passes_to(problem, tol, method, **options):
    result = solve(problem, method, tol=tol, max_seconds=None, max_passes=5000, **options)
    assert result.status == "converged"
    return result.history.passes.iloc[-1]


def test_sdna_takes_fewer_passes_than_sdca_with_batches_where_rows_are_correlated():
    problem = correlated()
    for order, blocks in product(("random", "permuted"), ("fresh", "fixed")):
        options = dict(m=8, order=order)
        assert passes_to(problem, 1e-5, "sdna", blocks=blocks, **options) < 0.6 * passes_to(
            problem, 1e-5, "sdca", scaling="tight", **options
        )


def test_sdna_takes_fewer_passes_than_single_rows_where_they_are_ill_conditioned():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 300))[rng.integers(0, 5, 400)]
    A += 0.05 * rng.standard_normal(A.shape)
    problem = erm(A / 17.0, A @ rng.standard_normal(300) / 17.0, "square", 0.0, 1e-5)
    single = passes_to(problem, 1e-6, "sdca", order="permuted")
    assert passes_to(problem, 1e-6, "sdna", m=16, order="permuted") < 0.8 * single


def test_fresh_blocks_have_every_row_once_an_epoch_or_are_uniform():
    random, order = generator(5), np.arange(10)
    starts = [0, 4, 7, 10]
    for _ in range(20):
        rows = []
        for lo, hi in pairwise(starts):
            take_rows(SHUFFLED, order, lo, hi, random)
            rows += order[lo:hi].tolist()
        assert sorted(rows) == list(range(10))
    # All pairs equally often, wherever the block lies.
    counts = np.zeros((5, 5))
    order = np.arange(5)
    for t in range(20000):
        lo = 2 * (t % 2)
        take_rows(DRAWN, order, lo, lo + 2, random)
        i, j = order[lo:lo + 2]
        counts[i, j] += 1
    assert sorted(order) == list(range(5))
    assert scipy.stats.chisquare(counts[~np.eye(5, dtype=bool)]).pvalue > 1e-3


@pytest.mark.parametrize("operator", OPERATORS)
def test_gram_matrices_are_made_once_and_counted(operator):
    problem = make_problem(operator, "smoothed_hinge", 0.01, 0.05, N, P, D)
    one, other = (METHODS["sdna"](problem, seed=0, m=N, blocks="fixed") for _ in range(2))
    one.advance(1)
    rule, given = one._ascent.rule, other._ascent.rule
    A = np.dot(*make_factors(N, P, D))
    np.testing.assert_allclose(rule.grams, A @ A.T / (0.05 * N), rtol=1e-11, atol=1e-12)
    assert rule.known.tolist() == [True] + [False] * (N - 1)
    given.grams[:], given.known[0] = rule.grams, True
    other.advance(1)
    # Half of all products; rows of UV are padded to four numbers, and V V' is met with each.
    wanted = 8 * N * (2 * 8 + N + 1) // 2 if operator == "factorized" else N * (N + 1) // 2 * P
    assert one._counters[0] - other._counters[0] == wanted
    for algorithm in (one, other):
        algorithm.advance(3)
    assert one._counters[0] - other._counters[0] == wanted
    np.testing.assert_array_equal(one.y, other.y)


def test_gram_matrices_on_matrices_have_the_weights_of_the_moduli():
    written = SMALL["moduli far apart"]()
    algorithm = METHODS["sdna"](written.problem, seed=0, m=4, blocks="fixed")
    algorithm.advance(20)
    plain, rule = written.plain(), algorithm._ascent.rule
    order = algorithm._ascent.batches.order[:4]
    flat = (written.D * np.sqrt(written.weights("each"))[:, None, None]).reshape(12, -1)
    wanted = flat[order] @ flat[order].T / (plain.lam * 12)
    np.testing.assert_allclose(rule.grams[:4, :4], wanted, rtol=1e-10)


def test_sdna_refuses_gram_matrices_that_do_not_fit(monkeypatch):
    monkeypatch.setattr(sdna, "LARGEST_GRAMS", 1000.0)
    problem = make_problem("dense", n=N)
    with pytest.raises(ValueError, match="blocks of m = 5 rows would take 1.2e-06 GB"):
        solve(problem, "sdna", m=5, blocks="fixed")
    sdna.SDNA.validate(problem, m=1, blocks="fixed")
    sdna.SDNA.validate(problem, m=5)
    with pytest.raises(ValueError, match="inner must be"):
        solve(problem, "sdna", inner=1.0)


# Estimated norms of batches --------------------------------------------------------------------

@pytest.mark.parametrize("method", ["sdca", "asdca"])
def test_estimated_scales_that_are_too_small_are_found_out(method, monkeypatch):
    problem = correlated(loss="square", lambda2=1e-3)
    monkeypatch.setattr(coupling_constant, "sampled_norm2", lambda *_: 1.0)
    monkeypatch.setattr(dual_ascent, "ROUNDING", np.inf)
    unwatched = METHODS[method](problem, m=50, scaling="sampled")
    unwatched.advance(30)
    assert not problem.certify(unwatched.x, unwatched.y).gap < 1.0
    monkeypatch.undo()
    monkeypatch.setattr(coupling_constant, "sampled_norm2", lambda *_: 1.0)
    result = solve(
        problem, method, m=50, scaling="sampled", tol=1e-8, max_seconds=None, max_passes=20000
    )
    assert result.status == "converged"
    assert 8.0 <= result.info["scale"] <= 50.0


def test_estimated_scales_that_are_enough_stay():
    problem = correlated()
    algorithm = METHODS["sdca"](problem, m=50, scaling="sampled", order="permuted")
    scale = algorithm.info["scale"]
    algorithm.advance(400)
    assert algorithm.info["scale"] == scale < 50.0
    # Looking is no secret, but little.
    assert algorithm.passes == pytest.approx(100.0, rel=0.05)


def test_estimated_norms_that_are_too_small_are_found_out(monkeypatch):
    problem = correlated(loss="square", lambda2=1e-3)

    def tiny(*asked):
        return 0.1 * estimated_norms2(*asked)

    monkeypatch.setattr(apcg, "estimated_norms2", tiny)
    monkeypatch.setattr(apcg, "affordable", lambda *_: False)
    monkeypatch.setattr(apcg, "EXPLOSION", np.inf)
    monkeypatch.setattr(apcg, "PATIENCE", np.inf)
    unwatched = METHODS["apcg"](problem, m=50)
    unwatched.advance(30)
    assert not problem.certify(unwatched.x, unwatched.y).gap < 1.0
    monkeypatch.undo()
    monkeypatch.setattr(apcg, "estimated_norms2", tiny)
    monkeypatch.setattr(apcg, "affordable", lambda *_: False)
    result = solve(problem, "apcg", m=50, tol=1e-8, max_seconds=None, max_passes=20000)
    assert result.status == "converged"
    assert result.info["raised"] >= 2


@pytest.mark.parametrize("method", ["sdca", "apcg"])
def test_watched_runs_do_not_depend_on_how_they_are_cut(method, monkeypatch):
    monkeypatch.setattr(coupling_constant, "sampled_norm2", lambda *_: 1.0)
    monkeypatch.setattr(apcg, "estimated_norms2", lambda operator, blocks, _: np.full(4, 0.5))
    problem = correlated(loss="square", lambda2=1e-3)
    monkeypatch.setattr(apcg, "affordable", lambda *_: False)
    options = dict(scaling="sampled") if method == "sdca" else {}
    one, other = (METHODS[method](problem, seed=1, m=50, **options) for _ in range(2))
    one.advance(137)
    for count in (1, 5, 0, 90, 41):
        other.advance(count)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one._counters, other._counters)


def test_norms_of_batches_are_exact_where_that_is_cheap():
    rng = np.random.default_rng(0)
    small = make_problem("dense", n=60)
    assert METHODS["sdca"](small, m=10).info["scaling"] == "tight"
    assert METHODS["apcg"](small, m=10).info["L_kind"] == "exact"
    A = scipy.sparse.random_array((5000, 500), density=0.01, rng=rng, format="csr")
    large = erm(A, np.sign(rng.standard_normal(5000)))
    chosen = METHODS["sdca"](large, m=20)
    assert chosen.info["scaling"] == "sampled"
    assert 1.0 < chosen.info["scale"] <= 20.0
    assert "estimated" in METHODS["apcg"](large, m=20).info["L_kind"]
    for method, key in (("sdca", "scaling"), ("apcg", "L_kind")):
        single = METHODS[method](large, m=1)
        assert single.info[key] in ("tight", "exact")
        assert not getattr(single, "_ascent", single)._uncertain


@pytest.mark.parametrize("kind", ["dense", "csr", "factorized"])
def test_the_sample_is_within_the_budget(kind):
    """By the operator's own prices, on a million entries."""
    if kind == "dense":
        problem = erm(np.ones((2000, 500)), np.ones(2000), "square")
    elif kind == "csr":
        A = scipy.sparse.csr_array((
            np.ones(10 ** 6), np.tile(np.arange(50), 20000), np.arange(20001) * 50
        ), shape=(20000, 2000))
        problem = erm(A, np.ones(20000), "square")
    else:
        problem = erm((np.ones((20000, 50)), np.ones((50, 100))), np.ones(20000), "square")
    operator, seen = problem.operator, []

    class Spy(type(operator)):
        def scaled_norm2(self, rows, scale, exact):
            seen.append(len(rows))
            return 1.0

    operator.__class__ = Spy
    scales, scaling = coupling_constant.batch_scales(
        operator, coupling_constant.Partition(np.array([0, 1000, 2000]), np.arange(2000)),
        "auto", np.random.default_rng(0),
    )
    if scaling == "sampled":
        assert 16 <= min(seen) <= max(seen) <= 1000
        work = sum(coupling_constant._block_cost(operator, size) for size in seen)
        assert work <= 5 * operator.multiply_adds
    assert (scales >= 1.0).all()

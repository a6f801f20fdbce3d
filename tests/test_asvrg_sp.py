"""ASVRG-SP: its estimator and constants, its optimum, its rate."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse
import transcriptions_field as authors
from conftest import LOSSES, OPERATORS, daily, make_factors, make_problem
from matrix_cases import PROBLEMS, random_psd
from method_cases import OUTER, entry_law, optimum
from transcriptions import Vectors

from benchmark_dspdc.engine.sampling import generator
from benchmark_dspdc.engine.symmetric import pack, unpack
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.methods.asvrg_sp import (
    best_epochs,
    best_plan,
    epoch,
    expected_rate,
    plan,
    proved_rate,
)
from benchmark_dspdc.operators import as_operator
from benchmark_dspdc.state.single_entries import (
    boosted,
    draw_entry,
    entries_of,
    probabilities,
    uneven,
)

SAMPLINGS = ("uniform", "nonuniform")
def method(problem, seed=0, **options):
    return METHODS["asvrg_sp"](problem, seed=seed, **options)


def with_zeros(n=30, p=12, seed=0):
    """A matrix with zeros, a zero row and a zero column."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.4) * rng.exponential(size=(n, 1))
    A[3], A[:, 5] = 0.0, 0.0
    return A


# The estimator -----------------------------------------------------------------------------

def expectation(entries):
    """E[a_ij/pi_ij e_i e_j'] by enumeration of what the tables can draw, and the probabilities."""
    if hasattr(entries, "U"):
        a = entries.U @ entries.Vt.T
        pi = np.outer(probabilities(entries.rows), probabilities(entries.columns))
        return pi * a * np.outer(entries.row_boosts, entries.column_boosts), pi
    pi = probabilities(entries.table)
    if hasattr(entries, "a"):
        flat = entries.a.ravel()
        mean = [
            q * boosted(entries.table, v) if q > 0 else 0.0 for q, v in zip(pi, flat, strict=True)
        ]
        return np.reshape(mean, entries.a.shape), pi.reshape(entries.a.shape)
    shape = entries.rows.max() + 1, entries.columns.max() + 1
    mean, law = np.zeros(shape), np.zeros(shape)
    for q, v, i, j in zip(pi, entries.data, entries.rows, entries.columns, strict=True):
        mean[i, j] += q * boosted(entries.table, v)
        law[i, j] += q
    return mean, law


STORED = {
    "dense": lambda: make_factors()[0] @ make_factors()[1],
    "dense with zeros": with_zeros,
    "mostly full": lambda: np.where(np.eye(9, 6) > 0, 0.0, 1.0 + np.arange(54.0).reshape(9, 6)),
    "csr": lambda: scipy.sparse.csr_array(with_zeros()),
    "factorized": make_factors,
    "unbalanced factors": lambda: (
        make_factors()[0] * 10.0 ** np.arange(5), make_factors()[1] / 10.0 ** np.arange(5)[:, None]
    ),
    "zero rows": lambda: (
        make_factors()[0] * (np.arange(30) % 3 > 0)[:, None], make_factors()[1]
    ),
}


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", STORED)
def test_the_estimator_is_unbiased_and_its_constant_exact(name, sampling):
    given = STORED[name]()
    operator = as_operator(given)
    A = np.stack([operator.matvec(e) for e in np.eye(operator.shape[1])], axis=1)
    found = entries_of(operator, sampling == "nonuniform")
    mean, pi = expectation(found.entries)
    mean, pi = (np.pad(M, [(0, k - l) for k, l in zip(A.shape, M.shape, strict=True)])
                for M in (mean, pi))
    assert pi.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(mean, A, rtol=1e-10, atol=1e-12 * np.abs(A).max())
    if sampling == "nonuniform" and not isinstance(given, tuple):
        np.testing.assert_allclose(pi, A ** 2 / np.sum(A ** 2), rtol=1e-10, atol=1e-15)
    second = np.divide(A ** 2, pi, out=np.zeros_like(A), where=pi > 0)
    exact = max(second.sum(axis=0).max(), second.sum(axis=1).max())
    assert found.constant == pytest.approx(exact, rel=1e-9)
    # What the kernel draws is a_ij/pi_ij, and as often as the tables say.
    state, times = generator(0), np.zeros(A.shape)
    for _ in range(3000):
        i, j, weight = draw_entry(found.entries, state)
        assert weight * pi[i, j] == pytest.approx(A[i, j], rel=1e-9)
        times[i, j] += 1
    assert np.abs(times / 3000 - pi).max() < 0.03


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", daily(
    PROBLEMS, "matrix_risk", "trace_regression", "mt_lmnn", "mt_lmnn-shared"
))
def test_blocks_are_unbiased_and_their_constant_a_bound(name, sampling):
    written = PROBLEMS[name]()
    operator, D = written.problem.operator, written.D
    found = entries_of(operator, sampling == "nonuniform")
    entries = found.entries
    pi = probabilities(entries.table)
    np.testing.assert_allclose(pi * entries.boosts, 1.0, rtol=1e-12)
    rng = np.random.default_rng(0)
    X = random_psd(rng, *D.shape[1:3])
    dy = rng.standard_normal(len(D))
    of_x, of_y = operator.packed_zeros(), np.zeros(len(D))
    second = np.zeros(2)
    weights = operator.weights
    for k in range(len(pi)):
        i, j = entries.rows[k], entries.columns[k]
        one_x, one_y = operator.packed_zeros(), np.zeros(len(D))
        entries.add(np.array([k]), entries.boosts[k:k + 1], pack(X), dy, one_x, one_y)
        expected = entries.boosts[k] * np.sum(D[i, j] * X[j])
        assert one_y[i] == pytest.approx(expected, rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(
            unpack(one_x, D.shape[2])[j], entries.boosts[k] * dy[i] * D[i, j], rtol=1e-10,
            atol=1e-12,
        )
        assert np.count_nonzero(one_y) <= 1
        of_x += pi[k] * one_x
        of_y += pi[k] * one_y
        second += pi[k] * np.array([weights @ np.sum(one_x ** 2, axis=1), one_y @ one_y])
    np.testing.assert_allclose(of_y, operator.matvec(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(of_x, operator.rmatvec_packed(dy), rtol=1e-9, atol=1e-10)
    assert second[0] <= found.constant * (dy @ dy) * (1 + 1e-10)
    scaled = np.sum(X ** 2, axis=(1, 2)) @ (1 / weights)
    assert second[1] <= found.constant * scaled * (1 + 1e-10)
    # Several at once are the sum of each.
    some, times = np.array([0, 3, 7]), np.array([2.0, 1.0, -0.5])
    of_y, expected = np.zeros(len(D)), np.zeros(len(D))
    entries.add(some, times, pack(X), dy, operator.packed_zeros(), of_y)
    for k, w in zip(some, times, strict=True):
        i, j = entries.rows[k], entries.columns[k]
        expected[i] += w * np.sum(D[i, j] * X[j])
    np.testing.assert_allclose(of_y, expected, rtol=1e-10, atol=1e-12)


def test_constants_are_those_of_the_transcription():
    for operator in OPERATORS:
        problem = make_problem(operator)
        plain = Vectors(np.dot(*make_factors()), problem.b, "smoothed_hinge", 0.01, 0.1)
        for sampling in SAMPLINGS:
            info = method(problem, sampling=sampling, batch=7).info
            L2, Lbar2 = authors.lipschitz2(plain, entry_law(plain, problem.operator, sampling))
            assert info["L2"] == pytest.approx(L2, rel=1e-8)
            assert info["Lbar2"] == pytest.approx(Lbar2 / 7, rel=1e-10)
            assert info["sigma"] == pytest.approx(
                (1 + info["tau"]) ** 2 / (L2 + 3 * Lbar2 / 7), rel=1e-8
            )


def test_tables_with_extreme_weights():
    rng = np.random.default_rng(0)
    for weights in (
        np.array([1.0]), np.array([0.0, 1.0, 0.0]), 10.0 ** rng.uniform(-300, 10, 1000),
        np.r_[np.zeros(500), rng.random(500)], rng.random(1000) ** 20,
    ):
        found = probabilities(uneven(weights))
        np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-9, atol=1e-15)
        assert np.all(found[weights == 0.0] == 0.0)


# The optimum -------------------------------------------------------------------------------

def best(problem, loss):
    """x and y of the solution, by the transcription of another method."""
    A = np.array([problem.operator.rmatvec(row) for row in np.eye(problem.shape[0])])
    return optimum(Vectors(A, problem.b, loss, problem.reg.lambda1, problem.reg.lambda2))


def place(algorithm, x, y):
    """Begin at this point."""
    algorithm._point.x[:] = x
    algorithm._point.y[:] = y


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize(("operator", "loss", "sampling"), [
    pytest.param(operator, loss, sampling, marks=(
        () if loss == "smoothed_hinge" and (sampling == "nonuniform" or operator == "csr")
        else pytest.mark.nightly
    )) for operator, loss, sampling in product(OPERATORS, LOSSES, SAMPLINGS)
])
def test_the_optimum_is_left_alone(operator, loss, sampling, outer):
    problem = make_problem(operator, loss)
    x, y = best(problem, loss)
    algorithm = method(problem, sampling=sampling, **OUTER[outer])
    place(algorithm, x, y)
    algorithm.advance(3 * algorithm.info["epoch"] * algorithm.info["epochs"] + 5)
    np.testing.assert_allclose(algorithm.x, x, atol=1e-6)
    np.testing.assert_allclose(algorithm.y, y, atol=1e-6)


# The rate ----------------------------------------------------------------------------------

@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("sampling", daily(SAMPLINGS, "nonuniform"))
@pytest.mark.parametrize("loss", daily(LOSSES, "smoothed_hinge"))
def test_the_contraction_is_no_worse_than_published(loss, sampling, outer):
    problem = make_problem("dense", loss, n=40, p=20)
    best_x, best_y = best(problem, loss)
    tau = OUTER[outer]["acceleration"]
    n_outer, n_seeds = 3, 40
    rng = np.random.default_rng(0)
    x0 = best_x + rng.standard_normal(20)
    y0 = -problem.b * rng.random(40)

    def distance2(x, y):
        return problem.lam * np.sum((x - best_x) ** 2) + problem.gamma / 40 * np.sum(
            (y - best_y) ** 2
        )
    ratios = []
    for seed in range(n_seeds):
        algorithm = method(problem, seed=seed, sampling=sampling, batch=10, **OUTER[outer])
        place(algorithm, x0, y0)
        algorithm.advance(n_outer * algorithm.info["epoch"] * algorithm.info["epochs"])
        ratios.append(distance2(algorithm.x, algorithm.y) / distance2(x0, y0))
    published = 0.75 if tau == 0.0 else 1.0 - 1.0 / (1.0 + tau)
    assert np.mean(ratios) <= published ** n_outer
    assert np.mean(ratios) <= algorithm.info["rate"] ** n_outer


def test_epochs_and_outer_steps_follow_the_formulas():
    for L2, Lbar2 in ((0.0, 0.0), (3.0, 50.0), (1e4, 1e7)):
        sigma, length = epoch(L2, Lbar2)
        assert (1 + sigma) ** -length <= 0.25 * (1 + 1e-9)
        assert length <= np.log(4) * (1 + 1 / sigma) + 1
    for tau in (0.1, 1.0, 5.0, 100.0, 1e6):
        v = best_epochs(tau)
        assert proved_rate(tau, v) < 1.0
        assert v <= 2 + 2 * np.log(1 + tau) / np.log(4 / 3) + 20
        # By brute force over the angle.
        angle = np.linspace(0, np.pi / 2, 20001)
        a, b = np.sin(angle) ** 2, np.cos(angle) ** 2 * tau / (tau + 2)
        brute = (np.sqrt(b) + np.sqrt(a / (4 + tau))) ** 2 + 0.25 * a
        assert expected_rate(tau) == pytest.approx(brute.max(), rel=1e-6)
        assert expected_rate(tau) < 1.0
    assert plan(3.0, 50.0, 0.0, True)[1:4] == plan(3.0, 50.0, 0.0, False)[1:4]
    # The harder the problem, the more acceleration; none where a pass costs a lot.
    taus = [best_plan(s, 10 * s, False, 1.0, 50.0).tau for s in (1e-3, 1e2, 1e5)]
    assert taus[0] == 0.0 < taus[1] < taus[2]


# What it reports ---------------------------------------------------------------------------

def test_work_is_counted():
    n, p, d = 30, 12, 5
    for operator, each, whole in (
        ("dense", 2, 2 * n * p), ("csr", 2, 2 * n * p), ("factorized", d + 2, 2 * d * (n + p))
    ):
        algorithm = method(make_problem(operator), batch=11, acceleration=0.0)
        length = algorithm.info["epoch"]
        algorithm.advance(length + 1)
        work = 2 * whole + (length + 1) * 11 * each
        assert algorithm.passes == pytest.approx(work / whole)
        assert algorithm.coordinate_updates == (length + 1) * (n + p)
        assert algorithm.eigendecompositions == 0


def test_batches_are_of_a_pass_and_no_larger():
    problem = make_problem()
    assert method(problem).info["batch"] == 42
    assert method(problem, batch=10 ** 6).info["batch"] == 360

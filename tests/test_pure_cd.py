"""PURE-CD: sparse data, what it is on dense data, its estimator, its rate, its work."""

import numpy as np
import pytest
import scipy.sparse
from conftest import OPERATORS, daily, make_factors, make_problem
from matrix_cases import small_metrics
from method_cases import CASES, SEED, N, P, compare, optimum
from replay import drawn_batches
from transcriptions import Vectors, dual_step
from transcriptions_field import pure_cd_steps

from benchmark_dspdc import erm, solve
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.methods.dual_ascent import QUEUE
from benchmark_dspdc.methods.method import Start
from benchmark_dspdc.theory.steps import PURE_CD_SHARE

PureCD = METHODS["pure_cd"]
LOSS, LAMBDAS = "smoothed_hinge", (2e-3, 0.02)


def sparse_data(n=60, p=90, seed=0):
    """Some columns are empty, and a row; all columns have fewer entries than rows."""
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random_array((n, p), density=0.04, rng=rng, format="csr")
    A.data[:] = rng.standard_normal(len(A.data))
    A.data[A.indptr[7]:A.indptr[8]] = 0.0
    A.eliminate_zeros()
    counts = np.bincount(A.indices, minlength=p)
    assert counts.min() == 0
    assert len(set(counts)) > 4
    assert np.diff(A.indptr)[7] == 0
    return A, np.where(A @ rng.standard_normal(p) >= 0.0, 1.0, -1.0)


@pytest.mark.parametrize("case", daily(
    ["pure_cd", "pure_cd batches", "pure_cd by importance", "pure_cd batches by importance"],
    "pure_cd", "pure_cd batches",
))
def test_untouched_coordinates_keep_their_values(case):
    """On sparse data it is the paper's algorithm in its dense form, with which it is compared."""
    A, b = sparse_data()
    plain = Vectors(A.toarray(), b, LOSS, *LAMBDAS)
    run = CASES[case]
    algorithm = run.start(erm(A, b, LOSS, *LAMBDAS))
    iterates = list(run.transcribed(plain, algorithm, run.options, 400))
    compare(algorithm, iterates, plain, (1, 2, 9, 50, 51, 200, 400))
    early, late = (np.flatnonzero(iterates[k][0]) for k in (20, 399))
    assert 0 < len(early) < len(late) < A.shape[1]


def test_columns_without_entries_are_at_the_minimum_of_g_wherever_it_begins():
    A, b = sparse_data()
    problem = erm(A, b, LOSS, *LAMBDAS)
    best, y = optimum(Vectors(A.toarray(), b, LOSS, *LAMBDAS))
    result = solve(problem, "pure_cd", x0=np.ones(A.shape[1]), tol=1e-12, max_seconds=None,
                   max_passes=20000)
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, best, atol=1e-5)
    algorithm = PureCD(problem, start=Start(best, y))
    algorithm.advance(500)
    np.testing.assert_allclose(algorithm.x, best, atol=1e-12)
    np.testing.assert_allclose(algorithm.y, y, atol=1e-12)


@pytest.mark.parametrize(("operator", "m"), [
    ("dense", 1), *(
        pytest.param(operator, m, marks=pytest.mark.nightly)
        for operator in OPERATORS for m in (1, 7, N) if (operator, m) != ("dense", 1)
    ),
])
def test_where_all_of_x_is_touched_it_is_spdhg(operator, m):
    """xbar = prox(xbar - tau A'(y + r (y - y_before))/n): SPDHG, or for m = n PDHG, theta = 1."""
    problem = make_problem(operator, LOSS, 0.02, 0.05, N, P)
    plain = Vectors(np.dot(*make_factors(N, P, 5)), problem.b, LOSS, 0.02, 0.05)
    algorithm = PureCD(problem, seed=SEED, m=m)
    batches = drawn_batches(algorithm, 200, SEED)
    tau, sigma, r = algorithm.info["tau"], algorithm.info["sigma"], algorithm.info["r"]
    if m == N:
        norm2 = np.linalg.norm(plain.A / N, 2) ** 2
        assert np.max(tau) * np.max(sigma) * norm2 == pytest.approx(0.9)

    def iterates():
        x, y = np.zeros(P), np.zeros(N)
        before = y
        for I in batches:
            x = plain.prox(x - np.max(tau) * plain.A.T @ (y + r * (y - before)) / N, np.max(tau))
            before, y = y, y.copy()
            for i in I:
                y[i] = dual_step(LOSS, plain.A[i] @ x, problem.b[i], y[i], N / sigma[i])
            yield x, y

    compare(algorithm, iterates(), plain, (1, 2, 50, 200))


@pytest.mark.parametrize(("operator", "m"), [
    ("dense", 1), ("csr", 1), ("csr", 7),
    *(pytest.param("factorized", m, marks=pytest.mark.nightly) for m in (1, 7)),
    pytest.param("dense", 7, marks=pytest.mark.nightly),
])
def test_the_correction_is_that_of_a_full_dual_step_in_expectation(operator, m):
    """sum over the blocks of p_I (x_j - xbar_j) = -pi_j tau_j (A'(y_full - y))_j/n."""
    if operator == "csr":
        A, b = sparse_data()
        problem, A = erm(A, b, LOSS, 0.0, 0.02), A.toarray()
    else:
        problem = make_problem(operator, LOSS, 0.0, 0.02, N, P)
        A, b = np.dot(*make_factors(N, P, 5)), problem.b
    n, before = len(b), 150
    first = PureCD(problem, seed=3, m=m)
    first.advance(before)
    x, y = first._ascent.state.x.copy(), first.y
    tau, rho = np.broadcast_to(first.info["tau"], A.shape[1]), n / first.info["sigma"]
    bar = (x - tau * (A.T @ y) / n) / (1.0 + tau * 0.02)
    full = np.array([dual_step(LOSS, A[i] @ bar, b[i], y[i], rho[i]) for i in range(n)])
    order = first._ascent.batches.order
    starts = first._ascent.batches.starts
    order = np.arange(n) if order is None else order
    mean, pi = 0.0, np.zeros(A.shape[1])
    for k in range(len(starts) - 1):
        algorithm = PureCD(problem, seed=3, m=m)
        algorithm.advance(before)
        memory = algorithm._ascent.batches.memory
        memory[memory[QUEUE + 1]] = k
        algorithm.advance(1)
        touched = A[order[starts[k]:starts[k + 1]]].any(axis=0)
        after = algorithm._ascent.state.x
        np.testing.assert_array_equal(after[~touched], x[~touched])
        np.testing.assert_allclose(algorithm.x[touched], bar[touched], rtol=1e-9, atol=1e-13)
        mean = mean + np.where(touched, after - bar, 0.0) / (len(starts) - 1)
        pi += touched / (len(starts) - 1)
    assert np.abs(mean).max() > 1e-6
    np.testing.assert_allclose(
        mean, -pi * tau * (A.T @ (full - y)) / n, rtol=1e-9, atol=1e-13
    )


@pytest.mark.parametrize(("operator", "m"), [
    ("csr", 1), pytest.param("csr", 7, marks=pytest.mark.nightly),
    pytest.param("dense", 1, marks=pytest.mark.nightly),
])
def test_the_distance_contracts_as_the_docstring_says(operator, m):
    """E V_k <= (1 - 1/K)^k V_0, sigma being a share C of what is allowed."""
    lambda2 = 0.05
    if operator == "csr":
        A, b = sparse_data()
        problem, A = erm(A, b, LOSS, 0.002, lambda2), A.toarray()
    else:
        problem = make_problem(operator, LOSS, 0.002, lambda2, N, P)
        A, b = np.dot(*make_factors(N, P, 5)), problem.b
    plain = Vectors(A, b, LOSS, 0.002, lambda2)
    best, y = optimum(plain)
    n, seeds = len(b), range(10)
    C, total, bounds = PURE_CD_SHARE, 0.0, 0.0
    for seed in seeds:
        algorithm = PureCD(problem, seed=seed, m=m)
        r, sigma = algorithm.info["r"], algorithm.info["sigma"]
        blocks = algorithm._ascent.batches
        order = np.arange(n) if blocks.order is None else blocks.order
        pi = np.mean([
            A[order[lo:hi]].any(axis=0)
            for lo, hi in zip(blocks.starts[:-1], blocks.starts[1:], strict=True)
        ], axis=0)
        some = pi > 0.0
        tau = np.broadcast_to(algorithm.info["tau"], A.shape[1])[some]
        K = max(
            np.max((1.0 + 1.0 / (2.0 * lambda2 * tau)) / pi[some]),
            np.max(r / (1.0 - C) + n * r / (2.0 * plain.gamma * sigma)),
        )

        def distance(algorithm, some=some, tau=tau, pi=pi, r=r, sigma=sigma):
            dx, dy = (algorithm._ascent.state.x - best)[some], algorithm.y - y
            return np.sum(dx ** 2 / (2.0 * tau * pi[some])) + r * np.sum(dy ** 2 / (2.0 * sigma))

        at = np.arange(1, 11) * int(K / 2)
        bounds = bounds + distance(algorithm) * (1.0 - 1.0 / K) ** at
        measured = []
        for k in at:
            algorithm.advance(k - algorithm.iterations)
            measured.append(distance(algorithm))
        total = total + np.array(measured)
    assert (total <= bounds + 1e-14).all()
    assert bounds[-1] < 0.2 * bounds[0]
    assert np.isnan(algorithm.predicted_rate)


@pytest.mark.parametrize("m", [1, 7])
def test_work_on_sparse_data_does_not_depend_on_p(m):
    A, b = sparse_data()
    wide = scipy.sparse.csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], 5000))
    runs = [PureCD(erm(data, b, LOSS, *LAMBDAS), seed=2, m=m) for data in (A, wide)]
    for algorithm in runs:
        algorithm.advance(600)
    one, other = runs
    np.testing.assert_array_equal(one._counters, other._counters)
    np.testing.assert_array_equal(one.x, other.x[:A.shape[1]])
    # At most two products with the rows drawn, and their entries' proximal steps.
    drawn = np.concatenate(drawn_batches(PureCD(one.problem, seed=2, m=m), 600, 2))
    entries = np.diff(A.indptr)[drawn].sum()
    assert entries <= one._counters[0] <= 2 * entries
    assert one.coordinate_updates == len(drawn) + entries


@pytest.mark.nightly
def test_iterations_per_pass_tells_the_work_of_a_pass():
    A, b = sparse_data()
    for problem in (erm(A, b, "square", *LAMBDAS), make_problem("factorized", "square")):
        algorithm = PureCD(problem, seed=1)
        n_iterations = 60 * round(algorithm.iterations_per_pass + 1)
        algorithm.advance(n_iterations)
        expected = n_iterations / algorithm.iterations_per_pass
        assert algorithm.passes == pytest.approx(expected, rel=0.15)


def test_what_is_shown_is_in_the_domain_where_x_is_not():
    A, b = sparse_data()
    problem = erm(A, b, LOSS, *LAMBDAS, regularizer="non_negative")
    algorithm = PureCD(problem, seed=1)
    below = 0.0
    for _ in range(20):
        algorithm.advance(20)
        assert algorithm.x.min() == 0.0 < algorithm.x.max()
        below = min(below, algorithm._ascent.state.x.min())
    assert below < -1e-6
    result = solve(problem, "pure_cd", tol=1e-9, max_seconds=None, max_passes=20000)
    assert result.status == "converged"


def test_matrices_are_projected_where_a_batch_touches_them():
    written = small_metrics()
    problem = written.problem
    algorithm = PureCD(problem, seed=4, m=1)
    drawn = np.concatenate(drawn_batches(PureCD(problem, seed=4, m=1), 25, 4))
    algorithm.advance(25)
    # The shared block and one task's, but for those that are seen to be in the cone.
    assert len(drawn) < algorithm.eigendecompositions <= 2 * len(drawn) < 25 * problem.shape[1]
    assert algorithm.coordinate_updates == 3 * len(drawn)
    assert np.linalg.eigvalsh(algorithm.x).min() >= -1e-12


@pytest.mark.parametrize("m", [1, 7])
@pytest.mark.parametrize("probabilities", ["uniform", "importance"])
def test_steps_keep_the_papers_condition(probabilities, m):
    """sigma_I |K_I diag(theta tau)^(1/2)|^2 = 0.9 (2 - least/p_I), whatever the factor."""
    A, b = sparse_data()
    for factor in (1.0, 7.0):
        algorithm = PureCD(
            erm(A, b, LOSS, *LAMBDAS), seed=1, m=m, probabilities=probabilities,
            step_size_factor=factor,
        )
        batches, info = algorithm._ascent.batches, algorithm.info
        order = np.arange(60) if batches.order is None else batches.order
        blocks = [
            order[lo:hi] for lo, hi in zip(batches.starts[:-1], batches.starts[1:], strict=True)
        ]
        p = np.full(len(blocks), 1.0 / len(blocks))
        if probabilities == "importance":
            p = 1.0 / batches.choice.boosts[batches.starts[:-1]]
        tau, _, sigma, _ = pure_cd_steps(
            Vectors(A.toarray(), b, LOSS, *LAMBDAS), blocks, p, factor
        )
        np.testing.assert_allclose(info["tau"], tau, rtol=1e-9)
        some = sigma < 1e200
        np.testing.assert_allclose(
            info["sigma"][[I[0] for I in blocks]][some], sigma[some], rtol=1e-9
        )


def test_options_that_make_no_sense_are_refused():
    problem = make_problem()
    for options, message in (
        (dict(probabilities="norms"), "probabilities must be one of"),
        (dict(step_size_factor=0.0), "step_size_factor must be"),
        (dict(m=0), "m must be an integer from 1"),
    ):
        with pytest.raises(ValueError, match=message):
            PureCD.validate(problem, **options)

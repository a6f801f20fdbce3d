from itertools import product

import numpy as np
import pytest
import transcriptions
from conftest import LOSSES, OPERATORS, PAPER, daily, make_factors, make_labels, make_problem
from matrix_cases import small_metrics
from method_cases import CASES, N, P, compare
from replay import drawn_batches

from benchmark_dspdc import erm, solve
from benchmark_dspdc.methods import DSPDC, METHODS, SDCA, SPDC

D = 5

#: One run of every method, and variants that only the first operator has by day. ASVRG-SP draws
#: the entries that are stored, which differ between operators.
NAMES = [
    "dspdc rows", "dspdc columns", "dspdc rows subset", "dspdc columns subset", "spdc batches",
    "sdca", "sdca batches", "svrg last",
    *sorted(name for name in METHODS if name not in ("dspdc", "spdc", "sdca")),
]
VARIANTS = [name for name in NAMES if "subset" in name or name in ("sdca batches", "svrg last")]
every_case = daily([name for name in NAMES if name != "asvrg_sp"],
                   *(name for name in NAMES if name not in VARIANTS))


def on_operators(names, variants):
    """Every operator with every name; but for dense data, the variants only at night."""
    return pytest.mark.parametrize(("operator", "case"), [
        pytest.param(*pair, marks=(
            pytest.mark.nightly if pair[0] != "dense" and pair[1] in variants else ()
        )) for pair in product(OPERATORS, names)
    ])


def test_algorithms_2_and_3_of_the_paper_take_the_steps_of_algorithm_1():
    """With which the kernels are compared."""
    rng = np.random.default_rng(0)

    def blocks(n, p, m, q):
        return [(rng.permutation(n)[:m], rng.permutation(p)[:q]) for _ in range(100)]

    U, V = make_factors(N, P, D)
    for loss, (m, q) in product(LOSSES, [(4, 5), (13, 2)]):
        b = make_labels(U @ V, loss)
        drawn = blocks(N, P, m, q)
        steps = transcriptions.remark_1(N, P, m, q, 9.0, 0.1, 4.0 if loss == "logistic" else 1, 1)
        *_, (x, y) = transcriptions.algorithm_1(
            transcriptions.Vectors(U @ V, b, loss, 0.01, 0.1), *steps, N / m, drawn
        )
        assert np.abs(x).max() > 0.01
        for found, wanted in zip((x, y), transcriptions.algorithm_2(
            U, V, b, loss, 0.01, 0.1, *steps, N / m, drawn
        ), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-10)

    for loss, moduli in product(("smoothed_hinge", "logistic"), ("each", "least")):
        written = small_metrics(loss, lambda0=1.0, lam=2.0)
        plain, (n, p) = written.plain(moduli), written.problem.shape
        drawn = blocks(n, p, 2, 2)
        tau, *steps = transcriptions.remark_1(n, p, 2, 2, 5.0, plain.lam, plain.gamma, 1)
        *_, (x, y) = transcriptions.algorithm_1(plain, tau, *steps, n / 2, drawn)
        assert np.abs(x).max() > 0.01
        for found, wanted in zip((plain.shown(x), y), transcriptions.algorithm_3(
            written.Z, written.T, written.C, loss, 1.0, 2.0, tau * written.weights(moduli),
            *steps, n / 2, drawn,
        ), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-10)


@pytest.mark.parametrize("case", every_case)
@pytest.mark.parametrize("loss", daily(LOSSES, "smoothed_hinge"))
def test_all_operators_give_the_same_iterates(loss, case):
    iterates = []
    for operator in OPERATORS:
        algorithm = CASES[case].start(make_problem(operator, loss))
        algorithm.advance(100)
        iterates.append((algorithm.x, algorithm.y))
    for x, y in iterates[1:]:
        np.testing.assert_allclose(x, iterates[0][0], atol=1e-9)
        if y is not None:
            np.testing.assert_allclose(y, iterates[0][1], atol=1e-9)


@pytest.mark.parametrize("sampling", ["partition", "subset"])
@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_spdc_with_dspdc_steps_is_dspdc_with_all_primal_coordinates(operator, sampling):
    problem = make_problem(operator)
    one = SPDC(problem, seed=2, m=4, steps="dspdc", sampling=sampling)
    other = DSPDC(problem, seed=2, m=4, q=problem.shape[1], sampling=sampling, **PAPER)
    authors = SPDC(problem, seed=2, m=4, sampling=sampling)
    for algorithm in (one, other, authors):
        algorithm.advance(150)
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    assert not np.allclose(one.x, authors.x, atol=1e-12)


IMPORTANCE = [f"{name} by importance" for name in ("dspdc rows", "spdc batches", "sdca batches")]


@on_operators(
    [*NAMES, "adaptive blocks", "spdhg adaptive batches", *IMPORTANCE], [*VARIANTS, *IMPORTANCE]
)
def test_equal_seeds_give_equal_iterates_however_the_iterations_are_cut(operator, case):
    loss = "square" if "importance" in case else "smoothed_hinge"

    def run(seed, pieces):
        algorithm = CASES[case].start(make_problem(operator, loss), seed)
        for piece in pieces:
            algorithm.advance(piece)
        return algorithm

    whole, cut, other = run(1, [60]), run(1, [1, 7, 0, 30, 22]), run(2, [60])
    np.testing.assert_array_equal(whole.x, cut.x)
    np.testing.assert_array_equal(whole.y, cut.y)
    assert whole.passes == cut.passes
    assert whole.coordinate_updates == cut.coordinate_updates
    deterministic = case.split()[0] in ("pdhg", "rpdhg", "fista")
    assert np.array_equal(whole.x, other.x) == deterministic


def test_work_is_what_the_iterations_cost():
    problem = make_problem("factorized", n=30, p=12, d=5)
    unit = 2 * 5 * (30 + 12)
    algorithm = DSPDC(problem, m=10, q=4)
    algorithm.advance(7)
    assert algorithm.passes == pytest.approx(7 * 2 * 5 * (10 + 4) / unit)
    assert algorithm.coordinate_updates == 7 * (10 + 4)

    dense = make_problem("dense")
    for m, q, entries in ((10, 12, 10 * 12), (30, 4, 30 * 4)):
        algorithm = DSPDC(dense, m=m, q=q)
        algorithm.advance(7)
        assert algorithm.passes == pytest.approx(7 * 2 * entries / (2 * 30 * 12))

    algorithm = SDCA(make_problem("dense", "square"))
    algorithm.advance(30)
    assert algorithm.passes == pytest.approx(1.0)
    assert algorithm.coordinate_updates == 30


def test_block_sizes_really_used_are_reported():
    algorithm = DSPDC(make_problem(n=101), m=20, q=5)
    assert (algorithm.info["m"], algorithm.info["r"]) == (17, 6.0)
    assert (algorithm.info["q"], algorithm.info["s"]) == (4, 3.0)


@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_tight_batches_need_no_more_passes_than_safe_ones(operator):
    problem = make_problem(operator, "smoothed_hinge", n=200, p=40, d=30)
    passes = {
        scaling: solve(problem, "sdca", m=20, scaling=scaling, tol=1e-8).history.passes.iloc[-1]
        for scaling in ("tight", "safe")
    }
    assert passes["tight"] < passes["safe"]


def test_sdca_settles_zero_rows_in_an_epoch():
    A = np.zeros((5, 3))
    A[0] = 1.0
    b = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    epoch = SDCA(erm(A, b), order="permuted")
    epoch.advance(5)
    np.testing.assert_allclose(epoch.y[1:], -b[1:], atol=1e-14)


@pytest.mark.parametrize(("m", "q"), [(140, 70), (70, 140)])
@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_blocks_larger_than_a_tile_are_updated_whole(operator, m, q):
    n, p = 150, 145
    problem = make_problem(operator, n=n, p=p, d=D)
    plain = transcriptions.Vectors(
        np.dot(*make_factors(n, p, D)), problem.b, "smoothed_hinge", 0.01, 0.1
    )
    case = CASES["dspdc rows subset"]
    case = case._replace(options=dict(m=m, q=q, sampling="subset", Lambda=400.0))
    algorithm = case.start(problem)
    compare(algorithm, case.transcribed(plain, algorithm, case.options, 20), plain, (1, 2, 20))


def test_permuted_epochs_are_fresh_random_permutations():
    algorithm = SDCA(make_problem(loss="square", n=N), seed=4, order="permuted")
    visited = np.concatenate(drawn_batches(algorithm, 300 * N, 4)).reshape(300, N)
    assert len({tuple(epoch) for epoch in visited}) == 300
    np.testing.assert_array_equal(np.sort(visited), np.tile(np.arange(N), (300, 1)))
    # Every row is first, and last, about equally often.
    for end in (visited[:, 0], visited[:, -1]):
        assert np.bincount(end, minlength=N).max() < 30
    # And the kernel visits them so: with all steps nonzero, an epoch of one
    # moves every dual coordinate.
    algorithm.advance(N)
    assert (algorithm.y != 0.0).all()


def test_work_of_sdca_counts_renewed_products_and_skipped_updates():
    problem = make_problem("factorized", n=30, p=12, d=5)
    algorithm = SDCA(problem)
    algorithm.advance(3)
    unit = 2 * 5 * (30 + 12)
    assert algorithm.passes == pytest.approx(3 * 2 * 5 * (1 + 12) / unit)

    # Rows that are classified with a margin keep y = 0: only their product is formed.
    A = np.ones((4, 2))
    separated = erm(A, -np.ones(4), "smoothed_hinge", 0.0, 1e-3)
    algorithm = SDCA(separated, order="permuted")
    algorithm.advance(4 * 50)
    settled = algorithm.passes
    moved = algorithm.y.copy()
    algorithm.advance(4)
    if np.array_equal(algorithm.y, moved):
        assert algorithm.passes - settled == pytest.approx(0.5)


@on_operators([*NAMES[:7], "spdhg adaptive batches"], [*VARIANTS, "sdca"])
def test_iterations_per_pass_tells_the_work_of_a_pass(operator, case):
    # With the hinge SDCA has coordinates that do not move, which cost it less.
    loss = "square" if case == "sdca" else "smoothed_hinge"
    algorithm = CASES[case].start(make_problem(operator, loss, n=60, p=24))
    n_iterations = 40 * round(algorithm.iterations_per_pass + 1)
    algorithm.advance(n_iterations)
    expected = n_iterations / algorithm.iterations_per_pass
    tolerance = 0.25 if case == "sdca batches" else 0.15
    assert algorithm.passes == pytest.approx(expected, rel=tolerance)

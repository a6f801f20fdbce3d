from itertools import product

import numpy as np
import pytest
import transcriptions
from conftest import (
    LOSSES,
    OPERATORS,
    daily,
    kernels,
    make_factors,
    make_problem,
)
from replay import drawn_batches, drawn_blocks

from benchmark_dspdc import erm, solve
from benchmark_dspdc.methods import DSPDC, METHODS, SDCA, SPDC

N, P, D = 30, 12, 5
ITERATIONS = 200
BLOCKS = [(4, 5), (13, 2)]       # keeps A'y, keeps A x


def by_night(operator, loss, sampling):
    """By day all operators with partitions, and dense data with subsets and another loss."""
    if sampling == "subset":
        return (operator, loss) != ("dense", "smoothed_hinge")
    return loss != "smoothed_hinge" and (operator, loss) != ("dense", "square")


@pytest.mark.parametrize(("m", "q"), BLOCKS)
@pytest.mark.parametrize(("operator", "loss", "sampling"), [
    pytest.param(*case, marks=pytest.mark.nightly if by_night(*case) else ())
    for case in product(OPERATORS, LOSSES, ["partition", "subset"])
])
def test_dspdc_agrees_with_algorithms_1_and_2_of_the_paper(loss, operator, m, q, sampling):
    problem = make_problem(operator, loss, n=N, p=P, d=D)
    U, V = make_factors(N, P, D)
    Lambda = 9.0
    algorithm = DSPDC(
        problem, 3, m=m, q=q, sampling=sampling, Lambda=Lambda, theorem=2 if m == 4 else 1
    )
    blocks = drawn_blocks(algorithm, ITERATIONS, 3)
    r, s = algorithm.info["r"], algorithm.info["s"]
    assert (r, s) == ((-(-N // m), -(-P // q)) if sampling == "partition" else (N / m, P / q))
    assert algorithm.info["keep"] == ("rows" if r >= s else "columns")
    tau, sigma, theta = transcriptions.remark_1(
        N, P, N / r, P / s, Lambda, problem.lam, problem.gamma, algorithm.info["theorem"]
    )
    rest = (problem.b, loss, 0.01, 0.1, tau, sigma, theta, r, blocks)
    algorithm.advance(ITERATIONS)
    for x, y in (
        transcriptions.algorithm_1(U @ V, *rest), transcriptions.algorithm_2(U, V, *rest)
    ):
        np.testing.assert_allclose(algorithm.x, x, atol=1e-10)
        np.testing.assert_allclose(algorithm.y, y, atol=1e-10)


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize(("operator", "loss"), kernels())
def test_spdc_agrees_with_its_authors_pseudo_code(loss, operator, m):
    problem = make_problem(operator, loss, n=N, p=P, d=D)
    U, V = make_factors(N, P, D)
    algorithm = SPDC(problem, 5, m=m)
    batches = [I for I, _ in drawn_blocks(algorithm, ITERATIONS, 5)]
    x, y = transcriptions.spdc(U @ V, problem.b, loss, 0.01, 0.1, problem.gamma, batches)
    algorithm.advance(ITERATIONS)
    np.testing.assert_allclose(algorithm.x, x, atol=1e-10)
    np.testing.assert_allclose(algorithm.y, y, atol=1e-10)


@pytest.mark.parametrize("order", ["random", "permuted"])
@pytest.mark.parametrize(("m", "scaling"), [(1, "tight"), (7, "tight"), (7, "safe")])
@pytest.mark.parametrize(("operator", "loss"), kernels())
def test_sdca_agrees_with_its_authors_pseudo_code(loss, operator, m, scaling, order):
    problem = make_problem(operator, loss, n=N, p=P, d=D)
    U, V = make_factors(N, P, D)
    A = U @ V
    algorithm = SDCA(problem, seed=4, m=m, scaling=scaling, order=order)

    def scale_of(K):
        if scaling == "safe":
            return len(K)
        rows = A[K] / np.linalg.norm(A[K], axis=1, keepdims=True)
        return np.linalg.norm(rows, 2) ** 2

    batches = drawn_batches(algorithm, ITERATIONS, 4)
    if order == "permuted":
        epoch = int(algorithm.info["r"])
        for start in range(0, ITERATIONS - epoch + 1, epoch):
            visited = np.concatenate(batches[start:start + epoch])
            np.testing.assert_array_equal(np.sort(visited), np.arange(N))
    x, y = transcriptions.prox_sdca(A, problem.b, loss, 0.01, 0.1, batches, scale_of)
    algorithm.advance(ITERATIONS)
    np.testing.assert_allclose(algorithm.x, x, atol=1e-10)
    np.testing.assert_allclose(algorithm.y, y, atol=1e-10)


#: Every method; ASVRG-SP draws the entries that are stored, which differ between operators.
CASES = {
    "dspdc rows": ("dspdc", dict(m=4, q=5, Lambda="partition")),
    "dspdc columns": ("dspdc", dict(m=13, q=2, Lambda="partition")),
    "dspdc subset rows": ("dspdc", dict(m=4, q=5, sampling="subset")),
    "dspdc subset columns": ("dspdc", dict(m=13, q=2, sampling="subset")),
    "spdc": ("spdc", dict(m=3)), "sdca": ("sdca", dict(m=1)),
    "sdca batches": ("sdca", dict(m=4, order="permuted")),
    "svrg last": ("svrg", dict(snapshot="last")),
} | {name: (name, {}) for name in sorted(METHODS) if name not in ("dspdc", "spdc", "sdca")}
VARIANTS = [name for name in CASES if "subset" in name or name in ("sdca batches", "svrg last")]
every_case = daily([name for name in CASES if name != "asvrg_sp"],
                   *(name for name in CASES if name not in VARIANTS))


@pytest.mark.parametrize("case", every_case)
@pytest.mark.parametrize("loss", daily(LOSSES, "smoothed_hinge"))
def test_all_operators_give_the_same_iterates(loss, case):
    method, options = CASES[case]
    iterates = []
    for operator in OPERATORS:
        algorithm = METHODS[method](make_problem(operator, loss, n=N, p=P, d=D), seed=1, **options)
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
    other = DSPDC(problem, seed=2, m=4, q=problem.shape[1], sampling=sampling)
    authors = SPDC(problem, seed=2, m=4, sampling=sampling)
    for algorithm in (one, other, authors):
        algorithm.advance(150)
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    assert not np.allclose(one.x, authors.x, atol=1e-12)


CUT = CASES | {
    "adaptive": ("dspdc", dict(m=4, q=5, adaptive=True)),
    "dspdc by importance": ("dspdc", dict(m=4, q=5, probabilities="importance")),
    "spdc by importance": ("spdc", dict(m=4, probabilities="importance")),
    "sdca by importance": ("sdca", dict(m=4, probabilities="importance")),
}


@pytest.mark.parametrize(("operator", "case"), [
    pytest.param(operator, case, marks=pytest.mark.nightly) if operator != "dense" and (
        case in VARIANTS or "importance" in case
    ) else (operator, case) for operator, case in product(OPERATORS, CUT)
])
def test_equal_seeds_give_equal_iterates_however_the_iterations_are_cut(operator, case):
    method, options = CUT[case]
    loss = "square" if "importance" in case else "smoothed_hinge"

    def run(seed, pieces):
        algorithm = METHODS[method](make_problem(operator, loss), seed=seed, **options)
        for piece in pieces:
            algorithm.advance(piece)
        return algorithm

    whole, cut, other = run(1, [60]), run(1, [1, 7, 0, 30, 22]), run(2, [60])
    np.testing.assert_array_equal(whole.x, cut.x)
    np.testing.assert_array_equal(whole.y, cut.y)
    assert whole.passes == cut.passes
    assert whole.coordinate_updates == cut.coordinate_updates
    assert np.array_equal(whole.x, other.x) == (method in ("pdhg", "fista"))     # deterministic


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


def test_zero_rows_are_no_obstacle_and_sdca_settles_them_in_an_epoch():
    A = np.zeros((5, 3))
    A[0] = 1.0
    b = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    for method in METHODS:
        result = solve(erm(A, b), method=method, tol=1e-10)
        assert result.status == "converged"
    epoch = SDCA(erm(A, b), order="permuted")
    epoch.advance(5)
    np.testing.assert_allclose(epoch.y[1:], -b[1:], atol=1e-14)


BAD = {
    "unknown option": ("dspdc", dict(batch=3), "has no option 'batch'; it has .*sampling"),
    "m too large": ("dspdc", dict(m=31), "m must be an integer from 1 to 30"),
    "q zero": ("dspdc", dict(q=0), "q must be an integer from 1 to 12"),
    "m not a number": ("sdca", dict(m="all"), "m must be .*got 'all'"),
    "fraction above one": ("spdc", dict(m=1.5), "fraction in"),
    "unknown sampling": ("dspdc", dict(sampling="cyclic"), "sampling must be one of"),
    "unknown theorem": ("dspdc", dict(theorem=3), "theorem must be one of 1, 2"),
    "unknown steps": ("spdc", dict(steps="mine"), "steps must be one of"),
    "theorem without dspdc steps": ("spdc", dict(theorem=2), "only with steps='dspdc'"),
    "q for spdc": ("spdc", dict(q=3), "spdc updates all p primal coordinates.*got q=3"),
    "unknown order": ("sdca", dict(order="cyclic"), "order must be one of"),
    "unknown scaling": ("sdca", dict(scaling="loose"), "scaling must be one of"),
    "partition constant of subsets": (
        "dspdc", dict(sampling="subset", Lambda="partition"), "use Lambda='bound'"
    ),
    "heuristic scale": (
        "dspdc", dict(Lambda="heuristic", heuristic_scale=0), "heuristic_scale must be"
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_options_are_refused_before_any_work(case):
    method, options, message = BAD[case]
    problem = make_problem()
    with pytest.raises(ValueError, match=message):
        solve(problem, method=method, **options)


@pytest.mark.parametrize(("m", "q"), [(140, 70), (70, 140)])
@pytest.mark.parametrize("operator", daily(OPERATORS, "dense"))
def test_blocks_larger_than_a_tile_are_updated_whole(operator, m, q):
    n, p = 150, 145
    problem = make_problem(operator, n=n, p=p, d=D)
    U, V = make_factors(n, p, D)
    algorithm = DSPDC(problem, 3, m=m, q=q, sampling="subset", Lambda=400.0)
    blocks = drawn_blocks(algorithm, 20, 3)
    info = algorithm.info
    x, y = transcriptions.algorithm_1(
        U @ V, problem.b, "smoothed_hinge", 0.01, 0.1, info["tau"], info["sigma"], info["theta"],
        info["r"], blocks,
    )
    algorithm.advance(20)
    np.testing.assert_allclose(algorithm.x, x, atol=1e-10)
    np.testing.assert_allclose(algorithm.y, y, atol=1e-10)


def test_permuted_epochs_are_fresh_random_permutations():
    algorithm = SDCA(make_problem(loss="square", n=N), seed=4, order="permuted")
    visited = np.concatenate(drawn_batches(algorithm, 300 * N, 4)).reshape(300, N)
    assert len({tuple(epoch) for epoch in visited}) == 300
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


@pytest.mark.parametrize(("operator", "case"), [
    pytest.param(operator, case, marks=pytest.mark.nightly) if operator != "dense" and (
        case in VARIANTS or case == "sdca"
    ) else (operator, case) for operator, case in product(OPERATORS, CASES)
    if CASES[case][0] in ("dspdc", "spdc", "sdca")
])
def test_iterations_per_pass_tells_the_work_of_a_pass(operator, case):
    method, options = CASES[case]
    # With the hinge SDCA has coordinates that do not move, which cost it less.
    loss = "square" if case == "sdca" else "smoothed_hinge"
    algorithm = METHODS[method](make_problem(operator, loss, n=60, p=24), **options)
    n_iterations = 40 * round(algorithm.iterations_per_pass + 1)
    algorithm.advance(n_iterations)
    expected = n_iterations / algorithm.iterations_per_pass
    tolerance = 0.25 if case == "sdca batches" else 0.15
    assert algorithm.passes == pytest.approx(expected, rel=tolerance)

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse
from conftest import OPERATORS, make_factors, make_problem
from matrix_cases import block_norm2, flat_of, metric_problem, risk_problem, trace_problem
from test_matrix_operators import CASES as MATRICES
from test_matrix_operators import operator_of

from benchmark_dspdc import erm
from benchmark_dspdc.engine.sampling import partition, subset
from benchmark_dspdc.operators import as_operator
from benchmark_dspdc.operators.rank_one import RankOneOperator
from benchmark_dspdc.theory import coupling_constant as coupling
from benchmark_dspdc.theory.coupling_constant import (
    coupling_constant,
    norm2,
    normalised_norms2,
    partition_constant,
    sampled_norm2,
    subset_bound,
)


def make(kind, n, p, d=4, seed=0, scale=1.0):
    U, V = make_factors(n, p, d, seed)
    # Uneven rows and columns, so that the largest block is not any block.
    rng = np.random.default_rng(seed)
    U = U * np.exp(scale * rng.standard_normal((n, 1)))
    V = V * np.exp(scale * rng.standard_normal(p))
    U[3:4] = 0.0
    A = U @ V
    if kind == "csr":
        A = np.where(np.abs(A) > np.median(np.abs(A)), A, 0.0)
        return A, as_operator(scipy.sparse.csr_array(A))
    return A, as_operator(A if kind == "dense" else (U, V))


def brute_force(A, dual, primal):
    return max(
        np.linalg.norm(A[np.ix_(I, J)], 2) ** 2
        for I in dual.blocks for J in primal.blocks
    )


@pytest.mark.parametrize("kind", [*OPERATORS, risk_problem, trace_problem, metric_problem])
def test_subset_bound_covers_all_subsets(kind, monkeypatch):
    if kind in OPERATORS:
        A, operator = make(kind, 6, 5)
        flat = A[:, :, None]
    else:
        shape = dict(sizes=(4, 4), d=3, n_impostors=1) if kind is metric_problem else (
            dict(n=6, p=3, d=3)
        )
        written = kind(**shape)
        operator = written.problem.operator
        flat = flat_of(written.D, operator.weights)
    n, p = operator.shape
    for m, q in product((1, 2, 4, n), (1, 2, 3, p)):
        largest = max(
            block_norm2(flat, I, J)
            for I in combinations(range(n), m) for J in combinations(range(p), q)
        )
        constant = subset_bound(operator, m, q)
        assert constant.value >= largest * (1 - 1e-10)
        if kind in OPERATORS:
            squares = A ** 2
            formula = min(
                np.linalg.norm(A, 2) ** 2,
                m * np.sort(squares, axis=1)[:, -q:].sum(axis=1).max(),
                q * np.sort(squares, axis=0)[-m:].sum(axis=0).max(),
            )
            assert constant.value == pytest.approx(formula, rel=1e-10)
    assert norm2(operator).value == pytest.approx(largest, rel=1e-9)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    assert norm2(operator).value >= largest * (1 - 1e-10)


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_norm_is_exact_within_the_budget_and_bounded_beyond(kind, nonnegative, monkeypatch):
    A, operator = make(kind, 40, 30)
    if nonnegative and kind != "factorized":
        A = np.abs(A)
        operator = as_operator(A if kind == "dense" else scipy.sparse.csr_array(A))
    exact = np.linalg.norm(A, 2) ** 2
    assert norm2(operator).value == pytest.approx(exact, rel=1e-10)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    bound = norm2(operator).value
    assert exact * (1 - 1e-12) <= bound <= (A ** 2).sum() * (1 + 1e-12)
    if nonnegative and kind != "factorized":
        assert bound == pytest.approx(exact, rel=1e-3)


def test_heuristic_is_the_papers_and_is_said_to_be_unsafe():
    A, _ = make("dense", 20, 13)
    problem = erm(A, np.ones(20))
    rng = np.random.default_rng(0)
    dual, primal = subset(20, 3), subset(13, 4)
    constant = coupling_constant(problem, "heuristic", dual, primal, heuristic_scale=2.0)
    assert constant.value == pytest.approx(2.0 * 3 * 4 * (A ** 2).sum(axis=1).max() / 13)
    assert "may lie below" in constant.kind
    assert coupling_constant(problem, 7.5, dual, primal) == (7.5, "given")
    assert coupling_constant(problem, "auto", dual, primal).kind.startswith("upper bound over")
    dual, primal = partition(20, 3, rng), partition(13, 4, rng)
    assert coupling_constant(problem, "auto", dual, primal).kind == "exact"
    # A bound over all subsets covers a partition's blocks too.
    assert coupling_constant(problem, "bound", dual, primal).value >= (
        coupling_constant(problem, "partition", dual, primal).value
    )


def test_partition_constant_is_refused_for_subsets():
    problem = erm(np.eye(4), np.ones(4))
    with pytest.raises(ValueError, match="needs sampling='partition'.*use Lambda='bound'"):
        coupling_constant(problem, "partition", subset(4, 2), subset(4, 2))


@pytest.mark.parametrize("m", [2, 5, 20])
@pytest.mark.parametrize("kind", [*OPERATORS, *MATRICES])
def test_norms_of_normalised_rows_are_exact_or_bound_from_above(kind, m, monkeypatch):
    if kind in OPERATORS:
        A, operator = make(kind, 20, 13)
    else:
        operator, D = operator_of(kind)
        A = flat_of(D, operator.weights).reshape(len(D), -1)
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    A = np.divide(A, lengths, out=np.zeros_like(A), where=lengths > 0)
    blocks = partition(len(A), min(m, len(A)), np.random.default_rng(2))
    exact = np.array([np.linalg.norm(A[I], 2) ** 2 for I in blocks.blocks])
    np.testing.assert_allclose(normalised_norms2(operator, blocks), exact, rtol=1e-8)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    for chunk in (1, 2, 1000):
        monkeypatch.setattr(RankOneOperator, "CHUNK", chunk)
        bounds = normalised_norms2(operator, blocks)
        assert (bounds >= exact * (1 - 1e-8)).all()
        assert (bounds <= np.diff(blocks.starts)).all()


@pytest.mark.parametrize(("n", "p", "m", "q"), [(40, 90, 1, 1), (90, 40, 1, 2), (40, 90, 2, 1)])
def test_factorised_sums_over_many_blocks_form_rows_in_chunks(n, p, m, q, monkeypatch):
    from benchmark_dspdc.operators import factorized, gram

    A, operator = make("factorized", n, p, d=3)
    small = lambda n, width: gram.chunks(n, width, entries=100)  # noqa: E731
    monkeypatch.setattr(factorized, "chunks", small)
    rng = np.random.default_rng(1)
    dual, primal = partition(n, m, rng), partition(p, q, rng)
    constant = partition_constant(operator, dual, primal)
    assert constant == (pytest.approx(brute_force(A, dual, primal), rel=1e-10), "exact")


def test_largest_heads_are_found_across_chunks_and_bounded_over_budget(monkeypatch):
    from benchmark_dspdc.operators import gram

    whole = gram.chunks
    monkeypatch.setattr(gram, "chunks", lambda n, width: whole(n, width, entries=30))
    for kind in OPERATORS:
        A, operator = make(kind, 20, 13)
        for transposed, M in ((False, A), (True, A.T)):
            expected = np.sort(M ** 2, axis=1)[:, -4:].sum(axis=1).max()
            assert operator.largest_head(4, transposed, 1e9) == pytest.approx(expected)
            assert operator.largest_head(4, transposed, 0.0) >= expected * (1 - 1e-12)


def test_sums_too_wide_to_hold_still_give_the_exact_single_row_constant():
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((3000, 4000), density=0.002, rng=rng, format="csr")
    operator = as_operator(A)
    dual, primal = partition(3000, 1, rng), partition(4000, 1, rng)
    constant = partition_constant(operator, dual, primal)
    assert constant == (pytest.approx((A.data ** 2).max()), "exact")
    pair = partition(3000, 2, rng), partition(4000, 1, rng)
    dense = A.toarray() ** 2
    expected = max(dense[I].sum(axis=0).max() for I in pair[0].blocks)
    assert partition_constant(operator, *pair).value == pytest.approx(expected)


@pytest.mark.parametrize("operator", OPERATORS)
def test_sampled_norms_of_batches_are_near_the_true_ones(operator, monkeypatch):
    problem = make_problem(operator, n=400, p=30, d=8)
    rng = np.random.default_rng(0)
    for m in (1, 2, 40, 400):
        true = normalised_norms2(problem.operator, partition(400, m, rng)).max()
        assert 0.7 <= sampled_norm2(problem.operator, m, rng) / true <= 1.3
    # And told from fewer rows.
    monkeypatch.setattr(coupling, "SAMPLED_ROWS", 50)
    true = normalised_norms2(problem.operator, partition(400, 200, rng)).max()
    assert 0.9 <= sampled_norm2(problem.operator, 200, rng) / true <= 2.0


def test_sampled_norms_without_data():
    operator = erm(np.zeros((6, 3)), np.ones(6)).operator
    assert sampled_norm2(operator, 4, np.random.default_rng(0)) == 1.0

"""Operators of matrices: stored ones, sums of rank-one terms, and the norms of both."""

import numpy as np
import pytest
from conftest import daily
from matrix_cases import PROBLEMS, block_norm2, flat_of, metric_problem

from benchmark_dspdc.engine.sampling import partition
from benchmark_dspdc.engine.symmetric import pack, unpack
from benchmark_dspdc.model.losses import LOSSES
from benchmark_dspdc.operators.matrix_blocks import MatrixOperator
from benchmark_dspdc.operators.rank_one import RankOneOperator
from benchmark_dspdc.state.iteration import Ascent
from benchmark_dspdc.state.primal_dual_matrices import DualRows, dual_ascent
from benchmark_dspdc.theory import coupling_constant as coupling
from benchmark_dspdc.theory.coupling_constant import partition_constant


def random_rank_one(blocks, rng, sizes, n_vectors, n, d=3, plain=0.3):
    """Groups of random vectors, rows of random terms; and the same as an explicit operator."""
    n_groups = len(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    vector_starts = np.concatenate([[0], np.cumsum(n_vectors)])
    points = rng.standard_normal((starts[-1], d))
    ends = np.concatenate([
        rng.integers(starts[g], starts[g + 1], size=(n_vectors[g], 2)) for g in range(n_groups)
    ])
    ends[rng.random(len(ends)) < plain, 1] = -1
    group_of = np.repeat(np.arange(n_groups), n_vectors)
    rows = []
    for _ in range(n):
        group = rng.integers(n_groups)
        allowed = len(ends) if blocks == "own" else np.flatnonzero(group_of == group)
        rows.append(rng.choice(allowed, size=rng.integers(1, 5)))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    terms = np.concatenate(rows)
    signs = rng.choice([-1, 1], size=len(terms))
    V = points[ends[:, 0]] - np.where(ends[:, 1:] >= 0, points[ends[:, 1]], 0.0)
    p = {"own": n_groups, "shared": 1, "both": n_groups + 1}[blocks]
    D = np.zeros((n, p, d, d))
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            outer = signs[e] * np.outer(V[terms[e]], V[terms[e]])
            if blocks != "own":
                D[i, 0] += outer
            if blocks != "shared":
                D[i, group_of[terms[e]] + (blocks == "both")] += outer
    weights = rng.random(p) + 0.1
    one = RankOneOperator(
        points, starts, ends, vector_starts, indptr, terms, signs, blocks, weights
    )
    return one, MatrixOperator(pack(D), d, weights), D


SHAPES = {
    "more vectors than points": dict(sizes=[4, 3, 5], n_vectors=[20, 2, 9], n=30),
    "more points than vectors": dict(sizes=[30, 40], n_vectors=[8, 12], n=20),
    "several slices": dict(sizes=[400, 10], n_vectors=[300, 30], n=250),
    "one group": dict(sizes=[6], n_vectors=[9], n=8),
    "many groups": dict(sizes=[3] * 40, n_vectors=[4] * 40, n=60),
    "one row": dict(sizes=[3, 3], n_vectors=[2, 2], n=1),
    "d is one": dict(sizes=[4, 3], n_vectors=[6, 3], n=10, d=1),
}
shapes = pytest.mark.parametrize("shape", SHAPES)
kinds_of_blocks = pytest.mark.parametrize("blocks", ["own", "shared", "both"])


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# Products ----------------------------------------------------------------------------------

@pytest.mark.parametrize("loss", daily(LOSSES, "smoothed_hinge"))
@shapes
@kinds_of_blocks
def test_dual_steps_of_rank_one_sums_are_those_of_explicit_matrices(blocks, shape, loss):
    rng = np.random.default_rng(4)
    one, other, _ = random_rank_one(blocks, rng, **SHAPES[shape])
    n, p = one.shape
    X = pack(rng.standard_normal(one.x_shape))
    b = np.sign(rng.standard_normal(n))
    start = -b * rng.random(n)
    wanted = rng.random(p) < 0.5
    rows = rng.permutation(n)[:-(-2 * n // 3)]
    found = []
    for operator in (one, other):
        y, total, delta = start.copy(), X.copy(), np.full_like(X, np.nan)
        touched = dual_ascent(
            operator, operator.plan(rows), Ascent(LOSSES[loss], 0.7), DualRows(rows, b, y),
            X.copy(), (total, delta, wanted), np.empty(n),
        )
        found.append((y, total))
        touched = np.arange(p) if touched is None else touched
        given = touched[wanted[touched]]
        assert_close(delta[given], (total - X)[given])
        assert np.isnan(delta[~wanted]).all()
    assert_close(found[0][0], found[1][0])
    assert_close(found[0][1], found[1][1])
    assert (found[0][0] != start).any()


@shapes
@kinds_of_blocks
def test_products_of_rank_one_sums_are_those_of_explicit_matrices(blocks, shape):
    rng = np.random.default_rng(3)
    one, other, D = random_rank_one(blocks, rng, **SHAPES[shape])
    n, p, d, _ = D.shape
    X = rng.standard_normal((p, d, d))
    X = X + X.swapaxes(1, 2)
    y = rng.standard_normal(n) * (rng.random(n) < 0.7)
    assert one.shape == other.shape == (n, p)
    for operator in (one, other):
        assert_close(operator.matvec(X), np.einsum("ijkl,jkl->i", D, X))
        assert_close(operator.rmatvec(y), np.einsum("i,ijkl->jkl", y, D))
        for size in {1, -(-n // 3), n}:
            check_rows(operator, D, rng.permutation(n)[:size], X, y, rng)
        for size in {1, -(-p // 2), p}:
            columns = rng.permutation(p)[:size]
            assert_close(
                operator.column_products(columns, X[columns]),
                np.einsum("ijkl,jkl->i", D[:, columns], X[columns]),
            )
            out = np.full((size, d, d), np.nan)
            operator.add_columns(columns, y, out)
            assert_close(out, np.einsum("i,ijkl->jkl", y, D[:, columns]))
        squares = np.sum(D ** 2, axis=(2, 3)) * operator.weights
        assert_close(operator.row_norms2, squares.sum(axis=1))
        assert_close(operator.column_norms2, squares.sum(axis=0))
        # Row products with what row products were made of: nothing was changed.
        assert_close(operator.matvec(X), np.einsum("ijkl,jkl->i", D, X))


def check_rows(operator, D, rows, X, y, rng):
    """Products with rows, and their Gram matrices, beside those of the matrices."""
    size, (_, p, d, _) = len(rows), D.shape
    plan, packed = operator.plan(rows), pack(X)
    out = np.full(size + 2, np.nan)
    operator.row_products(plan, packed, out)
    assert_close(out[:size], np.einsum("ijkl,jkl->i", D[rows], X))
    assert np.isnan(out[size:]).all()
    wanted = rng.random(p) < 0.5
    for coef in (y[rows], 0.0 * y[rows]):
        total, delta = packed.copy(), np.full_like(packed, np.nan)
        touched = operator.add_rows(plan, np.append(coef, [7.0]), total, delta, wanted)
        expected = np.einsum("i,ijkl->jkl", coef, D[rows])
        assert_close(unpack(total, d), X + expected)
        touched = np.arange(p) if touched is None else touched
        assert len(set(touched)) == len(touched)
        given = touched[wanted[touched]]
        assert_close(unpack(delta[given], d), expected[given])
        assert np.isnan(delta[~wanted]).all()
        assert not expected[np.setdiff1d(np.arange(p), touched)].any()
    some, scale = rng.permutation(p)[:-(-p // 2)], rng.random(size)
    for columns, factor in ((None, None), (some, scale)):
        part = flat_of(D[rows], operator.weights)[:, slice(None) if columns is None else columns]
        part = part.reshape(size, -1) * (1.0 if factor is None else factor[:, None])
        assert_close(operator.gram(rows, columns, factor), part @ part.T)


@pytest.mark.parametrize("n_impostors", [1, 3, 10])
def test_mt_lmnn_is_what_its_formula_says(n_impostors):
    # Two classes of 12 points in the first task: every other point an impostor of some.
    written = metric_problem(n_neighbors=3, n_impostors=n_impostors, sizes=(24, 22), d=5)
    operator, D, rng = written.problem.operator, written.D, np.random.default_rng(0)
    X = rng.standard_normal(operator.x_shape)
    X = X @ X.swapaxes(1, 2)
    y = -rng.random(len(D))
    assert_close(operator.matvec(X), np.einsum("ijkl,jkl->i", D, X))
    assert_close(operator.rmatvec(y), np.einsum("i,ijkl->jkl", y, D))
    assert written.problem.primal(X) == pytest.approx(written.primal(X), rel=1e-12)


# Norms -------------------------------------------------------------------------------------

def operator_of(case):
    if case in PROBLEMS:
        written = PROBLEMS[case]()
        return written.problem.operator, written.D
    one, _, D = random_rank_one(case, np.random.default_rng(5), [5, 4, 9], [9, 5, 6], 24)
    return one, D


CASES = ["matrix_risk", "trace_regression", "mt_lmnn", "mt_lmnn-shared", "own", "shared", "both"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("m", "q"), [(1, 1), (1, 2), (1, 9), (5, 1), (5, 2), (12, 9), (99, 1)])
def test_partition_constant_is_the_largest_weighted_block_norm(case, m, q, monkeypatch):
    operator, D = operator_of(case)
    n, p = operator.shape
    flat = flat_of(D, operator.weights)
    rng = np.random.default_rng(1)
    dual, primal = partition(n, min(m, n), rng), partition(p, min(p, q), rng)
    exact = max(block_norm2(flat, I, J) for I in dual.blocks for J in primal.blocks)
    constant = partition_constant(operator, dual, primal)
    assert constant.kind == "exact"
    assert constant.value == pytest.approx(exact, rel=1e-9)
    monkeypatch.setattr(coupling, "budget", lambda operator: 0.0)
    for chunk in (1, 3, 1000):
        monkeypatch.setattr(RankOneOperator, "CHUNK", chunk)
        constant = partition_constant(operator, dual, primal)
        assert constant.value >= exact * (1 - 1e-10)
        if m > 1:
            assert constant.kind.startswith("upper bound (")
            assert constant.value <= dual.largest * operator.row_norms2.max() * (1 + 1e-10)


@pytest.mark.parametrize("case", ["mt_lmnn", "mt_lmnn-shared", "own", "both"])
def test_norms_of_chunks_of_rows_added_up_are_an_upper_bound(case):
    operator, D = operator_of(case)
    n, p = operator.shape
    flat = flat_of(D, operator.weights)
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows = rng.permutation(n)[:rng.integers(1, n + 1)]
        columns = rng.permutation(p)[:rng.integers(1, p + 1)]
        scale = rng.random(len(rows)) + 0.1
        part = flat[rows] * scale[:, None, None]

        def exact(columns, part=part):
            return block_norm2(part, np.arange(len(part)), columns)
        for chunk in (1, 4, None):
            assert operator.rows_norm2(rows, columns, scale, chunk) >= exact(columns) * (1 - 1e-10)
        # The shared block alone; and rows of different tasks are orthogonal outside of it.
        alone = [[0]] if operator.common >= 0 else []
        for columns in [*alone, np.arange(1, p)] if case == "mt_lmnn" else alone:
            found = operator.rows_norm2(rows, np.asarray(columns), scale)
            assert found == pytest.approx(exact(columns), rel=1e-9)


def test_norms_of_large_chunks_are_certified():
    rng = np.random.default_rng(0)
    written = metric_problem(sizes=(60, 40), d=4, n_neighbors=2, n_impostors=2)
    operator = written.problem.operator
    n, p = operator.shape
    rows = rng.permutation(n)[:300]
    exact = block_norm2(flat_of(written.D, operator.weights), rows, np.arange(p))
    bounds = [operator.rows_norm2(rows, None, None, chunk) for chunk in (None, 150, 40)]
    assert exact <= bounds[0] * (1 + 1e-10)
    assert bounds[0] <= bounds[1] * 1.03 <= bounds[2] * 1.03 ** 2
    assert bounds[0] <= 2.1 * exact

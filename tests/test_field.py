"""Every method on every operator: optima, identities, estimators, rates, lazy against eager."""

import numpy as np
import pytest
import scipy.sparse
from conftest import LOSSES, OPERATORS, make_problem

from benchmark_dspdc import erm, solve
from benchmark_dspdc.algorithms import METHODS
from benchmark_dspdc.operators.lazy import LazyRows
from benchmark_dspdc.operators.sparse import SparseOperator

FIELD = sorted(set(METHODS) - {"dspdc", "sdca"})

#: Methods that move all of x in every iteration, and make up for it lazily on sparse data.
LAZY = {"saga": {}, "svrg": {}, "katyusha": {}, "rpdg": {}, "spdc": {}}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("method", FIELD)
def test_every_method_closes_the_gap(method, operator, loss):
    problem = make_problem(operator, loss, lambda1=0.02, lambda2=0.2)
    reference = solve(problem, "sdca", tol=1e-12, max_seconds=None, max_passes=20000)
    result = solve(problem, method, tol=1e-8, max_seconds=None, max_passes=20000)
    assert result.status == "converged", result
    # P is lambda2-strongly convex.
    assert np.linalg.norm(result.x - reference.x) <= np.sqrt(2.0 * 1.1e-8 / 0.2)
    assert reference.primal - 1e-10 <= result.primal <= reference.primal + 1e-7


def sparse_problem(loss, lambda1, seed=0, n=60, p=300, lambda2=0.02):
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random_array((n, p), density=0.02, rng=rng, format="csr")
    A.data[:] = rng.standard_normal(len(A.data))
    z = A @ rng.standard_normal(p)
    return A, z if loss == "square" else np.where(z >= 0.0, 1.0, -1.0), lambda1, lambda2


def lazy_and_eager(monkeypatch, A, b, loss, lambda1, lambda2):
    problems = []
    for share in (np.inf, 0.0):
        problem = erm(A, b, loss, lambda1, lambda2)
        monkeypatch.setattr(problem.operator, "LAZY", share, raising=False)
        problems.append(problem)
    return problems


@pytest.mark.parametrize("lambda1", [0.0, 1e-3, 1e-2])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", LAZY)
def test_lazy_and_eager_iterates_agree(method, loss, lambda1, monkeypatch):
    A, b, lambda1, lambda2 = sparse_problem(loss, lambda1)
    lazy, eager = lazy_and_eager(monkeypatch, A, b, loss, lambda1, lambda2)
    one, other = (METHODS[method](problem, seed=3) for problem in (lazy, eager))
    assert isinstance(one._coupling, LazyRows)
    assert not isinstance(other._coupling, LazyRows)
    moved = False
    for count in (1, 1, 5, 30, 200, 60, 500):
        one.advance(count)
        other.advance(count)
        np.testing.assert_allclose(one.x, other.x, rtol=1e-10, atol=1e-12)
        moved |= bool(one.x.any())
    assert moved
    assert one.passes == other.passes


@pytest.mark.parametrize("method", LAZY)
def test_lazy_iterates_with_batches_and_many_steps_apart(method, monkeypatch):
    # More than the table of powers holds.
    A, b, lambda1, lambda2 = sparse_problem("smoothed_hinge", 1e-3, n=700, p=4000)
    lazy, eager = lazy_and_eager(monkeypatch, A[:, :200], b, "smoothed_hinge", lambda1, lambda2)
    for m in (1, 7):
        one, other = (METHODS[method](problem, seed=3, m=m) for problem in (lazy, eager))
        for algorithm in (one, other):
            algorithm.advance(3000)
        np.testing.assert_allclose(one.x, other.x, rtol=1e-10, atol=1e-12)


def test_sparse_operators_choose_lazy_rows_where_rows_are_short():
    A, b, *_ = sparse_problem("square", 0.0)
    assert SparseOperator.LAZY == 0.5
    assert isinstance(METHODS["saga"](erm(A, b, "square"))._coupling, LazyRows)
    full = scipy.sparse.csr_array(np.ones((4, 3)))
    assert not isinstance(METHODS["saga"](erm(full, b[:4], "square"))._coupling, LazyRows)

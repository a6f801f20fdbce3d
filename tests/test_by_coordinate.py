"""Steps tau and rho that are one for each coordinate, on all that a run keeps."""

import numpy as np
import pytest
import scipy.sparse
from conftest import make_factors, make_labels
from replay import drawn_blocks
from transcriptions import algorithm_1, matrix_algorithm_1

from benchmark_dspdc import erm, matrix_risk
from benchmark_dspdc.methods.loop import LoopMethod
from benchmark_dspdc.state.lazy import Extrapolated, LazyRows, Plain, Summed
from benchmark_dspdc.state.primal_dual import ColumnState, FactorState, RowState
from benchmark_dspdc.state.primal_dual_matrices import BlockColumns, BlockRows
from benchmark_dspdc.state.scaled import ScaledRows
from benchmark_dspdc.theory.setting import samplers
from benchmark_dspdc.theory.steps import Steps

N, P, D = 30, 12, 5
SEED, ITERATIONS = 3, 120
THETA = 0.9


class Run(LoopMethod):
    """The loop with given steps."""

    def setup(self, seeds, m, q, steps, kind=None):
        self._start(seeds, *samplers(self.problem, seeds, m, q, "partition"), steps, kind=kind)


def sparse(n=40, p=200):
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((n, p), density=0.02, rng=rng, format="csr")
    A.data[:] = rng.standard_normal(len(A.data))
    return A


def vectors(stored, lambda1=0.01):
    U, V = make_factors(N, P, D)
    A = sparse().toarray() if stored == "lazy" else U @ V
    given = (U, V) if stored == "factorized" else A if stored == "dense" else (
        scipy.sparse.csr_array(A)
    )
    b = make_labels(A, "smoothed_hinge")
    return erm(given, b, "smoothed_hinge", lambda1, lambda2=0.1), A


nightly = pytest.mark.nightly

#: What is stored, m, q, the state that comes of it, its kind and lambda1. Without an l1 term
#: lazy rows are scaled, but only where tau is a number.
CASES = {
    "dense rows": ("dense", 4, 5, RowState, None, 0.01),
    "dense columns": ("dense", 13, 2, ColumnState, None, 0.01),
    "csr rows": ("csr", 4, 5, RowState, None, 0.01),
    "csr columns": ("csr", 13, 2, ColumnState, None, 0.01),
    "factorized": ("factorized", 4, 5, FactorState, None, 0.01),
    "lazy, single rows": ("lazy", 1, 200, LazyRows, Extrapolated(), 0.01),
    "lazy, batches": ("lazy", 4, 200, LazyRows, Extrapolated(), 0.01),
    "lazy plain": ("lazy", 4, 200, LazyRows, Plain(), 0.0),
    "lazy summed": ("lazy", 4, 200, LazyRows, Summed(), 0.0),
}
BY_DAY = ("dense rows", "factorized", "lazy, single rows", "lazy, batches")


def theta_of(kind):
    return THETA if kind is None or isinstance(kind, Extrapolated) else 0.0


def compare(run, x, y, rtol=1e-12):
    np.testing.assert_allclose(run.x, x, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(run.y, y, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("case", [
    case if case in BY_DAY else pytest.param(case, marks=nightly) for case in CASES
])
def test_steps_by_coordinate_are_those_of_the_transcription(case):
    stored, m, q, state, kind, lambda1 = CASES[case]
    problem, A = vectors(stored, lambda1)
    (n, p), rng = A.shape, np.random.default_rng(1)
    tau, sigma = rng.uniform(0.05, 0.5, p), rng.uniform(0.5, 3.0, n)
    run = Run(problem, SEED, m=m, q=q, kind=kind, steps=Steps(tau, sigma, theta_of(kind)))
    assert type(run._loop.state) is state
    blocks = drawn_blocks(run, ITERATIONS, SEED)
    run.advance(ITERATIONS)
    x, y = algorithm_1(
        A, problem.b, "smoothed_hinge", lambda1, 0.1, tau, sigma, theta_of(kind), run.info["r"],
        blocks,
    )
    assert (x != 0.0).any()
    compare(run, x, y, 1e-9)
    # A change of steps on the way is one of all coordinates, lazy ones included.
    run._loop.settle()
    run._loop.set_steps(Steps(2.0 * tau, sigma, theta_of(kind)))
    np.testing.assert_array_equal(np.sort(run._loop.steps.tau), np.sort(2.0 * tau))


@pytest.mark.parametrize("case", [
    case if case in BY_DAY else pytest.param(case, marks=nightly) for case in CASES
])
def test_equal_steps_of_all_coordinates_are_one_step(case):
    stored, m, q, state, kind, lambda1 = CASES[case]
    problem, A = vectors(stored, lambda1)
    (n, p), theta = A.shape, theta_of(kind)

    def run(tau, sigma):
        run = Run(problem, SEED, m=m, q=q, kind=kind, steps=Steps(tau, sigma, theta))
        run.advance(ITERATIONS)
        return run
    one, each = run(0.3, 2.0), run(np.full(p, 0.3), np.full(n, 2.0))
    linear = isinstance(kind, (Plain, Summed))
    assert type(one._loop.state) is (ScaledRows if linear else state)
    assert type(each._loop.state) is state
    assert one.x.any()
    compare(each, one.x, one.y)


@pytest.mark.parametrize(("m", "q", "state"), [(3, 2, BlockRows), (12, 1, BlockColumns)])
def test_steps_by_matrix_are_those_of_the_transcription(m, q, state):
    n, p, d = 12, 4, 3
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, p, d, d))
    A = A + A.transpose(0, 1, 3, 2)
    lam = np.array([0.5, 0.3, 0.3, 0.4])
    problem = matrix_risk(A, np.where(rng.random(n) < 0.5, -1.0, 1.0), lam=lam)
    tau, sigma = rng.uniform(0.02, 0.2, p), rng.uniform(0.5, 3.0, n)
    run = Run(problem, SEED, m=m, q=q, steps=Steps(tau, sigma, THETA))
    assert type(run._loop.state) is state
    blocks = drawn_blocks(run, 60, SEED)
    run.advance(60)
    zero = np.zeros((p, d, d))
    # tau_j is in units in which all moduli are the least one.
    X, y = matrix_algorithm_1(
        A, problem.b, "smoothed_hinge", lam, zero, zero, tau * lam.min() / lam, sigma, THETA,
        run.info["r"], blocks,
    )
    assert X.any()
    compare(run, X, y, 1e-9)

    one = Run(problem, SEED, m=m, q=q, steps=Steps(0.1, 2.0, THETA))
    each = Run(
        problem, SEED, m=m, q=q, steps=Steps(np.full(p, 0.1), np.full(n, 2.0), THETA)
    )
    for each_run in (one, each):
        each_run.advance(60)
    compare(each, one.x, one.y)

"""Steps tau and rho that are one for each coordinate, on all that a run keeps."""

import numpy as np
import pytest
import scipy.sparse
from conftest import daily, make_factors, make_labels, stored_as
from matrix_cases import SMALL
from method_cases import compare as compare_iterates
from replay import drawn_blocks
from transcriptions import Vectors, algorithm_1

from benchmark_dspdc import erm
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
    A = sparse() if stored == "lazy" else stored_as(stored, *make_factors(N, P, D))
    full = A.toarray() if stored == "lazy" else np.dot(*make_factors(N, P, D))
    b = make_labels(full, "smoothed_hinge")
    return erm(A, b, "smoothed_hinge", lambda1, lambda2=0.1), full


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


def compare(run, x, y):
    np.testing.assert_allclose(run.x, x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run.y, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", daily(CASES, *BY_DAY))
def test_steps_by_coordinate_are_those_of_the_transcription(case):
    stored, m, q, state, kind, lambda1 = CASES[case]
    problem, A = vectors(stored, lambda1)
    (n, p), rng = A.shape, np.random.default_rng(1)
    tau, sigma = rng.uniform(0.05, 0.5, p), rng.uniform(0.5, 3.0, n)
    run = Run(problem, SEED, m=m, q=q, kind=kind, steps=Steps(tau, sigma, theta_of(kind)))
    assert type(run._loop.state) is state
    plain = Vectors(A, problem.b, "smoothed_hinge", lambda1, 0.1)
    blocks = drawn_blocks(run, ITERATIONS, SEED)
    iterates = algorithm_1(plain, tau, sigma, theta_of(kind), run.info["r"], blocks)
    compare_iterates(run, iterates, plain, (1, 2, 20, ITERATIONS))
    # A change of steps on the way is one of all coordinates, lazy ones included.
    run._loop.settle()
    run._loop.set_steps(Steps(2.0 * tau, sigma, theta_of(kind)))
    np.testing.assert_array_equal(np.sort(run._loop.steps.tau), np.sort(2.0 * tau))


@pytest.mark.parametrize("case", daily(CASES, *BY_DAY))
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


@pytest.mark.parametrize("moduli", ["each", "least"])
@pytest.mark.parametrize(("m", "q", "state"), [(3, 2, BlockRows), (12, 1, BlockColumns)])
@pytest.mark.parametrize("kind", ["blocks", "trace", "metrics"])
def test_steps_by_matrix_are_those_of_the_transcription(kind, m, q, state, moduli):
    written = SMALL[kind]()
    n, p = written.problem.shape
    rng = np.random.default_rng(0)

    def run(tau, sigma):
        return Run(
            written.problem, SEED, moduli=moduli, m=m, q=q, steps=Steps(tau, sigma, THETA)
        )
    tau, sigma = rng.uniform(0.02, 0.2, p), rng.uniform(0.5, 3.0, n)
    own, plain = run(tau, sigma), written.plain(moduli)
    assert type(own._loop.state) is state
    blocks = drawn_blocks(own, 60, SEED)
    iterates = algorithm_1(plain, tau, sigma, THETA, own.info["r"], blocks)
    compare_iterates(own, iterates, plain, (1, 2, 20, 60), rtol=1e-8)

    one, each = run(0.1, 2.0), run(np.full(p, 0.1), np.full(n, 2.0))
    for algorithm in (one, each):
        algorithm.advance(60)
    compare(each, one.x, one.y)

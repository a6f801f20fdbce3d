"""Steps tau and rho that are one for each coordinate, on all that a run keeps."""

import numpy as np
import pytest
import scipy.sparse
from conftest import make_factors, make_labels, stored_as
from matrix_cases import SMALL
from method_cases import compare
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


def posed(stored, lambda1, moduli):
    """A problem, and the same for the transcriptions."""
    if stored in SMALL:
        written = SMALL[stored]()
        return written.problem, written.plain(moduli)
    A = sparse() if stored == "lazy" else stored_as(stored, *make_factors(N, P, D))
    full = A.toarray() if stored == "lazy" else np.dot(*make_factors(N, P, D))
    b = make_labels(full, "smoothed_hinge")
    plain = Vectors(full, b, "smoothed_hinge", lambda1, 0.1)
    problem = erm(A, b, "smoothed_hinge", lambda1, lambda2=0.1)
    if stored == "lazy":
        problem.operator.LAZY = np.inf
    return problem, plain


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
MATRICES = {
    f"{kind}, {state.__name__}": (kind, m, q, state, None, None)
    for kind in ("blocks", "trace", "metrics")
    for m, q, state in ((3, 2, BlockRows), (12, 1, BlockColumns))
}
BY_DAY = ("dense rows", "factorized", "lazy, single rows", "lazy, batches", *MATRICES)


@pytest.mark.parametrize(("case", "moduli"), [
    *(pytest.param(case, "each", marks=() if case in BY_DAY else pytest.mark.nightly)
      for case in CASES | MATRICES),
    *((case, "least") for case in MATRICES),
])
def test_steps_by_coordinate_are_those_of_the_transcription(case, moduli):
    stored, m, q, state, kind, lambda1 = (CASES | MATRICES)[case]
    problem, plain = posed(stored, lambda1, moduli)
    (n, p), rng = problem.shape, np.random.default_rng(1)
    theta = THETA if kind is None or isinstance(kind, Extrapolated) else 0.0

    def run(tau, sigma):
        steps = Steps(tau, sigma, theta)
        return Run(problem, SEED, moduli=moduli, m=m, q=q, kind=kind, steps=steps)

    tau, sigma = rng.uniform(0.02, 0.2, p), rng.uniform(0.5, 3.0, n)
    own = run(tau, sigma)
    assert type(own._loop.state) is state
    blocks = drawn_blocks(own, ITERATIONS, SEED)
    iterates = algorithm_1(plain, tau, sigma, theta, own.info["r"], blocks)
    compare(own, iterates, plain, (1, 2, 20, ITERATIONS), rtol=1e-8)
    # A change of steps on the way is one of all coordinates, lazy ones included.
    own._loop.settle()
    own._loop.set_steps(Steps(2.0 * tau, sigma, theta))
    np.testing.assert_array_equal(np.sort(own._loop.steps.tau), np.sort(2.0 * tau))

    # Equal steps of all coordinates are one step.
    one, each = run(0.1, 2.0), run(np.full(p, 0.1), np.full(n, 2.0))
    linear = isinstance(kind, (Plain, Summed))
    assert type(one._loop.state) is (ScaledRows if linear else state)
    assert type(each._loop.state) is state
    for algorithm in (one, each):
        algorithm.advance(ITERATIONS)
    assert one.x.any()
    np.testing.assert_allclose(each.x, one.x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(each.y, one.y, rtol=1e-12, atol=1e-12)

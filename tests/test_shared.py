"""Several threads inside an iteration."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from benchopt.benchmark import Benchmark
from conftest import OPERATORS, REPO, daily, make_problem

from benchmark_dspdc import solve
from benchmark_dspdc.bench import plugins
from benchmark_dspdc.engine import threads
from benchmark_dspdc.methods import DSPDC, SPDC, loop
from benchmark_dspdc.state.iteration import Block
from benchmark_dspdc.state.shared_by_threads import Shared, part_of

N, P, D = 90, 40, 7
BLOCKS = [(20, 21), (50, 9)]     # keeps A'y, keeps A x

pytestmark = pytest.mark.skipif(os.name != "posix", reason="threads yield by sched_yield")


def posed(operator="factorized"):
    return make_problem(operator, n=N, p=P, d=D)


@pytest.fixture
def always(monkeypatch):
    """Iterations of any length are shared, by up to three threads."""
    monkeypatch.setattr(loop, "WORTH", 0.0)
    monkeypatch.setattr(threads, "available_cpus", lambda: 3)


def same(alone, together, calls=(1, 7, 40)):
    assert isinstance(together._loop.state, Shared)
    for count in calls:
        alone.advance(count)
        together.advance(count)
        scale = 1e-12 * max(1.0, np.abs(alone.x).max(), np.abs(alone.y).max())
        np.testing.assert_allclose(together.x, alone.x, atol=scale)
        np.testing.assert_allclose(together.y, alone.y, atol=scale)
    assert together.passes == alone.passes
    assert together.coordinate_updates == alone.coordinate_updates


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("sampling", daily(["partition", "subset"], "partition"))
@pytest.mark.parametrize(("m", "q"), BLOCKS)
@pytest.mark.parametrize("operator", daily(OPERATORS, "factorized"))
def test_threads_compute_what_one_does(always, operator, m, q, sampling, count):
    problem = posed(operator)
    options = dict(seed=5, m=m, q=q, sampling=sampling)
    together = DSPDC(problem, threads=count, **options)
    assert together.info["threads"] == count
    same(DSPDC(problem, **options), together)


@pytest.mark.parametrize("case", [
    (DSPDC, dict(q=21, adaptive=True)), (DSPDC, dict(q=21, theorem=2)), (DSPDC, dict(m=N, q=P)),
    (DSPDC, dict(m=10, q=2)),
    *daily([(DSPDC, dict(q=21, probabilities="importance")), (SPDC, {}),
            (SPDC, dict(steps="dspdc"))]),
])
def test_threads_with_all_kinds_of_steps(always, case):
    method, options = case
    problem, options = posed(), dict(seed=5, m=20) | options
    same(method(problem, **options), method(problem, threads=2, **options), calls=(1, 50, 400))


def test_a_run_on_two_threads_is_certified(always):
    assert solve(posed(), "dspdc", threads=2, tol=1e-8).relative_gap <= 1e-8


def test_short_iterations_and_matrices_are_left_to_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "available_cpus", lambda: 2)
    short = DSPDC(posed(), m=20, q=21, threads=2)
    assert short.info["threads"] == 1
    assert not isinstance(short._loop.state, Shared)


def test_sums_longer_than_the_work_on_them_are_left_to_one_thread(always):
    problem = posed("csr")
    assert DSPDC(problem, m=1, q=20, threads=2).info["threads"] == 1
    assert DSPDC(problem, m=20, q=21, threads=2).info["threads"] == 2


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None, pd.NA, 10 ** 6])
def test_wrong_numbers_of_threads_are_refused(value):
    problem = posed("dense")
    for method in (DSPDC, SPDC):
        with pytest.raises(ValueError, match="threads must be an integer from 1 to"):
            method(problem, m=20, threads=value)


def test_parts_are_the_whole_and_do_not_overlap():
    for lo, hi in ((0, 1), (3, 11), (0, 64), (5, 100), (7, 7)):
        for count in (1, 2, 3, 4):
            shares = [
                SimpleNamespace(me=me, dual_sums=np.zeros((count, 1))) for me in range(count)
            ]
            parts = [part_of(share, Block(None, lo, hi)) for share in shares]
            covered = [k for _, first, last in parts for k in range(first, last)]
            assert covered == list(range(lo, hi))


def test_runs_side_by_side_wait_for_each_other(always):
    problem = posed()
    alone = DSPDC(problem, seed=0, m=20, q=21)
    alone.advance(400)

    def work(_):
        algorithm = DSPDC(problem, seed=0, m=20, q=21, threads=3)
        for _ in range(20):
            algorithm.advance(20)
        return algorithm.x
    with ThreadPoolExecutor(4) as pool:
        for x in pool.map(work, range(4)):
            np.testing.assert_allclose(x, alone.x, atol=1e-12)


def test_at_most_limits_the_threads_unless_they_are_given(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    usual = threads.n_threads()
    with threads.at_most(1):
        assert threads.n_threads() == 1
        monkeypatch.setenv(threads.VARIABLE, "3")
        assert threads.n_threads() == 3
        monkeypatch.delenv(threads.VARIABLE)
    assert threads.n_threads() == usual


def test_under_benchopt_methods_run_on_one_thread(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    monkeypatch.setattr(threads, "available_cpus", lambda: 2)
    seen = []

    class Counting(DSPDC):
        def setup(self, seeds, **options):
            seen.append(threads.n_threads())
            super().setup(seeds, **options)

        def _run(self, n_iterations):
            seen.append(threads.n_threads())
            super()._run(n_iterations)

    monkeypatch.setitem(plugins.NAMED, "dspdc", Counting)
    found = next(k for k in Benchmark(REPO).get_solvers() if k.name == "DSPDC")
    solver = found.get_instance(m=20, q=21)
    solver.problem, checks = posed(), iter([True, True, False])
    monkeypatch.setattr(solver, "get_seed", lambda **options: 0)
    solver.run(lambda: next(checks))
    assert len(seen) >= 3
    assert set(seen) == {1}


#: Runs on two threads whatever the machine has.
SCRIPT = """
from conftest import make_problem
from benchmark_dspdc.engine import threads
from benchmark_dspdc.methods import DSPDC, loop
threads.available_cpus, loop.WORTH = lambda: 2, 0.0
method = DSPDC(make_problem("factorized", n=90, p=40, d=7), m=20, q=21, threads=2)
method.advance(50)
print(method.info["threads"], method.iterations)
"""


def test_a_process_that_shared_work_ends():
    # Helpers wait for work in Python, not in a kernel, so that nothing holds up the end.
    shown = subprocess.check_output(
        [sys.executable, "-c", SCRIPT], cwd=REPO / "tests", text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(REPO)},
    )
    assert shown == "2 50\n"

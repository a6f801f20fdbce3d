import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import REPO
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark_dspdc.engine import psd_projection as psd
from benchmark_dspdc.engine import threads
from benchmark_dspdc.engine.psd_projection import ProjectionError, Projector, is_psd, project
from benchmark_dspdc.engine.threads import single_threaded
from benchmark_dspdc.model.regularizers import PSDFrobenius

EXACT = 1e-12


@single_threaded
def rotation(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


@single_threaded
def with_spectrum(l, seed=0):
    Q = rotation(len(l), seed)
    M = (Q * l) @ Q.T
    return 0.5 * (M + M.T)


@single_threaded
def by_eigh(M):
    """The reference: numpy's eigenvectors, on a matrix of size about 1."""
    scale = np.abs(M).max() or 1.0
    l, V = np.linalg.eigh(M / scale)
    X = (V * np.maximum(l, 0.0)) @ V.T
    return scale * (0.5 * (X + X.T))


def error(X, M, reference=None):
    """Distance of X to the projection of M over the norm of M, without overflow."""
    scale = np.abs(M).max() or 1.0
    reference = by_eigh(M) if reference is None else reference
    return np.linalg.norm((X - reference) / scale) / max(np.linalg.norm(M / scale), 1e-300)


def check(X, M):
    assert np.array_equal(X, X.T)
    assert error(X, M) < EXACT


@pytest.fixture
def on_threads(monkeypatch):
    return lambda count: monkeypatch.setenv(threads.VARIABLE, str(count))


def signs(d, n_negative, rng):
    l = np.abs(rng.standard_normal(d)) + 1e-3
    l[:n_negative] *= -1.0
    return l


SPECTRA = {
    "semidefinite": lambda d, rng: np.abs(rng.standard_normal(d)),
    "definite": lambda d, rng: 1.0 + rng.random(d),
    "negative": lambda d, rng: -1.0 - rng.random(d),
    "one negative": lambda d, rng: signs(d, 1, rng),
    "one positive": lambda d, rng: signs(d, d - 1, rng),
    "few negative": lambda d, rng: signs(d, d // 10, rng),
    "few positive": lambda d, rng: signs(d, d - d // 10, rng),
    "half negative": lambda d, rng: signs(d, d // 2, rng),
    "rank 1": lambda d, rng: np.eye(d)[0],
    "rank deficient": lambda d, rng: signs(d, d // 8, rng) * (np.arange(d) % 3 == 0),
    "identity": lambda d, rng: np.ones(d),
    "plus and minus one": lambda d, rng: np.where(np.arange(d) % 2, 1.0, -1.0),
    "repeated": lambda d, rng: np.round(2.0 * rng.standard_normal(d)),
    "few repeated negative": lambda d, rng: np.where(np.arange(d) < d // 8, -1.0, 2.0),
    "clustered": lambda d, rng: np.round(rng.standard_normal(d)) + 1e-11 * rng.standard_normal(d),
    "few clustered": lambda d, rng: np.where(np.arange(d) < d // 8, -1.0, 2.0)
    + 1e-13 * rng.standard_normal(d),
    "rounding around zero": lambda d, rng: 1e-16 * rng.standard_normal(d)
    + (np.arange(d) < d // 4),
    "just below the error": lambda d, rng: np.where(np.arange(d) < d // 2, -1e-13, 1.0),
    "just above the error": lambda d, rng: np.where(np.arange(d) < d // 2, -1e-11, 1.0),
    "graded": lambda d, rng: np.geomspace(1e-20, 1.0, d),
    "graded signs": lambda d, rng: np.geomspace(1e-20, 1.0, d) * np.sign(signs(d, d // 8, rng)),
    "graded negative": lambda d, rng: np.concatenate(
        [-np.geomspace(1e-18, 1.0, d // 10), np.ones(d - d // 10)]),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_projection_is_exact_for_every_spectrum(name):
    large = {"few negative", "half negative", "rank deficient", "graded"}
    for d in (1, 2, 3, 7, 32, 64, 128) + (300,) * (name in large):
        rng = np.random.default_rng(d)
        for seed in range(2):
            M = with_spectrum(SPECTRA[name](d, rng), seed)
            check(project(M), M)
            check(project(-M), -M)


@pytest.mark.parametrize("d", [3, 8, 40])
@pytest.mark.parametrize("ratio", [1e1, 1e3, 1e7, 1e12])
def test_a_projection_far_smaller_than_its_matrix_is_semidefinite_in_itself(ratio, d):
    rng = np.random.default_rng(0)
    for n_negative in {1, d // 3, d // 2}:
        values = 0.1 + rng.random(d)
        values[:n_negative] *= -ratio
        M = with_spectrum(values)
        X = project(M)
        assert is_psd(X, PSDFrobenius.TOLERANCE / 10)
        assert error(X, M, with_spectrum(np.maximum(values, 0.0))) < EXACT


@pytest.mark.parametrize("name", ["semidefinite", "negative", "few negative", "half negative"])
def test_projection_does_not_depend_on_the_scale(name):
    M = with_spectrum(SPECTRA[name](40, np.random.default_rng(0)))
    for scale in (1e-300, 1e-150, 1e-30, 1e30, 1e150, 1e300):
        check(project(scale * M), scale * M)
        exponent = int(np.log2(scale))
        assert np.array_equal(project(np.ldexp(M, exponent)), np.ldexp(project(M), exponent))


def test_zero_diagonal_and_zero_matrices():
    assert np.array_equal(project(np.zeros((5, 5))), np.zeros((5, 5)))
    X = project(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert X == pytest.approx(np.full((2, 2), 0.5), abs=1e-15)
    assert project(np.array([[-3.0]])) == 0.0
    assert project(np.array([[3.0]])) == 3.0


@settings(max_examples=150, deadline=None)
@given(d=st.integers(1, 40), seed=st.integers(0, 2 ** 32 - 1),
       kind=st.sampled_from(["dense", "low rank", "sparse", "integers", "graded rows"]),
       exponent=st.integers(-150, 150))
def test_projection_and_its_moreau_decomposition_on_random_matrices(d, seed, kind, exponent):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((d, d))
    if kind == "low rank":
        M = M[:, : 1 + d // 5] @ M[: 1 + d // 5]
    elif kind == "sparse":
        M *= rng.random((d, d)) < 0.15
    elif kind == "integers":
        M = np.round(M)
    elif kind == "graded rows":
        M *= np.geomspace(1.0, 1e-14, d)[:, None] * np.geomspace(1.0, 1e-14, d)
    M = (M + M.T) * 10.0 ** exponent
    X, Y = project(M), project(-M)
    check(X, M)
    assert error(X - Y, M, M) < EXACT
    assert error(project(X), M, X) < EXACT
    scale = np.abs(M).max() or 1.0
    norm = np.linalg.norm(M / scale)
    assert abs(np.vdot(X / scale, Y / scale)) <= EXACT * norm ** 2
    for part in (X, Y):
        # Of the norm of M: a part that is far smaller has rounding errors of that size.
        assert np.linalg.eigvalsh(part / scale)[0] >= -EXACT * norm


def test_a_matrix_that_counts_as_semidefinite_is_not_changed():
    X = project(with_spectrum(np.linspace(0.0, 1.0, 50)))
    again = X.copy()[None]
    assert Projector(1, 50).project([0], again) == 0
    assert np.array_equal(again[0], X)


def test_of_a_matrix_that_is_not_symmetric_the_symmetric_part_is_projected():
    A = np.random.default_rng(0).standard_normal((20, 20))
    assert np.array_equal(project(A), project(0.5 * A + 0.5 * A.T))
    for low, high in ((-0.1, 1.0), (1.0, 2.0)):
        M = with_spectrum(np.linspace(low, high, 50))
        M[3, 4] *= 1.0 + 1e-15
        check(project(M), M)


def test_decompositions_are_counted_and_cholesky_settles_the_others():
    rng = np.random.default_rng(0)
    names = ["definite", "half negative", "negative", "few negative"]
    M = np.array([with_spectrum(SPECTRA[name](40, rng)) for name in names])
    projector = Projector(10, 40)
    assert projector.project([9, 0, 4, 2], M.copy()) == 2
    assert projector.signs[[9, 0, 4, 2]].tolist() == [[0, 40], [20, 20], [40, 0], [4, 36]]
    assert (projector.signs[[1, 3, 5, 6, 7, 8]] == psd.UNKNOWN).all()
    assert projector.project([9, 0, 4, 2], M.copy()) == 2


@settings(max_examples=30, deadline=None)
@given(names=st.lists(st.sampled_from(sorted(SPECTRA)), min_size=2, max_size=8),
       d=st.sampled_from([3, 20, 48]), seed=st.integers(0, 1000))
def test_what_is_remembered_changes_no_result(names, d, seed):
    rng = np.random.default_rng(seed)
    projector = Projector(2, d)
    for name in names:
        M = with_spectrum(SPECTRA[name](d, rng), seed)
        X = M[None].copy()
        projector.project([1], X)
        check(X[0], M)
        assert error(X[0], M, project(M)) < EXACT


# Failures ---------------------------------------------------------------------------

def fail(space, low, high, tol):
    return False


@pytest.mark.parametrize("failing", [
    ["bisection"], ["divide_and_conquer"], ["qr"], ["bisection", "divide_and_conquer"],
    ["bisection", "qr"],
])
def test_another_eigensolver_takes_over(monkeypatch, failing):
    for solver in failing:
        monkeypatch.setitem(psd.EIGENSOLVERS, solver, fail)
    for name in ("few negative", "few positive", "half negative", "clustered"):
        M = with_spectrum(SPECTRA[name](60, np.random.default_rng(0)))
        check(project(M), M)


def spied(monkeypatch):
    """The names of the eigensolvers, as they are called from now on."""
    used = []
    for name, solver in list(psd.EIGENSOLVERS.items()):
        def spy(*args, name=name, solver=solver):
            used.append(name)
            return solver(*args)
        monkeypatch.setitem(psd.EIGENSOLVERS, name, spy)
    return used


def test_bisection_is_enough_unless_eigenvalues_are_close(monkeypatch):
    used = spied(monkeypatch)
    for spectrum in ("definite", "one negative", "few negative", "few positive", "half negative"):
        project(with_spectrum(SPECTRA[spectrum](80, np.random.default_rng(0))))
    assert used == ["bisection"] * 4
    used.clear()
    project(with_spectrum(SPECTRA["few repeated negative"](80, np.random.default_rng(0))))
    assert used == ["bisection", "divide_and_conquer"]
    # Vectors that are not good enough are not used.
    monkeypatch.setattr(psd, "VECTOR_ERROR", 0.0)
    used.clear()
    M = with_spectrum(SPECTRA["few negative"](80, np.random.default_rng(0)))
    check(project(M), M)
    assert used == ["bisection", "divide_and_conquer"]


@pytest.mark.parametrize("count", [1, 2])
def test_when_every_eigensolver_fails_the_block_is_named(monkeypatch, on_threads, count):
    on_threads(count)
    for solver in psd.EIGENSOLVERS:
        monkeypatch.setitem(psd.EIGENSOLVERS, solver, fail)
    M = np.array([np.eye(60), with_spectrum(np.linspace(-1.0, 1.0, 60)), np.eye(60)])
    with pytest.raises(ProjectionError, match="block 7 has no projection: none of bisection, "):
        Projector(9, 60).project([3, 7, 8], M)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, 2])
def test_an_entry_that_is_not_finite_is_an_error_that_names_the_block(on_threads, value, count):
    on_threads(count)
    for place in ((0, 0), (4, 1), (1, 4)):
        M = np.array([np.eye(50)] * 4)
        M[2][place] = value
        with pytest.raises(ProjectionError, match="block 6 .*not finite"):
            Projector(9, 50).project([8, 7, 6, 5], M)
        assert is_psd(M).tolist() == [True, True, False, True]


@pytest.mark.parametrize("blocks, matrices, message", [
    ([0], np.eye(3)[None].astype(np.float32), "float64 array of shape .1, 3, 3., got float32"),
    ([0], np.eye(3), "got float64 of shape .3, 3."),
    ([0, 1], np.eye(3)[None], "of shape .2, 3, 3."),
    ([0], np.eye(3).tolist(), "got list"),
    ([0], np.eye(6)[None, ::2, ::2], "C-contiguous"),
    ([2], np.eye(3)[None], "blocks must be from 0 to 1, got 2"),
    ([-1], np.eye(3)[None], "blocks must be from 0 to 1, got -1"),
])
def test_wrong_arguments_are_named(blocks, matrices, message):
    with pytest.raises(ValueError, match=message):
        Projector(2, 3).project(blocks, matrices)


def test_wrong_shapes_and_tolerances_are_named():
    with pytest.raises(ValueError, match="got p=1 and d=0"):
        Projector(1, 0)
    with pytest.raises(ValueError, match="got shape .2, 3."):
        project(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="tol must be finite and at least 0, got -1"):
        is_psd(np.eye(2), -1)


# Feasibility ------------------------------------------------------------------------

@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_is_psd_allows_for_the_tolerance_and_no_more(scale):
    l = np.linspace(0.0, 1.0, 30)
    norm = np.linalg.norm(l)
    for least, feasible in ((0.0, True), (-0.9e-6, True), (-1.1e-6, False), (-1.0, False)):
        l[0] = least * norm
        assert is_psd(scale * with_spectrum(l), 1e-6) is feasible
    batch = np.array([np.eye(3), -np.eye(3), np.zeros((3, 3))])
    assert is_psd(batch).tolist() == [True, False, True]


# Threads ----------------------------------------------------------------------------

def test_results_do_not_depend_on_the_number_of_threads(on_threads):
    rng = np.random.default_rng(0)
    for d in (5, 60, 100):
        M = np.array([with_spectrum(SPECTRA[name](d, rng)) for name in sorted(SPECTRA)])
        found = []
        for count in (1, 2, 3):
            on_threads(count)
            projector = Projector(len(M), d)
            for k in range(3):
                X = np.roll(M, k, axis=0)
                found.append((projector.project(range(len(M)), X), X, projector.signs.copy()))
        for k, one in enumerate(found):
            for value, expected in zip(one, found[k % 3], strict=True):
                assert np.array_equal(value, expected)


def test_side_by_side_keeps_the_order_and_uses_several_threads(on_threads):
    on_threads(2)
    both = threading.Barrier(2, timeout=10)

    def meet(item):
        both.wait()
        return 10 * item

    assert threads.side_by_side(meet, range(6)) == [0, 10, 20, 30, 40, 50]
    on_threads(1)
    names = threads.side_by_side(lambda _: threading.current_thread().name, range(3))
    assert set(names) == {threading.current_thread().name}
    assert threads.side_by_side(abs, []) == []


@pytest.mark.parametrize("count", [1, 2, 4])
def test_side_by_side_passes_on_the_first_error_works_again_and_inside_itself(on_threads, count):
    on_threads(count)

    def half(item):
        if item >= 3:
            raise KeyError(item)
        return item / 2

    with pytest.raises(KeyError, match="3"):
        threads.side_by_side(half, range(8))
    assert threads.side_by_side(half, range(3)) == [0.0, 0.5, 1.0]
    nested = threads.side_by_side(lambda i: threads.side_by_side(half, range(i)), range(3))
    assert nested == [[], [0.0], [0.0, 0.5]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_side_by_side_works_after_a_fork(on_threads):
    on_threads(2)
    threads.side_by_side(abs, range(4))
    child = os.fork()
    if child == 0:
        os._exit(0 if threads.side_by_side(abs, [-1, -2, -3]) == [1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


def blas_threads():
    return {pool["num_threads"] for pool in threads._controller().info()
            if pool["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_its_own_number_again_outside():
    before = blas_threads()
    with threads.one_thread():
        with threads.one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        assert threads.side_by_side(lambda _: blas_threads(), [0, 1]) == [{1}, {1}]
    assert blas_threads() == before


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", " 2"])
def test_a_wrong_number_of_threads_is_named(monkeypatch, given):
    monkeypatch.setenv(threads.VARIABLE, given)
    with pytest.raises(ValueError, match=f"{threads.VARIABLE} must be .*, got '{given}'"):
        threads.n_threads()


def test_number_of_threads_is_the_least_of_cpus_and_blas_unless_it_is_set(monkeypatch):
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    for cpus, blas, expected in ((4, 8, 4), (8, 4, 4), (1, 4, 1)):
        monkeypatch.setattr(threads, "available_cpus", lambda cpus=cpus: cpus)
        monkeypatch.setattr(threads, "_BLAS_AT_START", blas)
        assert threads.n_threads() == expected
        with threads.one_thread():
            assert threads.n_threads() == expected
    monkeypatch.setenv(threads.VARIABLE, "7")
    assert threads.n_threads() == 7


WORKERS = """
import joblib, os

def ask(_):
    from benchmark_dspdc.engine.threads import n_threads
    return n_threads()

if __name__ == "__main__":
    cpus = joblib.cpu_count()
    for n_jobs in (1, cpus, 2 * cpus):
        found = set(joblib.Parallel(n_jobs=n_jobs, backend="loky")(
            joblib.delayed(ask)(k) for k in range(2 * n_jobs)))
        print(n_jobs, cpus, *found)
"""


@pytest.mark.nightly
def test_joblib_workers_share_the_cores(tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    hidden = ("_NUM_THREADS", threads.VARIABLE)
    env = {key: value for key, value in os.environ.items() if not key.endswith(hidden)}
    env["PYTHONPATH"] = str(REPO)
    done = subprocess.run([sys.executable, str(script)], env=env, text=True, check=True,
                          stdout=subprocess.PIPE)
    for line in done.stdout.splitlines():
        n_jobs, cpus, *found = map(int, line.split())
        assert found == [max(1, cpus // n_jobs)]

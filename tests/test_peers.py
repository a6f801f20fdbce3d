import json
import re
import sys
import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.sparse
from benchopt.benchmark import Benchmark
from conftest import REPO, daily, make_factors, make_labels, make_problem, run
from numba.core import event

from benchmark_dspdc import erm, matrix_risk, solve
from benchmark_dspdc.bench.peers import PEERS, Skglm, next_budget
from benchmark_dspdc.bench.plugins import PeerSolver

#: A budget with which each peer is done.
ENOUGH = {"iteration": 3000, "tolerance": 1e-12}

#: Peers and their solvers; skglm, which compiles for minutes, has tests of its own.
CHOICES = [
    (name, solver) for name, peer in PEERS.items() if name != "skglm"
    for solver in (peer.solvers or (None,))
]


def problems():
    """Small problems of every operator; the sparse one has an empty column and an empty row."""
    rng = np.random.default_rng(3)
    dense = rng.standard_normal((60, 12))
    sparse = scipy.sparse.random_array((70, 30), density=0.2, rng=rng, format="csr").toarray()
    sparse[:, 4] = 0.0
    sparse[7] = 0.0
    factors = make_factors()
    for stored, A in ((dense, dense), (scipy.sparse.csr_array(sparse), sparse),
                      (factors, factors[0] @ factors[1])):
        for loss in ("square", "logistic", "smoothed_hinge"):
            for lambda1, lambda2 in ((0.0, 0.02), (0.003, 0.02), (0.01, 0.0005)):
                yield erm(stored, make_labels(A, loss), loss, lambda1, lambda2)


PROBLEMS = [pytest.param(problem, id=str(problem)) for problem in problems()]


def optimum(problem):
    result = solve(problem, "sdca", tol=1e-12)
    assert result.relative_gap < 2e-12
    return result.primal


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_peer_finds_our_optimum(problem):
    best = optimum(problem)
    fitted = 0
    for name, solver in CHOICES:
        if PEERS[name].refuses(problem, solver) is None:
            peer = PEERS[name](problem, solver)
            x = peer.fit(ENOUGH[peer.budget])
            assert x.shape == problem.x_shape
            assert abs(problem.primal(x) - best) <= 1e-6 * best, (name, solver)
            fitted += 1
    assert fitted >= 1


COVERED = {
    "sklearn_logistic": {("logistic", False), ("logistic", True)},
    "sklearn_ridge": {("square", False)},
    "sklearn_elastic_net": {("square", False), ("square", True)},
    "scipy_lbfgs": {
        (loss, l1) for loss in ("square", "logistic", "smoothed_hinge") for l1 in (False, True)
    },
    "cyanure": {(loss, l1) for loss in ("square", "logistic") for l1 in (False, True)},
    "skglm": {(loss, l1) for loss in ("square", "logistic") for l1 in (False, True)},
    "celer": {("square", True)},
}


@pytest.mark.parametrize("name", PEERS)
def test_peers_cover_what_their_models_have(name):
    pytest.importorskip(PEERS[name].package)
    covered = {
        (loss, l1) for loss in ("square", "logistic", "smoothed_hinge") for l1 in (False, True)
        if any(
            PEERS[name].refuses(make_problem("csr", loss, 0.01 * l1), solver) is None
            for solver in (PEERS[name].solvers or (None,))
        )
    }
    assert covered == COVERED[name]


WIDE = erm(scipy.sparse.csr_array(np.eye(4, 40000)), np.array([1.0, -1.0, 1.0, -1.0]), "logistic")
TALL = erm(scipy.sparse.csr_array(np.eye(20000, 4)), np.ones(20000), "square")
ONE_LABEL = erm(np.eye(4), np.ones(4), "logistic")
MATRICES = matrix_risk(np.ones((3, 2, 2, 2)), np.array([1.0, -1.0, 1.0]), lam=0.1)


@pytest.mark.parametrize(("name", "solver", "problem", "reason"), [
    ("sklearn_logistic", "lbfgs", dict(loss="logistic"), "saga has.*needs lambda1 = 0"),
    ("sklearn_logistic", "liblinear", dict(loss="smoothed_hinge"),
     "has the logistic loss, not smoothed_hinge"),
    ("sklearn_logistic", "sgd", dict(loss="logistic"), "solver must be one of.*saga"),
    ("sklearn_logistic", "newton-cholesky", WIDE, "p = 40000 is above"),
    ("sklearn_logistic", "lbfgs", WIDE, None), ("sklearn_ridge", "cholesky", TALL, None),
    ("sklearn_logistic", "lbfgs", ONE_LABEL, "both labels"),
    ("sklearn_ridge", "cholesky", dict(loss="square"), "no l1 term"),
    ("cyanure", "catalyst-miso", dict(loss="logistic"), "misses the optimum of the elastic net"),
    ("cyanure", "auto", dict(loss="logistic"), "solver must be one of"),
    ("cyanure", "qning-svrg", ONE_LABEL, "both labels"),
    ("celer", None, dict(loss="logistic"), "the l1 term alone, here lambda2 > 0"),
    ("celer", None, dict(loss="square", lambda1=0.0), "celer needs lambda1 > 0"),
    ("skglm", "ProxNewton", dict(loss="logistic", operator="factorized"), "materialize"),
    *((name, None, MATRICES, "matrices as unknowns") for name in PEERS),
])
def test_other_problems_are_refused_with_a_reason(name, solver, problem, reason):
    problem = make_problem(**problem) if isinstance(problem, dict) else problem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = PEERS[name].refuses(problem, solver)
    assert found is None if reason is None else re.search(reason, found), found


@pytest.mark.parametrize("name", ["cyanure", "skglm", "celer"])
def test_a_missing_package_is_named_with_what_to_do(name, monkeypatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    reason = PEERS[name].refuses(make_problem("csr", "square"), PEERS[name]._chosen(None))
    assert name in reason
    assert "install with pip install .[peers]" in reason


@pytest.mark.parametrize(("name", "solver"), CHOICES)
def test_budgets_begin_at_zero_and_bring_points_closer(name, solver):
    pytest.importorskip(PEERS[name].package)
    loss, lambda1 = min(COVERED[name])
    problem = make_problem("csr", loss, 0.01 * lambda1)
    peer = PEERS[name](problem, solver)
    start = 0 if peer.budget == "iteration" else 3e38
    assert not peer.fit(start).any()
    budgets = [next_budget(peer.budget, start)]
    for _ in range(25):
        budgets.append(next_budget(peer.budget, budgets[-1]))
    best = optimum(problem)
    values = np.array([problem.primal(peer.fit(budget)) for budget in budgets])
    assert values[-1] - best <= 1e-6 * best
    assert (values <= problem.primal(np.zeros(problem.x_shape)) * 1.5).all()


@pytest.mark.parametrize(("kind", "budget", "after"), [
    ("iteration", 0, 1), ("iteration", 10, 14), ("tolerance", 3e38, 0.1),
    ("tolerance", 0.03, pytest.approx(0.01)), ("tolerance", 1e-14, 1e-14),
])
def test_budgets_grow(kind, budget, after):
    assert next_budget(kind, budget) == after


def test_fits_run_on_one_thread_and_without_warnings(monkeypatch):
    from threadpoolctl import threadpool_info

    seen = []
    peer = PEERS["sklearn_logistic"](make_problem("dense", "logistic", 0.0), "lbfgs")
    fit = type(peer)._fit

    def record(self, *arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return fit(self, *arguments)

    monkeypatch.setattr(type(peer), "_fit", record)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        peer.fit(1)
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize("solver", daily(Skglm.solvers, "AndersonCD"))
@pytest.mark.parametrize(("operator", "loss"), [
    ("dense", "logistic"),
    pytest.param("csr", "square", marks=pytest.mark.nightly),
    pytest.param("csr", "logistic", marks=pytest.mark.nightly),
    pytest.param("dense", "square", marks=pytest.mark.nightly),
])
def test_skglm_finds_our_optimum_and_compiles_before_a_run(solver, operator, loss):
    pytest.importorskip("skglm")
    for lambda1, lambda2 in ((0.0, 0.05), (0.01, 0.05), (0.01, 0.005)):
        problem = make_problem(operator, loss, lambda1, lambda2, n=200, p=40, d=20)
        best, start = optimum(problem), problem.primal(np.zeros(40))
        peer = PEERS["skglm"](problem, solver)
        peer.warm_up()
        budget = 3e38
        assert not peer.fit(budget).any()
        for _ in range(20):
            budget = next_budget("tolerance", budget)
            with event.install_recorder("numba:compile") as compiled:
                x = peer.fit(budget)
            assert not compiled.buffer
            assert problem.primal(x) <= start
        assert abs(problem.primal(x) - best) <= 1e-6 * best


def test_plug_ins_name_peers_and_their_solvers():
    found = {solver.peer: solver for solver in Benchmark(REPO).get_solvers()
             if issubclass(solver, PeerSolver)}
    assert set(found) == set(PEERS)
    for name, solver in found.items():
        assert solver.sampling_strategy == PEERS[name].budget
        assert set(solver.parameters.get("solver", ())) <= set(PEERS[name].solvers)
        assert solver.stopping_criterion.strategy == solver.sampling_strategy


CONFIG = {
    "objective": [
        "ERM[loss=logistic,lambda1=0,lambda2=0.01]", "ERM[loss=square,lambda1=0.001,lambda2=0.01]",
    ],
    "dataset": ["Sparse[n=200,p=60,row_nnz=10]", "Factorized[n=100,p=20,d=5]"],
    "solver": [
        "SDCA", "sklearn-logistic", "sklearn-elastic-net", "sklearn-ridge", "scipy-lbfgs",
        "cyanure", "celer",
    ],
    "n-repetitions": 1, "max-runs": 200, "timeout": 60,
}


def test_one_run_has_our_methods_and_peers(tmp_path):
    frame, shown = run(tmp_path, CONFIG, "run")
    keys = ["dataset_name", "objective_name", "solver_name"]
    gaps = frame.groupby(keys)["objective_relative_gap"].last()
    assert (gaps <= 1e-8).all(), gaps
    logistic = frame["objective_name"].str.contains("logistic")
    sparse = frame["dataset_name"].str.startswith("Sparse")
    names = set(frame.loc[logistic & sparse, "solver_name"])
    assert {
        "SDCA[m=1]", "scipy-lbfgs", "sklearn-logistic[solver=lbfgs]",
        "sklearn-logistic[solver=liblinear]", "sklearn-logistic[solver=saga]",
        "sklearn-logistic[solver=newton-cholesky]",
    } <= names
    assert set(frame.loc[~sparse, "solver_name"]) == {"SDCA[m=1]", "scipy-lbfgs"}
    first = frame[frame["solver_name"].str.contains("-")].groupby(keys).nth(0)
    assert (first["objective_nnz"] == 0).all()
    assert (first["time"] < 0.05).all()
    for reason in ("materialize option", "needs lambda1 = 0", "celer"):
        assert reason in shown, reason


@pytest.mark.nightly
def test_speed_beside_peers_gives_ratios_and_says_what_was_not_reached(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(REPO / "benchmarks")
    import speed_peers

    from benchmark_dspdc.cli import main

    for name, value in dict(
        DENSE=(150, 10), SPARSE=(200, 60, 8), WIDTHS=(50, 500), LAZY_ROWS=100, REPEATS=1,
        PATIENCE=10.0, OURS=speed_peers.OURS[:2], STOCHASTIC=speed_peers.STOCHASTIC[:1],
    ).items():
        monkeypatch.setattr(speed_peers, name, value)
    for cached in (speed_peers.dense_data, speed_peers.sparse_data):
        cached.cache_clear()
    file = tmp_path / "speed.json"
    assert main(["speed", "--peers", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert Counter(row["group"] for row in rows) == {
        "peers-saga": 4, "peers-liblinear": 4, "peers-cyanure": 1, "peers-lazy": 10,
    }
    for row in rows:
        if "ratio" in row:
            assert row["ratio"] == pytest.approx(row["seconds"] / row["seconds_of_peer"])
            assert row["reached"] == (row["ratio"] <= (0.6 if "saga" in row["group"] else 1.0))
    assert main(["speed", "--peers", "--only", "factorized"]) == 2
    late = speed_peers.compared("t", {"a": 1.0}, {"b": float("inf")}, 1e-12, 1.0)
    assert late["reached"] and "not reached" in late["target"]
    for cached in (speed_peers.dense_data, speed_peers.sparse_data):
        cached.cache_clear()

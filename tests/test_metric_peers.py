"""Packages that learn metrics in another environment: the protocol, with a worker made up here."""

import re
import sys

import numpy as np
import pytest
from benchopt.benchmark import Benchmark
from conftest import REPO, make_problem, run
from frames import MATRIX, curve, runs
from rich.console import Console

from benchmark_dspdc import mt_lmnn
from benchmark_dspdc.bench import metric_peers, metric_worker
from benchmark_dspdc.bench.metric_peers import METRIC_PEERS, Worker, WorkerDied, fit_peer, subset
from benchmark_dspdc.report import results
from benchmark_dspdc.report.claims import judge
from benchmark_dspdc.report.page import page_data
from benchmark_dspdc.report.summary import print_summary
from benchmark_dspdc.sklearn import MultiTaskLMNN

#: Answers as a worker does: a map of (max_iter n_neighbors) on the diagonal, done after 3
#: iterations. It prints what packages print, and dies if told to by its option `seed`.
FAKE = f'''
import os, sys
sys.path.insert(0, {str(REPO / "benchmark_dspdc" / "bench")!r})
import numpy as np
import metric_worker

class Model:
    def __init__(self, components, n_iter):
        self.components_, self.n_iter_ = components, n_iter

def load():
    print("loading")
    def fit(X, y, n_neighbors, max_iter, regularization, seed):
        print("a line of the package", flush=True)
        if seed == 13:
            raise ValueError("one class only")
        if seed == 14:
            os._exit(3)
        assert X.dtype == float and len(X) == len(y)
        return Model(max_iter * n_neighbors * np.eye(X.shape[1]), 1 + min(max_iter, 3))
    return fit

answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
metric_worker.main(load, sys.stdin.buffer, answers)
'''


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(metric_peers, "command", lambda name: [sys.executable, "-c", FAKE])
    monkeypatch.setattr(metric_peers, "python_of", lambda name: REPO / "pyproject.toml")


def points(n=40, d=3, classes=4, seed=0):
    y = np.arange(n) % classes
    return np.random.default_rng(seed).standard_normal((n, d)) + y[:, None], y


def metric_problem(**options):
    X, y = points()
    # Labels 0 and 1 in both tasks.
    return mt_lmnn(X, y % 2, y // 2, n_neighbors=2, **options)


def test_a_worker_fits_plain_arrays(fake):
    X, y = points()
    components, seconds, peak_memory = fit_peer(
        "pylmnn", X.astype(np.float32), y.astype(str), n_neighbors=2, max_iter=5, seed=1
    )
    assert (components == 10.0 * np.eye(3)).all()
    assert 0.0 <= seconds < 1.0
    assert 2 ** 20 < peak_memory < 2 ** 34


def test_a_worker_fits_as_often_as_asked_and_ends_when_closed(fake):
    worker = Worker("metric-learn", *points(), n_neighbors=1)
    found = [worker.fit(budget) for budget in (1, 3, 7)]
    assert [fit.components[0, 0] for fit in found] == [1.0, 3.0, 7.0]
    assert [fit.iterations for fit in found] == [1, 3, 3]
    process = worker._process
    assert process.poll() is None
    del worker
    assert process.poll() is not None


@pytest.mark.parametrize(("seed", "message"), [
    (13, "pylmnn ended with code 1: ValueError: one class only"),
    (14, "pylmnn ended with code 3: a line of the package"),
])
def test_a_worker_that_dies_tells_its_last_line(fake, seed, message):
    with pytest.raises(WorkerDied, match=message):
        fit_peer("pylmnn", *points(), seed=seed)


def test_a_worker_that_cannot_start_tells_why(fake, monkeypatch):
    monkeypatch.setattr(metric_peers, "command", lambda name: [
        sys.executable, "-c", "raise ImportError('no module named six')"
    ])
    with pytest.raises(WorkerDied, match="code 1: ImportError: no module named six"):
        fit_peer("pylmnn", *points())


@pytest.mark.parametrize("options", [
    dict(name="lmnn"), dict(max_iter=0), dict(n_neighbors=0), dict(regularization=1.0),
    dict(X=np.array([[np.nan]]), y=[0]),
])
def test_wrong_options_are_refused_before_any_work(fake, monkeypatch, options):
    X, y = points()
    with pytest.raises(ValueError):
        fit_peer(**dict(name="pylmnn", X=X, y=y) | options)


@pytest.mark.parametrize("name", METRIC_PEERS)
def test_a_missing_environment_is_named_with_what_builds_it(name, monkeypatch, tmp_path):
    monkeypatch.setattr(metric_peers, "FOLDER", tmp_path)
    reason = metric_peers.refuses(name, metric_problem())
    assert f".venv-{name} is missing" in reason
    assert "make peers-metric" in reason
    with pytest.raises(ValueError, match="make peers-metric"):
        fit_peer(name, *points())


def test_other_problems_are_refused(fake):
    assert metric_peers.refuses("pylmnn", metric_problem()) is None
    for problem in (make_problem("dense", "square"), make_problem("csr", "logistic")):
        assert "not metric learning" in metric_peers.refuses("pylmnn", problem)


def test_environments_are_pinned():
    for name in METRIC_PEERS:
        lines = [line for line in metric_peers.pins(name).split("\n") if line[:1] not in "#"]
        assert lines
        assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines)
        assert name in metric_worker.LOADERS


def test_classes_of_different_tasks_are_different():
    problem = metric_problem()
    assert (np.bincount(problem.classes) == 10).all()
    assert len(problem.points) == 40
    assert (np.diff(np.flatnonzero(problem.classes >= 2)) == 1).all()


@pytest.mark.parametrize("sizes", [(500, 500), (900, 100), (990, 6, 4)])
def test_a_subset_has_the_same_share_of_each_class(sizes):
    classes = np.repeat(np.arange(len(sizes)), sizes)
    rows = subset(classes, 200, 4, 0)
    assert (np.diff(rows) > 0).all()
    assert (np.bincount(classes[rows]) == [max(4, k // 5) for k in sizes]).all()
    assert len(subset(classes, len(classes), 4, 0)) == len(classes)


@pytest.mark.parametrize("metrics", ["multi-task", "shared"])
def test_the_estimator_is_a_solver_that_learns_the_metric_of_each_task(metrics, monkeypatch):
    found = next(k for k in Benchmark(REPO).get_solvers() if k.name == "MultiTaskLMNN")
    problem, solver = metric_problem(metrics=metrics), found.get_instance()
    monkeypatch.setattr(solver, "get_seed", lambda **options: 0)
    assert solver.skip(problem) == (False, None)
    assert "not metric learning" in solver.skip(make_problem())[1]
    solver.set_objective(problem)
    for budget in (0, 1, 16):
        solver.pre_run_hook(budget)
        solver.run(budget)
        assert solver.finished == (budget == 16)
        assert np.isfinite(problem.certify(solver.get_result()["x"]).primal)
    # The order of classes and points does not matter to it.
    X, y = points()
    given = (y, None) if metrics == "shared" else (y % 2, y // 2)
    model = MultiTaskLMNN(n_neighbors=2, tol=1e-5, random_state=0).fit(X, *given)
    learned = problem.learned.metrics(solver.get_result()["x"])
    np.testing.assert_allclose(learned, np.broadcast_to(model.metric_, learned.shape), atol=0.01)


CONFIG = {
    "objective": ["ERM[loss=smoothed_hinge,lambda0=0.01,lam=0.1]"],
    "dataset": [
        "MTLMNN[max_per_class=12,d=4,metrics=[multi-task,shared]]", "Factorized[n=50,p=9,d=3]",
    ],
    "solver": ["SDCA", "pylmnn"], "n-repetitions": 1, "max-runs": 60, "timeout": 60,
}


@pytest.mark.nightly
@pytest.mark.skipif(metric_peers.refuses("pylmnn") is not None, reason="make peers-metric")
def test_a_run_has_errors_of_a_package_beside_ours(tmp_path):
    frame, shown = run(tmp_path, CONFIG, "run")
    assert "not metric learning" in shown
    other = frame[frame["solver_name"].str.startswith("pylmnn")]
    assert other["dataset_name"].nunique() == 2
    assert (other["objective_errors_only"] == 1).all()
    # At first the Euclidean distance; and processes take longer to start than these fits.
    first = other.groupby("dataset_name").first()
    assert (first["objective_test_error"] == first["objective_test_error_euclidean"]).all()
    assert (other["time"] < 1.0).all()
    assert (other.groupby("dataset_name")["stop_val"].max() < 1000).all()


@pytest.mark.nightly
@pytest.mark.parametrize("name", METRIC_PEERS)
def test_the_packages_bring_classes_apart(name):
    if (reason := metric_peers.refuses(name)) is not None:
        pytest.skip(reason)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    # Classes differ in the first feature, the others are noise.
    X = np.column_stack([y + 0.1 * rng.standard_normal(120), rng.standard_normal((120, 3))])
    worker = Worker(name, X, y)
    short, long = worker.fit(1), worker.fit(60)
    assert short.iterations == 1
    assert short.iterations < long.iterations <= 60
    again = fit_peer(name, X, y, max_iter=60)[0]
    assert np.allclose(again.T @ again, long.components.T @ long.components, rtol=1e-6)
    if name == "pylmnn":
        M = long.components.T @ long.components
        assert M[0, 0] > 2.0 * np.diag(M)[1:].max()


# Reports ----------------------------------------------------------------------------------

DATA = "MTLMNN[source=digits]"


def results_file(tmp_path, own=("SDCA", "DSPDC")):
    made = [curve(s, k + 1.0, DATA, MATRIX, eigs=1.0, objective_errors_only=0.0,
                  objective_test_error=0.02) for k, s in enumerate(own)]
    other = curve("pylmnn", 0.01, DATA, MATRIX, objective_errors_only=1.0,
                  objective_test_error=[0.2] * 10 + [0.01] * 50)
    # Whatever it says, it is not of this problem: small, and in the end lost by any rule.
    other["objective_value"] = np.geomspace(1.0, 1e9, 60)
    frame = runs(*made, other, curve("pylmnn", 0.01, "Other", MATRIX, objective_errors_only=1.0))
    frame.attrs = {}
    frame.to_parquet(file := tmp_path / "run.parquet")
    return file


def test_gap_tables_leave_packages_with_another_objective_out(tmp_path):
    frame = results.read_results([results_file(tmp_path)])
    assert list(frame["dataset_name"].unique()) == [DATA]
    assert any("compared by errors alone" in n and "pylmnn" in n for n in frame.attrs["notes"])
    assert any("left out" in note and "Other" in note for note in frame.attrs["notes"])
    assert set(results.to_targets(frame, [1e-2]).reset_index()["solver_name"]) == {"SDCA", "DSPDC"}
    assert "pylmnn" not in str(results.unfinished(frame, 1e-12))
    judge(frame)
    found = results.errors(frame).droplevel([0, 1])
    assert found.loc["pylmnn", "error"] == 0.01
    first = frame[frame["solver_name"] == "pylmnn"]["time"].iloc[10]
    assert found.loc["pylmnn", "settled"] == pytest.approx(first)
    assert found.loc["SDCA", "settled"] == pytest.approx(1e-3)


def test_page_and_summary_have_their_errors(tmp_path):
    file = results_file(tmp_path)
    page = page_data(results.read_results([file]), "run", judge(results.read_results([file])))
    here, = page["problems"]
    assert list(here["beside"]) == ["pylmnn", "SDCA", "DSPDC"]
    assert all("pylmnn" not in target["rows"] for target in here["targets"])
    for kind, found in here["curves"].items():
        for by in found["by"].values():
            assert ("pylmnn" in by["curves"]) <= (kind == "3-NN error on the test data")
    assert "pylmnn" in here["curves"]["3-NN error on the test data"]["by"]["seconds"]["curves"]
    assert "pylmnn" in {method["name"] for method in page["methods"]}
    console = Console(width=100, record=True)
    print_summary([file], console)
    gaps, errors = console.export_text().split("errors, also of packages")
    assert "pylmnn" not in gaps
    assert re.search(r"pylmnn +1\.00", errors)

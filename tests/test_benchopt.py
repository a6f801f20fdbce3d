import json
import math
import pickle
import re

import joblib
import numpy as np
import pytest
import yaml
from benchopt.benchmark import Benchmark
from benchopt.plotting.helpers import update_plot_data_style
from conftest import PAPER, REPO, assert_same_rows, make_problem, run

from benchmark_dspdc import erm
from benchmark_dspdc.bench import plugins
from benchmark_dspdc.bench.benchopt_process import TOLERANCE
from benchmark_dspdc.bench.plugins import SCORED_EACH, BudgetGap, RelativeGap
from benchmark_dspdc.bench.tasks import TASKS
from benchmark_dspdc.data import import_file, load_bundled
from benchmark_dspdc.engine import threads
from benchmark_dspdc.report.looks import BY_HAND, SELF_TUNED

CONFIG = {
    "objective": ["ERM[loss=smoothed_hinge,lambda1=0.001,lambda2=[0.01,0.02]]"],
    # The last data set and the last solver fit nothing else here.
    "dataset": [
        "Factorized[n=200,p=30,d=8]", "Sparse[n=200,p=300,row_nnz=10]",
        "Bundled[name=breast_cancer]", "Bundled[name=diabetes]",
    ],
    "solver": ["DSPDC[m=0.1,q=0.5,Lambda=partition]", "SPDC[m=5]", "SDCA", "DSPDC[m=1,q=500]"],
    "n-repetitions": 2, "max-runs": 200, "timeout": 60,
}


MATRIX_CONFIG = {
    "objective": ["ERM[loss=[smoothed_hinge,square],lambda0=0.05,lam=0.1]"],
    "dataset": [
        "MatrixRisk[n=30,p=4,d=4]", "TraceRegression[n=40,p=3,d=4]",
        "MTLMNN[source=digits,max_per_class=12,d=4]",
    ],
    "solver": [
        "DSPDC[m=0.2,q=0.5]", "DSPDC[m=0.2,q=0.5,sampling=subset,Lambda=heuristic,moduli=least]",
        "SPDC[m=5]", "SDCA[m=5]",
    ],
    "n-repetitions": 1, "max-runs": 300, "timeout": 60,
}


def instance(kind, /, **parameters):
    """The objective, the solver or the data set of a name."""
    benchmark = Benchmark(REPO)
    classes = (
        benchmark.get_benchmark_objective(), *benchmark.get_solvers(), *benchmark.get_datasets(),
    )
    return next(found for found in classes if found.name == kind).get_instance(**parameters)


@pytest.fixture(scope="module")
def sequential(tmp_path_factory):
    frame, shown = run(tmp_path_factory.mktemp("sequential"), CONFIG, "sequential")
    return frame.assign(shown=shown)


def test_every_run_is_certified_to_the_tolerance(sequential):
    runs = sequential.groupby(["dataset_name", "objective_name", "solver_name", "idx_rep"])
    assert len(runs) == 3 * 2 * 3 * 2
    assert (runs["objective_relative_gap"].last() <= 1e-8).all()
    for column in ("value", "dual", "gap", "relative_gap", "own_gap", "iterations", "passes",
                   "coordinate_updates", "nnz", "accuracy"):
        assert np.isfinite(sequential[f"objective_{column}"]).all(), column
    bundled = sequential["dataset_name"].str.startswith("Bundled")
    assert sequential.loc[bundled, "objective_test_accuracy"].between(0, 1).all()
    assert sequential.loc[~bundled, "objective_test_accuracy"].isna().all()
    np.testing.assert_allclose(
        sequential["objective_gap"], sequential["objective_value"] - sequential["objective_dual"]
    )


def test_rates_and_costs_are_recorded_and_predicted_where_they_can_be(sequential, matrices):
    ones, rates = sequential["solver_name"] == "SDCA[m=1]", sequential["objective_predicted_rate"]
    assert rates[~ones].between(0.0, 1.0, inclusive="neither").all() and rates[ones].isna().all()
    heuristic = matrices[0]["solver_name"].str.contains("heuristic")
    assert matrices[0].loc[heuristic, "objective_predicted_rate"].isna().all()
    assert (sequential.loc[ones, "objective_predicted_cost"] > 0.0).all()
    assert sequential.loc[~ones, "objective_predicted_cost"].isna().all()
    assert (sequential["objective_pass_cost"] > 0.0).all()
    assert set(sequential["objective_eigendecomposition_cost"]) == {0.0}
    assert set(matrices[0]["objective_eigendecomposition_cost"]) == {4.0**3}


def test_plots_of_a_run_hold_only_what_a_page_can_show(sequential):
    ours = set(yaml.safe_load((REPO / "config.yml").read_text())["plots"]) - {"objective_curve"}
    for plot in (plot for plot in Benchmark(REPO).get_plots() if plot._get_name() in ours):
        plot._check()
        data, _ = plot._get_all_plots(sequential)
        assert any(drawn["data"] for drawn in data.values())
        # A page with a number that JSON does not have, or a trace without a marker, stays blank.
        json.dumps(update_plot_data_style({plot.name: data}), allow_nan=False)


def test_own_gap_and_nnz_are_those_of_the_methods_own_points(sequential):
    rows = sequential[
        sequential["dataset_name"].str.startswith("Bundled")
        & sequential["solver_name"].str.startswith("SDCA")
        & sequential["objective_name"].str.contains("lambda2=0.01") & (sequential["idx_rep"] == 0)
    ]
    start, end = rows.iloc[0], rows.iloc[-1]
    data = load_bundled("breast_cancer", scale="standardize", seed=0)
    problem = erm(data.X, data.b, "smoothed_hinge", 0.001, 0.01)
    algorithm = plugins.NAMED["sdca"](problem)
    assert start["objective_own_gap"] == problem.primal(algorithm.x) - problem.dual(algorithm.y)
    assert (sequential["objective_own_gap"] > sequential["objective_gap"] + 1e-9).any()
    assert start["objective_nnz"] == 0
    assert 0 < end["objective_nnz"] < 30


def test_plug_in_compiles_before_it_is_timed(monkeypatch):
    calls = []
    monkeypatch.setattr(plugins, "warm_up", lambda *arguments: calls.append(arguments))
    solver, problem = instance("SPDC", m=2), make_problem()
    solver.set_objective(problem)
    assert calls == [(plugins.NAMED["spdc"], problem, solver.options)]


def run_checks(solver, most):
    """Run a solver under a callback that ends it after so many checks; how many there were."""
    checks = []

    def callback():
        checks.append(1)
        return len(checks) <= most
    solver.get_seed = lambda use_repetition: 0
    solver.run(callback)
    return len(checks)


def test_a_curve_ends_at_so_many_times_the_fastest_ones_time(monkeypatch):
    monkeypatch.setattr(plugins, "FASTEST", {})
    problem = make_problem("dense", "smoothed_hinge", 0.01, 0.1, 30, 12, 5)
    # Another object for the same problem, as benchopt makes them.
    again = make_problem("dense", "smoothed_hinge", 0.01, 0.1, 30, 12, 5)
    quick, slow = instance("SDCA", m=1), instance("SPDC", m=1)
    problem.stop_at = again.stop_at = 5
    quick.set_objective(problem)
    run_checks(quick, 60)
    (seconds,) = plugins.FASTEST.values()
    assert seconds > 0.0 and not quick.late
    assert plugins.tolerance(1e-8, quick) == plugins.TO
    monkeypatch.setitem(plugins.FASTEST, next(iter(plugins.FASTEST)), 1e-9)
    slow.set_objective(again)
    assert run_checks(slow, 60) == 1 and slow.late
    # Without it, nothing ends early and nothing is noted.
    again.stop_at = None
    slow.set_objective(again)
    assert run_checks(slow, 60) == 61 and not slow.late
    assert plugins.tolerance(1e-8, slow) == 1e-8


def test_repetitions_solve_one_problem_with_different_seeds(sequential):
    keys = ["dataset_name", "objective_name", "solver_name", "idx_rep"]
    first = sequential.groupby(keys).nth(0)
    per_problem = first.groupby(["dataset_name", "objective_name"])["objective_value"]
    assert (per_problem.nunique() == 1).all()
    curves = sequential.groupby(keys)["objective_gap"].apply(lambda gaps: tuple(gaps)).unstack()
    assert (curves[0] != curves[1]).all()


@pytest.mark.nightly
def test_two_workers_give_the_same_curves_bit_for_bit(sequential, tmp_path):
    parallel = run(tmp_path, CONFIG, "parallel", "-j", "2")[0]
    assert_same_rows(sequential.drop(columns="shown"), parallel)


@pytest.fixture(scope="module")
def matrices(tmp_path_factory):
    return run(tmp_path_factory.mktemp("matrices"), MATRIX_CONFIG, "matrices")


def test_every_run_on_matrices_is_certified_and_scored(matrices):
    frame, shown = matrices
    runs = frame.groupby(["dataset_name", "objective_name", "solver_name"])
    # Matrix risk has both losses, trace regression the square, metrics the hinge.
    assert len(runs) == 4 * 4
    assert (runs["objective_relative_gap"].last() <= 1e-8).all()
    assert (runs["objective_eigendecompositions"].last() > 0).all()
    assert (runs["objective_passes"].last() > 0).all()
    assert "trace regression has the square loss" in shown
    assert "metric learning needs one of the losses" in shown
    kind = frame["dataset_name"].str.split("[").str[0]
    names = frame.groupby(kind)["objective_name"].agg(set)
    assert names["MTLMNN"] == {"ERM[lam=0.1,lambda0=0.05,loss=smoothed_hinge]"}
    assert names["TraceRegression"] == {"ERM[lam=0.1,loss=square]"}
    for dataset, columns in {
        "MTLMNN": ("test_error", "test_error_shared", "test_error_euclidean", "mean_rank",
                   "shared_rank"),
        "TraceRegression": ("r2", "error", "mean_rank"),
        "MatrixRisk": ("mean_rank", "Lambda_11", "Lambda_p1"),
    }.items():
        own = frame[kind == dataset]
        # Scores take long there, so every fourth point has them; facts of the problem all have.
        place = own.groupby(["objective_name", "solver_name"]).cumcount()
        for column in columns:
            known = np.isfinite(own[f"objective_{column}"])
            fact = column.startswith("Lambda") or column.endswith("euclidean")
            assert (known == (True if fact else place % SCORED_EACH == 0)).all(), column
    found = frame[kind == "TraceRegression"].groupby("solver_name")["objective_error"].last()
    assert (found < 1.0).all()


def test_incompatible_choices_are_skipped_with_a_reason(sequential):
    shown = sequential["shown"].iloc[0]
    assert "needs labels -1 and +1; this data set is regression" in shown
    for p in (30, 300):
        assert f"q must be an integer from 1 to {p}" in shown


def test_regression_is_scored_on_test_data():
    data = instance("Bundled", name="diabetes").get_data()
    task = TASKS["erm"](dict(lambda1=0.0, lambda2=0.01), "square", **data)
    x = np.linalg.lstsq(np.asarray(data["A"]), data["b"], rcond=None)[0]
    assert 0.3 < task.scores(x)["test_r2"] < 1.0


def test_names_show_what_differs_from_the_defaults_and_what_dspdc_makes_of_auto():
    tuned, paper = "order=permuted,adaptive=True", "steps=theorem,order=random,adaptive=False"
    assert str(instance("DSPDC")) == f"DSPDC[m=auto,q=auto,steps=block,{tuned}]"
    for parameters, shown in (
        ({}, f"steps=block,{tuned}"), (dict(steps="theorem"), f"steps=theorem,{tuned}"),
        (dict(threads=2), f"steps=block,{tuned},threads=2"), (PAPER, paper),
        (dict(sampling="subset", Lambda="bound"), f"{paper},sampling=subset,Lambda=bound"),
        (dict(probabilities="importance"), f"{paper},probabilities=importance"),
        (dict(Lambda="partition"), f"{paper},Lambda=partition"),
        (dict(column_steps=False), f"steps=block,{tuned},column_steps=False"),
    ):
        assert str(instance("DSPDC", m=3, q=0.5, **parameters)) == f"DSPDC[m=3,q=0.5,{shown}]"
    assert str(instance("SPDC", m=3, steps="dspdc")) == "SPDC[m=3,steps=dspdc]"


def test_options_that_cannot_be_are_skipped_under_their_name():
    solver = instance("DSPDC", m=3, q=0.5, steps="block", sampling="subset")
    assert str(solver) == (
        "DSPDC[m=3,q=0.5,steps=block,order=auto,adaptive=auto,sampling=subset]"
    )
    skipped, reason = solver.skip(make_problem())
    assert skipped and reason.startswith("steps='block' is for the blocks of a partition")


@pytest.mark.parametrize(("name", "parameters", "tuning"), [
    ("DSPDC", {}, SELF_TUNED), ("DSPDC", dict(m=3, q=4), SELF_TUNED),
    ("DSPDC", PAPER, SELF_TUNED), ("DSPDC", dict(m=3, q=4, **PAPER), BY_HAND),
    ("DSPDC", dict(m=3, q=4, Lambda="partition"), BY_HAND), ("SPDC", {}, 0),
    ("SPDC", dict(m=3), BY_HAND),
])
def test_a_result_tells_who_tuned_the_method(name, parameters, tuning):
    assert instance(name, **parameters)._tuning() == tuning


@pytest.mark.parametrize("name", ["SPDC", "scipy-lbfgs", "ERM"])
def test_settings_of_the_sender_count_on_a_worker(monkeypatch, name):
    monkeypatch.setenv(TOLERANCE, "1e-2")
    monkeypatch.setenv(threads.VARIABLE, "3")
    solver = instance(name)
    key, sent = joblib.hash(solver), pickle.dumps(solver)
    monkeypatch.delenv(TOLERANCE)
    monkeypatch.delenv(threads.VARIABLE)
    here = instance(name)
    plain_key, plain = joblib.hash(here), pickle.dumps(here)
    # Neither what a worker lacks counts, nor what it has.
    for text, expected, count in ((None, 1e-2, 3), ("1e-4", 1e-2, 3)):
        if text is not None:
            monkeypatch.setenv(TOLERANCE, text)
        arrived = pickle.loads(sent)
        # That a worker sends on is the same too.
        assert joblib.hash(arrived) == joblib.hash(pickle.loads(pickle.dumps(arrived))) == key
        assert plugins.tolerance(1e-8, arrived) == expected
        with threads.at_most(1, arrived.settings):
            assert threads.n_threads() == count
    arrived = pickle.loads(plain)
    assert joblib.hash(arrived) == plain_key != key
    assert plugins.tolerance(1e-8, arrived) == 1e-8


def rows(*gaps):
    return [{"objective_relative_gap": gap} for gap in gaps]


@pytest.mark.parametrize(("criterion", "gaps", "done"), [
    (RelativeGap(tol=1e-8), (1.0, 1e-3), False), (RelativeGap(tol=1e-8), (1.0, 1e-8), True),
    # The limit of precision.
    (RelativeGap(tol=0.0, patience=3), (1.0, 1e-13, 2e-13, 2e-13), False),
    (RelativeGap(tol=0.0, patience=3), (1.0, 1e-13, 2e-13, 2e-13, 2e-13), True),
    (BudgetGap(tol=1e-8, patience=3), (1.0, 1e-3), False),
    (BudgetGap(tol=1e-8, patience=3), (1.0, 1e-8), True),
    # Larger budgets may bring far worse points, but not nothing for long.
    (BudgetGap(tol=1e-8, patience=3), (1.0, 1e-3, 2e-3, 1e7), False),
    (BudgetGap(tol=1e-8, patience=3), (1.0, 1e-3, 1e-3, 1e-3, 1e-3), True),
])
def test_criterion_stops_at_the_target_or_when_nothing_comes_any_more(criterion, gaps, done):
    assert criterion.check_convergence(rows(*gaps))[0] == done


@pytest.mark.parametrize("gap", [math.nan, math.inf])
def test_criterion_ends_a_run_that_has_no_number_any_more(gap):
    criterion = RelativeGap().get_runner_instance(max_runs=10)
    with pytest.warns(RuntimeWarning, match="diverged"):
        assert criterion.should_stop(1, rows(1e-3, gap))[:2] == (True, "max_runs")


def test_a_far_worse_point_of_a_larger_budget_is_no_divergence():
    criterion = BudgetGap(tol=1e-8).get_runner_instance(max_runs=100)
    gaps = (1.0, 1e7, 1e3, 1e9)
    for k in range(1, 5):
        assert criterion.should_stop(k, rows(*gaps[:k]))[:2] == (False, "running")


@pytest.mark.parametrize("kind", [RelativeGap, BudgetGap])
def test_criterion_takes_the_tolerance_of_the_solver_that_was_sent(monkeypatch, kind):
    monkeypatch.setenv(TOLERANCE, "1e-2")
    solver = pickle.loads(pickle.dumps(instance("SPDC")))
    monkeypatch.delenv(TOLERANCE)
    for sent, done in ((solver, True), (instance("SPDC"), False), (None, False)):
        criterion = kind(strategy="callback").get_runner_instance(max_runs=9, solver=sent)
        assert criterion.check_convergence(rows(1.0, 5e-3))[0] == done


@pytest.mark.parametrize("name", ["SPDC", "scipy-lbfgs", "ERM"])
def test_other_sources_are_another_entry_of_the_cache_and_refused_by_a_worker(monkeypatch, name):
    keyed = instance(name)
    key, sent = joblib.hash(keyed), pickle.dumps(keyed)
    assert key == joblib.hash(keyed) and str(pickle.loads(sent)) == str(keyed)
    monkeypatch.setattr(plugins, "CURVE_HASH", "of a worker that was started before an edit")
    keys = {key, joblib.hash(keyed)}
    with pytest.raises(RuntimeError, match="other sources of benchmark_dspdc; restart it"):
        pickle.loads(sent)
    # So are other releases of what it is computed with.
    monkeypatch.setattr(plugins.scipy, "__version__", "99.0")
    keys.add(joblib.hash(keyed))
    monkeypatch.setattr(plugins, "release", lambda package: "another")
    assert len(keys | {joblib.hash(keyed)}) == (4 if name == "scipy-lbfgs" else 3)


def test_a_file_imported_again_is_another_entry_of_the_result_cache(tmp_path, home):
    file = tmp_path / "file"
    keys = []

    def key():
        return joblib.hash(pickle.loads(pickle.dumps(instance("LIBSVM", name="set"))))
    for name, number in (("set", 1), ("set", 2), ("set_test", 1), ("set_test", 2)):
        file.write_text(f"1 1:{number}\n2 1:3\n")
        import_file(name, file)
        keys.append(key())
        assert key() == keys[-1]
    assert len(set(keys)) == 4


def test_plug_ins_fit_on_a_screen():
    for kind, most in (("solvers", 50), ("datasets", 50), ("plots", 80)):
        for file in REPO.glob(f"{kind}/*.py"):
            assert len(file.read_text().splitlines()) < most, file


CONFIGS = {
    file.stem: yaml.safe_load(file.read_text())
    for file in sorted((REPO / "configs").glob("*.yml"))
}


# Those for --parallel-config name a backend and nothing of the benchmark.
@pytest.mark.parametrize("name", [name for name in CONFIGS if "backend" not in CONFIGS[name]])
def test_configs_name_only_what_exists(name):
    config = CONFIGS[name]
    assert config["timeout"] > 0
    benchmark = Benchmark(REPO)
    for key, classes in (
        ("solver", benchmark.get_solvers()), ("dataset", benchmark.get_datasets()),
        ("objective", [benchmark.get_benchmark_objective()]),
    ):
        parameters = {
            cls.name: {name for names in cls.parameters for name in names.split(", ")}
            for cls in classes
        }
        for entry in config[key]:
            name, _, given = entry.partition("[")
            assert name in parameters
            used = re.findall(r"(\w+)=", given)
            assert set(used) <= parameters[name], entry

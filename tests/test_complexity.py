"""Predicted complexity: formulas by hand, every method, targets, result files, bad input."""

import json
import math
import os
import re

import numpy as np
import pytest
import scipy.sparse
import yaml
from benchopt.benchmark import Benchmark
from conftest import REPO, daily
from frames import curve, runs
from rich.console import Console
from test_matrix_problems import metric_problem, risk_problem, trace_problem

from benchmark_dspdc import constants, erm
from benchmark_dspdc.bench.named_problems import load_targets
from benchmark_dspdc.bench.plugins import predicted_cost
from benchmark_dspdc.bench.predicted_table import compare, run
from benchmark_dspdc.cli import main
from benchmark_dspdc.methods import METHODS, NAMED
from benchmark_dspdc.report.results import method_of
from benchmark_dspdc.theory.rates import RATES, NoRate, predict, predictions, rate_of

KINDS = ["factorized", "dense", "csr", "matrix", "trace", "metric"]
EPS = 1e-3
NATS = math.log(1e3)
LAM = 0.5


def small(kind="factorized"):
    """U has the rows (1, 0), (0, 2), ..., V two columns: all norms are plain numbers."""
    U = np.zeros((6, 2))
    U[::2, 0], U[1::2, 1] = 1.0, 2.0
    V = np.array([[3.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    A = U @ V
    stored = {"factorized": (U, V), "dense": A, "csr": scipy.sparse.csr_array(A)}[kind]
    return erm(stored, np.ones(6), "smoothed_hinge", lambda1=0.0, lambda2=LAM)


def posed(kind):
    """A problem of any kind."""
    matrices = {"matrix": risk_problem, "trace": trace_problem, "metric": metric_problem}
    return matrices[kind]().problem if kind in matrices else small(kind)


# A: rows (3, 0, 0) and (0, 2, 2) three times each; n = 6, p = 3, d = 2, lam gamma = 1/2.
# Lambda_11 = 9, Lambda_p1 = 9, Lambda_1n = 27, |A|^2 = max(27, 24) = 27, |A|_F^2 = 27 + 24 = 51.
KAPPA = 18.0

#: Iterations and outer passes over log(1/eps), multiply-adds of an iteration on A = UV; a pass
#: has 2 d (n + p) = 36 of them.
BY_HAND = {
    "DSPDC[m=1,q=1]": (6 + 18 * math.sqrt(9 / 3), 0, 2 * 2 * 2),
    "SPDC": (6 + math.sqrt(6 * KAPPA), 0, 2 * 2 * 4),
    "ASDCA": (6 + math.sqrt(6 * KAPPA), 0, 2 * 2 * 4 + 3),
    "APCG": (6 + math.sqrt(6 * KAPPA), 0, 2 * (2 * 3 + 3)),
    "RPDG": (6 + math.sqrt(6 * KAPPA), 0, 2 * 2 * 4),
    "SDCA": (6 + KAPPA, 0, 2 * 2 * 4),
    "SAGA": (6 + KAPPA, 0, 2 * 2 * 4),
    "SVRG": (KAPPA, 1, 2 * 2 * 4),
    "Katyusha": (6 + math.sqrt(6 * KAPPA), 0, 2 * 2 * 4 + 36 / 12),
    # Table 1: n sqrt(p max(Lambda_p1, Lambda_1n)/(lam gamma)) entries of cost d.
    "ASVRG-SP uniform, printed": (6 * math.sqrt(3 * 54), 1 + math.sqrt(3 * 54), 2 + 2),
    "ASVRG-SP uniform": (math.sqrt(6 * 3 * 54), 1 + math.sqrt(3 * 54 / 6), 2 + 2),
    "ASVRG-SP nonuniform, printed": (
        math.sqrt(6 * 6 * 51 / LAM), 1 + math.sqrt(6 * 51 / LAM / 6), 2 + 2
    ),
    "ASVRG-SP nonuniform": (math.sqrt(6 * 51 / LAM), 1 + math.sqrt(51 / LAM / 6), 2 + 2),
    "APCG-primal": (3 + 3 * math.sqrt(27 / 3), 0, 2 * (2 * 6 + 3)),
    "SPDHG": (6 + math.sqrt(6 * KAPPA), 0, 2 * 2 * 4),
    "S2CD": (3 * KAPPA, 1, 2 * 2 * 2),
    "PDHG": (1 + math.sqrt(27 / 3), 0, 36),
    "FISTA": (1 + math.sqrt(27 / 3), 0, 36),
}


def test_formulas_agree_with_those_by_hand():
    found = {row.name: row for row in predictions(small(), EPS, m=1, q=1)}
    assert set(found) == set(BY_HAND)
    for name, (iterations, outer, cost) in BY_HAND.items():
        row = found[name]
        assert row.iterations == pytest.approx(NATS * iterations), name
        assert row.outer == pytest.approx(NATS * outer), name
        assert row.per_iteration == pytest.approx(cost), name
        assert row.multiply_adds == pytest.approx(
            NATS * (iterations * cost + 36 * outer)
        ) == row.overall, name
        assert row.passes == pytest.approx(row.multiply_adds / 36), name
        assert row.eigendecompositions == 0.0


def test_dspdc_has_its_own_blocks_and_constant():
    problem = small()
    first, second = predictions(problem, EPS, m=6, q=3)[:2]
    assert (first.name, second.name) == ("DSPDC[m=6,q=3]", "DSPDC[m=1,q=1]")
    assert first.iterations == pytest.approx(NATS * (1 + math.sqrt(27 / 3)))
    assert first.per_iteration == 36
    heuristic = predict(problem, "dspdc", EPS, m=2, q=2, sampling="subset", Lambda="heuristic")
    # r = 3, s = 3/2 and m q Lambda_p1/p = 12.
    assert heuristic.iterations == pytest.approx(NATS * (3 + 4.5 * math.sqrt(12 / 3)))
    given = predict(problem, "dspdc", EPS, method="spdc", m=6, steps="dspdc", Lambda=12.0)
    assert given.iterations == pytest.approx(NATS * (1 + math.sqrt(12 / 3)))


def test_batches_have_the_smoothness_of_their_mean_loss():
    problem = small("dense")
    # All rows in one batch: r = 1 and kappa_m = |A|^2/(n lam gamma) = 9.
    for rate, iterations in (("saga", 10), ("svrg", 9), ("apcg", 4), ("rpdg", 4), ("katyusha", 4)):
        assert predict(problem, rate, EPS, m=6).iterations == pytest.approx(NATS * iterations)
    # Normalised rows are three copies of each of two orthogonal ones: c = 3, or m if safe.
    assert predict(problem, "sdca", EPS, m=6).iterations == pytest.approx(NATS * (1 + 3 * 3))
    safe = predict(problem, "sdca", EPS, m=6, scaling="safe")
    assert safe.iterations == pytest.approx(NATS * (1 + 6 * 3))
    # SPDC's authors have n/m and the row norms.
    spdc = predict(problem, "spdc", EPS, m=3)
    assert spdc.iterations == pytest.approx(NATS * (2 + math.sqrt(2 * KAPPA)))
    whole = predict(problem, "apcg_primal", EPS, q=3)
    assert whole.iterations == pytest.approx(NATS * (1 + 3))


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_entries_of_stored_data_are_those_that_there_are(kind):
    found = {row.name: row for row in predictions(small(kind), EPS)}
    row = found["ASVRG-SP uniform"]
    # N = k = 9 entries that are not zero, of 2 multiply-adds each.
    assert row.per_iteration == 2.0
    assert row.iterations == pytest.approx(NATS * math.sqrt(9 * 9 * 54 / 6))
    assert row.outer == pytest.approx(NATS * (1 + math.sqrt(54 / 6)))


def test_matrices_have_the_formulas_of_table_2():
    n, p, d, lam = 24, 4, 5, 0.4
    problem = risk_problem("square", n, p, d, lam=lam).problem
    found, c = {row.name: row for row in predictions(problem, EPS, 1, 1)}, constants(problem, 1, 1)
    strength, data = lam * problem.gamma, n * p * d * (d + 1)
    kappa = c.Lambda_p1.value / strength
    dspdc = found["DSPDC[m=1,q=1]"]
    assert dspdc.iterations == pytest.approx(
        NATS * (n + p * math.sqrt(c.Lambda_11.value * n / strength))
    )
    assert (dspdc.eigendecompositions_per_iteration, dspdc.per_iteration) == (1, data / n)
    assert dspdc.overall == pytest.approx(dspdc.iterations * (data / n + d ** 3))
    spdc = found["SPDC"]
    assert spdc.iterations == pytest.approx(NATS * (n + math.sqrt(n * kappa)))
    assert spdc.eigendecompositions == pytest.approx(p * spdc.iterations)
    for name in ("ASDCA", "APCG", "RPDG", "SDCA", "SAGA", "SVRG", "Katyusha", "PDHG", "FISTA"):
        assert found[name].eigendecompositions_per_iteration == p, name
    printed = found["ASVRG-SP uniform, printed"]
    largest = max(c.Lambda_p1.value, c.Lambda_1n.value) / strength
    assert printed.iterations == pytest.approx(NATS * n * p * math.sqrt(largest / d))
    assert printed.outer == pytest.approx(NATS * (1 + math.sqrt(d * largest)))
    assert printed.per_iteration == d * (d + 1)
    assert found["APCG-primal"].eigendecompositions_per_iteration == 1


@pytest.mark.nightly
def test_sdca_on_triplets_touches_the_shared_block_and_the_tasks():
    written = metric_problem()
    problem = written.problem
    assert predict(problem, "sdca").eigendecompositions_per_iteration == 2
    n, p = problem.shape
    assert predict(problem, "sdca", m=n).eigendecompositions_per_iteration == p
    assert predict(problem, "apcg").eigendecompositions_per_iteration == p


def test_moduli_of_the_options_are_those_of_the_constants():
    problem = metric_problem(lambda0=0.1, lam=2.0).problem
    n, strength = problem.shape[0], problem.lam * problem.gamma
    least = problem.for_steps("least").operator.row_norms2.max()
    each = problem.operator.row_norms2.max()
    assert least > 1.5 * each
    for moduli, Lambda in (("least", least), ("each", each)):
        row = predict(problem, "saga", EPS, constants(problem), moduli=moduli)
        assert row.iterations == pytest.approx(NATS * (n + Lambda / strength))


@pytest.mark.parametrize("kind", daily(KINDS, "csr"))
def test_work_of_an_iteration_is_what_the_methods_count(kind):
    problem = posed(kind)
    for rate, options in (
        ("dspdc", dict(m=2, q=1)), ("dspdc", dict(m=0.5, q=1)), ("spdc", dict(m=2)),
        ("sdca", dict(m=2)), ("apcg", dict(m=2)), ("apcg_primal", dict(q=1)), ("saga", {}),
        ("rpdg", dict(sampling="uniform")), ("katyusha", {}), ("pdhg", {}), ("fista", {}),
        ("spdhg", {}),
    ):
        row = predict(problem, rate, **options)
        algorithm = METHODS[row.method](problem, seed=1, **options)
        before = algorithm._counters.copy()
        # Whole epochs, and enough blocks of different sizes to average over.
        epochs = 30 if kind == "metric" else 20
        count = epochs * 2 * problem.shape[0] if rate == "katyusha" else 20 * epochs
        algorithm.advance(count)
        work, _, eigs = (algorithm._counters - before) / count
        low = 0.4 if rate == "sdca" else 0.75        # rows that do not move are half the work
        assert low * row.per_iteration <= work <= 1.25 * row.per_iteration, (rate, options)
        # Projections that a Cholesky factorisation settles are not counted.
        assert eigs <= 1.25 * row.eigendecompositions_per_iteration, (rate, options)


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_has_a_row_on_every_operator(kind):
    rows = predictions(posed(kind))
    assert {row.method for row in rows} == set(METHODS)
    for row in rows:
        assert 0 < row.iterations < math.inf and 0 < row.passes < math.inf
        assert row.formula and row.source
    assert {rate.method for rate in RATES.values()} == set(METHODS)


def test_rates_are_chosen_by_the_options():
    assert rate_of("spdc", {"steps": "dspdc"}) == "dspdc"
    assert rate_of("asvrg_sp", {"sampling": "uniform"}) == "asvrg_sp uniform"
    assert rate_of("sdca", {"m": 5}) == "sdca"
    with pytest.raises(NoRate, match="asdca is for m = 1"):
        rate_of("asdca", {"m": 5})
    assert method_of("APCG-primal[q=0.5]") == ("apcg_primal", {"q": 0.5})
    assert method_of("DSPDC[m=1,q=1.0,sampling=subset]") == (
        "dspdc", {"m": 1, "q": 1.0, "sampling": "subset"}
    )
    assert method_of("scipy-lbfgs")[0] not in METHODS


def test_plug_ins_are_found_by_their_names():
    named = {s.name: s.method for s in Benchmark(REPO).get_solvers() if hasattr(s, "method")}
    assert set(named.values()) == set(NAMED)
    for name, method in named.items():
        assert method_of(name) == (method, {})


@pytest.mark.parametrize(("options", "message"), [
    (dict(eps=0.0), "eps must be"), (dict(eps=1.0), "eps must be"), (dict(m=99), "m must be"),
])
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        predict(small(), "sdca", **options)


def test_costs_of_single_rows_and_columns_are_predicted_and_those_of_others_are_not(monkeypatch):
    problem = small()
    for method, options in (("saga", dict(m=1)), ("dspdc", dict(m=1, q=1, Lambda="partition")),
                            ("spdc", dict(m=1, steps="dspdc")), ("fista", {})):
        wanted = predict(problem, rate_of(method, options), 1e-6, method=method, **options)
        assert predicted_cost(method, problem, options) == pytest.approx(wanted.overall)
    for method, options in (("saga", dict(m=1.0)), ("saga", dict(m=2)), ("nothing", {}),
                            ("dspdc", dict(m=1, q=0.5))):
        assert math.isnan(predicted_cost(method, problem, options))
    monkeypatch.setattr("benchmark_dspdc.bench.plugins.PREDICTED", 10)
    assert math.isnan(predicted_cost("saga", problem, dict(m=1)))


# The command ------------------------------------------------------------------------------

CONFIG = {
    "objective": ["ERM[loss=[square,smoothed_hinge],lambda1=0.001,lambda2=0.1,lam=0.2]"],
    "dataset": ["Factorized[n=60,p=20,d=5]", "TraceRegression[n=30,p=3,d=3]"],
}
ONE = "DSPDC[m=1,q=0.5,sampling=subset,Lambda=heuristic]"
#: Solvers, and the gaps where they end.
SOLVERS = {
    "DSPDC[m=6,q=0.5]": 1e-8, ONE: 1e-8, "SPDC[m=1.0]": 1e-6, "SDCA[m=1]": 1e-3,
    "ASDCA[m=2]": 1e-8, "scipy-lbfgs": 1e-8,
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A config file, and a result file of it as it would be, made by hand."""
    folder = tmp_path_factory.mktemp("ran")
    config, results = folder / "config.yml", folder / "run.parquet"
    config.write_text(yaml.safe_dump(CONFIG))
    runs(*(
        curve(solver, 0.1, target.dataset, target.objective, to=to, p_solver_m=1.0,
              p_solver_steps="authors" if solver.startswith("SPDC") else None)
        for target in load_targets(str(config)) if target.problem is not None
        for solver, to in SOLVERS.items()
    )).to_parquet(results)
    return config, results


def printed(*arguments, **options):
    console = Console(width=200, record=True, file=open(os.devnull, "w"))
    run(*arguments, **options, console=console)
    return console.export_text()


def test_config_files_and_result_files_are_compared(ran, tmp_path):
    config, results = ran
    file = tmp_path / "complexity.json"
    shown = printed(str(config), results=results, eps=1e-4, m=6, q=0.5, json_file=file)
    written = json.loads(file.read_text())
    assert written["eps"] == 1e-4
    # Trace regression has the square loss only.
    assert [(p["dataset"].split("[")[0], p["objective"].count("square"))
            for p in written["problems"]] == [
        ("Factorized", 1), ("Factorized", 0), ("TraceRegression", 1)]
    assert "is left out: trace regression has the square loss" in shown
    for problem in written["problems"]:
        assert len(problem["predictions"]) == len(BY_HAND) + 1
        assert problem["constants"]["Lambda_pn"]["kind"] == "exact"
        measured = {row["solver"]: row for row in problem["measured"]}
        assert set(measured) == set(SOLVERS)
        for solver, row in measured.items():
            if solver == "SDCA[m=1]":
                assert row["passes"] is None and "not reached" in row["note"]
                assert f"{solver}: relative gap 0.0001 not reached" in shown
                continue
            # The gap falls by the same factor at each of 59 steps of 10 passes, 100 iterations.
            steps = math.ceil(59 * math.log(1e-4) / math.log(SOLVERS[solver]))
            assert (row["passes"], row["iterations"]) == (10 * steps, 100 * steps)
            assert row["multiply_adds"] == row["passes"] * problem["pass_multiply_adds"]
            if row["prediction"]:
                assert row["ratio"] == row["passes"] / row["prediction"]["passes"]
                assert row["prediction"]["iterations"] > 0
        assert "no method of this package" in measured["scipy-lbfgs"]["note"]
        assert [name for name, row in measured.items() if row["prediction"] is None] == [
            "ASDCA[m=2]", "scipy-lbfgs"
        ]
        n = 60 if problem["dataset"].startswith("F") else 30
        # A count of one and a share of one are told apart, though the columns have 1.0 for both.
        assert [measured[k]["prediction"]["m"] for k in (ONE, "SPDC[m=1.0]")] == [1, n]
        assert problem["missing"][:2] == ["APCG", "RPDG"] and "ASDCA" not in problem["missing"]
    for expected in ("not in", "Katyusha", "DSPDC[m=6,q=10]", "ratio to theory", "SPDC[m=1.0]",
                     "ASDCA[m=2]: ", "K_qm", "Lambda_qm"):
        assert expected in shown, expected


def test_data_sets_are_named_as_for_benchopt(ran, capsys, tmp_path):
    _, results = ran
    arguments = [
        "complexity", "Factorized[n=60,p=20,d=5]", "-o", "ERM[loss=square,lambda2=0.1]", "-m", "6",
        "-q", "0.5", "--eps", "1e-2",
    ]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "ERM[lambda1=0.001,lambda2=0.1,loss=square]" in shown
    assert "DSPDC[m=6,q=10]" in shown and "m = 6, q = 10" in shown
    assert main([*arguments, "--results", str(results)]) == 0
    assert "measured, to relative gap 0.01" in capsys.readouterr().out
    # Without -o, the objective's first parameters.
    assert main(["complexity", "Factorized[n=60,p=20,d=5]"]) == 0
    assert "ERM[lambda1=0.001,lambda2=0.01,loss=smoothed_hinge]" in capsys.readouterr().out


def test_options_not_in_a_name_are_read_from_the_columns():
    problem = small()
    for steps, rate in (("authors", "spdc"), ("dspdc", "dspdc")):
        rows = curve("SPDC[m=1]", 0.1, p_solver_steps=steps)
        found = compare(problem, rows, 1e-4, constants(problem))[0]["prediction"]
        assert found["formula"] == RATES[rate].formula


def test_options_in_a_file_that_are_none_are_named_and_not_passed_on():
    solvers = {"DSPDC[eps=1,method=sdca]": "has no option 'eps'", "DSPDC[m=x]": "m must be",
               "SDCA[problem=3]": "has no option 'problem'", "SPDC[m=1,theorem=x]": ""}
    frame = runs(*(curve(name, 0.1, p_solver_theorem="many") for name in solvers))
    compared = compare(small(), frame, 1e-4, constants(small()))
    assert [row["solver"] for row in compared] == list(solvers)
    assert all(solvers[row["solver"]] in (row["note"] or "") for row in compared)


@pytest.mark.parametrize(("arguments", "message"), [
    (["Nope"], "did not match any dataset. Available datasets are: .*Factorized"),
    (["Factorized[zz=3]"], "Unknown parameter 'zz'"),
    (["Factorized[n=60"], "missing bracket"),
    (["Factorized[n=-3]"], "cannot be loaded: n must be an integer >= 1"),
    (["Factorized", "-o", "Nope"], "did not match any objective"),
    (["Factorized", "-o", "ERM[loss=nope]"], "loss must be one of"),
    (["Factorized[n=60,p=20,d=5]", "--eps", "2"], "eps must be a finite number > 0 and < 1"),
    (["Factorized[n=60,p=20,d=5]", "-m", "0"], "m must be an integer from 1 to 60"),
    (["Factorized[n=60,p=20,d=5]", "-q", "many"], "q must be an integer from 1 to 20"),
    (["TraceRegression[n=30,p=3,d=3]"], "has no problem: .* trace regression has the square"),
    (["none.yml"], "no such file: none.yml"),
    (["{tmp}/empty.yml"], "names no dataset"), (["{tmp}/broken.yml"], "not a readable config"),
    (["{tmp}/code.yml"], "names '.*x.py.n=3.', a file; allowed are names"),
    (["Factorized[n=60,p=20,d=5]", "--results", "none.parquet"], "no such file: none.parquet"),
    (["Factorized[n=60,p=20,d=5]", "--results", "{tmp}/empty.yml"], "not a readable parquet"),
    (["Factorized[n=50,p=20,d=5]", "--results", "{results}"], "has no runs of Factorized"),
])
def test_bad_input_ends_with_one_line_and_code_2(arguments, message, ran, tmp_path, capsys):
    (tmp_path / "empty.yml").write_text("solver: [SDCA]\n")
    (tmp_path / "broken.yml").write_text("dataset: [Factorized\n")
    (tmp_path / "x.py").write_text("raise SystemExit('executed')")
    (tmp_path / "code.yml").write_text(f"dataset: ['{tmp_path}/x.py[n=3]']\n")
    arguments = [a.format(tmp=tmp_path, results=ran[1]) for a in arguments]
    assert main(["complexity", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("benchmark_dspdc: error: ") and error.count("\n") == 1
    assert re.search(message, error), error

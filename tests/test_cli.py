import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from conftest import REPO
from frames import ELASTIC, runs, seeds
from rich.console import Console

import benchmark_dspdc
from benchmark_dspdc.bench import benchopt_process as running
from benchmark_dspdc.cli import main
from benchmark_dspdc.data import import_file
from benchmark_dspdc.model.losses import LOSSES
from benchmark_dspdc.report.summary import print_summary


def results(**columns):
    """Two methods, one that does not get far."""
    solvers = (("Fast[m=1]", 1e-11), ("Slow[m=1]", 1e-2))
    curves = (seeds(name, (1.0, 2.0, 9.0), to=to, points=12) for name, to in solvers)
    return runs(*itertools.chain(*curves)).assign(**columns)


def summary(file, **columns):
    results(**columns).to_parquet(file)
    console = Console(width=160, record=True, file=open(os.devnull, "w"))
    print_summary([file], console)
    return console.export_text()


def test_summary_shows_names_with_brackets_medians_and_what_was_not_reached(tmp_path):
    shown = summary(tmp_path / "run.parquet", dataset_name="Data[n=3]",
                    objective_eigendecompositions=0.0)
    for expected in ("Data[n=3]", ELASTIC, "Fast[m=1]", "6.0010", "12.0010 *", "6 - 54", " - ",
                     "gap 1.0e-02", "medians of 3 runs"):
        assert expected in shown, (expected, shown)


def test_summary_of_matrix_problems_shows_eigendecompositions_and_test_errors(tmp_path):
    columns = dict(
        objective_eigendecompositions=100 * (np.arange(72) % 12), objective_test_error=0.0123,
    )
    shown = summary(tmp_path / "run.parquet", **columns, objective_test_error_euclidean=0.16)
    for expected in ("1e-2, s", "1e-4, s", "eigs", "400", "error, %", "1.23", "Euclidean 16.00"):
        assert expected in shown, (expected, shown)
    assert "passes" not in shown
    # A file may lack the error of Euclidean distances.
    assert "1.23" in summary(tmp_path / "run.parquet", **columns)


@pytest.mark.parametrize("axis", ["seconds", "passes", "updates", "eigendecompositions"])
def test_figure_is_drawn_for_each_axis(tmp_path, axis):
    file, image = tmp_path / "run.parquet", tmp_path / "gaps.png"
    results(objective_eigendecompositions=range(72)).to_parquet(file)
    assert main(["figure", str(file), "-o", str(image), "-x", axis]) == 0
    assert image.read_bytes()[:4] == b"\x89PNG"


def test_summary_without_results_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["summary"]) == 2
    assert "run `make run` first" in capsys.readouterr().err


def test_import_libsvm_imports_and_complains(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LIBSVMDATA_HOME", str(tmp_path / "home"))
    file = tmp_path / "small.txt"
    file.write_text("1 1:0.5 3:2\n-1 2:1\n")
    assert main(["import-libsvm", "small", str(file)]) == 0
    assert "2 rows x 3 features" in capsys.readouterr().out
    import_file("small", file, progress=True)
    assert "reading small.txt" in capsys.readouterr().out
    file.write_text("1 1:0.5 3:\n")
    assert main(["import-libsvm", "broken", str(file)]) == 2
    assert "error" in capsys.readouterr().err
    assert main(["import-libsvm", "../escape", str(file)]) == 2


@pytest.mark.parametrize(("run", "code"), [
    (dict(code=0), 3), (dict(code=0, failed=("Raising on data, ERM",)), 3), (dict(code=130), 130),
])
def test_a_run_whose_curves_all_diverged_ends_with_its_code_and_names_what_failed(
    tmp_path, monkeypatch, capsys, run, code
):
    file = tmp_path / "run.parquet"
    results(objective_relative_gap=np.nan, objective_value=np.nan).to_parquet(file)
    monkeypatch.setattr(running, "benchopt_run", lambda *given: running.Run(file, **run))
    (tmp_path / "x.yml").touch()
    assert main(["run", "--config", str(tmp_path / "x.yml")]) == code
    shown = capsys.readouterr().err
    assert "no point has a finite gap" in shown
    for name in run.get("failed", ()):
        assert f"failed: {name}" in shown


@pytest.mark.parametrize("name", ["a/b", "../x", "..", "/tmp/x"])
def test_results_are_written_under_outputs_alone(tmp_path, monkeypatch, capsys, name):
    monkeypatch.setattr(running, "benchopt_run", lambda *given: 1 / 0)
    (tmp_path / "x.yml").touch()
    assert main(["run", "--config", str(tmp_path / "x.yml"), "--name", name]) == 2
    assert "--name is a file under outputs/" in capsys.readouterr().err


def test_result_files_are_found_whatever_a_config_is_called(tmp_path):
    results().to_parquet(tmp_path / "my[1]_now.parquet")
    assert running._result(tmp_path, "my[1]_now") == tmp_path / "my[1]_now.parquet"
    assert running._result(tmp_path, "my1_now") is None


def test_unknown_commands_end_with_code_2(capsys):
    for arguments in (["nonsense"], [], ["speed", "--only", "no"], ["speed", "--data", "no"]):
        try:
            code = main(arguments)
        except SystemExit as error:
            code = error.code
        assert code == 2
    capsys.readouterr()


@pytest.mark.nightly
def test_speed_measures_and_writes_json(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(REPO / "benchmarks")
    import speed

    monkeypatch.setattr(speed, "FACTORIZED", [(200, 20, 4, 1, 10)])
    monkeypatch.setattr(speed, "REPEATS", 1)
    file = tmp_path / "speed.json"
    assert main(["speed", "--only", "factorized", "--json", str(file)]) == 0
    assert "dgemm" in capsys.readouterr().out
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == len(LOSSES) + 2
    assert all(0 < row["to_dgemm"] < 1 and row["ns_per_iteration"] > 0 for row in rows)
    hinge = next(row for row in rows if "q=10 smoothed_hinge" in row["kernel"])
    assert "to dgemm" in hinge["target"] and hinge["reached"] == (hinge["to_dgemm"] >= 0.3)


def python(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=REPO, capture_output=True, text=True,
        timeout=60,
    )


#: The command line, where Ctrl-C comes while a module is loaded.
EARLY = """
import runpy, signal, sys
# A shell's background job begins with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "pyarrow.lib":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Impatient())
runpy.run_module("benchmark_dspdc", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_before_a_command_has_begun_is_one_line():
    done = python(EARLY, "run")
    assert (done.returncode, done.stderr) == (130, "benchmark_dspdc: interrupted\n")
    done = python(EARLY, "--version")
    assert done.returncode == 0 and done.stdout.strip().count(".") == 2


#: What the command line loads before it knows what to do.
LOADED = """
import sys
import benchmark_dspdc.cli
print(*{"numba", "numpy", "pandas", "scipy", "benchopt"} & set(sys.modules))
from benchmark_dspdc import *
print(erm.__module__, solve.__module__, constants.__module__)
"""


def test_nothing_slow_is_loaded_before_it_is_needed():
    done = python(LOADED)
    assert done.stdout == (
        "\nbenchmark_dspdc.problems benchmark_dspdc.solver benchmark_dspdc.theory.constants\n"
    ), done.stderr


def test_names_of_the_package_are_listed_and_unknown_ones_are_no_attributes():
    assert set(benchmark_dspdc.__all__) <= set(dir(benchmark_dspdc))
    for name in benchmark_dspdc.__all__:
        assert getattr(benchmark_dspdc, name) is not None
    with pytest.raises(AttributeError, match="module 'benchmark_dspdc' has no attribute 'sovle'"):
        benchmark_dspdc.sovle  # noqa: B018


def test_a_fitted_model_is_certified_from_files(tmp_path, capsys):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((20, 3)), np.where(rng.random(20) > 0.5, 1.0, 0.0)
    x = rng.standard_normal(3)
    np.savez(tmp_path / "model.npz", A=A, b=b, coef=x)
    scipy.sparse.save_npz(tmp_path / "A.npz", scipy.sparse.csr_array(A))
    for name, values in (("b", b), ("coef", x)):
        np.save(tmp_path / f"{name}.npy", values)
    found = benchmark_dspdc.certify(A, b, x, "logistic", lambda2=0.1, labels="01")
    whole = [str(tmp_path / "model.npz")]
    parts = [str(tmp_path / name) for name in ("A.npz", "b.npy", "coef.npy")]
    for files in (whole, parts):
        command = ["certify", *files, "--loss", "logistic", "--lambda2", "0.1"]
        assert main([*command, "--labels", "01"]) == 0
        assert f"relative gap  {found.relative_gap:.3e}" in capsys.readouterr().out
    for files, message in (
        (parts[:2], "give one file, or three files, of A, b and coef, got 2"),
        (parts[1:2], "must be an .npz with the arrays A, b, coef, got one array"),
        ([str(tmp_path / "none.npz")], "no such file"), (whole, "labels must be -1 or +1"),
    ):
        assert main(["certify", *files, "--loss", "logistic", "--lambda2", "0.1"]) == 2
        assert message in capsys.readouterr().err

"""The regression check and the trend, on result files made by hand and on real runs."""

import json
import math
import os
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from conftest import REPO
from frames import ELASTIC, curve, factorized, runs, seeds

from benchmark_dspdc.cli import main
from benchmark_dspdc.report import regress, trend
from benchmark_dspdc.report.regress import BETTER, SAME, WORSE, CannotCompare, Line

FOUND = dict(objective_reference_seconds=1e-3, base_seed=0)


def measured(time=1.0, passes=1.0, spdc=1.0, **more):
    """A result of two methods, the first with its time or its passes multiplied."""
    first = seeds("DSPDC[m=1,q=1]", (0.1, 0.11, 0.12), **FOUND, **more)
    for own in first:
        own["time"] *= time * passes
        own["objective_passes"] *= passes
    second = seeds("SPDC[m=1]", (0.2, 0.2, 0.2), eigs=3.0, **FOUND, **more)
    for own in second:
        own["time"] *= spdc
    return runs(*first, *second)


@pytest.fixture
def place(tmp_path):
    """Writes frames, and a baseline of five runs that differ by some per cent in time."""
    def write(frame, name="result"):
        file = tmp_path / f"{name}.parquet"
        frame.to_parquet(file)
        return str(file)

    files = [write(measured(time=t), f"run{t}") for t in (1.0, 1.01, 1.02, 1.03, 1.04)]
    write.baseline = str(tmp_path / "kept" / "baseline.json")
    write.folder = tmp_path
    assert main(["regress", *files, "--baseline", write.baseline, "--update"]) == 0
    return write


def check(place, frame, *more):
    return main(["regress", place(frame), "--baseline", place.baseline, *more])


def test_nothing_changed(place, capsys):
    assert check(place, measured()) == 0
    assert "no regression in 11 figures" in capsys.readouterr().out


def test_noise_within_the_spread_is_no_regression(place, capsys):
    assert check(place, measured(time=1.09, spdc=1.09)) == 0
    assert "worse" not in capsys.readouterr().out


@pytest.mark.parametrize(("change", "figure", "others"), [
    (dict(time=1.3), "time a pass", "SPDC[m=1] on"), (dict(passes=1.03), "passes to 1e-4", "zzz"),
    (dict(spdc=1.3), "time a pass", "DSPDC[m=1,q=1] on"),
])
def test_a_slower_method_is_caught_and_named(place, capsys, change, figure, others):
    assert check(place, measured(**change)) == 1
    out = capsys.readouterr().out
    assert figure in out and others not in out


def test_better_figures_are_told_and_are_no_regression(place, capsys):
    assert check(place, measured(time=0.7)) == 0
    assert "1 figures are better: --update raises the baseline" in capsys.readouterr().out
    assert check(place, measured(time=0.7), "--update") == 0
    assert check(place, measured()) == 1


def test_a_gap_that_is_not_reached_any_more_is_a_regression(place, capsys):
    frame = measured()
    short = (frame["solver_name"] == "SPDC[m=1]") & (frame["objective_relative_gap"] < 1e-5)
    frame = frame[~short]
    assert check(place, frame) == 1
    assert "passes to 1e-6" in capsys.readouterr().out
    line = Line(("d", "o", "s"), "passes to 1e-6", 10.0, math.inf, 0.02)
    assert (line.change, line.outcome) == (math.inf, WORSE)
    assert line._replace(was=math.inf, now=10.0).outcome == BETTER
    assert line._replace(was=math.inf).outcome == SAME


def test_work_alone_needs_no_time_and_the_first_seed_only(place):
    frame = measured(time=3.0)
    assert check(place, frame[frame["idx_rep"] == 0], "--work-only") == 0
    slower = measured(passes=1.03)
    assert check(place, slower[slower["idx_rep"] == 0], "--work-only") == 1


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f[f["solver_name"] != "SPDC[m=1]"], "1 of 2 runs of the baseline are not in"),
    (lambda f: pd.concat([f, curve("SDCA[m=1]", 0.1, **FOUND)]), "1 runs of the result are not"),
    (lambda f: f[f["idx_rep"] < 2], "the seeds are others"),
    (lambda f: f.assign(base_seed=7), "the seeds are others"),
    (lambda f: f[(f["idx_rep"] < 2) | (f["solver_name"] != "SPDC[m=1]")], "2 of 3 repetitions"),
    (lambda f: f.drop(columns="objective_reference_seconds"), "has no reference time"),
    (lambda f: f.drop(columns="objective_passes"), "is not a result of this benchmark"),
])
def test_what_cannot_be_compared_is_no_pass(place, capsys, change, message):
    junit = place.folder / "junit.xml"
    assert check(place, change(measured()), "--junit", str(junit)) == 2
    assert message in " ".join(capsys.readouterr().out.split())
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("errors") == "1" and suite.find("testcase/error") is not None


@pytest.mark.parametrize(("text", "message"), [
    ("", "is not a baseline"), ("[]", "is not a baseline"), ("{}", "is not a baseline"),
    ('{"format": 99}', "has format 99"), ('{"format": 1, "figures": [3]}', "is not a baseline"),
    ('{"format": 1, "figures": [{"work": {"a": ["x"]}}]}', "is not a baseline"),
    ('{"format": 1, "figures": []}', "is not a baseline"),
])
def test_files_that_are_no_baselines_are_named(place, capsys, text, message):
    file = place.folder / "other.json"
    file.write_text(text)
    assert main(["regress", place(measured()), "--baseline", str(file)]) == 2
    assert message in " ".join(capsys.readouterr().out.split())


def test_a_missing_baseline_and_a_missing_result(place, capsys):
    assert main(["regress", place(measured()), "--baseline", "nowhere.json"]) == 2
    assert "--update makes one" in capsys.readouterr().out
    assert main(["regress", "nowhere.parquet", "--baseline", place.baseline]) == 2
    assert "no such file" in capsys.readouterr().out
    assert main(["regress", "--baseline", place.baseline]) == 2
    assert "either result files or --run" in capsys.readouterr().err


def test_times_of_another_machine_are_not_compared(place, capsys):
    known = json.loads(open(place.baseline).read())
    known["machine"] = "another"
    with open(place.baseline, "w") as file:
        json.dump(known, file)
    assert check(place, measured(time=2.0)) == 0
    assert "times are not compared" in capsys.readouterr().out
    assert check(place, measured(passes=2.0)) == 1


def test_a_baseline_of_work_alone_has_no_times(place, capsys):
    assert check(place, measured(), "--update", "--work-only") == 0
    assert check(place, measured(time=3.0)) == 0
    assert "times are not compared: the baseline has none" in capsys.readouterr().out
    assert check(place, measured(passes=1.03)) == 1


def test_the_tolerance_of_time_comes_from_the_spread_of_runs():
    def tolerances(times):
        frames = [measured(time=t) for t in times]
        baseline = regress.make_baseline(frames)
        lines, _ = regress.compare(
            regress.figures_of(frames[0]), baseline, dict(base=[0], repetitions=3)
        )
        return [round(line.tolerance, 2) for line in lines if line.figure == "time a pass"]
    assert tolerances((1.0, 1.0, 1.0)) == [0.10, 0.10]
    assert tolerances((1.0, 1.04, 1.08)) == [0.15, 0.10]
    assert tolerances((1.0, 1.5, 2.0)) == [0.22, 0.10]
    assert tolerances((1.0,)) == [0.22, 0.22]


def test_long_times_are_run_again_before_they_count(place, capsys):
    asked = []

    def again(lines, time):
        asked.append([line.key[2] for line in lines])
        frame = measured(time=time)
        return [[place(frame[frame["solver_name"] == "DSPDC[m=1,q=1]"], "again")]]

    file, baseline = place(measured(time=1.5)), place.baseline
    assert regress.regress([[file]], baseline, again=lambda lines: again(lines, 1.0)) == 0
    assert regress.regress([[file]], baseline, again=lambda lines: again(lines, 1.4)) == 1
    assert asked == [["DSPDC[m=1,q=1]"]] * 2
    # More work is no noise.
    file = place(measured(passes=1.5))
    assert regress.regress([[file]], baseline, again=lambda lines: 1 / 0) == 1


def test_figures_for_programs(place):
    out, junit = place.folder / "out.json", place.folder / "junit.xml"
    assert check(place, measured(passes=1.1), "--json", str(out), "--junit", str(junit)) == 1
    found = json.loads(out.read_text())
    assert found["regression"] is True
    worse = [row for row in found["figures"] if row["outcome"] == WORSE]
    assert [row["figure"] for row in worse] == [f"passes to 1e-{k}" for k in (2, 4, 6)]
    assert worse[0]["change"] == pytest.approx(0.1, abs=1e-3)
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("11", "3", "0")
    assert len(suite.findall("testcase/failure")) == 3


def test_names_that_xml_cannot_hold(tmp_path):
    line = Line(("a\x00<b>&\x1b", "o\ud800", "s"), "passes to 1e-2", 1.0, 2.0, 0.02)
    regress.write_junit([line], None, tmp_path / "junit.xml")
    case = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testcase")
    assert case.get("classname") == "a\ufffd<b>&\ufffd, o\ufffd"


def test_work_between_two_points_goes_by_the_logarithm_of_the_gap():
    own = curve("SPDC[m=1]", 0.1, points=9)                 # 10 passes a decade
    for gap, passes in ((1e-2, 20.0), (3e-3, -10.0 * math.log10(3e-3)), (1.0, 0.0), (2.0, 0.0)):
        assert regress.work_to(own, "objective_passes", gap) == pytest.approx(passes)
    assert regress.work_to(own, "objective_passes", 1e-9) == math.inf
    # A gap that rises in between does not count, nor does one that is zero in the end.
    own.loc[3, "objective_relative_gap"] = 5.0
    own.loc[8, "objective_relative_gap"] = 0.0
    assert regress.work_to(own, "objective_passes", 1e-2) == pytest.approx(20.0)
    assert 70.0 < regress.work_to(own, "objective_passes", 1e-8) < 80.0


def test_files_of_other_runs_make_no_baseline(place):
    other = measured()
    with pytest.raises(CannotCompare, match="differ in their solvers"):
        regress.make_baseline([other, other[other["solver_name"] == "SPDC[m=1]"]])


# Real runs --------------------------------------------------------------------------

SMALL = """
objective: ["ERM[loss=smoothed_hinge,lambda1=0.001,lambda2=0.01]"]
dataset: ["Factorized[n=2000,p=60,d=15,materialize=True]"]
solver: ["SPDC[m=1]", "SDCA[m=1]"]
n-repetitions: 2
max-runs: 40
timeout: 60
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the benchmark that may be edited, with a baseline of it as it is."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("benchmark_dspdc", "datasets", "solvers", "plots"):
        shutil.copytree(REPO / name, folder / name)
    for name in ("objective.py", "config.yml"):
        shutil.copy(REPO / name, folder / name)
    (folder / "small.yml").write_text(SMALL)
    assert guarded(folder, "--update", "--repeat", "2")[0] == 0
    return folder


def guarded(folder, *options):
    """The command as a user of the copy calls it: exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmark_dspdc", "regress", "--run", "small.yml", "--baseline",
         "baseline.json", *options],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )
    return done.returncode, done.stdout + done.stderr


def edited(folder, file, old, new):
    """Edit a file of the copy; returns a function that takes it back."""
    path = folder / "benchmark_dspdc" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new))
    return lambda: path.write_text(text)


def test_an_unchanged_tree_passes_and_a_perturbed_step_is_caught(checkout):
    code, shown = guarded(checkout, "--work-only")
    assert code == 0, shown
    undo = edited(
        checkout, "steps.py", "    sigma = n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
        "    sigma = 0.9 * n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
    )
    try:
        code, shown = guarded(checkout, "--work-only")
    finally:
        undo()
    assert code == 1, shown
    assert "SPDC[m=1] on Factorized" in shown and "SDCA[m=1] on" not in shown


@pytest.mark.nightly
def test_a_kernel_slowed_by_a_third_is_caught(checkout):
    code, shown = guarded(checkout)
    assert code == 0, shown
    advance = " " * 20 + "self.algorithm.advance(size * (next_step - step))\n"
    undo = edited(
        checkout, "plugins.py", advance,
        " " * 20 + "import time\n" + " " * 20 + "t = time.perf_counter()\n" + advance
        + " " * 20 + "t += 1.3 * (time.perf_counter() - t)\n"
        + " " * 20 + "while time.perf_counter() < t:\n" + " " * 24 + "pass\n",
    )
    try:
        code, shown = guarded(checkout)
    finally:
        undo()
    assert code == 1, shown
    assert "time a pass" in shown


@pytest.mark.nightly
def test_twenty_unchanged_runs_raise_no_alarm(checkout):
    for k in range(20):
        code, shown = guarded(checkout)
        assert code == 0, (k, shown)


# Trend ------------------------------------------------------------------------------

def test_levels_that_change_are_found_and_noise_is_not():
    rng = np.random.default_rng(0)
    noise = np.exp(0.02 * rng.standard_normal(40))
    assert trend.change_points(noise, 0.08) == []
    step = noise * np.where(np.arange(40) < 25, 1.0, 1.3)
    assert trend.change_points(step, 0.08) == [25]
    two = noise * np.select([np.arange(40) < 10, np.arange(40) < 30], [1.0, 1.5], 1.0)
    assert trend.change_points(two, 0.08) == [10, 30]
    # Work has no noise: a small step counts, a smaller one does not; one odd run never does.
    exact = np.where(np.arange(12) < 7, 100.0, 103.0)
    assert trend.change_points(exact, 0.02) == [7]
    assert trend.change_points(np.where(np.arange(12) < 7, 100.0, 101.0), 0.02) == []
    odd = np.ones(20)
    odd[9] = 2.0
    assert trend.change_points(odd, 0.08) == []
    gaps = step.copy()
    gaps[[3, 24, 26]] = np.nan
    assert trend.change_points(gaps, 0.08) in ([25], [27])
    assert trend.change_points([1.0, math.nan, 2.0], 0.02) == []


@pytest.fixture
def history(tmp_path):
    """Ten results a day apart, the last four with 20 % more passes."""
    for day in range(10):
        frame = measured(passes=1.2 if day >= 6 else 1.0)
        frame["run_date"] = f"2026-03-{day + 1:02d}T12:00:00"
        frame.to_parquet(tmp_path / f"run{9 - day}.parquet")
    return tmp_path


def test_a_trend_is_in_the_order_of_the_dates_and_marks_the_change(history, capsys):
    output = history / "out" / "trend.html"
    (history / "broken.parquet").write_text("no parquet")
    assert main(["trend", str(history), "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "left out" in shown and "broken.parquet" in shown
    made = trend.trend_data([history])
    assert made["runs"][0] == "2026-03-01 12:00 run9" and len(made["runs"]) == 10
    assert [row["run"] for row in made["changes"]] == ["2026-03-07 12:00 run3"] * 3
    assert made["changes"][0]["change"] == pytest.approx(0.2, abs=1e-3)
    assert {row["solver"] for row in made["changes"]} == {"DSPDC[m=1,q=1]"}
    text = output.read_text("utf-8")
    assert "@@DATA@@" not in text and "@@HELPERS@@" not in text
    own = text.split('id="data"')[0]
    assert "src=" not in own and "href=" not in own and "url(" not in own


def test_a_trend_of_nothing_is_an_error(tmp_path, capsys):
    assert main(["trend", str(tmp_path)]) == 2
    assert "no parquet file in the folder" in capsys.readouterr().err
    (tmp_path / "broken.parquet").write_text("no parquet")
    assert main(["trend", str(tmp_path)]) == 2
    assert "none of the files is a result" in capsys.readouterr().err


def test_runs_of_other_problems_are_gaps_in_a_trend(tmp_path):
    for k in range(6):
        dataset = factorized(p=100 if k % 2 else 200)
        frame = runs(*seeds("SPDC[m=1]", (0.1, 0.1), dataset=dataset, objective=ELASTIC, **FOUND))
        frame.assign(run_date=f"2026-03-{k + 1:02d}").to_parquet(tmp_path / f"{k}.parquet")
    made = trend.trend_data([tmp_path])
    assert len(made["problems"]) == 2 and made["changes"] == []
    values = made["problems"][0]["figures"]["passes to 1e-2"]["SPDC[m=1]"]["values"]
    assert [value is None for value in values] == [False, True] * 3

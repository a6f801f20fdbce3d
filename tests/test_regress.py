"""The regression check and the trend, on result files made by hand and on real runs."""

import copy
import json
import math
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import hypothesis
import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPO, git, make_problem
from frames import ELASTIC, curve, factorized, runs, seeds
from hypothesis import strategies as st

from benchmark_dspdc.bench.benchopt_process import Run
from benchmark_dspdc.cli import _parser, main
from benchmark_dspdc.guard import curve_figures as effort
from benchmark_dspdc.guard import guarded_runs as guard
from benchmark_dspdc.guard import regress, trend
from benchmark_dspdc.guard.baseline import CannotCompare
from benchmark_dspdc.guard.compared_lines import BETTER, SAME, WORSE, Line

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


def writer(folder):
    def write(frame, name="result"):
        file = folder / f"{name}.parquet"
        frame.to_parquet(file)
        return str(file)
    write.folder, write.baseline = folder, str(folder / "kept" / "baseline.json")
    return write


@pytest.fixture(scope="session")
def five_runs(tmp_path_factory):
    """A folder with a baseline of five runs that differ by some per cent in time."""
    write = writer(tmp_path_factory.mktemp("five"))
    files = [write(measured(time=t), f"run{t}") for t in (1.0, 1.01, 1.02, 1.03, 1.04)]
    assert main(["regress", *files, "--baseline", write.baseline, "--update"]) == 0
    return write.folder


@pytest.fixture
def place(tmp_path, five_runs):
    """Writes frames, beside a copy of the five runs and their baseline."""
    shutil.copytree(five_runs, tmp_path, dirs_exist_ok=True)
    return writer(tmp_path)


def check(place, frame, *more):
    return main(["regress", place(frame), "--baseline", place.baseline, *more])


def changed(place, change):
    """Edit the baseline."""
    known = json.loads(Path(place.baseline).read_text())
    change(known)
    Path(place.baseline).write_text(json.dumps(known))


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
    assert check(place, measured(time=0.6)) == 0
    shown = capsys.readouterr().out
    assert "1 figure is better; --update makes what is measured the new standard" in shown
    assert check(place, measured(time=0.6), "--update") == 0
    assert check(place, measured()) == 1


def test_a_gap_that_is_not_reached_any_more_is_a_regression(place, capsys):
    frame = measured()
    short = (frame["solver_name"] == "SPDC[m=1]") & (frame["objective_relative_gap"] < 1e-5)
    frame.loc[short, "objective_relative_gap"] = 1e-5
    assert check(place, frame) == 1
    assert "passes to 1e-6" in capsys.readouterr().out
    line = Line(("d", "o", "s"), "passes to 1e-6", 10.0, math.inf, 0.02)
    assert (line.change, line.outcome) == (math.inf, WORSE)
    assert line._replace(was=math.inf, now=10.0).outcome == BETTER
    assert line._replace(was=math.inf).outcome == SAME


def test_a_curve_that_was_cut_is_not_compared(place, capsys):
    frame = measured()
    short = (frame["solver_name"] == "SPDC[m=1]") & (frame["objective_relative_gap"] < 1e-5)
    assert check(place, frame[~short]) == 2
    assert (
        "repetition 0 ended after 37 of 60 checks: another max-runs, or its time limit was"
    ) in capsys.readouterr().err
    # What it had before it ended is enough if nothing is lacking.
    assert check(place, frame[~short | (frame["objective_relative_gap"] > 1e-7)]) == 0


def test_a_better_seed_does_not_hide_a_worse_one(place, capsys):
    frame = measured()
    for seed, factor in ((0, 0.5), (1, 1.1)):
        own = (frame["solver_name"] == "SPDC[m=1]") & (frame["idx_rep"] == seed)
        frame.loc[own, ["objective_passes", "time"]] *= factor
    assert check(place, frame) == 1
    assert "passes to 1e-6 442.5 -> 486.8 (+10.0%" in capsys.readouterr().out
    # Nor a figure that got better another one, in the table.
    lines = [
        Line(("d", "o", "s"), name, 10.0, now, 0.02) for name, now in (("a", 2.0), ("b", 11.0))
    ]
    regress.print_comparison(lines, [], regress.Console())
    assert "+10.0%" in capsys.readouterr().out.splitlines()[3]


def test_the_work_of_every_file_counts(place, capsys):
    good, bad = place(measured(), "good"), place(measured(passes=1.1), "bad")
    assert main(["regress", good, bad, "--baseline", place.baseline, "--work-only"]) == 1
    assert "DSPDC[m=1,q=1] on" in capsys.readouterr().out
    other = place(measured().assign(base_seed=3), "other")
    assert main(["regress", good, other, "--baseline", place.baseline, "--work-only"]) == 2
    assert "the seeds are others" in capsys.readouterr().err
    # Of times the median counts.
    slow = place(measured(time=2.0), "slow")
    assert main(["regress", slow, good, good, "--baseline", place.baseline]) == 0
    assert main(["regress", slow, good, slow, "--baseline", place.baseline]) == 1


def test_work_alone_needs_no_time_and_the_first_seed_only(place):
    frame = measured(time=3.0)
    assert check(place, frame[frame["idx_rep"] == 0], "--work-only") == 0
    slower = measured(passes=1.03)
    assert check(place, slower[slower["idx_rep"] == 0], "--work-only") == 1


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f[f["solver_name"] != "SPDC[m=1]"], "1 of 2 runs of the baseline are not in"),
    (lambda f: pd.concat([f, curve("SDCA[m=1]", 0.1, **FOUND)]), "1 of 3 runs of the result"),
    (lambda f: f[f["idx_rep"] < 2], "the seeds are others"),
    (lambda f: f.assign(base_seed=7), "the seeds are others"),
    (lambda f: f[(f["idx_rep"] < 2) | (f["solver_name"] != "SPDC[m=1]")], "2 of 3 repetitions"),
    (lambda f: f.drop(columns="objective_reference_seconds"), "has no reference time"),
    (lambda f: f.drop(columns="objective_passes"), "is not a result of this benchmark"),
])
def test_what_cannot_be_compared_is_no_pass(place, capsys, change, message):
    junit, out = place.folder / "junit.xml", place.folder / "out.json"
    out.write_text("of an earlier run")
    files = ["--junit", str(junit), "--json", str(out)]
    assert check(place, change(measured()), *files) == 2
    assert message in capsys.readouterr().err
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert message in suite.find("testcase/error").get("message")
    found = json.loads(out.read_text())
    assert message in found["error"] and found["regression"] is None and found["figures"] == []


@pytest.mark.parametrize(("text", "message"), [
    ("", "is not a baseline"), ("[]", "is not a baseline"), ("{}", "is not a baseline"),
    ('{"format": 99}', "has format 99"), ('{"format": 4, "figures": [3]}', "is not a baseline"),
    ('{"format": 4, "figures": [{"work": {"a": ["x"]}}]}', "is not a baseline"),
    ('{"format": 4, "figures": []}', "is not a baseline"), ("[" * 10**5, "is not a baseline"),
])
def test_files_that_are_no_baselines_are_named(place, capsys, text, message):
    file = place.folder / "other.json"
    file.write_text(text)
    assert main(["regress", place(measured()), "--baseline", str(file)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("change", [
    lambda known: known.update(seeds=3), lambda known: known.update(seeds={}),
    lambda known: known["seeds"].update(base=0), lambda known: known["seeds"].update(base=["0"]),
    lambda known: known["seeds"].update(repetitions=0),
    lambda known: known["seeds"].update(repetitions=2), lambda known: known.update(machine=None),
    lambda known: known["machine"].update(processor=3), lambda known: known["machine"].pop("cpus"),
    lambda known: known["machine"].update(releases=["numba"]),
    lambda known: known["machine"]["releases"].update(numba="\x1b[2J"),
    lambda known: known.update(made=3), lambda known: known["made"][0].update(runs="5"),
    lambda known: known["made"][0].update(commit="\x1b[2J"),
    lambda known: known["figures"][0].update(last=3),
    lambda known: known["figures"][0].pop("last"),
    lambda known: known["figures"][0].update(last=[0.1, 0.1]),
    lambda known: known["figures"][0].update(last=[0.1, 0.1, 0.0]),
    lambda known: known["figures"][0]["times"]["time a pass"].pop("spread"),
    lambda known: known.update(figures={}), lambda known: known["figures"].append(3),
    lambda known: known["figures"].append(known["figures"][0]),
    lambda known: known["figures"][0].pop("checks"),
    lambda known: known["figures"][0].update(checks=[1, 2]),
    lambda known: known["figures"][0].update(checks=[1, 2, 2.5]),
    lambda known: known["figures"][0].update(work=[]),
    lambda known: known["figures"][0].update(solver="\x1b[2J"),
    lambda known: known["figures"][0].update(solver=3),
    lambda known: known["figures"][0].update(times=1.0),
    lambda known: known["figures"][0]["times"].update({"time a pass": 1.0}),
    lambda known: known["figures"][0]["times"].update(other={"value": 1.0}),
    lambda known: known["figures"][0].pop("times"),
    lambda known: known["figures"][0]["times"]["time a pass"].update(value=0.0),
    lambda known: known["figures"][0]["times"]["time a pass"].update(value=math.nan),
    lambda known: known["figures"][0]["times"]["time a pass"].update(value=10**400),
    lambda known: known["figures"][0]["times"]["time a pass"].update(spread=math.inf),
    lambda known: known["figures"][0]["times"]["time a pass"].update(spread=-0.1),
    lambda known: known["figures"][0]["work"].update({"passes to 1e-4": [math.nan, 1.0, 1.0]}),
    lambda known: known["figures"][0]["work"].update({"passes to 1e-4": [-1.0, 1.0, 1.0]}),
    lambda known: known["figures"][0]["work"].update({"passes to 1e-4": [True, 1.0, 1.0]}),
    lambda known: known["figures"][0]["work"].update({"passes to 1e-4": [1.0, 1.0]}),
    lambda known: known["figures"][0]["work"].update({"passes to 1e-4": None}),
])
def test_numbers_of_a_baseline_that_are_none_are_refused(place, capsys, change):
    changed(place, change)
    assert check(place, measured()) == 2
    assert "is not a baseline" in capsys.readouterr().err


ODD = (
    None, True, -1, 0, 3, 2.5, math.nan, math.inf, 10**400, 5e-324, "", "x", "\x1b", [], {},
    [None], [1.0, 2.0, 3.0], {"a": 1}, {"value": 1}, {"base": [0], "repetitions": 3},
)


def inside(value, path=()):
    """The places in what JSON can hold."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(
        value, list
    ) else ():
        yield from inside(value[key], (*path, key))


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    """A result, and the file with its baseline."""
    frame, file = measured(), tmp_path_factory.mktemp("random") / "baseline.json"
    regress.write_baseline(regress.make_baseline([frame, frame]), file)
    return frame, file


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(data=st.data())
def test_a_baseline_changed_at_random_is_compared_or_refused(one_run, data):
    frame, baseline = one_run
    file, known = baseline.with_name("changed.json"), json.loads(baseline.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(list(inside(known))[1:]))
        place = known
        for key in path:
            place = place[key]
        if data.draw(st.booleans()):
            place[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        else:
            del place[last]
        if not known:
            break
    file.write_text(json.dumps(known))
    try:
        lines, _ = regress.compare([frame], regress.read_baseline(file))
    except CannotCompare:
        return
    for line in lines:
        assert line.outcome in (SAME, BETTER, WORSE) and str(line)


def test_a_missing_baseline_and_a_missing_result(place, capsys):
    assert main(["regress", place(measured()), "--baseline", "nowhere.json"]) == 2
    assert "--update makes one" in capsys.readouterr().err
    assert main(["regress", "nowhere.parquet", "--baseline", place.baseline]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "message"), [
    ([], "either result files or --run"), (["x.parquet", "--run", "x.yml"], "either result files"),
    (["--run", "x.yml", "--repeat", "-1"], "must be at least 1, got -1"),
    (["--run", "x.yml", "--repeat", "0"], "must be at least 1, got 0"),
    (["--run", "x.yml"], "the run of x.yml ended with code 1, without a result file"),
    (["--run", "x.yml", "y.yml"], "no such file: y.yml"),
    (["x.parquet", "--repeat", "3"], "--repeat is for --run CONFIG"),
])
def test_what_cannot_be_run_is_no_regression(place, capsys, monkeypatch, given, message):
    monkeypatch.setattr(guard, "benchopt_run", lambda *given, **more: Run(None, 1))
    monkeypatch.chdir(place.folder)
    Path("x.yml").touch()
    out = place.folder / "out.json"
    assert main(["regress", *given, "--baseline", place.baseline, "--json", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert message in json.loads(out.read_text())["error"]


@pytest.mark.parametrize(("code", "failed", "message"), [
    (137, (), "ended with code 137, with a result file"),
    (0, ("SPDC on data, ERM",), "failed: SPDC on data, ERM"),
])
def test_a_run_that_was_killed_or_had_failures_is_not_compared(
    place, capsys, monkeypatch, code, failed, message
):
    file = Path(place(measured()))
    done = Run(file, code, failed=failed)
    monkeypatch.chdir(place.folder)
    Path("x.yml").touch()
    monkeypatch.setattr(guard, "benchopt_run", lambda *given, **more: done)
    assert main(["regress", "--run", "x.yml", "--baseline", place.baseline]) == 2
    assert message in capsys.readouterr().err


def test_files_that_cannot_be_read_or_written(place, capsys):
    folder = place.folder / "folder"
    folder.mkdir()
    assert main(["regress", place(measured()), "--baseline", str(folder)]) == 2
    assert main(["regress", str(folder), "--baseline", place.baseline]) == 2
    # A file in the place of a folder.
    inside_a_file = str(place.folder / "result.parquet" / "out.json")
    assert check(place, measured(), "--json", inside_a_file) == 2
    assert main(["regress", place(measured()), "--baseline", inside_a_file, "--update"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_of_the_program_is_no_regression(place, capsys, monkeypatch):
    monkeypatch.setattr(regress, "figures_of", lambda *given: 1 / 0)
    out = place.folder / "out.json"
    assert check(place, measured(), "--json", str(out)) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert json.loads(out.read_text())["error"] == "division by zero"


def test_a_check_that_is_stopped_leaves_no_figures_of_an_earlier_one(place, monkeypatch):
    def stopped(files):
        raise KeyboardInterrupt
    out = place.folder / "out.json"
    assert check(place, measured(), "--json", str(out)) == 0
    monkeypatch.setattr(regress, "read_results", stopped)
    assert check(place, measured(), "--json", str(out)) == 130
    assert json.loads(out.read_text())["error"] == "KeyboardInterrupt"


def test_times_of_another_machine_are_not_compared(place, capsys):
    changed(place, lambda known: known["machine"].update(processor="another"))
    junit = place.folder / "junit.xml"
    assert check(place, measured(time=2.0), "--junit", str(junit)) == 0
    assert "times are not compared" in capsys.readouterr().out
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("skipped")) == ("10", "1")
    assert "the baseline's are of 'another' with" in suite.find("testcase/skipped").get("message")
    assert check(place, measured(passes=2.0)) == 1
    # What counts is where the result was measured.
    assert check(place, measured(time=2.0).assign(**{"system-processor": "another"})) == 1


def test_a_baseline_of_work_alone_has_no_times(place, capsys):
    assert check(place, measured(), "--update", "--work-only") == 0
    assert check(place, measured(time=3.0)) == 0
    assert "times are not compared: the baseline has none" in capsys.readouterr().out
    assert check(place, measured(passes=1.03)) == 1


def test_the_tolerance_of_time_comes_from_the_spread_of_runs():
    def tolerances(times):
        frames = [measured(time=t) for t in times]
        lines, _ = regress.compare(frames[:1], regress.make_baseline(frames))
        return [round(line.tolerance, 2) for line in lines if line.figure == "time a pass"]
    assert tolerances((1.0, 1.0, 1.0)) == [0.10, 0.10]
    assert tolerances((1.0, 1.04, 1.16)) == [0.23, 0.10]
    assert tolerances((1.0, 1.5, 2.0)) == [0.67, 0.10]
    # Of one run it is that of the repetitions, 0.1, 0.11 and 0.12 s and three times 0.2 s.
    assert tolerances((1.0,)) == [0.22, 0.22]
    apart = runs(*seeds("DSPDC[m=1,q=1]", (0.08, 0.1, 0.13), **FOUND))
    lines, _ = regress.compare([apart], regress.make_baseline([apart]))
    (line,) = (line for line in lines if line.is_time)
    assert line.tolerance == pytest.approx(0.6, abs=0.01)


def test_a_baseline_of_one_run_is_called_so(place, capsys):
    assert check(place, measured(), "--update") == 0
    assert "one run says little" in capsys.readouterr().out
    assert check(place, measured()) == 0
    assert "the baseline, or a part of it, is of one run" in capsys.readouterr().out


def test_blindness_is_told_for_one_method_alone_and_for_all_of_a_problem():
    def told(frames):
        lines, notes = regress.compare(frames[:1], regress.make_baseline(frames))
        assert notes == []
        return regress._blind(lines)
    assert told([field(drift) for drift in (1.0, 1.05, 1.1)]) == []
    # What all methods share does not hide a slowdown of one.
    (note,) = told([field(drift) for drift in (0.8, 1.0, 1.3)])
    assert "for 0 of 7 methods if one alone were slower, and for 7 if all methods" in note
    (note,) = told([field(1.0, slower) for slower in (0.8, 1.0, 1.3)])
    assert "for 1 of 7 methods if one alone were slower, and for 1 if all methods" in note


def caught(factor, sigma, counts, median, trials=1500):
    """How often a time that is so many times as long is called worse, by lognormal noise."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(trials):
        known = np.exp(sigma * rng.standard_normal(5)).tolist()
        time = regress._typical(known, known, 0.0)
        now = (factor * np.exp(sigma * rng.standard_normal(counts[-1]))).tolist()
        found += all(
            median(now[:count]) / time["value"] - 1.0 > regress.tolerance_of(time)
            for count in counts
        )
    return found / trials


def test_second_tries_keep_a_slowdown_of_30_per_cent_and_drop_false_alarms():
    # Of logarithms; by it five runs differ from their median by 5, 11 and 16 % in the median,
    # recorded in baselines/regression.json were 11 % beside others and 17 % of the time a pass.
    quiet, beside, alone = 0.03, 0.07, 0.11
    rule = (regress.COUNTS, statistics.median_high)
    assert caught(1.3, quiet, *rule) > 0.99
    assert caught(1.3, beside, *rule) > 0.6
    assert caught(1.5, alone, *rule) > 0.6
    for sigma in (quiet, beside, alone):
        assert caught(1.0, sigma, *rule) < 0.006
        assert caught(1.0, sigma, (1,), statistics.median) > 3 * caught(1.0, sigma, *rule) - 0.003
    # Decided after every run, by means of two, it finds fewer.
    every = ((1, 2, 3, 4, 5), statistics.median)
    assert caught(1.3, beside, *rule) > caught(1.3, beside, *every)
    assert all(count % 2 for count in regress.COUNTS)


def test_a_check_of_many_methods_raises_hardly_any_false_alarm():
    def alarms(pooled, sigma=0.07, methods=17, trials=300):
        rng, found = np.random.default_rng(0), 0
        for _ in range(trials):
            rows = []
            for k in range(methods):
                known = np.exp(sigma * rng.standard_normal(5)).tolist()
                times = {"time a pass": regress._typical(known, known, 0.0)}
                rows.append(dict(dataset="d", objective="o", solver=str(k), times=times))
            if pooled:
                regress._pool_spreads(rows)
            found += any(
                all(
                    statistics.median_high(now[:count]) / time["value"] - 1.0
                    > regress.tolerance_of(time) for count in regress.COUNTS
                ) for time in (row["times"]["time a pass"] for row in rows)
                for now in [np.exp(sigma * rng.standard_normal(5)).tolist()]
            )
        return found / trials
    assert alarms(pooled=False) > 0.01
    assert alarms(pooled=True) <= 0.005


def test_the_spread_of_a_method_is_at_least_that_of_the_others():
    frames = [field(1.0, slower) for slower in (1.0, 1.0, 1.0)]
    for k, frame in enumerate(frames):
        # All but one differ by 10 %.
        own = frame["solver_name"] != frame["solver_name"].iloc[0]
        frame.loc[own, "time"] *= (0.9, 1.0, 1.1)[k]
    rows = regress.make_baseline(frames)["figures"]
    assert {round(row["times"]["time a pass"]["spread"], 2) for row in rows} == {0.1}


def test_long_times_are_run_again_before_they_count(place, capsys):
    asked = []

    def again(keys, *times):
        asked.append([key[2] for key in keys])
        frame = measured(time=times[len(asked) % len(times)])
        return [[place(frame[frame["solver_name"] == "DSPDC[m=1,q=1]"], "again")]]

    files, baseline = [[place(measured(time=1.5))]], place.baseline
    assert regress.regress(lambda: files, baseline, again=lambda keys: again(keys, 1.0)) == 0
    assert regress.regress(lambda: files, baseline, again=lambda keys: again(keys, 1.4)) == 1
    assert asked == [["DSPDC[m=1,q=1]"]] * (2 + 4)
    # One lucky run of two makes no difference, as the median of three is slow.
    asked.clear()
    assert 1 == regress.regress(
        lambda: files, baseline, again=lambda keys: again(keys, 1.4, 0.9)
    )
    assert len(asked) == 4
    assert "measured again" in capsys.readouterr().out
    # Where nothing can be run again that is said, and what was measured stands.
    for found in ([], [[place(measured(passes=3.0).query("solver_name == 'SPDC[m=1]'"), "else")]]):
        out = place.folder / "out.json"
        code = regress.regress(
            lambda: files, baseline, json_file=out, again=lambda keys, found=found: found
        )
        assert code == 1
        assert any("nothing could be run again" in note for note in json.loads(
            out.read_text()
        )["notes"])
    # If the commit of the baseline cannot be run either, five runs decide, and it is told.
    def refuses():
        raise regress.CannotCompare("no git")
    for without in (refuses, lambda: nullcontext(("abc", lambda keys: ([], [])))):
        asked.clear()
        assert 1 == regress.regress(
            lambda: files, baseline, json_file=out, again=lambda keys: again(keys, 1.4),
            turns=without,
        )
        assert len(asked) == 4
        (note,) = json.loads(out.read_text())["notes"]
        assert note.startswith("not measured by turns with the commit of the baseline: ")
    # More work is no noise.
    files = [[place(measured(passes=1.5, spdc=1.5))]]
    assert 1 == regress.regress(
        lambda: files, baseline, json_file=out, again=lambda keys: 1 / 0,
        turns=lambda: 1 / 0,
    )
    (note,) = json.loads(out.read_text())["notes"]
    assert note.startswith("1 time is above what is allowed in few runs, which may be noise: ")


def test_a_time_is_a_multiple_of_what_the_reference_took_at_the_ends_of_each_stretch():
    def busy(frame, rep, begin, end, factor):
        """A machine that is so many times as slow between two points of a repetition."""
        frame = frame.copy()
        own = frame["idx_rep"] == rep
        seconds = frame.loc[own, "time"].diff().fillna(frame.loc[own, "time"].iloc[0])
        slow = frame.loc[own, "stop_val"].between(begin, end)
        frame.loc[own, "time"] = seconds.where(~slow, factor * seconds).cumsum()
        within = frame["stop_val"].between(begin - 1, end)
        frame.loc[own & within, effort.REFERENCE] *= factor
        return frame

    def times(frame):
        return [own["times"][effort.TIME] for own in effort.figures_of(frame).values()]

    # For the two methods of a file (0.1 s a decade at least, and 0.2), 590 passes in 8.
    alone = measured()
    assert times(alone) == pytest.approx([8 * 100 / 590, 8 * 200 / 590], rel=2e-3)
    assert times(busy(alone, 0, 0, 59, 3.0)) == pytest.approx(times(alone), rel=1e-9)
    # Where it begins and ends the reference is half of each, so two stretches of sixty seem short.
    assert times(busy(alone, 1, 20, 40, 3.0)) == pytest.approx(times(alone), rel=0.02)
    # A repetition that was disturbed unseen does not count.
    hit = alone["idx_rep"] == 2
    disturbed = alone.assign(time=alone["time"].where(~hit, 5.0 * alone["time"]))
    assert times(disturbed) == pytest.approx(times(alone), rel=2e-3)
    # Seeds that do other work take other time.
    more = alone.copy()
    more.loc[hit, ["time", "objective_passes"]] *= 3.0
    assert times(more)[1] == pytest.approx(times(alone)[1], rel=2e-3)
    for values in (math.nan, 0.0, -1.0, math.inf):
        unknown = effort.figures_of(alone.assign(objective_reference_seconds=values))
        assert [own["times"] for own in unknown.values()] == [{}, {}]


def field(drift=1.0, slower=1.0, n=7):
    """A result of several methods, all with their times multiplied, the first once more."""
    return runs(*(
        own for k in range(n) for own in seeds(
            f"SPDC[m={k + 1}]", [0.1 * (k + 1) * drift * (slower if k == 0 else 1.0)] * 3, **FOUND
        )
    ))


def test_what_slows_all_methods_at_times_does_not_hide_a_slowdown_of_one():
    baseline = regress.make_baseline([field(drift) for drift in (0.8, 0.9, 1.0, 1.15, 1.3)])

    def worse(frame, again=()):
        lines, _ = regress.compare([frame], baseline, again=again)
        return [(line.key[2], line.figure) for line in lines if line.outcome == WORSE]
    for drift in (0.8, 1.0, 1.3, 1.5):
        assert worse(field(drift)) == []
    assert worse(field(0.8, 1.3)) == worse(field(1.0, 1.3)) == [("SPDC[m=1]", effort.BESIDE)]
    assert worse(field(1.0, 1.3), [field()] * 2) == []
    assert worse(field(1.0, 1.3), [field(), field(1.0, 1.25)]) == [("SPDC[m=1]", effort.BESIDE)]
    # What was not too slow is not made better by runs of the others.
    lines, _ = regress.compare([field(1.0, 1.3)], baseline, again=[field(0.5)] * 2)
    assert [line.key[2] for line in lines if line.outcome == BETTER] == []
    assert worse(field(1.0, 1.3), [field(1.0, 1.2)]) == [("SPDC[m=1]", effort.BESIDE)]
    # All at once are seen where that is more than the machine's own moods.
    assert worse(field(1.7)) == [(f"SPDC[m={k + 1}]", effort.TIME) for k in range(7)]
    # Among few there is no middle.
    few = regress.make_baseline([field(n=4)] * 2)
    assert all(set(row["times"]) == {effort.TIME} for row in few["figures"])


def test_a_baseline_is_in_the_middle_of_its_runs():
    made = regress.make_baseline([measured(time=t) for t in (1.2, 1.0, 1.1)])
    (alone,) = (regress.make_baseline([measured(time=1.1)])["figures"][k] for k in [0])
    assert made["figures"][0]["times"][effort.TIME] == dict(
        value=alone["times"][effort.TIME]["value"], spread=pytest.approx(0.1 / 1.1, rel=0.02)
    )


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
    regress.write_junit([line], [], None, tmp_path / "junit.xml")
    case = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testcase")
    assert case.get("classname") == "a\ufffd<b>&\ufffd, o\ufffd"


def test_work_between_two_points_goes_by_the_logarithm_of_the_gap():
    own = curve("SPDC[m=1]", 0.1, points=9)                 # 10 passes a decade
    for gap, passes in ((1e-2, 20.0), (3e-3, -10.0 * math.log10(3e-3)), (1.0, 0.0), (2.0, 0.0)):
        assert effort.work_to(own, "objective_passes", gap) == pytest.approx(passes)
    assert effort.work_to(own, "objective_passes", 1e-9) == math.inf
    # A gap that rises in between does not count, nor does one that is zero in the end.
    own.loc[3, "objective_relative_gap"] = 5.0
    own.loc[8, "objective_relative_gap"] = 0.0
    assert effort.work_to(own, "objective_passes", 1e-2) == pytest.approx(20.0)
    assert 70.0 < effort.work_to(own, "objective_passes", 1e-8) < 80.0


def test_gaps_of_any_size_and_work_that_is_none():
    own = curve("SPDC[m=1]", 0.1, points=4)
    for gaps in ([1e308, 1e-320, 0, 0], [np.nextafter(1e-2, 1), 1e-2, 0, 0], [2, 1, 0, -1]):
        own["objective_relative_gap"] = gaps
        assert 0.0 < effort.work_to(own, "objective_passes", 1e-2) <= 30.0
    own["objective_passes"] = math.nan
    assert effort.work_to(own, "objective_passes", 1e-2) == math.inf
    own["objective_passes"] = -5.0
    assert effort.work_to(own, "objective_passes", 1e-2) == 0.0


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f[f["solver_name"] == "SPDC[m=1]"], "differ in their solvers"),
    (lambda f: f.assign(base_seed=1), "the seeds are .*'base': .0.* and .*'base': .1"),
    (lambda f: f[f["idx_rep"] < 2], "the seeds are .*3.* and .*2"),
    (lambda f: f[(f["idx_rep"] < 2) | (f["solver_name"] != "SPDC[m=1]")], "2 of 3 repetitions"),
    (lambda f: measured(passes=1.03), "repeated runs do not do the same work: DSPDC.*passes to"),
    (lambda f: measured(passes=0.9), "repeated runs do not do the same work"),
    (lambda f: f[f["objective_relative_gap"] > 1e-5], "ended after 37 of 60 checks"),
    (lambda f: f.assign(base_seed=math.inf), "column base_seed of the result holds other than"),
    (lambda f: f.assign(base_seed="x"), "column base_seed of the result holds other than"),
    (lambda f: f.assign(**{"system-processor": "another"}), "of several machines"),
])
def test_files_of_other_runs_make_no_baseline(change, message):
    with pytest.raises(CannotCompare, match=message):
        regress.make_baseline([measured(), change(measured())])


def test_a_file_that_lacks_a_repetition_makes_no_baseline():
    frame = measured()
    short = (frame["solver_name"] == "SPDC[m=1]") & (frame["idx_rep"] == 1)
    with pytest.raises(CannotCompare, match="SPDC.* 2 of 3 repetitions"):
        regress.make_baseline([frame[~short]])


def test_gaps_that_are_not_reached_are_kept_as_such(tmp_path):
    frame = runs(*seeds("SPDC[m=1]", (0.2, 0.2), to=1e-5, **FOUND))
    made, file = regress.make_baseline([frame]), tmp_path / "baseline.json"
    regress.write_baseline(made, file)
    assert regress.read_baseline(file)["figures"][0]["work"]["passes to 1e-6"] == [math.inf] * 2
    assert "Infinity" not in file.read_text()
    assert all(line.outcome == SAME for line in regress.compare([frame], made)[0])


@pytest.mark.parametrize("character", ["\u00a0", "\ue000", "\U0001058b", "\uffff"])
def test_names_that_a_result_may_have_a_baseline_may_have_too(tmp_path, character):
    # Spaces of other widths, characters of private use or of a later Unicode.
    frame = runs(*seeds(f"SPDC[{character}=1]", (0.2, 0.2), **FOUND))
    result, file = tmp_path / "result.parquet", tmp_path / "baseline.json"
    frame.to_parquet(result)
    frame = regress.read_results([result])
    regress.write_baseline(regress.make_baseline([frame]), file)
    lines, notes = regress.compare([frame], regress.read_baseline(file))
    assert lines and all(line.outcome == SAME for line in lines)
    regress.write_junit(lines, notes, None, tmp_path / "junit.xml")
    assert ElementTree.parse(tmp_path / "junit.xml").getroot()


# Methods without passes ---------------------------------------------------------------

def plain(time=1.0, gap=1.0, reference=1e-3, **more):
    """A result of a solver that returns a point and nothing else."""
    own = [frame.assign(
        time=time * frame["time"], objective_passes=math.nan, objective_relative_gap=gap *
        frame["objective_relative_gap"], objective_reference_seconds=reference, base_seed=0,
    ) for frame in seeds("Plain", (0.1, 0.1, 0.1), eigs=math.nan, **more)]
    return runs(*own)


def test_a_solver_without_passes_is_guarded_by_its_time_to_gaps(place, capsys):
    assert check(place, plain(), "--update") == 0
    known = json.loads(Path(place.baseline).read_text())["figures"]
    assert [row["work"] for row in known] == [{}]
    # 0.1 s a decade and 1 ms before, the loop takes 1 ms.
    assert {name: time["value"] for name, time in known[0]["times"].items()} == {
        f"time to 1e-{k}": pytest.approx(100.0 * k + 1.0, rel=1e-3) for k in (2, 4, 6)
    }
    assert check(place, plain(time=1.05)) == 0
    # A machine that is slower is none of the solver's.
    assert check(place, plain(time=2.0, reference=2e-3)) == 0
    assert check(place, plain(time=100.0)) == 1
    assert "Plain on" in capsys.readouterr().out
    assert check(place, plain(gap=30.0)) == 1


def test_a_solver_that_begins_anew_with_every_budget_has_times_that_fall_and_rise():
    frame = plain()
    # The machine is three times as slow for one of the budgets, also the loop at its end.
    slow = frame["stop_val"] == 40
    busy = frame.assign(time=frame["time"].where(~slow, 3.0 * frame["time"]))
    busy[effort.REFERENCE] = busy[effort.REFERENCE].where(
        ~busy["stop_val"].between(39, 40), 3e-3
    )
    assert (busy["time"].diff() < 0.0).any()
    (alone,), (found,) = (effort.figures_of(one).values() for one in (frame, busy))
    assert found["times"] == pytest.approx(alone["times"], rel=1e-6)


def test_a_method_without_any_figure_is_no_pass(place, capsys):
    bare = plain(reference=math.nan)
    assert check(place, bare, "--update") == 2
    assert "Plain on" in (shown := capsys.readouterr().err) and "has no figure" in shown
    # Nor is one that has none of the kind that is asked for, be it alone or beside others.
    for frame in (plain(), runs(plain(), measured())):
        assert check(place, frame, "--update", "--work-only") == 2
    assert check(place, plain(), "--update") == 0
    assert check(place, bare) == 2
    assert "no reference time" in capsys.readouterr().err
    assert check(place, plain(), "--work-only") == 2
    changed(place, lambda known: known["machine"].update(processor="another"))
    assert check(place, plain()) == 2
    assert "times are not compared" in capsys.readouterr().err
    changed(place, lambda known: known["figures"][0].update(times={}))
    assert check(place, plain()) == 2
    # Beside others it is told.
    assert check(place, runs(plain(), measured()), "--update") == 0
    assert check(place, runs(plain(time=9.0), measured()), "--work-only") == 0
    assert "1 of 3 methods are left out, as they have no column with" in capsys.readouterr().out
    changed(place, lambda known: known.update(figures=[]))
    with pytest.raises(CannotCompare):
        regress.compare([measured()], regress.read_baseline(place.baseline))


# Curves that reach little -------------------------------------------------------------

def test_a_curve_that_reaches_no_common_gap_has_work_to_its_last_gap(place, capsys):
    def slow(passes=1.0, gap=1.0):
        own = seeds("SPDC[m=1]", (0.2, 0.2), to=0.05, **FOUND)
        return runs(*(frame.assign(
            objective_passes=passes * frame["objective_passes"],
            objective_relative_gap=gap * frame["objective_relative_gap"],
        ) for frame in own))
    assert check(place, slow(), "--update", "--work-only") == 0
    (row,) = json.loads(Path(place.baseline).read_text())["figures"]
    assert row["work"]["passes to 1e-2"] == [None, None]
    # The gap at the last check but one, a little more: reached whatever rounding does.
    before = 0.05 ** (58 / 59)
    assert all(before < gap < 1.02 * before for gap in row["last"])
    assert row["work"]["passes to the last gap"] == [pytest.approx(578.0, abs=3.0)] * 2
    for change in (dict(), dict(passes=1.01), dict(gap=1.0 + 1e-9)):
        assert check(place, slow(**change), "--work-only") == 0
    for change in (dict(passes=1.03), dict(gap=1.1)):
        capsys.readouterr()
        assert check(place, slow(**change), "--work-only") == 1
        assert "passes to the last gap" in capsys.readouterr().out
    first = slow(passes=1.03)
    assert check(place, first[first["idx_rep"] == 0], "--work-only") == 1
    assert check(place, slow(passes=0.9), "--work-only") == 0
    # Cut before it got there.
    assert check(place, slow().query("stop_val < 50"), "--work-only") == 2
    assert "ended after 50 of 60 checks" in capsys.readouterr().err


def test_where_a_curve_ends_below_its_tolerance_is_no_figure():
    (own,) = seeds("SPDC[m=1]", (0.1,), **FOUND)
    assert effort.last_gaps([own]) == {}
    # Ended by a tolerance of 1e-3: how far below it the last check is is luck.
    for end in (9e-4, 1e-5):
        ended = own[own["objective_relative_gap"] > 1e-3]
        ended = pd.concat([ended, ended.tail(1).assign(objective_relative_gap=end, stop_val=99)])
        ((gap,),) = effort.last_gaps([ended]).values()
        assert gap > 1e-3


# Files and runs -----------------------------------------------------------------------

def test_files_with_other_curves_are_one_run_and_the_same_ones_once_more_another(place):
    def parts(name, **change):
        frame = measured(**change)
        return [
            place(frame[frame["solver_name"] == solver], f"{name}{k}")
            for k, solver in enumerate(("DSPDC[m=1,q=1]", "SPDC[m=1]"))
        ]
    one, two, slow = parts("a"), parts("b", time=1.02), parts("c", time=1.5)
    assert regress.as_runs([*one, *two]) == [one, two]
    assert regress.as_runs([one[0], two[0], one[1], two[1]]) == [one, two]
    assert main(["regress", *one, "--baseline", place.baseline]) == 0
    assert main(["regress", *slow, "--baseline", place.baseline]) == 1
    assert main(["regress", *slow, *one, *two, "--baseline", place.baseline]) == 0
    assert main(["regress", *one, two[0], "--baseline", place.baseline]) == 2
    assert main(["regress", *one, *two, "--baseline", place.baseline, "--update"]) == 0
    assert json.loads(Path(place.baseline).read_text())["made"][0]["runs"] == 2


def test_of_two_runs_the_slower_counts(place):
    files = [place(measured(time=t), f"time{t}") for t in (1.0, 1.3)]
    assert main(["regress", *files, "--baseline", place.baseline]) == 1


def test_that_a_method_diverged_is_in_the_error(place, capsys):
    frame = measured()
    own = frame["solver_name"] == "SPDC[m=1]"
    frame.loc[own, "objective_value"] = np.tile(np.geomspace(1.0, 1e9, 60), 3)
    out = place.folder / "out.json"
    assert check(place, frame, "--json", str(out)) == 2
    for text in (capsys.readouterr().err, json.loads(out.read_text())["error"]):
        assert "3 runs diverged and are left out: SPDC[m=1] on" in text
    # What else reading it told is in the notes.
    frame = measured()
    frame.loc[5, "objective_relative_gap"] = math.nan
    assert check(place, frame, "--json", str(out)) == 0
    assert any("without a finite gap" in note for note in json.loads(out.read_text())["notes"])


# Machines -----------------------------------------------------------------------------

def test_another_number_of_processors_is_another_machine(place, capsys):
    two = measured().assign(**{"system-cpus": 2})
    assert check(place, two, "--update") == 0
    slow = measured(time=2.0)
    assert check(place, slow.assign(**{"system-cpus": 2})) == 1
    capsys.readouterr()
    assert check(place, slow.assign(**{"system-cpus": 4})) == 0
    assert "with 2 CPUs, those of the result of" in capsys.readouterr().out
    with pytest.raises(CannotCompare, match="of several machines"):
        regress.make_baseline([two, measured().assign(**{"system-cpus": 4})])


def test_other_releases_are_told_and_times_are_compared(place, capsys):
    assert check(place, measured().assign(**{"version-numpy": "1.0"}), "--update") == 0
    changed(place, lambda known: known["machine"]["releases"].update(numba="0.1"))
    capsys.readouterr()
    assert check(place, measured(time=2.0).assign(**{"version-numpy": "3.0"})) == 1
    shown = capsys.readouterr().out
    assert "releases differ" in shown and "numpy 1.0 and 3.0" in shown and "numba 0.1 and" in shown
    assert "scipy" not in shown
    assert set(json.loads(Path(place.baseline).read_text())["machine"]["releases"]) == {
        "numba", "llvmlite", "numpy", "scipy"
    }


# Times alone, and new baselines ---------------------------------------------------------

def test_times_alone_are_compared_where_work_was_changed_on_purpose(place, capsys):
    assert check(place, measured(passes=1.5)) == 1
    assert check(place, measured(passes=1.5), "--time-only") == 0
    assert check(place, measured(passes=1.5, time=1.5), "--time-only") == 1
    assert check(place, measured(), "--time-only", "--update") == 2
    changed(place, lambda known: known["machine"].update(processor="another"))
    capsys.readouterr()
    assert check(place, measured(), "--time-only") == 2
    assert "times are not compared" in capsys.readouterr().err
    frame = measured()
    short = frame[(frame["idx_rep"] < 2) | (frame["solver_name"] != "SPDC[m=1]")]
    assert check(place, short, "--time-only") == 2
    with pytest.raises(SystemExit):
        check(place, measured(), "--time-only", "--work-only")


def test_a_new_baseline_shows_what_it_changes(place, capsys):
    assert check(place, measured(passes=1.5, spdc=0.5), "--update") == 0
    shown = capsys.readouterr().out
    assert "3 figures are worse" in shown and "1 figure is better" in shown
    assert "is the new standard" in shown
    # Of what both have; and one that cannot be read is said to be.
    more = runs(measured(), *seeds("SDCA[m=1]", (0.1, 0.1, 0.1), **FOUND))
    assert check(place, more[more["solver_name"] != "SPDC[m=1]"], "--update") == 0
    assert "3 figures are better" in capsys.readouterr().out
    Path(place.baseline).write_text("{}")
    assert check(place, measured(), "--update") == 0
    assert "not compared with the baseline that is replaced" in capsys.readouterr().out


def test_when_and_at_which_commit_a_baseline_was_made(place, monkeypatch, capsys):
    def no_git(command, **options):
        raise FileNotFoundError(command[0])
    (made,) = json.loads(Path(place.baseline).read_text())["made"]
    assert len(made["date"]) == 10 and made["runs"] == 5
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    if found.returncode == 0:
        assert found.stdout.startswith(made["commit"].removesuffix("+"))
    assert check(place, measured()) == 0
    assert f"baseline of {made['date']}, commit" in capsys.readouterr().out
    monkeypatch.setattr(subprocess, "run", no_git)
    assert check(place, measured(), "--update") == 0
    assert json.loads(Path(place.baseline).read_text())["made"][0]["commit"] == ""
    # What the result says counts before what is checked out.
    assert check(place, measured().assign(**{"benchmark-commit": "1234abc"}), "--update") == 0
    assert json.loads(Path(place.baseline).read_text())["made"][0]["commit"] == "1234abc"


def test_a_method_is_added_without_touching_the_others(place, capsys):
    def rows():
        known = json.loads(Path(place.baseline).read_text())["figures"]
        return {row["solver"]: row for row in known}

    def with_new(**change):
        return runs(measured(**change), *seeds("SDCA[m=1]", (0.1, 0.1, 0.1), **FOUND))
    before = rows()
    assert check(place, with_new(passes=1.1), "--add") == 1
    shown = capsys.readouterr().out
    assert "DSPDC[m=1,q=1] on" in shown and "is left as it was" in shown and rows() == before
    assert check(place, with_new(time=1.02), "--add") == 0
    assert "1 row is added" in capsys.readouterr().out
    after = rows()
    assert after.pop("SDCA[m=1]")["times"] and after == before
    assert len(json.loads(Path(place.baseline).read_text())["made"]) == 2
    assert check(place, with_new()) == 0
    assert check(place, with_new(), "--add") == 2
    assert "nothing to add" in capsys.readouterr().err


@pytest.mark.parametrize(("change", "options", "message"), [
    (lambda f: f[f["solver_name"] != "SPDC[m=1]"], [], "all others of their problems"),
    (lambda f: f, ["--work-only"], "has times, which --work-only would not add"),
    (lambda f: f.assign(**{"system-processor": "another"}), [], "times are not compared"),
    (lambda f: f.assign(base_seed=7), [], "the seeds are others"),
])
def test_what_cannot_be_added(place, capsys, change, options, message):
    more = runs(measured(), *seeds("SDCA[m=1]", (0.1, 0.1, 0.1), **FOUND))
    before = Path(place.baseline).read_text()
    assert check(place, change(more), "--add", *options) == 2
    assert message in capsys.readouterr().err
    assert Path(place.baseline).read_text() == before


def test_times_beside_others_are_beside_the_same_others_after_a_method_was_added(place):
    def wide(n):
        # The eighth is far slower than the others, so that their median moves.
        return field(n=n)
    assert check(place, wide(6), "--update") == 0
    assert check(place, wide(9), "--add") == 0
    known = regress.read_baseline(place.baseline)
    alone = regress.make_baseline([wide(9)])
    for one, two in zip(known["figures"], alone["figures"], strict=True):
        assert one["times"][effort.BESIDE]["value"] == pytest.approx(
            two["times"][effort.BESIDE]["value"], rel=1e-3
        )
    assert check(place, wide(9)) == 0
    # A baseline that is replaced by one of fewer methods is not compared beside others.
    assert check(place, wide(5), "--update") == 0


# Runs ---------------------------------------------------------------------------------

def result_of(config, name, options, folder, frames, ran):
    """Stands for a run: writes what the config has, or of that the chosen data sets."""
    ran.append((config.name, options))
    frame = frames[config.name]
    chosen = [word for word in options if word != "-d"]
    if name == "regress_again":
        frame = frame[frame["dataset_name"].isin(chosen)]
    file = config.with_name(f"{config.stem}{len(ran)}.parquet")
    frame.to_parquet(file)
    return file


def test_problems_are_run_again_by_the_config_that_had_them(tmp_path, monkeypatch):
    ran, other = [], ELASTIC.replace("0.01", "0.02")
    frames = {
        "a.yml": runs(*seeds("SPDC[m=1]", (0.1,), dataset=factorized(20), **FOUND)),
        # The same data with another objective, and other data of the same kind.
        "b.yml": runs(
            *seeds("SPDC[m=1]", (0.1,), dataset=factorized(20), objective=other, **FOUND),
            *seeds("SPDC[m=1]", (0.1,), dataset=factorized(30), **FOUND),
        ),
    }
    monkeypatch.setattr(guard, "_run", lambda *given: result_of(*given, frames, ran))
    for name in frames:
        (tmp_path / name).write_text("dataset: [{Factorized: {n: 20}}]")
    guarded = guard.Guarded([tmp_path / name for name in frames])
    assert [len(files) for files in guarded.runs(2)] == [2, 2]
    ran.clear()

    def again(n, objective=ELASTIC):
        key = factorized(n), objective, "SPDC[m=1]"
        return guarded.again([key, key])
    assert len(again(20)) == 1 and ran.pop() == ("a.yml", ["-d", factorized(20)])
    assert len(again(30)) == 1 and ran.pop() == ("b.yml", ["-d", factorized(30)])
    assert len(again(20, other)) == 1 and ran.pop() == ("b.yml", ["-d", factorized(20)])
    assert again(40) == [] and ran == []
    # The methods of the keys alone, each set of data by itself.
    keys = [(factorized(n), ELASTIC, solver) for n, solver in (
        (20, "SPDC[m=1]"), (30, "A"), (40, "A"), (30, "B"), (30, "A"),
    )]
    assert len(guarded.alone(keys)) == 2
    assert ran == [
        ("a.yml", ["-d", factorized(20), "-s", "SPDC[m=1]"]),
        ("b.yml", ["-d", factorized(30), "-s", "A", "-s", "B"]),
    ]


@pytest.mark.parametrize("code", [130, 143])
def test_a_check_whose_run_is_stopped_ends_with_the_code_of_the_signal(place, monkeypatch, code):
    monkeypatch.setattr(guard, "benchopt_run", lambda *given, **more: Run(None, code))
    monkeypatch.chdir(place.folder)
    Path("x.yml").touch()
    assert main(["regress", "--run", "x.yml", "--baseline", place.baseline]) == code


# Real runs --------------------------------------------------------------------------

SMALL = """
objective: ["ERM[loss=smoothed_hinge,lambda1=0.001,lambda2=0.01]"]
dataset: ["Factorized[n=2000,p=60,d=15,materialize=True]"]
solver: ["SPDC[m=1]", "FISTA"]
n-repetitions: 2
max-runs: 40
timeout: 60
"""

#: Long enough for the time to be the kernels': some tenths of a second a curve.
TIMED = (
    SMALL.replace("n=2000,p=60", "n=5000,p=200").replace("max-runs: 40", "max-runs: 60")
    .replace('"FISTA"', '"SDCA[m=1]", APCG, RPDG, SAGA').replace("ions: 2", "ions: 3")
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the benchmark that may be edited, with a baseline of it as it is."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("benchmark_dspdc", "datasets", "solvers", "plots"):
        shutil.copytree(REPO / name, folder / name)
    for name in ("objective.py", "config.yml"):
        shutil.copy(REPO / name, folder / name)
    (folder / "small.yml").write_text(SMALL)
    code, shown = guarded(folder, "--update", "--work-only", "--repeat", "1")
    assert code == 0, shown
    return folder


@pytest.fixture(scope="module")
def timed(checkout):
    """The same with a baseline of times, as a commit."""
    (checkout / "timed.yml").write_text(TIMED)
    code, shown = guarded(checkout, "--update", config="timed")
    assert code == 0, shown
    # What runs leave is no part of a commit.
    (checkout / ".gitignore").write_text("outputs\n__cache__\n__pycache__\n*.json\n!timed.json\n")
    git(checkout, "init", "-q")
    commit(checkout)
    return checkout


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")


def guarded(folder, *options, config="small"):
    """The command as a user of the copy calls it: exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmark_dspdc", "regress", "--run", f"{config}.yml",
         "--baseline", f"{config}.json", "--json", "out.json", *options],
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
        checkout, "theory/steps.py", "    sigma = n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
        "    sigma = 0.9 * n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
    )
    try:
        code, shown = guarded(checkout, "--work-only")
    finally:
        undo()
    assert code == 1, shown
    assert "SPDC[m=1] on Factorized" in shown and "FISTA on" not in shown


#: A solver as benchopt's own documentation has it: takes the problem, returns x.
PLAIN = """
import numpy as np
from benchopt import BaseSolver

from benchmark_dspdc.model.losses import derivative_all


class Solver(BaseSolver):
    name = "Plain"
    sampling_strategy = "iteration"

    def set_objective(self, problem):
        self.problem = problem

    def run(self, n_iter):
        for _ in range(1):
            self.x = self.descended(n_iter)

    def descended(self, n_iter):
        problem, x = self.problem, np.zeros(self.problem.x_shape)
        for _ in range(n_iter):
            y = derivative_all(problem.loss, problem.operator.matvec(x), problem.b)
            x -= 0.01 * (problem.operator.rmatvec(y) / len(y) + 0.01 * x)
        return x

    def get_result(self):
        return dict(x=self.x)
"""


@pytest.mark.nightly
def test_a_plain_solver_that_becomes_slower_is_caught(checkout):
    (checkout / "plain.yml").write_text(
        SMALL.replace('"SPDC[m=1]", "FISTA"', '"Plain"').replace("max-runs: 40", "max-runs: 8")
    )

    def run(times, baseline):
        text = PLAIN.replace("range(1)", f"range({times})")
        (checkout / "solvers" / "plain.py").write_text(text)
        before = set(checkout.glob("outputs/*.parquet"))
        options = ["--update", "--repeat", "1", "--baseline", baseline]
        code, shown = guarded(checkout, *options, config="plain")
        assert code == 0, shown
        (file,) = set(checkout.glob("outputs/*.parquet")) - before
        return str(file)
    known = checkout / "plain1.json"
    for times, code in ((1, 0), (60, 1)):
        file = run(times, f"plain{times}.json")
        assert main(["regress", file, "--baseline", str(known)]) == code
    (row,) = json.loads(known.read_text())["figures"]
    assert row["work"] == {} and "time to the last gap" in row["times"], row


def test_sigterm_in_the_middle_of_a_check_ends_with_143(checkout):
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmark_dspdc", "regress", "--run", "small.yml", "--baseline",
         "small.json", "--json", "stopped.json"], cwd=checkout, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=os.environ | {"PYTHONPATH": str(checkout)},
    )
    try:
        seen = b""
        while b"Factorized" not in seen:
            piece = os.read(process.stdout.fileno(), 4096)
            assert piece, seen
            seen += piece
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 143
    assert json.loads((checkout / "stopped.json").read_text())["error"] == "Terminated"


#: After each call SPDC's kernel does a part of its iterations once more, on variables of their
#: own. On every machine that is a kernel slowed by so much, with the same steps and counts.
SLOWED = """        self._run(n_iterations)
        if self.name == "spdc":
            if not hasattr(self, "twin"):
                self.twin = type(self)(self.problem, seed=0)
            self.twin._run(int(PART * n_iterations))
"""


def slowed(folder, part):
    """What the check says once SPDC's kernel was slowed; that it says nothing else is checked."""
    slower = SLOWED.replace("PART", str(part))
    undo = edited(folder, "methods/method.py", "        self._run(n_iterations)\n", slower)
    try:
        code, shown = guarded(folder, config="timed")
    finally:
        undo()
    assert code == 1, shown
    rows = json.loads((folder / "out.json").read_text())["figures"]
    worse = {row["solver"] for row in rows if row["outcome"] == WORSE}
    assert worse == {"SPDC[m=1]"}, shown
    assert "SPDC[m=1] on Factorized" in shown and "SDCA[m=1] on" not in shown
    return shown


@pytest.mark.nightly
@pytest.mark.timing
def test_a_kernel_slowed_by_30_per_cent_is_caught_and_named(timed):
    code, shown = guarded(timed, config="timed")
    assert code == 0, shown
    assert "times on this machine" not in slowed(timed, 0.3)


@pytest.mark.nightly
@pytest.mark.timing
def test_on_another_machine_a_slowed_kernel_is_caught_beside_the_commit_of_the_baseline(timed):
    known = (timed / "timed.json").read_text()
    other = json.loads(known)
    other["machine"]["processor"] = "another"
    (timed / "timed.json").write_text(json.dumps(other))
    commit(timed)
    try:
        code, shown = guarded(timed, config="timed")
        assert code == 0 and "times on this machine" in shown, shown
        # Of three runs the spread is large at times, and with it what is allowed.
        assert "on this machine" in slowed(timed, 0.6)
    finally:
        (timed / "timed.json").write_text(known)
        commit(timed)


@pytest.mark.nightly
@pytest.mark.timing
def test_twenty_unchanged_runs_raise_no_alarm(timed):
    for k in range(20):
        code, shown = guarded(timed, config="timed")
        assert code == 0, (k, shown)


# Documents and workflows --------------------------------------------------------------

NIGHTLY = REPO / ".github" / "workflows" / "nightly.yml"


def test_commands_in_documents_and_workflows_are_known():
    found, pattern = 0, r"-m benchmark_dspdc (regress [^\n#|`)]*--baseline[^\n#|)]*)"
    for file in (REPO / "README.md", NIGHTLY, *(REPO / "docs").glob("*.md")):
        # Commands that go on in the next line, of a shell or of YAML.
        text = re.sub(r"\\\n|(?<!>-)\n {10}(?=--)", " ", file.read_text())
        for command in re.findall(pattern, text):
            _parser().parse_args(shlex.split(command))
            found += 1
    assert found >= 7


def test_the_solver_of_the_document_closes_the_gap():
    text = (REPO / "docs" / "guarding.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {"__name__": "mine"}
    exec(code, names)
    problem, solver = make_problem(lambda1=0.01), names["Solver"].get_instance()
    solver.set_objective(problem)
    calls = iter(range(30))
    solver.run(lambda: next(calls, None) is not None)
    result = solver.get_result()
    assert problem.certify(result["x"]).relative_gap < 1e-8 and result["passes"] == 600.0


def test_the_workflow_of_the_document_is_yaml_with_the_steps_that_it_says():
    text = (REPO / "docs" / "guarding.md").read_text()
    config, workflow = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    assert config["n-repetitions"] == 3
    steps = workflow["jobs"]["guard"]["steps"]
    assert workflow["jobs"]["guard"]["steps"][0]["with"]["fetch-depth"] == 0
    assert '--against "$BASE"' in steps[3]["run"]


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


def test_gaps_not_reached_any_more_and_no_work_at_all_are_levels_of_their_own():
    inf, nan = math.inf, math.nan
    assert trend.change_points([9.0] * 6 + [inf] * 2, 0.02) == [6]
    assert trend.change_points([9.0] * 2 + [inf] * 2 + [9.0] * 2, 0.02) == [2, 4]
    assert trend.change_points([9.0, 9.0, nan, inf, nan, inf], 0.02) == [3]
    # One run is none, be it the last or the first.
    assert trend.change_points([9.0] * 6 + [inf], 0.02) == []
    assert trend.change_points([inf] + [9.0] * 6, 0.02) == []
    assert trend.change_points([9.0, inf] * 5, 0.02) == []
    assert trend.change_points([9.0, 9.0, inf, 9.0, 9.0, 9.0], 0.02) == []
    # Levels beside them are found as well.
    assert trend.change_points([9.0] * 4 + [inf] + [12.0] * 4 + [inf] * 3, 0.02) == [5, 9]
    assert trend.change_points([0.0] * 3 + [5.0] * 3, 0.02) == [3]
    assert trend.change_points([5.0] * 3 + [0.0] * 3, 0.02) == [3]
    assert trend.change_points([0.0] * 6, 0.02) == []
    assert trend.change_points([5e-324] * 4 + [1e308] * 4, 0.02) == [4]
    assert trend.change_points([], 0.02) == trend.change_points([nan, 1.0], 0.02) == []


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


def written(folder, *frames, first_day=1, **columns):
    """Result files a day apart."""
    for k, frame in enumerate(frames):
        date = f"2026-03-{first_day + k:02d}"
        frame.assign(run_date=date, **columns).to_parquet(folder / f"{first_day + k}.parquet")


def test_a_trend_marks_gaps_that_are_not_reached_any_more_and_those_reached_at_once(
    tmp_path, capsys
):
    good, bad = measured(), measured()
    last = bad["objective_relative_gap"] < 1e-5
    bad.loc[last, "objective_relative_gap"] = 1e-5
    written(tmp_path, *[good] * 4, *[bad] * 2)
    output = tmp_path / "out.html"
    assert main(["trend", str(tmp_path), "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "2026-03-05" in shown and "-> not reached (not reached any more)" in shown
    changes = trend.trend_data([tmp_path])["changes"]
    assert {row["figure"] for row in changes} == {"passes to 1e-6", "eigendecompositions to 1e-6"}
    assert all(row["worse"] and row["after"] is None for row in changes)
    # From where a gap is reached without work, and back.
    start = good.copy()
    start.loc[start["stop_val"] == 0, "objective_relative_gap"] = 1e-3
    folder = tmp_path / "zeros"
    folder.mkdir()
    written(folder, *[start] * 3, *[good] * 3, *[start] * 3)
    assert main(["trend", str(folder), "-o", str(output)]) == 0
    assert "passes to 1e-2 0 -> " in capsys.readouterr().out
    changes = [
        row for row in trend.trend_data([folder])["changes"]
        if (row["figure"], row["solver"]) == ("passes to 1e-2", "SPDC[m=1]")
    ]
    assert [row["text"] for row in changes] == ["from nothing", "-100.0%"]
    assert [row["worse"] for row in changes] == [True, False]


def test_times_of_several_processors_are_several_series(tmp_path):
    column = "system-processor"
    written(tmp_path, *[measured()] * 4, **{column: "fast"})
    written(tmp_path, *[measured(time=1.5)] * 4, first_day=5, **{column: "slow"})
    made = trend.trend_data([tmp_path])
    assert made["changes"] == []
    figures = made["problems"][0]["figures"]
    assert [name for name in figures if "time" in name] == [
        f"{trend.TIME}, on fast", f"{trend.TIME}, on slow"
    ]
    fast = figures[f"{trend.TIME}, on fast"]["DSPDC[m=1,q=1]"]["values"]
    assert [value is None for value in fast] == [False] * 4 + [True] * 4
    # On one it is a change.
    written(tmp_path, *[measured()] * 4, **{column: "slow"})
    changes = trend.trend_data([tmp_path])["changes"]
    assert [row["figure"] for row in changes] == [trend.TIME]


def test_the_version_of_the_benchmark_is_in_the_name_of_a_run(tmp_path):
    written(tmp_path, measured(), **{"benchmark-git-tag": "v1.2"})
    written(tmp_path, measured(), first_day=2, **{"benchmark-git-tag": "\x1b[2J"})
    assert trend.trend_data([tmp_path])["runs"] == [
        "2026-03-01 00:00 1 (v1.2)", "2026-03-02 00:00 2"
    ]

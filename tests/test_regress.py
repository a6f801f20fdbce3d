"""The regression check and the trend, on result files made by hand and on real runs."""

import copy
import json
import math
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import hypothesis
import numpy as np
import pandas as pd
import pytest
from conftest import REPO
from frames import ELASTIC, curve, factorized, runs, seeds
from hypothesis import strategies as st

from benchmark_dspdc import guard
from benchmark_dspdc.cli import main
from benchmark_dspdc.report import regress, trend
from benchmark_dspdc.report.regress import BETTER, SAME, WORSE, CannotCompare, Line
from benchmark_dspdc.running import Run

pytestmark = pytest.mark.xdist_group("regress")

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
    assert "1 figures are better: --update raises the baseline" in capsys.readouterr().out
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
    # Of times the middle counts.
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
    (lambda f: pd.concat([f, curve("SDCA[m=1]", 0.1, **FOUND)]), "1 runs of the result are not"),
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
    ('{"format": 99}', "has format 99"), ('{"format": 2, "figures": [3]}', "is not a baseline"),
    ('{"format": 2, "figures": [{"work": {"a": ["x"]}}]}', "is not a baseline"),
    ('{"format": 2, "figures": []}', "is not a baseline"), ("[" * 10**5, "is not a baseline"),
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
    (["--run", "x.yml", "--repeat", "-1"], "--repeat must be at least 1, got -1"),
    (["--run", "x.yml", "--repeat", "0"], "--repeat must be at least 1, got 0"),
    (["--run", "x.yml"], "the run of x.yml left no result file"),
])
def test_what_cannot_be_run_is_no_regression(place, capsys, monkeypatch, given, message):
    monkeypatch.setattr(guard, "benchopt_run", lambda *given: Run(None, 1))
    out = place.folder / "out.json"
    assert main(["regress", *given, "--baseline", place.baseline, "--json", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert message in json.loads(out.read_text())["error"]


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
    monkeypatch.setattr(regress, "figures_of", lambda frame: 1 / 0)
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
    changed(place, lambda known: known.update(machine="another"))
    junit = place.folder / "junit.xml"
    assert check(place, measured(time=2.0), "--junit", str(junit)) == 0
    assert "times are not compared" in capsys.readouterr().out
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("skipped")) == ("10", "1")
    assert "the baseline's are of 'another'" in suite.find("testcase/skipped").get("message")
    assert check(place, measured(passes=2.0)) == 1
    # What counts is where the result was measured.
    assert check(place, measured(time=2.0).assign(**{"system-processor": "another"})) == 1


def test_the_processor_where_linux_names_none_and_on_macos(monkeypatch):
    def sysctl(command, **options):
        assert command[1:] == ["-n", "machdep.cpu.brand_string"]
        return subprocess.CompletedProcess(command, 0, "Apple M2\n", "")

    def no_sysctl(command, **options):
        raise FileNotFoundError(command[0])

    assert regress.machine()
    monkeypatch.setattr(Path, "read_text", lambda self: "processor\t: 0\nCPU part\t: 0xd0c\n")
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert regress.machine() == "aarch64"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(subprocess, "run", sysctl)
    assert regress.machine() == "Apple M2"
    monkeypatch.setattr(subprocess, "run", no_sysctl)
    assert regress.machine() == "aarch64"


def test_a_baseline_of_work_alone_has_no_times(place, capsys):
    assert check(place, measured(), "--update", "--work-only") == 0
    assert check(place, measured(time=3.0)) == 0
    assert "times are not compared: the baseline has none" in capsys.readouterr().out
    assert check(place, measured(passes=1.03)) == 1


def test_the_tolerance_of_time_comes_from_the_spread_of_runs():
    def tolerances(times):
        frames = [measured(time=t) for t in times]
        lines, told = regress.compare(frames[:1], regress.make_baseline(frames))
        assert bool(told) == (max(times) > 1.3)         # too noisy for a slowdown to be seen
        return [round(line.tolerance, 2) for line in lines if line.figure == "time a pass"]
    assert tolerances((1.0, 1.0, 1.0)) == [0.10, 0.10]
    assert tolerances((1.0, 1.04, 1.16)) == [0.23, 0.10]
    assert tolerances((1.0, 1.5, 2.0)) == [0.67, 0.10]
    assert tolerances((1.0,)) == [0.22, 0.22]


def test_long_times_are_run_again_before_they_count(place, capsys):
    asked = []

    def again(lines, time):
        asked.append([line.key[2] for line in lines])
        frame = measured(time=time)
        return [[place(frame[frame["solver_name"] == "DSPDC[m=1,q=1]"], "again")]]

    files, baseline = [[place(measured(time=1.5))]], place.baseline
    assert regress.regress(lambda: files, baseline, again=lambda lines: again(lines, 1.0)) == 0
    assert regress.regress(lambda: files, baseline, again=lambda lines: again(lines, 1.4)) == 1
    assert asked == [["DSPDC[m=1,q=1]"]] * (2 + regress.TRIES)
    # More work is no noise.
    files = [[place(measured(passes=1.5))]]
    assert regress.regress(lambda: files, baseline, again=lambda lines: 1 / 0) == 1


def test_a_time_is_a_multiple_of_what_the_reference_took_at_the_ends_of_each_stretch():
    def busy(frame, rep, begin, end, factor):
        """A machine that is so many times as slow between two points of a repetition."""
        frame = frame.copy()
        own = frame["idx_rep"] == rep
        seconds = frame.loc[own, "time"].diff().fillna(frame.loc[own, "time"].iloc[0])
        slow = frame.loc[own, "stop_val"].between(begin, end)
        frame.loc[own, "time"] = seconds.where(~slow, factor * seconds).cumsum()
        within = frame["stop_val"].between(begin - 1, end)
        frame.loc[own & within, regress.REFERENCE] *= factor
        return frame

    def times(frame):
        return [own["times"][regress.TIME] for own in regress.figures_of(frame).values()]

    # For the two methods of a file (0.11 s a decade in the middle, and 0.2), 590 passes in 8.
    alone = measured()
    assert times(alone) == pytest.approx([8 * 110 / 590, 8 * 200 / 590], rel=2e-3)
    assert times(busy(alone, 0, 0, 59, 3.0)) == pytest.approx(times(alone), rel=1e-9)
    # Where it begins and ends the reference is half of each, in one repetition, not in the middle.
    assert times(busy(alone, 1, 20, 40, 3.0)) == pytest.approx(times(alone), rel=0.01)
    # A repetition that was disturbed unseen does not count.
    hit = alone["idx_rep"] == 2
    disturbed = alone.assign(time=alone["time"].where(~hit, 5.0 * alone["time"]))
    assert times(disturbed) == pytest.approx(times(alone), rel=2e-3)
    # Seeds that do other work take other time.
    more = alone.copy()
    more.loc[hit, ["time", "objective_passes"]] *= 3.0
    assert times(more)[1] == pytest.approx(times(alone)[1], rel=2e-3)
    for values in (math.nan, 0.0, -1.0, math.inf):
        unknown = regress.figures_of(alone.assign(objective_reference_seconds=values))
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
        lines, notes = regress.compare([frame], baseline, again=again)
        assert notes == []
        return [(line.key[2], line.figure) for line in lines if line.outcome == WORSE]
    for drift in (0.8, 1.0, 1.3, 1.5):
        assert worse(field(drift)) == []
    assert worse(field(0.8, 1.3)) == worse(field(1.0, 1.3)) == [("SPDC[m=1]", regress.BESIDE)]
    assert worse(field(1.0, 1.3), [field()] * 2) == []
    assert worse(field(1.0, 1.3), [field(), field(1.0, 1.25)]) == [("SPDC[m=1]", regress.BESIDE)]
    # What was not too slow is not made better by runs of the others.
    lines, _ = regress.compare([field(1.0, 1.3)], baseline, again=[field(0.5)] * 2)
    assert [line.key[2] for line in lines if line.outcome == BETTER] == []
    assert worse(field(1.0, 1.3), [field(1.0, 1.2)]) == [("SPDC[m=1]", regress.BESIDE)]
    # All at once are seen where that is more than the machine's own moods.
    assert worse(field(1.7)) == [(f"SPDC[m={k + 1}]", regress.TIME) for k in range(7)]
    # Among few there is no middle.
    few = regress.make_baseline([field(n=4)] * 2)
    assert all(set(row["times"]) == {regress.TIME} for row in few["figures"])


def test_a_baseline_is_in_the_middle_of_its_runs():
    made = regress.make_baseline([measured(time=t) for t in (1.2, 1.0, 1.1)])
    (alone,) = (regress.make_baseline([measured(time=1.1)])["figures"][k] for k in [0])
    assert made["figures"][0]["times"][regress.TIME] == dict(
        value=alone["times"][regress.TIME]["value"], spread=pytest.approx(0.1 / 1.1, rel=0.02)
    )


def test_only_configs_with_the_data_are_run_again(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(guard, "_run", lambda config, name, options: ran.append(
        (config.name, options)
    ))
    (tmp_path / "a.yml").write_text('dataset: ["Factorized[n=20]"]')
    (tmp_path / "b.yml").write_text('dataset: ["MatrixRisk[n=20]"]')
    (tmp_path / "c.yml").write_text("solver: [SPDC]")
    again = guard.measured_again([tmp_path / f"{name}.yml" for name in "abc"])
    again([Line((factorized(), ELASTIC, "SPDC[m=1]"), regress.TIME, 1.0, 2.0, 0.1)])
    chosen = ["-d", factorized()]
    assert ran == [("a.yml", chosen), ("c.yml", chosen)]


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
        assert regress.work_to(own, "objective_passes", gap) == pytest.approx(passes)
    assert regress.work_to(own, "objective_passes", 1e-9) == math.inf
    # A gap that rises in between does not count, nor does one that is zero in the end.
    own.loc[3, "objective_relative_gap"] = 5.0
    own.loc[8, "objective_relative_gap"] = 0.0
    assert regress.work_to(own, "objective_passes", 1e-2) == pytest.approx(20.0)
    assert 70.0 < regress.work_to(own, "objective_passes", 1e-8) < 80.0


def test_gaps_of_any_size_and_work_that_is_none():
    own = curve("SPDC[m=1]", 0.1, points=4)
    for gaps in ([1e308, 1e-320, 0, 0], [np.nextafter(1e-2, 1), 1e-2, 0, 0], [2, 1, 0, -1]):
        own["objective_relative_gap"] = gaps
        assert 0.0 < regress.work_to(own, "objective_passes", 1e-2) <= 30.0
    own["objective_passes"] = math.nan
    assert regress.work_to(own, "objective_passes", 1e-2) == math.inf
    own["objective_passes"] = -5.0
    assert regress.work_to(own, "objective_passes", 1e-2) == 0.0


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
    (lambda f: f.assign(**{"system-processor": "another"}), "of several processors"),
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


# Real runs --------------------------------------------------------------------------

SMALL = """
objective: ["ERM[loss=smoothed_hinge,lambda1=0.001,lambda2=0.01]"]
dataset: ["Factorized[n=2000,p=60,d=15,materialize=True]"]
solver: ["SPDC[m=1]", "SDCA[m=1]"]
n-repetitions: 2
max-runs: 40
timeout: 60
"""

#: Long enough for the time to be the kernels': some tenths of a second a curve.
TIMED = (
    SMALL.replace("n=2000,p=60", "n=5000,p=200").replace("max-runs: 40", "max-runs: 60")
    .replace('"SDCA[m=1]"', '"SDCA[m=1]", APCG, RPDG, SAGA').replace("ions: 2", "ions: 3")
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
    code, shown = guarded(folder, "--update", "--work-only")
    assert code == 0, shown
    return folder


@pytest.fixture(scope="module")
def timed(checkout):
    """The same with a baseline of times."""
    (checkout / "timed.yml").write_text(TIMED)
    code, shown = guarded(checkout, "--update", config="timed")
    assert code == 0, shown
    return checkout


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
        checkout, "steps.py", "    sigma = n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
        "    sigma = 0.9 * n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
    )
    try:
        code, shown = guarded(checkout, "--work-only")
    finally:
        undo()
    assert code == 1, shown
    assert "SPDC[m=1] on Factorized" in shown and "SDCA[m=1] on" not in shown


#: After each call SPDC's kernel does 30 % of its iterations once more, on variables of their own.
#: On every machine that is a kernel slowed by 30 %, with the same steps and the same counts.
SLOWED = """        self._run(n_iterations)
        if self.name == "spdc":
            if not hasattr(self, "twin"):
                self.twin = type(self)(self.problem, seed=0)
            self.twin._run(int(0.3 * n_iterations))
"""


@pytest.mark.nightly
@pytest.mark.timing
def test_a_kernel_slowed_by_30_per_cent_is_caught_and_named(timed):
    code, shown = guarded(timed, config="timed")
    assert code == 0, shown
    undo = edited(timed, "algorithms/base.py", "        self._run(n_iterations)\n", SLOWED)
    try:
        code, shown = guarded(timed, config="timed")
    finally:
        undo()
    assert code == 1, shown
    rows = json.loads((timed / "out.json").read_text())["figures"]
    worse = {row["solver"] for row in rows if row["outcome"] == WORSE}
    assert worse == {"SPDC[m=1]"}, shown
    assert "SPDC[m=1] on Factorized" in shown and "SDCA[m=1] on" not in shown


@pytest.mark.nightly
@pytest.mark.timing
def test_twenty_unchanged_runs_raise_no_alarm(timed):
    for k in range(20):
        code, shown = guarded(timed, config="timed")
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

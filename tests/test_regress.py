"""The regression check of work, on result files made by hand and on real runs."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPO, copy_of_benchmark, edited, git, make_problem
from frames import curve, runs, seeds

from benchmark_dspdc.bench.benchopt_process import Run
from benchmark_dspdc.cli import _parser, main
from benchmark_dspdc.guard import baseline, commit_runs, regress
from benchmark_dspdc.guard.baseline import make_baseline, read_baseline, write_baseline
from benchmark_dspdc.guard.comparison import BETTER, SAME, WORSE, CannotCompare, Line
from benchmark_dspdc.guard.comparison_output import print_comparison, write_junit
from benchmark_dspdc.guard.result_figures import REFERENCE, TIME, figures_of, last_gaps, work_to
from benchmark_dspdc.report.results import GAP, PASSES

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


def plain(time=1.0, gap=1.0, reference=1e-3, **more):
    """A result of a solver that returns a point and nothing else."""
    own = [frame.assign(
        time=time * frame["time"], objective_passes=math.nan, objective_relative_gap=gap *
        frame["objective_relative_gap"], objective_reference_seconds=reference, base_seed=0,
    ) for frame in seeds("Plain", (0.1, 0.1, 0.1), eigs=math.nan, **more)]
    return runs(*own)


def with_new(**change):
    """The same with a third method."""
    return runs(measured(**change), *seeds("SDCA[m=1]", (0.1, 0.1, 0.1), **FOUND))


@pytest.fixture
def place(tmp_path):
    """Writes frames, beside a baseline."""
    def write(frame, name="result"):
        file = tmp_path / f"{name}.parquet"
        frame.to_parquet(file)
        return str(file)
    write.folder, write.baseline = tmp_path, str(tmp_path / "kept" / "baseline.json")
    write_baseline(make_baseline([measured()] * 2), write.baseline)
    return write


def check(place, frame, *more):
    return main(["regress", place(frame), "--baseline", place.baseline, *more])


def kept(place):
    return json.loads(Path(place.baseline).read_text())


def changed(place, change):
    """Edit the baseline."""
    known = kept(place)
    change(known)
    Path(place.baseline).write_text(json.dumps(known))


# Work -------------------------------------------------------------------------------

def second(column, change):
    """The second method with another column, a function of its rows."""
    frame = measured()
    own = frame["solver_name"] == "SPDC[m=1]"
    frame.loc[own, column] = change(frame[own])
    return frame


@pytest.mark.parametrize(("frame", "options", "code", "message"), [
    (measured(passes=1.01), [], 0, "no regression in 11 figures"),
    (measured(passes=1.03), [], 1, "passes to 1e-4"),
    (measured(passes=0.6), [], 0, "3 figures are better; --update makes what is measured"),
    # What is better does not hide what is worse.
    (second(PASSES, lambda f: f[PASSES] * f["idx_rep"].map({0: 0.5, 1: 1.1, 2: 1.0})), [], 1,
     "passes to 1e-6 442.5 -> 486.8 (+10.0%"),
    # A gap not reached any more is a regression, but of a curve that was cut. What it had before
    # it ended is enough if nothing is lacking.
    (second(GAP, lambda f: f[GAP].clip(lower=1e-5)), [], 1, "passes to 1e-6"),
    (measured().query(f"solver_name != 'SPDC[m=1]' or {GAP} > 1e-7"), [], 0, "no regression"),
    (measured().query(f"solver_name != 'SPDC[m=1]' or {GAP} > 1e-5"), [], 2,
     "repetition 0 ended after 37 of 60 checks: another max-runs, or its time limit was"),
    # Of work only the first seed is enough.
    (measured().query("idx_rep == 0"), ["--work-only"], 0, "no regression"),
    (measured(passes=1.03).query("idx_rep == 0"), ["--work-only"], 1, "passes to 1e-4"),
    (measured().query("idx_rep == 0"), [], 2, "the seeds are others"),
    # Times of result files are said not to be compared.
    (measured(time=3.0), [], 0,
     "times are not compared: result files do not say what to run beside them"),
    (measured(time=3.0), ["--time-only"], 2, "times are not compared"),
    (measured(), ["--time-only", "--update"], 2, "a baseline has no times"),
    # What cannot be compared is no pass.
    (measured().query("solver_name != 'SPDC[m=1]'"), [], 2, "1 of 2 runs of the baseline are not"),
    (runs(measured(), curve("SDCA[m=1]", 0.1, **FOUND)), [], 2, "1 of 3 runs of the result"),
    (measured().assign(base_seed=7), [], 2, "the seeds are others"),
    (measured().assign(base_seed=math.inf), [], 2, "column base_seed of the result holds other "),
    (measured().assign(base_seed="x"), [], 2, "column base_seed of the result holds other than"),
    (measured().query("idx_rep < 2 or solver_name != 'SPDC[m=1]'"), [], 2, "2 of 3 repetitions"),
    (measured().drop(columns="objective_passes"), [], 2, "is not a result of this benchmark"),
    # What reading a file told is in the error, or in the notes.
    (second("objective_value", lambda f: 1.4 ** f["stop_val"]), [], 1,
     "3 runs diverged and are left out: SPDC[m=1] on"),
    # One seed of three is enough, the last one too, and so is a number that is none.
    *((second("objective_value", lambda f, k=k: np.where(
        f["idx_rep"] == k, 1.4 ** f["stop_val"], f["objective_value"])), options, 1, "are worse")
      for k in (0, 2) for options in ([], ["--work-only"])),
    (second(PASSES, lambda f: f[PASSES].where(f["stop_val"] != 45)), [], 1, "worse"),
    # Half of the work with an end that is no better is better all the same.
    (second(PASSES, lambda f: 0.5 * f[PASSES]), [], 0, "figures are better"),
    # Sooner at a coarse gap with a worse end is no progress.
    (second(GAP, lambda f: f[GAP].where(f[GAP] > 0.5, 0.05 * f[GAP]).clip(lower=2e-6)), [], 1,
     "4 figures are less, but the same method is worse elsewhere: suspicious"),
    (second(GAP, lambda f: f[GAP].where(f["stop_val"] != 5)), [], 0, "without a finite gap"),
    (plain(reference=math.nan), ["--update"], 2, "Plain on"),
    (plain(), ["--update", "--work-only"], 2, "has no figure"),
])
def test_the_exit_code_what_is_shown_and_what_programs_read_say_the_same(
    place, capsys, frame, options, code, message
):
    junit, out = place.folder / "junit.xml", place.folder / "out.json"
    out.write_text("of an earlier run")
    assert check(place, frame, "--junit", str(junit), "--json", str(out), *options) == code
    output, error = capsys.readouterr()
    found, suite = json.loads(out.read_text()), ElementTree.parse(junit).getroot()
    changed = [row for row in found["figures"] if row["outcome"] != SAME]
    failures = sum(row["outcome"] == WORSE for row in changed)
    assert (found["regression"], failures > 0) == ((False, True, None)[code], code == 1)
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) == failures
    if code == 2:
        assert message in error and message in found["error"] and found["figures"] == []
        assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
        assert message in suite.find("testcase/error").get("message")
    else:
        assert message in output and found["error"] is None
        assert set(re.findall(r"^  (\S+) on", output, re.M)) == {row["solver"] for row in changed}
        assert int(suite.get("skipped")) == len(found["notes"])
        assert int(suite.get("tests")) == len(found["figures"] + found["notes"])


def test_what_was_worse_is_the_standard_after_an_update_and_options_exclude_each_other(place):
    assert check(place, measured(passes=0.6), "--update") == 0
    assert check(place, measured()) == 1
    with pytest.raises(SystemExit):
        check(place, measured(), "--time-only", "--work-only")


def test_lines_of_gaps_that_are_not_reached_and_what_the_table_shows(place, capsys):
    line = Line(("d", "o", "s"), "passes to 1e-6", 10.0, math.inf, 0.02)
    assert (line.change, line.outcome) == (math.inf, WORSE)
    assert line._replace(was=math.inf, now=10.0).outcome == BETTER
    assert line._replace(was=math.inf).outcome == SAME
    # A figure that got better does not hide another one.
    lines = [line._replace(figure=name, now=now) for name, now in (("a", 2.0), ("b", 11.0))]
    print_comparison(lines, [], regress.Console())
    assert "+10.0%" in capsys.readouterr().out.splitlines()[3]
    # Names that XML cannot hold.
    junit = place.folder / "junit.xml"
    write_junit([line._replace(key=("a\x00<b>&\x1b", "o\ud800", "s"))], [], None, junit)
    case = ElementTree.parse(junit).getroot().find("testcase")
    assert case.get("classname") == "a\ufffd<b>&\ufffd, o\ufffd"


def test_the_work_of_every_file_counts(place, capsys):
    good, bad = place(measured(), "good"), place(measured(passes=1.1), "bad")
    assert main(["regress", good, bad, "--baseline", place.baseline, "--work-only"]) == 1
    assert "DSPDC[m=1,q=1] on" in capsys.readouterr().out
    other = place(measured().assign(base_seed=3), "other")
    assert main(["regress", good, other, "--baseline", place.baseline, "--work-only"]) == 2
    assert "the seeds are others" in capsys.readouterr().err


def test_files_with_other_curves_are_one_run_and_the_same_ones_once_more_another(place):
    def parts(name, **change):
        frame = measured(**change)
        return [
            place(frame[frame["solver_name"] == solver], f"{name}{k}")
            for k, solver in enumerate(("DSPDC[m=1,q=1]", "SPDC[m=1]"))
        ]
    one, two, more = parts("a"), parts("b"), parts("c", passes=1.5)
    for files, count in ((one, 1), ([*one, *two], 2), ([one[0], two[0], one[1], two[1]], 2)):
        found = regress.read_runs(files)
        assert [frame["solver_name"].nunique() for frame in found] == [2] * count
    for files, code in ((one, 0), ([*one, *more], 1), ([*one, two[0]], 2)):
        assert main(["regress", *files, "--baseline", place.baseline]) == code
    assert main(["regress", *one, *two, "--baseline", place.baseline, "--update"]) == 0
    assert kept(place)["made"][0]["runs"] == 2


def test_methods_that_count_no_work_are_named_and_alone_no_pass(place, capsys):
    # Their times can be compared, though not those of a file.
    assert check(place, plain(), "--update") == 0
    assert [row["work"] for row in kept(place)["figures"]] == [{}]
    for options in ([], ["--work-only"]):
        assert check(place, plain(), *options) == 2
    assert check(place, runs(plain(), measured()), "--update") == 0
    assert check(place, runs(plain(time=9.0), measured()), "--work-only") == 0
    assert "1 of 3 methods are left out, without a figure to compare: Plain on" in (
        capsys.readouterr().out
    )


# Figures of curves --------------------------------------------------------------------

def test_work_between_two_points_goes_by_the_logarithm_of_the_gap():
    own = curve("SPDC[m=1]", 0.1, points=9)                 # 10 passes a decade
    for gap, passes in ((1e-2, 20.0), (3e-3, -10.0 * math.log10(3e-3)), (1.0, 0.0), (2.0, 0.0)):
        assert work_to(own, "objective_passes", gap) == pytest.approx(passes)
    assert work_to(own, "objective_passes", 1e-9) == math.inf
    # A gap that rises in between does not count, nor does one that is zero in the end.
    own.loc[3, "objective_relative_gap"] = 5.0
    own.loc[8, "objective_relative_gap"] = 0.0
    assert work_to(own, "objective_passes", 1e-2) == pytest.approx(20.0)
    assert 70.0 < work_to(own, "objective_passes", 1e-8) < 80.0
    # Gaps of any size, and work that is none.
    own = curve("SPDC[m=1]", 0.1, points=4)
    for gaps in ([1e308, 1e-320, 0, 0], [np.nextafter(1e-2, 1), 1e-2, 0, 0], [2, 1, 0, -1]):
        own["objective_relative_gap"] = gaps
        assert 0.0 < work_to(own, "objective_passes", 1e-2) <= 30.0
    own["objective_passes"] = math.nan
    assert work_to(own, "objective_passes", 1e-2) == math.inf
    own["objective_passes"] = -5.0
    assert work_to(own, "objective_passes", 1e-2) == 0.0


def test_a_curve_that_reaches_no_common_gap_has_work_to_its_last_gap(
    place, capsys, monkeypatch
):
    def slow(passes=1.0, gap=1.0):
        own = seeds("SPDC[m=1]", (0.2, 0.2), to=0.05, **FOUND)
        return runs(*(frame.assign(
            objective_passes=passes * frame["objective_passes"],
            objective_relative_gap=gap * frame["objective_relative_gap"],
        ) for frame in own))
    # No new baseline, but one of before is read.
    assert check(place, slow(), "--update", "--work-only") == 2
    said = capsys.readouterr().err
    assert "1 of 1 curves reach none of the gaps 1e-2, 1e-4, 1e-6" in said
    assert "ends at 5.0e-02" in said and "max-runs" in said
    monkeypatch.setattr(baseline, "_check_targets", lambda rows: None)
    assert check(place, slow(), "--update", "--work-only") == 0
    (row,) = kept(place)["figures"]
    # What is not reached is kept as such.
    assert row["work"]["passes to 1e-2"] == [None, None]
    (row,) = read_baseline(place.baseline)["figures"]
    assert row["work"]["passes to 1e-2"] == [math.inf] * 2
    # The gap at the last check but one, a little more: reached whatever rounding does.
    before = 0.05 ** (58 / 59)
    assert all(before < gap < 1.02 * before for gap in row["last"])
    assert row["work"]["passes to the last gap"] == [pytest.approx(578.0, abs=3.0)] * 2
    for change in (dict(), dict(passes=1.01), dict(gap=1.0 + 1e-9), dict(passes=0.9)):
        assert check(place, slow(**change), "--work-only") == 0
    for change in (dict(passes=1.03), dict(gap=1.1)):
        capsys.readouterr()
        assert check(place, slow(**change), "--work-only") == 1
        assert "passes to the last gap" in capsys.readouterr().out
    first = slow(passes=1.03)
    assert check(place, first[first["idx_rep"] == 0], "--work-only") == 1
    # Cut before it got there.
    assert check(place, slow().query("stop_val < 50"), "--work-only") == 2
    assert "ended after 50 of 60 checks" in capsys.readouterr().err


def test_where_a_curve_ends_below_its_tolerance_is_no_figure():
    (own,) = seeds("SPDC[m=1]", (0.1,), **FOUND)
    assert last_gaps([own]) == {}
    # Ended by a tolerance of 1e-3: how far below it the last check is is luck.
    ended = own[own["objective_relative_gap"] > 1e-3]
    for end in (9e-4, 1e-5):
        last = ended.tail(1).assign(objective_relative_gap=end, stop_val=99)
        ((gap,),) = last_gaps([pd.concat([ended, last])]).values()
        assert gap > 1e-3


def test_a_time_is_a_multiple_of_what_the_reference_took_at_the_ends_of_each_stretch():
    def busy(frame, rep, begin, end, factor):
        """A machine that is so many times as slow between two points of a repetition."""
        frame = frame.copy()
        own = frame["idx_rep"] == rep
        seconds = frame.loc[own, "time"].diff().fillna(frame.loc[own, "time"].iloc[0])
        slow = frame.loc[own, "stop_val"].between(begin, end)
        frame.loc[own, "time"] = seconds.where(~slow, factor * seconds).cumsum()
        within = frame["stop_val"].between(begin - 1, end)
        frame.loc[own & within, REFERENCE] *= factor
        return frame

    def times(frame):
        return [own["times"][TIME] for own in figures_of(frame).values()]

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
        unknown = figures_of(alone.assign(objective_reference_seconds=values))
        assert [own["times"] for own in unknown.values()] == [{}, {}]


def test_a_solver_without_passes_has_times_to_gaps_also_if_it_begins_anew_with_every_budget():
    frame = plain()
    (alone,) = figures_of(frame).values()
    # 0.1 s a decade and 1 ms before, the loop takes 1 ms.
    assert alone["times"] == {
        f"time to 1e-{k}": pytest.approx(100.0 * k + 1.0, rel=1e-3) for k in (2, 4, 6)
    }
    # The machine is three times as slow for one of the budgets, also the loop at its end.
    slow = frame["stop_val"] == 40
    busy = frame.assign(time=frame["time"].where(~slow, 3.0 * frame["time"]))
    busy[REFERENCE] = busy[REFERENCE].where(~busy["stop_val"].between(39, 40), 3e-3)
    assert (busy["time"].diff() < 0.0).any()
    (found,) = figures_of(busy).values()
    assert found["times"] == pytest.approx(alone["times"], rel=1e-6)


# Baselines ----------------------------------------------------------------------------

def test_times_and_machines_of_earlier_files_are_not_read(place):
    def earlier(known):
        known["machine"] = dict(processor="another", cpus=2, releases={"numba": "0.1"})
        for row in known["figures"]:
            row["times"] = {"time a pass": dict(value=1.0, spread=0.1)}
    before = read_baseline(place.baseline)
    changed(place, earlier)
    assert read_baseline(place.baseline) == before
    assert read_baseline(REPO / "baselines" / "regression.json")["seeds"]["repetitions"] == 3


ESCAPE, WORK = "\x1b[2J", "figures 0 work passes_to_1e-4"


@pytest.mark.parametrize(("path", "value"), [
    *(("", text) for text in ("", "[]", "{}", '{"format": 4, "figures": [3]}', "[" * 10**5)),
    ("format", 99), ("seeds", 3), ("seeds", {}), ("seeds base", ["0"]), ("seeds repetitions", 0),
    ("seeds repetitions", 2), ("made", 3), ("made 0 runs", "5"), ("made 0 commit", ESCAPE),
    ("figures", []), ("figures", {}), ("figures 1", 3), ("figures 1 solver", "DSPDC[m=1,q=1]"),
    ("figures 0 solver", ESCAPE), ("figures 0 solver", 3), ("figures 0 last", None),
    ("figures 0 last", [0.1, 0.1]), ("figures 0 last", [0.1, 0.1, 0.0]),
    ("figures 0 checks", [1, 2, 2.5]), ("figures 0 work", []), (WORK, None),
    (WORK, [1.0, 1.0]), *((WORK, [one, 1.0, 1.0]) for one in (math.nan, -1.0, True, 10**400)),
])
def test_files_that_are_no_baselines_or_have_numbers_that_are_none_are_refused(
    place, capsys, path, value
):
    def change(known):
        *path_to, last = (int(k) if k.isdigit() else k.replace("_", " ") for k in path.split())
        for key in path_to:
            known = known[key]
        known[last] = value
    if path:
        changed(place, change)
    else:
        Path(place.baseline).write_text(value)
    assert check(place, measured()) == 2
    message = "has format 99" if path == "format" else "is not a baseline"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("frame", "message"), [
    (measured().assign(base_seed=1), "the seeds are others"),
    (measured(passes=1.03), "repeated runs do not do the same work: DSPDC.*passes to"),
    (measured(passes=0.9), "repeated runs do not do the same work"),
])
def test_files_of_other_runs_make_no_baseline(frame, message):
    with pytest.raises(CannotCompare, match=message):
        make_baseline([measured(), frame])


def test_names_that_a_result_may_have_a_baseline_may_have_too(place):
    # Spaces of other widths, characters of private use or of a later Unicode.
    frame = runs(*(own for character in ("\u00a0", "\ue000", "\U0001058b", "\uffff")
                   for own in seeds(f"SPDC[{character}=1]", (0.2, 0.2), **FOUND)))
    junit = place.folder / "junit.xml"
    assert check(place, frame, "--update") == check(place, frame, "--junit", str(junit)) == 0
    assert ElementTree.parse(junit).getroot()


def test_a_new_baseline_shows_what_it_changes(place, capsys):
    assert check(place, measured(passes=1.5), "--update") == 0
    shown = capsys.readouterr().out
    assert "4 figures are worse" in shown and "is the new standard" in shown
    # How far each curve of the new one got, and what it reaches.
    assert re.search(r"SPDC\[m=1\] +1\.0e-08 +1e-2, 1e-4, 1e-6", shown)
    # Of what both have; and one that cannot be read is said to be.
    more = with_new()
    assert check(place, more[more["solver_name"] != "SPDC[m=1]"], "--update") == 0
    assert "3 figures are better" in capsys.readouterr().out
    Path(place.baseline).write_text("{}")
    assert check(place, measured(), "--update") == 0
    assert "not compared with the baseline that is replaced" in capsys.readouterr().out


def test_when_and_at_which_commit_a_baseline_was_made(place, capsys):
    assert check(place, measured(), "--update") == 0
    (made,) = kept(place)["made"]
    assert len(made["date"]) == 10 and made["runs"] == 1
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    if found.returncode == 0:
        assert found.stdout.startswith(made["commit"].removesuffix("+"))
    # What the result says counts before what is checked out.
    assert check(place, measured().assign(**{"benchmark-commit": "1234abc"}), "--update") == 0
    assert check(place, measured()) == 0
    assert f"baseline of {made['date']}, commit 1234abc, runs: 1" in capsys.readouterr().out


def test_a_method_is_added_without_touching_the_others(place, capsys):
    def rows():
        return {row["solver"]: row for row in kept(place)["figures"]}
    before = rows()
    assert check(place, with_new(passes=1.1), "--add") == 1
    shown = capsys.readouterr().out
    assert "DSPDC[m=1,q=1] on" in shown and "is left as it was" in shown and rows() == before
    assert check(place, with_new(time=1.02), "--add") == 0
    assert "1 row is added" in capsys.readouterr().out
    after = rows()
    assert after.pop("SDCA[m=1]")["work"] and after == before
    assert len(kept(place)["made"]) == 2
    assert check(place, with_new()) == 0
    # What cannot be added leaves the file as it is.
    text = Path(place.baseline).read_text()
    for frame, message in (
        (with_new(), "nothing to add"),
        (runs(with_new(), plain()).assign(base_seed=7), "the seeds are others"),
        (plain(), "no run of the baseline is in the result"),
    ):
        assert check(place, frame, "--add") == 2
        assert message in capsys.readouterr().err and Path(place.baseline).read_text() == text


# The command --------------------------------------------------------------------------

def run_gives(monkeypatch, place, done):
    """Runs of a config x.yml of the current folder have this end."""
    monkeypatch.setattr(commit_runs, "benchopt_run", lambda *given, **more: done)
    monkeypatch.chdir(place.folder)
    Path("x.yml").touch()


@pytest.mark.parametrize(("given", "message"), [
    ([], "either result files or --run"), (["x.parquet", "--run", "x.yml"], "either result files"),
    (["--run", "x.yml", "--repeat", "-1"], "must be at least 1, got -1"),
    (["--run", "x.yml", "--repeat", "0"], "must be at least 1, got 0"),
    (["--run", "x.yml"], "the run of x.yml ended with code 1, without a result file"),
    (["--run", "x.yml", "y.yml"], "no such file: y.yml"),
    (["x.parquet", "--repeat", "3"], "--repeat is for --run CONFIG"),
    (["nowhere.parquet"], "no such file"), (["kept"], "kept"),
    (["x.parquet", "--against", "HEAD"], "--against is for comparing times of --run"),
    (["--run", "x.yml", "--against", "HEAD", "--update"], "--against is for comparing times"),
    (["--run", "x.yml", "--against", "HEAD", "--work-only"], "--against is for comparing times"),
])
def test_what_cannot_be_run_is_no_regression(place, capsys, monkeypatch, given, message):
    run_gives(monkeypatch, place, Run(None, 1))
    out = place.folder / "out.json"
    assert main(["regress", *given, "--baseline", place.baseline, "--json", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert message in json.loads(out.read_text())["error"]


@pytest.mark.parametrize(("code", "failed", "ends_with", "message"), [
    (137, (), 2, "ended with code 137, with a result file"),
    (0, ("SPDC on data, ERM",), 2, "failed: SPDC on data, ERM"),
    (130, (), 130, ""), (143, (), 143, ""),
])
def test_a_run_that_was_stopped_or_had_failures_is_not_compared(
    place, capsys, monkeypatch, code, failed, ends_with, message
):
    run_gives(monkeypatch, place, Run(Path(place(measured())), code, failed=failed))
    assert main(["regress", "--run", "x.yml", "--baseline", place.baseline]) == ends_with
    assert message in capsys.readouterr().err


def test_files_that_cannot_be_read_or_written(place, capsys):
    assert main(["regress", place(measured()), "--baseline", "nowhere.json"]) == 2
    assert "--update makes one" in capsys.readouterr().err
    assert main(["regress", place(measured()), "--baseline", str(place.folder)]) == 2
    # A file in the place of a folder.
    inside_a_file = str(place.folder / "result.parquet" / "out.json")
    assert check(place, measured(), "--json", inside_a_file) == 2
    assert main(["regress", place(measured()), "--baseline", inside_a_file, "--update"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code", "message"), [
    (ZeroDivisionError("division by zero"), 2, "division by zero"),
    (KeyboardInterrupt(), 130, "KeyboardInterrupt"),
])
def test_what_ends_a_check_is_no_regression_and_leaves_no_figures_of_an_earlier_one(
    place, monkeypatch, error, code, message
):
    def ends(*given, **more):
        raise error
    out = place.folder / "out.json"
    assert check(place, measured(), "--json", str(out)) == 0
    monkeypatch.setattr(regress, "compare_work", ends)
    assert check(place, measured(), "--json", str(out)) == code
    assert json.loads(out.read_text())["error"] == message


# Real runs ----------------------------------------------------------------------------
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
    folder = copy_of_benchmark(tmp_path_factory.mktemp("checkout"))
    (folder / "small.yml").write_text(SMALL)
    code, shown = guarded(folder, "--update", "--work-only", "--repeat", "1")
    assert code == 0, shown
    return folder


def committed(folder, config, text):
    """A config and its baseline, as a commit of the copy as it is."""
    (folder / f"{config}.yml").write_text(text)
    code, shown = guarded(folder, "--update", config=config)
    assert code == 0, shown
    # What runs leave is no part of a commit.
    (folder / ".gitignore").write_text(
        f"outputs\n__cache__\n__pycache__\n*.json\n!{config}.json\n"
    )
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        git(folder, *command)


@pytest.fixture(scope="module")
def timed(checkout):
    committed(checkout, "timed", TIMED)
    return checkout


def guarded(folder, *options, config="small"):
    """The command as a user of the copy calls it: exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmark_dspdc", "regress", "--run", f"{config}.yml",
         "--baseline", f"{config}.json", "--json", "out.json", *options],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.nightly
def test_an_unchanged_tree_passes_and_a_perturbed_step_is_caught(checkout):
    code, shown = guarded(checkout, "--work-only")
    assert code == 0, shown
    with edited(checkout / "benchmark_dspdc" / "theory" / "steps.py",
                " sigma = n * math.sqrt(r * lam / gamma) / (2.0 * R)\n",
                " sigma = 0.9 * n * math.sqrt(r * lam / gamma) / (2.0 * R)\n"):
        code, shown = guarded(checkout, "--work-only")
    assert code == 1, shown
    assert "SPDC[m=1] on Factorized" in shown and "FISTA on" not in shown


@pytest.mark.nightly
def test_a_solver_without_passes_that_becomes_slower_is_caught_by_paired_runs(checkout):
    solver = checkout / "solvers" / "mine.py"
    text = solver_of_the_document().replace(", passes=float(self.passes)", "")
    solver.write_text(text)
    committed(checkout, "mine", SMALL.replace('"SPDC[m=1]", "FISTA"', '"Mine"'))
    solver.write_text(text.replace(
        "y = deriv", "[self.problem.operator.matvec(x) for _ in range(9)]; y = deriv"
    ))
    code, shown = guarded(checkout, config="mine")
    assert code == 1 and "Mine on Factorized" in shown and "time to 1e-2" in shown, shown


#: Faults of the document's solver: what is replaced, by what, and the exit code.
FAULTS = {
    "threshold dropped": (" - step * reg.lambda1, 0.0", ", 0.0", 1),
    "another lambda": ("reg.lambda2)", "0.8 * reg.lambda2)", 1),
    "wrong sign in a block": ("return self.problem.operator.rmatvec(y) / len(y)",
                              "return np.r_[-1, np.ones(len(x) - 1)] "
                              "* self.problem.operator.rmatvec(y) / len(y)", 1),
    "half a step": ("step = 1.0 /", "step = 0.5 /", 1),
    "doubled products": ("c = self.x", "self.gradient(self.x); c = self.x", 1),
    "NaN": ("self.x = soft", "self.x = (np.nan if self.passes > 40 else 1.0) * soft", 1),
    "divergence": ("step = 1.0 /", "step = 100.0 /", 1),
}


@pytest.fixture(scope="module")
def guarded_example(checkout):
    """The document's solver, config and baseline in the copy."""
    text = (REPO / "docs" / "guarding.md").read_text()
    config = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    (checkout / "example.yml").write_text(config)
    (checkout / "solvers" / "mine.py").write_text(solver_of_the_document())
    code, shown = guarded(checkout, "--update", config="example")
    assert code == 0 and shown.count("1e-2, 1e-4, 1e-6") == 2, shown
    return checkout


@pytest.mark.parametrize("name", [
    name if name in ("threshold dropped", "NaN") else pytest.param(name, marks=pytest.mark.nightly)
    for name in FAULTS
])
def test_the_example_of_the_docs_catches_seven_wrong_solvers(guarded_example, name):
    old, new, code = FAULTS[name]
    with edited(guarded_example / "solvers" / "mine.py", old, new):
        found, shown = guarded(guarded_example, "--work-only", config="example")
    assert found == code, shown
    assert "worse" in shown and "figures are better" not in shown
    # Into a file or a pipe no lines that overwrite each other.
    assert "reps)" not in shown and "% (" not in shown


#: After each call SPDC's kernel does a part of its iterations once more, on variables of their
#: own. On every machine that is a kernel slowed by so much, with the same steps and counts.
SLOWED = """            self._run(n_iterations)
            if self.name == "spdc":
                if not hasattr(self, "twin"):
                    self.twin = type(self)(self.problem, seed=0)
                self.twin._run(int(0.3 * n_iterations))
"""


@pytest.mark.nightly
@pytest.mark.timing
def test_a_kernel_slowed_by_30_per_cent_is_caught_and_named(timed):
    method = timed / "benchmark_dspdc" / "methods" / "method.py"
    with edited(method, "            self._run(n_iterations)\n", SLOWED):
        code, shown = guarded(timed, config="timed")
    assert code == 1, shown
    rows = json.loads((timed / "out.json").read_text())["figures"]
    assert {row["solver"] for row in rows if row["outcome"] == WORSE} == {"SPDC[m=1]"}, shown
    assert "SPDC[m=1] on Factorized" in shown and "SDCA[m=1] on" not in shown


@pytest.mark.nightly
@pytest.mark.timing
def test_ten_unchanged_runs_raise_no_alarm(timed):
    for k in range(10):
        code, shown = guarded(timed, config="timed")
        assert code == 0, (k, shown)
        assert "time a pass" in (timed / "out.json").read_text(), shown


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
    assert found >= 6


def solver_of_the_document():
    text = (REPO / "docs" / "guarding.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return code


def test_the_solver_of_the_document_closes_the_gap():
    names = {"__name__": "mine"}
    exec(solver_of_the_document(), names)
    problem, solver = make_problem(lambda1=0.01), names["Solver"].get_instance()
    solver.set_objective(problem)
    calls = iter(range(30))
    solver.run(lambda: next(calls, None) is not None)
    result = solver.get_result()
    assert problem.certify(result["x"]).relative_gap < 1e-8 and result["passes"] == 600.0


def test_the_workflow_of_the_document_is_yaml_with_the_steps_that_it_says():
    text = (REPO / "docs" / "guarding.md").read_text()
    config, workflow = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    assert config["solver"] == ["Mine"]
    steps = workflow["jobs"]["guard"]["steps"]
    assert steps[0]["with"]["fetch-depth"] == 0 and '--against "$BASE"' in steps[3]["run"]

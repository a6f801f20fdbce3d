"""Result files as points of a trend, and where its levels change."""

import math

import numpy as np
import pandas as pd
import pytest
from conftest import git
from frames import curve, factorized, runs, seeds
from test_regress import measured, plain

from benchmark_dspdc.bench import benchopt_process as running
from benchmark_dspdc.cli import main
from benchmark_dspdc.guard import trend

#: The figure of methods that count passes.
TIME = f"time a pass{trend.OVER_REFERENCE}"


def written(folder, *frames, first_day=1, **columns):
    """Result files a day apart."""
    for k, frame in enumerate(frames):
        date = f"2026-03-{first_day + k:02d}"
        frame.assign(run_date=date, **columns).to_parquet(folder / f"{first_day + k}.parquet")


def values_of(folder, figure="passes to 1e-2", solver="SPDC[m=1]"):
    """The values of a figure, of each problem."""
    return [problem["figures"][figure][solver]["values"]
            for problem in trend.trend_data([folder])["problems"]]


def known(values):
    return [value is not None for value in values]


# Levels -------------------------------------------------------------------------------

def test_levels_that_change_are_found_and_noise_is_not():
    k, noise = np.arange(40), np.exp(0.02 * np.random.default_rng(0).standard_normal(40))
    step = noise * np.where(k < 25, 1.0, 1.3)
    two = noise * np.select([k < 10, k < 30], [1.0, 1.5], 1.0)
    for values, marks in ((noise, []), (step, [25]), (two, [10, 30])):
        assert trend.change_points(values, 0.08) == marks
    # Work has no noise: a small step counts, a smaller one does not; one odd run never does.
    for after, marks in ((103.0, [7]), (101.0, [])):
        assert trend.change_points([100.0] * 7 + [after] * 5, 0.02) == marks
    assert trend.change_points([1.0] * 9 + [2.0] + [1.0] * 10, 0.08) == []
    step[[3, 24, 26]] = np.nan
    assert trend.change_points(step, 0.08) in ([25], [27])


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(("values", "marks"), [
    ([9.0] * 6 + [INF] * 2, [6]), ([9.0] * 2 + [INF] * 2 + [9.0] * 2, [2, 4]),
    ([9.0, 9.0, NAN, INF, NAN, INF], [3]),
    # One run is none, be it the last or the first.
    ([9.0] * 6 + [INF], []), ([INF] + [9.0] * 6, []), ([9.0, INF] * 5, []),
    ([9.0, 9.0, INF, 9.0, 9.0, 9.0], []),
    # Levels beside them are found as well.
    ([9.0] * 4 + [INF] + [12.0] * 4 + [INF] * 3, [5, 9]), ([0.0] * 3 + [5.0] * 3, [3]),
    ([5.0] * 3 + [0.0] * 3, [3]), ([0.0] * 6, []), ([5e-324] * 4 + [1e308] * 4, [4]),
    ([], []), ([NAN, 1.0], []), ([1.0, NAN, 2.0], []),
])
def test_gaps_not_reached_any_more_and_no_work_at_all_are_levels_of_their_own(values, marks):
    assert trend.change_points(values, 0.02) == marks


# The page -----------------------------------------------------------------------------

def test_a_trend_is_in_the_order_of_the_dates_and_marks_the_change(tmp_path, capsys):
    # Ten results a day apart, the last four with 20 % more passes.
    for day in range(10):
        frame = measured(passes=1.2 if day >= 6 else 1.0)
        frame["run_date"] = f"2026-03-{day + 1:02d}T12:00:00"
        frame.to_parquet(tmp_path / f"run{9 - day}.parquet")
    output = tmp_path / "out" / "trend.html"
    (tmp_path / "broken.parquet").write_text("no parquet")
    assert main(["trend", str(tmp_path), "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "left out" in shown and "broken.parquet" in shown
    made = trend.trend_data([tmp_path])
    assert made["runs"][0] == "2026-03-01 12:00 run9" and len(made["runs"]) == 10
    assert [row["run"] for row in made["changes"]] == ["2026-03-07 12:00 run3"] * 3
    assert made["changes"][0]["change"] == pytest.approx(0.2, abs=1e-3)
    assert {row["solver"] for row in made["changes"]} == {"DSPDC[m=1,q=1]"}
    assert "@@" not in output.read_text("utf-8").split('id="data"')[0]


def test_a_trend_of_nothing_is_an_error(tmp_path, capsys):
    assert main(["trend", str(tmp_path)]) == 2
    assert "no parquet file in the folder" in capsys.readouterr().err
    (tmp_path / "broken.parquet").write_text("no parquet")
    assert main(["trend", str(tmp_path)]) == 2
    assert "none of the files has a figure" in capsys.readouterr().err


def test_a_trend_marks_gaps_that_are_not_reached_any_more_and_those_reached_at_once(
    tmp_path, capsys
):
    good, bad, start = measured(), measured(), measured()
    bad.loc[bad["objective_relative_gap"] < 1e-5, "objective_relative_gap"] = 1e-5
    written(tmp_path, *[good] * 4, *[bad] * 2)
    output = tmp_path / "out.html"
    assert main(["trend", str(tmp_path), "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "2026-03-05" in shown and "-> not reached (not reached any more)" in shown
    changes = trend.trend_data([tmp_path])["changes"]
    assert {row["figure"] for row in changes} == {"passes to 1e-6", "eigendecompositions to 1e-6"}
    assert all(row["worse"] and row["after"] is None for row in changes)
    # From where a gap is reached without work, and back.
    start.loc[start["stop_val"] == 0, "objective_relative_gap"] = 1e-3
    folder = tmp_path / "zeros"
    folder.mkdir()
    written(folder, *[start] * 3, *[good] * 3, *[start] * 3)
    changes = [
        row for row in trend.trend_data([folder])["changes"]
        if (row["figure"], row["solver"]) == ("passes to 1e-2", "SPDC[m=1]")
    ]
    assert [row["text"] for row in changes] == ["from nothing", "-100.0%"]
    assert [row["worse"] for row in changes] == [True, False]
    assert "passes to 1e-2 0 -> " in trend.described(changes[0])


def test_the_problem_that_changed_most_is_the_first(tmp_path):
    for k in range(6):
        frame = runs(*(curve("SPDC[m=1]", 0.1, factorized(p=p)) for p in (3, 4, 5)))
        for p, factor in ((4, 3.0), (5, 1.5)):
            own = frame["dataset_name"] == factorized(p=p)
            frame.loc[own, "objective_passes"] *= factor if k > 2 else 1.0
        written(tmp_path, frame, first_day=k + 1)
    titles = [problem["title"] for problem in trend.trend_data([tmp_path])["problems"]]
    assert [next(p for p in (3, 4, 5) if f"p={p}" in title) for title in titles] == [4, 5, 3]


# Runs ---------------------------------------------------------------------------------

def of(command, frame):
    """A result of a command, which says its start and its commit."""
    return frame.assign(**{running.STARTED: command[0], running.COMMIT: command[1]})


FIRST, SECOND = ("2026-03-01T10:00:00.000", "aaaa"), ("2026-03-01T10:30:00.000", "bbbb+")


def test_files_of_one_commit_and_start_are_one_point(tmp_path):
    own, other = (runs(curve("SPDC[m=1]", 0.1, dataset)) for dataset in (None, factorized(p=7)))
    again = (SECOND[0].replace("10:30", "11:00"), "bbbb+")
    for name, frame, hour in (
        ("one", of(FIRST, own), "10:05"), ("two", of(FIRST, other), "10:10"),
        ("three", of(SECOND, own), "10:35"), ("four", of(SECOND, other), "10:40"),
        # The same commit again, by another command, and a file of a plain `benchopt run`.
        ("five", of(again, own), "11:00"), ("six", own, "12:00"),
    ):
        frame.assign(run_date=f"2026-03-01T{hour}:00").to_parquet(tmp_path / f"{name}.parquet")
    made = trend.trend_data([tmp_path])
    assert made["runs"] == [
        "2026-03-01 10:05 aaaa", "2026-03-01 10:35 bbbb+", "2026-03-01 11:00 bbbb+",
        "2026-03-01 12:00 six",
    ]
    assert made["origin"].startswith("4 runs in 6 files")
    assert made["ticks"] == [
        "2026-03-01 aaaa", "2026-03-01 10:35 bbbb+", "2026-03-01 11:00 bbbb+", "2026-03-01 six",
    ]
    # Runs of other problems are gaps, and no change.
    assert sorted(map(known, values_of(tmp_path))) == [[True, True, False, False], [True] * 4]
    assert made["changes"] == []


def test_of_several_runs_of_a_command_the_median_counts(tmp_path):
    frames = [measured(passes=passes) for passes in (1.0, 7.0, 3.0)]
    written(tmp_path, *(of(FIRST, frame) for frame in frames), frames[-1])
    ((first, second),) = values_of(tmp_path, solver="DSPDC[m=1,q=1]")
    assert first == second


def test_runs_that_missed_a_gap_are_told_from_those_without_the_problem(tmp_path):
    own = runs(curve("SPDC[m=1]", 0.1))
    missed = own[own["objective_relative_gap"] > 1e-5]
    written(tmp_path, own, runs(curve("SDCA[m=1]", 0.1)), missed)
    (problem,) = trend.trend_data([tmp_path])["problems"]
    found = problem["figures"]["passes to 1e-6"]["SPDC[m=1]"]
    assert known(found["values"]) == [True, False, False] and found["missed"] == [2]


@pytest.mark.parametrize("edit", [None, "file", "solver"])
def test_a_result_file_says_its_commit(tmp_path, edit):
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    assert running.commit_of(tmp_path) is None
    for command in (["add", "file"], ["commit", "-qm", "one"], ["tag", "v1"]):
        git(tmp_path, *command)
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    if edit:
        # A new file is an edit, too.
        (tmp_path / edit).write_text("two")
    assert running.commit_of(tmp_path) == head + "+" * bool(edit)
    folder = tmp_path / "results"
    folder.mkdir()
    written(folder, runs(curve("SPDC[m=1]", 0.1)))
    before = pd.read_parquet(folder / "1.parquet")
    running._mark(folder / "1.parquet", {
        running.COMMIT: head, running.STARTED: "2026-03-01", running.PROCESSOR: None,
    })
    after = pd.read_parquet(folder / "1.parquet")
    assert set(after[running.COMMIT]) == {head} and set(after[running.STARTED]) == {"2026-03-01"}
    assert after[running.PROCESSOR].isna().all()
    pd.testing.assert_frame_equal(before, after[list(before)])
    assert trend.trend_data([folder])["runs"] == [f"2026-03-01 00:00 {head}"]


def test_runs_with_fewer_repetitions_are_left_out_and_told(tmp_path):
    two = runs(*seeds("SPDC[m=1]", (0.1, 0.3)))
    written(tmp_path, runs(curve("SPDC[m=1]", 0.1)), two, two)
    made = trend.trend_data([tmp_path])
    assert any("1 curves with fewer repetitions" in note for note in made["notes"])
    for figure in made["problems"][0]["figures"].values():
        assert known(figure["SPDC[m=1]"]["values"]) == [False, True, True]


def test_solvers_that_count_no_passes_have_their_time_to_gaps(tmp_path):
    written(tmp_path, *(runs(plain(time), measured()) for time in (1, 1, 1, 2, 2, 2)))
    assert {(row["solver"], row["figure"]) for row in trend.trend_data([tmp_path])["changes"]} == {
        ("Plain", f"time to {gap}{trend.OVER_REFERENCE}") for gap in ("1e-2", "1e-4", "1e-6")
    }


def test_times_of_curves_measured_side_by_side_are_none(tmp_path):
    written(tmp_path, *(measured().assign(**{running.SHARED: word}) for word in ("yes", "no")))
    assert list(map(known, values_of(tmp_path, TIME))) == [[False, True]]
    for arguments, shared in (
        ([], "no"), (["-j", "2"], "yes"), (["-j2"], "yes"), (["-j", "1"], "no"),
        (["--n-jobs=4", "-d", "x"], "yes"), (["--parallel-config", "dask.yml"], "yes"),
    ):
        assert running._is_shared(arguments) == shared


def test_times_of_several_processors_are_several_series(tmp_path):
    column = "system-processor"
    written(tmp_path, *[measured()] * 4, **{column: "fast"})
    written(tmp_path, *[measured(time=1.5)] * 4, first_day=5, **{column: "slow"})
    assert trend.trend_data([tmp_path])["changes"] == []
    for name, expected in (("fast", [True] * 4 + [False] * 4), ("slow", [False] * 4 + [True] * 4)):
        assert list(map(known, values_of(tmp_path, f"{TIME}, on {name}"))) == [expected]
    # On one it is a change.
    written(tmp_path, *[measured()] * 4, **{column: "slow"})
    assert [row["figure"] for row in trend.trend_data([tmp_path])["changes"]] == [TIME]


def test_the_version_of_the_benchmark_is_in_the_name_of_a_run(tmp_path):
    written(tmp_path, measured(), **{"benchmark-git-tag": "v1.2"})
    written(tmp_path, measured(), first_day=2, **{"benchmark-git-tag": "\x1b[2J"})
    assert trend.trend_data([tmp_path])["runs"] == [
        "2026-03-01 00:00 1 (v1.2)", "2026-03-02 00:00 2"
    ]

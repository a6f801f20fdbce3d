"""Result files as points of a trend, and where its levels change."""

import math

import numpy as np
import pandas as pd
import pytest
from conftest import git
from frames import curve, factorized, runs, seeds
from test_regress import FOUND, measured

from benchmark_dspdc.bench import benchopt_process as running
from benchmark_dspdc.cli import main
from benchmark_dspdc.guard import trend

#: The figure of methods that count passes.
TIME = "time a pass, over the reference loop"

#: When a command was started, and the commit that it was of.
FIRST, SECOND = ("2026-03-01T10:00:00.000", "aaaa"), ("2026-03-01T10:30:00.000", "bbbb+")


def result(folder, name, made_by, date, solver="SPDC[m=1]", dataset=None, passes=1.0):
    frame = runs(curve(solver, 0.1, dataset))
    frame["objective_passes"] *= passes
    frame["run_date"] = date
    if made_by is not None:
        frame[running.STARTED], frame[running.COMMIT] = made_by
    frame.to_parquet(folder / f"{name}.parquet")


def test_files_of_one_commit_and_start_are_one_point(tmp_path):
    other = factorized(p=7)
    result(tmp_path, "one", FIRST, "2026-03-01T10:05:00")
    result(tmp_path, "two", FIRST, "2026-03-01T10:10:00", dataset=other)
    result(tmp_path, "three", SECOND, "2026-03-01T10:35:00")
    result(tmp_path, "four", SECOND, "2026-03-01T10:40:00", dataset=other)
    # The same commit again, by another command, and a file of a plain `benchopt run`.
    result(tmp_path, "five", (SECOND[0].replace("10:30", "11:00"), "bbbb+"), "2026-03-01T11:00:00")
    result(tmp_path, "six", None, "2026-03-01T12:00:00")
    made = trend.trend_data([tmp_path])
    assert made["runs"] == [
        "2026-03-01 10:05 aaaa", "2026-03-01 10:35 bbbb+", "2026-03-01 11:00 bbbb+",
        "2026-03-01 12:00 six",
    ]
    assert made["origin"].startswith("4 runs in 6 files")
    assert made["ticks"] == [
        "2026-03-01 aaaa", "2026-03-01 10:35 bbbb+", "2026-03-01 11:00 bbbb+", "2026-03-01 six",
    ]
    values = [
        problem["figures"]["passes to 1e-2"]["SPDC[m=1]"]["values"] for problem in made["problems"]
    ]
    assert sorted([value is None for value in found] for found in values) == [
        [False] * 4, [False, False, True, True],
    ]


def test_of_several_runs_of_a_command_the_median_counts(tmp_path):
    for name, passes in (("a", 1.0), ("b", 7.0), ("c", 3.0)):
        result(tmp_path, name, FIRST, "2026-03-01T10:10:00", passes=passes)
    result(tmp_path, "d", None, "2026-03-02", passes=3.0)
    (problem,) = trend.trend_data([tmp_path])["problems"]
    first, second = problem["figures"]["passes to 1e-2"]["SPDC[m=1]"]["values"]
    assert first == second


def test_runs_that_missed_a_gap_are_told_from_those_without_the_problem(tmp_path):
    result(tmp_path, "1", None, "2026-03-01")
    result(tmp_path, "2", None, "2026-03-02", solver="SDCA[m=1]")
    result(tmp_path, "3", None, "2026-03-03")
    file = tmp_path / "3.parquet"
    frame = pd.read_parquet(file)
    frame[frame["objective_relative_gap"] > 1e-5].to_parquet(file)
    (problem,) = trend.trend_data([tmp_path])["problems"]
    found = problem["figures"]["passes to 1e-6"]["SPDC[m=1]"]
    assert [value is None for value in found["values"]] == [False, True, True]
    assert found["missed"] == [2]


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
    result(folder, "run", None, "2026-03-01")
    before = pd.read_parquet(folder / "run.parquet")
    running._mark(folder / "run.parquet", {
        running.COMMIT: head, running.STARTED: "2026-03-01", running.PROCESSOR: None,
    })
    after = pd.read_parquet(folder / "run.parquet")
    assert set(after[running.COMMIT]) == {head} and set(after[running.STARTED]) == {"2026-03-01"}
    assert after[running.PROCESSOR].isna().all()
    pd.testing.assert_frame_equal(before, after[list(before)])
    assert trend.trend_data([folder])["runs"] == [f"2026-03-01 00:00 {head}"]


def test_runs_with_fewer_repetitions_are_left_out_and_told(tmp_path):
    result(tmp_path, "one", None, "2026-03-01")
    for k in range(2):
        frame = runs(*seeds("SPDC[m=1]", (0.1, 0.3)))
        frame["run_date"] = f"2026-03-0{k + 2}"
        frame.to_parquet(tmp_path / f"two{k}.parquet")
    made = trend.trend_data([tmp_path])
    assert any("1 curves with fewer repetitions" in note for note in made["notes"])
    (problem,) = made["problems"]
    for figure in problem["figures"].values():
        assert [value is None for value in figure["SPDC[m=1]"]["values"]] == [True, False, False]


def test_solvers_that_count_no_passes_have_their_time_to_gaps(tmp_path):
    for k in range(6):
        plain = curve("Plain", 0.1 if k < 3 else 0.2, objective_reference_seconds=1e-3)
        plain["objective_passes"], plain["run_date"] = math.nan, f"2026-03-0{k + 1}"
        runs(plain, curve("SPDC[m=1]", 0.1)).to_parquet(tmp_path / f"{k}.parquet")
    made = trend.trend_data([tmp_path])
    assert {(row["solver"], row["figure"]) for row in made["changes"]} == {
        ("Plain", f"time to {gap}, over the reference loop") for gap in ("1e-2", "1e-4", "1e-6")
    }


def test_times_of_curves_measured_side_by_side_are_none(tmp_path):
    for name, shared in (("a", "yes"), ("b", "no")):
        frame = runs(curve("SPDC[m=1]", 0.1, objective_reference_seconds=1e-3))
        frame[running.SHARED], frame["run_date"] = shared, "2026-03-01"
        frame.to_parquet(tmp_path / f"{name}.parquet")
    (problem,) = trend.trend_data([tmp_path])["problems"]
    assert [value is None for value in problem["figures"][TIME]["SPDC[m=1]"]["values"]] == [
        True, False,
    ]
    for arguments, shared in (
        ([], "no"), (["-j", "2"], "yes"), (["-j2"], "yes"), (["-j", "1"], "no"),
        (["--n-jobs=4", "-d", "x"], "yes"), (["--parallel-config", "dask.yml"], "yes"),
    ):
        assert running._is_shared(arguments) == shared


def test_the_problem_that_changed_most_is_the_first(tmp_path):
    for k in range(6):
        frame = runs(*(curve("SPDC[m=1]", 0.1, factorized(p=p)) for p in (3, 4, 5)))
        for p, factor in ((4, 3.0), (5, 1.5)):
            own = frame["dataset_name"] == factorized(p=p)
            frame.loc[own, "objective_passes"] *= factor if k > 2 else 1.0
        frame["run_date"] = f"2026-03-0{k + 1}"
        frame.to_parquet(tmp_path / f"{k}.parquet")
    titles = [problem["title"] for problem in trend.trend_data([tmp_path])["problems"]]
    assert [next(p for p in (3, 4, 5) if f"p={p}" in title) for title in titles] == [4, 5, 3]


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
        frame = runs(*seeds("SPDC[m=1]", (0.1, 0.1), dataset=dataset, **FOUND))
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
        f"{TIME}, on fast", f"{TIME}, on slow"
    ]
    fast = figures[f"{TIME}, on fast"]["DSPDC[m=1,q=1]"]["values"]
    assert [value is None for value in fast] == [False] * 4 + [True] * 4
    # On one it is a change.
    written(tmp_path, *[measured()] * 4, **{column: "slow"})
    changes = trend.trend_data([tmp_path])["changes"]
    assert [row["figure"] for row in changes] == [TIME]


def test_the_version_of_the_benchmark_is_in_the_name_of_a_run(tmp_path):
    written(tmp_path, measured(), **{"benchmark-git-tag": "v1.2"})
    written(tmp_path, measured(), first_day=2, **{"benchmark-git-tag": "\x1b[2J"})
    assert trend.trend_data([tmp_path])["runs"] == [
        "2026-03-01 00:00 1 (v1.2)", "2026-03-02 00:00 2"
    ]

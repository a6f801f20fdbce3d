"""Result files as points of a trend."""

import math

import pandas as pd
import pytest
from conftest import git
from frames import curve, factorized, runs, seeds

from benchmark_dspdc.bench import benchopt_process as running
from benchmark_dspdc.guard import trend

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
    assert [value is None for value in problem["figures"][trend.TIME]["SPDC[m=1]"]["values"]] == [
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

"""Result files as points of a trend."""

import pandas as pd
import pytest
from frames import curve, factorized, runs

from benchmark_dspdc import running
from benchmark_dspdc.report import trend

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
    values = [
        problem["figures"]["passes to 1e-2"]["SPDC[m=1]"]["values"] for problem in made["problems"]
    ]
    assert sorted([value is None for value in found] for found in values) == [
        [False] * 4, [False, False, True, True],
    ]


def test_of_what_two_files_of_a_run_have_the_later_one_counts(tmp_path):
    # By the dates in them, not by their names.
    result(tmp_path, "a", FIRST, "2026-03-01T10:10:00", passes=3.0)
    result(tmp_path, "b", FIRST, "2026-03-01T10:05:00")
    result(tmp_path, "c", None, "2026-03-02", passes=3.0)
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


@pytest.mark.parametrize("edited", [False, True])
def test_a_result_file_says_its_commit(tmp_path, edited):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org",
           "-c", "commit.gpgsign=false"]
    running.subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("one")
    assert running.commit_of(tmp_path) is None
    for command in (["add", "file"], ["commit", "-qm", "one"], ["tag", "v1"]):
        running.subprocess.run([*git, *command], check=True)
    head = running.subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout[:12]
    if edited:
        (tmp_path / "file").write_text("two")
    assert running.commit_of(tmp_path) == head + "+" * edited
    result(tmp_path, "run", None, "2026-03-01")
    before = pd.read_parquet(tmp_path / "run.parquet")
    running._mark(tmp_path / "run.parquet", head)
    after = pd.read_parquet(tmp_path / "run.parquet")
    assert set(after[running.COMMIT]) == {head} and after[running.STARTED].nunique() == 1
    pd.testing.assert_frame_equal(before, after[list(before)])
    assert trend.trend_data([tmp_path])["runs"] == [f"2026-03-01 00:00 {head}"]

"""Times of another commit, measured on this machine, in the place of a baseline's."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from conftest import REPO, git
from frames import runs, seeds
from test_regress import FOUND, measured

from benchmark_dspdc.bench.benchopt_process import Run
from benchmark_dspdc.cli import main
from benchmark_dspdc.guard import baseline_commit as base
from benchmark_dspdc.guard import guarded_runs as guard
from benchmark_dspdc.guard.baseline import CannotCompare
from benchmark_dspdc.guard.curve_figures import BESIDE, TIME
from benchmark_dspdc.guard.paired_runs import UNCLEAR
from benchmark_dspdc.guard.regress import with_times

#: After how many turns it is decided.
COUNTS = list(UNCLEAR)


class Repository:
    """A repository with a benchmark, whose runs are made up.

    Attributes
    ----------
    here, there : DataFrame
        What a run of the work tree gives, and of another commit's files.
    ran : list of tuple
        Of each run of other files: what the commit's `objective.py` and its config say.
    """

    def __init__(self, folder, baseline, monkeypatch):
        self.folder, self.count = folder / "benchmark", 0
        self.here = self.there = measured()
        self.ran, self.options, self.noise, self.config = [], [], None, self.folder / "my.yml"
        (self.folder / "datasets").mkdir(parents=True)
        (self.folder / "benchmark_dspdc" / "bench").mkdir(parents=True)
        self.write("benchmark_dspdc/bench/failure_notes.py", "")
        self.write("objective.py", "the baseline's")
        self.write("my.yml", "the baseline's")
        self.baseline = str(shutil.copy(baseline, self.folder / "my.json"))
        git(self.folder, "init", "-q")
        self.commit()
        self.write("objective.py", "a later one's")
        self.commit()
        self.write("objective.py", "the work tree's")
        monkeypatch.setenv("BENCHMARK_DSPDC_CACHE", str(folder / "cache"))
        for module in (base, guard):
            monkeypatch.setattr(module, "benchmark_folder", lambda: self.folder)
        monkeypatch.setattr(guard, "_run", self.run)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def commit(self):
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "x")

    def run(self, config, name, options, folder):
        self.count += 1
        frame = self.here
        if folder is not None:
            self.ran.append(((folder / "objective.py").read_text(), config.read_text()))
            self.options.append(options)
            frame = self.there
            if self.noise:
                frame = frame.assign(time=frame["time"] * self.noise[len(self.ran) - 1])
        if isinstance(frame, Exception):
            raise frame
        # As benchopt does, beside what was run: a commit's files do not stay.
        file = (folder or self.folder.parent) / f"result{self.count}.parquet"
        frame.to_parquet(file)
        return file

    def check(self, *options):
        out = self.folder.with_name("out.json")
        code = main([
            "regress", "--run", str(self.config), "--baseline", self.baseline,
            "--json", str(out), *options,
        ])
        return code, json.loads(out.read_text())


@pytest.fixture(scope="module")
def baseline_of_another(tmp_path_factory):
    """A baseline of five runs, made on another machine."""
    folder = tmp_path_factory.mktemp("another")
    files = [str(folder / f"{k}.parquet") for k in range(5)]
    for file in files:
        measured().assign(**{"system-processor": "another"}).to_parquet(file)
    assert main(["regress", *files, "--baseline", str(folder / "my.json"), "--update"]) == 0
    return folder / "my.json"


@pytest.fixture
def repository(tmp_path, baseline_of_another, monkeypatch):
    return Repository(tmp_path, baseline_of_another, monkeypatch)


def times(found):
    return [row for row in found["figures"] if row["figure"].startswith("time")]


def test_on_another_machine_the_commit_of_the_baseline_is_measured_and_compared_with(
    repository, capsys
):
    code, found = repository.check()
    assert code == 0 and len(times(found)) == 2 and found["notes"] == []
    # Its own files and config, in as many runs as tell what times vary by.
    assert repository.ran == [("the baseline's",) * 2] * base.RUNS
    shown = capsys.readouterr().out
    commit = git(repository.folder, "rev-parse", "--short=12", "HEAD~1")
    assert f"those of commit {commit}, which is run {base.RUNS} times on this machine" in shown

    # A second check takes what the first has measured, for a day.
    repository.here, repository.ran = measured(spdc=1.3), []
    code, found = repository.check()
    assert f"those of commit {commit}, measured on this machine today" in capsys.readouterr().out
    worse = [(row["solver"], row["figure"]) for row in found["figures"]
             if row["outcome"] == "worse"]
    assert code == 1 and worse == [("SPDC[m=1]", "time a pass")]
    # It is run but to decide what is slow.
    turns = COUNTS[2]
    assert repository.ran == [("the baseline's",) * 2] * turns
    repository.ran = []
    (kept,) = (repository.folder.parent / "cache" / "times").iterdir()
    yesterday = time.time() - base.KEPT_SECONDS - 1
    os.utime(kept, (yesterday, yesterday))
    assert repository.check()[0] == 1 and len(repository.ran) == base.RUNS + turns
    kept.write_text("{}")
    assert repository.check()[0] == 1 and len(repository.ran) == 2 * (base.RUNS + turns)


def test_what_is_slow_now_at_the_commit_too_is_the_machine(repository, capsys):
    repository.check()
    repository.write("my.yml", "max-runs: 7\n")
    repository.commit()
    repository.check()
    # From now on the machine is half as fast, to kernels and not to the reference.
    repository.here, repository.ran = measured(time=2.0, spdc=2.0), []
    repository.there, repository.options = repository.here, []
    code, found = repository.check()
    assert code == 0 and [row["change"] for row in times(found)] == [0.0, 0.0]
    commit = git(repository.folder, "rev-parse", "--short=12", "HEAD~2")
    assert found["notes"] == [
        f"2 methods are compared by turns with commit {commit}, as one run seemed long; slower by "
        "more than 20%: 0"
    ]
    shown = capsys.readouterr().out
    assert f"2 methods are slower than in the baseline, which may be noise: {COUNTS[0]} turns" in (
        shown
    )
    # Only they, and with curves as long as those they are compared with.
    data, solvers = repository.here["dataset_name"].iloc[0], ["DSPDC[m=1,q=1]", "SPDC[m=1]"]
    both = ["--max-runs", "7", "-d", data, "-s", solvers[0], "-s", solvers[1]]
    assert repository.ran == [("the baseline's",) * 2] * COUNTS[0]
    assert repository.options == [both] * COUNTS[0]
    # A method that is slower than the commit's is found on such a machine as well.
    repository.here, repository.options = measured(time=2.0, spdc=2.6), []
    code, found = repository.check()
    assert code == 1
    assert [round(row["change"], 3) for row in times(found)] == [0.0, 0.3]
    # The other one may go after the first turns.
    one = ["--max-runs", "7", "-d", data, "-s", solvers[1]]
    assert repository.options == [both] * COUNTS[0] + [one] * (COUNTS[2] - COUNTS[0])


def test_the_commit_is_run_with_its_own_config_and_curves_as_long_as_now(repository):
    repository.check()
    repository.write("my.yml", "solver: [New]\nmax-runs: 7\nn-repetitions: 2\n")
    repository.check()
    # It may lack what the other one names. As curves have another length, it is run again.
    assert repository.ran == [("the baseline's",) * 2] * (2 * base.RUNS)
    longer = ["--max-runs", "7", "--n-repetitions", "2"]
    assert repository.options == [[]] * base.RUNS + [longer] * base.RUNS
    # One from elsewhere is run as it is given.
    other = repository.folder.with_name("other.yml")
    other.write_text("a new one")
    repository.ran = []
    main(["regress", "--run", str(other), "--baseline", repository.baseline])
    assert repository.ran == [("the baseline's", "a new one")] * base.RUNS


@pytest.mark.parametrize("change", [
    lambda patch: patch.setenv("BENCHMARK_DSPDC_TOL", "1e-3"),
    lambda patch: patch.setattr(base.platform, "node", lambda: "another host"),
    lambda patch: patch.setattr(base.importlib.metadata, "distributions", lambda: []),
])
def test_times_of_other_conditions_are_not_taken(repository, monkeypatch, change):
    assert repository.check()[0] == 0 and len(repository.ran) == base.RUNS
    change(monkeypatch)
    assert repository.check()[0] == 0 and len(repository.ran) == 2 * base.RUNS


def test_times_that_vary_too_much_are_not_kept(repository):
    usual = repository.there
    # Of the second of three runs.
    repository.noise = [1.0, 1.5, 1.0]
    assert repository.check()[0] == 0
    assert not list((repository.folder.parent / "cache").glob("times/*"))
    repository.noise, repository.there = None, usual
    assert repository.check()[0] == 0
    (kept,) = (repository.folder.parent / "cache" / "times").iterdir()
    # What is old is removed by the next that is kept.
    old = kept.with_name("old.json")
    old.touch()
    for file in (old, kept):
        os.utime(file, (0, 0))
    repository.check()
    assert [kept] == list(kept.parent.iterdir())


def test_a_config_that_is_newer_than_the_commit_has_no_times_to_compare(repository):
    # Whatever was measured for another one with the same text.
    assert repository.check("--against", "HEAD")[0] == 0
    repository.config, repository.ran = repository.folder / "new.yml", []
    shutil.copy(repository.folder / "my.yml", repository.config)
    code, found = repository.check("--against", "HEAD")
    assert code == 0 and repository.ran == []
    assert times(found) == [] and len(found["figures"]) == 9
    assert any(note.startswith("2 methods are new since that") for note in found["notes"])
    assert repository.check("--against", "HEAD", "--time-only")[0] == 2


def test_a_commit_that_is_given_counts_whatever_times_the_baseline_has(repository):
    code, _ = repository.check("--against", "HEAD")
    assert code == 0 and {text for text, _ in repository.ran} == {"a later one's"}
    processor = repository.here.assign(**{"system-processor": "another"})
    repository.here, repository.ran = processor, []
    assert repository.check()[0] == 0 and repository.ran == []
    repository.there = processor.assign(time=processor["time"] / 1.3)
    code, found = repository.check("--against", "HEAD", "--time-only")
    assert code == 1 and len(times(found)) == len(found["figures"]) == 2
    # A baseline of work alone has times that way, too.
    assert repository.check("--update", "--work-only")[0] == 0
    assert repository.check()[0] == 0
    assert repository.check("--against", "HEAD")[0] == 1


def test_nothing_is_measured_where_work_is_worse_or_cannot_be_compared(repository):
    repository.here = measured(passes=1.1)
    code, found = repository.check()
    assert code == 1 and repository.ran == []
    assert any("as work is worse" in note for note in found["notes"])
    assert repository.check("--time-only")[0] == 0 and len(repository.ran) == base.RUNS
    repository.here, repository.ran = measured().assign(base_seed=4), []
    code, found = repository.check()
    assert code == 2 and "the seeds are others" in found["error"] and repository.ran == []
    assert repository.check("--work-only")[0] == 2 and repository.ran == []


@pytest.mark.parametrize(("change", "message"), [
    (lambda it: it.write("my.json", (it.folder / "my.json").read_text() + "\n"),
     "is not committed as it is"),
    (lambda it: it.folder.joinpath(".git", "shallow").write_text(
        git(it.folder, "rev-parse", "HEAD") + "\n"), "the clone is shallow"),
    (lambda it: shutil.rmtree(it.folder / ".git"), "git knows no commit of"),
    (lambda it: setattr(it, "there", CannotCompare("it failed there")), "it failed there"),
])
def test_where_the_commit_cannot_be_measured_work_is_compared_and_the_reason_told(
    repository, change, message
):
    change(repository)
    repository.here = measured(spdc=1.3)
    code, found = repository.check()
    assert code == 0 and times(found) == []
    assert sum("not measured on this machine" in note and message in note
               for note in found["notes"]) == 1
    assert any("times are not compared" in note for note in found["notes"])


def test_a_baseline_elsewhere_has_no_commit(repository, tmp_path):
    other = tmp_path / "elsewhere.json"
    other.write_text(Path(repository.baseline).read_text())
    repository.baseline = str(other)
    code, found = repository.check()
    assert code == 0 and any("git knows no commit of" in note for note in found["notes"])
    # A commit can be given all the same.
    repository.here = measured(spdc=1.3)
    assert repository.check("--against", "HEAD")[0] == 1


@pytest.mark.parametrize(("options", "message"), [
    (["--against", "nowhere"], "there is no commit 'nowhere' in"),
    (["--against", "--help"], None), (["--against=--all"], "there is no commit '--all' in"),
    (["--against", "HEAD", "--update"], "--against is for comparing times of --run"),
    (["--against", "HEAD", "--work-only"], "--against is for comparing times of --run"),
])
def test_commits_that_cannot_be_compared_with_are_told_before_anything_is_run(
    repository, options, message
):
    if message is None:
        with pytest.raises(SystemExit):
            repository.check(*options)
    else:
        code, found = repository.check(*options)
        assert code == 2 and message in found["error"]
    assert repository.count == 0


def test_against_needs_a_config_and_a_commit_with_the_command(repository, capsys):
    repository.here.to_parquet(file := repository.folder.with_name("r.parquet"))
    given = ["regress", str(file), "--baseline", repository.baseline, "--against", "HEAD"]
    assert main(given) == 2 and "--run CONFIG" in capsys.readouterr().err
    notes = repository.folder / "benchmark_dspdc" / "bench" / "failure_notes.py"
    notes.rename(repository.folder / "other.py")
    repository.commit()
    code, found = repository.check("--against", "HEAD")
    assert code == 2 and "is too old to be run" in found["error"]
    repository.there = CannotCompare("it failed there")
    code, found = repository.check("--against", "HEAD~1")
    assert code == 2 and found["error"].endswith(": it failed there")
    assert found["error"].startswith("at commit ")


def test_what_is_new_since_the_commit_is_named_and_the_rest_compared(repository):
    plain = runs(*seeds("Plain", (0.1,) * 3, **FOUND))
    # A solver that counts nothing has times alone.
    plain["objective_passes"] = float("nan")
    repository.here = runs(measured(), *seeds("SDCA[m=1]", (0.1,) * 3, **FOUND), plain)
    assert repository.check("--update", "--repeat", "2")[0] == 0
    known = json.loads(Path(repository.baseline).read_text())
    known["machine"]["processor"] = "another"
    Path(repository.baseline).write_text(json.dumps(known))
    repository.commit()
    code, found = repository.check("--against", "HEAD~1")
    assert code == 0
    (note,) = (note for note in found["notes"] if "new since that commit" in note)
    assert note.startswith("2 methods are new") and "SDCA[m=1] on" in note and "Plain on" in note
    assert {row["solver"] for row in times(found)} == {"DSPDC[m=1,q=1]", "SPDC[m=1]"}
    assert "SDCA[m=1]" in {row["solver"] for row in found["figures"]}
    code, found = repository.check("--against", "HEAD~1", "--time-only")
    assert code == 0 and len(found["notes"]) == 1


def test_what_the_commit_has_but_could_not_run_is_not_new(repository):
    # benchopt goes on without a solver that cannot be imported.
    there = repository.there
    repository.there = there[there["solver_name"] != "SPDC[m=1]"]
    repository.here = measured(spdc=40.0)
    code, found = repository.check("--against", "HEAD")
    assert code == 2 and "gave no curve when it was run" in found["error"]
    assert "SPDC[m=1] on" in found["error"] and "DSPDC" not in found["error"]
    code, found = repository.check()
    assert code == 0 and times(found) == []
    assert any("gave no curve when it was run" in note for note in found["notes"])


def test_beside_others_is_beside_the_same_others():
    def rows(*names):
        return [
            dict(dataset="d", objective="o", solver=name, times={TIME: {}, BESIDE: {}})
            for name in names
        ]
    for then, now in (("abc", "ab"), ("ab", "abc"), ("abc", "abc")):
        made = dict(made=[], machine={}, figures=rows(*then))
        found = with_times(dict(figures=rows(*now)), made)["figures"]
        assert all((BESIDE in row["times"]) == (then == now) for row in found)
        assert [row["is_new"] for row in found] == [name not in then for name in now]


def test_with_a_commit_given_times_of_the_baseline_do_not_count(repository):
    another = {"system-processor": "another"}
    repository.here = measured(passes=1.1, time=3.0).assign(**another)
    code, found = repository.check("--against", "HEAD")
    assert code == 1 and times(found) == [] and repository.ran == []


def test_a_method_that_counts_passes_now_has_no_time_in_common(repository):
    repository.there = measured().assign(objective_passes=float("nan"))
    code, found = repository.check("--against", "HEAD")
    assert code == 0 and times(found) == [] and len(found["figures"]) == 9


def test_a_baseline_that_was_moved_or_laid_out_anew_has_the_commit_of_its_figures(repository):
    git(repository.folder, "mv", "my.json", "moved name.json")
    repository.commit()
    moved = repository.folder / "moved name.json"
    moved.write_text(json.dumps(json.loads(moved.read_text()), indent=1))
    repository.commit()
    repository.baseline = str(moved)
    assert repository.check()[0] == 0
    assert {text for text, _ in repository.ran} == {"the baseline's"}


def test_sources_are_looked_for_in_the_other_files_first_and_then_as_before(monkeypatch, tmp_path):
    given = []

    def run(folder, arguments, name, variables):
        given.append((folder, variables))
        return Run(tmp_path / "x.parquet", 0)
    monkeypatch.setattr(guard, "benchopt_run", run)
    monkeypatch.setenv("PYTHONPATH", "mine")
    guard._run(tmp_path / "x.yml", "x", [], tmp_path)
    assert given == [(tmp_path, {"PYTHONPATH": f"{tmp_path}{os.pathsep}mine"})]
    monkeypatch.delenv("PYTHONPATH")
    guard._run(tmp_path / "x.yml", "x", [], tmp_path)
    guard._run(tmp_path / "x.yml", "x", [], None)
    assert [variables for _, variables in given[1:]] == [{"PYTHONPATH": str(tmp_path)}, None]


def test_the_files_of_a_commit_are_those_of_the_benchmarks_folder(tmp_path, monkeypatch):
    folder = tmp_path / "more" / "benchmark"
    (folder / "benchmark_dspdc" / "bench").mkdir(parents=True)
    (folder / "benchmark_dspdc" / "bench" / "failure_notes.py").write_text("old")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    monkeypatch.setattr(base, "benchmark_folder", lambda: folder)
    one = base.Base([], tmp_path / "x.json", "HEAD")
    with one._checked_out(one.commit()) as files:
        assert (files / "benchmark_dspdc" / "bench" / "failure_notes.py").read_text() == "old"
    assert not files.exists()
    with pytest.raises(CannotCompare, match="git gave no files, or not all"):
        one._checked_out("0" * 40).__enter__()
    # A file that git has lost, whose place in the archive may be where another one ends.
    (folder / "objective.py").write_text("lost")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "y")
    blob = git(folder, "rev-parse", "HEAD:./objective.py")
    (tmp_path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(CannotCompare, match="git gave no files, or not all"):
        one._checked_out(one.commit()).__enter__()


@pytest.mark.nightly
def test_a_run_of_other_files_takes_their_package(tmp_path):
    """Not the one that is installed, nor that of the process that starts it."""
    for name in ("benchmark_dspdc", "datasets", "solvers", "plots"):
        shutil.copytree(REPO / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("objective.py", "config.yml"):
        shutil.copy(REPO / name, tmp_path / name)
    with (tmp_path / "benchmark_dspdc" / "bench" / "machine_speed.py").open("a") as file:
        file.write("\n\ndef reference_seconds():\n    return 12345.0\n")
    config = tmp_path / "my.yml"
    config.write_text(
        'objective: ["ERM"]\ndataset: ["Factorized[n=20,p=5,d=2]"]\nsolver: [FISTA]\n'
        "n-repetitions: 1\nmax-runs: 3\n"
    )
    ((file,),) = guard.Guarded([config], tmp_path).runs(1)
    frame = base.read_results([file])
    assert set(frame["objective_reference_seconds"]) == {12345.0}

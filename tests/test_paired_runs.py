"""Times, compared by paired runs of two commits: what is run, and what decides."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import copy_of_benchmark, git
from frames import ELASTIC, factorized, runs, seeds
from test_regress import FOUND, measured, plain, with_new

from benchmark_dspdc.cli import main
from benchmark_dspdc.guard import commit_runs
from benchmark_dspdc.guard.baseline import make_baseline, write_baseline
from benchmark_dspdc.guard.commit_runs import ConfigRuns, OtherCommit
from benchmark_dspdc.guard.comparison import WORSE, CannotCompare, Line
from benchmark_dspdc.guard.paired_runs import (
    ALLOWED,
    FEW,
    MOST,
    UNCLEAR,
    decide,
    pooled,
    suspects,
    time_lines,
)
from benchmark_dspdc.guard.result_figures import TIME

#: After how many pairs it is decided.
COUNTS = list(UNCLEAR)


# Which methods one run of each makes suspicious -----------------------------------------

def screened(*changes, problem="d"):
    """Lines of methods that are slower by so much in one run."""
    return [Line((problem, "o", f"s{k}"), TIME, 1.0, 1.0 + change, ALLOWED)
            for k, change in enumerate(changes)]


@pytest.mark.parametrize(("changes", "found"), [
    # A method alone is suspicious beside the others, however slow the machine was.
    ((0.0,) * 5, []), ((0.14,) * 5, []), ((-0.2,) * 5, []), ((0.05, 0, 0, 0, 0), []),
    ((0.12, 0, 0, 0, 0), [0]), ((0.0, -0.2, -0.2, -0.2, -0.2), [0]),
    # Of a problem whose methods are all slower the slowest are; what is beyond 20 % always is.
    ((0.16, 0.17, 0.18, 0.19, 0.16), [2, 3]), ((0.3,) * 5, [0, 1, 2, 3, 4]),
    # Among few there is no middle to compare with.
    ((0.11, 0.05, 0.12), [0, 2]), ((0.09, 0.0), []), ((math.inf, 0.0), [0]),
])
def test_what_seems_slow_in_one_run_of_each_is_looked_into(changes, found):
    assert FEW == 2
    assert suspects(screened(*changes)) == [("d", "o", f"s{k}") for k in found]


def test_of_many_that_seem_slow_the_slowest_are_looked_into():
    changes = [0.0] * 18 + [0.11 + 0.005 * k for k in range(15)]
    assert suspects(screened(*changes)) == [("d", "o", f"s{k}") for k in range(33 - MOST, 33)]


def test_one_run_of_each_rarely_misses_a_slowdown_of_30_per_cent():
    # Of 85 methods on 5 problems. Single runs vary by 14 %, of which 6 % are a method's own.
    rng, trials, missed, looked_into = np.random.default_rng(0), 200, 0, 0
    for _ in range(trials):
        lines = []
        for k in range(5):
            both = 0.126 * rng.standard_normal(2) @ [1, -1]
            noise = np.exp(both + 0.06 * rng.standard_normal((17, 2)) @ [1, -1])
            noise[0] *= 1.3 if k == 0 else 1.0
            lines += screened(*(noise - 1.0), problem=f"d{k}")
        found = suspects(lines)
        missed += ("d0", "o", "s0") not in found
        looked_into += len(found) / trials
    assert missed < 0.06 * trials and looked_into < 30


# What pairs decide ----------------------------------------------------------------------

SOLVERS = [f"SPDC[m={k + 1}]" for k in range(7)]
KEYS = [(factorized(), ELASTIC, solver) for solver in SOLVERS]


def field(factor=1.0, slower=1.0):
    """A result of seven methods, all with their times multiplied, the first once more."""
    return runs(*(
        own for k, solver in enumerate(SOLVERS) for own in seeds(
            solver, [0.1 * (k + 1) * factor * (slower if k == 0 else 1.0)] * 3, **FOUND
        )
    ))


class Side:
    """Made-up runs of a commit: `frame_of` has that of the n-th pair."""

    def __init__(self, frame_of, ran):
        self.frame_of, self.asked, self.ran = frame_of, [], ran

    def alone(self, keys):
        frame = self.frame_of(len(self.asked))
        self.asked.append([key[2] for key in keys])
        self.ran.append(self)
        return frame[frame["solver_name"].isin(self.asked[-1])]


def decided(then, now, keys, first=None):
    """The lines of some keys that pairs decide, the sides, the note and what was told."""
    ran, told = [], []
    then, now = Side(then, ran), Side(now, ran)
    found = pooled([field() if first is None else first], {})
    lines = time_lines(found, found)
    lines, note = decide(lines, keys, {}, then, now, "0123456789abcdef", told.append)
    return {line.key[2]: line for line in lines if line.key in keys}, then, now, note, told


def steady(slower=1.0):
    return lambda k: field(slower=slower)


def test_noise_goes_after_the_first_pairs_and_a_slower_method_stays():
    lines, then, now, note, told = decided(steady(), steady(1.3), KEYS[:3])
    assert [line.outcome == WORSE for line in lines.values()] == [True, False, False]
    assert lines[SOLVERS[0]].change == pytest.approx(0.3, abs=1e-3)
    # One side and the other alternately, which of them first as well.
    assert then.ran[:8] == [then, now, now, then] * 2
    assert then.asked == now.asked == (
        [SOLVERS[:3]] * COUNTS[0] + [SOLVERS[:1]] * (COUNTS[2] - COUNTS[0])
    )
    assert note == ("3 methods are compared by paired runs with commit 0123456789ab, as one run "
                    "seemed long; slower by more than 20%: 1")
    assert told == [
        f"{subject} perhaps slower, which may be noise: {count} pairs of runs with commit "
        "0123456789ab" for subject, count in zip(
            ["3 methods are"] + ["1 method is"] * 2, np.diff([0, *COUNTS[:3]]), strict=True
        )
    ]


@pytest.mark.parametrize(("slower", "count"), [
    (1.0, 3), (1.04, 3), (1.08, 6), (1.15, 10), (1.19, 10), (1.21, 16), (1.3, 10),
])
def test_the_clearer_a_time_the_fewer_the_pairs(slower, count):
    lines, then, *_ = decided(steady(), steady(slower), KEYS[:1])
    (line,) = lines.values()
    assert line.change == pytest.approx(slower - 1.0, abs=1e-3)
    assert (line.outcome == WORSE) == (slower > 1.0 + ALLOWED) and len(then.asked) == count


def test_one_undisturbed_run_of_each_side_is_enough():
    def disturbed(free, slower=1.0):
        return lambda k: field(1.0 if k == free else 1.6, slower)
    # The ratios of the pairs themselves are 1.6 twice, or 1.3 and one 0.8.
    lines, *_ = decided(disturbed(0), disturbed(2), KEYS[:1])
    assert lines[SOLVERS[0]].outcome != WORSE
    lines, *_ = decided(disturbed(2), disturbed(1, 1.3), KEYS[:1])
    assert lines[SOLVERS[0]].outcome == WORSE


def test_a_machine_that_becomes_slower_is_no_regression():
    # Today's runs come after the commit's in every pair here, at worst.
    lines, *_ = decided(
        lambda k: field(1.05**k), lambda k: field(1.05 ** (k + 0.5)), KEYS
    )
    assert not any(line.outcome == WORSE for line in lines.values())


def test_a_time_that_a_commit_alone_does_not_have_cannot_be_compared():
    key = (factorized(), ELASTIC, "Plain")
    with pytest.raises(CannotCompare, match="commit 0123456789ab has no time to 1e-6 of Plain on"):
        decided(lambda k: plain(to=1e-5), lambda k: plain(), [key], first=plain())
    lines, *_ = decided(lambda k: plain(), lambda k: plain(to=1e-5), [key], first=plain())
    assert lines["Plain"].outcome == WORSE and lines["Plain"].now == math.inf


# What is run ------------------------------------------------------------------------------

class Repository:
    """A repository with a benchmark in one of its folders, whose runs are made up.

    Attributes
    ----------
    here, there : DataFrame or Exception
        What a run of the work tree gives, and of another commit's files.
    ran : list of tuple
        Of each run of other files: what the commit's `objective.py` and its config say, and the
        options.
    """

    def __init__(self, folder, monkeypatch):
        self.outside, self.git = folder, folder / "repository" / ".git"
        self.folder, self.count = self.git.with_name("benchmark"), 0
        self.here = self.there = measured()
        self.ran, self.config = [], self.folder / "my.yml"
        (self.folder / "datasets").mkdir(parents=True)
        self.write("objective.py", "the baseline's")
        self.write("my.yml", "the baseline's")
        self.baseline = str(self.folder / "my.json")
        write_baseline(make_baseline([measured()]), self.baseline)
        git(self.git.parent, "init", "-q")
        self.commit()
        self.write("objective.py", "a later one's")
        self.commit()
        self.write("objective.py", "the work tree's")
        monkeypatch.setattr(commit_runs, "benchmark_folder", lambda: self.folder)
        monkeypatch.setattr(ConfigRuns, "_run", lambda *given: self.run(*given))

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def commit(self):
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "x")

    def run(self, side, config, name, options):
        self.count += 1
        frame = self.here
        if side.folder is not None:
            text = (side.folder / "objective.py").read_text()
            self.ran.append((text, config.read_text(), [*side.options[config], *options]))
            frame = self.there
        if callable(frame):
            frame = frame(name)
        # As benchopt does, beside what was run: a commit's files do not stay.
        file = (side.folder or self.outside) / f"result{self.count}.parquet"
        frame.to_parquet(file)
        return file

    def check(self, *options):
        out = self.outside / "out.json"
        code = main([
            "regress", "--run", str(self.config), "--baseline", self.baseline,
            "--json", str(out), *options,
        ])
        return code, json.loads(out.read_text())


@pytest.fixture
def repository(tmp_path, monkeypatch):
    return Repository(tmp_path, monkeypatch)


def times(found):
    return [row for row in found["figures"] if row["figure"].startswith("time")]


def worse(found):
    return [(row["solver"], row["figure"]) for row in found["figures"]
            if row["outcome"] == "worse"]


def test_times_are_those_of_the_commit_of_the_baseline_on_this_machine(repository, capsys):
    code, found = repository.check()
    assert code == 0 and len(times(found)) == 2 and found["notes"] == []
    # Its own files and config.
    assert repository.ran == [("the baseline's", "the baseline's", [])]
    commit = git(repository.folder, "rev-parse", "--short=12", "HEAD~1")
    assert f"those of commit {commit}, run on this machine" in capsys.readouterr().out
    # A machine that is slower for both is no regression.
    repository.here = repository.there = measured(time=2.0, spdc=2.0)
    code, found = repository.check()
    assert code == 0 and [row["change"] for row in times(found)] == [0.0, 0.0]
    # A commit that has only moved the baseline is not the one.
    git(repository.folder, "mv", "my.json", "moved name.json")
    repository.commit()
    repository.baseline = str(repository.folder / "moved name.json")
    assert repository.check()[0] == 0 and {text for text, *_ in repository.ran} == {
        "the baseline's"
    }


def test_a_slower_method_is_found_by_runs_of_it_alone(repository):
    repository.write("my.yml", "max-runs: 7\nn-repetitions: 3\n")
    repository.here = measured(spdc=1.3)
    code, found = repository.check()
    assert code == 1 and worse(found) == [("SPDC[m=1]", TIME)]
    assert found["notes"][0].startswith("1 method is compared by paired runs with commit")
    # Of its own config, which may lack what is new, with curves as long as those of today's.
    length = ["--max-runs", "7", "--n-repetitions", "3"]
    alone = ["-d", repository.here["dataset_name"].iloc[0], "-s", "SPDC[m=1]"]
    assert [options for _, _, options in repository.ran] == (
        [length] + [[*length, *alone]] * COUNTS[2]
    )
    assert {text for _, text, _ in repository.ran} == {"the baseline's"}
    # One run that was slow is not enough.
    repository.here = lambda name: measured(spdc=1.3 if name == "regress" else 1.0)
    assert repository.check()[0] == 0


def test_a_solver_without_passes_is_guarded_by_paired_runs(repository):
    repository.here = repository.there = plain()
    assert repository.check("--update")[0] == 0
    repository.commit()
    assert repository.check()[0] == 0
    for slow in (plain(time=3.0), plain(to=1e-5)):
        repository.here = slow
        code, found = repository.check()
        assert code == 1 and ("Plain", "time to 1e-6") in worse(found)
        assert repository.check("--work-only")[0] == 2


def test_where_work_is_worse_or_cannot_be_compared_no_other_commit_is_run(repository):
    repository.here = measured(passes=1.1)
    code, found = repository.check()
    assert code == 1 and repository.ran == []
    assert found["notes"] == ["times are not compared, as work is worse"]
    repository.there = repository.here
    code, found = repository.check("--time-only")
    assert code == 0 and len(times(found)) == len(found["figures"]) == 2
    repository.here, repository.ran = measured().assign(base_seed=4), []
    code, found = repository.check()
    assert code == 2 and "the seeds are others" in found["error"] and repository.ran == []


def test_a_config_is_run_as_of_the_commit_or_as_it_is_if_it_is_from_elsewhere(repository):
    # One that is newer than the commit is not run there.
    repository.config = repository.folder / "new.yml"
    repository.config.write_text("a new one")
    code, found = repository.check("--against", "HEAD")
    assert code == 0 and repository.ran == []
    assert times(found) == [] and len(found["figures"]) == 11
    assert found["notes"][0].startswith("2 methods are without a time at commit")
    assert repository.check("--against", "HEAD", "--time-only")[0] == 2
    repository.config = repository.outside / "other.yml"
    repository.config.write_text("another one")
    assert repository.check()[0] == 0
    assert repository.ran == [("the baseline's", "another one", [])]


def test_a_commit_can_be_given(repository, tmp_path):
    # Also for a baseline that no commit has.
    repository.baseline = str(shutil.copy(repository.baseline, tmp_path / "elsewhere.json"))
    repository.here = measured(spdc=1.3)
    code, found = repository.check()
    assert code == 0 and any("git knows no commit of" in note for note in found["notes"])
    assert repository.check("--against", "HEAD")[0] == 1
    assert {text for text, _, _ in repository.ran} == {"a later one's"}


@pytest.mark.parametrize("name", ["nowhere", "--all"])
def test_commits_that_there_are_not_are_told_before_anything_is_run(repository, name):
    code, found = repository.check(f"--against={name}")
    assert code == 2 and f"there is no commit '{name}' in" in found["error"]
    assert repository.count == 0


def failing(name):
    raise CannotCompare("it failed there")


@pytest.mark.parametrize(("change", "message"), [
    (lambda it: it.write("my.json", (it.folder / "my.json").read_text() + "\n"),
     "is not committed as it is"),
    (lambda it: (it.git / "shallow").write_text(git(it.folder, "rev-parse", "HEAD") + "\n"),
     "the clone is shallow"),
    (lambda it: shutil.rmtree(it.git), "git knows no commit of"),
    (lambda it: setattr(it, "there", failing), "it failed there"),
    # benchopt goes on without a solver that cannot be imported.
    (lambda it: setattr(it, "there", it.there[it.there["solver_name"] != "SPDC[m=1]"]),
     "1 method is without a time at commit"),
])
def test_where_the_commit_cannot_be_run_work_is_compared_and_the_reason_told(
    repository, change, message
):
    change(repository)
    repository.here = measured(spdc=40.0)
    code, found = repository.check()
    assert code == 0 and times(found) == [] and len(found["figures"]) == 11
    (note,) = found["notes"]
    assert note.startswith("times are not compared: ") and message in note
    assert repository.check("--time-only")[0] == 2
    if repository.there is failing:
        # For a commit that was named it is an error.
        code, found = repository.check("--against", "HEAD~1")
        assert code == 2 and found["error"].startswith("at commit ")


@pytest.mark.parametrize(("error", "code"), [(CannotCompare("x"), 2), (KeyboardInterrupt(), 130)])
def test_what_ends_paired_runs_leaves_a_suspicion_undecided(repository, error, code):
    def ends(name):
        if name == "regress_again":
            raise error
        return measured()
    repository.here, repository.there = measured(spdc=1.3), ends
    found = repository.check()
    assert found[0] == code and found[1]["figures"] == [] and found[1]["error"]


def test_what_is_new_since_the_commit_is_named_and_the_rest_compared(repository):
    repository.here = runs(with_new(), plain())
    assert repository.check("--update")[0] == 0
    repository.commit()
    code, found = repository.check("--against", "HEAD~1")
    assert code == 0
    (note, left) = found["notes"]
    assert note.startswith("2 methods are without a time") and "SDCA[m=1] on" in note
    # A solver that counts nothing is compared by nothing then.
    assert left.startswith("1 of 4 methods are left out") and "Plain on" in left
    assert {row["solver"] for row in times(found)} == {"DSPDC[m=1,q=1]", "SPDC[m=1]"}
    assert "SDCA[m=1]" in {row["solver"] for row in found["figures"]}
    # A method that counts passes now, and did not then, has no time in common.
    repository.there = repository.here.assign(objective_passes=math.nan)
    code, found = repository.check("--against", "HEAD~1")
    assert code == 0 and {row["solver"] for row in times(found)} == {"Plain"}


def test_the_files_of_a_commit_are_those_of_the_benchmarks_folder(repository):
    one, now = OtherCommit(repository.baseline, "HEAD"), ConfigRuns([])
    with one.checked_out(one.commit(), now) as then:
        assert (then.folder / "objective.py").read_text() == "a later one's"
    assert not then.folder.exists()
    # A file that git has lost, whose place in the archive may be where another one ends.
    blob = git(repository.folder, "rev-parse", "HEAD:./objective.py")
    (repository.git / "objects" / blob[:2] / blob[2:]).unlink()
    for commit in ("0" * 40, one.commit()):
        with pytest.raises(CannotCompare, match="git gave no files, or not all"):
            one.checked_out(commit, now).__enter__()


def test_methods_are_run_alone_by_the_config_that_had_them(tmp_path, monkeypatch):
    other, ran = ELASTIC.replace("0.01", "0.02"), []
    frames = {
        "a.yml": runs(*seeds("SPDC[m=1]", (0.1,), dataset=factorized(20), **FOUND)),
        # The same data with another objective, and other data of the same kind.
        "b.yml": runs(
            *seeds("SPDC[m=1]", (0.1,), dataset=factorized(20), objective=other, **FOUND),
            *seeds("SPDC[m=1]", (0.1,), dataset=factorized(30), **FOUND),
        ),
    }

    def run(side, config, name, options):
        ran.append((config.name, options))
        file = config.with_name(f"{len(ran)}.parquet")
        frames[config.name].to_parquet(file)
        return file
    monkeypatch.setattr(ConfigRuns, "_run", run)
    for name in frames:
        (tmp_path / name).write_text("dataset: [{Factorized: {n: 20}}]")
    side = ConfigRuns([tmp_path / name for name in frames])
    assert [len(frame) for frame in side.runs(2)] == [180, 180]
    ran.clear()
    side.alone([(factorized(n), objective, solver) for n, objective, solver in (
        (20, ELASTIC, "SPDC[m=1]"), (30, ELASTIC, "A"), (30, ELASTIC, "B"), (30, ELASTIC, "A"),
        (20, other, "C"), (40, ELASTIC, "A"),
    )])
    assert ran == [
        ("a.yml", ["-d", factorized(20), "-s", "SPDC[m=1]"]),
        ("b.yml", ["-d", factorized(30), "-s", "A", "-s", "B"]),
        ("b.yml", ["-d", factorized(20), "-s", "C"]),
    ]


@pytest.mark.nightly
def test_a_run_of_other_files_takes_their_package_whatever_its_layout(tmp_path):
    """Not the one that is installed, nor that of the process that starts it."""
    bench = copy_of_benchmark(tmp_path) / "benchmark_dspdc" / "bench"
    (bench / "failure_notes.py").unlink()
    with (bench / "machine_speed.py").open("a") as file:
        file.write("\n\ndef reference_seconds():\n    return 12345.0\n")
    config = tmp_path / "my.yml"
    config.write_text(
        'objective: ["ERM"]\ndataset: ["Factorized[n=20,p=5,d=2]"]\nsolver: [FISTA]\n'
        "n-repetitions: 1\nmax-runs: 3\n"
    )
    (frame,) = ConfigRuns([Path(config)], tmp_path).runs(1)
    assert set(frame["objective_reference_seconds"]) == {12345.0}

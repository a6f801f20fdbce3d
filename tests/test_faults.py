"""Runs that are stopped, killed or starved, with the real fault each time.

Most take a process and seconds of waiting, and run nightly; by day there is one of each kind.
"""

import bz2
import contextlib
import functools
import http.server
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import (
    REPO,
    assert_same_rows,
    benchopt,
    copy_of_benchmark,
    edited,
    make_problem,
)
from frames import curve, runs

from benchmark_dspdc import solve
from benchmark_dspdc.bench import benchopt_process as running
from benchmark_dspdc.cli import SOLVERS_FAILED
from benchmark_dspdc.data import libsvm, libsvm_text
from benchmark_dspdc.engine import cache_dirs as places
from benchmark_dspdc.report.results import GAP, medians, read_results, rows_of, to_targets

#: Two curves that take no time and two that would take for ever.
CONFIG = {
    "objective": [
        "ERM[loss=smoothed_hinge,lambda1=0.001,lambda2=0.01]",
        "ERM[loss=smoothed_hinge,lambda1=0,lambda2=0.000000001]",
    ],
    "dataset": ["Factorized[n=300,p=30,d=8]"], "solver": ["SDCA[order=random]"],
    "n-repetitions": 2, "max-runs": 100000, "timeout": 300,
}
CURVE = ["dataset_name", "objective_name", "solver_name", "idx_rep"]

SHORT = CONFIG | {"objective": CONFIG["objective"][:1], "n-repetitions": 3, "max-runs": 400}

#: So many curves that some are left whenever it is killed.
MANY = SHORT | {"n-repetitions": 8}


def processes(word):
    """The ids of processes that were started with a word."""
    found = subprocess.run(["pgrep", "-f", word], capture_output=True, text=True)
    return [int(number) for number in found.stdout.split()]


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Place:
    """A config, a cache and a name for result files of a test's own."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.name = f"test_{os.getpid()}_{folder.name}"
        self.log = folder / "log"

    def command(self, config=CONFIG):
        file = self.folder / "config.yml"
        file.write_text(yaml.safe_dump(config))
        return ["benchmark_dspdc", "run", "--config", str(file), "--name", self.name, "--",
                "--no-plot"]

    def start(self, *command):
        with self.log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", *command], cwd=REPO, start_new_session=True, stdout=output,
                stderr=output, env=os.environ | {"PYTHONUNBUFFERED": "1"},
                # Tests that run in the background may ignore what this one must hear.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def run(self, config, *options):
        """The rows of a run to its end."""
        before = {*self.files}
        assert self.start(*self.command(config), *options).wait(120) == 0, self.said
        (file,) = {*self.files} - before
        return pd.read_parquet(file)

    def compile(self):
        # Code just compiled was seen to differ from that in the cache in the last bits of sums.
        self.run(SHORT, "--no-cache", "--n-repetitions", "1")
        self.end_all()

    @property
    def said(self):
        return self.log.read_text(errors="replace")

    @property
    def files(self):
        return [*(REPO / "outputs").glob(f"{self.name}*.parquet")]

    @property
    def finished(self):
        """How many curves benchopt's cache has."""
        return len([*self.cache.rglob("output.pkl")])

    def end_all(self):
        for number in processes(self.name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for file in self.files:
            file.unlink()


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path)
    monkeypatch.setenv("BENCHOPT_CACHE", str(made.cache))
    # Compiled once, so that curves begin soon.
    solve(make_problem("factorized"), "sdca", order="random", max_passes=2)
    yield made
    # Whatever became of the test, nothing goes on behind it.
    made.end_all()


def in_own_namespace(mounts, *command, after="true", **environment):
    """Run a command with file systems of its own mounted, as root or as one in a namespace.

    After it comes another one of the shell, which sees them too.
    """
    script = " && ".join([*mounts, f'"$@"; code=$?; {after}; exit $code'])
    root = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return subprocess.run(
        ["unshare", *root, "--mount", "sh", "-c", script, "sh", sys.executable, "-m", *command],
        cwd=REPO, env=os.environ | environment, capture_output=True, text=True, timeout=300,
    )


# On Linux they fail where mounting is forbidden, rather than be skipped unseen; what allows it is
# in .github/workflows/tests.yml.
def in_a_namespace(test):
    linux = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces of Linux")
    return pytest.mark.nightly(linux(test))


# Stopped and killed -----------------------------------------------------------------

def send(number, times=1):
    def stop(process, place):
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.3)
    return stop


def kill_benchopt(process, place):
    (number,) = {*processes(place.name)} - {process.pid}
    os.kill(number, signal.SIGKILL)


def nightly(*values, **options):
    return pytest.param(*values, marks=pytest.mark.nightly, **options)


@pytest.mark.parametrize(("stop", "options", "code"), [
    pytest.param(send(signal.SIGINT), ["--no-cache"], 130, id="Ctrl-C"),
    nightly(send(signal.SIGINT, 2), ["--no-cache"], 130, id="two Ctrl-C"),
    nightly(send(signal.SIGINT), ["--no-cache", "-j", "2"], 130, id="Ctrl-C, two workers"),
    nightly(send(signal.SIGTERM), [], 143, id="SIGTERM"),
    nightly(kill_benchopt, ["--no-cache", "-j", "2"], 137, id="benchopt is killed"),
])
def test_a_run_that_is_stopped_keeps_what_was_measured(place, stop, options, code):
    run = place.start(*place.command(), *options)
    wait_until(lambda: place.finished >= 2 or run.poll() is not None)
    time.sleep(0.5)
    stop(run, place)
    assert run.wait(120) == code, place.said
    assert len(place.files) == 1, place.said
    (file,) = place.files
    kept = pd.read_parquet(file)
    assert kept.groupby(CURVE).ngroups == 2
    assert (kept.groupby(CURVE)["objective_relative_gap"].last() <= 1e-8).all()
    assert file.name in place.said.replace("\n", "")
    assert kept[running.COMMIT].nunique() == kept[running.STARTED].nunique() == 1
    assert ("benchopt was ended by SIGKILL; memory may" in place.said) == (stop is kill_benchopt)
    assert not processes(place.name)
    if "--no-cache" in options:
        assert not [*place.cache.iterdir()]


@pytest.mark.parametrize("number, hint", [
    (signal.SIGKILL, "SIGKILL; memory may have run out"), (signal.SIGSEGV, "SIGSEGV"),
])
def test_a_signal_that_ended_benchopt_is_named_and_curves_are_collected(
        tmp_path, monkeypatch, capfd, number, hint):
    real, calls = running._stoppable, []
    ends = [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})"]

    def stoppable(command, *rest):
        calls.append(command)
        return real(ends if len(calls) == 1 else [sys.executable, "-c", ""], *rest)
    monkeypatch.setattr(running, "_stoppable", stoppable)
    before = signal.getsignal(signal.SIGTERM)
    assert running.benchopt_run(tmp_path, [], "name") == running.Run(None, 128 + number)
    assert [command[-2:] for command in calls[1:]] == [["--collect", "--no-plot"]]
    assert capfd.readouterr().err == f"benchmark_dspdc: benchopt was ended by {hint}\n"
    # SIGTERM means again what it did.
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_run_without_a_cache_has_an_empty_one_that_is_removed(tmp_path, monkeypatch, capfd):
    """With a benchopt that finishes a curve and cannot write a result file."""
    monkeypatch.delenv("BENCHOPT_CACHE", raising=False)
    seen = set()

    def stoppable(command, folder, environment, *rest):
        assert "--no-cache" not in command
        cache = Path(environment["BENCHOPT_CACHE"])
        assert cache.parent == tmp_path / "__cache__" and not [*cache.iterdir()]
        seen.add(cache)
        (cache / "output.pkl").touch()
        return 1, False
    monkeypatch.setattr(running, "_stoppable", stoppable)
    for _ in range(2):
        done = running.benchopt_run(tmp_path, ["--no-cache", "-j", "2"], "name")
        assert done == running.Run(None, 1)
        assert "no result file was written" in capfd.readouterr().err
    assert len(seen) == 2 and not [*(tmp_path / "__cache__").iterdir()]


@pytest.mark.parametrize("collected", [True, False])
def test_half_a_result_file_of_a_benchopt_that_was_killed_is_removed(
        tmp_path, monkeypatch, capfd, collected):
    def stoppable(command, folder, *rest):
        stem = command[command.index("--output") + 1]
        whole = folder / "outputs" / f"{stem}_1.parquet"
        pd.DataFrame({"time": [1.0]}).to_parquet(whole)
        if "--collect" not in command:
            content = whole.read_bytes()
            whole.with_name(f"{stem}.parquet").write_bytes(content[:len(content) // 2])
        if "--collect" not in command or not collected:
            whole.unlink()
        return 137, False
    monkeypatch.setattr(running, "_stoppable", stoppable)
    done = running.benchopt_run(tmp_path, [], "name")
    left = [*(tmp_path / "outputs").iterdir()]
    assert left == ([done.file] if collected else [])
    assert capfd.readouterr().err.count("was not written to its end and is removed") == 1


@pytest.mark.nightly
def test_a_run_that_hears_nothing_is_killed_with_what_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GRACE", 0.5)
    word = f"deaf-{os.getpid()}"
    deaf = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', *sys.argv[1:]])\n"
        "time.sleep(99)\n"
    )
    command = [sys.executable, "-c", deaf, word]
    assert running._stoppable(command, tmp_path, {}, 3.0) == (137, True)
    wait_until(lambda: not processes(word))


@pytest.mark.nightly
def test_a_run_that_is_late_is_stopped_and_keeps_what_was_measured(place):
    arguments = [*place.command()[2:4], "--no-plot"]
    begun = time.monotonic()
    done = running.benchopt_run(REPO, arguments, place.name, 30.0)
    assert done.late
    assert time.monotonic() - begun < 30.0 + 2 * running.GRACE
    assert done.file is not None, place.finished
    assert pd.read_parquet(done.file).groupby(CURVE).ngroups == place.finished == 2


@pytest.mark.nightly
def test_a_killed_run_goes_on_from_the_cache_and_ends_with_the_same_figures(place):
    place.compile()
    run = place.start(*place.command(MANY))
    wait_until(lambda: place.finished >= 1 or run.poll() is not None)
    run.kill()
    run.wait()
    if sys.platform == "linux":
        # benchopt, a process of its own, ends with the one that was killed.
        wait_until(lambda: not processes(place.name))
    assert not place.files
    place.end_all()
    before = {file: file.stat().st_mtime_ns for file in place.cache.rglob("output.pkl")}
    assert 0 < len(before) < MANY["n-repetitions"]
    found = place.run(MANY)
    # What was finished is not run again, be it under another name.
    assert before == {file: file.stat().st_mtime_ns for file in before}
    assert place.finished == MANY["n-repetitions"]
    assert_same_rows(found, place.run(MANY, "--no-cache"))


@pytest.mark.nightly
def test_runs_at_once_in_one_checkout_have_the_same_figures(place):
    place.compile()
    # Of two with one cache the slower may take all curves from the other; the third takes none.
    options = ((), (), ("--no-cache",))
    for run in [place.start(*place.command(SHORT), *more) for more in options]:
        assert run.wait(120) == 0, place.said
    one, two, three = map(pd.read_parquet, place.files)
    assert_same_rows(one, two)
    assert_same_rows(one, three)


# Disks ------------------------------------------------------------------------------

@in_a_namespace
def test_a_full_disk_loses_no_curve(place):
    (REPO / "outputs").mkdir(exist_ok=True)
    done = in_own_namespace(
        ["mount -t tmpfs -o size=16k none outputs"], *place.command(SHORT),
        after="echo there is:; ls -A outputs",
    )
    assert done.returncode != 0
    assert "no result file was written" in done.stderr, done.stderr[-2000:]
    assert done.stdout.endswith("there is:\n")
    assert place.finished == 3
    assert place.run(SHORT).groupby(CURVE).ngroups == 3


@in_a_namespace
@pytest.mark.parametrize(("command", "room", "name"), [
    ("figure", "8k", "gaps.png"), ("figure", "8k", "gaps.svg"), ("report", "32k", ""),
])
def test_a_full_disk_leaves_what_was_there_before(tmp_path, command, room, name):
    file, target = tmp_path / "run.parquet", tmp_path / "written"
    runs(curve("SPDC[m=1]", 0.1)).to_parquet(file)
    target.mkdir()
    before = name or "index.html"
    done = in_own_namespace(
        [f"mount -t tmpfs -o size={room} none '{target}'", f"echo before > '{target / before}'"],
        "benchmark_dspdc", command, str(file), "-o", str(target / name),
        after=f"echo there is:; ls -A '{target}'; cat '{target / before}'",
    )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout.endswith(f"there is:\n{before}\nbefore\n")


@in_a_namespace
def test_a_home_and_a_checkout_that_cannot_be_written(place, monkeypatch):
    home, elsewhere = place.folder / "home", place.folder / "tmp"
    home.mkdir(), elsewhere.mkdir()
    for name in ("BENCHOPT_CACHE", "BENCHMARK_DSPDC_CACHE", "XDG_CACHE_HOME", "LIBSVMDATA_HOME",
                 "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    data = place.folder / "little.txt"
    data.write_text("+1 1:0.5 2:1\n-1 1:-0.5\n" * 20)
    mounts = [
        f"mount -t tmpfs -o ro none '{home}'", f"mount --bind '{REPO}' '{REPO}'",
        f"mount -o remount,ro,bind '{REPO}'", f"cd '{REPO}'",
    ]
    there = dict(HOME=str(home), TMPDIR=str(elsewhere), PYTHONDONTWRITEBYTECODE="1")
    done = in_own_namespace(
        mounts, "benchmark_dspdc", "import-libsvm", "little", str(data), **there
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stderr and "LIBSVMDATA_HOME" in done.stderr
    # Everything is compiled anew there, so a method with little to compile.
    config = SHORT | {"dataset": ["LIBSVM[name=little]"], "solver": ["FISTA"], "n-repetitions": 1}
    done = in_own_namespace(mounts, *place.command(config), **there)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (f"{home}/.cache/benchmark_dspdc cannot be written; compiled kernels go to "
            f"{elsewhere}/") in done.stderr
    assert done.stderr.count("cannot be written; results go to") == 1
    assert done.stderr.count("cannot be written; finished curves are kept in") == 1
    (file,) = elsewhere.rglob("*.parquet")
    assert pd.read_parquet(file).groupby(CURVE).ngroups == 1
    assert [*elsewhere.rglob("*.nbc")] and [*elsewhere.rglob("output.pkl")]


def test_looking_for_data_makes_no_folder(tmp_path, monkeypatch, home):
    fallback = functools.cache(places.fallback_home.__wrapped__)
    monkeypatch.setattr(places, "fallback_home", fallback)
    monkeypatch.setattr(libsvm, "fallback_home", fallback)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert not libsvm.is_cached("little")
    assert not [*tmp_path.iterdir()]
    # What an earlier process has put there is found.
    home.parent.mkdir()
    home.write_text("no folder")
    (tmp_path / "little.txt").write_text("1 1:1\n2 1:2\n")
    with pytest.warns(UserWarning, match="cannot be written; data go to"):
        libsvm.import_file("little", tmp_path / "little.txt")
    fallback.cache_clear()
    assert libsvm.is_cached("little")


def test_a_folder_that_others_can_fill_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usual = tmp_path / f"benchmark_dspdc-{os.getuid()}"
    usual.mkdir()
    usual.chmod(0o777)
    taken = places.fallback_home.__wrapped__()
    assert taken != usual and taken.stat().st_mode & 0o777 == 0o700
    usual.rmdir()
    usual.symlink_to(taken)
    assert places.fallback_home.__wrapped__() != usual
    usual.unlink()
    assert places.fallback_home.__wrapped__() == usual


# Downloads --------------------------------------------------------------------------

class Cut(http.server.BaseHTTPRequestHandler):
    """Promises a file, sends half of it and hangs up, until it is told to send all."""

    body, whole = b"", False

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        end = len(self.body) if self.whole else self.body.index(b"\n", len(self.body) // 2) + 1
        self.wfile.write(self.body[:end])
        self.wfile.flush()
        self.connection.close()

    def log_message(self, *words):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    # Half of it is a good file too.
    text = "".join(f"{(-1) ** k:+d} {k % 7 + 1}:{0.5 + k % 3} 9:1\n" for k in range(4000))
    monkeypatch.setattr(Cut, "body", text.encode())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut) as running_server:
        threading.Thread(target=running_server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{running_server.server_port}/little"
        monkeypatch.setattr(
            type(libsvm._table()["a9a"]), "dataset_url", property(lambda self: address)
        )
        monkeypatch.setenv("LIBSVMDATA_HOME", str(tmp_path / "data"))
        yield Cut
        running_server.shutdown()


def test_a_download_that_is_cut_leaves_nothing_and_can_be_made_again(
        server, tmp_path, monkeypatch):
    for _ in range(2):
        with pytest.raises(OSError, match="its download failed"):
            libsvm.raw("a9a")
        assert not libsvm.is_cached("a9a")
        assert [*(tmp_path / "data" / "libsvm").iterdir()] == []
    monkeypatch.setattr(server, "whole", True)
    X, y = libsvm.raw("a9a")
    assert X.shape[0] == len(y) == 4000


def test_a_download_that_unpacks_to_too_much_is_given_up(server, tmp_path, monkeypatch):
    """Before all of it is on the disk, where libsvmdata would unpack it."""
    monkeypatch.setattr(server, "whole", True)
    monkeypatch.setattr(libsvm_text, "RATIO_SLACK", 2**16)
    monkeypatch.setattr(server, "body", bz2.compress(server.body))
    assert libsvm.raw("rcv1.binary").X.shape == (4000, 47236)
    monkeypatch.setattr(server, "body", bz2.compress(b"1 1:1\n2 1:1\n" * 10**6))
    before = {*(tmp_path / "data" / "libsvm").iterdir()}
    with pytest.raises(OSError, match="its download failed: .* unpacks to too much: got .* "
                       "bytes from .* import-libsvm real-sim FILE") as refused:
        libsvm.raw("real-sim")
    assert int(re.search("got ([0-9]+) bytes", str(refused.value))[1]) < 10**6
    assert {*(tmp_path / "data" / "libsvm").iterdir()} == before


# Solvers that fail ------------------------------------------------------------------

FAILURES = {
    "Raises": "if self.problem.shape[0] == 300: raise RuntimeError('no luck')",
    "RaisesEverywhere": "raise RuntimeError('no luck')",
    "Nan": "self.factor = float('nan')", "Diverges": "self.factor = 2.0",
}
BROKEN = """
from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    name = "NAME"
    method = "sdca"
    parameters = {"order": ["random"]}

    def run(self, callback):
        self.calls, self.factor = 0, 1.0

        def soon():
            # The other one has come to 1e-2 by then.
            if self.calls == 95:
                FAILS
            self.calls += 1
            return callback()
        super().run(soon)

    def get_result(self):
        found = super().get_result()
        return found | dict(x=found["x"] * self.factor**self.calls)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A run of a copy with some more solvers, as fast as another until they fail.

    Its exit code, the result file, and what it said.
    """
    folder = copy_of_benchmark(tmp_path_factory.mktemp("copy"))
    for name, fails in FAILURES.items():
        text = BROKEN.replace("NAME", name).replace("FAILS", fails)
        (folder / "solvers" / f"{name}.py").write_text(text)
    config = folder / "failing.yml"
    config.write_text(yaml.safe_dump({
        "objective": ["ERM[lambda1=0.001,lambda2=0.01]"],
        "dataset": ["Factorized[n=300,p=30,d=8]", "Factorized[n=200,p=30,d=8]"],
        "solver": [*FAILURES, "SDCA[order=random]"], "max-runs": 120,
    }))
    done = subprocess.run(
        [sys.executable, "-m", "benchmark_dspdc", "run", "--config", config, "--", "--no-plot",
         "--no-cache"], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(folder)},
    )
    (file,) = (folder / "outputs").glob("*.parquet")
    return done.returncode, file, done.stdout + done.stderr


def test_solvers_that_diverge_are_named_and_never_win(failing):
    _, output, said = failing
    diverging = ("Nan", "Diverges")
    assert "Nan diverged: its gap is not a finite number any more" in said
    assert "Diverges diverged" not in said
    frame = read_results([output])
    assert set(frame["solver_name"]) == {"SDCA[m=1,order=random]", "Raises"}
    (note,) = [k for k in frame.attrs["notes"] if "4 runs diverged and are left out: " in k]
    assert all(f"{name} on" in note for name in diverging)
    # benchopt's own page has the file as it is.
    raw = pd.read_parquet(output)
    for name in diverging:
        broken = raw[raw["solver_name"].str.startswith(name)]
        assert (broken.groupby("dataset_name")[GAP].min() < 1e-2).all()
        assert np.isfinite(broken[GAP]).all() == (name == "Diverges")
    for key, _ in raw.groupby(["dataset_name", "objective_name"]):
        assert not rows_of(raw, *key)["solver_name"].str.startswith(diverging).any()
    seconds = medians(to_targets(raw, [1e-2]))["seconds to 1e-02"]
    for (_, _, solver), value in seconds.items():
        assert np.isinf(value) == solver.startswith(diverging)


def test_solvers_that_raise_are_named_by_the_command_and_in_the_report(failing):
    code, output, said = failing
    assert code == SOLVERS_FAILED == 3
    assert "RuntimeError: no luck" in said
    # The last words, once for each problem.
    failed = [line for line in said.splitlines() if line.startswith("failed: ")]
    assert len([line for line in failed if "RaisesEverywhere on" in line]) == 2
    (alone,) = [line for line in failed if "Raises on" in line]
    assert "n=300" in alone
    # A curve that has no number any more is there, and is no failure.
    assert len(failed) == 3
    frame = read_results([output])
    (named,) = [note for note in frame.attrs["notes"] if "no result of 1 pairs" in note]
    assert "failed: Raises on" in named and "n=300" in named
    # Where it worked it is compared.
    found = frame.groupby("solver_name")["dataset_name"].nunique()
    assert found.to_dict() == {"Raises": 1, "SDCA[m=1,order=random]": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory, of Linux")
def test_notes_on_solvers_that_fail_are_on_no_disk():
    with running._open_notes() as notes:
        assert os.readlink(f"/proc/self/fd/{notes.fileno()}").startswith("/memfd:")
        os.write(notes.fileno(), b"S on D, O\nS on D, O\nS on D")
        assert running._failed(notes) == ("S on D, O",)


# Stale results ----------------------------------------------------------------------

@pytest.mark.nightly
def test_a_curve_of_other_sources_is_never_taken_from_the_cache(tmp_path):
    """In a copy whose step size is edited between two runs; of which rooms that holds is in
    tests/test_jit.py."""
    folder, cache = copy_of_benchmark(tmp_path / "copy"), tmp_path / "cache"
    config, output = tmp_path / "config.yml", tmp_path / "run.parquet"
    config.write_text(yaml.safe_dump(SHORT | {
        "solver": ["FISTA"], "n-repetitions": 1, "max-runs": 5,
    }))

    def run():
        benchopt(
            "run", ".", "--config", config, "--output", output, "--no-plot", folder=folder,
            BENCHOPT_CACHE=str(cache), PYTHONPATH=str(folder),
        )
        found = pd.read_parquet(output)
        output.unlink()
        return found, len([*cache.rglob("output.pkl")])

    (first, _), (again, entries) = run(), run()
    # From the cache, times and all.
    pd.testing.assert_series_equal(first["time"], again["time"], check_exact=True)
    assert entries == 1
    fista = folder / "benchmark_dspdc" / "methods" / "fista.py"
    with edited(fista, "min(1.0 / self._L, ", "min(0.9 / self._L, "):
        other, entries = run()
    assert entries == 2
    assert (other["objective_value"].iloc[1:] != first["objective_value"].iloc[1:]).all()

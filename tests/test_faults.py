"""Runs that are stopped, killed or starved, with the real fault each time."""

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPO, make_problem

from benchmark_dspdc import running, solve
from benchmark_dspdc.data import libsvm
from benchmark_dspdc.report.results import read_results

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


class Place:
    """A config, a cache and a name for result files of a test's own."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.name = f"test_{os.getpid()}_{folder.name}"
        self.config = folder / "config.yml"

    def command(self, config=CONFIG):
        self.config.write_text(yaml.safe_dump(config))
        return ["benchmark_dspdc", "run", "--config", str(self.config), "--name", self.name,
                "--", "--no-plot"]

    @property
    def files(self):
        return [*(REPO / "outputs").glob(f"{self.name}*.parquet")]

    @property
    def finished(self):
        """How many curves benchopt's cache has."""
        return len([*self.cache.rglob("output.pkl")])


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path)
    monkeypatch.setenv("BENCHOPT_CACHE", str(made.cache))
    # Compiled once, so that curves begin soon.
    solve(make_problem("factorized"), "sdca", order="random", max_passes=2)
    yield made
    # Whatever became of the test, nothing goes on behind it.
    subprocess.run(["pkill", "-KILL", "-f", made.name], check=False)
    for file in made.files:
        file.unlink()


class Watched:
    """A command whose output is waited for."""

    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=REPO, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
            # Tests that run in the background may ignore what this one must hear.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.text = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while piece := os.read(self.process.stdout.fileno(), 4096):
            self.text += piece.decode(errors="replace")

    def until(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end and self.process.poll() is None, self.text[-3000:]
            time.sleep(0.02)

    def end(self, seconds=120):
        code = self.process.wait(seconds)
        self.reader.join(10)
        return code


def curves(file):
    """The rows of a result file that are the same on every run."""
    frame = pd.read_parquet(file).sort_values([*CURVE, "stop_val"]).reset_index(drop=True)
    same = [c for c in frame if c.startswith("objective_") and c != "objective_reference_seconds"]
    return frame[[*CURVE, "stop_val", *(c for c in same if c != "objective_name")]]


def in_own_namespace(mounts, *command, **environment):
    """Run a command with file systems of its own mounted, as root or as one in a namespace."""
    script = " && ".join([*mounts, 'exec "$@"'])
    root = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return subprocess.run(
        ["unshare", *root, "--mount", "sh", "-c", script, "sh", sys.executable, "-m", *command],
        cwd=REPO, env=os.environ | environment, capture_output=True, text=True, timeout=300,
    )


namespaces = pytest.mark.skipif(
    sys.platform != "linux" or subprocess.run(
        ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--mount",
         "true"], capture_output=True, check=False,
    ).returncode != 0, reason="needs Linux and the right to mount in a namespace",
)


# Stopped and killed -----------------------------------------------------------------

def test_ctrl_c_keeps_what_was_measured(place):
    run = Watched(*place.command())
    run.until(lambda: place.finished >= 2)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130, run.text
    (file,) = place.files
    kept = pd.read_parquet(file)
    assert kept.groupby(CURVE).ngroups == 2
    assert (kept.groupby(CURVE)["objective_relative_gap"].last() <= 1e-8).all()
    assert file.name in run.text.replace("\n", "")


def test_a_run_that_is_late_is_stopped_and_keeps_what_was_measured(place):
    place.command()
    arguments = ["--config", str(place.config), "--no-plot"]
    begun = time.monotonic()
    done = running.benchopt_run(REPO, arguments, place.name, 15.0)
    assert done.late
    assert time.monotonic() - begun < 15.0 + 2 * running.GRACE
    assert done.file is not None, place.finished
    assert pd.read_parquet(done.file).groupby(CURVE).ngroups == place.finished == 2


def test_a_killed_run_goes_on_from_the_cache_and_ends_with_the_same_figures(place):
    run = Watched(*place.command(SHORT))
    run.until(lambda: place.finished >= 1)
    os.killpg(run.process.pid, signal.SIGKILL)
    subprocess.run(["pkill", "-KILL", "-f", place.name], check=False)
    run.end()
    before = {file: file.stat().st_mtime_ns for file in place.cache.rglob("output.pkl")}
    assert not place.files
    again = Watched(*place.command(SHORT))
    assert again.end() == 0, again.text
    # What was finished is not run again.
    assert before and before == {file: file.stat().st_mtime_ns for file in before}
    (file,) = place.files
    found = curves(file)
    file.unlink()
    fresh = Watched(*place.command(SHORT), "--no-cache")
    assert fresh.end() == 0, fresh.text
    pd.testing.assert_frame_equal(found, curves(*place.files))


def test_two_runs_at_once_in_one_checkout(place):
    both = [Watched(*place.command(SHORT)) for _ in range(2)]
    for run in both:
        assert run.end() == 0, run.text
    one, two = map(curves, place.files)
    pd.testing.assert_frame_equal(one, two)


# Disks ------------------------------------------------------------------------------

@namespaces
def test_a_full_disk_loses_no_curve(place):
    (REPO / "outputs").mkdir(exist_ok=True)
    done = in_own_namespace(
        ["mount -t tmpfs -o size=16k none outputs"], *place.command(SHORT)
    )
    assert done.returncode != 0
    assert "no result file was written" in done.stderr, done.stderr[-2000:]
    assert place.finished == 3
    again = Watched(*place.command(SHORT))
    assert again.end() == 0, again.text
    assert curves(*place.files).groupby(CURVE).ngroups == 3


@namespaces
def test_a_full_disk_leaves_no_half_report(place):
    assert Watched(*place.command(SHORT)).end() == 0
    (file,) = place.files
    target = place.folder / "report"
    target.mkdir()
    done = in_own_namespace(
        [f"mount -t tmpfs -o size=256k none '{target}'", f"trap 'ls -A {target}' EXIT", "true"],
        "benchmark_dspdc", "report", str(file), "-o", str(target),
    )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr


@namespaces
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
    config = SHORT | {"dataset": ["LIBSVM[name=little]"], "n-repetitions": 1}
    done = in_own_namespace(mounts, *place.command(config), **there)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stderr.count("cannot be written; results go to") == 1
    assert done.stderr.count("cannot be written; finished curves are kept in") == 1
    (file,) = elsewhere.rglob("*.parquet")
    assert pd.read_parquet(file).groupby(CURVE).ngroups == 1
    assert [*elsewhere.rglob("*.nbi")] and [*elsewhere.rglob("output.pkl")]


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut"])
def test_a_damaged_cache_of_kernels_is_compiled_anew(tmp_path, damage):
    def run():
        return subprocess.run(
            [sys.executable, "-c", "from benchmark_dspdc.reference import reference_seconds\n"
             "print(reference_seconds() > 0)"],
            cwd=REPO, env=os.environ | {"BENCHMARK_DSPDC_CACHE": str(tmp_path)},
            capture_output=True, text=True, check=True,
        )
    run()
    files = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert len(files) == 2
    for file in files:
        half = file.read_bytes()[:file.stat().st_size // 2]
        file.write_bytes({"garbage": bytes(range(256)) * 9, "empty": b"", "cut": half}[damage])
    second = run()
    assert second.stdout == "True\n"
    assert "is damaged" in second.stderr and "compiling anew" in second.stderr
    # And it is mended.
    assert run().stderr == ""


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


def test_a_download_that_is_cut_leaves_nothing_and_can_be_made_again(server, tmp_path):
    for _ in range(2):
        with pytest.raises(OSError, match="its download failed"):
            libsvm.raw("a9a")
        assert not libsvm.is_cached("a9a")
        assert [*(tmp_path / "data" / "libsvm").iterdir()] == []
    server.whole = True
    X, y = libsvm.raw("a9a")
    assert X.shape[0] == len(y) == 4000
    server.whole = False


# Solvers that fail ------------------------------------------------------------------

@pytest.mark.parametrize("how", ["raises", "nan"])
def test_a_solver_that_fails_is_named_and_never_wins(tmp_path, how):
    """In a copy with one more solver, which is as fast as another until it fails."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("benchmark_dspdc", "datasets", "plots"):
        (folder / name).symlink_to(REPO / name)
    (folder / "solvers").mkdir()
    for name in ("objective.py", "config.yml", "solvers/sdca.py"):
        shutil.copy(REPO / name, folder / name)
    fail = {
        "raises": "raise RuntimeError('no luck')",
        "nan": "self.broken = True",
    }[how]
    (folder / "solvers" / "broken.py").write_text(f"""
from benchmark_dspdc.plugins import MethodSolver


class Solver(MethodSolver):
    name = "Broken"
    method = "sdca"
    parameters = {{"order": ["random"]}}
    broken = False

    def run(self, callback):
        def soon():
            if getattr(self, "calls", 0) == 30:
                {fail}
            self.calls = getattr(self, "calls", 0) + 1
            return callback()
        super().run(soon)

    def get_result(self):
        found = super().get_result()
        return found | dict(x=found["x"] * float("nan")) if self.broken else found
""")
    config = {
        "objective": ["ERM[lambda1=0.001,lambda2=0.01]"],
        "dataset": ["Factorized[n=300,p=30,d=8]", "Factorized[n=200,p=30,d=8]"],
        "solver": ["Broken", "SDCA[order=random]"], "max-runs": 400,
    }
    (tmp_path / "config.yml").write_text(yaml.safe_dump(config))
    output = tmp_path / "result.parquet"
    done = subprocess.run(
        [sys.executable, "-m", "benchopt", "run", str(folder), "--config",
         str(tmp_path / "config.yml"), "--output", str(output), "--no-plot", "--no-cache"],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    said = done.stdout + done.stderr
    assert ("no luck" in said and "error" in said) if how == "raises" else "diverged" in said
    frame = read_results([output])
    assert set(frame["solver_name"]) == {"SDCA[m=1,order=random]"}
    if how == "nan":
        assert np.isnan(pd.read_parquet(output)["objective_relative_gap"]).any()
        assert "2 runs diverged and are left out: Broken" in frame.attrs["notes"][0]

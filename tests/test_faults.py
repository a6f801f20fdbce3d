"""Runs that are stopped, killed or starved, with the real fault each time."""

import os
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest
import yaml
from conftest import REPO, make_problem

from benchmark_dspdc import running, solve

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


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A name for result files, with a cache and a config of its own."""
    monkeypatch.setenv("BENCHOPT_CACHE", str(tmp_path / "cache"))
    # Compiled once, so that curves begin soon.
    solve(make_problem("factorized"), "sdca", order="random", max_passes=2)
    name = f"test_{os.getpid()}_{tmp_path.name}"
    (tmp_path / "config.yml").write_text(yaml.safe_dump(CONFIG))
    yield tmp_path / "config.yml", name
    for file in (REPO / "outputs").glob(f"*{name}*"):
        file.unlink()


class Watched:
    """A command whose output is waited for."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [sys.executable, "-m", *map(str, command)], cwd=REPO, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )
        self.text = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while piece := os.read(self.process.stdout.fileno(), 4096):
            self.text += piece.decode(errors="replace")

    def until(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition(self.text):
            assert time.monotonic() < end and self.process.poll() is None, self.text[-3000:]
            time.sleep(0.05)

    def end(self, seconds=120):
        code = self.process.wait(seconds)
        self.reader.join(10)
        return code


def finished(cache):
    """How many curves benchopt's cache has."""
    return len([*cache.rglob("output.pkl")])


def test_ctrl_c_keeps_what_was_measured(place):
    config, name = place
    cache = config.parent / "cache"
    run = Watched("benchmark_dspdc", "run", "--config", config, "--name", name, "--", "--no-plot")
    run.until(lambda _: finished(cache) >= 2)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130, run.text
    file = REPO / "outputs" / f"{name}.parquet"
    kept = pd.read_parquet(file)
    assert kept.groupby(CURVE).ngroups == 2
    assert (kept.groupby(CURVE)["objective_relative_gap"].last() <= 1e-8).all()
    assert str(file) in run.text.replace("\n", "")


def test_a_run_that_is_late_is_stopped_and_keeps_what_was_measured(place):
    config, name = place
    cache = config.parent / "cache"
    arguments = ["--config", str(config), "--no-plot"]
    # Once with time for nothing, once with time for the short curves.
    assert running.benchopt_run(REPO, arguments, name, 0.1) == running.Run(None, -2, True)
    begun = time.monotonic()
    done = running.benchopt_run(REPO, arguments, name, 25.0)
    assert done.late
    assert time.monotonic() - begun < 25.0 + 2 * running.GRACE
    assert done.file is not None, finished(cache)
    assert pd.read_parquet(done.file).groupby(CURVE).ngroups == finished(cache) == 2

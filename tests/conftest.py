import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import libsvmdata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import yaml
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from benchmark_dspdc import erm

# The same examples on every run, so that a commit is not judged by luck;
# HYPOTHESIS_PROFILE=random looks for new ones.
hypothesis.settings.register_profile("stable", derandomize=True)
hypothesis.settings.register_profile("random", derandomize=False)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "stable"))

# hypothesis also draws from the constants in all local modules that happen to be loaded, so that
# examples of a test, or of a seed, would depend on what ran before. There is no setting for it.
NO_CONSTANTS = Constants()
providers._get_local_constants = lambda: NO_CONSTANTS

# Tests generate their data: they patch what generates, of which the store knows nothing.
os.environ["BENCHMARK_DSPDC_STORE_GB"] = "0"

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, and no network whatever the machine has."""

    def offline(address, *args, **kwargs):
        raise RuntimeError(f"no network for {address}\nin tests")

    monkeypatch.setenv("LIBSVMDATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(libsvmdata.abstraction, "download", offline)
    return tmp_path / "home" / "libsvm"


def real_file(name):
    """One of LIBSVM's files, if this machine has it."""
    folder = Path(os.environ.get("LIBSVM_FILES", REPO.parent / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"no {name} in {folder}; set LIBSVM_FILES to a directory of LIBSVM files")
    return folder / name


#: DSPDC as the paper has it, in place of what it does by default.
PAPER = dict(steps="theorem", order="random", adaptive=False)

LOSSES = ("square", "logistic", "smoothed_hinge")
OPERATORS = ("dense", "csr", "factorized")


def daily(values, *chosen):
    """All values as parameters of a test; but for the chosen ones only at night.

    Each loss and each operator means compiling a method anew, which takes longer than
    most tests themselves.
    """
    return [
        value if value in chosen else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]


def make_factors(n=30, p=12, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((d, p)) / np.sqrt(d)


def make_labels(A, loss, seed=0):
    rng = np.random.default_rng(seed + 1000)
    z = A @ np.linspace(-1.0, 1.0, A.shape[1]) + 0.5 * rng.standard_normal(A.shape[0])
    return z if loss in ("square", "huber") else np.where(z >= 0.0, 1.0, -1.0)


def uneven_factors(n=30, p=12, d=5, seed=0, heavy=8.0):
    """A tenth of the rows and a sixth of the columns of UV are much longer than the others."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.permutation(n) < n / 10, heavy, 0.5)
    columns = np.where(rng.permutation(p) < p / 6, heavy / 2, 0.5)
    U = rng.standard_normal((n, d)) * rows[:, None]
    return U, rng.standard_normal((d, p)) / np.sqrt(d) * columns


def stored_as(operator, U, V):
    """A = UV as `erm` takes it."""
    A = U @ V
    return {"dense": A, "csr": scipy.sparse.csr_array(A), "factorized": (U, V)}[operator]


def make_problem(operator="dense", loss="smoothed_hinge", lambda1=0.01, lambda2=0.1, n=30, p=12,
                 d=5, seed=0, regularizer="elastic_net", factors=make_factors):
    """The same problem for each of the operators."""
    U, V = factors(n, p, d, seed)
    b = make_labels(U @ V, loss, seed)
    return erm(stored_as(operator, U, V), b, loss, lambda1, lambda2, regularizer=regularizer)


def benchopt(*arguments, folder=REPO, **environment):
    """Run benchopt in a process of its own; returns what it shows."""
    command = [sys.executable, "-m", "benchopt", *map(str, arguments)]
    env = os.environ | {"BENCHOPT_RAISE_ON_ERROR": "1"} | environment
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def git(folder, *arguments):
    """What git answers in a folder, whoever the user is."""
    names = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def copy_of_benchmark(folder, *names):
    """Copy the benchmark, or some of its files and folders, to where they may be edited."""
    everything = ("benchmark_dspdc", "benchmark_utils", "datasets", "solvers", "plots",
                  "objective.py", "config.yml")
    folder.mkdir(exist_ok=True)
    for name in names or everything:
        if (REPO / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPO / name, folder / name, ignore=ignored)
        else:
            shutil.copy(REPO / name, folder / name)
    return folder


@contextlib.contextmanager
def edited(file, old, new):
    """A file with a piece of it replaced, which must be there once."""
    text = file.read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    file.write_text(text.replace(old, new))
    try:
        yield
    finally:
        file.write_text(text)


def run(tmp_path, config, name, *arguments, **options):
    """Run a config, given as a dict; returns the rows of the result file, and what was shown."""
    file = tmp_path / f"{name}.yml"
    file.write_text(yaml.safe_dump(config))
    output = tmp_path / f"{name}.parquet"
    shown = benchopt(
        "run", ".", "--config", file, "--output", output, "--no-plot", "--no-cache", *arguments,
        **options,
    )
    return pd.read_parquet(output), shown


#: Columns that may differ between two runs of the same curves, or begin so.
OF_A_RUN = (
    "time", "objective_reference_seconds", "run_date", "env-", "platform", "system-", "version-",
    "benchmark-",
)


def assert_same_rows(one, two):
    """Two result files have the same rows, in whatever order, bit for bit except for times."""
    keys = ["dataset_name", "objective_name", "solver_name", "idx_rep", "stop_val"]
    assert set(one) == set(two)
    columns = sorted(column for column in one if not column.startswith(OF_A_RUN))
    one, two = (
        frame.sort_values(keys)[columns].reset_index(drop=True) for frame in (one, two)
    )
    pd.testing.assert_frame_equal(one, two, check_exact=True)

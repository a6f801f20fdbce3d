import os
from pathlib import Path

import hypothesis
import libsvmdata
import numpy as np
import pytest
import scipy.sparse

from benchmark_dspdc import erm

# The same examples on every run, so that a commit is not judged by luck;
# HYPOTHESIS_PROFILE=random looks for new ones.
hypothesis.settings.register_profile("stable", derandomize=True)
hypothesis.settings.register_profile("random", derandomize=False)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "stable"))

# Tests generate their data: they patch what generates, of which the store knows nothing.
os.environ["BENCHMARK_DSPDC_STORE_GB"] = "0"

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, and no network whatever the machine has."""

    def offline(name, *args, **kwargs):
        raise RuntimeError(f"no network for {name}\nin tests")

    monkeypatch.setenv("LIBSVMDATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(libsvmdata, "fetch_dataset", offline)
    return tmp_path / "home" / "libsvm"


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
    return z if loss == "square" else np.where(z >= 0.0, 1.0, -1.0)


def make_problem(operator="dense", loss="smoothed_hinge", lambda1=0.01, lambda2=0.1, n=30, p=12,
                 d=5, seed=0):
    """The same problem for each of the operators."""
    U, V = make_factors(n, p, d, seed)
    A = U @ V
    stored = {"dense": A, "csr": scipy.sparse.csr_array(A), "factorized": (U, V)}[operator]
    return erm(stored, make_labels(A, loss, seed), loss, lambda1, lambda2)

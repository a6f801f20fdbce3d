"""Which parts of `benchopt test` cannot run everywhere."""

import importlib.util

import pytest

from benchmark_dspdc.bench.metric_peers import METRIC_PEERS, refuses
from benchmark_dspdc.bench.peers import PEERS
from benchmark_dspdc.data import is_cached


def check_test_dataset_get_data(benchmark, dataset):
    # Tests never download: without a network they would fail, with one they
    # would depend on somebody else's server.
    if dataset.name == "LIBSVM":
        name = dataset.parameters["name"][0]
        if not is_cached(name):
            pytest.skip(f"{name} is not in libsvmdata's cache, and tests do not download")


def check_test_solver_run(benchmark, solver):
    # Other people's packages are optional.
    peer = getattr(solver, "peer", None)
    if peer in METRIC_PEERS:
        if (reason := refuses(peer)) is not None:
            pytest.skip(reason)
    elif peer is not None and importlib.util.find_spec(PEERS[peer].package) is None:
        pytest.skip(f"{PEERS[peer].package} is not there; install with pip install .[peers]")

"""Which parts of `benchopt test` cannot run everywhere."""

import pytest

from benchmark_dspdc.data import is_cached


def check_test_dataset_get_data(benchmark, dataset):
    # Tests never download: without a network they would fail, with one they
    # would depend on somebody else's server.
    if dataset.name == "LIBSVM":
        name = dataset.parameters["name"][0]
        if not is_cached(name):
            pytest.skip(f"{name} is not in libsvmdata's cache, and tests do not download")

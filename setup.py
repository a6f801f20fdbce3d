"""A wheel has the benchmark inside the package, so that it runs without a checkout.

All else is in pyproject.toml, which cannot say that files go to another folder.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: What the commands need beside the package. benchmark_folder() finds it in `_benchmark`.
BENCHMARK = [
    "objective.py", "config.yml", "benchmark_utils", "benchmarks", "configs", "datasets", "plots",
    "solvers",
]

#: Packages whose environments `make peers-metric` builds, in a clone only.
IN_A_CLONE = ["metric_learn_lmnn.py", "metric_peers.yml", "pylmnn.py"]

#: Measured results, where there are any.
ARCHIVE = "results"


class BuildWithBenchmark(build_py):
    """Copies the benchmark too, except where the checkout itself is installed."""

    def run(self):
        if self.editable_mode:
            super().run()
            return
        package = Path(self.build_lib, "benchmark_dspdc")
        # Files of an earlier build, removed from the sources since, would be packed as well.
        shutil.rmtree(package, ignore_errors=True)
        super().run()
        target = package / "_benchmark"
        target.mkdir(parents=True)
        for name in BENCHMARK + [ARCHIVE] * Path(ARCHIVE).is_dir():
            if Path(name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", *IN_A_CLONE)
                shutil.copytree(name, target / name, ignore=ignored)
            else:
                shutil.copy(name, target)


setup(cmdclass={"build_py": BuildWithBenchmark})

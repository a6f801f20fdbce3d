"""``python -m benchmark_dspdc figures``: the paper's figures within a budget, and their report.

Each config gets a share of the budget, and each of its curves an equal part of
that. Times depend on the budget alone, never on how long earlier runs took:
benchopt then finds in its cache what an interrupted run has measured already.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import yaml
from rich.console import Console

from .targets import benchmark_folder

#: The time budget: the part of it that each config may use. Curves that end early leave time
#: for what is not limited: data, compiling, certificates.
SHARES = {
    "figure1": 0.26, "figure2": 0.16, "figure3": 0.20, "figure4": 0.26, "dense": 0.03,
    "tables": 0.06,
}

LEAST_TIMEOUT = 0.5

#: Configs with fewer curves, in place of those that would have less time for each than this.
SHORT = {"figure4": (6.0, "figure4_short")}

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text):
    """A budget such as "20m", "2h" or "90" in seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", str(text))
    value = 0.0 if found is None else float(found[1]) * UNITS[found[2]]
    if value <= 0.0:
        raise ValueError(
            f"the budget must be a time such as 20m, 2h or 90 (seconds), got {text!r}"
        )
    return value


class Step(NamedTuple):
    """One call of benchopt: a config, its data sets if not the config's, a time for each curve."""

    name: str
    config: Path
    datasets: tuple
    timeout: float
    curves: int


def plan(budget, download=False, folder=None):
    """The steps that a budget allows, and sentences on what is left out.

    Parameters
    ----------
    budget : float
        Seconds.
    download : bool
        Whether data may be downloaded; else only what is in libsvmdata's cache is used.
    folder : path or None
        With the benchmark; None to look for it.

    Returns
    -------
    steps : list of Step
    left_out : list of str
    """
    folder = Path(folder or benchmark_folder())
    steps, left_out = [], []
    for name, share in SHARES.items():
        config, datasets, reason = _available(name, folder / "configs", download)
        if reason:
            left_out.append(reason)
        if config is None:
            continue
        curves = count_curves(config, datasets, folder)
        least, short = SHORT.get(name, (0.0, None))
        if share * budget / curves < least:
            config = config.with_stem(short)
            curves = count_curves(config, datasets, folder)
            left_out.append(
                f"{name}: the budget is too short for all its curves, {config.name} is run"
            )
        timeout = max(LEAST_TIMEOUT, float(f"{share * budget / curves:.2g}"))
        steps.append(Step(name, config, tuple(datasets or ()), timeout, curves))
    return steps, left_out


def _available(name, configs, download):
    """A config with what data there are for it: (config or None, data sets or None, reason)."""
    from .data.libsvm import is_cached

    config = configs / f"{name}.yml"
    hint = "allow it to download (--download) or see `python -m benchmark_dspdc import-libsvm`"
    if name == "figure2" and not download:
        missing = [k for k in ("covtype.binary", "rcv1.binary", "real-sim") if not is_cached(k)]
        if missing and is_cached("covtype.binary") and is_cached("news20"):
            return configs / "figure2_offline.yml", None, (
                f"figure 2: {', '.join(missing)} not in libsvmdata's cache, news20 stands in; "
                f"{hint}"
            )
        if missing:
            return None, None, (
                f"figure 2 is left out: {', '.join(missing)} not in libsvmdata's cache; {hint}"
            )
    if name == "figure4" and not download and not is_cached("mnist"):
        return config, ["MTLMNN[source=aloi_like]"], (
            f"figure 4: mnist is not in libsvmdata's cache, only aloi_like is run; {hint}"
        )
    return config, None, None


def count_curves(config, datasets, folder):
    """How many curves a config has, repetitions included."""
    from benchopt.benchmark import Benchmark, _list_parametrized_classes

    given = yaml.safe_load(config.read_text())
    benchmark = Benchmark(folder)
    sizes = [
        len(list(_list_parametrized_classes(*benchmark.check_dataset_patterns(
            datasets or given["dataset"])))),
        len(list(_list_parametrized_classes(*benchmark.check_objective_filters(
            given["objective"]), check_installed=False))),
        len(list(_list_parametrized_classes(*benchmark.check_solver_patterns(given["solver"])))),
    ]
    count = given.get("n-repetitions", 1)
    for size in sizes:
        count *= size
    return count


def run(budget, output, download=False, only=None, console=None):
    """Run the figures and write their report.

    Parameters
    ----------
    budget : float
        Seconds.
    output : path
        Folder of the report; result files are under outputs/.
    download : bool
    only : list of str or None
        Names of `SHARES`.
    """
    from .report.report import write_report
    from .report.summary import print_summary

    console = console or Console()
    unknown = [name for name in only or () if name not in SHARES]
    if unknown:
        raise ValueError(f"--only must be of {', '.join(SHARES)}, got {', '.join(unknown)}")
    folder = benchmark_folder()
    steps, left_out = plan(budget, download, folder)
    steps = [step for step in steps if not only or step.name in only]
    for sentence in left_out:
        console.print(sentence)
    begun, files = time.perf_counter(), []
    for k, step in enumerate(steps):
        console.rule(
            f"{k + 1} of {len(steps)}: {step.config.stem}, {step.curves} curves of at most "
            f"{step.timeout:g} s, {(time.perf_counter() - begun) / 60:.0f} min so far"
        )
        files.append(_benchopt(step, folder))
    files = [file for file in files if file is not None]
    if not files:
        raise ValueError("no config ended with a result file")
    print_summary(files, console)
    write_report(files, output, console)
    console.print(f"{(time.perf_counter() - begun) / 60:.1f} min of {budget / 60:.0f}")


def _benchopt(step, folder):
    """Run one step; returns its result file, None if there is none."""
    outputs, name = folder / "outputs", f"figures_{step.config.stem}"
    # benchopt takes another name if there is a file already.
    for old in (outputs / f"{name}.parquet", *outputs.glob(f"{name}_[0-9]*.parquet")):
        old.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "benchopt", "run", str(folder), "--config", str(step.config),
        "--timeout", f"{step.timeout:g}", "--output", name, "--no-display",
    ]
    for dataset in step.datasets:
        command += ["-d", dataset]
    # A curve that fails is reported by benchopt and missing in the file; the others count.
    subprocess.run(command, cwd=folder, check=False, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    return next(iter(outputs.glob(f"{name}.parquet")), None)

"""``python -m benchmark_dspdc figures``: the paper's figures within a budget, and their report.

The time of each curve depends on the budget alone, never on how long earlier ones took:
benchopt then finds in its cache what an interrupted run has measured already. Most curves end
long before their time; what the others leave undone when the budget is over is named.
"""

import re
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from .running import INTERRUPTED, benchopt_run
from .targets import benchmark_folder


class Part(NamedTuple):
    """What is run of a config, with a time limit for each curve.

    Attributes
    ----------
    figure : str
        What it belongs to, as in --only.
    config : str
        Stem of a file under configs/.
    seconds : float
        Limit for a curve in a budget of 20 minutes; in others in proportion.
    only : tuple of str
        Options of `benchopt run` in place of the config's own.
    """

    figure: str
    config: str
    seconds: float
    only: tuple = ()


#: The time budget, in one place: measured so that a budget of 20 minutes suffices on two cores.
#: The longest come last, should a machine be too slow for all.
PARTS = (
    Part("dense", "dense", 1.0),
    Part("tables", "tables", 1.0),
    Part("figure1", "figure1", 2.5),
    Part("figure2", "figure2", 2.0),
    Part("figure3", "figure3", 5.0, ("-d", "MatrixRisk[n=100,p=100,d=100]")),
    Part("figure3", "figure3", 7.0, ("-d", "MatrixRisk[n=100,p=100,d=200]")),
    Part("figure4", "figure4", 5.0),
)

BASE = 1200.0

#: Configs with fewer curves, for budgets below so many seconds.
SHORT = {"figure3": (3600.0, "figure3_short"), "figure4": (3600.0, "figure4_short")}

#: Part of the budget that is kept for the report.
RESERVED = 0.03

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
    """One call of benchopt: a config, options in place of its own, a time for each curve."""

    figure: str
    config: Path
    only: tuple
    timeout: float


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
    configs = Path(folder or benchmark_folder()) / "configs"
    steps, left_out = [], []
    for part in PARTS:
        config, only, reason = _available(part.config, configs, download)
        if reason:
            left_out.append(reason)
        if config is None:
            continue
        least, short = SHORT.get(part.config, (0.0, None))
        if budget < least:
            config = config.with_stem(short)
            left_out.append(
                f"{part.figure}: the budget is too short for all its curves, {config.name} is run"
            )
        timeout = float(f"{part.seconds * budget / BASE:.2g}")
        steps.append(Step(part.figure, config, part.only + only, timeout))
    return steps, list(dict.fromkeys(left_out))


def _available(name, configs, download):
    """A config with what data there are for it: (config or None, options, reason)."""
    from .data.libsvm import is_cached

    config = configs / f"{name}.yml"
    hint = "allow it to download (--download) or see `python -m benchmark_dspdc import-libsvm`"
    if name == "figure2" and not download:
        missing = [k for k in ("covtype.binary", "rcv1.binary", "real-sim") if not is_cached(k)]
        if missing and is_cached("covtype.binary") and is_cached("news20"):
            return configs / "figure2_offline.yml", (), (
                f"figure 2: {', '.join(missing)} not in libsvmdata's cache, news20 stands in; "
                f"{hint}"
            )
        if missing:
            return None, (), (
                f"figure 2 is left out: {', '.join(missing)} not in libsvmdata's cache; {hint}"
            )
    if name == "figure4" and not download and not is_cached("mnist"):
        return config, ("-d", "MTLMNN[source=aloi_like]"), (
            f"figure 4: mnist is not in libsvmdata's cache, only aloi_like is run; {hint}"
        )
    return config, (), None


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
        Figures of `PARTS`.

    Returns
    -------
    int
        An exit code.
    """
    from .report.report import write_report
    from .report.summary import print_summary

    console = console or Console()
    known = list(dict.fromkeys(part.figure for part in PARTS))
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise ValueError(f"--only must be of {', '.join(known)}, got {', '.join(unknown)}")
    folder = benchmark_folder()
    steps, left_out = plan(budget, download, folder)
    steps = [step for step in steps if not only or step.figure in only]
    for sentence in left_out:
        console.print(sentence)
    begun, files = time.perf_counter(), []
    for k, step in enumerate(steps):
        spent = time.perf_counter() - begun
        console.rule(
            f"{k + 1} of {len(steps)}: {step.config.stem}, curves of at most {step.timeout:g} s, "
            f"{spent / 60:.1f} of {budget / 60:g} min so far"
        )
        done = benchopt_run(
            folder,
            ["--config", str(step.config), "--timeout", f"{step.timeout:g}", "--no-plot",
             *step.only],
            f"figures_{k}_{step.config.stem}", (1.0 - RESERVED) * budget - spent,
        )
        if done.file is not None:
            files.append(done.file)
        if done.code == INTERRUPTED:
            _to_be_continued(console, "interrupted", files)
            return INTERRUPTED
        if done.late:
            _to_be_continued(console, "the budget is over", files)
            break
    if not files:
        raise ValueError("no curve was finished; give it a larger --budget")
    print_summary(files, console)
    write_report(files, output, console)
    console.print(f"{(time.perf_counter() - begun) / 60:.1f} min of {budget / 60:g}")
    return 0


def _to_be_continued(console, why, files):
    kept = ", ".join(file.name for file in files) or "in benchopt's cache alone"
    console.print(
        f"{why}: some curves are missing. The finished ones are kept ({kept}); the same "
        "command goes on from there."
    )

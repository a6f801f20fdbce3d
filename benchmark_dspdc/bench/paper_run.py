"""``python -m benchmark_dspdc figures``: the paper's figures within a budget, and their report.

The time of each curve depends on the budget alone, never on how long earlier ones took:
benchopt then finds in its cache what an interrupted run has measured already. Most curves end
long before their time; what the others leave undone when the budget is over is named.
"""

import re
import time
from pathlib import Path
from typing import NamedTuple

import yaml
from rich.console import Console

from ..data.libsvm import is_cached
from ..engine.threads import VARIABLE as THREADS
from ..engine.threads import available_cpus
from ..report.report import write_report
from ..report.results import parse
from ..report.summary import print_summary
from .benchopt_process import STOPPED, TOLERANCE, benchopt_run
from .named_problems import benchmark_folder


class Part(NamedTuple):
    """What is run of a config, with a time limit for each curve."""

    figure: str         # what it belongs to, as in --only
    config: str         # stem of a file under configs/
    seconds: float      # limit for a curve in a budget of 20 minutes; in others in proportion
    only: tuple = ()    # options of `benchopt run` in place of the config's own
    tol: float = 1e-6   # relative gap at which a curve ends
    threads: int = 1    # on matrices all methods may project some side by side
    short: str = ""     # the config with fewer curves for budgets below `LONG`; "" for the same


#: The time budget, in one place: measured so that a budget of 20 minutes suffices on two cores.
#: The longest come last, should a machine be too slow for all.
PARTS = (
    Part("dense", "dense", 1.0),
    Part("tables", "tables", 1.5, ("-d", "Factorized[n=5000,p=100,d=20,random_state=1]")),
    Part("tables", "tables", 1.0, ("-d", "MatrixRisk[n=60,p=10,d=20]")),
    Part("figure1", "figure1", 2.5),
    Part("figure2", "figure2", 2.0),
    Part("figure3", "figure3", 6.0, ("-d", "MatrixRisk[n=100,p=100,d=100]"), 1e-5, 2,
         "figure3_short"),
    Part("figure3", "figure3", 8.0, ("-d", "MatrixRisk[n=100,p=100,d=200]"), 1e-5, 2,
         "figure3_shorter"),
    Part("figure4", "figure4", 6.5, (), 1e-4, 2, "figure4_short"),
)

BASE = 1200.0

#: Budgets from so many seconds on run all curves, to a gap below all that are stated.
LONG, LONG_TOL = 3600.0, 1e-8

#: Part of the budget that is kept for the report.
RESERVED = 0.02

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text):
    """A budget such as "20m", "2h" or "90" in seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", str(text))
    value = 0.0 if found is None else float(found[1]) * UNITS[found[2]]
    if value <= 0.0:
        raise ValueError(f"the budget must be a time such as 20m, 2h or 90 (s), got {text!r}")
    return value


def plan(budget, download=False, folder=None):
    """The parts that a budget in seconds allows, with their limits in it, and what is left out.

    Without `download` only data in libsvmdata's cache are used.
    """
    configs = Path(folder or benchmark_folder()) / "configs"
    steps, left_out = [], []
    for part in PARTS:
        only, reason = _available(part.config, configs, download)
        if reason:
            left_out.append(reason)
        if only is None:
            continue
        config = part.config
        if budget < LONG and part.short:
            config = part.short
            left_out.append(
                f"{part.figure}: the budget is too short for all its curves, {config}.yml is run"
            )
        steps.append(part._replace(
            config=config, seconds=float(f"{part.seconds * budget / BASE:.2g}"),
            only=part.only + only, tol=part.tol if budget < LONG else min(part.tol, LONG_TOL),
            threads=min(part.threads, available_cpus()),
        ))
    return steps, list(dict.fromkeys(left_out))


def _available(name, configs, download):
    """Options for what data there are for a config, None if there are none; and a sentence."""
    hint = "allow it to download (--download) or see `python -m benchmark_dspdc import-libsvm`"
    if name == "figure4":
        # Of metric learning ALOI itself, where it can be had.
        there = [k for k in ("aloi", "mnist") if download or is_cached(k)]
        missing = [k for k in ("aloi", "mnist") if k not in there]
        sources = there if "aloi" in there else ["aloi_like", *there]
        reason = f"figure 4: {', '.join(missing)} not in libsvmdata's cache; {hint}"
        return _only(f"MTLMNN[source={k}]" for k in sources), reason if missing else None
    if download or name != "figure2":
        return (), None
    own, stand_ins = (_data_sets(configs / f"{k}.yml") for k in ("figure2", "figure2_offline"))
    missing = [k for k in own if not is_cached(k)]
    if not missing:
        return (), None
    instead = [k for k in stand_ins if k not in own and is_cached(k)]
    chosen = [own[k] for k in own if k not in missing] + [stand_ins[k] for k in instead]
    reason = f"figure 2: {', '.join(missing)} not in libsvmdata's cache"
    if not chosen:
        return None, f"{reason}, so it is left out; {hint}"
    if instead:
        reason += f", {', '.join(instead)} stands in"
    return _only(chosen), f"{reason}; {hint}"


def _only(data_sets):
    return tuple(word for name in data_sets for word in ("-d", name))


def _data_sets(config):
    """The LIBSVM data sets of a config, by their names."""
    lines = yaml.safe_load(config.read_text())["dataset"]
    return {parse(line)[1]["name"]: line for line in lines}


def run(budget, output, download=False, only=None, console=None):
    """Run the figures within a budget in seconds and write their report; returns the exit code.

    `output` is the folder of the report, result files are under outputs/; `only` names figures
    of `PARTS`, None stands for all.
    """
    console = console or Console()
    known = list(dict.fromkeys(part.figure for part in PARTS))
    if unknown := [name for name in only or () if name not in known]:
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
            f"{k + 1} of {len(steps)}: {step.config}, curves of at most {step.seconds:g} s, "
            f"{spent / 60:.1f} of {budget / 60:g} min so far"
        )
        config = str(folder / "configs" / f"{step.config}.yml")
        options = ["--config", config, "--timeout", f"{step.seconds:g}", "--no-plot", *step.only]
        done = benchopt_run(
            folder, options, f"figures_{k}_{step.config}", (1.0 - RESERVED) * budget - spent,
            {TOLERANCE: f"{step.tol:g}", THREADS: str(step.threads)},
        )
        if done.file is not None:
            files.append(done.file)
        left_out += [f"{step.config}: {name} failed" for name in done.failed]
        if done.code in STOPPED or done.late:
            why = "the budget is over" if done.late else "interrupted"
            kept = ", ".join(file.name for file in files) or "in benchopt's cache alone"
            console.print(f"{why}: some curves are missing. The finished ones are kept ({kept}); "
                          "the same command goes on from there.")
        if done.code in STOPPED:
            return done.code
        if done.late:
            left_out.append(
                f"the budget of {budget / 60:g} min was over in {step.config}: some of its "
                "curves are missing, and all of what comes after it"
            )
            break
    if not files:
        raise ValueError("no curve was finished; give it a larger --budget")
    print_summary(files, console)
    write_report(files, output, console, left_out)
    console.print(f"{(time.perf_counter() - begun) / 60:.1f} min of {budget / 60:g}")
    return 0

"""``python -m benchmark_dspdc figures``: the paper's figures within a budget, and their report.

Time is spent where a comparison is open. In a first round every curve of a figure gets the same
few seconds. Then, of each two that are compared, the one that is not there yet gets twice the
time of the other, and both get more where neither is; cheap comparisons come first. A curve that
is run again begins anew, and the longer one is kept. What was measured stays under
``outputs/figures`` for these sources, so that the same command goes on where it was stopped.
"""

import hashlib
import json
import re
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml
from rich.console import Console

from ..data.libsvm import is_cached
from ..engine.threads import VARIABLE as THREADS
from ..engine.threads import available_cpus
from ..report.claims import HOLDS, UNKNOWN, judge
from ..report.report import write_report
from ..report.results import GAPS, RUN, parse, read_results, to_targets
from ..report.summary import print_summary
from .benchopt_process import LIMITS, STOPPED, TOLERANCE, benchopt_run
from .named_problems import benchmark_folder


class Part(NamedTuple):
    """What is run of a config."""

    figure: str         # what it belongs to, as in --only
    config: str         # stem of a file under configs/
    weight: float       # its share of the budget
    first: float        # seconds of its own that a curve has in the first round
    only: tuple = ()    # options of `benchopt run` in place of the config's own
    threads: int = 1    # on matrices all methods may project some side by side


PARTS = (
    Part("dense", "dense", 1.0, 0.5),
    Part("tables", "tables", 1.0, 1.0, ("-d", "Factorized[n=5000,p=100,d=20,random_state=1]")),
    Part("tables", "tables", 1.0, 1.0, ("-d", "MatrixRisk[n=60,p=10,d=20]")),
    Part("figure1", "figure1", 4.0, 0.5),
    Part("figure2", "figure2", 3.0, 0.5),
    Part("figure3", "figure3", 3.0, 0.5, ("-d", "MatrixRisk[n=100,p=100,d=100]"), 2),
    Part("figure3", "figure3", 4.0, 0.5, ("-d", "MatrixRisk[n=100,p=100,d=200]"), 2),
    Part("figure4", "figure4", 4.0, 1.0, (), 2),
)

#: The gap at which curves end: the least that is stated.
TOL = min(GAPS)

#: Time for the slower one of two, over that of the faster, with some room for noise; and how much
#: more both get where neither is there.
TWICE, MORE = 2.1, 4.0

#: What a round takes beside its curves, in seconds, and certificates beside a curve's own time,
#: before any round has told.
BEGIN, CERTIFICATES = 12.0, 1.5

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


def plan(download=False, folder=None):
    """The parts that there are data for, and sentences on what is left out.

    Without `download` only data in libsvmdata's cache are used.
    """
    configs = Path(folder or benchmark_folder()) / "configs"
    steps, left_out = [], []
    for part in PARTS:
        only, reason = _available(part.config, configs, download)
        if reason:
            left_out.append(reason)
        if only is not None:
            threads = min(part.threads, available_cpus())
            steps.append(part._replace(only=part.only + only, threads=threads))
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


# What is open, and what it takes ------------------------------------------------------

class Round(NamedTuple):
    """What to run next: seconds for each curve by its names, and how many comparisons are open."""

    limits: dict
    wall: float         # what it takes, with certificates, at most
    comparisons: int    # those that it can decide
    open: int           # those that are undecided


def open_pairs(frame):
    """For each two that are compared somewhere: the seconds that each needs, and the open gaps.

    A dict by the names of data set, objective, DSPDC and rival.
    """
    found, runs = {}, to_targets(frame, GAPS).sort_index()
    for verdict in judge(frame):
        for finding in verdict.findings:
            gaps = [row.gap for row in finding.comparisons if row.outcome == UNKNOWN]
            if finding.pair and gaps and finding.pair not in found:
                *problem, fast, slow = finding.pair
                one, other = runs.loc[(*problem, fast)], runs.loc[(*problem, slow)]
                if needs := _needed(one, other, gaps):
                    found[finding.pair] = needs, len(gaps)
    return found


def _needed(one, other, gaps):
    """Seconds that each of two must be run to decide some gaps, None if they have been."""
    needs = [0.0, 0.0]
    for gap in gaps:
        times = [runs[f"seconds to {gap:.0e}"] for runs in (one, other)]
        spent = [runs["seconds"].max() for runs in (one, other)]
        there = [t.notna().all() for t in times]
        if all(there):
            continue
        if any(there):
            late = there.index(False)
            needs[late] = max(needs[late], TWICE * times[1 - late].max())
        else:
            needs = [max(need, MORE * max(spent)) for need in needs]
    spent = [runs["seconds"].max() for runs in (one, other)]
    needs = [need * (need > 1.02 * given) for need, given in zip(needs, spent, strict=True)]
    return needs if any(needs) else None


def next_round(frame, budget, overhead=CERTIFICATES):
    """The `Round` that decides most in so many seconds, None if nothing is open or fits."""
    pairs = open_pairs(frame)
    seeds = frame["idx_rep"].nunique()
    undecided = sum(count for _, count in pairs.values())
    limits, decided, wall = {}, 0, BEGIN
    for (*problem, fast, slow), (needs, count) in sorted(
            pairs.items(), key=lambda item: sum(item[1][0]) / item[1][1]):
        longer = {
            (*problem, name): need for name, need in zip((fast, slow), needs, strict=True)
            if need > limits.get((*problem, name), 0.0)
        }
        added = sum(need - limits.get(key, 0.0) for key, need in longer.items())
        if wall + added * seeds * overhead > budget:
            continue
        wall += added * seeds * overhead
        limits |= longer
        decided += count
    return Round(limits, wall, decided, undecided) if limits else None


def longest(frames):
    """The rows of several files: of each run those of the file in which it went on longest."""
    frame = pd.concat([one.assign(_file=k) for k, one in enumerate(frames)], ignore_index=True)
    # Options are in the names too, and are numbers here and words there.
    frame = frame[[name for name in frame if not name.startswith("p_")]]
    last = frame.groupby([*RUN, "_file"], sort=False)["time"].transform("max")
    most = last.groupby([frame[name] for name in RUN], sort=False).transform("max")
    kept = frame[last == most]
    first = kept.groupby(RUN, sort=False)["_file"].transform("min")
    return kept[kept["_file"] == first].drop(columns="_file").reset_index(drop=True)


# Running ------------------------------------------------------------------------------

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
    steps, left_out = plan(download, folder)
    steps = [step for step in steps if not only or step.figure in only]
    for sentence in left_out:
        console.print(sentence)
    begun, files, code = time.perf_counter(), [], 0
    for k, step in enumerate(steps):
        left = (1.0 - RESERVED) * budget - (time.perf_counter() - begun)
        share = left * step.weight / sum(other.weight for other in steps[k:])
        console.rule(f"{k + 1} of {len(steps)}: {step.figure}, {' '.join(step.only[1::2])} "
                     f"{share / 60:.1f} of {budget / 60:g} min")
        file, failed, code = _decide(step, folder, share, console)
        files += [] if file is None else [file]
        left_out += [f"{step.config}: {name} failed" for name in failed]
        if code in STOPPED:
            kept = ", ".join(f"{one.parent.name}/{one.name}" for one in files) or "nothing yet"
            console.print(f"interrupted; kept: {kept}. The same command goes on from there.")
            return code
    if not files:
        raise ValueError("no curve was finished; give it a larger --budget")
    print_summary(files, console)
    write_report(files, output, console, left_out)
    rows = [row for verdict in judge(read_results(files)) for finding in verdict.findings
            if finding.pair for row in finding.comparisons]
    decided = sum(row.outcome != UNKNOWN for row in rows)
    holds = sum(row.outcome == HOLDS for row in rows)
    console.print(f"{decided} of {len(rows)} comparisons decided, {holds} hold; "
                  f"{(time.perf_counter() - begun) / 60:.1f} min of {budget / 60:g}")
    return 0


def _decide(step, folder, budget, console):
    """Rounds of a part within a budget; the file of all of them, what failed, and an exit code."""
    from .plugins import CURVE_HASH

    # Curves of other sources are other curves.
    home = folder / "outputs" / "figures" / CURVE_HASH[:12]
    home.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha1(repr(step.only).encode()).hexdigest()[:6]
    file, begun, failed, overhead = home / f"{step.config}-{name}.parquet", time.time(), [], None
    while True:
        left = budget - (time.time() - begun)
        limits, others = {}, step.first
        if file.exists():
            chosen = next_round(read_results([file]), left, overhead or CERTIFICATES)
            if chosen is None:
                break
            limits, others = chosen.limits, 0.0
            console.print(
                f"{chosen.open} comparisons are open; {len(limits)} curves of at most "
                f"{max(limits.values()):.3g} s, some {chosen.wall / 60:.1f} min, can decide "
                f"{chosen.comparisons}"
            )
        else:
            console.print(f"every curve for at most {others:g} s")
        given = json.dumps(dict(others=others, curves={
            "\t".join(names): round(value, 2) for names, value in sorted(limits.items())
        }))
        # A name of its own, as benchopt's cache knows the limits by it.
        told = home / f"limits-{hashlib.sha1(given.encode()).hexdigest()[:12]}.json"
        told.write_text(given, "utf-8")
        most = max(limits.values(), default=others)
        options = ["--config", str(folder / "configs" / f"{step.config}.yml"), "--no-plot",
                   "--timeout", f"{60 + 20 * most:.0f}", *step.only]
        for solver in dict.fromkeys(names[2] for names in limits):
            options += ["-s", solver]
        started = time.time()
        done = benchopt_run(folder, options, f"figures_{step.config}", max(left, 60.0), {
            TOLERANCE: f"{TOL:g}", THREADS: str(step.threads), LIMITS: str(told),
        })
        failed += done.failed
        if done.file is not None:
            fresh = pd.read_parquet(done.file)
            own = fresh.groupby(RUN)["time"].max().sum()
            if own > 0.0:
                overhead = float(np.clip((time.time() - started - BEGIN) / own, 1.0, 5.0))
            frames = [pd.read_parquet(file), fresh] if file.exists() else [fresh]
            longest(frames).to_parquet(file)
            done.file.unlink()
        if done.code in STOPPED:
            return file if file.exists() else None, failed, done.code
        if done.late or done.file is None:
            break
    return file if file.exists() else None, failed, 0

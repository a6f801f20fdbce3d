"""``python -m benchmark_dspdc figures``: the paper's figures within a budget, and their report.

Time is spent where a comparison is open. In a first look every curve of a figure gets the same
few seconds. Then, of each two that are compared, the one that is not there yet gets twice the
time of the other; where neither is, both get what their curves say that they need. Cheap
comparisons come first, and what is left of the budget makes five seeds of three where a ratio is
close to one. A curve that is run again begins anew, and the longer one is kept. What was measured
stays under ``outputs/figures`` for these sources, a file a figure, so that the same command goes
on where it was stopped. It can begin with what the archive has, if that is of the same sources
and of a machine like this.
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
from benchopt.utils.sys_info import get_sys_info
from rich.console import Console

from ..data.libsvm import is_cached
from ..engine.cache_dirs import write_whole
from ..report.archive import ORIGIN
from ..report.claims import HOLDS, UNKNOWN, judge
from ..report.report import write_report
from ..report.results import (
    ASKED,
    BUDGET,
    GAP,
    GAPS,
    NAMES,
    REFERENCE,
    RUN,
    SPENT,
    needed_seconds,
    parse,
    read_results,
    to_targets,
)
from ..report.summary import plain_table, print_summary
from .benchopt_process import (
    CURVE_HASH,
    CURVES,
    LIMITS,
    STOPPED,
    TOLERANCE,
    benchopt_run,
    place_of_work,
    versions,
)
from .machine_speed import reference_seconds
from .named_problems import benchmark_folder


class Part(NamedTuple):
    """What is run for a figure."""

    figure: str         # as in --only
    config: str         # stem of a file under configs/
    weight: float       # its share of the budget
    first: float        # seconds of its own that a curve has in the first look
    data: tuple = ()    # the data sets of the config that are available


PARTS = (
    Part("dense", "dense", 1.0, 0.5),
    Part("tables", "tables", 2.0, 2.0),
    Part("figure1", "figure1", 4.0, 0.5),
    Part("figure2", "figure2", 3.0, 0.5),
    Part("figure3", "figure3", 6.0, 0.5),
    Part("figure4", "figure4", 6.0, 1.0),
)

#: The gap at which curves end: the least that is stated.
TOL = min(GAPS)

#: Time for the slower one of two, over that of the faster, with some room for noise; how much
#: more both get where neither is there and no curve says what it needs; room over what a curve
#: says; and how many times what it had a curve is given at most.
TWICE, MORE, ROOM, MOST = 2.1, 4.0, 1.3, 4.0

#: Repetitions of every curve, and of two whose ratio is within `CLOSE` of one.
SEEDS, MORE_SEEDS, CLOSE = 3, 5, 1.2

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
        data, reason = _available(part.config, configs, download)
        if reason:
            left_out.append(reason)
        if data:
            steps.append(part._replace(data=tuple(data)))
    return steps, left_out


def _available(name, configs, download):
    """The data sets of a config that there are data for, and a sentence on the others."""
    hint = "allow it to download (--download) or see `python -m benchmark_dspdc import-libsvm`"
    lines = _config(configs, name)["dataset"]
    sets = {line: parse(line)[1].get("name", parse(line)[1].get("source")) for line in lines}
    if name == "figure4":
        missing = [k for k in dict.fromkeys(sets.values())
                   if k != "aloi_like" and not (download or is_cached(k))]
        # Of metric learning ALOI itself, where it can be had.
        unused = missing if "aloi" in missing else [*missing, "aloi_like"]
        reason = f"figure 4: {', '.join(missing)} not in libsvmdata's cache; {hint}"
        return [line for line, k in sets.items() if k not in unused], reason if missing else None
    if download or name != "figure2":
        return lines, None
    missing = [k for k in sets.values() if not is_cached(k)]
    if not missing:
        return lines, None
    offline = _config(configs, "figure2_offline")["dataset"]
    instead = {line: k for line in offline
               if (k := parse(line)[1]["name"]) not in sets.values() and is_cached(k)}
    chosen = [line for line, k in sets.items() if k not in missing] + list(instead)
    reason = f"figure 2: {', '.join(missing)} not in libsvmdata's cache"
    if not chosen:
        return [], f"{reason}, so it is left out; {hint}"
    if instead:
        reason += f", {', '.join(instead.values())} in their place"
    return chosen, f"{reason}; {hint}"


def _config(configs, name):
    return yaml.safe_load((configs / f"{name}.yml").read_text())


# What is open, and what it takes ------------------------------------------------------

class Round(NamedTuple):
    """What to run next: seconds for each curve by its names, and what comes of it."""

    limits: dict
    wall: float             # what it takes, with certificates, at most
    comparisons: int        # those that it can decide, or give more seeds
    seeds: int = SEEDS


class Open(NamedTuple):
    """Comparisons of two solvers that are undecided."""

    names: tuple            # of data set, objective, DSPDC and rival
    options: tuple          # for each gap: seconds that both need up to there, and how many gaps


def compared_pairs(frame):
    """The findings of two solvers, each pair once, with the verdicts on all gaps."""
    found = {}
    for verdict in judge(frame):
        for finding in verdict.findings:
            if finding.pair:
                found.setdefault((finding.pair, finding.both), finding)
    return list(found.values())


def open_pairs(frame):
    """What is `Open`, as far as more time can decide it."""
    runs, found = to_targets(frame, GAPS).sort_index(), []
    for finding in compared_pairs(frame):
        *problem, fast, slow = finding.pair
        names = (*problem, fast), (*problem, slow)
        options, needs = [], np.zeros(2)
        for row in sorted(finding.comparisons, key=lambda row: -row.gap):
            if row.outcome == UNKNOWN:
                more = _needed(frame, runs, names, row.gap, finding.both)
                if more is not None:
                    needs = np.maximum(needs, more)
                    options.append((tuple(needs), len(options) + 1))
        if options:
            found.append(Open(finding.pair, tuple(options)))
    return found


def _needed(frame, runs, names, gap, both):
    """Seconds that each of two must be run to decide a gap, 0 where it has been; None if all is.

    With `both` each of them has to get there.
    """
    times = [runs.loc[name][f"seconds to {gap:.0e}"] for name in names]
    there = [t.notna().all() for t in times]
    # A round that was cut has given some seeds more than others.
    spent = [runs.loc[name]["seconds"].where(done | t.isna()).agg("max" if done else "min")
             for name, t, done in zip(names, times, there, strict=True)]
    if all(there):
        return None
    guess = [0.0 if done else needed_seconds(frame, name, gap)
             for name, done in zip(names, there, strict=True)]

    def told(k):
        return float(np.clip(ROOM * guess[k], 1.5 * spent[k], MOST * max(spent)))
    needs = np.zeros(2)
    if both:
        needs[:] = [0.0 if done else told(k) for k, done in enumerate(there)]
    elif any(there):
        late = there.index(False)
        needs[late] = TWICE * times[1 - late].max()
    elif np.isinf(guess).all():
        needs[:] = MORE * max(spent)
    else:
        first = int(np.argmin(guess))
        needs[first] = told(first)
        needs[1 - first] = min(TWICE * needs[first], told(1 - first))
    needs *= needs > 1.02 * np.array(spent)
    return needs if needs.any() else None


def next_round(frame, budget, overhead=CERTIFICATES):
    """The `Round` that decides most in so many seconds, None if nothing is open or fits."""
    asked = frame.groupby(NAMES)[ASKED].max() if ASKED in frame else {}

    def seeds_of(*problem, fast, slow):
        return max(asked.get((*problem, name), SEEDS) for name in (fast, slow))
    found = {SEEDS: [], MORE_SEEDS: []}
    for k, one in enumerate(open_pairs(frame)):
        *problem, fast, slow = one.names
        of_all = MORE_SEEDS if seeds_of(*problem, fast=fast, slow=slow) > SEEDS else SEEDS
        found[of_all] += [(needs, count, one.names, k) for needs, count in one.options]
    for seeds, options in found.items():
        chosen = _cheapest(options, seeds, budget, overhead)
        if chosen is not None:
            return chosen
    runs, options = to_targets(frame, GAPS).sort_index(), []
    for k, finding in enumerate(compared_pairs(frame)):
        close = sum(row.ratio is not None and 1.0 / CLOSE < row.ratio < CLOSE
                    for row in finding.comparisons)
        if close:
            *problem, fast, slow = finding.pair
            if seeds_of(*problem, fast=fast, slow=slow) < MORE_SEEDS:
                spent = [ROOM * runs.loc[(*problem, name)]["seconds"].max()
                         for name in (fast, slow)]
                options.append((spent, close, finding.pair, k))
    return _cheapest(options, MORE_SEEDS, budget, overhead)


def _cheapest(options, seeds, budget, overhead):
    """The options that decide most for their time and fit a budget together, None if none does.

    A curve that several comparisons wait for is paid once.
    """
    curves = [
        {(*pair[:2], name): need for name, need in zip(pair[2:], needs, strict=True) if need > 0.0}
        for needs, _, pair, _ in options
    ]

    def decided(limits):
        best = {}
        for own, (_, count, _, one) in zip(curves, options, strict=True):
            if all(need <= limits.get(key, 0.0) for key, need in own.items()):
                best[one] = max(best.get(one, 0), count)
        return sum(best.values())
    limits, wall, count = {}, BEGIN, 0
    while True:
        found = []
        for own in curves:
            with_it = limits | {key: max(need, limits.get(key, 0.0)) for key, need in own.items()}
            added = (sum(with_it.values()) - sum(limits.values())) * seeds * overhead
            gained = decided(with_it) - count
            if gained and wall + added <= budget:
                found.append((added / gained, added, gained, with_it))
        if not found:
            return Round(limits, wall, count, seeds) if limits else None
        _, added, gained, limits = min(found, key=lambda one: one[:3])
        wall, count = wall + added, count + gained


def longest(frames):
    """The rows of several files: of each run those of the file in which it went on longest.

    Or of the first in which it got to the end: of a run that is measured again the slower one
    must not be taken.
    """
    frame = pd.concat([one.assign(_file=k) for k, one in enumerate(frames)], ignore_index=True)
    # Options are in the names too, and are numbers here and words there.
    frame = frame[[name for name in frame if not name.startswith("p_")]]
    each = frame.groupby([*RUN, "_file"], sort=False).agg(
        last=("time", "max"), gap=(GAP, "min")).reset_index()
    each["last"] = each["last"].where(each["gap"] > TOL, np.inf)
    each = each.sort_values(["last", "_file"], ascending=[False, True], kind="stable")
    kept = frame.merge(each.groupby(RUN, sort=False)[[*RUN, "_file"]].head(1))
    if ASKED in frame:
        most = frame.groupby(NAMES)[ASKED].max().rename(ASKED)
        kept = kept.drop(columns=ASKED).join(most, on=NAMES)
    return kept.drop(columns="_file")


# Running ------------------------------------------------------------------------------

def run(budget, output, download=False, only=None, archived=False, console=None):
    """Run the figures within a budget in seconds and write their report; returns the exit code.

    `output` is the folder of the report, result files are under outputs/; `only` names figures
    of `PARTS`, None stands for all; `archived` begins with the files of results/.
    """
    console = console or Console()
    known = [part.figure for part in PARTS]
    if unknown := [name for name in only or () if name not in known]:
        raise ValueError(f"--only must be of {', '.join(known)}, got {', '.join(unknown)}")
    folder = benchmark_folder()
    steps, left_out = plan(download, folder)
    steps = [step for step in steps if not only or step.figure in only]
    for sentence in left_out:
        console.print(sentence)
    # Curves of other sources are other curves.
    home = place_of_work(folder) / "outputs" / "figures" / CURVE_HASH[:12]
    home.mkdir(parents=True, exist_ok=True)
    for step in steps if archived else ():
        begin_archived(step, folder, home)
    _announce(steps, home, folder, budget, console)
    begun, files = time.perf_counter(), []
    for k, step in enumerate(steps):
        left = (1.0 - RESERVED) * budget - (time.perf_counter() - begun)
        share = left * step.weight / sum(other.weight for other in steps[k:])
        console.rule(f"{k + 1} of {len(steps)}: {step.figure}, "
                     f"{share / 60:.1f} of {budget / 60:g} min")
        file, failed, code = _decide(step, folder, home, share, console)
        files += [file] if file.exists() else []
        left_out += [f"{step.config}: {name} failed" for name in failed]
        if code in STOPPED:
            kept = ", ".join(f"{one.parent.name}/{one.name}" for one in files) or "nothing yet"
            console.print(f"interrupted; kept: {kept}. The same command goes on from there.")
            return code
    if not files:
        raise ValueError("no curve was finished; give it a larger --budget")
    print_summary(files, console)
    write_report(files, output, console, left_out)
    rows = [row for finding in compared_pairs(read_results(files)) for row in finding.comparisons]
    decided = sum(row.outcome != UNKNOWN for row in rows)
    holds = sum(row.outcome == HOLDS for row in rows)
    console.print(f"{decided} of {len(rows)} comparisons decided, {holds} hold; "
                  f"{(time.perf_counter() - begun) / 60:.1f} min of {budget / 60:g}")
    return 0


def begin_archived(step, folder, home):
    """Let a figure go on from the archive's file, unless it has begun already.

    Data sets on which the file lacks solvers of the config get a first look. A ValueError says why
    the file's curves cannot stand beside those that are measured now.
    """
    archived, file = (place / f"{step.figure}.parquet" for place in (folder / "results", home))
    if file.exists():
        return
    if not archived.exists():
        raise ValueError(f"the archive has no {archived.name}")
    frame = pd.read_parquet(archived)
    for column, here in {CURVES: CURVE_HASH, **versions(), **get_sys_info()}.items():
        there = ", ".join(map(str, frame.get(column, pd.Series()).unique()))
        if column in ORIGIN.values() and there != str(here):
            raise ValueError(
                f"{archived.name} cannot be gone on with: {column} is {there} there, {here} here"
            )
    least, most, here = frame[REFERENCE].min(), frame[REFERENCE].max(), reference_seconds()
    if not least <= here <= most:
        raise ValueError(
            f"{archived.name} cannot be gone on with: the reference loop takes {1e6 * here:.3g} "
            f"microseconds now, and took {1e6 * least:.3g} to {1e6 * most:.3g} then"
        )
    wanted = sum(map(_variants, _config(folder / "configs", step.config)["solver"]))
    counts = frame.groupby(NAMES[:2])["solver_name"].nunique().groupby("dataset_name").min()
    kept = [parse(name) for name, count in counts.items() if count >= wanted]
    seen = [
        line for line, (kind, options) in zip(step.data, map(parse, step.data), strict=True)
        if any(kind == other and options.items() <= known.items() for other, known in kept)
    ]
    write_whole(home / f"{step.figure}-looked.json", json.dumps(seen).encode())
    write_whole(file, archived.read_bytes())


def _announce(steps, home, folder, budget, console):
    """A table of what a budget is for, before it is spent."""
    table = plain_table("what is open, and what it may cost")
    for head in ("figure", "curves", "decided", "open", "to decide them, min"):
        table.add_column(head, justify="left" if head == "figure" else "right")
    total = sum(step.weight for step in steps)
    for step in steps:
        config = _config(folder / "configs", step.config)
        solvers = sum(_variants(line) for line in config["solver"])
        curves = solvers * len(step.data) * len(config["objective"]) * SEEDS
        file = home / f"{step.figure}.parquet"
        if file.exists():
            frame = read_results([file])
            rows = [row for one in compared_pairs(frame) for row in one.comparisons]
            undecided = sum(row.outcome == UNKNOWN for row in rows)
            all_of_them = next_round(frame, np.inf)
            wall = 0.0 if all_of_them is None else all_of_them.wall / 60.0
            cells = [str(len(rows) - undecided), str(undecided), f"{wall:.1f}"]
        else:
            look = (BEGIN + curves * step.first * CERTIFICATES) / 60.0
            cells = ["-", "all", f"first look {look:.1f}"]
        table.add_row(step.figure, str(curves), *cells)
    console.print(table)
    shares = ", ".join(f"{step.figure} {budget * step.weight / total / 60:.1f}" for step in steps)
    console.print(f"budget {budget / 60:g} min: {shares}; what one leaves goes to the next. "
                  "A first look tells what the rest of a figure costs.")


def _variants(line):
    """How many solvers a line of a config stands for."""
    return int(np.prod([1 + inner.count(",") for inner in re.findall(r"=\[([^\]]*)\]", line)]))


def _decide(step, folder, home, budget, console):
    """Rounds of a part within a budget; the file of all of them, what failed, and an exit code."""
    file, looked = home / f"{step.figure}.parquet", home / f"{step.figure}-looked.json"
    begun, failed, overhead, last = time.time(), [], CERTIFICATES, None
    granted = budget
    if file.exists():
        granted += pd.read_parquet(file).get(BUDGET, pd.Series([0.0])).max()
    while True:
        left = budget - (time.time() - begun)
        # Those of which a first look has come to its end.
        seen = json.loads(looked.read_text("utf-8")) if looked.exists() else []
        data = [line for line in step.data if line not in seen]
        limits, others, seeds, solvers = {}, step.first, SEEDS, ()
        if data:
            console.print(f"every curve on {len(data)} data sets for at most {others:g} s")
        elif not file.exists():
            break
        else:
            chosen = next_round(read_results([file]), left, overhead)
            if chosen is None or chosen == last:
                break
            last, limits, others, seeds = chosen, chosen.limits, 0.0, chosen.seeds
            sets, solvers = (dict.fromkeys(names[k] for names in limits) for k in (0, 2))
            goal = "decide" if seeds == SEEDS else f"give {seeds} seeds to"
            console.print(
                f"{len(limits)} curves of at most {max(limits.values()):.3g} s, at most "
                f"{chosen.wall / 60:.1f} min, can {goal} {chosen.comparisons} comparisons"
            )
        done, share = _round(step, folder, home, left, data or sets, solvers, limits, others,
                             seeds, granted)
        failed += done.failed
        if share:
            overhead = float(np.clip(1.0 / share, 1.1, 5.0))
            console.print(f"methods took {100 * share:.0f} % of the time")
        if done.code in STOPPED or done.late:
            return file, failed, done.code if done.code in STOPPED else 0
        if data:
            write_whole(looked, json.dumps([*seen, *data]).encode())
        elif done.file is None:
            break
    return file, failed, 0


def _round(step, folder, home, left, data, solvers, limits, others, seeds, granted):
    """Run some curves and add them to the figure's file; the run and the methods' share of it."""
    file = home / f"{step.figure}.parquet"
    given = json.dumps(dict(others=others, curves={
        "\t".join(names): round(value, 2) for names, value in sorted(limits.items())
    }))
    # A name of its own, as benchopt's cache knows the limits by it.
    told = home / f"limits-{hashlib.sha1(given.encode()).hexdigest()[:12]}.json"
    told.write_text(given, "utf-8")
    most = max(limits.values(), default=others)
    options = ["--config", str(folder / "configs" / f"{step.config}.yml"), "--no-plot",
               "--timeout", f"{60 + 20 * most:.0f}", "-r", str(seeds)]
    options += [word for name in data for word in ("-d", name)]
    options += [word for name in solvers for word in ("-s", name)]
    begun = time.time()
    done = benchopt_run(folder, options, f"figures_{step.config}", max(left, 60.0),
                        {TOLERANCE: f"{TOL:g}", LIMITS: str(told)})
    wall = time.time() - begun
    if done.file is None:
        return done, None
    fresh = pd.read_parquet(done.file).assign(**{ASKED: seeds})
    own = fresh.groupby(RUN)["time"].max().sum()
    frames = [pd.read_parquet(file)] if file.exists() else []
    before = frames[0][SPENT].iloc[0] if frames else 0.0
    every = longest([*frames, fresh])
    every.assign(**{SPENT: before + wall, BUDGET: granted}).to_parquet(file)
    done.file.unlink()
    return done, own / max(wall - BEGIN, own)

"""``python -m benchmark_dspdc regress``: has a method become slower than a baseline says?

Two kinds of figures of each method on each problem. Work, the passes and eigendecompositions
to common gaps at fixed seeds, is the same on every machine up to rounding. Time is seconds a
pass over the time of a reference loop in the same run, and is compared on the same kind of
machine only; what it varies by without a change is part of the baseline.
"""

import json
import math
import platform
import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..places import write_whole
from ..version import __version__
from .results import EIGENDECOMPOSITIONS, GAP, GAPS, PASSES, RUN, label, read_results, titles

REFERENCE = "objective_reference_seconds"

#: Work may differ by this much: rounding is far below, a changed step size far above.
WORK_TOLERANCE = 0.02

#: Time may differ by so many times what repeated runs do, but by no less and no more than:
TIMES_SPREAD = 2.0
LEAST_TIME_TOLERANCE, MOST_TIME_TOLERANCE = 0.10, 0.22

#: Of the format of baseline files.
FORMAT = 1

SAME, BETTER, WORSE = "same", "better", "worse"
OK, REGRESSION, CANNOT = 0, 1, 2
COLORS = {SAME: "bright_black", BETTER: "green", WORSE: "red"}


class CannotCompare(ValueError):
    """The result and the baseline are not of the same runs."""


class Line(NamedTuple):
    """One figure beside its baseline.

    Attributes
    ----------
    key : tuple of str
        Data set, objective and solver.
    figure : str
        Such as "passes to 1e-4".
    was, now : float
        Infinite where a gap was not reached.
    tolerance : float
        Relative.
    """

    key: tuple
    figure: str
    was: float
    now: float
    tolerance: float

    @property
    def change(self):
        """Relative, infinite if a gap is not reached any more."""
        if self.was == self.now:
            return 0.0
        if not math.isfinite(self.was):
            return -1.0
        return self.now / self.was - 1.0 if self.was > 0.0 else math.inf

    @property
    def outcome(self):
        if self.change > self.tolerance:
            return WORSE
        return BETTER if self.change < -self.tolerance else SAME

    def __str__(self):
        return (
            f"{self.key[2]} on {self.key[0]}, {self.key[1]}: {self.figure} {self.was:.4g} -> "
            f"{self.now:.4g} ({self.change:+.1%}, allowed {self.tolerance:.0%})"
        )


# Figures of result files ------------------------------------------------------------

def work_to(run, column, target):
    """Work of a run to a gap, between two points by the logarithm of the gap.

    A point of a curve stands for 10 % of it; a figure that jumped from one to the next
    because of rounding would be of no use.
    """
    gaps, work = run[GAP].cummin().to_numpy(), run[column].to_numpy()
    reached = np.flatnonzero(gaps <= target)
    if not len(reached):
        return math.inf
    k = reached[0]
    if k == 0:
        return float(work[0])
    last = max(gaps[k], 1e-300)
    part = math.log(gaps[k - 1] / target) / math.log(gaps[k - 1] / last)
    return float(work[k - 1] + part * (work[k] - work[k - 1]))


def figures_of(frame):
    """The figures of one result file.

    Returns
    -------
    dict
        For (data set, objective, solver) a dict: `work`, a dict of lists, one number for each
        repetition, and `time`, the least seconds a pass over the least reference time of
        the file, None if there is none.
    """
    if REFERENCE not in frame or not np.isfinite(frame[REFERENCE]).any():
        reference = math.nan
    else:
        reference = float(frame[REFERENCE].min())
    found = {}
    for key, run in frame.sort_values("stop_val", kind="stable").groupby(RUN, sort=True):
        own = found.setdefault(key[:3], dict(work={}, time=math.inf))
        for column in (PASSES, EIGENDECOMPOSITIONS):
            if column not in run or not (run[column] > 0).any():
                continue
            name = column.removeprefix("objective_")
            for target in GAPS:
                own["work"].setdefault(f"{name} to {label(target)}", []).append(
                    work_to(run, column, target)
                )
        passes = float(run[PASSES].iloc[-1])
        if passes > 0.0 and math.isfinite(reference):
            own["time"] = min(own["time"], float(run["time"].max()) / passes / reference)
    for own in found.values():
        own["time"] = own["time"] if math.isfinite(own["time"]) else None
    return found


def least_times(files):
    """The figures of the first of several files of the same runs, with the least time of all."""
    first, *others = files
    for key, own in first.items():
        times = [f[key]["time"] for f in (first, *others) if key in f]
        times = [time for time in times if time is not None]
        own["time"] = min(times, default=None)
    return first


# Baselines --------------------------------------------------------------------------

def machine():
    """The processor, as far as it can be told."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def make_baseline(frames, work_only=False):
    """The baseline that results of repeated runs make, with or without times."""
    every = [figures_of(frame) for frame in frames]
    names = [set(found) for found in every]
    if any(own != names[0] for own in names):
        raise CannotCompare("the files are not of the same runs: they differ in their solvers")
    rows = []
    for key, own in sorted(every[0].items()):
        times = [found[key]["time"] for found in every]
        row = dict(dataset=key[0], objective=key[1], solver=key[2], work={
            name: [_or_none(value) for value in values] for name, values in own["work"].items()
        })
        if None not in times and not work_only:
            middle = float(np.median(times))
            spread = (max(times) - min(times)) / middle if len(times) > 1 else None
            row["time"] = dict(
                value=float(f"{middle:.5g}"),
                spread=None if spread is None else float(f"{spread:.3g}"),
            )
        rows.append(row)
    return dict(
        format=FORMAT, version=__version__, machine=machine(), seeds=_seeds(frames[0]),
        runs=len(frames), figures=rows,
    )


def write_baseline(baseline, file):
    """As JSON with a line for each method, which a diff shows well."""
    head = {name: value for name, value in baseline.items() if name != "figures"}
    rows = ",\n".join("  " + json.dumps(row) for row in baseline["figures"])
    write_whole(file, json.dumps(head)[:-1] + ', "figures": [\n' + rows + "\n]}\n")


def read_baseline(file):
    """A baseline file, checked."""
    file = Path(file)
    if not file.exists():
        raise CannotCompare(f"no baseline {file}; --update makes one of a result file")
    try:
        found = json.loads(file.read_text("utf-8"))
        if found["format"] != FORMAT:
            raise CannotCompare(
                f"{file} has format {found['format']!r}, this version reads {FORMAT}"
            )
        for row in found["figures"]:
            for name, values in row["work"].items():
                row["work"][name] = [_or_inf(value) for value in values]
            if "time" in row:
                float(row["time"]["value"])
            for name in ("dataset", "objective", "solver"):
                if not isinstance(row[name], str):
                    raise TypeError(f"{name} is not a string")
        for name in ("machine", "seeds"):
            found[name]
    except CannotCompare:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCompare(f"{file} is not a baseline: {error!r}") from None
    return found


def _or_none(value):
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _or_inf(value):
    return math.inf if value is None else float(value)


def _seeds(frame):
    """What decides the random numbers of all runs: benchopt's seed and the repetitions."""
    base = sorted({int(v) for v in frame["base_seed"].dropna()}) if "base_seed" in frame else []
    return dict(base=base, repetitions=int(frame["idx_rep"].max()) + 1)


# Comparing --------------------------------------------------------------------------

def compare(found, baseline, seeds, work_only=False):
    """All figures beside a baseline's.

    Parameters
    ----------
    found : dict
        From `figures_of` or `least_times`.
    baseline : dict
        From `read_baseline`.
    seeds : dict
        Of the result.
    work_only : bool
        Times are then left out, and fewer repetitions than the baseline's will do.

    Returns
    -------
    lines : list of Line
    notes : list of str
        What was not compared, and why.
    """
    known = {(row["dataset"], row["objective"], row["solver"]): row for row in baseline["figures"]}
    missing = [key for key in known if key not in found]
    if missing:
        raise CannotCompare(
            f"{len(missing)} of {len(known)} runs of the baseline are not in the result, as they "
            f"failed or the config is another: {'; '.join(_name(key) for key in missing[:5])}"
        )
    unknown = [key for key in found if key not in known]
    if unknown:
        raise CannotCompare(
            f"{len(unknown)} runs of the result are not in the baseline (--update takes them in): "
            f"{'; '.join(_name(key) for key in unknown[:5])}"
        )
    given, kept = seeds["repetitions"], baseline["seeds"]["repetitions"]
    if seeds["base"] != baseline["seeds"]["base"] or (
        given > kept if work_only else given != kept
    ):
        raise CannotCompare(
            f"the seeds are others: {seeds} in the result, {baseline['seeds']} in the baseline"
        )
    here, notes = machine(), []
    known_times = any("time" in row for row in baseline["figures"])
    timed = not work_only and here == baseline["machine"]
    if not work_only and not known_times:
        notes.append("times are not compared: the baseline has none (--update measures them)")
    elif not work_only and not timed:
        notes.append(
            f"times are not compared: the baseline's are of {baseline['machine']!r}, this is "
            f"{here!r}"
        )
    lines = []
    for key, row in known.items():
        own = found[key]
        for name, values in row["work"].items():
            now = own["work"].get(name, [])
            if len(now) < given:
                raise CannotCompare(f"{_name(key)}: {len(now)} of {given} repetitions have {name}")
            pairs = [
                Line(key, name, was, is_now, WORK_TOLERANCE)
                for was, is_now in zip(values, now, strict=False)
            ]
            lines.append(max(pairs, key=lambda line: abs(line.change)))
        if timed and "time" in row:
            if own["time"] is None:
                raise CannotCompare(f"{_name(key)}: the result has no reference time")
            spread = row["time"].get("spread")
            tolerance = MOST_TIME_TOLERANCE if spread is None else float(
                np.clip(TIMES_SPREAD * spread, LEAST_TIME_TOLERANCE, MOST_TIME_TOLERANCE)
            )
            lines.append(Line(key, "time a pass", row["time"]["value"], own["time"], tolerance))
    return lines, notes


def _name(key):
    return f"{key[2]} on {key[0]}, {key[1]}"


def print_comparison(lines, notes, console):
    """A table with a row for each method and problem, and the lines that changed."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("data", "method"):
        table.add_column(name, overflow="fold")
    for name in ("work", "time", "allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    by, titled = {}, titles(list(dict.fromkeys(line.key[:2] for line in lines)))
    for line in lines:
        by.setdefault(line.key, []).append(line)
    for key, own in by.items():
        work = max(
            (line for line in own if line.figure != "time a pass"),
            key=lambda line: abs(line.change), default=None,
        )
        time = next((line for line in own if line.figure == "time a pass"), None)
        table.add_row(
            escape(titled[key[:2]]), escape(key[2]), _shown(work),
            _shown(time), "-" if time is None else f"{time.tolerance:.0%}",
        )
    console.print(table)
    for outcome, sentence in ((WORSE, "worse"), (BETTER, "better: --update raises the baseline")):
        changed = [line for line in lines if line.outcome == outcome]
        if changed:
            console.print(f"[{COLORS[outcome]}]{len(changed)} figures are {sentence}[/]")
            for line in changed:
                console.print("  " + escape(str(line)), soft_wrap=True)
    for note in notes:
        console.print(escape(note))
    if not any(line.outcome == WORSE for line in lines):
        console.print(f"no regression in {len(lines)} figures")


def _shown(line):
    if line is None:
        return "-"
    return f"[{COLORS[line.outcome]}]{line.change:+.1%}[/]"


def write_json(lines, notes, file):
    """All lines, for programs."""
    write_whole(file, json.dumps(dict(
        notes=notes, regression=any(line.outcome == WORSE for line in lines), figures=[dict(
            dataset=line.key[0], objective=line.key[1], solver=line.key[2], figure=line.figure,
            was=_or_none(line.was), now=_or_none(line.now), change=_or_none(line.change),
            tolerance=line.tolerance, outcome=line.outcome,
        ) for line in lines],
    ), indent=1))


def write_junit(lines, error, file):
    """A JUnit file with a test for each figure; with one error if nothing could be compared."""
    suite = ElementTree.Element("testsuite", name="regress", tests=str(max(len(lines), 1)),
                                failures=str(sum(line.outcome == WORSE for line in lines)),
                                errors=str(int(error is not None)))
    for line in lines:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(f"{line.key[0]}, {line.key[1]}"),
            name=_xml(f"{line.key[2]}: {line.figure}"),
        )
        if line.outcome == WORSE:
            ElementTree.SubElement(case, "failure", message=_xml(str(line)))
    if error is not None:
        case = ElementTree.SubElement(suite, "testcase", classname="regress", name="compare")
        ElementTree.SubElement(case, "error", message=_xml(str(error)))
    text = ElementTree.tostring(suite, "unicode")
    write_whole(file, '<?xml version="1.0" encoding="utf-8"?>\n' + text + "\n")


def _xml(text):
    """Without what XML has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


# The command ------------------------------------------------------------------------

def regress(results, baseline, update=False, work_only=False, json_file=None, junit=None,
            again=None, console=None):
    """Compare results with a baseline; returns the exit code.

    Parameters
    ----------
    results : list of list of path
        The files of each of some repeated runs; of times the least counts.
    baseline : path
    update : bool
        Write the baseline instead.
    work_only : bool
    json_file, junit : path or None
        Also write the lines there.
    again : callable or None
        Called with the lines whose time is worse; runs them once more and returns results,
        as above. Where nothing else is worse, noise is told from a regression this way.
    """
    console = console or Console()
    lines, notes, error = [], [], None
    try:
        frames = [read_results(files) for files in results]
        if update:
            write_baseline(make_baseline(frames, work_only), baseline)
            console.print(escape(f"written: {baseline}, of {len(frames)} runs"))
            return OK
        known = read_baseline(baseline)
        found = [figures_of(frame) for frame in frames]
        seeds = _seeds(frames[0])
        lines, notes = compare(least_times(found), known, seeds, work_only)
        slower = [line for line in lines if line.outcome == WORSE]
        if again is not None and slower and all(line.figure == "time a pass" for line in slower):
            console.print(f"{len(slower)} times are above what is allowed; they are run again")
            found += [figures_of(read_results(files)) for files in again(slower)]
            lines, notes = compare(least_times(found), known, seeds, work_only)
    except ValueError as problem:
        error = problem
        console.print(f"[red]cannot compare:[/] {escape(str(problem))}", soft_wrap=True)
    else:
        print_comparison(lines, notes, console)
    if json_file is not None and error is None:
        write_json(lines, notes, json_file)
    if junit is not None:
        write_junit(lines, error, junit)
    if error is not None:
        return CANNOT
    return REGRESSION if any(line.outcome == WORSE for line in lines) else OK

"""``python -m benchmark_dspdc regress``: has a method become slower than a baseline says?

Two kinds of figures of each method on each problem. Work, the passes and eigendecompositions
to common gaps at fixed seeds, is the same on every machine up to rounding. Time is compared on
the same kind of machine only, and what it varies by without a change is part of the baseline.

A machine that others use as well changes its speed from one moment to the next. So a time is a
multiple of a reference loop's, which is measured at every point of a curve, see `curve_time`.
What is left of the noise concerns most methods alike, so beside it there is a second figure, the
time as a multiple of what the methods of the same problem take in the middle: it sees a smaller
slowdown of one method, the first one sees a slowdown of all.
"""

import json
import math
import platform
import re
import subprocess
from contextlib import suppress
from itertools import islice
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
from .files import unshown_in
from .results import EIGENDECOMPOSITIONS, GAP, GAPS, PASSES, RUN, label, read_results, titles

REFERENCE = "objective_reference_seconds"

#: Work may differ by this much: rounding is far below, a changed step size far above.
WORK_TOLERANCE = 0.02

#: Time may differ by so many times what repeated runs do, but by no less than the first; by the
#: second where there was one run alone.
TIMES_SPREAD = 2.0
LEAST_TIME_TOLERANCE, TIME_TOLERANCE = 0.10, 0.22

#: A slowdown that should be seen. Where times vary too much for that, it is said.
SLOWDOWN = 0.30

#: The figures that are no work; the second where a problem has so many methods.
TIMES = TIME, BESIDE = "time a pass", "time beside others"
MANY = 5

#: How often at most runs whose time is too long are made once more, as long as it is too long
#: in the middle of them all. A machine that is busy for a while is no regression.
TRIES = 4

#: Of the format of baseline files.
FORMAT = 2

SAME, BETTER, WORSE = "same", "better", "worse"
OK, REGRESSION = 0, 1
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
        # Slow runs are made again, fast ones are not: a gain must be the clearer.
        least = max(self.tolerance, SLOWDOWN) if self.figure in TIMES else self.tolerance
        return BETTER if self.change < -least else SAME

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
    found = float(work[k])
    if k > 0:
        above = math.log(gaps[k - 1])
        fallen = above - math.log(max(gaps[k], 1e-300))
        part = (above - math.log(target)) / fallen if fallen > 0.0 else 1.0
        found = float(work[k - 1] + part * (work[k] - work[k - 1]))
    return max(found, 0.0) if math.isfinite(found) else math.inf


def figures_of(frame):
    """The figures of one result file.

    Returns
    -------
    dict
        For (data set, objective, solver) a dict: `work`, a dict of lists, one number for each
        repetition; `checks`, the points of each repetition; `times`, a dict of `TIME` and
        `BESIDE`, without those that are not known.
    """
    found, repetitions = {}, {}
    for key, run in frame.sort_values("stop_val", kind="stable").groupby(RUN, sort=True):
        own = found.setdefault(key[:3], dict(work={}, checks=[], times={}))
        own["checks"].append(len(run))
        for column in (PASSES, EIGENDECOMPOSITIONS):
            if column not in run or not (run[column] > 0).any():
                continue
            name = column.removeprefix("objective_")
            for target in GAPS:
                own["work"].setdefault(f"{name} to {label(target)}", []).append(
                    work_to(run, column, target)
                )
        repetitions.setdefault(key[:3], []).append(run)
    problems = {}
    for key, some in repetitions.items():
        time = curve_time(some)
        if 0.0 < time < math.inf:
            found[key]["times"][TIME] = time
            problems.setdefault(key[:2], []).append(found[key]["times"])
    for some in problems.values():
        middle = float(np.median([times[TIME] for times in some]))
        for times in some if len(some) >= MANY else ():
            times[BESIDE] = times[TIME] / middle
    return found


def curve_time(repetitions):
    """The time a pass of a method on a problem, as a multiple of the reference loop's.

    Each stretch between two points is a multiple of what the loop took at its ends: milliseconds
    apart, they see the same machine. Of each the repetition in the middle counts, by pass, as
    seeds may do other work.

    Parameters
    ----------
    repetitions : list of DataFrame
        The points of each, in order.

    Returns
    -------
    float
        Not a number or infinite if it is not known.
    """
    stretches = {}
    for run in repetitions:
        if REFERENCE not in run:
            return math.nan
        speed = run[REFERENCE].to_numpy(dtype=float)
        before = np.concatenate([speed[:1], speed[:-1]])
        with np.errstate(all="ignore"):
            times = np.diff(run["time"].to_numpy(dtype=float), prepend=0.0) / (
                0.5 * (before + speed)
            )
        passes = np.diff(run[PASSES].to_numpy(dtype=float), prepend=0.0)
        for k, stretch in enumerate(zip(times.tolist(), passes.tolist(), strict=True)):
            stretches.setdefault(k, []).append(stretch)
    time = work = 0.0
    for some in stretches.values():
        mean = sum(passes for _, passes in some) / len(some)
        # Before the first pass there is time all the same.
        time += float(np.median([
            value * (mean / passes if passes > 0.0 else 1.0) for value, passes in some
        ]))
        work += mean
    return time / work if work > 0.0 else math.inf


# Baselines --------------------------------------------------------------------------

def machine():
    """This machine's processor, as far as it can be told."""
    if platform.system() == "Darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
            return done.stdout.strip()
    with suppress(OSError):
        # Not every Linux has it: none on ARM.
        if found := re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()):
            return found[1].strip()
    return platform.processor() or platform.machine()


def word_of(frame, column):
    """What a result file says of itself in a column of benchopt's; "" if it says nothing."""
    words = frame[column].unique() if column in frame else ()
    # They are shown, on a terminal too.
    fit = (w for w in words if isinstance(w, str) and len(w) <= 100 and not unshown_in(w))
    return ", ".join(islice(filter(None, fit), 3))


def processor(frame):
    """What a result was measured on, as its file says."""
    return word_of(frame, "system-processor")


def make_baseline(frames, work_only=False):
    """The baseline that results of repeated runs make, with or without times.

    Only runs with the same work make one: what differs between two runs of the same code could
    not be told from a regression.
    """
    every = [figures_of(frame) for frame in frames]
    seeds, places = _seeds(frames[0]), {processor(frame) or machine() for frame in frames}
    for frame, found in zip(frames, every, strict=True):
        if set(found) != set(every[0]):
            raise CannotCompare(
                "the files are not of the same runs: they differ in their solvers"
            )
        if _seeds(frame) != seeds:
            raise CannotCompare(
                f"the files are not of the same runs: the seeds are {seeds} and {_seeds(frame)}"
            )
        for key, own in found.items():
            lines = _work_lines(key, every[0][key], own, seeds["repetitions"])
            for line in lines:
                if line.outcome != SAME:
                    raise CannotCompare(f"repeated runs do not do the same work: {line}")
    if len(places) > 1 and not work_only:
        raise CannotCompare(f"the files are of several processors: {sorted(places)}")
    rows = []
    for key, own in sorted(every[0].items()):
        row = dict(dataset=key[0], objective=key[1], solver=key[2], work=own["work"],
                   checks=own["checks"], times={})
        for name in () if work_only else own["times"]:
            times = [found[key]["times"].get(name) for found in every]
            if None not in times:
                row["times"][name] = _middle(times)
        rows.append(row)
    return dict(
        format=FORMAT, version=__version__, machine=min(places), seeds=seeds, runs=len(frames),
        figures=rows,
    )


def _middle(times):
    """What runs have in the middle, and how far any is from it; unknown if there is but one."""
    value = float(np.median(times))
    spread = max(abs(time / value - 1.0) for time in times)
    return dict(
        value=float(f"{value:.5g}"), spread=float(f"{spread:.3g}") if len(times) > 1 else None
    )


def write_baseline(baseline, file):
    """As JSON with a line for each method, which a diff shows well."""
    head = {name: value for name, value in baseline.items() if name != "figures"}
    rows = [
        dict(row, work={
            name: [_or_none(value) for value in values] for name, values in row["work"].items()
        }) for row in baseline["figures"]
    ]
    rows = ",\n".join("  " + json.dumps(row) for row in rows)
    write_whole(file, json.dumps(head)[:-1] + ', "figures": [\n' + rows + "\n]}\n")


def read_baseline(file):
    """A baseline file, checked."""
    file = Path(file)
    try:
        found = json.loads(file.read_text("utf-8"))
        if found["format"] != FORMAT:
            raise CannotCompare(
                f"{file} has format {found['format']!r}, this version reads {FORMAT}; --update "
                "makes a new one"
            )
        _check_head(found)
        for row in found["figures"]:
            _check_row(row, found["seeds"]["repetitions"])
            row["work"] = {
                name: [math.inf if value is None else float(value) for value in values]
                for name, values in row["work"].items()
            }
        if len({_key(row) for row in found["figures"]}) < len(found["figures"]):
            raise ValueError("it has a method twice")
    except CannotCompare:
        raise
    except FileNotFoundError:
        raise CannotCompare(f"no baseline {file}; --update makes one of a result file") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError,
            RecursionError) as error:
        raise CannotCompare(f"{file} is not a baseline: {error!r}") from None
    return found


def _check_head(found):
    """Raise ValueError unless all but the figures of a baseline can be worked with."""
    base, repetitions = found["seeds"]["base"], found["seeds"]["repetitions"]
    known = isinstance(base, list) and all(map(_is_count, (*base, repetitions)))
    if not known or repetitions < 1 or len(found["seeds"]) > 2:
        raise ValueError(f"seeds is {found['seeds']!r}")
    if not isinstance(found["machine"], str) or not isinstance(found["figures"], list):
        raise ValueError("machine is no string, or figures no list")


def _check_row(row, repetitions):
    """The same for the figures of a method."""
    for name in (*_key(row), *row["work"]):
        # They are shown, on a terminal too.
        if not isinstance(name, str) or unshown_in(name):
            raise ValueError(f"{name!a} is no name")
    for values in (row["checks"], *row["work"].values()):
        if not isinstance(values, list) or len(values) != repetitions:
            raise ValueError(f"{values!r} is not a number for each of {repetitions} repetitions")
    if not set(row["times"]) <= set(TIMES):
        raise ValueError(f"times is {row['times']!r}")
    amounts = [value for values in row["work"].values() for value in values]
    for time in row["times"].values():
        amounts += [time.get("spread"), time["value"] or -1]
    known = all(map(_is_count, row["checks"])) and all(
        value is None or _is_amount(value) for value in amounts
    )
    if not known:
        raise ValueError(f"a number of {row['solver']} is none, negative or infinite")


def _is_amount(value):
    # Not true and false, which are numbers too.
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_count(value):
    return type(value) is int and value >= 0


def _key(row):
    return row["dataset"], row["objective"], row["solver"]


def _or_none(value):
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _seeds(frame):
    """What decides the random numbers of all runs: benchopt's seed and the repetitions."""
    base = []
    if "base_seed" in frame:
        try:
            base = sorted({int(value) for value in frame["base_seed"].dropna()})
        except (ValueError, OverflowError):
            base = [-1]
        if base and base[0] < 0:
            raise CannotCompare("column base_seed of the result holds other than seeds")
    return dict(base=base, repetitions=int(frame["idx_rep"].max()) + 1)


# Comparing --------------------------------------------------------------------------

def compare(frames, baseline, work_only=False, again=()):
    """All figures beside a baseline's.

    Parameters
    ----------
    frames : list of DataFrame
        Results of repeated runs: the work of each counts, and of their times the middle.
    baseline : dict
        From `read_baseline` or `make_baseline`.
    work_only : bool
        Times are then left out, and fewer repetitions than the baseline's will do.
    again : list of DataFrame
        Further runs of some of the problems, for their times alone.

    Returns
    -------
    lines : list of Line
    notes : list of str
        What was not compared, and why.
    """
    known = {_key(row): row for row in baseline["figures"]}
    runs, more = ([figures_of(frame) for frame in some] for some in (frames, again))
    for frame, found in zip(frames, runs, strict=True):
        _check_same_runs(found, known, _seeds(frame), baseline["seeds"], work_only)
    given = _seeds(frames[0])["repetitions"]
    here, notes = {processor(frame) or machine() for frame in (*frames, *again)}, []
    known_times = any(row["times"] for row in baseline["figures"])
    timed = not work_only and here == {baseline["machine"]}
    if not work_only and not known_times:
        notes.append("times are not compared: the baseline has none (--update measures them)")
    elif not work_only and not timed:
        notes.append(
            f"times are not compared: the baseline's are of {baseline['machine']!r}, those of the "
            f"result of {', '.join(map(repr, sorted(here)))}"
        )
    lines = []
    for key, row in known.items():
        by = {}
        for found in runs:
            for line in _work_lines(key, row, found[key], given):
                by.setdefault(line.figure, []).append(line)
        lines += map(_worst, by.values())
        for name, time in row["times"].items() if timed else ():
            first, later = (
                [found[key]["times"].get(name) for found in some if key in found]
                for some in (runs, more)
            )
            if None in (*first, *later):
                raise CannotCompare(f"{_name(key)}: the result has no reference time")
            spread = time.get("spread")
            tolerance = TIME_TOLERANCE if spread is None else max(
                TIMES_SPREAD * spread, LEAST_TIME_TOLERANCE
            )
            line = Line(key, name, time["value"], float(np.median(first)), tolerance)
            if line.outcome == WORSE:
                line = line._replace(now=float(np.median([*first, *later])))
            lines.append(line)
    finest = {}
    for line in lines:
        if line.figure in TIMES:
            finest[line.key] = min(finest.get(line.key, math.inf), line.tolerance)
    if blind := sum(tolerance >= SLOWDOWN for tolerance in finest.values()):
        notes.append(
            f"{blind} of {len(finest)} times varied so much in the runs of the baseline that "
            f"{SLOWDOWN:.0%} more would not be seen: make it on a quieter machine"
        )
    return lines, notes


def _check_same_runs(found, known, seeds, kept, work_only):
    """Raise unless a result has the baseline's curves and seeds."""
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
    few = work_only and seeds["repetitions"] < kept["repetitions"]
    if seeds != kept and not (few and seeds["base"] == kept["base"]):
        raise CannotCompare(
            f"the seeds are others: {seeds} in the result, {kept} in the baseline"
        )


def _work_lines(key, known, own, repetitions):
    """The work of a method in one run, a line for each figure and repetition."""
    if len(own["checks"]) != repetitions:
        raise CannotCompare(f"{_name(key)}: {len(own['checks'])} of {repetitions} repetitions")
    lines = []
    for name, values in known["work"].items():
        now = own["work"].get(name, [])
        if len(now) != repetitions:
            raise CannotCompare(
                f"{_name(key)}: {len(now)} of {repetitions} repetitions have {name}"
            )
        for k, value in enumerate(now):
            before, after = known["checks"][k], own["checks"][k]
            if after < before and not math.isfinite(value) and math.isfinite(values[k]):
                raise CannotCompare(
                    f"{_name(key)}: repetition {k} ended after {after} of {before} checks: "
                    "another max-runs, or its time limit was reached"
                )
            lines.append(Line(key, name, values[k], value, WORK_TOLERANCE))
    return lines


def _worst(lines):
    """The line to show of several: what got better never hides what got worse."""
    return max(lines, key=lambda line: (line.outcome == WORSE, abs(line.change)), default=None)


def _name(key):
    return f"{key[2]} on {key[0]}, {key[1]}"


def print_comparison(lines, notes, console):
    """A table with a row for each method and problem, and the lines that changed."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("data", "method"):
        table.add_column(name, overflow="fold")
    for name in ("work", TIME, "of", BESIDE, "of"):
        table.add_column(name, justify="right", no_wrap=name == "of")
    by, titled = {}, titles(list(dict.fromkeys(line.key[:2] for line in lines)))
    for line in lines:
        by.setdefault(line.key, []).append(line)
    for key, own in by.items():
        cells = [_shown(_worst([line for line in own if line.figure not in TIMES]))]
        for name in TIMES:
            line = _worst([line for line in own if line.figure == name])
            cells += [_shown(line), "-" if line is None else f"{line.tolerance:.0%}"]
        table.add_row(escape(titled[key[:2]]), escape(key[2]), *cells)
    console.print(table)
    console.print("of: the change that is allowed, by what repeated runs differ in")
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


def write_json(lines, notes, error, file):
    """All lines, for programs; `error` is why nothing could be compared, or None."""
    worse = any(line.outcome == WORSE for line in lines)
    write_whole(file, json.dumps(dict(
        error=error, notes=notes, regression=worse if error is None else None, figures=[dict(
            dataset=line.key[0], objective=line.key[1], solver=line.key[2], figure=line.figure,
            was=_or_none(line.was), now=_or_none(line.now), change=_or_none(line.change),
            tolerance=line.tolerance, outcome=line.outcome,
        ) for line in lines],
    ), indent=1))


def write_junit(lines, notes, error, file):
    """A JUnit file: a test for each figure, one that is skipped for each note, and the error."""
    suite = ElementTree.Element("testsuite", name="regress")

    def case(name, classname="regress", outcome=None, message=None):
        one = ElementTree.SubElement(
            suite, "testcase", classname=_xml(classname), name=_xml(name)
        )
        if outcome is not None:
            ElementTree.SubElement(one, outcome, message=_xml(message))
    for line in lines:
        case(
            f"{line.key[2]}: {line.figure}", f"{line.key[0]}, {line.key[1]}",
            "failure" if line.outcome == WORSE else None, str(line),
        )
    for note in notes:
        case(note.partition(":")[0], outcome="skipped", message=note)
    if error is not None:
        case("compare", outcome="error", message=error)
    suite.set("tests", str(len(suite)))
    for outcome, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{outcome}"))))
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
    results : callable
        Returns the files of each of some repeated runs, as a list of lists.
    baseline : path
    update : bool
        Write the baseline instead.
    work_only : bool
    json_file, junit : path or None
        Also write the lines there, or why there are none.
    again : callable or None
        Called with the lines whose time is worse; runs their problems once more and returns
        results, as above. Where nothing else is worse, noise is told from a regression this way.
    """
    console = console or Console()
    try:
        frames = [read_results(files) for files in results()]
        if update:
            write_baseline(make_baseline(frames, work_only), baseline)
            lines = []
            notes = [f"nothing is compared: {baseline} was written, of {len(frames)} runs"]
        else:
            lines, notes = _with_second_tries(
                frames, read_baseline(baseline), work_only, again, console
            )
    except BaseException as error:
        # Even if it was stopped: figures of an earlier run must not be taken for this one's.
        _write_files([], [], str(error) or type(error).__name__, json_file, junit)
        raise
    _write_files(lines, notes, None, json_file, junit)
    if update:
        console.print(escape(notes[0]), soft_wrap=True)
    else:
        print_comparison(lines, notes, console)
    return REGRESSION if any(line.outcome == WORSE for line in lines) else OK


def _with_second_tries(frames, known, work_only, again, console):
    """`compare`, and again with further runs while nothing but times is worse."""
    lines, notes = compare(frames, known, work_only)
    more = []
    for _ in range(TRIES):
        slower = [line for line in lines if line.outcome == WORSE]
        if again is None or not slower or any(line.figure not in TIMES for line in slower):
            break
        console.print(f"{len(slower)} times are above what is allowed; they are run again")
        more += [read_results(files) for files in again(slower)]
        lines, notes = compare(frames, known, work_only, more)
    return lines, notes


def _write_files(lines, notes, error, json_file, junit):
    if json_file is not None:
        write_json(lines, notes, error, json_file)
    if junit is not None:
        write_junit(lines, notes, error, junit)

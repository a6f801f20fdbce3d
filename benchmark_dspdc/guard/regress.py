"""``python -m benchmark_dspdc regress``: has a method become slower than a baseline says?

Two kinds of figures of each method on each problem, see `effort`. Work is the same on every
machine up to rounding. Time is compared on the same kind of machine only, and what it varies by
without a change is part of the baseline.
"""

import importlib.metadata
import math
import statistics
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape

from ..bench.benchopt_process import COMMIT, PROCESSOR, commit_of
from ..bench.processor import this_processor
from ..report.plain_files import unshown_in
from ..report.results import RUN, read_results
from ..version import __version__
from .baseline import (
    FORMAT,
    CannotCompare,
    NothingToCompare,
    has_times,
    key_of,
    read_baseline,
    write_baseline,
)
from .compared_lines import (
    SAME,
    SLOWDOWN,
    WORSE,
    Line,
    counted,
    name_of,
    print_comparison,
    worse,
    worst,
    write_json,
    write_junit,
)
from .curve_figures import BESIDE, MANY, TIME, figures_of, last_gaps
from .paired_runs import by_turns, suspects

#: Work may differ by this much: rounding is far below, a changed step size far above.
WORK_TOLERANCE = 0.02

#: Time may differ by so many times what repeated runs do, but by no less than the second.
TIMES_SPREAD, LEAST_TIME_TOLERANCE = 2.0, 0.10

#: What runs differ by if there was one alone, or more if its repetitions do: those are measured
#: within seconds and know nothing of another day.
SPREAD_OF_ONE = 0.11

#: After how many runs it is decided whether a time is too long: once it is not, it is none.
#: A machine that is busy for a while is no regression. Odd, so that the median is a run's own
#: and not the mean of a slow one and a lucky one.
COUNTS = (1, 3, 5)

#: Packages whose releases belong to a time.
RELEASES = ("numba", "llvmlite", "numpy", "scipy")

OK, REGRESSION = 0, 1


# Where and when ---------------------------------------------------------------------

def word_of(frame, column):
    """What a result file says of itself in a column of benchopt's; "" if it says nothing."""
    words = frame[column].unique() if column in frame else ()
    # They are shown, on a terminal too.
    fit = (w for w in words if isinstance(w, str) and len(w) <= 100 and not unshown_in(w))
    return ", ".join(islice(filter(None, fit), 3))


def processor(frame):
    """What a result was measured on, as its file says; benchopt's word is the less exact one."""
    return word_of(frame, PROCESSOR) or word_of(frame, "system-processor")


def _cpus(frame):
    """How many processors the result's machine had, 0 if it was on several machines."""
    column = "system-cpus"
    if column not in frame or not pd.api.types.is_numeric_dtype(frame[column]):
        # As benchopt counts them.
        from joblib import cpu_count

        return cpu_count()
    known = {int(value) for value in frame[column].dropna().unique() if 0 < value < 1e6}
    return known.pop() if len(known) == 1 else 0


def _release(package):
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return ""


def conditions(frame):
    """What times depend on: as the result file says, else as it is here."""
    return dict(
        processor=processor(frame) or this_processor(), cpus=_cpus(frame),
        releases={name: word_of(frame, f"version-{name}") or _release(name) for name in RELEASES},
    )


def _place(found):
    """The machine of some conditions, in words."""
    return f"{found['processor']!r} with {found['cpus']} CPUs"


def _made(frames):
    """When, at which commit and of how many runs a baseline is made."""
    commit = word_of(frames[-1], COMMIT) or commit_of(Path.cwd()) or ""
    return dict(date=f"{datetime.now(UTC):%Y-%m-%d}", commit=commit, runs=len(frames))


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


# Baselines --------------------------------------------------------------------------

def make_baseline(frames, work_only=False, last=None):
    """The baseline that results of repeated runs make, with or without times.

    Only runs with the same work make one: what differs between two runs of the same code could
    not be told from a regression. `last` has other gaps than those of the runs, see `last_gaps`.
    """
    last = last_gaps(frames) if last is None else last
    every = [figures_of(frame, last) for frame in frames]
    seeds, places = _seeds(frames[0]), {_place(conditions(frame)) for frame in frames}
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
            for line in _work_lines(key, every[0][key], own, seeds["repetitions"]):
                if line.outcome != SAME:
                    raise CannotCompare(f"repeated runs do not do the same work: {line}")
    if len(places) > 1 and not work_only:
        raise CannotCompare(f"the files are of several machines: {'; '.join(sorted(places))}")
    # What one run varies by is not known; its repetitions say a little.
    samples = every if len(frames) > 1 else _by_repetition(frames[0], last)
    rows = []
    for key, own in sorted(every[0].items()):
        times = {} if work_only else {
            name: _typical(
                *([found[key]["times"].get(name) for found in some if key in found]
                  for some in (every, samples)),
                least=0.0 if len(frames) > 1 else SPREAD_OF_ONE,
            ) for name in own["times"]
        }
        times = {name: time for name, time in times.items() if time is not None}
        if not own["work"] and not times:
            wanted = "passes" if work_only else "passes or reference times"
            raise CannotCompare(f"{name_of(key)} has no figure: no column with its {wanted}")
        rows.append(dict(
            dataset=key[0], objective=key[1], solver=key[2], work=own["work"],
            checks=own["checks"], last=last.get(key, []), times=times,
        ))
    _pool_spreads(rows)
    return dict(
        format=FORMAT, version=__version__, made=[_made(frames)],
        machine=conditions(frames[-1]), seeds=seeds, figures=rows,
    )


def _pool_spreads(rows):
    """Raise spreads to the median of the problem's methods, where there are many of them.

    Of so many methods some have five runs that are alike by luck, and then an ordinary run would
    be an alarm.
    """
    groups = {}
    for row in rows:
        for name, time in row["times"].items():
            groups.setdefault((row["dataset"], row["objective"], name), []).append(time)
    for times in groups.values():
        if len(times) >= MANY:
            common = float(np.median([time["spread"] for time in times]))
            for time in times:
                time["spread"] = max(time["spread"], common)


def _by_repetition(frame, last):
    """The figures of each repetition as if it were alone."""
    found = []
    for k, value in enumerate(sorted(frame["idx_rep"].unique())):
        own = {key: gaps[k:k + 1] for key, gaps in last.items()}
        found.append(figures_of(frame[frame["idx_rep"] == value], own))
    return found


def _typical(times, samples, least):
    """The median of times, and how far any sample is from theirs; None if that is not known."""
    if None in times:
        return None
    value = float(np.median(times))
    if not 0.0 < value < math.inf:
        return None
    known = [time for time in samples if time is not None and math.isfinite(time)]
    # Repetitions are all above a time that is the least of them.
    middle = float(np.median(known)) if known else value
    spread = max([least, *(abs(time / middle - 1.0) for time in known)])
    value, spread = float(f"{value:.5g}"), float(f"{spread:.3g}")
    return dict(value=value, spread=spread) if math.isfinite(spread) and value > 0.0 else None


def _common(frames, baseline):
    """What results and a baseline have in common, of both."""
    found = set(figures_of(frames[0]))
    keys = [key for key in map(key_of, baseline["figures"]) if key in found]
    if not keys:
        raise CannotCompare("no run of the baseline is in the result")
    # Beside others is beside the same others.
    partial = {key[:2] for key in map(key_of, baseline["figures"]) if key not in found}
    rows = [
        dict(row, times={
            name: time for name, time in row["times"].items()
            if name != BESIDE or key_of(row)[:2] not in partial
        }) for row in baseline["figures"] if key_of(row) in found
    ]
    index = pd.MultiIndex.from_tuples(keys)
    some = [frame[pd.MultiIndex.from_frame(frame[RUN[:3]]).isin(index)] for frame in frames]
    return some, dict(baseline, figures=rows)


def _extended(known, made):
    """A baseline with the rows that another one has beyond it."""
    old = {key_of(row) for row in known["figures"]}
    new = [row for row in made["figures"] if key_of(row) not in old]
    if not new:
        raise CannotCompare("nothing to add: the baseline has every method of the result")
    found, problems = set(map(key_of, made["figures"])), {key_of(row)[:2] for row in new}
    missing = [key for key in old if key[:2] in problems and key not in found]
    if missing:
        raise CannotCompare(
            "--add takes a run of the new methods with all others of their problems; there is no "
            f"{'; '.join(map(name_of, sorted(missing)[:5]))}"
        )
    rows = [_beside_more(row, old, made) for row in known["figures"]]
    return dict(known, made=known["made"] + made["made"], figures=sorted(rows + new, key=key_of))


def with_times(known, made):
    """A baseline with the times of another one, of the same methods or some of them.

    What is new since then cannot be compared, and is no fault of the baseline. If the other one
    is None, that is all.
    """
    made = made or dict(figures=[], made=[], machine=known["machine"])
    times = {key_of(row): row["times"] for row in made["figures"]}
    rows = [
        dict(row, times=times.get(key_of(row), {}), is_new=key_of(row) not in times)
        for row in known["figures"]
    ]
    others = set(times) ^ set(map(key_of, rows))
    for row in rows:
        if key_of(row)[:2] in {key[:2] for key in others}:
            # Beside others is beside the same others.
            row["times"] = {name: time for name, time in row["times"].items() if name != BESIDE}
    return dict(known, made=made["made"], machine=made["machine"], figures=rows)


def _beside_more(row, old, made):
    """A row whose time beside others is beside the new ones too."""
    if BESIDE not in row["times"]:
        return row
    times = {
        key_of(one): one["times"][TIME]["value"] for one in made["figures"]
        if TIME in one["times"] and key_of(one)[:2] == key_of(row)[:2]
    }
    before = [time for key, time in times.items() if key in old]
    if not before or len(before) == len(times):
        return row
    factor = float(np.median(before)) / float(np.median(list(times.values())))
    beside = row["times"][BESIDE]
    beside = dict(beside, value=float(f"{factor * beside['value']:.5g}"))
    return dict(row, times=row["times"] | {BESIDE: beside})


# Comparing --------------------------------------------------------------------------

def compare(frames, baseline, work_only=False, again=(), time_only=False):
    """All figures beside a baseline's.

    Parameters
    ----------
    frames : list of DataFrame
        Results of repeated runs: the work of each counts, and of their times the median.
    baseline : dict
        From `read_baseline` or `make_baseline`.
    work_only : bool
        Times are then left out, and fewer repetitions than the baseline's will do.
    again : list of DataFrame
        Further runs of some of the problems, for their times alone.
    time_only : bool
        Work is then left out.

    Returns
    -------
    lines : list of Line
        One at least; where there is nothing to compare, `CannotCompare` is raised.
    notes : list of str
        What was not compared, and why.
    """
    known = {key_of(row): row for row in baseline["figures"]}
    last = {key: row["last"] for key, row in known.items()}
    runs, more = ([figures_of(frame, last) for frame in some] for some in (frames, again))
    for frame, found in zip(frames, runs, strict=True):
        _check_same_runs(found, known, _seeds(frame), baseline["seeds"], work_only)
    given = _seeds(frames[0])["repetitions"]
    notes = [] if work_only else _untimed(map(conditions, (*frames, *again)), baseline)
    timed, lines = not work_only and not notes, []
    for key, row in known.items():
        by = {}
        for found in () if time_only else runs:
            for line in _work_lines(key, row, found[key], given):
                by.setdefault(line.figure, []).append(line)
        lines += map(worst, by.values())
        if timed:
            lines += _time_lines(key, row, *(
                [found[key] for found in some if key in found] for some in (runs, more)
            ))
    compared = {line.key for line in lines}
    left = [key for key in known if key not in compared]
    # Of those that are new it is said elsewhere.
    if any(not known[key].get("is_new") for key in left):
        lacking = "time in the baseline" if time_only else (
            "column with passes, and times are not compared"
        )
        notes.append(f"{len(left)} of {len(known)} methods are left out, as they have no "
                     f"{lacking}: {'; '.join(map(name_of, left[:5]))}")
    blank = [row for row in map(known.get, left) if not row["work"] and not row["times"]]
    if not lines or any(not row.get("is_new") for row in blank):
        raise NothingToCompare("; ".join(notes or ["the baseline has no figures"]))
    if timed:
        notes += _caveats(baseline, conditions(frames[0]))
    return lines, notes


def _untimed(places, baseline):
    """Why times cannot be compared: a list that is empty if they can."""
    if not has_times(baseline):
        return ["times are not compared: the baseline has none (--update measures them)"]
    was, here = _place(baseline["machine"]), {_place(found) for found in places}
    if here == {was}:
        return []
    return [
        f"times are not compared: the baseline's are of {was}, those of the result of "
        f"{', '.join(sorted(here))}"
    ]


def _caveats(baseline, found):
    """What should be known about times that were compared."""
    notes, was = [], baseline["machine"]["releases"]
    others = [
        f"{name} {was[name]} and {release}" for name, release in found["releases"].items()
        if was.get(name, release) != release
    ]
    if others:
        notes.append(
            "times are compared although releases differ between the baseline and the result: "
            f"{', '.join(others)}"
        )
    if any(one["runs"] == 1 for one in baseline["made"]):
        notes.append(
            "the baseline, or a part of it, is of one run: what it varies by is that of its "
            f"repetitions, and taken to be {SPREAD_OF_ONE:.0%} at least"
        )
    return notes


def _blind(lines):
    """What the times of a baseline are too noisy for, where they alone decide: a list."""
    alone, together = {}, {}
    for line in lines:
        if line.is_time:
            alone[line.key] = min(alone.get(line.key, math.inf), line.tolerance)
        if line.is_time and line.figure != BESIDE:
            together[line.key] = min(together.get(line.key, math.inf), line.tolerance)
    one, all_of_them = (
        sum(tolerance >= SLOWDOWN for tolerance in some.values()) for some in (alone, together)
    )
    if not one and not all_of_them:
        return []
    return [
        f"times varied so much in the runs that are compared with that {SLOWDOWN:.0%} more "
        f"would not be seen for {one} of {len(alone)} methods if one alone were slower, and "
        f"for {all_of_them} if all methods of a problem were: a quieter machine sees more"
    ]


def _check_same_runs(found, known, seeds, kept, work_only):
    """Raise unless a result has the baseline's curves and seeds."""
    missing = [key for key in known if key not in found]
    if missing:
        raise CannotCompare(
            f"{len(missing)} of {len(known)} runs of the baseline are not in the result, as they "
            f"failed or the config is another: {'; '.join(map(name_of, missing[:5]))}"
        )
    unknown = [key for key in found if key not in known]
    if unknown:
        raise CannotCompare(
            f"{len(unknown)} of {len(found)} runs of the result are not in the baseline (--add "
            f"takes them in): {'; '.join(map(name_of, unknown[:5]))}"
        )
    few = work_only and seeds["repetitions"] < kept["repetitions"]
    if seeds != kept and not (few and seeds["base"] == kept["base"]):
        raise CannotCompare(
            f"the seeds are others: {seeds} in the result, {kept} in the baseline"
        )


def _work_lines(key, known, own, repetitions):
    """The work of a method in one run, a line for each figure and repetition."""
    _check_repetitions(key, own, repetitions)
    lines = []
    for name, values in known["work"].items():
        now = own["work"].get(name, [])
        if len(now) != repetitions:
            raise CannotCompare(
                f"{name_of(key)}: {len(now)} of {repetitions} repetitions have {name}"
            )
        for k, value in enumerate(now):
            if not math.isfinite(value) and math.isfinite(values[k]):
                _check_ended(key, k, known["checks"][k], own["checks"][k])
            # A gap that is reached neither then nor now says nothing.
            if math.isfinite(min(value, values[k])):
                lines.append(Line(key, name, values[k], value, WORK_TOLERANCE))
    return lines


def _check_repetitions(key, own, repetitions):
    if len(own["checks"]) != repetitions:
        raise CannotCompare(f"{name_of(key)}: {len(own['checks'])} of {repetitions} repetitions")


def _check_ended(key, k, before, after):
    """Raise if a repetition that did not reach a gap was cut."""
    if after < before:
        raise CannotCompare(
            f"{name_of(key)}: repetition {k} ended after {after} of {before} checks: "
            "another max-runs, or its time limit was reached"
        )


def _time_lines(key, known, first, later):
    """The times of a method in some runs, and in those that were made because it was long."""
    lines = []
    for own in first:
        _check_repetitions(key, own, len(known["checks"]))
    for own in (*first, *later):
        if known["times"] and not own["times"]:
            raise CannotCompare(
                f"{name_of(key)}: the result has no reference time, or several curves were "
                "measured at a time"
            )
    for name, time in known["times"].items():
        now, more = ([own["times"].get(name) for own in some] for some in (first, later))
        if None in (*now, *more):
            # A method that counts passes now, or does so no more, has times of another kind.
            continue
        line = Line(key, name, time["value"], statistics.median_high(now), tolerance_of(time))
        if line.outcome == WORSE:
            line = line._replace(now=statistics.median_high([*now, *more]))
        for own in first if math.isinf(line.now) else ():
            for k, checks in enumerate(zip(known["checks"], own["checks"], strict=True)):
                _check_ended(key, k, *checks)
        lines.append(line)
    return lines


def tolerance_of(time):
    """By how much a time of a baseline may be exceeded."""
    return max(TIMES_SPREAD * time["spread"], LEAST_TIME_TOLERANCE)


# The command ------------------------------------------------------------------------

def as_runs(files):
    """Result files as repeated runs, a list of lists.

    Each file belongs to the first run that has none of its curves, so that the files of several
    configs make one run, and the same ones once more another.
    """
    runs = []
    for file in files:
        keys = set(read_results([file]).groupby(RUN).groups)
        for own, known in runs:
            if not known & keys:
                own.append(file)
                known |= keys
                break
        else:
            runs.append(([file], keys))
    return [own for own, _ in runs]


def regress(results, baseline, update=False, add=False, work_only=False, time_only=False,
            json_file=None, junit=None, again=None, base=None, turns=None, console=None):
    """Compare results with a baseline; returns the exit code.

    Parameters
    ----------
    results : callable
        Returns the files of each of some repeated runs, as a list of lists.
    baseline : path
    update : bool
        Write the baseline; what it was before is compared for people to see.
    add : bool
        Write the methods into the baseline that it lacks, if no other is worse.
    work_only, time_only : bool
        Leave the other kind of figures out.
    json_file, junit : path or None
        Also write the lines there, or why there are none.
    again : callable or None
        Called with the keys of the lines whose time is worse; runs their problems once more and
        returns results, as above. Where nothing else is worse, noise is told from a regression
        this way.
    base : object or None
        With `is_given` and `times` as `base.Base` has them: what times are compared with if it
        is given, or if those of the baseline are of another machine.
    turns : callable or None
        Runs methods as of the commit of the baseline and as they are, by turns, see
        `base.Base.turns`. If that can be done, it decides on all times that seem long.
    """
    console, frames = console or Console(), []
    try:
        frames += map(read_results, results())
        with _explained(frames):
            if update:
                lines, notes = _update(frames, baseline, work_only, console)
            elif add:
                lines, notes = _add(frames, baseline, work_only)
            else:
                known = read_baseline(baseline)
                for one in known["made"]:
                    console.print(escape(f"baseline of {one['date']}, commit "
                                         f"{one['commit'] or 'unknown'}, runs: {one['runs']}"))
                known, why = _timed_here(frames, known, work_only, time_only, base, console)
                lines, notes = _with_second_tries(
                    frames, known, work_only, time_only, again, turns, console
                )
                notes += why
        notes += _told(frames)
    except BaseException as error:
        # Even if it was stopped: figures of an earlier run must not be taken for this one's.
        _write_files([], [], str(error) or type(error).__name__, json_file, junit)
        raise
    _write_files(lines, notes, None, json_file, junit)
    if lines:
        print_comparison(lines, notes, console)
    else:
        console.print(*map(escape, notes), sep="\n", soft_wrap=True)
    return REGRESSION if worse(lines) else OK


def _told(frames):
    """What reading result files had to say, such as runs that diverged."""
    return list(dict.fromkeys(note for frame in frames for note in frame.attrs.get("notes", ())))


@contextmanager
def _explained(frames):
    """Why runs are missing is in the notes of the files."""
    try:
        yield
    except CannotCompare as error:
        raise CannotCompare("; ".join([str(error), *_told(frames)])) from None


def _update(frames, file, work_only, console):
    made = make_baseline(frames, work_only)
    of = "one run" if len(frames) == 1 else f"{len(frames)} runs"
    notes = [f"{file} was written, of {of}: what is measured is the new standard"]
    if Path(file).is_file():
        try:
            lines, more = compare(*_common(frames, read_baseline(file)), work_only)
            console.print("Beside the baseline that is replaced:")
            print_comparison(lines, more, console)
        except CannotCompare as error:
            notes.append(f"not compared with the baseline that is replaced: {error}")
    if len(frames) == 1 and not work_only:
        notes.append("one run says little about what times vary by: --repeat 5 is better")
    write_baseline(made, file)
    return [], notes


def _add(frames, file, work_only):
    known = read_baseline(file)
    if work_only and has_times(known):
        raise CannotCompare(f"{file} has times, which --work-only would not add")
    work_only = not has_times(known)
    wider = _extended(known, make_baseline(frames, work_only))
    lines, notes = compare(*_common(frames, known), work_only)
    if not work_only and not any(line.is_time for line in lines):
        raise CannotCompare("; ".join(notes))
    if worse(lines):
        return lines, [*notes, f"{file} is left as it was: others are worse"]
    write_baseline(wider, file)
    added = len(wider["figures"]) - len(known["figures"])
    return lines, [*notes, f"{counted(added, 'row')} added to {file}"]


def _timed_here(frames, known, work_only, time_only, base, console):
    """A baseline whose times are of this machine if they can be; and why they are not."""
    here = conditions(frames[-1])
    if work_only or base is None:
        return known, []
    if not base.is_given and (not has_times(known) or _place(here) == _place(known["machine"])):
        return known, []
    with suppress(NothingToCompare):
        # What cannot be compared, or is worse anyway, is told before minutes go into runs.
        lines, _ = compare(frames, known, work_only=True)
        if worse(lines) and not time_only:
            why = ["the times of another commit are not measured, as work is worse"]
            return (with_times(known, None) if base.is_given else known), why
    try:
        made = base.times(known, here, lambda line: console.print(escape(line), soft_wrap=True))
    except CannotCompare as error:
        if base.is_given:
            raise
        return known, [f"the commit of the baseline is not measured on this machine: {error}"]
    known = with_times(known, made)
    new = [name_of(key_of(row)) for row in known["figures"] if row["is_new"]]
    return known, [] if not new else [
        f"{counted(len(new), 'method')} new since that commit, without times to compare with: "
        f"{'; '.join(new[:5])}"
    ]


def _with_second_tries(frames, known, work_only, time_only, again, turns, console):
    """`compare`, and again with further runs while nothing but times is worse."""
    lines, notes = compare(frames, known, work_only, time_only=time_only)
    caveat, more, untold = _blind(lines), [], []
    slower = worse(lines)
    long = [line for line in slower if line.is_time]
    if len(long) < len(slower):
        if long:
            notes.append(f"{counted(len(long), 'time')} above what is allowed in few runs, which "
                         "may be noise: as work is worse, they are not measured again")
        return lines, notes + caveat
    if turns is not None:
        suspected = suspects(lines)
        if not suspected:
            return lines, notes
        try:
            lines, told = by_turns(
                lines, suspected, known, turns,
                lambda text: console.print(escape(text), soft_wrap=True),
            )
            return lines, [*notes, told]
        except CannotCompare as error:
            untold = [f"not measured by turns with the commit of the baseline: {error}"]
    for before, after in pairwise(COUNTS):
        if again is None or not slower:
            break
        console.print(f"{counted(len(slower), 'time')} above what is allowed: measured again")
        keys = [line.key for line in slower]
        found = [read_results(files) for _ in range(before, after) for files in again(keys)]
        measured = [set(figures_of(frame)) for frame in found]
        lacking = [key for key in keys if not any(key in one for one in measured)]
        if lacking:
            notes.append(
                f"{counted(len(lacking), 'time')} of few runs, as nothing could be run again: "
                f"{name_of(lacking[0])}"
            )
            break
        more += found
        lines, notes = compare(frames, known, work_only, more, time_only)
        slower = worse(lines)
    return lines, notes + caveat + untold


def _write_files(lines, notes, error, json_file, junit):
    if json_file is not None:
        write_json(lines, notes, error, json_file)
    if junit is not None:
        write_junit(lines, notes, error, junit)

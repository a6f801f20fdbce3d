"""``python -m benchmark_dspdc trend``: the figures of many result files over time, as one page."""

import math
import statistics
from datetime import datetime
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from ..bench.benchopt_process import COMMIT, PROCESSOR, STARTED
from ..report.looks import looks
from ..report.page import write_html
from ..report.plain_files import shown
from ..report.results import NAMES, read_results, titles
from ..version import __version__
from .baseline import plain
from .result_figures import figures_of, word_of

#: Differences below this are taken for noise however regular the figures are.
LEAST_CHANGE = {"work": 0.02, "time": 0.08}

#: How names of times end here.
OVER_REFERENCE = ", over the reference loop"

#: Characters of a run's name at an axis; the whole name is where the mouse points.
TICK = 8


def result_files(paths):
    """The parquet files that paths stand for, those of folders included."""
    found = {}
    for path in map(Path, paths):
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"no parquet file in the folder {path}")
        found |= dict.fromkeys(inside)
    return list(found)


def change_points(values, least):
    """Where the level of values changes: indices of the first ones of a new level.

    A level has two values at least, so that a single odd run is none. Zero and infinity, a gap
    that is not reached, are levels of their own; NaN is no value. Of what is between them, by
    the pruned exact search for the levels of the logarithms with the least absolute error,
    with a penalty on each change; levels closer than `least` are one.
    """
    values = np.asarray(values, dtype=float)
    known = np.flatnonzero(~np.isnan(values))
    states = [0 if value <= 0.0 else 2 if value == math.inf else 1 for value in values[known]]
    # Where a state begins that lasts.
    starts = []
    for k, (one, two) in enumerate(pairwise(states)):
        if one == two and (not starts or one != starts[-1][1]):
            starts.append((k if starts else 0, one))
    marks = [int(known[k]) for k, _ in starts[1:]]
    for (start, state), (end, _) in pairwise([*starts, (len(known), None)]):
        if state == 1:
            own = [known[k] for k in range(start, end) if states[k] == 1]
            marks += (int(own[k]) for k in _steps(np.log(values[own]), least))
    return sorted(marks)


def _steps(logs, least):
    """The same for logarithms of one state."""
    from ruptures import Pelt

    if len(logs) < 4:
        return []
    # Differences of neighbours have little of the changes in them.
    noise = 1.4826 * float(np.median(np.abs(np.diff(logs)))) / math.sqrt(2.0)
    penalty = 3.0 * math.log(len(logs)) * max(noise, 0.25 * least)
    ends = Pelt(model="l1", min_size=2, jump=1).fit_predict(logs[:, None], pen=penalty)
    starts = [0, *ends[:-1]]
    levels = [float(np.median(logs[a:b])) for a, b in zip(starts, ends, strict=True)]
    far = np.abs(np.diff(levels)) > math.log1p(least)
    return [start for start, is_far in zip(starts[1:], far, strict=True) if is_far]


def trend_data(paths):
    """What the page shows, in plain numbers and strings."""
    files = result_files(paths)
    runs, points, notes = _points(files)
    names = [f"{date:%Y-%m-%d %H:%M} {label}" for date, label in runs]
    short = titles(list(points.groupby(NAMES[:2], sort=False).groups))
    problems, changes = {}, []
    for (*key, figure), own in points.groupby([*NAMES, "figure"], sort=False):
        # Of several times that a command has run it, the median; the worse of two in the middle.
        middle = own.groupby("run")["value"].agg(lambda some: statistics.median_high(some))
        values = middle.reindex(range(len(runs))).tolist()
        if not np.isfinite(values).any():
            continue
        problem, solver = tuple(key[:2]), key[2]
        marks = change_points(values, LEAST_CHANGE[own["kind"].iloc[0]])
        problems.setdefault(problem, {}).setdefault(figure, {})[solver] = dict(
            values=list(map(plain, values)), changes=marks,
            missed=[k for k, value in enumerate(values) if value == math.inf],
        )
        for start, mark, end in zip([0, *marks], marks, [*marks[1:], None], strict=False):
            changes.append(dict(
                run=names[mark], problem=short[problem], solver=solver, figure=figure,
                **_change(values[start:mark], values[mark:end]),
            ))
    changes.sort(key=_size, reverse=True)
    # The problem to begin with is the one that changed most.
    changed = [*(row["problem"] for row in changes), *short.values()]
    order = sorted(problems, key=lambda key: changed.index(short[key]))
    drawn = looks(points["solver_name"].unique())
    return dict(
        origin=f"{len(runs)} runs in {len(files)} files; benchmark_dspdc {__version__}, "
               f"written on {datetime.now():%d %B %Y, %H:%M}",
        notes=notes, runs=names, ticks=_ticks(runs),
        styles={name: look._asdict() for name, look in drawn.items()}, changes=changes,
        problems=[dict(title=short[key], figures=problems[key]) for key in order],
    )


def _ticks(runs):
    """Short names of runs: the day, or where a commit was run twice on a day, also the hour."""
    days = [f"{date:%Y-%m-%d} {label[:TICK]}" for date, label in runs]
    return [
        day if days.count(day) == 1 else f"{date:%Y-%m-%d %H:%M} {label[:TICK]}"
        for day, (date, label) in zip(days, runs, strict=True)
    ]


def _points(files):
    """The runs by date, all their figures, one a row, and sentences on what is left out."""
    rows, notes = [], []
    for file in files:
        try:
            frame = read_results([file])
        except ValueError as error:
            notes.append(f"left out: {error}")
            continue
        commit, started = word_of(frame, COMMIT), word_of(frame, STARTED)
        # benchopt's word for the processor is the less exact one.
        place = word_of(frame, PROCESSOR) or word_of(frame, "system-processor")
        about = dict(
            # What files that one command has made have in common; others are alone.
            command=(commit, started, place) if commit and started else file, file=file,
            place=place, date=_date(frame, file), label=commit or _label(frame, file),
        )
        for key, own in figures_of(frame).items():
            about |= dict(zip(NAMES, key, strict=True), repetitions=len(own["checks"]))
            rows += (dict(about, kind="work", figure=name, value=float(np.mean(values)))
                     for name, values in own["work"].items())
            rows += (dict(about, kind="time", figure=f"{name}{OVER_REFERENCE}", value=time)
                     for name, time in own["times"].items())
    if not rows:
        raise ValueError("none of the files has a figure to follow: "
                         + ("; ".join(notes) or "their curves have no work and no time"))
    points = pd.DataFrame(rows).sort_values("date", kind="stable")
    points["run"], _ = pd.factorize(points["command"])
    runs = points.drop_duplicates("run")[["date", "label"]].itertuples(index=False, name=None)
    # Means over other seeds are other figures.
    few = points["repetitions"] < points.groupby(NAMES)["repetitions"].transform("max")
    if few.any():
        left = points[few].groupby(["file", *NAMES]).ngroups
        notes.append(f"left out: {left} curves with fewer repetitions than others of the same "
                     "method and problem have, as of --work-only")
    if points["place"].nunique() > 1:
        # Times of several processors are several figures.
        on = ", on " + points["place"].replace("", "an unknown processor")
        points["figure"] += on.where(points["kind"] == "time", "")
    return list(runs), points[~few], notes


def _change(*stretches):
    """The levels of two stretches, and the change as a number, None if infinite, and in words."""
    before, after = (float(np.nanmedian(values)) for values in stretches)
    if after == math.inf:
        change, text = math.inf, "not reached any more"
    elif before == math.inf:
        change, text = -1.0, "now reached"
    else:
        change = after / before - 1.0 if before > 0.0 else math.inf
        text = f"{change:+.1%}" if math.isfinite(change) else "from nothing"
    numbers = dict(before=plain(before), after=plain(after), change=plain(change))
    return numbers | dict(text=text, worse=change > 0.0)


def _size(row):
    """How large a change is, the same for twice and for half."""
    if not row["before"] or not row["after"]:
        return math.inf
    return abs(math.log(row["after"]) - math.log(row["before"]))


def described(row):
    """A change as a sentence."""
    before, after = (
        "not reached" if row[name] is None else f"{row[name]:.4g}" for name in ("before", "after")
    )
    return (f"{row['run']}: {row['solver']} on {row['problem']}, {row['figure']} "
            f"{before} -> {after} ({row['text']})")


def _label(frame, file):
    """The name of a run of unknown commit: its file's, with a version if the file has one."""
    version, name = word_of(frame, "benchmark-git-tag"), shown(file.stem)
    return f"{name} ({version})" if version else name


def _date(frame, file):
    """When the run was made, by the file itself or its name's date on disk."""
    try:
        return datetime.fromisoformat(str(frame["run_date"].iloc[0])).replace(tzinfo=None)
    except (KeyError, ValueError):
        return datetime.fromtimestamp(file.stat().st_mtime)


def write_trend(paths, output):
    """Write the page; returns its data."""
    made = trend_data(paths)
    write_html(resources.files(__package__).joinpath("trend.html"), made, output)
    return made

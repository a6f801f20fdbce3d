"""``python -m benchmark_dspdc trend``: the figures of many result files over time, as one page."""

import math
from datetime import datetime
from pathlib import Path

import numpy as np

from ..version import __version__
from .page import styles, write_html
from .regress import figures_of
from .results import read_results, titles

#: Differences below this are taken for noise however regular the figures are.
LEAST_CHANGE = {"work": 0.02, "time": 0.08}

TIME = "time a pass, over the reference loop"


def result_files(paths):
    """The parquet files that paths stand for, those of folders included."""
    found = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"))
            if not inside:
                raise ValueError(f"no parquet file in the folder {path}")
            found += inside
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def change_points(values, least):
    """Where the level of positive values changes: indices of the first ones of a new level.

    By the pruned exact search for the levels of the logarithms with the least absolute error,
    with a penalty on each change; levels closer than `least` are one. A level has two values at
    least, and absolute errors do not follow a single odd run.
    """
    from ruptures import Pelt

    known = np.flatnonzero(np.isfinite(values) & (np.asarray(values) > 0.0))
    if len(known) < 4:
        return []
    logs = np.log(np.asarray(values)[known])
    # Differences of neighbours have little of the changes in them.
    noise = 1.4826 * float(np.median(np.abs(np.diff(logs)))) / math.sqrt(2.0)
    penalty = 3.0 * math.log(len(logs)) * max(noise, 0.25 * least)
    ends = Pelt(model="l1", min_size=2, jump=1).fit_predict(logs[:, None], pen=penalty)
    starts = [0, *ends[:-1]]
    levels = [float(np.median(logs[a:b])) for a, b in zip(starts, ends, strict=True)]
    return [
        int(known[start]) for k, start in enumerate(starts)
        if k > 0 and abs(math.expm1(levels[k] - levels[k - 1])) > least
    ]


def trend_data(paths):
    """What the page shows, in plain numbers and strings."""
    files, notes, runs = result_files(paths), [], []
    for file in files:
        try:
            frame = read_results([file])
        except ValueError as error:
            notes.append(f"left out: {error}")
            continue
        runs.append((_date(frame, file), file.stem, figures_of(frame)))
    if not runs:
        raise ValueError("none of the files is a result of this benchmark: " + "; ".join(notes))
    runs.sort(key=lambda run: run[0])
    keys = list(dict.fromkeys(key for *_, found in runs for key in found))
    names = [f"{date:%Y-%m-%d %H:%M} {stem}" for date, stem, _ in runs]
    short = titles(list(dict.fromkeys(key[:2] for key in keys)))
    solvers = list(dict.fromkeys(key[2] for key in keys))
    problems, changes = {}, []
    for key in keys:
        figures = problems.setdefault(key[:2], {})
        for figure, values in _series([found.get(key) for *_, found in runs]).items():
            kind = "time" if figure == TIME else "work"
            marks = change_points(values, LEAST_CHANGE[kind])
            figures.setdefault(figure, {})[key[2]] = dict(
                values=[_plain(value) for value in values], changes=marks
            )
            for k, mark in enumerate(marks):
                before = _level(values, marks[k - 1] if k else 0, mark)
                after = _level(values, mark, marks[k + 1] if k + 1 < len(marks) else None)
                changes.append(dict(
                    run=names[mark], problem=short[key[:2]], solver=key[2], figure=figure,
                    before=_plain(before), after=_plain(after),
                    change=_plain(after / before - 1.0),
                ))
    changes.sort(key=lambda row: -abs(math.log1p(row["change"])))
    return dict(
        origin=f"{len(runs)} files; benchmark_dspdc {__version__}, "
               f"written on {datetime.now():%d %B %Y, %H:%M}",
        notes=notes, runs=names, styles=styles(solvers), changes=changes,
        problems=[
            dict(title=short[key], figures=figures) for key, figures in problems.items() if figures
        ],
    )


def _series(found):
    """Of the figures of one method in each file, a list for each kind; NaN where there is none."""
    names = dict.fromkeys(name for own in found if own is not None for name in own["work"])
    series = {
        name: [
            math.nan if own is None or name not in own["work"]
            else float(np.mean(own["work"][name])) for own in found
        ] for name in names
    }
    series[TIME] = [
        math.nan if own is None or own["time"] is None else own["time"] for own in found
    ]
    return {
        name: values for name, values in series.items()
        if any(math.isfinite(value) for value in values)
    }


def _level(values, start, end):
    values = np.asarray(values[start:end])
    return float(np.median(values[np.isfinite(values)]))


def _plain(value):
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _date(frame, file):
    """When the run was made, by the file itself or its name's date on disk."""
    try:
        return datetime.fromisoformat(str(frame["run_date"].iloc[0])).replace(tzinfo=None)
    except (KeyError, ValueError):
        return datetime.fromtimestamp(file.stat().st_mtime)


def write_trend(paths, output):
    """Write the page; returns its data."""
    made = trend_data(paths)
    write_html("trend.html", made, output)
    return made

"""The file that a regression check compares work with: made of results, written and read.

It may be edited by hand or come from elsewhere, so every number of it is looked at.
"""

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from ..bench.benchopt_process import COMMIT, commit_of
from ..engine.cache_dirs import write_whole
from ..report.plain_files import unshown_in
from ..report.results import GAPS, NAMES
from ..version import __version__
from .comparison import SAME, CannotCompare, compare_work, key_of, name_of, seeds_of
from .result_figures import figures_of, last_gaps, word_of

#: Of the format of baseline files. Earlier files of it also had times and the machine that they
#: were measured on, which are not read any more: times are compared by paired runs.
FORMAT = 4


def make_baseline(frames, work_only=False):
    """The baseline that results of repeated runs make.

    Only runs with the same work make one: what differs between two runs of the same code could
    not be told from a regression. A method that counts no work is taken in if it has times, which
    can be compared by paired runs; not with `work_only`.
    """
    last, rows = last_gaps(frames), []
    for key, own in sorted(figures_of(frames[0], last).items()):
        if not own["work"] and (work_only or not own["times"]):
            wanted = "passes" if work_only else "passes or reference times"
            raise CannotCompare(f"{name_of(key)} has no figure: no column with its {wanted}")
        rows.append(dict(
            dataset=key[0], objective=key[1], solver=key[2], work=own["work"],
            checks=own["checks"], last=last.get(key, []),
        ))
    commit = word_of(frames[-1], COMMIT) or commit_of(Path.cwd()) or ""
    made = dict(
        format=FORMAT, version=__version__, seeds=seeds_of(frames[0]), figures=rows,
        made=[dict(date=f"{datetime.now(UTC):%Y-%m-%d}", commit=commit, runs=len(frames))],
    )
    for line in compare_work(frames, made):
        if line.outcome != SAME:
            raise CannotCompare(f"repeated runs do not do the same work: {line}")
    return made


def compare_common(frames, baseline):
    """The lines of what results and a baseline have in common."""
    keys = set(figures_of(frames[0])) & set(map(key_of, baseline["figures"]))
    if not keys:
        raise CannotCompare("no run of the baseline is in the result")
    rows = [row for row in baseline["figures"] if key_of(row) in keys]
    some = [
        frame[pd.MultiIndex.from_frame(frame[NAMES]).isin(list(keys))] for frame in frames
    ]
    return compare_work(some, dict(baseline, figures=rows))


# The file ---------------------------------------------------------------------------

def write_baseline(baseline, file):
    """As JSON with a line for each method, which a diff shows well."""
    head = {name: value for name, value in baseline.items() if name != "figures"}
    rows = [
        dict(row, work={
            name: [plain(value) for value in values] for name, values in row["work"].items()
        }) for row in baseline["figures"]
    ]
    rows = ",\n".join("  " + json.dumps(row) for row in rows)
    write_whole(file, json.dumps(head)[:-1] + ', "figures": [\n' + rows + "\n]}\n")


def plain(value):
    """A number as JSON has it: None if it is infinite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


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
        found.pop("machine", None)
        for row in found["figures"]:
            row.pop("times", None)
            _check_row(row, found["seeds"]["repetitions"])
            row["work"] = {
                name: [math.inf if value is None else float(value) for value in values]
                for name, values in row["work"].items()
            }
        if not found["figures"]:
            raise ValueError("it has no figures")
        if len({key_of(row) for row in found["figures"]}) < len(found["figures"]):
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
    if not isinstance(found["made"], list) or not isinstance(found["figures"], list):
        raise ValueError("made or figures is no list")
    for one in found["made"]:
        if not _is_name(one["date"]) or not _is_name(one["commit"]) or not _is_count(one["runs"]):
            raise ValueError(f"made is {found['made']!a}")


def _check_row(row, repetitions):
    """The same for the figures of a method."""
    for name in (*key_of(row), *row["work"]):
        if not _is_name(name):
            raise ValueError(f"{name!a} is no name")
    # There is no last gap where all common ones were reached.
    lasts = [row["last"]] if row["last"] else []
    for values in (row["checks"], *lasts, *row["work"].values()):
        if not isinstance(values, list) or len(values) != repetitions:
            raise ValueError(f"{values!r} is not a number for each of {repetitions} repetitions")
    amounts = [gap if _is_amount(gap) and gap >= min(GAPS) else -1 for gap in row["last"]]
    amounts += [value for values in row["work"].values() for value in values if value is not None]
    if not all(map(_is_count, row["checks"])) or not all(map(_is_amount, amounts)):
        raise ValueError(f"a number of {row['solver']} is none, negative or infinite")


def _is_amount(value):
    # Not true and false, which are numbers too.
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_count(value):
    return type(value) is int and value >= 0


def _is_name(value):
    # They are shown, on a terminal too.
    return isinstance(value, str) and not unshown_in(value)

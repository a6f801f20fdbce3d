"""The file that a regression check compares with: written, read and checked.

It may be edited by hand or come from elsewhere, so every number of it is looked at.
"""

import json
import math
from pathlib import Path

from ..engine.cache_dirs import write_whole
from ..report.plain_files import unshown_in
from ..report.results import GAPS
from .compared_lines import plain
from .curve_figures import TIMES

#: Of the format of baseline files.
FORMAT = 4


class CannotCompare(ValueError):
    """The result and the baseline are not of the same runs."""


class NothingToCompare(CannotCompare):
    """They are, but have no figure in common."""


def key_of(row):
    return row["dataset"], row["objective"], row["solver"]


def has_times(baseline):
    return any(row["times"] for row in baseline["figures"])


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
    machine, made = found["machine"], found["made"]
    if not _is_name(machine["processor"]) or not _is_count(machine["cpus"]):
        raise ValueError(f"machine is {machine!a}")
    for name, release in machine["releases"].items():
        if not _is_name(name) or not _is_name(release):
            raise ValueError(f"releases is {machine['releases']!a}")
    if not isinstance(made, list) or not isinstance(found["figures"], list):
        raise ValueError("made or figures is no list")
    for one in made:
        if not _is_name(one["date"]) or not _is_name(one["commit"]) or not _is_count(one["runs"]):
            raise ValueError(f"made is {made!a}")


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
    if not set(row["times"]) <= set(TIMES):
        raise ValueError(f"times is {row['times']!r}")
    amounts = [time["spread"] for time in row["times"].values()]
    amounts += [time["value"] or -1 for time in row["times"].values()]
    amounts += [gap if _is_amount(gap) and gap >= min(GAPS) else -1 for gap in row["last"]]
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

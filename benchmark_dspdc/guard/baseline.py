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
from ..report.results import GAPS, NAMES, label
from ..version import __version__
from .comparison import SAME, CannotCompare, compare_work, key_of, name_of, seeds_of
from .result_figures import figures_of, last_gaps, word_of

#: Of the format of baseline files. Earlier files of it also had times and the machine that they
#: were measured on, which are not read any more: times are compared by paired runs; and they lack
#: `ends`, the work and the gap at the end of each curve.
FORMAT = 4


def make_baseline(frames, work_only=False, known=()):
    """The baseline that results of repeated runs make.

    Only runs with the same work make one: what differs between two runs of the same code could
    not be told from a regression. A method that counts no work is taken in if it has times, which
    can be compared by paired runs; not with `work_only`. Methods that are `known` are in a
    baseline already, and not asked how far they get.
    """
    last, rows = last_gaps(frames), []
    for key, own in sorted(figures_of(frames[0], last).items()):
        if not own["work"] and (work_only or not own["times"]):
            wanted = "passes" if work_only else "passes or reference times"
            raise CannotCompare(f"{name_of(key)} has no figure: no column with its {wanted}")
        rows.append(dict(
            dataset=key[0], objective=key[1], solver=key[2], work=own["work"],
            checks=own["checks"], last=last.get(key, []),
            ends=[[float(work[-1]), float(gaps[-1])] for work, gaps in own["curves"]],
        ))
    _check_targets([row for row in rows if key_of(row) not in known])
    commit = word_of(frames[-1], COMMIT) or commit_of(Path.cwd()) or ""
    made = dict(
        format=FORMAT, version=__version__, seeds=seeds_of(frames[0]), figures=rows,
        made=[dict(date=f"{datetime.now(UTC):%Y-%m-%d}", commit=commit, runs=len(frames))],
    )
    for line in compare_work(frames, made):
        if line.outcome != SAME:
            raise CannotCompare(f"repeated runs do not do the same work: {line}")
    return made


def reached(row):
    """How far the curves of a row got, and which of the common gaps all of them reach."""
    targets = [
        label(gap) for gap in GAPS
        if any(f"to {label(gap)}" in name and all(map(math.isfinite, values))
               for name, values in row["work"].items())
    ]
    furthest = max((gap for _, gap in row["ends"]), default=math.nan)
    return furthest, targets


def _check_targets(rows):
    """Raise if a method reaches none of the common gaps: a wrong one could not be told from it."""
    short = [(row, furthest) for row in rows
             for furthest, targets in [reached(row)] if row["work"] and not targets]
    if short:
        named = "; ".join(f"{name_of(key_of(row))} ends at {gap:.1e}" for row, gap in short[:5])
        more = f"; and {len(short) - 5} more" if len(short) > 5 else ""
        raise CannotCompare(
            f"{len(short)} of {len(rows)} curves reach none of the gaps "
            f"{', '.join(map(label, GAPS))}, so that a wrong method could pass: {named}{more}. "
            "Let them go on (max-runs, timeout in the config), or take an easier problem, such as "
            "a larger lambda2 or fewer rows"
        )


def compare_common(frames, baseline):
    """The lines of what results and a baseline have in common."""
    keys = set(figures_of(frames[0])) & set(map(key_of, baseline["figures"]))
    if not keys:
        raise CannotCompare("no run of the baseline is in the result")
    rows = [row for row in baseline["figures"] if key_of(row) in keys]
    some = [frame[pd.MultiIndex.from_frame(frame[NAMES]).isin(list(keys))] for frame in frames]
    return compare_work(some, dict(baseline, figures=rows))


# The file ---------------------------------------------------------------------------

def write_baseline(baseline, file):
    """As JSON with a line for each method, which a diff shows well."""
    head = {name: value for name, value in baseline.items() if name != "figures"}
    rows = [dict(row, work={
        name: [plain(value) for value in values] for name, values in row["work"].items()
    }, ends=[[plain(value) for value in end] for end in row["ends"]])
        for row in baseline["figures"]]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    write_whole(file, json.dumps(head)[:-1] + ', "figures": [\n' + lines + "\n]}\n")


def plain(value):
    """A number as JSON has it: None if it is infinite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _is_name(value):
    # They are shown, on a terminal too.
    return isinstance(value, str) and not unshown_in(value)


def _is_count(value):
    # Not true and false, which are numbers too.
    return type(value) is int and value >= 0


def _is_work(value):
    """Infinite work, to a gap that was not reached, is None."""
    return value is None or (type(value) in (int, float) and 0 <= value < math.inf)


def _is_last_gap(value):
    return value is not None and _is_work(value) and value >= min(GAPS)


def _is_end(value):
    return value is not None and _is_work(value)


#: What is read of a baseline; `_is_name` stands for any names.
SHAPE = dict(
    seeds=dict(base=[_is_count], repetitions=_is_count), figures=[dict(
        dataset=_is_name, objective=_is_name, solver=_is_name, work={_is_name: [_is_work]},
        checks=[_is_count], last=[_is_last_gap], ends=[[_is_end]],
    )], made=[dict(date=_is_name, commit=_is_name, runs=_is_count)],
)


def _shaped(value, shape):
    """What a shape names of a value; ValueError or KeyError if the value has another shape."""
    if isinstance(shape, list) and isinstance(value, list):
        return [_shaped(one, shape[0]) for one in value]
    if isinstance(shape, dict) and isinstance(value, dict):
        if _is_name in shape:
            shape = {_shaped(name, _is_name): shape[_is_name] for name in value}
        return {name: _shaped(value[name], one) for name, one in shape.items()}
    if not callable(shape) or not shape(value):
        raise ValueError(f"it has {value!a} in the place of something else")
    return value


def read_baseline(file):
    """A baseline file, checked."""
    file = Path(file)
    try:
        given = json.loads(file.read_text("utf-8"))
        if given["format"] != FORMAT:
            raise CannotCompare(
                f"{file} has format {given['format']!r}, this version reads {FORMAT}; --update "
                "makes a new one"
            )
        for row in given["figures"]:
            row.setdefault("ends", [])  # files of before have none
        found = dict(format=FORMAT, version=given.get("version"), **_shaped(given, SHAPE))
        for row in found["figures"]:
            row["work"] = {
                name: [math.inf if value is None else float(value) for value in values]
                for name, values in row["work"].items()
            }
            # There is no last gap where all common ones were reached.
            lists = (row["checks"], row["last"] or row["checks"], row["ends"] or row["checks"],
                     *row["work"].values())
            if {len(values) for values in lists} != {max(found["seeds"]["repetitions"], 1)}:
                raise ValueError(f"{row['solver']} has not a number for each repetition")
            if any(len(end) != 2 for end in row["ends"]):
                raise ValueError(f"{row['solver']} has an end that is not work and gap")
        if not 0 < len(found["figures"]) == len(set(map(key_of, found["figures"]))):
            raise ValueError("it has no figures, or a method twice")
        return found
    except CannotCompare:
        raise
    except FileNotFoundError:
        raise CannotCompare(f"no baseline {file}; --update makes one of a result file") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError,
            RecursionError) as error:
        raise CannotCompare(f"{file} is not a baseline: {error!r}") from None

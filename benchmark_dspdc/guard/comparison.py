"""The work of a result beside a baseline's, one line a figure."""

import math
from typing import NamedTuple

import numpy as np

from .result_figures import figures_of, gap_after

#: Work may differ by this much: rounding is far below, a changed step size far above.
WORK_TOLERANCE = 0.02

#: And so much the gap at the end of a curve, after the same work and what it may differ by. Below
#: the least gap it is rounding that decides.
GAP_TOLERANCE, LEAST_GAP = 0.1, 1e-9

SAME, BETTER, WORSE, SUSPICIOUS = "same", "better", "worse", "suspicious"

#: The figure of how far a curve has got.
END = "gap after the same work"


class CannotCompare(ValueError):
    """The result and the baseline are not of the same runs, or have no figure in common."""


class Line(NamedTuple):
    """One figure beside what it was; infinite where a gap was not reached."""

    key: tuple          # of data set, objective and solver
    figure: str         # such as "passes to 1e-4"
    was: float
    now: float
    tolerance: float    # relative
    doubted: bool = False   # whether another figure of the same method is worse

    @property
    def is_time(self):
        return self.figure.startswith("time ")

    @property
    def change(self):
        """Relative, infinite if a gap is not reached any more or there is no number."""
        if math.isnan(self.now):
            return math.inf
        if self.was == self.now:
            return 0.0
        if not math.isfinite(self.was):
            return -1.0
        return self.now / self.was - 1.0 if self.was > 0.0 else math.inf

    @property
    def outcome(self):
        if self.change > self.tolerance:
            return WORSE
        # Slow times are measured again, fast ones are not: they may be luck.
        if self.change >= -self.tolerance or self.is_time:
            return SAME
        return SUSPICIOUS if self.doubted else BETTER

    def __str__(self):
        return (f"{name_of(self.key)}: {self.figure} {self.was:.4g} -> {self.now:.4g} "
                f"({self.change:+.1%}, allowed {self.tolerance:.0%})")


def key_of(row):
    """The key of a row of a baseline."""
    return row["dataset"], row["objective"], row["solver"]


def name_of(key):
    return f"{key[2]} on {key[0]}, {key[1]}"


def names_of(keys):
    """Some of them, for a message."""
    return "; ".join(map(name_of, list(keys)[:5]))


def worst(lines):
    """The line to show of several: what got better never hides what got worse."""
    return max(lines, key=lambda line: (line.outcome == WORSE, abs(line.change)), default=None)


def worse(lines):
    return [line for line in lines if line.outcome == WORSE]


def doubted(lines):
    """The lines, what is better marked where the same method is worse elsewhere.

    A wrong method may well be faster to a coarse gap, or on an easy problem.
    """
    solvers = {line.key[2] for line in worse(lines)}
    return [line._replace(doubted=line.key[2] in solvers) for line in lines]


def counted(count, noun):
    """Such as "1 figure is" and "2 figures are"."""
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"


def seeds_of(frame):
    """What decides the random numbers of all runs: benchopt's seed and the repetitions."""
    given = frame["base_seed"].dropna() if "base_seed" in frame else ()
    try:
        base = sorted({int(value) for value in given})
    except (ValueError, OverflowError):
        base = [-1]
    if min(base, default=0) < 0:
        raise CannotCompare("column base_seed of the result holds other than seeds")
    # Those that diverged have been run too.
    seen = [frame["idx_rep"].max(), *(run[3] for run in frame.attrs.get("diverged", ()))]
    return dict(base=base, repetitions=int(np.nanmax(seen)) + 1)


def compare_work(frames, baseline, first_seeds=False):
    """The work of results of repeated runs beside a baseline's: lines, of each figure the worst.

    There are none of methods that count no work. With `first_seeds` fewer repetitions than the
    baseline's will do. `CannotCompare` is raised where the runs are others.
    """
    known, by = {key_of(row): row for row in baseline["figures"]}, {}
    last = {key: row["last"] for key, row in known.items()}
    for frame in frames:
        found = figures_of(frame, last)
        # Where all has diverged nothing tells of seeds.
        seeds = seeds_of(frame) if len(frame) else baseline["seeds"]
        lost = {run[:3] for run in frame.attrs.get("diverged", ())} & set(known)
        there = {key: row for key, row in known.items() if key in found or key not in lost}
        _check_same_runs(found, there, seeds, baseline["seeds"], first_seeds)
        for key, row in known.items():
            lines = _lost_lines(key, row) if key in lost else _work_lines(
                key, row, found[key], seeds["repetitions"]
            )
            for line in lines:
                by.setdefault((key, line.figure), []).append(line)
    return doubted(list(map(worst, by.values())))


def _check_same_runs(found, known, seeds, kept, first_seeds):
    """Raise unless a result has the baseline's curves and seeds."""
    for some, others, message in (
        (known, found, "baseline are not in the result, as they failed or the config is another"),
        (found, known, "result are not in the baseline (--add takes them in)"),
    ):
        if missing := [key for key in some if key not in others]:
            raise CannotCompare(
                f"{len(missing)} of {len(some)} runs of the {message}: {names_of(missing)}"
            )
    few = first_seeds and seeds["repetitions"] < kept["repetitions"]
    if seeds != kept and not (few and seeds["base"] == kept["base"]):
        raise CannotCompare(f"the seeds are others: {seeds} in the result, {kept} in the baseline")


def _lost_lines(key, known):
    """The figures of a method that has diverged: it reaches nothing any more."""
    return [
        Line(key, figure, min(values), math.inf, WORK_TOLERANCE)
        for figure, values in known["work"].items() if math.isfinite(min(values))
    ]


def _work_lines(key, known, own, repetitions):
    """The work of a method in one run, a line for each figure and repetition."""
    lines, name = [], name_of(key)
    if len(own["checks"]) != repetitions:
        raise CannotCompare(f"{name}: {len(own['checks'])} of {repetitions} repetitions")
    for figure, values in known["work"].items():
        now = own["work"].get(figure, [])
        if len(now) != repetitions:
            raise CannotCompare(f"{name}: {len(now)} of {repetitions} repetitions have {figure}")
        for k, (before, value) in enumerate(zip(values, now, strict=False)):
            was, checks = known["checks"][k], own["checks"][k]
            if math.isfinite(before) and not math.isfinite(value) and checks < was:
                raise CannotCompare(
                    f"{name}: repetition {k} ended after {checks} of {was} checks: another "
                    "max-runs, or its time limit was reached"
                )
            # A gap that is reached neither then nor now says nothing.
            if math.isfinite(min(value, before)):
                lines.append(Line(key, figure, before, value, WORK_TOLERANCE))
    for k, ((work, gap), curve) in enumerate(zip(known["ends"], own["curves"], strict=False)):
        # A curve that ended earlier, or after less work, has no such point.
        if own["checks"][k] >= known["checks"][k] and not curve[0][-1] < work:
            now = gap_after(*curve, (1.0 + WORK_TOLERANCE) * work)
            was, now = max(gap, LEAST_GAP), max(now, LEAST_GAP)
            lines.append(Line(key, END, was, now, GAP_TOLERANCE))
    return lines

"""What the curves of a result file cost: work and time to common gaps, for `regress` and `trend`.

Work, passes and eigendecompositions at fixed seeds, is the same on every machine up to rounding.

A machine that others use as well changes its speed from one moment to the next. So a time is a
multiple of a reference loop's, which is measured at every point of a curve, see `multiples`.
What is left of the noise concerns most methods alike, so beside it there is a second figure, the
time as a multiple of the median of the methods of the same problem: it sees a smaller slowdown
of one method, the first one sees a slowdown of all.
"""

import math

import numpy as np

from ..bench.benchopt_process import SHARED
from ..report.results import EIGENDECOMPOSITIONS, GAP, GAPS, PASSES, RUN, label

REFERENCE = "objective_reference_seconds"

#: Times of methods that count passes; the second where a problem has so many methods.
TIME, BESIDE = "time a pass", "time beside others"
MANY = 5

#: The figures of curves that end above the least of the common gaps, see `last_gaps`.
LAST = "the last gap"

#: All names that figures of time can have; methods without passes have those to gaps.
TIMES = (TIME, BESIDE, *(f"time to {name}" for name in (*map(label, GAPS), LAST)))


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


def last_gap(run):
    """The gap that a run must reach again: its best one but for the last check, rounded up.

    At the last check a run may end at any gap below its tolerance, and one that is slower by 3 %
    would not get there. No less than the least of the common gaps, from where on there is a
    figure anyway, and rounding decides how far a curve gets.
    """
    gaps = run[GAP].cummin().to_numpy()
    best = float(gaps[max(len(gaps) - 2, 0)])
    return max(float(f"{min(1.01 * best, 1e300):.3g}"), min(GAPS))


def last_gaps(frames):
    """For each (data set, objective, solver) a `last_gap` for every repetition.

    That of the worst of some repeated runs. There is none where all common gaps are reached.
    """
    found = {}
    for frame in frames:
        own = {}
        for key, run in _runs(frame):
            own.setdefault(key[:3], []).append(last_gap(run))
        for key, gaps in own.items():
            found[key] = list(map(max, found.get(key, gaps), gaps))
    return {key: gaps for key, gaps in found.items() if max(gaps) > min(GAPS)}


def figures_of(frame, last=None):
    """The figures of one result file.

    Parameters
    ----------
    frame : DataFrame
    last : dict or None
        For methods a gap for each repetition, see `last_gaps`, to which there are figures too.

    Returns
    -------
    dict
        For (data set, objective, solver) a dict: `work`, a dict of lists, one number for each
        repetition; `checks`, the points of each repetition; `times`, a dict with some of
        `TIMES`, without those that are not known. Work and time are infinite to a gap that was
        not reached.
    """
    repetitions, found, problems = {}, {}, {}
    for key, run in _runs(frame):
        repetitions.setdefault(key[:3], []).append(run)
    for key, some in repetitions.items():
        own = (last or {}).get(key, ())
        targets = {label(gap): [gap] * len(some) for gap in GAPS}
        if len(own) >= len(some):
            targets[LAST] = own
        found[key] = dict(
            work=_work(some, targets), checks=list(map(len, some)), times=_times(some, targets)
        )
        if TIME in found[key]["times"]:
            problems.setdefault(key[:2], []).append(found[key]["times"])
    for some in problems.values():
        median = float(np.median([times[TIME] for times in some]))
        for times in some if len(some) >= MANY else ():
            times[BESIDE] = times[TIME] / median
    return found


def _runs(frame):
    return frame.sort_values("stop_val", kind="stable").groupby(RUN, sort=True)


def _work(repetitions, targets):
    work = {}
    for column in (PASSES, EIGENDECOMPOSITIONS):
        counted = [column in run and bool((run[column] > 0).any()) for run in repetitions]
        for name, gaps in targets.items() if any(counted) else ():
            # Of a repetition that counts nothing there is no number.
            work[f"{column.removeprefix('objective_')} to {name}"] = [
                work_to(run, column, gap)
                for run, gap, known in zip(repetitions, gaps, counted, strict=False) if known
            ]
    return work


def _times(repetitions, targets):
    """The time a pass of a method, or to gaps where it does not count passes."""
    if not all(REFERENCE in run for run in repetitions):
        return {}
    if any(SHARED in run and (run[SHARED] == "yes").any() for run in repetitions):
        # Curves that are measured side by side slow each other down.
        return {}
    if any((run[PASSES] > 0).any() for run in repetitions):
        time = curve_time(repetitions)
        return {TIME: time} if 0.0 < time < math.inf else {}
    timed = [run.assign(_multiple=multiples(run)) for run in repetitions]
    if not all(np.isfinite(run["_multiple"]).all() for run in timed):
        return {}
    times = {
        f"time to {name}": float(np.median([
            work_to(run, "_multiple", gap) for run, gap in zip(timed, gaps, strict=False)
        ])) for name, gaps in targets.items()
    }
    return {name: time for name, time in times.items() if time > 0.0}


def _reference(run):
    """What the reference loop took on the way to each point: the mean of its two ends.

    Milliseconds apart, they see the same machine.
    """
    speed = run[REFERENCE].to_numpy(dtype=float)
    mean = 0.5 * (np.concatenate([speed[:1], speed[:-1]]) + speed)
    return np.where(mean > 0.0, mean, math.nan)


def stretches(run):
    """The time of each stretch between two points of a run, as multiples of the reference's."""
    with np.errstate(all="ignore"):
        return np.diff(run["time"].to_numpy(dtype=float), prepend=0.0) / _reference(run)


def multiples(run):
    """The time from the start to each point of a run, as multiples of the reference's."""
    seconds = run["time"].to_numpy(dtype=float)
    if (np.diff(seconds) < 0.0).any():
        # A solver that begins anew with every budget: each of them is a stretch of its own.
        with np.errstate(all="ignore"):
            return seconds / _reference(run)
    return np.cumsum(stretches(run))


def curve_time(repetitions):
    """The time a pass of a method on a problem, as a multiple of the reference loop's.

    Of each stretch the least of the repetitions counts, by pass, as seeds may do other work: what
    others do on the machine only makes one longer. In five runs on a busy machine in November
    2026 it varied by 17 %, the median of three repetitions by 19 %; beside others by 14 and 16 %.

    Parameters
    ----------
    repetitions : list of DataFrame
        The points of each, in order.

    Returns
    -------
    float
        Not a number or infinite if it is not known.
    """
    found = {}
    for run in repetitions:
        passes = np.diff(run[PASSES].to_numpy(dtype=float), prepend=0.0)
        for k, stretch in enumerate(zip(stretches(run).tolist(), passes.tolist(), strict=True)):
            found.setdefault(k, []).append(stretch)
    time = work = 0.0
    for some in found.values():
        mean = sum(passes for _, passes in some) / len(some)
        # Before the first pass there is time all the same.
        time += min(
            value * (mean / passes if passes > 0.0 else 1.0) for value, passes in some
        )
        work += mean
    return time / work if work > 0.0 else math.inf

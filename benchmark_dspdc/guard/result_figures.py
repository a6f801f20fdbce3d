"""What the curves of a result file cost: work and time to common gaps, for `regress` and `trend`.

Work, passes and eigendecompositions at fixed seeds, is the same on every machine up to rounding.

A machine that others use as well changes its speed from one moment to the next. So a time is a
multiple of a reference loop's, which is measured at every point of a curve, see `multiples`.
"""

import math
from itertools import islice, zip_longest

import numpy as np

from ..bench.benchopt_process import SHARED
from ..report.plain_files import unshown_in
from ..report.results import EIGENDECOMPOSITIONS, GAP, GAPS, PASSES, RUN, label

REFERENCE = "objective_reference_seconds"

#: The time of methods that count passes. Others have the time to gaps.
TIME = "time a pass"

#: The figures of curves that end above the least of the common gaps, see `last_gaps`.
LAST = "the last gap"


def word_of(frame, column):
    """What a result file says of itself in a column of words; "" if it says nothing."""
    words = frame[column].unique() if column in frame else ()
    # They are shown, on a terminal too.
    fit = (w for w in words if isinstance(w, str) and len(w) <= 100 and not unshown_in(w))
    return ", ".join(islice(filter(None, fit), 3))


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


def curve_of(run):
    """The passes of a run and the best gap up to each of its points."""
    return run[PASSES].to_numpy(dtype=float), run[GAP].cummin().to_numpy()


def gap_after(work, gaps, given):
    """The best gap after so much work, between two points by logarithms; at most the last one."""
    logs = np.log(np.maximum(gaps, 1e-300))
    return float(np.exp(np.interp(given, work, logs)))


def last_gaps(frames):
    """For each (data set, objective, solver) the gaps that its repetitions must reach again.

    That is the best one of the curve but for its last check, rounded up, of the worst of repeated
    runs. At the last check a run may end at any gap below its tolerance, and one that is slower by
    3 % would not get there. There is none where all common gaps are reached.
    """
    found = {}
    for frame in frames:
        for key, some in _repetitions(frame).items():
            best = (float(run[GAP].cummin().iloc[max(len(run) - 2, 0)]) for run in some)
            # Below the least of the common ones rounding decides how far a curve gets.
            gaps = [max(float(f"{min(1.01 * gap, 1e300):.3g}"), min(GAPS)) for gap in best]
            found[key] = list(map(max, found.get(key, gaps), gaps))
    return {key: gaps for key, gaps in found.items() if max(gaps) > min(GAPS)}


def figures_of(frame, last=None):
    """The figures of one result file.

    Returns a dict that has for (data set, objective, solver) a dict: `work`, a dict of lists, one
    number for each repetition; `checks`, the points of each repetition; `curves`, passes and gaps
    of each repetition that counts passes; `times`, a dict without those that are not known. Work
    and time are infinite to a gap that was not reached. `last` has for methods a gap for each
    repetition, see `last_gaps`, to which there are figures too.
    """
    found = {}
    for key, some in _repetitions(frame).items():
        own = (last or {}).get(key, ())
        targets = {label(gap): [gap] * len(some) for gap in GAPS}
        if len(own) >= len(some):
            targets[LAST] = own
        found[key] = dict(
            work=_work(some, targets), checks=list(map(len, some)),
            curves=[curve_of(run) for run in some if (run[PASSES] > 0).any()],
            times=_times(some, targets),
        )
    return found


def _repetitions(frame):
    """The runs of each (data set, objective, solver), in their order."""
    found = {}
    for key, run in frame.sort_values("stop_val", kind="stable").groupby(RUN, sort=True):
        found.setdefault(key[:3], []).append(run)
    return found


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
    # Curves that are measured side by side slow each other down.
    if any(
        REFERENCE not in run or (SHARED in run and (run[SHARED] == "yes").any())
        for run in repetitions
    ):
        return {}
    if any((run[PASSES] > 0).any() for run in repetitions):
        time = curve_time(repetitions)
        return {TIME: time} if 0.0 < time < math.inf else {}
    timed = [run.assign(_multiple=multiples(run)[0]) for run in repetitions]
    if not all(np.isfinite(run["_multiple"]).all() for run in timed):
        return {}
    times = {}
    for name, gaps in targets.items():
        own = [work_to(run, "_multiple", gap) for run, gap in zip(timed, gaps, strict=False)]
        times[f"time to {name}"] = float(np.median(own))
    return {name: time for name, time in times.items() if time > 0.0}


def multiples(run):
    """The times of a run from its start to each point, and of each stretch between two points.

    As multiples of what the reference loop took at the two ends of the stretch, in the mean:
    milliseconds apart, they see the same machine.
    """
    speed, seconds = (run[name].to_numpy(dtype=float) for name in (REFERENCE, "time"))
    mean = 0.5 * (np.concatenate([speed[:1], speed[:-1]]) + speed)
    with np.errstate(all="ignore"):
        mean = np.where(mean > 0.0, mean, math.nan)
        stretches = np.diff(seconds, prepend=0.0) / mean
        # A solver that begins anew with every budget: each of them is a stretch of its own.
        begins_anew = (np.diff(seconds) < 0.0).any()
        return seconds / mean if begins_anew else np.cumsum(stretches), stretches


def curve_time(repetitions):
    """The time a pass of a method on a problem, as a multiple of the reference loop's.

    Of each stretch the least of the repetitions counts, by pass, as seeds may do other work: what
    others do on the machine only makes one longer. In five runs on a busy machine in November
    2026 it varied by 17 %, the median of three repetitions by 19 %. It is not a number or infinite
    if it is not known.
    """
    curves, time, work = [], 0.0, 0.0
    for run in repetitions:
        passes = np.diff(run[PASSES].to_numpy(dtype=float), prepend=0.0)
        curves.append(zip(multiples(run)[1].tolist(), passes.tolist(), strict=True))
    for stretches in zip_longest(*curves):
        some = [stretch for stretch in stretches if stretch is not None]
        mean = sum(passes for _, passes in some) / len(some)
        # Before the first pass there is time all the same.
        time += min(value * (mean / passes if passes > 0.0 else 1.0) for value, passes in some)
        work += mean
    return time / work if work > 0.0 else math.inf

"""Times, compared by paired runs of two commits on one machine.

On a machine with other users two runs of the same code may differ by 30 %, so a run alone raises
no more than a suspicion. First both commits are run once, and methods that are clearly not slower
leave. The others are run alone, by one commit and the other alternately. Both see the same
machine, and the least time of each stretch over all pairs depends on its moods the less, the more
pairs there are. That decides.
"""

import math
import statistics

import pandas as pd

from .commit_runs import CommitNotRun
from .comparison import CannotCompare, Line, counted, key_of, name_of, names_of, worse
from .result_figures import figures_of

#: By how much a time may be longer in the end.
ALLOWED = 0.20

#: After the first run a method is looked into if its time is longer by more than is allowed, or by
#: the first beyond the median of its problem's methods, where there are so many of them: what
#: slows all of them alike is mostly the machine. If they are slower by the second in the median,
#: some of them are looked into all the same.
BESIDE_OTHERS, ALL_OF_THEM, MANY = 0.10, 0.15, 5

#: So many methods at most that are slow beside others, and of each problem whose methods are all
#: slower: those that seem the slowest. Of what is slower in fact some are among them. Simulated
#: with runs of 85 methods that vary by 14 %, a method slower by 30 % is not in 3 % of the checks.
MOST, FEW = 10, 2

#: After so many pairs it is unclear yet whether a time is too long if it is longer by more than
#: the first and no more than the second. At first it goes only if it is longer by less than is
#: allowed, so that noise acquits few that are slower. In 20 runs each of two codes, one of them
#: slower by 30 %, the ratio of the least times of 3, 6 and 10 runs varied by 10, 5 and 3 %.
UNCLEAR = {3: (0.05, math.inf), 6: (0.10, math.inf), 10: (ALLOWED, 0.25), 16: (ALLOWED, ALLOWED)}


def compare_times(frames, baseline, now, other, tell):
    """The times of all methods beside those of another commit: lines, and notes on them.

    `frames` are results of runs that `now`, a `ConfigRuns`, has made; `other` is an `OtherCommit`,
    and `tell` is called with sentences on what is being done. There are no lines if the other
    commit cannot be run. If the user has named it, that is `CannotCompare`.
    """
    last, notes = {key_of(row): row["last"] for row in baseline["figures"]}, []
    try:
        commit = other.commit()
        with other.checked_out(commit, now) as then:
            tell(f"times are compared with those of commit {commit[:12]}, run on this machine")
            try:
                found = pooled(then.runs(len(frames)) if then.configs else [], last)
            except ValueError as error:
                raise CommitNotRun(f"at commit {commit[:12]}: {error}") from None
            lines = time_lines(found, pooled(frames, last))
            timed = {line.key for line in lines}
            if untimed := [key for key in last if key not in timed]:
                note = (f"{counted(len(untimed), 'method')} without a time at commit "
                        f"{commit[:12]} to compare with: {names_of(untimed)}")
                if other.revision is None and any(key not in found for key in untimed):
                    # It has all that the baseline has, so they could not be loaded.
                    raise CommitNotRun(note)
                notes.append(note)
            if keys := suspects(lines):
                lines, note = decide(lines, keys, last, then, now, commit, tell)
                notes.append(note)
    except CommitNotRun as error:
        if other.revision is not None:
            raise
        return [], [f"times are not compared: {error}"]
    return lines, notes


def pooled(frames, last):
    """The figures of some runs as if all were repetitions of one."""
    if not frames:
        return {}
    step = 1 + max(int(frame["idx_rep"].max()) for frame in frames)
    whole = pd.concat([
        frame.assign(idx_rep=frame["idx_rep"] + k * step) for k, frame in enumerate(frames)
    ], ignore_index=True)
    return figures_of(whole, {key: gaps * len(frames) for key, gaps in last.items()})


def time_lines(then, now):
    """The times that two sides have in common, see `pooled`."""
    found = []
    for key, own in now.items():
        was = then[key]["times"] if key in then else {}
        found += [
            Line(key, name, was[name], time, ALLOWED) for name, time in own["times"].items()
            if math.isfinite(was.get(name, math.inf))
        ]
    return found


def suspects(lines):
    """The keys of methods that one run of each commit does not acquit."""
    problems, beside = {}, {}
    for line in lines:
        problems.setdefault(line.key[:2], []).append(line)
    found = {line.key for line in worse(lines)}
    for own in problems.values():
        middle = 0.0
        if len({line.key for line in own}) >= MANY:
            middle = statistics.median(line.change for line in own)
        if middle > ALL_OF_THEM:
            found |= set(_slowest({line.key: line.change for line in own}, FEW))
        for line in own:
            if (1.0 + line.change) / (1.0 + middle) > 1.0 + BESIDE_OTHERS:
                beside[line.key] = line.change - middle
    found |= set(_slowest(beside, MOST))
    return [key for key in dict.fromkeys(line.key for line in lines) if key in found]


def _slowest(changes, count):
    return sorted(changes, key=changes.get)[-count:]


def decide(lines, keys, last, then, now, commit, tell):
    """Lines of which those of some keys are replaced by those of paired runs, and a note on that.

    `then` and `now` are the `ConfigRuns` of the two commits, of which `alone` is called.
    """
    found = {(line.key, line.figure): line for line in lines}
    asked, sides, order = set(keys), {then: [], now: []}, [then, now]
    for count, (least, most) in UNCLEAR.items():
        tell(f"{counted(len(keys), 'method')} perhaps slower, which may be noise: "
             f"{count - len(sides[now])} pairs of runs with commit {commit[:12]}")
        while len(sides[now]) < count:
            for side in order:
                sides[side].append(side.alone(keys))
            # A machine may become slower and slower.
            order.reverse()
        paired = time_lines(*(pooled(frames, last) for frames in sides.values()))
        paired = {(line.key, line.figure): line for line in paired if line.key in keys}
        for key, figure in found:
            if key in keys and (key, figure) not in paired:
                raise CannotCompare(
                    f"commit {commit[:12]} has no {figure} of {name_of(key)} when run alone"
                )
        found |= paired
        unclear = {line.key for line in paired.values() if least < line.change <= most}
        keys = [key for key in keys if key in unclear]
        if not keys:
            break
    slower = {line.key for line in worse(found.values()) if line.key in asked}
    return list(found.values()), (
        f"{counted(len(asked), 'method')} compared by paired runs with commit {commit[:12]}, as "
        f"one run seemed long; slower by more than {ALLOWED:.0%}: {len(slower)}"
    )

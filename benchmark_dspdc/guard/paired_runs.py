"""Times that seem long, decided by runs of two commits by turns.

On a machine with other users two runs of the same code may differ by 30 %, so that a run can raise
no more than a suspicion. Runs of the sources that the baseline was made of, by turns with today's,
see the same machine, and the least time of each stretch over all of them depends on its moods the
less, the more turns there are. They decide.
"""

import math
import statistics

import pandas as pd

from .baseline import CannotCompare, key_of
from .compared_lines import WORSE, counted, name_of, worse
from .curve_figures import BESIDE, TIME, figures_of

#: A time is looked into if it is longer by so much beside others, or else by the second, which
#: varies more.
BESIDE_OTHERS, ALONE = 0.10, 0.15

#: So many methods at most that are slow beside others, and of each problem whose methods are all
#: slower: those that seem the slowest. Of what is slower in fact some are among them.
MOST, FEW = 6, 2

#: By how much a time may be longer in the end.
ALLOWED = 0.20

#: After so many turns it is unclear yet whether a time is too long if it is longer by more than
#: the first and no more than the second. At first it goes only if it is longer by less than is
#: allowed, so that noise acquits few that are slower. In 20 runs each of two codes, one of them
#: slower by 30 %, the ratio of the least times of 3, 6 and 10 runs varied by 10, 5 and 3 %.
UNCLEAR = {
    3: (0.05, math.inf), 6: (0.10, math.inf), 10: (ALLOWED, 0.25), 16: (ALLOWED, ALLOWED),
}


def suspects(lines):
    """The times that one run does not acquit."""
    problems, alone, found = {}, [], []
    beside = {line.key for line in lines if line.figure == BESIDE}
    for line in lines:
        if line.is_time and line.outcome == WORSE:
            found.append(line)
        elif line.figure == BESIDE and line.change > BESIDE_OTHERS:
            alone.append(line)
        elif line.is_time and line.key not in beside and line.change > ALONE:
            found.append(line)
        if line.figure == TIME and line.key in beside:
            # It varies mostly with that of the others.
            problems.setdefault(line.key[:2], []).append(line)
    found += _slowest(alone, MOST)
    for own in problems.values():
        if statistics.median(line.change for line in own) > ALONE:
            found += _slowest(own, FEW)
    return list(dict.fromkeys(found))


def _slowest(lines, count):
    return sorted(lines, key=lambda line: line.change)[-count:]


def by_turns(lines, suspected, known, turns, tell):
    """Lines of which some are decided by runs of a commit and of now, and a note on that.

    Such a line says by how much its time differs from the commit's now, when the machine may be
    another one than it was when the baseline was made. Beside others is the same as alone then.

    Parameters
    ----------
    lines, suspected : list of Line
        All of them, and those in question.
    known : dict
        The baseline.
    turns : callable
        See `base.Base.turns`.
    tell : callable
        Called with sentences on what is being done.
    """
    last = {key_of(row): row["last"] for row in known["figures"]}
    keys, ratios, then, now = list(dict.fromkeys(line.key for line in suspected)), {}, [], []
    with turns() as (commit, turn):
        for count, (least, most) in UNCLEAR.items():
            tell(f"{counted(len(keys), 'method')} slower than in the baseline, which may be "
                 f"noise: {count - len(now)} turns with commit {commit[:12]}")
            while len(now) < count:
                for side, frames in zip((then, now), turn(keys), strict=True):
                    side.append(frames)
            found = [_pooled(side, last) for side in (then, now)]
            for line in lines:
                if line.is_time and line.key in keys:
                    ratios[line] = _ratio(line, commit, *found)
            unclear = {line.key for line, ratio in ratios.items() if least < ratio - 1.0 <= most}
            keys = [key for key in keys if key in unclear]
            if not keys:
                break
    lines = [
        line._replace(now=line.was * ratios[line], tolerance=ALLOWED) if line in ratios else line
        for line in lines
    ]
    methods = len({line.key for line in ratios})
    return lines, (
        f"{counted(methods, 'method')} compared by turns with commit {commit[:12]}, as one run "
        f"seemed long; slower by more than {ALLOWED:.0%}: {len({x.key for x in worse(lines)})}"
    )


def _pooled(turns, last):
    """The figures of some runs as if all were repetitions of one."""
    frames = [pd.concat(frames) for frames in turns if frames]
    if not frames:
        return {}
    step = 1 + max(int(frame["idx_rep"].max()) for frame in frames)
    whole = pd.concat([
        frame.assign(idx_rep=frame["idx_rep"] + k * step) for k, frame in enumerate(frames)
    ], ignore_index=True)
    return figures_of(whole, {key: gaps * len(frames) for key, gaps in last.items()})


def _ratio(line, commit, then, now):
    figure = TIME if line.figure == BESIDE else line.figure
    was, found = (
        some[line.key]["times"].get(figure, math.inf) if line.key in some else math.inf
        for some in (then, now)
    )
    if math.isinf(was):
        raise CannotCompare(f"commit {commit[:12]} has no {figure} of {name_of(line.key)}")
    return found / was

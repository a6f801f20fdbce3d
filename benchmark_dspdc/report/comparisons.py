"""Comparisons of solvers by their times to a gap: who wins, by how much, and over all problems.

Times are medians over the repetitions, or a number for each; infinite where a gap was not reached.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from .results import GAPS, RUN

#: Added to all times before the mean of their logarithms, in seconds, and taken off again: times
#: of a millisecond, which are mostly noise, then count less than those of seconds.
SHIFT = 0.01

#: Times a pass of the data, at most, that a data profile goes to.
MOST_PASSES = 1e4


class Winner(NamedTuple):
    """Who is the first at a gap.

    Attributes
    ----------
    gap : float
        The least of the stated gaps that some solver reached.
    solvers : list of str
        The fastest by its median, then those that it does not beat with every seed.
    seconds : float
        The median of the fastest.
    factor : float
        How many times as long the next solver takes that is beaten; NaN if there is none.
    next : str
        That solver, "" if there is none.
    seeds : int
        Repetitions that the comparison rests on; with one nothing is beaten beyond the spread.
    """

    gap: float
    solvers: list
    seconds: float
    factor: float
    next: str
    seeds: int

    @property
    def tie(self):
        return len(self.solvers) > 1


def times_by_seed(runs, gap):
    """Seconds to a gap, a row a solver and a column a repetition, of `to_targets` of a problem.

    Infinite also where a solver lacks a repetition, as it diverged or failed.
    """
    seconds = runs[f"seconds to {gap:.0e}"]
    return seconds.unstack(level="idx_rep").fillna(np.inf)


def winner(runs):
    """The `Winner` of a problem, None if no solver reached any gap.

    `runs` has `to_targets` of it, by solver and repetition, for the stated gaps. A solver beats
    another one if it is faster with every seed; with one seed the fastest is named, and the rest
    is left open.
    """
    for gap in sorted(GAPS):
        times = times_by_seed(runs, gap)
        middle = times.median(axis=1)
        if not np.isfinite(middle).any():
            continue
        order = middle.sort_values(kind="stable")
        first = order.index[0]
        seeds = times.shape[1]
        others = [name for name in order.index[1:] if np.isfinite(order[name])]
        ties = [name for name in others if seeds > 1 and not beats(times, first, name)]
        beaten = next((name for name in others if name not in ties), "")
        factor = order[beaten] / order[first] if beaten else np.nan
        return Winner(gap, [first, *ties], float(order[first]), float(factor), beaten, seeds)
    return None


def beats(times, one, other):
    """Whether a solver is faster than another with every seed."""
    return bool((times.loc[one] < times.loc[other]).all())


def speedups(seconds):
    """How many times as fast the row's solver is as the column's, NaN if either did not arrive.

    `seconds` is a Series by solver, infinite where it did not get there.
    """
    known = seconds.replace(np.inf, np.nan).to_numpy()
    return pd.DataFrame(known / known[:, None], index=seconds.index, columns=seconds.index)


def regret(seconds):
    """Time over the best in hindsight: a row a solver, a column a problem that some solver solved.

    `seconds` is a Series by dataset, objective and solver. Infinite where a solver did not get
    there, NaN where it was not run.
    """
    best = seconds.groupby(level=[0, 1]).transform("min")
    return (seconds / best)[np.isfinite(best)].unstack(level=[0, 1])


def overall(seconds, limits):
    """Each solver over all problems: a DataFrame by solver.

    `problems`, how many it was run on of those that some solver solved; `solved`, the share that
    it solved; `mean`, the geometric mean of time over the best, `worst` the largest, both
    infinite unless it solved all; `shifted`, the shifted geometric mean of its seconds, where it
    did not get there of the seconds that it was given, so then too small.

    Parameters
    ----------
    seconds : Series by dataset, objective and solver
    limits : Series
        How long each was run.
    """
    ratios = regret(seconds)
    known = seconds[seconds.index.droplevel(2).isin(ratios.columns)]
    counted = known.where(np.isfinite(known), limits.reindex(known.index))
    shifted = np.exp(np.log(counted + SHIFT).groupby(level=2).mean()) - SHIFT
    return pd.DataFrame(dict(
        problems=ratios.notna().sum(axis=1),
        solved=np.isfinite(ratios).sum(axis=1) / ratios.notna().sum(axis=1),
        mean=np.exp(np.log(ratios).mean(axis=1)), worst=ratios.max(axis=1), shifted=shifted,
    ))


def performance_profile(seconds, most=100.0):
    """Share of problems that each solver solves within a factor, `most` at most, of the fastest.

    `seconds` is a Series by dataset, objective and solver. For each solver there are the number of
    problems it was run on, and two arrays: factors at which the share grows, and the share from
    there on, of these problems.

    References
    ----------
    E. Dolan, J. More. Benchmarking optimization software with performance profiles.
    Math. Programming 91, 2002.
    """
    best = seconds.groupby(level=[0, 1]).transform("min")
    solved = np.isfinite(best)
    return _shares((seconds / best)[solved], 1.0, most)


def data_profile(passes, most=MOST_PASSES):
    """Share of problems that each solver solves within a number of passes over the data.

    As `performance_profile`, but in units of the problem and not of the fastest solver: it does
    not depend on who takes part.

    References
    ----------
    J. More, S. Wild. Benchmarking derivative-free optimization algorithms. SIAM J. Optimization
    20, 2009.
    """
    return _shares(passes[passes.notna()], 0.1, most)


def _shares(values, first, most):
    found = {}
    for solver, own in values.groupby(level=2, sort=False):
        inside = np.sort(own[own <= most].to_numpy()).clip(min=first)
        places = np.concatenate([[first], inside, [most]])
        shares = np.searchsorted(inside, places, side="right") / len(own)
        found[solver] = (len(own), places, shares)
    return found


def repetitions(frame):
    """How often each solver was run on each problem."""
    return frame[RUN].drop_duplicates().groupby(RUN[:3], sort=False).size()

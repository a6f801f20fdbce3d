"""Result files of `benchopt run`: reading, and what every view of them needs.

A frame has one row a point of a curve. A problem is a data set with an
objective, a run one repetition of a solver on a problem.
"""

import contextlib
import re
from pathlib import Path

import numpy as np
import pandas as pd

from .plain_files import check_names, read_plain, shown

PASSES, EIGENDECOMPOSITIONS = "objective_passes", "objective_eigendecompositions"
ITERATIONS = "objective_iterations"
GAP = "objective_relative_gap"

#: The hash of the sources of the methods and data.
CURVES = "benchmark-curves"

#: Seconds of the loop that stands for the machine's speed, and times as multiples of it, which
#: frames of two machines have.
REFERENCE, LOOPS = "objective_reference_seconds", "reference_loops"

#: The share of wrong votes of 3 nearest neighbours, and what is 1 for packages that solve another
#: problem, so that errors and times alone can be compared with them.
ERROR, ERRORS_ONLY = "objective_test_error", "objective_errors_only"

#: An error has settled when it stays so near to the last one: 1 of the 1000 test points scored.
SETTLED = 0.001

#: Relative gaps that times are compared at.
GAPS = (1e-2, 1e-4, 1e-6)

#: A curve that ends above it says little.
UNFINISHED = 1e-3

#: A run whose last P(x) is so many times its first, or 1 if that is less, has blown up: P* is at
#: most the first, so its relative gap is 1 up to a millionth whatever the dual bound. Slow methods
#: keep to a few times the first value; what blows up passes any bound. Only the end counts, as
#: values may rise and come back.
BLOWN_UP = 1e6

#: A run that ends above its first P(x) has diverged too if its first and its last relative gap
#: are so many times its least one, gaps above 1 being taken for 1: it was on its way, and is lost.
#: Dual methods that are cut early end above their first value as well; in 84 result files of
#: November 2026 their gaps were at most 1.6 times the least, those of a run that diverged 10^4.
LOST = 10.0

#: What files that are read together may have at most: problems times solvers, solvers of a problem
#: and repetitions of a solver on a problem. The page takes some 20 ms for each pair, and has a
#: number for each two solvers of a problem. The configs of this benchmark have fewer than 150
#: solvers and 20 problems.
MAX_PAIRS, MAX_SOLVERS, MAX_REPETITIONS = 10_000, 200, 1000

#: Numbers that are larger are none, as ratios and products of them would not be; and how far a
#: certified gap may be below zero.
LARGEST, ROUNDING = 1e150, 1e-6

#: What `with_primal_gap` adds.
PRIMAL_GAP, UNCERTAINTY = "primal_gap", "primal_gap_uncertainty"

PROBLEM = ["dataset_name", "objective_name"]
NAMES = [*PROBLEM, "solver_name"]
RUN = [*NAMES, "idx_rep"]

#: Numbers in names. Of more digits there are none, so that all can be computed with.
NUMBER = re.compile(r"[+-]?[0-9.]{1,30}(e[+-]?[0-9]{1,3})?", re.IGNORECASE)

#: Repetitions that were asked for of a solver on a problem, seconds that all runs of a file took
#: on the wall, and that they were allowed to; files of the paper's figures have them.
ASKED, SPENT, BUDGET = "benchmark-repetitions", "benchmark-seconds", "benchmark-budget"

#: Columns without which a file is not one of this suite's results.
REQUIRED = (*RUN, "time", "stop_val", "objective_value", "objective_dual", GAP, PASSES)


def newest_result(folder=Path("outputs")):
    """The parquet file written last under `folder`."""
    newest = max(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime, default=None)
    if newest is None:
        raise ValueError(
            f"no result file under {folder}/; run `make run` first or name a parquet file"
        )
    return newest


def read_results(files, maybe_empty=False):
    """The rows of one or more result files of this suite; if none is left, an error.

    A solver that several files have on a problem is taken from the one named last. Runs that
    diverged are left out with all their points, so that none of them wins; of others the points
    without a finite gap. All that, and what a file lacks, is told in ``frame.attrs["notes"]``, a
    list of sentences; ``frame.attrs["diverged"]`` has the keys, as `RUN`, of what diverged.
    """
    frames, notes = [], []
    for k, file in enumerate(map(Path, files)):
        try:
            frames.append(_read(file).assign(_file=k))
            _check_counts(frames, file)
        except ValueError as error:
            # It may quote the file.
            raise ValueError(shown(str(error))) from None
        notes += _lacking(frames[-1], file)
    frame = pd.concat(frames, ignore_index=True)
    last = frame.groupby(NAMES, sort=False)["_file"].transform("max")
    if (repeated := last != frame["_file"]).any():
        count = frame[repeated].groupby(RUN).ngroups
        notes.append(
            f"{count} runs are left out because a file named later has the solver and the problem"
        )
        frame = frame[~repeated]
    gone = set()
    if (lost := diverged(frame)).any():
        gone = set(frame[lost].groupby(RUN, sort=False).size().index)
        names = frame[lost].groupby(RUN, sort=False).size().index
        notes.append(f"{len(names)} runs diverged and are left out: {_some_names(names)}")
        frame = frame[~lost]
    finite = np.isfinite(frame[GAP]) & np.isfinite(frame["time"])
    if not finite.all():
        names = sorted(set(frame[~finite]["solver_name"]))
        notes.append(
            f"{int((~finite).sum())} points without a finite gap are left out: {', '.join(names)}"
        )
        frame = frame[finite]
    others = frame.assign(_other=by_errors(frame)).groupby(PROBLEM, sort=False)["_other"]
    if (alone := others.transform("all")).any():
        names = sorted(set(frame[alone]["dataset_name"]))
        notes.append(f"no method of this objective was run on {', '.join(names)}: left out")
        frame = frame[~alone]
    if names := sorted(set(frame[by_errors(frame)]["solver_name"])):
        notes.append(f"compared by errors alone, as they have another objective: "
                     f"{', '.join(names)}")
    if frame.empty and not maybe_empty:
        raise ValueError(shown(f"{', '.join(map(str, files))}: no point has a finite gap"))
    frame = frame.drop(columns="_file").reset_index(drop=True)
    # File names are in them, and whoever made a folder has chosen those.
    frame.attrs["notes"] = [shown(note) for note in notes]
    frame.attrs["diverged"] = sorted(gone)
    return frame


def beside(own, archives):
    """The rows of `own` and, on its problems, those of archived frames, on one scale of time.

    Archived seconds become those that they would be where `own` was measured, by the reference
    loop that all have measured; the column `LOOPS` has times as multiples of that loop. A solver
    that several have on a problem is taken from `own`, else from the first. Sentences in the notes
    say what matches.
    """
    here, mine = _loop(own, "your file"), dict.fromkeys(key for key, _ in problems(own))
    own = own.assign(**{LOOPS: own["time"] / here})
    if any(ASKED in archived for archived in archives):
        own[ASKED] = float(own["idx_rep"].nunique())
    frame, notes, there = own, [], {}
    for archived in archives:
        loop = _loop(archived, "the archive")
        there |= dict.fromkeys(key for key, _ in problems(archived))
        kept = archived[_keys(archived, PROBLEM).isin(list(mine))]
        again = _keys(kept, NAMES).isin(_keys(frame, NAMES))
        if again.any():
            names = ", ".join(dict.fromkeys(kept[again]["solver_name"]))
            notes.append(f"not taken from the archive, as your file has it: {names}")
        kept = kept[~again]
        frame = pd.concat([frame, kept.assign(**{
            LOOPS: kept["time"] / loop, "time": kept["time"] * (here / loop)})], ignore_index=True)
        notes.append(f"archived times are multiplied by {here / loop:.2f}: the reference loop "
                     f"took {1e6 * loop:.1f} us there and {1e6 * here:.1f} us here")
        if len({value for one in (own, archived) for value in one.get(CURVES, ())}) > 1:
            notes.append("the archive was measured with other sources of the methods")
    common = [key for key in mine if key in there]
    if not common:
        raise ValueError(
            "no problem of your file is in the archive. It has: "
            + "; ".join(f"{data}, {objective}" for data, objective in list(there)[:6])
            + (f" and {len(there) - 6} more" if len(there) > 6 else "")
        )
    notes.insert(0, f"beside the archive on {', '.join(titles(common).values())}")
    if alone := [key for key in mine if key not in there]:
        notes.insert(1, f"not in the archive: {', '.join(titles(alone).values())}")
    frame.attrs["notes"] = [*map(shown, notes), *own.attrs.get("notes", ())]
    frame.attrs["diverged"] = own.attrs.get("diverged", [])
    return frame


def _keys(frame, columns):
    return pd.MultiIndex.from_frame(frame[columns])


def _loop(frame, name):
    """Seconds of the reference loop, the median over a frame."""
    if REFERENCE not in frame or not (frame[REFERENCE] > 0.0).any():
        raise ValueError(f"{name} has no {REFERENCE}, by which times of machines are compared")
    return frame[REFERENCE][frame[REFERENCE] > 0.0].median()


def diverged(frame):
    """Which rows are of runs that ended without a finite gap, blew up or were lost.

    See `BLOWN_UP` and `LOST`; neither is for those of `by_errors`. Runs that end with a gap of
    `UNFINISHED` or less were not lost: there values may rise by rounding.
    """
    runs = frame.assign(
        _finite=np.isfinite(frame[GAP]) & np.isfinite(frame["time"]),
        _value=frame["objective_value"].where(np.isfinite(frame["objective_value"])),
        _gap=frame[GAP].where(np.isfinite(frame[GAP])).clip(upper=1.0),
    ).groupby(RUN, sort=False)
    first, last = runs["_value"].transform("first"), runs["_value"].transform("last")
    ended = runs["_finite"].transform("last").astype(bool)
    blown_up = last > BLOWN_UP * first.abs().clip(lower=1.0)
    end = runs["_gap"].transform("last")
    least = np.minimum(runs["_gap"].transform("first"), end)
    lost = (last > first) & (end > UNFINISHED) & (least >= LOST * runs["_gap"].transform("min"))
    return ~ended | (blown_up | lost) & ~by_errors(frame)


def by_errors(frame):
    """Which rows are of packages that solve another problem."""
    if ERRORS_ONLY not in frame:
        return pd.Series(False, index=frame.index)
    return frame[ERRORS_ONLY] == 1.0


def of_gaps(frame):
    """The rows whose gap says something."""
    return frame[~by_errors(frame)]


def _check_counts(frames, file):
    """Raise if the files up to this one have more than can be put into tables."""
    runs = pd.concat([frame[RUN].drop_duplicates() for frame in frames]).drop_duplicates()
    pairs = runs[NAMES].drop_duplicates()
    where = pairs.groupby(PROBLEM)
    for count, most, what in (
        (where.ngroups * pairs["solver_name"].nunique(), MAX_PAIRS, "problems times solvers"),
        (where.size().max(), MAX_SOLVERS, "solvers of one problem"),
        (runs.groupby(NAMES).size().max(), MAX_REPETITIONS, "repetitions of one solver"),
    ):
        if count > most:
            with_others = " with those named before it," if len(frames) > 1 else ""
            raise ValueError(
                f"{file} is too large:{with_others} it has {count} {what}, allowed are {most}"
            )


def _lacking(frame, file):
    """Sentences on methods that a file has on one problem but not on another."""
    found = dict.fromkeys(frame.groupby(NAMES, sort=False).size().index)
    where, solvers = (dict.fromkeys(key[part] for key in found) for part in (slice(2), 2))
    missing = [(*p, s) for p in where for s in solvers if (*p, s) not in found]
    if not missing:
        return []
    return [
        f"{file.name} has no result of {len(missing)} pairs of a method and a problem, which were "
        f"skipped or failed: {_some_names(missing)}"
    ]


def _some_names(keys, most=5):
    """Runs for people: the first ones, and how many more there are."""
    keys = list(dict.fromkeys(key[:3] for key in keys))
    shown = [f"{key[2]} on {key[0]}, {key[1]}" for key in keys[:most]]
    return "; ".join(shown) + (f"; and {len(keys) - most} more" if len(keys) > most else "")


def _read(file):
    """The rows of a file, checked."""
    if not file.exists():
        raise ValueError(f"no such file: {file}")
    frame, wrong = read_plain(file), f"{file} is not a result of this benchmark: "
    missing = [c for c in REQUIRED if c not in frame.columns]
    if missing:
        raise ValueError(f"{wrong}it has no column {', '.join(missing)} of numbers or words")
    if frame.empty:
        raise ValueError(f"{file} has no rows: no run of it ended well")
    for column in NAMES:
        check_names(frame[column].unique(), column, file)
    for column in frame.columns.difference(NAMES, sort=False):
        if column in (*REQUIRED, ASKED, SPENT, BUDGET) or column.startswith("objective_"):
            if not pd.api.types.is_numeric_dtype(frame[column]):
                raise ValueError(
                    f"{wrong}column {column} holds {frame[column].dtype}, not numbers"
                )
            frame[column] = frame[column].astype(float)
    largest = frame[list(REQUIRED[len(NAMES):])].abs().replace(np.inf, np.nan).max().max()
    if largest > LARGEST:
        raise ValueError(f"{wrong}it has a number of size {largest:.3g}, allowed is {LARGEST:g}")
    if (frame[GAP] < -ROUNDING).any():
        raise ValueError(f"{wrong}it has a gap of {frame[GAP].min():.3g}, less than zero")
    for column in ("idx_rep", ASKED, SPENT, BUDGET):
        if column in frame and not np.isfinite(frame[column]).all():
            raise ValueError(f"{wrong}column {column} has a row without a number")
    return frame


def parse(name):
    """A name of benchopt's, such as "DSPDC[m=1,q=0.5]", as its first word and a dict."""
    word, _, given = name.partition("[")
    return word, {key: _literal(value) for key, value in re.findall(r"(\w+)=([^,\]]+)", given)}


def method_of(solver_name):
    """The method as this package calls it, and its shown options, from a solver's name."""
    word, options = parse(solver_name)
    return word.lower().replace("-", "_"), options


def _literal(text):
    """The number, truth value or None that a text stands for, else the text."""
    for kind in (int, float) if NUMBER.fullmatch(text) else ():
        with contextlib.suppress(ValueError):
            return kind(text)
    return {"True": True, "False": False, "None": None}.get(text, text)


#: Parameters that a title always has.
TELLING = ("name", "source", "n", "p", "d")


def titles(keys):
    """Short names of problems: what tells them apart, and the sizes of the data."""
    parsed = [(*parse(dataset), parse(objective)[1]) for dataset, objective in keys]

    def telling(place):
        """Parameters in this place with several values."""
        values = {}
        for problem in parsed:
            for name, value in problem[place].items():
                values.setdefault(name, set()).add(str(value))
        return {name for name, known in values.items() if len(known) > 1}
    of_data, of_objective = telling(1).union(TELLING), telling(2)
    found = []
    for kind, data, constants in parsed:
        shown = [f"{k}={v}" for k, v in data.items() if k in of_data]
        rest = [f"{k}={v}" for k, v in constants.items() if k in of_objective]
        found.append(f"{kind}[{', '.join(shown)}]" + (f" {', '.join(rest)}" if rest else ""))
    if len(set(found)) < len(found):
        return {key: f"{key[0]}, {key[1]}" for key in keys}
    return dict(zip(keys, found, strict=True))


def problems(frame):
    """Pairs of (data set, objective) and its rows, in the order of the file."""
    return frame.groupby(PROBLEM, sort=False)


#: The m and q that methods took.
BLOCKS = ("objective_block_rows", "objective_block_columns")


def blocks_of(rows):
    """For each solver of a problem its m and q, and whether q is all of p; NaN if not known.

    Methods that move all of x, such as SPDC, tell how many columns there are.
    """
    last = rows.groupby("solver_name", sort=False).last().reindex(columns=list(BLOCKS))
    m, q = (last[name].astype(float) for name in BLOCKS)
    whole = [parse(name)[0] in ("SPDC", "SAGA", "SVRG", "PDHG", "RPDG") for name in last.index]
    p = parse(rows["dataset_name"].iloc[0])[1].get("p", q[whole].max())
    return {name: (m[name], q[name], q[name] == p) for name in last.index}


def of_matrices(frame):
    """Whether the rows are of a problem with eigendecompositions."""
    return EIGENDECOMPOSITIONS in frame and bool((frame[EIGENDECOMPOSITIONS] > 0).any())


def label(target):
    """A gap as people write it: 1e-6, not 1e-06."""
    power = f"1e{int(f'{target:.0e}'.split('e')[1])}"
    return power if float(power) == target else f"{target:.3g}"


def to_targets(frame, targets):
    """Time and work to each target gap, the final gap and the time in all, of every run.

    A run's time to a target is that of its first certified point at or below
    it; NaN if there is none or the run diverged later. Work is in passes, and in
    eigendecompositions and iterations where the file has them. The DataFrame is indexed by `RUN`,
    without the runs of `by_errors`.
    """
    frame = of_gaps(frame)
    # Runs that begin anew with each budget need not take longer each time.
    last = frame.groupby(RUN, sort=False).tail(1).set_index(RUN)
    ordered = frame[~diverged(frame)].sort_values("time", kind="stable")
    out = pd.DataFrame(index=last.index)
    for target in targets:
        reached = ordered[ordered[GAP] <= target]
        first = reached.groupby(RUN, sort=False).head(1).set_index(RUN).reindex(out.index)
        out[f"seconds to {target:.0e}"] = first["time"]
        for work in (PASSES, EIGENDECOMPOSITIONS, ITERATIONS):
            if work in frame:
                out[f"{work.removeprefix('objective_')} to {target:.0e}"] = first[work]
    out["final gap"] = last[GAP]
    out["seconds"] = frame.groupby(RUN, sort=False)["time"].max()
    if ERROR in frame:
        # Of the last point that has one.
        out["test error"] = frame.groupby(RUN, sort=False)[ERROR].last()
    return out.astype(float)


def errors(frame):
    """Errors in the end, and seconds until they settled and in all: medians by `NAMES`.

    See `SETTLED`. For every solver that has errors, those of `by_errors` too.
    """
    found = []
    for key, own in frame.groupby(RUN, sort=False) if ERROR in frame else ():
        own = own[np.isfinite(own[ERROR])].sort_values("time", kind="stable")
        if len(own):
            values, seconds = own[ERROR].to_numpy(), own["time"].to_numpy()
            away = np.flatnonzero(np.abs(values - values[-1]) > SETTLED)
            settled = seconds[away[-1] + 1 if len(away) else 0]
            found.append((*key, values[-1], settled, seconds[-1]))
    columns = ["error", "settled", "seconds"]
    return pd.DataFrame(found, columns=RUN + columns).groupby(NAMES, sort=False)[columns].median()


def needed_seconds(frame, names, target):
    """Seconds that a solver would take to a gap, a guess: the most of its repetitions.

    At the rate of the last half of its time or of the last quarter, the lower one; infinite if the
    gap did not fall any more. `names` are of data set, objective and solver.
    """
    rows = frame[(frame[NAMES] == list(names)).all(axis=1)]
    return max(_needed(own, target) for _, own in rows.groupby("idx_rep"))


def _needed(own, target):
    own = own.sort_values("time", kind="stable")
    seconds, gaps = own["time"].to_numpy(), own[GAP].to_numpy()
    if gaps.min() <= target:
        return 0.0
    since = np.searchsorted(seconds, np.array([0.5, 0.75]) * seconds[-1], side="right") - 1
    spans = np.maximum(seconds[-1] - seconds[since], 1e-300)
    # After a dip the least gap rests for long while the gap falls.
    rate = max(min(np.log(known[since] / known[-1]) / spans)
               for known in (gaps, np.minimum.accumulate(gaps)))
    return seconds[-1] + np.log(gaps[-1] / target) / rate if rate > 0.0 else np.inf


def unfinished(frame, target=UNFINISHED):
    """The solvers whose runs, most of them, ended above a gap, and how far they were from it.

    A DataFrame indexed by `NAMES`, with medians over the repetitions of `gap`, the least one of a
    run, `seconds`, how long it was run, and `needed`, as `needed_seconds` guesses it.
    """
    found = []
    for key, own in of_gaps(frame).groupby(RUN, sort=False):
        found.append((*key, own[GAP].min(), own["time"].max(), _needed(own, target)))
    columns = ["gap", "seconds", "needed"]
    runs = pd.DataFrame(found, columns=RUN + columns)
    middle = runs.groupby(NAMES, sort=False)[columns].median()
    return middle[middle["gap"] > target]


def common_seeds(frame):
    """The rows of those repetitions that every solver of a problem was asked for.

    Where a ratio is close two solvers have more of them than others.
    """
    if ASKED not in frame:
        return frame
    least = frame.groupby(PROBLEM, sort=False)[ASKED].transform("min")
    kept = frame[~(frame["idx_rep"] >= least)]
    kept.attrs = frame.attrs
    return kept


def completed(runs):
    """The runs of `to_targets`, infinite where a target was not reached.

    A repetition that a solver lacks and others have on the problem, as it diverged or failed, got
    to nothing: without it a method would win by the seeds that went well.
    """
    names = runs.index.droplevel("idx_rep").unique()
    seeds = runs.index.to_frame(index=False).groupby(PROBLEM, sort=False)["idx_rep"].unique()
    every = [(*name, k) for name in names for k in sorted(seeds[name[:2]])]
    return runs.reindex(pd.MultiIndex.from_tuples(every, names=RUN)).fillna(np.inf)


def medians(runs):
    """Medians over repetitions; infinite where fewer than half got to the target."""
    return completed(runs).groupby(NAMES, sort=False).median()


def with_primal_gap(frame):
    """The frame with P(x) - P*, P* being the least P(x) of all runs, and how uncertain that is.

    The optimum lies in [P* - uncertainty, P*].
    """
    by, value = problems(frame), frame["objective_value"]
    star = by["objective_value"].transform("min")
    uncertainty = (star - by["objective_dual"].transform("max")).clip(lower=0.0)
    return frame.assign(**{PRIMAL_GAP: value - star, UNCERTAINTY: uncertainty})


_kept = (None, None)


def rows_of(frame, dataset, objective):
    """The rows of a problem, with its primal gap, without runs that diverged; maybe none.

    For views that are asked for one by one: what belongs to the frame asked for last is kept.
    """
    global _kept
    if _kept[0] is not frame:
        full = with_primal_gap(frame[~diverged(frame)])
        _kept = frame, dict(iter(problems(full)))
    return _kept[1].get((dataset, objective), frame.iloc[:0])


# Curves ------------------------------------------------------------------------------

#: What can be put on the horizontal axis: column, label.
X_AXES = {
    "seconds": ("time", "seconds"),
    "reference loops": (LOOPS, "time in multiples of the reference loop"),
    "passes": (PASSES, "passes over the data"),
    "updates": ("objective_coordinate_updates", "coordinate updates"),
    "eigendecompositions": (EIGENDECOMPOSITIONS, "eigendecompositions"),
}

#: What can be put on the vertical one: column, label, whether in logarithms.
Y_AXES = {
    "relative gap": (GAP, "relative gap, certified", True),
    "own gap": ("objective_own_gap", "P(x) - D(y) with the method's own y", True),
    "primal gap": (PRIMAL_GAP, "P(x) - P*", True),
    "non-zeros": ("objective_nnz", "non-zero coordinates of x", False),
    "accuracy on the test data": ("objective_test_accuracy", "accuracy on the test data", False),
    "3-NN error on the test data": (
        ERROR, "error of 3 nearest neighbours", False
    ),
}

QUANTILES = (0.1, 0.9)


def axes_of(frame, axes):
    """Of `X_AXES` or `Y_AXES`, those that some row of the frame has a number for."""
    def known(column):
        return column in frame and (frame[column].fillna(0) != 0).any()
    return {name: axis for name, axis in axes.items() if known(axis[0])}


def thinned(count, most):
    """Indices of at most so many of `count` things, evenly spread, with the first and last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def band(runs, x, y, points=150):
    """Median and quantiles over repetitions of a solver's curve, at about so many points at most.

    Of the rows of one solver on one problem and two of their columns: a DataFrame with `x`,
    `median`, `low` and `high`. Between two points of a repetition its curve keeps the value of the
    first, after its last point that of the last, and before its first one that it begins with. The
    curve begins where half of them have.
    """
    repetitions = runs["idx_rep"].to_numpy()
    across, up = runs[x].to_numpy(float), runs[y].to_numpy(float)
    known = np.isfinite(across) & np.isfinite(up)
    curves = []
    for k in np.unique(repetitions[known]):
        own = np.flatnonzero(known & (repetitions == k))
        own = own[across[own].argsort(kind="stable")]
        curves.append((across[own], up[own]))
    if not curves:
        return pd.DataFrame(columns=["x", "median", "low", "high"], dtype=float)
    first = np.median([at[0] for at, _ in curves])
    grid = np.unique(np.concatenate([at for at, _ in curves]))
    grid = grid[grid >= first]
    grid = grid[thinned(len(grid), points)]
    values = [held[np.searchsorted(at[1:], grid, side="right")] for at, held in curves]
    low, median, high = np.quantile(values, (QUANTILES[0], 0.5, QUANTILES[1]), axis=0)
    return pd.DataFrame(dict(x=grid, median=median, low=low, high=high))


def mean_points(runs):
    """Means over repetitions of iterations, passes, P(x) - D(y), and each one's predicted gap.

    At the points that all repetitions reached. It is gap_0 (1 - rate)^t after t iterations.
    """
    runs = runs.sort_values("stop_val")
    first = runs.groupby("idx_rep")["objective_own_gap"].transform("first")
    rates, t = runs["objective_predicted_rate"], runs[ITERATIONS]
    points = runs.assign(measured=runs["objective_own_gap"], predicted=first * (1.0 - rates) ** t)
    at = points.groupby("stop_val")
    means = at[[ITERATIONS, PASSES, "measured", "predicted"]].mean()
    return means[at.size() == runs["idx_rep"].nunique()]

"""One HTML file with every view of result files, which needs no network.

The numbers are computed here and embedded as JSON; `page.html` has the text, `page.js` the views
and `charts.js` draws. Names come from result files and may hold anything, so they reach the page
only as JSON and as text of elements.
"""

import base64
import json
import math
import re
from datetime import datetime
from importlib import resources
from pathlib import Path

import numpy as np

from ..engine.cache_dirs import write_whole
from ..version import __version__
from . import comparisons, results
from .claims import UNKNOWN
from .looks import FAMILIES, looks

#: Columns that tell of the machine and the versions.
MACHINE = (
    ("benchmark-processor", "processor"), ("system-processor", "processor, by benchopt"),
    ("system-cpus", "CPUs"), ("system-ram (GB)", "memory, GB"), ("platform", "system"),
    ("platform-release", "release"), ("benchmark-threads", "threads of a method"),
    ("benchmark-commit", "commit of the benchmark"), ("benchmark-python", "Python"),
    ("benchmark-numba", "numba"), ("version-numpy", "numpy"), ("version-scipy", "scipy"),
    ("benchmark-blas", "BLAS"), ("benchmark-benchopt", "benchopt"),
    ("env-OMP_NUM_THREADS", "OMP_NUM_THREADS"), ("benchmark-git-tag", "version of the benchmark"),
    ("run_date", "date of the run"),
)

#: Points of a curve at most; more cannot be seen.
POINTS = 45

#: What the page says of how a solver came by its options, by the numbers of `looks`.
TUNING = ("", "set by hand", "self-tuned")


def write_page(data, file, pictures=()):
    """Write the page.

    Parameters
    ----------
    data : dict
        From `page_data`.
    file : path
    pictures : list of path
        PNG files that the page has in it.
    """
    template = resources.files(__package__).joinpath("page.html")
    shown = [
        dict(name=Path(picture).stem,
             data=base64.b64encode(Path(picture).read_bytes()).decode("ascii"))
        for picture in pictures
    ]
    write_html(template, data | dict(pictures=shown), file)


def write_html(template, data, file):
    """Fill a template, a file, with its data and with all that it would ask the web for."""
    folder = resources.files(__package__)
    parts = dict(
        # Nothing in the data can end the element that holds it.
        DATA=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
        **{name.partition(".")[0].upper(): folder.joinpath(name).read_text("utf-8")
           for name in ("common.css", "charts.js", "page.js")},
    )
    # In one go: what is filled in is not looked at again.
    text = re.sub(r"@@([A-Z]+)@@", lambda found: parts[found[1]], template.read_text("utf-8"))
    write_whole(file, text)


def page_data(frame, origin, verdicts):
    """Everything that the page shows but its pictures, in plain numbers and strings.

    Parameters
    ----------
    frame : DataFrame
        From `results.read_results`.
    origin : str
        What the page is about: names of the result files.
    verdicts : list of Verdict
    """
    frame = results.with_primal_gap(results.common_seeds(frame))
    solvers = list(dict.fromkeys(frame["solver_name"]))
    short = results.titles([key for key, _ in results.problems(frame)])
    runs = results.to_targets(frame, results.GAPS)
    middle = results.medians(runs)
    ordered, sorted_middle = runs.sort_index(), middle.sort_index()
    return dict(
        origin=f"{origin}; benchmark_dspdc {__version__}, "
               f"written on {datetime.now():%d %B %Y, %H:%M}",
        sentence=_sentence(frame, solvers, len(short)),
        # Those on the seeds first: the page hides all but a few.
        notes=_notes(frame) + list(frame.attrs.get("notes", [])),
        gaps=[results.label(gap) for gap in results.GAPS],
        methods=_methods(frame, solvers), settled=results.SETTLED,
        families=list(FAMILIES),
        problems=[
            dict(title=short[key], full=f"{key[0]}, {key[1]}",
                 winner=_winner(ordered.loc[key])) | _problem(
                rows, ordered.loc[key], sorted_middle.loc[key]
            )
            for key, rows in results.problems(frame)
        ],
        overall=[_overall(middle, gap, list(short)) for gap in results.GAPS],
        rates=_rates(frame, short),
        unfinished=dict(gap=results.label(results.UNFINISHED), rows=[
            [short[key[:2]], key[2], *map(_number, row)]
            for key, row in results.unfinished(frame).iterrows()
        ]),
        verdicts=[dict(
            claim=verdict.claim, place=verdict.place, outcome=verdict.outcome,
            form=verdict.form, count=verdict.counts, measured=verdict.measured,
            known=verdict.outcome != UNKNOWN,
            findings=[dict(
                setting=f.setting, variant=f.variant, outcome=f.outcome,
                ratios=", ".join(map(str, f.ratios)), reason=f.reason,
            ) for f in verdict.findings],
        ) for verdict in verdicts],
        machine=_machine(frame),
    )


def _words(frame, column):
    """The different values of a column, as text; none where the file does not have it."""
    return list(map(str, frame[column].dropna().unique())) if column in frame else []


def _sentence(frame, solvers, problems):
    """What was run, where and of which sources."""
    def counted(count, noun):
        return f"{count} {noun}" + ("" if count == 1 else "s")
    machine = _words(frame, "benchmark-processor") or _words(frame, "system-processor")
    cpus, commit = _words(frame, "system-cpus"), _words(frame, "benchmark-commit")
    days = sorted({date[:10] for date in _words(frame, "run_date")})
    told = [
        f"{counted(len(solvers), 'method')} on {counted(problems, 'problem')}, "
        f"{counted(int(comparisons.repetitions(frame).max()), 'run')} of each"
    ]
    if machine:
        told.append(f"on {', '.join(machine[:3])}" + (f" ({cpus[0]} CPUs)" if cpus else ""))
    if commit:
        told.append(f"commit {', '.join(commit[:3])}")
    return ", ".join([*told, *days[:1]]) + "."


def _methods(frame, solvers):
    """Name, family, looks and kind of tuning of each solver, in the order of the families."""
    def code(column, solver, names):
        values = frame.loc[frame["solver_name"] == solver, column] if column in frame else ()
        known = [int(value) for value in values[:1] if 0 <= value < len(names)]
        return names[known[0]] if known else names[0]
    found, drawn = [], looks(solvers)
    for solver in solvers:
        found.append(dict(
            name=solver, family=code("objective_family", solver, FAMILIES),
            tuning=code("objective_tuning", solver, TUNING), **drawn[solver]._asdict(),
        ))
    # Those of no known family last.
    return sorted(found, key=lambda method: FAMILIES.index(method["family"]) or len(FAMILIES))


def _notes(frame):
    count = comparisons.repetitions(frame)
    if count.max() == 1:
        return ["Every run was made once: there is no spread, and a verdict rests on one seed."]
    if count.min() < count.max():
        few = sorted({index[2] for index in count[count < count.max()].index})
        return [f"Fewer than {count.max()} repetitions on some problem: {', '.join(few)}"]
    return []


def _winner(runs):
    found = comparisons.winner(runs)
    if found is None:
        return None
    return found._asdict() | dict(
        gap=results.label(found.gap), seconds=_number(found.seconds), factor=_number(found.factor)
    )


def _problem(every, runs, middle):
    rows = results.of_gaps(every)
    matrices = results.of_matrices(rows)
    work = "eigendecompositions" if matrices else "passes"
    solvers = list(dict.fromkeys(rows["solver_name"]))
    targets = []
    for gap in results.GAPS:
        seconds = f"seconds to {gap:.0e}"
        known = middle[seconds].reindex(solvers)
        # As in the medians, what was not reached took for ever.
        spread = runs[seconds].fillna(np.inf).groupby(level=0).quantile(
            list(results.QUANTILES), interpolation="nearest"
        ).unstack()
        reached = known[np.isfinite(known)].sort_values()
        targets.append(dict(
            label=results.label(gap),
            rows={solver: dict(
                seconds=_number(known[solver]), work=_number(middle.loc[solver, f"{work} to "
                                                                                f"{gap:.0e}"]),
                low=_number(spread.loc[solver].iloc[0]), high=_number(spread.loc[solver].iloc[1]),
            ) for solver in solvers},
            speedups=dict(
                solvers=list(reached.index),
                values=[_plain(row) for row in comparisons.speedups(reached).to_numpy()],
            ),
        ))
    errors = "test error" in middle and bool(np.isfinite(middle["test error"]).any())
    return dict(
        repetitions=int(rows["idx_rep"].nunique()),
        star=_number(rows["objective_value"].min(), 12),
        uncertainty=_number(rows[results.UNCERTAINTY].iloc[0]), targets=targets,
        curves=_curves(every), work="eigs" if matrices else "passes",
        errors={solver: _number(middle.loc[solver, "test error"]) for solver in solvers}
        if errors else None,
        euclidean=_number(rows["objective_test_error_euclidean"].iloc[-1])
        if errors and "objective_test_error_euclidean" in rows else None,
        beside=_errors(every),
        final={solver: [_number(middle.loc[solver, name]) for name in ("final gap", "seconds")]
               for solver in solvers},
        blocks={solver: [_number(m), _number(q), bool(whole)]
                for solver, (m, q, whole) in results.blocks_of(rows).items()},
    )


def _errors(rows):
    """Of all solvers the error and two times, if some have another objective; else None."""
    if not results.by_errors(rows).any():
        return None
    found = results.errors(rows).sort_values(["error", "settled"]).droplevel([0, 1])
    return {solver: _plain(row) for solver, row in zip(found.index, found.to_numpy(), strict=True)}


def _overall(middle, gap, keys):
    """Every solver over all problems: regret, success, means and profiles."""
    seconds = middle[f"seconds to {gap:.0e}"]
    ratios, table = comparisons.regret(seconds), comparisons.overall(seconds, middle["seconds"])
    known = [key for key in keys if key in ratios.columns]

    def profile(found):
        return {
            solver: [count, _plain(places), _plain(shares)]
            for solver, (count, places, shares) in found.items()
        }
    return dict(
        problems=[keys.index(key) for key in known],
        rows={
            solver: dict(
                ratios=[_ratio(ratios.loc[solver, key]) for key in known],
                **{name: _number(value) for name, value in table.loc[solver].items()},
            ) for solver in ratios.index
        },
        profiles=dict(
            performance=profile(comparisons.performance_profile(seconds)),
            data=profile(comparisons.data_profile(middle[f"passes to {gap:.0e}"])),
        ),
    )


def _ratio(value):
    """A number, "not reached", or None where a solver was not run."""
    if math.isnan(value):
        return None
    return _number(value, 4) if math.isfinite(value) else "not reached"


def _curves(rows):
    """For each pair of axes the median and the band of each solver."""
    across, up = results.axes_of(rows, results.X_AXES), results.axes_of(rows, results.Y_AXES)
    needed = dict.fromkeys(axis[0] for axis in (*across.values(), *up.values()))
    others = set(rows[results.by_errors(rows)]["solver_name"])
    solvers = [(solver, own, own["idx_rep"].nunique() > 1) for solver, own in
               rows.groupby("solver_name", sort=False)[["idx_rep", *needed]]]
    made = {}
    for kind, (column, text, logarithmic) in up.items():
        by = {}
        for name, (x, x_text) in across.items():
            curves = {}
            for solver, own, several in solvers:
                if solver in others and column != results.ERROR:
                    continue
                at, median, low, high = results.band(own, x, column, POINTS).to_numpy().T
                # Neither axis has room for zero where it is in logarithms.
                kept = at > 0
                if logarithmic:
                    kept &= median > 0
                    # A band that goes down to zero has its end where the curve has.
                    low = np.where(low > 0, low, median[kept].min(initial=np.inf))
                if kept.any():
                    columns = (at, median, low, high) if several else (at, median)
                    curves[solver] = [_plain(values[kept], 3) for values in columns]
            by[name] = dict(label=x_text, curves=curves)
        made[kind] = dict(label=text, log=logarithmic, by=by)
    return made


def _rates(frame, short):
    needed = ("objective_predicted_rate", "objective_iterations", "objective_own_gap")
    if not all(column in frame for column in needed):
        return {}
    known = frame[np.isfinite(frame["objective_predicted_rate"])]
    found = {}
    for key, rows in results.problems(known):
        curves = {}
        for solver, own in rows.groupby("solver_name", sort=False):
            points = results.mean_points(own)
            points = points[(points["measured"] > 0) & (points["predicted"] > 0)]
            if len(points):
                points = points.iloc[results.thinned(len(points), POINTS)]
                columns = results.PASSES, "measured", "predicted"
                curves[solver] = [_plain(points[column], 4) for column in columns]
        if curves:
            found[list(short).index(key)] = curves
    return found


def _machine(frame):
    rows = []
    for column, name in MACHINE:
        values = _words(frame, column)
        if values:
            rows.append([name, ", ".join(values[:4]) + (" ..." if len(values) > 4 else "")])
    return rows


def _number(value, digits=6):
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _plain(values, digits=6):
    """A list for JSON, to a few digits: more cannot be seen, and the file is half as large."""
    return [_number(value, digits) for value in values]

"""One HTML file with every view of result files, which needs no network.

The numbers are computed here and embedded as JSON, plotly's script is
embedded as it is, and `page.html` draws. Names come from result files and may
hold anything, so they reach the page only as JSON, as text of elements, and,
without angle brackets, as labels of plots.
"""

import json
import math
import re
from datetime import datetime
from importlib import resources

import numpy as np

from ..engine.cache_dirs import write_whole
from ..version import __version__
from . import results

#: Colours that the colour-blind can tell apart (Okabe and Ito), with dashes and markers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8c6d1f")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")

#: Columns that tell of the machine and the versions.
MACHINE = (
    ("platform", "system"), ("platform-release", "release"), ("platform-architecture", "machine"),
    ("system-processor", "processor"), ("system-cpus", "CPUs"), ("system-ram (GB)", "memory, GB"),
    ("env-OMP_NUM_THREADS", "OMP_NUM_THREADS"), ("version-numpy", "numpy"),
    ("version-scipy", "scipy"), ("benchmark-git-tag", "version of the benchmark"),
    ("run_date", "date of the run"),
)

#: Points of a curve at most; more cannot be seen.
POINTS = 70


def write_page(frame, file, origin, verdicts):
    """Write the page of a frame of results.

    Parameters
    ----------
    frame : DataFrame
        From `results.read_results`.
    file : path
    origin : str
        What the page is about: names of the result files.
    verdicts : list of Verdict
    """
    template = resources.files(__package__).joinpath("page.html")
    write_html(template, page_data(frame, origin, verdicts), file)


def write_html(template, data, file):
    """Fill a template, a file, with its data and with all that it would ask the web for."""
    from plotly.offline import get_plotlyjs

    folder = resources.files(__package__)
    parts = dict(
        # Nothing in the data can end the element that holds it.
        DATA=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
        PLOTLY=get_plotlyjs(), STYLE=folder.joinpath("common.css").read_text("utf-8"),
        HELPERS=folder.joinpath("common.js").read_text("utf-8"),
    )
    # In one go: what is filled in is not looked at again.
    text = re.sub(r"@@([A-Z]+)@@", lambda found: parts[found[1]], template.read_text("utf-8"))
    write_whole(file, text)


def page_data(frame, origin, verdicts):
    """Everything that the page shows, in plain numbers and strings."""
    frame = results.with_primal_gap(frame)
    solvers = list(dict.fromkeys(frame["solver_name"]))
    short = results.titles([key for key, _ in results.problems(frame)])
    runs = results.to_targets(frame, results.GAPS)
    middle = results.medians(runs)
    ordered, sorted_middle = runs.sort_index(), middle.sort_index()
    return dict(
        origin=f"{origin}; benchmark_dspdc {__version__}, "
               f"written on {datetime.now():%d %B %Y, %H:%M}",
        # Those on the seeds first: the page hides all but a few.
        notes=_notes(frame) + list(frame.attrs.get("notes", [])),
        gaps=[results.label(gap) for gap in results.GAPS],
        styles=styles(solvers),
        problems=[
            dict(title=short[key], full=f"{key[0]}, {key[1]}") | _problem(
                rows, ordered.loc[key], sorted_middle.loc[key]
            )
            for key, rows in results.problems(frame)
        ],
        profiles=[{
            solver: [count, _plain(factors), _plain(shares)]
            for solver, (count, factors, shares) in results.performance_profile(
                middle[f"seconds to {gap:.0e}"]
            ).items()
        } for gap in results.GAPS],
        rates=_rates(frame, short),
        unfinished=dict(gap=results.label(results.UNFINISHED), rows=[
            [short[key[:2]], key[2], *map(_number, row)]
            for key, row in results.unfinished(frame).iterrows()
        ]),
        verdicts=[dict(
            claim=verdict.claim, place=verdict.place, outcome=verdict.outcome,
            form=verdict.form, count=verdict.counts, measured=verdict.measured,
            findings=[dict(
                setting=f.setting, variant=f.variant, outcome=f.outcome,
                ratios=", ".join(map(str, f.ratios)), reason=f.reason,
            ) for f in verdict.findings],
        ) for verdict in verdicts],
        machine=_machine(frame),
    )


def styles(solvers):
    """A colour, a dash and a marker for each solver, which change together.

    With eight colours and five dashes no two of forty solvers look the same.
    """
    return {solver: dict(
        color=COLORS[k % len(COLORS)], dash=DASHES[k % len(DASHES)],
        symbol=SYMBOLS[(k + k // len(COLORS)) % len(SYMBOLS)],
    ) for k, solver in enumerate(solvers)}


def _notes(frame):
    repetitions = frame.groupby(results.NAMES)["idx_rep"].nunique()
    if repetitions.max() == 1:
        return ["Every run was made once: there is no spread, and a verdict rests on one seed."]
    if repetitions.min() < repetitions.max():
        few = sorted({index[2] for index in repetitions[repetitions < repetitions.max()].index})
        return [f"Fewer than {repetitions.max()} repetitions on some problem: {', '.join(few)}"]
    return []


def _problem(rows, runs, middle):
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
            label=results.label(gap), best=None if reached.empty else _number(reached.iloc[0]),
            rows=[dict(
                solver=solver, seconds=_number(known[solver]),
                low=_number(spread.loc[solver].iloc[0]), high=_number(spread.loc[solver].iloc[1]),
                run=_number(middle.loc[solver, "seconds"]),
            ) for solver in solvers],
            speedups=dict(
                solvers=list(reached.index),
                values=[_plain(row) for row in results.speedups(reached).to_numpy()],
            ),
        ))
    errors = "test error" in middle and bool(np.isfinite(middle["test error"]).any())
    return dict(
        repetitions=int(rows["idx_rep"].nunique()),
        star=_number(rows["objective_value"].min(), 12),
        uncertainty=_number(rows[results.UNCERTAINTY].iloc[0]), targets=targets,
        curves=_curves(rows), work="eigs" if matrices else "passes", errors=errors,
        rows=[dict(
            solver=solver, final=float(middle.loc[solver, "final gap"]),
            error=_number(middle.loc[solver, "test error"]) if errors else None,
            targets=[dict(
                seconds=_number(middle.loc[solver, f"seconds to {gap:.0e}"]),
                work=_number(middle.loc[solver, f"{work} to {gap:.0e}"]),
            ) for gap in results.GAPS],
        ) for solver in solvers],
    )


def _curves(rows):
    """For each pair of axes the median and the band of each solver."""
    across, up = results.axes_of(rows, results.X_AXES), results.axes_of(rows, results.Y_AXES)
    needed = dict.fromkeys(axis[0] for axis in (*across.values(), *up.values()))
    solvers = list(rows.groupby("solver_name", sort=False)[["idx_rep", *needed]])
    made = {}
    for kind, (column, text, logarithmic) in up.items():
        by = {}
        for name, (x, x_text) in across.items():
            curves = {}
            for solver, own in solvers:
                found = results.band(own, x, column, POINTS)
                # Neither axis has room for zero where it is in logarithms.
                found = found[found["x"] > 0]
                if logarithmic:
                    found = found[found["median"] > 0]
                    # A band that goes down to zero has its end where the curve has.
                    low = found["low"].where(found["low"] > 0, found["median"].min())
                    found = found.assign(low=low)
                if len(found):
                    curves[solver] = [
                        _plain(found[c]) for c in ("x", "median", "low", "high")
                    ]
            by[name] = dict(label=x_text, curves=curves)
        made[kind] = dict(label=text, log=logarithmic, by=by)
    return made


def _rates(frame, short):
    needed = ("objective_predicted_rate", "objective_iterations", "objective_own_gap")
    if not all(column in frame for column in needed):
        return []
    known = frame[np.isfinite(frame["objective_predicted_rate"])]
    found = []
    for key, rows in results.problems(known):
        curves = {}
        for solver, own in rows.groupby("solver_name", sort=False):
            points = results.mean_points(own)
            points = points[(points["measured"] > 0) & (points["predicted"] > 0)]
            if len(points):
                points = points.iloc[results.thinned(len(points), POINTS)]
                columns = results.PASSES, "measured", "predicted"
                curves[solver] = [_plain(points[column]) for column in columns]
        if curves:
            found.append(dict(title=short[key], curves=curves))
    return found


def _machine(frame):
    rows = []
    for column, name in MACHINE:
        values = list(map(str, frame[column].dropna().unique())) if column in frame else []
        if values:
            rows.append([name, ", ".join(values[:4]) + (" ..." if len(values) > 4 else "")])
    return rows


def _number(value, digits=6):
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _plain(values):
    """A list for JSON, to six digits: more cannot be seen, and the file is half as large."""
    return [_number(value) for value in values]

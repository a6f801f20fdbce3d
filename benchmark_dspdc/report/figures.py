"""Static figures from result files, among them the paper's."""

import io
import re
import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.layout_engine import TightLayoutEngine
from matplotlib.ticker import NullLocator

from ..engine.cache_dirs import write_whole
from . import claims, results
from .looks import looks

#: Block sizes that figure 2 is drawn for, a row each; the paper does not give its own.
PAIRS_2 = [(100, 0.5), (1000, 0.1)]

#: Panels and curves of a picture at most: more cannot be seen, and take their memory.
MOST_PANELS, MOST_CURVES = 60, 60

#: Looks of the curves in the paper's figures: colours that the colour-blind can tell apart, and
#: dashes and markers for print.
ROLES = {
    "DSPDC as stated": ("#D55E00", "-", "o"),
    "DSPDC partitions": ("#0072B2", "-", "s"),
    "DSPDC, sizes chosen": ("#009E73", "--", "^"),
    "DSPDC self-tuned": ("#000000", "-", "*"),
    "SPDC": ("#CC79A7", "-.", "D"),
    "SPDC, DSPDC's steps": ("#56B4E9", "-.", "v"),
    "SDCA": ("#8c6d1f", ":", "P"),
    "SDCA, random order": ("#E69F00", ":", "X"),
}

#: Where the curves say nothing, and how that is called.
UNKNOWN = "P* is not known below this"


def gap_curves(frame, file, x="seconds"):
    """Draw the relative gap of every run, one panel a problem.

    Parameters
    ----------
    frame : DataFrame
        From `results.read_results`.
    file : path
        Where to write; the suffix decides the format, without one it is PNG.
    x : {"seconds", "passes", "updates", "eigendecompositions"}
    """
    column, text = results.X_AXES[x]
    if column not in frame:
        raise ValueError(
            f"there is nothing to draw over {text}: the result files have no column {column}"
        )
    frame = results.of_gaps(frame)
    shown = results.problems(frame)
    methods = list(dict.fromkeys(frame["solver_name"]))
    for count, most, what in (
        (len(shown), MOST_PANELS, "problems"), (len(methods), MOST_CURVES, "solvers")
    ):
        if count > most:
            raise ValueError(
                f"the picture would be too large: the result files have {count} {what}, allowed "
                f"are {most}; see the page of `report`"
            )
    short = results.titles([key for key, _ in shown])
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    look = looks(methods)
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.1):
        figure, panels = plt.subplots(
            rows, columns, figsize=(5.2 * columns, 3.3 * rows), squeeze=False
        )
        for panel, (key, here) in zip(panels.flat, shown, strict=False):
            for (method, _), run in here.groupby(["solver_name", "idx_rep"], sort=False):
                run = run[(run["objective_relative_gap"] > 0) & (run[column] > 0)]
                panel.plot(
                    run[column], run["objective_relative_gap"], linewidth=1.3, markersize=3.5,
                    label=method.replace("$", r"\$"), markevery=max(1, len(run) // 10),
                    **look[method].for_matplotlib(),
                )
            _logarithmic(panel, text, "relative gap")
            panel.set_title(_wrapped(short[key]).replace("$", r"\$"), fontsize=9)
        for panel in panels.flat[len(shown):]:
            panel.set_visible(False)
        _finish(figure, panels, [file], columns)


def paper_figures(frame, folder, notes):
    """Draw the paper's figures from what a frame has of them, as PNG and SVG.

    Panels show P(x) - P* over seconds, the median over the seeds and a band between their
    10 % and 90 % quantiles; hatched where P* itself is not known better. Solvers that were run on
    the data of a figure and have no curve in it are named under it.

    Parameters
    ----------
    frame : DataFrame
        From `results.read_results`.
    folder : path
    notes : list
        Gets sentences on the figures that do not show all solvers.

    Returns
    -------
    list of path
        The PNG files.
    """
    here = [(results.parse(dataset), results.parse(objective)[1], rows)
            for (dataset, objective), rows in results.problems(results.with_primal_gap(frame))]
    written, lacking = [], {}
    for name, title, grid in (
        ("figure1", "Factorised data", _grid_1(here)),
        ("figure2", "Reduced real data", _grid_2(here)),
        ("figure3", "Matrix risk", _grid_3(here)),
        *_grids_4(here),
    ):
        shown = [rows for row in grid for _, rows in row if rows is not None]
        if not shown:
            continue
        drawn = {solver for rows in shown for solver in _chosen(rows).values()}
        keys = {tuple(rows[results.PROBLEM].iloc[0]) for rows in shown}
        others = list(dict.fromkeys(
            solver for *_, rows in here if tuple(rows[results.PROBLEM].iloc[0]) in keys
            for solver in rows["solver_name"].unique() if solver not in drawn
        ))
        written.append(_draw(title, grid, folder / name, others))
        if others:
            lacking.setdefault(", ".join(others), []).append(name)
    notes += [
        f"not drawn in {', '.join(names)}: {others}; not of the paper's comparison, or variants"
        for others, names in lacking.items()
    ]
    return written


#: In the picture of all verdicts: what its rows are called, and the colours of the forms.
ABOUT = {"figure 1": "factorised data", "figure 2": "reduced real data",
         "figure 3": "matrix risk", "figure 4": "metric learning"}
FORM_COLORS = dict(zip(claims.FORMS, ("#D55E00", "#0072B2", "#000000"), strict=True))


def answer_picture(verdicts, file):
    """Draw all decided ratios of the figures' claims, a line for each figure and rival.

    Parameters
    ----------
    verdicts : list of Verdict
    file : path
    """
    lines = [(key, rival) for key in ABOUT for rival in ("SPDC", "SDCA")]
    offsets = dict(zip(claims.FORMS, (0.25, 0.0, -0.25), strict=True))
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.25):
        figure, panel = plt.subplots(figsize=(9.0, 0.6 * len(lines) + 1.2))
        for verdict in verdicts:
            for rival in ("SPDC", "SDCA") if verdict.form in offsets else ():
                at = offsets[verdict.form] - lines.index((verdict.key, rival))
                for row in claims.rows_of(verdict, rival):
                    if row.outcome != claims.UNKNOWN:
                        _dot(panel, row, at, FORM_COLORS[verdict.form])
        panel.axvline(1.0, color="0.3", linewidth=1.2, zorder=1)
        panel.set(xscale="log", ylim=(0.5 - len(lines), 0.5),
                  xlabel="time of the rival / time of DSPDC, to 1e-2, 1e-4 and 1e-6")
        panel.set_yticks([-k for k in range(len(lines))],
                         [f"{ABOUT[key]}: over {rival}" for key, rival in lines])
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.grid(axis="y", visible=False)
        for k in range(1, len(lines)):
            panel.axhline(0.5 - k, color="0.6" if k % 2 == 0 else "0.9", linewidth=0.8, zorder=0)
        low, high = panel.get_xlim()
        panel.set_xlim(min(low, 0.1), max(high, 10.0))
        for x, text, side in ((0.9, "\u2190 rival faster", "right"),
                              (1.11, "DSPDC faster \u2192", "left")):
            panel.text(x, 1.015, text, ha=side, transform=panel.get_xaxis_transform())
        marks = [plt.Line2D([], [], color=color, marker="o", linestyle="", label=f"DSPDC {form}")
                 for form, color in FORM_COLORS.items()]
        marks += [plt.Line2D([], [], color="0.4", marker=mark, linestyle="", label=text)
                  for mark, text in ((">", "at least"), ("<", "at most"))]
        figure.legend(handles=marks, loc="upper center", ncol=5, frameon=False, fontsize=10,
                      bbox_to_anchor=(0.5, 0.02), handletextpad=0.1, columnspacing=1.2)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=110, bbox_inches="tight")
        write_whole(file, picture.getvalue())
        plt.close(figure)


def _dot(panel, row, at, color):
    """A ratio with its spread, or a triangle for a bound on it."""
    low, high = row.between
    if row.ratio is not None:
        panel.plot([row.ratio_low, row.ratio_high], [at, at], color=color, linewidth=1.2,
                   alpha=0.5)
    mark = "o" if row.ratio is not None else ">" if np.isinf(high) else "<"
    panel.plot([high if mark == "<" else low], [at], marker=mark, color=color, markersize=6,
               alpha=0.75, linestyle="", markeredgewidth=0)


def _chosen(rows):
    """The solver of each role, in the order of `ROLES`; of several the first, for one look."""
    found = {}
    for solver in rows["solver_name"].unique():
        found.setdefault(_role(solver), solver)
    return {role: found[role] for role in ROLES if role in found}


def _find(here, kind, **data):
    """Problems of a kind of data with these parameters."""
    return [
        (constants, rows) for (word, known), constants, rows in here
        if word == kind and all(known.get(key) == value for key, value in data.items())
    ]


def _grid_1(here):
    def panel(pair, n, p, d):
        title = f"n={n}, p={p}, d={d}\nlambda1={pair[0]:g}, lambda2={pair[1]:g}"
        found = [
            rows for constants, rows in _find(
                here, "Factorized", n=n, p=p, d=d, materialize=False
            )
            if (constants.get("lambda1"), constants.get("lambda2")) == pair
            and "DSPDC as stated" in _chosen(rows)
        ]
        return title, _with_sizes(found[0], *claims.PAIRS_1[0]) if found else None
    return [[panel(pair, *sizes) for sizes in claims.FIGURE_1] for pair in claims.ELASTIC_NETS]


def _grid_2(here):
    reduced = {}
    for (word, known), _, rows in here:
        if word == "LIBSVM" and known.get("reduction") == "feature":
            name = str(known.get("name", claims.FIGURE_2[0]))
            reduced.setdefault(name, (known.get("scale"), rows))
    # Machines without rcv1 and real-sim may have other texts in their place.
    others = [name for name in reduced if name not in claims.FIGURE_2]
    columns = []
    for name in (*claims.FIGURE_2[1:], claims.FIGURE_2[0]):
        other = others.pop(0) if name not in reduced and others else name
        scale, rows = reduced.get(other, (None, None))
        title = other if other == name else f"{other} for {name}"
        columns.append((title if scale in (None, "none") else f"{title}, {scale}", rows))
    columns = columns[-1:] + columns[:-1]
    grid = [
        [(f"{title}\nm={m}, q={q:g} p", _with_sizes(rows, m, q)) for title, rows in columns]
        for m, q in PAIRS_2
    ]
    # One row as in the paper, if only one of the pairs was run.
    return [row for row in grid if any(rows is not None for _, rows in row)] or grid[-1:]


def _grid_3(here):
    grid = []
    for n, p, d in claims.FIGURE_3:
        _, rows = next(iter(_find(here, "MatrixRisk", n=n, p=p, d=d)), (None, None))
        grid.append([(f"d={d}, m={m}, q={q}", _with_sizes(rows, m, q)) for m, q in claims.PAIRS_3])
    return grid


def _grids_4(here):
    made = []
    for (word, known), _, rows in here:
        if word == "MTLMNN":
            source = str(known.get("source"))
            if (impostors := known.get("n_impostors", 1)) != 1:
                source += f", {impostors} impostors"
            # A name from a file is no path.
            name = base = "figure4_" + re.sub(r"\W+", "_", source, flags=re.ASCII)[:60]
            taken, k = {other[0] for other in made}, 1
            while name in taken:
                name, k = f"{base}_{k}", k + 1
            made.append((name, f"Multi-task metric learning, {source}", [[
                (f"{source}, m={m}, q={q:g} p", _with_sizes(rows, m, q)) for m, q in claims.PAIRS_4
            ]]))
    return made


def _with_sizes(rows, m, q):
    """Rows of the solvers with these block sizes, if there are any, and of those that choose."""
    if rows is None:
        return None

    def sizes(name):
        method, options = results.method_of(name)
        if method not in ("dspdc", "spdc", "sdca"):
            return None, None
        return options.get("m", 1), options.get("q", q)
    names = dict.fromkeys(rows["solver_name"])
    data = results.parse(rows["dataset_name"].iloc[0])[1]
    totals = data.get("n"), data.get("p")
    same = [name for name in names if claims.same_sizes(sizes(name), (m, q), totals)]
    if not same:
        return None
    return rows[rows["solver_name"].isin(same + [n for n in names if sizes(n)[0] == "auto"])]


def _role(solver):
    """Which of `ROLES` a solver has, None if it is not of the paper's figures."""
    method, options = results.method_of(solver)
    if method == "spdc":
        return "SPDC, DSPDC's steps" if options.get("steps") == "dspdc" else "SPDC"
    if method == "sdca":
        return "SDCA, random order" if options.get("order") == "random" else "SDCA"
    if method != "dspdc":
        return None
    auto, adaptive = "auto" in (options.get("m"), options.get("q")), options.pop("adaptive", False)
    if adaptive:
        options = {name: options[name] for name in options if name not in ("steps", "order")}
    form = claims.form_of(options)
    if adaptive:
        return "DSPDC self-tuned" if auto and form else None
    if form == claims.AS_STATED:
        return None if auto else "DSPDC as stated"
    return form and ("DSPDC, sizes chosen" if auto else "DSPDC partitions")


def _draw(title, grid, path, others):
    """Write a figure; `others` are the solvers that it does not show."""
    height, width = len(grid), len(grid[0])
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.1):
        figure, panels = plt.subplots(
            height, width, figsize=(4.1 * width, 3.2 * height), squeeze=False
        )
        cells = [cell for row in grid for cell in row]
        curves = [rows if rows is None else _medians(rows) for _, rows in cells]
        linear = _linear([found for found in curves if found])
        for panel, (name, rows), found in zip(panels.flat, cells, curves, strict=True):
            panel.set_title(name.replace("$", r"\$"), fontsize=9.5)
            if not found:
                text = "not measured" if rows is None else "none of the paper's methods"
                panel.text(0.5, 0.5, text, ha="center", va="center",
                           transform=panel.transAxes, color="0.4")
                panel.set(xticks=[], yticks=[])
                continue
            _curves(panel, found, float(rows[results.UNCERTAINTY].iloc[0]), linear)
        figure.suptitle(title.replace("$", r"\$"), fontsize=12)
        files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
        note = f"Not drawn: {', '.join(others[:6])}" if others else ""
        if len(others) > 6:
            note += f" and {len(others) - 6} more"
        note = "\n".join(textwrap.wrap(note, 120))
        _finish(figure, panels, files, 3, [*ROLES, UNKNOWN], note)
    return files[0]


def _medians(rows):
    """Of each role in the rows its median and band, as far as they are above zero."""
    found = {}
    for role, solver in _chosen(rows).items():
        curve = results.band(rows[rows["solver_name"] == solver], "time", results.PRIMAL_GAP, 200)
        found[role] = curve[(curve["x"] > 0) & (curve["median"] > 0)]
    return found


def _fallen(curve, share):
    """When a curve had made a share of its way down, in logarithms; None if it hardly fell."""
    least = curve["median"].cummin()
    if not len(curve) or least.iloc[-1] > 0.1 * least.iloc[0]:
        return None
    level = least.iloc[0] * (least.iloc[-1] / least.iloc[0]) ** share
    return float(curve["x"].to_numpy()[np.argmax(least.to_numpy() <= level)])


def _linear(panels):
    """Whether time can be shown as it is, as in the paper: no curve falls at the very left.

    On an axis of logarithms the others would have the right end of it alone.
    """
    for found in panels:
        longest = max((curve["x"].max() for curve in found.values() if len(curve)), default=0.0)
        times = [_fallen(curve, 0.5) for curve in found.values()]
        if any(time is not None and time < 0.05 * longest for time in times):
            return False
    return True


def _curves(panel, found, uncertainty, linear):
    for role, curve in found.items():
        color, dashes, marker = ROLES[role]
        panel.plot(
            curve["x"], curve["median"], color=color, linestyle=dashes, marker=marker,
            markersize=4.5, markevery=max(1, len(curve) // 8), linewidth=1.4, label=role,
        )
        panel.fill_between(
            curve["x"], curve["low"].clip(lower=1e-300), curve["high"], color=color, alpha=0.15,
            linewidth=0,
        )
    _logarithmic(panel, "seconds", "P(x) - P*", linear)
    if panel.get_yscale() != "log":
        return
    bottom = max(uncertainty, 1e-14) / 5
    panel.set_ylim(bottom=bottom)
    if uncertainty > 0:
        panel.axhspan(
            bottom, uncertainty, facecolor="none", edgecolor="0.7", hatch="////", linewidth=0,
            zorder=0.5, label=UNKNOWN,
        )
    if linear:
        panel.set_xlim(left=0.0)
    elif times := [time for time in (_fallen(curve, 0.05) for curve in found.values()) if time]:
        # Before that all of them are flat.
        first = min(curve["x"].min() for curve in found.values() if len(curve))
        panel.set_xlim(left=max(0.8 * first, min(times) / 3))


def _logarithmic(panel, x, y, linear=False):
    """Logarithmic axes, unless there is nothing above zero to show on them."""
    panel.set(xlabel=x, ylabel=y)
    if any(len(line.get_xdata()) for line in panel.get_lines()):
        panel.set(xscale="linear" if linear else "log", yscale="log")


def _finish(figure, panels, files, columns, order=(), note=""):
    """Legend, in an order if one is given, and a note under it; then write."""
    handles = {}
    for panel in panels.flat:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    names = [name for name in order if name in handles] or list(handles)
    for axis in (axis for panel in panels.flat for axis in (panel.xaxis, panel.yaxis)):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high > 10.0 * low:
            # They are not seen here, and take most of the time of a picture; so do powers of ten.
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(_plain)
    # Not by `tight_layout`, which leaves an engine behind that draws before each file.
    TightLayoutEngine().execute(figure)
    legend = figure.legend(
        [handles[name] for name in names], names, loc="upper center", bbox_to_anchor=(0.5, 0.0),
        ncol=columns, frameon=False,
    )
    if note:
        drawn = legend.get_window_extent(figure.canvas.get_renderer())
        below = drawn.transformed(figure.transFigure.inverted()).y0
        figure.text(0.5, below, note.replace("$", r"\$"), ha="center", va="top", fontsize=8,
                    color="0.35")
    # Once for all files: each would draw the figure one more time to find out.
    edges = figure.get_tightbbox().padded(0.1)
    for file in files:
        picture = io.BytesIO()
        kind = Path(file).suffix[1:] or "png"
        figure.savefig(picture, format=kind, dpi=110, bbox_inches=edges)
        write_whole(file, picture.getvalue())
    plt.close(figure)


def _plain(value, _):
    """A power of ten without a picture of its exponent."""
    return f"{value:g}" if 1e-3 < value < 1e5 else results.label(value)


def _wrapped(name, width=58):
    """A parametrised name cut at a comma, so that it fits over a panel."""
    lines = [""]
    for part in name.replace(",", ",\n").split("\n"):
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)

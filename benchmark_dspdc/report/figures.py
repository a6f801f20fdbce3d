"""Static figures from result files, among them the paper's."""

import re

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import seaborn as sns

from .complexity import method_of
from .results import PRIMAL_GAP, UNCERTAINTY, X_AXES, band, parse, problems, with_primal_gap
from .verdicts import (
    ELASTIC_NETS,
    FIGURE_1,
    FIGURE_2,
    FIGURE_3,
    PAIRS_1,
    PAIRS_3,
    PAIRS_4,
    same_sizes,
)

#: Block sizes that figure 2 is drawn for.
PAIR_2 = (1000, 0.1)

#: Panels and curves of a picture at most: more cannot be seen, and take their memory.
MOST_PANELS, MOST_CURVES = 60, 60

#: Looks of the curves in the paper's figures: colours that the colour-blind can tell apart, and
#: dashes and markers for print.
ROLES = {
    "DSPDC, as the paper states": ("#D55E00", "-", "o"),
    "DSPDC, partitions": ("#0072B2", "-", "s"),
    "DSPDC, auto": ("#009E73", "--", "^"),
    "DSPDC, auto and adaptive": ("#000000", "-", "*"),
    "SPDC": ("#CC79A7", "-.", "D"),
    "SPDC, DSPDC's steps": ("#56B4E9", "-.", "v"),
    "SDCA": ("#8c6d1f", ":", "P"),
    "SDCA, random order": ("#E69F00", ":", "X"),
}


def gap_curves(frame, file, x="seconds", columns=2):
    """Draw the relative gap of every run, one panel a problem.

    Parameters
    ----------
    frame : DataFrame
        Rows of result files; see `results.read_results`.
    file : path
        Where to write; the suffix decides the format.
    x : {"seconds", "passes", "updates", "eigendecompositions"}
        Horizontal axis.
    columns : int
        Panels side by side.
    """
    column, text = X_AXES[x]
    if column not in frame:
        raise ValueError(
            f"there is nothing to draw over {text}: the result files have no column {column}"
        )
    shown = problems(frame)
    methods = list(dict.fromkeys(frame["solver_name"]))
    for count, most, what in (
        (len(shown), MOST_PANELS, "problems"), (len(methods), MOST_CURVES, "solvers")
    ):
        if count > most:
            raise ValueError(
                f"the picture would be too large: the result files have {count} {what}, allowed "
                f"are {most}; see the page of `report`"
            )
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    # Colours, markers and dashes differ together, so that the curves can be
    # told apart in print and by the colour-blind.
    palette = "colorblind" if len(methods) <= 10 else "husl"     # the former repeats itself
    look = dict(zip(methods, sns.color_palette(palette, len(methods)), strict=True))
    markers = dict(zip(methods, "os^DvPX*<>hd" * len(methods), strict=False))
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.1):
        figure, panels = plt.subplots(
            rows, columns, figsize=(5.2 * columns, 3.3 * rows), squeeze=False
        )
        for panel, ((dataset, _), here) in zip(panels.flat, shown, strict=False):
            for (method, _), run in here.groupby(["solver_name", "idx_rep"], sort=False):
                run = run[(run["objective_relative_gap"] > 0) & (run[column] > 0)]
                panel.plot(
                    run[column], run["objective_relative_gap"], color=look[method],
                    label=method.replace("$", r"\$"),
                    marker=markers[method], markersize=3.5, markevery=max(1, len(run) // 10),
                    linewidth=1.3,
                )
            _logarithmic(panel, text, "relative gap")
            panel.set_title(_wrapped(dataset).replace("$", r"\$"), fontsize=9)
        for panel in panels.flat[len(shown):]:
            panel.set_visible(False)
        _finish(figure, panels, [file], 2 if columns > 1 else 1)


def paper_figures(frame, folder):
    """Draw the paper's figures from what a frame has of them, as PNG and SVG.

    Panels show P(x) - P* over seconds, the median over the seeds and a band between their
    10 % and 90 % quantiles; dotted where P* itself is not known better.

    Parameters
    ----------
    frame : DataFrame
        See `results.read_results`.
    folder : path

    Returns
    -------
    list of path
        The PNG files.
    """
    frame = with_primal_gap(frame)
    here = [(parse(dataset), parse(objective)[1], rows)
            for (dataset, objective), rows in problems(frame)]
    return [
        written for name, title, grid in (
            ("figure1", "Factorised data", _grid_1(here)),
            ("figure2", "Reduced real data", _grid_2(here)),
            ("figure3", "Matrix risk", _grid_3(here)),
            *(_grids_4(here)),
        )
        if any(rows is not None for row in grid for _, rows in row)
        for written in [_draw(title, grid, folder / name)]
    ]


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
            and "DSPDC, as the paper states" in {
                _role(name) for name in rows["solver_name"].unique()
            }
        ]
        return title, _with_sizes(found[0], *PAIRS_1[0]) if found else None
    return [[panel(pair, *sizes) for sizes in FIGURE_1] for pair in ELASTIC_NETS]


def _grid_2(here):
    # Machines without rcv1 and real-sim may have other data in their place.
    others = [
        str(known["name"]) for (word, known), _, _ in here
        if word == "LIBSVM" and known.get("reduction") == "feature"
        and known.get("name", FIGURE_2[0]) not in FIGURE_2
    ]
    names = list(FIGURE_2)
    there = {name for name in names if _find(here, "LIBSVM", name=name, reduction="feature")}
    for name in dict.fromkeys(others):
        for k in reversed(range(len(names))):
            if names[k] not in there:
                names[k] = name
                there.add(name)
                break
    row = []
    for name in names:
        found = [
            (known.get("scale"), rows) for (word, known), _, rows in here
            if word == "LIBSVM" and str(known.get("name")) == name
            and known.get("reduction") == "feature"
        ]
        scale, rows = found[0] if found else (None, None)
        title = name if scale in (None, "none") else f"{name}, {scale}"
        row.append((f"{title}, m={PAIR_2[0]}, q={PAIR_2[1]:g} p", _with_sizes(rows, *PAIR_2)))
    return [row]


def _grid_3(here):
    grid = []
    for n, p, d in FIGURE_3:
        found = _find(here, "MatrixRisk", n=n, p=p, d=d)
        rows = found[0][1] if found else None
        grid.append([
            (f"d={d}, m={m}, q={q}", _with_sizes(rows, m, q)) for m, q in PAIRS_3
        ])
    return grid


def _grids_4(here):
    made = []
    for (word, known), _, rows in here:
        if word == "MTLMNN":
            source = str(known.get("source"))
            # A name from a file is no path.
            name = base = "figure4_" + re.sub(r"\W+", "_", source, flags=re.ASCII)[:60]
            taken, k = {other[0] for other in made}, 1
            while name in taken:
                name, k = f"{base}_{k}", k + 1
            made.append((name, f"Multi-task metric learning, {source}", [[
                (f"{source}, m={m}, q={q:g} p", _with_sizes(rows, m, q)) for m, q in PAIRS_4
            ]]))
    return made


def _with_sizes(rows, m, q):
    """Rows of the solvers with these block sizes, if there are any, and of those that choose."""
    if rows is None:
        return None

    def sizes(name):
        known = method_of(name)
        return (None, None) if known is None else (known[1].get("m", 1), known[1].get("q", q))
    names = dict.fromkeys(rows["solver_name"])
    same = [name for name in names if same_sizes(sizes(name), (m, q))]
    if not same:
        return None
    return rows[rows["solver_name"].isin(same + [n for n in names if sizes(n)[0] == "auto"])]


def _role(solver):
    """Which of `ROLES` a solver has, None if it is not of the paper's figures."""
    known = method_of(solver)
    if known is None:
        return None
    method, options = known
    if method == "dspdc":
        if options.get("adaptive"):
            return "DSPDC, auto and adaptive" if "auto" in options.values() else None
        if "auto" in (options.get("m"), options.get("q")):
            return "DSPDC, auto"
        stated = options.get("sampling") == "subset" and options.get("Lambda") == "heuristic"
        return "DSPDC, as the paper states" if stated else "DSPDC, partitions"
    if method == "spdc":
        return "SPDC, DSPDC's steps" if options.get("steps") == "dspdc" else "SPDC"
    if method == "sdca":
        return "SDCA, random order" if options.get("order") == "random" else "SDCA"
    return None


def _draw(title, grid, path):
    height, width = len(grid), len(grid[0])
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.1):
        figure, panels = plt.subplots(
            height, width, figsize=(4.1 * width, 3.2 * height), squeeze=False
        )
        for row, shown in zip(panels, grid, strict=True):
            for panel, (name, rows) in zip(row, shown, strict=True):
                panel.set_title(name.replace("$", r"\$"), fontsize=9.5)
                if rows is None:
                    panel.text(0.5, 0.5, "not measured", ha="center", va="center",
                               transform=panel.transAxes, color="0.4")
                    panel.set(xticks=[], yticks=[])
                    continue
                _curves(panel, rows)
        figure.suptitle(title.replace("$", r"\$"), fontsize=12)
        files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
        _finish(figure, panels, files, 3)
    return files[0]


def _curves(panel, rows):
    for solver, runs in rows.groupby("solver_name", sort=False):
        role = _role(solver)
        if role is None:
            continue
        color, dashes, marker = ROLES[role]
        found = band(runs, "time", PRIMAL_GAP, 200)
        found = found[(found["x"] > 0) & (found["median"] > 0)]
        panel.plot(
            found["x"], found["median"], color=color, linestyle=dashes, marker=marker,
            markersize=4, markevery=max(1, len(found) // 8), linewidth=1.4, label=role,
        )
        panel.fill_between(
            found["x"], found["low"].clip(lower=1e-300), found["high"], color=color, alpha=0.15,
            linewidth=0,
        )
    uncertainty = float(rows[UNCERTAINTY].iloc[0])
    if uncertainty > 0:
        panel.axhline(uncertainty, color="0.4", linestyle=":", linewidth=1)
    _logarithmic(panel, "seconds", "P(x) - P*")
    if panel.get_yscale() == "log":
        lowest = max(uncertainty, 1e-14)
        panel.set_ylim(bottom=lowest / 5)


def _logarithmic(panel, x, y):
    """Logarithmic axes, unless there is nothing above zero to show on them."""
    panel.set(xlabel=x, ylabel=y)
    if any(len(line.get_xdata()) for line in panel.get_lines()):
        panel.set(xscale="log", yscale="log")


def _finish(figure, panels, files, columns):
    handles = {}
    for panel in panels.flat:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.tight_layout()
    figure.legend(
        handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0),
        ncol=columns, frameon=False,
    )
    for file in files:
        figure.savefig(file, dpi=110, bbox_inches="tight")
    plt.close(figure)


def _wrapped(name, width=58):
    """A parametrised name cut at a comma, so that it fits over a panel."""
    lines = [""]
    for part in name.replace(",", ",\n").split("\n"):
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)

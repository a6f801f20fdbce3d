"""Static figures from result files."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import seaborn as sns

#: What can be put on the horizontal axis: column, label.
AXES = {
    "seconds": ("time", "seconds"),
    "passes": ("objective_passes", "passes over the data"),
    "updates": ("objective_coordinate_updates", "coordinate updates"),
    "eigendecompositions": ("objective_eigendecompositions", "eigendecompositions"),
}


def gap_curves(frame, file, x="seconds", columns=2):
    """Draw the relative gap of every run, one panel a problem.

    Parameters
    ----------
    frame : DataFrame
        Rows of result files; see `summary.read_results`.
    file : path
        Where to write; the suffix decides the format.
    x : {"seconds", "passes", "updates", "eigendecompositions"}
        Horizontal axis.
    columns : int
        Panels side by side.
    """
    column, label = AXES[x]
    keys = ["dataset_name", "objective_name"]
    problems = frame.groupby(keys, sort=False)
    methods = list(dict.fromkeys(frame["solver_name"]))
    columns = min(columns, len(problems))
    rows = -(-len(problems) // columns)
    # Colours, markers and dashes differ together, so that the curves can be
    # told apart in print and by the colour-blind.
    palette = "colorblind" if len(methods) <= 10 else "husl"     # the former repeats itself
    look = dict(zip(methods, sns.color_palette(palette, len(methods)), strict=True))
    markers = dict(zip(methods, "os^DvPX*<>hd" * len(methods), strict=False))
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.1):
        figure, panels = plt.subplots(
            rows, columns, figsize=(5.2 * columns, 3.3 * rows), squeeze=False
        )
        for panel, ((dataset, _), here) in zip(panels.flat, problems, strict=False):
            for (method, _), run in here.groupby(["solver_name", "idx_rep"], sort=False):
                run = run[(run["objective_relative_gap"] > 0) & (run[column] > 0)]
                panel.plot(
                    run[column], run["objective_relative_gap"], color=look[method], label=method,
                    marker=markers[method], markersize=3.5, markevery=max(1, len(run) // 10),
                    linewidth=1.3,
                )
            panel.set(xscale="log", yscale="log", xlabel=label, ylabel="relative gap")
            panel.set_title(_wrapped(dataset), fontsize=9)
        for panel in panels.flat[len(problems):]:
            panel.set_visible(False)
        handles = {}
        for panel in panels.flat:
            for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(name, handle)
        figure.tight_layout()
        figure.legend(
            handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0),
            ncol=2 if columns > 1 else 1, frameon=False,
        )
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

from benchopt import BasePlot

from benchmark_dspdc.report.results import (
    PRIMAL_GAP,
    X_AXES,
    Y_AXES,
    axes_of,
    band,
    rows_of,
)

#: Points of a curve; the page holds those of every choice.
POINTS = 50


class Plot(BasePlot):
    """A gap or a score over time or work: the median over the repetitions.

    The primal gap is P(x) - P*, with the least P(x) of all runs of the problem as P*. The
    report (`python -m benchmark_dspdc report`) has bands beside the medians.
    """

    name = "Gaps and scores"
    type = "scatter"
    options = {
        "dataset": ...,
        "objective": ...,
        "Y": lambda df: list(axes_of(df.assign(**{PRIMAL_GAP: 1.0}), Y_AXES)),
        "X_axis": lambda df: list(axes_of(df, X_AXES)),
    }

    def plot(self, df, dataset, objective, Y, X_axis):
        rows = rows_of(df, dataset, objective)
        x, y = X_AXES[X_axis][0], Y_AXES[Y][0]
        traces = []
        if y not in rows or x not in rows:
            return []
        for solver, runs in rows.groupby("solver_name", sort=False)[list({"idx_rep", x, y})]:
            found = band(runs, x, y, POINTS).map(lambda value: float(f"{value:.5g}"))
            if Y_AXES[Y][2]:
                found = found[found["median"] > 0.0]
            if len(found):
                traces.append({
                    "x": found["x"].tolist(), "y": found["median"].tolist(), "label": solver,
                    **self.get_style(solver),
                })
        return traces

    def get_metadata(self, df, dataset, objective, Y, X_axis):
        return {
            "title": f"{objective}\nData: {dataset}",
            "xlabel": X_AXES[X_axis][1],
            "ylabel": Y_AXES[Y][1],
            "scale": "loglog" if Y_AXES[Y][2] else "semilog-x",
        }

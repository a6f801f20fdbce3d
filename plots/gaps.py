from benchopt import BasePlot

from benchmark_dspdc.report.looks import looks
from benchmark_dspdc.report.results import (
    ERROR,
    PRIMAL_GAP,
    UNCERTAINTY,
    X_AXES,
    Y_AXES,
    axes_of,
    band,
    of_gaps,
    rows_of,
)

#: Points of a curve; the page holds those of every choice.
POINTS = 50


class Plot(BasePlot):
    """A gap or a score over time or work: the median over the repetitions.

    The band, which the page can hide, is between their 10 % and 90 % quantiles. The primal gap
    is P(x) - P*, with the least P(x) of all runs of the problem as P*; the label tells how much
    less the optimum may be, and below that the curves say nothing.
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
        if y != ERROR:
            rows = of_gaps(rows)
        traces, look = [], looks(df["solver_name"].unique())
        if y not in rows or x not in rows:
            return []
        for solver, runs in rows.groupby("solver_name", sort=False)[list({"idx_rep", x, y})]:
            found = band(runs, x, y, POINTS).map(lambda value: float(f"{value:.5g}"))
            if Y_AXES[Y][2]:
                found = found[found["median"] > 0.0]
                # A band that goes down to zero has its end where the curve has.
                low = found["low"].where(found["low"] > 0.0, found["median"].min())
                found = found.assign(low=low)
            if len(found):
                trace = {"x": found["x"].tolist(), "y": found["median"].tolist(), "label": solver}
                if runs["idx_rep"].nunique() > 1:
                    trace |= {"y_low": found["low"].tolist(), "y_high": found["high"].tolist()}
                traces.append(trace | look[solver].for_benchopt())
        return traces

    def get_metadata(self, df, dataset, objective, Y, X_axis):
        text, rows = Y_AXES[Y][1], rows_of(df, dataset, objective)
        if Y_AXES[Y][0] == PRIMAL_GAP and len(rows):
            text += f", P* known to {rows[UNCERTAINTY].iloc[0]:.1e}"
        return {
            "title": f"{objective}\nData: {dataset}",
            "xlabel": X_AXES[X_axis][1],
            "ylabel": text,
            "scale": "loglog" if Y_AXES[Y][2] else "semilog-x",
        }

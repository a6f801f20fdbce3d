import numpy as np
from benchopt import BasePlot

from benchmark_dspdc.report.looks import looks
from benchmark_dspdc.report.results import mean_points, rows_of

AXES = {"Iterations": "objective_iterations", "Passes": "objective_passes"}


class Plot(BasePlot):
    """The gap P(x) - D(y) of methods that have a published rate, and that rate as a line.

    A curve is the mean over the repetitions, at the points that all of them reached. Its
    line begins at the first point and has the theorem's slope: the mean over the
    repetitions of gap_0 (1 - rate)^t after t iterations, each with the rate of its own
    partition. For DSPDC with theorem=2 the rate is Theorem 2's,
    1/(2 max(r, s) + 2 r s sqrt(Lambda/(lam gamma n))), which is about the expectation of
    this very gap, up to a factor that does not depend on t. With theorem=1 it is
    Theorem 1's, without the 2s, and for SPDC and PDHG that of their authors: these bound
    squared distances to the solution, so there the line is a guide only.
    """

    name = "Predicted rate"
    type = "scatter"
    options = {"dataset": ..., "objective": ..., "X_axis": list(AXES)}

    def plot(self, df, dataset, objective, X_axis):
        if "objective_predicted_rate" not in df:      # a result file of an earlier version
            return []
        rows = rows_of(df, dataset, objective)
        traces, look = [], looks(df["solver_name"].unique())
        known = rows[np.isfinite(rows["objective_predicted_rate"])]
        for solver, runs in known.groupby("solver_name"):
            points = mean_points(runs)
            line = f"{solver}, predicted"
            style = look[solver].for_benchopt()
            traces += [
                trace(points, X_axis, "measured", solver) | style,
                # With the same mark, left empty.
                trace(points, X_axis, "predicted", line) | style
                | {"marker": style["marker"] + 100},
            ]
        return traces

    def get_metadata(self, df, dataset, objective, X_axis):
        return {
            "title": f"{objective}\nData: {dataset}",
            "xlabel": X_axis,
            "ylabel": "P(x) - D(y), and its first value times (1 - rate)^t",
            "scale": "semilog-y",
        }


def trace(points, X_axis, column, label):
    # Neither an axis of logarithms nor the page has room for the rest.
    shown = points[np.isfinite(points[column]) & (points[column] > 0.0)]
    return {"x": shown[AXES[X_axis]].tolist(), "y": shown[column].tolist(), "label": label}

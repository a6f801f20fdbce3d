from benchopt import BasePlot

from benchmark_dspdc.report.results import X_AXES, Y_AXES, axes_of, band, with_primal_gap


class Plot(BasePlot):
    """A gap or a score over time or work: the median over the repetitions and a band.

    The band is between the 10 % and 90 % quantiles of when the median is reached. The primal
    gap is P(x) - P*, with the least P(x) of all runs of the problem as P*.
    """

    name = "Gaps and scores"
    type = "scatter"
    options = {
        "dataset": ...,
        "objective": ...,
        "Y": lambda df: list(axes_of(with_primal_gap(df), Y_AXES)),
        "X_axis": lambda df: list(axes_of(df, X_AXES)),
    }

    def plot(self, df, dataset, objective, Y, X_axis):
        df = with_primal_gap(df)
        df = df[(df["dataset_name"] == dataset) & (df["objective_name"] == objective)]
        x, y = X_AXES[X_axis][0], Y_AXES[Y][0]
        traces = []
        for solver, runs in df.groupby("solver_name", sort=False):
            found = band(runs, x, y)
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

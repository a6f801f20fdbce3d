import math

from benchopt import BasePlot

from benchmark_dspdc.report.looks import looks
from benchmark_dspdc.report.results import GAPS, medians, rows_of, to_targets


class Plot(BasePlot):
    """Seconds to a common relative gap; bars are the medians of the table of times."""

    name = "Time to a gap"
    type = "bar_chart"
    options = {"dataset": ..., "objective": ..., "gap": list(GAPS)}

    def plot(self, df, dataset, objective, gap):
        runs = to_targets(rows_of(df, dataset, objective), [gap])
        column = f"seconds to {gap:.0e}"
        middle = medians(runs)[column].droplevel([0, 1])
        bars, look = [], looks(df["solver_name"].unique())
        for solver, found in runs[column].groupby(level="solver_name", sort=False):
            reached = math.isfinite(middle[solver])
            # benchopt's page takes the median itself. Those that took for ever are beyond it, and
            # so is the slowest of the others, if a bar there is.
            seconds = found.fillna(found.max()).tolist() if reached else [0.0]
            bars.append({
                # In the label too, as nothing can be written into a bar of no height.
                "y": seconds, "text": "" if reached else "Not reached",
                "label": solver if reached else f"{solver}, not reached",
                "color": look[solver].for_benchopt()["color"],
            })
        return bars

    def get_metadata(self, df, dataset, objective, gap):
        return {
            "title": f"{objective}\nData: {dataset}",
            "ylabel": f"seconds to a relative gap of {gap:g}",
            "scale": "linear",
        }

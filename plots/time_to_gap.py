from benchopt import BasePlot

from benchmark_dspdc.report.results import GAPS, rows_of, to_targets


class Plot(BasePlot):
    """Seconds to a common relative gap; a bar is the median of the repetitions that got there."""

    name = "Time to a gap"
    type = "bar_chart"
    options = {"dataset": ..., "objective": ..., "gap": list(GAPS)}

    def plot(self, df, dataset, objective, gap):
        seconds = to_targets(rows_of(df, dataset, objective), [gap])[f"seconds to {gap:.0e}"]
        bars = []
        for solver, found in seconds.groupby(level="solver_name", sort=False):
            reached = found.dropna().tolist()
            bars.append({
                "y": reached or [0.0], "text": "" if reached else "Not reached",
                "label": solver, "color": self.get_style(solver)["color"],
            })
        return bars

    def get_metadata(self, df, dataset, objective, gap):
        return {
            "title": f"{objective}\nData: {dataset}",
            "ylabel": f"seconds to a relative gap of {gap:g}",
        }

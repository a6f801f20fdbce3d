import math

from benchopt import BasePlot

from benchmark_dspdc.report.comparisons import speedups
from benchmark_dspdc.report.results import GAPS, medians, rows_of, to_targets


class Plot(BasePlot):
    """How many times as fast the row's method is as the column's, to a common gap."""

    name = "Speed-ups"
    type = "table"
    options = {"dataset": ..., "objective": ..., "gap": list(GAPS)}

    def plot(self, df, dataset, objective, gap):
        found = self._found(df, dataset, objective, gap)
        return [
            [name, *(float(f"{v:.3g}") if math.isfinite(v) else "-" for v in row)]
            for name, row in zip(found.index, found.to_numpy(), strict=True)
        ]

    def get_metadata(self, df, dataset, objective, gap):
        found = self._found(df, dataset, objective, gap)
        return {
            "title": f"{objective}\nData: {dataset}",
            "columns": ["method", *found.columns],
        }

    def _found(self, df, dataset, objective, gap):
        here = rows_of(df, dataset, objective)
        seconds = medians(to_targets(here, [gap]))[f"seconds to {gap:.0e}"].droplevel([0, 1])
        return speedups(seconds)

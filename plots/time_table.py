import math

from benchopt import BasePlot

from benchmark_dspdc.report.results import GAPS, label, medians, of_matrices, rows_of, to_targets


class Plot(BasePlot):
    """Seconds and work to common relative gaps, medians over the repetitions."""

    name = "Times"
    type = "table"
    options = {"dataset": ..., "objective": ...}

    def plot(self, df, dataset, objective):
        here = rows_of(df, dataset, objective)
        work = "eigendecompositions" if of_matrices(here) else "passes"
        rows = []
        for index, row in medians(to_targets(here, GAPS)).iterrows():
            cells = [index[2]]
            for gap in GAPS:
                cells.append(shown(row[f"seconds to {gap:.0e}"]))
                cells.append(shown(row[f"{work} to {gap:.0e}"]))
            rows.append([*cells, f"{row['final gap']:.1e}"])
        return rows

    def get_metadata(self, df, dataset, objective):
        work = "eigs" if of_matrices(rows_of(df, dataset, objective)) else "passes"
        columns = [text for gap in GAPS for text in (f"s to {label(gap)}", f"{work} to it")]
        return {
            "title": f"{objective}\nData: {dataset}",
            "columns": ["method", *columns, "final gap"],
        }


def shown(value):
    # As text, because benchopt's page rounds numbers to four decimals.
    return f"{value:.3g}" if math.isfinite(value) else "-"

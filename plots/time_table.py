import math

from benchopt import BasePlot

from benchmark_dspdc.report.results import GAPS, label, medians, of_matrices, rows_of, to_targets


class Plot(BasePlot):
    """Milliseconds and work to common relative gaps, medians over the repetitions."""

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
                cells.append(shown(1e3 * row[f"seconds to {gap:.0e}"]))
                cells.append(shown(row[f"{work} to {gap:.0e}"]))
            # A number, also one in a text, would be 0.0000 on benchopt's page.
            rows.append([*cells, f"{row['final gap']:.1e}".replace("e", " e")])
        return rows

    def get_metadata(self, df, dataset, objective):
        work = "eigs" if of_matrices(rows_of(df, dataset, objective)) else "passes"
        columns = [f"{what} to {label(gap)}" for gap in GAPS for what in ("ms", work)]
        return {
            "title": f"{objective}\nData: {dataset}",
            "columns": ["method", *columns, "final gap"],
        }


def shown(value):
    # A number, so that columns can be sorted; the page shows four decimals of it.
    return float(f"{value:.3g}") if math.isfinite(value) else "-"

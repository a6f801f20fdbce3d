from benchopt import BasePlot

from benchmark_dspdc.report.comparisons import performance_profile
from benchmark_dspdc.report.looks import looks
from benchmark_dspdc.report.results import GAPS, medians, to_targets


class Plot(BasePlot):
    """The share of problems that a method solves within a factor of the fastest's time."""

    name = "Performance profile"
    type = "scatter"
    options = {"gap": list(GAPS)}

    def plot(self, df, gap):
        found = performance_profile(medians(to_targets(df, [gap]))[f"seconds to {gap:.0e}"])
        traces, look = [], looks(df["solver_name"].unique())
        for solver, (count, factors, shares) in found.items():
            # Steps, which benchopt's page does not draw by itself.
            x = [factor for factor in factors for _ in range(2)][1:]
            y = [share for share in shares for _ in range(2)][:-1]
            traces.append({
                "x": x, "y": y, "label": f"{solver} ({count} problems)",
                **look[solver].for_benchopt(),
            })
        return traces

    def get_metadata(self, df, gap):
        return {
            "title": f"All problems, to a relative gap of {gap:g}",
            "xlabel": "factor of the fastest method's time",
            "ylabel": "share of problems",
            "scale": "semilog-x",
        }

"""`Result`: a point with its certificate, how it was found, and how that looks."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from .report.looks import LOOKS, looks

#: What can be drawn over: columns of a history, and what they are called.
AXES = {
    "seconds": "seconds", "passes": "passes over the data",
    "coordinate_updates": "coordinate updates", "eigendecompositions": "eigendecompositions",
}

#: How the methods are written on pages and in pictures.
SHOWN = {name.lower().replace("-", "_"): name for name in LOOKS}


@dataclass(eq=False)
class Result:
    """What `solve` found.

    Attributes
    ----------
    x, y : ndarray
        The pair with the smallest gap seen.
    primal, dual, gap, relative_gap : float
        Its certificate.
    status : str
        Why the run ended: "converged", "max_seconds", "max_passes",
        "interrupted", "stalled" (at the limit of double precision, nothing
        improved any more), "diverged", or "eigensolver failed" (a matrix
        could not be projected on the cone by any driver).
    history : pandas.DataFrame
        One row a check: seconds, passes, coordinate_updates,
        eigendecompositions, primal, dual, gap, relative_gap, own_gap.
        ``seconds`` is the method's own time, set-up included, certificates
        excluded.
    info : dict
        What the method chose: block sizes, constants, step sizes.
    problem : Problem or None
        None after pickling: a result is saved without the data.
    """

    x: np.ndarray
    y: np.ndarray
    primal: float
    dual: float
    gap: float
    relative_gap: float
    status: str
    method: str
    history: pd.DataFrame
    info: dict
    problem: object
    metrics: object = field(default=None)

    def metric(self, task):
        """The learned matrix M of a task: squared distances are (z - z')'M(z - z')."""
        return self._metrics("metric").metric(self.x, task)

    def transform(self, Z, task):
        """Points mapped so that Euclidean distances between them are those of the task's metric.

        For scikit-learn's ``KNeighborsClassifier``, say.
        """
        return self._metrics("transform").transform(self.x, Z, task)

    def _metrics(self, asked):
        if self.metrics is None:
            raise ValueError(
                f"{asked} is for problems of metric learning (mt_lmnn), got {self.problem!r}"
            )
        return self.metrics

    def plot(self, x="seconds", ax=None):
        """Draw the relative gap over time or work; returns matplotlib's axes.

        Parameters
        ----------
        x : {"seconds", "passes", "coordinate_updates", "eigendecompositions"}
        ax : matplotlib.axes.Axes or None
            None for new ones.
        """
        return draw({SHOWN.get(self.method, self.method): [self.history]}, x, ax)

    def _lines(self):
        """What there is to tell, as pairs; the status comes first."""
        last = self.history.iloc[-1]
        work = f"{last['passes']:.4g} passes"
        if last["eigendecompositions"] > 0:
            work += f", {last['eigendecompositions']:.0f} eigendecompositions"
        chosen = [f"{name} = {self.info[name]}" for name in ("m", "q") if name in self.info]
        if "choice" in self.info and self.method == "auto":
            chosen = [self.info["choice"], *chosen]
        pairs = [
            ("status", self.status),
            ("method", ", ".join([self.method, *chosen])),
            ("gap", f"{self.gap:.3g}, relative {self.relative_gap:.3g}"),
            ("primal", f"{self.primal:.10g}"),
            ("dual", f"{self.dual:.10g}"),
            ("time", f"{last['seconds']:.3g} s, {work}"),
        ]
        if "remedy" in self.info:
            pairs.append(("remedy", self.info["remedy"]))
        if self.problem is not None:
            pairs.append(("problem", repr(self.problem).partition("(")[2][:-1]))
        return pairs

    def __repr__(self):
        return "\n".join(f"{name:8} {value}" for name, value in self._lines())

    def _repr_html_(self):
        import html

        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._lines()
        )
        return f"<table>{rows}</table>"

    def __getstate__(self):
        return self.__dict__ | {"problem": None}


def draw(histories, x="seconds", ax=None):
    """Draw the relative gaps of histories, a dict of labels and lists of them, one a seed."""
    import matplotlib.pyplot as plt

    from .engine.checks import choose

    text = choose(x, AXES, "x")
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    found = looks(histories)
    for label, some in histories.items():
        for k, history in enumerate(some):
            shown = history[(history["relative_gap"] > 0.0) & (history[x] > 0.0)]
            ax.plot(
                shown[x], shown["relative_gap"], label=label if k == 0 else None, linewidth=1.4,
                markersize=4, markevery=max(1, len(shown) // 10),
                **found[label].for_matplotlib(),
            )
    ax.set(xscale="log", yscale="log", xlabel=text, ylabel="relative gap, certified")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax

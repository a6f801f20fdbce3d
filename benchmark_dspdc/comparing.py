"""Several runs at a time: `compare` methods on a problem, `path` of a regularisation constant."""

import numpy as np
import pandas as pd

from .engine.checks import as_array, check_flag, check_int
from .problems import with_constant
from .report.results import GAPS, label
from .result import SHOWN, draw
from .solver import check_problem, find_method, solve


class Runs(pd.DataFrame):
    """A DataFrame with a row a run, and the runs themselves: ``frame.results``."""

    _metadata = ["results"]

    @property
    def _constructor(self):
        # What is cut out of it is a plain frame.
        return pd.DataFrame


def compare(problem, methods=("dspdc", "spdc", "sdca", "fista"), tol=1e-6, max_seconds=10,
            max_passes=None, seeds=1, plot=True, x="seconds", ax=None, progress=False):
    """Run methods on a problem, tabulate them and draw their curves.

    Parameters
    ----------
    problem : Problem
    methods : list of str, or dict
        Names of `methods()`, or labels with a name or a pair of a name and options:
        ``{"SDCA": "sdca", "small blocks": ("dspdc", {"m": 10, "q": 5})}``.
    tol, max_seconds, max_passes
        As for `solve`, of each run.
    seeds : int
        How many runs of each method, with the seeds 0, 1, ...
    plot : bool
        Draw the relative gaps over `x`, on `ax` or on new axes.
    x, ax
        As for `Result.plot`.
    progress : bool
        Show a progress bar of each run.

    Returns
    -------
    DataFrame
        A row a method, the fastest first: its status, and medians over the seeds of the seconds
        to 1e-2, 1e-4 and 1e-6 (NaN if most runs did not get there), the passes and the relative
        gap in the end. ``frame.results`` is a dict of lists of `Result`.

    Examples
    --------
    >>> from benchmark_dspdc import compare, erm
    >>> frame = compare(erm(A, b, loss="logistic"), ["sdca", "dspdc", "fista"])
    """
    runs = _named(methods)
    check_int(seeds, "seeds", 1)
    check_flag(plot, "plot")
    results, rows = {}, []
    for name, (method, options) in runs.items():
        own = results[name] = [
            solve(problem, method, tol, max_seconds, max_passes, seed, progress=progress,
                  **options)
            for seed in range(seeds)
        ]
        statuses = [result.status for result in own]
        converged = statuses.count("converged")
        same = len(set(statuses)) == 1
        rows.append(
            dict(method=name, status=statuses[0] if same else f"{converged} of {seeds} converged")
            | {f"s to {label(gap)}": _median(_seconds_to(result, gap) for result in own)
               for gap in GAPS if gap >= tol}
            | dict(
                seconds=_median(result.history["seconds"].iloc[-1] for result in own),
                passes=_median(result.history["passes"].iloc[-1] for result in own),
                relative_gap=_median(result.relative_gap for result in own),
            )
        )
    if plot:
        draw({name: [result.history for result in own] for name, own in results.items()}, x, ax)
    frame = Runs(rows).set_index("method")
    reached = [name for name in frame if name.startswith("s to ")]
    frame = Runs(frame.sort_values([*reversed(reached), "relative_gap"]))
    frame.results = results
    return frame


def path(problem, lambdas, method="dspdc", constant=None, tol=1e-6, max_seconds=60,
         max_passes=None, seed=0, **options):
    """Solve a problem for several values of a regularisation constant, each from the last one.

    Parameters
    ----------
    problem : Problem
        Its own value of the constant is not used.
    lambdas : array of float
        In the order in which they are solved: from large to small is fastest.
    method : str
    constant : {"lambda1", "lambda2", "lam", None}
        Which constant; None is lambda1 for vectors and lam, of all blocks, for matrices.
    tol, max_seconds, max_passes, seed, **options
        As for `solve`, of each run.

    Returns
    -------
    DataFrame
        A row a value: status, relative gap, seconds, passes, and the non-zeros of x.
        ``frame.results`` is the list of `Result`.

    Examples
    --------
    >>> frame = path(erm(A, b, lambda2=1e-3), np.geomspace(0.1, 1e-4, 20))
    >>> [result.x for result in frame.results]
    """
    check_problem(problem)
    values = as_array(np.atleast_1d(lambdas), "lambdas", 1)
    constant = constant or ("lambda1" if len(problem.x_shape) == 1 else "lam")
    results, rows, last = [], [], None
    for value in values:
        start = {} if last is None else dict(x0=last.x, y0=last.y)
        last = solve(with_constant(problem, constant, float(value)), method, tol, max_seconds,
                     max_passes, seed, **start, **options)
        results.append(last)
        end = last.history.iloc[-1]
        rows.append({
            constant: float(value), "status": last.status, "relative_gap": last.relative_gap,
            "seconds": end["seconds"], "passes": end["passes"],
            "nonzeros": int(np.count_nonzero(last.x)),
        })
    frame = Runs(rows)
    frame.results = results
    return frame


def _named(methods):
    """The runs as a dict of labels with pairs of a method's name and its options."""
    if isinstance(methods, str):
        methods = [methods]
    if not isinstance(methods, dict):
        labels = [SHOWN.get(find_method(name).name, name) for name in methods]
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"methods must be different, got {labels}; for one method with several options "
                'give a dict such as {"small": ("dspdc", {"m": 1}), "large": ("dspdc", {"m": 9})}'
            )
        methods = dict(zip(labels, methods, strict=True))
    found = {}
    for name, given in methods.items():
        pair = (given, {}) if isinstance(given, str) else given
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], dict)):
            raise ValueError(
                f"methods[{name!r}] must be a method's name or a pair of it and a dict of its "
                f"options, got {given!r}"
            )
        found[str(name)] = find_method(pair[0]).name, pair[1]
    if not found:
        raise ValueError("methods must name at least one method, got none")
    return found


def _seconds_to(result, gap):
    reached = result.history[result.history["relative_gap"] <= gap]
    return reached["seconds"].iloc[0] if len(reached) else np.inf


def _median(values):
    middle = float(np.median(list(values)))
    return middle if np.isfinite(middle) else np.nan

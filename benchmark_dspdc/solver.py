"""`solve`: run a method until its certificate is good enough."""

import copy
import inspect
import math
import time
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pandas as pd

from .engine.checks import check_flag, check_int, check_number, choose
from .engine.psd_projection import ProjectionError
from .methods import NAMED
from .methods.method import start_of
from .model.problem import Problem
from .result import Result

#: A gap this many times the first one is not coming back. Less is no proof:
#: on badly scaled data the primal value of a dual method starts that high.
BLOWN_UP = 1e30


def methods():
    """Names of the methods that `solve` knows, with their family and one line on each."""
    return {
        name: f"{cls.family}: {cls.__doc__.strip().splitlines()[0]}"
        for name, cls in NAMED.items()
    }


def check_problem(problem):
    """Raise unless it is a problem."""
    if not isinstance(problem, Problem):
        raise ValueError(
            "problem must be a Problem, as erm, matrix_risk, trace_regression and mt_lmnn return, "
            f"got {problem!r}"
        )


def find_method(name):
    """The class of a method from its name, in upper or lower case, with - or _."""
    plain = name.lower().replace("-", "_") if isinstance(name, str) else name
    return choose(plain, dict(NAMED), "method")


#: Multiply-adds of a pass from which data are large: a certificate then takes longer than a
#: fifth of a pass (25 ms against 2 ms on covtype reduced to d = 20), and many of them more of a
#: run's time limit than the run.
LARGE = 2e7


def is_large(problem):
    """Whether certificates are dear beside the work between them."""
    return problem.operator.multiply_adds >= LARGE


def schedule(step, large=False):
    """The check after the one at `step`: every step at first, then 10 % apart, 20 % if large."""
    return max(step + 1, math.ceil((1.2 if large else 1.1) * step))


def chunk(algorithm):
    """Iterations of a step between two possible checks.

    About a fifth of a pass; of large data a whole one, on matrices half of one.
    """
    parts = 5
    if is_large(algorithm.problem):
        parts = 2 if algorithm.problem.operator.column_width > 1 else 1
    return max(1, round(algorithm.iterations_per_pass / parts))


def solve(problem, method=None, tol=1e-6, max_seconds=60, max_passes=None, seed=0,
          callback=None, progress=False, x0=None, y0=None, **options):
    """Solve a problem with one of the methods.

    Parameters
    ----------
    problem : Problem
        From `erm`, `matrix_risk`, `trace_regression` or `mt_lmnn`.
    method : str or None
        One of `methods()`, in upper or lower case. None is "auto", the method that should be
        fastest, corrected by a short race; with options of a method it is "dspdc".
    tol : float
        Stop when the relative gap, gap / max(1, |P|), is at most this.
    max_seconds : float or None
        Limit on the wall clock, certificates included.
    max_passes : float or None
        Limit on the work, in units of one A x plus one A'y.
    seed : int
        Equal seeds give equal results, bit for bit.
    callback : callable or None
        Called at each check with a dict, the new row of the history; returning
        True ends the run with status "interrupted".
    progress : bool
        Show a progress bar of the gap, on a log scale.
    x0, y0 : ndarray or None
        Where to begin, such as at the x and y of a similar problem's `Result`. If one of them is
        None, it is the one that belongs to the other. Methods with gradients alone (SAGA, SVRG,
        Katyusha, L-SVRG, L-Katyusha, RPDG, FISTA) begin at x, those of the dual (SDCA, APCG) at y.
    **options
        Options of the method; see its class in `benchmark_dspdc.methods`.

    Returns
    -------
    Result
        Also after Ctrl-C, with the best point so far and status "interrupted".

    Examples
    --------
    >>> result = solve(problem, method="sdca", order="permuted", tol=1e-8)
    >>> result.history[["seconds", "passes", "gap"]].tail(1)
    """
    check_problem(problem)
    if method is None:
        method = "auto" if set(options) <= option_names(NAMED["auto"]) else "dspdc"
    cls = find_method(method)
    check_number(tol, "tol", 0.0)
    check_int(seed, "seed", 0)
    for value, name in ((max_seconds, "max_seconds"), (max_passes, "max_passes")):
        if value is not None:
            check_number(value, name, 0.0, strict=True)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, got {callback!r}")
    progress = check_flag(progress, "progress")
    check_options(cls, options)
    cls.validate(problem, **options)
    prepare(cls, problem, options, x0 is not None or y0 is not None)
    begun = time.perf_counter()
    start = start_of(problem, x0, y0)
    algorithm = cls(problem, seed=seed, start=start, **options)
    seconds = time.perf_counter() - begun
    algorithm.advance(0)
    wall = time.perf_counter()

    best, rows, status, step, stalled = None, [], None, 0, 0
    size, large = chunk(algorithm), is_large(problem)
    with _gap_bar(progress, cls.name, tol) as show:
        try:
            while True:
                x, y = algorithm.x, algorithm.y
                certificate = problem.certify(x, y)
                row = dict(
                    seconds=seconds, passes=algorithm.passes,
                    coordinate_updates=algorithm.coordinate_updates,
                    eigendecompositions=algorithm.eigendecompositions,
                    primal=certificate.primal, dual=certificate.dual, gap=certificate.gap,
                    relative_gap=certificate.relative_gap, own_gap=certificate.own_gap,
                )
                rows.append(row)
                show(row)
                if best is None or certificate.gap < best[2].gap:
                    best, stalled = (x, y, certificate), 0
                else:
                    stalled += 1
                if callback is not None and callback(dict(row)) is True:
                    status = "interrupted"
                elif certificate.relative_gap <= tol:
                    status = "converged"
                elif not np.isfinite(certificate.primal) or certificate.gap > BLOWN_UP * (
                    1.0 + rows[0]["gap"]
                ):
                    status = "diverged"
                elif stalled >= 10 and best[2].relative_gap < 1e-12:
                    status = "stalled"
                elif max_passes is not None and algorithm.passes >= max_passes:
                    status = "max_passes"
                elif max_seconds is not None and time.perf_counter() - wall >= max_seconds:
                    status = "max_seconds"
                if status is not None:
                    break
                # In one call, as calls cost more than the work of a fifth of a small pass.
                next_check = schedule(step, large)
                begun = time.perf_counter()
                algorithm.advance(size * (next_check - step))
                seconds += time.perf_counter() - begun
                step = next_check
        except (KeyboardInterrupt, ProjectionError) as error:
            failed = isinstance(error, ProjectionError)
            if best is None:
                raise
            status = "eigensolver failed" if failed else "interrupted"
            if failed:
                warnings.warn(f"{cls.name} ended: {error}", RuntimeWarning, stacklevel=2)
    x, y, certificate = best
    if y is None:
        y = problem.dual_from_primal(x)
    info = dict(algorithm.info)
    if status in ("max_seconds", "max_passes") and (remedy := _remedy(problem)):
        info.update(remedy=remedy)
    return Result(
        x, y, certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap,
        status, cls.name, pd.DataFrame(rows), info, problem, getattr(problem, "learned", None),
    )


#: Units of columns that differ by more than this factor may be why a run gets nowhere.
FAR_APART = 100.0


def _remedy(problem):
    """What may help a run that ended too early, if anything is known."""
    if len(problem.x_shape) > 1:
        return None
    units = problem.operator.column_units()
    units = units[units > 0.0]
    if len(units) == 0 or units.max() <= FAR_APART * units.min():
        return None
    return (
        f"columns of A are in units that differ by a factor of {units.max() / units.min():.1e}; "
        "scale them, each by its standard deviation say, and x back by the same"
    )


def prepare(cls, problem, options, started=False, every=False):
    """Compile what a method is likely to need, from a start if so, before any clock runs.

    The iteration over numbers is left to `advance(0)`, but for methods that may be needed later.
    """
    problem = apart(problem)
    first, *others = cls.parts(problem, every, **options)
    _prepare(*first, problem, started)
    for part, given in others:
        _prepare(part, given, problem, started=True)
        if len(problem.x_shape) == 1:
            part(problem, **given).advance(0)


def apart(problem):
    """The problem with an operator that keeps to itself what it computes.

    What is computed before a clock runs must not be found by those whose time is taken.
    """
    problem = copy.copy(problem)
    problem.operator = copy.copy(problem.operator)
    return problem


def _prepare(cls, options, problem, started):
    """Compile what a method needs on a tiny problem of the same types."""
    tiny, matrices = problem.miniature(), len(problem.x_shape) > 1
    zeros = np.zeros(tiny.x_shape), np.zeros(tiny.shape[0])
    start = start_of(tiny, *zeros) if started else None
    options = {k: v for k, v in options.items() if k not in ("m", "q")}
    known = option_names(cls) - ({"q"} if cls.name == "spdc" else set())
    # Few rows or few columns decide which products are kept.
    for sizes in ({"m": 1, "q": 1}, {"m": 1.0, "q": 1}) if matrices else ({},):
        chosen = {k: v for k, v in sizes.items() if k in known}
        algorithm = cls(tiny, start=start, **options, **chosen)
        if matrices:
            # Steps without end fail here too; the run itself says so.
            with suppress(ProjectionError):
                algorithm.advance(2)
        tiny.certify(algorithm.x, algorithm.y)


def warm_up(cls, problem, options):
    """Compile all that a method needs on a problem, so that no curve contains it.

    The iteration over numbers has to be compiled for the problem itself, whose block
    sizes decide which products are kept; doing no iterations is enough for that.
    """
    prepare(cls, problem, options, every=True)
    if len(problem.x_shape) == 1:
        cls(apart(problem), **options).advance(0)


def check_options(cls, options):
    """Raise for an option that the method does not have."""
    allowed = option_names(cls)
    for name in (name for name in options if name not in allowed):
        raise ValueError(f"{cls.name} has no option {name!r}; it has {', '.join(sorted(allowed))}")


def option_names(cls):
    """Names of a method's options, those it passes on included."""
    names = set()
    for ancestor in cls.__mro__:
        if "setup" not in vars(ancestor):
            continue
        parameters = inspect.signature(ancestor.setup).parameters.values()
        names |= {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names - {"self", "seeds"} | {"moduli"}


@contextmanager
def _gap_bar(shown, method, tol):
    """Yields a function of a row of the history, which shows the decades done towards `tol`."""
    if not shown:
        yield lambda row: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(),
        TextColumn("gap {task.fields[gap]:.1e}  passes {task.fields[passes]:.1f}"),
        TimeElapsedColumn(),
    )
    task, first = bar.add_task(method, total=1.0, gap=math.nan, passes=0.0), None

    def show(row):
        nonlocal first
        gap = max(row["relative_gap"], 1e-16)
        first = first or gap
        decades = math.log(first / max(tol, 1e-16))
        done = math.log(first / gap) / decades if decades > 0.0 else 1.0
        bar.update(task, completed=min(max(done, 0.0), 1.0), gap=row["relative_gap"],
                   passes=row["passes"])
    with bar:
        yield show

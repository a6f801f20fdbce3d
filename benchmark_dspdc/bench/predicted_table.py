"""Predicted complexity as a table, beside what a result file measured."""

import json
import math
import os
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..engine.checks import check_number
from ..methods import METHODS
from ..report.results import method_of, read_results, to_targets
from ..solver import check_options
from ..theory.constants import constants
from ..theory.rates import RATES, predict, predictions, rate_of
from .named_problems import load_targets

#: Columns of a result file that may tell of the work to a target.
WORK = ("passes", "iterations", "eigendecompositions")


def _options_of(solver_name, rows):
    """All options of a solver: those in its name, and in the columns those not shown.

    A column that holds counts and fractions has them all as floats, so sizes are
    those of the name.
    """
    method, options = method_of(solver_name)
    first = rows.iloc[0]
    for column in rows.columns:
        name = column.removeprefix("p_solver_")
        value = first[column]
        if name != column and name not in options and value == value and value is not None:
            options[name] = value.item() if hasattr(value, "item") else value
    if isinstance(options.get("theorem"), float) and options["theorem"].is_integer():
        options["theorem"] = int(options["theorem"])
    return method, options


def compare(problem, rows, eps, found):
    """Predicted and measured work of the solvers in a result file.

    Parameters
    ----------
    problem : Problem
    rows : DataFrame
        Of this problem alone.
    eps : float
    found : ProblemConstants

    Returns
    -------
    list of dict
        One a solver: its name, what was measured (None if not reached), what is
        predicted, the ratio of the passes, and a note if anything is missing.
    """
    runs = to_targets(rows, (eps,)).fillna(math.inf).groupby("solver_name", sort=False).median()
    compared = []
    for solver, run in runs.iterrows():
        row = dict(solver=solver, prediction=None, ratio=None, note=None)
        for work in WORK:
            measured = run.get(f"{work} to {eps:.0e}", math.inf)
            row[work] = float(measured) if math.isfinite(measured) else None
        row["multiply_adds"] = None
        if row["passes"] is not None:
            row["multiply_adds"] = row["passes"] * problem.operator.multiply_adds
        row["reached"] = math.isfinite(run[f"seconds to {eps:.0e}"])
        row["final gap"] = float(run["final gap"])
        compared.append(row)
        if not row["reached"]:
            row["note"] = f"relative gap {eps:g} not reached, {row['final gap']:.1e} at the end"
        if method_of(solver)[0] not in METHODS:
            row["note"] = row["note"] or "no method of this package: no rate, no passes"
            continue
        method, options = _options_of(solver, rows[rows["solver_name"] == solver])
        try:
            # What is no option could be taken for another argument.
            check_options(METHODS[method], options)
            prediction = predict(
                problem, rate_of(method, options), eps, found, method=method, **options
            )
        except ValueError as error:
            row["note"] = row["note"] or str(error)
            continue
        row["prediction"] = prediction._asdict() | {"name": solver}
        if row["passes"] is not None:
            row["ratio"] = row["passes"] / prediction.passes
    return compared


def run(target, objective=None, results=None, eps=1e-6, m=None, q=None, json_file=None,
        console=None):
    """Print the table of every problem of a target, and write it as JSON if asked to.

    Parameters
    ----------
    target, objective : str
        See `benchmark_dspdc.bench.named_problems.load_targets`.
    results : path or None
        A result file of `benchopt run`, to compare with.
    eps : float
        Relative accuracy.
    m, q : int, float or None
        Block sizes of DSPDC.
    json_file : path or None
    console : rich.console.Console or None
    """
    console = console or _console()
    eps = check_number(eps, "eps", 0.0, strict=True, high=1.0)
    frame = None if results is None else read_results([results])
    written, reasons, matched = [], [], False
    for found in load_targets(target, objective):
        if found.problem is None:
            reasons.append(f"{found.dataset} with {found.objective} is left out: {found.reason}")
            continue
        rows = None
        if frame is not None:
            mine = (frame["dataset_name"] == found.dataset) & (
                frame["objective_name"] == found.objective
            )
            rows = frame[mine]
            matched |= bool(mine.any())
        written.append(_show(console, found, rows, results, eps, m, q))
    for reason in reasons:
        console.print(escape(reason))
    if not written:
        raise ValueError(f"{target} has no problem: {'; '.join(reasons)}")
    if frame is not None and not matched:
        names = frame[["dataset_name", "objective_name"]].drop_duplicates().to_numpy()
        there = ", ".join(f"{dataset} with {objective}" for dataset, objective in names[:4])
        raise ValueError(f"{results} has no runs of {target}; it has {there}")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(dict(eps=eps, problems=written), indent=1))
        console.print(f"written: {json_file}")


def _console():
    """The terminal, or, where there is none, room for a whole table."""
    unknown = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=130 if unknown else None)


def _show(console, target, rows, results, eps, m, q):
    """Print what is known of a problem; returns it as plain numbers."""
    problem = target.problem
    found = constants(problem, m, q)
    made = predictions(problem, eps, m, q, found)
    n, p = problem.shape
    console.print(f"[bold]{escape(target.dataset)}\n{escape(target.objective)}[/]")
    console.print(
        f"{problem.operator.kind}, n = {n}, p = {p}, lam = {problem.lam:g}, gamma = "
        f"{problem.gamma:g}; a pass is {problem.operator.multiply_adds:.3g} multiply-adds"
    )
    console.print(found)
    console.print(_table(made, len(problem.x_shape) > 1, f"predicted, to accuracy {eps:g}"))
    plain = dict(
        dataset=target.dataset, objective=target.objective, operator=problem.operator.kind,
        pass_multiply_adds=int(problem.operator.multiply_adds), constants=found.as_dict(),
        predictions=[row._asdict() for row in made],
    )
    if rows is not None and rows.empty:
        console.print(f"{results} has no runs of this problem\n")
    elif rows is not None:
        compared = compare(problem, rows, eps, found)
        console.print(_comparison(compared, len(problem.x_shape) > 1, eps))
        there = {method_of(row["solver"])[0] for row in compared}
        missing = [
            rate.name for name, rate in RATES.items()
            if rate.method not in there and not name.endswith("printed")
        ]
        if missing:
            console.print(f"not in {results}: {', '.join(missing)}")
        for row in compared:
            if row["note"]:
                console.print(escape(f"{row['solver']}: {row['note']}"))
        console.print()
        plain.update(measured=compared, missing=missing)
    return plain


LETTERS = """\
Without the constants of O(). r = n/m and s = p/q, K_qm = Lambda_qm/(n lam gamma), kappa =
Lambda_p1/(lam gamma), kappa_m = r K_pm; c, B and k: see benchmark_dspdc/theory/rates.py."""


def _table(made, matrices, title):
    table = Table(
        title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0), caption=LETTERS.replace("\n", " "), caption_justify="left",
        caption_style="",
    )
    table.add_column("method", no_wrap=True)
    table.add_column("formula, times log(1/eps)", min_width=20)
    for name in ("iterations", "each", *(["eigs"] if matrices else []), "multiply-adds", "passes",
                 *(["eigs", "overall"] if matrices else [])):
        table.add_column(name, justify="right")
    best = min(row.overall for row in made)
    for row in made:
        cells = [row.iterations, row.per_iteration, row.multiply_adds, row.passes]
        if matrices:
            cells[2:2] = [row.eigendecompositions_per_iteration]
            cells += [row.eigendecompositions, row.overall]
        cells = [_short(cell) for cell in cells]
        if row.overall == best:
            cells[-1 if matrices else 2] = f"[bold green]{cells[-1 if matrices else 2]} *[/]"
        table.add_row(escape(row.name), row.formula, *cells)
    return table


def _comparison(compared, matrices, eps):
    counted = any(row["iterations"] is not None for row in compared)
    table = Table(
        title=f"measured, to relative gap {eps:g}", title_justify="left", title_style="",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
    )
    table.add_column("solver", overflow="fold")
    shown = ["passes", *(["iterations"] if counted else []),
             *(["eigendecompositions"] if matrices else [])]
    for work in shown:
        short = "eigs" if work == "eigendecompositions" else work
        table.add_column(short, justify="right")
        table.add_column("predicted", justify="right")
    table.add_column("passes, measured/predicted", justify="right")
    for row in compared:
        cells = [escape(row["solver"])]
        for work in shown:
            predicted = (row["prediction"] or {}).get(work)
            if work == "iterations" and row["solver"].startswith("ASVRG-SP"):
                predicted = None             # of single entries; the method takes many at a time
            cells += [_short(row[work]), _short(predicted)]
        table.add_row(*cells, _short(row["ratio"]))
    return table


def _short(value):
    if value is None:
        return "-"
    return f"{value:.4g}" if value < 1e5 else f"{value:.2e}"

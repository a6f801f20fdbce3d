"""Predicted complexity as a table, beside what a result file measured."""

import json
import math
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..engine.checks import check_number
from ..methods import METHODS
from ..report.results import PROBLEM, method_of, read_results, to_targets
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
    for column, value in rows.iloc[0].dropna().items():
        name = column.removeprefix("p_solver_")
        if name != column and name not in options:
            options[name] = value.item() if hasattr(value, "item") else value
    if isinstance(options.get("theorem"), float) and options["theorem"].is_integer():
        options["theorem"] = int(options["theorem"])
    return method, options


def compare(problem, rows, eps, found):
    """Predicted and measured work of the solvers in the rows of a problem with known constants.

    Returns a dict for each solver: its name, what was measured (None if not reached), what is
    predicted, the ratio of the passes, and a note if anything is missing.
    """
    runs = to_targets(rows, (eps,)).fillna(math.inf).groupby("solver_name", sort=False).median()
    compared = []
    for solver, run in runs.iterrows():
        measured = {work: float(run.get(f"{work} to {eps:.0e}", math.inf)) for work in WORK}
        row = {work: value if math.isfinite(value) else None for work, value in measured.items()}
        passes, reached = row["passes"], math.isfinite(run[f"seconds to {eps:.0e}"])
        row |= dict(
            solver=solver, prediction=None, ratio=None, note=None, reached=reached,
            multiply_adds=None if passes is None else passes * problem.operator.multiply_adds,
        )
        row["final gap"] = float(run["final gap"])
        compared.append(row)
        if not reached:
            row["note"] = f"relative gap {eps:g} not reached, {row['final gap']:.1e} at the end"
        try:
            if method_of(solver)[0] not in METHODS:
                raise ValueError("no method of this package: no rate, no passes")
            method, options = _options_of(solver, rows[rows["solver_name"] == solver])
            # What is no option could be taken for another argument.
            check_options(METHODS[method], options)
            rate = rate_of(method, options)
            prediction = predict(problem, rate, eps, found, method=method, **options)
        except ValueError as error:
            row["note"] = row["note"] or str(error)
            continue
        row["prediction"] = prediction._asdict() | {"name": solver}
        if passes is not None:
            row["ratio"] = passes / prediction.passes
    return compared


def run(target, objective=None, results=None, eps=1e-6, m=None, q=None, json_file=None,
        console=None):
    """Print the table of every problem of a target, and write it as JSON if asked to.

    The problems are those of `load_targets`, `eps` is a relative accuracy, `m` and `q` are block
    sizes of DSPDC, and `results` is a result file of `benchopt run` to compare with.
    """
    console = console or Console()
    eps = check_number(eps, "eps", 0.0, strict=True, high=1.0)
    frame = None if results is None else read_results([results])
    written, reasons, matched = [], [], False
    for found in load_targets(target, objective):
        if found.problem is None:
            reasons.append(f"{found.dataset} with {found.objective} is left out: {found.reason}")
            continue
        rows = None
        if frame is not None:
            rows = frame[(frame[PROBLEM] == [found.dataset, found.objective]).all(axis=1)]
            matched |= not rows.empty
        written.append(_show(console, found, rows, results, eps, m, q))
    for reason in reasons:
        console.print(escape(reason))
    if not written:
        raise ValueError(f"{target} has no problem: {'; '.join(reasons)}")
    if frame is not None and not matched:
        names = frame[PROBLEM].drop_duplicates().head(4).itertuples(index=False)
        there = ", ".join(map(" with ".join, names))
        raise ValueError(f"{results} has no runs of {target}; it has {there}")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(dict(eps=eps, problems=written), indent=1))
        console.print(f"written: {json_file}")


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
    console.print(_formulas(made))
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
        notes = [f"not in {results}: {', '.join(missing)}"] if missing else []
        notes += [f"{row['solver']}: {row['note']}" for row in compared if row["note"]]
        console.print(escape("\n".join([*notes, ""])))
        plain.update(measured=compared, missing=missing)
    return plain


LETTERS = """\
Without the constants of O(). r = n/m and s = p/q, K_qm = Lambda_qm/(n lam gamma), kappa =
Lambda_p1/(lam gamma), kappa_m = r K_pm; c, B and k: see benchmark_dspdc/theory/rates.py."""


def _new_table(title, **more):
    return Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD,
                 padding=(0, 1, 0, 0), **more)


#: Columns of the predictions, for vectors and for matrices, where eigendecompositions cost.
COLUMNS = {
    "iterations": "iterations", "per_iteration": "each", "multiply_adds": "multiply-adds",
    "passes": "passes",
}
OF_MATRICES = {
    "iterations": "iterations", "per_iteration": "each",
    "eigendecompositions_per_iteration": "eigs", "multiply_adds": "mult-adds",
    "eigendecompositions": "all eigs", "overall": "overall",
}


def _formulas(made):
    """The formulas behind the predictions."""
    table = _new_table("", caption=LETTERS.replace("\n", " "), caption_justify="left",
                       caption_style="")
    table.add_column("method", overflow="fold")
    table.add_column("iterations, times log(1/eps)", overflow="fold")
    for row in made:
        table.add_row(escape(row.name), row.formula)
    return table


def _table(made, matrices, title):
    table = _new_table(title)
    table.add_column("method", overflow="fold")
    shown = OF_MATRICES if matrices else COLUMNS
    for name in shown:
        table.add_column(shown[name], justify="right", no_wrap=True)
    best = min(row.overall for row in made)
    for row in made:
        cells = {name: _short(getattr(row, name)) for name in shown}
        if row.overall == best:
            cost = "overall" if matrices else "multiply_adds"
            cells[cost] = f"[bold green]{cells[cost]} *[/]"
        table.add_row(escape(row.name), *cells.values())
    return table


def _comparison(compared, matrices, eps):
    table = _new_table(f"measured, to relative gap {eps:g}, and its ratio to theory in passes")
    table.add_column("solver", overflow="fold")
    counted = any(row["iterations"] is not None for row in compared)
    shown = [work for work, known in zip(WORK, (True, counted, matrices), strict=True) if known]
    for work in shown:
        name = "eigs" if work == "eigendecompositions" else work
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("theory", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
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
    return f"{value:.4g}" if value < 1e4 else f"{value:.2e}".replace("e+0", "e").replace("e+", "e")

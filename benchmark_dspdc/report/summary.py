"""The tables after a run, one a problem: time and work to common gaps, the fastest first.

Work is passes over the data, or eigendecompositions where a method does any:
there they are what costs. Everything fits 80 columns.
"""

from glob import escape as escape_pattern
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .comparisons import beats, repetitions, times_by_seed, winner
from .plain_files import shown
from .results import (
    GAPS,
    SETTLED,
    blocks_of,
    by_errors,
    common_seeds,
    errors,
    label,
    medians,
    of_gaps,
    of_matrices,
    problems,
    read_results,
    titles,
    to_targets,
)

TARGETS = (1e-3, 1e-6)
MATRIX_TARGETS = (1e-2, 1e-4)

#: Width of the names in tables that are made for terminals of 80 columns.
NAMES_WIDTH = 30


def plain_table(title):
    """A table with a bold title and no lines but the one under its head."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                 padding=(0, 1, 0, 0))


def broken(name, width=NAMES_WIDTH):
    """A solver's name in lines that end after a comma where it is too long for one."""
    lines = [""]
    parts = name.split(",")
    for k, part in enumerate(parts):
        part += "," if k < len(parts) - 1 else ""
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("  ")
        lines[-1] += part
    return "\n".join(lines)


def print_summary(files, console=None):
    """Print the tables of result files; those that win with every seed, and ties, are marked."""
    console = console or Console()
    frame = common_seeds(read_results(files))
    matrices = of_matrices(frame)
    for key, rows in problems(frame):
        _print_problem(key, rows, console)
    count = int(repetitions(frame).max())
    note = "seconds to a relative gap, certified gap / max(1, |P|); "
    note += "* fastest with every seed, = not beaten with every seed" if count > 1 else "* fastest"
    note += "; - not reached; seconds are the method's own, set-up included"
    if matrices:
        note += "; eigs: eigendecompositions"
    if any(whole and "=auto" in name for _, rows in problems(frame)
           for name, (*_, whole) in blocks_of(rows).items()):
        note += "; q = p: all columns, so DSPDC is SPDC with blocks and other steps"
    note += (f"; medians of {count} runs, with the least and the largest" if count > 1
             else "; one run of each, so without a spread")
    console.print(note)
    for sentence in frame.attrs["notes"]:
        console.print(escape(sentence))
    for file in files:
        console.print(escape(shown(f"results: {file}")), soft_wrap=True)


def _print_problem(key, every, console):
    rows = of_gaps(every)
    matrices = of_matrices(rows)
    targets = MATRIX_TARGETS if matrices else TARGETS
    work = "eigendecompositions" if matrices else "passes"
    runs = to_targets(rows, targets)
    # A median over repetitions of which some did not get there is not a time
    # to the target; it is shown only if at least half did.
    middle = medians(runs).droplevel([0, 1])
    first, last = (f"seconds to {target:.0e}" for target in targets)
    seeds = times_by_seed(runs.droplevel([0, 1]), targets[-1])
    table = plain_table(escape("\n".join(key)))
    table.add_column("method", no_wrap=True)
    table.add_column(f"{label(targets[0])}, s", justify="right", no_wrap=True)
    table.add_column(f"{label(targets[1])}, s", justify="right", no_wrap=True)
    table.add_column("from - to" if seeds.shape[1] > 1 else "final gap", justify="right",
                     no_wrap=True)
    table.add_column("eigs" if matrices else work, justify="right")
    tested = "objective_test_error" in rows and rows["objective_test_error"].notna().any()
    if tested:
        table.add_column("error, %", justify="right", no_wrap=True)
    middle = middle.sort_values([last, first, "final gap"], kind="stable")
    fastest = middle.index[0]
    sizes = blocks_of(rows)
    for name, row in middle.iterrows():
        done = row[f"{work} to {targets[-1]:.0e}"]
        cells = [
            escape(_with_sizes(name, sizes)), _number(row[first], ".4f"),
            _marked(row[last], name, fastest, seeds), _spread(row, seeds.loc[name]),
            _number(done, ".0f" if matrices or done >= 100 else ".1f"),
        ]
        if tested:
            cells.append(f"{100 * row['test error']:.2f}")
        table.add_row(*cells)
    console.print(table)
    if tested and "objective_test_error_euclidean" in rows:
        plain = rows["objective_test_error_euclidean"].iloc[-1]
        console.print(f" error: of 3 nearest neighbours on test points; Euclidean "
                      f"{100 * plain:.2f} %\n")
    if by_errors(every).any():
        _print_errors(every, console)


def _print_errors(every, console):
    """Errors and seconds of all, as packages that have another objective have no gap to it."""
    table = plain_table("errors, also of packages with another objective")
    table.add_column("method", no_wrap=True)
    for head in ("error, %", "settled, s", "run, s"):
        table.add_column(head, justify="right", no_wrap=True)
    for (*_, name), row in errors(every).sort_values(["error", "settled"]).iterrows():
        table.add_row(escape(broken(name)), f"{100 * row['error']:.2f}",
                      f"{row['settled']:.3g}", f"{row['seconds']:.3g}")
    console.print(table)
    console.print(f" settled: from then on within {100 * SETTLED:g} % of the last error\n")


def _with_sizes(name, sizes):
    """A solver's name, with the block sizes that it has chosen itself."""
    m, q, whole = sizes[name]
    if "=auto" not in name or not np.isfinite(m + q):
        return broken(name)
    return f"{broken(name)}\n  took m={m:.0f}, q={q:.0f}{' = p' if whole else ''}"


def _marked(seconds, name, fastest, seeds):
    text = _number(seconds, ".4f")
    if not np.isfinite(seconds):
        return text
    if name != fastest:
        tied = seeds.shape[1] > 1 and not beats(seeds, fastest, name)
        return f"{text} =" if tied else f"{text}  "
    others = [other for other in seeds.index if other != name]
    if not others:
        return f"{text}  "
    alone = seeds.shape[1] == 1 or all(beats(seeds, name, other) for other in others)
    return f"[bold green]{text} {'*' if alone else '='}[/]"


def _spread(row, seconds):
    """The least and the largest time, or the gap in the end where there is no such time."""
    if len(seconds) == 1 or not np.isfinite(seconds).all():
        return f"gap {row['final gap']:.1e}" if len(seconds) > 1 else f"{row['final gap']:.1e}"
    return f"{seconds.min():.2g} - {seconds.max():.2g}"


def _number(value, style):
    return "-" if value == float("inf") else format(value, style)


def print_answer(file, report, console=None):
    """Three lines: who was fastest where, and where the two pages are."""
    console = console or Console()
    frame = read_results([file])
    short = titles([key for key, _ in problems(frame)])
    runs = to_targets(frame, GAPS).sort_index()
    found = []
    for key, title in short.items():
        won = winner(runs.loc[key])
        if won is None:
            found.append(f"{title}: nobody")
            continue
        ties = f", tied with {len(won.solvers) - 1} more" if won.tie else ""
        found.append(f"{title}: {won.solvers[0]} (to {label(won.gap)}{ties})")
    console.print(escape(f"fastest: {'; '.join(found)}"))
    console.print(escape(shown(f"report:  {report}")), soft_wrap=True)
    pages = Path(file).parent.glob(f"*_{escape_pattern(Path(file).stem)}.html")
    for page in sorted(pages)[:1]:
        console.print(escape(shown(f"benchopt's page, which needs the web: {page}")),
                      soft_wrap=True)

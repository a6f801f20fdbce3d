"""The table after a run: method x problem, time and work to common gaps.

Work is passes over the data, or eigendecompositions where a method does any:
there they are what costs.
"""

from glob import escape as escape_pattern
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .plain_files import shown
from .results import label, medians, of_matrices, problems, read_results, to_targets

TARGETS = (1e-3, 1e-6)
MATRIX_TARGETS = (1e-2, 1e-3, 1e-4)

def plain_table(title):
    """A table with a bold title and no lines but the one under its head."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
                 padding=(0, 1, 0, 0))


def print_summary(files, console=None):
    """Print the table of result files, the fastest method of each problem marked."""
    console = console or Console()
    frame = read_results(files)
    n_repetitions = frame["idx_rep"].nunique()
    for (dataset, objective), rows in problems(frame):
        matrices = of_matrices(rows)
        targets = MATRIX_TARGETS if matrices else TARGETS
        work = "eigendecompositions" if matrices else "passes"
        # A median over repetitions of which some did not get there is not a time
        # to the target; it is shown only if at least half did.
        problem = medians(to_targets(rows, targets))
        table = plain_table(escape(f"{dataset}\n{objective}"))
        table.add_column("method", overflow="fold")
        for target in targets:
            table.add_column(f"s to {label(target)}", justify="right")
            table.add_column("eigs" if matrices else work, justify="right")
        table.add_column("final gap", justify="right")
        errors = "objective_test_error" in rows and rows["objective_test_error"].notna().any()
        if errors:
            table.add_column("3-NN error", justify="right")
        best = {t: problem[f"seconds to {t:.0e}"].min() for t in targets}
        for index, row in problem.iterrows():
            cells = [escape(index[2])]
            for target in targets:
                seconds = row[f"seconds to {target:.0e}"]
                text = _number(seconds, ".4f")
                if seconds == best[target] and seconds < float("inf"):
                    text = f"[bold green]{text} *[/]"
                done = row[f"{work} to {target:.0e}"]
                cells += [text, _number(done, ".0f" if matrices else ".1f")]
            cells.append(f"{row['final gap']:.1e}")
            if errors:
                cells.append(f"{100 * row['test error']:.2f} %")
            table.add_row(*cells)
        console.print(table)
        if errors and "objective_test_error_euclidean" in rows:
            plain = rows["objective_test_error_euclidean"].iloc[-1]
            console.print(
                f" error of 3 nearest neighbours on the test points: Euclidean {100 * plain:.2f} "
                "%, with the learned metrics as in the table\n"
            )
    note = "* fastest; - not reached; relative gap = certified gap / max(1, |P|)"
    if of_matrices(frame):
        note += "; eigs: eigendecompositions"
    if n_repetitions > 1:
        note += f"; median of {n_repetitions} repetitions"
    console.print(note)
    for sentence in frame.attrs["notes"]:
        console.print(escape(sentence))
    for file in files:
        console.print(escape(shown(f"results: {file}")), soft_wrap=True)
        for page in Path(file).parent.glob(f"*_{escape_pattern(Path(file).stem)}.html"):
            console.print(escape(shown(f"page:    {page}")), soft_wrap=True)


def _number(value, style):
    return "-" if value == float("inf") else format(value, style)

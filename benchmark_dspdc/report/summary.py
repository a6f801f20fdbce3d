"""The table after a run: method x problem, time and work to common gaps.

Work is passes over the data, or eigendecompositions where a method does any:
there they are what costs.
"""

import math
from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

TARGETS = (1e-3, 1e-6)
MATRIX_TARGETS = (1e-2, 1e-3, 1e-4)

PASSES, EIGENDECOMPOSITIONS = "objective_passes", "objective_eigendecompositions"
ITERATIONS = "objective_iterations"

#: Columns without which a file is not one of this suite's results.
REQUIRED = (
    "dataset_name", "objective_name", "solver_name", "idx_rep", "time", "objective_relative_gap",
    "objective_passes",
)


def newest_result(folder=Path("outputs")):
    """The parquet file written last under `folder`."""
    files = sorted(folder.glob("*.parquet"), key=lambda f: f.stat().st_mtime)
    if not files:
        raise ValueError(
            f"no result file under {folder}/; run `make run` first or name a parquet file"
        )
    return files[-1]


def read_results(files):
    """The rows of one or more result files of this suite."""
    frames = []
    for file in files:
        file = Path(file)
        if not file.exists():
            raise ValueError(f"no such file: {file}")
        try:
            frame = pd.read_parquet(file)
        except Exception as error:
            raise ValueError(f"{file} is not a readable parquet file: {error}") from None
        missing = [c for c in REQUIRED if c not in frame.columns]
        if missing:
            raise ValueError(
                f"{file} is not a result of this benchmark: it has no column "
                f"{', '.join(missing)}"
            )
        if frame.empty:
            raise ValueError(f"{file} has no rows: no run of it ended well")
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def of_matrices(frame):
    """Whether the rows are of a problem with eigendecompositions."""
    return EIGENDECOMPOSITIONS in frame and bool((frame[EIGENDECOMPOSITIONS] > 0).any())


def to_targets(frame, targets=TARGETS):
    """Time and work to each target gap, and the final gap, of every run.

    A run's time to a target is that of its first certified point at or below
    it; NaN if there is none. Work is in passes, and in eigendecompositions and
    iterations where the file has them.

    Returns
    -------
    DataFrame
        Indexed by dataset, objective, solver and repetition.
    """
    keys = ["dataset_name", "objective_name", "solver_name", "idx_rep"]

    def one(run):
        # Runs that begin anew with each budget need not take longer each time.
        last = run.iloc[-1]
        run = run.sort_values("time", kind="stable")
        out = {}
        for target in targets:
            reached = run[run["objective_relative_gap"] <= target]
            first = reached.iloc[0] if len(reached) else None
            out[f"seconds to {target:.0e}"] = None if first is None else first["time"]
            for work in (PASSES, EIGENDECOMPOSITIONS, ITERATIONS):
                if work in run:
                    name = work.removeprefix("objective_")
                    out[f"{name} to {target:.0e}"] = None if first is None else first[work]
        out["final gap"] = last["objective_relative_gap"]
        if "objective_test_error" in run:
            out["test error"] = last["objective_test_error"]
        return pd.Series(out, dtype=float)

    return frame.groupby(keys, sort=False)[list(frame.columns)].apply(one)


def print_summary(files, console=None):
    """Print the table of result files, the fastest method of each problem marked."""
    console = console or Console()
    frame = read_results(files)
    n_repetitions = frame["idx_rep"].nunique()
    problems = frame.groupby(["dataset_name", "objective_name"], sort=False)
    for (dataset, objective), rows in problems:
        matrices = of_matrices(rows)
        targets = MATRIX_TARGETS if matrices else TARGETS
        work = "eigendecompositions" if matrices else "passes"
        runs = to_targets(rows, targets)
        # A median over repetitions of which some did not get there is not a time
        # to the target; it is shown only if at least half did.
        keys = ["dataset_name", "objective_name", "solver_name"]
        problem = runs.fillna(float("inf")).groupby(keys, sort=False).median()
        title = escape(f"{dataset}\n{objective}")
        table = Table(
            title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        table.add_column("method", overflow="fold")
        for target in targets:
            table.add_column(f"s to 1e{round(math.log10(target))}", justify="right")
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
        if errors:
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
    for file in files:
        console.print(f"results: {file}", soft_wrap=True)
        for page in Path(file).parent.glob(f"*_{Path(file).stem}.html"):
            console.print(f"page:    {page}", soft_wrap=True)


def _number(value, style):
    return "-" if value == float("inf") else format(value, style)

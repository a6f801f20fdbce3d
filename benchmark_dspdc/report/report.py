"""``python -m benchmark_dspdc report``: page, figures and verdicts of result files."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from .claims import FAILS, HOLDS, UNKNOWN, judge
from .results import read_results
from .summary import plain_table

COLORS = {HOLDS: "green", FAILS: "dark_orange", UNKNOWN: "bright_black"}


def write_report(files, folder, console=None, notes=()):
    """Write the report of result files and print the verdicts.

    Parameters
    ----------
    files : list of path
    folder : path
        Created if need be; gets ``report.html`` and the figures.
    console : rich.console.Console or None
    notes : list of str
        Sentences on what the files lack, for the page.
    """
    console = console or Console()
    frame = read_results(files)
    frame.attrs["notes"] = [*notes, *frame.attrs["notes"]]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with console.status("judging the paper's claims"):
        verdicts = judge(frame)
    with console.status("writing the page"):
        # Late, because they take a second to import.
        from .page import write_page

        page = folder / "report.html"
        write_page(frame, page, ", ".join(Path(file).name for file in files), verdicts)
    with console.status("drawing the paper's figures"):
        from .figures import paper_figures

        figures = paper_figures(frame, folder, frame.attrs["notes"])
    print_verdicts(verdicts, console)
    for sentence in frame.attrs["notes"]:
        console.print(escape(sentence))
    if not figures:
        console.print("no problem of the paper's figures is in the file, so none is drawn")
    for file in (page, *figures):
        console.print(escape(f"written: {file}"), soft_wrap=True)


def print_verdicts(verdicts, console):
    """A table of all claims."""
    table = plain_table("the paper's claims")
    table.add_column("claim", overflow="fold")
    table.add_column("in the paper")
    table.add_column("DSPDC")
    table.add_column("verdict", no_wrap=True)
    table.add_column("settings", overflow="fold")
    table.add_column("ratios", overflow="fold")
    for verdict in verdicts:
        outcome = f"[{COLORS[verdict.outcome]}]{verdict.outcome}[/]"
        table.add_row(
            verdict.claim, verdict.place, verdict.form, outcome, verdict.counts, verdict.measured
        )
    console.print(table)

"""``python -m benchmark_dspdc report``: page, figures and verdicts of result files."""

import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ..engine.cache_dirs import write_whole
from .claims import FAILS, HOLDS, UNKNOWN, as_json, judge
from .results import beside, read_results

COLORS = {HOLDS: "green", FAILS: "dark_orange", UNKNOWN: "bright_black"}


def write_report(files, folder, console=None, notes=(), quiet=False, archived=()):
    """Write the report of result files and print the verdicts; returns the page.

    Parameters
    ----------
    files : list of path
    folder : path
        Created if need be; gets ``report.html``, the figures and ``verdicts.json``.
    console : rich.console.Console or None
    notes : list of str
        Sentences on what the files lack, for the page.
    quiet : bool
        Print nothing.
    archived : list of path
        Result files whose curves are drawn beside, on the problems that `files` have.
    """
    console = console or Console()
    frame = read_results(files)
    if archived:
        frame = beside(frame, [read_results([file]) for file in archived])
    frame.attrs["notes"] = [*notes, *frame.attrs["notes"]]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with console.status("judging the paper's claims"):
        verdicts = judge(frame)
        told = folder / "verdicts.json"
        write_whole(told, (json.dumps(as_json(verdicts), indent=1) + "\n").encode())
    with console.status("drawing the paper's figures"):
        # Late, because they take a second to import.
        from .figures import paper_figures

        figures = paper_figures(frame, folder, frame.attrs["notes"])
    with console.status("writing the page"):
        from .page import write_page

        page = folder / "report.html"
        origin = ", ".join(Path(file).name for file in (*files, *archived))
        write_page(frame, page, origin, verdicts, figures)
    if quiet:
        return page
    print_verdicts(verdicts, console)
    for sentence in frame.attrs["notes"]:
        console.print(escape(sentence))
    if not figures:
        console.print("no problem of the paper's figures is in the file, so none is drawn")
    for file in (page, told, *figures):
        console.print(escape(f"written: {file}"), soft_wrap=True)
    return page


def print_verdicts(verdicts, console):
    """The claims that were measured, one a line or two, and how many others there are."""
    known = [verdict for verdict in verdicts if verdict.outcome != UNKNOWN]
    if known:
        console.print("[bold]the paper's claims[/]; ratios are the rival's time over DSPDC's")
    for verdict in known:
        form = f", DSPDC {verdict.form}" if verdict.form else ""
        console.print(f" [{COLORS[verdict.outcome]}]{verdict.outcome}[/]  {verdict.claim} "
                      f"({verdict.place}{form}): {verdict.counts}; {verdict.measured}")
    if rest := len(verdicts) - len(known):
        console.print(f" {rest} claims that these files cannot answer; `make figures` runs them")

"""``python -m benchmark_dspdc report``: page, figures and verdicts of result files."""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ..engine.cache_dirs import write_whole
from .claims import FAILS, HOLDS, UNKNOWN, as_json, judge
from .results import beside, problems, read_results

#: With more problems figures are drawn in a process of their own, which takes seconds to begin.
FEW = 8

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
    with console.status("judging the paper's claims, drawing its figures"), _drawing(
            frame, folder) as drawing:
        verdicts = judge(frame)
        told, page = folder / "verdicts.json", folder / "report.html"
        write_whole(told, (json.dumps(as_json(verdicts), indent=1) + "\n").encode())
        from .page import page_data, write_page

        origin = ", ".join(Path(file).name for file in (*files, *archived))
        data = page_data(frame, origin, verdicts)
        figures, more = drawing()
        frame.attrs["notes"] += more
        write_page(data | dict(notes=data["notes"] + more), page, figures)
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


@contextmanager
def _drawing(frame, folder):
    """Begin to draw the paper's figures; gives what waits for them, `_drawn`'s result."""
    if len(problems(frame)) <= FEW:
        yield lambda: _drawn(frame, folder)
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        yield other.submit(_drawn, frame, folder).result


def _drawn(frame, folder):
    """The paper's figures that were drawn, and sentences on what they do not show."""
    # Late, because it takes a second to import.
    from .figures import paper_figures

    notes = []
    return paper_figures(frame, folder, notes), notes


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

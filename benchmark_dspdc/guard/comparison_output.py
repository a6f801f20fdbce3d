"""Compared figures as a table, as JSON and as JUnit."""

import json
import re
from xml.etree import ElementTree

from rich import box
from rich.markup import escape
from rich.table import Table

from ..engine.cache_dirs import write_whole
from ..report.results import titles
from .baseline import plain, reached
from .comparison import BETTER, SAME, SUSPICIOUS, WORSE, counted, key_of, worse, worst

COLORS = {SAME: "bright_black", BETTER: "green", WORSE: "red", SUSPICIOUS: "dark_orange"}


def print_comparison(lines, notes, console):
    """A table with a row for each method and problem, the lines that changed, and the notes."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("data", "method", "work", "time"):
        justify = "right" if name in ("work", "time") else "left"
        table.add_column(name, overflow="fold", justify=justify)
    by, titled = {}, titles(list(dict.fromkeys(line.key[:2] for line in lines)))
    for line in lines:
        by.setdefault(line.key, ([], []))[line.is_time].append(line)
    for key, kinds in by.items():
        table.add_row(escape(titled[key[:2]]), escape(key[2]), *map(_shown, map(worst, kinds)))
    if lines:
        console.print(table)
    for outcome, sentence in (
        (WORSE, "worse"),
        (SUSPICIOUS, "less, but the same method is worse elsewhere: suspicious, no progress"),
        (BETTER, "better; --update makes what is measured the new standard"),
    ):
        if changed := [line for line in lines if line.outcome == outcome]:
            head = f"[{COLORS[outcome]}]{counted(len(changed), 'figure')} {sentence}[/]"
            shown = (escape(str(line)) for line in changed)
            console.print(head, *shown, sep="\n  ", soft_wrap=True)
    for note in notes:
        console.print(escape(note), soft_wrap=True)
    if lines and not worse(lines):
        console.print(f"no regression in {len(lines)} figures")


def print_baseline(baseline, console):
    """How far each curve of a new baseline got, and which of the common gaps it reaches."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("data", "method", "last gap", "reaches"):
        table.add_column(name, overflow="fold", justify="right" if name == "last gap" else "left")
    titled = titles(list(dict.fromkeys(key_of(row)[:2] for row in baseline["figures"])))
    for row in baseline["figures"]:
        furthest, targets = reached(row)
        table.add_row(
            escape(titled[key_of(row)[:2]]), escape(row["solver"]),
            f"{furthest:.1e}" if row["ends"] else "-",
            ", ".join(targets) if row["work"] else "counts no work",
        )
    console.print(table)


def _shown(line):
    return "-" if line is None else f"[{COLORS[line.outcome]}]{line.change:+.1%}[/]"


def write_json(lines, notes, error, file):
    """All lines, for programs; `error` is why nothing could be compared, or None."""
    write_whole(file, json.dumps(dict(
        error=error, notes=notes, regression=bool(worse(lines)) if error is None else None,
        figures=[dict(
            dataset=line.key[0], objective=line.key[1], solver=line.key[2], figure=line.figure,
            was=plain(line.was), now=plain(line.now), change=plain(line.change),
            tolerance=line.tolerance, outcome=line.outcome,
        ) for line in lines],
    ), indent=1))


def write_junit(lines, notes, error, file):
    """A JUnit file: a test for each figure, one that is skipped for each note, and the error."""
    cases = [(
        f"{line.key[0]}, {line.key[1]}", f"{line.key[2]}: {line.figure}",
        "failure" if line.outcome == WORSE else None, str(line),
    ) for line in lines]
    cases += (("regress", note.partition(":")[0], "skipped", note) for note in notes)
    if error is not None:
        cases.append(("regress", "compare", "error", error))
    suite = ElementTree.Element("testsuite", name="regress", tests=str(len(cases)))
    for outcome, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(sum(case[2] == outcome for case in cases)))
    for classname, name, outcome, message in cases:
        words = dict(classname=_xml(classname), name=_xml(name))
        case = ElementTree.SubElement(suite, "testcase", words)
        if outcome is not None:
            ElementTree.SubElement(case, outcome, message=_xml(message))
    write_whole(file, ElementTree.tostring(suite, "utf-8", xml_declaration=True) + b"\n")


def _xml(text):
    """Without what XML has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)

"""Figures beside a baseline's: as a table, as JSON and as JUnit."""

import json
import math
import re
from typing import NamedTuple
from xml.etree import ElementTree

from rich import box
from rich.markup import escape
from rich.table import Table

from ..engine.cache_dirs import write_whole
from ..report.results import titles
from .curve_figures import BESIDE, TIMES

#: A slowdown that should be seen. Where times vary too much for that, it is said.
SLOWDOWN = 0.30

SAME, BETTER, WORSE = "same", "better", "worse"
COLORS = {SAME: "bright_black", BETTER: "green", WORSE: "red"}


class Line(NamedTuple):
    """One figure beside its baseline.

    Attributes
    ----------
    key : tuple of str
        Data set, objective and solver.
    figure : str
        Such as "passes to 1e-4".
    was, now : float
        Infinite where a gap was not reached.
    tolerance : float
        Relative.
    """

    key: tuple
    figure: str
    was: float
    now: float
    tolerance: float

    @property
    def is_time(self):
        return self.figure in TIMES

    @property
    def change(self):
        """Relative, infinite if a gap is not reached any more."""
        if self.was == self.now:
            return 0.0
        if not math.isfinite(self.was):
            return -1.0
        return self.now / self.was - 1.0 if self.was > 0.0 else math.inf

    @property
    def outcome(self):
        if self.change > self.tolerance:
            return WORSE
        # Slow runs are made again, fast ones are not: a gain must be the clearer.
        least = max(self.tolerance, SLOWDOWN) if self.is_time else self.tolerance
        return BETTER if self.change < -least else SAME

    def __str__(self):
        return (
            f"{name_of(self.key)}: {self.figure} {self.was:.4g} -> {self.now:.4g} "
            f"({self.change:+.1%}, allowed {self.tolerance:.0%})"
        )


def name_of(key):
    return f"{key[2]} on {key[0]}, {key[1]}"


def worst(lines):
    """The line to show of several: what got better never hides what got worse."""
    return max(lines, key=lambda line: (line.outcome == WORSE, abs(line.change)), default=None)


def worse(lines):
    return [line for line in lines if line.outcome == WORSE]


def counted(count, noun):
    """Such as "1 figure is" and "2 figures are"."""
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"


def print_comparison(lines, notes, console):
    """A table with a row for each method and problem, and the lines that changed."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("data", "method"):
        table.add_column(name, overflow="fold")
    for name in ("work", "time", "allowed", "beside others", "allowed"):
        table.add_column(name, justify="right", no_wrap=name == "allowed")
    by, titled = {}, titles(list(dict.fromkeys(line.key[:2] for line in lines)))
    for line in lines:
        by.setdefault(line.key, []).append(line)
    for key, own in by.items():
        cells = [_shown(worst([line for line in own if not line.is_time]))]
        for beside in (False, True):
            line = worst([
                line for line in own if line.is_time and (line.figure == BESIDE) == beside
            ])
            cells += [_shown(line), "-" if line is None else f"{line.tolerance:.0%}"]
        table.add_row(escape(titled[key[:2]]), escape(key[2]), *cells)
    console.print(table)
    for outcome, sentence in (
        (WORSE, "worse"), (BETTER, "better; --update makes what is measured the new standard"),
    ):
        changed = [line for line in lines if line.outcome == outcome]
        if changed:
            console.print(
                f"[{COLORS[outcome]}]{counted(len(changed), 'figure')} {sentence}[/]",
                soft_wrap=True,
            )
            for line in changed:
                console.print("  " + escape(str(line)), soft_wrap=True)
    for note in notes:
        console.print(escape(note), soft_wrap=True)
    if not worse(lines):
        console.print(f"no regression in {len(lines)} figures")


def _shown(line):
    if line is None:
        return "-"
    return f"[{COLORS[line.outcome]}]{line.change:+.1%}[/]"


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


def plain(value):
    """A number as JSON has it: None if it is infinite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def write_junit(lines, notes, error, file):
    """A JUnit file: a test for each figure, one that is skipped for each note, and the error."""
    suite = ElementTree.Element("testsuite", name="regress")

    def case(name, classname="regress", outcome=None, message=None):
        one = ElementTree.SubElement(
            suite, "testcase", classname=_xml(classname), name=_xml(name)
        )
        if outcome is not None:
            ElementTree.SubElement(one, outcome, message=_xml(message))
    for line in lines:
        case(
            f"{line.key[2]}: {line.figure}", f"{line.key[0]}, {line.key[1]}",
            "failure" if line.outcome == WORSE else None, str(line),
        )
    for note in notes:
        case(note.partition(":")[0], outcome="skipped", message=note)
    if error is not None:
        case("compare", outcome="error", message=error)
    suite.set("tests", str(len(suite)))
    for outcome, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{outcome}"))))
    text = ElementTree.tostring(suite, "unicode")
    write_whole(file, '<?xml version="1.0" encoding="utf-8"?>\n' + text + "\n")


def _xml(text):
    """Without what XML has no way to write."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)

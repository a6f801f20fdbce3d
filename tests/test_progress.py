"""Bars are for people who wait: on a terminal, and not for short work."""

import io
import sys

import pytest

from benchmark_dspdc.engine import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("limit", "on_terminal", "shown"), [
    (0.0, True, True), (60.0, True, False), (0.0, False, False),
])
def test_a_bar_is_shown_for_long_work_on_a_terminal(monkeypatch, limit, on_terminal, shown):
    stream = Terminal() if on_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "SECONDS", limit)
    assert list(progress.tracked(range(1000), "neighbours")) == list(range(1000))
    assert ("neighbours" in stream.getvalue()) == shown


def test_a_bar_is_taken_away_when_the_work_fails(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    steps = progress.tracked(range(1000), "norms")
    for _ in range(10):
        next(steps)
    steps.close()
    before = stream.getvalue()
    assert before.endswith("\x1b[?25h") or "\x1b[?25h" in before    # the cursor is back

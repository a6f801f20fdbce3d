"""What CONTRIBUTING.md and docs/architecture.md show is so."""

import re

import numpy as np
import pytest
from conftest import REPO

from benchmark_dspdc import erm, solve
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.model.losses import LOSSES

TEXT = (REPO / "CONTRIBUTING.md").read_text()


def example(heading):
    """What the Python example under a heading defines."""
    code = re.search(rf"## {heading}\n.*?```python\n(.*?)```", TEXT, re.DOTALL)[1]
    names = {"__name__": "example"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    return names


def test_the_change_that_added_the_huber_loss_is_shown_as_it_is():
    shown = re.search(r"losses/huber\.py\n(.*?)\n--- a/", TEXT, re.DOTALL)[1].split("\n")
    file = REPO / "benchmark_dspdc/model/losses/huber.py"
    assert [line.removeprefix("+") for line in shown] == file.read_text().rstrip("\n").split("\n")
    assert "huber" in LOSSES


def test_the_regulariser_of_the_example_works():
    names = example("A regulariser")
    assert names["result"].status == "converged"
    np.testing.assert_allclose(names["result"].x, 0.5)


def test_the_method_of_the_example_works(monkeypatch):
    method = example("A method")["ShortSAGA"]
    monkeypatch.setitem(METHODS, method.name, method)
    A = np.random.default_rng(0).standard_normal((60, 8))
    problem = erm(A, np.sign(A[:, 0]), lambda2=0.1)
    assert solve(problem, "short_saga", tol=1e-6, factor=4.0).status == "converged"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_that_a_page_names_is_there(page):
    text = (REPO / page).read_text()
    named = re.findall(r"`((?:[\w*]+/)+[\w*]*(?:\.\w+)?|\w+\.(?:py|md))`", text)
    assert len(named) > 10
    for name in named:
        places = [REPO, REPO / "benchmark_dspdc"]
        found = [file for place in places for file in place.glob(name.rstrip("/"))]
        assert found, f"{page} names {name}"

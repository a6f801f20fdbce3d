"""A short version of tests/fuzz_long.py, the same cases on every run but at night."""

import json
import os
import subprocess
import sys

import fuzz
import fuzz_bytes
import hypothesis
import pytest
from conftest import REPO

#: Cases of each surface. Options mean kernels to compile, a table or a page takes a while.
CASES = dict.fromkeys(fuzz.SURFACES, 200) | {"options of methods": 150, "result files": 60}


@pytest.mark.parametrize("name", fuzz.SURFACES)
def test_cases_made_up_at_random_end_in_a_result_or_a_documented_error(name, tmp_path, home):
    tally = fuzz.Tally(fuzz.SURFACES[name], tmp_path)
    fuzz.search(tally, CASES[name], seed=0 if hypothesis.settings().derandomize else None)
    # Neither all refused nor all taken, or the cases would be of no use.
    assert min(map(tally.count, ("result", "error"))) > CASES[name] / 40


@pytest.mark.parametrize("name", fuzz.OF_BYTES)
def test_contents_that_atheris_begins_with_are_taken_whole_and_refused_when_cut(
    name, tmp_path, home
):
    judge = fuzz_bytes.judge_of(name, tmp_path)
    for content in fuzz.OF_BYTES[name].seeds(tmp_path):
        for part in (content, content[:-9]):
            judge(part)
    assert min(map(judge.count, ("result", "error"))) >= 4


def digests(folder):
    """Some cases of each surface, without trying them."""
    found = {}
    for name, surface in fuzz.SURFACES.items():
        tally = fuzz.Tally(surface._replace(run=lambda case, folder: None), folder)
        fuzz.search(tally, 15, seed=7)
        found[name] = [digest.hex() for digest in tally.outcomes]
    return found


def test_a_seed_gives_the_same_cases_in_every_process(tmp_path):
    # A local module with constants that this process does not have.
    module = tmp_path / "odd_constants.py"
    module.write_text(f"numbers = {[0.7 + k for k in range(300)]}\n")
    code = f"""
import json, odd_constants, test_fuzz
print(json.dumps(test_fuzz.digests({str(tmp_path)!r})))
"""
    path = os.pathsep.join([str(tmp_path), str(REPO / "tests"), str(REPO)])
    shown = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path,
        check=True, capture_output=True, text=True,
    ).stdout
    assert json.loads(shown) == digests(tmp_path)

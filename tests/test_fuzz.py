"""Cases of tests/fuzz.py: some, the same on every run but at night, or many for `make fuzz`.

Those of `make fuzz` come in rounds, each from a seed of its own, so that they are the same
however many processes there are. The test that fails tells the surface and the round.
"""

import json
import os
import subprocess
import sys

import fuzz
import hypothesis
import pytest
from conftest import REPO

#: Cases of each surface. Options mean kernels to compile, a table or a page takes a while.
CASES = dict.fromkeys(fuzz.SURFACES, 200) | {"options of methods": 150, "result files": 60}

#: What `make fuzz` asks for.
ASKED, SEED = (int(os.environ.get(name, 0)) for name in ("FUZZ_CASES", "FUZZ_SEED"))
ROUND = 500


@pytest.mark.parametrize("number", range(max(1, ASKED // ROUND)))
@pytest.mark.parametrize("name", fuzz.SURFACES)
def test_cases_made_up_at_random_end_in_a_result_or_a_documented_error(
    name, number, tmp_path, home
):
    count = min(ASKED, ROUND) or CASES[name]
    known = ASKED or hypothesis.settings().derandomize
    tally = fuzz.Tally(fuzz.SURFACES[name], tmp_path)
    fuzz.search(tally, count, seed=10**6 * SEED + number if known else None)
    # Neither all refused nor all taken, or the cases would be of no use.
    assert min(map(tally.outcomes.count, ("result", "error"))) > count / 40


def digests(folder):
    """Some cases of each surface, without trying them."""
    found = {}
    for name, surface in fuzz.SURFACES.items():
        tally = fuzz.Tally(surface._replace(run=lambda case, folder: None), folder)
        fuzz.search(tally, 15, seed=7)
        found[name] = tally.cases
    return found


def test_a_seed_gives_the_same_cases_again(tmp_path):
    assert digests(tmp_path) == digests(tmp_path)


@pytest.mark.nightly
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

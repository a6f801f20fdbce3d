"""Cases of tests/fuzz.py: some, the same on every run but at night, or many for `make fuzz`.

Those of `make fuzz` come in rounds, each from a seed of its own, so that all CPUs have some.
"""

import os
import tempfile
from collections import Counter
from pathlib import Path

import fuzz
import hypothesis
import pytest

#: Cases of each surface. A table or a page takes a while.
CASES = dict.fromkeys(fuzz.SURFACES, 300) | {"result files": 100}

#: What `make fuzz` asks for.
ASKED, SEED = (int(os.environ.get(name, 0)) for name in ("FUZZ_CASES", "FUZZ_SEED"))
ROUND = 500


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("number", range(max(1, ASKED // ROUND)))
@pytest.mark.parametrize("name", fuzz.SURFACES)
def test_cases_made_up_at_random_end_in_a_result_or_a_documented_error(
    name, number, tmp_path, home
):
    count, outcomes = min(ASKED, ROUND) or CASES[name], Counter()

    @hypothesis.settings(
        max_examples=count, deadline=None, database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(fuzz.SURFACES[name].cases)
    def tried(case):
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            outcomes[fuzz.outcome(fuzz.SURFACES[name], case, Path(folder))] += 1

    (hypothesis.seed(10**6 * SEED + number)(tried) if ASKED else tried)()
    # Neither all refused nor all taken, or the cases would be of no use.
    assert min(outcomes["result"], outcomes["error"]) > count / 40

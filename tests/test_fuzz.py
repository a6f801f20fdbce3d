"""A short version of tests/fuzz.py, the same cases on every run but at night."""

import fuzz
import hypothesis
import pytest

#: Cases of each surface; all together take some 20 seconds. A table or a page takes the longest.
CASES = dict.fromkeys(fuzz.SURFACES, 300) | {"result files": 150}


@pytest.mark.parametrize("name", fuzz.SURFACES)
def test_cases_made_up_at_random_end_in_a_result_or_a_documented_error(name, tmp_path, home):
    tally = fuzz.Tally(fuzz.SURFACES[name], tmp_path)
    fuzz.search(tally, CASES[name], seed=0 if hypothesis.settings().derandomize else None)
    # Neither all refused nor all taken, or the cases would be of no use. Of mt_lmnn about one in
    # twenty is taken, more or less: hypothesis also draws from constants of loaded modules.
    assert min(tally.counts.values()) > CASES[name] / 40

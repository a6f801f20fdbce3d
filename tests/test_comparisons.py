"""Who wins, by how much, over one problem and over all; and how methods look."""

import io

import numpy as np
import pandas as pd
import pytest
from frames import ELASTIC, factorized, runs, seeds
from rich.console import Console

from benchmark_dspdc.report import comparisons
from benchmark_dspdc.report.looks import FAMILIES, LOOKS, looks
from benchmark_dspdc.report.results import GAPS, NAMES, medians, to_targets
from benchmark_dspdc.report.summary import NAMES_WIDTH, broken, print_answer, print_summary


def times(**solvers):
    """Seconds to all gaps, of solvers with a number for each seed, as `to_targets` has them."""
    frame = pd.DataFrame(solvers).rename_axis("idx_rep").unstack()
    frame.index.names = ["solver_name", "idx_rep"]
    return pd.DataFrame({f"seconds to {gap:.0e}": frame for gap in GAPS})


def test_a_winner_is_faster_with_every_seed():
    won = comparisons.winner(times(a=[1.0, 2.0, 3.0], b=[2.0, 4.0, 6.0]))
    assert (won.solvers, won.tie, won.next) == (["a"], False, "b")
    assert (won.seconds, won.factor, won.gap, won.seeds) == (2.0, 2.0, min(GAPS), 3)


def test_one_seed_that_is_slower_makes_a_tie():
    won = comparisons.winner(times(a=[1.0, 2.0, 3.0], b=[2.0, 4.0, 2.9], c=[8.0, 8.0, 8.0]))
    assert won.solvers == ["a", "b"] and won.tie
    assert (won.next, won.factor) == ("c", 4.0)


def test_of_one_run_the_fastest_is_named_and_nothing_is_tied():
    won = comparisons.winner(times(a=[1.0], b=[1.001]))
    assert (won.solvers, won.seeds) == (["a"], 1)


def test_the_least_gap_that_somebody_reached_decides():
    found = times(a=[1.0, 1.0], b=[2.0, 2.0])
    found.loc["b", "seconds to 1e-06"] = np.inf
    found.loc["a", ["seconds to 1e-06", "seconds to 1e-04"]] = np.inf
    won = comparisons.winner(found)
    assert (won.gap, won.solvers) == (1e-4, ["b"])
    found.loc[:] = np.nan
    assert comparisons.winner(found) is None


def test_a_seed_that_is_lacking_is_one_that_did_not_get_there():
    # As of a method that diverged: its good seed makes it no winner.
    found = times(a=[1.0, 1.0, 1.0], b=[2.0, 2.0, 2.0]).drop([("a", 1), ("a", 2)])
    won = comparisons.winner(found)
    assert (won.solvers, won.seeds) == (["b"], 3)
    frame = runs(*seeds("SPDC[m=1]", (0.1, 0.1, 0.1))[:1], *seeds("SDCA[m=1]", (0.2, 0.2, 0.2)))
    middle = medians(to_targets(frame, GAPS)).droplevel([0, 1])["seconds to 1e-06"]
    assert middle["SPDC[m=1]"] == np.inf and np.isfinite(middle["SDCA[m=1]"])


def over_problems(**solvers):
    """Seconds by dataset, objective and solver."""
    rows = {("data", f"p{k}", name): value
            for name, values in solvers.items() for k, value in enumerate(values)}
    return pd.Series(rows).rename_axis(NAMES)


def test_regret_success_and_means_by_hand():
    seconds = over_problems(a=[1.0, 4.0, np.inf], b=[2.0, 1.0, np.inf], c=[2.0, np.inf, np.inf])
    ratios = comparisons.regret(seconds)
    # What nobody solved says nothing.
    assert list(ratios.loc["a"]) == [1.0, 4.0]
    assert list(ratios.loc["b"]) == [2.0, 1.0]
    found = comparisons.overall(seconds, pd.Series(9.0, index=seconds.index))
    assert found.loc["a", "mean"] == pytest.approx(2.0)
    assert found.loc["b", "mean"] == pytest.approx(np.sqrt(2.0))
    assert list(found["solved"]) == [1.0, 1.0, 0.5]
    assert list(found["worst"]) == [4.0, 2.0, np.inf]
    shift = comparisons.SHIFT
    expected = np.sqrt((2.0 + shift) * (9.0 + shift)) - shift
    assert found.loc["c", "shifted"] == pytest.approx(expected)


def test_a_data_profile_does_not_depend_on_who_takes_part():
    passes = over_problems(a=[5.0, 50.0, np.inf], b=[10.0, 10.0, 10.0])
    alone = comparisons.data_profile(passes[passes.index.get_level_values(2) == "a"])
    count, places, shares = comparisons.data_profile(passes)["a"]
    assert count == 3 and list(shares) == [0.0, 1 / 3, 2 / 3, 2 / 3]
    np.testing.assert_array_equal(places, alone["a"][1])


def test_speedups_and_profiles_by_hand():
    found = comparisons.speedups(pd.Series([1.0, 2.0, np.inf], index=["a", "b", "c"]))
    assert found.loc["a", "b"] == 2.0 and found.loc["b", "a"] == 0.5
    assert found.loc["c"].isna().all() and found["c"].isna().all()
    profile = comparisons.performance_profile(
        over_problems(a=[1.0, 4.0], b=[2.0, 1.0], c=[np.inf, 1.0]), most=10.0
    )

    def share(name, factor):
        _, places, shares = profile[name]
        return shares[np.searchsorted(places, factor, side="right") - 1]
    assert [share("a", factor) for factor in (1.0, 3.9, 4.0)] == [0.5, 0.5, 1.0]
    assert [share("c", factor) for factor in (1.0, 10.0)] == [0.5, 0.5]


# Looks ----------------------------------------------------------------------------------

def test_a_method_has_its_colour_and_marker_whoever_is_beside_it():
    alone = looks(["SDCA[m=1]"])["SDCA[m=1]"]
    beside = looks(["mine", "DSPDC[m=1]", "SDCA[m=1]", "SDCA[m=5]"])
    assert beside["SDCA[m=1]"] == alone
    assert beside["SDCA[m=5]"].symbol == alone.symbol
    assert beside["SDCA[m=5]"] != alone
    assert len(set(LOOKS.values())) == len(LOOKS)
    assert len({look.for_matplotlib()["linestyle"] for look in beside.values()}) == 2
    assert len({look.for_benchopt()["color"] for look in beside.values()}) == 4


def test_every_method_of_ours_has_a_look_and_a_family():
    from benchmark_dspdc.methods import METHODS

    known = {name.lower().replace("-", "_") for name in LOOKS}
    assert set(METHODS) <= known
    assert {cls.family for cls in METHODS.values()} <= set(FAMILIES) - {"other", "peer"}


# The table in a terminal ----------------------------------------------------------------

def printed(function, *arguments):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    function(*arguments, console)
    return console.file.getvalue()


@pytest.fixture
def file(tmp_path):
    long = "DSPDC[m=auto,q=auto,sampling=subset,Lambda=heuristic,probabilities=importance]"
    frame = runs(
        *seeds(long, (0.01, 0.012, 0.011), objective_block_rows=112, objective_block_columns=100),
        *seeds("SPDC[m=1]", (0.2, 0.24, 0.22)), *seeds("SDCA[m=1]", (0.3, 0.2, 0.3), to=1e-5),
    )
    frame.to_parquet(tmp_path / "r.parquet")
    return tmp_path / "r.parquet"


def test_tables_fit_80_columns_and_the_fastest_comes_first(file):
    text = printed(print_summary, [file])
    # But for the file, whose name is not broken.
    lines = [line for line in text.splitlines() if not line.startswith("results: ")]
    assert max(map(len, lines)) <= 80
    first = next(k for k, line in enumerate(lines) if line.startswith(" DSPDC["))
    assert first < next(k for k, line in enumerate(lines) if line.startswith(" SPDC["))
    assert " *" in lines[first]
    assert "took m=112, q=100" in text
    assert "medians of 3 runs" in text
    # What did not get to 1e-6 says how far it got.
    (slow,) = (line for line in lines if line.startswith(" SDCA["))
    assert "gap " in slow and " - " in slow


def test_names_are_broken_after_commas_alone():
    lines = broken("DSPDC[m=1,q=0.5,sampling=subset,Lambda=heuristic]").split("\n")
    assert "".join(line.strip() for line in lines).count(",") == 3
    assert all(line.rstrip().endswith((",", "]")) for line in lines)
    assert max(map(len, lines)) <= NAMES_WIDTH + 2


def test_a_run_ends_with_who_won_and_where_the_pages_are(file):
    (file.parent / "benchmark_r.html").write_text("")
    text = printed(print_answer, file, "outputs/report/report.html")
    assert text.startswith("fastest: Factorized[")
    assert "report:  outputs/report/report.html" in text
    assert "needs the web" in text.splitlines()[-1]


def test_ties_are_marked_as_such(tmp_path):
    frame = runs(*seeds("SPDC[m=1]", (0.1, 0.2)), *seeds("SDCA[m=1]", (0.2, 0.11)))
    frame.to_parquet(tmp_path / "r.parquet")
    text = printed(print_summary, [tmp_path / "r.parquet"])
    tables = text.split("seconds to a relative gap")[0]
    assert tables.count(" =") == 2 and " *" not in tables
    answer = printed(print_answer, tmp_path / "r.parquet", "x")
    assert "(to 1e-6, tied with 1 more)" in answer.replace("\n", " ")


def test_medians_and_winners_speak_of_the_same_times(file):
    frame = pd.read_parquet(file)
    found = to_targets(frame, GAPS).sort_index().loc[factorized(), ELASTIC]
    won = comparisons.winner(found)
    middle = medians(to_targets(frame, GAPS)).droplevel([0, 1])
    assert won.seconds == middle[f"seconds to {won.gap:.0e}"].min()

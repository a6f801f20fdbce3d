"""Results, verdicts, figures and the page, on result files made by hand."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from conftest import REPO, make_problem
from frames import ELASTIC, EXACT, MATRIX, STATED, curve, factorized, runs, seeds
from rich.console import Console

from benchmark_dspdc import constants, reproduce
from benchmark_dspdc.cli import main
from benchmark_dspdc.report import figures, verdicts
from benchmark_dspdc.report.complexity import compare
from benchmark_dspdc.report.page import page_data, write_page
from benchmark_dspdc.report.report import write_report
from benchmark_dspdc.report.results import (
    GAP,
    PRIMAL_GAP,
    UNCERTAINTY,
    band,
    best_values,
    label,
    mean_points,
    medians,
    parse,
    performance_profile,
    read_results,
    speedups,
    thinned,
    titles,
    to_targets,
    unfinished,
    with_primal_gap,
)
from benchmark_dspdc.report.trend import write_trend
from benchmark_dspdc.report.verdicts import FAILS, HOLDS, UNKNOWN, judge


@pytest.fixture
def typical():
    return runs(
        *seeds(STATED, (0.1, 0.11, 0.12)), *seeds("SPDC[m=1]", (0.2, 0.24, 0.22)),
        *seeds("SDCA[m=1]", (0.3, 0.3, 0.3), to=1e-5),
        *seeds("DSPDC[m=auto,q=auto]", (0.01, 0.01, 0.01), objective_test_accuracy=0.9),
    )


def write(frame, file):
    frame.to_parquet(file)
    return file


# Reading ----------------------------------------------------------------------------

def test_runs_in_several_files_are_those_of_the_last(tmp_path):
    one = write(runs(curve("SPDC[m=1]", 1.0), curve("SDCA[m=1]", 1.0)), tmp_path / "1.parquet")
    two = write(runs(curve("SPDC[m=1]", 0.5)), tmp_path / "2.parquet")
    frame = read_results([one, two])
    table = to_targets(frame, (1e-2,)).droplevel([0, 1, 3])
    assert len(table) == 2
    assert table.loc["SPDC[m=1]", "seconds to 1e-02"] == pytest.approx(1.0, abs=0.1)
    assert "1 runs are left out because a file named later" in frame.attrs["notes"][0]


def test_runs_that_diverge_are_left_out_and_named(tmp_path):
    broken = curve("SAGA[m=1]", 1e-6)
    broken.loc[30:, GAP] = np.nan
    frame = read_results([write(runs(curve("SPDC[m=1]", 1.0), broken), tmp_path / "r.parquet")])
    # It was the fastest until then, and does not win.
    assert list(frame["solver_name"].unique()) == ["SPDC[m=1]"]
    assert "1 runs diverged and are left out: SAGA[m=1] on" in frame.attrs["notes"][0]


def test_methods_without_a_result_on_some_problem_are_named(tmp_path):
    frame = runs(curve("SPDC[m=1]", 1.0), curve("SPDC[m=1]", 1.0, factorized(p=7)),
                 curve("SAGA[m=1]", 1.0))
    notes = read_results([write(frame, tmp_path / "r.parquet")]).attrs["notes"]
    assert len(notes) == 1
    assert "r.parquet has no result of 1 pairs" in notes[0] and "p=7" in notes[0]


def test_points_without_a_gap_are_left_out_and_named(tmp_path):
    broken = curve("SAGA[m=1]", 1.0)
    broken.loc[:29, GAP] = np.inf
    frame = read_results([write(runs(curve("SPDC[m=1]", 1.0), broken), tmp_path / "r.parquet")])
    assert len(frame) == 90
    assert "30 points without a finite gap" in frame.attrs["notes"][0]
    assert "SAGA" in frame.attrs["notes"][0]


def bad_files(folder):
    good = write(runs(curve("SPDC[m=1]", 1.0)), folder / "good.parquet")
    (folder / "text.parquet").write_text("no parquet")
    (folder / "cut.parquet").write_bytes(good.read_bytes()[:2000])
    (folder / "none.parquet").write_bytes(b"")
    write(pd.DataFrame({"a": [1, 2]}), folder / "other.parquet")
    write(runs(curve("SPDC[m=1]", 1.0)).iloc[:0], folder / "empty.parquet")
    write(runs(curve("SPDC[m=1]", 1.0)).assign(time="x"), folder / "words.parquet")
    write(runs(curve("SPDC[m=1]", 1.0)).assign(**{GAP: np.nan}), folder / "nan.parquet")
    return {
        "missing.parquet": "no such file", "text.parquet": "not a readable parquet",
        "cut.parquet": "not a readable parquet", "none.parquet": "not a readable parquet",
        "other.parquet": "is not a result of this benchmark", "empty.parquet": "has no rows",
        "words.parquet": "column time holds", "nan.parquet": "no point has a finite gap",
    }


def test_bad_files_end_with_one_line_and_code_2(tmp_path, capsys):
    for name, message in bad_files(tmp_path).items():
        for command in (["summary"], ["report", "-o", str(tmp_path / "out")]):
            assert main([*command, str(tmp_path / name)]) == 2
            error = capsys.readouterr().err
            assert message in error, name
            assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_names_are_taken_apart():
    assert parse("DSPDC[m=1,q=0.5,Lambda=heuristic]") == (
        "DSPDC", dict(m=1, q=0.5, Lambda="heuristic")
    )
    assert parse("FISTA") == ("FISTA", {})
    assert parse("a[b=True,c=None,d=1e-06,e=-3,f=covtype.binary]")[1] == dict(
        b=True, c=None, d=1e-6, e=-3, f="covtype.binary"
    )
    # What Python would compute with is a word here.
    for text in ("1_0", "0x10", "()", "{}", "'x'", "1+2j", "-" * 5000 + "1", "9" * 31, "\u0663"):
        assert parse(f"a[b={text}]")[1] == dict(b=text)
    assert [label(t) for t in (1e-2, 1e-6, 5e-3)] == ["1e-2", "1e-6", "0.005"]


# Numbers ----------------------------------------------------------------------------

def test_times_to_targets_are_those_of_the_first_point_there(typical):
    found = to_targets(typical, (1e-2, 1e-4, 1e-6))
    for key, run in typical.groupby(["dataset_name", "objective_name", "solver_name", "idx_rep"]):
        for target in (1e-2, 1e-4, 1e-6):
            reached = run[run[GAP] <= target]
            row = found.loc[key]
            for work, column in (("seconds", "time"), ("passes", "objective_passes"),
                                 ("iterations", "objective_iterations")):
                expected = reached.iloc[0][column] if len(reached) else np.nan
                assert row[f"{work} to {target:.0e}"] == pytest.approx(expected, nan_ok=True)
    middle = medians(found).droplevel([0, 1])
    assert middle.loc["SDCA[m=1]", "seconds to 1e-06"] == np.inf
    assert middle.loc["SDCA[m=1]", "final gap"] == pytest.approx(1e-5)


def test_the_best_value_and_what_is_not_known_of_it(typical):
    best = best_values(typical).iloc[0]
    assert best["star"] == pytest.approx(1.0 + 1e-8)
    assert best["uncertainty"] == pytest.approx(1.1e-8)
    frame = with_primal_gap(typical)
    assert (frame[PRIMAL_GAP] >= 0).all()
    assert frame[PRIMAL_GAP].max() == pytest.approx(1.0)
    assert (frame[UNCERTAINTY] == best["uncertainty"]).all()


def test_bands_are_medians_and_quantiles_of_steps():
    points = pd.DataFrame(dict(
        idx_rep=[0, 0, 0, 1, 1, 2], time=[0.0, 1.0, 3.0, 0.5, 2.0, 0.0],
        objective_relative_gap=[9.0, 5.0, 1.0, 8.0, 4.0, 7.0],
    ))
    found = band(points, "time", GAP).set_index("x")
    # At 2.5 none begins; at 2: 5 of the first, 4 of the second, 7 of the third.
    assert list(found.index) == [0.5, 1.0, 2.0, 3.0]
    assert found.loc[2.0, "median"] == 5.0
    assert found.loc[3.0, "median"] == 4.0
    assert found.loc[0.5, "low"] == pytest.approx(np.quantile([9, 8, 7], 0.1))
    assert found.loc[0.5, "high"] == pytest.approx(np.quantile([9, 8, 7], 0.9))
    assert len(band(points.iloc[:0], "time", GAP)) == 0
    assert len(band(curve("SPDC[m=1]", 1.0), "time", GAP, points=10)) == 10
    assert list(thinned(5, 3)) == [0, 2, 4]
    assert list(thinned(2, 9)) == [0, 1]


def test_speedups_and_profiles_by_hand():
    seconds = pd.Series([1.0, 2.0, np.inf], index=["a", "b", "c"])
    found = speedups(seconds)
    assert found.loc["a", "b"] == 2.0
    assert found.loc["b", "a"] == 0.5
    assert np.isnan(found.loc["a", "c"])
    index = pd.MultiIndex.from_tuples([
        ("d1", "o", "a"), ("d1", "o", "b"), ("d2", "o", "a"), ("d2", "o", "b"), ("d3", "o", "a"),
        ("d3", "o", "b"),
    ])
    times = pd.Series([1.0, 3.0, 4.0, 2.0, np.inf, np.inf], index=index)
    profile = performance_profile(times, most=10.0)
    # The third problem is solved by none, so it says nothing.
    assert profile["a"][0] == profile["b"][0] == 2

    def share(name, factor):
        _, factors, shares = profile[name]
        return shares[np.searchsorted(factors, factor, side="right") - 1]
    assert [share("a", f) for f in (1.0, 1.9, 2.0, 10.0)] == [0.5, 0.5, 1.0, 1.0]
    assert [share("b", f) for f in (1.0, 2.9, 3.0)] == [0.5, 0.5, 1.0]


def test_predicted_gaps_begin_at_the_first_and_fall_by_the_rate():
    points = mean_points(curve("DSPDC[m=1,q=1]", 1.0).assign(objective_predicted_rate=0.01))
    assert points["predicted"].iloc[0] == points["measured"].iloc[0] == 2.0
    assert points["predicted"].iloc[3] == pytest.approx(2.0 * 0.99 ** 300)


# Verdicts ---------------------------------------------------------------------------

def verdict(frame, key):
    return next(found for found in judge(frame) if found.key == key)


def findings(frame, key):
    return {(f.setting, f.variant): f for f in verdict(frame, key).findings}


def test_a_claim_holds_with_the_ratios_of_the_seeds(typical):
    found = verdict(typical, "figure 1")
    measured = [f for f in found.findings if f.outcome != UNKNOWN]
    assert {f.variant for f in measured} == {
        f"{STATED} over SPDC[m=1]", f"{STATED} over SDCA[m=1]"
    }
    assert found.outcome == HOLDS
    spdc = next(f for f in measured if "SPDC[m=1]" in f.variant)
    assert [r.gap for r in spdc.ratios] == [1e-2, 1e-4, 1e-6]
    assert spdc.ratios[0].median == pytest.approx(2.0, rel=0.05)
    assert spdc.ratios[0].low == pytest.approx(0.22 / 0.12, rel=0.05)
    assert spdc.ratios[0].high == pytest.approx(0.24 / 0.11, rel=0.05)
    assert spdc.ratios[0].seeds == 3
    # SDCA does not get to 1e-6.
    sdca = next(f for f in measured if "SDCA" in f.variant)
    assert [r.bound for r in sdca.ratios] == ["", "", "at least "]
    # The other five settings of the figure are not there, which is said.
    assert sum(f.outcome == UNKNOWN for f in found.findings) == 5


def test_one_seed_of_three_decides():
    for slow, outcome in ((0.09, FAILS), (0.2, HOLDS)):
        frame = runs(*seeds(STATED, (0.1, 0.1, 0.1)), *seeds("SPDC[m=1]", (slow, 0.2, 0.2)),
                     *seeds("SDCA[m=1]", (1.0, 1.0, 1.0)))
        found = findings(frame, "figure 1")
        key = next(k for k in found if k[1].endswith("SPDC[m=1]"))
        assert found[key].outcome == outcome
        assert verdict(frame, "figure 1").outcome == outcome


def test_the_fastest_variant_of_a_rival_with_the_same_m_is_taken():
    frame = runs(
        curve(STATED, 0.1), curve("SDCA[m=1,order=random]", 0.5), curve("SDCA[m=1]", 0.05),
        curve("SDCA[m=100]", 0.01), curve("SPDC[m=1]", 0.2),
    )
    found = findings(frame, "figure 1")
    assert any(k[1] == f"{STATED} over SDCA[m=1]" for k in found)
    assert not any("m=100" in k[1] or "random" in k[1] for k in found)


def test_what_no_run_reached_is_not_measured():
    frame = runs(curve(STATED, 0.1, to=0.1), curve("SPDC[m=1]", 0.1), curve("SDCA[m=1]", 0.1))
    found = verdict(frame, "figure 1")
    assert found.outcome == UNKNOWN
    assert any("no stated gap tells which is faster" in f.reason for f in found.findings)


def test_ties_and_slower_methods_are_claims_too():
    data = "LIBSVM[d=20,name=real-sim,reduction=feature]"
    for decade, outcome in ((0.1, HOLDS), (0.5, FAILS)):
        frame = runs(curve(EXACT, 0.1, data), curve("SPDC[m=1]", decade, data),
                     curve("SDCA[m=1]", 9.0, data))
        assert verdict(frame, "figure 2").outcome == outcome
    for decade, outcome in ((0.1, HOLDS), (0.5, FAILS)):
        dense = factorized(materialize=True)
        frame = runs(curve(EXACT, 0.1, dense), curve("SPDC[m=1]", decade, dense))
        assert verdict(frame, "dense").outcome == outcome


def test_eigendecompositions_an_iteration_and_numbers_of_iterations():
    data = "MatrixRisk[d=100,n=100,p=100,random_state=0]"
    for eigs, outcome in ((5.0, HOLDS), (50.0, FAILS)):
        frame = runs(
            curve("DSPDC[m=50,q=5,Lambda=partition]", 0.1, data, MATRIX, eigs=eigs),
            curve("SPDC[m=50,steps=dspdc]", 0.2, data, MATRIX, eigs=100.0),
        )
        assert verdict(frame, "eigendecompositions").outcome == outcome
    assert "q/p = 0.050" in verdict(frame, "eigendecompositions").findings[0].reason


def test_the_condition_of_section_5_2_is_looked_at_first():
    data = "MatrixRisk[d=100,n=100,p=100,random_state=0]"
    for entry, outcome in ((1.0, HOLDS), (1e4, UNKNOWN)):
        known = dict(objective_Lambda_11=entry, objective_Lambda_p1=100.0)
        frame = runs(
            curve("DSPDC[m=50,q=5,Lambda=partition]", 0.1, data, MATRIX, **known),
            curve("SPDC[m=50]", 0.2, data, MATRIX, **known),
        )
        assert verdict(frame, "condition").outcome == outcome


def test_the_order_of_the_tables_is_that_of_the_predictions():
    data, objective = factorized(n=60, p=12, d=4), ELASTIC
    solvers = {"DSPDC[m=1,q=1,Lambda=partition]": 1.0, "SPDC[m=1]": 1.0, "SAGA[m=1]": 1.0}
    frame = runs(*(curve(name, decade, data, objective) for name, decade in solvers.items()))
    found = verdict(frame, "tables")
    assert found.outcome in (HOLDS, FAILS)
    assert re.search(r"\d of \d clearly ordered pairs", found.findings[0].reason)


def test_claims_that_nothing_was_run_for_are_not_measured():
    frame = runs(curve("FISTA", 0.1, "Sparse[n=10]"))
    found = judge(frame)
    assert len(found) == len(verdicts.CLAIMS)
    assert {v.outcome for v in found} == {UNKNOWN}
    assert all(f.reason for v in found for f in v.findings)


@pytest.mark.parametrize("dataset", [
    "MatrixRisk", "MatrixRisk[n=x,p=0,d=]", "MatrixRisk[n=100,p=100,d=x]", "MTLMNN", "LIBSVM",
    "LIBSVM[reduction=feature]", "Factorized", "Factorized[n=1e400,p=,d=[]]",
])
@pytest.mark.parametrize("more", [
    dict(objective_Lambda_11=-1.0, objective_Lambda_p1=np.nan, objective_block_columns=np.inf),
    dict(objective_Lambda_11=1.0, objective_Lambda_p1=1.0, objective_block_columns=0.0),
])
def test_names_that_lack_what_a_claim_needs_are_not_measured(dataset, more):
    solvers = ("DSPDC[m=1,q=x]", "DSPDC[m=1,q=-1]", "DSPDC[m=1,q=nan]", "DSPDC[m=5,q=50]",
               "DSPDC[m=1,q=1]", "SPDC[m=1,steps=dspdc]", "SPDC[m=5,steps=dspdc]", "SDCA[m=1]")
    frame = runs(*(curve(name, 0.1, dataset, MATRIX, eigs=1.0, **more) for name in solvers))
    found = {v.key: v for v in judge(frame)}
    assert found["condition"].outcome == found["tables"].outcome == UNKNOWN
    page_data(frame, "run", list(found.values()))
    figures._grid_2([(parse(dataset), {}, None)])


def test_options_in_a_file_that_are_none_are_named_and_not_passed_on():
    solvers = ("DSPDC[eps=1,method=sdca]", "SDCA[problem=3]", "SPDC[m=1,theorem=x]", "DSPDC[m=x]")
    reasons = ("has no option 'eps'", "has no option 'problem'", "", "m must be")
    frame = runs(*(curve(name, 0.1, factorized(20, 5, 2)) for name in solvers))
    frame["p_solver_theorem"] = "many"
    problem = make_problem("factorized")
    compared = compare(problem, frame, 1e-4, constants(problem))
    assert [row["solver"] for row in compared] == list(solvers)
    for row, reason in zip(compared, reasons, strict=True):
        assert reason in (row["note"] or "")


# Figures ----------------------------------------------------------------------------

def test_a_figure_over_what_no_file_has_is_refused(typical, tmp_path):
    frame = typical.drop(columns="objective_coordinate_updates")
    with pytest.raises(ValueError, match="nothing to draw over coordinate updates: the result"):
        figures.gap_curves(frame, tmp_path / "gaps.png", "updates")


def test_curves_with_nothing_above_zero_are_drawn_empty(tmp_path):
    frame = runs(curve(STATED, 0.1).assign(time=0.0, objective_value=0.0))
    figures.gap_curves(frame, tmp_path / "gaps.png")
    assert (tmp_path / "gaps.png").exists()
    assert len(figures.paper_figures(frame, tmp_path)) == 1

def test_the_papers_figures_are_drawn_from_what_is_there(typical, tmp_path):
    risk = "MatrixRisk[d=100,n=100,p=100,random_state=0]"
    metric = "MTLMNN[source=aloi_like]"
    reduced = "LIBSVM[d=20,name=news20,reduction=feature]"
    frame = runs(
        typical, curve("DSPDC[m=5,q=50,Lambda=partition]", 0.1, risk, MATRIX),
        curve("SPDC[m=5]", 0.1, risk, MATRIX), curve("DSPDC[m=2000,q=0.2]", 0.1, metric, MATRIX),
        curve("SDCA[m=1000]", 0.1, reduced),
    )
    written = figures.paper_figures(frame, tmp_path)
    assert [file.stem for file in written] == [
        "figure1", "figure2", "figure3", "figure4_aloi_like"
    ]
    for file in written:
        assert file.stat().st_size > 5000
        svg = file.with_suffix(".svg").read_text()
        assert svg.startswith("<?xml") or "<svg" in svg
    assert figures.paper_figures(runs(curve("FISTA", 0.1, "Sparse[n=10]")), tmp_path) == []
    # The same data in another comparison are not figure 1.
    assert figures.paper_figures(runs(curve("SPDC[m=1]", 0.1)), tmp_path) == []


def test_every_solver_of_the_configs_has_a_role_in_the_figures():
    for name, role in {
        STATED: "DSPDC, as the paper states", EXACT: "DSPDC, partitions",
        "SDCA[m=1,order=random]": "SDCA, random order",
        "DSPDC[m=auto,q=auto]": "DSPDC, auto",
        "DSPDC[m=auto,q=auto,adaptive=True]": "DSPDC, auto and adaptive", "SPDC[m=1]": "SPDC",
        "SPDC[m=5,steps=dspdc]": "SPDC, DSPDC's steps", "SDCA[m=1]": "SDCA", "FISTA": None,
        "scipy-lbfgs": None,
    }.items():
        assert figures._role(name) == role
    assert len({look for look in figures.ROLES.values()}) == len(figures.ROLES)


# The page ---------------------------------------------------------------------------

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror=alert(1)>"


def test_names_cannot_leave_their_place_in_the_page(tmp_path):
    frame = runs(curve(HOSTILE, 0.1), curve("SPDC[m=1]", 0.1, HOSTILE))
    write_page(frame, tmp_path / "page.html", HOSTILE)
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "window.hacked" in text
    assert "<script>window.hacked" not in text
    assert "<img src=x" not in text
    embedded = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert HOSTILE in json.loads(embedded)["styles"]


def test_the_page_asks_no_host_for_anything(typical, tmp_path):
    write_page(typical, tmp_path / "page.html", "run.parquet")
    text = (tmp_path / "page.html").read_text("utf-8")
    own = text.split('id="data"')[0]
    assert not re.search(r'(?:src|href)\s*=\s*"(?!#)', own)
    assert "@import" not in own and "url(" not in own


def test_the_page_has_all_views(typical):
    data = page_data(typical.assign(objective_predicted_rate=0.01), "run", judge(typical))
    problem = data["problems"][0]
    assert set(problem["curves"]) == {
        "relative gap", "own gap", "primal gap", "accuracy on the test data"
    }
    assert set(problem["curves"]["relative gap"]["by"]) == {"seconds", "passes", "updates"}
    assert data["gaps"] == ["1e-2", "1e-4", "1e-6"]
    target = problem["targets"][0]
    assert target["best"] == min(row["seconds"] for row in target["rows"])
    assert target["speedups"]["solvers"][0] == "DSPDC[m=auto,q=auto]"
    assert target["speedups"]["values"][0][0] == 1.0
    assert len(data["rates"]) == 1
    assert len(data["verdicts"]) == len(verdicts.CLAIMS)
    json.dumps(data, allow_nan=False)


def test_titles_are_short_and_tell_problems_apart():
    other = ELASTIC.replace("0.01", "0.1")
    found = titles([(factorized(), ELASTIC), (factorized(), other), (factorized(n=9), ELASTIC)])
    assert list(found.values()) == [
        "Factorized[d=20, n=5000, p=100] lambda2=0.01",
        "Factorized[d=20, n=5000, p=100] lambda2=0.1", "Factorized[d=20, n=9, p=100] lambda2=0.01",
    ]
    assert titles([("a[b=1,c]", "o"), ("a[b=1,d]", "o")]) == {
        ("a[b=1,c]", "o"): "a[b=1,c], o", ("a[b=1,d]", "o"): "a[b=1,d], o"
    }


def test_a_single_repetition_is_said_to_be_one():
    data = page_data(runs(curve("SPDC[m=1]", 0.1)), "run", [])
    assert "Every run was made once" in data["notes"][0]


def test_files_of_earlier_versions_are_shown_without_what_they_lack(tmp_path):
    frame = runs(curve("SPDC[m=1]", 0.1)).drop(columns=[
        "objective_predicted_rate", "objective_iterations", "objective_coordinate_updates",
        "objective_eigendecompositions",
    ])
    file = write(frame, tmp_path / "old.parquet")
    write_report([file], tmp_path / "out", Console(quiet=True))
    assert (tmp_path / "out" / "report.html").exists()


def test_report_writes_a_page_and_says_so(typical, tmp_path, capsys):
    file = write(typical, tmp_path / "run.parquet")
    assert main(["report", str(file), "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "the paper's claims" in shown
    assert "holds" in shown
    assert (tmp_path / "out" / "report.html").stat().st_size > 1e6
    assert (tmp_path / "out" / "figure1.png").exists()


# In a browser ------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

#: Goes through every choice of every view and leaves what it found in the page.
PROBE = """
<script>
window.addEventListener("error", event => { (window.faults ||= []).push(event.message); });
window.addEventListener("load", async () => {
  const seen = {choices: 0, empty: [], faults: []};
  const wait = () => new Promise(done => setTimeout(done, 30));
  try {
    await wait();
    for (const list of document.querySelectorAll("select")) {
      for (let k = 0; k < list.options.length; k++) {
        list.selectedIndex = k;
        list.dispatchEvent(new Event("change"));
        await wait();
        seen.choices++;
        const section = list.id.split("-")[0];
        if (!drawn[section]) seen.empty.push(list.id + " " + list.options[k].text);
      }
      list.selectedIndex = 0;
      list.dispatchEvent(new Event("change"));
    }
    await wait();
    seen.plots = [...document.querySelectorAll(".plot")].map(
      box => [box.id, box.querySelectorAll("svg.main-svg").length,
              box.querySelectorAll(".trace, .point, .hm").length]);
    seen.ready = window.ready === true;
    seen.tables = document.querySelectorAll("table").length;
    seen.hacked = window.hacked === 1;
  } catch (error) { seen.faults.push(String(error)); }
  seen.faults.push(...(window.faults || []));
  const box = document.createElement("pre");
  box.id = "seen";
  box.textContent = JSON.stringify(seen);
  document.body.append(box);
});
</script>
"""


def looked_at(page, folder):
    """Open a page in a browser without a network; returns what the probe saw."""
    text = page.read_text("utf-8")
    page.write_text(text.replace("<head>", "<head>" + PROBE, 1), "utf-8")
    log = folder / "net.json"
    done = subprocess.run([
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--log-net-log={log}",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=60000", "--dump-dom",
        page.as_uri(),
    ], capture_output=True, text=True, timeout=240, check=True)
    assert "CONSOLE" not in done.stderr, re.findall(r".*CONSOLE.*", done.stderr)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:]
    seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert seen["faults"] == []
    assert seen["ready"] and not seen["hacked"]
    assert seen["empty"] == []
    for name, drawings, marks in seen["plots"]:
        assert drawings > 0 and marks > 0, name
    requested = re.findall(r'"url":"(https?://[^"]*)"', log.read_text())
    assert [url for url in requested if page.name in url or "plot" in url] == []
    return seen


in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@in_a_browser
def test_every_view_draws_in_a_browser_without_a_network(typical, tmp_path):
    frame = runs(
        typical.assign(objective_predicted_rate=0.001),
        *seeds("SPDC[m=1]", (0.1, 0.2, 0.3), dataset=HOSTILE),
        *seeds("DSPDC[m=1,q=1]", (0.1, 0.2, 0.3), dataset=HOSTILE),
    )
    write_page(frame, tmp_path / "page.html", "run.parquet")
    seen = looked_at(tmp_path / "page.html", tmp_path)
    assert seen["choices"] >= 25
    assert len(seen["plots"]) == 5


@in_a_browser
def test_a_trend_draws_in_a_browser_without_a_network(tmp_path):
    for day in range(8):
        frame = runs(
            *seeds("SPDC[m=1]", (0.1, 0.1) if day < 4 else (0.2, 0.2), dataset=HOSTILE),
            *seeds("SDCA[m=1]", (0.1, 0.1), dataset=factorized()),
        )
        frame["objective_reference_seconds"] = 1e-3
        write(frame.assign(run_date=f"2026-03-0{day + 1}"), tmp_path / f"<b>{day}.parquet")
    made = write_trend([tmp_path], tmp_path / "trend.html")
    assert [row["change"] for row in made["changes"]] == [pytest.approx(1.0, abs=0.05)]
    seen = looked_at(tmp_path / "trend.html", tmp_path)
    assert seen["choices"] >= 6
    assert len(seen["plots"]) == 1 and seen["tables"] == 1


def test_what_is_not_finished_is_named_with_a_guess():
    frame = runs(
        *seeds("SPDC[m=1]", (0.2, 0.24, 0.22)), *seeds("SDCA[m=1]", (1.0, 1.0, 1.0), to=1e-2),
        *seeds("DSPDC[m=1,q=1]", (0.1, 0.1, 0.1), to=1.0),
        curve("SDCA[m=2]", 1.0, to=1e-2), *[curve("SDCA[m=2]", 1.0, rep=k) for k in (1, 2)],
    )
    left = unfinished(frame)
    assert [key[2] for key in left.index] == ["SDCA[m=1]", "DSPDC[m=1,q=1]"]
    assert left["gap"].tolist() == pytest.approx([1e-2, 1.0])
    # A decade a second: three of them, of which two were made.
    assert left["needed"].tolist() == pytest.approx([3.0, np.inf], rel=0.01)
    shown = page_data(frame, "", [])["unfinished"]
    assert shown["gap"] == "1e-3"
    assert [row[1] for row in shown["rows"]] == ["SDCA[m=1]", "DSPDC[m=1,q=1]"]
    assert shown["rows"][1][4] is None
    assert unfinished(frame, 1e-9).shape[0] == 4


def test_a_gap_that_only_one_reached_counts_if_the_other_had_time_enough():
    def finding(fast, slow):
        frame = runs(*seeds(STATED, fast[0], to=fast[1]), *seeds("SPDC[m=1]", slow[0], to=slow[1]))
        problem = judge(frame)[0].findings[0]
        assert problem.variant == f"{STATED} over SPDC[m=1]"
        return problem
    # Ten seconds a decade for three of them: 30 s without getting to 1e-4.
    found = finding(((1.0, 1.0), 1e-8), ((10.0, 10.0), 1e-3))
    assert [str(ratio)[:13] for ratio in found.ratios] == [
        "1e-2: 10.00 (", "1e-4: at leas", "1e-6: at leas"
    ]
    assert found.outcome == HOLDS and found.ratios[1].median == pytest.approx(7.5, rel=0.05)
    # The other way round.
    found = finding(((10.0, 10.0), 1e-3), ((1.0, 1.0), 1e-8))
    assert found.outcome == FAILS and found.ratios[2].bound == "at most "
    # It had less time than the other took: nothing is known of that gap.
    found = finding(((1.0, 1.0), 1e-8), ((1.1, 1.1), 1e-3))
    assert [ratio.gap for ratio in found.ratios] == [1e-2]
    assert "only DSPDC" in found.reason and "1e-4, 1e-6" in found.reason


# The budget -------------------------------------------------------------------------

def test_budgets_are_times():
    assert [reproduce.seconds(t) for t in ("20m", "2h", "90", "1.5 min", "30s")] == [
        1200.0, 7200.0, 90.0, 90.0, 30.0
    ]
    for text in ("", "soon", "-3m", "0", "3 days"):
        with pytest.raises(ValueError, match="the budget must be a time"):
            reproduce.seconds(text)


def test_a_plan_depends_on_the_budget_and_the_data_at_hand_alone(home):
    steps, left_out = reproduce.plan(1200.0)
    assert [step.figure for step in steps] == [
        "dense", "tables", "figure1", "figure3", "figure3", "figure4"
    ]
    assert len(left_out) == 4 and "figure 2 is left out" in left_out[0]
    assert steps[5].only == ("-d", "MTLMNN[source=aloi_like]")
    assert steps == reproduce.plan(1200.0)[0]
    with_all, left_out = reproduce.plan(1200.0, download=True)
    assert [step.timeout for step in with_all] == [part.seconds for part in reproduce.PARTS]
    assert len(left_out) == 2 and "figure4_short.yml is run" in left_out[1]
    long, left_out = reproduce.plan(7200.0, download=True)
    assert left_out == []
    assert [step.config.stem for step in long] == [part.config for part in reproduce.PARTS]
    assert [step.timeout for step in long] == pytest.approx(
        [6.0 * part.seconds for part in reproduce.PARTS]
    )


def test_parts_of_figures_choose_among_what_their_configs_have():
    for part in reproduce.PARTS:
        config = (REPO / "configs" / f"{part.config}.yml").read_text()
        for name in part.only[1::2]:
            kind, sizes = parse(name)
            assert kind in config
            given = next(parse(line) for line in config.splitlines() if f"- {kind}[" in line)[1]
            assert sizes.keys() == given.keys()


def test_unknown_figures_are_named():
    with pytest.raises(ValueError, match="--only must be of dense, tables, figure1"):
        reproduce.run(60.0, "out", only=["figure9"])

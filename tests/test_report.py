"""Results, verdicts, figures and the page, on result files made by hand."""

import io
import itertools
import json
import math
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from benchopt.benchmark import Benchmark
from benchopt.utils.sys_info import get_sys_info
from browser import LEAVE, in_a_browser, opened
from conftest import PAPER, REPO, make_problem
from frames import ELASTIC, EXACT, MATRIX, STATED, curve, factorized, runs, seeds
from rich.console import Console

from benchmark_dspdc.bench import paper_run
from benchmark_dspdc.bench.benchopt_process import (
    CURVE_HASH,
    CURVES,
    LIMITS,
    Run,
    versions,
)
from benchmark_dspdc.cli import main
from benchmark_dspdc.data import import_file
from benchmark_dspdc.guard.trend import write_trend
from benchmark_dspdc.report import claims, figures, results
from benchmark_dspdc.report.archive import ORIGIN
from benchmark_dspdc.report.claims import (
    AS_STATED,
    FAILS,
    HOLDS,
    PARTITIONS,
    SELF_TUNED,
    UNKNOWN,
    judge,
)
from benchmark_dspdc.report.page import page_data, write_page
from benchmark_dspdc.report.results import (
    ASKED,
    GAP,
    REFERENCE,
    SPENT,
    medians,
    parse,
    read_results,
    to_targets,
)


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


def read(frame, folder):
    return read_results([write(frame, folder / "r.parquet")])


RISK = "MatrixRisk[d=100,n=100,p=100,random_state=0]"
REDUCED = "LIBSVM[d=20,name={},reduction=feature]".format
#: Of figure 2.
WEAK = "ERM[lambda1=0.0001,lambda2=0.01,loss=smoothed_hinge]"


def on(dataset, objective, more=None, **decades):
    """A run of each solver on a problem, with how long a decade takes it."""
    names = dict(exact=EXACT, dspdc="DSPDC[m=50,q=5]", spdc="SPDC[m=1]", sdca="SDCA[m=1]",
                 spdc50="SPDC[m=50]", sdca50="SDCA[m=50]")
    return runs(*(
        curve(names[name], decade, dataset, objective, **(more or {}))
        for name, decade in decades.items()
    ))


def test_a_report_loads_no_kernel_and_no_benchopt():
    code = """
import sys
from benchmark_dspdc.report import claims, figures, page, report, summary
print({"numba", "benchopt", "benchmark_dspdc.methods"} & set(sys.modules))
"""
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert shown.stdout == "set()\n"


# Reading ----------------------------------------------------------------------------

def test_runs_in_several_files_are_those_of_the_last(tmp_path):
    one = write(runs(curve("SPDC[m=1]", 1.0), curve("SDCA[m=1]", 1.0)), tmp_path / "1.parquet")
    two = write(runs(curve("SPDC[m=1]", 0.5)), tmp_path / "2.parquet")
    frame = read_results([one, two])
    table = to_targets(frame, (1e-2,)).droplevel([0, 1, 3])
    assert len(table) == 2
    assert table.loc["SPDC[m=1]", "seconds to 1e-02"] == pytest.approx(1.0, abs=0.1)
    assert "1 runs are left out because a file named later" in frame.attrs["notes"][0]


def with_end(values, gaps, first=(0.5, 1.0)):
    """A run that would win, with other values and gaps at its end and its beginning."""
    found = curve("SAGA[m=1]", 1e-6, to=5e-5)
    value, gap = (list(found.columns).index(name) for name in ("objective_value", GAP))
    found["objective_value"] = 0.35 + 0.15 * found[GAP]
    found.iloc[0, [value, gap]] = first
    found.iloc[-len(values):, value], found.iloc[-len(gaps):, gap] = values, gaps
    return found


@pytest.mark.parametrize("broken", [
    with_end([0.35], [math.nan]),
    with_end([0.353, 1.22, 12.2, 252, 15761], [1e-3, 0.8, 1.0, 1.0, 1.0]),
    with_end([0.6], [0.3]),
    # Near at the beginning already.
    with_end([0.6], [0.3], first=(0.5, 0.02)),
    # Of bounds that say nothing there.
    with_end([1e4], [1e5], first=(0.5, 1e5)),
])
def test_a_run_that_ends_above_its_beginning_after_it_was_near_has_diverged(tmp_path, broken):
    frame = runs(curve("SPDC[m=1]", 1.0), broken, broken.assign(idx_rep=1))
    found = read(frame, tmp_path)
    assert list(found["solver_name"].unique()) == ["SPDC[m=1]"]
    assert "2 runs diverged and are left out: SAGA[m=1] on" in found.attrs["notes"][0]


@pytest.mark.parametrize("values, gaps, least, first", [
    # It rose, but not above its beginning.
    ([0.36, 0.49], [0.01, 0.9], 5e-5, (0.5, 1.0)),
    # A dual method in its early iterations, and one whose first bounds say nothing.
    ([0.4, 3.0, 0.54], [0.36, 1.0, 0.42], 0.36, (0.5, 0.5)),
    ([0.4, 9.0], [5.0, 900.0], 5.0, (0.5, 900.0)),
    # It moves about a level that it does not get below.
    ([0.51, 0.52], [0.01, 0.04], 0.01, (0.5, 1.0)),
    # By rounding, at the optimum.
    ([0.5 + 1e-12], [1e-12], 1e-14, (0.5, 1e-12)),
    # Where the optimum is next to zero, all begin near it.
    ([0.9], [0.5], 0.7, (0.5, 1e-3)),
])
def test_a_run_that_is_cut_at_a_bad_moment_has_not_diverged(tmp_path, values, gaps, least, first):
    cut = with_end(values, gaps, first)
    cut.loc[1:len(cut) - len(gaps) - 1, GAP] = least
    found = read(runs(cut), tmp_path)
    assert len(found) == len(cut) and found.attrs["notes"] == []


@pytest.mark.parametrize(("frame", "rows", "notes"), [
    (runs(curve("SPDC[m=1]", 1.0), curve("SPDC[m=1]", 1.0, factorized(p=7)),
          curve("SAGA[m=1]", 1.0)), 180, ("r.parquet has no result of 1 pairs", "p=7")),
    (runs(curve("SPDC[m=1]", 1.0), curve("SAGA[m=1]", 1.0).assign(
        **{GAP: lambda run: run[GAP].where(run["stop_val"] >= 30, np.inf)})), 90,
     ("30 points without a finite gap are left out: SAGA",)),
])
def test_what_a_file_lacks_is_named(tmp_path, frame, rows, notes):
    found = read(frame, tmp_path)
    (note,) = found.attrs["notes"]
    assert len(found) == rows and all(part in note for part in notes)


def bad_files(folder):
    good = runs(curve("SPDC[m=1]", 1.0))
    whole = write(good, folder / "good.parquet").read_bytes()
    for name, content in (("text", b"no parquet"), ("cut", whole[:2000]), ("none", b"")):
        (folder / f"{name}.parquet").write_bytes(content)
    for name, frame in (("other", good[["time"]]), ("empty", good[:0]),
                        ("words", good.assign(time="x")), ("nan", good.assign(**{GAP: np.nan}))):
        write(frame, folder / f"{name}.parquet")
    return dict(
        missing="benchmark_dspdc: error: no such file", text="not a readable parquet",
        cut="not a readable parquet", none="not a readable parquet", empty="has no rows",
        other="is not a result of this benchmark", words="column time holds",
        nan="no point has a finite gap",
    )


def test_bad_files_end_with_one_line_and_code_2(tmp_path, capsys):
    for name, message in bad_files(tmp_path).items():
        for command in (["summary"], ["report", "-o", str(tmp_path / "out")]):
            assert main([*command, str(tmp_path / f"{name}.parquet")]) == 2
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
    assert [results.label(t) for t in (1e-2, 1e-6, 5e-3)] == ["1e-2", "1e-6", "0.005"]


# Numbers ----------------------------------------------------------------------------

def test_times_to_targets_are_those_of_the_first_point_there(typical):
    found = to_targets(typical, results.GAPS)
    for (key, run), target in itertools.product(typical.groupby(results.RUN), results.GAPS):
        reached = run[run[GAP] <= target]
        for work, column in (("seconds", "time"), ("passes", "objective_passes"),
                             ("iterations", "objective_iterations")):
            expected = reached.iloc[0][column] if len(reached) else np.nan
            assert found.loc[key, f"{work} to {target:.0e}"] == pytest.approx(
                expected, nan_ok=True)
    middle = medians(found).droplevel([0, 1])
    assert middle.loc["SDCA[m=1]", "seconds to 1e-06"] == np.inf
    assert middle.loc["SDCA[m=1]", "final gap"] == pytest.approx(1e-5)


def test_the_best_value_and_what_is_not_known_of_it(typical):
    frame = results.with_primal_gap(typical)
    assert (frame[results.PRIMAL_GAP] >= 0).all()
    assert frame[results.PRIMAL_GAP].max() == pytest.approx(1.0)
    np.testing.assert_allclose(frame["objective_value"] - frame[results.PRIMAL_GAP], 1.0 + 1e-8)
    np.testing.assert_allclose(frame[results.UNCERTAINTY], 1.1e-8)


def test_bands_are_medians_and_quantiles_of_steps():
    points = pd.DataFrame(dict(
        idx_rep=[0, 0, 0, 1, 1, 2], time=[0.0, 1.0, 3.0, 0.5, 2.0, 0.0],
        objective_relative_gap=[9.0, 5.0, 1.0, 8.0, 4.0, 7.0],
    ))
    found = results.band(points, "time", GAP).set_index("x")
    # From where half have begun; at 2: 5 of the first, 4 of the second, 7 of the third.
    assert list(found.index) == [0.0, 0.5, 1.0, 2.0, 3.0]
    assert found.loc[0.0, "median"] == 8.0
    assert found.loc[2.0, "median"] == 5.0
    assert found.loc[3.0, "median"] == 4.0
    assert found.loc[0.5, "low"] == pytest.approx(np.quantile([9, 8, 7], 0.1))
    assert found.loc[0.5, "high"] == pytest.approx(np.quantile([9, 8, 7], 0.9))
    assert len(results.band(points.iloc[:0], "time", GAP)) == 0
    assert len(results.band(curve("SPDC[m=1]", 1.0), "time", GAP, points=10)) == 10
    assert list(results.thinned(5, 3)) == [0, 2, 4]
    assert list(results.thinned(2, 9)) == [0, 1]


def test_predicted_gaps_begin_at_the_first_fall_by_the_rate_and_are_drawn():
    rates = (0.001, 0.002)
    frame = runs(*(
        curve("DSPDC[m=1,q=1]", 1.0, rep=k, to=(1e-4, 1e-5)[k], points=(40, 60)[k]).assign(
            objective_predicted_rate=rate, objective_own_gap=lambda run, k=k: (k + 1) * run[GAP])
        for k, rate in enumerate(rates)
    ))
    points = results.mean_points(frame)
    # As far as the shorter repetition goes; an iteration for a hundredth of a check.
    one, two = frame[:40], frame[40:80]
    np.testing.assert_allclose(points["measured"], (
        one["objective_own_gap"].to_numpy() + two["objective_own_gap"].to_numpy()) / 2)
    t = 100 * np.arange(40)
    np.testing.assert_allclose(points["predicted"], (0.999**t + 2.0 * 0.998**t) / 2)
    for axis in ("Iterations", "Passes"):
        drawn, told = plots_of("predicted_rate", frame, X_axis=axis)
        assert told["scale"] == "semilog-y"
        for trace, column in zip(drawn, ("measured", "predicted"), strict=True):
            assert trace["x"] == points[f"objective_{axis.lower()}"].tolist()
            assert trace["y"] == points[column].tolist()
    # A file of an earlier version has no rates.
    earlier = frame.drop(columns="objective_predicted_rate")
    assert plots_of("predicted_rate", earlier, X_axis=axis)[0] == []


# Verdicts ---------------------------------------------------------------------------

def verdict(frame, key, form=None):
    """The verdict on a claim; of its first form, as the paper states DSPDC, if there are two."""
    return next(v for v in judge(frame) if v.key == key and form in (None, v.form))


def findings(frame, key, form=None):
    return {f.variant: f for f in verdict(frame, key, form).findings}


def test_a_claim_holds_with_the_ratios_of_the_seeds(typical):
    found = verdict(typical, "figure 1")
    spdc, sdca = (f for f in found.findings if f.outcome != UNKNOWN)
    assert (spdc.variant, sdca.variant) == (
        f"{STATED} over SPDC[m=1]", f"{STATED} over SDCA[m=1]"
    )
    assert found.outcome == HOLDS
    assert [r.gap for r in spdc.ratios] == [1e-2, 1e-4, 1e-6]
    assert spdc.ratios[0][1:5] == pytest.approx((2.0, 0.22 / 0.12, 0.24 / 0.11, 3), rel=0.05)
    # SDCA does not get to 1e-6.
    assert [r.bound for r in sdca.ratios] == ["", "", "at least "]
    # The other five settings of the figure are not there, which is said.
    assert sum(f.outcome == UNKNOWN for f in found.findings) == 5


def test_one_seed_of_three_decides():
    for slow, outcome in ((0.09, FAILS), (0.2, HOLDS)):
        frame = runs(*seeds(STATED, (0.1, 0.1, 0.1)), *seeds("SPDC[m=1]", (slow, 0.2, 0.2)),
                     *seeds("SDCA[m=1]", (1.0, 1.0, 1.0)))
        assert findings(frame, "figure 1")[f"{STATED} over SPDC[m=1]"].outcome == outcome
        assert verdict(frame, "figure 1").outcome == outcome


def test_the_fastest_variant_of_a_rival_with_the_same_m_is_taken():
    frame = runs(
        curve(STATED, 0.1), curve("SDCA[m=1,order=random]", 0.5), curve("SDCA[m=1]", 0.05),
        curve("SDCA[m=100]", 0.01), curve("SPDC[m=1]", 0.2),
    )
    found = findings(frame, "figure 1")
    assert f"{STATED} over SDCA[m=1]" in found
    assert not any("m=100" in variant or "random" in variant for variant in found)


def test_what_no_run_reached_is_not_measured():
    frame = runs(curve(STATED, 0.1, to=0.1), curve("SPDC[m=1]", 0.1), curve("SDCA[m=1]", 0.1))
    found = verdict(frame, "figure 1")
    assert found.outcome == UNKNOWN
    assert "no stated gap tells which is faster" in found.findings[0].reason


def test_which_variant_of_a_rival_is_taken_depends_on_the_gap():
    soon, late = curve("SPDC[m=1]", 0.1), curve("SPDC[m=1,steps=dspdc]", 0.5)
    soon["time"] = soon["time"].where(soon[GAP] > 1e-3, 10.0 * soon["time"])
    found = verdict(runs(curve(STATED, 0.3), soon, late), "figure 1")
    rivals = {row.gap: (row.rival, row.outcome) for row in claims.rows_of(found, "SPDC")
              if row.solver}
    assert rivals == {1e-2: ("SPDC[m=1]", FAILS), 1e-4: ("SPDC[m=1,steps=dspdc]", HOLDS),
                      1e-6: ("SPDC[m=1,steps=dspdc]", HOLDS)}


def test_a_stated_dspdc_that_does_not_name_its_m_is_judged():
    frame = runs(*(curve(name, 1.0, REDUCED("a9a"), WEAK) for name in (
        "DSPDC[sampling=subset,Lambda=heuristic]", "SPDC[m=1]", "SDCA[m=1]")))
    assert "SPDC[m=1] over SDCA[m=1]" in findings(frame, "figure 2")


def test_seeds_on_both_sides_of_one_are_no_bound():
    rival = [curve("SPDC[m=1]", 0.5), curve("SPDC[m=1]", 0.1, rep=1, to=1e-5)]
    stated = [curve(STATED, 0.3), curve(STATED, 0.3, rep=1, to=1e-3)]
    row = next(row for row in claims.rows_of(verdict(runs(*stated, *rival), "figure 1"), "SPDC")
               if row.gap == 1e-4)
    assert (row.outcome, row.ratio, row.ratio_low, row.ratio_high) == (FAILS, None, None, None)


def test_a_comparison_that_work_decides_says_so():
    frame = runs(*seeds(STATED, (0.1, 0.3)), *seeds("SPDC[m=1]", (0.2, 0.2)))
    for factor, outcome, reason in ((0.5, HOLDS, claims.BY_WORK), (1.0, FAILS, "")):
        passes = frame["objective_passes"].where(frame["solver_name"] != STATED,
                                                 factor * frame["objective_passes"])
        found = verdict(frame.assign(objective_passes=passes), "figure 1")
        assert {(row.outcome, row.reason) for row in claims.rows_of(found, "SPDC")
                if row.solver} == {(outcome, reason)}


def test_ties_and_slower_methods_are_claims_too():
    data = REDUCED("real-sim")
    for decade, outcome in ((0.1, HOLDS), (0.5, FAILS)):
        frame = on(data, WEAK, exact=0.1, spdc=decade, sdca=9.0)
        assert verdict(frame, "figure 2", PARTITIONS).outcome == outcome
        frame = on(factorized(materialize=True), ELASTIC, exact=0.1, spdc=decade)
        assert verdict(frame, "dense").outcome == outcome
    # A rival that is not there in many times the time is no tie.
    frame = runs(on(data, WEAK, exact=0.1, sdca=9.0), curve("SPDC[m=1]", 9.0, data, WEAK, to=0.1))
    tie = findings(frame, "figure 2", PARTITIONS)[f"{EXACT} over SPDC[m=1]"]
    assert tie.outcome == FAILS and tie.ratios[0].bound == "at least "


def test_the_two_forms_of_dspdc_are_judged_each_on_its_own():
    frame = runs(*seeds(STATED, (0.3, 0.3)), *seeds(EXACT, (0.1, 0.1)),
                 *seeds("SPDC[m=1]", (0.2, 0.24)), *seeds("SDCA[m=1]", (0.2, 0.2)))
    assert verdict(frame, "figure 1", AS_STATED).outcome == FAILS
    assert verdict(frame, "figure 1", AS_STATED).counts == "2 fail, 5 undecided"
    own = verdict(frame, "figure 1", PARTITIONS)
    assert (own.outcome, own.counts) == (HOLDS, "2 hold, 5 undecided")
    assert own.measured == "2.00 to 2.20 (seeds 2.00 to 2.40), 2 seeds"
    assert verdict(runs(curve("FISTA", 0.1)), "figure 1").measured == ""


def test_pairs_of_block_sizes_that_were_not_run_are_named():
    frame = on(RISK, MATRIX, dspdc=0.1, spdc50=0.2, sdca50=0.2)
    found = [(f.variant, f.outcome, f.reason) for f in verdict(
        frame, "figure 3", PARTITIONS).findings]
    for rival in ("SPDC", "SDCA"):
        for pair in ((5, 50), (20, 20)):
            name = f"DSPDC with (m, q) = {pair} over {rival}"
            assert (name, UNKNOWN, "not in the file") in found
        assert (f"DSPDC[m=50,q=5] over {rival}[m=50]", HOLDS, "") in found
    assert len(found) == 7                     # and d = 200
    assert {f.outcome for f in verdict(frame, "figure 3", AS_STATED).findings} == {UNKNOWN}


def test_other_constants_or_another_loss_are_not_the_papers_setting():
    for objective, outcome in ((MATRIX, HOLDS), (MATRIX.replace("0.01", "7"), UNKNOWN),
                               (MATRIX.replace("smoothed_hinge", "logistic"), UNKNOWN)):
        frame = on(RISK, objective, dspdc=0.1, spdc50=0.2, sdca50=0.2)
        assert verdict(frame, "figure 3", PARTITIONS).outcome == outcome


def test_seeds_that_were_lost_are_named_and_make_nothing_hold():
    whole = dict(decades=(0.2, 0.2, 0.2))
    for lost, decade in ((STATED, 0.1), ("SPDC[m=1]", 0.1), (STATED, 0.3)):
        frame = runs(*seeds(STATED, (decade,) * 3), *seeds("SPDC[m=1]", **whole),
                     *seeds("SDCA[m=1]", **whole))
        frame = frame[(frame["solver_name"] != lost) | (frame["idx_rep"] != 1)]
        found = findings(frame, "figure 1")[f"{STATED} over SPDC[m=1]"]
        assert f"1 of 3 seeds of {lost} failed or diverged" in found.reason
        assert found.ratios[0].seeds == 2
        assert found.outcome == (UNKNOWN if decade == 0.1 else FAILS)


def test_stand_ins_are_judged_and_named_as_such():
    frame = on(REDUCED("news20"), WEAK, exact=0.1, spdc=0.2, sdca=0.3)
    found = verdict(frame, "figure 2", PARTITIONS)
    assert found.outcome == HOLDS
    assert found.findings[0].setting.startswith("news20 (for rcv1.binary)")
    assert [f.setting for f in found.findings if f.outcome == UNKNOWN] == list(claims.FIGURE_2)


def test_eigendecompositions_an_iteration_and_numbers_of_iterations():
    for eigs, outcome in ((5.0, HOLDS), (50.0, FAILS)):
        frame = runs(
            curve("DSPDC[m=50,q=5,Lambda=partition]", 0.1, RISK, MATRIX, eigs=eigs),
            curve("SPDC[m=50,steps=dspdc]", 0.2, RISK, MATRIX, eigs=100.0),
        )
        assert verdict(frame, "eigendecompositions").outcome == outcome
    assert "q/p = 0.050" in verdict(frame, "eigendecompositions").findings[0].reason


def test_the_condition_of_section_5_2_is_looked_at_first():
    for entry, outcome in ((1.0, HOLDS), (1e4, UNKNOWN)):
        known = dict(objective_Lambda_11=entry, objective_Lambda_p1=100.0)
        frame = on(RISK, MATRIX, known, dspdc=0.1, spdc50=0.2)
        assert verdict(frame, "condition").outcome == outcome


def tables(costs, data=None, eigs=None, each_eig=0.0):
    """The finding on the order of the tables.

    Costs are those predicted of each solver, and for each seed a factor of its passes.
    """
    frame = runs(*(
        own.assign(objective_passes=factor * own["objective_passes"])
        for name, (predicted, factors) in costs.items()
        for own, factor in zip(seeds(
            name, (1.0,) * len(factors), dataset=data, objective_predicted_cost=predicted,
            objective_pass_cost=2.0, objective_eigendecomposition_cost=each_eig,
            eigs=(eigs or {}).get(name, 0.0),
        ), factors, strict=True)
    ))
    (found,) = verdict(frame, "tables").findings
    return found.outcome, found.reason


def test_the_order_of_the_tables_is_that_of_the_predicted_costs():
    one = "DSPDC[m=1,q=1]"
    # The costs of SPDC and SAGA differ too little to be ordered; peers have none.
    costs = {one: (1.0, (1, 1)), "SPDC[m=1]": (10.0, (2, 2)), "SAGA[m=1]": (11.0, (3, 3)),
             "scipy-lbfgs": (np.nan, (1, 1))}
    assert tables(costs) == (
        HOLDS, "2 of 2 clearly ordered pairs are measured so with every seed, to 1e-6"
    )
    # A pair in the right order with one seed of two is not.
    outcome, reason = tables(costs | {"SAGA[m=1]": (11.0, (3, 0.5))})
    assert outcome == FAILS and reason.startswith("1 of 2 ")
    assert f"not {one} before SAGA[m=1] (1e-6: 1.75 (0.50 to 3.00))" in reason
    # Of matrices eigendecompositions count too.
    outcome, reason = tables(costs, RISK, {one: 100.0}, each_eig=10.0)
    assert outcome == FAILS and reason.startswith("0 of 2 ")


def test_without_predicted_costs_the_order_of_the_tables_is_not_measured():
    costs = {"DSPDC[m=1,q=1]": (np.nan, (1,)), "SAGA[m=1]": (np.nan, (1,))}
    outcome, reason = tables(costs)
    assert outcome == UNKNOWN and "no costs were predicted" in reason
    (found,) = verdict(runs(curve("DSPDC[m=1,q=1]", 0.1)), "tables").findings
    assert found.outcome == UNKNOWN and "it is of an earlier version" in found.reason


def test_claims_that_nothing_was_run_for_are_not_measured():
    frame = runs(curve("FISTA", 0.1, "Sparse[n=10]"))
    found = judge(frame)
    assert [v.form for v in found].count("") == 4 and len(found) == len(claims.CLAIMS) + 8
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


# Figures ----------------------------------------------------------------------------

def test_curves_with_nothing_above_zero_are_drawn_empty_and_what_no_file_has_is_refused(tmp_path):
    frame = runs(curve(STATED, 0.1).assign(time=0.0, objective_value=0.0))
    with pytest.raises(ValueError, match="nothing to draw over coordinate updates: the result"):
        figures.gap_curves(frame.drop(columns="objective_coordinate_updates"), tmp_path, "updates")
    figures.gap_curves(frame, tmp_path / "gaps.png")
    assert (tmp_path / "gaps.png").exists()
    assert len(figures.paper_figures(frame, tmp_path, [])) == 1


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are drawn, as they are when they are written."""
    kept = []
    monkeypatch.setattr(figures.plt, "close", kept.append)
    yield kept
    monkeypatch.undo()
    figures.plt.close("all")


def test_the_papers_figures_are_drawn_from_what_is_there(typical, tmp_path):
    frame = runs(
        typical, curve("DSPDC[m=5,q=50,Lambda=partition]", 0.1, RISK, MATRIX),
        curve("SPDC[m=5]", 0.1, RISK, MATRIX), curve("SDCA[m=1000]", 0.1, REDUCED("news20")),
        curve("DSPDC[m=2000,q=0.2]", 0.1, "MTLMNN[source=aloi_like]", MATRIX),
    )
    written = figures.paper_figures(frame, tmp_path, [])
    assert [file.stem for file in written] == [
        "figure1", "figure2", "figure3", "figure4_aloi_like"
    ]
    for file in written:
        assert file.stat().st_size > 5000 and "<svg" in file.with_suffix(".svg").read_text()
    assert figures.paper_figures(runs(curve("FISTA", 0.1, "Sparse[n=10]")), tmp_path, []) == []
    # The same data in another comparison are not figure 1.
    assert figures.paper_figures(runs(curve("SPDC[m=1]", 0.1)), tmp_path, []) == []


def test_time_is_in_logarithms_only_where_a_curve_falls_at_the_very_left(tmp_path, drawn):
    for auto, scale in ((0.1, "linear"), (0.001, "log")):
        frame = runs(
            curve("DSPDC[m=5,q=50,Lambda=partition]", 0.3, RISK, MATRIX),
            # Its first point is early, which is what leaves axes of logarithms to one curve.
            curve("SPDC[m=5]", 2.0, RISK, MATRIX, to=0.5), curve("SDCA[m=5]", 0.2, RISK, MATRIX),
            curve("DSPDC[m=auto,q=auto]", auto, RISK, MATRIX),
        )
        figures.paper_figures(frame, tmp_path, [])
        panel = drawn[-1].axes[0]
        assert (panel.get_xscale(), panel.get_yscale()) == (scale, "log")
        left, right = panel.get_xlim()
        assert left == 0.0 if scale == "linear" else left > 1e-4
        assert right > 2.4


def test_legends_have_the_order_of_the_roles_and_name_what_is_not_known(typical, tmp_path, drawn):
    frame = runs(*seeds("SDCA[m=1]", (0.2, 0.2)), *seeds("SPDC[m=1]", (0.2, 0.2)), typical)
    figures.paper_figures(frame, tmp_path, [])
    shown = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert shown == [
        "DSPDC as stated", "DSPDC, sizes chosen", "SPDC", "SDCA", figures.UNKNOWN
    ]
    # No line, so that it is not taken for a curve.
    handle = drawn[0].legends[0].get_patches()[-1]
    assert handle.get_hatch() and len(drawn[0].axes[0].get_lines()) == 4


def test_solvers_that_a_figure_does_not_show_are_named(typical, tmp_path, drawn):
    others = ("FISTA", "scipy-lbfgs", "SPDC[m=7]", "DSPDC[m=1,q=50,sampling=subset]",
              "DSPDC[m=1,q=50,threads=2]", "SDCA[m=1,scaling=$x$]")
    notes = []
    figures.paper_figures(runs(typical, *(curve(name, 0.1) for name in others)), tmp_path, notes)
    assert len(notes) == 1 and f"not drawn in figure1: {', '.join(others)}; " in notes[0]
    note = drawn[0].texts[-1].get_text().replace("\n", " ")
    assert note.startswith("Not drawn") and all(name.split("$")[0] in note for name in others)
    # A second SDCA would have the look of the first.
    assert len(drawn[0].axes[0].get_lines()) == 4
    del notes[:]
    figures.paper_figures(typical, tmp_path, notes)
    assert notes == [] and [text.get_text() for text in drawn[1].texts] == ["Factorised data"]


def test_figure_2_has_a_row_for_each_pair_of_sizes_that_was_run(tmp_path, drawn):
    data = [REDUCED(name) for name in ("covtype.binary", "news20")]
    pairs = ("m=100,q=0.5", "m=1000,q=0.1")
    for count in (1, 2):
        frame = runs(*(
            curve(f"DSPDC[{pair}]", 0.1, dataset) for pair in pairs[:count] for dataset in data
        ))
        figures.paper_figures(frame, tmp_path, [])
        titles = [panel.get_title().split("\n") for panel in drawn[-1].axes]
        assert [title[0] for title in titles] == count * [
            "covtype.binary", "news20 for rcv1.binary", "real-sim"
        ]
        assert [title[1] for title in titles[::3]] == ["m=100, q=0.5 p", "m=1000, q=0.1 p"][:count]
        assert [len(panel.get_lines()) for panel in drawn[-1].axes] == count * [1, 1, 0]


#: Of the names of DSPDC, where it is the paper's.
PRINTED = ",".join(f"{name}={value}" for name, value in PAPER.items())


def test_every_solver_of_the_configs_has_a_role_in_the_figures():
    for name, role in {
        STATED: "DSPDC as stated", EXACT: "DSPDC partitions",
        "SDCA[m=1,order=random]": "SDCA, random order",
        "DSPDC[m=auto,q=auto]": "DSPDC, sizes chosen",
        "DSPDC[m=auto,q=auto,adaptive=True]": "DSPDC self-tuned", "SPDC[m=1]": "SPDC",
        "SPDC[m=5,steps=dspdc]": "SPDC, DSPDC's steps", "SDCA[m=1]": "SDCA", "FISTA": None,
        "scipy-lbfgs": None, "DSPDC[m=2000,q=0.2]": "DSPDC partitions",
        "DSPDC[m=2000,q=0.2,sampling=subset,Lambda=heuristic,moduli=least]":
            "DSPDC as stated",
        # Neither as stated, nor with partitions and their constant.
        "DSPDC[m=1,q=50,sampling=subset]": None, "DSPDC[m=1,q=50,Lambda=heuristic]": None,
        "DSPDC[m=1,q=50,probabilities=importance]": None, "DSPDC[m=1,q=50,adaptive=True]": None,
        "DSPDC[m=auto,q=auto,threads=2]": None, "DSPDC[m=auto,q=auto,sampling=subset]": None,
        # Names say what the steps are.
        "DSPDC[m=auto,q=auto,steps=block,order=permuted,adaptive=True]":
            "DSPDC self-tuned",
        f"DSPDC[m=auto,q=auto,{PRINTED}]": "DSPDC, sizes chosen",
        f"DSPDC[m=1,q=50,{PRINTED},Lambda=partition]": "DSPDC partitions",
        f"DSPDC[m=1,q=50,{PRINTED},sampling=subset,Lambda=heuristic]":
            "DSPDC as stated",
        "DSPDC[m=1,q=50,steps=block,order=permuted,adaptive=True]": None,
        "DSPDC[m=1,q=50,steps=block,order=random,adaptive=False]": None,
        "DSPDC[m=1,q=50,steps=theorem,order=permuted,adaptive=False]": None,
    }.items():
        assert figures._role(name) == role, name
    assert len({look for look in figures.ROLES.values()}) == len(figures.ROLES)


# benchopt's page ----------------------------------------------------------------------

def plots_of(name, frame, **choice):
    """What one of the plots for benchopt's page draws, and its labels."""
    plot = next(found for found in Benchmark(REPO).get_plots() if found._get_name() == name)
    choice = dict(dataset=factorized(), objective=ELASTIC) | choice
    return plot.plot(frame, **choice), plot.get_metadata(frame, **choice)


def test_bars_are_the_medians_of_the_table():
    frame = runs(
        curve("SPDC[m=1]", 1.0), curve("SPDC[m=1]", 2.0, rep=1),
        curve("SPDC[m=1]", 1.0, rep=2, to=1e-3),
        curve("SDCA[m=1]", 1.0), curve("SDCA[m=1]", 1.0, rep=1, to=1e-3),
    )
    middle = medians(to_targets(frame, [1e-4]))["seconds to 1e-04"].droplevel([0, 1])
    bars = {bar["label"]: bar for bar in plots_of("time_to_a_gap", frame, gap=1e-4)[0]}
    # The last of its seeds took for ever, so the median is the slower of the others.
    assert np.median(bars["SPDC[m=1]"]["y"]) == middle["SPDC[m=1]"] > 8.0
    assert middle["SDCA[m=1]"] == np.inf
    assert bars["SDCA[m=1], not reached"]["y"] == [0.0]


def test_curves_on_benchopts_page_have_bands_and_primal_gaps_their_uncertainty():
    frame = runs(*seeds("SPDC[m=1]", (1.0, 2.0, 3.0)), curve("SDCA[m=1]", 1.0))
    for kind in ("relative gap", "primal gap"):
        (many, once), told = plots_of("gaps_and_scores", frame, Y=kind, X_axis="seconds")
        low, middle, high = (np.array(many[key]) for key in ("y_low", "y", "y_high"))
        assert (0.0 < low).all() and (low <= middle).all() and (middle <= high).all()
        assert (low < high).mean() > 0.8
        assert "y_low" not in once
        assert ("P* known to 1.1e-08" in told["ylabel"]) == (kind == "primal gap")


# The page ---------------------------------------------------------------------------

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror=alert(1)>"


def test_names_cannot_leave_their_place_in_the_page_which_asks_no_host_for_anything(tmp_path):
    frame = runs(curve(HOSTILE, 0.1), curve("SPDC[m=1]", 0.1, HOSTILE))
    write_page(page_data(frame, HOSTILE, judge(frame)), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "window.hacked" in text
    assert "<script>window.hacked" not in text and "<img src=x" not in text
    embedded = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert HOSTILE in [method["name"] for method in json.loads(embedded)["methods"]]
    own = text.split('id="data"')[0]
    assert not re.search(r'(?:src|href)\s*=\s*"(?!#)', own)
    assert "@import" not in own and "url(" not in own
    for name in ("report/page", "guard/trend"):
        template = (REPO / f"benchmark_dspdc/{name}.html").read_text("utf-8")
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', template)[1]
        assert policy.startswith("default-src 'none';") and "http" not in policy


def test_a_median_above_zero_is_shown_though_the_band_goes_down_to_it():
    # Of twenty seeds three have the least value, so that the quantile of their gaps is zero.
    best = runs(*seeds("SPDC[m=1]", 17 * [1.0] + 3 * [0.5], to=1e-2))
    late = (best["idx_rep"] >= 17) & (best["stop_val"] >= 30)
    best.loc[late, "objective_value"] = 1.0
    data = page_data(best, "run", [])["problems"][0]["curves"]["primal gap"]["by"]["seconds"]
    x, median, low, high = map(np.array, data["curves"]["SPDC[m=1]"])
    assert x[-1] == pytest.approx(2.0, rel=0.01) and median[-1] == pytest.approx(1e-2)
    assert (0.0 < low).all() and (low <= median).all() and (median <= high).all()


def test_the_page_has_all_views(typical):
    data = page_data(typical.assign(objective_predicted_rate=0.01), "run", judge(typical))
    problem = data["problems"][0]
    assert set(problem["curves"]) == {
        "relative gap", "own gap", "primal gap", "accuracy on the test data"
    }
    assert set(problem["curves"]["relative gap"]["by"]) == {"seconds", "passes", "updates"}
    assert data["gaps"] == ["1e-2", "1e-4", "1e-6"]
    target, slow = problem["targets"][0], "SDCA[m=1]"
    assert problem["targets"][2]["rows"][slow]["seconds"] is None
    assert problem["final"][slow][1] == pytest.approx(5 * 0.3, rel=0.01)
    assert problem["winner"]["solvers"] == ["DSPDC[m=auto,q=auto]"]
    assert data["overall"][2]["rows"][slow]["ratios"] == ["not reached"]
    assert target["speedups"]["solvers"][0] == "DSPDC[m=auto,q=auto]"
    assert target["speedups"]["values"][0][0] == 1.0
    assert len(data["rates"]) == 1
    assert len(data["verdicts"]) == len(judge(typical))
    json.dumps(data, allow_nan=False)


def test_titles_are_short_and_tell_problems_apart():
    own, other = factorized(), ELASTIC.replace("0.01", "0.1")
    found = results.titles([(own, ELASTIC), (own, other), (factorized(n=9), ELASTIC)])
    assert list(found.values()) == [
        "Factorized[d=20, n=5000, p=100] lambda2=0.01",
        "Factorized[d=20, n=5000, p=100] lambda2=0.1", "Factorized[d=20, n=9, p=100] lambda2=0.01",
    ]
    assert results.titles([("a[b=1,c]", "o"), ("a[b=1,d]", "o")]) == {
        ("a[b=1,c]", "o"): "a[b=1,c], o", ("a[b=1,d]", "o"): "a[b=1,d], o"
    }


def test_a_single_repetition_is_said_to_be_one():
    frame = runs(curve("SPDC[m=1]", 0.1))
    frame.attrs["notes"] = ["a file lacks something"]
    notes = page_data(frame, "run", [])["notes"]
    # First, because the page hides all but a few.
    assert "Every run was made once" in notes[0] and notes[1:] == frame.attrs["notes"]


# The second is of a file of an earlier version, which is shown without what it lacks.
@pytest.mark.parametrize("lacking", [[], [
    "objective_predicted_rate", "objective_iterations", "objective_coordinate_updates",
    "objective_eigendecompositions",
]])
def test_report_writes_a_page_and_says_so(typical, tmp_path, capsys, lacking):
    file = write(typical.drop(columns=lacking), tmp_path / "run.parquet")
    assert main(["report", str(file), "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "the paper's claims" in shown and "holds" in shown
    # With the picture in it.
    picture = (tmp_path / "out" / "figure1.png").stat().st_size
    assert picture < (tmp_path / "out" / "report.html").stat().st_size < 3e6
    assert (tmp_path / "out" / "figure1.png").exists()


# In a browser ------------------------------------------------------------------------

#: Goes through every choice of every view and notes what it found.
PROBE = LEAVE + """
const walk = async seen => {
  Object.assign(seen, {choices: 0, empty: [], times: [], left: [], crosses: []});
  const all = marks => [...document.querySelectorAll(marks)];
  const texts = marks => all(marks).map(mark => mark.textContent);
  const pick = async (list, k) => {
    list.selectedIndex = k;
    list.dispatchEvent(new Event("change"));
    await wait(5);
  };
  await wait(30);
  for (const list of all("select")) {
    for (let k = 0; k < list.options.length; k++) {
      await pick(list, k);
      seen.choices++;
      for (const box of all(".chart")) {
        if (!box.querySelector("svg g path")) seen.empty.push(list.id + " " + box.id);
      }
      seen.times.push(...texts("#times-table td"));
      seen.left.push(...texts("#speedups-note"));
      seen.crosses.push(all("#trend-plot g path[transform$=' 12)']").length);
    }
    await pick(list, 0);
  }
  seen.charts = all(".chart").map(box => [
    box.id, box.querySelectorAll("svg g path").length, box.querySelector("svg").ariaLabel ??
      box.querySelector("svg").getAttribute("aria-label"), box.clientWidth]);
  seen.labels = all("#trend-plot svg > text[transform^='rotate(-28']").map(
    text => [text.textContent, text.getBoundingClientRect().right]);
  // A curve tells its whole name, and the others step back.
  const svg = document.querySelector(".chart svg"), mark = svg.querySelector("g path[transform]");
  mark.scrollIntoView();
  const {left, top, width, height} = mark.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", {
    clientX: left + width / 2, clientY: top + height / 2, bubbles: true}));
  seen.tip = svg.parentElement.querySelector(".tip").textContent;
  seen.hovered = mark.parentElement.dataset.name;
  // What is hidden in one view stays hidden, in every view and on every problem.
  const names = () => [...new Set(all(".chart g").map(group => group.dataset.name))];
  const button = document.querySelector(".legend button");
  seen.before = names();
  button.focus();
  button.click();
  seen.hidden = button.textContent;
  seen.kept = document.activeElement.closest(".legend") !== null;
  if (document.getElementById("problem")) await pick(document.getElementById("problem"), 1);
  seen.after = names();
  if (document.getElementById("problem")) await pick(document.getElementById("problem"), 0);
  document.querySelector(".legend button").click();
  const search = document.querySelector("input[type=search]");
  if (search) {
    search.value = "spdc[m=1]";
    search.dispatchEvent(new Event("input"));
    seen.found = names();
    search.value = "";
    search.dispatchEvent(new Event("input"));
    seen.families = texts("#methods strong");
    document.querySelectorAll(".card")[1].click();
    seen.chosen = document.getElementById("problem").value;
    seen.cards = texts(".card .who");
  }
  seen.notes = [texts("#notes > p"), texts("#notes > details summary"),
                texts("#notes > details p")];
  // A download is a click on a link that is not in the page.
  HTMLAnchorElement.prototype.click = function () {
    seen.saved = [this.download, this.href.split(":")[0]];
  };
  document.querySelector(".chart .save").click();
  seen.ready = window.ready === true;
  seen.tables = all("table").length;
  seen.hacked = window.hacked === 1;
};
"""


def looked_at(page, folder):
    """Open a page in a browser without a network; returns what the probe saw."""
    seen, console, requests = opened(page.read_text("utf-8"), folder, PROBE)
    assert (seen["faults"], console, requests) == ([], [], set())
    assert seen["ready"] and not seen["hacked"]
    assert seen["empty"] == []
    for name, marks, about, width in seen["charts"]:
        assert marks > 0 and about and width > 500, name
    assert seen["hovered"] in seen["tip"]
    assert seen["hidden"] in seen["before"] and seen["hidden"] not in seen["after"]
    assert seen["kept"]
    assert seen["saved"][0].endswith(".svg") and seen["saved"][1] == "blob"
    return seen


@in_a_browser
def test_a_page_that_asks_a_host_for_something_is_found_out(tmp_path):
    wanted = {"https://example.org/a", "http://example.com/b"}
    assert opened("".join(f'<img src="{url}">' for url in wanted), tmp_path)[2] == wanted


@in_a_browser
def test_every_view_draws_in_a_browser_without_a_network(typical, tmp_path):
    frame = runs(
        typical, *seeds("SPDC[m=1]", (0.1, 0.2, 0.3), dataset=HOSTILE),
        *seeds("DSPDC[m=1,q=1]", (0.1, 0.2, 0.3), dataset=HOSTILE),
    ).assign(objective_predicted_rate=0.001)
    frame["objective_family"] = frame["solver_name"].eq("SPDC[m=1]").astype(int)
    long = "these are lacking: " + 50 * "name, "
    frame.attrs["notes"] = ["one", HOSTILE, long, "four", "five"]
    write_page(page_data(frame, "run.parquet", judge(frame)), tmp_path / "page.html")
    seen = looked_at(tmp_path / "page.html", tmp_path)
    assert seen["choices"] >= 15
    assert [name for name, *_ in seen["charts"]] == ["curves-plot", "profile-plot", "rates-plot"]
    # What did not get there is named where it is not drawn, and at the time that it was run for.
    assert "> 1.50" in seen["times"]
    assert any(text.startswith("0.896 (0.8") for text in seen["times"])
    assert "Left out, because they did not reach 1e-6: SDCA[m=1]" in seen["left"]
    assert seen["found"] == ["SPDC[m=1]"]
    assert seen["families"] == ["without a family", "dual coordinate"]
    assert seen["chosen"] == "1" and seen["cards"][0] == "DSPDC[m=auto,\u200bq=auto]"
    assert seen["notes"] == [
        ["one", HOSTILE], ["these are lacking", "2 more notes"],
        [long.split(": ")[1], "four", "five"],
    ]


@in_a_browser
def test_a_trend_draws_in_a_browser_without_a_network(tmp_path):
    for day in range(60):
        frame = runs(
            # One of them does not reach the last gap.
            *seeds("SPDC[m=1]", (0.1, 0.1) if day < 30 else (0.2, 0.2), dataset=HOSTILE,
                   to=1e-5 if day == 9 else 1e-8),
            *seeds("SDCA[m=1]", (0.1, 0.1), dataset=factorized()),
        )
        frame["objective_reference_seconds"] = 1e-3
        frame["run_date"] = f"2026-{day // 28 + 1:02d}-{day % 28 + 1:02d}"
        write(frame, tmp_path / f"<b>{day}.parquet")
    made = write_trend([tmp_path], tmp_path / "trend.html")
    assert [row["change"] for row in made["changes"]] == [pytest.approx(1.0, abs=0.05)]
    seen = looked_at(tmp_path / "trend.html", tmp_path)
    assert seen["choices"] >= 6
    assert len(seen["charts"]) == 1 and seen["tables"] == 1
    assert set(seen["crosses"]) == {0, 1}
    # Slanted labels of 13 pixels do not touch, and the last run has one.
    places = [right for _, right in seen["labels"]]
    assert len(places) >= 5 and np.diff(places).min() * np.sin(np.pi / 6) > 13 * 1.2
    assert seen["labels"][-1][0].startswith("2026-03-04")


def test_what_is_not_finished_is_named_with_a_guess():
    frame = runs(
        *seeds("SPDC[m=1]", (0.2, 0.24, 0.22)), *seeds("SDCA[m=1]", (1.0, 1.0, 1.0), to=1e-2),
        *seeds("DSPDC[m=1,q=1]", (0.1, 0.1, 0.1), to=1.0),
        curve("SDCA[m=2]", 1.0, to=1e-2), *[curve("SDCA[m=2]", 1.0, rep=k) for k in (1, 2)],
    )
    left = results.unfinished(frame)
    assert [key[2] for key in left.index] == ["SDCA[m=1]", "DSPDC[m=1,q=1]"]
    assert left["gap"].tolist() == pytest.approx([1e-2, 1.0])
    # A decade a second: three of them, of which two were made.
    assert left["needed"].tolist() == pytest.approx([3.0, np.inf], rel=0.01)
    shown = page_data(frame, "", [])["unfinished"]
    assert shown["gap"] == "1e-3"
    assert [row[1] for row in shown["rows"]] == ["SDCA[m=1]", "DSPDC[m=1,q=1]"]
    assert shown["rows"][1][4] is None
    assert results.unfinished(frame, 1e-9).shape[0] == 4


def test_a_gap_that_only_one_reached_counts_if_the_other_had_time_enough():
    def finding(fast, slow):
        frame = runs(*seeds(STATED, fast[0], to=fast[1]), *seeds("SPDC[m=1]", slow[0], to=slow[1]))
        problem = verdict(frame, "figure 1").findings[0]
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


def told(frame, key, form=""):
    """The comparisons of a claim in `verdicts.json`, by rival and gap."""
    (claim,) = (c for c in json.loads(json.dumps(claims.as_json(judge(frame))))["claims"]
                if c["id"] == key and c["form"] == form)
    return claim["verdict"], {
        (row["rival"], row["gap"]): row for row in claim["comparisons"]
        if row["setting"].startswith("n=5000, p=100, d=20, lambda1=0.001")
    }


def test_every_comparison_is_told_with_its_ratio_or_its_bound():
    frame = runs(*seeds(STATED, (0.1, 0.1)), *seeds("SPDC[m=1]", (0.2, 0.3)),
                 *seeds("SDCA[m=1]", (1.0, 1.0), to=1e-2, points=30))
    outcome, rows = told(frame, "figure 1", AS_STATED)
    assert outcome == "holds" and len(rows) == 6
    both = rows["SPDC[m=1]", 1e-4]
    assert (both["outcome"], both["seeds"], both["reason"]) == ("holds", 2, "")
    assert both["ratio"] == pytest.approx(2.5, rel=0.05)
    assert both["ratio_low"] == pytest.approx(2.0, rel=0.05)
    assert both["ratio_high"] == pytest.approx(3.0, rel=0.05)
    assert both["passes_ratio"] == pytest.approx(1.0, rel=0.05)
    assert both["setting"].endswith("(m, q) = (1, 50)")
    one = rows["SDCA[m=1]", 1e-6]
    assert one["outcome"] == "holds" and one["ratio"] is one["ratio_high"] is None
    assert one["ratio_low"] > 1.0 and one["passes_ratio"] is None
    # What nobody reached is undecided, with what came of it.
    frame = runs(curve(STATED, 0.1, to=1e-3), curve("SPDC[m=1]", 0.1, to=1e-3))
    outcome, rows = told(frame, "figure 1", AS_STATED)
    assert rows["SPDC[m=1]", 1e-4]["outcome"] == "undecided"
    assert re.search("DSPDC.* came to .* in .* s, SPDC", rows["SPDC[m=1]", 1e-4]["reason"])


def test_seeds_that_disagree_are_no_win():
    # With one seed only DSPDC gets there, with the other only the rival.
    frame = runs(curve(STATED, 0.1), curve("SPDC[m=1]", 1.0, to=1e-3),
                 curve(STATED, 1.0, rep=1, to=1e-3), curve("SPDC[m=1]", 0.1, rep=1))
    _, rows = told(frame, "figure 1", AS_STATED)
    row = rows["SPDC[m=1]", 1e-6]
    assert row["outcome"] == "fails"
    assert row["ratio"] is row["ratio_low"] is row["ratio_high"] is None


def test_work_decides_where_time_is_within_the_spread():
    for factor, outcome in ((0.5, "holds"), (2.0, "fails")):
        mine = seeds(STATED, (0.1, 0.12, 0.11))
        mine = [own.assign(objective_passes=factor * own["objective_passes"]) for own in mine]
        frame = runs(*mine, *seeds("SPDC[m=1]", (0.11, 0.11, 0.12)))
        row = told(frame, "figure 1", AS_STATED)[1]["SPDC[m=1]", 1e-4]
        assert row["ratio_low"] < 1.0 < row["ratio_high"] and row["outcome"] == outcome
        assert row["passes_ratio"] == pytest.approx(1.0 / factor, rel=0.05)


def test_data_that_cannot_be_had_are_named_with_these_words():
    found = {v["id"]: v for v in claims.as_json(judge(runs(curve(STATED, 0.1))))["claims"]
             if v["form"] == AS_STATED}
    reasons = {row["setting"]: row["reason"] for row in found["figure 2"]["comparisons"]}
    assert set(reasons) == {"covtype.binary", "rcv1.binary", "real-sim"}
    assert set(reasons.values()) == {"data not available"}
    rows = found["figure 3"]["comparisons"]
    assert len(rows) == 2 * 3 * 2 * 3 and {row["reason"] for row in rows} == {"not in the file"}


def test_a_dspdc_that_tunes_itself_is_judged_against_the_fastest_rivals():
    tuned = "DSPDC[m=auto,q=auto,steps=block,order=permuted,adaptive=True]"
    frame = runs(curve(tuned, 0.1), curve("SPDC[m=1]", 0.2), curve("SDCA[m=1]", 0.3),
                 curve("SDCA[m=7]", 0.05), curve(STATED, 0.4))
    found = findings(frame, "figure 1", SELF_TUNED)
    assert found[f"{tuned} over SPDC[m=1]"].outcome == HOLDS
    assert found[f"{tuned} over SDCA[m=7]"].outcome == FAILS
    theorem = "DSPDC[m=auto,q=auto,steps=theorem,order=random,adaptive=False]"
    assert claims.form_of(results.method_of(theorem)[1]) != SELF_TUNED


# The budget -------------------------------------------------------------------------

def test_budgets_are_times_and_unknown_figures_are_named():
    assert [paper_run.seconds(t) for t in ("20m", "2h", "90", "1.5 min", "30s")] == [
        1200.0, 7200.0, 90.0, 90.0, 30.0
    ]
    for text in ("", "soon", "-3m", "0", "3 days"):
        with pytest.raises(ValueError, match="the budget must be a time"):
            paper_run.seconds(text)
    with pytest.raises(ValueError, match="--only must be of dense, tables, figure1"):
        paper_run.run(60.0, "out", only=["figure9"])


def test_a_plan_depends_on_the_data_alone(home):
    steps, left_out = paper_run.plan()
    assert [step.figure for step in steps] == ["dense", "tables", "figure1", "figure3", "figure4"]
    assert len(left_out) == 2 and "figure 2: covtype.binary, rcv1.binary" in left_out[0]
    assert "left out" in left_out[0] and "figure 4: aloi, mnist, letter not in" in left_out[1]
    assert steps[-1].data == (
        "MTLMNN[source=aloi_like]", "MTLMNN[source=aloi_like,n_impostors=6]"
    )
    with_all, left_out = paper_run.plan(download=True)
    assert [parse(line)[1]["source"] for line in with_all[-1].data] == [
        "aloi", "aloi", "mnist", "letter"
    ]
    assert left_out == []


def one_pair(fast, slow):
    """What the next round gives DSPDC and SPDC, each with seconds a decade and a last gap."""
    points = [int(50 * np.log10(1.0 / to)) for _, to in (fast, slow)]
    frame = runs(*(
        one for name, (decade, to), count in (
            (STATED, fast, points[0]), ("SPDC[m=1]", slow, points[1]))
        for one in seeds(name, (decade, decade), to=to, points=count)
    ))
    frame.attrs = {"notes": []}
    found = paper_run.next_round(frame, 1e6)
    return found and {key[2]: value for key, value in found.limits.items()}, found, frame


def one_pair_of(frame):
    return {key[2]: value for key, value in paper_run.next_round(frame, 1e6).limits.items()}


def test_the_slower_of_two_gets_twice_the_time_of_the_faster():
    limits, found, frame = one_pair((1.0, 1e-8), (1.1, 1e-3))
    assert limits.keys() == {"SPDC[m=1]"}
    reached = to_targets(frame, [1e-6])["seconds to 1e-06"].max()
    assert limits["SPDC[m=1]"] == pytest.approx(paper_run.TWICE * reached)
    assert found.comparisons == 2 and found.seeds == paper_run.SEEDS
    # It had that time already: nothing is open.
    assert one_pair((1.0, 1e-8), (20.0, 1e-3))[0] is None
    assert one_pair((1.0, 1e-8), (1.5, 1e-8))[0] is None


def test_where_neither_is_there_both_get_what_their_curves_say():
    # Both have three decades to go, one of them at a second each and the other at two.
    limits, _, _ = one_pair((1.0, 1e-3), (2.0, 1e-3))
    least = 6.0 * paper_run.ROOM
    assert limits[STATED] == pytest.approx(least, rel=0.02)
    assert limits["SPDC[m=1]"] == pytest.approx(2 * least, rel=0.02)
    # The slower one of two has had the time that tells already.
    assert one_pair((1.0, 1e-3), (9.0, 1e-3))[0].keys() == {STATED}


def test_where_no_curve_falls_both_get_more():
    frame = runs(*(
        one for name in (STATED, "SPDC[m=1]") for one in seeds(name, (1.0, 1.0), to=0.5, points=20)
    ))
    frame[GAP] = 0.5
    limits = paper_run.next_round(frame, 1e6).limits
    spent = frame["time"].max()
    assert {key[2]: value for key, value in limits.items()} == {
        STATED: pytest.approx(paper_run.MORE * spent),
        "SPDC[m=1]": pytest.approx(paper_run.MORE * spent),
    }


def test_what_is_left_makes_more_seeds_of_close_ratios():
    frame = runs(*seeds(STATED, (1.0, 1.0, 1.0)), *seeds("SPDC[m=1]", (1.1, 1.1, 1.1)))
    found = paper_run.next_round(frame, 1e6)
    assert found.seeds == paper_run.MORE_SEEDS and found.comparisons == 3
    assert len(found.limits) == 2
    apart = runs(*seeds(STATED, (1.0, 1.0, 1.0)), *seeds("SPDC[m=1]", (1.5, 1.5, 1.5)))
    assert paper_run.next_round(apart, 1e6) is None


def test_a_solver_with_fewer_seeds_than_another_has_lost_none():
    frame = runs(
        *seeds(STATED, (1.0,) * 5), *seeds("SPDC[m=1]", (1.1,) * 5),
        *seeds("SDCA[m=1]", (2.0,) * 3),
    )
    frame[results.ASKED] = np.where(frame["solver_name"] == "SDCA[m=1]", 3, 5)
    rows = next(v for v in judge(frame) if v.key == "figure 1").findings
    rows = [row for finding in rows for row in finding.comparisons if row.outcome != UNKNOWN]
    assert {row.seeds for row in rows} == {3, 5}
    assert all(row.outcome == HOLDS for row in rows)
    # Tables and the page compare all of them, so with the seeds that all have.
    assert results.common_seeds(frame)["idx_rep"].nunique() == 3
    lost = frame[(frame["solver_name"] != "SDCA[m=1]") | (frame["idx_rep"] < 2)]
    rows = next(v for v in judge(lost) if v.key == "figure 1").findings
    assert any("1 of 3 seeds of SDCA" in row.reason for row in rows)


def test_a_round_takes_the_cheap_comparisons_that_fit():
    easy, hard = factorized(), factorized(n=10000, p=500, d=50)
    frame = runs(*(
        one for data, decade in ((easy, 0.1), (hard, 50.0)) for name, to in (
            (STATED, 1e-8), ("SPDC[m=1]", 1e-3))
        for one in seeds(name, (decade, decade), to=to, points=int(-50 * np.log10(to)),
                         dataset=data)
    ))
    frame.attrs = {"notes": []}
    found = paper_run.next_round(frame, paper_run.BEGIN + 20.0)
    assert {key[0] for key in found.limits} == {easy}
    assert found.wall <= paper_run.BEGIN + 20.0
    with_all = paper_run.next_round(frame, 1e6)
    assert {key[0] for key in with_all.limits} == {easy, hard}
    assert found.comparisons < with_all.comparisons
    assert paper_run.next_round(frame, 1.0) is None


def test_a_curve_that_several_comparisons_wait_for_is_paid_once():
    problem = factorized(), ELASTIC
    options = [((0.0, 5.0), 1, (*problem, STATED, "SDCA[m=1]"), 0),
               ((0.0, 6.0), 1, (*problem, STATED, "SPDC[m=1]"), 1),
               ((0.0, 6.0), 1, (*problem, EXACT, "SPDC[m=1]"), 2)]
    found = paper_run._cheapest(options, 1, paper_run.BEGIN + 6.0, 1.0)
    assert found.limits == {(*problem, "SPDC[m=1]"): 6.0} and found.comparisons == 2
    found = paper_run._cheapest(options, 1, paper_run.BEGIN + 11.0, 1.0)
    assert found.comparisons == 3 and found.wall == paper_run.BEGIN + 11.0
    assert paper_run._cheapest(options, 1, paper_run.BEGIN + 4.0, 1.0) is None


def test_of_a_run_the_file_in_which_it_went_on_longest_is_kept():
    one = runs(curve(STATED, 0.1, to=1e-4, points=30), curve("SPDC[m=1]", 0.2, points=60))
    two = runs(curve(STATED, 0.1, points=50), curve("SPDC[m=1]", 0.2, to=1e-4, points=20))
    kept = paper_run.longest([one, two])
    assert dict(kept.groupby("solver_name").size()) == {STATED: 50, "SPDC[m=1]": 60}
    again = paper_run.longest([kept, kept])
    assert len(again) == len(kept)
    # One that got to the end is not replaced by a slower one.
    slower = runs(curve(STATED, 0.3, points=40))
    kept = paper_run.longest([two, slower])
    assert kept[kept["solver_name"] == STATED]["time"].max() == pytest.approx(0.1 * 8 + 1e-3)


def test_seeds_that_a_cut_round_left_behind_are_run_again():
    late = seeds("SPDC[m=1]", (20.0, 1.1, 1.1), to=1e-3)
    frame = runs(*seeds(STATED, (1.0,) * 3), *late)
    assert one_pair_of(frame).keys() == {"SPDC[m=1]"}


def test_more_seeds_are_asked_for_once():
    frame = runs(*seeds(STATED, (1.0,) * 5), *seeds("SPDC[m=1]", (1.1,) * 4))
    frame[results.ASKED] = 5
    assert paper_run.next_round(frame, 1e6) is None
    # What is open of five seeds is run with five.
    frame = runs(*seeds(STATED, (1.0,) * 5), *seeds("SPDC[m=1]", (1.1,) * 5, to=1e-3))
    frame[results.ASKED] = 5
    assert paper_run.next_round(frame, 1e6).seeds == 5


@pytest.fixture
def rounds(home, monkeypatch, tmp_path):
    """Rounds of figure 1 that only note what they would run, and leave a file."""
    asked, ends = [], []

    def run(folder, options, name, seconds, variables):
        asked.append([word for k, word in enumerate(options) if options[k - 1] == "-d"])
        code, late, found = ends.pop(0)
        file = None
        if found is not None:
            file = tmp_path / f"round{len(asked)}.parquet"
            found.to_parquet(file)
        return Run(file, code, late)
    monkeypatch.setattr(paper_run, "benchopt_run", run)
    part = next(part for part in paper_run.PARTS if part.figure == "figure1")
    part = part._replace(data=("Factorized[n=5000]", "Factorized[n=10000]"))

    def decide(*wanted):
        ends[:] = wanted
        asked.clear()
        _, _, code = paper_run._decide(part, REPO, tmp_path, 1e4, Console(file=io.StringIO()))
        return code, list(asked)
    return decide


def test_a_first_look_that_was_cut_is_taken_up_again(rounds):
    half, whole = runs(curve(STATED, 1.0)), runs(curve(STATED, 1.0), curve("SPDC[m=1]", 9.0))
    both = [["Factorized[n=5000]", "Factorized[n=10000]"]]
    assert rounds((130, False, half)) == (130, both)
    assert rounds((0, True, half)) == (0, both)
    # Once it has come to its end nothing is open, also where a data set could not be loaded.
    assert rounds((0, False, whole)) == (0, both)
    assert rounds() == (0, [])


def test_a_round_that_changes_nothing_is_the_last(rounds):
    frame = runs(curve(STATED, 1.0), curve("SPDC[m=1]", 1.1, to=1e-3))
    ends = [(0, False, frame)] * 9
    code, asked = rounds(*ends)
    assert code == 0 and len(asked) == 2


@pytest.fixture
def archived(tmp_path):
    """A figure's file of this machine and these sources, as the archive has it."""
    (tmp_path / "results").mkdir()
    frame = runs(curve(STATED, 1.0), curve("SPDC[m=1]", 1.1, to=1e-3))
    here = {CURVES: CURVE_HASH, **versions(), **get_sys_info()}
    here = {column: here[column] for column in ORIGIN.values() if column in here}

    def made(more="", **other):
        loops = [1e-9] + (len(frame) - 1) * [1.0]
        known = here | {REFERENCE: loops, SPENT: 60.0, ASKED: 3} | other
        frame.assign(**known).to_parquet(tmp_path / "results" / "figure1.parquet")
        part = next(part for part in paper_run.PARTS if part.figure == "figure1")
        part = part._replace(data=("Factorized[n=5000]", "Factorized[n=10000]"))
        solvers = f"- {STATED}\n- SPDC[m=[1{more}]]"
        (tmp_path / "configs").mkdir(exist_ok=True)
        (tmp_path / "configs" / "figure1.yml").write_text(f"solver:\n{solvers}\n")
        paper_run.begin_archived(part, tmp_path, tmp_path)
    return made


def test_a_figure_goes_on_from_the_archive(archived, rounds, tmp_path):
    archived()
    assert json.loads((tmp_path / "figure1-looked.json").read_text()) == ["Factorized[n=5000]"]
    # The other data set gets its first look, and what is open more time.
    longer = runs(curve("SPDC[m=1]", 1.1))
    _, asked = rounds(*[(0, False, longer)] * 9)
    assert asked[0] == ["Factorized[n=10000]"]
    assert len(read_results([tmp_path / "figure1.parquet"])["solver_name"].unique()) == 2
    # What is being measured is not thrown away.
    before = (tmp_path / "figure1.parquet").read_bytes()
    archived()
    assert (tmp_path / "figure1.parquet").read_bytes() == before


def test_data_on_which_the_archive_lacks_solvers_get_a_first_look(archived, tmp_path):
    archived(more=",9")
    assert json.loads((tmp_path / "figure1-looked.json").read_text()) == []


@pytest.mark.parametrize("other, sentence", [
    ({CURVES: "0123"}, "benchmark-curves is 0123 there"),
    ({"system-processor": "abacus"}, "system-processor is abacus there"),
    ({"version-numpy": "0.1"}, "version-numpy is 0.1 there"),
    ({REFERENCE: 1e-9}, "the reference loop takes"),
])
def test_curves_of_other_sources_or_machines_are_not_gone_on_with(
        archived, tmp_path, other, sentence):
    with pytest.raises(ValueError, match=sentence):
        archived(**other)
    assert not (tmp_path / "figure1.parquet").exists()


def test_a_limit_ends_a_curve_and_zero_leaves_it_out(tmp_path, monkeypatch):
    solver = next(k for k in Benchmark(REPO).get_solvers() if k.name == "SDCA").get_instance()
    problem = make_problem(lambda1=0.01)
    problem.names = "data", "objective"
    file = tmp_path / "limits.json"
    monkeypatch.setenv(LIMITS, str(file))
    for value, skipped in ((0.0, True), (1e-6, False)):
        file = tmp_path / f"limits{value}.json"
        monkeypatch.setenv(LIMITS, str(file))
        file.write_text(json.dumps(dict(others=5.0, curves={
            f"data\tobjective\t{solver}": value})))
        assert solver.skip(problem)[0] == skipped
        assert solver.limit == value
    problem.names = "other", "objective"
    assert solver.skip(problem) == (False, None) and solver.limit == 5.0
    solver.limit = 1e-6
    monkeypatch.setattr(solver, "get_seed", lambda **options: 0)
    solver.set_objective(problem)
    calls = iter(range(100))
    solver.run(lambda: next(calls, None) is not None)
    assert solver.late and next(calls) < 5


def test_figure_2_takes_what_data_there_are_and_stand_ins_for_the_rest(home):
    def chosen():
        steps, left_out = paper_run.plan()
        data = next((step.data for step in steps if step.figure == "figure2"), ())
        return [parse(line)[1]["name"] for line in data], " ".join(left_out)
    file = home.parent / "data.txt"
    home.mkdir(parents=True)
    file.write_text("".join(f"{k % 20 + 1} 1:0.5 2:{k}\n" for k in range(40)))
    assert chosen()[0] == []
    for name, there, reason in (
        ("news20", ["news20"], "covtype.binary, rcv1.binary, real-sim not in"),
        ("covtype.binary", ["covtype.binary", "news20"], "rcv1.binary, real-sim not in"),
        ("real-sim", ["covtype.binary", "real-sim", "news20"], "rcv1.binary not in"),
    ):
        import_file(name, file)
        found, told = chosen()
        assert found == there and reason in told and "news20 in their place" in told
    import_file("rcv1.binary", file)
    assert chosen()[0] == ["covtype.binary", "rcv1.binary", "real-sim"]

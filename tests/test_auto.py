"""The method that is chosen by predicted time, the race that corrects it, and `recommend`."""

import bz2
import math
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from benchopt.benchmark import Benchmark
from conftest import OPERATORS, REPO, make_factors, make_problem
from matrix_cases import SMALL, risk_problem

from benchmark_dspdc import erm, solve
from benchmark_dspdc.cli import main
from benchmark_dspdc.methods import METHODS, Auto, auto
from benchmark_dspdc.model.losses import (
    Square,
    loss_conjugate,
    loss_derivative,
    loss_value,
    square,
)
from benchmark_dspdc.theory import ranking
from benchmark_dspdc.theory.block_sizes import PRICES

MATRICES = ("blocks", "trace", "metrics")


def posed(kind):
    """A small problem for each of the operators, those of matrices included."""
    return SMALL[kind]().problem if kind in SMALL else make_problem(kind)


def hard_problem(**options):
    """Small, and far from well-conditioned."""
    return make_problem("dense", "square", 0.0, 1e-3, n=60, **options)


@pytest.fixture
def racing(monkeypatch):
    """SVRG, which is slow there, leads on small problems, and races come early."""
    monkeypatch.setattr(auto, "FIRST", 1e-5)
    monkeypatch.setattr(auto, "HOPEFUL", math.inf)
    monkeypatch.setattr(auto, "certificate_seconds", lambda problem: 0.0)
    for of in ("linear", "square"):
        monkeypatch.setitem(ranking.FITS, ("svrg", of), ranking.Fit(1e-6, 0.0, 1.0))


def no_race(*given):
    raise AssertionError("a race")


# The ranking -----------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [*OPERATORS, *MATRICES])
def test_a_ranking_is_sorted_by_time_with_some_care_and_follows_from_the_problem(kind):
    found = ranking.ranking(posed(kind))
    ranks = [each.rank for each in found]
    assert ranks == sorted(ranks)
    assert all(each.seconds <= each.rank <= each.at_worst for each in found)
    assert all(0.0 < each.seconds <= each.at_worst < math.inf for each in found)
    assert found == ranking.ranking(posed(kind))
    assert {each.method for each in found} == {"dspdc", *ranking.rivals(posed(kind))}


def test_every_method_has_its_prices_for_every_kind_of_data_and_a_fit():
    assert {method for method, _ in ranking.FITS} <= set(METHODS)
    for rivals, circumstances in (
        (ranking.NUMBERS, ("linear", "square")), (ranking.MATRICES, ("matrices",))
    ):
        for of in circumstances:
            fitted = {method for method, other in ranking.FITS if other == of}
            assert fitted == {"dspdc", *rivals}
    assert {of for _, of in ranking.FITS} == {"linear", "square", "matrices"}
    # On matrices all have DSPDC's prices.
    numbers = set(PRICES) - {"matrix blocks", "rank-one sums"}
    expected = {(method, kind) for method in ranking.NUMBERS for kind in numbers}
    assert set(ranking.PRICES_OF) == expected
    known = {"dspdc", *ranking.NUMBERS}
    assert all(method in known and kind in PRICES for method, kind in ranking.SET_UPS)
    assert {posed(kind).operator.kind for kind in (*OPERATORS, *MATRICES)} == set(PRICES)


DEGENERATE = {
    "one row": (np.ones((1, 5)), 0.1), "one column": (np.ones((5, 1)), 0.1),
    "one number": (np.ones((1, 1)), 0.1), "zeros": (np.zeros((4, 3)), 0.1),
    "nothing stored": (scipy.sparse.csr_array((4, 3)), 0.1),
    "zero factors": ((np.zeros((4, 2)), np.zeros((2, 3))), 0.1),
    "huge lam": (np.ones((5, 2)), 1e12),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_are_ranked_and_solved(case):
    A, lambda2 = DEGENERATE[case]
    n = len(A[0]) if isinstance(A, tuple) else A.shape[0]
    problem = erm(A, np.ones(n), "smoothed_hinge", 0.0, lambda2)
    assert all(0.0 < each.seconds <= each.at_worst for each in ranking.ranking(problem))
    result = solve(problem)
    assert result.method == "auto" and result.status == "converged"


@pytest.mark.parametrize("kind", [*OPERATORS, *MATRICES, "numbers"])
def test_every_operator_is_solved_and_the_choice_is_shown(kind):
    # "numbers" are matrices of one number.
    result = solve(posed(kind))
    assert result.status == "converged" and result.relative_gap <= 1e-6
    first = Auto.contenders(posed(kind))[0]
    assert result.info["choice"].startswith(f"{result.info['method']}: ")
    assert f"method   auto, {result.info['choice']}" in repr(result)
    assert result.info["method"] == first.method or "by a race" in result.info["choice"]


def test_auto_is_the_default_unless_options_are_those_of_dspdc():
    problem = make_problem()
    assert solve(problem).method == "auto"
    assert solve(problem, race=False).method == "auto"
    assert solve(problem, m=10).method == "dspdc"
    assert solve(problem, "AUTO", race="False").status == "converged"
    with pytest.raises(ValueError, match="auto has no option 'm'; it has moduli, race"):
        solve(problem, "auto", m=10)


@pytest.mark.parametrize("race", ["clock", True, None, 1])
def test_an_unknown_race_is_refused(race):
    with pytest.raises(ValueError, match=r"race must be one of 'work', 'time', False, got"):
        solve(make_problem(), race=race)


def test_moduli_are_those_of_the_method_that_is_chosen(monkeypatch):
    problem = SMALL["moduli far apart"]().problem
    monkeypatch.setitem(ranking.FITS, ("dspdc", "matrices"), ranking.Fit(1e-6, 0.0, 1.0))
    runs = {moduli: Auto(problem, moduli=moduli) for moduli in ("each", "least")}
    for moduli, run in runs.items():
        assert run.info["tau"] == METHODS[run.info["method"]](problem, moduli=moduli).info["tau"]
    assert runs["each"].info["tau"] != pytest.approx(runs["least"].info["tau"])
    assert solve(problem, moduli="least").status == "converged"


def test_which_fit_holds_follows_from_the_problem():
    for loss in ("square", "smoothed_hinge", "logistic", "huber"):
        expected = "square" if loss == "square" else "linear"
        assert ranking.circumstance(make_problem(loss=loss)) == expected
    assert ranking.circumstance(posed("blocks")) == "matrices"


# What methods ask for --------------------------------------------------------------------

class Plain(namedtuple("Plain", [])):
    """A square loss of which nothing is known but what a certificate asks for."""

    gamma, classification = Square().gamma, False


for function, body in ((loss_value, square.square_value),
                       (loss_derivative, square.square_derivative),
                       (loss_conjugate, square.square_conjugate)):
    function.register(Plain)(getattr(body, "py_func", body))


def test_methods_that_refuse_a_problem_do_not_run():
    A = np.dot(*make_factors())
    problem = erm(A, A.sum(axis=1), Plain(), 0.01, 0.1)
    assert {each.method for each in Auto.ranked(problem)} == {
        "fista", "katyusha", "l_katyusha", "l_svrg", "rpdg", "s2cd", "svrg",
    }
    result = solve(problem)
    assert result.status == "converged" and result.info["method"] in Auto.admitted(problem)
    with pytest.raises(ValueError, match="dspdc needs dual_prox, which Plain does not have"):
        solve(problem, "dspdc")


def test_without_any_method_the_error_says_what_is_missing(monkeypatch):
    def refuses(problem, **options):
        raise ValueError("it needs more")

    monkeypatch.setattr(Auto, "field", dict.fromkeys(METHODS, SimpleNamespace(validate=refuses)))
    with pytest.raises(ValueError, match="it needs more"):
        solve(make_problem())


# The race --------------------------------------------------------------------------------

def test_a_wrong_leader_is_replaced_and_the_result_is_certified(racing):
    problem = hard_problem()
    assert Auto.contenders(problem)[0].method == "svrg"
    result = solve(problem, tol=1e-8)
    assert result.status == "converged"
    assert problem.certify(result.x, result.y).relative_gap <= 1e-8
    assert result.info["method"] != "svrg"
    assert f"{result.info['method']}: by a race at " in result.info["choice"]
    assert result.info["choice"] in repr(result)


def test_equal_seeds_give_equal_runs_also_by_a_race(racing):
    one, two = (solve(hard_problem(), seed=3, tol=1e-8) for _ in range(2))
    assert "by a race" in one.info["choice"] and one.info["choice"] == two.info["choice"]
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.y, two.y)
    columns = ["passes", "coordinate_updates", "gap"]
    assert one.history[columns].equals(two.history[columns])


def test_the_work_is_that_of_all_that_ran_and_of_certificates(racing):
    problem = hard_problem()
    run = Auto(problem)
    run.advance(600)
    leader, past = run._leader.algorithm, run._past
    assert past and run._looks > len(past)
    own = sum(counters[0] for counters in past) / problem.operator.multiply_adds
    assert run.passes == pytest.approx(leader.passes + own + 1.5 * run._looks)
    assert run.coordinate_updates == leader.coordinate_updates + sum(c[1] for c in past)
    assert run.passes > leader.passes + 1.0


def test_certificates_of_matrices_are_eigendecompositions_too(racing):
    problem = risk_problem(n=12, p=4, d=3).problem
    run = Auto(problem)
    run.advance(50)
    assert run._looks > 0
    ran = run._leader.algorithm.eigendecompositions + sum(c[2] for c in run._past)
    assert run.eigendecompositions == ran + run._looks * 2 * 4


def test_without_a_race_the_prediction_stands(racing, monkeypatch):
    monkeypatch.setattr(Auto, "_look", no_race)
    result = solve(hard_problem(), race=False, max_passes=100)
    assert result.info["method"] == "svrg" and "predicted" in result.info["choice"]


@pytest.fixture
def opening(racing, monkeypatch):
    """DSPDC is predicted to be fastest, SDCA to be cheap to try."""
    factors = {"dspdc": 8.0, "sdca": 400.0}
    for method, of in list(ranking.FITS):
        fit = ranking.Fit(factors.get(method, 1e4), 0.5, 1.0)
        monkeypatch.setitem(ranking.FITS, (method, of), fit)


def test_sdca_opens_a_run_and_goes_on_where_it_is_clearly_faster(opening):
    for problem, winner in ((make_problem("dense", n=60), "sdca"), (hard_problem(), "dspdc")):
        first, *others = Auto.contenders(problem)
        assert first.method == "dspdc" and Auto.opens(first, others).method == "sdca"
        run = Auto(problem)
        assert run.info["method"] == "sdca"
        # Until its second certificate, after four passes.
        run.advance(round(auto.OPENING * run.iterations_per_pass) - 1)
        assert (run.info["method"], run._looks) == ("sdca", 1)
        run.advance(2)
        assert (run.info["method"], run._looks) == (winner, 2)
        if winner == "sdca":
            assert f"after {auto.OPENING:g} passes" in run.info["choice"]
        else:
            start = run._leader.algorithm.start
            assert problem.certify(start.x, start.y).relative_gap == pytest.approx(run._least)
        assert solve(problem, tol=1e-8).status == "converged"


def test_a_run_that_is_soon_over_has_no_opening(opening, monkeypatch):
    first, *others = Auto.contenders(make_problem("dense", n=60))
    monkeypatch.setattr(auto, "FIRST", 1.01 * first.seconds)
    assert Auto.opens(first, others) is None
    assert Auto(make_problem("dense", n=60)).info["method"] == "dspdc"


def test_a_leader_that_is_nearly_there_is_not_challenged(racing, monkeypatch):
    run = Auto(hard_problem())
    monkeypatch.setattr(Auto, "_enter", no_race)
    monkeypatch.setattr(auto.Racer, "left", lambda self, target: self.work)
    run.advance(400)
    assert run._looks > 2 and not run._past


def test_the_clock_may_decide_a_race(racing):
    result = solve(hard_problem(), race="time", tol=1e-8)
    assert result.status == "converged"


def test_a_run_begins_where_it_is_told_to():
    problem = make_problem()
    solution = solve(problem, tol=1e-12)
    again = solve(problem, x0=solution.x, y0=solution.y, tol=1e-8)
    assert len(again.history) == 1 and again.status == "converged"
    run = Auto(problem, start=auto.Start(solution.x, solution.y))
    np.testing.assert_array_equal(run._leader.algorithm.start.x, solution.x)
    np.testing.assert_array_equal(run._leader.algorithm.start.y, solution.y)


@pytest.mark.parametrize("kind", ["dense", "blocks"])
def test_a_race_goes_on_to_the_limit_of_double_precision(racing, kind):
    # A gap of zero, or by rounding below it, has no logarithm.
    run = Auto(posed(kind))
    for _ in range(40):
        run.advance(200 if kind == "dense" else 20)
    assert run.problem.certify(run.x, run.y).relative_gap < 1e-12


def racer(*gaps):
    """A racer that has seen some gaps, one a second."""
    class Seen:
        x = y = None

        class problem:
            @staticmethod
            def certify(x, y):
                return SimpleNamespace(relative_gap=gaps[made.work], gap=0.0, own_gap=1.0)

            @staticmethod
            def dual_from_primal(x):
                return None

    made = auto.Racer(None, Seen, clock=False, work=0)
    for _ in gaps:
        made.look()
        made.work += 1
    return made


def test_what_is_left_follows_from_what_was_gained():
    # A decade a second, four of which are left.
    assert racer(1e-0, 1e-1, 1e-2).left(1e-6) == pytest.approx(4.0)
    assert racer(1e-2, 1e-2).left(1e-6) == racer(1e-2).left(1e-6) == math.inf
    assert racer(1.0, 1e-8).left(1e-6) == 0.0


def test_what_is_no_number_gains_nothing():
    for gap in (math.nan, math.inf):
        assert racer(1e-2, gap).gap == 1e-2
        assert racer(gap, gap).left(1e-6) == racer(gap, 1e-2).left(1e-6) == math.inf
    for gap in (0.0, -1e-17):
        assert racer(1e-2, gap).gap == auto.LEAST_GAP
        assert racer(1e-2, gap).left(1e-6) == 0.0


def test_what_the_leader_says_of_itself_is_current_and_its_rate_is_not_autos():
    problem = hard_problem()
    run = Auto(problem, race=False)
    run.advance(500)
    leader = run._leader.algorithm
    told = {name: value for name, value in leader.info.items() if name != "choice"}
    assert told.items() <= run.info.items()
    assert math.isnan(run.predicted_rate)


# Remedies, and the plug-in ---------------------------------------------------------------

def test_columns_far_apart_are_named_where_a_run_ends_early():
    A = np.dot(*make_factors())
    b = np.sign(A.sum(axis=1))
    for unit, told in ((1.0, False), (1e4, True)):
        result = solve(erm(A * np.r_[unit, np.ones(11)], b, lambda2=1e-6), max_passes=1)
        assert result.status == "max_passes" and ("remedy" in result.info) == told
        assert ("\nremedy   columns of A are in units that differ by" in repr(result)) == told
    scaled = solve(erm(A * np.r_[1e4, np.ones(11)], b, lambda2=10.0), max_passes=1e4)
    assert scaled.status == "converged" and "remedy" not in scaled.info


def test_the_plug_in_shows_its_race_and_skips_what_no_method_admits(monkeypatch):
    (cls,) = [cls for cls in Benchmark(REPO).get_solvers() if cls.name == "Auto"]
    assert str(cls.get_instance(race="work")) == "Auto"
    assert str(cls.get_instance(race=False)) == "Auto[race=False]"
    good, problem = cls.get_instance(race="work"), make_problem()
    for race in ("work", "time", False, "False"):
        assert cls.get_instance(race=race).skip(problem) == (False, None)
    skipped, reason = cls.get_instance(race="slow").skip(problem)
    assert skipped and "race must be one of" in reason
    good.set_objective(problem)
    monkeypatch.setattr(cls, "get_seed", lambda self, **given: 0)
    checks = iter(range(3))
    good.run(lambda: next(checks, None) is not None)
    result = good.get_result()
    assert result["x"].shape == problem.x_shape and result["passes"] > 0.0
    assert math.isnan(result["predicted_rate"])


# recommend -------------------------------------------------------------------------------

@pytest.fixture
def files(tmp_path, monkeypatch):
    """Data of a user, in all the forms that are read; classes are 1 and 2."""
    monkeypatch.chdir(tmp_path)
    A = np.dot(*make_factors())
    b = np.where(A.sum(axis=1) > 0.0, 2, 1)
    np.savez("data.npz", A=A, b=b)
    np.savez("real.npz", A=A, b=A.sum(axis=1))
    np.savez("counts.npz", A=A, b=np.arange(30))
    np.savez("same.npz", A=A, b=np.ones(30))
    np.savez("half.npz", A=A)
    np.save("b.npy", b)
    np.save("A.npy", A)
    A = np.where(np.abs(A) > 0.8, A, 0.0)
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csr_array(A))
    lines = (
        f"{label} " + " ".join(f"{j + 1}:{row[j]:.6f}" for j in np.flatnonzero(row)) + "\n"
        for label, row in zip(b, A, strict=True)
    )
    text = "".join(lines)
    (tmp_path / "data.svm").write_text(text)
    (tmp_path / "data.bz2").write_bytes(bz2.compress(text.encode()))


def recommended(capsys, *arguments):
    """What is printed; no line is too long."""
    assert main(["recommend", *arguments]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    return shown


HINGE, SQUARE = ("ERM[lambda1=0.001,lambda2=0.01,loss=smoothed_hinge]",
                 "ERM[lambda1=0.001,lambda2=0.01,loss=square]")


@pytest.mark.parametrize(("arguments", "expected"), [
    (["data.npz"], [HINGE, "dense, n = 30, p = 12; labels 1 -> -1, 2 -> +1"]),
    (["A.npy", "b.npy"], [HINGE, "dense, n = 30", "labels 1 -> -1, 2 -> +1"]),
    (["sparse.npz", "b.npy"], [HINGE, "csr, n = 30", "labels 1 -> -1, 2 -> +1"]),
    (["data.svm"], [HINGE, "csr, n = 30, p = 12; labels 1 -> -1, 2 -> +1"]),
    (["./data.bz2", "-o", "ERM[loss=logistic,lambda2=1e-4]"], ["lambda2=0.0001,loss=logistic"]),
    (["real.npz"], [SQUARE, "n = 30, p = 12\n"]),
    # Of whole numbers -o decides.
    (["counts.npz"], [HINGE, "classes 0..14 -> -1, 15..29 -> +1"]),
    (["counts.npz", "-o", "ERM[loss=square]"], [SQUARE, "n = 30, p = 12\n"]),
    (["same.npz", "-o", "ERM[loss=square]"], [SQUARE]),
    (["Factorized[n=60,p=12,d=4]"], ["Factorized[d=4", HINGE, "factorized, n = 60, p = 12"]),
    (["Bundled[name=diabetes]"], ["name=diabetes", SQUARE]),
    (["TraceRegression[n=30,p=3,d=4]"], ["loss=square", "m=1.0, scaling=sampled"]),
])
def test_files_and_data_sets_are_ranked(files, capsys, arguments, expected):
    shown = recommended(capsys, *arguments, "--seconds", "0")
    for text in (*expected, "predicted", "at worst", "dspdc", "fista",
                 "it is predicted to take", "solve(problem) does this by itself"):
        assert text in shown, (text, shown)
    assert "measured" not in shown


def test_the_first_of_a_ranking_are_tried(files, capsys):
    shown = recommended(capsys, "data.npz")
    assert "measured" in shown and " s here.\nIn Python, solve(problem, '" in shown
    (advised,) = [line for line in shown.splitlines() if line.startswith("Use ")]
    method = advised.removeprefix("Use ").partition(":")[0]
    data = np.load("data.npz")
    problem = erm(data["A"], 2.0 * data["b"] - 3.0, lambda1=1e-3)
    tried = [each.method for each in Auto.contenders(problem)]
    assert method in tried
    rows = {line.split()[0]: line for line in shown.splitlines() if line.startswith(" ")
            and line.split()}
    assert len(rows["svrg"].split()) == 3 and len(rows[tried[0]].split()) == 4


def test_what_is_not_reached_has_a_gap_and_a_remedy(files, capsys):
    data = np.load("data.npz")
    np.savez("far.npz", A=data["A"] * np.r_[1e5, np.ones(11)], b=data["b"])
    shown = recommended(capsys, "far.npz", "-o", "ERM[lambda1=0.0,lambda2=1e-12]", "--seconds",
                        "1e-6")
    for text in ("> 1e-06, gap", "First, columns of A are in units", "none that was tried"):
        assert text in shown, (text, shown)


@pytest.mark.parametrize(("arguments", "message"), [
    (["none.npz"], "no such file: none.npz"),
    (["none.svm"], "none.svm: there is no such file; allowed is a file in LIBSVM format"),
    (["nonsense"], "there is no file nonsense; as a data set: Patterns ['nonsense'] did not"),
    (["half.npz"], "must be an .npz with the arrays A, b, got A; or give two files, of A and b"),
    (["data.npz", "b.npy"], "data.npz must hold A alone, got A, b"),
    (["A.npy", "none.npy"], "no such file: none.npy"),
    (["same.npz"], "'same.npz' has one class only: got 1 in all 30 rows"),
    (["real.npz", "-o", "ERM[loss=logistic]"], "the logistic loss needs labels -1 and +1"),
    (["data.npz", "-o", "Lasso"], "Available objectives are: - ERM"),
    (["data.npz", "-o", "ERM[loss=hinge]"], "loss must be one of 'square'"),
    (["data.npz", "--seconds", "-1"], "--seconds must be a finite number >= 0, got -1.0"),
])
def test_what_cannot_be_ranked_ends_with_one_line_and_code_2(files, capsys, arguments, message):
    assert main(["recommend", *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown and len(shown.splitlines()) == 1, shown


def test_an_interrupted_try_ends_the_command(files, capsys, monkeypatch):
    def stopped(self, n_iterations):
        if n_iterations > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(METHODS["dspdc"], "_run", stopped)
    assert main(["recommend", "data.npz"]) == 130
    assert capsys.readouterr().err == "benchmark_dspdc: interrupted\n"

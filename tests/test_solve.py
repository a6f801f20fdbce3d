from contextlib import contextmanager

import numba
import numpy as np
import pytest
import scipy.sparse
from conftest import OPERATORS, PAPER, make_problem
from numba.core.registry import CPUDispatcher
from test_matrix_problems import risk_problem

import benchmark_dspdc
from benchmark_dspdc import erm, methods, solve
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.solver import check_options, chunk, option_names, schedule, warm_up


def test_methods_lists_what_solve_takes():
    assert set(methods()) >= {
        "dspdc", "spdc", "sdca", "asdca", "apcg", "apcg_primal", "saga", "svrg", "katyusha",
        "rpdg", "pdhg", "rpdhg", "fista",
    }
    assert all(line.endswith(".") and len(line) > 20 for line in methods().values())
    for name in methods():
        assert solve(make_problem(), method=name).status == "converged"


def test_result_holds_the_certificate_of_its_point():
    problem = make_problem()
    result = solve(problem, tol=1e-7, m=5, q=4)
    assert result.status == "converged"
    certificate = problem.certify(result.x, result.y)
    assert result.primal == certificate.primal == problem.primal(result.x)
    assert result.dual == certificate.dual
    assert result.gap == certificate.gap
    assert result.relative_gap == result.gap / max(1.0, abs(result.primal)) <= 1e-7
    assert result.info["m"] == 5
    assert result.info["Lambda_kind"] == "estimated from a sample of rows"
    paper = solve(problem, tol=1e-7, m=5, q=4, **PAPER)
    assert paper.status == "converged"
    assert paper.info["Lambda_kind"] == "exact"
    last = result.history.iloc[-1]
    assert (last["primal"], last["dual"], last["gap"]) == (result.primal, result.dual, result.gap)


def test_history_has_one_row_a_check_and_never_goes_back():
    history = solve(make_problem(), "sdca", tol=1e-9).history
    assert list(history.columns) == [
        "seconds", "passes", "coordinate_updates", "eigendecompositions", "primal", "dual", "gap",
        "relative_gap", "own_gap",
    ]
    assert history["passes"].iloc[0] == 0.0
    assert (history["passes"].diff().dropna() > 0).all()
    assert (history["seconds"].diff().dropna() >= 0).all()
    assert (history["gap"] > -1e-15).all()
    assert (history["own_gap"] >= history["gap"] - 1e-15).all()


def test_checks_are_ten_percent_apart_in_the_long_run():
    steps = [0]
    while steps[-1] < 10_000:
        steps.append(schedule(steps[-1]))
    ratios = np.diff(steps) / np.array(steps[:-1]).clip(1)
    assert steps[:12] == list(range(12))
    assert ratios[40:].max() < 0.12


def test_limits_end_a_run_with_their_name():
    problem = make_problem(lambda2=1e-6, lambda1=0.0)
    assert solve(problem, tol=0.0, max_passes=5).status == "max_passes"
    result = solve(problem, tol=1e-300, max_seconds=0.2, m=1, q=1, **PAPER)
    assert result.status == "max_seconds"
    assert np.isfinite(result.gap)


def test_a_gap_of_zero_is_not_waited_for():
    assert solve(make_problem(), tol=0.0, max_seconds=30).status in ("stalled", "converged")


def test_a_chunk_is_about_a_fifth_of_a_pass():
    for operator in OPERATORS:
        algorithm = METHODS["sdca"](make_problem(operator, n=100))
        algorithm.advance(chunk(algorithm))
        assert 0.15 <= algorithm.passes <= 0.5
    assert chunk(METHODS["dspdc"](make_problem(), m=1.0, q=1.0)) == 1


def test_steps_that_are_too_long_end_soon_as_diverged_with_the_best_point_kept():
    problem = make_problem("dense", "square", lambda2=1e-4, lambda1=0.0)
    result = solve(problem, m=30, q=12, Lambda=1e-6, max_seconds=20)
    assert result.status == "diverged"
    assert np.isfinite(result.history["primal"].iloc[:-1]).all()
    assert result.history["gap"].iloc[-2] < 1e32 * result.history["gap"].iloc[0]
    assert np.isfinite(result.gap)
    assert result.gap <= result.history["gap"].iloc[0]


def test_callback_sees_every_row_and_can_stop():
    rows = []

    def callback(row):
        rows.append(row)
        return len(rows) == 4

    result = solve(make_problem(), tol=0.0, callback=callback)
    assert result.status == "interrupted"
    assert len(rows) == len(result.history) == 4
    assert rows[-1]["gap"] == result.history["gap"].iloc[-1]


def test_control_c_keeps_the_best_point():
    def callback(row):
        if row["passes"] > 3:
            raise KeyboardInterrupt

    result = solve(make_problem(), tol=0.0, callback=callback)
    assert result.status == "interrupted"
    assert result.gap < result.history["gap"].iloc[0]


def test_progress_bar_shows_the_gap(capsys):
    solve(make_problem(), progress=True)
    shown = capsys.readouterr().out
    assert "auto" in shown
    assert "gap" in shown


@pytest.mark.parametrize("method", sorted(METHODS))
def test_equal_seeds_give_equal_curves_bit_for_bit(method):
    problem = make_problem()
    columns = ["passes", "primal", "dual", "gap"]
    # On data this small it would choose all rows and columns, and draw nothing.
    options = dict(m=3, q=4) if method == "dspdc" else {}
    one, two, other = (
        solve(problem, method, seed=seed, tol=1e-9, **options).history[columns]
        for seed in (3, 3, 4)
    )
    assert one.equals(two)
    assert one.equals(other) == (method in ("pdhg", "rpdhg", "fista"))      # deterministic


@pytest.mark.parametrize(("options", "message"), [
    (dict(method="dspcd"), "method must be one of 'dspdc'.*did you mean"),
    (dict(tol=-1), "tol must be"),
    (dict(tol="small"), "tol must be"),
    (dict(max_seconds=0), "max_seconds must be"),
    (dict(max_passes=-3), "max_passes must be"),
    (dict(seed=-1), "seed must be an integer >= 0, got -1"),
    (dict(seed=0.5), "seed must be"),
    (dict(callback=3), "callback must be callable or None, got 3"),
    (dict(progress=np.ones(2)), "progress must be true or false"),
    (dict(batch=3), "dspdc has no option 'batch'; it has .*sampling"),
    (dict(method="spdc", q=3), "spdc updates all p primal coordinates.*got q=3"),
    *((dict(m=value), "m must be an integer from 1 to 30") for value in (
        31, 0, 1.5, "best", None, np.ones(2),
    )),
    *((dict(q=value), "q must be an integer from 1 to 12") for value in (
        0, np.array(["auto", "auto"]),
    )),
    (dict(method="spdc", m=1.5), "fraction in"),
    # Others do not choose.
    *((dict(method=method, m=value), "m must be .*got '(auto|all)'")
      for method in ("sdca", "saga") for value in ("auto", "all")),
    *((dict(Lambda=value), "Lambda must be") for value in (
        "exact", -1.0, float("nan"), None, True, np.ones(2),
    )),
    (dict(method="spdc", Lambda=[1]), "Lambda must be one of"),
    (dict(Lambda=None, probabilities="importance"), "Lambda must be one of"),
    (dict(sampling="subset", Lambda="partition"), "use Lambda='bound'"),
    (dict(Lambda="heuristic", heuristic_scale=0), "heuristic_scale must be"),
    (dict(sampling="cyclic"), "sampling must be one of"),
    (dict(theorem=3), "theorem must be one of 1, 2"),
    (dict(moduli="all"), "moduli must be one of 'each', 'least', got 'all'"),
    *((dict(adaptive=value), "adaptive must be true or false") for value in ("yes", 1, None)),
    *((dict(column_steps=value), "column_steps must be true or false") for value in ("yes", 1)),
    (dict(adaptive=True, probabilities="importance"), "cannot be adaptive"),
    (dict(method="spdc", steps="mine"), "steps must be one of"),
    (dict(method="spdc", theorem=2), "only with steps='dspdc'"),
    (dict(method="sdca", order="cyclic"), "order must be one of"),
    (dict(method="sdca", scaling="loose"), "scaling must be one of"),
    (dict(method="svrg", epoch=0), "epoch must be a finite number > 0 and < 1e.09, got 0"),
    (dict(method="katyusha", epoch=1.7e308), "epoch must be a finite number > 0 and < 1e.09"),
    *((dict(method="asvrg_sp", **{name: value}), name) for name, value in (
        ("sampling", "rows"), ("batch", 0), ("batch", "all"), ("acceleration", -1.0),
        ("acceleration", 1e85), ("acceleration", "none"), ("inner", "none"),
    )),
])
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        solve(make_problem(), **options)


def test_something_else_than_a_problem_is_refused():
    with pytest.raises(ValueError, match="problem must be a Problem, as erm, matrix_risk"):
        solve(np.eye(3))


def test_option_names_include_those_passed_on():
    assert option_names(METHODS["dspdc"]) == {
        "m", "q", "sampling", "theorem", "Lambda", "heuristic_scale", "adaptive",
        "probabilities", "calibrate", "moduli", "threads", "steps", "order", "column_steps",
    }
    assert option_names(METHODS["spdc"]) >= {"m", "steps", "theorem", "Lambda"}
    assert option_names(METHODS["sdca"]) == {
        "m", "scaling", "order", "probabilities", "moduli"
    }
    message = "no option .q.; it has m, moduli, order, probabilities, scaling"
    with pytest.raises(ValueError, match=message):
        check_options(METHODS["sdca"], dict(q=3))


@contextmanager
def nothing_compiled():
    """Within it no function gets code for types that it had none for, compiled or from a file."""
    seen, add = [], CPUDispatcher.add_overload

    def add_overload(function, compiled):
        seen.append(function.py_func.__qualname__)
        add(function, compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CPUDispatcher, "add_overload", add_overload)
        yield
    assert not seen


def test_what_is_compiled_is_seen():
    with pytest.raises(AssertionError, match="lambda"), nothing_compiled():
        numba.njit(lambda x: x + 1)(2.0)


WARM = [
    ("dspdc", dict(m=5, q=4, **PAPER)), ("dspdc", dict(m=20, q=1, **PAPER)),
    ("dspdc", dict(adaptive=True)), ("dspdc", dict(m=1, q=1.0, adaptive=True)),
    ("dspdc", dict(m=5, q=4, column_steps=True)), *((name, {}) for name in sorted(METHODS)),
]
#: Methods after the paper, by day on dense and lazy rows alone: compiling takes long.
TODAY = ("pure_cd", "spdhg", "rpdhg", "l_svrg", "l_katyusha", "sdna", "s2cd", "qning")
VARIANTS = [("dspdc", dict(m=3, sampling="subset")), ("sdca", dict(m=4, order="permuted"))]


@pytest.mark.parametrize(("operator", "method", "options"), [
    *(pytest.param(operator, *case, marks=(
        pytest.mark.nightly if case[0] in TODAY and operator in ("csr", "factorized") else ()
    )) for operator in (*OPERATORS, "lazy") for case in WARM),
    *(("dense", *case) for case in VARIANTS),
    *(pytest.param(operator, *case, marks=pytest.mark.nightly)
      for operator in ("csr", "factorized", "lazy") for case in VARIANTS),
])
def test_nothing_is_compiled_after_the_warm_up(operator, method, options):
    if operator == "lazy":
        A = scipy.sparse.random_array((40, 90), density=0.05, rng=np.random.default_rng(0))
        problem = erm(A, np.ones(40), "smoothed_hinge", 1e-4, 1e-5)
    else:
        problem = make_problem(operator, n=33)
    warm_up(METHODS[method], problem, options)
    with nothing_compiled():
        algorithm = METHODS[method](problem, seed=5, **options)
        # Several epochs for those that have them, and several looks back.
        algorithm.advance(1000 if algorithm.info.get("adaptive") else 200)
    if algorithm.info.get("adaptive") and operator == "lazy":
        assert algorithm.info["modulus"] != algorithm._curvature.most


def test_public_names_are_few_and_documented():
    for name in benchmark_dspdc.__all__:
        if name != "__version__":
            assert getattr(benchmark_dspdc, name).__doc__, name


def test_readme_example_of_the_docstring_runs():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 10))
    b = np.sign(A @ np.ones(10) + rng.standard_normal(200))
    assert solve(erm(A, b, loss="logistic", lambda2=0.1), tol=1e-8).status == "converged"


def test_points_are_further_apart_on_large_data(monkeypatch):
    algorithm = METHODS["sdca"](make_problem("dense", n=1000, p=12))
    assert chunk(algorithm) == 200
    monkeypatch.setattr("benchmark_dspdc.solver.LARGE", 1.0)
    assert chunk(algorithm) == 1000
    matrices = METHODS["sdca"](risk_problem().problem)
    assert chunk(matrices) == max(1, round(matrices.iterations_per_pass / 2))

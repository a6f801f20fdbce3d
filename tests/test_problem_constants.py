"""The constants of a problem, on all operators, against explicit matrices."""


import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from conftest import PAPER
from test_coupling import brute_force, make
from test_matrix_problems import flat_of, metric_problem, risk_problem, trace_problem

from benchmark_dspdc import ProblemConstants, constants, erm
from benchmark_dspdc.engine.sampling import Partition
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.operators import as_operator
from benchmark_dspdc.theory import constants as problem_constants
from benchmark_dspdc.theory import coupling_constant as coupling
from benchmark_dspdc.theory.coupling_constant import largest_norm2_below, whole
from benchmark_dspdc.theory.setting import samplers

NAMES = ProblemConstants.NAMES
KINDS = ("dense", "csr", "factorized", "matrix_risk", "trace_regression", "mt_lmnn")


def problem_of(kind):
    """A problem, and its blocks A_i^j written out, (n, p, numbers in a block)."""
    if kind in ("dense", "csr", "factorized"):
        A, operator = make(kind, 20, 13)
        return erm(operator, np.ones(20), lambda2=0.3), A[:, :, None]
    written = {
        "matrix_risk": lambda: risk_problem("square"), "trace_regression": trace_problem,
        "mt_lmnn": metric_problem,
    }[kind]()
    return written.problem, flat_of(written.D, written.problem.operator.weights).reshape(
        *written.problem.shape, -1
    )


def norm2_of(blocks, I=slice(None), J=slice(None)):
    part = blocks[I][:, J]
    return np.linalg.norm(part.reshape(len(part), -1), 2) ** 2


def explicit(problem, blocks, m, q, seed):
    """All five by explicit entries and singular values."""
    p = problem.shape[1]
    dual, primal = samplers(problem, np.random.SeedSequence(seed), m, q, "partition")
    squares = (blocks ** 2).sum(axis=2)
    return dict(
        Lambda_11=squares.max(), Lambda_p1=squares.sum(axis=1).max(),
        Lambda_1n=max(norm2_of(blocks, J=[j]) for j in range(p)), Lambda_pn=norm2_of(blocks),
        Lambda_qm=max(norm2_of(blocks, I, J) for I in dual.blocks for J in primal.blocks),
    )


SIZES = [
    (1, 1), (1, 2), (5, 1), (6, 2), (0.1, 0.6), (1, 1.0), (1.0, 1), (0.4, 1.0), (1.0, 0.4),
    (1.0, 1.0),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "q"), SIZES)
def test_constants_are_those_of_the_explicit_matrix(kind, m, q):
    problem, blocks = problem_of(kind)
    found = constants(problem, m, q, seed=3)
    for name, value in explicit(problem, blocks, m, q, 3).items():
        known = getattr(found, name)
        assert known.exact and known.kind == "exact", name
        assert known.value == known.lower == pytest.approx(value, rel=1e-9), name
        assert known.seconds >= 0.0
    n, p = problem.shape
    assert found.kappa == pytest.approx(found.Lambda_p1.value / (problem.lam * problem.gamma))
    assert found.kappa_whole == pytest.approx(
        found.Lambda_pn.value / (n * problem.lam * problem.gamma)
    )
    assert found.heuristic == pytest.approx(found.m * found.q * found.Lambda_p1.value / p)
    assert found.ratio == pytest.approx(found.Lambda_qm.value / found.heuristic)


def without_budget(monkeypatch, limit=0.0):
    for where in (coupling, problem_constants):
        monkeypatch.setattr(where, "budget", lambda operator: limit)


def found_between_bounds(problem, blocks, m, q, seed):
    """The constants, each no more than its upper and no less than its lower bound."""
    found, exact = constants(problem, m, q, seed), explicit(problem, blocks, m, q, seed)
    for name, value in exact.items():
        known = getattr(found, name)
        assert known.lower <= value * (1 + 1e-9), name
        assert known.value >= value * (1 - 1e-9), name
        assert known.exact or known.kind.startswith("upper bound ("), known.kind
        if known.exact:
            assert known.value == pytest.approx(value, rel=1e-9), name
    return found, exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "q"), SIZES)
def test_over_budget_the_constants_lie_between_their_bounds(kind, m, q, monkeypatch):
    without_budget(monkeypatch)
    found, exact = found_between_bounds(*problem_of(kind), m, q, 3)
    # A lower bound of no use would be easy.
    assert all(getattr(found, name).lower >= 0.3 * value for name, value in exact.items())
    assert not all(getattr(found, name).exact for name in exact)
    # Never worse than the Frobenius norm of the rows of a block.
    assert found.Lambda_qm.value <= found.m * found.Lambda_p1.value * (1 + 1e-10)


def test_blocks_and_lambda_are_those_that_dspdc_uses():
    problem, _ = problem_of("factorized")
    for seed, sizes in ((0, {}), (4, dict(m=3, q=4)), (5, dict(m=0.2, q=0.5))):
        # By default it chooses blocks in its own way, and only estimates their constant.
        info = METHODS["dspdc"](problem, seed=seed, **sizes).info
        found = constants(problem, **sizes, seed=seed)
        assert (found.m, found.q, found.r, found.s) == tuple(info[k] for k in "mqrs")
        paper = METHODS["dspdc"](problem, seed=seed, m=found.m, q=found.q, **PAPER)
        assert paper.info["Lambda_kind"] == "exact"
        assert found.Lambda_qm.value == paper.info["Lambda"]


def hadamard(order):
    H = np.ones((1, 1))
    while len(H) < order:
        H = np.block([[H, H], [H, -H]])
    return H


def adversaries():
    rng = np.random.default_rng(0)
    spiked = 1e-3 * rng.standard_normal((30, 40))
    spiked[17, 5] = 100.0
    # The leading vectors are orthogonal to ones, where power iterations often begin.
    orthogonal = np.outer(np.tile([1.0, -1.0], 8), np.tile([1.0, -1.0], 10)) + 0.1
    empty = rng.standard_normal((12, 15))
    empty[:, [0, 7]] = 0.0
    empty[3] = 0.0
    blocks = scipy.linalg.block_diag(*(rng.standard_normal((4, 3)) * 10.0 ** k for k in range(4)))
    return {
        "hadamard": hadamard(16), "spiked": spiked, "orthogonal": orthogonal, "empty": empty,
        "block diagonal": blocks, "zero": np.zeros((5, 7)), "single": np.array([[-3.0]]),
        "tiny": 1e-60 * rng.standard_normal((6, 8)), "copies": np.tile(rng.random(9), (20, 1)),
    }


@pytest.mark.parametrize("name", adversaries())
@pytest.mark.parametrize("form", ["dense", "csr", "factorized", "unbalanced"])
@pytest.mark.parametrize("limit", [0.0, 1e9])
def test_upper_bounds_are_upper_and_lower_bounds_lower_on_hard_matrices(
        name, form, limit, monkeypatch):
    A = adversaries()[name]
    n, p = A.shape
    stored = {
        "dense": A, "csr": scipy.sparse.csr_array(A), "factorized": (A, np.eye(p)),
        "unbalanced": (1e6 * np.eye(n), 1e-6 * A),
    }[form]
    without_budget(monkeypatch, limit)
    problem = erm(stored, np.ones(n), lambda2=1.0)
    for m, q in ((1, 1), (0.4, 0.4), (1, 0.5), (0.5, 1)):
        found_between_bounds(problem, A[:, :, None], m, q, 0)


def test_entries_of_a_product_are_looked_at_within_the_budget_and_bounded_beyond():
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((50, 4)), rng.standard_normal((4, 30))
    U[7], V[:, 3] = 10.0 * U[7], 10.0 * U[7] / np.linalg.norm(U[7])
    operator, squares = as_operator((U, V)), (U @ V) ** 2
    assert operator.largest_entry2(50 * 30 * 4) == (pytest.approx(squares.max()), "exact")
    value, kind = operator.largest_entry2(50 * 30 * 4 - 1)
    # The longest row of U and the longest column of V point the same way.
    assert kind == "upper bound (Cauchy-Schwarz on U and V)"
    assert value == pytest.approx(squares.max())
    assert value == pytest.approx((U ** 2).sum(axis=1).max() * (V ** 2).sum(axis=0).max())
    # Factors that nearly cancel: a norm of A is better.
    stretched = as_operator((U * [1e3, 1, 1, 1], V * np.array([[1e-3], [1], [1], [1e3]])))
    value, kind = stretched.largest_entry2(0.0)
    A = (U * [1e3, 1, 1, 1]) @ (V * np.array([[1e-3], [1], [1], [1e3]]))
    assert "norm" in kind
    assert (A ** 2).max() <= value <= (A ** 2).sum(axis=1).max() * (1 + 1e-12)


def test_lower_bounds_of_blocks_find_the_largest_one():
    A, operator = make("dense", 20, 13)
    rng = np.random.default_rng(1)
    for m, q in ((1, 1), (1, 13), (20, 1), (20, 13), (5, 4)):
        dual, primal = (
            Partition(np.append(np.arange(0, total, size), total), rng.permutation(total))
            for total, size in ((20, m), (13, q))
        )
        exact = brute_force(A, dual, primal)
        lower = largest_norm2_below(operator, dual, primal, steps=200)
        assert 0.9 * exact <= lower <= exact * (1 + 1e-12)
    # A start on the wrong block of a block-diagonal matrix does not matter.
    B = scipy.linalg.block_diag(np.full((1, 4), 2.0), np.ones((9, 9)))
    assert largest_norm2_below(as_operator(B), whole(10), whole(13)) == pytest.approx(81.0)


def test_constants_are_printed_as_a_table_and_given_as_plain_numbers():
    import json

    problem, _ = problem_of("csr")
    found = constants(problem, m=4, q=3)
    shown = str(found)
    for expected in (*NAMES, "m = 4, q = 3", "exact", "kappa", f"{found.kappa:.4g}"):
        assert expected in shown, expected
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["Lambda_pn"]["value"] == found.Lambda_pn.value
    assert plain["kappa"] == found.kappa and plain["ratio"] == found.ratio
    zero = constants(erm(np.zeros((3, 2)), np.ones(3)))
    assert json.dumps(zero.as_dict(), allow_nan=False)


@pytest.mark.parametrize(("arguments", "message"), [
    (dict(problem="a9a"), "problem must be a Problem"), (dict(m=0), "m must be an integer from 1"),
    (dict(q=14), "q must be an integer from 1 to 13"), (dict(seed=-1), "seed must be an integer"),
])
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        constants(**dict(problem=problem_of("dense")[0]) | arguments)

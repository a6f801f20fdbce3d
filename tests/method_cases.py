"""Every method with its options, beside what its authors' pseudo-code does.

A new method is a line of `CASES`, with a transcription in `transcriptions_field`: its iterates and
its optima are then compared on all problems, of numbers and of matrices.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import transcriptions_field as authors
import transcriptions_importance
from conftest import PAPER
from replay import (
    drawn_batches,
    drawn_blocks,
    drawn_coins,
    drawn_entries,
    drawn_pairs,
    drawn_parts,
    fresh_blocks,
    partitions,
)
from transcriptions import algorithm_1, remark_1

from benchmark_dspdc.methods import METHODS

SEED = 5

#: Rows and columns for which sizes of blocks are given; see `resized`.
N, P = 30, 12


class Case(NamedTuple):
    """A method with options, and its iterates.

    Attributes
    ----------
    transcribed : callable or None
        Given a problem of `transcriptions`, a fresh algorithm of seed SEED, its options and a
        number of iterations: x and y, or None for a y that there is not, after each of them.
    """

    method: str
    options: dict
    transcribed: Callable | None = None

    def on(self, n, p):
        """The same with blocks for so many rows and columns."""
        return self._replace(options=resized(self.options, n, p))

    def start(self, problem, seed=SEED, **more):
        return METHODS[self.method](problem, seed=seed, **(self.options | more))


def resized(options, n, p):
    """Options with the same shares of n rows and p columns in a block."""
    scales = {"m": n / N, "q": p / P}
    return options | {
        name: max(1, round(options[name] * scale))
        for name, scale in scales.items() if name in options
    }


def of_dspdc(problem, algorithm, options, count):
    """Algorithm 1 with the steps that the paper prints."""
    n, p, info = len(problem.b), len(problem.groups), algorithm.info
    m, q = options["m"], options.get("q", p)
    r, s = (n / m, p / q) if options.get("sampling") == "subset" else (-(-n // m), -(-p // q))
    assert info["keep"] == ("rows" if r >= s else "columns")
    steps = remark_1(
        n, p, n / r, p / s, info["Lambda"], problem.lam, problem.gamma, options.get("theorem", 1)
    )
    return algorithm_1(problem, *steps, r, drawn_blocks(algorithm, count, SEED))


def of_spdc(problem, algorithm, options, count):
    return authors.spdc(problem, [I for I, _ in drawn_blocks(algorithm, count, SEED)])


def of_sdca(problem, algorithm, options, count):
    batches = drawn_batches(algorithm, count, SEED)
    return authors.prox_sdca(problem, batches, options.get("scaling") == "safe")


def of_sdna(problem, algorithm, options, count):
    draw = drawn_batches if "blocks" in options or options["m"] == 1 else fresh_blocks
    return authors.sdna(problem, draw(algorithm, count, SEED))


def of_asdca(problem, algorithm, options, count):
    return authors.asdca(problem, drawn_batches(algorithm, count, SEED), int(algorithm.info["r"]))


def of_parts(run, **chosen):
    """Of a method that draws blocks of a partition, of rows or of columns."""
    def transcribed(problem, algorithm, options, count):
        size, total = options.get("m"), len(problem.b)
        if size is None:
            size, total = options["q"], len(problem.groups)
        return run(problem, *drawn_parts(total, size, count, SEED), **chosen)
    return transcribed


def of_l_svrg(problem, algorithm, options, count):
    blocks, draws = drawn_parts(len(problem.b), options["m"], count, SEED)
    p = options.get("probability", 1 / len(blocks))
    return authors.l_svrg(problem, blocks, draws, drawn_coins(p, count, SEED))


def of_l_katyusha(problem, algorithm, options, count):
    blocks, draws = drawn_parts(len(problem.b), options["m"], count, SEED)
    p = options.get("probability", 1 / len(blocks))
    return authors.l_katyusha(problem, blocks, draws, drawn_coins(p, count, SEED), p)


def of_qning(problem, algorithm, options, count):
    memory = options.get("memory", 100)
    if options.get("inner") == "sdca":
        inside = SimpleNamespace(_ascent=algorithm._inner.ascent, problem=algorithm.problem)
        batches = drawn_batches(inside, count, SEED)
        return authors.qning_sdca(problem, batches, int(algorithm.info["r"]), memory)
    blocks, draws = drawn_parts(len(problem.b), options["m"], count, SEED)
    return authors.qning_svrg(problem, blocks, draws, memory)


def of_rpdg(problem, algorithm, options, count):
    def probabilities(blocks):
        return authors.rpdg_constants(problem, blocks, False)[0]
    blocks, draws = drawn_parts(len(problem.b), options["m"], count, SEED, probabilities)
    return authors.rpdg(problem, blocks, draws)


def of_whole(run, **chosen):
    """Of a method that draws nothing."""
    return lambda problem, algorithm, options, count: run(problem, count, **chosen)


def entry_law(problem, operator, sampling):
    """The probabilities with which ASVRG-SP draws entries, as they are documented."""
    A2 = np.array([np.sum(problem.A[:, J] ** 2, axis=1) for J in problem.groups]).T
    if sampling == "uniform":
        chosen = np.ones_like(A2) if operator.kind == "factorized" else (A2 > 0).astype(float)
        return chosen / chosen.sum()
    if operator.kind != "factorized":
        return A2 / np.sum(A2)
    found = []
    for r, c in (
        (np.sum(operator.U ** 2, axis=1), np.sum(operator.Vt ** 2, axis=1)),
        (np.sum(A2, axis=1), np.sum(A2, axis=0)),
    ):
        pi = np.outer(r, c) / r.sum() / c.sum()
        second = A2 / pi
        found.append((max(second.sum(axis=0).max(), second.sum(axis=1).max()), pi))
    return min(found, key=lambda pair: pair[0])[1]


def of_asvrg_sp(problem, algorithm, options, count):
    # Short epochs, so that snapshots and centres are taken often.
    algorithm._length = algorithm._inner = 13
    law = entry_law(problem, algorithm.problem.operator, options.get("sampling", "nonuniform"))
    return authors.asvrg_sp(
        problem, law, drawn_entries(algorithm, count, SEED),
        options.get("acceleration", algorithm.info["tau"]), 13, algorithm.info["epochs"],
    )


def of_s2cd(problem, algorithm, options, count):
    r, s = int(algorithm.info["r"]), int(algorithm.info["s"])
    # So many that each batch is among them, whose norms tell the step.
    pairs = drawn_blocks(algorithm, max(count, 40 * r * s), SEED)
    iterates = authors.s2cd(problem, pairs, r, s, options.get("snapshot") != "last")
    return [point for _, point in zip(range(count), iterates, strict=False)]


def by_importance(problem, algorithm, options, count):
    """DSPDC and SPDC, blocks drawn by importance."""
    n, columns = len(problem.b), len(problem.groups)
    dual, primal, state = partitions(n, columns, options["m"], options.get("q", columns), SEED)
    norms = transcriptions_importance.block_norms(
        problem.A, dual.blocks,
        [np.concatenate([problem.groups[j] for j in J]) for J in primal.blocks],
    )
    if isinstance(algorithm, METHODS["spdc"]) and "steps" not in options:
        parameters = transcriptions_importance.spdc_parameters(
            norms[:, 0], n, problem.lam, problem.gamma
        )
    else:
        parameters = transcriptions_importance.dspdc_parameters(
            norms, n, problem.lam, problem.gamma
        )
    K, p, q, _, _ = parameters
    tau, sigma = transcriptions_importance.by_coordinate(parameters, dual.blocks, primal.blocks)
    drawn = drawn_pairs(dual, primal, parameters, state, count)
    contraction = 1 - 1 / (options.get("theorem", 1) * K)
    return algorithm_1(
        problem, tau, sigma, [contraction / q[l] for _, l in drawn], [1 / p[k] for k, _ in drawn],
        [(dual.blocks[k], primal.blocks[l]) for k, l in drawn],
    )


def of_sdca_by_importance(problem, algorithm, options, count):
    n, m = len(problem.b), options["m"]
    blocks = single_or_parts(n, m)
    worst = np.array([
        authors.normalised_norm2(problem.A[K]) * np.max(np.sum(problem.A[K] ** 2, axis=1))
        for K in blocks
    ])
    weights = 1.0 + worst / (problem.lam * problem.gamma * n)
    return authors.prox_sdca(
        problem, drawn_batches(algorithm, count, SEED, weights / weights.sum())
    )


def single_or_parts(n, m):
    """The blocks of a method that leaves single rows in their own order."""
    return np.arange(n)[:, None] if m == 1 else partitions(n, 1, m, 1, SEED)[0].blocks


def of_pure_cd(problem, algorithm, options, count):
    blocks, p = single_or_parts(len(problem.b), options["m"]), None
    if "probabilities" in options:
        norms2 = np.array([np.linalg.norm(problem.A[I], 2) ** 2 for I in blocks])
        p = 0.5 / len(blocks) + 0.5 * norms2 / norms2.sum()
    batches = drawn_batches(algorithm, count, SEED, p)
    return authors.pure_cd(
        problem, blocks, batches, np.full(len(blocks), 1 / len(blocks)) if p is None else p
    )


#: Rows walked and columns walked, single rows and batches, all steps that can be chosen.
CASES = {
    "dspdc rows": Case("dspdc", dict(m=4, q=5, Lambda="partition", **PAPER), of_dspdc),
    "dspdc columns": Case("dspdc", dict(m=13, q=2, Lambda="partition", **PAPER), of_dspdc),
    "dspdc theorem 2": Case("dspdc", dict(m=4, q=5, theorem=2, **PAPER), of_dspdc),
    "dspdc rows subset": Case("dspdc", dict(m=4, q=5, sampling="subset", **PAPER), of_dspdc),
    "dspdc columns subset": Case("dspdc", dict(m=13, q=2, sampling="subset", **PAPER), of_dspdc),
    "dspdc auto": Case("dspdc", {}),
    "adaptive": Case("dspdc", dict(adaptive=True)),
    "adaptive blocks": Case("dspdc", dict(m=3, q=4, adaptive=True)),
    "adaptive single": Case("dspdc", dict(m=1, q=1, adaptive=True)),
    "adaptive whole": Case("dspdc", dict(m=30, q=12, adaptive=True)),
    "spdc": Case("spdc", dict(m=1), of_spdc),
    "spdc batches": Case("spdc", dict(m=5), of_spdc),
    "spdc subset": Case("spdc", dict(m=5, sampling="subset"), of_spdc),
    "spdc with the steps of dspdc": Case(
        "spdc", dict(m=5, steps="dspdc", Lambda="partition"), of_dspdc
    ),
    "sdca": Case("sdca", dict(m=1), of_sdca),
    "sdca batches": Case("sdca", dict(m=7, order="permuted"), of_sdca),
    "sdca safe": Case("sdca", dict(m=7, scaling="safe"), of_sdca),
    "sdca sampled": Case("sdca", dict(m=7, scaling="sampled")),
    "sdna": Case("sdna", dict(m=1), of_sdna),
    "sdna blocks": Case("sdna", dict(m=7, order="permuted", inner=1e-14), of_sdna),
    "sdna random": Case("sdna", dict(m=4, inner=1e-14), of_sdna),
    "sdna fixed": Case("sdna", dict(m=7, order="permuted", inner=1e-14, blocks="fixed"), of_sdna),
    "saga": Case("saga", dict(m=1), of_parts(authors.saga)),
    "saga batches": Case("saga", dict(m=7), of_parts(authors.saga)),
    "saga strong": Case("saga", dict(m=1, step="strong"), of_parts(authors.saga, step="strong")),
    "saga strong batches": Case(
        "saga", dict(m=7, step="strong"), of_parts(authors.saga, step="strong")
    ),
    "svrg": Case("svrg", dict(m=1), of_parts(authors.prox_svrg)),
    "svrg batches": Case("svrg", dict(m=7), of_parts(authors.prox_svrg)),
    "svrg last": Case(
        "svrg", dict(m=1, snapshot="last"), of_parts(authors.prox_svrg, average=False)
    ),
    "katyusha": Case("katyusha", dict(m=1), of_parts(authors.katyusha)),
    "katyusha batches": Case("katyusha", dict(m=7), of_parts(authors.katyusha)),
    "katyusha longer": Case(
        "katyusha", dict(m=1, step=2.0), of_parts(authors.katyusha, step=2.0)
    ),
    "l_svrg": Case("l_svrg", dict(m=1), of_l_svrg),
    "l_svrg batches": Case("l_svrg", dict(m=7), of_l_svrg),
    "l_svrg often": Case("l_svrg", dict(m=1, probability=0.3), of_l_svrg),
    "l_katyusha": Case("l_katyusha", dict(m=1), of_l_katyusha),
    "l_katyusha batches": Case("l_katyusha", dict(m=7), of_l_katyusha),
    "l_katyusha always": Case("l_katyusha", dict(m=1, probability=1.0), of_l_katyusha),
    "rpdg": Case("rpdg", dict(m=1), of_rpdg),
    "rpdg batches": Case("rpdg", dict(m=7), of_rpdg),
    "rpdg uniform": Case(
        "rpdg", dict(m=1, sampling="uniform"), of_parts(authors.rpdg, uniform=True)
    ),
    "apcg": Case("apcg", dict(m=1), of_parts(authors.apcg_dual)),
    "apcg batches": Case("apcg", dict(m=7), of_parts(authors.apcg_dual)),
    "apcg_primal": Case("apcg_primal", dict(q=1), of_parts(authors.apcg_primal)),
    "apcg_primal blocks": Case("apcg_primal", dict(q=5), of_parts(authors.apcg_primal)),
    "asdca": Case("asdca", dict(m=1), of_asdca),
    "asdca batches": Case("asdca", dict(m=7), of_asdca),
    "pure_cd": Case("pure_cd", dict(m=1), of_pure_cd),
    "pure_cd batches": Case("pure_cd", dict(m=7), of_pure_cd),
    "qning": Case("qning", dict(m=1), of_qning),
    "qning batches": Case("qning", dict(m=4, memory=3), of_qning),
    "qning sdca": Case("qning", dict(m=1, inner="sdca"), of_qning),
    "qning sdca batches": Case(
        "qning", dict(m=2, inner="sdca", order="permuted", memory=3), of_qning
    ),
    "spdhg": Case("spdhg", dict(m=1), of_parts(authors.spdhg)),
    "spdhg batches": Case("spdhg", dict(m=7), of_parts(authors.spdhg)),
    "spdhg adaptive": Case("spdhg", dict(m=1, adaptive=True), of_parts(authors.adaptive_spdhg)),
    "spdhg adaptive batches": Case(
        "spdhg", dict(m=7, adaptive=True), of_parts(authors.adaptive_spdhg)
    ),
    "s2cd": Case("s2cd", dict(m=4, q=5), of_s2cd),
    "s2cd columns": Case("s2cd", dict(m=13, q=2), of_s2cd),
    "s2cd last": Case("s2cd", dict(m=13, q=2, snapshot="last"), of_s2cd),
    "pdhg": Case("pdhg", {}, of_whole(authors.pdhg_watched)),
    "pdhg norm": Case("pdhg", dict(step="norm"), of_whole(authors.chambolle_pock_3)),
    "rpdhg": Case("rpdhg", {}, of_whole(authors.restarted_pdhg)),
    "rpdhg averages": Case(
        "rpdhg", dict(halpern=False, step="norm"),
        of_whole(authors.restarted_pdhg, halpern=False, exact=True),
    ),
    "fista": Case("fista", {}, of_whole(authors.fista_backtracking)),
    "fista norm": Case("fista", dict(step="norm"), of_whole(authors.fista)),
    "asvrg_sp": Case("asvrg_sp", {}, of_asvrg_sp),
    "asvrg_sp uniform": Case("asvrg_sp", dict(sampling="uniform"), of_asvrg_sp),
}

#: How ASVRG-SP accelerates: not at all, with what is proved, with single epochs.
OUTER = {
    "plain": dict(acceleration=0.0), "theorem": dict(acceleration=1.5, inner="theorem"),
    "single": dict(acceleration=4.0),
}
CASES |= {
    f"{name} {outer}": Case("asvrg_sp", CASES[name].options | chosen | dict(batch=25), of_asvrg_sp)
    for name in ("asvrg_sp", "asvrg_sp uniform") for outer, chosen in OUTER.items()
}
CASES |= {
    f"{name} by importance": Case(
        method, options | dict(probabilities="importance"),
        {"sdca": of_sdca_by_importance, "pure_cd": of_pure_cd}.get(method, by_importance),
    ) for name, method, options in (
        ("dspdc rows", "dspdc", dict(m=4, q=5)), ("dspdc columns", "dspdc", dict(m=13, q=2)),
        ("dspdc theorem 2", "dspdc", dict(m=4, q=5, theorem=2)),
        ("dspdc rows only", "dspdc", dict(m=1, q=12)),
        ("dspdc columns only", "dspdc", dict(m=30, q=1)),
        ("spdc", "spdc", dict(m=1)), ("spdc batches", "spdc", dict(m=5)),
        ("spdc with the steps of dspdc", "spdc", dict(m=5, steps="dspdc")),
        ("sdca", "sdca", dict(m=1)), ("sdca batches", "sdca", dict(m=4)),
        ("pure_cd", "pure_cd", dict(m=1)), ("pure_cd batches", "pure_cd", dict(m=4)),
    )
}

TRANSCRIBED = [name for name, case in CASES.items() if case.transcribed]


def compare(algorithm, iterates, problem, checks, rtol=1e-9):
    """Hold the iterates of an algorithm against those of a transcription."""
    done = 0
    for k, (x, y) in enumerate(iterates, 1):
        if k not in checks:
            continue
        x = problem.shown(x)
        scale = np.abs(x).max()
        algorithm.advance(k - done)
        for name, found, wanted, size in (("x", algorithm.x, x, scale), ("y", algorithm.y, y, 1)):
            if wanted is not None:
                np.testing.assert_allclose(
                    found, wanted, rtol=rtol, atol=0.1 * rtol * size + 1e-15,
                    err_msg=f"{name}, iteration {k}",
                )
        done = k
    assert done == max(checks)
    assert scale > 1e-4      # something happened


def minimum_by_cvxpy(loss, z, b, reg, constraints=(), delta=1.0, tol=1e-12):
    """The least mean loss of the predictions z plus reg, expressions of cvxpy."""
    margin, slack = cp.multiply(b, z), cp.Variable(len(b))
    risk = {
        "square": lambda: cp.sum_squares(z - b) / 2,
        "huber": lambda: cp.sum(cp.huber(z - b, delta)) / 2,
        "logistic": lambda: cp.sum(cp.logistic(-margin)),
        # The smoothed hinge is the Moreau envelope of the hinge.
        "smoothed_hinge": lambda: cp.sum(cp.pos(1 - margin - slack)) + cp.sum_squares(slack) / 2,
    }[loss]()
    tight = dict(tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
    goal = cp.Minimize(risk / len(b) + reg)
    return cp.Problem(goal, list(constraints)).solve(solver=cp.CLARABEL, **tight)


def optimum(problem, tol=2e-16, most=200000):
    """x and y to the last digits, by FISTA."""
    before = None
    for k, (x, _) in enumerate(authors.fista(problem, most)):
        if k % 100 == 0:
            if before is not None and np.abs(x - before).max() <= tol * np.abs(x).max():
                return x, problem.slopes(x)
            before = x.copy()
    raise AssertionError("no optimum found")

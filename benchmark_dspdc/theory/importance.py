"""Blocks drawn by importance: DSPDC and SPDC with probabilities by the norms of the blocks.

docs/importance.md has the theorem and its proof; the formulas are in `steps`.
"""

from typing import NamedTuple

import numpy as np

from ..engine.checks import check_flag, choose
from ..engine.sampling import stepped, weighted
from . import steps as formulas
from .coupling_constant import column_blocks_norm2, pair_norms2, row_blocks_norm2

#: How probabilities can be chosen.
PROBABILITIES = ("uniform", "importance")

#: Majorants rows_I columns_J of |A_I^J| are tried with columns_J the largest norm in J to these
#: powers; 0 is what depends on the rows alone.
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def check_order(probabilities, order):
    """Raise unless SDCA can visit its batches so."""
    choose(probabilities, PROBABILITIES, "probabilities")
    choose(order, ("random", "permuted"), "order")
    if probabilities == "importance" and order == "permuted":
        raise ValueError(
            "probabilities='importance' needs order='random', got order='permuted', which visits "
            "each batch once an epoch and so has no probabilities to choose"
        )


def check_sampling(probabilities, sampling, Lambda="auto", adaptive=False):
    """Raise unless DSPDC can draw its blocks so."""
    choose(probabilities, PROBABILITIES, "probabilities")
    adaptive = check_flag(adaptive, "adaptive")
    if probabilities == "uniform":
        return
    if sampling == "subset":
        raise ValueError(
            "probabilities='importance' needs sampling='partition', got sampling='subset': the "
            "steps are made for blocks that are fixed and have a norm each"
        )
    if adaptive:
        raise ValueError(
            "probabilities='importance' has steps for each block that the theorem ties to lam, so "
            "they cannot be adaptive; use one of the two"
        )
    if Lambda not in ("auto", "partition"):
        raise ValueError(
            "probabilities='importance' uses the norm of each pair of blocks, not one bound for "
            f"all: Lambda must be 'auto' or 'partition', got {Lambda!r}"
        )


class Plan(NamedTuple):
    """What a run by importance needs.

    `steps` are those of a single primal block, the largest ones where there are several, and
    `rho` has the penalty of each dual coordinate.
    """

    dual: object
    primal: object
    steps: formulas.Steps
    rho: np.ndarray
    info: dict


def dspdc_plan(problem, dual, primal, theorem):
    """Blocks of two partitions drawn by the norms of their pairs."""
    found, largest, kind = majorants(problem.operator, dual, primal)
    n, lam, gamma = problem.shape[0], problem.lam, problem.gamma
    best = min(
        (formulas.dspdc_importance(n, *pair, lam, gamma) for pair in found),
        key=lambda importance: importance.iterations,
    )
    info = dict(Lambda=largest, Lambda_kind=kind, theorem=theorem)
    return _plan(problem, dual, primal, best, theorem, info)


def spdc_plan(problem, dual, primal):
    """Batches drawn half uniformly and half by their norms, as SPDC's authors do."""
    norms2, kind = row_blocks_norm2(problem.operator, dual, each=True)
    importance = formulas.spdc_importance(
        problem.shape[0], np.sqrt(norms2), problem.lam, problem.gamma
    )
    info = dict(R=float(np.mean(np.sqrt(norms2))), R_kind=kind)
    return _plan(problem, dual, primal, importance, 1, info)


def _plan(problem, dual, primal, importance, theorem, info):
    n = problem.shape[0]
    thetas = importance.theta(theorem)
    rho = np.empty(n)
    rho[dual.order] = np.repeat(n / importance.sigma, np.diff(dual.starts))
    if len(importance.p) > 1:
        dual = weighted(dual, importance.p)
    if len(importance.q) > 1:
        primal = stepped(primal, importance.q, importance.tau, thetas)
    steps = formulas.Steps(
        float(importance.tau.max()), float(importance.sigma.max()), float(thetas.max())
    )
    return Plan(dual, primal, steps, rho, info | dict(
        probabilities="importance", iterations_per_nat=importance.iterations
    ))


def majorants(operator, dual, primal):
    """Pairs of vectors with |A_I^J| <= rows_I columns_J.

    Also the largest |A_I^J|^2, or a bound of it, and what is known of the norms.
    """
    norms2, kind = pair_norms2(operator, dual, primal)
    if norms2 is not None:
        found = [_majorant(np.sqrt(norms2), power) for power in POWERS]
        return found, float(norms2.max()), kind
    rows, _ = row_blocks_norm2(operator, dual, each=True)
    columns, _ = column_blocks_norm2(operator, primal)
    # The least of two numbers is at most any geometric mean of them.
    found = [(rows ** (0.5 - 0.5 * t), columns ** (0.5 * t)) for t in POWERS]
    return found, float(min(rows.max(), columns.max())), f"upper bounds ({kind})"


def _majorant(norms, power):
    columns = norms.max(axis=0) ** power
    rows = _largest_ratio(norms, columns)
    return rows, _largest_ratio(norms.T, rows)


def _largest_ratio(norms, divisors):
    """max_J norms_IJ/divisors_J; where a divisor is zero, so are its norms."""
    used = divisors > 0.0
    return np.max(norms[:, used] / divisors[used], axis=1, initial=0.0)

"""Which blocks DSPDC draws on a problem, and the constant that its steps are made with."""

import time
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_flag, choose, is_auto
from ..engine.sampling import block_size, partition, subset
from .block_sizes import choose_blocks, estimated_norms2, estimated_root
from .coupling_constant import ESTIMATED, Constant, coupling_constant, exact_constant

#: Choosing may take this share of the run that is predicted, or so many nanoseconds.
SHARE, AT_ONCE = 0.05, 1e6

#: Part of Lambda that adaptive steps are made with. At n = m and p = q a fourth is the product of
#: steps that Chambolle and Pock prove. Between, this was borne by all runs that were tried
#: (November 2026), a third by most: on some factorised data it takes twice the passes.
PART = 0.4

#: Estimates of Lambda are taken times this where steps are not adaptive; they were 0.7 to 1.1 of
#: the largest block's.
CAUTION = 1.3


class Setting(NamedTuple):
    """What a run of DSPDC begins with: how blocks are drawn, Lambda, and what users are told.

    `certified` computes the constant that is valid in any case, for runs that need it later.
    """

    dual: object
    primal: object
    constant: Constant
    certified: object
    info: dict


#: Arguments of `practice`, first those that it returns.
PRACTICE = ("steps", "order", "adaptive", "sampling", "probabilities", "Lambda")


def practice(steps="auto", order="auto", adaptive="auto", sampling="partition",
             probabilities="uniform", Lambda="auto"):
    """What "auto" stands for: practice, or what the paper has, for its own blocks and Lambda.

    Raises for steps or an order that such blocks cannot have.
    """
    plain = (sampling, probabilities) == ("partition", "uniform")
    usual = "theorem", "random", False
    if plain and is_auto(Lambda):
        usual = "block", "permuted", True
    steps, order, adaptive = (
        other if is_auto(given) else given
        for given, other in zip((steps, order, adaptive), usual, strict=True)
    )
    choose(steps, ("theorem", "block"), "steps")
    choose(order, ("random", "permuted"), "order")
    for value, name, only in ((steps, "steps", "theorem"), (order, "order", "random")):
        if value != only and not plain:
            raise ValueError(
                f"{name}={value!r} is for the blocks of a partition that are equally likely, "
                f"got sampling={sampling!r}, probabilities={probabilities!r}"
            )
    return steps, order, check_flag(adaptive, "adaptive")


def samplers(problem, seeds, m, q, sampling):
    """How blocks of m rows and q columns are drawn."""
    n, p = problem.shape
    m, q = block_size(m, n, "m"), block_size(q, p, "q")
    choose(sampling, ("partition", "subset"), "sampling")
    if sampling == "subset":
        return subset(n, m), subset(p, q)
    rng = np.random.default_rng(seeds.spawn(1)[0])
    return partition(n, m, rng), partition(p, q, rng)


def dspdc_setting(problem, seeds, m="auto", q="auto", sampling="partition", Lambda="auto",
                  heuristic_scale=1.0, adaptive=False, prices=None, constant=True,
                  steps="theorem"):
    """The blocks and, if asked for, the constant of a run of DSPDC.

    Options are those of `benchmark_dspdc.methods.dspdc.DSPDC`; `seeds` is a SeedSequence, and
    `prices` are those of the parts of an iteration, None for the stored ones.
    """
    def root():
        return estimated_root(problem.operator)

    begun, chooses, info = time.perf_counter(), is_auto(m) or is_auto(q), {}
    if chooses:
        part = PART if adaptive else 1.0
        found = choose_blocks(problem, root(), m, q, prices, steps, part)
        m, q = found.m, found.q
        info.update(
            choice=found.describe(), predicted_iterations=found.iterations,
            predicted_seconds=found.seconds,
        )
    dual, primal = samplers(problem, seeds, m, q, sampling)

    def certified():
        return coupling_constant(problem, Lambda, dual, primal, heuristic_scale=heuristic_scale)
    known = None
    if constant and Lambda == "auto":
        known = _affordable_constant(problem, dual, primal, sampling, adaptive, steps, root)
    if constant and known is None:
        known = certified()
    if chooses and constant:
        info.update(choosing_seconds=time.perf_counter() - begun)
    return Setting(dual, primal, known, certified, info | dict(sampling=sampling))


def _affordable_constant(problem, dual, primal, sampling, adaptive, steps, root):
    """Lambda where none is asked for: exact if cheap, else estimated; None if neither."""
    operator = problem.operator
    m, q = dual.largest, primal.largest
    if m == 1 and q == operator.shape[1]:
        return Constant(float(operator.row_norms2.max()), "exact")
    if not adaptive:
        if sampling == "subset":
            return None
        if found := exact_constant(operator, dual, primal, AT_ONCE / operator.norm_price):
            return found
        nanoseconds = 1e9 * (SHARE * choose_blocks(problem, root(), m, q).seconds)
        if found := exact_constant(operator, dual, primal, nanoseconds / operator.norm_price):
            return found
    if steps == "block":
        found = float(estimated_norms2(operator, dual, primal).max())
    else:
        found = float(root()(m, q)) ** 2
    # Adaptive steps go back by themselves if they are too long.
    return Constant(found if adaptive else CAUTION * found, ESTIMATED)

"""Which blocks DSPDC draws on a problem, and the constant that its steps are made with."""

import functools
import time
from typing import NamedTuple

import numpy as np

from ..engine.checks import choose, is_auto
from ..engine.sampling import block_size, partition, subset
from .block_sizes import choose_blocks, estimated_root
from .coupling_constant import ESTIMATED, Constant, coupling_constant, exact_constant

#: Choosing may take this share of the run that is predicted, or so many nanoseconds.
SHARE, AT_ONCE = 0.05, 1e6

#: Estimates of Lambda are taken times this; they were 0.7 to 1.1 of the largest block's.
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
                  heuristic_scale=1.0, adaptive=False, prices=None, constant=True):
    """The blocks and, if asked for, the constant of a run of DSPDC.

    Options are those of `benchmark_dspdc.methods.dspdc.DSPDC`; `seeds` is a SeedSequence, and
    `prices` are those of the parts of an iteration, None for the stored ones.
    """
    @functools.cache
    def root():
        # The same sample for all seeds: what is chosen, and so compiled, is the problem's.
        return estimated_root(problem.operator, np.random.default_rng(0))

    begun, chooses, info = time.perf_counter(), is_auto(m) or is_auto(q), {}
    if chooses:
        found = choose_blocks(problem, root(), m, q, prices)
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
        known = _affordable_constant(problem, dual, primal, sampling, adaptive, root)
    if constant and known is None:
        known = certified()
    if chooses and constant:
        info.update(choosing_seconds=time.perf_counter() - begun)
    return Setting(dual, primal, known, certified, info | dict(sampling=sampling))


def _affordable_constant(problem, dual, primal, sampling, adaptive, root):
    """Lambda where none is asked for: exact if cheap, else estimated; None if neither."""
    operator = problem.operator
    m, q = dual.largest, primal.largest
    if not adaptive:
        if sampling == "subset":
            return None
        if found := exact_constant(operator, dual, primal, AT_ONCE / operator.norm_price):
            return found
        nanoseconds = 1e9 * (SHARE * choose_blocks(problem, root(), m, q).seconds)
        if found := exact_constant(operator, dual, primal, nanoseconds / operator.norm_price):
            return found
    return Constant(CAUTION * float(root()(m, q)) ** 2, ESTIMATED)

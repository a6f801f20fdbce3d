"""Which method should be fastest on a problem: rates with cheap constants, times prices.

The rates are those of `benchmark_dspdc.theory.rates` with the norms of usual blocks, estimated
from a sample of rows, so that a ranking costs less than a pass. What an iteration takes is
modelled by prices. What a rate's O() hides is a factor for each method, and where its steps adapt
to how much the losses curve a problem, its condition counts with a power below one. All of these,
and how far measurements lie off, are found by `benchmarks/ranking.py` on the
problems that it names, and stored here: a ranking depends on the problem alone.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..state import dual_cost, dual_pair_cost, primal_dual_cost
from .block_sizes import ACCURACY, PRICES, choose_blocks, estimated_root
from .setting import PART


class Price(NamedTuple):
    """Nanoseconds of an iteration, beside what it does to matrices."""

    fixed: float
    multiply_add: float


class Letters(NamedTuple):
    """A problem as the rates see it.

    K_1 and K_n are |A_I|^2/(n lam gamma) of a usual row and of all of them.
    """

    problem: object
    root: Callable
    n: int
    K_1: float
    K_n: float


class Rival(NamedTuple):
    """How a method is run where it is chosen, and its rate; the callables take `Letters`."""

    options: dict
    condition: Callable           # iterations over log(1/eps), in units of the next
    epoch: Callable               # iterations that do each thing once
    multiply_adds: Callable       # of an iteration


def _rows(c):
    return c.n


def _once(c):
    return 1


def _single(cost):
    return lambda c: float(cost(c.problem.operator, c.n))


def _coupled(c):
    return float(primal_dual_cost(c.problem.operator, c.n, 1.0))


def _pass(c):
    return float(c.problem.operator.multiply_adds)


def _slow(c):
    return 1.0 + c.K_1


def _accelerated(c):
    return 1.0 + math.sqrt(c.K_1)


def _deterministic(c):
    return 1.0 + math.sqrt(c.K_n)


#: Methods for numbers; DSPDC has a model of its own.
NUMBERS = {
    "sdca": Rival({"order": "permuted"}, _slow, _rows, _single(dual_cost)),
    "asdca": Rival({}, _accelerated, _rows, _single(dual_cost)),
    "apcg": Rival({}, _accelerated, _rows, _single(dual_pair_cost)),
    "saga": Rival({}, _slow, _rows, _coupled),
    "svrg": Rival({}, _slow, _rows, _coupled),
    "katyusha": Rival({}, _accelerated, _rows, _coupled),
    "rpdg": Rival({}, _accelerated, _rows, _coupled),
    "pdhg": Rival({}, _deterministic, _once, _pass),
    "fista": Rival({}, _deterministic, _once, _pass),
}

#: For matrices only those that read all rows at once: each step is p eigendecompositions.
MATRICES = {
    "sdca": Rival({"m": 1.0, "scaling": "sampled"}, lambda c: 1.0 + c.K_n, _once, _pass),
    "pdhg": Rival({}, _deterministic, _once, _pass),
    "fista": Rival({}, _deterministic, _once, _pass),
}


class Fit(NamedTuple):
    """Epochs a nat are factor condition^power; those measured lie off by a factor, the spread."""

    factor: float
    power: float
    spread: float


FITS = {
    "dspdc": Fit(0.72, 0.53, 1.6),
    "sdca": Fit(0.26, 1, 6.5),
    "asdca": Fit(0.57, 1, 2.2),
    "apcg": Fit(0.75, 1, 1.5),
    "saga": Fit(1.2, 0.52, 3.2),
    "svrg": Fit(3.1, 0.8, 6.1),
    "katyusha": Fit(1.3, 1, 1.9),
    "rpdg": Fit(0.9, 1, 1.4),
    "pdhg": Fit(0.32, 1, 2.2),
    "fista": Fit(0.79, 0.74, 2.4),
}

#: By method and kind of data; one core of an AMD EPYC (AVX2), November 2026.
PRICES_OF = {
    ("sdca", "factorized"): Price(0, 0.0805),
    ("asdca", "factorized"): Price(51.4, 0.0696),
    ("apcg", "factorized"): Price(24.7, 0.0779),
    ("saga", "factorized"): Price(80.2, 0.0722),
    ("svrg", "factorized"): Price(81.8, 0.0763),
    ("katyusha", "factorized"): Price(114, 0.0812),
    ("rpdg", "factorized"): Price(106, 0.0716),
    ("pdhg", "factorized"): Price(0, 0.0944),
    ("fista", "factorized"): Price(0, 0.174),
    ("sdca", "csr"): Price(25.2, 0.874),
    ("asdca", "csr"): Price(18.3, 0.865),
    ("apcg", "csr"): Price(58.2, 0.823),
    ("saga", "csr"): Price(77.2, 1.72),
    ("svrg", "csr"): Price(51.7, 1.16),
    ("katyusha", "csr"): Price(0, 9.96),
    ("rpdg", "csr"): Price(45.9, 3.63),
    ("pdhg", "csr"): Price(9.08e+04, 0.867),
    ("fista", "csr"): Price(5.87e+04, 0.497),
    ("sdca", "dense"): Price(44.4, 0.2),
    ("asdca", "dense"): Price(47.8, 0.157),
    ("apcg", "dense"): Price(43.6, 0.186),
    ("saga", "dense"): Price(46.6, 0.461),
    ("svrg", "dense"): Price(40.6, 0.316),
    ("katyusha", "dense"): Price(56.6, 0.41),
    ("rpdg", "dense"): Price(36.7, 0.533),
    ("pdhg", "dense"): Price(1.2e+04, 0.0936),
    ("fista", "dense"): Price(2.34e+04, 0.0939),
    ("sdca", "matrix blocks"): Price(0, 0.0474),
    ("pdhg", "matrix blocks"): Price(0, 0.0131),
    ("fista", "matrix blocks"): Price(0, 0.00791),
    ("sdca", "rank-one sums"): Price(0, 0.00554),
    ("pdhg", "rank-one sums"): Price(0, 0.00164),
    ("fista", "rank-one sums"): Price(0, 0.000639),
}


NATS = math.log(1.0 / ACCURACY)


class Prediction(NamedTuple):
    """A method with its options, and the seconds to `ACCURACY` that are predicted.

    Also those of an iteration, of a pass, and of the constants that its steps are made with. What
    is ranked is `at_worst`, the seconds with the fit's spread, as of two methods that are expected
    to be equally fast the more certain one is the better choice; for well-conditioned problems all
    are certain.
    """

    method: str
    options: dict
    seconds: float
    at_worst: float
    iteration_seconds: float
    pass_seconds: float
    set_up_seconds: float


def rivals(problem):
    """The methods that a ranking knows for a problem, beside DSPDC."""
    # Matrices of one number are matrices too: they are projected, and priced, as such.
    return MATRICES if len(problem.x_shape) > 1 else NUMBERS


def letters(problem):
    """The problem's `Letters`, from a sample of rows; the same for all seeds."""
    n, p = problem.shape
    root = estimated_root(problem.operator, np.random.default_rng(0))
    strength = n * problem.lam * problem.gamma
    single, whole = (float(root(m, p, usual=True)) ** 2 / strength for m in (1, n))
    return Letters(problem, root, n, single, whole)


def projections(problem):
    """Nanoseconds that an iteration takes for steps on matrices."""
    operator = problem.operator
    if len(problem.x_shape) == 1:
        return 0.0
    prices = PRICES[operator.kind]
    return operator.shape[1] * (prices.block + prices.primal * operator.column_width)


def iteration_nanoseconds(c, method, rival):
    """Modelled time of an iteration of a method."""
    price = PRICES_OF[method, c.problem.operator.kind]
    each = price.fixed + price.multiply_add * rival.multiply_adds(c)
    return each + projections(c.problem)


def ranking(problem):
    """`Prediction` of every method that the problem admits, the fastest first."""
    c = letters(problem)
    found, epoch, condition = own_condition(c)
    each = found.seconds / found.iterations
    made = [_predicted("dspdc", {}, condition, epoch, each, 0.0)]
    for method, rival in rivals(problem).items():
        each = 1e-9 * iteration_nanoseconds(c, method, rival)
        set_up = 0.0
        if rival.epoch is _once:
            # The norm of all of A, or of the whole batch.
            set_up = problem.operator.constant_passes * each
        made.append(_predicted(
            method, rival.options, rival.condition(c), rival.epoch(c), each, set_up
        ))
    return sorted(made, key=lambda each: each.at_worst)


def own_condition(c):
    """DSPDC's blocks, its iterations an epoch, and its condition."""
    n, p = c.problem.shape
    found = choose_blocks(c.problem, c.root, steps="block", part=PART)
    epoch = max(-(-n // found.m), -(-p // found.q))
    return found, epoch, found.iterations / (NATS * epoch)


def _predicted(method, options, condition, epoch, each, set_up):
    fit = FITS[method]
    seconds = NATS * fit.factor * condition ** fit.power * epoch * each
    risk = fit.spread ** min(1.0, math.log(condition))
    return Prediction(method, options, seconds, risk * seconds, each, epoch * each, set_up)

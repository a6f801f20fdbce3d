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

from ..model.losses import grows_linearly
from ..state import dual_cost, dual_pair_cost, primal_dual_cost
from .block_sizes import ACCURACY, PRICES, choose_blocks, estimated_root
from .setting import PART


class Price(NamedTuple):
    """Nanoseconds of an iteration, beside what it does to matrices."""

    fixed: float
    multiply_add: float


class Letters(NamedTuple):
    """A problem as the rates see it.

    K_1, K_most and K_n are |A_I|^2/(n lam gamma) of a usual row, the heaviest, and all of them.
    """

    problem: object
    root: Callable
    n: int
    K_1: float
    K_most: float
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


def _snapshots(c):
    """An iteration of a method that takes a snapshot, a pass, once an epoch."""
    return _coupled(c) + _pass(c) / c.n


def _gram(c):
    """A block and its Gram matrix, of which a sweep takes m^2."""
    row = 0.5 * _pass(c) / c.n
    return float(dual_cost(c.problem.operator, c.n / GRAM)) + GRAM ** 2 * (1.0 + 0.5 * row)


def _part(c):
    return float(primal_dual_cost(c.problem.operator, c.n, PARTS))


def _beside(c):
    """An iteration of SDCA, and its share of the product A x that a round takes."""
    return _single(dual_cost)(c) + 0.5 * _pass(c) / c.n


def _pass(c):
    return float(c.problem.operator.multiply_adds)


def _by_row(c):
    """Of SDCA, which takes each row by its own norm."""
    return 1.0 + c.K_1


# The others have one step for all rows, by the heaviest.

def _slow(c):
    return 1.0 + c.K_most


def _accelerated(c):
    return 1.0 + math.sqrt(c.K_most)


def _deterministic(c):
    return 1.0 + math.sqrt(c.K_n)


#: Rows of a block of SDNA, and blocks of columns of S2CD; their plug-ins' defaults.
GRAM, PARTS = 16, 10.0

#: Methods for numbers; DSPDC has a model of its own.
NUMBERS = {
    "sdca": Rival({"order": "permuted"}, _by_row, _rows, _single(dual_cost)),
    "asdca": Rival({}, _accelerated, _rows, _single(dual_cost)),
    "apcg": Rival({}, _accelerated, _rows, _single(dual_pair_cost)),
    "saga": Rival({}, _slow, _rows, _coupled),
    "svrg": Rival({}, _slow, _rows, _coupled),
    "katyusha": Rival({}, _accelerated, _rows, _coupled),
    "rpdg": Rival({}, _accelerated, _rows, _coupled),
    "pdhg": Rival({}, _deterministic, _once, _pass),
    "fista": Rival({}, _deterministic, _once, _pass),
    "pure_cd": Rival({}, _accelerated, _rows, _single(dual_cost)),
    "spdhg": Rival({}, _accelerated, _rows, _coupled),
    "rpdhg": Rival({}, _deterministic, _once, _pass),
    "l_svrg": Rival({}, _slow, _rows, _snapshots),
    "l_katyusha": Rival({}, _accelerated, _rows, _snapshots),
    "sdna": Rival({"m": GRAM, "order": "permuted"}, _by_row, lambda c: -(-c.n // GRAM), _gram),
    "s2cd": Rival({}, _slow, lambda c: PARTS * c.n, _part),
    "qning": Rival({"inner": "sdca", "order": "permuted"}, _by_row, _rows, _beside),
}

#: For matrices only those that read all rows at once: each step is p eigendecompositions.
MATRICES = {
    "sdca": Rival({"m": 1.0, "scaling": "sampled"}, lambda c: 1.0 + c.K_n, _once, _pass),
    "pdhg": Rival({}, _deterministic, _once, _pass),
    "fista": Rival({}, _deterministic, _once, _pass),
    "rpdhg": Rival({}, _deterministic, _once, _pass),
}


class Fit(NamedTuple):
    """Epochs a nat are factor condition^power; those measured lie off by a factor, the spread.

    By method and `circumstance`: a loss that grows linearly hardly curves where most rows are,
    so that much less than the condition counts, and of matrices it tells nothing.
    """

    factor: float
    power: float
    spread: float


FITS = {
    ("dspdc", "linear"): Fit(0.64, 0.7, 1.4),
    ("sdca", "linear"): Fit(0.38, 0.67, 2.4),
    ("asdca", "linear"): Fit(0.5, 1, 1.7),
    ("apcg", "linear"): Fit(0.55, 0.86, 1.3),
    ("saga", "linear"): Fit(0.76, 0.74, 1.8),
    ("svrg", "linear"): Fit(2.2, 0.71, 3.1),
    ("katyusha", "linear"): Fit(1.2, 0.9, 1.4),
    ("rpdg", "linear"): Fit(0.69, 0.62, 1.8),
    ("pdhg", "linear"): Fit(0.65, 0.8, 1.5),
    ("fista", "linear"): Fit(0.35, 0.89, 1.7),
    ("dspdc", "square"): Fit(1.3, 0.38, 1.8),
    ("sdca", "square"): Fit(11, 0.12, 2.3),
    ("asdca", "square"): Fit(1.4, 0.61, 2.8),
    ("apcg", "square"): Fit(1.3, 0.65, 1.7),
    ("saga", "square"): Fit(0.9, 0.39, 3.1),
    ("svrg", "square"): Fit(18, 0.11, 2.8),
    ("katyusha", "square"): Fit(2.3, 0.52, 2.1),
    ("rpdg", "square"): Fit(2.8, 0.41, 1.7),
    ("pdhg", "square"): Fit(2.7, 0.6, 1.5),
    ("fista", "square"): Fit(2.2, 0.57, 2.7),
    ("dspdc", "matrices"): Fit(0.93, 0.088, 2),
    ("sdca", "matrices"): Fit(1, 0.023, 2.3),
    ("pdhg", "matrices"): Fit(0.14, 0.81, 2.3),
    ("fista", "matrices"): Fit(0.3, 0.68, 2),
    ("pure_cd", "linear"): Fit(0.47, 0.77, 1.6),
    ("spdhg", "linear"): Fit(0.5, 0.94, 1.1),
    ("rpdhg", "linear"): Fit(1.2, 0.65, 1.4),
    ("l_svrg", "linear"): Fit(0.55, 0.68, 2.8),
    ("l_katyusha", "linear"): Fit(0.66, 0.76, 1.4),
    ("sdna", "linear"): Fit(2.2, 0.55, 2.1),
    ("s2cd", "linear"): Fit(1.5, 0.094, 3.9),
    ("qning", "linear"): Fit(0.5, 0.48, 1.9),
    ("pure_cd", "square"): Fit(1.4, 0.47, 1.9),
    ("spdhg", "square"): Fit(1.8, 0.46, 2),
    ("rpdhg", "square"): Fit(13, 0.18, 2),
    ("l_svrg", "square"): Fit(3.5, 0.14, 3),
    ("l_katyusha", "square"): Fit(1.4, 0.38, 1.7),
    ("sdna", "square"): Fit(37, 0.061, 1.7),
    ("s2cd", "square"): Fit(0.72, 0.15, 2.5),
    ("qning", "square"): Fit(1.5, 0.17, 3),
    ("rpdhg", "matrices"): Fit(0.18, 0.68, 2.7),
}

#: What a method's constants take where they are more than the norms of rows: seconds, and
#: passes; by method and kind of data.
SET_UPS = {
    ("pdhg", "factorized"): (0, 5.1),
    ("fista", "factorized"): (0, 3.3),
    ("pdhg", "csr"): (0.00061, 0.7),
    ("fista", "csr"): (0.00039, 0.48),
    ("pdhg", "dense"): (9.6e-05, 2.9),
    ("fista", "dense"): (0.00019, 0.93),
    ("dspdc", "matrix blocks"): (0.00095, 0.11),
    ("sdca", "matrix blocks"): (0.0035, 0.3),
    ("pdhg", "matrix blocks"): (0.0013, 0.88),
    ("fista", "matrix blocks"): (0.0011, 0.36),
    ("dspdc", "rank-one sums"): (0.0016, 0.44),
    ("sdca", "rank-one sums"): (0.18, 0.23),
    ("pdhg", "rank-one sums"): (0.0005, 1.4),
    ("fista", "rank-one sums"): (0, 1.1),
    ("rpdhg", "factorized"): (0.00052, 0.35),
    ("rpdhg", "csr"): (0.00022, 1.3),
    ("rpdhg", "dense"): (0.00015, 1.6),
    ("rpdhg", "matrix blocks"): (0.0013, 0.55),
    ("rpdhg", "rank-one sums"): (0.0029, 1.1),
}

#: By method and kind of data, for numbers; one core of an AMD EPYC (AVX2), November 2026.
PRICES_OF = {
    ("sdca", "factorized"): Price(0, 0.0796),
    ("asdca", "factorized"): Price(76.6, 0.0672),
    ("apcg", "factorized"): Price(48.2, 0.0778),
    ("saga", "factorized"): Price(69.3, 0.0738),
    ("svrg", "factorized"): Price(88.2, 0.0769),
    ("katyusha", "factorized"): Price(144, 0.0791),
    ("rpdg", "factorized"): Price(131, 0.0709),
    ("pdhg", "factorized"): Price(0, 0.477),
    ("fista", "factorized"): Price(0, 0.498),
    ("sdca", "csr"): Price(27.8, 0.973),
    ("asdca", "csr"): Price(20.5, 0.87),
    ("apcg", "csr"): Price(54.6, 0.856),
    ("saga", "csr"): Price(82.6, 1.77),
    ("svrg", "csr"): Price(25.7, 1.69),
    ("katyusha", "csr"): Price(0, 10.3),
    ("rpdg", "csr"): Price(23.3, 4.23),
    ("pdhg", "csr"): Price(1.22e+05, 1.01),
    ("fista", "csr"): Price(1.19e+05, 0.986),
    ("sdca", "dense"): Price(47.5, 0.189),
    ("asdca", "dense"): Price(49.9, 0.139),
    ("apcg", "dense"): Price(41.2, 0.189),
    ("saga", "dense"): Price(44.1, 0.508),
    ("svrg", "dense"): Price(41.1, 0.356),
    ("katyusha", "dense"): Price(44.5, 0.474),
    ("rpdg", "dense"): Price(37.8, 0.578),
    ("pdhg", "dense"): Price(8e+04, 0.197),
    ("fista", "dense"): Price(1.36e+05, 0.173),
    ("pure_cd", "factorized"): Price(141, 0.118),
    ("spdhg", "factorized"): Price(157, 0.122),
    ("rpdhg", "factorized"): Price(0, 0.792),
    ("l_svrg", "factorized"): Price(277, 0.123),
    ("l_katyusha", "factorized"): Price(224, 0.13),
    ("sdna", "factorized"): Price(594, 0.187),
    ("s2cd", "factorized"): Price(136, 0.126),
    ("qning", "factorized"): Price(365, 0.102),
    ("pure_cd", "csr"): Price(53.7, 3.74),
    ("rpdhg", "csr"): Price(2.37e+05, 1),
    ("l_svrg", "csr"): Price(158, 1.86),
    ("l_katyusha", "csr"): Price(122, 12.4),
    ("sdna", "csr"): Price(493, 0.25),
    ("s2cd", "csr"): Price(0, 21.6),
    ("qning", "csr"): Price(79.1, 2.55),
    ("spdhg", "csr"): Price(192, 2.17),
    ("pure_cd", "dense"): Price(112, 0.521),
    ("spdhg", "dense"): Price(127, 0.618),
    ("rpdhg", "dense"): Price(1.42e+05, 0.158),
    ("l_svrg", "dense"): Price(197, 0.434),
    ("l_katyusha", "dense"): Price(301, 0.414),
    ("sdna", "dense"): Price(553, 0.042),
    ("s2cd", "dense"): Price(73.1, 0.662),
    ("qning", "dense"): Price(285, 0.42),
}


#: How much a ranking minds the spread of what is predicted, from not at all to 1. A race corrects
#: the worst choices; of those tried this was the best on the named problems.
CARE = 0.25

NATS = math.log(1.0 / ACCURACY)


class Prediction(NamedTuple):
    """A method with its options, and the seconds to `ACCURACY` that are predicted.

    Also those of an iteration, of a pass, and of the constants, which are part of them. `at_worst`
    are the seconds with the fit's spread; of two methods that are expected to be equally fast the
    more certain one is the better choice. For well-conditioned problems all are certain.
    """

    method: str
    options: dict
    seconds: float
    at_worst: float
    iteration_seconds: float
    pass_seconds: float
    set_up_seconds: float

    @property
    def rank(self):
        """What a ranking sorts by."""
        return self.seconds ** (1.0 - CARE) * self.at_worst ** CARE


def rivals(problem):
    """The methods that a ranking knows for a problem, beside DSPDC."""
    # Matrices of one number are matrices too: they are projected, and priced, as such.
    return MATRICES if len(problem.x_shape) > 1 else NUMBERS


def circumstance(problem):
    """Which fits hold: of matrices, or of numbers with losses that grow so or so."""
    if rivals(problem) is MATRICES:
        return "matrices"
    return "linear" if grows_linearly(problem.loss) else "square"


def letters(problem):
    """The problem's `Letters`, from a sample of rows; the same for all seeds."""
    n, p = problem.shape
    root = estimated_root(problem.operator)
    strength = n * problem.lam * problem.gamma
    single, whole = (float(root(m, p, usual=True)) ** 2 / strength for m in (1, n))
    return Letters(problem, root, n, single, float(root(1, p)) ** 2 / strength, whole)


def projections(problem):
    """Nanoseconds that an iteration takes for steps on matrices."""
    operator = problem.operator
    if len(problem.x_shape) == 1:
        return 0.0
    prices = PRICES[operator.kind]
    return operator.shape[1] * (prices.block + prices.primal * operator.column_width)


def price_of(method, problem):
    """The `Price` of a method; on matrices that of DSPDC, as all do the same there."""
    kind = problem.operator.kind
    if rivals(problem) is MATRICES:
        return Price(PRICES[kind].fixed, PRICES[kind].multiply_add)
    return PRICES_OF[method, kind]


def iteration_nanoseconds(c, method, rival):
    """Modelled time of an iteration of a method."""
    price = price_of(method, c.problem)
    each = price.fixed + price.multiply_add * rival.multiply_adds(c)
    return each + projections(c.problem)


def certificate_seconds(problem):
    """Modelled time of a certificate: A x, A'y, A' times what belongs to x, and g* of both."""
    price = price_of("pdhg", problem)
    products = price.fixed + price.multiply_add * 1.5 * problem.operator.multiply_adds
    return 1e-9 * (products + 2.0 * projections(problem))


def ranking(problem):
    """`Prediction` of every method that the problem admits, the fastest first."""
    c = letters(problem)
    found, epoch, condition = own_condition(c)
    each = found.seconds / found.iterations
    of, kind = circumstance(problem), problem.operator.kind
    made = [_predicted("dspdc", {}, of, kind, condition, epoch, each)]
    for method, rival in rivals(problem).items():
        each = 1e-9 * iteration_nanoseconds(c, method, rival)
        made.append(_predicted(
            method, rival.options, of, kind, rival.condition(c), rival.epoch(c), each
        ))
    return sorted(made, key=lambda each: each.rank)


def own_condition(c):
    """DSPDC's blocks, its iterations an epoch, and its condition."""
    n, p = c.problem.shape
    found = choose_blocks(c.problem, c.root, steps="block", part=PART)
    epoch = max(-(-n // found.m), -(-p // found.q))
    return found, epoch, found.iterations / (NATS * epoch)


def _predicted(method, options, of, kind, condition, epoch, each):
    fit, (fixed, passes) = FITS[method, of], SET_UPS.get((method, kind), (0.0, 0.0))
    set_up = fixed + passes * epoch * each
    seconds = NATS * fit.factor * condition ** fit.power * epoch * each
    risk = fit.spread ** min(max(math.log(condition), 0.0), 1.0)
    return Prediction(
        method, options, set_up + seconds, set_up + risk * seconds, each, epoch * each, set_up
    )

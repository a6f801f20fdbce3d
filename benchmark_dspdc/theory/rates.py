"""Predicted complexity: the paper's tables 1 and 2 with numbers instead of letters.

A rate is an O() expression without its constant, evaluated as it stands and
times log(1/eps); beside it stands what an iteration costs in the units that the
methods count. Predictions say which method should win and by what order, not
how long it takes.

The letters, for block sizes m and q (1 in the paper's tables)::

    r, s      numbers of dual and primal blocks, n/m and p/q
    K_qm      Lambda_qm/(n lam gamma), Lambda_qm the largest |A_I^J|^2 over blocks
              of m rows and q columns
    kappa     Lambda_p1/(lam gamma), hence n K_p1
    kappa_m   r K_pm, the smoothness of a batch's mean loss over lam; kappa for m = 1
    c         how much SDCA holds a batch back, at most m; 1 for m = 1
    B         of ASVRG-SP: N max(Lambda_p1, Lambda_1n)/(lam gamma) for uniform and
              max(n, p) |A|_F^2/(lam gamma) for nonuniform sampling of N = np entries
    k         of ASVRG-SP: the cost of a pass over that of an inner iteration, np for
              stored A, n for A = UV, np/d for matrices

To add a method: an entry in `RATES`, and one in `ROWS`.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_number, choose, is_auto
from ..engine.sampling import block_size, partition
from ..engine.threads import single_threaded
from ..state import dual_cost, dual_pair_cost, primal_dual_cost, primal_pair_cost
from ..state.single_entries import entries_of
from .constants import constants
from .coupling_constant import batch_scales, column_blocks_norm2, row_blocks_norm2
from .setting import PRACTICE, dspdc_setting, practice
from .steps import iterations_per_nat

#: Options of DSPDC that decide on its blocks and its constant, beside its practice.
SETTING = ("m", "q", "sampling", "Lambda", "heuristic_scale")


class Letters:
    """What the formulas are written in, for a problem, its `constants` and a method's options."""

    def __init__(self, problem, found, method, options):
        self.problem, self.operator, self.found = problem, problem.operator, found
        self.options = options
        self.n, self.p = problem.shape
        self.strength, self.kappa = problem.lam * problem.gamma, found.kappa
        self.matrices = len(problem.x_shape) > 1
        if method in ("dspdc", "spdc"):
            # The method's own blocks and constant; of SPDC's own steps there is none.
            asked = {k: options[k] for k in SETTING if k in options}
            if method == "spdc":
                asked = {"m": 1} | asked | {"q": self.p}
            own = method == "dspdc" or options.get("steps") == "dspdc"
            if method == "dspdc":
                # Blocks by its practice; the formula is the theorem's, with that one's constant.
                given = {k: options[k] for k in PRACTICE if k in options}
                steps, _, adaptive = practice(**given)
                chosen = dspdc_setting(
                    problem, np.random.SeedSequence(0), **asked, steps=steps, adaptive=adaptive,
                    constant=False,
                )
                asked |= {"m": chosen.dual.largest, "q": chosen.primal.largest}
            setting = dspdc_setting(problem, np.random.SeedSequence(0), **asked, constant=own)
            self._take_blocks(setting.dual, setting.primal)
            self.K_qm = self.K(setting.constant.value if own else math.nan)
            return
        rng = np.random.default_rng(0)
        m, q = block_size(options.get("m", 1), self.n, "m"), self.p
        if method in ("pdhg", "rpdhg", "fista"):
            m = self.n
        if method == "apcg_primal":
            m, q = self.n, block_size(options.get("q", 1), self.p, "q")
        if method == "s2cd":
            q = block_size(options.get("q", 0.1), self.p, "q")
        self._take_blocks(partition(self.n, m, rng), partition(self.p, q, rng))

    def _take_blocks(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.m, self.q = rows.largest, columns.largest
        self.r, self.s = rows.inverse_probability, columns.inverse_probability

    def K(self, Lambda):
        """Lambda/(n lam gamma)."""
        return Lambda / (self.n * self.strength)

    @cached_property
    def kappa_m(self):
        return self.r * self.K(row_blocks_norm2(self.operator, self.rows, each=False)[0])

    @cached_property
    def K_qn(self):
        return self.K(float(column_blocks_norm2(self.operator, self.columns)[0].max()))

    @cached_property
    def c(self):
        scaling = self.options.get("scaling", "auto")
        rng = np.random.default_rng(0)
        return float(batch_scales(self.operator, self.rows, scaling, rng)[0].max())

    @cached_property
    def touched(self):
        """Primal blocks that a batch of rows has entries in, on average."""
        norms = self.operator.block_norms.entries
        if isinstance(norms, np.ndarray):
            return float(self.p)
        batch = np.empty(self.n, dtype=np.int64)
        batch[self.rows.order] = np.repeat(np.arange(int(self.r)), np.diff(self.rows.starts))
        of_entries = np.repeat(batch, np.diff(norms.indptr))
        return len(np.unique(of_entries * self.p + norms.indices)) / self.r

    # ASVRG-SP.

    @cached_property
    def entries(self):
        return entries_of(self.operator, False)

    @cached_property
    def k(self):
        if self.matrices:
            return self.entries.count / self.operator.d
        return float(self.n if self.operator.kind == "factorized" else self.entries.count)

    @property
    def B_uniform(self):
        largest = max(self.found.Lambda_p1.value, self.found.Lambda_1n.value)
        return self.entries.count * largest / self.strength

    @property
    def B_nonuniform(self):
        return max(self.n, self.p) * float(self.operator.row_norms2.sum()) / self.strength


class Rate(NamedTuple):
    """The rate of a method; the callables take `Letters`."""

    name: str                # shown to users
    method: str              # key of `METHODS`
    formula: str             # of `iterations`, in the letters of this module
    iterations: Callable     # over log(1/eps)
    cost: Callable           # multiply-adds of an iteration
    source: str              # where the formula is from
    # Passes over the data beside the iterations, over log(1/eps).
    outer: Callable = lambda c: 0.0
    # Of an iteration, where the blocks of x are matrices.
    eigendecompositions: Callable = lambda c: c.p / c.s


TABLES = "tables 1 and 2"


def _coupled(c):
    return primal_dual_cost(c.operator, c.r, c.s)


def _pass(c):
    return float(c.operator.multiply_adds)


def _batch(c):
    return dual_cost(c.operator, c.r)


def _with_gram(c):
    """A batch and the products of its rows with each other, of which a sweep takes m^2."""
    row = 0.5 * c.operator.multiply_adds / c.n
    return _batch(c) + (0.5 * c.m * (c.m - 1) * row + c.m ** 2) * (c.m > 1)


def _accelerated(c):
    return c.r + math.sqrt(c.r * c.kappa_m)


def _probability(c):
    """With which a loopless method takes a snapshot, which is a pass."""
    given = c.options.get("probability", "auto")
    return 1.0 / c.r if is_auto(given) else given


def _loopless(c):
    return _coupled(c) + _pass(c) * _probability(c)


def _deterministic(c):
    return 1.0 + math.sqrt(c.found.kappa_whole)


def _qning_rounds(c):
    """The proximal point method's, which is the worst case: 1 + kappa/lam, kappa = share L/n."""
    return 1.0 + c.options.get("kappa", 0.5) * c.kappa / c.n


def _qning_cost(c):
    """An iteration inside; a round adds the value of F, a product A x, and SVRG's snapshot."""
    inside, beside = (_batch(c), 0.5) if _dual_inside(c) else (_coupled(c), 1.5)
    return inside + beside * _pass(c) / (c.options.get("epoch", 1.0) * c.r)


def _dual_inside(c):
    return c.options.get("inner") == "sdca"


def _asvrg(sampling, printed):
    """ASVRG-SP: 1 + sqrt(B/k) passes and sqrt(k B) entries, as the paper prints it.

    For the coupling y'Ax/n and the modulus gamma/n of y it is B/n in place of B,
    sqrt(n) times less; then it is the rate of Palaniappan & Bach.
    """
    def B(c):
        found = c.B_uniform if sampling == "uniform" else c.B_nonuniform
        return found / (1.0 if printed else c.n)

    source = TABLES if sampling == "uniform" else "the paper's text"
    return Rate(
        f"ASVRG-SP {sampling}" + (", printed" if printed else ""), "asvrg_sp",
        "outer 1 + sqrt(B/k), inner sqrt(k B)" if printed
        else "outer 1 + sqrt(B/(n k)), inner sqrt(k B/n)",
        lambda c: math.sqrt(B(c) * c.k), lambda c: c.entries.cost,
        source if printed else f"{source}, with B/n", lambda c: 1.0 + math.sqrt(B(c) / c.k),
        lambda c: 1.0,
    )


RATES = {
    "dspdc": Rate(
        "DSPDC", "dspdc", "max(r, s) + r s sqrt(K_qm)",
        lambda c: iterations_per_nat(c.r, c.s, c.K_qm), _coupled, f"{TABLES}, theorem 1",
    ),
    "spdc": Rate(
        "SPDC", "spdc", "r + sqrt(r kappa)", lambda c: c.r + math.sqrt(c.r * c.kappa), _coupled,
        TABLES,
    ),
    "asdca": Rate(
        "ASDCA", "asdca", "n + sqrt(n kappa)", lambda c: c.n + math.sqrt(c.n * c.kappa),
        # The inner gap is checked once an epoch, which takes a product A x.
        lambda c: _batch(c) + 0.5 * _pass(c) / c.r, TABLES,
        eigendecompositions=lambda c: c.touched,
    ),
    "apcg": Rate(
        "APCG", "apcg", "r + sqrt(r kappa_m)", _accelerated,
        lambda c: dual_pair_cost(c.operator, c.r), TABLES,
    ),
    "rpdg": Rate("RPDG", "rpdg", "r + sqrt(r kappa_m)", _accelerated, _coupled, TABLES),
    "sdca": Rate(
        "SDCA", "sdca", "r + (r/n) c kappa", lambda c: c.r + c.r / c.n * c.c * c.kappa, _batch,
        TABLES, eigendecompositions=lambda c: c.touched,
    ),
    "saga": Rate("SAGA", "saga", "r + kappa_m", lambda c: c.r + c.kappa_m, _coupled, TABLES),
    "svrg": Rate(
        "SVRG", "svrg", "outer 1, inner kappa_m", lambda c: c.kappa_m, _coupled, TABLES,
        lambda c: 1.0,
    ),
    "katyusha": Rate(
        "Katyusha", "katyusha", "r + sqrt(r kappa_m)", _accelerated,
        # A snapshot is a pass.
        lambda c: _coupled(c) + _pass(c) / (c.options.get("epoch", 2.0) * c.r),
        "the paper's text",
    ),
    "l_svrg": Rate(
        "L-SVRG", "l_svrg", "r + kappa_m", lambda c: 1.0 / _probability(c) + c.kappa_m, _loopless,
        "Kovalev et al. 2020",
    ),
    "l_katyusha": Rate(
        "L-Katyusha", "l_katyusha", "r + sqrt(r kappa_m)",
        lambda c: 1.0 / _probability(c) + math.sqrt(c.kappa_m / _probability(c)), _loopless,
        "Kovalev et al. 2020",
    ),
    "sdna": Rate(
        "SDNA", "sdna", "r + kappa_m", lambda c: c.r + c.kappa_m, _with_gram, "Qu et al. 2016",
        eigendecompositions=lambda c: c.touched,
    ),
    "asvrg_sp uniform, printed": _asvrg("uniform", printed=True),
    "asvrg_sp uniform": _asvrg("uniform", printed=False),
    "asvrg_sp nonuniform, printed": _asvrg("nonuniform", printed=True),
    "asvrg_sp nonuniform": _asvrg("nonuniform", printed=False),
    "pure_cd": Rate(
        "PURE-CD", "pure_cd", "r + sqrt(r kappa_m)", _accelerated, _batch,
        "derived in the docstring", eigendecompositions=lambda c: c.touched,
    ),
    "qning": Rate(
        "QNing", "qning", "r + (r/n) kappa/2",
        lambda c: c.options.get("epoch", 1.0) * c.r * _qning_rounds(c), _qning_cost,
        "Lin et al. 2019, proximal point",
        eigendecompositions=lambda c: c.touched if _dual_inside(c) else c.p / c.s,
    ),
    "apcg_primal": Rate(
        "APCG-primal", "apcg_primal", "s + s sqrt(K_qn)",
        lambda c: c.s + c.s * math.sqrt(c.K_qn),
        lambda c: primal_pair_cost(c.operator, c.s), "the paper's text",
    ),
    "pdhg": Rate(
        "PDHG", "pdhg", "1 + sqrt(K_pn)", _deterministic, _pass, "Chambolle & Pock 2011",
    ),
    "spdhg": Rate(
        "SPDHG", "spdhg", "r + sqrt(r kappa_m)", _accelerated, _coupled,
        "Chambolle, Ehrhardt, Richtarik & Schoenlieb 2018",
    ),
    "s2cd": Rate(
        "S2CD", "s2cd", "outer 1, inner s kappa_m", lambda c: c.s * c.kappa_m, _coupled,
        "Zhao et al. 2014", lambda c: 1.0,
    ),
    "rpdhg": Rate(
        "RPDHG", "rpdhg", "1 + sqrt(K_pn)", _deterministic, _pass,
        # |z - T z| falls as 1/k, and F is strongly monotone by sqrt(1/K_pn) in the steps' metric
        # if the primal weight is that of the moduli: a restart every sqrt(K_pn) iterations.
        "restarts of the 1/k bound",
    ),
    "fista": Rate(
        "FISTA", "fista", "1 + sqrt(K_pn)", _deterministic, _pass,
        "sqrt(L/lam), L = Lambda_pn/(n gamma)",
    ),
}

#: The rows of the table, after DSPDC with the block sizes asked for: (rate, options).
ROWS = (("dspdc", {"m": 1, "q": 1}), *((name, {}) for name in RATES if name != "dspdc"))


class Prediction(NamedTuple):
    """What a rate says of a problem, log(1/eps) included.

    `outer` are passes beside the iterations, as for snapshots, `multiply_adds` and `passes` count
    all work, and `overall` are multiply-adds with d^3 for an eigendecomposition, as in table 2.
    """

    name: str
    method: str
    m: int
    q: int
    formula: str
    source: str
    iterations: float
    per_iteration: float
    outer: float
    multiply_adds: float
    passes: float
    eigendecompositions_per_iteration: float
    eigendecompositions: float
    overall: float


class NoRate(ValueError):
    """There is no rate for these options."""


def rate_of(method, options):
    """The name in `RATES` of a method with given options; `NoRate` if none is known."""
    if method == "spdc" and options.get("steps") == "dspdc":
        return "dspdc"
    if method == "asvrg_sp":
        return f"asvrg_sp {options.get('sampling', 'nonuniform')}"
    if method == "asdca" and options.get("m", 1) != 1:
        raise NoRate("the rate of asdca is for m = 1")
    if method not in RATES:
        raise NoRate(f"no rate is known of {method}")
    return method


@single_threaded
def predict(problem, rate, eps=1e-6, found=None, method=None, **options):
    """A rate, by its name in `RATES`, evaluated for a problem and a relative accuracy.

    `found` are the problem's constants, if available. The options are those of `method`, by
    default the rate's own, and valid; of its block sizes, constants and moduli use is made.
    """
    chosen = choose(rate, RATES, "rate")
    eps = check_number(eps, "eps", 0.0, strict=True, high=1.0)
    method = method or chosen.method
    moduli = options.pop("moduli", "each")
    problem = problem.for_steps(moduli)
    if found is None or moduli != "each":
        found = constants(problem)
    c = Letters(problem, found, method, options)
    nats, whole = math.log(1.0 / eps), c.operator.multiply_adds
    iterations, outer = nats * chosen.iterations(c), nats * chosen.outer(c)
    each = float(chosen.cost(c))
    eigs = float(chosen.eigendecompositions(c)) if c.matrices else 0.0
    work = iterations * each + outer * whole
    cubes = iterations * eigs * c.operator.d ** 3 if c.matrices else 0.0
    return Prediction(
        chosen.name, method, c.m, c.q, chosen.formula, chosen.source, iterations, each, outer,
        work, work / whole, eigs, iterations * eigs, work + cubes,
    )


def predictions(problem, eps=1e-6, m=None, q=None, found=None):
    """The rows of the table: DSPDC with blocks of m and q and of one, and every other method.

    Arguments are those of `predict` and of `benchmark_dspdc.constants`; `found` is with the same
    m and q, if available.
    """
    sizes = {name: size for name, size in (("m", m), ("q", q)) if size is not None}
    found = constants(problem, m, q) if found is None else found
    rows = [("dspdc", sizes), *ROWS]
    made = [predict(problem, rate, eps, found, **options) for rate, options in rows]
    for k in (0, 1):
        made[k] = made[k]._replace(name=f"DSPDC[m={made[k].m},q={made[k].q}]")
    return made

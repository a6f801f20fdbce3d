"""DSPDC: doubly stochastic primal-dual coordinate method, and SPDC as a case of it.

References
----------
A. W. Yu, Q. Lin, T. Yang. Doubly stochastic primal-dual coordinate method for
bilinear saddle-point problem. arXiv:1508.03390.

Y. Zhang, L. Xiao. Stochastic primal-dual coordinate method for regularized
empirical risk minimization. ICML 2015, JMLR 18(84), 2017.
"""

import sys
import threading
import time
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_flag, choose
from ..engine.dispatch import generic
from ..engine.kernel_cache import njit
from ..engine.psd_projection import each
from ..engine.sampling import (
    Partition,
    Stepped,
    Subset,
    block_size,
    draw,
    generator,
    inverse_probability,
    partition,
    subset,
)
from ..engine.threads import all_at_once, check_threads, single_threaded
from ..model.dual_rules import Ascent, dual_step
from ..model.regularizers import Coasting, coasting, primal_step
from ..operators.row_loops import TILE
from ..state import primal_dual_cost, primal_dual_state
from ..state.lazy import LazyRows, lazy_dual_half, lazy_primal_half, settle, settled
from ..state.primal_dual import (
    ColumnCoupling,
    FactorCoupling,
    RowCoupling,
    announce,
    close,
    column_products,
    expect,
    iteration_cost,
    push_dual,
    push_primal,
    row_products,
    turn,
)
from ..state.primal_dual_matrices import BlockColumns, BlockRows
from ..state.scaled import (
    ROWS_OF_ALL,
    LinearRows,
    linear_dual_half,
    linear_primal_half,
    rows_of_all,
)
from ..state.shared_by_threads import SUMMING, WORTH, Shared, can_share, longest_sum, part, shares
from ..theory import steps as formulas
from ..theory.block_sizes import choose_blocks, estimated_root, iteration_seconds
from ..theory.coupling_constant import (
    ESTIMATED,
    Constant,
    check_kind,
    coupling_constant,
    exact_constant,
)
from ..theory.importance import check_sampling, dspdc_plan, spdc_plan
from .adaptive import CAUTION, Curvature, movement
from .method import Algorithm


class Constants(NamedTuple):
    """The scalars of an iteration."""

    tau_over_n: float
    tau: float
    over_n: float
    boost: float       # r = n/m of ybar
    momentum: float    # 1 + theta of xbar
    coasting: Coasting


#: For kernels that have no use for it.
NO_COASTING = coasting(1.0, 1.0)


@njit(inline=True)
def boosted(c, boost):
    """The same constants with another r, for blocks that are not equally likely."""
    return Constants(c.tau_over_n, c.tau, c.over_n, boost, c.momentum, c.coasting)


@generic(interpreted=True)
def of_block(primal, c, lo):
    """The constants with the step and the extrapolation of the primal block at `lo`."""


def _of_any_block(primal, c, lo):
    return c


for _kind in (Partition, Subset):
    of_block.register(_kind)(_of_any_block)


@of_block.register(Stepped)
def _(primal, c, lo):
    tau = primal.taus[lo]
    return Constants(tau * c.over_n, tau, c.over_n, c.boost, primal.momenta[lo], c.coasting)


class Block(NamedTuple):
    """Coordinates ``order[lo:hi]``."""

    order: object
    lo: int
    hi: int


@generic
def dual_half(coupling, rule, reg, rows, b, x, y, c, dy):
    """Steps of a block of dual coordinates."""


@generic
def primal_half(coupling, reg, rows, columns, x, c, dx):
    """Steps of a block of primal coordinates, after those of a block of dual ones.

    Returns the number of eigendecompositions done.
    """


def _dual_in_tiles(coupling, rule, reg, rows, b, x, y, c, dy):
    order, lo, hi = rows
    tile = dy.shape[0]
    for k in range(lo, hi, tile):
        end = min(k + tile, hi)
        row_products(coupling, c.momentum, order, k, end, dy)
        dual_step(rule, order, k, end, b, y, dy)
        push_dual(coupling, c.boost, order, k, end, y, dy)


def _primal_in_tiles(coupling, reg, rows, columns, x, c, dx):
    order, first, last = columns
    tile = dx.shape[0]
    done = 0
    for k in range(first, last, tile):
        end = min(k + tile, last)
        column_products(coupling, c.boost, order, k, end, dx)
        done += primal_step(reg, order, k, end, x, c.tau, c.tau_over_n, dx)
        push_primal(coupling, c.momentum, order, k, end, x, dx)
    return done


for _kind in (RowCoupling, ColumnCoupling, FactorCoupling, BlockColumns):
    dual_half.register(_kind)(_dual_in_tiles)
    primal_half.register(_kind)(_primal_in_tiles)


@dual_half.register(BlockRows)
def _(coupling, rule, reg, rows, b, x, y, c, dy):
    coupling.ascend(rule, rows.order, rows.lo, rows.hi, b, y, dy)


@primal_half.register(BlockRows)
def _(coupling, reg, rows, columns, x, c, dx):
    # Blocks have nothing to do with each other here, so each is done on one
    # thread, in a buffer that stays in its cache.
    def step(k):
        one = Block(columns.order, k, k + 1)
        return _primal_in_tiles(coupling, reg, rows, one, x, c, _block_buffer(dx.shape[1:]))
    return sum(each(step, range(columns.lo, columns.hi), x.shape[1]))


@dual_half.register(Shared)
def _(coupling, rule, reg, rows, b, x, y, c, dy):
    lo, hi = part(coupling.me, coupling.dual_sums.shape[0], rows.lo, rows.hi)
    dual_half(coupling.dual, rule, reg, Block(rows.order, lo, hi), b, x, y, c, dy)


@primal_half.register(Shared)
def _(coupling, reg, rows, columns, x, c, dx):
    lo, hi = part(coupling.me, coupling.dual_sums.shape[0], columns.lo, columns.hi)
    return primal_half(coupling.primal, reg, rows, Block(columns.order, lo, hi), x, c, dx)


@dual_half.register(LazyRows)
def _(coupling, rule, reg, rows, b, x, y, c, dy):
    lazy_dual_half(coupling, rule, reg, rows.order, rows.lo, rows.hi, b, y, c, dy)


@primal_half.register(LazyRows)
def _(coupling, reg, rows, columns, x, c, dx):
    # Of one buffer for both halves: what a single row changed is still in it.
    lazy_primal_half(coupling, reg, rows.order, rows.lo, rows.hi, c, True, dx)
    return 0


@dual_half.register(LinearRows)
def _(coupling, rule, reg, rows, b, x, y, c, dy):
    linear_dual_half(coupling, rule, rows.order, rows.lo, rows.hi, b, y, dy)


@primal_half.register(LinearRows)
def _(coupling, reg, rows, columns, x, c, dx):
    linear_primal_half(coupling, reg, rows.order, rows.lo, rows.hi, c, True, dx)
    return 0


_kept = threading.local()


def _block_buffer(shape):
    buffer = getattr(_kept, "buffer", None)
    if buffer is None or buffer.shape[1:] != shape:
        buffer = _kept.buffer = np.empty((1, *shape))
    return buffer


@njit(nogil=True)
def iterate(coupling, rule, reg, b, x, y, dual, primal, c, state, memory, counters, dy, dx,
            n_iterations):
    """Algorithm 1.

    Between iterations ``memory`` holds the dual and the primal block drawn
    ahead, and the primal block of the last iteration. The buffers ``dy`` and
    ``dx`` hold products and then changes; their lengths are how many
    coordinates are handled together.
    """
    dual_ahead = memory[0]
    primal_ahead = memory[1]
    previous = memory[2]
    for _ in range(n_iterations):
        lo, hi = draw(dual, state, dual_ahead)
        announce(coupling, dual.order, dual_ahead[0], dual_ahead[1])
        expect(coupling, primal.order, primal_ahead[0], primal_ahead[1])
        now = boosted(c, inverse_probability(dual, c.boost, lo))
        rows = Block(dual.order, lo, hi)
        before = of_block(primal, now, previous[0])
        dual_half(coupling, rule, reg, rows, b, x, y, before, dy)
        turn(coupling, now.boost, primal.order, previous[0], previous[1], x)

        first, last = draw(primal, state, primal_ahead)
        columns = Block(primal.order, first, last)
        then = of_block(primal, now, first)
        counters[2] += primal_half(coupling, reg, rows, columns, x, then, dx)

        close(coupling, then.momentum, dual.order, lo, hi, y)
        previous[0] = first
        previous[1] = last
        counters[0] += iteration_cost(
            coupling, dual.order, lo, hi, primal.order, first, last
        )
        counters[1] += (hi - lo) + (last - first)


#: Choosing may take this share of the run that is predicted, or so many nanoseconds.
SHARE, AT_ONCE = 0.05, 1e6


class DSPDC(Algorithm):
    """Doubly stochastic primal-dual coordinate method (Algorithm 1).

    Each iteration updates a block of m dual and a block of q primal
    coordinates.

    Parameters
    ----------
    m, q : "auto", int or float
        Block sizes, as counts or as fractions of n and p; "auto" takes those
        of the least predicted time, see `benchmark_dspdc.theory.block_sizes`. For
        partitions the blocks are of balanced size, so the sizes really used,
        in ``info``, may be a little smaller.
    sampling : {"partition", "subset"}
        See `benchmark_dspdc.engine.sampling`.
    theorem : {1, 2}
        Steps for the distance to the solution, or for the objective gap.
    Lambda : {"auto", "partition", "bound", "heuristic"} or float
        The bound on |A_I^J|^2; see `benchmark_dspdc.theory.coupling_constant`. "auto" is
        "bound" for subsets, and for partitions their exact constant if that
        takes little of the run's time; else an estimate, until a run does not
        move less and less, and "partition" from there on.
    heuristic_scale : float
        Factor of the heuristic m q max_i |A_i|^2 / p. The paper's R^2 in that
        place is left over from an earlier version of it; 1 is its intent.
    adaptive : bool
        Steps by the curvature that the run meets in place of lam, and by a
        fourth of Lambda; see `benchmark_dspdc.methods.adaptive`. Theorem 1
        then holds only after a run has failed to move less and less, when its
        own steps are taken for good. With Lambda="auto" that is only estimated
        until then.
    threads : int
        Work on an iteration with so many threads at once, if it is long enough
        for that (some 10 us) and a product with single rows or columns of A;
        sums then differ in their last bits. On matrices the threads of the
        process are used, see `benchmark_dspdc.engine.threads`.
    calibrate : bool
        For "auto": measure this machine in place of the stored prices. The
        choice, and with it the run, then depends on the machine.
    probabilities : {"uniform", "importance"}
        Blocks equally likely, or by their norms, each with steps of its own
        (docs/importance.md); the latter only for partitions, with the norms of
        all pairs in the place of Lambda.

    Notes
    -----
    Iterations to accuracy eps:
    O((max(n/m, p/q) + (n p/(m q)) sqrt(Lambda/(lam gamma n))) log(1/eps)); with
    importance, if |A_I^J| <= a_I b_J, at most
    (r + s + sum_I a_I sum_J b_J/sqrt(lam gamma n)) log(1/eps).
    ``info["rate"]`` is that of the theorem: Theorem 1 bounds the expected squared
    distances to the solution, Theorem 2 the expected gap P(x) - D(y), at half
    the rate. It is missing where Lambda is given, heuristic or estimated, so that it
    may be too small.
    """

    name = "dspdc"
    chooses = ("m", "q")

    #: What steps follow, if they are adaptive.
    _curvature = None

    _threads = 1

    @classmethod
    def validate(cls, problem, **options):
        super().validate(problem, **options)
        check_kind(options.get("Lambda", "auto"))
        check_sampling(
            options.get("probabilities", "uniform"), options.get("sampling"),
            options.get("Lambda", "auto"), options.get("adaptive", False),
        )

    def setup(self, seeds, m="auto", q="auto", sampling="partition", theorem=1, Lambda="auto",
              heuristic_scale=1.0, adaptive=False, probabilities="uniform", calibrate=False,
              threads=1):
        n = self.problem.shape[0]
        choose(theorem, (1, 2), "theorem")
        self._threads = check_threads(threads)
        adaptive = check_flag(adaptive, "adaptive")
        calibrate = check_flag(calibrate, "calibrate")
        check_sampling(probabilities, sampling, Lambda, adaptive)
        begun, chooses = time.perf_counter(), "auto" in (m, q)
        if chooses:
            m, q = self._choose_blocks(m, q, calibrate)
        dual, primal = self._samplers(seeds, m, q, sampling)
        if probabilities == "importance":
            self._start_by(dspdc_plan(self.problem, dual, primal, theorem), seeds)
            return
        r, s = dual.inverse_probability, primal.inverse_probability

        def certified():
            return coupling_constant(
                self.problem, Lambda, dual, primal, heuristic_scale=heuristic_scale
            )
        constant = None
        if Lambda == "auto":
            constant = self._constant(dual, primal, sampling, adaptive)
        if constant is None:
            constant = certified()
        if chooses:
            self.info.update(choosing_seconds=time.perf_counter() - begun)
        setting = (n, r, s, constant.value, self.problem.lam, self.problem.gamma, theorem)
        self.info.update(
            Lambda=constant.value, Lambda_kind=constant.kind, theorem=theorem, adaptive=adaptive
        )
        if constant.is_bound and not adaptive:
            self.info.update(rate=formulas.dspdc_rate(*setting))
        steps = formulas.dspdc(*setting)
        self._start(seeds, dual, primal, steps)
        if adaptive or constant.kind == ESTIMATED:
            self._curvature = Curvature(self.problem, r, s, constant.value, follows=adaptive)
            self._certified = certified
            self._restart = lambda: self._start(seeds, dual, primal, steps)
            self._seen = np.zeros(self.problem.x_shape), np.zeros(n)
            self._adapt()

    @cached_property
    def _root(self):
        # The same sample for all seeds: what is chosen, and so compiled, is the problem's.
        return estimated_root(self.problem.operator, np.random.default_rng(0))

    def _constant(self, dual, primal, sampling, adaptive):
        """Lambda where none is asked for: exact if cheap, else estimated; None if neither."""
        operator = self.problem.operator
        m, q = dual.largest, primal.largest
        if not adaptive:
            if sampling == "subset":
                return None
            limit = AT_ONCE / operator.norm_price
            if (found := exact_constant(operator, dual, primal, limit)) is not None:
                return found
            seconds = SHARE * choose_blocks(self.problem, self._root, m, q).seconds
            limit = 1e9 * seconds / operator.norm_price
            if (found := exact_constant(operator, dual, primal, limit)) is not None:
                return found
        return Constant(CAUTION * float(self._root(m, q)) ** 2, ESTIMATED)

    def _choose_blocks(self, m, q, calibrate):
        found = choose_blocks(self.problem, self._root, m, q, calibrate)
        self.info.update(
            choice=found.describe(), predicted_iterations=found.iterations,
            predicted_seconds=found.seconds,
        )
        return found.m, found.q

    def _samplers(self, seeds, m, q, sampling):
        n, p = self.problem.shape
        m, q = block_size(m, n, "m"), block_size(q, p, "q")
        choose(sampling, ("partition", "subset"), "sampling")
        self.info.update(sampling=sampling)
        if sampling == "subset":
            return subset(n, m), subset(p, q)
        rng = np.random.default_rng(seeds.spawn(1)[0])
        return partition(n, m, rng), partition(p, q, rng)

    def _start_by(self, plan, seeds):
        """Begin a run by importance."""
        self.info.update(plan.info)
        self._start(seeds, plan.dual, plan.primal, plan.steps)
        rho = plan.rho if self._y_order is None else plan.rho[self._y_order]
        self._rule = Ascent(self.problem.loss, rho)

    def _start(self, seeds, dual, primal, steps, lazy=None):
        n = self.problem.shape[0]
        r, s = dual.inverse_probability, primal.inverse_probability
        keep = "rows" if r >= s else "columns"
        self._x, self._y = np.zeros(self.problem.x_shape), np.zeros(n)
        self._coupling, self._dual, self._primal = primal_dual_state(
            self.problem.operator, keep, dual, primal
        )
        if isinstance(self._coupling, LazyRows):
            if lazy is not None:
                self._coupling = rows_of_all(
                    self._coupling.rows, self.problem.shape[1], dual, lazy, self.problem.reg
                )
            self._x = self._coupling.x
        # Storage may have been rearranged by blocks; then so are x, y and b.
        self._x_order = primal.order if self._primal.order is None else None
        self._y_order = dual.order if self._dual.order is None else None
        b = self.problem.b
        self._b = b if self._y_order is None else b[self._y_order]
        self._r = r
        self._set_steps(steps)
        self._generator = generator(seeds.generate_state(1)[0])
        self._memory = np.array([[-1, -1], [-1, -1], [0, 0]])
        if isinstance(self._coupling, tuple):
            self._iterate = iterate
            every = isinstance(self._coupling, LinearRows)
            self._dy = self._dx = np.empty(max(TILE, dual.largest) if every else TILE)
        else:
            # Blocks are matrices: the same loop in Python, on whole blocks.
            self._iterate = single_threaded(iterate.py_func)
            self._dy = np.empty(dual.largest)
            rows = isinstance(self._coupling, BlockRows)
            self._dx = np.empty((0 if rows else primal.largest, *self.problem.x_shape[1:]))
        self.info.update(m=dual.largest, q=primal.largest, r=r, s=s, keep=keep, threads=1)
        self._helpers = []
        self._share_out(r, s)

    def _share_out(self, r, s):
        """Let several threads work on an iteration, if it is long enough."""
        if self._threads == 1 or not can_share(self._coupling):
            return
        n, p = self.problem.shape
        operator = self.problem.operator
        seconds = iteration_seconds(operator, self.problem.loss, n / r, p / s)
        # Adding up the threads' sums must be little beside making them.
        summing = SUMMING * longest_sum(self._coupling)
        if seconds < WORTH or summing > primal_dual_cost(operator, r, s):
            return
        self._coupling, *others = shares(self._coupling, self._threads)
        self.info.update(threads=self._threads)

        def copied(value):
            return value.copy() if isinstance(value, np.ndarray) else value
        for share in others:
            # What changes as blocks are drawn; all threads draw the same ones.
            own = [type(k)(*map(copied, k)) for k in (self._dual, self._primal)]
            own += map(copied, (self._generator, self._memory, self._counters))
            buffer = np.empty(TILE)
            self._helpers.append((share, *own, buffer, buffer))

    def _set_steps(self, steps):
        n = self.problem.shape[0]
        lazy = isinstance(self._coupling, LazyRows)
        self._constants = Constants(
            steps.tau / n, steps.tau, 1.0 / n, self._r, 1.0 + steps.theta,
            coasting(steps.tau, self.problem.lam) if lazy else NO_COASTING,
        )
        self._rule = Ascent(self.problem.loss, n / steps.sigma)
        self.info.update(tau=steps.tau, sigma=steps.sigma, theta=steps.theta)

    def _run(self, n_iterations):
        if self._curvature is None:
            self._iterations(n_iterations)
            return
        if n_iterations == 0:
            self._movements([seen.copy() for seen in self._seen])
            self._iterations(0)
        while n_iterations > 0:
            count = min(n_iterations, self._until)
            self._iterations(count)
            n_iterations -= count
            self._until -= count
            if self._until == 0:
                self._look_back()

    def _look_back(self):
        """Observe how far x and y moved, and adapt the steps."""
        if isinstance(self._coupling, ROWS_OF_ALL):
            settle(self._coupling, self.problem.reg, self._constants)
        if not self._curvature.observe(*self._movements(self._seen)):
            if self._curvature.blown_up:
                # From such a point the way back would be longer than from the start.
                self._restart()
            constant = self._certified()
            self._curvature.bound = constant.value
            self.info.update(Lambda=constant.value, Lambda_kind=constant.kind)
        self._adapt()

    def _movements(self, since):
        """|x - x_seen|^2 and |y - y_seen|^2; then x and y are what was seen."""
        x, y = since
        dy2 = movement(self._y, y)
        weights = getattr(self.problem.reg, "weights", None)
        if weights is None:
            return movement(self._x, x), dy2
        # Blocks count in units in which their moduli are alike.
        blocks = zip(self._x, x, weights, strict=True)
        return sum(movement(new.ravel(), old.ravel()) / w for new, old, w in blocks), dy2

    def _adapt(self):
        seen = self._curvature
        self._set_steps(formulas.dspdc(
            self.problem.shape[0], seen.r, seen.s, seen.Lambda, seen.modulus, seen.gamma,
            self.info["theorem"],
        ))
        self._until = seen.period if seen.trusted else sys.maxsize
        self.info.update(
            modulus=seen.modulus, Lambda_used=seen.Lambda, trusted=seen.trusted,
        )

    def _iterations(self, n_iterations):
        def work(coupling, dual, primal, state, memory, counters, dy, dx):
            self._iterate(
                coupling, self._rule, self.problem.reg, self._b, self._x, self._y, dual, primal,
                self._constants, state, memory, counters, dy, dx, n_iterations,
            )
        own = (
            self._coupling, self._dual, self._primal, self._generator, self._memory,
            self._counters, self._dy, self._dx,
        )
        all_at_once(work, own, *self._helpers)

    @property
    def x(self):
        if isinstance(self._coupling, ROWS_OF_ALL):
            return settled(self._coupling, self.problem.reg, self._constants).x.copy()
        return _restored(self._x, self._x_order)

    @property
    def y(self):
        return _restored(self._y, self._y_order)

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        return operator.multiply_adds / primal_dual_cost(operator, self.info["r"], self.info["s"])


def _restored(values, order):
    if order is None:
        return values.copy()
    out = np.empty_like(values)
    out[order] = values
    return out


class SPDC(DSPDC):
    """Stochastic primal-dual coordinate method: DSPDC with q = p.

    Parameters
    ----------
    m : int or float
        Dual block size.
    steps : {"authors", "dspdc"}
        Step sizes of Zhang & Xiao's Theorem 1, with the largest row norm, or
        those of DSPDC with q = p (then `theorem`, `Lambda` and
        `heuristic_scale` are as there).
    sampling : {"partition", "subset"}
    probabilities : {"uniform", "importance"}
        Batches equally likely, or, with its authors' steps, half uniformly and
        half by their norms, p_i = 1/(2n) + |a_i|/(2 sum_k |a_k|) for m = 1, with
        dual steps by p_i; with steps="dspdc" as there.
    threads : int
        As for `DSPDC`.

    Notes
    -----
    Iterations to accuracy eps: O((n/m + sqrt(kappa n/m)) log(1/eps)) with
    kappa = max_i |a_i|^2/(lam gamma). With importance and the authors' steps
    (2r + 2 sum_I |A_I|/sqrt(lam gamma n)) log(1/eps), the mean norm in the place
    of the largest; the constants are as recalled from their section on
    non-uniform sampling and are proved in docs/importance.md, batches included.
    ``info["rate"]`` of the authors' steps is that of their Theorem 1, on expected
    squared distances.
    """

    name = "spdc"
    chooses = ()

    def setup(self, seeds, m=1, steps="authors", sampling="partition",
              probabilities="uniform", threads=1, **dspdc_options):
        choose(steps, ("authors", "dspdc"), "steps")
        self._threads = check_threads(threads)
        self.info.update(steps=steps)
        p = self.problem.shape[1]
        if "q" in dspdc_options:
            raise ValueError(
                f"spdc updates all p primal coordinates, got q={dspdc_options['q']!r}; "
                "use method 'dspdc' for blocks of them"
            )
        if steps == "dspdc":
            super().setup(seeds, m=m, q=p, sampling=sampling, probabilities=probabilities,
                          threads=threads, **dspdc_options)
            return
        if dspdc_options:
            raise ValueError(
                f"{', '.join(dspdc_options)} can be given only with steps='dspdc', "
                f"got steps={steps!r}"
            )
        check_sampling(probabilities, sampling)
        dual, primal = self._samplers(seeds, m, p, sampling)
        if probabilities == "importance":
            self._start_by(spdc_plan(self.problem, dual, primal), seeds)
            return
        R = float(np.sqrt(self.problem.operator.row_norms2.max()))
        chosen = formulas.spdc(
            self.problem.shape[0], dual.inverse_probability, R, self.problem.lam,
            self.problem.gamma,
        )
        self.info.update(R=R, rate=1.0 - chosen.theta)
        self._start(seeds, dual, primal, chosen)

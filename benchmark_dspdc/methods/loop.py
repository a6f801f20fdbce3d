"""The primal-dual loop with its state, rule, steps and blocks, as methods compose it."""

import numpy as np

from ..engine.dispatch import runner
from ..engine.sampling import generator, permuted
from ..engine.threads import all_at_once
from ..model.losses import derivative_all
from ..state import primal_dual_cost, primal_dual_state
from ..state.iteration import (
    Ascent,
    StepSizes,
    coasting_of,
    iterate,
    load,
    new_blocks,
    settle,
    solution,
)
from ..state.lazy import Extrapolated
from ..state.shared_by_threads import longest_sum, shares
from ..theory.block_sizes import iteration_seconds
from .method import Method

#: Seconds of an iteration, as modelled, from which threads pay: two took 0.97 of the time of
#: one at 2 us, 0.8 at 3 us and 0.73 at 15 us (A = UV, AMD EPYC, November 2026).
WORTH = 1e-5

#: Multiply-adds of an iteration for each number of a sum, from which threads pay.
SUMMING = 8


class Loop:
    """A run of `benchmark_dspdc.state.iteration.iterate`, from argmin g and y = 0 or a start on.

    Parameters
    ----------
    problem : Problem
    seeds : numpy.random.SeedSequence
    dual, primal : samplers
        How blocks are drawn.
    steps : Steps
        tau, a number or one a coordinate, sigma and theta; see `set_steps`.
    counters : ndarray of shape (3,)
        Multiply-adds, coordinate updates and eigendecompositions are added to it.
    kind : NamedTuple
        For states that move x lazily; see `benchmark_dspdc.state.lazy`.
    threads : int
        Work on an iteration with so many threads at once, if it is long enough.
    start : Start or None
        Where to begin; what is kept for it takes a pass.
    order : {"random", "permuted"}
        Blocks of partitions drawn independently, or each once an epoch.
    extrapolated : {"x", "y"}
        What theta is for: xbar = x + theta (x - x_old), while ybar = y_old + r (y - y_old);
        or ybar = y + theta r (y - y_old), while xbar is x (SPDHG).

    Attributes
    ----------
    state : NamedTuple, or an object where the blocks of x are matrices
    rule : NamedTuple
        `Ascent` by sigma, unless another one is set.
    info : dict
    """

    def __init__(self, problem, seeds, dual, primal, steps, counters, kind=None, threads=1,
                 start=None, order="random", extrapolated="x"):
        self.problem, self.counters, self.extrapolated = problem, counters, extrapolated
        self.r, self.s = dual.inverse_probability, primal.inverse_probability
        self.state, dual_used, primal_used, self.x_order, self.y_order = primal_dual_state(
            problem, dual, primal, kind or Extrapolated(), by_coordinate=np.ndim(steps.tau) > 0
        )
        if order == "permuted":
            dual_used, primal_used = permuted(dual_used), permuted(primal_used)
        self.blocks = new_blocks(dual_used, primal_used, generator(seeds.generate_state(1)[0]))
        self._helpers = []
        self.info = dict(
            m=dual.largest, q=primal.largest, r=self.r, s=self.s,
            keep="rows" if self.r >= self.s else "columns", threads=1,
        )
        self.point = self.state.point
        if start is not None:
            self.point.x[:] = self._in_order(start.x, self.x_order)
            self.point.y[:] = self._in_order(start.y, self.y_order)
            self.renew()
        self.set_steps(steps)
        if threads > 1:
            self._share(threads)
        self._iterate = runner(iterate, self.state)

    def set_steps(self, steps):
        """Go on with other steps; rho of the rule is n/sigma."""
        n = self.problem.shape[0]
        tau = self._in_order(steps.tau, self.x_order)
        boost, momentum = self.r, 1.0 + steps.theta
        if self.extrapolated == "y":
            boost, momentum = 1.0 + steps.theta * self.r, 1.0
        self.steps = StepSizes(
            tau, tau / n, 1.0 / n, boost, momentum,
            coasting_of(self.state, tau, self.problem.lam),
        )
        self.set_rho(n / steps.sigma)
        self.info.update(tau=steps.tau, sigma=steps.sigma, theta=steps.theta)

    def set_rho(self, rho):
        """Go on with another rho of the dual steps, a number or one a coordinate."""
        self.rule = Ascent(self.problem.loss, self._in_order(rho, self.y_order))

    def arranged(self, of_x, of_y):
        """Values of primal and of dual coordinates as the kernel has them."""
        return self._in_order(of_x, self.x_order), self._in_order(of_y, self.y_order)

    @staticmethod
    def _in_order(values, order):
        """Values of coordinates as the kernel has them; a number is all of them."""
        return values[order] if np.ndim(values) and order is not None else values

    def _share(self, threads):
        """Let several threads work on an iteration, if it is long enough."""
        (n, p), operator, sums = self.problem.shape, self.problem.operator, longest_sum(self.state)
        if sums is None:
            return
        seconds = iteration_seconds(operator, self.problem.loss, n / self.r, p / self.s)
        # Adding up the threads' sums must be little beside making them.
        if seconds < WORTH or SUMMING * sums > primal_dual_cost(operator, self.r, self.s):
            return
        self.state, *others = shares(self.state, threads)
        self.info.update(threads=threads)

        def copied(value):
            if isinstance(value, tuple):
                return type(value)(*map(copied, value))
            return value.copy() if isinstance(value, np.ndarray) else value
        # What changes as blocks are drawn; all threads draw the same ones.
        self._helpers = [
            (share, copied(self.blocks), self.counters.copy()) for share in others
        ]

    def coming_rows(self):
        """The dual block of the next iteration, once one has been drawn."""
        lo, hi = self.blocks.dual_ahead[:2]
        rows = np.arange(lo, hi) if lo >= 0 else np.arange(self.problem.shape[0])
        for order in (self.blocks.dual.order, self.y_order):
            rows = rows if order is None else order[rows]
        return rows

    def advance(self, n_iterations):
        def work(state, blocks, counters):
            self._iterate(state, self.rule, self.steps, blocks, counters, n_iterations)
        all_at_once(work, (self.state, self.blocks, self.counters), *self._helpers)

    def settle(self):
        """Bring all of x up to date."""
        settle(self.state, self.steps)

    def begin_at(self, x):
        """y = phi'(A x), and what is kept for it and for the state's x; one pass.

        x is in the order of the kernel.
        """
        problem = self.problem
        z = self._in_order(problem.operator.matvec(_restored(x, self.x_order)), self.y_order)
        self.point.y[:] = derivative_all(problem.loss, z, self.point.b)
        self.renew()

    def renew(self):
        """Compute afresh what is kept for the point; one pass."""
        operator = self.problem.operator
        load(self.state, operator, self.x_order, self.y_order)
        if self.info["keep"] == "columns" or self.point.y.any():
            self.counters[0] += operator.multiply_adds

    @property
    def x(self):
        return _restored(solution(self.state, self.steps), self.x_order)

    @property
    def y(self):
        return _restored(self.point.y.copy(), self.y_order)

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        return operator.multiply_adds / primal_dual_cost(operator, self.r, self.s)


def _restored(values, order):
    if order is None:
        return values
    out = np.empty_like(values)
    out[order] = values
    return out


class LoopMethod(Method):
    """A method that is the loop with a rule, steps and blocks of its own, set up by `setup`."""

    _loop = None

    def _start(self, seeds, dual, primal, steps, **options):
        """Begin the loop, and tell of it."""
        self._loop = Loop(
            self.problem, seeds, dual, primal, steps, self._counters, start=self.start, **options
        )
        self._tell()
        return self._loop

    def _tell(self):
        self.info.update(self._loop.info)

    def _run(self, n_iterations):
        self._loop.advance(n_iterations)

    @property
    def x(self):
        return self._loop.x

    @property
    def y(self):
        return self._loop.y

    @property
    def iterations_per_pass(self):
        return self._loop.iterations_per_pass

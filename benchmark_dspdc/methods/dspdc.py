"""DSPDC: doubly stochastic primal-dual coordinate method.

References
----------
A. W. Yu, Q. Lin, T. Yang. Doubly stochastic primal-dual coordinate method for
bilinear saddle-point problem. arXiv:1508.03390.
"""

import sys
import time

import numpy as np

from ..engine.checks import check_flag, choose
from ..engine.threads import check_threads
from ..theory import steps as formulas
from ..theory.block_sizes import calibrated
from ..theory.coupling_constant import GIVEN, HEURISTIC, budget, check_kind, row_block_shares
from ..theory.importance import check_sampling, dspdc_plan
from ..theory.setting import AT_ONCE, dspdc_setting
from .adaptive import Curvature, movement
from .loop import LoopMethod


def check_steps(steps, order, sampling, probabilities):
    """Raise unless blocks can have steps and an order like these."""
    choose(steps, ("theorem", "block"), "steps")
    choose(order, ("random", "permuted"), "order")
    if (sampling, probabilities) != ("partition", "uniform"):
        for value, name, usual in ((steps, "steps", "theorem"), (order, "order", "random")):
            if value != usual:
                raise ValueError(
                    f"{name}={value!r} is for the blocks of a partition that are equally likely, "
                    f"got sampling={sampling!r}, probabilities={probabilities!r}"
                )


class DSPDC(LoopMethod):
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
    steps : {"theorem", "block"}
        The paper's, one for all coordinates; or for every dual block a step by its own
        norm, with the product of the two steps split so that x follows y where the
        coupling is weak (docs/steps.md). Theorem 1 covers both if the norms are exact.
    order : {"random", "permuted"}
        Blocks drawn independently, as the theorems have it, or each once an epoch, which
        is practice; with "permuted" a run has no ``info["rate"]``.
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
    family = "primal-dual"
    chooses = ("m", "q")

    #: What steps follow, if they are adaptive.
    _curvature = None

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
              threads=1, steps="theorem", order="random"):
        choose(theorem, (1, 2), "theorem")
        check_steps(steps, order, sampling, probabilities)
        threads = check_threads(threads)
        adaptive = check_flag(adaptive, "adaptive")
        prices = None
        if check_flag(calibrate, "calibrate"):
            prices = calibrated(self.problem, self._iteration_time)
        check_sampling(probabilities, sampling, Lambda, adaptive)
        by_importance = probabilities == "importance"
        setting = dspdc_setting(
            self.problem, seeds, m, q, sampling, Lambda, heuristic_scale, adaptive, prices,
            constant=not by_importance,
        )
        self.info.update(setting.info)
        if by_importance:
            plan = dspdc_plan(self.problem, setting.dual, setting.primal, theorem)
            self._start_by(plan, seeds, threads)
        else:
            # Whoever asks for the constant of the partition may wait for those of its blocks.
            exact = Lambda == "partition"
            self._start_with(setting, seeds, theorem, adaptive, threads, steps, order, exact)

    def _start_with(self, setting, seeds, theorem, adaptive, threads, steps, order, exact):
        """Begin a run with blocks that are equally likely."""
        constant, dual, primal = setting.constant, setting.dual, setting.primal
        r, s = dual.inverse_probability, primal.inverse_probability
        self.info.update(
            Lambda=constant.value, Lambda_kind=constant.kind, theorem=theorem, adaptive=adaptive,
            steps=steps, order=order,
        )
        self._shares, known = None, True
        if steps == "block":
            operator = self.problem.operator
            limit = budget(operator) if exact else AT_ONCE / operator.norm_price
            shares, known = row_block_shares(operator, dual, primal, limit)
            self._shares = np.empty(self.problem.shape[0])
            self._shares[dual.order] = np.repeat(shares, np.diff(dual.starts))
        first, iterations = self._steps(r, s, constant.value, self.problem.lam)
        covered = constant.is_bound and known
        if covered and order == "random" and not adaptive:
            self.info.update(rate=1.0 / (theorem * iterations))

        def start():
            self._start(seeds, dual, primal, first, threads=threads, order=order)
            self._set_steps(first)
        start()
        if adaptive or (not covered and constant.kind not in (GIVEN, HEURISTIC)):
            self._curvature = Curvature(self.problem, r, s, constant.value, follows=adaptive)
            self._certified, self._restart = setting.certified, start
            self._seen = self._loop.point.x.copy(), self._loop.point.y.copy()
            self._adapt()

    def _steps(self, r, s, Lambda, modulus):
        """Steps of these blocks, and the K of their rate 1 - 1/K."""
        n, theorem = self.problem.shape[0], self.info["theorem"]
        values = n, r, s, Lambda, modulus, self.problem.gamma, theorem
        if self._shares is not None:
            return formulas.dspdc_split(*values)
        return formulas.dspdc(*values), 1.0 / (theorem * formulas.dspdc_rate(*values))

    def _set_steps(self, steps):
        """Go on with other steps; a dual block that is lighter has a longer one."""
        self._loop.set_steps(steps)
        if self._shares is not None:
            self._loop.set_rho(self.problem.shape[0] / steps.sigma * self._shares)

    def _start_by(self, plan, seeds, threads):
        """Begin a run by importance."""
        self.info.update(plan.info)
        self._start(seeds, plan.dual, plan.primal, plan.steps, threads=threads)
        self._loop.set_rho(plan.rho)

    def _iteration_time(self, m, q, seconds):
        """Seconds of an iteration with blocks of these sizes, measured for so long."""
        n, p = self.problem.shape
        other = DSPDC(self.problem, m=m, q=q, Lambda=float(p * n))
        other.advance(0)
        other.advance(1)
        count, taken = 1, 0.0
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or taken == 0.0:
            begun = time.perf_counter()
            other.advance(count)
            taken = (time.perf_counter() - begun) / count
            count *= 2
        return taken

    def _run(self, n_iterations):
        if self._curvature is None:
            self._loop.advance(n_iterations)
            return
        if n_iterations == 0:
            self._movements([seen.copy() for seen in self._seen])
            self._loop.advance(0)
            if self.iterations == 0:
                self._loop.settle()
        while n_iterations > 0:
            count = min(n_iterations, self._until)
            self._loop.advance(count)
            n_iterations -= count
            self._until -= count
            if self._until == 0:
                self._look_back()

    def _look_back(self):
        """Observe how far x and y moved, and adapt the steps."""
        self._loop.settle()
        trusted = self._curvature.observe(*self._movements(self._seen))
        if self._curvature.failed and self._curvature.blown_up:
            # From such a point the way back would be longer than from the start.
            self._restart()
        elif self._curvature.failed:
            self._loop.renew()
        if not trusted:
            constant = self._certified()
            self._curvature.bound = constant.value
            self.info.update(Lambda=constant.value, Lambda_kind=constant.kind)
        self._adapt()

    def _movements(self, since):
        """|x - x_seen|^2 and |y - y_seen|^2; then x and y are what was seen."""
        x, y = since
        point = self._loop.point
        dy2 = movement(point.y, y)
        weights = getattr(self.problem.reg, "weights", None)
        if weights is None:
            return movement(point.x, x), dy2
        # Blocks count in units in which their moduli are alike.
        blocks = zip(point.x, x, weights, strict=True)
        return sum(movement(new.ravel(), old.ravel()) / w for new, old, w in blocks), dy2

    def _adapt(self):
        seen = self._curvature
        self._set_steps(self._steps(seen.r, seen.s, seen.Lambda, seen.modulus)[0])
        self._tell()
        self._until = seen.period if seen.trusted else sys.maxsize
        self.info.update(
            modulus=seen.modulus, Lambda_used=seen.Lambda, trusted=seen.trusted,
        )

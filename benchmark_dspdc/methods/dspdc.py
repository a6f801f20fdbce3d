"""DSPDC: doubly stochastic primal-dual coordinate method.

References
----------
A. W. Yu, Q. Lin, T. Yang. Doubly stochastic primal-dual coordinate method for
bilinear saddle-point problem. arXiv:1508.03390.
"""

import sys
import time

import numpy as np

from ..engine.checks import check_flag, choose, is_auto
from ..engine.threads import check_threads
from ..theory import steps as formulas
from ..theory.block_sizes import calibrated
from ..theory.coupling_constant import GIVEN, HEURISTIC, budget, check_kind, row_block_shares
from ..theory.importance import check_sampling, dspdc_plan
from ..theory.setting import AT_ONCE, PRACTICE, dspdc_setting, practice
from .adaptive import Curvature, movement
from .loop import LoopMethod

#: Columns whose units differ by more than this factor have steps of their own.
UNEVEN = 10.0

#: Entries of a column that tell its unit.
COMMON = 30


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
    steps : {"auto", "block", "theorem"}
        For every dual block a step by its own norm, with the product of the two steps split so
        that x follows y where the coupling is weak (docs/steps.md); or the paper's, one for all.
        Theorem 1 covers both if the norms are exact. "auto" is "block", but "theorem" for
        subsets, with importance and where Lambda is given; likewise the next two.
    order : {"auto", "permuted", "random"}
        Blocks each once an epoch, which is practice, or drawn independently, as the theorems have
        it; with "permuted" a run has no ``info["rate"]``.
    adaptive : "auto" or bool
        Steps that balance what x and y move, and by a part of Lambda; see
        `benchmark_dspdc.methods.adaptive`. Theorem 1 then holds only after a run has failed to
        move less and less, when its own steps are taken for good. With Lambda="auto" that is only
        estimated until then. Without it (False) steps are made with lam.
    column_steps : "auto" or bool
        Primal steps tau_j by one over the mean square root of the entries of column j that are not
        zero, for columns in units of their own; "auto" where these differ by a factor of more than
        `UNEVEN`, steps are by block and Lambda is no number. Lambda is then that of A in these
        units, the largest column's.
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

    #: How heavy the block is that steps are made for, beside the heaviest.
    _usual = 1.0

    #: Primal steps of the columns beside the shortest, if they are not alike.
    _columns = None

    @classmethod
    def validate(cls, problem, **options):
        super().validate(problem, **options)
        check_kind(options.get("Lambda", "auto"))
        check_sampling(
            options.get("probabilities", "uniform"), options.get("sampling"),
            options.get("Lambda", "auto"), cls.settled(**options).get("adaptive", False),
        )

    @classmethod
    def settled(cls, **options):
        given = {name: options[name] for name in PRACTICE if name in options}
        return options | dict(zip(PRACTICE, practice(**given), strict=False))

    def setup(self, seeds, m="auto", q="auto", sampling="partition", theorem=1, Lambda="auto",
              heuristic_scale=1.0, adaptive="auto", probabilities="uniform", calibrate=False,
              threads=1, steps="auto", order="auto", column_steps="auto"):
        choose(theorem, (1, 2), "theorem")
        steps, order, adaptive = practice(
            steps, order, adaptive, sampling, probabilities, Lambda
        )
        threads = check_threads(threads)
        prices = None
        if check_flag(calibrate, "calibrate"):
            prices = calibrated(self.problem, self._iteration_time)
        check_sampling(probabilities, sampling, Lambda, adaptive)
        by_importance = probabilities == "importance"
        self._columns = self._column_steps(column_steps, steps, Lambda)
        # Norms are those of A with its columns in the units of the steps.
        measured = self.problem.weighted(self._columns)
        setting = dspdc_setting(
            measured, seeds, m, q, sampling, Lambda, heuristic_scale, adaptive, prices,
            constant=not by_importance, steps=steps,
        )
        self.info.update(setting.info)
        if by_importance:
            plan = dspdc_plan(self.problem, setting.dual, setting.primal, theorem)
            self._start_by(plan, seeds, threads)
            return
        self.info.update(
            Lambda=setting.constant.value, Lambda_kind=setting.constant.kind, theorem=theorem,
            adaptive=adaptive, steps=steps, order=order, column_steps=self._columns is not None,
        )
        operator = measured.operator
        limit = 0.0 if adaptive else AT_ONCE / operator.norm_price
        if Lambda == "partition":
            # Whoever asks for the constant of the partition may wait for those of its blocks.
            limit = budget(operator)
        known = self._weigh(operator, setting, steps, limit)

        def certified():
            # Shares that are estimated may be too small for a block, as Lambda may be for all.
            if not (known or self._weigh(operator, setting, steps, budget(operator))):
                self._shares[:] = 1.0
            return setting.certified()
        self._start_with(setting._replace(certified=certified), seeds, known, threads)

    def _column_steps(self, wanted, steps, Lambda):
        """Steps of the columns beside the shortest; None if they are all alike."""
        operator, numbers = self.problem.operator, len(self.problem.x_shape) == 1
        if is_auto(wanted):
            # A number is a bound on the norms of A, and not of A in other units.
            possible = steps == "block" and numbers and isinstance(Lambda, str)
            wanted = possible and "maybe"
        elif check_flag(wanted, "column_steps") and (steps, numbers) != ("block", True):
            raise ValueError(
                "column_steps=True is for columns of numbers and steps='block', got "
                f"steps={steps!r} and {operator.kind}"
            )
        if not wanted or (wanted == "maybe" and not self._uneven_columns()):
            return None
        units = operator.column_units()
        if not units.any():
            return None
        units[units == 0.0] = units.max()
        return units.max() / units

    def _uneven_columns(self):
        """Whether columns are in units that differ, in the directions of the rows too."""
        operator = self.problem.operator
        # The few entries of a rare column say little of its unit.
        counts = operator.column_counts
        told = (counts >= min(COMMON, counts.max())) & (counts > 0)
        for of_directions in (False, True):
            # Heavy rows alone, of which a column may have more, tell no unit.
            units = operator.column_units(of_directions)[told]
            if len(units) == 0 or units.max() <= UNEVEN * units.min():
                return False
        return True

    def _weigh(self, operator, setting, steps, limit):
        """Find how heavy each dual block is, if that matters; whether that is exact."""
        dual, known = setting.dual, True
        self._shares = np.ones(self.problem.shape[0])
        if steps == "block":
            shares, known = row_block_shares(operator, dual, setting.primal, limit)
            self._shares[dual.order] = np.repeat(shares, np.diff(dual.starts))
        return known

    def _start_with(self, setting, seeds, known, threads):
        """Begin a run with blocks that are equally likely."""
        constant, dual, primal = setting.constant, setting.dual, setting.primal
        theorem, adaptive, order = (self.info[k] for k in ("theorem", "adaptive", "order"))
        r, s = dual.inverse_probability, primal.inverse_probability
        first, iterations = self._steps(r, s, constant.value, self.problem.lam, self.problem.gamma)
        covered = constant.is_bound and known
        if covered and order == "random" and not adaptive:
            self.info.update(rate=1.0 / (theorem * iterations))

        def start():
            self._start(
                seeds, dual, primal, self._by_column(first), threads=threads, order=order
            )
            self._set_steps(first)
        start()
        if adaptive or (not covered and constant.kind not in (GIVEN, HEURISTIC)):
            # Practice is made for a usual block, the theorem for the heaviest. Heavy blocks, whose
            # steps are short, take longest, so that they count more.
            self._usual = float(np.sqrt(np.mean(self._shares ** 2))) if adaptive else 1.0
            bound = self._usual * constant.value
            self._curvature = Curvature(self.problem, r, s, bound, follows=adaptive)
            self._certified, self._restart = setting.certified, start
            self._seen = self._loop.point.x.copy(), self._loop.point.y.copy()
            self._units = self._loop.arranged(1.0 / self._column_weights(), self._shares)
            self._adapt()

    def _column_weights(self):
        """Primal steps beside each other."""
        if self._columns is not None:
            return self._columns
        return getattr(self.problem.reg, "weights", np.ones(self.problem.shape[1]))

    def _steps(self, r, s, Lambda, lam, gamma):
        """Steps of these blocks, and the K of their rate 1 - 1/K."""
        n, theorem = self.problem.shape[0], self.info["theorem"]
        values = n, r, s, Lambda, lam, gamma, theorem
        if self.info["steps"] == "block":
            return formulas.dspdc_split(*values)
        return formulas.dspdc(*values), 1.0 / (theorem * formulas.dspdc_rate(*values))

    def _by_column(self, steps):
        return steps if self._columns is None else steps._replace(tau=steps.tau * self._columns)

    def _set_steps(self, steps):
        """Go on with other steps; a dual block that is lighter has a longer one."""
        self._loop.set_steps(self._by_column(steps))
        self._loop.info.update(tau=steps.tau)
        if self.info["steps"] == "block":
            n = self.problem.shape[0]
            self._loop.set_rho(n / (steps.sigma * self._usual) * self._shares)

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
            self._curvature.bound, self._usual = constant.value, 1.0
            self.info.update(Lambda=constant.value, Lambda_kind=constant.kind)
        self._adapt()

    def _movements(self, since):
        """|x - x_seen|^2 and |y - y_seen|^2, which then are x and y.

        A coordinate whose step is longer than those of others counts less.
        """
        point = self._loop.point
        return [
            movement(new.reshape(len(new), -1), old.reshape(len(new), -1), weights)
            for new, old, weights in zip((point.x, point.y), since, self._units, strict=True)
        ]

    def _adapt(self):
        seen = self._curvature
        assumed = seen.Lambda, seen.modulus, seen.dual_modulus
        self._set_steps(self._steps(seen.r, seen.s, *assumed)[0])
        self._tell()
        self._until = seen.period if seen.trusted else sys.maxsize
        self.info.update(
            modulus=seen.modulus, dual_modulus=seen.dual_modulus, Lambda_used=seen.Lambda,
            trusted=seen.trusted,
        )

"""SPDHG: stochastic primal-dual hybrid gradient method.

References
----------
A. Chambolle, M. J. Ehrhardt, P. Richtarik, C.-B. Schoenlieb. Stochastic primal-dual hybrid
gradient algorithm with arbitrary sampling and imaging applications. SIAM J. Optimization 28, 2018
(arXiv:1706.04957).
A. Chambolle, C. Delplancke, M. J. Ehrhardt, C.-B. Schoenlieb, J. Tang. Stochastic primal-dual
hybrid gradient algorithm with adaptive step sizes. J. Math. Imaging and Vision 66, 2024
(arXiv:2301.02511).
"""

import numpy as np

from ..engine.checks import check_flag
from ..state.lazy import Plain
from ..theory import steps as formulas
from ..theory.coupling_constant import ESTIMATED_AND_WATCHED
from .batches import watched_batches
from .loop import LoopMethod

#: The rule of the adaptive steps: how far apart the residuals may be, the first change of the
#: steps, and how changes shrink.
DELTA, ALPHA, ETA = 1.5, 0.5, 0.995

#: Where x or the block of y changed by no more than this part of itself, nothing is compared.
RESTS = 1e-12


class SPDHG(LoopMethod):
    """Stochastic PDHG: a step of all of x, and of one dual block drawn uniformly.

    It is SPDC's recursion but for the extrapolation, which is of A'y and not of x.

    Parameters
    ----------
    m : int or float
        Dual block size; the blocks are those of a random partition.
    adaptive : bool
        False: the authors' steps for the case that both sides are strongly convex, with
        uniform probabilities (section 6) and the margin rho = 0.99 of their experiments.
        True: their steps for any convex problem, theta = 1, which need no modulus, but start
        in the ratio of the moduli. The ratio then follows the residuals, by rule (a) of the
        second paper.
    norms : {"estimated", "certified"}
        Of batches, as for `benchmark_dspdc.methods.saga.SAGA`.

    Notes
    -----
    Iterations to accuracy eps: O((r + r sqrt(|A_I|^2/(n lam gamma))) log(1/eps)), with the
    largest |A_I| of a dual block. ``info["rate"]`` is 1 - theta. By theta an iteration reduces
    the bound on E[(1 - rho^2)(1/tau + 2 lam) |x - x*|^2 + r (1/sigma + 2 gamma/n) |y - y*|^2].

    The authors take the primal step first. From argmin g and y = 0 that one changes nothing, so
    here the dual step is first; from another start theirs would have one primal step more.

    An observation compares v = |dx/tau - r A_I'dy|_1 with d = r |dy_I/sigma_I - A_I dx|_1, for the
    coupling y'Ax with losses phi_i/n, dx and dy the changes in one of the authors' iterations. If
    v > delta s d, tau is divided by 1 - alpha and all sigma are multiplied by it; if v < s d/delta
    the other way round. Then alpha becomes eta alpha. The rule and delta = 1.5 are as CIL, a
    library of tomography, has them; eta = 0.995 and alpha = 0.5 to begin with are as recalled
    from the paper. They observe every iteration or some of them: here
    one of r, but of two at least. That takes the work of an iteration more. A block or
    an x that has not moved, by 1e-12 of itself, says nothing of the balance.

    Their scale s is a user's choice, as recommended |A|. It has not the units of v/d: with it two
    runs of nine reached a gap of 1e-8 in 3000 passes. Here s is sqrt(lam r/(n gamma)), from the
    moduli: all nine took 17 to 741 passes, and 21 to 494 with constant steps (200 x 20, three
    lam, m = 1, n/10 and n, November 2026).
    """

    name = "spdhg"
    family = "primal-dual"

    #: Iterations from one observation to the next; None without.
    _period = None

    def setup(self, seeds, m=1, adaptive=False, norms="estimated"):
        adaptive = check_flag(adaptive, "adaptive")
        n, lam, gamma = self.problem.shape[0], self.problem.lam, self.problem.gamma
        dual, whole, L, info = watched_batches(self, seeds, m, norms, each=adaptive)
        r = dual.inverse_probability
        self.info.update(info, adaptive=adaptive)
        options, norms2 = dict(kind=Plain(), extrapolated="y"), L * gamma * n / r
        if not adaptive:
            steps = formulas.spdhg(n, r, norms2, lam, gamma)
            if info["L_kind"] != ESTIMATED_AND_WATCHED:
                self.info.update(rate=1.0 - steps.theta)
            self._start(seeds, dual, whole, steps, **options)
            return
        tau, sigma, theta = formulas.spdhg_plain(n, r, np.sqrt(norms2), lam, gamma)
        each = np.empty(n)
        each[dual.order] = np.repeat(sigma, np.diff(dual.starts))
        self._steps, self._alpha = formulas.Steps(tau, each, theta), ALPHA
        self._scale = formulas.spdhg_scale(n, r, lam, gamma)
        self._roots = np.sqrt(getattr(self.problem.reg, "weights", np.ones(1))).reshape(
            (-1,) + (1,) * (len(self.problem.x_shape) - 1)
        )
        self._period = max(2, int(r))
        self._start(seeds, dual, whole, self._steps, **options)
        self._tell()

    def _tell(self):
        super()._tell()
        if self._period is not None:
            # That of the heaviest block.
            self.info.update(
                sigma=float(np.min(self._steps.sigma)), alpha=self._alpha, period=self._period
            )

    def _run(self, n_iterations):
        if self._period is None or n_iterations == 0:
            self._loop.advance(n_iterations)
            return
        done = self.iterations
        end = done + n_iterations
        while done < end:
            # The last but one iteration of a period tells dx, the last one dy.
            place = done % self._period
            left = max(self._period - 2 - place, 1)
            if place == self._period - 2:
                before = self._x()
                self._loop.advance(1)
                self._moved = before - self._x()
            elif place == self._period - 1:
                self._observe()
            else:
                left = min(left, end - done)
                self._loop.advance(left)
            done += left

    def _x(self):
        self._loop.settle()
        return self._loop.x

    def _observe(self):
        """Do an iteration, and follow what it tells of the ratio of the steps."""
        loop, rows, work = self._loop, self._loop.coming_rows(), self._counters[0]
        y = loop.y
        loop.advance(1)
        self._counters[0] += self._counters[0] - work
        n, r, roots = self.problem.shape[0], loop.r, self._roots
        # In the authors' form K = A and the dual variable is y/n.
        new = loop.y
        dy = (y - new)[rows] / n
        if _rests(self._moved, loop.x) or _rests(n * dy, new[rows]):
            return
        of_x, of_y = self.problem.operator.products_of_rows(rows, self._moved, dy)
        # Where steps differ, x is in the units in which they do not.
        v = np.abs(self._moved / (roots * self._steps.tau) - r * roots * of_y).sum()
        d = r * np.abs(dy * n ** 2 / self._steps.sigma[rows] - of_x).sum()
        if v > DELTA * self._scale * d:
            self._change(1.0 / (1.0 - self._alpha))
        elif v < self._scale * d / DELTA:
            self._change(1.0 - self._alpha)

    def _change(self, factor):
        tau, sigma, theta = self._steps
        self._steps = formulas.Steps(tau * factor, sigma / factor, theta)
        self._alpha *= ETA
        self._loop.set_steps(self._steps)
        self._tell()

    @property
    def iterations_per_pass(self):
        # An observation takes the work of an iteration.
        share = 0.0 if self._period is None else 1.0 / self._period
        return super().iterations_per_pass / (1.0 + share)


def _rests(change, value):
    return np.linalg.norm(change) <= RESTS * np.linalg.norm(value)

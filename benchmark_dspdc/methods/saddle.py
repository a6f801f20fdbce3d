"""Whole primal and dual steps, and the watch on the estimate of |A| that they are made with."""

import numpy as np

from ..engine.checks import choose
from ..model.gradient import dual_step_gradient
from ..model.regularizers import primal_step
from ..theory.coupling_constant import CAUTION, ESTIMATED_BY_POWER, estimated_norm2, norm2

#: Steps shorter than this beside the point are rounding errors, and say nothing of |A|.
ROUNDING = 1e-11

STEPS = ("watched", "norm")


class WholeSteps:
    """Proximal steps of all coordinates of a side, and what is known of |A|^2.

    Parameters
    ----------
    problem : Problem
    step : {"watched", "norm"}
        |A|^2 estimated from below by two steps of power iteration, taken times `CAUTION`, and
        watched by `strain`; or a certified bound.
    counters : ndarray of shape (3,)
        See `Method`.
    """

    def __init__(self, problem, step, counters):
        choose(step, STEPS, "step")
        self.problem, self.counters, self.watched = problem, counters, step == "watched"
        self.n, self.p = problem.shape
        if self.watched:
            self.norm2, self.kind = CAUTION * estimated_norm2(problem.operator), ESTIMATED_BY_POWER
        else:
            self.norm2, self.kind = norm2(problem.operator)
        weights = getattr(problem.reg, "weights", None)
        self._weights = None if weights is None else weights[:, None, None]

    def primal(self, x, pull, tau):
        """prox of tau g at x - tau pull/n, where pull is A'y."""
        new, buffer = x.copy(), pull.copy()
        self.counters[2] += primal_step(
            self.problem.reg, None, 0, self.p, new, tau, tau / self.n, buffer
        )
        self.counters[1] += self.p
        return new

    def dual(self, xbar, y, sigma):
        """y after its dual step at A xbar, and A'y; one pass."""
        problem, new = self.problem, y.copy()
        pull = dual_step_gradient(
            problem.operator, problem.loss, problem.b, xbar, new, self.n / sigma
        )
        self.counters[0] += problem.operator.multiply_adds
        self.counters[1] += self.n
        return new, pull

    def pull(self, y):
        """A'y, half a pass."""
        self.counters[0] += self.problem.operator.multiply_adds // 2
        return self.problem.operator.rmatvec(y)

    def primal_length2(self, dx):
        """|dx|^2 in the metric of the steps."""
        return float(np.vdot(dx, dx if self._weights is None else dx / self._weights))

    def length2(self, dx, dy, steps):
        """|dx|^2/tau + |dy|^2/sigma."""
        return self.primal_length2(dx) / steps.tau + float(dy @ dy) / steps.sigma

    def too_long(self, dx, dy, dpull, steps, x, y):
        """Whether steps are longer than a move (dx, dy) allows; if so, norm2 is raised.

        PDLP's limit: sqrt(tau sigma) = eta needs 2 <dy, A dx>/n <= |dx|^2/tau + |dy|^2/sigma.
        """
        if not self.watched:
            return False
        length2 = self.length2(dx, dy, steps)
        if length2 <= ROUNDING ** 2 * self.length2(x, y, steps):
            return False
        strain = 2.0 * abs(float(np.vdot(dx, dpull))) / self.n / length2
        if not strain > 1.0:
            return False
        self.norm2 *= CAUTION * strain ** 2
        return True

    def compile(self):
        """Take steps of nothing, so that all is compiled; y and x as they were."""
        x, y = np.zeros(self.problem.x_shape), np.zeros(self.n)
        kept = self.counters.copy()
        self.dual(x, y, 1.0)
        primal_step(self.problem.reg, None, 0, 0, x, 1.0, 1.0, x)
        self.counters[:] = kept

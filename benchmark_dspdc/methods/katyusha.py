"""Katyusha: SVRG accelerated by a momentum that pulls back to the snapshot.

References
----------
Z. Allen-Zhu. Katyusha: the first direct acceleration of stochastic gradient
methods. JMLR 18(221), 2018 (Algorithm 2, option II).
"""

import math

import numpy as np

from ..model.regularizers import into_domain, reg_prox
from ..state.iteration import Difference
from ..state.trackers import Blended, begin_at, points_of, shown_point
from ..theory import steps as formulas
from .batches import watched_batches
from .epochs import EpochMethod, check_step, epoch_length

#: Steps that `Katyusha` tries with step="practice", times the theory's.
TUNED = (1.0, 3.0, 10.0)


class ThreePoints(EpochMethod):
    """A loop that moves z, shows y and takes gradients between these two and the snapshot."""

    def _start_points(self, seeds, dual, whole, tau1, tau2, alpha):
        decay = 1.0 / (1.0 + alpha * self.problem.lam)
        mix = Blended(tau1, tau2, 1.0 - tau1 - tau2, decay)
        steps = formulas.Steps(alpha, float("inf"), 0.0)
        loop = self._start(seeds, dual, whole, steps, kind=mix)
        self._points = points_of(loop.state, mix)
        if self.start is not None:
            self._points.snapshot[:] = self._points.point[:] = self.start.x
        loop.rule = Difference(self.problem.loss, self._points)

    def _renew_points(self):
        """Go on from z and y with the snapshot that the points have."""
        points, mix = self._points, self._points.mix
        np.add(mix.tau2 * points.snapshot, mix.beta * points.point, out=points.hold)
        self._take_snapshot(np.ascontiguousarray(points.snapshot))
        begin_at(self._loop.state, points)

    @property
    def x(self):
        # A combination of feasible points, feasible but for rounding.
        x = shown_point(self._loop.state, self._points, self._loop.steps)
        into_domain(self.problem.reg, x)
        return x


class Katyusha(ThreePoints):
    """Katyusha: SVRG accelerated by a momentum that pulls back to the snapshot.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    epoch : float
        Inner iterations from a snapshot, in units of the number of batches;
        the author uses 2.
    step : {"theory", "practice"} or float
        As if L were that many times smaller; tau1 alpha is step/(3L). The theory is
        1, and the default. In his experiments the author tunes this rate on each data
        set. So does "practice": of `TUNED` it takes the one with the least P(x) after
        an epoch of one pass each, whose work counts.
    norms : {"estimated", "certified"}
        Norms of batches, where exact ones take more than two passes: estimated from a sample of
        rows, and raised if power iteration, a step now and then, finds a larger one; or exact or
        bounded from above, which can take longer than the run. Single rows are exact.

    Notes
    -----
    The point shown is the author's y_k; the snapshots are weighted means of
    it. Iterations to accuracy eps: O((r + sqrt(r L/lam)) log(1/eps)), L the
    largest smoothness of a batch's mean loss.
    """

    name = "katyusha"
    family = "variance reduced"
    requires = (reg_prox,)

    def setup(self, seeds, m=1, epoch=2.0, step="theory", norms="estimated"):
        step = check_step(step, formulas.KATYUSHA | {"practice": "practice"})
        if step == "practice":
            step = self._tuned(seeds, m=m, epoch=epoch, norms=norms)
        dual, whole, L, info = watched_batches(self, seeds, m, norms)
        length = epoch_length(epoch, dual)
        tau1, tau2, alpha = formulas.katyusha(length, L / step, self.problem.lam)
        self._start_points(seeds, dual, whole, tau1, tau2, alpha)
        self._begin_epochs(length)
        decay = self._points.mix.decay
        self._weight = -math.expm1(length * math.log(decay)) / (1.0 - decay)
        self.info.update(info, tau1=tau1, tau2=tau2, alpha=alpha, step=step)

    def _tuned(self, seeds, **options):
        """The step of `TUNED` with which the first pass gains most."""
        found = []
        for step in TUNED:
            trial = Katyusha(
                self.problem, int(seeds.entropy), start=self.start, step=step, **options
            )
            trial.advance(round(trial.info["r"]))
            value = self.problem.primal(trial.x)
            self._counters += trial._counters
            self._counters[0] += self.problem.operator.multiply_adds // 2
            found.append((value if np.isfinite(value) else np.inf, step))
        return min(found)[1]

    def _new_epoch(self, first):
        points = self._points
        self._loop.settle()
        if not first:
            np.divide(points.total, self._weight, out=points.snapshot)
            points.total[:] = 0.0
        self._renew_points()

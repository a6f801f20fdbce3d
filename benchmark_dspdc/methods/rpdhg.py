"""RPDHG: restarted primal-dual hybrid gradient method.

References
----------
H. Lu, J. Yang. Restarted Halpern PDHG for linear programming. arXiv:2407.16144, 2024.

D. Applegate, O. Hinder, H. Lu, M. Lubin. Faster first-order primal-dual methods for linear
programming using restarts and sharpness. Math. Programming 201, 2023 (restarts to averages).

D. Applegate et al. Practical large-scale linear programming using primal-dual hybrid
gradient. NeurIPS 2021 (PDLP: when to restart, the primal weight, the limit on steps).
"""

import math

import numpy as np

from ..engine.checks import check_flag, check_number
from ..engine.threads import single_threaded
from ..theory import steps as formulas
from .method import Method
from .saddle import WholeSteps


class Restarts:
    """When to restart, as PDLP has it: by how far a measure of the error has fallen.

    Parameters
    ----------
    sufficient, necessary : float
        Restart where the measure is below `sufficient` times that at the last restart, or
        below `necessary` times it and has begun to rise.
    artificial : float
        Restart after this share of all iterations in any case.
    """

    def __init__(self, sufficient, necessary, artificial):
        self.sufficient, self.necessary, self.artificial = sufficient, necessary, artificial
        self.first = self.before = None

    def due(self, measure, length, total):
        """Whether to restart after `length` iterations of `total`."""
        if self.first is None:
            self.first = self.before = measure
            return measure == 0.0
        rises, self.before = measure > self.before, measure
        return (
            measure <= self.sufficient * self.first
            or (rises and measure <= self.necessary * self.first)
            or length >= self.artificial * total
        )

    def begin(self, measure=None):
        """A restart; the measure there, if it is known."""
        self.first = self.before = measure


#: Of cuPDLPx, for the fixed-point residual, and of PDLP, for gaps.
HALPERN, AVERAGE = (0.2, 0.8, 0.36), (0.1, 0.9, 0.5)

#: Iterations between looks at the gap, which take two passes.
BETWEEN = 16

#: Lengths below it are zero to PDLP's update of the primal weight.
LEAST = 1e-10


class RPDHG(Method):
    """Restarted primal-dual hybrid gradient method, deterministic.

    Parameters
    ----------
    halpern : bool
        Pull the iterates back to the last restart, z+ = ((k + 1)/(k + 2)) ((1 + rho) T(z)
        - rho z) + z_0/(k + 2), T being a step of PDHG; or restart to averages (False).
    reflection : float
        rho, from 0 to 1; the authors' best is 1. Without `halpern` it is not used.
    restarts : bool
        Whether to restart at all.
    smoothing : float
        How much of the log of the primal weight a restart renews; PDLP's is 0.5.
    step : {"watched", "norm"}
        See `benchmark_dspdc.methods.pdhg.PDHG`.

    Notes
    -----
    T takes tau = n/(|A| omega) and sigma = n omega/|A|. The primal weight omega begins at
    sqrt(n lam/gamma), PDHG's ratio for the known moduli, and follows |dy|/|dx| between
    restarts. The measure that decides on restarts is the residual |z - T(z)| in the norm of the
    method, |dx|^2/tau - 2 <dy, A dx>/n + |dy|^2/sigma; with averages it is the root of the gap,
    which is finite here and takes the place of PDLP's normalised one, at the average or the
    iterate, whichever is better, once in 16 iterations. The point shown is T(z), which is
    feasible where z need not be. An iteration is one pass. The authors' constants are for
    linear programmes, so a run reports no rate.
    """

    name = "rpdhg"
    family = "deterministic"

    def setup(self, seeds, halpern=True, reflection=1.0, restarts=True, smoothing=0.5,
              step="watched"):
        problem, (n, _) = self.problem, self.problem.shape
        self._halpern = check_flag(halpern, "halpern")
        self._reflection = check_number(reflection, "reflection", 0.0, high=1.0)
        self._restarting = check_flag(restarts, "restarts")
        self._smoothing = check_number(smoothing, "smoothing", 0.0, high=1.0)
        self._whole = WholeSteps(problem, step, self._counters)
        x, y = np.zeros(problem.x_shape), np.zeros(n)
        if self.start is not None:
            x, y = (part.copy() for part in self.start)
        pull = self._whole.pull(y) if y.any() else np.zeros(problem.x_shape)
        # z and T(z), each with A'y, of which all combinations are taken alike.
        self._z = self._shown = x, y, pull
        self._omega = math.sqrt(n * problem.lam / problem.gamma)
        self._rule = Restarts(*(HALPERN if self._halpern else AVERAGE))
        self._total = 0
        self.info.update(step=step, halpern=self._halpern, restarts=0, shrunk=0)
        self._anchor = self._z
        self._begin(self._z)

    def _begin(self, z, measure=None):
        """Go on from z, which is the last restart from now on."""
        self._z = self._anchor = z
        self._length, self._sums = 0, None
        self._rule.begin(measure)
        problem, whole = self.problem, self._whole
        self._steps = formulas.pdhg_weighted(problem.shape[0], whole.norm2, self._omega,
                                             problem.lam * problem.gamma)
        self.info.update(
            norm2=whole.norm2, norm2_kind=whole.kind, primal_weight=self._omega,
            tau=self._steps.tau, sigma=self._steps.sigma,
        )

    def _restart(self, z, measure=None):
        dx, dy, _ = (new - old for new, old in zip(z, self._anchor, strict=True))
        of_x, of_y = math.sqrt(self._whole.primal_length2(dx)), float(np.linalg.norm(dy))
        if of_x > LEAST and of_y > LEAST:
            self._omega = math.exp(
                self._smoothing * math.log(of_y / of_x)
                + (1.0 - self._smoothing) * math.log(self._omega)
            )
        self.info["restarts"] += 1
        self._begin(z, measure)

    @single_threaded
    def _run(self, n_iterations):
        if n_iterations == 0:
            self._whole.compile()
        for _ in range(n_iterations):
            self._iteration()

    def _iteration(self):
        whole, steps, (x, y, pull) = self._whole, self._steps, self._z
        new_x = whole.primal(x, pull, steps.tau)
        new_y, new_pull = whole.dual(2.0 * new_x - x, y, steps.sigma)
        self._shown = new_x, new_y, new_pull
        self._total += 1
        dx, dy, dpull = new_x - x, new_y - y, new_pull - pull
        if whole.too_long(dx, dy, dpull, steps, new_x, new_y):
            self.info["shrunk"] += 1
            self._begin(self._shown)
        elif self._halpern:
            coupled = 2.0 * float(np.vdot(dx, dpull)) / whole.n
            residual = math.sqrt(max(whole.length2(dx, dy, steps) - coupled, 0.0))
            self._pull_back(residual)
        else:
            self._average()

    def _pull_back(self, residual):
        k, rho = self._length, self._reflection
        if self._restarting and self._rule.due(residual, k, self._total):
            self._restart(self._shown)
            return
        share = (k + 1.0) / (k + 2.0)
        self._z = tuple(
            share * ((1.0 + rho) * step - rho * at) + (1.0 - share) * anchor
            for step, at, anchor in zip(self._shown, self._z, self._anchor, strict=True)
        )
        self._length += 1

    def _average(self):
        self._z = self._shown
        if self._sums is None:
            self._sums = [np.zeros_like(part) for part in self._z]
        for total, part in zip(self._sums, self._z, strict=True):
            total += part
        self._length += 1
        if not self._restarting or self._total % BETWEEN:
            return
        average = tuple(total / self._length for total in self._sums)
        found = [(self._root_gap(z), z) for z in (average, self._z)]
        measure, best = min(found, key=lambda pair: pair[0])
        if self._rule.due(measure, self._length, self._total):
            self._restart(best, measure)

    def _root_gap(self, z):
        """sqrt(P(x) - D(y)), one pass."""
        problem = self.problem
        self._counters[0] += problem.operator.multiply_adds
        if len(problem.x_shape) > 1:
            self._counters[2] += self._whole.p
        return math.sqrt(max(problem.primal(z[0]) - problem.dual(z[1]), 0.0))

    @property
    def x(self):
        return self._shown[0].copy()

    @property
    def y(self):
        return self._shown[1].copy()

    @property
    def iterations_per_pass(self):
        return 1.0 if self._halpern or not self._restarting else BETWEEN / (BETWEEN + 2.0)

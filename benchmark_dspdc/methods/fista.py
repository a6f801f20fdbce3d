"""FISTA: accelerated proximal gradient method with adaptive restart.

References
----------
A. Beck, M. Teboulle. A fast iterative shrinkage-thresholding algorithm for
linear inverse problems. SIAM J. Imaging Sciences 2, 2009.

B. O'Donoghue, E. Candes. Adaptive restart for accelerated gradient schemes.
Foundations of Computational Mathematics 15, 2015 (the gradient scheme).
"""

import math

import numpy as np

from ..engine.threads import single_threaded
from ..model.regularizers import primal_step, reg_prox
from ..theory.coupling_constant import norm2
from .method import Method


class FISTA(Method):
    """Accelerated proximal gradient method with adaptive restart, deterministic.

    Notes
    -----
    The step is 1/L with L = |A|^2/(n gamma), |A|^2 exact or a certified upper
    bound. The momentum is dropped whenever it points uphill, which makes the
    method linear without knowing lam. An iteration is one pass.
    """

    name = "fista"
    family = "deterministic"
    requires = (reg_prox,)

    def setup(self, seeds):
        n = self.problem.shape[0]
        norm = norm2(self.problem.operator)
        L = max(norm.value, 1e-300) / (n * self.problem.gamma)
        # Beyond 1/lam a longer step only moves rounding errors.
        self._tau = min(1.0 / L, 1e15 / self.problem.lam)
        self._x = np.zeros(self.problem.x_shape) if self.start is None else self.start.x.copy()
        self._point = self._x.copy()
        self._t = 1.0
        # Blocks with steps of their own, tau w_j: gradients are the changes over w_j.
        weights = getattr(self.problem.reg, "weights", None)
        self._weights = None if weights is None else weights[:, None, None]
        self.info.update(tau=self._tau, norm2=norm.value, norm2_kind=norm.kind, restarts=0)

    @single_threaded
    def _run(self, n_iterations):
        problem, (n, p) = self.problem, self.problem.shape
        if n_iterations == 0:
            # Nothing is moved, but what the loop calls is compiled.
            problem.loss_gradient(self._point)
            primal_step(problem.reg, None, 0, 0, self._x, 1.0, 1.0, self._x)
        for _ in range(n_iterations):
            step = problem.loss_gradient(self._point)
            new = self._point.copy()
            self._counters[2] += primal_step(
                problem.reg, None, 0, p, new, self._tau, self._tau / n, step
            )
            # `step` is now the change, new - point.
            moved = new - self._x
            if self._weights is not None:
                step /= self._weights
            if np.vdot(step, moved) < 0.0:
                self._t = 1.0
                self.info["restarts"] += 1
            t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self._t ** 2))
            momentum = (self._t - 1.0) / t
            self._point = new + momentum * moved
            self._x, self._t = new, t
            self._counters[0] += problem.operator.multiply_adds
            self._counters[1] += p

    @property
    def x(self):
        return self._x.copy()

    @property
    def iterations_per_pass(self):
        return 1.0

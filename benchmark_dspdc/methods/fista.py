"""FISTA: accelerated proximal gradient method with adaptive restart.

References
----------
A. Beck, M. Teboulle. A fast iterative shrinkage-thresholding algorithm for
linear inverse problems. SIAM J. Imaging Sciences 2, 2009.

B. O'Donoghue, E. Candes. Adaptive restart for accelerated gradient schemes.
Foundations of Computational Mathematics 15, 2015 (the gradient scheme).

S. Becker, E. Candes, M. Grant. Templates for convex cone problems with applications to
sparse signal recovery. Math. Programming Computation 3, 2011 (the test in floating point).

J.-F. Aujol, L. Calatroni, C. Dossal, H. Labarriere, A. Rondepierre. Parameter-free FISTA by
adaptive restart and backtracking. SIAM J. Optimization 34, 2024 (steps grow at restarts).
"""

import math

import numpy as np

from ..engine.checks import choose
from ..engine.threads import single_threaded
from ..model.losses import derivative_all, loss_excess
from ..model.regularizers import primal_step, reg_prox
from ..theory.coupling_constant import estimated_norm2, norm2
from .method import Method

#: A failed trial makes L at least so many times larger, and a restart so many times smaller.
GROWTH, DECAY = 1.25, 0.9

#: A difference of values below this part of them is rounding; slopes tell L then (TFOCS).
ROUNDING = 1e-10


class FISTA(Method):
    """Accelerated proximal gradient method with adaptive restart, deterministic.

    Parameters
    ----------
    step : {"backtracking", "norm"}
        1/L by Beck and Teboulle's backtracking, which nobody has to compute a norm for; or L =
        |A|^2/(n gamma), |A|^2 exact or a certified upper bound, which can take more than the run.

    Notes
    -----
    The momentum is dropped whenever it points uphill, which makes the method linear without
    knowing lam. An iteration is one pass, and each failed trial half a pass more: the product
    with the point is the combination of two that are known.

    Backtracking begins with L from one step of power iteration, hence from below. A trial fails
    if f(x) > f(y) + <f'(y), x - y> + (L/2)|x - y|^2; L then is what the trial has shown, and at
    least 1.25 times as large. It does not fall until the momentum is dropped, as the theory asks,
    and is 0.9 times as large from there on. ``info["trials"]`` are those that failed.
    """

    name = "fista"
    family = "deterministic"
    requires = (reg_prox,)

    def setup(self, seeds, step="backtracking"):
        choose(step, ("backtracking", "norm"), "step")
        problem, self._backtracks = self.problem, step == "backtracking"
        if self._backtracks:
            norm, kind = estimated_norm2(problem.operator, 1), "backtracking"
        else:
            norm, kind = norm2(problem.operator)
        self._L = max(norm, 1e-300) / (problem.shape[0] * problem.gamma)
        self._x = np.zeros(problem.x_shape) if self.start is None else self.start.x.copy()
        self._point = self._x.copy()
        self._t = 1.0
        if self._backtracks:
            self._z = np.zeros(problem.shape[0])
            if self._x.any():
                self._z = problem.operator.matvec(self._x)
                self._counters[0] += problem.operator.multiply_adds // 2
            self._point_z = self._z
        # Blocks with steps of their own, tau w_j: gradients are the changes over w_j.
        weights = getattr(problem.reg, "weights", None)
        self._weights = None if weights is None else weights[:, None, None]
        self.info.update(
            step=step, tau=self._tau, norm2=norm, norm2_kind=kind, restarts=0, trials=0
        )

    @property
    def _tau(self):
        # Beyond 1/lam a longer step only moves rounding errors.
        return min(1.0 / self._L, 1e15 / self.problem.lam)

    @single_threaded
    def _run(self, n_iterations):
        problem = self.problem
        if n_iterations == 0:
            # Nothing is moved, but what the loop calls is compiled.
            self._gradient()
            if self._backtracks:
                loss_excess(problem.loss, self._z, self._z, problem.b)
            primal_step(problem.reg, None, 0, 0, self._x, 1.0, 1.0, self._x)
        for _ in range(n_iterations):
            gradient = self._gradient()
            new, change = self._trial(gradient)
            while self._backtracks and self._fails(new, change):
                self.info["trials"] += 1
                new, change = self._trial(gradient)
            self._counters[0] += problem.operator.multiply_adds
            moved = new - self._x
            if np.vdot(self._metric(change), moved) < 0.0:
                self._t = 1.0
                self.info["restarts"] += 1
                self._L *= DECAY if self._backtracks else 1.0
            t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self._t ** 2))
            momentum = (self._t - 1.0) / t
            self._point = new + momentum * moved
            if self._backtracks:
                self._point_z = self._new_z + momentum * (self._new_z - self._z)
                self._z = self._new_z
            self._x, self._t = new, t
        self.info.update(tau=self._tau)

    def _gradient(self):
        """A' phi'(A point)."""
        problem = self.problem
        if not self._backtracks:
            return problem.loss_gradient(self._point)
        return problem.operator.rmatvec(derivative_all(problem.loss, self._point_z, problem.b))

    def _trial(self, gradient):
        """The step from the point by 1/L, and the change that it is."""
        problem, (n, p) = self.problem, self.problem.shape
        new, change = self._point.copy(), gradient.copy()
        self._counters[2] += primal_step(
            problem.reg, None, 0, p, new, self._tau, self._tau / n, change
        )
        self._counters[1] += p
        return new, change

    def _metric(self, change):
        return change if self._weights is None else change / self._weights

    def _fails(self, new, change):
        """Whether L is too small for the step; if so, it is larger now. Half a pass if so."""
        problem, n = self.problem, self.problem.shape[0]
        self._new_z = problem.operator.matvec(new)
        excess, slopes, values = loss_excess(problem.loss, self._point_z, self._new_z, problem.b)
        length2 = float(np.vdot(self._metric(change), change))
        if excess > ROUNDING * values:
            seen = 2.0 * excess / n
        else:
            seen = slopes / n
        if seen <= self._L * length2 * (1.0 + 1e-12) or length2 == 0.0:
            return False
        self._L = max(seen / length2, GROWTH * self._L)
        self._counters[0] += problem.operator.multiply_adds // 2
        return True

    @property
    def x(self):
        return self._x.copy()

    @property
    def iterations_per_pass(self):
        return 1.0

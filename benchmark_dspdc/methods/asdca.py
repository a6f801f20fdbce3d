"""ASDCA: SDCA accelerated by a proximal-point loop around it.

References
----------
S. Shalev-Shwartz, T. Zhang. Accelerated proximal stochastic dual coordinate
ascent for regularized loss minimization. Math. Programming 155, 2016 (Figure 1
and its section on the choice of constants).
"""

import numpy as np

from ..theory import steps as formulas
from .dual_ascent import DualAscent, DualAscentMethod
from .method import Start


class ASDCA(DualAscentMethod):
    """Accelerated SDCA: a proximal-point loop with extrapolation around SDCA.

    Parameters
    ----------
    m, scaling, order
        Of the inner method, as for SDCA. The outer constants are the authors', made for
        m = 1.

    Notes
    -----
    The inner problems have g + (kappa/2)|x - c|^2 with kappa = R^2/(gamma n) - lam,
    R the largest row norm, and are solved to a gap that shrinks by 1 - eta/2,
    checked once an epoch, which takes a product A x. Where kappa <= 0 the
    method is SDCA. Iterations to accuracy eps: O((n + sqrt(n kappa')) log^2),
    kappa' = R^2/(lam gamma).
    """

    name = "asdca"

    def setup(self, seeds, m=1, scaling="auto", order="random"):
        problem = self.problem
        n = problem.shape[0]
        R2 = float(problem.operator.row_norms2.max())
        self._kappa, self._eta, self._momentum = formulas.asdca(n, R2, problem.lam, problem.gamma)
        # The centre of the inner problem is in what is kept of A'y.
        inner = problem.augmented(self._kappa)
        self._begin(DualAscent(
            inner, seeds, m, scaling, order, "uniform", self._counters, self._first_y
        ), kappa=self._kappa, eta=self._eta, rounds=0)
        start = self.start or Start(np.zeros(problem.x_shape), np.zeros(n))
        self._centre, self._before = start.x.copy(), start.x
        if self.start is not None:
            self._ascent.shift(self._kappa * self._centre)
        gap = problem.certify(*start).own_gap
        self._bound = (1.0 + 1.0 / self._eta ** 2) * gap
        self._until_check = self._ascent.n_blocks

    def _run(self, n_iterations):
        if self._kappa == 0.0:
            super()._run(n_iterations)
            return
        self._ascent.advance(0)
        while n_iterations > 0:
            count = min(n_iterations, self._until_check)
            self._ascent.advance(count)
            self._until_check -= count
            n_iterations -= count
            if self._until_check == 0:
                self._until_check = self._ascent.n_blocks
                self._check()

    def _check(self):
        """Move the centre if the inner problem is solved well enough."""
        x = self.x
        self._counters[0] += self.problem.operator.multiply_adds // 2
        target = self._eta / (2.0 * (1.0 + 1.0 / self._eta ** 2)) * self._bound
        # x belongs to y in the inner problem.
        if self.problem.gap_at(self._ascent.y, self.problem.operator.matvec(x)) > target:
            return
        centre = x + self._momentum * (x - self._before)
        self._ascent.shift(self._kappa * (centre - self._centre))
        self._centre, self._before = centre, x
        self._bound *= 1.0 - 0.5 * self._eta
        self.info["rounds"] += 1

    @property
    def x(self):
        """The solution of the inner problem for the current y."""
        return self._ascent.x

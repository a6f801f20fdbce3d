"""PDHG: primal-dual hybrid gradient method with both sides strongly convex.

References
----------
A. Chambolle, T. Pock. A first-order primal-dual algorithm for convex problems
with applications to imaging. J. Math. Imaging and Vision 40, 2011 (Algorithm 3).

D. Applegate et al. Practical large-scale linear programming using primal-dual hybrid
gradient. NeurIPS 2021 (the limit on steps that is watched).
"""

import numpy as np

from ..engine.threads import single_threaded
from ..theory import steps as formulas
from .method import Method
from .saddle import WholeSteps

#: Moves with new steps that are all watched, and of the later ones one of so many: watching takes
#: as long as the rest of an iteration on small data.
AT_FIRST, EVERY = 16, 8


class PDHG(Method):
    """Primal-dual hybrid gradient method (Chambolle-Pock), deterministic.

    Parameters
    ----------
    step : {"watched", "norm"}
        Steps by an estimate of |A| that is raised whenever a move shows it to be too small, or
        by a certified bound. The estimate takes two passes; an exact norm can take more than
        the run.

    Notes
    -----
    Steps are twice those of DSPDC with all coordinates. Iterations to accuracy eps:
    O((1 + |A|/sqrt(n lam gamma)) log(1/eps)), a pass each.
    ``info["rate"]`` is that of the authors' Theorem 3, on squared distances; it is missing
    where the norm is estimated. ``info["shrunk"]`` says how often it was raised.
    """

    name = "pdhg"
    family = "deterministic"

    def setup(self, seeds, step="watched"):
        problem = self.problem
        self._whole = WholeSteps(problem, step, self._counters)
        self._x = np.zeros(problem.x_shape) if self.start is None else self.start.x.copy()
        self._y = np.zeros(problem.shape[0]) if self.start is None else self.start.y.copy()
        self._pull = self._whole.pull(self._y) if self._y.any() else np.zeros(problem.x_shape)
        self._moved, self._since = np.zeros(problem.x_shape), 0
        self.info.update(step=step, shrunk=0)
        self._set_steps()
        if step == "norm":
            self.info.update(rate=1.0 - self._steps.theta)

    def _set_steps(self):
        problem, norm = self.problem, self._whole
        self._steps = formulas.pdhg(problem.shape[0], norm.norm2, problem.lam, problem.gamma)
        self.info.update(norm2=norm.norm2, norm2_kind=norm.kind, **self._steps._asdict())

    @single_threaded
    def _run(self, n_iterations):
        whole = self._whole
        if n_iterations == 0:
            whole.compile()
        for _ in range(n_iterations):
            steps = self._steps
            y, pull = whole.dual(self._x + steps.theta * self._moved, self._y, steps.sigma)
            # The y of now meets the x of the move before.
            watched = self._since < AT_FIRST or self._since % EVERY == 0
            too_long = watched and whole.too_long(
                self._moved, y - self._y, pull - self._pull, steps, self._x, y
            )
            self._y, self._pull = y, pull
            x = whole.primal(self._x, pull, steps.tau)
            self._moved = x - self._x
            self._x = x
            self._since += 1
            if too_long:
                self._moved, self._since = np.zeros_like(x), 0
                self.info["shrunk"] += 1
                self._set_steps()

    @property
    def x(self):
        return self._x.copy()

    @property
    def y(self):
        return self._y.copy()

    @property
    def iterations_per_pass(self):
        return 1.0

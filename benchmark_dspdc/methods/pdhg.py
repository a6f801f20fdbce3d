"""PDHG: primal-dual hybrid gradient method with both sides strongly convex.

References
----------
A. Chambolle, T. Pock. A first-order primal-dual algorithm for convex problems
with applications to imaging. J. Math. Imaging and Vision 40, 2011 (Algorithm 3).
"""

from ..engine.sampling import partition
from ..theory import steps as formulas
from ..theory.coupling_constant import norm2
from .loop import LoopMethod


class PDHG(LoopMethod):
    """Primal-dual hybrid gradient method (Chambolle-Pock), deterministic.

    Notes
    -----
    The loop of DSPDC with all coordinates on both sides, and steps twice as
    long. Iterations to accuracy eps: O((1 + |A|/sqrt(n lam gamma)) log(1/eps)).
    ``info["rate"]`` is that of the authors' Theorem 3, on squared distances.
    """

    name = "pdhg"
    family = "deterministic"

    def setup(self, seeds):
        n, p = self.problem.shape
        norm = norm2(self.problem.operator)
        steps = formulas.pdhg(n, norm.value, self.problem.lam, self.problem.gamma)
        self.info.update(norm2=norm.value, norm2_kind=norm.kind, rate=1.0 - steps.theta)
        self._start(seeds, partition(n, n, None), partition(p, p, None), steps)

"""PDHG: primal-dual hybrid gradient method with both sides strongly convex.

References
----------
A. Chambolle, T. Pock. A first-order primal-dual algorithm for convex problems
with applications to imaging. J. Math. Imaging and Vision 40, 2011 (Algorithm 3).
"""

from .. import steps as formulas
from ..constants import norm2
from ..sampling import partition
from .dspdc import DSPDC


class PDHG(DSPDC):
    """Primal-dual hybrid gradient method (Chambolle-Pock), deterministic.

    Notes
    -----
    DSPDC's recursion with all coordinates on both sides, and steps twice as
    long. Iterations to accuracy eps: O((1 + |A|/sqrt(n lam gamma)) log(1/eps)).
    """

    name = "pdhg"

    def setup(self, seeds):
        n, p = self.problem.shape
        norm = norm2(self.problem.operator)
        self.info.update(norm2=norm.value, norm2_kind=norm.kind)
        self._start(
            seeds, partition(n, n, None), partition(p, p, None),
            formulas.pdhg(n, norm.value, self.problem.lam, self.problem.gamma),
        )

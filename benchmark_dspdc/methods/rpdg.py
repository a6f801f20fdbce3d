"""RPDG: randomised primal-dual gradient method.

References
----------
G. Lan, Y. Zhou. An optimal randomized incremental gradient method.
Math. Programming 171, 2018 (arXiv:1507.02000).
"""

import numpy as np

from ..engine.checks import choose
from ..engine.sampling import weighted
from ..model.regularizers import reg_prox
from ..state.iteration import Averaged
from ..theory import steps as formulas
from .batches import watched_batches
from .loop import LoopMethod


class RPDG(LoopMethod):
    """RPDG: randomised primal-dual gradient method.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    sampling : {"authors", "uniform"}
        Batches drawn half uniformly and half by their smoothness, or uniformly.
    norms : {"estimated", "certified"}
        Norms of batches, where exact ones take more than two passes: estimated from a sample of
        rows, and raised if power iteration, a step now and then, finds a larger one; or exact or
        bounded from above, which can take longer than the run. Single rows are exact.

    Notes
    -----
    Each loss keeps a point z_i that follows the product with the extrapolated
    x; its derivative there is the dual variable. Iterations to accuracy eps:
    O((r + sqrt(r C)) log(1/eps)), C = 8 sum_k L_k/lam with L_k the smoothness
    of the k-th batch's share of the mean loss.
    """

    name = "rpdg"
    family = "primal-dual"
    requires = (reg_prox,)

    def setup(self, seeds, m=1, sampling="authors", norms="estimated"):
        choose(sampling, ("authors", "uniform"), "sampling")
        uniform = sampling == "uniform"
        dual, whole, L, info = watched_batches(
            self, seeds, m, norms, each=not uniform
        )
        r, lam = dual.inverse_probability, self.problem.lam
        shares = np.full(int(r), L) / r if uniform else L / r
        tau, eta, alpha = formulas.rpdg(r, shares, lam, uniform)
        if not uniform:
            dual = weighted(dual, 0.5 / r + 0.5 * _normalised(shares))
        self.info.update(info, sampling=sampling)
        loop = self._start(seeds, dual, whole, formulas.Steps(1.0 / eta, float("inf"), alpha))
        points = np.zeros(self.problem.shape[0])
        if self.start is not None:
            x = self.start.x
            _, points[:] = loop.arranged(x, self.problem.operator.matvec(x))
        loop.rule = Averaged(self.problem.loss, points, tau)
        loop.begin_at(loop.point.x)


def _normalised(values):
    total = values.sum()
    return values / total if total > 0.0 else np.full(len(values), 1.0 / len(values))

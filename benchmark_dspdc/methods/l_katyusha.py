"""L-Katyusha: Katyusha without the outer loop.

References
----------
D. Kovalev, S. Horvath, P. Richtarik. Don't jump through hoops and remove those
loops: SVRG and Katyusha are better without the outer loop. ALT 2020 (Algorithm 2).

X. Qian, Z. Qu, P. Richtarik. L-SVRG and L-Katyusha with arbitrary sampling.
JMLR 22(112), 2021 (with a proximal step).
"""

from ..model.regularizers import reg_prox
from ..theory import steps as formulas
from .batches import watched_batches
from .epochs import Loopless
from .katyusha import ThreePoints


class LKatyusha(Loopless, ThreePoints):
    """L-Katyusha: Katyusha whose snapshot is renewed by the toss of a coin.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    probability : "auto" or float
        With which an iteration renews the snapshot, by the y from before its
        step; "auto" is 1/r, r being the number of batches, as the authors have it.
    norms : {"estimated", "certified"}
        Of batches, as for `benchmark_dspdc.methods.saga.SAGA`.

    Notes
    -----
    The point shown is the authors' y_k, which is also the next snapshot. The
    iterations between snapshots are Katyusha's, with its constants for epochs of
    2/p. The authors have all strong convexity in the losses; here it is in g,
    sigma_f = 0, and the step of z is proximal. Their proof goes through with F
    for f. Iterations to accuracy eps: O((1/p + sqrt(L/(p lam))) log(1/eps)), L the
    largest smoothness of a batch's mean loss. An iteration costs one of Katyusha,
    and p passes for snapshots.
    """

    name = "l_katyusha"
    family = "variance reduced"
    requires = (reg_prox,)

    def setup(self, seeds, m=1, probability="auto", norms="estimated"):
        dual, whole, L, info = watched_batches(self, seeds, m, norms)
        probability = self._begin_coins(seeds, probability, dual.inverse_probability)
        theta1, theta2, step = formulas.l_katyusha(probability, L, self.problem.lam)
        # The kernels are Katyusha's: they add up its weighted total too, which nobody reads.
        self._start_points(seeds, dual, whole, theta1, theta2, step)
        self.info.update(info, theta1=theta1, theta2=theta2)

    def _point(self):
        return self._points.point

    def _new_epoch(self, first):
        self._loop.settle()
        if not first:
            self._points.snapshot[:] = self._next
        self._renew_points()

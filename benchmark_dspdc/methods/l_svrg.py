"""L-SVRG: SVRG without the outer loop.

References
----------
D. Kovalev, S. Horvath, P. Richtarik. Don't jump through hoops and remove those
loops: SVRG and Katyusha are better without the outer loop. ALT 2020 (Algorithm 1).

X. Qian, Z. Qu, P. Richtarik. L-SVRG and L-Katyusha with arbitrary sampling.
JMLR 22(112), 2021 (with a proximal step).
"""

from ..model.regularizers import reg_prox
from ..state.iteration import Difference
from ..state.trackers import Nothing
from ..theory import steps as formulas
from .batches import watched_batches
from .epochs import Loopless, check_step


class LSVRG(Loopless):
    """L-SVRG: SVRG whose snapshot is renewed by the toss of a coin.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    step : "theory" or float
        In units of 1/L; the theory has 1/6, the most that Theorem 5 allows.
    probability : "auto" or float
        With which an iteration renews the snapshot, by the x from before its
        step; "auto" is 1/r, r being the number of batches, as the authors have it.
    norms : {"estimated", "certified"}
        Of batches, as for `benchmark_dspdc.methods.saga.SAGA`.

    Notes
    -----
    Iterations to accuracy eps: O((1/p + L/lam) log(1/eps)), L the largest
    smoothness of a batch's mean loss, p the probability. An iteration costs one
    of SVRG, and p passes for snapshots. Kovalev et al. have no g. With all strong
    convexity in g and proximal steps their bound holds for lam <= 3L, and beyond
    with (1 + lam/(6L))^2 times the distance in it: a step divides by that factor.
    """

    name = "l_svrg"
    family = "variance reduced"
    requires = (reg_prox,)

    def setup(self, seeds, m=1, step="theory", probability="auto", norms="estimated"):
        step = check_step(step, formulas.L_SVRG)
        dual, whole, L, info = watched_batches(self, seeds, m, norms)
        self._begin_coins(seeds, probability, dual.inverse_probability)
        steps = formulas.Steps(step / max(L, 1e-300), float("inf"), 0.0)
        loop = self._start(seeds, dual, whole, steps, kind=Nothing.kind)
        loop.rule = Difference(self.problem.loss, Nothing())
        self.info.update(info, step=step)

    def _point(self):
        return self._loop.point.x

    def _new_epoch(self, first):
        self._loop.settle()
        self._take_snapshot(self._loop.point.x if first else self._next)

"""Prox-SVRG: stochastic gradients with the variance of a snapshot taken out.

References
----------
L. Xiao, T. Zhang. A proximal stochastic gradient method with progressive
variance reduction. SIAM J. Optimization 24, 2014.
"""

from ..engine.checks import check_number, choose
from ..model.regularizers import reg_prox
from ..state.iteration import Difference
from ..state.trackers import Mean, Nothing, total_of
from ..theory import steps as formulas
from .batches import watched_batches
from .epochs import EpochMethod, epoch_length


class SVRG(EpochMethod):
    """Prox-SVRG: stochastic gradients with the variance of a snapshot taken out.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    step : float
        In units of 1/L; the authors use 0.1, and their theorem needs less than 1/4.
    epoch : float
        Inner iterations from a snapshot, in units of the number of batches;
        the authors use 2. Their theorem is about 100 L/(lam r) of them.
    snapshot : {"average", "last"}
        The next snapshot is the mean of the inner iterates, as the theorem
        has it, or the last of them.
    norms : {"estimated", "certified"}
        Norms of batches, where exact ones take more than two passes: estimated from a sample of
        rows, and raised if power iteration, a step now and then, finds a larger one; or exact or
        bounded from above, which can take longer than the run. Single rows are exact.

    Notes
    -----
    Iterations to accuracy eps: O((r + L/lam) log(1/eps)), L the largest
    smoothness of a batch's mean loss.
    """

    name = "svrg"
    family = "variance reduced"
    requires = (reg_prox,)

    def setup(self, seeds, m=1, step=0.1, epoch=2.0, snapshot="average", norms="estimated"):
        check_number(step, "step", 0.0, strict=True)
        choose(snapshot, ("average", "last"), "snapshot")
        averages = snapshot == "average"
        dual, whole, L, info = watched_batches(self, seeds, m, norms)
        length = epoch_length(epoch, dual)
        steps = formulas.Steps(step / max(L, 1e-300), float("inf"), 0.0)
        loop = self._start(
            seeds, dual, whole, steps, kind=Mean.kind if averages else Nothing.kind
        )
        self._tracker = Mean(total_of(loop.state)) if averages else Nothing()
        loop.rule = Difference(self.problem.loss, self._tracker)
        self._begin_epochs(length)
        self.info.update(info, step=step, snapshot=snapshot)

    def _new_epoch(self, first):
        self._loop.settle()
        x = self._loop.point.x
        if self.info["snapshot"] == "average" and not first:
            x[:] = self._tracker.total / self._length
            self._tracker.total[:] = 0.0
        self._take_snapshot(x)

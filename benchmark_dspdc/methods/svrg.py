"""Prox-SVRG: stochastic gradients with the variance of a snapshot taken out.

References
----------
L. Xiao, T. Zhang. A proximal stochastic gradient method with progressive
variance reduction. SIAM J. Optimization 24, 2014.
"""

from ..engine.checks import choose, is_auto
from ..model.regularizers import reg_prox
from ..state.iteration import Difference
from ..state.trackers import Mean, Nothing, total_of
from ..theory import steps as formulas
from .batches import watched_batches
from .epochs import LONGEST_EPOCH, EpochMethod, check_step, epoch_length


class SVRG(EpochMethod):
    """Prox-SVRG: stochastic gradients with the variance of a snapshot taken out.

    Parameters
    ----------
    m : int or float
        Batch size; batches are the blocks of a random partition, each taken as
        one of the functions that the theory sums.
    step : {"practice", "theory"} or float
        In units of 1/L. The authors' experiments (section 4) have 0.1 and epochs of
        2, which do best there: the default. Their theory (Theorem 3.1) needs less
        than 1/4; their example is 0.1 too, with epochs of 100 L/(lam r).
    epoch : "auto" or float
        Inner iterations from a snapshot, in units of the number r of batches;
        "auto" is 2, or what the theory has if the step is its own.
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

    def setup(self, seeds, m=1, step="practice", epoch="auto", snapshot="average",
              norms="estimated"):
        size = check_step(step, formulas.SVRG)
        dual, whole, L, info = watched_batches(self, seeds, m, norms)
        if is_auto(epoch):
            epoch = formulas.SVRG_EPOCH
            if step == "theory":
                epoch = formulas.svrg_epoch(dual.inverse_probability, L, self.problem.lam)
                epoch = min(max(epoch, 1e-300), 0.5 * LONGEST_EPOCH)
        length = epoch_length(epoch, dual)
        self._start_epochs(seeds, dual, whole, size / max(L, 1e-300), length, snapshot)
        self.info.update(info, step=size)

    def _start_epochs(self, seeds, dual, primal, tau, length, snapshot):
        """Begin a loop whose snapshots are the mean of an epoch's iterates or the last of them."""
        averages = choose(snapshot, ("average", "last"), "snapshot") == "average"
        steps = formulas.Steps(tau, float("inf"), 0.0)
        loop = self._start(
            seeds, dual, primal, steps, kind=Mean.kind if averages else Nothing.kind
        )
        self._tracker = Mean(total_of(loop.state)) if averages else Nothing()
        loop.rule = Difference(self.problem.loss, self._tracker)
        self._begin_epochs(length)
        self.info.update(snapshot=snapshot)

    def _new_epoch(self, first):
        self._loop.settle()
        x = self._loop.point.x
        if self.info["snapshot"] == "average" and not first:
            x[:] = self._tracker.total / self._length
            self._tracker.total[:] = 0.0
        self._take_snapshot(x)

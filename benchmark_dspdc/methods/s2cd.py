"""S2CD: SVRG whose inner steps move one block of columns.

References
----------
J. Konecny, Z. Qu, P. Richtarik. Semi-stochastic coordinate descent. Optimization Methods and
Software 32, 2017 (arXiv:1412.6293).
T. Zhao, M. Yu, Y. Wang, R. Arora, H. Liu. Accelerated mini-batch randomized block coordinate
descent method. NIPS 2014 (MRBCD: with blocks, batches and a proximal step).
"""

import numpy as np

from ..engine.checks import check_number
from ..engine.sampling import block_size, partition
from ..model.regularizers import reg_prox
from .batches import watched_batches
from .epochs import LONGEST_EPOCH, epoch_length
from .svrg import SVRG


class S2CD(SVRG):
    """Semi-stochastic coordinate descent, in its proximal form with blocks (MRBCD).

    An inner step takes SVRG's estimate of the gradient from a batch of m rows, and
    moves a block of q columns by it. Batch and block are drawn independently and uniformly.

    Parameters
    ----------
    m : int or float
        Rows of a batch; batches are the blocks of a random partition.
    q : int or float
        Columns of a block, from a partition as well; on matrices, matrices. The default, a
        tenth, is ours: S2CD's authors have single columns.
    step : float
        In units of 1/L, L the largest smoothness of a batch's mean loss. 1/16 is MRBCD's, as
        recalled from its theorem; the bound below needs less than 1/4.
    epoch : float
        Inner steps from a snapshot, in units of r s, the pairs of blocks. 2 is ours: a
        coordinate then moves as often as in SVRG's default. MRBCD's theorem has 65 s L/lam.
    snapshot : {"average", "last"}
        The next snapshot is the mean of the inner iterates, as MRBCD has it, or the last of
        them (S2CD, after a random number of steps).
    norms : {"estimated", "certified"}
        Of batches, as for `benchmark_dspdc.methods.saga.SAGA`.

    Notes
    -----
    Iterations to accuracy eps: O(s (L/lam) log(1/eps)), and O(log(1/eps)) snapshots. S2CD's
    authors count partial derivatives; for a linear model each takes a whole product <a_i, x>.
    So an iteration costs as much as DSPDC's with these blocks, and with q < p pays where the
    proximal step is dear, as on matrices. The probabilities of S2CD by column are left out:
    they need a smooth regulariser.

    With a step of h/L and M inner steps an epoch multiplies E[P(x) - P*] by at most
    (s L/(lam h M) + (s - 1)/M + 4 h (M + 1)/M)/(1 - 4h), which is Xiao & Zhang's for s = 1 and
    about 2/3 for MRBCD's constants. It is derived as theirs, with the usual bound of
    coordinate descent on the block's step.
    """

    name = "s2cd"
    family = "variance reduced"
    requires = (reg_prox,)

    def setup(self, seeds, m=1, q=0.1, step=0.0625, epoch=2.0, snapshot="average",
              norms="estimated"):
        check_number(step, "step", 0.0, strict=True)
        check_number(epoch, "epoch", 0.0, strict=True, high=LONGEST_EPOCH)
        dual, _, L, info = watched_batches(self, seeds, m, norms)
        p = self.problem.shape[1]
        rng = np.random.default_rng(seeds.spawn(1)[0])
        primal = partition(p, block_size(q, p, "q"), rng)
        length = epoch_length(min(epoch * primal.inverse_probability, LONGEST_EPOCH), dual)
        self._start_epochs(seeds, dual, primal, step / max(L, 1e-300), length, snapshot)
        self.info.update(info, step=step)

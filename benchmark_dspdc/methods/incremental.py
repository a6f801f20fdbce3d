"""What the incremental gradient methods share: batches, smoothness, the table of derivatives."""

import numpy as np

from ..engine.sampling import Partition, block_size, partition
from ..model.losses import derivative_all
from ..theory.coupling_constant import row_blocks_norm2
from .dspdc import DSPDC


class IncrementalGradient(DSPDC):
    """A method that moves all of x along rows of A: DSPDC's kernel with q = p."""

    chooses = ()

    def _batches(self, seeds, m, each=False):
        """A partition of the rows, and the smoothness of a batch's mean loss.

        The mean over batches of F_k(x) = (r/n) sum over the batch of
        phi_i(a_i'x) is the mean loss, and F_k is L_k-smooth with
        L_k = (r/n) |A_I|^2/gamma. The largest of them is returned, or each.
        """
        n = self.problem.shape[0]
        dual = partition(n, block_size(m, n, "m"), np.random.default_rng(seeds.spawn(1)[0]))
        norms2, kind = row_blocks_norm2(self.problem.operator, dual, each)
        L = dual.inverse_probability * norms2 / (n * self.problem.gamma)
        self.info.update(L=float(np.max(L)), L_kind=kind)
        return dual, L

    def _whole(self):
        p = self.problem.shape[1]
        return Partition(np.array([0, p]), np.arange(p))

    def _in_order(self, values):
        """Values of rows as the kernel has them."""
        return values if self._y_order is None else values[self._y_order]

    def _gradients(self, x):
        """phi_i'(<a_i, x>) in the kernel's order."""
        z = self._in_order(self.problem.operator.matvec(x))
        return derivative_all(self.problem.loss, z, self._b)

    def _load(self):
        """Make what is kept agree with x and y; with `_gradients` that is one pass."""
        self._coupling.load(self.problem.operator, self._x, self._y)
        self._counters[0] += self.problem.operator.multiply_adds

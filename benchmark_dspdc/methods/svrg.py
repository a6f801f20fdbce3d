"""Prox-SVRG: stochastic gradients with the variance of a snapshot taken out.

References
----------
L. Xiao, T. Zhang. A proximal stochastic gradient method with progressive
variance reduction. SIAM J. Optimization 24, 2014.
"""

import numpy as np

from ..engine.checks import check_number, choose
from ..engine.dispatch import generic
from ..engine.kernel_cache import njit
from ..engine.sampling import draw
from ..engine.threads import single_threaded
from ..model.dual_rules import Difference
from ..state.lazy import LazyRows, Plain, Summed, lazy_primal_half, settle
from ..state.primal_dual import (
    FactorCoupling,
    RowCoupling,
    announce,
    expect,
    forget,
    iteration_cost,
    turn,
)
from ..state.primal_dual_matrices import BlockRows
from ..state.scaled import ROWS_OF_ALL, LinearRows, linear_primal_half
from ..theory import steps as formulas
from .dspdc import Block, dual_half, primal_half
from .incremental import IncrementalGradient


@generic
def snapshot_half(coupling, reg, rows, columns, x, c, dx):
    """`primal_half` of an iteration that leaves y as it was."""


for _kind in (RowCoupling, FactorCoupling, BlockRows):
    snapshot_half.register(_kind)(
        lambda coupling, reg, rows, columns, x, c, dx: primal_half(
            coupling, reg, rows, columns, x, c, dx
        )
    )


@snapshot_half.register(LazyRows)
def _(coupling, reg, rows, columns, x, c, dx):
    lazy_primal_half(coupling, reg, rows.order, rows.lo, rows.hi, c, False, dx)
    return 0


@snapshot_half.register(LinearRows)
def _(coupling, reg, rows, columns, x, c, dx):
    linear_primal_half(coupling, reg, rows.order, rows.lo, rows.hi, c, False, dx)
    return 0


@generic
def add_up(coupling, x, total):
    """total += x, if there is a total."""


def _add_numbers(coupling, x, total):
    for j in range(total.shape[0]):
        total[j] += x[j]


add_up.register(RowCoupling)(_add_numbers)
add_up.register(FactorCoupling)(_add_numbers)


@add_up.register(LinearRows)
@add_up.register(LazyRows)
def _(coupling, x, total):
    pass                                     # done where x moves


@add_up.register(BlockRows)
def _(coupling, x, total):
    if len(total):
        total += x


@njit
def iterate(coupling, rule, reg, b, x, y, base, total, dual, c, state, ahead, counters, dy, dx,
            n_iterations):
    """Inner iterations from a snapshot, whose dual point y is; `base` is what is kept of A'y."""
    p = x.shape[0]
    columns = Block(None, 0, p)
    for _ in range(n_iterations):
        lo, hi = draw(dual, state, ahead)
        announce(coupling, dual.order, ahead[0], ahead[1])
        expect(coupling, None, 0, p)
        rows = Block(dual.order, lo, hi)
        dual_half(coupling, rule, reg, rows, b, x, y, c, dy)
        turn(coupling, c.boost, None, 0, p, x)
        counters[2] += snapshot_half(coupling, reg, rows, columns, x, c, dx)
        forget(coupling, base, dual.order, lo, hi)
        add_up(coupling, x, total)
        counters[0] += iteration_cost(coupling, dual.order, lo, hi, None, 0, p)
        counters[1] += p


#: In units of the number of batches, so that 64 bits can count an epoch's iterations.
LONGEST_EPOCH = 1e9


class SVRG(IncrementalGradient):
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

    Notes
    -----
    Iterations to accuracy eps: O((r + L/lam) log(1/eps)), L the largest
    smoothness of a batch's mean loss.
    """

    name = "svrg"

    def setup(self, seeds, m=1, step=0.1, epoch=2.0, snapshot="average"):
        check_number(step, "step", 0.0, strict=True)
        choose(snapshot, ("average", "last"), "snapshot")
        dual, L = self._batches(seeds, m)
        length = self._epoch_length(epoch, dual)
        self._start(
            seeds, dual, self._whole(),
            formulas.Steps(step / max(L, 1e-300), float("inf"), 0.0),
            Summed() if snapshot == "average" else Plain(),
        )
        self._rule = Difference(self.problem.loss)
        self._total = np.zeros(self.problem.x_shape if snapshot == "average" else 0)
        if isinstance(self._coupling, ROWS_OF_ALL) and snapshot == "average":
            self._total = self._coupling.total
        self._begin_epochs(length, iterate)
        self.info.update(step=step, snapshot=snapshot)

    def _epoch_length(self, epoch, dual):
        """Iterations of an epoch."""
        epoch = check_number(epoch, "epoch", 0.0, strict=True, high=LONGEST_EPOCH)
        return max(1, round(epoch * dual.inverse_probability))

    def _begin_epochs(self, length, kernel):
        self._length = self._inner = length
        compiled = isinstance(self._coupling, tuple)
        self._kernel = kernel if compiled else single_threaded(kernel.py_func)
        self._base = self._kept_product().copy()
        self.info.update(epoch=length)

    def _kept_product(self):
        """The product with y that the coupling keeps."""
        if isinstance(self._coupling, FactorCoupling):
            return self._coupling.u
        # Lazily it is not changed, so there is nothing to restore.
        return np.zeros(0) if isinstance(self._coupling, ROWS_OF_ALL) else self._coupling.w

    def _settle(self):
        if isinstance(self._coupling, ROWS_OF_ALL):
            settle(self._coupling, self.problem.reg, self._constants)

    def _new_epoch(self, first):
        self._settle()
        if len(self._total) and not first:
            self._x[:] = self._total / self._length
            self._total[:] = 0.0
        self._take_snapshot(self._x)

    def _take_snapshot(self, x):
        """y = phi'(A x), and what is kept for it and for the kernel's x."""
        self._y[:] = self._gradients(x)
        self._load()
        self._base[:] = self._kept_product()
        self._inner = 0

    def _run(self, n_iterations):
        self._inner_iterations(0)
        if self.iterations == 0:
            self._settle()
        self._in_epochs(
            n_iterations, lambda done: self._new_epoch(first=self.iterations + done == 0)
        )

    def _inner_iterations(self, count):
        self._kernel(
            self._coupling, self._rule, self.problem.reg, self._b, self._x, self._y, self._base,
            self._total, self._dual, self._constants, self._generator, self._memory[0],
            self._counters, self._dy, self._dx, count,
        )

    @property
    def y(self):
        return None

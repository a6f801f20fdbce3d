"""Batches of rows for incremental gradient methods, and how smooth their losses are."""

import numpy as np

from ..engine.sampling import Partition, block_size, partition
from ..theory.coupling_constant import (
    CAUTION,
    ESTIMATED_AND_WATCHED,
    ascent_step,
    quick_norms2,
    row_blocks_norm2,
    whole,
)


class Watch:
    """Power iteration on the heaviest block, a step a look, against norms that are estimated.

    Attributes
    ----------
    next : int
        The iteration to look at.
    factor : float
        What norms are to be raised by where one was found to be too small.
    """

    def __init__(self, operator, dual, primal, largest):
        self.operator, self.dual, self.primal = operator, dual, primal
        self.largest, self.factor = largest, 1.0
        signs = np.random.default_rng(0).random(dual.starts[-1]) < 0.5
        self._y = np.where(signs, -1.0, 1.0)

    def holds(self):
        """Whether no block is known to have a larger norm than the largest that is assumed."""
        y = ascent_step(self.operator, self.dual, self.primal, self._y)
        value = float(y @ y)
        if value == 0.0:
            return True
        self._y = y / np.sqrt(value)
        self.factor = CAUTION * value / max(self.largest, 1e-300)
        return value <= self.largest


def batches(problem, seeds, m, each=False):
    """Batches of m rows, as the blocks of a random partition.

    The mean over the r batches of F_k(x) = (r/n) sum over the batch of
    phi_i(a_i'x) is the mean loss, and F_k is L_k-smooth with
    L_k = (r/n) |A_I|^2/gamma.

    Returns
    -------
    dual, primal : Partition
        The batches, and all columns as one block.
    L : float or ndarray
        The largest L_k, or each of them.
    info : dict
        For users.
    """
    dual = row_partition(problem, seeds, m)
    norms2, kind = row_blocks_norm2(problem.operator, dual, each)
    return smoothness(problem, dual, norms2, kind)


def watched_batches(method, seeds, m, norms, each=False, problem=None):
    """`batches` for a method, of its problem or another, by `watched_norms2`."""
    problem = problem or method.problem
    if norms == "certified":
        return batches(problem, seeds, m, each)
    dual = row_partition(problem, seeds, m)
    norms2, kind = watched_norms2(method, dual, operator=problem.operator)
    return smoothness(problem, dual, norms2 if each else float(norms2.max()), kind)


def watched_norms2(method, dual, norms="estimated", operator=None):
    """|A_I|^2 of blocks of rows, estimated where exact ones take long, and what is known of them.

    The method then has a `Watch`; with ``norms="certified"`` they are exact or upper bounds.
    The operator is that of the method's problem, or the same with other weights of columns.
    """
    operator = operator or method.problem.operator
    if norms == "certified":
        return row_blocks_norm2(operator, dual, each=True)
    columns = whole(operator.shape[1])
    norms2, kind = quick_norms2(operator, dual, columns, True, method._raised)
    if kind == ESTIMATED_AND_WATCHED:
        method._watch = Watch(operator, dual, columns, float(norms2.max()))
    return norms2, kind


def row_partition(problem, seeds, m):
    """The batches."""
    n = problem.shape[0]
    return partition(n, block_size(m, n, "m"), np.random.default_rng(seeds.spawn(1)[0]))


def smoothness(problem, dual, norms2, kind):
    """What `batches` returns, for these norms."""
    n, p = problem.shape
    L = dual.inverse_probability * norms2 / (n * problem.gamma)
    primal = Partition(np.array([0, p]), np.arange(p))
    return dual, primal, L, dict(L=float(np.max(L)), L_kind=kind)

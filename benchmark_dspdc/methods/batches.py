"""Batches of rows for incremental gradient methods, and how smooth their losses are."""

import numpy as np

from ..engine.sampling import Partition, block_size, partition
from ..theory.coupling_constant import row_blocks_norm2


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
    n, p = problem.shape
    dual = partition(n, block_size(m, n, "m"), np.random.default_rng(seeds.spawn(1)[0]))
    norms2, kind = row_blocks_norm2(problem.operator, dual, each)
    L = dual.inverse_probability * norms2 / (n * problem.gamma)
    whole = Partition(np.array([0, p]), np.arange(p))
    return dual, whole, L, dict(L=float(np.max(L)), L_kind=kind)

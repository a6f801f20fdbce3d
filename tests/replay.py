"""The random blocks that a run will draw, for the transcriptions to use the same."""

import numpy as np

from benchmark_dspdc.engine.sampling import Partition, draw, generator, partition, weighted
from benchmark_dspdc.methods.dspdc import _restored
from benchmark_dspdc.methods.sdca import QUEUE, Epochs, fill_queue, next_block


def drawn_blocks(algorithm, n_iterations, seed):
    """The index sets that a fresh DSPDC with this seed will use."""
    seeds = np.random.SeedSequence(seed)
    dual, primal = algorithm._samplers(seeds, algorithm.m_, algorithm.q_, algorithm.sampling_)
    state = generator(seeds.generate_state(1)[0])
    ahead = np.full((2, 2), -1)
    blocks = []
    for _ in range(n_iterations):
        lo, hi = draw(dual, state, ahead[0])
        first, last = draw(primal, state, ahead[1])
        blocks.append((dual.order[lo:hi].copy(), primal.order[first:last].copy()))
    return blocks


class Arranged:
    """An operator that takes and gives vectors in the order in which a kernel keeps them."""

    def __init__(self, algorithm):
        self.operator = algorithm.problem.operator
        self.x_order, self.y_order = algorithm._x_order, algorithm._y_order
        self.rmatvec_packed = self.operator.rmatvec_packed      # matrices stay where they are

    def matvec(self, x):
        return _arranged(self.operator.matvec(_restored(x, self.x_order)), self.y_order)

    def rmatvec(self, y):
        return _arranged(self.operator.rmatvec(_restored(y, self.y_order)), self.x_order)


def _arranged(values, order):
    return values if order is None else values[order]


def start_from(algorithm, x, y):
    """Put a fresh DSPDC at a starting point other than zero."""
    coupling, operator = algorithm._coupling, Arranged(algorithm)
    algorithm._x[:] = _arranged(x, algorithm._x_order)
    algorithm._y[:] = _arranged(y, algorithm._y_order)
    if hasattr(coupling, "load"):
        coupling.load(operator, algorithm._x, algorithm._y)
    else:
        # Columns are walked.
        coupling.ybar[:], coupling.z[:] = algorithm._y, operator.matvec(algorithm._x)


def drawn_batches(algorithm, n_iterations, seed, probabilities=None):
    """The index sets that a fresh SDCA with this seed will use.

    `probabilities` are those of the batches, where they are not all alike.
    """
    seeds = np.random.SeedSequence(seed)
    state = generator(seeds.generate_state(1)[0])
    n_blocks = int(algorithm.info["r"])
    memory = np.zeros(QUEUE + 2, dtype=np.int64)
    batches = Epochs(np.arange(n_blocks), algorithm.info["order"] == "permuted")
    if probabilities is not None:
        batches = weighted(Partition(algorithm._starts, None), probabilities)
    fill_queue(batches, memory, state)
    queue = list(memory[:QUEUE])
    n = algorithm.problem.shape[0]
    order = np.arange(n) if algorithm._order is None else algorithm._order
    starts = algorithm._starts
    while len(queue) < n_iterations:
        queue.append(next_block(batches, memory, state))
    return [order[starts[k]:starts[k + 1]] for k in queue[:n_iterations]]


def drawn_parts(total, size, n_iterations, seed, probabilities_of=None):
    """The blocks of the partition that a method with this seed makes, and which it draws.

    `probabilities_of` gives those of the blocks, where they are not all alike.
    """
    seeds = np.random.SeedSequence(seed)
    sampler = partition(total, size, np.random.default_rng(seeds.spawn(1)[0]))
    blocks = sampler.blocks
    if probabilities_of is not None:
        sampler = weighted(sampler, probabilities_of(blocks))
    state = generator(seeds.generate_state(1)[0])
    ahead = np.full(2, -1)
    starts = [draw(sampler, state, ahead)[0] for _ in range(n_iterations)]
    return blocks, list(np.searchsorted(sampler.starts, starts))

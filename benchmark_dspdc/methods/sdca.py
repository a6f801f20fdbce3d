"""SDCA: stochastic dual coordinate ascent, proximal form.

References
----------
S. Shalev-Shwartz, T. Zhang. Stochastic dual coordinate ascent methods for
regularized loss minimization. JMLR 14, 2013.

S. Shalev-Shwartz, T. Zhang. Accelerated proximal stochastic dual coordinate
ascent for regularized loss minimization. Math. Programming 155, 2016 (the
proximal form).

M. Takac, A. Bijral, P. Richtarik, N. Srebro. Mini-batch primal and dual
methods for SVMs. ICML 2013 (mini-batches).

P. Zhao, T. Zhang. Stochastic optimization with importance sampling for
regularized loss minimization. ICML 2015 (probabilities).
"""

from typing import NamedTuple

import numpy as np

from ..engine.checks import choose
from ..engine.dispatch import generic
from ..engine.kernel_cache import njit
from ..engine.sampling import (
    Partition,
    Weighted,
    below,
    block_size,
    generator,
    partition,
    shuffle_head,
    weighted,
    weighted_block,
)
from ..engine.threads import single_threaded
from ..model.dual_rules import Ascent, dual_step
from ..state import dual_cost, dual_state
from ..state.dual import announce, batch_cost, fetch, primal_products, push, refresh
from ..theory import steps as formulas
from ..theory.coupling_constant import normalised_norms2, sampled_norm2
from ..theory.importance import check_order
from .method import Algorithm

#: Batches are drawn this many iterations before they are used.
QUEUE = 16


class Epochs(NamedTuple):
    """Batches that are equally likely: drawn freely, or each once an epoch in a random order."""

    visits: np.ndarray
    permuted: bool


@generic
def next_block(batches, memory, state):
    """The batch after the last one."""


@next_block.register(Epochs)
def _(batches, memory, state):
    n_blocks = batches.visits.shape[0]
    if not batches.permuted:
        return below(state, n_blocks)
    done = memory[QUEUE]
    if done == n_blocks:
        done = 0
    if done == 0:
        shuffle_head(batches.visits, n_blocks, state)
    memory[QUEUE] = done + 1
    return batches.visits[done]


@next_block.register(Weighted)
def _(batches, memory, state):
    return weighted_block(batches, state)


@njit
def fill_queue(batches, memory, state):
    """Draw the first batches."""
    for k in range(QUEUE):
        memory[k] = next_block(batches, memory, state)


@njit
def iterate(kept, rule, reg, b, y, starts, order, batches, memory, distance, state, counters,
            buffer, n_iterations):
    """Dual ascent on one batch an iteration.

    ``memory`` is a ring of the batches drawn ahead, then how many of the
    current epoch's have been drawn, then the ring's head. What a batch needs
    is fetched in two stages, as finding a sparse row takes a look-up itself:
    where it is, when drawn, and the row `distance` iterations before its use.
    """
    head = memory[QUEUE + 1]
    for _ in range(n_iterations):
        block = memory[head]
        memory[head] = next_block(batches, memory, state)
        announce(kept, order, starts[memory[head]])
        soon = memory[(head + distance) % QUEUE]
        fetch(kept, order, starts[soon], starts[soon + 1], b, y, rule.rho)
        head = (head + 1) % QUEUE
        lo, hi = starts[block], starts[block + 1]
        primal_products(kept, reg, order, lo, hi, buffer)
        cost = batch_cost(kept, order, lo, hi)
        if dual_step(rule, order, lo, hi, b, y, buffer):
            counters[2] += push(kept, reg, order, lo, hi, buffer)
            counters[0] += cost
        else:
            counters[0] += cost // 2
        counters[1] += hi - lo
    memory[QUEUE + 1] = head


@njit
def start(kept, reg):
    """Make what is kept agree with w."""
    return refresh(kept, reg)


SCALINGS = ("tight", "safe", "sampled")


class SDCA(Algorithm):
    """Stochastic dual coordinate ascent.

    Parameters
    ----------
    m : int or float
        Batch size, as a count or a fraction of n. Batches are the blocks of a
        random partition, fixed for the run.
    scaling : {"tight", "safe", "sampled"}
        How much a batch is held back: by the norm of its normalised Gram
        matrix, by m, which is always enough, or by an estimate of that norm
        from samples of 1000 rows. The estimate is cheap where batches are
        large and, though it tends to be too large, not certain to be enough.
        All the same for m = 1.
    order : {"random", "permuted"}
        Batches drawn independently, as the theory has it, or each once an
        epoch in a random order, which takes about half the epochs in
        practice.
    probabilities : {"uniform", "importance"}
        All batches equally likely, or by their norms, p_i ~ 1 + |a_i|^2/(lam gamma n)
        for m = 1; only with order="random".

    Notes
    -----
    Iterations to accuracy eps for m = 1: O((n + kappa) log(1/eps)),
    kappa = max_i |a_i|^2/(lam gamma), with importance the mean of them.
    The primal point is x = grad g*(-A'y/n).
    """

    name = "sdca"

    @classmethod
    def validate(cls, problem, **options):
        super().validate(problem, **options)
        check_order(options.get("probabilities", "uniform"), options.get("order", "random"))

    def setup(self, seeds, m=1, scaling="tight", order="random", probabilities="uniform"):
        choose(scaling, SCALINGS, "scaling")
        choose(order, ("random", "permuted"), "order")
        check_order(probabilities, order)
        operator = self.problem.operator
        n = self.problem.shape[0]
        m = block_size(m, n, "m")
        rng = np.random.default_rng(seeds.spawn(1)[0])
        blocks = partition(n, m, rng)
        if blocks.largest == 1:
            blocks = Partition(blocks.starts, np.arange(n))
        n_blocks = len(blocks.starts) - 1
        self._starts = blocks.starts
        # Single rows in their own order need no indirection.
        self._order = None if blocks.largest == 1 else blocks.order
        if scaling == "tight" and blocks.largest > 1:
            scales = normalised_norms2(operator, blocks)
        elif scaling == "sampled" and blocks.largest > 1:
            scales = np.full(n_blocks, sampled_norm2(operator, blocks.largest, rng))
        else:
            scales = np.diff(blocks.starts).astype(np.float64)
        per_row = np.empty(n)
        per_row[blocks.order] = np.repeat(scales, np.diff(blocks.starts))
        rho = formulas.sdca(n, operator.row_norms2, per_row, self.problem.lam)
        self._rule = Ascent(self.problem.loss, rho)
        self._y = np.zeros(n)
        self._kept = dual_state(operator, self._y)
        compiled = isinstance(self._kept, tuple)
        # Where blocks are matrices the same loops run in Python.
        self._iterate = iterate if compiled else single_threaded(iterate.py_func)
        self._renew = start if compiled else start.py_func
        self._counters[2] += self._refresh()
        self._batches = Epochs(np.arange(n_blocks), order == "permuted")
        if probabilities == "importance":
            largest = np.maximum.reduceat(rho[blocks.order], blocks.starts[:-1])
            shares, iterations = formulas.sdca_importance(largest, self.problem.gamma)
            self._batches = weighted(blocks, shares)
            self.info.update(iterations_per_nat=iterations)
        self._memory = np.zeros(QUEUE + 2, dtype=np.int64)
        self._generator = generator(seeds.generate_state(1)[0])
        fill_queue(self._batches, self._memory, self._generator)
        # About 16 kB ahead: enough to hide the memory, little enough to stay in the cache.
        row = operator.multiply_adds / (2 * n)
        self._distance = int(np.clip(2000 / (row * blocks.largest), 1, QUEUE // 2))
        self._buffer = np.empty(blocks.largest)
        self.info.update(
            m=blocks.largest, r=float(n_blocks), scaling=scaling, order=order,
            probabilities=probabilities, scale=float(scales.max()),
        )

    def _refresh(self):
        """Make what is kept agree with w; returns the number of eigendecompositions."""
        return self._renew(self._kept, self.problem.reg)

    def _run(self, n_iterations):
        self._iterate(
            self._kept, self._rule, self.problem.reg, self.problem.b, self._y,
            self._starts, self._order, self._batches, self._memory, self._distance,
            self._generator, self._counters, self._buffer, n_iterations,
        )

    @property
    def x(self):
        return self.problem.primal_from_dual(self._y)

    @property
    def y(self):
        return self._y.copy()

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        return operator.multiply_adds / dual_cost(operator, self.info["r"])

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
"""

import numpy as np

from .. import steps as formulas
from ..checks import choose
from ..constants import normalised_norms2
from ..jit import njit
from ..operators.dual import announce, batch_cost, fetch, primal_products, push, refresh
from ..rules import Ascent, dual_step
from ..sampling import below, block_size, generator, partition, shuffle_head
from ..threads import single_threaded
from .base import Algorithm

#: Batches are drawn this many iterations before they are used.
QUEUE = 16


@njit(inline=True, cache=True)
def next_block(visits, memory, permuted, n_blocks, state):
    """The batch after the last one: a free draw, or the next of a permuted epoch."""
    if not permuted:
        return below(state, n_blocks)
    done = memory[QUEUE]
    if done == n_blocks:
        done = 0
    if done == 0:
        shuffle_head(visits, n_blocks, state)
    memory[QUEUE] = done + 1
    return visits[done]


@njit
def fill_queue(visits, memory, permuted, n_blocks, state):
    """Draw the first batches."""
    for k in range(QUEUE):
        memory[k] = next_block(visits, memory, permuted, n_blocks, state)


@njit
def iterate(kept, rule, reg, b, y, starts, order, visits, memory, permuted, distance, state,
            counters, buffer, n_iterations):
    """Dual ascent on one batch an iteration.

    ``memory`` is a ring of the batches drawn ahead, then how many of the
    current epoch's have been drawn, then the ring's head. What a batch needs
    is fetched in two stages, as finding a sparse row takes a look-up itself:
    where it is, when drawn, and the row `distance` iterations before its use.
    """
    n_blocks = starts.shape[0] - 1
    head = memory[QUEUE + 1]
    for _ in range(n_iterations):
        block = memory[head]
        memory[head] = next_block(visits, memory, permuted, n_blocks, state)
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


class SDCA(Algorithm):
    """Stochastic dual coordinate ascent.

    Parameters
    ----------
    m : int or float
        Batch size, as a count or a fraction of n. Batches are the blocks of a
        random partition, fixed for the run.
    scaling : {"tight", "safe"}
        How much a batch is held back: by the norm of its normalised Gram
        matrix, or by m, which is always enough. The same for m = 1.
    order : {"random", "permuted"}
        Batches drawn independently, as the theory has it, or each once an
        epoch in a random order, which takes about half the epochs in
        practice.

    Notes
    -----
    Iterations to accuracy eps for m = 1: O((n + kappa) log(1/eps)),
    kappa = max_i |a_i|^2/(lam gamma). The primal point is x = grad g*(-A'y/n).
    """

    name = "sdca"

    def setup(self, seeds, m=1, scaling="tight", order="random"):
        choose(scaling, ("tight", "safe"), "scaling")
        choose(order, ("random", "permuted"), "order")
        operator = self.problem.operator
        n = self.problem.shape[0]
        m = block_size(m, n, "m")
        rng = np.random.default_rng(seeds.spawn(1)[0])
        blocks = partition(n, m, rng)
        n_blocks = len(blocks.starts) - 1
        self._starts = blocks.starts
        # Single rows in their own order need no indirection.
        self._order = None if blocks.largest == 1 else blocks.order
        if scaling == "tight" and blocks.largest > 1:
            scales = normalised_norms2(operator, blocks)
        else:
            scales = np.diff(blocks.starts).astype(np.float64)
        per_row = np.empty(n)
        per_row[blocks.order] = np.repeat(scales, np.diff(blocks.starts))
        rho = formulas.sdca(n, operator.row_norms2, per_row, self.problem.lam)
        self._rule = Ascent(self.problem.loss, rho)
        self._y = np.zeros(n)
        self._kept = operator.kept_dual(self._y)
        compiled = isinstance(self._kept, tuple)
        # Where blocks are matrices the same loops run in Python.
        self._iterate = iterate if compiled else single_threaded(iterate.py_func)
        self._renew = start if compiled else start.py_func
        self._counters[2] += self._refresh()
        self._permuted = order == "permuted"
        self._visits = np.arange(n_blocks)
        self._memory = np.zeros(QUEUE + 2, dtype=np.int64)
        self._generator = generator(seeds.generate_state(1)[0])
        fill_queue(self._visits, self._memory, self._permuted, n_blocks, self._generator)
        # About 16 kB ahead: enough to hide the memory, little enough to stay in the cache.
        row = operator.multiply_adds / (2 * n)
        self._distance = int(np.clip(2000 / (row * blocks.largest), 1, QUEUE // 2))
        self._buffer = np.empty(blocks.largest)
        self.info.update(
            m=blocks.largest, r=float(n_blocks), scaling=scaling, order=order,
            scale=float(scales.max()),
        )

    def _refresh(self):
        """Make what is kept agree with w; returns the number of eigendecompositions."""
        return self._renew(self._kept, self.problem.reg)

    def _run(self, n_iterations):
        self._iterate(
            self._kept, self._rule, self.problem.reg, self.problem.b, self._y,
            self._starts, self._order, self._visits, self._memory, self._permuted,
            self._distance, self._generator, self._counters, self._buffer, n_iterations,
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
        return operator.multiply_adds / operator.kept_dual_cost(self.info["r"])

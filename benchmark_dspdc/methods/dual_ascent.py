"""The loop of dual coordinate ascent, for SDCA, for methods around it, and for PURE-CD."""

from typing import NamedTuple

import numpy as np

from ..engine.checks import choose
from ..engine.dispatch import generic, runner
from ..engine.kernel_cache import njit
from ..engine.sampling import (
    Partition,
    Weighted,
    any_block,
    below,
    block_size,
    generator,
    partition,
    shuffle_head,
    weighted,
)
from ..engine.symmetric import pack
from ..model.losses import conjugate_sum, dual_prox
from ..model.regularizers import conjugate_point
from ..state import dual_cost, dual_state
from ..state.dual import (
    announce_batch,
    batch_cost,
    conjugate_at,
    fetch_batch,
    primal_moves,
    primal_products,
    push,
    refresh,
    rest,
)
from ..state.gram_ascent import prepare_block
from ..state.iteration import Ascent, dual_step
from ..theory import steps as formulas
from ..theory.coupling_constant import SCALINGS, batch_scales
from .method import Method

#: Batches are drawn this many iterations before they are used.
QUEUE = 16

#: Epochs between two looks at D(y), at most; the first ones are 1, 2, 4, ... epochs apart.
APART = 16

#: What D(y) may lose to rounding, beside the size of its terms.
ROUNDING = 1e-12


class Batches(NamedTuple):
    """Which batches there are, and which come next.

    Attributes
    ----------
    starts, order : ndarray
        Of a partition of the rows; order None is the identity.
    choice : Epochs or Weighted
        How batches are chosen.
    memory : ndarray
        A ring of the batches drawn ahead, then how many of the current epoch's have been
        drawn, then the ring's head.
    distance : int
        How many iterations before its use a row is fetched.
    random : ndarray
        State of the generator.
    """

    starts: np.ndarray
    order: object
    choice: object
    memory: np.ndarray
    distance: int
    random: np.ndarray


class Epochs(NamedTuple):
    """Batches that are equally likely: drawn freely, or each once an epoch in a random order."""

    visits: np.ndarray
    permuted: bool


@generic
def next_block(choice, memory, random):
    """The batch after the last one."""


@next_block.register(Epochs)
def next_of_epoch(choice, memory, random):
    n_blocks = choice.visits.shape[0]
    if not choice.permuted:
        return below(random, n_blocks)
    done = memory[QUEUE]
    if done == n_blocks:
        done = 0
    if done == 0:
        shuffle_head(choice.visits, n_blocks, random)
    memory[QUEUE] = done + 1
    return choice.visits[done]


class InTurn(NamedTuple):
    """One batch after the other, for rules that change what rows they have."""

    n_blocks: int


@next_block.register(InTurn)
def next_in_turn(choice, memory, random):
    block = memory[QUEUE]
    memory[QUEUE] = (block + 1) % choice.n_blocks
    return block


@next_block.register(Weighted)
def next_by_weight(choice, memory, random):
    return any_block(choice, random)


@njit
def fill_queue(batches):
    """Draw the first batches."""
    for k in range(QUEUE):
        batches.memory[k] = next_block(batches.choice, batches.memory, batches.random)


@njit
def iterate(state, rule, batches, counters, n_iterations):
    """Dual ascent on one batch an iteration.

    What a batch needs is fetched in two stages, as finding a sparse row takes a look-up
    itself: where it is, when drawn, and the row `distance` iterations before its use.
    """
    starts, order, memory = batches.starts, batches.order, batches.memory
    point = state.point
    head = memory[QUEUE + 1]
    for _ in range(n_iterations):
        block = memory[head]
        memory[head] = next_block(batches.choice, memory, batches.random)
        announce_batch(state, order, starts[memory[head]])
        soon = memory[(head + batches.distance) % QUEUE]
        fetch_batch(state, order, starts[soon], starts[soon + 1], rule.rho)
        head = (head + 1) % QUEUE
        lo, hi = starts[block], starts[block + 1]
        prepare_block(rule, state, order, lo, hi)
        counters[2] += primal_products(state, order, lo, hi)
        cost = batch_cost(state, order, lo, hi)
        if dual_step(rule, order, lo, hi, point.b, point.y, point.buffer):
            counters[2] += push(state, order, lo, hi)
            counters[0] += cost
        else:
            rest(state, order, lo, hi)
            counters[0] += cost // 2
        counters[1] += hi - lo + primal_moves(state, order, lo, hi)
    memory[QUEUE + 1] = head


class BatchLoop:
    """A run of the loop on a state, with the batches of a partition.

    Parameters
    ----------
    problem : Problem
    seeds : numpy.random.SeedSequence
    state : NamedTuple, or an object where the blocks of x are matrices
    rule : NamedTuple
        See `benchmark_dspdc.state.iteration`.
    blocks : Partition
        See `dual_blocks`.
    choice : Epochs or Weighted
    counters : ndarray of shape (3,)
        Multiply-adds, coordinate updates and eigendecompositions are added to it.

    Attributes
    ----------
    y : ndarray
    """

    def __init__(self, problem, seeds, state, rule, blocks, choice, counters):
        self.problem, self.counters = problem, counters
        self.state, self.rule, self.y = state, rule, state.point.y
        self.n_blocks = len(blocks.starts) - 1
        self._iterate = runner(iterate, state)
        # About 16 kB ahead: enough to hide the memory, little enough to stay in the cache.
        row = problem.operator.multiply_adds / (2 * problem.shape[0])
        self.batches = Batches(
            # Single rows in their own order need no indirection.
            blocks.starts, None if blocks.largest == 1 else blocks.order, choice,
            np.zeros(QUEUE + 2, dtype=np.int64),
            int(np.clip(2000 / (row * blocks.largest), 1, QUEUE // 2)),
            generator(seeds.generate_state(1)[0]),
        )
        fill_queue(self.batches)

    def advance(self, n_iterations):
        self._iterate(self.state, self.rule, self.batches, self.counters, n_iterations)

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        return operator.multiply_adds / dual_cost(operator, self.n_blocks)


def dual_blocks(n, m, rng):
    """A random partition of the rows into blocks of m; single rows are in their own order."""
    blocks = partition(n, block_size(m, n, "m"), rng)
    return Partition(blocks.starts, np.arange(n)) if blocks.largest == 1 else blocks


class DualAscent(BatchLoop):
    """A run of dual ascent on a problem, from y = 0 or a start on.

    Parameters
    ----------
    problem : Problem
    seeds : numpy.random.SeedSequence
    m, scaling, order, probabilities
        As for `benchmark_dspdc.methods.sdca.SDCA`.
    counters : ndarray of shape (3,)
        Multiply-adds, coordinate updates and eigendecompositions are added to it.
    start : ndarray or None
        The y to begin at.
    make_rule : callable or None
        Given the partition and rho, the rule by which y changes; None for `Ascent`.
    in_turn : bool
        Whether the batches come in turn, as the rule draws their rows; `order` is then its own.

    Attributes
    ----------
    state : NamedTuple, or an object where the blocks of x are matrices
    y : ndarray
    info : dict

    Notes
    -----
    With scales that are enough D(y) never falls. Where they are estimates it is looked at
    after 1, 2, 4, ... epochs; after a fall the run goes back to the last look, with scales
    twice as large.
    """

    def __init__(self, problem, seeds, m, scaling, order, probabilities, counters, start=None,
                 make_rule=None, in_turn=False):
        choose(scaling, SCALINGS, "scaling")
        choose(order, ("random", "permuted"), "order")
        operator, n = problem.operator, problem.shape[0]
        rng = np.random.default_rng(seeds.spawn(1)[0])
        blocks = dual_blocks(n, m, rng)
        n_blocks, sizes = len(blocks.starts) - 1, np.diff(blocks.starts)
        if make_rule is None:
            scales, scaling = batch_scales(operator, blocks, scaling, rng)
        else:
            scales = np.ones(n_blocks)
        self._per_row, self._most = np.empty((2, n))
        self._per_row[blocks.order] = np.repeat(scales, sizes)
        self._most[blocks.order] = np.repeat(sizes, sizes)
        rho = formulas.sdca(n, operator.row_norms2, self._per_row, problem.lam)
        rule = Ascent(problem.loss, rho) if make_rule is None else make_rule(blocks, rho)
        state = dual_state(problem, blocks.largest, fixed=not in_turn)
        if start is not None:
            state.point.y[:] = start
            state.w[:] = operator.rmatvec_packed(start) / -n
            counters[0] += operator.multiply_adds // 2
        self.info = dict(
            m=blocks.largest, r=float(n_blocks), scaling=scaling, order=order,
            probabilities=probabilities, scale=float(scales.max()),
        )
        self._uncertain = scaling == "sampled" and bool(np.any(self._per_row < self._most))
        choice = InTurn(n_blocks) if in_turn else Epochs(np.arange(n_blocks), order == "permuted")
        if probabilities == "importance":
            largest = np.maximum.reduceat(rho[blocks.order], blocks.starts[:-1])
            shares, iterations = formulas.sdca_importance(largest, problem.gamma)
            choice = weighted(blocks, shares)
            self.info.update(iterations_per_nat=iterations)
        super().__init__(problem, seeds, state, rule, blocks, choice, counters)
        self.refresh()

    def refresh(self):
        """Make what is kept agree with w."""
        self.counters[2] += refresh(self.state)
        self._look_from_here()

    def advance(self, n_iterations):
        while True:
            count = min(n_iterations, self._until_look) if self._uncertain else n_iterations
            super().advance(count)
            n_iterations -= count
            self._until_look -= count
            if self._uncertain and self._until_look == 0:
                self._look()
            if n_iterations == 0:
                return

    def _look_from_here(self):
        """Begin to look at D(y) anew."""
        self._epochs = 1
        self._until_look = self.n_blocks
        if self._uncertain:
            self._seen = self._value()[0], self.y.copy(), self.state.w.copy()

    def _value(self):
        """D(y) and the size of its terms, from what is kept of A'y."""
        problem, w = self.problem, self.state.w
        self.counters[0] += len(self.y) + w.size
        of_g = conjugate_at(self.state)
        of_losses = conjugate_sum(problem.loss, self.y, problem.b) / len(self.y)
        return -of_g - of_losses, abs(of_g) + abs(of_losses)

    def _look(self):
        """Go on if D(y) has not fallen, else back, with scales twice as large."""
        value, size = self._value()
        if value >= self._seen[0] - ROUNDING * size:
            self._epochs = min(2 * self._epochs, APART)
            self._until_look = self._epochs * self.n_blocks
            self._seen = max(value, self._seen[0]), self.y.copy(), self.state.w.copy()
            return
        raised = np.minimum(2.0 * self._per_row, self._most)
        self.rule.rho[:] *= raised / self._per_row
        self._per_row = raised
        self._uncertain = bool(np.any(raised < self._most))
        self.info["scale"] = float(raised.max())
        _, self.y[:], self.state.w[:] = self._seen
        self.refresh()

    def shift(self, change):
        """w += change in what is kept: the centre of a proximal-point method around it moves."""
        self.state.w[:] += change if change.ndim == 1 else pack(change)
        self.refresh()

    @property
    def x(self):
        """The primal point of what is kept, shifts included."""
        x = np.empty(self.problem.x_shape)
        conjugate_point(self.problem.reg, self.state.w, x)
        return x


class DualAscentMethod(Method):
    """A method that is this loop, made by `setup` as `_ascent`, or one around it."""

    family = "dual coordinate"
    moves_x = False
    requires = (dual_prox,)
    _ascent = None

    def _begin(self, ascent, **more):
        self._ascent = ascent
        self.info.update(ascent.info, **more)
        # What the loop learns on the way is shown too.
        ascent.info = self.info

    @property
    def _first_y(self):
        return None if self.start is None else self.start.y

    def _run(self, n_iterations):
        self._ascent.advance(n_iterations)

    @property
    def y(self):
        return self._ascent.y.copy()

    @property
    def iterations_per_pass(self):
        return self._ascent.iterations_per_pass

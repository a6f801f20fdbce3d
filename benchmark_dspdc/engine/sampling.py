"""Random blocks: a seeded generator for kernels, partitions and subsets.

Two ways to draw the coordinates of an iteration, both giving every
coordinate the same probability, which is what the convergence proof needs.

`Partition` (default)
    A random permutation is cut once into blocks of nearly equal size, fixed
    for the run; an iteration draws one block, uniformly over the blocks and
    with replacement. Only the pairs of blocks that can occur matter for the
    step sizes, so their constant Lambda is computable and smaller than the
    maximum over all subsets; the work is one draw and contiguous loops.
`Subset`
    A fresh uniform subset of given size each time, as the paper's text says.

`Permuted` visits the blocks of a partition once an epoch: practice, no proof covers it.
`Weighted` and `Stepped` draw the blocks of a partition with probabilities that
differ, for methods whose steps are made for that.

For the theory r (or s) is the inverse of that probability: the number of
blocks of a partition, n/m for subsets.
"""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from .dispatch import generic
from .kernel_cache import njit

#: How many blocks ahead are drawn where that changes no sequence: what they need can then be
#: fetched in stages.
FAR = 8


class Partition(NamedTuple):
    """Blocks ``order[starts[k]:starts[k + 1]]``; order None is the identity."""

    starts: np.ndarray
    order: np.ndarray

    @property
    def inverse_probability(self):
        return float(len(self.starts) - 1)

    @property
    def largest(self):
        return int(np.diff(self.starts).max())

    def block(self, k):
        """The indices of one block."""
        return self.order[self.starts[k]:self.starts[k + 1]]

    @property
    def blocks(self):
        """The index arrays of all blocks."""
        return [self.block(k) for k in range(len(self.starts) - 1)]


class Weighted(NamedTuple):
    """Blocks of a partition, drawn with given probabilities by an `alias_table`.

    `boosts` has one over the probability of the block that begins at a position.
    """

    starts: np.ndarray
    order: np.ndarray
    odds: np.ndarray
    boosts: np.ndarray

    inverse_probability = Partition.inverse_probability
    largest = Partition.largest
    block = Partition.block
    blocks = Partition.blocks


class Stepped(NamedTuple):
    """As `Weighted`, for primal blocks that have a step and an extrapolation of their own.

    `taus` and `momenta` have tau and 1 + theta of the block that begins at a position.
    """

    starts: np.ndarray
    order: np.ndarray
    odds: np.ndarray
    boosts: np.ndarray
    taus: np.ndarray
    momenta: np.ndarray

    inverse_probability = Partition.inverse_probability
    largest = Partition.largest
    block = Partition.block
    blocks = Partition.blocks


class Permuted(NamedTuple):
    """Blocks of a partition, each once an epoch, in an order that is drawn anew for each.

    `visits` has that order, and behind it how many of its blocks have been drawn.
    """

    starts: np.ndarray
    order: np.ndarray
    visits: np.ndarray


class Subset(NamedTuple):
    """A uniform subset of `size` coordinates; `order` is shuffled in place."""

    order: np.ndarray
    size: int

    @property
    def inverse_probability(self):
        return len(self.order) / self.size

    @property
    def largest(self):
        return self.size


def block_size(value, total, name):
    """A number of coordinates from a count (int) or a fraction (float)."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        if 1 <= value <= total:
            return int(value)
    elif isinstance(value, Real) and 0.0 < value <= 1.0 and not isinstance(value, bool):
        return max(1, round(float(value) * total))
    raise ValueError(
        f"{name} must be an integer from 1 to {total} or a fraction in (0, 1], got {value!r}"
    )


def partition(total, size, rng):
    """Cut a random permutation into ceil(total/size) blocks of balanced size."""
    n_blocks = -(-total // size)
    starts = (np.arange(n_blocks + 1, dtype=np.int64) * total) // n_blocks
    order = np.arange(total) if n_blocks == 1 else rng.permutation(total)
    return Partition(starts, order.astype(np.int64))


def subset(total, size):
    """Uniform subsets of `size` out of `total` coordinates."""
    return Subset(np.arange(total, dtype=np.int64), size)


def weighted(blocks, probabilities):
    """The blocks of a partition with these probabilities, which sum to one."""
    odds, boosts = alias_table(probabilities, 1.0), _at_starts(blocks, 1.0 / probabilities)
    return Weighted(blocks.starts, blocks.order, odds, boosts)


def permuted(blocks):
    """The blocks of a partition, each once an epoch."""
    return Permuted(blocks.starts, blocks.order, np.append(np.arange(len(blocks.starts) - 1), 0))


def stepped(blocks, probabilities, taus, thetas):
    """`weighted`, with the steps and the extrapolations of each block."""
    each = _at_starts(blocks, taus), _at_starts(blocks, 1.0 + thetas)
    return Stepped(*weighted(blocks, probabilities), *each)


def _at_starts(blocks, values):
    """Values of blocks, each at the position where the block begins."""
    out = np.zeros(blocks.starts[-1])
    out[blocks.starts[:-1]] = values
    return out


@njit(allocates=True)
def alias_table(weights, total):
    """Odds of Walker's alias method, for probabilities of weights/total.

    Of a uniformly drawn k, take it with probability odds[k, 0], else odds[k, 1].
    """
    count = weights.shape[0]
    odds = np.empty((count, 2))
    # Small ones are stacked from the left, large ones from the right.
    stack = np.empty(count, np.uint32)
    small = 0
    large = count
    for k in range(count):
        odds[k, 0] = weights[k] * (count / total)
        odds[k, 1] = k
        if odds[k, 0] < 1.0:
            stack[small] = k
            small += 1
        else:
            large -= 1
            stack[large] = k
    while small > 0 and large < count:
        small -= 1
        k = stack[small]
        other = stack[large]
        odds[k, 1] = other
        odds[other, 0] -= 1.0 - odds[k, 0]
        if odds[other, 0] < 1.0:
            large += 1
            stack[small] = other
            small += 1
    # What is left is 1 but for rounding; a weight of zero stays one whatever the rounding.
    for k in range(small):
        if weights[stack[k]] > 0.0:
            odds[stack[k], 0] = 1.0
        else:
            odds[stack[k], 1] = np.argmax(weights)
    for k in range(large, count):
        odds[stack[k], 0] = 1.0
    return odds


def generator(seed):
    """State of a kernel's own generator (xoshiro256+), from an integer seed."""
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


@njit(inline=True)
def uniform(state):
    """A double in [0, 1) with 53 random bits (xoshiro256+, Blackman & Vigna 2018)."""
    result = state[0] + state[3]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return (result >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(inline=True)
def below(state, bound):
    """A uniform integer in [0, bound)."""
    return np.int64(uniform(state) * bound)


@njit(inline=True)
def shuffle_head(order, size, state):
    """Bring a uniform subset of `size` entries to the front (Fisher-Yates)."""
    total = order.shape[0]
    for k in range(size):
        other = k + below(state, total - k)
        order[k], order[other] = order[other], order[k]


@generic
def draw(sampler, state, ahead):
    """The block of an iteration, as a range (lo, hi) of ``sampler.order``.

    Partitions draw ahead, so that rows can be fetched in time: in ``ahead``, a `line`,
    are the blocks that come next, the first in ``ahead[0:2]``; -1 before the first draw.
    """


@generic
def any_block(sampler, state):
    """The number of a block, drawn."""


def line(other):
    """Room for the blocks that a sampler draws ahead, `other` using the same generator.

    That is one block, as the draws of both take turns; FAR if the other never draws.
    """
    alone = isinstance(other, Partition | Permuted) and len(other.starts) == 2
    return np.full(2 * FAR if alone else 2, -1)


@njit(inline=True)
def _first_in_line(sampler, state, ahead):
    """The block that was drawn first; another one joins the line."""
    if ahead[0] < 0:
        _fill(sampler, state, ahead)
    last = ahead.shape[0] - 2
    lo, hi = ahead[0], ahead[1]
    for k in range(last):
        ahead[k] = ahead[k + 2]
    _put(sampler, any_block(sampler, state), ahead, last)
    return lo, hi


@njit(cache=False)
def _fill(sampler, state, ahead):
    # Once in a run, so it is kept out of the loops that draw.
    for k in range(0, ahead.shape[0], 2):
        _put(sampler, any_block(sampler, state), ahead, k)


@njit(inline=True)
def _put(sampler, block, ahead, k):
    ahead[k] = sampler.starts[block]
    ahead[k + 1] = sampler.starts[block + 1]


@draw.register(Partition, Permuted)
def draw_if_several(sampler, state, ahead):
    if sampler.starts.shape[0] == 2:
        return np.int64(0), sampler.starts[1]
    return _first_in_line(sampler, state, ahead)


@any_block.register(Partition)
def uniform_block(sampler, state):
    return below(state, sampler.starts.shape[0] - 1)


@any_block.register(Permuted)
def next_visit(sampler, state):
    """The next block of an epoch."""
    count = sampler.starts.shape[0] - 1
    done = sampler.visits[count] % count
    if done == 0:
        shuffle_head(sampler.visits[:count], count, state)
    sampler.visits[count] = done + 1
    return sampler.visits[done]


@njit(inline=True)
def by_odds(odds, k, chance):
    """The random index of an `alias_table`, from a place k and a chance, both uniform."""
    # Without a branch, which would be guessed wrong half of the time.
    other = np.int64(odds[k, 1])
    return other + np.int64(chance < odds[k, 0]) * (k - other)


@any_block.register(Weighted, Stepped)
def weighted_block(sampler, state):
    """A block drawn by the alias method."""
    return by_odds(sampler.odds, below(state, sampler.odds.shape[0]), uniform(state))


@draw.register(Weighted, Stepped)
def draw_weighted(sampler, state, ahead):
    return _first_in_line(sampler, state, ahead)


@generic(default=True, interpreted=True)
def inverse_probability(sampler, average, lo):
    """One over the probability of the block drawn at `lo`; `average` if all are alike."""
    return average


@inverse_probability.register(Weighted)
def inverse_probability_of_block(sampler, average, lo):
    return sampler.boosts[lo]


@draw.register(Subset)
def draw_subset(sampler, state, ahead):
    if sampler.size < sampler.order.shape[0]:
        shuffle_head(sampler.order, sampler.size, state)
    return np.int64(0), np.int64(sampler.size)

"""The random blocks that a run will draw, for the transcriptions to use the same."""

import numpy as np

from benchmark_dspdc.engine.sampling import (
    Partition,
    draw,
    generator,
    partition,
    stepped,
    weighted,
)
from benchmark_dspdc.methods.dual_ascent import QUEUE, fill_queue, next_block
from benchmark_dspdc.state.gram_ascent import take_rows
from benchmark_dspdc.state.iteration import load
from benchmark_dspdc.state.single_entries import _pick_many, draw_entry


def drawn_blocks(algorithm, n_iterations, seed):
    """The index sets that a fresh method with this seed, whose kernel is the loop, will use."""
    loop = algorithm._loop
    samplers = [
        # What is drawn reorders subsets, and epochs.
        sampler._replace(
            order=(sampler.order if order is None else order).copy(),
            **{name: sampler.visits.copy() for name in ("visits",) if hasattr(sampler, name)},
        )
        for sampler, order in (
            (loop.blocks.dual, loop.y_order), (loop.blocks.primal, loop.x_order)
        )
    ]
    random = _generator(seed)
    ahead = np.full((2, 2), -1)
    blocks = []
    for _ in range(n_iterations):
        spans = [draw(samplers[k], random, ahead[k]) for k in (0, 1)]
        blocks.append(tuple(
            sampler.order[lo:hi].copy() for sampler, (lo, hi) in zip(samplers, spans, strict=True)
        ))
    return blocks


def _generator(seed):
    return generator(np.random.SeedSequence(seed).generate_state(1)[0])


def arranged(values, order):
    """Values of coordinates in the order in which a kernel keeps them."""
    return values if order is None else values[order]


def start_from(algorithm, x, y):
    """Put a fresh method, whose kernel is the loop, at a starting point other than zero."""
    loop = algorithm._loop
    loop.point.x[:], loop.point.y[:] = arranged(x, loop.x_order), arranged(y, loop.y_order)
    load(loop.state, loop.problem.operator, loop.x_order, loop.y_order)


def drawn_batches(algorithm, n_iterations, seed, probabilities=None):
    """The index sets that a fresh SDCA or ASDCA with this seed will use.

    `probabilities` are those of the batches, where they are not all alike.
    """
    own = algorithm._ascent.batches
    choice = own.choice
    if probabilities is not None:
        choice = weighted(Partition(own.starts, None), probabilities)
    elif hasattr(choice, "visits"):
        choice = choice._replace(visits=np.arange(len(choice.visits)))
    batches = own._replace(
        choice=choice, memory=np.zeros(QUEUE + 2, dtype=np.int64), random=_generator(seed)
    )
    fill_queue(batches)
    queue = list(batches.memory[:QUEUE])
    while len(queue) < n_iterations:
        queue.append(next_block(choice, batches.memory, batches.random))
    order = np.arange(algorithm.problem.shape[0]) if own.order is None else own.order
    return [order[own.starts[k]:own.starts[k + 1]] for k in queue[:n_iterations]]


def fresh_blocks(algorithm, n_iterations, seed):
    """The index sets that a fresh SDNA with this seed will draw."""
    own, rule = algorithm._ascent.batches, algorithm._ascent.rule
    order, random = own.order.copy(), generator(np.random.SeedSequence(seed).generate_state(2)[1])
    drawn, r = [], len(own.starts) - 1
    for t in range(n_iterations):
        lo, hi = own.starts[t % r], own.starts[t % r + 1]
        take_rows(rule.fresh, order, lo, hi, random)
        drawn.append(order[lo:hi].copy())
    return drawn


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


def drawn_coins(probability, n_iterations, seed):
    """Whether each iteration of a loopless method with this seed renews the snapshot."""
    coins = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])
    renewed = []
    while len(renewed) < n_iterations:
        renewed += [False] * (coins.geometric(probability) - 1) + [True]
    return renewed[:n_iterations]


def partitions(n, p, m, q, seed):
    """The partitions that a method with this seed makes, and its generator."""
    seeds = np.random.SeedSequence(seed)
    rng = np.random.default_rng(seeds.spawn(1)[0])
    blocks = partition(n, m, rng), partition(p, q, rng)
    return *blocks, generator(seeds.generate_state(1)[0])


def drawn_pairs(dual, primal, parameters, state, n_iterations):
    """Which blocks of both partitions are drawn with probabilities p and q of `parameters`."""
    _, p, q, _, tau = parameters
    ahead = np.full((2, 2), -1)
    if len(p) > 1:
        dual = weighted(dual, p)
    if len(q) > 1:
        primal = stepped(primal, q, tau, tau)
    draws = []
    for _ in range(n_iterations):
        lo, first = draw(dual, state, ahead[0])[0], draw(primal, state, ahead[1])[0]
        draws.append((np.searchsorted(dual.starts, lo), np.searchsorted(primal.starts, first)))
    return draws


def drawn_entries(algorithm, n_iterations, seed):
    """The entries that a fresh ASVRG-SP with this seed will use, a list of pairs an iteration."""
    state, batch = _generator(seed), algorithm.info["batch"]
    entries = algorithm._entries
    if isinstance(entries, tuple):
        draws = [draw_entry(entries, state)[:2] for _ in range(n_iterations * batch)]
    else:
        positions = np.empty(n_iterations * batch, dtype=np.int64)
        _pick_many(entries.table, state, positions)
        draws = list(zip(entries.rows[positions], entries.columns[positions], strict=True))
    return [draws[k:k + batch] for k in range(0, len(draws), batch)]

"""A coupling that several threads work on inside one iteration.

All threads run the same loop and draw the same blocks, each from its own copy
of the generator. Of a block each does its part. What a part adds to a kept
product goes to a sum of its own; those are added when all are done, and all
else that a part writes belongs to its own coordinates. So the threads compute
what one would, but for the order of that addition.
"""

import os
from typing import NamedTuple

import numpy as np

from ..engine.barrier import new_board, wait_for_all
from ..engine.kernel_cache import njit
from . import primal_dual as couplings
from .primal_dual import ColumnCoupling, FactorCoupling, RowCoupling

#: Seconds of an iteration, as modelled, from which threads pay: two took 0.97 of the time of
#: one at 2 us, 0.8 at 3 us and 0.73 at 15 us (A = UV, AMD EPYC, November 2026).
WORTH = 1e-5

#: Multiply-adds of an iteration for each number of a sum, from which threads pay.
SUMMING = 8

#: Which fields sum up what a half of an iteration adds to a product.
DUAL_SUMS = {RowCoupling: "dw", ColumnCoupling: None, FactorCoupling: "du"}
PRIMAL_SUMS = {RowCoupling: None, ColumnCoupling: "dz", FactorCoupling: "dv"}


class Shared(NamedTuple):
    """What one of several threads has of a coupling.

    Attributes
    ----------
    whole : tuple
        The coupling, the same for all.
    dual, primal : tuple
        The same with this thread's sums, for either half of an iteration.
    dual_sums, primal_sums : ndarray
        The sums of all threads, one a row.
    board : ndarray
        See `benchmark_dspdc.engine.barrier`.
    me : int
        This thread's number.
    """

    whole: object
    dual: object
    primal: object
    dual_sums: np.ndarray
    primal_sums: np.ndarray
    board: np.ndarray
    me: int


def can_share(coupling):
    """Whether several threads can work on this kind of coupling, on this system."""
    return os.name == "posix" and type(coupling) in DUAL_SUMS


def longest_sum(coupling):
    """Length of the longest sum that each thread has of its own."""
    names = DUAL_SUMS[type(coupling)], PRIMAL_SUMS[type(coupling)]
    return max(len(getattr(coupling, name)) for name in names if name)


def shares(coupling, threads):
    """The shares of as many threads in a coupling; the first goes on with its sums."""
    kind, board = type(coupling), new_board(threads)
    whole, dual_sums = _with_sums(coupling, DUAL_SUMS[kind], threads)
    whole, primal_sums = _with_sums(whole, PRIMAL_SUMS[kind], threads)
    return [
        Shared(
            whole, _own(whole, DUAL_SUMS[kind], dual_sums, me),
            _own(whole, PRIMAL_SUMS[kind], primal_sums, me), dual_sums, primal_sums, board, me,
        )
        for me in range(threads)
    ]


def _with_sums(coupling, name, threads):
    if name is None:
        return coupling, np.zeros((threads, 0))
    first = getattr(coupling, name)
    sums = np.zeros((threads, len(first)))
    sums[0] = first
    return coupling._replace(**{name: sums[0]}), sums


def _own(coupling, name, sums, me):
    return coupling if name is None else coupling._replace(**{name: sums[me]})


@njit(inline=True)
def part(me, threads, lo, hi):
    """The part of lo:hi that a thread does; but for the last a multiple of 8 coordinates."""
    each = ((hi - lo + 8 * threads - 1) // (8 * threads)) * 8
    first = min(lo + me * each, hi)
    return first, min(first + each, hi)


@njit(inline=True)
def _add_up(sums):
    for other in range(1, sums.shape[0]):
        for k in range(sums.shape[1]):
            sums[0, k] += sums[other, k]
            sums[other, k] = 0.0


@couplings.turn.register(Shared)
def _(c, boost, order, lo, hi, x):
    wait_for_all(c.board, c.me)
    if c.me == 0:
        _add_up(c.dual_sums)
        couplings.turn(c.whole, boost, order, lo, hi, x)
    wait_for_all(c.board, c.me)


@couplings.close.register(Shared)
def _(c, momentum, order, lo, hi, y):
    wait_for_all(c.board, c.me)
    if c.me == 0:
        _add_up(c.primal_sums)
        couplings.close(c.whole, momentum, order, lo, hi, y)
    wait_for_all(c.board, c.me)


@couplings.announce.register(Shared)
def _(c, order, lo, hi):
    pass


@couplings.expect.register(Shared)
def _(c, order, lo, hi):
    pass


@couplings.iteration_cost.register(Shared)
def _(c, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi):
    return couplings.iteration_cost(
        c.whole, dual_order, dual_lo, dual_hi, primal_order, primal_lo, primal_hi
    )

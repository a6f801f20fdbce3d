"""One iteration of the primal-dual loop, and what it asks of a rule, a state and its blocks.

DSPDC, SPDC, SPDHG, PDHG, SAGA, RPDG, SVRG, S2CD and Katyusha all run `iterate`. They differ in

* the *rule* by which y changes, given a product <A_i, x> (here),
* the *step sizes*,
* the *blocks* that are drawn (`benchmark_dspdc.engine.sampling`),
* the *state*: what is kept between iterations so that both products are cheap. It
  depends on how A is stored; `primal_dual`, `lazy`, `scaled` and
  `primal_dual_matrices` register their bodies of the functions below.

An iteration needs <A_i, xbar> for a few rows and <A^j, ybar> for a few columns, xbar
and ybar being extrapolated points that differ from x and y only on the blocks updated
last. Its calls, in order: `announce` and `expect`, which are hints; `dual_half`; `turn`,
with the primal block of the previous iteration; `primal_half`; `finish`.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import entry, generic, index
from ..engine.kernel_cache import njit
from ..engine.sampling import (
    Partition,
    Permuted,
    Stepped,
    Subset,
    draw,
    inverse_probability,
    line,
)
from ..model.losses import dual_prox, dual_proxes, loss_derivative
from ..model.regularizers import primal_step
from ..model.regularizers.coasting import NO_COASTING, Coasting


class Point(NamedTuple):
    """Where a method is: x and y, and the labels and the regulariser that steps need.

    Where storage is arranged by the blocks of a partition, x, or y and b, are in the
    order of that partition.
    """

    x: np.ndarray
    y: np.ndarray
    b: np.ndarray
    reg: object


class Block(NamedTuple):
    """Coordinates ``order[lo:hi]``; order None is the identity."""

    order: object
    lo: int
    hi: int


class StepSizes(NamedTuple):
    """What an iteration multiplies with.

    Attributes
    ----------
    tau, tau_over_n : float or ndarray
        The primal step, one for all or one a coordinate, and that over n.
    over_n : float
    boost : float
        r = n/m of ybar; 1 + theta r where it is y that is extrapolated (SPDHG).
    momentum : float
        1 + theta of xbar.
    coasting : Coasting or CoastingByCoordinate
        Powers of a step, for states that move x lazily.
    """

    tau: object
    tau_over_n: object
    over_n: float
    boost: float
    momentum: float
    coasting: Coasting = NO_COASTING


class Blocks(NamedTuple):
    """How blocks are drawn, and which ones are next.

    Attributes
    ----------
    dual, primal : Partition, Permuted, Subset, Weighted or Stepped
    random : ndarray
        State of the generator.
    dual_ahead, primal_ahead : ndarray
        The dual and the primal blocks drawn ahead; see `line`.
    previous : ndarray of shape (2,)
        The last primal block.
    """

    dual: object
    primal: object
    random: np.ndarray
    dual_ahead: np.ndarray
    primal_ahead: np.ndarray
    previous: np.ndarray


def new_blocks(dual, primal, random):
    """`Blocks` before the first draw."""
    return Blocks(dual, primal, random, line(primal), line(dual), np.zeros(2, np.int64))


# Rules: what y becomes ----------------------------------------------------------------------

class Ascent(NamedTuple):
    """y_i = `dual_prox` with rho, a number or one a coordinate; rho = 0 gives phi'(z).

    DSPDC, SPDC, SDCA; with rho = 0 SAGA's table of derivatives.
    """

    loss: object
    rho: object


class Difference(NamedTuple):
    """phi'(z) - y_i, and y stays: it belongs to a snapshot (SVRG, Katyusha).

    The tracker follows the iterates of an epoch; see `trackers`.
    """

    loss: object
    tracker: object


class Averaged(NamedTuple):
    """y_i = phi'(z_i) with z_i = (z + tau z_i)/(1 + tau), a point that follows (RPDG)."""

    loss: object
    points: np.ndarray
    tau: float


@generic
def dual_change(rule, i, z, b, y):
    """Carry out the rule for the coordinate i at the product z, and return the change."""


@dual_change.register(Ascent)
def ascend(rule, i, z, b, y):
    new = dual_prox(rule.loss, i, z, b[i], y[i], entry(rule.rho, i))
    change = new - y[i]
    y[i] = new
    return change


@dual_change.register(Difference)
def differ(rule, i, z, b, y):
    return loss_derivative(rule.loss, z, b[i]) - y[i]


@dual_change.register(Averaged)
def average(rule, i, z, b, y):
    point = (z + rule.tau * rule.points[i]) / (1.0 + rule.tau)
    rule.points[i] = point
    new = loss_derivative(rule.loss, point, b[i])
    change = new - y[i]
    y[i] = new
    return change


@generic(default=True)
def dual_changes_together(rule, order, lo, hi, b, y, buffer):
    """`dual_change` of the first coordinates, as `dual_proxes`."""
    return lo, False


@dual_changes_together.register(Ascent)
def ascend_together(rule, order, lo, hi, b, y, buffer):
    return dual_proxes(rule.loss, rule.rho, order, lo, hi, b, y, buffer)


@njit(inline=True, cache=True)
def dual_step(rule, order, lo, hi, b, y, buffer):
    """`dual_change` of the coordinates ``order[lo:hi]``.

    On entry the buffer holds the products z_i, on return the changes.
    Returns whether there was any.
    """
    first, moved = dual_changes_together(rule, order, lo, hi, b, y, buffer)
    for k in range(first, hi):
        change = dual_change(rule, index(order, k), buffer[k - lo], b, y)
        buffer[k - lo] = change
        moved |= change != 0.0
    return moved


@generic(default=True, interpreted=True)
def keeps_change(rule):
    """Whether the change of y stays."""
    return True


@keeps_change.register(Difference)
def difference_keeps_nothing(rule):
    return False


# States: what is kept -------------------------------------------------------------------------

@generic
def row_products(state, momentum, tile):
    """state.dy[k] = <A_i, xbar>, with xbar = x_old + momentum (x - x_old)."""


@generic
def push_dual(state, boost, tile):
    """Take note of y_i += state.dy[k]; y is the new vector."""


@generic
def column_products(state, boost, tile):
    """state.dx[k] = <A^j, ybar>, with ybar = y_old + boost (y - y_old)."""


@generic
def push_primal(state, momentum, tile):
    """Take note of x_j += state.dx[k]; x is the new vector."""


@generic(default=True)
def dual_half(state, rule, steps, rows):
    """Steps of a block of dual coordinates, as many at a time as the buffer holds."""
    order, lo, hi = rows
    length = state.dy.shape[0]
    for k in range(lo, hi, length):
        tile = Block(order, k, min(k + length, hi))
        row_products(state, steps.momentum, tile)
        dual_step(rule, order, tile.lo, tile.hi, state.point.b, state.point.y, state.dy)
        push_dual(state, steps.boost, tile)


@generic(default=True)
def primal_half(state, rule, steps, rows, columns):
    """Steps of a block of primal coordinates, after those of a block of dual ones.

    Returns the number of eigendecompositions done.
    """
    order, lo, hi = columns
    length = state.dx.shape[0]
    done = 0
    for k in range(lo, hi, length):
        tile = Block(order, k, min(k + length, hi))
        column_products(state, steps.boost, tile)
        done += primal_step(
            state.point.reg, order, tile.lo, tile.hi, state.point.x, steps.tau, steps.tau_over_n,
            state.dx,
        )
        push_primal(state, steps.momentum, tile)
    return done


@generic(default=True)
def turn(state, boost, previous):
    """End the dual half; forget the extrapolation of the previous primal block."""


@generic(default=True)
def close(state, momentum, rows):
    """End the iteration, whose dual block is `rows`."""


@generic(default=True)
def forget(state, rows):
    """End an iteration that leaves y as it was."""


@generic(default=True)
def announce(state, order, ahead):
    """The next iterations will have the dual blocks ``ahead``, if drawn; a hint to fetch rows."""


@generic(default=True)
def expect(state, columns):
    """This iteration will have this primal block, if lo >= 0; before its dual half."""


@generic
def iteration_cost(state, rows, columns):
    """Multiply-adds of an iteration with these blocks."""


@generic(default=True)
def settle(state, steps):
    """Bring all of x up to date."""


@singledispatch
def solution(state, steps):
    """x, up to date; in the order that the kernel has it in."""
    return state.point.x.copy()


@singledispatch
def coasting_of(state, tau, lam):
    """What `StepSizes.coasting` has to be for this state."""
    return NO_COASTING


@singledispatch
def load(state, operator, x_order, y_order):
    """Keep what belongs to the x and y of the state's point, of which x is up to date.

    The orders are those that the kernel has x and y in, None for their own.
    """
    raise TypeError(f"{type(state).__name__} cannot begin anywhere but at zero")


def in_order(values, order):
    """Values of coordinates as a kernel has them."""
    return values if order is None else values[order]


# The loop -------------------------------------------------------------------------------------

@generic(default=True, interpreted=True)
def finish(rule, state, steps, rows):
    """End an iteration in the way of the rule."""
    close(state, steps.momentum, rows)


@njit(inline=True)
def with_boost(steps, boost):
    """The same step sizes with another r, for blocks that are not equally likely."""
    return StepSizes(
        steps.tau, steps.tau_over_n, steps.over_n, boost, steps.momentum, steps.coasting
    )


@generic(interpreted=True)
def of_block(primal, steps, lo):
    """The step sizes with the step and the extrapolation of the primal block at `lo`."""


@of_block.register(Partition, Permuted, Subset)
def of_any_block(primal, steps, lo):
    return steps


@of_block.register(Stepped)
def of_stepped_block(primal, steps, lo):
    tau = primal.taus[lo]
    return StepSizes(
        tau, tau * steps.over_n, steps.over_n, steps.boost, primal.momenta[lo], steps.coasting
    )


@njit(nogil=True)
def iterate(state, rule, steps, blocks, counters, n_iterations):
    """Algorithm 1 of the paper, with any rule."""
    dual, primal = blocks.dual, blocks.primal
    for _ in range(n_iterations):
        lo, hi = draw(dual, blocks.random, blocks.dual_ahead)
        rows = Block(dual.order, lo, hi)
        announce(state, dual.order, blocks.dual_ahead)
        expect(state, Block(primal.order, blocks.primal_ahead[0], blocks.primal_ahead[1]))
        now = with_boost(steps, inverse_probability(dual, steps.boost, lo))
        previous = Block(primal.order, blocks.previous[0], blocks.previous[1])
        dual_half(state, rule, of_block(primal, now, previous.lo), rows)
        turn(state, now.boost, previous)

        first, last = draw(primal, blocks.random, blocks.primal_ahead)
        columns = Block(primal.order, first, last)
        then = of_block(primal, now, first)
        counters[2] += primal_half(state, rule, then, rows, columns)

        finish(rule, state, then, rows)
        blocks.previous[0] = first
        blocks.previous[1] = last
        counters[0] += iteration_cost(state, rows, columns)
        if keeps_change(rule):
            counters[1] += hi - lo
        counters[1] += last - first

"""The rule of SDNA: a block of dual coordinates with all of its Gram matrix.

The block's y maximises  <z, y> - sum phi_i*(y_i) - h'(A_I A_I')h/(2 lam n), h the change
of y, by coordinate ascent on the Gram matrix. Of blocks that are fixed that is made when one
is met first; blocks may also be drawn afresh, and then it is made every time.
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic, index
from ..engine.kernel_cache import njit
from ..engine.sampling import below, shuffle_head
from ..model.losses import dual_prox
from ..operators.factorized import FactorizedOperator
from ..operators.gram import gram
from ..operators.row_loops import rows_axpy, rows_dot, rows_size
from .dual import BlockKeptDual, FactorKeptDual, KeptDual
from .iteration import ascend, dual_change, dual_changes_together


class GramAscent(NamedTuple):
    """`Ascent` of a block of coordinates together.

    Attributes
    ----------
    loss : NamedTuple
    rho : ndarray
        |A_i|^2/(lam n) of every row.
    grams : ndarray of shape (n, m), or (m, m) where blocks are fresh
        By position in the order, or in the block: products of a row with those of its block,
        over lam n.
    known : ndarray
        By position: whether the matrix of the block that begins there has been made.
    before, row, metric : ndarray
        Room for y of a block and for a row; V V' where A = UV.
    inner : float
        A sweep that moves the block by less than this share of the largest sweep is the last.
    most : int
        Sweeps at most.
    strength : float
        lam n.
    gamma : float
    counters : ndarray
        Those of the method; multiply-adds of matrices and sweeps are added to the first.
    fresh : int
        `FIXED`, or how rows come into blocks: `SHUFFLED` once an epoch, or `DRAWN` for each.
    random : ndarray
        State of the generator for that.
    """

    loss: object
    rho: np.ndarray
    grams: np.ndarray
    known: np.ndarray
    before: np.ndarray
    row: np.ndarray
    metric: np.ndarray
    inner: float
    most: int
    strength: float
    gamma: float
    counters: np.ndarray
    fresh: int
    random: np.ndarray


FIXED, SHUFFLED, DRAWN = range(3)


def gram_ascent(problem, largest, rho, inner, most, counters, fresh, random):
    """The rule for blocks of at most so many rows."""
    operator, (n, p) = problem.operator, problem.shape
    metric, width = np.zeros((0, 0)), p
    if isinstance(operator, FactorizedOperator) and largest > 1:
        metric = gram(operator.Vt)
        width = len(metric)
        counters[0] += p * width ** 2
    # Empty pages take no memory until the blocks are met.
    grams = np.empty((n if fresh == FIXED else largest, largest if largest > 1 else 0))
    return GramAscent(
        problem.loss, rho, grams, np.zeros(n, dtype=np.bool_), np.empty(largest),
        np.zeros(width), metric, inner, most, problem.lam * n, problem.gamma, counters, fresh,
        random,
    )


@generic(default=True, interpreted=True)
def prepare_block(rule, state, order, lo, hi):
    """Make what the rule needs to know of a block, before its first step."""


@prepare_block.register(GramAscent)
def prepare_gram(rule, state, order, lo, hi):
    if hi - lo > 1 and (rule.fresh != FIXED or not rule.known[lo]):
        take_rows(rule.fresh, order, lo, hi, rule.random)
        rule.known[lo] = True
        rule.counters[0] += fill_gram(state, rule, order, lo, hi)


@njit
def take_rows(fresh, order, lo, hi, random):
    """Fill ``order[lo:hi]`` with other rows, if blocks are fresh; blocks come in turn."""
    if order is None:
        return
    if fresh == SHUFFLED and lo == 0:
        shuffle_head(order, order.shape[0], random)
    elif fresh == DRAWN:
        for k in range(hi - lo):
            # Any position but those filled already.
            other = below(random, order.shape[0] - k)
            if other >= lo:
                other += k
            order[lo + k], order[other] = order[other], order[lo + k]


@njit(inline=True)
def _place(rule, lo):
    """Where the matrix of the block at `lo` is."""
    return lo if rule.fresh == FIXED else 0


dual_change.register(GramAscent)(ascend)


@dual_changes_together.register(GramAscent)
def ascend_by_gram(rule, order, lo, hi, b, y, buffer):
    size = hi - lo
    if size == 1:
        return lo, False
    before, grams, place = rule.before, rule.grams, _place(rule, lo)
    for k in range(size):
        before[k] = y[index(order, lo + k)]
    largest = 0.0
    moves = 0
    for _ in range(rule.most):
        swept = 0.0
        for k in range(size):
            i = index(order, lo + k)
            old = y[i]
            new = dual_prox(rule.loss, i, buffer[k], b[i], old, rule.rho[i])
            change = new - old
            if change != 0.0:
                y[i] = new
                moves += 1
                swept += (rule.rho[i] + rule.gamma) * change * change
                for l in range(size):
                    buffer[l] -= change * grams[place + k, l]
        largest = max(largest, swept)
        if swept <= rule.inner * rule.inner * largest:
            break
    rule.counters[0] += moves * size
    moved = False
    for k in range(size):
        buffer[k] = y[index(order, lo + k)] - before[k]
        moved |= buffer[k] != 0.0
    return hi, moved


# Gram matrices of the rows of a block, by storage ---------------------------------------------

@generic
def fill_gram(state, rule, order, lo, hi):
    """Put the products of rows of a block into ``rule.grams``; returns the multiply-adds."""


@njit
def _products_with_row(rule, rows, order, lo, k):
    """Products of the k-th row of A, which is in ``rule.row``, with those up to it."""
    grams, place = rule.grams, _place(rule, lo)
    own = grams[place + k - lo]
    rows_dot(rows, order, lo, k + 1, rule.row, own)
    for l in range(k + 1 - lo):
        own[l] /= rule.strength
        grams[place + l, k - lo] = own[l]


@fill_gram.register(KeptDual)
def gram_of_rows(state, rule, order, lo, hi):
    coef, work = rule.before, 0
    for k in range(lo, hi):
        coef[0] = 1.0
        rows_axpy(state.rows, order, k, k + 1, coef, rule.row)
        _products_with_row(rule, state.rows, order, lo, k)
        work += rows_size(state.rows, order, lo, k + 1)
        # Exactly zero again.
        coef[0] = -1.0
        rows_axpy(state.rows, order, k, k + 1, coef, rule.row)
    return work


@fill_gram.register(FactorKeptDual)
def gram_of_factors(state, rule, order, lo, hi):
    d = rule.row.shape[0]
    for k in range(lo, hi):
        i = index(order, k)
        for c in range(d):
            total = 0.0
            for e in range(d):
                total += rule.metric[c, e] * state.rows.a[i, e]
            rule.row[c] = total
        _products_with_row(rule, state.rows, order, lo, k)
    return (hi - lo) * d * (2 * d + hi - lo + 1) // 2


@fill_gram.register(BlockKeptDual)
def gram_of_matrices(state, rule, order, lo, hi):
    rows = np.arange(lo, hi) if order is None else order[lo:hi]
    place = lo if rule.fresh == FIXED else 0
    rule.grams[place:place + hi - lo, :hi - lo] = state.operator.gram(rows) / rule.strength
    return int(state.operator.gram_cost(hi - lo))

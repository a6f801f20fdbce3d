"""What dual-only methods keep: w = -A'y/n, from which x = grad g*(w).

`KeptDual` walks stored rows and takes x from w entry by entry on the way.
`FactorKeptDual` has A = UV: after each change of y the products w = -V'u/n
and v = V x are renewed, which costs O(p d) an iteration; there is no way
around it for a nonlinear x(w) (the paper's table 1 says the same).
"""

from typing import NamedTuple

import numpy as np

from ..jit import generic, index, njit
from ..regularizers import reg_conjugate_gradient
from ..simd import prefetch
from .rows import (
    DenseRows,
    rows_announce,
    rows_axpy,
    rows_dot,
    rows_dot_conjugate,
    rows_prefetch,
    rows_size,
)


class KeptDual(NamedTuple):
    rows: object
    w: np.ndarray
    n: float


class FactorKeptDual(NamedTuple):
    d: int
    U: DenseRows
    Vt: DenseRows
    w: np.ndarray
    x: np.ndarray
    v: np.ndarray
    du: np.ndarray
    n: float


@generic
def primal_products(c, reg, order, lo, hi, out):
    """out[k] = <A_i, x> with x = grad g*(w)."""


@generic
def push(c, reg, order, lo, hi, dy):
    """Take note of y_i += dy[k], and renew what depends on it.

    Returns the number of eigendecompositions done.
    """


@generic
def refresh(c, reg):
    """Renew what depends on w; once, before the first iteration.

    Returns the number of eigendecompositions done.
    """


@generic
def announce(c, order, lo):
    """A batch that comes later: a hint to fetch where its first row is."""


@generic
def fetch(c, order, lo, hi, b, y, rho):
    """A batch that comes soon: a hint to fetch its rows and dual coordinates."""


@generic
def batch_cost(c, order, lo, hi):
    """Multiply-adds of `primal_products` and `push` for a batch."""


@primal_products.register(KeptDual)
def _(c, reg, order, lo, hi, out):
    rows_dot_conjugate(c.rows, order, lo, hi, reg, c.w, out)


@push.register(KeptDual)
def _(c, reg, order, lo, hi, dy):
    for k in range(hi - lo):
        dy[k] *= -1.0 / c.n
    rows_axpy(c.rows, order, lo, hi, dy, c.w)
    return 0


@refresh.register(KeptDual)
def _(c, reg):
    return 0


@announce.register(KeptDual)
def _(c, order, lo):
    rows_announce(c.rows, order, lo)


@njit(inline=True)
def _fetch_first(order, lo, b, y, rho):
    i = index(order, lo)
    prefetch(y, i)
    prefetch(b, i)
    prefetch(rho, i)


@fetch.register(KeptDual)
def _(c, order, lo, hi, b, y, rho):
    _fetch_first(order, lo, b, y, rho)
    rows_prefetch(c.rows, order, lo, hi)


@batch_cost.register(KeptDual)
def _(c, order, lo, hi):
    return 2 * rows_size(c.rows, order, lo, hi)


@primal_products.register(FactorKeptDual)
def _(c, reg, order, lo, hi, out):
    rows_dot(c.U, order, lo, hi, c.v, out)


@push.register(FactorKeptDual)
def _(c, reg, order, lo, hi, dy):
    c.du[:] = 0.0
    for k in range(hi - lo):
        dy[k] *= -1.0 / c.n
    rows_axpy(c.U, order, lo, hi, dy, c.du)
    p = c.w.shape[0]
    rows_dot(c.Vt, None, 0, p, c.du, c.x)
    for j in range(p):
        c.w[j] += c.x[j]
    return refresh(c, reg)


@refresh.register(FactorKeptDual)
def _(c, reg):
    p = c.w.shape[0]
    for j in range(p):
        c.x[j] = reg_conjugate_gradient(reg, c.w[j])
    c.v[:] = 0.0
    rows_axpy(c.Vt, None, 0, p, c.x, c.v)
    return 0


@announce.register(FactorKeptDual)
def _(c, order, lo):
    rows_announce(c.U, order, lo)


@fetch.register(FactorKeptDual)
def _(c, order, lo, hi, b, y, rho):
    _fetch_first(order, lo, b, y, rho)
    rows_prefetch(c.U, order, lo, hi)


@batch_cost.register(FactorKeptDual)
def _(c, order, lo, hi):
    return 2 * c.d * ((hi - lo) + c.w.shape[0])

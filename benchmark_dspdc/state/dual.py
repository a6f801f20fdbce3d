"""What dual-only methods keep: w = -A'y/n, from which x = grad g*(w).

`KeptDual` walks stored rows and takes x from w entry by entry on the way.
`FactorKeptDual` has A = UV: after each change of y the products w = -V'u/n
and v = V x are renewed, which costs O(p d) an iteration; there is no way
around it for a nonlinear x(w) (the paper's table 1 says the same).
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, generic, index
from ..engine.kernel_cache import njit
from ..engine.simd import prefetch
from ..model.regularizers import (
    reg_conjugate_gradient,
    reg_modulus,
    reg_threshold,
    reg_thresholds,
)
from ..operators.factorized import FactorizedOperator
from ..operators.operator import StoredOperator
from ..operators.row_loops import (
    DenseRows,
    SparseRows,
    multiply_transposed,
    row_span,
    rows_announce,
    rows_axpy,
    rows_dot,
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


# Products with grad g*(w), which is taken entry by entry on the way ---------------------------

@generic
def rows_dot_threshold(rows, order, lo, hi, reg, w, out):
    """out[k] = <row k, lam grad g*(w)>, the gradient taken entry by entry on the way."""


@njit(inline=True)
def rows_dot_conjugate(rows, order, lo, hi, reg, w, out):
    """out[k] = <row k, grad g*(w)>."""
    if reg_thresholds(reg):
        rows_dot_threshold(rows, order, lo, hi, reg, w, out)
    else:
        rows_dot(rows, order, lo, hi, w, out)
    scale = 1.0 / reg_modulus(reg)
    for k in range(hi - lo):
        out[k] *= scale


@rows_dot_threshold.register(DenseRows)
def _(rows, order, lo, hi, reg, w, out):
    a = rows.a
    d = a.shape[1]
    k = lo
    while k + 4 <= hi:
        i0 = at(order, k)
        i1 = at(order, k + 1)
        i2 = at(order, k + 2)
        i3 = at(order, k + 3)
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for j in range(d):
            xj = reg_threshold(reg, w[j])
            s0 += a[i0, j] * xj
            s1 += a[i1, j] * xj
            s2 += a[i2, j] * xj
            s3 += a[i3, j] * xj
        out[k - lo] = s0
        out[k - lo + 1] = s1
        out[k - lo + 2] = s2
        out[k - lo + 3] = s3
        k += 4
    while k < hi:
        i = at(order, k)
        s0 = 0.0
        for j in range(d):
            s0 += a[i, j] * reg_threshold(reg, w[j])
        out[k - lo] = s0
        k += 1


@rows_dot_threshold.register(SparseRows)
def _(rows, order, lo, hi, reg, w, out):
    data, columns = rows.data, rows.indices
    for k in range(lo, hi):
        start, end = row_span(rows, at(order, k))
        out[k - lo] = _sparse_dot_threshold(data, columns, start, end, reg, w)


@njit(inline=True, reassociate=False)
def _sparse_dot_threshold(data, columns, start, end, reg, w):
    one, two = np.uint64(1), np.uint64(2)
    s0 = 0.0
    s1 = 0.0
    e = start
    while e + two <= end:
        s0 += data[e] * reg_threshold(reg, w[columns[e]])
        s1 += data[e + one] * reg_threshold(reg, w[columns[e + one]])
        e += two
    if e < end:
        s0 += data[e] * reg_threshold(reg, w[columns[e]])
    return s0 + s1


# From operators -----------------------------------------------------------------------------

@singledispatch
def dual_state(operator, y):
    """State for dual-only methods at y: w = -A'y/n kept up to date."""
    raise TypeError(f"{type(operator).__name__} has no dual state")


@singledispatch
def dual_cost(operator, r):
    """Multiply-adds of an average batch with that state, r = n/m."""
    return operator.multiply_adds / r


@dual_state.register(StoredOperator)
def stored_dual_state(operator, y):
    n = operator.shape[0]
    return KeptDual(operator.rows, -operator.rmatvec(y) / n, float(n))


@dual_state.register(FactorizedOperator)
def factor_dual_state(operator, y):
    U, Vt = DenseRows(operator.U), DenseRows(operator.Vt)
    u = np.empty(operator.U.shape[1])
    multiply_transposed(U, y, u)
    n, p = operator.shape
    return FactorKeptDual(
        operator.d, U, Vt, -operator.rmatvec(y) / n, np.zeros(p), np.zeros_like(u),
        np.zeros_like(u), float(n),
    )


@dual_cost.register(FactorizedOperator)
def factor_dual_cost(operator, r):
    n, p = operator.shape
    return 2 * operator.d * (n / r + p)

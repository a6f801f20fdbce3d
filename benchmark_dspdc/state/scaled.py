"""Rows of a sparse matrix where steps are linear: nothing is made up for, only scaled.

Without an l1 term a proximal step is x = a (x - (tau/n) w), a = 1/(1 + tau lam),
for all coordinates but those of the rows drawn, w being A'y. So x = alpha u +
beta w with two numbers alpha and beta that follow the steps, and u and w change
in the rows drawn alone. An iteration costs O(nnz(I)) as in
`benchmark_dspdc.state.lazy`, without its closed forms and its clock.
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import at, generic
from ..engine.kernel_cache import njit
from ..model.dual_rules import dual_step
from ..model.regularizers import reg_prox, reg_thresholds
from ..operators.row_loops import SparseRows, aligned, row_span
from .lazy import LazyRows, Plain, Summed, fetch_states, lazy_rows, register_rows, settle

#: What the doubles of a coordinate are: total = ALPHA_SUM u + BETA_SUM w + REST.
U, W, REST, SPARE = range(4)

#: What the scale has.
ALPHA, BETA, ALPHA_SUM, BETA_SUM = range(4)

#: u is renewed before alpha falls below this, as it would grow beyond all bounds.
LEAST = 1e-3


class LinearRows(NamedTuple):
    """As `LazyRows`, for regularisers that do not threshold.

    Attributes
    ----------
    kind : Plain or Summed
    rows : SparseRows
    state : ndarray of shape (p, 2 or 4)
        u and w; further what the sum of all iterates has besides them.
    scale : ndarray of shape (4,)
        alpha, beta, and the sums of both.
    clock : ndarray of shape (2,)
        Iterations since u was renewed, and the row of the next one as in `LazyRows`.
    limit : int
        The most iterations until it is renewed: with as much of x in beta w as
        that many steps make, little is lost by cancellation.
    """

    kind: object
    rows: SparseRows
    state: np.ndarray
    scale: np.ndarray
    clock: np.ndarray
    limit: int

    @property
    def x(self):
        return self.state[:, U]

    @property
    def total(self):
        return self.state[:, REST]

    def copied(self):
        """The same with its own memory, but for the matrix."""
        return self._replace(
            state=self.state.copy(), scale=self.scale.copy(), clock=self.clock.copy()
        )

    def load(self, operator, x, y):
        """Keep what belongs to x, which must be up to date, and y."""
        self.state[:, W] = operator.rmatvec(y)


def rows_of_all(rows, p, dual, kind, reg):
    """Rows for a method that moves all of x, of the simplest kind that will do."""
    if not isinstance(kind, (Plain, Summed)) or reg_thresholds(reg):
        return lazy_rows(rows, p, kind)
    # Renewing u then takes less than a fourth of the iterations' time.
    epochs = max(1.0, 4.0 * p / max(len(rows.data), 1))
    limit = int(epochs * dual.inverse_probability)
    width = 2 if isinstance(kind, Plain) else 4
    scale = np.array([1.0, 0.0, 0.0, 0.0])
    return LinearRows(kind, rows, aligned((p, width)), scale, np.array([0, -1]), limit)


#: What a method that moves all of x has to settle before it looks at x.
ROWS_OF_ALL = (LazyRows, LinearRows)


@generic
def add_rest(kind, state, j, added):
    """Keep the sum of all iterates, where there is one."""


@add_rest.register(Plain)
def _(kind, state, j, added):
    pass


@add_rest.register(Summed)
def _(kind, state, j, added):
    state[j, REST] += added


@njit(inline=True)
def linear_dual_half(c, rule, order, lo, hi, b, y, dy):
    """Products with the rows, and the rule; `dy` has room for all of them."""
    data, columns, state = c.rows.data, c.rows.indices, c.state
    alpha, beta = c.scale[ALPHA], c.scale[BETA]
    for k in range(lo, hi):
        start, stop = row_span(c.rows, at(order, k))
        of_u = 0.0
        of_w = 0.0
        for e in range(start, stop):
            j = columns[e]
            of_u += data[e] * state[j, U]
            of_w += data[e] * state[j, W]
        dy[k - lo] = alpha * of_u + beta * of_w
    dual_step(rule, order, lo, hi, b, y, dy)


@njit(inline=True)
def linear_primal_half(c, reg, order, lo, hi, constants, absorb, dy):
    """The step of all coordinates; with `absorb` what the iteration added stays in A'y."""
    data, columns, state, scale = c.rows.data, c.rows.indices, c.state, c.scale
    shrink = reg_prox(reg, 1.0, constants.tau)
    step = shrink * constants.tau_over_n
    alpha, beta = shrink * scale[ALPHA], shrink * scale[BETA] - step
    # Of a change c of w, x takes -step r c; that part of it which beta w has is taken out.
    of_u = -(constants.boost * step + (beta if absorb else 0.0)) / alpha
    of_rest = -(scale[ALPHA_SUM] * of_u + (scale[BETA_SUM] if absorb else 0.0))
    if c.clock[1] >= 0:
        fetch_states(c, c.clock[1])
    for k in range(lo, hi):
        change = dy[k - lo]
        if change != 0.0:
            start, stop = row_span(c.rows, at(order, k))
            for e in range(start, stop):
                j = columns[e]
                added = change * data[e]
                state[j, U] += of_u * added
                if absorb:
                    state[j, W] += added
                add_rest(c.kind, state, j, of_rest * added)
    scale[ALPHA], scale[BETA] = alpha, beta
    scale[ALPHA_SUM] += alpha
    scale[BETA_SUM] += beta
    c.clock[0] += 1
    if alpha < LEAST or c.clock[0] >= c.limit:
        _renew(c)


@njit(cache=False)
def _renew(c):
    """u = x, and the sum as it is."""
    state, scale = c.state, c.scale
    for j in range(state.shape[0]):
        u, w = state[j, U], state[j, W]
        state[j, U] = scale[ALPHA] * u + scale[BETA] * w
        add_rest(c.kind, state, j, scale[ALPHA_SUM] * u + scale[BETA_SUM] * w)
    scale[ALPHA] = 1.0
    scale[BETA] = scale[ALPHA_SUM] = scale[BETA_SUM] = 0.0
    c.clock[0] = 0


@settle.register(LinearRows)
def _(c, reg, constants):
    _renew(c)


register_rows(LinearRows)

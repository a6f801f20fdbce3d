"""What a loss phi_i is made of: value, derivative, conjugate and the dual proximal step.

A loss is a NamedTuple, so that numba specialises every kernel on its type.
``gamma`` is the strong convexity of the conjugate, i.e. phi is (1/gamma)-smooth;
``b`` is the label of the coordinate. A class says further

``classification``
    whether labels must be -1 and +1,
``dual_nanoseconds``
    what a dual step takes beyond that of the smoothed hinge, for predicted times; it may
    be left out.

To add a loss: a file here with the class and the five functions below registered
for it, and an entry in `benchmark_dspdc.model.losses.LOSSES`. If its dual step is costly, write
it with the functions of `benchmark_dspdc.engine.lanes`, and register `dual_proxes_in_lanes`.
"""

import numpy as np

from ...engine.dispatch import generic
from ...engine.kernel_cache import njit
from ...engine.lanes import LANES, any_nonzero, put, take


@generic
def loss_value(loss, z, b):
    """phi(z)."""


@generic
def loss_derivative(loss, z, b):
    """phi'(z): a dual-feasible value for every z."""


@generic
def loss_conjugate(loss, beta, b):
    """phi*(beta), infinite outside its domain."""


@generic
def nearest_in_domain(loss, beta, b):
    """The point of the conjugate's domain that is nearest to beta."""


@generic
def dual_prox(loss, i, z, b, y, rho):
    """argmax over beta of  z beta - phi_i*(beta) - (rho/2)(beta - y)^2,  rho >= 0.

    Every dual step of every method is this one. ``rho = 0`` gives phi'(z); b is
    the label of the coordinate i.
    """


@generic(default=True)
def dual_proxes(loss, rho, order, lo, hi, b, y, buffer):
    """`dual_prox` of the first of the coordinates ``order[lo:hi]``, as many as are done together.

    On entry the buffer holds the products z_i, on return the changes of y_i. Returns where
    in the order those begin that are left, and whether there was a change. Most losses
    leave all: their dual steps take less than the products.
    """
    return lo, False


def dual_proxes_in_lanes(loss, rho, order, lo, hi, b, y, buffer):
    """A body of `dual_proxes` for losses whose `dual_prox` takes vectors of `lanes`."""
    moved = False
    k = lo
    while k + LANES <= hi:
        old = take(y, order, k)
        new = dual_prox(
            loss, k, take(buffer, None, k - lo), take(b, order, k), old, take(rho, order, k)
        )
        change = new - old
        put(y, order, k, new)
        put(buffer, None, k - lo, change)
        moved |= any_nonzero(change)
        k += LANES
    return k, moved


# Sums over all coordinates ------------------------------------------------------------------

@njit
def loss_sum(loss, z, b):
    """Sum of phi_i(z_i)."""
    total = 0.0
    for i in range(z.shape[0]):
        total += loss_value(loss, z[i], b[i])
    return total


@njit
def conjugate_sum(loss, y, b):
    """Sum of phi_i*(y_i)."""
    total = 0.0
    for i in range(y.shape[0]):
        total += loss_conjugate(loss, y[i], b[i])
    return total


@njit(allocates=True)
def derivative_all(loss, z, b):
    """The vector phi_i'(z_i)."""
    out = np.empty_like(z)
    for i in range(z.shape[0]):
        out[i] = loss_derivative(loss, z[i], b[i])
    return out


@njit
def loss_excess(loss, at, z, b):
    """How far the losses at z are above their tangents, and what tells its rounding.

    Returns the sums of phi_i(z_i) - phi_i(at_i) - phi_i'(at_i)(z_i - at_i), of
    (phi_i'(z_i) - phi_i'(at_i))(z_i - at_i), which is no less, and of |phi_i(at_i)|.
    """
    excess, slopes, values = 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        value, slope = loss_value(loss, at[i], b[i]), loss_derivative(loss, at[i], b[i])
        step = z[i] - at[i]
        excess += loss_value(loss, z[i], b[i]) - value - slope * step
        slopes += (loss_derivative(loss, z[i], b[i]) - slope) * step
        values += abs(value)
    return excess, slopes, values


@njit(allocates=True)
def nearest_feasible(loss, y, b):
    """The vector of `nearest_in_domain`."""
    out = np.empty_like(y)
    for i in range(y.shape[0]):
        out[i] = nearest_in_domain(loss, y[i], b[i])
    return out


def grows_linearly(loss):
    """Whether phi grows no faster than |z| for labels of either sign."""
    slopes = derivative_all(loss, np.array([1e100, -1e100]), np.ones(2))
    return bool(np.abs(slopes).max() < 1e50)

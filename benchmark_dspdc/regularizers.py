"""Regularisers g: value, conjugate, and the two maps that methods need.

``g(x) = sum_j g_j(x_j)`` is lam-strongly convex. To add one: a
NamedTuple, the functions below registered for it.
"""

from typing import NamedTuple

import numpy as np

from .jit import generic, index, njit


class ElasticNet(NamedTuple):
    """g(x) = lambda1 |x|_1 + (lambda2/2) |x|^2."""

    lambda1: float
    lambda2: float


@generic
def reg_modulus(reg):
    """lam, the strong convexity of g."""


@generic
def reg_value(reg, x):
    """g(x), a sum over all coordinates."""


@generic
def reg_conjugate(reg, w):
    """g*(w), a sum over all coordinates."""


@generic
def reg_prox(reg, c, tau):
    """argmin over a of  g_j(a) + (a - c)^2 / (2 tau), one coordinate."""


@generic
def primal_step(reg, order, lo, hi, x, tau, tau_over_n, buffer):
    """`reg_prox` of the coordinates ``order[lo:hi]`` at x_j - (tau/n) <A^j, ybar>.

    On entry the buffer holds the products, on return the changes of x_j.
    Returns the number of eigendecompositions done.
    """


@generic
def reg_conjugate_gradient(reg, w):
    """The primal coordinate x_j = (g_j*)'(w_j) that a dual point gives."""


@generic
def reg_threshold(reg, w):
    """lam (g_j*)'(w_j): the same without its factor, which a product takes out."""


@generic
def reg_thresholds(reg):
    """Whether `reg_threshold` does anything; if not, x is just w/lam."""


@njit(inline=True)
def soft(c, threshold):
    """Soft thresholding, without a branch so that loops over it vectorise."""
    return c - min(max(c, -threshold), threshold)


@reg_value.register(ElasticNet)
def _(reg, x):
    l1 = 0.0
    l2 = 0.0
    for j in range(x.shape[0]):
        l1 += abs(x[j])
        l2 += x[j] * x[j]
    return reg.lambda1 * l1 + 0.5 * reg.lambda2 * l2


@reg_conjugate.register(ElasticNet)
def _(reg, w):
    total = 0.0
    for j in range(w.shape[0]):
        excess = max(abs(w[j]) - reg.lambda1, 0.0)
        total += excess * excess
    return total / (2.0 * reg.lambda2)


@reg_prox.register(ElasticNet)
def _(reg, c, tau):
    return soft(c, tau * reg.lambda1) * (1.0 / (1.0 + tau * reg.lambda2))


@primal_step.register(ElasticNet)
def _(reg, order, lo, hi, x, tau, tau_over_n, buffer):
    for k in range(lo, hi):
        j = index(order, k)
        new = reg_prox(reg, x[j] - tau_over_n * buffer[k - lo], tau)
        buffer[k - lo] = new - x[j]
        x[j] = new
    return 0


@reg_conjugate_gradient.register(ElasticNet)
def _(reg, w):
    return soft(w, reg.lambda1) * (1.0 / reg.lambda2)


@reg_threshold.register(ElasticNet)
def _(reg, w):
    return soft(w, reg.lambda1)


@reg_thresholds.register(ElasticNet)
def _(reg):
    return reg.lambda1 > 0.0


@reg_modulus.register(ElasticNet)
def _(reg):
    return reg.lambda2


@njit(allocates=True)
def conjugate_gradient_all(reg, w):
    """The vector of `reg_conjugate_gradient`."""
    out = np.empty_like(w)
    for j in range(w.shape[0]):
        out[j] = reg_conjugate_gradient(reg, w[j])
    return out

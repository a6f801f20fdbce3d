"""What a regulariser g is made of, with bodies for what is rarely special.

``g(x) = sum_j g_j(x_j)`` is lam-strongly convex. To add one whose coordinates are
numbers: a file here with a NamedTuple and the first five functions below registered
for it, `reg_outlook` too if it is to be fast on sparse data, and an entry in
`benchmark_dspdc.model.regularizers.REGULARIZERS`. All other functions have default
bodies. `PSDFrobenius`, whose coordinates are matrices, is an ordinary class: its steps
are eigendecompositions, which need no compiling.
"""

from functools import singledispatch

import numpy as np

from ...engine.dispatch import entry, generic, index

# What a regulariser of numbers must say ---------------------------------------------------

@generic
def reg_modulus(reg):
    """lam, the strong convexity of g."""


@generic
def coordinate_value(reg, j, x):
    """g_j(x)."""


@generic
def coordinate_conjugate(reg, j, w):
    """g_j*(w)."""


@generic
def reg_prox(reg, j, c, tau):
    """argmin over a of  g_j(a) + (a - c)^2 / (2 tau)."""


@generic
def reg_conjugate_gradient(reg, j, w):
    """The primal coordinate x_j = (g_j*)'(w) that a dual point gives."""


# What it may say --------------------------------------------------------------------------

#: Answers of `reg_outlook`.
ONE_PHASE, TO_ZERO, SEVERAL, UNKNOWN = range(4)


@generic(default=True)
def reg_outlook(reg, j, power, sums, x, gradient):
    """What becomes of x_j in k proximal steps, of which `coasting.powers_of` are given.

    Returns
    -------
    outlook : {ONE_PHASE, TO_ZERO, SEVERAL, UNKNOWN}
        x_i = a^i x - drift (1 - a^i)/lam in all the steps; or until x is zero, where
        it stays; or until it is zero, which it crosses; or nothing is known, and each
        step is taken by itself.
    drift : float
    end : float
        x_k, for the first two.
    """
    return UNKNOWN, 0.0, x


@generic(default=True)
def reg_threshold(reg, j, w):
    """lam (g_j*)'(w): the primal coordinate without its factor, which a product takes out."""
    return reg_modulus(reg) * reg_conjugate_gradient(reg, j, w)


@generic(default=True)
def reg_thresholds(reg):
    """Whether `reg_threshold` does anything; if not, x is just w/lam."""
    return True


# Over many coordinates --------------------------------------------------------------------

@generic(default=True)
def reg_value(reg, x):
    """g(x)."""
    total = 0.0
    for j in range(x.shape[0]):
        total += coordinate_value(reg, j, x[j])
    return total


@generic(default=True)
def reg_conjugate(reg, w):
    """g*(w)."""
    total = 0.0
    for j in range(w.shape[0]):
        total += coordinate_conjugate(reg, j, w[j])
    return total


@generic(default=True)
def into_domain(reg, x):
    """Move x to the nearest point where g is finite, from which it is off by rounding."""


@generic(default=True)
def conjugate_point(reg, w, out):
    """out = grad g*(w), the primal point that a dual point gives."""
    for j in range(w.shape[0]):
        out[j] = reg_conjugate_gradient(reg, j, w[j])


@generic(default=True)
def primal_step(reg, order, lo, hi, x, tau, tau_over_n, buffer):
    """`reg_prox` of the coordinates ``order[lo:hi]`` at x_j - (tau/n) <A^j, ybar>.

    tau, and with it tau/n, is a number or one a coordinate. On entry the buffer holds
    the products, on return the changes of x_j. Returns the number of
    eigendecompositions done.
    """
    for k in range(lo, hi):
        j = index(order, k)
        new = reg_prox(reg, j, x[j] - entry(tau_over_n, j) * buffer[k - lo], entry(tau, j))
        buffer[k - lo] = new - x[j]
        x[j] = new
    return 0


@generic(default=True)
def pair_primal_step(reg, order, lo, hi, point, weights, moved, factor, of_u, of_v):
    """Accelerated steps of the coordinates ``order[lo:hi]`` of a pair's point.

    With z = v - factor u, zbar = v + factor u, and (moved/2)|x|^2 taken out of
    g, the new x minimises  g(x) - (moved/2)|x|^2 + (weight/2)|x - z|^2
    + <x, buffer/n + moved zbar>.  u and v move by of_u and of_v times the
    change x - z, which the buffer holds on return. Returns the number of
    eigendecompositions done.
    """
    u, v, buffer, n = point.u, point.v, point.buffer, point.b.shape[0]
    for k in range(lo, hi):
        j = index(order, k)
        z = v[j] - factor * u[j]
        tau = 1.0 / max(weights[j] - moved[j], 1e-15 * moved[j])
        gradient = buffer[k - lo] / n + 2.0 * moved[j] * factor * u[j]
        change = reg_prox(reg, j, z - tau * gradient, tau) - z
        buffer[k - lo] = change
        u[j] += of_u * change
        v[j] += of_v * change
    return 0


@generic
def conjugate_blocks(reg, blocks, w):
    """Replace w by grad g_j*(w_j), for some blocks; only for regularisers of matrices.

    Returns the number of eigendecompositions done.
    """


# From Python ------------------------------------------------------------------------------

@singledispatch
def moduli_of(reg, p):
    """The modulus of strong convexity of each coordinate that steps are made for."""
    return np.full(p, reg_modulus(reg))


@singledispatch
def augmented(reg, kappa):
    """g + (kappa/2)|x|^2."""
    return reg._replace(lambda2=reg.lambda2 + kappa)


@singledispatch
def for_steps(reg, moduli):
    """The regulariser for one run of a method.

    `moduli` is "each" or "least": steps by each block's own lam_j, or by the least of
    them. Where these differ it has `weights` w_j = lam/lam_j for the operator's norms.
    """
    return reg


@singledispatch
def miniature(reg, operator):
    """A regulariser of the same type for an operator that is only there to compile for."""
    return reg

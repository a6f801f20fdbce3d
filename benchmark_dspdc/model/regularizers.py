"""Regularisers g: value, conjugate, and the two maps that methods need.

``g(x) = sum_j g_j(x_j)`` is lam-strongly convex. To add one: a
NamedTuple, the functions below registered for it. `PSDFrobenius`, whose
blocks are matrices, is an ordinary class: its steps are eigendecompositions,
which need no compiling.
"""

import copy
import math
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic, index
from ..engine.kernel_cache import njit
from ..engine.psd_projection import Projector, is_psd
from ..engine.symmetric import pack, unpack


class ElasticNet(NamedTuple):
    """g(x) = lambda1 |x|_1 + (lambda2/2) |x|^2."""

    lambda1: float
    lambda2: float

    def moduli(self, p):
        """The modulus of strong convexity of each coordinate."""
        return np.full(p, self.lambda2)

    def augmented(self, kappa):
        """g + (kappa/2)|x|^2."""
        return self._replace(lambda2=self.lambda2 + kappa)

    def for_steps(self, moduli):
        """See `PSDFrobenius.for_steps`; here all coordinates are alike."""
        return self, None

    def miniature(self, operator):
        """The regulariser for an operator that is only there to compile for."""
        return self


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
def pair_primal_step(reg, order, lo, hi, u, v, factor, weights, moved, n, of_u, of_v, buffer):
    """Accelerated steps of the coordinates ``order[lo:hi]``.

    With z = v - factor u, zbar = v + factor u, and (moved/2)|x|^2 taken out of
    g, the new x minimises  g(x) - (moved/2)|x|^2 + (weight/2)|x - z|^2
    + <x, buffer/n + moved zbar>.  u and v move by of_u and of_v times the
    change x - z, which the buffer holds on return. Returns the number of
    eigendecompositions done.
    """


@generic
def conjugate_point(reg, w, out):
    """out = grad g*(w), the primal point that a dual point gives."""


@generic
def conjugate_blocks(reg, blocks, w):
    """Replace w by grad g_j*(w_j), for some blocks; only for regularisers of matrices.

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


# Many proximal steps at once ------------------------------------------------------------

class Coasting(NamedTuple):
    """For k steps with a constant gradient: powers of the factor a = 1/(1 + tau lam).

    Attributes
    ----------
    fine, coarse : ndarray of shape (TABLE, 2)
        For k steps, and for k TABLE steps: a^k and the sum over i <= k of
        tau a^i = (1 - a^k)/lam.
    fine_sums, coarse_sums : ndarray of shape (TABLE,)
        The sums over i <= k of the latter.
    rate : float
        -log(a).
    tau, lam : float
    """

    fine: np.ndarray
    coarse: np.ndarray
    fine_sums: np.ndarray
    coarse_sums: np.ndarray
    rate: float
    tau: float
    lam: float


#: Powers are looked up for up to the square of this many steps, and computed for more. Both
#: tables together take a quarter of a first-level cache.
TABLE = 256


def coasting(tau, lam):
    """`Coasting` for steps of size tau."""
    rate = float(np.log1p(tau * lam))

    def table(steps):
        return np.stack([np.exp(-rate * steps), -np.expm1(-rate * steps) / lam], axis=1)

    counts = np.arange(TABLE)
    fine, coarse = table(counts), table(TABLE * counts)
    fine_sums = np.cumsum(fine[:, 1])
    # TABLE more steps after the first k TABLE, by the addition formula of `sum_of_sums`.
    more = TABLE * coarse[:-1, 1] + coarse[:-1, 0] * (fine_sums[-1] + coarse[1, 1])
    coarse_sums = np.concatenate([[0.0], np.cumsum(more)])
    return Coasting(fine, coarse, fine_sums, coarse_sums, rate, tau, lam)


@njit(cache=False)
def _computed_powers(coasting, k):
    return math.exp(-coasting.rate * k), -math.expm1(-coasting.rate * k) / coasting.lam


@njit(inline=True)
def powers_of(coasting, k):
    """a^k and (1 - a^k)/lam."""
    if k >= TABLE * TABLE:
        return _computed_powers(coasting, k)
    many, few = np.uint64(k) // np.uint64(TABLE), np.uint64(k) % np.uint64(TABLE)
    power = coasting.coarse[many, 0]
    return (
        power * coasting.fine[few, 0], coasting.coarse[many, 1] + power * coasting.fine[few, 1]
    )


@njit(inline=True)
def sum_of_sums(coasting, k):
    """The sum over i <= k of (1 - a^i)/lam."""
    if k < TABLE * TABLE:
        many, few = k // TABLE, k % TABLE
        return (
            coasting.coarse_sums[many] + few * coasting.coarse[many, 1]
            + coasting.coarse[many, 0] * coasting.fine_sums[few]
        )
    return _computed_sum_of_sums(coasting, k)


@njit(cache=False)
def _computed_sum_of_sums(coasting, k):
    if coasting.rate * k > 0.1:
        sums = -math.expm1(-coasting.rate * k) / coasting.lam
        return (k - sums / coasting.tau) / coasting.lam
    # There the difference cancels; with b = 1 - a it is the sum over i of
    # (-1)^(i-1) b^i binomial(k + 1, i + 1), of which ten terms are enough.
    b = -math.expm1(-coasting.rate)
    term = 0.5 * b * k * (k + 1.0)
    total = term
    for i in range(1, 10):
        term *= -b * (k - i) / (i + 2.0)
        total += term
    return total / coasting.lam


@njit(inline=True)
def steps_to_zero(coasting, x, drift):
    """The steps that x takes before the one across zero."""
    return np.int64(math.log1p(coasting.lam * x / drift) / coasting.rate)


@generic
def reg_phase(reg, coasting, x, gradient, steps):
    """How the coordinate x moves under proximal steps with a constant gradient.

    Returns
    -------
    k : int
        At most `steps`: for k steps x_i = a^i x - drift (1 - a^i)/lam. If 0,
        the next step is to be taken by itself.
    drift : float
    """


@generic
def reg_outlook(reg, power, sums, x, gradient):
    """What becomes of x in k steps, of which `powers_of` are given.

    Returns
    -------
    outlook : {ONE_PHASE, TO_ZERO, SEVERAL}
        x_i = a^i x - drift (1 - a^i)/lam in all the steps; or until x is zero, where
        it stays; or neither.
    drift : float
    """


ONE_PHASE, TO_ZERO, SEVERAL = range(3)


@njit(inline=True)
def coast(reg, coasting, x, gradient, steps):
    """x after some steps  x = prox(x - tau gradient)."""
    power, sums = powers_of(coasting, steps)
    outlook, drift = reg_outlook(reg, power, sums, x, gradient)
    if outlook == ONE_PHASE:
        return power * x - sums * drift
    if outlook == TO_ZERO:
        return 0.0
    return _coast_in_phases(reg, coasting, x, gradient, steps)


@njit(inline=True)
def coast_and_add(reg, coasting, x, gradient, steps):
    """x after some steps, and the sum of all the values on the way, the last one included."""
    power, sums = powers_of(coasting, steps)
    outlook, drift = reg_outlook(reg, power, sums, x, gradient)
    if outlook == SEVERAL:
        return _coast_and_add_in_phases(reg, coasting, x, gradient, steps)
    end = power * x - sums * drift
    if outlook == TO_ZERO:
        end = 0.0
        steps = min(steps - 1, steps_to_zero(coasting, x, drift))
        power, sums = powers_of(coasting, steps)
    return end, x * (sums / coasting.tau) - drift * sum_of_sums(coasting, steps)


# Rarely needed, and kept out of the loops that would need it.

@njit(cache=False)
def _coast_in_phases(reg, coasting, x, gradient, steps):
    return _coast_and_add_in_phases(reg, coasting, x, gradient, steps)[0]


@njit(cache=False)
def _coast_and_add_in_phases(reg, coasting, x, gradient, steps):
    left = steps
    added = 0.0
    while left > 0:
        k, drift = reg_phase(reg, coasting, x, gradient, left)
        if k == 0:
            x = reg_prox(reg, x - coasting.tau * gradient, coasting.tau)
            added += x
            left -= 1
        else:
            power, sums = powers_of(coasting, k)
            added += x * (sums / coasting.tau) - drift * sum_of_sums(coasting, k)
            x = power * x - sums * drift
            left -= k
    return x, added


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


@reg_outlook.register(ElasticNet)
def _(reg, power, sums, x, gradient):
    if reg.lambda1 == 0.0:
        return ONE_PHASE, gradient
    if x == 0.0:
        if abs(gradient) <= reg.lambda1:
            return ONE_PHASE, 0.0
        # Away from zero, for ever.
        return ONE_PHASE, gradient + (reg.lambda1 if gradient < 0.0 else -reg.lambda1)
    drift = gradient + (reg.lambda1 if x > 0.0 else -reg.lambda1)
    end = power * x - sums * drift
    # On its way x does not turn round, so it keeps its sign if it has it at the end, or if
    # nothing but the l2 term draws it to zero.
    if (drift <= 0.0 or end > 0.0) if x > 0.0 else (drift >= 0.0 or end < 0.0):
        return ONE_PHASE, drift
    return (TO_ZERO if abs(gradient) <= reg.lambda1 else SEVERAL), drift


@reg_phase.register(ElasticNet)
def _(reg, coasting, x, gradient, steps):
    power, sums = powers_of(coasting, steps)
    outlook, drift = reg_outlook(reg, power, sums, x, gradient)
    if outlook == ONE_PHASE:
        return steps, drift
    # The one across is taken by itself.
    return min(steps - 1, steps_to_zero(coasting, x, drift)), drift


@primal_step.register(ElasticNet)
def _(reg, order, lo, hi, x, tau, tau_over_n, buffer):
    for k in range(lo, hi):
        j = index(order, k)
        new = reg_prox(reg, x[j] - tau_over_n * buffer[k - lo], tau)
        buffer[k - lo] = new - x[j]
        x[j] = new
    return 0


@pair_primal_step.register(ElasticNet)
def _(reg, order, lo, hi, u, v, factor, weights, moved, n, of_u, of_v, buffer):
    for k in range(lo, hi):
        j = index(order, k)
        z = v[j] - factor * u[j]
        tau = 1.0 / max(weights[j] - moved[j], 1e-15 * moved[j])
        gradient = buffer[k - lo] / n + 2.0 * moved[j] * factor * u[j]
        change = reg_prox(reg, z - tau * gradient, tau) - z
        buffer[k - lo] = change
        u[j] += of_u * change
        v[j] += of_v * change
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


@conjugate_point.register(ElasticNet)
def _(reg, w, out):
    for j in range(w.shape[0]):
        out[j] = reg_conjugate_gradient(reg, w[j])


# Matrices ---------------------------------------------------------------------------------

class PSDFrobenius:
    """g(X) = sum_j (lam_j/2) |X_j - X0_j|_F^2 + <C_j, X_j>, each X_j positive semi-definite.

    Parameters
    ----------
    lam : ndarray of shape (p,)
    d : int
        Order of the matrices.
    centre, linear : ndarray of shape (p, d, d) or None
        X0 and C; None is zero. (The papers' linear term <C, X>/n has its 1/n in C here.)

    Notes
    -----
    With M = W + lam X0 - C the conjugate is |Pi_+(M)|^2/(2 lam) - (lam/2)|X0|^2
    and its gradient Pi_+(M)/lam, where Pi_+ sets the negative eigenvalues to zero.
    """

    #: A matrix counts as positive semi-definite if it is after adding to the
    #: diagonal this much of its norm, or of the norm at which its term of g is 1/2.
    TOLERANCE = 1e-11

    #: Matrices that a certificate makes copies of at a time.
    TOGETHER = 8

    def __init__(self, lam, d, centre=None, linear=None):
        self.lam = np.asarray(lam, dtype=np.float64)
        self.d = d
        self.shift = None
        self.constant = 0.0
        if centre is not None or linear is not None:
            self.shift = np.zeros((len(self.lam), d, d))
            if centre is not None:
                self.shift += self.lam[:, None, None] * centre
                self.constant = float(0.5 * self.lam @ np.einsum("jkl,jkl->j", centre, centre))
            if linear is not None:
                self.shift -= linear
        self.weights = self.lam.min() / self.lam
        self._projector = Projector(len(self.lam), d)
        self._known = []

    def __repr__(self):
        low, high = self.lam.min(), self.lam.max()
        shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"PSDFrobenius(p={len(self.lam)}, d={self.d}, lam={shown})"

    def for_steps(self, moduli):
        """The regulariser for one run of a method, which shares no memory with others.

        Parameters
        ----------
        moduli : {"each", "least"}
            Steps by each block's own lam_j, or by the least of them for all.

        Returns
        -------
        reg : PSDFrobenius
        weights : ndarray of shape (p,)
            w_j = lam/lam_j, for the operator's norms.
        """
        other = copy.copy(self)
        if moduli == "least":
            other.weights = np.ones(len(self.lam))
        other._projector = Projector(len(self.lam), self.d)
        other._known = []
        return other, other.weights

    def moduli(self, p):
        """The modulus of each block that steps are made for."""
        return self.lam.min() / self.weights

    def augmented(self, kappa):
        """g + (kappa/2)|X|^2."""
        other, _ = self.for_steps("each")
        other.lam = self.lam + kappa
        other.weights = other.lam.min() / other.lam
        if np.all(self.weights == 1.0):
            other.weights = self.weights
        return other

    def miniature(self, operator):
        """A regulariser of the same kind for a tiny operator."""
        p, d, _ = operator.x_shape
        some = None if self.shift is None else np.zeros((p, d, d))
        return PSDFrobenius(np.full(p, self.lam.min()), d, some, some)

    def __getstate__(self):
        return vars(self) | {"_known": []}

    def projected(self, w):
        """Pi_+(M) for all blocks, packed; blocks given in the last two calls are known.

        The result depends on w alone, never on what was projected before. w is
        packed or written out; the result must not be changed.
        """
        packed = w if w.ndim == 2 else pack(w)
        # Blocks are recognised by a digest, which takes no memory.
        given = np.array([blake2b(block, digest_size=16).digest() for block in packed])
        for known, result in self._known:
            if np.array_equal(known, given):
                return result
        out = np.empty_like(packed)
        todo = np.ones(len(w), dtype=bool)
        for known, result in self._known:
            same = todo & (known == given)
            out[same] = result[same]
            todo &= ~same
        projector = Projector(len(w), self.d)
        blocks = np.flatnonzero(todo)
        for k in range(0, len(blocks), self.TOGETHER):
            some = blocks[k:k + self.TOGETHER]
            matrices = unpack(packed[some], self.d)
            if self.shift is not None:
                matrices += self.shift[some]
            projector.project(some, matrices)
            out[some] = pack(matrices)
        self._known = [(given, out)] + self._known[:1]
        return out


@reg_modulus.register(PSDFrobenius)
def _(reg):
    return float(reg.lam.min())


@reg_value.register(PSDFrobenius)
def _(reg, x):
    least = 1.0 / np.sqrt(reg.lam)
    for k in range(0, len(x), reg.TOGETHER):
        some = slice(k, k + reg.TOGETHER)
        if not is_psd(x[some], reg.TOLERANCE, least[some]).all():
            return np.inf
    value = 0.5 * reg.lam @ np.einsum("jkl,jkl->j", x, x) + reg.constant
    if reg.shift is not None:
        # Not by BLAS, which would add up in another order on several threads.
        value -= np.einsum("jkl,jkl->j", reg.shift, x).sum()
    return float(value)


@reg_conjugate.register(PSDFrobenius)
def _(reg, w):
    if not np.isfinite(w).all():
        return np.inf
    projected = reg.projected(w)
    squares = np.einsum("jk,jk->j", projected, projected)
    return float(np.sum(squares / (2.0 * reg.lam)) - reg.constant)


@conjugate_point.register(PSDFrobenius)
def _(reg, w, out):
    unpack(reg.projected(w), reg.d, out)
    out /= reg.lam[:, None, None]


@conjugate_blocks.register(PSDFrobenius)
def _(reg, blocks, w):
    if reg.shift is not None:
        w += reg.shift[blocks]
    done = reg._projector.project(blocks, w)
    w /= reg.lam[blocks, None, None]
    return done


@pair_primal_step.register(PSDFrobenius)
def _(reg, order, lo, hi, u, v, factor, weights, moved, n, of_u, of_v, buffer):
    blocks = order[lo:hi]
    penalty = (weights - moved)[blocks, None, None]
    z = v[blocks] - factor * u[blocks]
    matrices = penalty * z - buffer[:hi - lo] / n - (2.0 * factor) * (
        moved[blocks, None, None] * u[blocks]
    )
    if reg.shift is not None:
        matrices += reg.shift[blocks]
    matrices /= penalty + reg.lam[blocks, None, None]
    done = reg._projector.project(blocks, matrices)
    matrices -= z
    buffer[:hi - lo] = matrices
    u[blocks] += of_u * matrices
    v[blocks] += of_v * matrices
    return done


@primal_step.register(PSDFrobenius)
def _(reg, order, lo, hi, x, tau, tau_over_n, buffer):
    blocks = np.arange(lo, hi) if order is None else order[lo:hi]
    matrices = buffer[:hi - lo]
    _before_projection(blocks, x, tau, tau_over_n, reg.lam, reg.weights, reg.shift, matrices)
    done = reg._projector.project(blocks, matrices)
    _after_projection(blocks, x, matrices)
    return done


@njit(nogil=True)
def _before_projection(blocks, x, tau, tau_over_n, lam, weights, shift, buffer):
    """(X_j - (tau_j/n) B_j + tau_j shift_j)/(1 + tau_j lam_j), with tau_j = tau w_j."""
    for k in range(blocks.shape[0]):
        j = blocks[k]
        step = tau * weights[j]
        factor = 1.0 / (1.0 + step * lam[j])
        for a in range(x.shape[1]):
            for c in range(x.shape[2]):
                value = x[j, a, c] - tau_over_n * weights[j] * buffer[k, a, c]
                if shift is not None:
                    value += step * shift[j, a, c]
                buffer[k, a, c] = factor * value


@njit(nogil=True)
def _after_projection(blocks, x, buffer):
    for k in range(blocks.shape[0]):
        j = blocks[k]
        for a in range(x.shape[1]):
            for c in range(x.shape[2]):
                new = buffer[k, a, c]
                buffer[k, a, c] = new - x[j, a, c]
                x[j, a, c] = new

"""Positive semi-definite matrices with a squared Frobenius norm, the paper's section 5."""

import copy
from hashlib import blake2b

import numpy as np

from ...engine.dispatch import entry
from ...engine.kernel_cache import njit
from ...engine.psd_projection import Projector, is_psd
from ...engine.symmetric import pack, unpack
from .regularizer import (
    augmented,
    conjugate_blocks,
    conjugate_point,
    for_steps,
    miniature,
    moduli_of,
    pair_primal_step,
    primal_step,
    reg_conjugate,
    reg_modulus,
    reg_value,
)
from .tilted import tilted


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

    def with_lam(self, lam):
        """The same with other constants, but for blocks with a centre, which must keep theirs."""
        other = self.of_a_run("each")
        other.lam, other.weights = lam, lam.min() / lam
        return other

    def of_a_run(self, moduli):
        """The same for one run of a method, which shares no memory with others."""
        other = copy.copy(self)
        if moduli == "least":
            other.weights = np.ones(len(self.lam))
        other._projector = Projector(len(self.lam), self.d)
        other._known = []
        return other

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
def psd_modulus(reg):
    return float(reg.lam.min())


@reg_value.register(PSDFrobenius)
def psd_value(reg, x):
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
def psd_conjugate(reg, w):
    if not np.isfinite(w).all():
        return np.inf
    projected = reg.projected(w)
    squares = np.einsum("jk,jk->j", projected, projected)
    return float(np.sum(squares / (2.0 * reg.lam)) - reg.constant)


@conjugate_point.register(PSDFrobenius)
def psd_conjugate_point(reg, w, out):
    unpack(reg.projected(w), reg.d, out)
    out /= reg.lam[:, None, None]


@conjugate_blocks.register(PSDFrobenius)
def psd_conjugate_blocks(reg, blocks, w):
    if reg.shift is not None:
        w += reg.shift[blocks]
    done = reg._projector.project(blocks, w)
    w /= reg.lam[blocks, None, None]
    return done


@pair_primal_step.register(PSDFrobenius)
def psd_pair_step(reg, order, lo, hi, point, weights, moved, factor, of_u, of_v):
    u, v, buffer, n = point.u, point.v, point.buffer, len(point.b)
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
def psd_primal_step(reg, order, lo, hi, x, tau, tau_over_n, buffer):
    blocks = np.arange(lo, hi) if order is None else order[lo:hi]
    matrices = buffer[:hi - lo]
    _before_projection(blocks, x, tau, tau_over_n, reg.lam, reg.weights, reg.shift, matrices)
    done = reg._projector.project(blocks, matrices)
    _after_projection(blocks, x, matrices)
    return done


@njit(nogil=True)
def _before_projection(blocks, x, tau, tau_over_n, lam, weights, shift, buffer):
    """(X_j - (tau_j/n) B_j + tau_j shift_j)/(1 + tau_j lam_j), tau_j = tau w_j or of its own."""
    for k in range(blocks.shape[0]):
        j = blocks[k]
        step = entry(tau, j) * weights[j]
        factor = 1.0 / (1.0 + step * lam[j])
        for a in range(x.shape[1]):
            for c in range(x.shape[2]):
                value = x[j, a, c] - entry(tau_over_n, j) * weights[j] * buffer[k, a, c]
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


@moduli_of.register(PSDFrobenius)
def psd_moduli(reg, p):
    return reg.lam.min() / reg.weights


@augmented.register(PSDFrobenius)
def psd_augmented(reg, kappa):
    other = reg.of_a_run("each")
    other.lam = reg.lam + kappa
    other.weights = other.lam.min() / other.lam
    if np.all(reg.weights == 1.0):
        other.weights = reg.weights
    return other


@tilted.register(PSDFrobenius)
def psd_tilted(reg, shape):
    other = copy.copy(reg)
    other.shift = np.zeros(shape) if reg.shift is None else reg.shift.copy()
    other._projector = Projector(len(reg.lam), reg.d)
    other._known = []
    return other


for_steps.register(PSDFrobenius)(PSDFrobenius.of_a_run)


@miniature.register(PSDFrobenius)
def psd_miniature(reg, operator):
    p, d, _ = operator.x_shape
    some = None if reg.shift is None else np.zeros((p, d, d))
    return PSDFrobenius(np.full(p, reg.lam.min()), d, some, some)

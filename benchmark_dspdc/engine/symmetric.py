"""Packed symmetric matrices: half the memory, and the inner product stays a dot product.

The packed form of a symmetric ``d x d`` matrix is its lower triangle row by row, the entries off
the diagonal times ``sqrt(2)``. It has ``t = d (d + 1) / 2`` entries, and ``<A, B>``, the sum of
``A_kl B_kl``, is the dot product of the packed forms.
"""

import numpy as np

from .checks import check_buffer, check_int
from .dispatch import index
from .kernel_cache import njit

__all__ = ["diagonal", "pack", "packed_length", "unpack"]

# Square tiles, so that the transposed side of a tile stays in the cache. Of 8, 16, 32 and 64 the
# last was fastest at d = 128 and 200 (AVX2, November 2026).
TILE = 64
HALF_ROOT = float(np.sqrt(0.5))
ROOT = float(np.sqrt(2.0))


def packed_length(d):
    """Length ``d (d + 1) / 2`` of the packed form."""
    return d * (d + 1) // 2


def diagonal(d):
    """Positions of the diagonal in the packed form, shape ``(d,)``."""
    k = np.arange(d)
    return k * (k + 3) // 2


def pack(matrices, out=None):
    """Symmetrise matrices and pack them.

    Parameters
    ----------
    matrices : array_like of shape (..., d, d)
        Square matrices; of each, ``(D + D') / 2`` is packed. Not modified.
    out : ndarray of shape (..., t), optional
        Where to write, ``t = d (d + 1) / 2``; else a new array is made.
    """
    matrices = np.ascontiguousarray(matrices, dtype=np.float64)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2] or not matrices.shape[-1]:
        raise ValueError(
            f"matrices must be square, of shape (..., d, d), got shape {matrices.shape}"
        )
    d = matrices.shape[-1]
    out = _prepare(out, (*matrices.shape[:-2], packed_length(d)))
    _pack(matrices.reshape(-1, d, d), out.reshape(-1, packed_length(d)))
    return out


def unpack(packed, d, out=None):
    """Write packed matrices out; they are exactly symmetric.

    Parameters
    ----------
    packed : array_like of shape (..., t)
        Packed matrices, ``t = d (d + 1) / 2``. Not modified.
    d : int
        Order of the matrices.
    out : ndarray of shape (..., d, d), optional
        Where to write; else a new array is made.
    """
    d = check_int(d, "d")
    packed = np.ascontiguousarray(packed, dtype=np.float64)
    if packed.ndim < 1 or packed.shape[-1] != packed_length(d):
        raise ValueError(
            f"packed must have shape (..., {packed_length(d)}) for d={d}, got shape {packed.shape}"
        )
    out = _prepare(out, (*packed.shape[:-1], d, d))
    rows = packed.reshape(-1, packed_length(d))
    unpack_sum(None, rows, None, 0.0, None, out.reshape(-1, d, d))
    return out


def _prepare(out, shape):
    if out is None:
        return np.empty(shape)
    check_buffer(out, shape, "out")
    return out


@njit
def _pack(matrices, packed):
    d = matrices.shape[1]
    for batch in range(matrices.shape[0]):
        b = index(None, batch)
        for top in range(0, d, TILE):
            for left in range(0, top + 1, TILE):
                for k in range(top, min(top + TILE, d)):
                    row = index(None, k)
                    start = k * (k + 1) // 2
                    for l in range(left, min(left + TILE, k)):
                        column = index(None, l)
                        packed[b, index(None, start + l)] = HALF_ROOT * (
                            matrices[b, row, column] + matrices[b, column, row]
                        )
        for k in range(d):
            packed[b, k * (k + 3) // 2] = matrices[b, k, k]


@njit(nogil=True)
def pack_step(columns, x, dx, factor, packed):
    """Block j of `packed` = x_j + factor dx_k for column k, or x_j if dx is None.

    The matrices are exactly symmetric; their lower triangles are read.
    """
    d = x.shape[1]
    for k in range(columns.shape[0]):
        j = columns[k]
        for a in range(d):
            start = a * (a + 1) // 2
            if dx is None:
                for c in range(a):
                    packed[j, start + c] = ROOT * x[j, a, c]
                packed[j, start + a] = x[j, a, a]
            else:
                for c in range(a):
                    packed[j, start + c] = ROOT * (x[j, a, c] + factor * dx[k, a, c])
                packed[j, start + a] = x[j, a, a] + factor * dx[k, a, a]


@njit(inline=True)
def _sum(w, dw, step, j, k):
    value = w[j, index(None, k)]
    if dw is not None:
        if step != 0.0:
            value += step * dw[j, index(None, k)]
    return value


@njit(nogil=True)
def unpack_sum(columns, w, dw, factor, touched, out):
    """out_k = w_j + factor dw_j written out, for column k; dw counts where touched, if given."""
    d = out.shape[1]
    for b in range(out.shape[0]):
        j, matrix = index(columns, b), index(None, b)
        step = 0.0
        if dw is not None:
            if touched[j]:
                step = factor
        for top in range(0, d, TILE):
            bottom = min(top + TILE, d)
            for left in range(0, top + 1, TILE):
                # Either side of the diagonal on its own, so that both write along rows.
                for k in range(top, bottom):
                    row, start = index(None, k), k * (k + 1) // 2
                    for l in range(left, min(left + TILE, k)):
                        value = HALF_ROOT * _sum(w, dw, step, j, start + l)
                        out[matrix, row, index(None, l)] = value
                for l in range(left, min(left + TILE, bottom)):
                    row = index(None, l)
                    for k in range(max(top, l + 1), bottom):
                        value = HALF_ROOT * _sum(w, dw, step, j, k * (k + 1) // 2 + l)
                        out[matrix, row, index(None, k)] = value
        for k in range(d):
            out[matrix, k, k] = _sum(w, dw, step, j, k * (k + 3) // 2)

"""The papers' pseudo-code in plain NumPy, to compare the kernels with.

Nothing here comes from the package but the random blocks, which are given as
lists of index arrays; losses, proxes and step sizes are written out again.
"""

import numpy as np
from scipy.optimize import brentq


def dual_step(loss, z, b, y, rho):
    """argmax over beta of z beta - phi*(beta) - (rho/2)(beta - y)^2, slowly."""
    if loss == "square":
        return (z - b + rho * y) / (1 + rho)
    if loss == "smoothed_hinge":
        beta = (z - b + rho * y) / (1 + rho)      # b^2 = 1
        return b * np.clip(b * beta, -1, 0)

    def slope(s):
        return -b * z - np.log(s) + np.log1p(-s) - rho * (s + b * y)
    s = brentq(slope, 1e-300, 1 - 1e-16, xtol=1e-300, rtol=1e-15, maxiter=500)
    return -b * s


def primal_step(c, tau, lambda1, lambda2):
    return np.sign(c) * np.maximum(np.abs(c) - tau * lambda1, 0) / (1 + tau * lambda2)


def remark_1(n, p, m, q, Lambda, lam, gamma, theorem):
    """tau, sigma and theta as printed, with real m and q."""
    a, c = n / m, p / q
    root = np.sqrt((a - c) ** 2 + 4 * (n * p) ** 2 * Lambda / ((m * q) ** 2 * n * lam * gamma))
    tau = p / (q * lam) / ((a - c) + root)
    sigma = n ** 2 / (m * gamma) / ((c - a) + root)
    theta = c - c / (theorem * (np.sqrt(Lambda / (lam * gamma * n)) * a * c + max(a, c)))
    return tau, sigma, theta


def algorithm_1(A, b, loss, lambda1, lambda2, tau, sigma, theta, boost, blocks):
    """DSPDC as in the paper: every vector is formed, nothing is kept."""
    n, p = A.shape
    x, y, xbar = np.zeros(p), np.zeros(n), np.zeros(p)
    for I, J in blocks:
        new_y = y.copy()
        for i in I:
            new_y[i] = dual_step(loss, A[i] @ xbar, b[i], y[i], n / sigma)
        ybar = y + boost * (new_y - y)
        new_x = x.copy()
        new_x[J] = primal_step(x[J] - tau / n * (A[:, J].T @ ybar), tau, lambda1, lambda2)
        xbar = x + (theta + 1) * (new_x - x)
        x, y = new_x, new_y
    return x, y


def algorithm_2(U, V, b, loss, lambda1, lambda2, tau, sigma, theta, boost, blocks):
    """DSPDC for factorised data (with <V^j, ubar> where the paper's text has vbar)."""
    n, p = len(U), V.shape[1]
    x, y = np.zeros(p), np.zeros(n)
    u, v, vbar = U.T @ y, V @ x, V @ x
    for I, J in blocks:
        new_y = y.copy()
        for i in I:
            new_y[i] = dual_step(loss, U[i] @ vbar, b[i], y[i], n / sigma)
        du = U.T @ (new_y - y)
        ubar = u + boost * du
        u = u + du
        new_x = x.copy()
        new_x[J] = primal_step(x[J] - tau / n * (V[:, J].T @ ubar), tau, lambda1, lambda2)
        dv = V @ (new_x - x)
        vbar = v + (theta + 1) * dv
        v = v + dv
        x, y = new_x, new_y
    return x, y


def spdc(A, b, loss, lambda1, lambda2, gamma, batches):
    """Mini-batch SPDC, Zhang & Xiao 2015, Algorithm 2 with their Theorem 1's parameters.

    Their problem has no 1/n before the dual step and keeps u = A'y/n.
    """
    n, p = A.shape
    m = len(batches[0])
    R = np.linalg.norm(A, axis=1).max()
    tau = np.sqrt(m * gamma / (n * lambda2)) / (2 * R)
    sigma = np.sqrt(n * lambda2 / (m * gamma)) / (2 * R)
    theta = 1 - 1 / (n / m + R * np.sqrt(n / (m * lambda2 * gamma)))
    x, y, xbar, u = np.zeros(p), np.zeros(n), np.zeros(p), np.zeros(p)
    for K in batches:
        change = np.zeros(p)
        for k in K:
            new = dual_step(loss, A[k] @ xbar, b[k], y[k], 1 / sigma)
            change += (new - y[k]) * A[k]
            y[k] = new
        new_x = primal_step(x - tau * (u + change / m), tau, lambda1, lambda2)
        u = u + change / n
        xbar = new_x + theta * (new_x - x)
        x = new_x
    return x, y


def prox_sdca(A, b, loss, lambda1, lambda2, batches, scale_of):
    """Prox-SDCA, Shalev-Shwartz & Zhang; `scale_of(K)` holds a mini-batch back."""
    n = len(A)
    y = np.zeros(n)

    def primal(y):
        w = -A.T @ y / n
        return np.sign(w) * np.maximum(np.abs(w) - lambda1, 0) / lambda2

    for K in batches:
        x = primal(y)
        for k in K:
            rho = scale_of(K) * (A[k] @ A[k]) / (lambda2 * n)
            y[k] = dual_step(loss, A[k] @ x, b[k], y[k], rho)
    return primal(y), y

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


def algorithm_1(A, b, loss, lambda1, lambda2, tau, sigma, theta, boost, blocks, start=None):
    """DSPDC as in the paper: every vector is formed, nothing is kept.

    tau and sigma are numbers, or one for each primal and each dual coordinate.
    """
    n, p = A.shape
    taus, sigmas = np.broadcast_to(tau, p), np.broadcast_to(sigma, n)
    x, y = (np.zeros(p), np.zeros(n)) if start is None else start
    xbar = x
    for I, J in blocks:
        new_y = y.copy()
        for i in I:
            new_y[i] = dual_step(loss, A[i] @ xbar, b[i], y[i], n / sigmas[i])
        ybar = y + boost * (new_y - y)
        new_x = x.copy()
        gradient = A[:, J].T @ ybar / n
        new_x[J] = primal_step(x[J] - taus[J] * gradient, taus[J], lambda1, lambda2)
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


# Matrices -------------------------------------------------------------------------------
#
# D has shape (n, p, d, d) and X shape (p, d, d); <D_i, X> is the sum over all entries.
# g_j(X) = (lam_j/2) |X - centre_j|^2 + <linear_j, X> on the cone.

def positive_part(M):
    """The projection on the cone of positive semi-definite matrices."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def matrix_step(C, tau, lam, centre, linear):
    """argmin over Q in the cone of g_j(Q) + |Q - C|^2/(2 tau)."""
    return positive_part((C / tau + lam * centre - linear) / (1 / tau + lam))


def matrix_algorithm_1(D, b, loss, lam, centre, linear, taus, sigma, theta, boost, blocks,
                       start=None):
    """DSPDC with matrices for coordinates and a primal step for each of them.

    sigma is a number, or one for each dual coordinate.
    """
    n, p, d, _ = D.shape
    sigmas = np.broadcast_to(sigma, n)
    X, y = (np.zeros((p, d, d)), np.zeros(n)) if start is None else start
    Xbar = X
    for I, J in blocks:
        new_y = y.copy()
        for i in I:
            new_y[i] = dual_step(loss, np.sum(D[i] * Xbar), b[i], y[i], n / sigmas[i])
        ybar = y + boost * (new_y - y)
        new_X = X.copy()
        for j in J:
            product = sum(ybar[i] * D[i, j] for i in range(n))
            new_X[j] = matrix_step(
                X[j] - taus[j] / n * product, taus[j], lam[j], centre[j], linear[j]
            )
        Xbar = X + (theta + 1) * (new_X - X)
        X, y = new_X, new_y
    return X, y


def clipped_algorithm_1(A, b, loss, lam, taus, sigma, theta, boost, blocks):
    """DSPDC on numbers x >= 0 with g_j(x) = lam_j x^2/2."""
    n, p = A.shape
    x, y, xbar = np.zeros(p), np.zeros(n), np.zeros(p)
    for I, J in blocks:
        new_y = y.copy()
        for i in I:
            new_y[i] = dual_step(loss, A[i] @ xbar, b[i], y[i], n / sigma)
        ybar = y + boost * (new_y - y)
        new_x = x.copy()
        gradient = A.T @ ybar / n
        new_x[J] = np.maximum((x - taus * gradient) / (1 + taus * lam), 0)[J]
        xbar = x + (theta + 1) * (new_x - x)
        x, y = new_x, new_y
    return x, y


def mt_lmnn_triplets(points, labels, tasks, n_neighbors, n_impostors):
    """The sets N_j and S_j of the paper: lists of (j, u, v) and of (j, u, v, w), j from 1 on."""
    pairs, triples = [], []
    for j, task in enumerate(sorted(set(tasks)), 1):
        members = [u for u in range(len(points)) if tasks[u] == task]
        for u in members:
            def distance(v, u=u):
                return np.sum((points[u] - points[v]) ** 2)
            same = [v for v in members if v != u and labels[v] == labels[u]]
            other = [w for w in members if labels[w] != labels[u]]
            for v in sorted(same, key=distance)[:n_neighbors]:
                pairs.append((j, u, v))
                for w in sorted(other, key=distance)[:n_impostors]:
                    triples.append((j, u, v, w))
    return pairs, triples


def mt_lmnn_matrices(points, pairs, triples, n_tasks):
    """Z_i, T(i), and C_j for j = 0, ..., p."""
    def outer(u, v):
        return np.outer(points[u] - points[v], points[u] - points[v])
    d = points.shape[1]
    Z = np.array([outer(u, w) - outer(u, v) for _, u, v, w in triples])
    T = np.array([j for j, *_ in triples])
    C = np.zeros((n_tasks + 1, d, d))
    for j, u, v in pairs:
        C[j] += outer(u, v)
    C[0] = C[1:].sum(axis=0)
    return Z, T, C


def algorithm_3(Z, T, C, loss, lambda0, lam, taus, sigma, theta, boost, blocks):
    """DSPDC customised for MT-LMNN (W_0 sums over all tasks, which the paper misprints)."""
    n, d, _ = Z.shape
    n_tasks = len(C) - 1
    lams = np.array([lambda0] + [lam] * n_tasks)
    centre = np.zeros((n_tasks + 1, d, d))
    centre[0] = np.eye(d)
    X, Xbar, y = np.zeros_like(C), np.zeros_like(C), np.zeros(n)
    W, B = np.zeros_like(C), np.zeros_like(C)
    for I, J in blocks:
        new_y = y.copy()
        for i in I:
            z = np.sum(Z[i] * (Xbar[T[i]] + Xbar[0]))
            new_y[i] = dual_step(loss, z, 1.0, y[i], n / sigma)
        new_B = np.zeros_like(C)
        for i in I:
            new_B[T[i]] += (new_y[i] - y[i]) * Z[i]
        W[1:] = W[1:] + boost * new_B[1:] + (1 - boost) * B[1:]
        W[0] = W[1:].sum(axis=0)
        new_X = X.copy()
        for j in J:
            new_X[j] = matrix_step(
                X[j] - taus[j] / n * W[j], taus[j], lams[j], centre[j], C[j] / n
            )
        Xbar = X + (theta + 1) * (new_X - X)
        X, y, B = new_X, new_y, new_B
    return X, y


def matrix_spdc(D, b, loss, lam, weights, centre, linear, gamma, batches):
    """SPDC on matrices: all moduli equal min(lam) after X_j -> X_j sqrt(weights_j)."""
    n, p, d, _ = D.shape
    m, least = len(batches[0]), min(lam)
    R = np.sqrt(max(sum(weights[j] * np.sum(D[i, j] ** 2) for j in range(p)) for i in range(n)))
    tau = np.sqrt(m * gamma / (n * least)) / (2 * R)
    sigma = np.sqrt(n * least / (m * gamma)) / (2 * R)
    theta = 1 - 1 / (n / m + R * np.sqrt(n / (m * least * gamma)))
    X, Xbar, U, y = np.zeros((p, d, d)), np.zeros((p, d, d)), np.zeros((p, d, d)), np.zeros(n)
    for K in batches:
        change = np.zeros((p, d, d))
        for k in K:
            new = dual_step(loss, np.sum(D[k] * Xbar), b[k], y[k], 1 / sigma)
            change += (new - y[k]) * D[k]
            y[k] = new
        new_X = np.array([
            matrix_step(
                X[j] - tau * weights[j] * (U[j] + change[j] / m), tau * weights[j], lam[j],
                centre[j], linear[j],
            ) for j in range(p)
        ])
        U = U + change / n
        Xbar = new_X + theta * (new_X - X)
        X = new_X
    return X, y


def matrix_sdca(D, b, loss, lam, divisors, centre, linear, batches, safe):
    """Mini-batch prox-SDCA on matrices, rho_i = (s/n) sum_j |D_i^j|^2/divisors_j.

    s is the norm of the batch's normalised Gram matrix, or its size if `safe`.
    """
    n, p = D.shape[:2]
    scaled = (D / np.sqrt(divisors)[:, None, None]).reshape(n, -1)
    norms = np.linalg.norm(scaled, axis=1)
    y = np.zeros(n)

    def primal(y):
        return np.array([
            positive_part(
                -sum(y[i] * D[i, j] for i in range(n)) / n + lam[j] * centre[j] - linear[j]
            ) / lam[j] for j in range(p)
        ])

    for K in batches:
        X = primal(y)
        rows = scaled[K] / norms[K, None]
        s = len(K) if safe else np.linalg.norm(rows @ rows.T, 2)
        for k in K:
            y[k] = dual_step(loss, np.sum(D[k] * X), b[k], y[k], s / n * norms[k] ** 2)
    return primal(y), y

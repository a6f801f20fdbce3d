"""Non-uniform sampling in plain NumPy, after docs/importance.md; nothing from the package."""

import numpy as np


def block_norms(A, dual, primal):
    return np.array([[np.linalg.norm(A[np.ix_(I, J)], 2) for J in primal] for I in dual])


def largest_weight(norms, K):
    """The largest t for which the numbers (1 + sqrt(1 + 4 K t norm^2))/(2K) sum to at most 1."""
    def total(t):
        return np.sum((1 + np.sqrt(1 + 4 * K * t * norms ** 2)) / (2 * K))
    low, high = 1e-30, 1e30
    for _ in range(65):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if total(middle) <= 1 else (low, middle)
    return low


def dspdc_parameters(norms, n, lam, gamma):
    """K, p, q, sigma and tau of the best of five majorants, by bisection on K."""
    found = []
    for power in (0, 0.25, 0.5, 0.75, 1):
        b = norms.max(axis=0) ** power
        a = (norms / b).max(axis=1)
        b = (norms / a[:, None]).max(axis=0) / np.sqrt(lam * gamma * n)
        low, high = max(len(a), len(b)), len(a) + len(b) + a.sum() * b.sum()
        for _ in range(55):
            K = (low + high) / 2
            enough = largest_weight(a, K) * largest_weight(b, K) >= 1
            low, high = (low, K) if enough else (K, high)
        t = largest_weight(a, high)
        p = (1 + np.sqrt(1 + 4 * high * t * a ** 2)) / (2 * high)
        q = (1 + np.sqrt(1 + 4 * high / t * b ** 2)) / (2 * high)
        found.append((high, p, q))
    K, p, q = min(found, key=lambda each: each[0])
    sigma = n / (2 * gamma * p * (K - 1 / p))
    tau = 1 / (2 * lam * q * (K - 1 / q))
    return K, p, q, sigma, tau


def spdc_parameters(norms, n, lam, gamma):
    """Zhang & Xiao's: R the mean row norm for single rows, alpha = 1/2."""
    R = norms.sum() / n
    p = 0.5 / len(norms) + 0.5 * norms / norms.sum()
    tau = np.sqrt(gamma / (n * lam)) / (4 * R)
    sigma = np.sqrt(n * lam / gamma) / (4 * R)
    K = 2 * len(norms) + 2 * R * np.sqrt(n / (lam * gamma))
    return K, p, np.ones(1), sigma / p, np.array([tau])


def by_coordinate(parameters, dual, primal):
    """tau and sigma of every coordinate, from those of its block."""
    *_, sigma, tau = parameters
    found = []
    for blocks, each in ((primal, tau), (dual, sigma)):
        found.append(np.empty(sum(map(len, blocks))))
        for block, value in zip(blocks, each, strict=True):
            found[-1][block] = value
    return found


def delta(A, lam, gamma, parameters, dual, primal, x, y, before, best_x, best_y):
    """Delta(t) of docs/importance.md."""
    _, p, q, sigma, tau = parameters
    n = len(A)
    dx = x - before
    value = 0.0
    for k, I in enumerate(dual):
        weight = (1 / sigma[k] / 2 + gamma / n) / p[k]
        value += weight * np.sum((y[I] - best_y[I]) ** 2)
    for l, J in enumerate(primal):
        value += (1 / tau[l] / 2 + lam) / q[l] * np.sum((x[J] - best_x[J]) ** 2)
        value += np.sum(dx[J] ** 2) / (4 * tau[l] * q[l])
        value += (A[:, J] @ dx[J]) @ (y - best_y) / (n * q[l])
    return value

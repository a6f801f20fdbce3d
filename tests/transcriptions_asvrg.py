"""ASVRG-SP in plain NumPy, to compare the kernel with.

As in Palaniappan & Bach: moduli lam of x and mu = gamma/n of y, K = A/n, the
operator B(x, y) = (K'y, -K x), and forward-backward steps with prox_M.
"""

import numpy as np
from transcriptions import dual_step, positive_part


def lipschitz2(A, lam, gamma, probabilities):
    """L^2 and Lbar^2: of B, and of the operator sampled with these probabilities."""
    n = len(A)
    K, mu = A / n, gamma / n
    second = np.divide(K ** 2, probabilities, out=np.zeros_like(K), where=probabilities > 0)
    largest = max(second.sum(axis=0).max(), second.sum(axis=1).max())
    return np.linalg.norm(K, 2) ** 2 / (lam * mu), largest / (lam * mu)


def step_size(L2, Lbar2, m, tau):
    """sigma of the problem whose moduli are 1 + tau times those of M."""
    return 1 / (L2 / (1 + tau) ** 2 + 3 * Lbar2 / (1 + tau) ** 2 / m)


def asvrg_sp(A, b, loss, lambda1, lambda2, gamma, probabilities, batches, tau, length, epochs,
             start=None):
    """The iterates after the batches of entries, each a list of pairs (i, j)."""
    n, p = A.shape
    K, lam, mu = A / n, lambda2, gamma / n
    sigma = step_size(*lipschitz2(A, lam, gamma, probabilities), len(batches[0]), tau)
    x, y = (np.zeros(p), np.zeros(n)) if start is None else start
    for t, batch in enumerate(batches):
        if t % (length * epochs) == 0:
            xbar, ybar = x, y
        if t % length == 0:
            xs, ys = x, y
            full_x, full_y = K.T @ ys, -K @ xs
        gx, gy = full_x.copy(), full_y.copy()
        for i, j in batch:
            share = 1 / (probabilities[i, j] * len(batch))
            gx[j] += share * K[i, j] * (y[i] - ys[i])
            gy[i] -= share * K[i, j] * (x[j] - xs[j])
        cx = x - sigma / (lam * (1 + tau)) * gx
        cy = y - sigma / (mu * (1 + tau)) * gy
        # argmin of sigma (g + lam tau/2 |x - xbar|^2) + lam (1 + tau)/2 |x - cx|^2
        w = sigma * lam * tau * xbar + lam * (1 + tau) * cx
        x = np.sign(w) * np.maximum(np.abs(w) - sigma * lambda1, 0) / (
            sigma * lambda2 + sigma * lam * tau + lam * (1 + tau)
        )
        # argmax of -sigma (phi*/n + mu tau/2 |y - ybar|^2) - mu (1 + tau)/2 |y - cy|^2
        rho = gamma * tau + gamma * (1 + tau) / sigma
        near = (gamma * tau * ybar + gamma * (1 + tau) / sigma * cy) / rho
        y = np.array([dual_step(loss, 0.0, b[i], near[i], rho) for i in range(n)])
    return x, y


def matrix_asvrg_sp(D, b, loss, lam, centre, linear, moduli, gamma, probabilities, batches, tau,
                    length, epochs, L2):
    """The same for blocks D_ij, with the step by the modulus of each block."""
    n, p, d, _ = D.shape
    K, mu = D / n, gamma / n
    norms2 = np.sum(D ** 2, axis=(2, 3)) / n ** 2 / moduli
    second = np.divide(norms2, probabilities, out=np.zeros((n, p)), where=probabilities > 0)
    Lbar2 = max(second.sum(axis=0).max(), second.sum(axis=1).max()) / mu
    sigma = step_size(L2, Lbar2, len(batches[0]), tau)
    X, y = np.zeros((p, d, d)), np.zeros(n)
    for t, batch in enumerate(batches):
        if t % (length * epochs) == 0:
            Xbar, ybar = X, y
        if t % length == 0:
            Xs, ys = X, y
        gX, gy = np.einsum("ijkl,i->jkl", K, ys), -np.einsum("ijkl,jkl->i", K, Xs)
        for i, j in batch:
            share = 1 / (probabilities[i, j] * len(batch))
            gX[j] += share * (y[i] - ys[i]) * K[i, j]
            gy[i] -= share * np.sum(K[i, j] * (X[j] - Xs[j]))
        cy = y - sigma / (mu * (1 + tau)) * gy
        new = np.empty_like(X)
        for j in range(p):
            hold = moduli[j] * (1 + tau) / sigma
            new[j] = positive_part(
                hold * X[j] - gX[j] + moduli[j] * tau * Xbar[j] + lam[j] * centre[j] - linear[j]
            ) / (hold + moduli[j] * tau + lam[j])
        rho = gamma * tau + gamma * (1 + tau) / sigma
        near = (gamma * tau * ybar + gamma * (1 + tau) / sigma * cy) / rho
        y = np.array([dual_step(loss, 0.0, b[i], near[i], rho) for i in range(n)])
        X = new
    return X, y

"""The papers' pseudo-code in plain NumPy, to compare the kernels with.

Nothing here comes from the package but the random blocks, which are given as lists of index
arrays; losses, proxes and step sizes are written out again, all products are formed afresh.
A problem is min (1/n) sum_i phi_i(<a_i, x>) + g(x) on flat vectors, with numbers or matrices for
coordinates. A method is a generator of its iterates.
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


def slope(loss, z, b):
    """phi'(z)."""
    if loss == "square":
        return z - b
    if loss == "smoothed_hinge":
        return b * np.clip(b * z - 1, -1, 0)
    return -b / (1 + np.exp(b * z))


def value(loss, z, b):
    """phi(z)."""
    margin = b * z
    if loss == "square":
        return (z - b) ** 2 / 2
    if loss == "logistic":
        return np.logaddexp(0, -margin)
    return np.where(margin >= 1, 0, np.where(margin <= 0, 0.5 - margin, (1 - margin) ** 2 / 2))


def conjugate(loss, y, b):
    """phi*(y), for y in its domain."""
    if loss != "logistic":
        return y ** 2 / 2 + b * y
    s = np.clip(-b * y, 0, 1)
    return sum(np.where(t > 0, t * np.log(np.where(t > 0, t, 1)), 0) for t in (s, 1 - s))


def positive_part(M):
    """The projection on the cone of positive semi-definite matrices."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


class Vectors:
    """g(x) = lambda1 |x|_1 + (lambda2/2)|x|^2.

    Attributes
    ----------
    lam, lams : float, ndarray
        The modulus of g, and those of the coordinates, which are numbers here.
    groups : list
        Which entries of x are a coordinate.
    """

    def __init__(self, A, b, loss, lambda1, lambda2):
        self.A, self.b, self.loss = A, b, loss
        self.lambda1, self.lam = lambda1, lambda2
        self.gamma = 4.0 if loss == "logistic" else 1.0
        self.groups = [[j] for j in range(A.shape[1])]
        self.lams = np.full(A.shape[1], lambda2)
        self.pull = 0.0

    def around(self, X, kappa):
        """The problem with (kappa/2)|. - X|^2 added, but for a constant."""
        other = Vectors(self.A, self.b, self.loss, self.lambda1, self.lam + kappa)
        other.pull = kappa * X
        return other

    def prox(self, c, tau):
        """argmin of g + |x - c|^2/(2 tau)."""
        return primal_step(c + tau * self.pull, tau, self.lambda1, self.lam)

    def block_prox(self, j, c, tau, l2=1.0):
        """The j-th block of it; with l2 = 0 for g - (lam/2)|x|^2."""
        return primal_step(c, tau, self.lambda1, l2 * self.lam)

    def conjugate_gradient(self, w, kappa=0.0):
        """argmax of <w, x> - g(x) - (kappa/2)|x|^2."""
        w = w + self.pull
        shrunk = np.sign(w) * np.maximum(np.abs(w) - self.lambda1, 0)
        return shrunk / (self.lam + kappa)

    def first(self):
        """argmin g, where methods begin."""
        return self.conjugate_gradient(np.zeros(self.A.shape[1]))

    def rows(self, kappa=0.0):
        """The rows whose norms belong to the modulus lam + kappa."""
        return self.A

    def metric(self, x):
        """Half the gradient of |X|^2, X the unknown that is shown."""
        return x

    def g(self, x):
        return self.lambda1 * np.abs(x).sum() + self.lam / 2 * x @ x

    def shown(self, x):
        return x

    def hidden(self, X):
        """The x that is shown as X."""
        return X

    def F(self, x):
        return value(self.loss, self.A @ x, self.b).mean() + self.g(x)

    def slopes(self, x):
        return slope(self.loss, self.A @ x, self.b)


class Matrices(Vectors):
    """g(X) = sum_j (lam_j/2)|X_j - centre_j|^2 + <linear_j, X_j> on the cone.

    The unknown is X'_j = X_j/sqrt(weight_j). By default weight_j is lam/lam_j, lam the least
    modulus, so that all moduli are lam and every method has one step for all. D has shape
    (n, p, d, d), and <D_i, X> is the sum over all entries.
    """

    def __init__(self, D, b, loss, lam, centre, linear, weights=None):
        n, self.p, self.d, _ = D.shape
        self.centre, self.linear = centre, linear
        lams = np.asarray(lam, float)
        weights = lams.min() / lams if weights is None else weights
        self.root = np.sqrt(weights)[:, None, None]
        super().__init__((D * self.root).reshape(n, -1), b, loss, None, lams.min())
        self.lams = lams
        self.groups = list(np.arange(self.A.shape[1]).reshape(self.p, -1))

    def around(self, X, kappa):
        lams, centre = self.lams + kappa, self.lams[:, None, None] * self.centre + kappa * X
        D = self.A.reshape(-1, self.p, self.d, self.d) / self.root
        alike = np.ones(self.p) if np.all(self.root == 1) else None
        return Matrices(
            D, self.b, self.loss, lams, centre / lams[:, None, None], self.linear, alike
        )

    def _blocks(self, x):
        return x.reshape(self.p, self.d, self.d)

    def shown(self, x):
        return self._blocks(x) * self.root

    def hidden(self, X):
        return (X / self.root).ravel()

    def prox(self, c, tau):
        return np.concatenate([self.block_prox(j, c[J], tau) for j, J in enumerate(self.groups)])

    def block_prox(self, j, c, tau, l2=1.0):
        C, lam, root = c.reshape(self.d, self.d), self.lams[j], self.root[j]
        step = tau * root ** 2
        # (1/step + l2 lam) X = root C/step + lam centre - linear: the stationary point.
        shift = lam * self.centre[j] - self.linear[j]
        full = (root * C / step + shift) / (1 / step + l2 * lam)
        return (positive_part(full) / root).ravel()

    def conjugate_gradient(self, w, kappa=0.0):
        # kappa is added to the moduli of the X_j themselves.
        W = self._blocks(w) / self.root
        return np.array([
            positive_part(W[j] + self.lams[j] * self.centre[j] - self.linear[j])
            / (self.lams[j] + kappa) / self.root[j] for j in range(self.p)
        ]).ravel()

    def rows(self, kappa=0.0):
        D = self.A.reshape(-1, self.p, self.d, self.d) / self.root
        moduli = (self.lams + kappa)[:, None, None]
        return (D * np.sqrt(moduli.min() / moduli)).reshape(len(D), -1)

    def metric(self, x):
        return (self._blocks(x) * self.root ** 2).ravel()

    def g(self, x):
        X = self.shown(x)
        squares = np.sum((X - self.centre) ** 2, axis=(1, 2))
        return self.lams @ squares / 2 + np.sum(self.linear * X)


def remark_1(n, p, m, q, Lambda, lam, gamma, theorem):
    """tau, sigma and theta as printed, with real m and q."""
    a, c = n / m, p / q
    root = np.sqrt((a - c) ** 2 + 4 * (n * p) ** 2 * Lambda / ((m * q) ** 2 * n * lam * gamma))
    tau = p / (q * lam) / ((a - c) + root)
    sigma = n ** 2 / (m * gamma) / ((c - a) + root)
    theta = c - c / (theorem * (np.sqrt(Lambda / (lam * gamma * n)) * a * c + max(a, c)))
    return tau, sigma, theta


def algorithm_1(problem, tau, sigma, theta, boost, blocks, start=None):
    """DSPDC as in the paper: every vector is formed, nothing is kept; (x, y) are yielded.

    tau and sigma are numbers, or one for each primal and each dual coordinate; theta and the
    factor of ybar are numbers, or one for each iteration. The start is of the x that is shown.
    """
    n, p = len(problem.b), len(problem.groups)
    tau, sigma = np.broadcast_to(tau, p), np.broadcast_to(sigma, n)
    theta, boost = (np.broadcast_to(each, len(blocks)) for each in (theta, boost))
    x, y = problem.first(), np.zeros(n)
    if start is not None:
        x, y = problem.hidden(start[0]), start[1]
    xbar = x
    for t, (I, J) in enumerate(blocks):
        x, y, xbar = dspdc_iteration(problem, x, y, xbar, I, J, tau, sigma, theta[t], boost[t])
        yield x, y


def dspdc_iteration(problem, x, y, xbar, I, J, tau, sigma, theta, boost):
    """One iteration, of the blocks I and J: x, y and xbar."""
    A, b, n = problem.A, problem.b, len(problem.b)
    new_y = y.copy()
    for i in I:
        new_y[i] = dual_step(problem.loss, A[i] @ xbar, b[i], y[i], n / sigma[i])
    ybar = y + boost * (new_y - y)
    new_x, gradient = x.copy(), A.T @ ybar / n
    for j in J:
        K = problem.groups[j]
        new_x[K] = problem.block_prox(j, x[K] - tau[j] * gradient[K], tau[j])
    return new_x, new_y, x + (theta + 1) * (new_x - x)


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


# Metric learning -----------------------------------------------------------------------

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


def matrix_step(C, tau, lam, centre, linear):
    """argmin over Q in the cone of g_j(Q) + |Q - C|^2/(2 tau)."""
    return positive_part((C / tau + lam * centre - linear) / (1 / tau + lam))


def algorithm_3(Z, T, C, loss, lambda0, lam, taus, sigma, theta, boost, blocks):
    """DSPDC customised for MT-LMNN (W_0 sums over all tasks, which the paper misprints)."""
    n, d, _ = Z.shape
    n_tasks = len(C) - 1
    lams = np.array([lambda0] + [lam] * n_tasks)
    centre = np.zeros((n_tasks + 1, d, d))
    centre[0] = np.eye(d)
    # argmin g: the papers leave open where to begin.
    X = np.array([
        positive_part(lams[j] * centre[j] - C[j] / n) / lams[j] for j in range(n_tasks + 1)
    ])
    Xbar, y = X, np.zeros(n)
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

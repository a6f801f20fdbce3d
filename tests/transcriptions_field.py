"""The rivals' pseudo-code in plain NumPy, to compare the kernels with.

Nothing here comes from the package but the drawn indices, given as lists of
arrays. A problem is min (1/n) sum_i phi_i(<a_i, x>) + g(x) on flat vectors;
losses, proxes and step sizes are written out again, all products are formed
afresh. A method is a generator of its iterates. A batch of a fixed partition
into r batches is one of r functions, F_k = (r/n) sum over the batch, whose
mean is the mean loss; with single rows that is the authors' setting.
"""

import numpy as np
from transcriptions import dual_step, positive_part, primal_step


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


class Vectors:
    """g(x) = lambda1 |x|_1 + (lambda2/2)|x|^2."""

    def __init__(self, A, b, loss, lambda1, lambda2):
        self.A, self.b, self.loss = A, b, loss
        self.lambda1, self.lam = lambda1, lambda2
        self.gamma = 4.0 if loss == "logistic" else 1.0
        self.groups = [[j] for j in range(A.shape[1])]
        self.lams = np.full(A.shape[1], lambda2)

    def prox(self, c, tau):
        """argmin of g + |x - c|^2/(2 tau)."""
        return primal_step(c, tau, self.lambda1, self.lam)

    def prox_without_l2(self, j, c, tau):
        """The j-th block of the prox of g - (lam/2)|x|^2."""
        return primal_step(c, tau, self.lambda1, 0.0)

    def conjugate_gradient(self, w, kappa=0.0):
        """argmax of <w, x> - g(x) - (kappa/2)|x|^2."""
        shrunk = np.sign(w) * np.maximum(np.abs(w) - self.lambda1, 0)
        return shrunk / (self.lam + kappa)

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

    def F(self, x):
        return value(self.loss, self.A @ x, self.b).mean() + self.g(x)

    def slopes(self, x):
        return slope(self.loss, self.A @ x, self.b)


class Matrices(Vectors):
    """g(X) = sum_j (lam_j/2)|X_j - centre_j|^2 + <linear_j, X_j> on the cone.

    The unknown is X'_j = sqrt(lam_j/lam) X_j, lam the least modulus, so that
    all moduli are lam and every method has one step for all.
    """

    def __init__(self, D, b, loss, lam, centre, linear):
        n, self.p, self.d, _ = D.shape
        self.centre, self.linear = centre, linear
        lams = np.asarray(lam, float)
        self.root = np.sqrt(lams.min() / lams)[:, None, None]
        super().__init__((D * self.root).reshape(n, -1), b, loss, None, lams.min())
        self.lams = lams
        self.groups = list(np.arange(self.A.shape[1]).reshape(self.p, -1))

    def _blocks(self, x):
        return x.reshape(self.p, self.d, self.d)

    def shown(self, x):
        return self._blocks(x) * self.root

    def prox(self, c, tau):
        return self._prox(self._blocks(c), tau, range(self.p), 0.0).ravel()

    def prox_without_l2(self, j, c, tau):
        return self._prox(c.reshape(1, self.d, self.d), tau, [j], 1.0).ravel()

    def _prox(self, C, tau, js, without):
        out = np.empty_like(C)
        for k, j in enumerate(js):
            lam, root = self.lams[j], self.root[j]
            step = tau * root ** 2
            shift = lam * self.centre[j] - self.linear[j]
            # 1/step + lam - without lam, times X: the stationary point.
            full = (root * C[k] / step + shift) / (1 / step + (1 - without) * lam)
            out[k] = positive_part(full) / root
        return out

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


def batch_gradient(problem, batch, r, y):
    """The gradient of F_k for slopes y."""
    n = len(problem.b)
    return r / n * (problem.A[batch].T @ y[batch])


def smoothness(problem, blocks):
    """L_k of F_k for each of the batches."""
    n, r = len(problem.b), len(blocks)
    return np.array([
        r / n * np.linalg.norm(problem.A[block], 2) ** 2 / problem.gamma for block in blocks
    ])


def saga(problem, blocks, draws, step="third"):
    """Defazio, Bach & Lacoste-Julien 2014: equations (1) and (2).

    gamma = 1/(3L), h = g; or gamma = 1/(2(mu n + L)) with the l2 term, of
    modulus mu and exactly known gradient, among the smooth functions.
    """
    n, r, mu = len(problem.b), len(blocks), problem.lam
    L = smoothness(problem, blocks).max()
    x = np.zeros(problem.A.shape[1])
    table = problem.slopes(x)                  # phi_i'(<a_i, phi_i>)
    for k in draws:
        batch = blocks[k]
        new = table.copy()
        new[batch] = problem.slopes(x)[batch]
        estimate = (
            batch_gradient(problem, batch, r, new) - batch_gradient(problem, batch, r, table)
            + problem.A.T @ table / n
        )
        if step == "third":
            x = problem.prox(x - estimate / (3 * L), 1 / (3 * L))
        else:
            size = 1 / (2 * (mu * r + (L + mu)))
            c = x - size * (estimate + mu * x)
            x = np.concatenate([
                np.atleast_1d(problem.prox_without_l2(j, c[J], size))
                for j, J in enumerate(problem.groups)
            ])
        table = new
        yield x


def prox_svrg(problem, blocks, draws, length, average=True):
    """Xiao & Zhang 2014, Figure 1, uniform sampling, eta = 0.1/L."""
    n, r = len(problem.b), len(blocks)
    eta = 0.1 / smoothness(problem, blocks).max()
    snapshot = np.zeros(problem.A.shape[1])
    draws = iter(draws)
    while True:
        y = problem.slopes(snapshot)
        full = problem.A.T @ y / n
        x, total = snapshot, np.zeros_like(snapshot)
        for _ in range(length):
            k = next(draws, None)
            if k is None:
                return
            difference = batch_gradient(problem, blocks[k], r, problem.slopes(x) - y)
            x = problem.prox(x - eta * (difference + full), eta)
            total = total + x
            yield x
        snapshot = total / length if average else x


def katyusha(problem, blocks, draws, length):
    """Allen-Zhu 2018, Algorithm 2 with option II; y_k is yielded."""
    n, r, sigma = len(problem.b), len(blocks), problem.lam
    L = smoothness(problem, blocks).max()
    tau2 = 1 / 2
    tau1 = min(np.sqrt(length * sigma) / np.sqrt(3 * L), 1 / 2)
    alpha = 1 / (3 * tau1 * L)
    y = z = snapshot = np.zeros(problem.A.shape[1])
    draws = iter(draws)
    while True:
        slopes = problem.slopes(snapshot)
        full = problem.A.T @ slopes / n
        above, below = np.zeros_like(y), 0.0
        for j in range(length):
            k = next(draws, None)
            if k is None:
                return
            x = tau1 * z + tau2 * snapshot + (1 - tau1 - tau2) * y
            estimate = full + batch_gradient(problem, blocks[k], r, problem.slopes(x) - slopes)
            new = problem.prox(z - alpha * estimate, alpha)
            y = x + tau1 * (new - z)
            z = new
            above = above + (1 + alpha * sigma) ** j * y
            below += (1 + alpha * sigma) ** j
            yield y
        snapshot = above / below


def rpdg_constants(problem, blocks, uniform):
    """Lan & Zhou: the functions f_k = F_k/r are summed, not averaged.

    p_k, tau, eta, alpha.
    """
    m, mu = len(blocks), problem.lam
    L = smoothness(problem, blocks) / m
    if uniform:
        p, C, share = np.full(m, 1 / m), 8 * m * L.max() / mu, 2
    else:
        p, C, share = 1 / (2 * m) + L / (2 * L.sum()), 8 * L.sum() / mu, 1
    root = np.sqrt((m - 1) ** 2 + 4 * m * C)
    tau = (root - (m - 1)) / (2 * m)
    eta = (mu * root + mu * (m - 1)) / 2
    return p, tau, eta, 1 - share / ((m + 1) + root)


def rpdg(problem, blocks, draws, uniform=False):
    """Lan & Zhou, RPDG in its primal form: each function has a point of its own.

    With a linear model the point matters through its products alone, but here it is kept.
    """
    m = len(blocks)
    p, tau, eta, alpha = rpdg_constants(problem, blocks, uniform)
    x = before = np.zeros(problem.A.shape[1])
    points = np.zeros((m, len(x)))

    def gradient(k, point):                   # of f_k = F_k/m
        return batch_gradient(problem, blocks[k], m, problem.slopes(point)) / m

    total = sum(gradient(k, x) for k in range(m))
    for k in draws:
        ahead = alpha * (x - before) + x
        point = (ahead + tau * points[k]) / (1 + tau)
        change = gradient(k, point) - gradient(k, points[k])
        before, x = x, problem.prox(x - (total + change / p[k]) / eta, 1 / eta)
        total = total + change
        points[k] = point
        yield x


def raised(L, modulus):
    """The package's bounds: L_k, but at least so that sqrt(mu) L_k is no less than the modulus.

    mu = modulus/max(L) does not change by that.
    """
    return np.maximum(L, np.sqrt(modulus * L.max()))


def apcg_dual(problem, blocks, draws):
    """Lin, Lu & Xiao 2015, Algorithm 2 in its three vectors, on the dual; y = x^(k) is yielded.

    Minimises f + Psi with f(y) = g*(-A'y/n) + (gamma/2n)|y|^2.
    """
    n, N, gamma = len(problem.b), len(blocks), problem.gamma
    L = np.array([
        np.linalg.norm(problem.A[I], 2) ** 2 / (problem.lam * n ** 2) + gamma / n for I in blocks
    ])
    mu = gamma / n / L.max()
    L = raised(L, gamma / n)
    alpha = np.sqrt(mu) / N
    x = z = np.zeros(n)
    for k in draws:
        y = (x + alpha * z) / (1 + alpha)
        w = problem.conjugate_gradient(-problem.A.T @ y / n)
        centre = (1 - alpha) * z + alpha * y
        new = centre.copy()
        for i in blocks[k]:
            slope_i = -problem.A[i] @ w / n + gamma * y[i] / n
            weight = N * alpha * L[k]
            # (weight/2)(t - centre)^2 + slope t + (phi*(t) - (gamma/2) t^2)/n, times n
            new[i] = dual_step(
                problem.loss, n * (weight * centre[i] - slope_i), problem.b[i], 0.0,
                n * weight - gamma,
            )
        x = y + N * alpha * (new - z) + N * alpha ** 2 * (z - y)
        z = new
        yield x


def apcg_primal(problem, blocks, draws):
    """The same on the primal: f(x) = mean loss + (lam/2)|x|^2, Psi the rest of g.

    Where a block's moduli differ, the package bounds it by the extreme ones in the norm of X.
    """
    n, N, lam = len(problem.b), len(blocks), problem.lam
    of_blocks = [np.concatenate([problem.groups[j] for j in J]) for J in blocks]
    high, low = (np.array([f(problem.lams[J]) for J in blocks]) for f in (np.max, np.min))
    L = high / lam * np.array([
        np.linalg.norm(problem.A[:, J], 2) ** 2 / (problem.gamma * n) + lam for J in of_blocks
    ])
    mu = np.min(low / L)
    L = np.maximum(L, high / np.sqrt(mu))
    alpha = np.sqrt(mu) / N
    x = z = np.zeros(problem.A.shape[1])
    for k in draws:
        y = (x + alpha * z) / (1 + alpha)
        gradient = problem.A.T @ problem.slopes(y) / n + lam * y
        centre = (1 - alpha) * z + alpha * y
        new = centre.copy()
        for j in blocks[k]:
            J = problem.groups[j]
            weight = N * alpha * L[k] * lam / problem.lams[j]
            new[J] = problem.prox_without_l2(j, centre[J] - gradient[J] / weight, 1 / weight)
        x = y + N * alpha * (new - z) + N * alpha ** 2 * (z - y)
        z = new
        yield x


def asdca(problem, batches, epoch):
    """Shalev-Shwartz & Zhang 2016: prox-SDCA in a proximal-point loop; (w, alpha) are yielded.

    The inner gap is looked at after every epoch. A batch is held back by the
    norm of its normalised Gram matrix, 1 for single rows.
    """
    A, b, n = problem.A, problem.b, len(problem.b)
    R2 = np.sum(problem.rows() ** 2, axis=1).max()
    kappa = R2 / (problem.gamma * n) - problem.lam
    assert kappa > 0
    mu = problem.lam / 2
    rho = mu + kappa
    eta = np.sqrt(mu / rho)
    beta = (1 - eta) / (1 + eta)
    rows = problem.rows(kappa)
    norms = np.linalg.norm(rows, axis=1)
    alpha = np.zeros(n)                       # the package's y
    w = previous = centre = np.zeros(A.shape[1])

    def inner(alpha):
        return problem.conjugate_gradient(-A.T @ alpha / n + kappa * problem.metric(centre), kappa)

    def duality_gap(w, alpha):
        # (1/n) sum of phi + phi* - alpha <a, w>, as w belongs to alpha.
        z = A @ w
        return np.mean(value(problem.loss, z, b) + conjugate(problem.loss, alpha, b) - alpha * z)

    zero = np.zeros(A.shape[1])
    xi = (1 + eta ** -2) * (problem.F(zero) - problem_dual(problem, np.zeros(n)))
    for t, batch in enumerate(batches, 1):
        w = inner(alpha)
        normalised = rows[batch] / norms[batch, None]
        s = np.linalg.norm(normalised, 2) ** 2
        for i in batch:
            alpha[i] = dual_step(
                problem.loss, A[i] @ w, b[i], alpha[i],
                s * norms[i] ** 2 / ((problem.lam + kappa) * n),
            )
        w = inner(alpha)
        if t % epoch == 0 and duality_gap(w, alpha) <= eta / (2 * (1 + eta ** -2)) * xi:
            centre = w + beta * (w - previous)
            previous = w
            xi = (1 - eta / 2) * xi
            w = inner(alpha)
        yield w, alpha.copy()


def problem_dual(problem, y):
    """D(y) = -g*(-A'y/n) - (1/n) sum phi*(y_i)."""
    w = -problem.A.T @ y / len(y)
    x = problem.conjugate_gradient(w)
    return -(w @ x - problem.g(x)) - np.mean(conjugate(problem.loss, y, problem.b))


def chambolle_pock_3(problem, n_iterations):
    """Chambolle & Pock 2011, Algorithm 3 with theta = 1/(1 + mu); (x, y) are yielded.

    K = A/n, G = g with modulus lam, F* = (1/n) sum phi* with modulus delta = gamma/n.
    """
    n = len(problem.b)
    K, delta = problem.A / n, problem.gamma / n
    mu = 2 * np.sqrt(problem.lam * delta) / np.linalg.norm(K, 2)
    tau, sigma = mu / (2 * problem.lam), mu / (2 * delta)
    theta = 1 / (1 + mu)
    x = bar = np.zeros(K.shape[1])
    y = np.zeros(n)
    for _ in range(n_iterations):
        c = y + sigma * K @ bar
        # argmin of F* + |y - c|^2/(2 sigma): times n, a dual step from c with z = 0
        y = np.array([
            dual_step(problem.loss, 0.0, problem.b[i], c[i], n / sigma) for i in range(n)
        ])
        new = problem.prox(x - tau * K.T @ y, tau)
        bar = new + theta * (new - x)
        x = new
        yield x, y


def fista(problem, n_iterations):
    """Beck & Teboulle 2009 with constant step, restarted by O'Donoghue & Candes' gradient test.

    The generalised gradient at y is L (y - x_new).
    """
    n = len(problem.b)
    L = np.linalg.norm(problem.A, 2) ** 2 / (n * problem.gamma)
    x = y = np.zeros(problem.A.shape[1])
    t = 1.0
    restarts = 0
    for _ in range(n_iterations):
        new = problem.prox(y - problem.A.T @ problem.slopes(y) / (n * L), 1 / L)
        if L * (y - new) @ (new - x) > 0:
            t = 1.0
            restarts += 1
        following = (1 + np.sqrt(1 + 4 * t ** 2)) / 2
        y = new + (t - 1) / following * (new - x)
        x, t = new, following
        yield x, restarts

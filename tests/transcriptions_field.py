"""The rivals' pseudo-code in plain NumPy, on the problems of `transcriptions`.

A batch of a fixed partition into r batches is one of r functions, F_k = (r/n) sum over the
batch, whose mean is the mean loss; with single rows that is the authors' setting. A method yields
x and y, or None for a y that it has not.
"""

import numpy as np
from transcriptions import conjugate, dual_step, value


def spdc(problem, batches):
    """Mini-batch SPDC, Zhang & Xiao 2015, Algorithm 2 with their Theorem 1's parameters.

    Their problem has no 1/n before the dual step and keeps u = A'y/n.
    """
    A, b, lam, gamma = problem.A, problem.b, problem.lam, problem.gamma
    n, m = len(b), len(batches[0])
    R = np.linalg.norm(A, axis=1).max()
    tau = np.sqrt(m * gamma / (n * lam)) / (2 * R)
    sigma = np.sqrt(n * lam / (m * gamma)) / (2 * R)
    theta = 1 - 1 / (n / m + R * np.sqrt(n / (m * lam * gamma)))
    x = xbar = problem.first()
    u = np.zeros(A.shape[1])
    y = np.zeros(n)
    for K in batches:
        change = np.zeros_like(x)
        for k in K:
            new = dual_step(problem.loss, A[k] @ xbar, b[k], y[k], 1 / sigma)
            change += (new - y[k]) * A[k]
            y[k] = new
        new_x = problem.prox(x - tau * (u + change / m), tau)
        u = u + change / n
        xbar = new_x + theta * (new_x - x)
        x = new_x
        yield x, y.copy()


def normalised_norm2(rows):
    """The norm of the Gram matrix of rows of length one."""
    return np.linalg.norm(rows / np.linalg.norm(rows, axis=1, keepdims=True), 2) ** 2


def prox_sdca(problem, batches, safe=False):
    """Prox-SDCA, Shalev-Shwartz & Zhang.

    A mini-batch is held back by the norm of its normalised Gram matrix, or its size if `safe`.
    """
    A, n = problem.A, len(problem.b)
    y = np.zeros(n)
    x = problem.conjugate_gradient(-A.T @ y / n)
    for K in batches:
        s = len(K) if safe else normalised_norm2(A[K])
        for k in K:
            rho = s * (A[k] @ A[k]) / (problem.lam * n)
            y[k] = dual_step(problem.loss, A[k] @ x, problem.b[k], y[k], rho)
        x = problem.conjugate_gradient(-A.T @ y / n)
        yield x, y.copy()


def sdna(problem, batches):
    """SDNA, Qu, Richtarik, Takac & Fercoq 2016, Algorithm 1: the block's problem, exactly."""
    A, b, n = problem.A, problem.b, len(problem.b)
    y = np.zeros(n)
    x = problem.conjugate_gradient(-A.T @ y / n)
    for K in batches:
        Q = A[K] @ A[K].T / (problem.lam * n)
        start, z = y[K].copy(), A[K] @ x
        for _ in range(100):
            before = y[K].copy()
            for k, i in enumerate(K):
                slope = z[k] - Q[k] @ (y[K] - start)
                y[i] = dual_step(problem.loss, slope, b[i], y[i], Q[k, k])
            if np.abs(y[K] - before).max() <= 1e-15 * np.abs(y[K]).max():
                break
        x = problem.conjugate_gradient(-A.T @ y / n)
        yield x, y.copy()


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
    x = problem.first()
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
                np.atleast_1d(problem.block_prox(j, c[J], size, 0.0))
                for j, J in enumerate(problem.groups)
            ])
        table = new
        yield x, None


def prox_svrg(problem, blocks, draws, average=True):
    """Xiao & Zhang 2014, Figure 1, uniform sampling, eta = 0.1/L, epochs of two passes."""
    n, r, length = len(problem.b), len(blocks), 2 * len(blocks)
    eta = 0.1 / smoothness(problem, blocks).max()
    snapshot = problem.first()
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
            yield x, None
        snapshot = total / length if average else x


def katyusha(problem, blocks, draws, step=1.0):
    """Allen-Zhu 2018, Algorithm 2 with option II, epochs of two passes; y_k is yielded.

    L is that of the losses over `step`.
    """
    n, r, sigma, length = len(problem.b), len(blocks), problem.lam, 2 * len(blocks)
    L = smoothness(problem, blocks).max() / step
    tau2 = 1 / 2
    tau1 = min(np.sqrt(length * sigma) / np.sqrt(3 * L), 1 / 2)
    alpha = 1 / (3 * tau1 * L)
    y = z = snapshot = problem.first()
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
            yield y, None
        snapshot = above / below


def l_svrg(problem, blocks, draws, coins):
    """Kovalev, Horvath & Richtarik 2020, Algorithm 1, eta = 1/(6L), with a proximal step."""
    n, r = len(problem.b), len(blocks)
    eta = 1 / (6 * smoothness(problem, blocks).max())
    x = w = problem.first()
    for k, renewed in zip(draws, coins, strict=True):
        at_w = problem.slopes(w)
        g = batch_gradient(problem, blocks[k], r, problem.slopes(x) - at_w)
        new = problem.prox(x - eta * (g + problem.A.T @ at_w / n), eta)
        w, x = x if renewed else w, new
        yield x, None


def l_katyusha(problem, blocks, draws, coins, p):
    """Kovalev, Horvath & Richtarik 2020, Algorithm 2, where the l2 term is in the prox.

    In place of (eta sigma x + z - (eta/L) g)/(1 + eta sigma); p = 1/n in their Theorem 11.
    """
    n, r = len(problem.b), len(blocks)
    L = smoothness(problem, blocks).max()
    theta2, theta1 = 1 / 2, min(np.sqrt(2 * problem.lam / L / (3 * p)), 1 / 2)
    eta = theta2 / ((1 + theta2) * theta1)
    y = z = w = problem.first()
    for k, renewed in zip(draws, coins, strict=True):
        x = theta1 * z + theta2 * w + (1 - theta1 - theta2) * y
        at_w = problem.slopes(w)
        g = batch_gradient(problem, blocks[k], r, problem.slopes(x) - at_w)
        new = problem.prox(z - eta / L * (g + problem.A.T @ at_w / n), eta / L)
        w = y if renewed else w
        y, z = x + theta1 * (new - z), new
        yield y, None


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
    x = before = problem.first()
    points = np.tile(x, (m, 1))

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
        yield x, None


def raised(L, modulus):
    """The package's bounds: L_k, but at least so that sqrt(mu) L_k is no less than the modulus.

    mu = modulus/max(L) does not change by that.
    """
    return np.maximum(L, np.sqrt(modulus * L.max()))


def apcg_dual(problem, blocks, draws):
    """Lin, Lu & Xiao 2015, Algorithm 2 in its three vectors, on the dual, where x^(k) is y.

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
        yield problem.conjugate_gradient(-problem.A.T @ x / n), x


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
    x = z = problem.first()
    for k in draws:
        y = (x + alpha * z) / (1 + alpha)
        gradient = problem.A.T @ problem.slopes(y) / n + lam * y
        centre = (1 - alpha) * z + alpha * y
        new = centre.copy()
        for j in blocks[k]:
            J = problem.groups[j]
            weight = N * alpha * L[k] * lam / problem.lams[j]
            new[J] = problem.block_prox(j, centre[J] - gradient[J] / weight, 1 / weight, 0.0)
        x = y + N * alpha * (new - z) + N * alpha ** 2 * (z - y)
        z = new
        yield x, None


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
        s = normalised_norm2(rows[batch])
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


def qning(problem, inner, memory=100):
    """Lin, Mairal & Harchaoui 2019, Algorithms 1 and 2; (z_k, y) are yielded.

    L-BFGS's matrix is formed. inner(problem, X) yields y and, after its last iteration, z.
    """
    n = len(problem.b)
    kappa = np.sum(problem.A ** 2, axis=1).max() / problem.gamma / (2 * n)
    shown = trial = problem.shown(problem.first())
    at, pairs, eta = None, [], 0.0
    while True:
        around = problem.around(trial, kappa)
        for y, z in inner(around, trial):
            if z is not None:
                g = kappa * (trial - z)
                F = problem.F(problem.hidden(z)) + kappa / 2 * np.sum((trial - z) ** 2)
                enough = at is None or F <= at[2] - np.sum(at[1] ** 2) / (4 * kappa)
                if enough or eta == 0:
                    if at is not None:
                        s, change = (trial - at[0]).ravel(), (g - at[1]).ravel()
                        if s @ change > 1e-12 * np.linalg.norm(s) * np.linalg.norm(change):
                            pairs = (pairs + [(s, change)])[-memory:] if memory else []
                    at, shown = (trial, g, F, z), z
                    eta = 1.0 if pairs else 0.0
                else:
                    eta = {1: 1 / 2, 1 / 2: 1 / 4, 1 / 4: 1 / 8, 1 / 8: 0}[eta]
                x, g, _, z = at
                d = inverse_bfgs(pairs, 1 / kappa, g.size) @ g.ravel()
                trial = x - eta * d.reshape(g.shape) - (1 - eta) / kappa * g
            yield problem.hidden(shown), y


def inverse_bfgs(pairs, scale, size):
    """The inverse of the matrix of BFGS from a multiple of I, by its formula."""
    if pairs:
        s, y = pairs[-1]
        scale = (s @ y) / (y @ y)
    H = scale * np.eye(size)
    for s, y in pairs:
        V = np.eye(size) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    return H


def qning_svrg(problem, blocks, draws, memory=100):
    """With an epoch of Johnson & Zhang's SVRG from the centre, step 1/(3L)."""
    n, r = len(problem.b), len(blocks)
    draws = iter(draws)

    def inner(around, X):
        eta = 1 / (3 * smoothness(around, blocks).max())
        x = around.hidden(X)
        y = around.slopes(x)
        full = around.A.T @ y / n
        for t in range(r):
            k = next(draws)
            difference = batch_gradient(around, blocks[k], r, around.slopes(x) - y)
            x = around.prox(x - eta * (difference + full), eta)
            yield None, around.shown(x) if t == r - 1 else None
    return until_drawn(qning(problem, inner, memory))


def qning_sdca(problem, batches, epoch, memory=100):
    """With an epoch of prox-SDCA, whose dual point goes on from where it was."""
    n, alpha, batches = len(problem.b), np.zeros(len(problem.b)), iter(batches)

    def inner(around, X):
        for t in range(epoch):
            batch = next(batches)
            w = around.conjugate_gradient(-around.A.T @ alpha / n)
            s = normalised_norm2(around.A[batch])
            for i in batch:
                rho = s * (around.A[i] @ around.A[i]) / (around.lam * n)
                alpha[i] = dual_step(problem.loss, around.A[i] @ w, problem.b[i], alpha[i], rho)
            z = around.shown(around.conjugate_gradient(-around.A.T @ alpha / n))
            yield alpha.copy(), z if t == epoch - 1 else None
    return until_drawn(qning(problem, inner, memory))


def until_drawn(iterates):
    """The iterates until there are no more draws."""
    try:
        yield from iterates
    except RuntimeError:                      # next() in a generator that has no more
        return


def problem_dual(problem, y):
    """D(y) = -g*(-A'y/n) - (1/n) sum phi*(y_i)."""
    w = -problem.A.T @ y / len(y)
    x = problem.conjugate_gradient(w)
    return -(w @ x - problem.g(x)) - np.mean(conjugate(problem.loss, y, problem.b))


def pure_cd_steps(problem, blocks, p, factor=1.0):
    """tau, theta and sigma of PURE-CD, and which coordinates each block touches.

    The paper's x is y here and its A is A'/n: pi_j = sum of p_i over the i that touch j,
    theta_j = pi_j/least, and sigma_i < (2 p_i - least)/(p_i/least sum_j pi_j tau_j A_ij^2), of
    which the code takes 0.9. tau_j theta_j is the same for all j, and balanced by the moduli.
    """
    n, least = len(problem.b), p.min()
    touches = np.array([[np.any(problem.A[np.ix_(I, J)]) for J in problem.groups] for I in blocks])
    pi = p @ touches
    theta = pi / least
    room = 2 - least / p
    R2 = np.array([np.linalg.norm(problem.A[I], 2) ** 2 for I in blocks])
    product = factor * np.sqrt(
        0.9 * problem.gamma * n / (problem.lam * least * np.max(R2 / (p * room)))
    )
    tau = product / np.where(theta > 0, theta, np.inf)
    weights = np.repeat(theta * tau, [len(J) for J in problem.groups])
    scaled = np.array([np.linalg.norm(problem.A[I] / n * np.sqrt(weights), 2) for I in blocks])
    # Rows of zeros may have any sigma.
    return tau, theta, 0.9 * room / np.maximum(scaled, 1e-150) ** 2, touches


def pure_cd(problem, blocks, batches, p):
    """Alacaoglu, Fercoq & Cevher 2020, Algorithm 1 on the dual, in the dense form.

    Proximal steps of all of x are formed, and kept where the batch touches x. What is shown is
    the last of them that was kept.
    """
    A, b, n = problem.A, problem.b, len(problem.b)
    tau, theta, sigma, touches = pure_cd_steps(problem, blocks, p)
    which = {I[0]: k for k, I in enumerate(blocks)}
    x = shown = problem.first()
    y = np.zeros(n)
    for I in batches:
        k = which[I[0]]
        bar, gradient, new_y = x.copy(), A.T @ y / n, y.copy()
        for j in np.flatnonzero(touches[k]):
            J = problem.groups[j]
            bar[J] = problem.block_prox(j, x[J] - tau[j] * gradient[J], tau[j])
        for i in I:
            new_y[i] = dual_step(problem.loss, A[i] @ bar, b[i], y[i], n / sigma[k])
        change = A.T @ (new_y - y) / n
        x, shown, y = bar.copy(), shown.copy(), new_y
        for j in np.flatnonzero(touches[k]):
            J = problem.groups[j]
            x[J] = bar[J] - tau[j] * theta[j] * change[J]
            shown[J] = bar[J]
        yield shown, y


def chambolle_pock_3(problem, n_iterations):
    """Chambolle & Pock 2011, Algorithm 3 with theta = 1/(1 + mu); (x, y) are yielded.

    K = A/n, G = g with modulus lam, F* = (1/n) sum phi* with modulus delta = gamma/n.
    """
    n = len(problem.b)
    K, delta = problem.A / n, problem.gamma / n
    mu = 2 * np.sqrt(problem.lam * delta) / np.linalg.norm(K, 2)
    tau, sigma = mu / (2 * problem.lam), mu / (2 * delta)
    theta = 1 / (1 + mu)
    x = bar = problem.first()
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


def spdhg(problem, blocks, draws):
    """Chambolle, Ehrhardt, Richtarik & Schoenlieb 2018, Algorithm 1 with serial sampling.

    Steps of section 6.1, uniform probabilities, with the margin 0.99 of the authors' code. It is
    their form sum_I f_I(K_I x) + g with K = A/n and f_I* = sum over I of phi_i*/n.
    """
    n, count = len(problem.b), len(blocks)
    K, mu_g, mu_f = problem.A / n, problem.lam, problem.gamma / n
    kappa = max(
        np.sqrt(1 + np.linalg.norm(K[I], 2) ** 2 / (mu_g * mu_f) / 0.99 ** 2) for I in blocks
    )
    sigma = 1 / ((kappa - 1) * mu_f)
    tau = 1 / ((count * kappa + count - 2) * mu_g)
    theta = 1 - 2 / (count + count * kappa)
    x, y = problem.first(), np.zeros(n)
    ybar = y
    # The primal step of the first iteration changes nothing.
    np.testing.assert_allclose(problem.prox(x - tau * K.T @ ybar, tau), x, atol=1e-13)
    for k in draws:
        new = y.copy()
        for i in blocks[k]:
            # argmin of phi_i*/n + (t - c)^2/(2 sigma)
            c = y[i] + sigma * K[i] @ x
            new[i] = dual_step(problem.loss, 0.0, problem.b[i], c, n / sigma)
        ybar = new + theta * count * (new - y)
        y = new
        x = problem.prox(x - tau * K.T @ ybar, tau)
        yield x, y


def adaptive_spdhg(problem, blocks, draws):
    """Chambolle et al. 2024, rule (a), in the form sum_I f_I(A_I x) + g, f_I = sum of phi_i/n.

    theta = 1, sigma_I = 0.99/(c |A_I|), tau = 0.99 c/(r max |A_I|). An iteration has the dual step
    first, so the authors' iteration is a primal step and the dual step that follows. Of them one
    in r is observed, at least one in two, and with it the steps change.
    """
    n, count = len(problem.b), len(blocks)
    A, lam, gamma = problem.A, problem.lam, problem.gamma
    norms = np.array([np.linalg.norm(A[I], 2) for I in blocks])
    c, scale = np.sqrt(gamma * n / lam), np.sqrt(lam / (gamma * n)) * np.sqrt(count)
    sigma, tau = 0.99 / (c * norms), 0.99 * c / (count * norms.max())
    alpha, eta, delta = 0.5, 0.995, 1.5
    x, y = problem.first(), np.zeros(n)        # y is the package's over n
    dx = None
    for t, k in enumerate(draws, 1):
        I, new = blocks[k], y.copy()
        for i in I:
            # argmin of phi_i*(n t)/n + (t - z)^2/(2 sigma), with n t for the unknown
            z = y[i] + sigma[k] * A[i] @ x
            new[i] = dual_step(problem.loss, 0.0, problem.b[i], n * z, 1 / (n * sigma[k])) / n
        dy, ybar = y - new, new + count * (new - y)
        y = new
        before, x = x, problem.prox(x - tau * A.T @ ybar, tau)
        still = dx is None or min(
            np.linalg.norm(dx) / max(np.linalg.norm(x), 1e-300),
            np.linalg.norm(dy[I]) / max(np.linalg.norm(y[I]), 1e-300),
        ) <= 1e-12
        if t % max(2, count) == 0 and not still:
            v = np.abs(dx / tau - count * A[I].T @ dy[I]).sum()
            d = count * np.abs(dy[I] / sigma[k] - A[I] @ dx).sum()
            if v > scale * delta * d:
                tau, sigma, alpha = tau / (1 - alpha), sigma * (1 - alpha), alpha * eta
            elif v < scale * d / delta:
                tau, sigma, alpha = tau * (1 - alpha), sigma / (1 - alpha), alpha * eta
        dx = before - x
        yield x, n * y


def s2cd(problem, pairs, r, s, average=True):
    """Zhao et al. 2014, MRBCD with variance reduction: eta = 1/(16 L), epochs of 2 r s steps.

    The pairs are of a batch of rows and a block of coordinates of x.
    """
    n, length = len(problem.b), 2 * r * s
    batches = {I[0]: I for I, _ in pairs}.values()
    L = max(r / n * np.linalg.norm(problem.A[I], 2) ** 2 / problem.gamma for I in batches)
    eta = 1 / (16 * L)
    x = problem.first()
    total = length * x
    for t, (I, J) in enumerate(pairs):
        if t % length == 0:
            snapshot = total / length if average else x
            y = problem.slopes(snapshot)
            full = problem.A.T @ y / n
            x, total = snapshot, np.zeros_like(snapshot)
        gradient = full + batch_gradient(problem, I, r, problem.slopes(x) - y)
        x = x.copy()
        for j in J:
            K = problem.groups[j]
            x[K] = problem.block_prox(j, x[K] - eta * gradient[K], eta)
        total = total + x
        yield x, None


def fista(problem, n_iterations):
    """Beck & Teboulle 2009 with constant step, restarted by O'Donoghue & Candes' gradient test.

    The generalised gradient at y is L (y - x_new).
    """
    n = len(problem.b)
    L = np.linalg.norm(problem.A, 2) ** 2 / (n * problem.gamma)
    x = y = problem.first()
    t = 1.0
    for _ in range(n_iterations):
        new = problem.prox(y - problem.A.T @ problem.slopes(y) / (n * L), 1 / L)
        if L * (y - new) @ (new - x) > 0:
            t = 1.0
        following = (1 + np.sqrt(1 + 4 * t ** 2)) / 2
        y = new + (t - 1) / following * (new - x)
        x, t = new, following
        yield x, None


# ASVRG-SP, as in Palaniappan & Bach: moduli lam of x and mu = gamma/n of y, K = A/n, the operator
# B(x, y) = (K'y, -K x), and forward-backward steps with prox_M.

def lipschitz2(problem, probabilities):
    """L^2 and Lbar^2: of B, and of the operator sampled with these probabilities."""
    n, mu = len(problem.b), problem.gamma / len(problem.b)
    K2 = np.array([np.sum(problem.A[:, J] ** 2, axis=1) for J in problem.groups]).T / n ** 2
    second = np.divide(K2, probabilities, out=np.zeros_like(K2), where=probabilities > 0)
    largest = max(second.sum(axis=0).max(), second.sum(axis=1).max())
    L2 = np.linalg.norm(problem.A / n, 2) ** 2
    return L2 / (problem.lam * mu), largest / (problem.lam * mu)


def asvrg_sp(problem, probabilities, batches, tau, length, epochs):
    """(x, y) after each of the batches of entries, lists of pairs (i, j)."""
    A, b, n = problem.A, problem.b, len(problem.b)
    K, lam, gamma, mu = A / n, problem.lam, problem.gamma, problem.gamma / n
    L2, Lbar2 = lipschitz2(problem, probabilities)
    # Of the problem whose moduli are 1 + tau times those of M.
    sigma = (1 + tau) ** 2 / (L2 + 3 * Lbar2 / len(batches[0]))
    x, y = problem.first(), np.zeros(n)
    for t, batch in enumerate(batches):
        if t % (length * epochs) == 0:
            xbar, ybar = x, y
        if t % length == 0:
            xs, ys = x, y
            full_x, full_y = K.T @ ys, -K @ xs
        gx, gy = full_x.copy(), full_y.copy()
        for i, j in batch:
            J = problem.groups[j]
            share = 1 / (probabilities[i, j] * len(batch))
            gx[J] += share * K[i, J] * (y[i] - ys[i])
            gy[i] -= share * K[i, J] @ (x[J] - xs[J])
        cx = x - sigma / (lam * (1 + tau)) * gx
        cy = y - sigma / (mu * (1 + tau)) * gy
        # argmin of sigma (g + lam tau/2 |x - xbar|^2) + lam (1 + tau)/2 |x - cx|^2
        weight = lam * tau + lam * (1 + tau) / sigma
        x = problem.prox((lam * tau * xbar + lam * (1 + tau) / sigma * cx) / weight, 1 / weight)
        # argmax of -sigma (phi*/n + mu tau/2 |y - ybar|^2) - mu (1 + tau)/2 |y - cy|^2
        rho = gamma * tau + gamma * (1 + tau) / sigma
        near = (gamma * tau * ybar + gamma * (1 + tau) / sigma * cy) / rho
        y = np.array([dual_step(problem.loss, 0.0, b[i], near[i], rho) for i in range(n)])
        yield x, y


# Estimates in place of norms -------------------------------------------------------------------

def power_norm2(A, steps):
    """|A y|^2 for a unit vector, from random signs by power iteration."""
    y = np.where(np.random.default_rng(0).random(len(A)) < 0.5, -1.0, 1.0)
    for _ in range(steps):
        x = A.T @ y
        y = A @ (x / np.linalg.norm(x))
    return y @ y


def fista_backtracking(problem, n_iterations):
    """Beck & Teboulle's backtracking, L raised to what a trial shows, at least 1.25 times.

    A restart makes L 0.9 times as large.
    """
    n = len(problem.b)
    L = power_norm2(problem.A, 1) / (n * problem.gamma)
    x = y = problem.first()
    t = 1.0

    def f(x):
        return value(problem.loss, problem.A @ x, problem.b).mean()
    for _ in range(n_iterations):
        gradient = problem.A.T @ problem.slopes(y) / n
        while True:
            new = problem.prox(y - gradient / L, 1 / L)
            step = new - y
            if not step.any():
                break
            excess = f(new) - f(y) - gradient @ step
            if excess <= 1e-10 * f(y):
                excess = (problem.A.T @ problem.slopes(new) / n - gradient) @ step / 2
            seen = 2 * excess / (step @ step)
            if seen <= L * (1 + 1e-12):
                break
            L = max(seen, 1.25 * L)
        if (y - new) @ (new - x) > 0:
            t, L = 1.0, 0.9 * L
        following = (1 + np.sqrt(1 + 4 * t ** 2)) / 2
        y = new + (t - 1) / following * (new - x)
        x, t = new, following
        yield x, None


class Watched:
    """The norm by which steps are made: |A|^2, or an estimate that moves may raise."""

    def __init__(self, problem, exact):
        self.exact, self.raised = exact, 0
        self.norm2 = np.linalg.norm(problem.A, 2) ** 2 if exact else (
            1.3 * power_norm2(problem.A, 2)
        )

    def strained(self, dx, dy, A, tau, sigma, x, y):
        """Whether PDLP's limit is passed: eta <= |dz|^2/(2 |dy' K dx|), in the norm of omega."""
        n = len(A)
        length2 = dx @ dx / tau + dy @ dy / sigma
        if self.exact or length2 <= 1e-22 * (x @ x / tau + y @ y / sigma):
            return False
        strain = 2 * abs(dy @ A @ dx) / n / length2
        if strain <= 1:
            return False
        self.norm2 *= 1.3 * strain ** 2
        self.raised += 1
        return True


def all_dual_steps(problem, z, y, rho):
    return np.array([
        dual_step(problem.loss, z[i], problem.b[i], y[i], rho) for i in range(len(y))
    ])


def pdhg_watched(problem, n_iterations):
    """`chambolle_pock_3` with an estimate of the norm."""
    A, n, lam, delta = problem.A, len(problem.b), problem.lam, problem.gamma / len(problem.b)
    norm = Watched(problem, False)
    x, y, moved, since = problem.first(), np.zeros(n), 0.0 * problem.first(), 0
    for _ in range(n_iterations):
        mu = 2 * np.sqrt(lam * delta) * n / np.sqrt(norm.norm2)
        tau, sigma = mu / (2 * lam), mu / (2 * delta)
        bar = x + moved / (1 + mu)
        new_y = all_dual_steps(problem, A @ bar, y, n / sigma)
        # Each of the first 16 moves with new steps, then every eighth.
        strained = (since < 16 or since % 8 == 0) and norm.strained(
            moved, new_y - y, A, tau, sigma, x, new_y
        )
        since = 0 if strained else since + 1
        y = new_y
        new = problem.prox(x - tau * A.T @ y / n, tau)
        moved = 0.0 * x if strained else new - x
        x = new
        yield x, y


def restarted_pdhg(problem, n_iterations, halpern=True, rho=1.0, restarts=True, exact=False):
    """Halpern PDHG with reflection and restarts, or PDHG restarted to averages, by T(z)."""
    A, n = problem.A, len(problem.b)
    sufficient, necessary, artificial = (0.2, 0.8, 0.36) if halpern else (0.1, 0.9, 0.5)
    norm, omega = Watched(problem, exact), np.sqrt(n * problem.lam / problem.gamma)
    z = anchor = (problem.first(), np.zeros(n))
    first = before = None
    k, seen = 0, []
    for total in range(1, n_iterations + 1):
        eta = n / np.sqrt(norm.norm2)
        tau, sigma = eta / omega, eta * omega
        x, y = z
        new_x = problem.prox(x - tau * A.T @ y / n, tau)
        new_y = all_dual_steps(problem, A @ (2 * new_x - x), y, n / sigma)
        dx, dy, step = new_x - x, new_y - y, (new_x, new_y)
        yield step
        if norm.strained(dx, dy, A, tau, sigma, new_x, new_y):
            z = anchor = step
            first, k, seen = None, 0, []
            continue
        if halpern:
            measure = np.sqrt(dx @ dx / tau + dy @ dy / sigma - 2 * dy @ A @ dx / n)
            candidate, look = step, True
        else:
            seen.append(step)
            look, k = total % 16 == 0, k + 1
            if look:
                average = tuple(np.mean(part, axis=0) for part in zip(*seen, strict=True))
                measure, candidate = min((
                    (np.sqrt(max(problem.F(at[0]) - problem_dual(problem, at[1]), 0.0)), at)
                    for at in (average, step)
                ), key=lambda pair: pair[0])
        due = False
        if look and restarts:
            if first is None:
                first = measure
            else:
                due = measure <= sufficient * first or (
                    measure > before and measure <= necessary * first
                ) or k >= artificial * total
            before = measure
        if due:
            lengths = [
                np.linalg.norm(new - old) for new, old in zip(candidate, anchor, strict=True)
            ]
            omega = np.exp(0.5 * np.log(lengths[1] / lengths[0]) + 0.5 * np.log(omega))
            z = anchor = candidate
            first = before = None if halpern else measure
            k, seen = 0, []
        elif halpern:
            z = tuple(
                (k + 1) / (k + 2) * ((1 + rho) * at_step - rho * at) + start / (k + 2)
                for at_step, at, start in zip(step, z, anchor, strict=True)
            )
            k += 1
        else:
            z = step


def halpern_pdhg(problem, n_iterations):
    """Halpern's iteration of T without reflection or restarts, |A| known."""
    A, n = problem.A, len(problem.b)
    tau = n / np.linalg.norm(A, 2) / np.sqrt(n * problem.lam / problem.gamma)
    sigma = n ** 2 / np.linalg.norm(A, 2) ** 2 / tau
    x = first = problem.first()
    y = np.zeros(n)
    for k in range(n_iterations):
        new_x = problem.prox(x - tau * A.T @ y / n, tau)
        new_y = all_dual_steps(problem, A @ (2 * new_x - x), y, n / sigma)
        yield new_x, new_y
        x = ((k + 1) * new_x + first) / (k + 2)
        y = (k + 1) / (k + 2) * new_y

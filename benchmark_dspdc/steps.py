"""Step sizes, one function a formula, with the papers' letters.

Throughout n is the number of dual coordinates, lam the strong convexity of g,
gamma that of each phi_i*, r = n/m and s = p/q the inverse probabilities with
which a dual and a primal coordinate is updated (numbers of blocks for
partitions), and Lambda a bound on |A_I^J|^2 over the blocks that can occur.
"""

import math
from typing import NamedTuple


class Steps(NamedTuple):
    """Primal step tau, dual step sigma, extrapolation theta.

    A dual step is ``dual_prox`` with rho = n/sigma; xbar is extrapolated with
    1 + theta.
    """

    tau: float
    sigma: float
    theta: float


def dspdc(n, r, s, Lambda, lam, gamma, theorem=1):
    """DSPDC's steps: Theorem 1 (distance) or Theorem 2 (objective gap), Remark 1.

    tau and sigma solve  tau sigma = n^2/(4 r s Lambda)  and
    s/(2 lam tau) + s = n r/(2 gamma sigma) + r.  Each is computed from the sum
    of two terms of equal sign; the other form of the same root cancels.
    """
    scale = Lambda / (lam * gamma * n)
    product = r * r * s * s * scale          # Q1 Q2 of the proof
    root = math.sqrt((r - s) ** 2 + 4.0 * product)
    # Q1 = s/(2 lam tau) and Q2 = n r/(2 gamma sigma), Q1 - Q2 = r - s.
    large = 0.5 * (abs(r - s) + root)
    small = product / large if large > 0.0 else 0.0
    q1, q2 = (large, small) if r >= s else (small, large)
    # Without coupling (Lambda = 0) a step may be infinite: the proximal maps
    # then return the minimisers themselves, which are the solution. A huge
    # finite step does the same and keeps the arithmetic free of inf * 0.
    tau = s / (2.0 * lam * max(q1, 1e-15))
    sigma = n * r / (2.0 * gamma * max(q2, 1e-15))
    theta = s - s * dspdc_rate(n, r, s, Lambda, lam, gamma, theorem)
    return Steps(tau, sigma, theta)


def dspdc_rate(n, r, s, Lambda, lam, gamma, theorem=1):
    """1 - theta/s: the bounds of Theorems 1 and 2 go down by 1 - this in an iteration."""
    return 1.0 / (theorem * iterations_per_nat(r, s, Lambda / (lam * gamma * n)))


def iterations_per_nat(r, s, scale):
    """max(r, s) + r s sqrt(Lambda/(lam gamma n)): Theorem 1's rate is 1 - 1/this."""
    return max(r, s) + r * s * math.sqrt(scale)


def spdc(n, r, R, lam, gamma):
    """SPDC's own steps (Zhang & Xiao 2015, Theorem 1), R = max row norm.

    tau = sqrt(m gamma/(n lam))/(2R), their sigma = sqrt(n lam/(m gamma))/(2R);
    ours carries a factor n because the paper's coupling term is y'Ax/n.
    """
    R = max(R, 1e-150)
    tau = math.sqrt(gamma / (r * lam)) / (2.0 * R)
    sigma = n * math.sqrt(r * lam / gamma) / (2.0 * R)
    theta = 1.0 - 1.0 / (r + R * math.sqrt(r / (lam * gamma)))
    return Steps(tau, sigma, theta)


def sdca(n, row_norm2, scale, lam):
    """rho of SDCA's dual prox: scale |a_i|^2/(lam n) (Shalev-Shwartz & Zhang 2013).

    `scale` bounds  |A_I' dy|^2 <= scale sum_i |a_i|^2 dy_i^2  over the batch I:
    1 for a single row, m always, the norm of the normalised Gram matrix exactly.
    """
    return scale * row_norm2 / (lam * n)


#: SAGA's steps (Defazio et al. 2014), for r functions that are L-smooth. With the l2 term among
#: the losses a step of size t is the proximal one of size t/(1 - t lam).
SAGA = {
    "third": lambda r, L, lam: 1.0 / (3.0 * max(L, 1e-300)),
    "strong": lambda r, L, lam: _implicit(1.0 / (2.0 * (lam * r + L + lam)), lam),
}


def _implicit(step, lam):
    """The proximal step that equals an explicit one: 1/(1 + t' lam) = 1 - t lam."""
    return step / (1.0 - step * lam)


def rpdg(r, shares, lam, uniform):
    """tau, eta and alpha of RPDG (Lan & Zhou 2018).

    `shares` are the smoothness constants L_k of the r functions, whose sum,
    not mean, is minimised.
    """
    C = 8.0 * (r * max(shares) if uniform else sum(shares)) / lam
    S = math.sqrt((r - 1.0) ** 2 + 4.0 * r * C)
    tau = (S - r + 1.0) / (2.0 * r)
    eta = 0.5 * lam * (S + r - 1.0)
    alpha = 1.0 - (2.0 if uniform else 1.0) / (r + 1.0 + S)
    return tau, max(eta, 1e-15 * lam), alpha


def apcg_dual(n, norms2, lam, gamma):
    """n times APCG's constants of blocks of dual coordinates: |A_I|^2/(lam n) + gamma."""
    return norms2 / (lam * n) + gamma


def asdca(n, R2, lam, gamma):
    """kappa, eta and the extrapolation of accelerated SDCA (Shalev-Shwartz & Zhang 2016)."""
    kappa = R2 / (gamma * n) - lam
    if kappa <= 0.0:
        return 0.0, 1.0, 0.0
    mu = 0.5 * lam
    eta = math.sqrt(mu / (mu + kappa))
    return kappa, eta, (1.0 - eta) / (1.0 + eta)


def katyusha(length, L, lam):
    """tau1, tau2 and the step alpha of Katyusha (Allen-Zhu 2018) for epochs of this length."""
    L = max(L, 1e-300)
    tau1 = min(math.sqrt(length * lam / (3.0 * L)), 0.5)
    return tau1, 0.5, 1.0 / (3.0 * tau1 * L)


def pdhg(n, norm2, lam, gamma):
    """Chambolle & Pock 2011, Algorithm 3, for the coupling y'Ax/n and the modulus gamma/n of y."""
    norm = math.sqrt(max(norm2, 1e-30 * lam * gamma * n))
    tau = math.sqrt(n * gamma / lam) / norm
    sigma = n * math.sqrt(n * lam / gamma) / norm
    theta = 1.0 / (1.0 + 2.0 * math.sqrt(n * lam * gamma) / norm)
    return Steps(tau, sigma, theta)

"""Step sizes, one function a formula, with the papers' letters.

Throughout n is the number of dual coordinates, lam the strong convexity of g,
gamma that of each phi_i*, r = n/m and s = p/q the inverse probabilities with
which a dual and a primal coordinate is updated (numbers of blocks for
partitions), and Lambda a bound on |A_I^J|^2 over the blocks that can occur.
"""

import math
from typing import NamedTuple

import numpy as np


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


#: Most that Q2 is made to be beside the number of dual blocks, and Q1 beside that of primal ones.
LEAST_SHARE = 0.3


def dspdc_split(n, r, s, Lambda, lam, gamma, theorem=1):
    """Steps with the product of Remark 1, tau sigma = n^2/(4 r s Lambda), split otherwise.

    With Q1 = s/(2 lam tau) and Q2 = n r/(2 gamma sigma) the theorem holds for any Q1 Q2 =
    r^2 s^2 Lambda/(lam gamma n), with K = max(s + Q1, r + Q2) (docs/steps.md). The paper takes
    Q1 - Q2 = r - s, which makes Q1 >= r - s also where the product is small. Here Q2 is no less
    than a share of r where r >= s, and Q1 follows: K is at most 1 + `LEAST_SHARE` times as large,
    and tau much longer. The other way round for s > r.

    Returns
    -------
    steps : Steps
    iterations : float
        K.
    """
    q1, q2 = (float(q) for q in _split(r, s, Lambda / (lam * gamma * n)))
    K = max(s + q1, r + q2)
    tau = s / (2.0 * lam * max(q1, 1e-15))
    sigma = n * r / (2.0 * gamma * max(q2, 1e-15))
    return Steps(tau, sigma, s * (1.0 - 1.0 / (theorem * K))), K


def split_iterations(r, s, scale):
    """Iterations in which `dspdc_split` should get e times closer, in squared distance.

    A visit makes the distance of a dual coordinate 1 + r/(2 Q2) times smaller, and that of a
    primal one 1 + s/(2 Q1) times, if the others do not disturb it; in permuted order each block
    is visited once an epoch. For scale = Lambda/(lam gamma n), also for arrays. The K of the
    theorem, which has independent draws, is larger where Q1 and Q2 are small beside r and s.
    """
    q1, q2 = _split(r, s, scale)
    nats = np.log1p(0.5 * s / np.maximum(q1, 1e-15)) / s
    return 0.5 / np.minimum(nats, np.log1p(0.5 * r / np.maximum(q2, 1e-15)) / r)


def _split(r, s, scale):
    """Q1 and Q2 of `dspdc_split`."""
    product = r * r * s * s * scale
    # The paper's, Q1 - Q2 = r - s, each from a sum of terms of equal sign.
    large = 0.5 * (abs(r - s) + np.sqrt((r - s) ** 2 + 4.0 * product))
    small = product / np.maximum(large, 1e-300)
    # The smaller belongs to the side with more blocks.
    blocks = np.maximum(r, s)
    least = balanced_share(product / blocks ** 2) * blocks
    large = np.where(small < least, product / np.maximum(least, 1e-300), large)
    small = np.maximum(small, least)
    return np.where(r >= s, large, small), np.where(r >= s, small, large)


def balanced_share(product):
    """delta = Q2/r with which x and y get closer equally fast, `LEAST_SHARE` at most.

    In an epoch of r >> s blocks in permuted order the distance of x falls by delta/(2 product)
    nats, with product = Q1 Q2/r^2, and that of y by log(1 + 1/(2 delta)). Equal within an eighth
    for products from 1e-5 to 0.15, by one step of a fixed-point iteration from a power law.
    """
    product = np.maximum(product, 1e-12)
    return np.minimum(LEAST_SHARE, 2.0 * product * np.log1p(2.17 * (product / 0.1) ** -0.7))


def dspdc_rate(n, r, s, Lambda, lam, gamma, theorem=1):
    """1 - theta/s: the bounds of Theorems 1 and 2 go down by 1 - this in an iteration."""
    return 1.0 / (theorem * float(iterations_per_nat(r, s, Lambda / (lam * gamma * n))))


def iterations_per_nat(r, s, scale):
    """max(r, s) + r s sqrt(Lambda/(lam gamma n)): Theorem 1's rate is 1 - 1/this."""
    return np.maximum(r, s) + r * s * np.sqrt(scale)


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


class Importance(NamedTuple):
    """Probabilities and steps of blocks that are not equally likely; see docs/importance.md."""

    p: np.ndarray         # probabilities of the dual blocks
    q: np.ndarray         # and of the primal ones
    sigma: np.ndarray     # their steps
    tau: np.ndarray
    iterations: float     # K: Delta(t) of the proof contracts by 1 - 1/K an iteration

    def theta(self, theorem=1):
        """theta_J = (1 - 1/(c K))/q_J, c = 1 for the distance and 2 for the objective gap."""
        return (1.0 - 1.0 / (theorem * self.iterations)) / self.q


def dspdc_importance(n, rows, columns, lam, gamma):
    """Probabilities and steps of DSPDC, given |A_I^J| <= rows_I columns_J.

    The least K for which there are probabilities with

        p_I (K p_I - 1) q_J (K q_J - 1) >= (rows_I columns_J)^2/(lam gamma n),

    which is at most r + s + sum_I rows_I sum_J columns_J/sqrt(lam gamma n). With
    2 K p_I = 1 + sqrt(1 + z rows_I^2) and 2 K q_J = 1 + sqrt(1 + w columns_J^2)
    these are equalities if z w = 16 K^2/(lam gamma n), and K follows from z by
    the sum of the p_I: one equation in z, that the q_J sum to one, is left.
    """
    rows, columns = np.asarray(rows, dtype=np.float64), np.asarray(columns, dtype=np.float64)
    r, s = len(rows), len(columns)
    product = (rows.max() * columns.max()) ** 2 / (lam * gamma * n)
    if product > 0.0:
        from scipy.optimize import brentq  # slow to load, and seldom needed

        a2, b2 = (rows / rows.max()) ** 2, (columns / columns.max()) ** 2

        def primal_weight(log_z):
            K = r + _excess(a2, math.exp(log_z))
            return 16.0 * product * K * K * math.exp(-log_z)

        def difference(log_z):
            both = _excess(a2, math.exp(log_z)) - _excess(b2, primal_weight(log_z))
            return (r - s) + both

        low = high = 0.0
        while difference(low) > 0.0:
            low -= 10.0
        while difference(high) < 0.0:
            high += 10.0
        log_z = brentq(difference, low, high, xtol=1e-14, rtol=1e-14) if low < high else low
        z, w = math.exp(log_z), primal_weight(log_z)
    else:
        a2, b2, z, w = np.zeros(r), np.zeros(s), 0.0, 0.0
    K = max(r + _excess(a2, z), s + _excess(b2, w))
    p, q2 = _shares(a2, z, K)
    q, q1 = _shares(b2, w, K)
    # As in `dspdc`: without coupling a huge step stands for an infinite one.
    tau = 1.0 / (2.0 * lam * q * np.maximum(q1, 1e-15))
    sigma = n / (2.0 * gamma * p * np.maximum(q2, 1e-15))
    return Importance(p, q, sigma, tau, K)


def _excess(squares, weight):
    """The sum of (sqrt(1 + weight squares) - 1)/2."""
    scaled = weight * squares
    return 0.5 * float(np.sum(scaled / (1.0 + np.sqrt(1.0 + scaled))))


def _shares(squares, weight, K):
    """Probabilities (1 + sqrt(1 + weight squares))/(2K), and Q = K - 1/probability."""
    scaled = weight * squares
    heights = 1.0 + np.sqrt(1.0 + scaled)
    return heights / heights.sum(), K * scaled / heights ** 2


def spdc_importance(n, norms, lam, gamma, alpha=0.5):
    """SPDC's own non-uniform sampling (Zhang & Xiao 2017), with the norms of the batches A_I.

    p_I = (1 - alpha)/r + alpha |A_I|/S with S = sum_I |A_I|, and an iteration
    count a nat of r/(1 - alpha) + S/(alpha sqrt(lam gamma n)). For single rows
    tau = alpha sqrt(gamma n/lam)/(2S) and rho_i = p_i n/sigma with
    sigma = alpha n sqrt(n lam/gamma)/(2S) are theirs, as recalled; the proof in
    docs/importance.md covers them, and batches too.
    """
    r = len(norms)
    total = float(np.sum(norms))
    p = np.full(r, 1.0 / r)
    if total > 0.0:
        p = (1.0 - alpha) / r + alpha * norms / total
    size = max(total / (alpha * math.sqrt(lam * gamma * n)), 1e-15)    # Q1 = Q2 of the proof
    tau = np.array([1.0 / (2.0 * lam * size)])
    return Importance(p, np.ones(1), n / (2.0 * gamma * p * size), tau, r / (1.0 - alpha) + size)


def sdca_importance(rho, gamma):
    """Probabilities of SDCA's batches, and its iterations a nat (Zhao & Zhang 2015).

    rho is that of `sdca`, the largest of each batch. A step gains at least
    s_i = gamma/(gamma + rho_i) times its share of the gap, so the gap of the
    dual contracts by 1 - min_I p_I s_I, best with p_I ~ 1 + rho_I/gamma: then
    K = sum_I (1 + rho_I/gamma) instead of r max_I (1 + rho_I/gamma).
    """
    weights = 1.0 + rho / gamma
    K = float(weights.sum())
    return weights / K, K


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


#: Part of the largest step of drawn coordinates that PURE-CD's authors take, in their code.
PURE_CD_SHARE = 0.9


class PureCD(NamedTuple):
    """PURE-CD's steps; see `pure_cd`."""

    tau: object           # of x, one a coordinate or one for all
    omega: float          # theta_j tau_j, the step of the correction
    rho: np.ndarray       # n/sigma, one a block of rows


def pure_cd(n, norms2, p, touched, lam, gamma, factor=1.0):
    """PURE-CD's steps (Alacaoglu, Fercoq & Cevher 2020) on the dual, with K = A/n.

    p_I are the probabilities of the blocks, least = min_I p_I, and `touched` is pi_j, how likely
    x_j is touched. The paper's theta_j = pi_j/least, and its condition on single rows

        p_i sigma_i sum_j pi_j tau_j K_ij^2 / least < 2 p_i - least

    is here one on blocks: sigma_I |K_I diag(theta tau)^(1/2)|^2 < 2 - least/p_I, of which a
    share is taken. As in the authors' code tau_j is proportional to 1/theta_j. What they leave
    open, the scale of tau against sigma, balances 1/(lam tau_j pi_j) and n/(gamma sigma_I p_I):

        omega^2 = C gamma n/(lam least max_I |A_I|^2/(2 p_I - least)),  C the share.
    """
    least = float(np.min(p))
    room = 2.0 * p - least
    heaviest = max(float(np.max(norms2 / room)), 1e-300)
    omega = factor * math.sqrt(PURE_CD_SHARE * gamma * n / (lam * least * heaviest))
    # Coordinates that are never touched need no step.
    tau = omega * least * np.divide(
        1.0, touched, out=np.zeros_like(np.asarray(touched, float)), where=np.asarray(touched) > 0
    )
    rho = omega * norms2 * p / (PURE_CD_SHARE * n * room)
    return PureCD(tau if np.ndim(tau) else float(tau), omega, rho)


def asdca(n, R2, lam, gamma):
    """kappa, eta and the extrapolation of accelerated SDCA (Shalev-Shwartz & Zhang 2016)."""
    kappa = R2 / (gamma * n) - lam
    if kappa <= 0.0:
        return 0.0, 1.0, 0.0
    mu = 0.5 * lam
    eta = math.sqrt(mu / (mu + kappa))
    return kappa, eta, (1.0 - eta) / (1.0 + eta)


#: Steps of Prox-SVRG (Xiao & Zhang 2014) times L: below Theorem 3.1, and in section 4.
SVRG = {"theory": 0.1, "practice": 0.1}

#: Epochs of section 4 over the number of batches; those below Theorem 3.1 are `svrg_epoch`.
SVRG_EPOCH = 2.0


def svrg_epoch(r, L, lam):
    """Epochs of 100 L/lam iterations over r: with the step 0.1/L they divide the gap by 6/5."""
    return 100.0 * L / (lam * r)


#: L-SVRG's step times L (Kovalev, Horvath & Richtarik 2020, Theorem 5).
L_SVRG = {"theory": 1.0 / 6.0}

#: Katyusha's step is for L over this; Theorem 2.1 has L itself.
KATYUSHA = {"theory": 1.0}


def l_katyusha(probability, L, lam):
    """theta1, theta2 and the step eta/L of L-Katyusha (Kovalev, Horvath & Richtarik 2020).

    theta1 = min(sqrt(2 lam/(3 p L)), 1/2), theta2 = 1/2 and eta = theta2/((1 + theta2) theta1),
    which are Katyusha's for epochs of 2/p iterations. The paper has p = 1/n in Theorem 11.
    """
    return katyusha(2.0 / probability, L, lam)


def qning(n, R2, gamma, share, lam):
    """kappa of QNing (Lin, Mairal & Harchaoui 2019): a share of L/n, L = R2/gamma of single rows.

    Where that is nothing beside lam, the envelope is g's own, and any small kappa will do.
    """
    return max(share * R2 / (gamma * n), 1e-8 * lam)


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


def spdhg(n, r, norm2, lam, gamma, rho=0.99):
    """SPDHG's steps with both sides strongly convex, blocks equally likely (section 6.1).

    `norm2` is the largest |A_I|^2, and rho < 1 its authors' margin: it divides the norms. With
    kappa = norm2/(rho^2 lam gamma n) the steps are tau = 1/(lam (r - 2 + r sqrt(1 + kappa))) and
    sigma = n/(gamma (sqrt(1 + kappa) - 1)), theta = 1 - 2/(r + r sqrt(1 + kappa)).
    """
    kappa = norm2 / (rho * rho * lam * gamma * n)
    root = math.sqrt(1.0 + kappa)
    excess = max(kappa / (1.0 + root), 1e-15)          # root - 1
    # A difference of r root and 2 - r would cancel for r = 1.
    tau = 1.0 / (lam * (2.0 * (r - 1.0) + r * excess))
    return Steps(tau, n / (gamma * excess), 1.0 - 2.0 / (r + r * root))


def spdhg_plain(n, r, norms, lam, gamma, rho=0.99):
    """SPDHG's steps without strong convexity, theta = 1: tau sigma_I |A_I|^2 <= rho^2 n^2/r.

    The authors' sigma_I = rho/(c |A_I|) and tau = rho c/(r max |A_I|), for the coupling y'Ax.
    Their ratio c^2 is free; here it is that of the moduli, with which a change of units changes
    nothing. `norms` are the |A_I|, and sigma is one a block.
    """
    norms = np.maximum(norms, 1e-15 * max(float(np.max(norms)), math.sqrt(lam * gamma * n)))
    sigma = rho * n * math.sqrt(n * lam / gamma) / norms
    return Steps(rho * math.sqrt(n * gamma / lam) / (r * float(np.max(norms))), sigma, 1.0)


def spdhg_scale(n, r, lam, gamma):
    """The scale s of primal beside dual residuals, for the coupling y'Ax with losses phi_i/n.

    The root of the ratio of the moduli, lam and n gamma, has its units. The primal residual that a
    single block tells is noise for the most part, and grows as the root of r.
    """
    return math.sqrt(lam * r / (n * gamma))


def pdhg_weighted(n, norm2, omega, modulus):
    """PDHG's steps with tau sigma = n^2/|A|^2 and sigma/tau = omega^2, the primal weight.

    `modulus` is lam gamma, which bounds steps where there is no coupling to speak of.
    """
    eta = n / math.sqrt(max(norm2, 1e-30 * modulus * n))
    return Steps(eta / omega, eta * omega, 1.0)

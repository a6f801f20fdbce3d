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
    theta = s - s / (theorem * iterations_per_nat(r, s, scale))
    return Steps(tau, sigma, theta)


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

"""Many proximal steps with a constant gradient at once, for coordinates that are moved lazily.

As long as no threshold is crossed, k steps  x = prox(x - tau gradient)  with
a = 1/(1 + tau lam) are  x_k = a^k x - drift (1 - a^k)/lam.  What the drift is, and how
long that holds, the regulariser says: `reg_outlook`.
"""

import math
from typing import NamedTuple

import numpy as np

from ...engine.dispatch import entry, generic
from ...engine.kernel_cache import njit
from .regularizer import ONE_PHASE, SEVERAL, TO_ZERO, UNKNOWN, reg_outlook, reg_prox


class Coasting(NamedTuple):
    """For one step size tau: powers of the factor a = 1/(1 + tau lam), in tables.

    Attributes
    ----------
    fine, coarse : ndarray of shape (TABLE, 2) and (LONG, 2)
        For k steps, and for k TABLE steps: a^k and the sum over i <= k of
        tau a^i = (1 - a^k)/lam.
    fine_sums, coarse_sums : ndarray of shape (TABLE,) and (LONG,)
        The sums over i <= k of the latter.
    rate : float
        -log(a).
    tau, lam : float
    """

    fine: np.ndarray
    coarse: np.ndarray
    fine_sums: np.ndarray
    coarse_sums: np.ndarray
    rate: float
    tau: float
    lam: float


class CoastingByCoordinate(NamedTuple):
    """For a step size of each coordinate, whose powers are computed when they are needed."""

    rate: np.ndarray
    tau: np.ndarray
    lam: float


#: Powers are looked up for less than the product of these many steps, and computed for more.
#: What is looked up often, of less than TABLE**2 steps, takes a quarter of a first-level cache.
TABLE, LONG = 256, 4096


def coasting(tau, lam):
    """`Coasting` for steps of size tau, `CoastingByCoordinate` where that is an array."""
    rate = np.log1p(tau * lam)
    if np.ndim(tau):
        return CoastingByCoordinate(rate, tau, lam)
    rate = float(rate)

    def table(steps):
        return np.stack([np.exp(-rate * steps), -np.expm1(-rate * steps) / lam], axis=1)

    fine, coarse = table(np.arange(TABLE)), table(TABLE * np.arange(LONG))
    fine_sums = np.cumsum(fine[:, 1])
    # TABLE more steps after the first k TABLE, by the addition formula of `sum_of_sums`.
    more = TABLE * coarse[:-1, 1] + coarse[:-1, 0] * (fine_sums[-1] + coarse[1, 1])
    coarse_sums = np.concatenate([[0.0], np.cumsum(more)])
    return Coasting(fine, coarse, fine_sums, coarse_sums, rate, tau, lam)


#: For states that have no use for it.
NO_COASTING = coasting(1.0, 1.0)


@generic
def powers_of(coasting, j, k):
    """a^k and (1 - a^k)/lam of the coordinate j."""


@generic
def sum_of_sums(coasting, j, k):
    """The sum over i <= k of (1 - a^i)/lam."""


@powers_of.register(Coasting)
def powers_by_table(coasting, j, k):
    if k >= TABLE * LONG:
        return _computed_powers(coasting.rate, coasting.lam, k)
    many, few = np.uint64(k) // np.uint64(TABLE), np.uint64(k) % np.uint64(TABLE)
    power = coasting.coarse[many, 0]
    return (
        power * coasting.fine[few, 0], coasting.coarse[many, 1] + power * coasting.fine[few, 1]
    )


@sum_of_sums.register(Coasting)
def sums_by_table(coasting, j, k):
    if k < TABLE * LONG:
        many, few = k // TABLE, k % TABLE
        return (
            coasting.coarse_sums[many] + few * coasting.coarse[many, 1]
            + coasting.coarse[many, 0] * coasting.fine_sums[few]
        )
    return _computed_sum_of_sums(coasting.rate, coasting.tau, coasting.lam, k)


@powers_of.register(CoastingByCoordinate)
def powers_of_coordinate(coasting, j, k):
    return _computed_powers(coasting.rate[j], coasting.lam, k)


@sum_of_sums.register(CoastingByCoordinate)
def sums_of_coordinate(coasting, j, k):
    return _computed_sum_of_sums(coasting.rate[j], coasting.tau[j], coasting.lam, k)


# Kept out of the loops that seldom need them.

@njit(cache=False)
def _computed_powers(rate, lam, k):
    lost = math.expm1(-rate * k)
    return 1.0 + lost, -lost / lam


@njit(cache=False)
def _computed_sum_of_sums(rate, tau, lam, k):
    if rate * k > 0.1:
        sums = -math.expm1(-rate * k) / lam
        return (k - sums / tau) / lam
    # There the difference cancels; with b = 1 - a it is the sum over i of
    # (-1)^(i-1) b^i binomial(k + 1, i + 1), of which ten terms are enough.
    b = -math.expm1(-rate)
    term = 0.5 * b * k * (k + 1.0)
    total = term
    for i in range(1, 10):
        term *= -b * (k - i) / (i + 2.0)
        total += term
    return total / lam


@njit(inline=True)
def steps_to_zero(coasting, j, x, drift):
    """The steps that x takes before the one across zero."""
    return np.int64(math.log1p(coasting.lam * x / drift) / entry(coasting.rate, j))


@njit(inline=True)
def coast(reg, coasting, j, x, gradient, steps):
    """x_j after some steps  x = prox(x - tau gradient)."""
    power, sums = powers_of(coasting, j, steps)
    outlook, _, end = reg_outlook(reg, j, power, sums, x, gradient)
    if outlook == SEVERAL or outlook == UNKNOWN:
        return _coast_in_phases(reg, coasting, j, x, gradient, steps)
    return end


@njit(inline=True)
def coast_and_add(reg, coasting, j, x, gradient, steps):
    """x_j after some steps, and the sum of all the values on the way, the last one included."""
    power, sums = powers_of(coasting, j, steps)
    outlook, drift, end = reg_outlook(reg, j, power, sums, x, gradient)
    if outlook == SEVERAL or outlook == UNKNOWN:
        return _coast_and_add_in_phases(reg, coasting, j, x, gradient, steps)
    if outlook == TO_ZERO:
        steps = min(steps - 1, steps_to_zero(coasting, j, x, drift))
        power, sums = powers_of(coasting, j, steps)
    tau = entry(coasting.tau, j)
    return end, x * (sums / tau) - drift * sum_of_sums(coasting, j, steps)


@njit(inline=True)
def phase(reg, coasting, j, x, gradient, steps):
    """How the coordinate x_j moves under proximal steps with a constant gradient.

    Returns
    -------
    k : int
        At most `steps`: for k steps x_i = a^i x - drift (1 - a^i)/lam. If 0,
        the next step is to be taken by itself.
    drift : float
    """
    power, sums = powers_of(coasting, j, steps)
    outlook, drift, _ = reg_outlook(reg, j, power, sums, x, gradient)
    if outlook == ONE_PHASE:
        return steps, drift
    if outlook == UNKNOWN:
        return np.int64(0), drift
    # The step across zero is taken by itself.
    return min(steps - 1, steps_to_zero(coasting, j, x, drift)), drift


@njit(cache=False)
def _coast_in_phases(reg, coasting, j, x, gradient, steps):
    return _coast_and_add_in_phases(reg, coasting, j, x, gradient, steps)[0]


@njit(cache=False)
def _coast_and_add_in_phases(reg, coasting, j, x, gradient, steps):
    left = steps
    added = 0.0
    tau = entry(coasting.tau, j)
    while left > 0:
        k, drift = phase(reg, coasting, j, x, gradient, left)
        if k == 0:
            x = reg_prox(reg, j, x - tau * gradient, tau)
            added += x
            left -= 1
        else:
            power, sums = powers_of(coasting, j, k)
            added += x * (sums / tau) - drift * sum_of_sums(coasting, j, k)
            x = power * x - sums * drift
            left -= k
    return x, added

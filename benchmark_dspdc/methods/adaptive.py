"""Steps that follow the curvature which the run meets, and a watch over uncertain ones.

DSPDC's steps balance the primal and the dual side by lam and gamma, the moduli of g and of the
phi_i*. Where lam is small the losses themselves curve the problem far more along the way that x
takes, and steps as if g had that modulus get there in far fewer iterations; where x is soon what
belongs to y, g* curves the dual likewise. The directions of little curvature are the last to
matter: what to assume falls as the run goes on.
"""

import math

from ..engine.kernel_cache import njit
from ..theory.setting import PART
from ..theory.steps import iterations_per_nat

#: Part of the curvature met that is assumed: what is left to do lies along flatter ways.
CURVATURE = 0.5

#: Observations in the time in which a run is predicted to get e times closer, and over how
#: many such times they are averaged. Fewer of either followed the oscillations of x against y.
OBSERVATIONS = 2
MEMORY = 1.0

#: Epochs before the first observation, if that is not so long; those to the next ones double.
EARLY = 3

#: How far one observation may lie from what is assumed, as a factor.
FAR = 100.0

#: Observations without any progress after which a run counts as failing, and how often it may.
PATIENCE = 16
FAILURES = 4

#: Growth of the movement, beside the least seen, that is an explosion: no need for patience.
EXPLOSION = 1e6


@njit
def movement(new, old, weights):
    """The sum over rows of weights_k |new_k - old_k|^2, and old = new."""
    total = 0.0
    for k in range(new.shape[0]):
        for l in range(new.shape[1]):
            change = new[k, l] - old[k, l]
            total += weights[k] * change * change
            old[k, l] = new[k, l]
    return total


class Curvature:
    """An estimate of the moduli with which steps are to be made.

    Between two observations x and y move by dx and dy. Where y follows phi'(A x),
    met = (gamma/n)|dy|^2/|dx|^2 is the curvature of the losses along dx. Where x follows y,
    gamma lam/met is that of g* along dy, in the units of gamma. And where both circle round
    the solution met is the ratio that the steps assume already. So its geometric mean over a few
    observations is steady in each case, and lam and gamma are assumed with a part of
    the curvature that it stands for.

    Parameters
    ----------
    problem : Problem
    r, s, Lambda : float
        As in `benchmark_dspdc.theory.steps.dspdc`.
    follows : bool
        Whether to make steps by the estimate and by a part of Lambda. Else they
        are those of the theorem from the beginning, and a run is only watched
        because Lambda is not certain.

    Attributes
    ----------
    modulus, dual_modulus, Lambda : float
        What to make steps with in place of lam, gamma and Lambda.
    period : int
        Iterations until the next observation.
    failed : bool
        Whether the last observation was a failure: steps are shorter from here on, and what is
        kept for x and y, which may have been large meanwhile, has to be computed afresh.
    blown_up : bool
        Whether x and y move more now than they did at first.
    trusted : bool
        False after too many failures: then and for good the steps are those of
        the theorem, and it holds from there on.
    """

    def __init__(self, problem, r, s, Lambda, follows=True):
        self.n, self.lam, self.gamma = problem.shape[0], problem.lam, problem.gamma
        self.r, self.s, self.bound = r, s, Lambda
        self.part, self.memory = PART if follows else 1.0, MEMORY
        self.follows, self.trusted = follows, True
        # More would make an iteration no better than max(r, s) allows; the same for gamma.
        self.most = max(self.lam, self.Lambda * min(r, s) ** 2 / (self.gamma * self.n))
        # n losses curve n directions at most: where x has more, some have only lam.
        unknowns = problem.shape[1] * problem.operator.column_width
        self.modulus = self.most if follows and self.n > unknowns else self.lam
        self.dual_modulus = self.gamma
        self.mean, self.longest = None, math.ceil(EARLY * max(r, s))
        self.best, self.failing, self.failures = math.inf, 0, 0
        self.first = None
        self.blown_up = self.failed = False

    @property
    def Lambda(self):
        return self.part * self.bound

    @property
    def per_nat(self):
        scale = self.Lambda / (self.modulus * self.dual_modulus * self.n)
        return iterations_per_nat(self.r, self.s, scale)

    @property
    def period(self):
        return max(1, min(math.ceil(self.per_nat / OBSERVATIONS), self.longest))

    def observe(self, dx2, dy2):
        """Take in |dx|^2 and |dy|^2 of the last period; returns whether to go on observing."""
        self.failed = False
        if not (math.isfinite(dx2) and math.isfinite(dy2)):
            self.blown_up = True
            self._fail(times=FAILURES)
        elif dx2 > 0.0 or dy2 > 0.0:
            self._check_progress(dx2, dy2)
            # One of the two may rest, as y where all losses are at their kinks: then the other
            # is to have longer steps, but not at once.
            met = self.gamma * dy2 / (self.n * dx2) if dx2 > 0.0 else math.inf
            assumed = self.modulus * self.gamma / self.dual_modulus
            new = math.log(min(max(met, assumed / FAR), assumed * FAR))
            kept = math.exp(-self.period / (self.memory * self.per_nat))
            self.mean = new if self.mean is None else kept * self.mean + (1.0 - kept) * new
            self.longest *= 2
            if self.follows:
                self._assume(CURVATURE * math.exp(self.mean - math.log(self.lam)),
                             CURVATURE * math.exp(math.log(self.lam) - self.mean))
        if not self.trusted:
            self._assume(0.0, 0.0)
            self.part = 1.0
        return self.trusted

    def _assume(self, more, more_dual):
        """Take lam and gamma to be larger by so many times themselves, as far as that helps."""
        most = self.most / self.lam
        self.modulus = self.lam * min(1.0 + more, most)
        self.dual_modulus = self.gamma * min(1.0 + more_dual, most)

    def _check_progress(self, dx2, dy2):
        """Movement an iteration has to fall; the product is the same for all units of x and y."""
        if dx2 == 0.0 or dy2 == 0.0:
            return
        now = math.sqrt(dx2) * math.sqrt(dy2) / self.period ** 2
        self.first = now if self.first is None else self.first
        self.blown_up = now > self.first
        if now < 0.9 * self.best:
            self.best, self.failing = now, 0
            return
        self.failing += 1
        if self.failing >= PATIENCE or now > EXPLOSION * self.best:
            self._fail()

    def _fail(self, times=1):
        self.failed = True
        self.failures += times
        self.best, self.failing = math.inf, 0
        self.memory *= 2.0
        self.part = min(1.0, 2.0 * self.part)
        self.trusted = self.follows and self.failures < FAILURES

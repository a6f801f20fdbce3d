"""QNing: L-BFGS on the Moreau envelope, whose gradients an incremental method computes.

References
----------
H. Lin, J. Mairal, Z. Harchaoui. An inexact variable metric proximal point
algorithm for generic quasi-Newton acceleration. SIAM J. Optimization 29, 2019
(arXiv 1610.00960; Algorithms 1 to 3, and the section on experiments).

J. Nocedal. Updating quasi-Newton matrices with limited storage. Mathematics of
Computation 35, 1980 (the product with the inverse Hessian).
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_int, check_number, choose
from ..engine.threads import single_threaded
from ..model.regularizers import into_domain
from ..state.iteration import Difference
from ..state.trackers import Nothing
from ..theory import steps as formulas
from .batches import watched_batches
from .dual_ascent import DualAscent
from .epochs import LONGEST_EPOCH
from .loop import Loop
from .method import Method

#: How short a quasi-Newton step is at least, before a proximal step takes its place.
SHORTEST = 1.0 / 8.0

#: A step that is so many times longer than exact gradients allow is no step.
LONGEST = 100.0

#: Least cosine between the two vectors of a pair that is kept.
CURVED = 1e-12


class Estimate(NamedTuple):
    """The envelope at x: the proximal point z, the gradient kappa (x - z), the value F."""

    x: np.ndarray
    z: np.ndarray
    gradient: np.ndarray
    F: float


class InverseHessian:
    """The inverse of L-BFGS's matrix, by its last pairs; without any it is first I."""

    def __init__(self, memory, first):
        self._pairs, self._first = deque(maxlen=memory), first

    def __bool__(self):
        return bool(self._pairs)

    def forget(self):
        """Begin anew, without pairs."""
        self._pairs.clear()

    def add(self, s, y):
        """Learn that the gradient changes by y along s; False if it tells no curvature."""
        curvature = float(np.vdot(s, y))
        if not curvature > CURVED * np.linalg.norm(s) * np.linalg.norm(y):
            return False
        self._pairs.append((s, y, 1.0 / curvature))
        return True

    def __matmul__(self, gradient):
        """The two loops of Nocedal; 4 products of the size of x for each pair."""
        if not self._pairs:
            return self._first * gradient
        v, weights = gradient.copy(), []
        for s, y, inverse in reversed(self._pairs):
            weights.append(inverse * np.vdot(s, v))
            v -= weights[-1] * y
        _, y, inverse = self._pairs[-1]
        v /= inverse * np.vdot(y, y)
        for s, y, inverse in self._pairs:
            v += (weights.pop() - inverse * np.vdot(y, v)) * s
        return v


class InnerSVRG:
    """SVRG on P(w) + (kappa/2)|w - c|^2: begins at c, and a round is an epoch."""

    y = None

    def __init__(self, method, kappa, seeds, m, order, step):
        problem, counters = method.problem, method._counters
        self._kappa, self._centre = kappa, np.zeros(problem.x_shape)
        inner = problem.augmented(kappa).tilted()
        dual, whole, L, self.info = watched_batches(method, seeds, m, "estimated", problem=inner)
        # Beyond 1/lam a longer step only moves rounding errors.
        tau = min(step / max(L, 1e-300), 1e15 / inner.lam)
        steps = formulas.Steps(tau, float("inf"), 0.0)
        nothing = Nothing()
        self._loop = Loop(
            inner, seeds, dual, whole, steps, counters, kind=nothing.kind, order=order
        )
        self._loop.rule = Difference(inner.loss, nothing)
        self._shift, self._base = inner.reg.shift, problem.reg
        self.info.update(self._loop.info, tau=tau)
        self.r, self.passes_a_round = dual.inverse_probability, 1.0

    def begin(self, centre):
        """Turn to another centre; the snapshot taken there is a pass."""
        self._shift += self._kappa * (centre - self._centre)
        self._centre = centre
        first = centre.copy()
        # A quasi-Newton step may leave the domain, where lazy steps know no way.
        into_domain(self._base, first)
        self._loop.point.x[:] = first
        self._loop.begin_at(first)

    def advance(self, n_iterations):
        self._loop.advance(n_iterations)
        if n_iterations == 0:
            self._loop.settle()

    def solution(self):
        self._loop.settle()
        return self._loop.point.x.copy()

    @property
    def iterations_per_pass(self):
        return self._loop.iterations_per_pass


class InnerSDCA:
    """SDCA on the same, where y goes on from its last value."""

    def __init__(self, method, kappa, seeds, m, order, step):
        problem, start = method.problem, method.start
        self._kappa, self._centre = kappa, np.zeros(problem.x_shape)
        self.ascent = DualAscent(
            problem.augmented(kappa), seeds, m, "auto", order, "uniform", method._counters,
            None if start is None else start.y,
        )
        self.info = self.ascent.info
        self.r, self.passes_a_round = self.ascent.n_blocks, 0.0

    def begin(self, centre):
        if not np.array_equal(centre, self._centre):
            self.ascent.shift(self._kappa * (centre - self._centre))
            self._centre = centre

    def advance(self, n_iterations):
        self.ascent.advance(n_iterations)

    def solution(self):
        return self.ascent.x

    @property
    def y(self):
        return self.ascent.y.copy()

    @property
    def iterations_per_pass(self):
        return self.ascent.iterations_per_pass


INNER = {"svrg": InnerSVRG, "sdca": InnerSDCA}


class QNing(Method):
    """L-BFGS on F(x) = min_w P(w) + (kappa/2)|w - x|^2, with inexact gradients kappa (x - z).

    Parameters
    ----------
    inner : {"svrg", "sdca"}
        What computes z, the minimiser. The authors run SVRG and MISO; SDCA is to this
        package what MISO is to theirs.
    m, order
        Of the inner method, as for SVRG and SDCA.
    memory : int
        Pairs of L-BFGS; 0 is the proximal point method. The authors' experiments keep
        up to 100, their library Cyanure fewer; each is two vectors of the size of x.
    kappa : float
        In units of L/n, L the largest smoothness of a loss. The authors take 1/2.
    epoch : float
        Inner iterations for a gradient, in units of the number of batches. The authors
        recommend this fixed budget of one pass, their third stopping rule.
    step : float
        Of SVRG, in units of 1/L; Cyanure has 1/3.

    Notes
    -----
    A round is an epoch at one point x and the value F there, a product A z; SVRG's
    snapshot takes one pass more. The next point is x - (eta H + (1 - eta)/kappa) g with
    the first eta of 1, 1/2, 1/4, 1/8 that lowers F by |g|^2/(4 kappa), and else with
    eta = 0, the proximal step. SVRG begins at x, as for smooth objectives in the paper
    (at its projection where g has a domain); SDCA keeps its y. A pair (s, y) is kept if
    s'y > 1e-12 |s||y|; Cyanure's test is s'y > 1e-12, which depends on units. The point
    shown is z, at the last x accepted.

    With exact gradients the worst case is that of the proximal point method: a round
    divides the distance to the solution by 1 + lam/kappa at least, O(1 + kappa/lam)
    rounds a nat, so O(n + L/lam) iterations.
    """

    name = "qning"
    family = "quasi-Newton"

    @classmethod
    def validate(cls, problem, **options):
        super().validate(problem, **options)
        choose(options.get("inner", "svrg"), INNER, "inner")

    def setup(self, seeds, inner="svrg", m=1, memory=100, kappa=0.5, epoch=1.0, step=1.0 / 3.0,
              order="random"):
        problem = self.problem
        kind = choose(inner, INNER, "inner")
        choose(order, ("random", "permuted"), "order")
        memory = check_int(memory, "memory", 0)
        share = check_number(kappa, "kappa", 0.0, strict=True)
        epoch = check_number(epoch, "epoch", 0.0, strict=True, high=LONGEST_EPOCH)
        step = check_number(step, "step", 0.0, strict=True)
        R2 = float(problem.operator.row_norms2.max())
        self._kappa = formulas.qning(problem.shape[0], R2, problem.gamma, share, problem.lam)
        self._inner = kind(self, self._kappa, seeds, m, order, step)
        self._length = self._left = max(1, round(epoch * self._inner.r))
        self._trial = np.zeros(problem.x_shape) if self.start is None else self.start.x.copy()
        self._at, self._eta = None, 0.0
        self._inverse = InverseHessian(memory, 1.0 / self._kappa)
        self.info.update(
            self._inner.info, inner=inner, kappa=self._kappa, epoch=self._length, memory=memory,
            rounds=0, shortened=0, skipped=0,
            forgotten=0,
        )

    @single_threaded
    def _run(self, n_iterations):
        self._inner.advance(0)
        while n_iterations > 0:
            if self._left == self._length:
                self._inner.begin(self._trial)
            count = min(n_iterations, self._left)
            self._inner.advance(count)
            self._left -= count
            n_iterations -= count
            if self._left == 0:
                self._left = self._length
                self._judge(self._estimate())

    def _estimate(self):
        """The envelope at the trial point, by what the inner method has found."""
        x, z = self._trial, self._inner.solution()
        self._counters[0] += self.problem.operator.multiply_adds // 2
        moved = x - z
        F = self.problem.primal(z) + 0.5 * self._kappa * float(np.vdot(moved, moved))
        return Estimate(x, z, self._kappa * moved, F)

    def _judge(self, new):
        """Accept the trial point, or try a shorter step; the next trial point is set."""
        old = self._at
        self.info["rounds"] += 1
        if old is not None:
            fall = float(np.vdot(old.gradient, old.gradient)) / (4.0 * self._kappa)
            if self._eta > 0.0 and not new.F <= old.F - fall:
                self._eta = self._eta / 2.0 if self._eta > SHORTEST else 0.0
                self.info["shortened"] += 1
                self._step()
                return
            if not self._inverse.add(new.x - old.x, new.gradient - old.gradient):
                self.info["skipped"] += 1
        self._at = new
        self._direction = self._inverse @ new.gradient
        # F is convex by lam kappa/(lam + kappa): a longer step is what errors made of the pairs.
        longest = np.linalg.norm(new.gradient) * (1.0 / self.problem.lam + 1.0 / self._kappa)
        if not np.linalg.norm(self._direction) <= LONGEST * longest:
            self._inverse.forget()
            self.info["forgotten"] += 1
        # Without a pair the quasi-Newton step is the proximal one.
        self._eta = 1.0 if self._inverse else 0.0
        self._step()

    def _step(self):
        """x - (eta H + (1 - eta)/kappa) g; the proximal step is z itself."""
        at, eta = self._at, self._eta
        quasi_newton = at.x - eta * self._direction - (1.0 - eta) * (at.x - at.z)
        self._trial = quasi_newton if eta > 0.0 else at.z

    @property
    def x(self):
        return (self._trial if self._at is None else self._at.z).copy()

    @property
    def y(self):
        return self._inner.y

    @property
    def iterations_per_pass(self):
        # The inner iterations, the value of F and the snapshot.
        of_round = self._length / self._inner.iterations_per_pass
        return self._length / (of_round + 0.5 + self._inner.passes_a_round)

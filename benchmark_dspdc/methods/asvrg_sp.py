"""ASVRG-SP: accelerated stochastic variance reduction for saddle-point problems.

References
----------
B. Palaniappan, F. Bach. Stochastic variance reduction methods for saddle-point
problems. NeurIPS 2016, arXiv:1605.06398 (Algorithm 1 with individual splits, and
the acceleration of its section 5).
"""

import math
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_int, check_number, choose
from ..engine.dispatch import runner
from ..engine.kernel_cache import njit
from ..engine.sampling import generator
from ..model.losses import dual_prox
from ..model.regularizers import augmented, moduli_of
from ..state.single_entries import EpochPoint, add_entries, entries_of, primal_move
from ..theory.coupling_constant import (
    CAUTION,
    ESTIMATED_AND_WATCHED,
    Constant,
    affordable,
    estimated_norm2,
    norm2,
    whole,
)
from .batches import Watch
from .method import Method

#: What an iteration is taken to cost when tau and the batch are chosen, in multiply-adds of a
#: full product: an entry at random beside its own multiply-adds, a proximal step of a number,
#: one of a loss that has no closed form, and, in units of d^3, one of a matrix.
ENTRY, NUMBER, LOGISTIC, MATRIX = 40.0, 10.0, 200.0, 15.0


class Weights(NamedTuple):
    """Constants of the proximal steps.

    Attributes
    ----------
    hold_x : float or ndarray
        One over the primal step, lam_j (1 + tau)/sigma.
    hold_y : float
        The same of the dual step times n, gamma (1 + tau)/sigma.
    pull_y : float
        gamma tau.
    batch : int
    share_x, share_y : float
        1/(n batch) and 1/batch.
    """

    hold_x: object
    hold_y: float
    pull_y: float
    batch: int
    share_x: float
    share_y: float


class Prox(NamedTuple):
    """What proximal steps are made of: g plus the quadratic terms, the losses and labels."""

    reg: object
    loss: object
    b: np.ndarray


@njit
def dual_move(loss, b, point, c):
    """The dual steps, from the margins at the snapshot plus the sums over entries."""
    rho = c.hold_y + c.pull_y
    scale = 1.0 / rho
    for i in range(b.shape[0]):
        near = (c.hold_y * point.y[i] + c.pull_y * point.centre[i]) * scale
        z = point.margins[i] + c.share_y * point.of_y[i]
        new = dual_prox(loss, i, z, b[i], near, rho)
        point.y[i] = new
        point.dy[i] = new - point.old_y[i]
        point.of_y[i] = 0.0


@njit
def iterate(entries, point, prox, c, random, counters, n_iterations):
    """Inner iterations from a snapshot."""
    for _ in range(n_iterations):
        counters[0] += add_entries(entries, c.batch, random, point)
        counters[2] += primal_move(entries, prox.reg, point, c.hold_x, c.share_x)
        dual_move(prox.loss, prox.b, point, c)
        counters[1] += point.x.shape[0] + point.y.shape[0]


def epoch(L2, Lbar2, tau=0.0, reduction=4.0):
    """Step sigma and inner iterations of an epoch, Lbar2 that of a whole batch.

    sigma = 1/(L^2 + 3 Lbar^2) of the problem with tau, and the least k with
    (1 + sigma)^-k <= 1/reduction, at most log(reduction)(1 + 1/sigma) + 1.
    """
    sigma = (1.0 + tau) ** 2 / max(L2 + 3.0 * Lbar2, 1e-15)
    return sigma, max(1, math.ceil(math.log(reduction) / math.log1p(sigma)))


def proved_rate(tau, n_epochs):
    """Bound on E|z+ - z*|^2/|z - z*|^2 over one outer step of so many epochs."""
    return (tau / (tau + 2.0) if tau > 0.0 else 0.0) + 0.75 ** n_epochs


#: Noise of a single epoch, in units of the squared distance from its snapshot to the solution
#: of its problem: sigma Lbar^2/(2 - sigma (L^2 + Lbar^2)) is at most 1/5 where it stops moving.
NOISE = 0.25


def expected_rate(tau):
    """E|z+ - z*|^2/|z - z*|^2 over an outer step of a single epoch, at most, if M is quadratic.

    That is the largest  (sqrt(b) + r sqrt(a))^2 + NOISE a  with  a + (1 + 2/tau) b = 1,
    r^2 = 1/(4 + tau): the larger eigenvalue of a 2 x 2 matrix.
    """
    b, r2 = (tau / (tau + 2.0) if tau > 0.0 else 0.0), 1.0 / (4.0 + tau)
    mean, half = 0.5 * (b + r2 + NOISE), 0.5 * (b - r2 - NOISE)
    return mean + math.sqrt(half * half + b * r2)


def best_epochs(tau):
    """The number of epochs an outer step with the best proved rate an epoch."""
    if tau == 0.0:
        return 1
    # From here on the rate is below 1.
    first = math.floor(math.log(0.5 * (tau + 2.0)) / math.log(4.0 / 3.0)) + 1
    return min(range(first, first + 30), key=lambda v: v / -math.log(proved_rate(tau, v)))


#: Beyond it rates are 1 in double precision.
LARGEST_TAU = 1e12


class Plan(NamedTuple):
    """Outer steps: tau, the step, the length and number of the epochs of each, and its rate."""

    tau: float
    sigma: float
    length: int
    epochs: int
    rate: float


def plan(L2, Lbar2, tau, proved):
    """The outer steps for a given tau."""
    if proved:
        v = best_epochs(tau)
        return Plan(tau, *epoch(L2, Lbar2, tau), v, proved_rate(tau, v))
    return Plan(tau, *epoch(L2, Lbar2, tau, 4.0 + tau), 1, expected_rate(tau))


def best_plan(L2, Lbar2, proved, iteration_cost, pass_cost):
    """The outer steps that take the least work for a given accuracy."""
    def work(plan):
        return plan.epochs * (pass_cost + plan.length * iteration_cost) / -math.log(plan.rate)

    largest = max(math.sqrt(L2 + 3.0 * Lbar2), 0.2)
    tried = np.concatenate([[0.0], np.geomspace(0.1, largest, 60)])
    return min((plan(L2, Lbar2, float(tau), proved) for tau in tried), key=work)


class ASVRGSP(Method):
    """Accelerated SVRG for saddle-point problems, single entries of A sampled.

    Parameters
    ----------
    sampling : {"nonuniform", "uniform"}
        Entries (i, j) of A with probabilities proportional to a_ij^2
        (|A_i^j|_F^2 for matrices, a product of two distributions for A = UV; see
        `benchmark_dspdc.state.single_entries`), or all that are not zero alike.
    batch : "auto" or int
        Entries drawn in an iteration, with replacement. "auto": as many as make
        (cost of the proximal steps + of the entries)(L^2 + 3 Lbar^2) least, up to
        n + p or what costs as much as a full product, whichever is more; never
        more than there are.
    acceleration : "auto" or float, from 0 to 1e12
        tau of the proximal-point steps; 0 is plain SVRG. "auto" is the one that
        takes the least work by the rates below.
    inner : {"single", "theorem"}
        An outer step is a single epoch, longer the larger tau is, or as many
        epochs as make the most of what is proved for any M.
    norms : {"estimated", "certified"}
        |A|^2 by two steps of power iteration, watched as batches are by
        `benchmark_dspdc.methods.saga.SAGA`; or a certified bound.

    Notes
    -----
    M(x, y) = g(x) - (1/n) sum_i phi_i*(y_i) is (lam, gamma/n)-strongly
    convex-concave. In the norm |z|^2 = lam |x|^2 + (gamma/n)|y|^2 the bilinear
    part has the Lipschitz constant L^2 = |A|^2/(n lam gamma), and a batch of
    entries a variance of at most Lbar^2 |z - z_old|^2, Lbar^2 = |B|^2_pi/(batch n
    lam gamma). An iteration is a forward-backward step

        z = prox_M^sigma(z - sigma D^-1 (B(z_old) + mean of (B_ij(z) - B_ij(z_old))/pi_ij))

    with sigma = 1/(L^2 + 3 Lbar^2). As the prox is 1/(1 + sigma)-Lipschitz and
    <B(z), z> = 0, E|z - z*|^2 = e_k has

        (1 + sigma)^2 e_{k+1} <= (1 + sigma^2 (L^2 + 3 Lbar^2)) e_k + (3/2) sigma^2 Lbar^2 e_0,

    hence e_k <= ((1 + sigma)^-k + 1/2) e_0 and 3/4 e_0 after an epoch of
    log(4)/log(1 + sigma) iterations: the authors' step, epoch and rate.

    Acceleration: the outer step z_bar -> z+ is a number of epochs v on the problem with
    (lam tau/2)|x - x_bar|^2 - (gamma tau/2n)|y - y_bar|^2 added, for which L and Lbar are
    divided by 1 + tau. If J is its solution then, by strong monotonicity, a = |z_bar - J|^2
    and b = |J - z*|^2 have  a + (1 + 2/tau) b <= |z_bar - z*|^2.

    "theorem"
        sqrt(E|z+ - z*|^2) <= sqrt(b) + sqrt((3/4)^v a), so that E|z+ - z*|^2 is at most
        tau/(tau + 2) + (3/4)^v times |z_bar - z*|^2. The authors' 1 - 1/(1 + tau) needs
        (3/4)^v <= tau/((1 + tau)(2 + tau)), about half as many epochs as the
        2 + 2 log(1 + tau)/log(4/3) of their proof.
    "single"
        The error of z+ is what is left of z_bar - J, at most r sqrt(a), and
        noise, whose mean is zero if M is quadratic, and then E|z+ - z*|^2 <= (sqrt(b) +
        r sqrt(a))^2 + noise. With the published step the noise is at most a/5 once z has
        stopped moving; up to a/2 this is below |z_bar - z*|^2 for r^2 <= 1/(4 + tau),
        which is what is asked for: epochs of log(4 + tau)/log(1 + sigma)
        iterations. For tau = 0 both are the authors' SVRG.

    The constants of SVRG and of the acceleration are derived here and agree with the
    published ones as remembered; the text was not at hand.

    Work to accuracy eps with batches of n + p: O((np + sqrt(np max(n, p)/(n lam gamma)) |A|_F)
    log(1/eps)), but for a logarithm of 1 + tau. On a dense 1000 x 200 problem with lam = 1e-3
    and 1e-4, "single" took a sixth of the time of "theorem" to a gap of 1e-6.
    """

    name = "asvrg_sp"
    family = "variance reduced"
    requires = (dual_prox,)

    def setup(self, seeds, sampling="nonuniform", batch="auto", acceleration="auto",
              inner="single", norms="estimated"):
        choose(inner, ("single", "theorem"), "inner")
        choose(sampling, ("nonuniform", "uniform"), "sampling")
        problem, (n, p) = self.problem, self.problem.shape
        numbers = len(problem.x_shape) == 1
        found = entries_of(problem.operator, sampling == "nonuniform")
        pairs = problem.operator.pairs(whole(n), whole(p))
        if norms == "certified" or affordable(problem.operator, pairs):
            norm = norm2(problem.operator)
        else:
            norm = Constant(
                self._raised * CAUTION * estimated_norm2(problem.operator), ESTIMATED_AND_WATCHED
            )
            self._watch = Watch(problem.operator, whole(n), whole(p), norm.value)
        scale = n * problem.lam * problem.gamma
        L2 = norm.value / scale
        entry_cost, pass_cost = found.cost + ENTRY, problem.operator.multiply_adds
        dual_cost = LOGISTIC if problem.loss.dual_nanoseconds > 0.0 else NUMBER
        proximal_cost = n * dual_cost + p * (
            NUMBER if numbers else MATRIX * problem.operator.d ** 3
        )
        if isinstance(batch, str):
            choose(batch, ("auto",), "batch")
            best = math.sqrt(
                3.0 * proximal_cost / entry_cost * found.constant / max(norm.value, 1e-300)
            )
            self._batch = max(1, round(min(best, max(n + p, pass_cost / entry_cost))))
        else:
            self._batch = check_int(batch, "batch")
        self._batch = min(self._batch, found.count)
        Lbar2 = found.constant / scale / max(self._batch, 1)
        iteration_cost = self._batch * entry_cost + proximal_cost
        proved = inner == "theorem"
        if isinstance(acceleration, str):
            choose(acceleration, ("auto",), "acceleration")
            chosen = best_plan(L2, Lbar2, proved, iteration_cost, pass_cost)
        else:
            given = check_number(acceleration, "acceleration", 0.0, high=LARGEST_TAU)
            chosen = plan(L2, Lbar2, given, proved)
        tau, sigma, self._length, self._epochs, rate = chosen
        self._cost = self._batch * found.cost
        self.info.update(
            sampling=sampling, batch=self._batch, n_entries=found.count, inner=inner, tau=tau,
            sigma=sigma, epoch=self._length, epochs=self._epochs, rate=rate, L2=L2,
            L2_kind=norm.kind, Lbar2=Lbar2, Lbar2_kind=found.kind,
        )

        # In the order of the coordinates: one number for all, or one a block.
        moduli = problem.lam if numbers else moduli_of(problem.reg, p)
        hold = moduli * ((1.0 + tau) / sigma)
        self._prox = Prox(
            augmented(problem.reg, hold + moduli * tau), problem.loss, problem.b
        )
        shape = (p,) + (1,) * (len(problem.x_shape) - 1)
        self._moduli = moduli if numbers else moduli.reshape(shape)
        share = 1.0 / max(self._batch, 1)
        self._weights = Weights(
            hold if numbers else hold.reshape(shape), problem.gamma * (1.0 + tau) / sigma,
            problem.gamma * tau, self._batch, share / n, share,
        )
        self._tau = tau
        of_x = np.zeros(p) if numbers else problem.operator.packed_zeros()
        x, old_x, dx, pull = np.zeros((4, *problem.x_shape))
        y, old_y, dy, margins, centre, of_y = np.zeros((6, n))
        self._point = EpochPoint(x, y, old_x, old_y, dx, dy, pull, margins, centre, of_x, of_y)
        if self.start is not None:
            x[:], y[:] = self.start
        self._centre_x = np.zeros(problem.x_shape)
        self._entries = found.entries
        self._iterate = runner(iterate, self._entries)
        self._generator = generator(seeds.generate_state(1)[0])
        self._inner, self._epoch = self._length, self._epochs

    def _new_epoch(self):
        """A snapshot of the iterate, which also is the next centre after enough of them."""
        problem, point = self.problem, self._point
        if self._epoch == self._epochs:
            self._centre_x[:] = point.x
            point.centre[:] = point.y
            self._epoch = 0
        point.old_x[:] = point.x
        point.old_y[:] = point.y
        point.dx[:] = 0.0
        point.dy[:] = 0.0
        point.margins[:] = problem.operator.matvec(point.x)
        point.pull[:] = problem.operator.rmatvec(point.y) / -problem.shape[0]
        if self._tau > 0.0:
            point.pull[:] += (self._moduli * self._tau) * self._centre_x
        self._counters[0] += problem.operator.multiply_adds
        self._epoch += 1
        self._inner = 0

    def _run(self, n_iterations):
        self._inner_iterations(0)
        self._in_epochs(n_iterations, lambda done: self._new_epoch())

    def _inner_iterations(self, count):
        self._iterate(
            self._entries, self._point, self._prox, self._weights, self._generator,
            self._counters, count,
        )

    @property
    def x(self):
        return self._point.x.copy()

    @property
    def y(self):
        return self._point.y.copy()

    @property
    def iterations_per_pass(self):
        whole = self.problem.operator.multiply_adds
        return whole / (self._cost + whole / self._length)

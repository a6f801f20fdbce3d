"""APCG: accelerated randomised proximal coordinate gradient method, on the dual and the primal.

References
----------
Q. Lin, Z. Lu, L. Xiao. An accelerated randomized proximal coordinate gradient
method and its application to regularized empirical risk minimization.
SIAM J. Optimization 25, 2015 (Algorithm 3 for the strongly convex case; its
section on regularised risk for the dual).
"""

import math
from typing import NamedTuple

import numpy as np

from ..engine.dispatch import generic, index, runner
from ..engine.kernel_cache import njit
from ..engine.sampling import block_size, draw, generator, partition
from ..model.losses import dual_prox, nearest_feasible, nearest_in_domain
from ..model.regularizers import into_domain, moduli_of, pair_primal_step, reg_prox
from ..state import dual_pair, dual_pair_cost, primal_pair, primal_pair_cost
from ..state.accelerated import (
    load_pair,
    pair_add,
    pair_cost,
    pair_fetch,
    pair_products,
    rescale,
)
from ..theory import steps as formulas
from ..theory.block_sizes import estimated_norms2
from ..theory.coupling_constant import (
    ESTIMATED,
    ESTIMATED_AND_WATCHED,
    affordable,
    column_blocks_norm2,
    quick_norms2,
    row_blocks_norm2,
    whole,
)
from .batches import Watch
from .method import Method

#: The factor of u is taken into u when it gets this small.
SMALLEST = 1e-80

#: Where they are estimates: epochs until the gap is looked at first, and between looks at most;
#: a look takes a pass.
FIRST_LOOK, APART = 1, 32

#: Predicted times of getting e times closer in which the gap has to fall, a growth of it that
#: needs no such patience, and a relative gap that may be rounding.
PATIENCE, EXPLOSION, SETTLED = 3.0, 1e3, 1e-11


class Acceleration(NamedTuple):
    """With N blocks and the modulus mu: alpha = sqrt(mu)/N, rho = (1 - alpha)/(1 + alpha).

    A step d of a block changes u by  of_u d / scale  and v by  of_v d.
    """

    rho: float
    of_u: float
    of_v: float


def acceleration(n_blocks, mu):
    """Algorithm 3's constants; N alpha = sqrt(mu)."""
    root = np.sqrt(mu)
    alpha = root / n_blocks
    return Acceleration((1.0 - alpha) / (1.0 + alpha), -0.5 * (1.0 - root), 0.5 * (1.0 + root))


class DualSteps(NamedTuple):
    """Steps of dual coordinates: their weights, and gamma taken out of the conjugates."""

    loss: object
    weights: np.ndarray
    gamma: float


class PrimalSteps(NamedTuple):
    """Steps of primal coordinates: their weights, and the moduli taken out of g."""

    reg: object
    weights: np.ndarray
    moved: np.ndarray


@generic(interpreted=True)
def take_steps(rule, pair, order, lo, hi, factor, c):
    """Steps of a block; the buffer holds products on entry, changes on return.

    Returns the number of eigendecompositions done.
    """


@take_steps.register(DualSteps)
def take_dual_steps(rule, pair, order, lo, hi, factor, c):
    point = pair.point
    dual_changes(rule, order, lo, hi, point.b, point.u, point.v, factor, c, point.buffer)
    return 0


@njit(inline=True, cache=True)
def dual_changes(rule, order, lo, hi, b, u, v, factor, c, buffer):
    """With z = v - factor u and zbar = v + factor u the new value minimises

    phi*(y_i) - (gamma/2) y_i^2 + (weight/2)(y_i - z_i)^2 - y_i (<a_i, x> - gamma zbar_i).
    """
    gamma = rule.gamma
    for k in range(lo, hi):
        i = index(order, k)
        z = v[i] - factor * u[i]
        product = buffer[k - lo] - 2.0 * gamma * factor * u[i]
        weight = max(rule.weights[i] - gamma, 0.0)
        change = dual_prox(rule.loss, i, product, b[i], z, weight) - z
        buffer[k - lo] = change
        u[i] += c.of_u / factor * change
        v[i] += c.of_v * change


@take_steps.register(PrimalSteps)
def take_primal_steps(rule, pair, order, lo, hi, factor, c):
    return pair_primal_step(
        rule.reg, order, lo, hi, pair.point, rule.weights, rule.moved, factor, c.of_u / factor,
        c.of_v,
    )


@njit
def iterate(pair, rule, c, blocks, counters, n_iterations):
    """Accelerated steps of blocks of coordinates."""
    order, scale = blocks.sampler.order, pair.point.scale
    for _ in range(n_iterations):
        lo, hi = draw(blocks.sampler, blocks.random, blocks.ahead)
        pair_fetch(pair, order, blocks.ahead[0], blocks.ahead[1])
        factor = scale[0] * c.rho
        counters[2] += pair_products(pair, factor, order, lo, hi)
        counters[2] += take_steps(rule, pair, order, lo, hi, factor, c)
        pair_add(pair, order, lo, hi, c.of_u / factor, c.of_v)
        counters[0] += pair_cost(pair, order, lo, hi)
        counters[1] += hi - lo
        scale[0] = factor
        if factor < SMALLEST:
            rescale(pair, factor)


class Drawn(NamedTuple):
    """How blocks are drawn, the state of the generator, and the block drawn ahead."""

    sampler: object
    random: np.ndarray
    ahead: np.ndarray


class AcceleratedMethod(Method):
    """What both share: blocks of a partition, the pair of vectors, and the loop."""

    #: Multiply-adds of an average block, given the operator and the number of blocks.
    _average_cost = None

    def _prepare(self, seeds, total, size, make_pair, start):
        rng = np.random.default_rng(seeds.spawn(1)[0])
        self._blocks = partition(total, size, rng)
        self._pair = make_pair(self.problem, self._blocks.largest)
        if start is not None:
            self._begin_at(start)
        self._iterate = runner(iterate, self._pair)
        self._drawn = Drawn(
            self._blocks, generator(seeds.generate_state(1)[0]), np.full(2, -1)
        )

    def _begin_at(self, start):
        """Both vectors of the method are `start`."""
        pair = self._pair
        pair.point.u[:], pair.u[:], pair.point.scale[0] = 0.0, 0.0, 1.0
        pair.point.v[:] = start
        load_pair(pair, self.problem.operator)
        self._counters[0] += self.problem.operator.multiply_adds // 2

    def _run(self, n_iterations):
        self._iterate(
            self._pair, self._rule, self._c, self._drawn, self._counters, n_iterations
        )

    def _accelerate(self, smoothness, low, high):
        """Weights of the steps, for blocks with moduli between `low` and `high`.

        The step of a block weighs sqrt(mu) L_k. Where that is below the modulus
        taken out of the block's own term, L_k is raised: any upper bound of a
        block's smoothness will do, and mu stays as it is.
        """
        # With mu = 1 (no data to speak of) there would be no u; a smaller mu is as valid.
        mu = min(float(np.min(low / smoothness)), 1.0 - 1e-9)
        smoothness = np.maximum(smoothness, high / np.sqrt(mu))
        self._c = acceleration(len(smoothness), mu)
        self.info.update(mu=mu, n_blocks=len(smoothness))
        sizes = np.diff(self._blocks.starts)
        weights = np.empty(self._blocks.starts[-1])
        weights[self._blocks.order] = np.repeat(np.sqrt(mu) * smoothness, sizes)
        return weights

    def _current(self):
        """The iterate scale u + v."""
        point = self._pair.point
        return point.scale[0] * point.u + point.v

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        cost = self._average_cost(operator, self._blocks.inverse_probability)
        return operator.multiply_adds / cost


class APCG(AcceleratedMethod):
    """Accelerated proximal coordinate gradient method on the dual.

    Parameters
    ----------
    m : int or float
        Block size, as a count or a fraction of n. The authors' method is for
        blocks; those of a random partition are drawn.
    norms : {"estimated", "certified"}
        The norms |A_I| of blocks: exact where they take at most 3 passes, and else
        estimated from a sample of rows; or exact or upper bounds in any case, as the
        theory asks. With estimates the gap is watched; if it does not fall, the run
        goes back to the best y with |A_I|^2 twice as large, the Frobenius norm at
        most, which is always enough. Single rows are exact.

    Notes
    -----
    (gamma/2n)|y|^2 is moved from the conjugates into the smooth part, whose
    block constants are L_I = |A_I|^2/(lam n^2) + gamma/n. Iterations to
    accuracy eps: O((r + sqrt(r^2 max L_I n/gamma)) log(1/eps)), for m = 1
    O((n + sqrt(n kappa)) log(1/eps)).
    """

    name = "apcg"
    family = "dual coordinate"
    moves_x = False
    requires = (dual_prox, nearest_in_domain)
    _average_cost = staticmethod(dual_pair_cost)

    def setup(self, seeds, m=1, norms="estimated"):
        problem, (n, p) = self.problem, self.problem.shape
        start = None if self.start is None else self.start.y
        self._prepare(seeds, n, block_size(m, n, "m"), dual_pair, start)
        operator, blocks = problem.operator, self._blocks
        exact = norms == "certified" or blocks.largest == 1
        if exact or affordable(operator, operator.pairs(blocks, whole(p))):
            norms2, kind = row_blocks_norm2(operator, blocks, each=True)
            self._most = norms2
        else:
            self._most = np.add.reduceat(operator.row_norms2[blocks.order], blocks.starts[:-1])
            found, kind = estimated_norms2(operator, blocks, whole(p)), ESTIMATED
            norms2 = np.minimum(found, self._most)
        self.info.update(m=blocks.largest, L_kind=kind)
        self._take_norms(norms2)
        if self._uncertain:
            self._best, self._best_y, self._at_best = self._gap(), self.y, 0
            self._done, self._apart, self._next = 0, 2 * FIRST_LOOK, self._epochs(FIRST_LOOK)

    def _take_norms(self, norms2):
        """Make steps for these |A_I|^2."""
        problem = self.problem
        # Everything times n: the weight of a step is then that of `dual_prox`.
        smoothness = formulas.apcg_dual(
            problem.shape[0], norms2, problem.lam, problem.gamma
        )
        weights = self._accelerate(smoothness, problem.gamma, problem.gamma)
        self._rule = DualSteps(problem.loss, weights, problem.gamma)
        self._norms2, self._uncertain = norms2, bool(np.any(norms2 < self._most))

    def _epochs(self, count):
        return count * int(self.info["n_blocks"])

    def _run(self, n_iterations):
        while True:
            count = n_iterations
            if self._uncertain:
                count = min(count, self._next - self._done)
                self._done += count
            super()._run(count)
            n_iterations -= count
            if self._uncertain and self._done == self._next:
                self._look()
            if n_iterations == 0:
                return

    def _gap(self):
        """P(x) - D(y) of the current y and the x that belongs to it."""
        operator, x = self.problem.operator, self.x
        self._counters[0] += operator.multiply_adds
        if len(operator.x_shape) > 1:
            self._counters[2] += len(x)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.problem.gap_at(self.y, operator.matvec(x))

    def _look(self):
        """Go on if the gap falls as it should, else back, with norms sqrt(2) times as large."""
        gap, scale = self._gap(), max(1.0, abs(self._best))
        patience = PATIENCE * self.info["n_blocks"] / math.sqrt(self.info["mu"])
        late = self._done - self._at_best >= patience and gap > SETTLED * scale
        if gap < self._best:
            self._best, self._best_y, self._at_best = gap, self.y, self._done
        elif not gap <= EXPLOSION * self._best + SETTLED * scale or late:
            self._take_norms(np.minimum(2.0 * self._norms2, self._most))
            self.info["raised"] = self.info.get("raised", 0) + 1
            self._begin_at(self._best_y)
            self._at_best, self._apart = self._done, FIRST_LOOK
        self._next = self._done + self._epochs(self._apart)
        self._apart = min(2 * self._apart, APART)

    @property
    def x(self):
        return self.problem.primal_from_dual(self.y)

    @property
    def y(self):
        # A combination of feasible points, feasible but for rounding.
        return nearest_feasible(self.problem.loss, self._current(), self.problem.b)


class PrimalAPCG(AcceleratedMethod):
    """Accelerated proximal coordinate gradient method on the primal.

    Parameters
    ----------
    q : int or float
        Block size, as a count or a fraction of p.
    norms : {"estimated", "certified"}
        Norms of blocks of columns, as for batches of `benchmark_dspdc.methods.saga.SAGA`.

    Notes
    -----
    The l2 term is moved into the smooth part, whose block constants are
    L_J = |A^J|^2/(gamma n) + lam. An iteration costs O(nnz of the columns), for
    A = UV O(nd). Iterations to accuracy eps: O(s sqrt(max L_J/lam) log(1/eps)).
    """

    name = "apcg_primal"
    family = "primal coordinate"
    requires = (reg_prox,)
    _average_cost = staticmethod(primal_pair_cost)

    def setup(self, seeds, q=1, norms="estimated"):
        problem, (n, p) = self.problem, self.problem.shape
        start = None if self.start is None else self.start.x
        self._prepare(seeds, p, block_size(q, p, "q"), primal_pair, start)
        if norms == "certified":
            norms2, kind = column_blocks_norm2(problem.operator, self._blocks)
        else:
            norms2, kind = quick_norms2(
                problem.operator, whole(n), self._blocks, False, self._raised
            )
        if kind == ESTIMATED_AND_WATCHED:
            self._watch = Watch(
                problem.operator, whole(n), self._blocks, float(norms2.max())
            )
        moved = moduli_of(problem.reg, p)
        of_blocks = [moved[block] for block in self._blocks.blocks]
        low, high = (np.array([f(of) for of in of_blocks]) for f in (np.min, np.max))
        # The norms are those of the blocks sqrt(lam/lam_j) A^j.
        smoothness = norms2 / (problem.gamma * n) * (high / problem.lam) + high
        self._rule = PrimalSteps(problem.reg, self._accelerate(smoothness, low, high), moved)
        self.info.update(q=self._blocks.largest, L_kind=kind)

    @property
    def x(self):
        # A combination of feasible points, feasible but for rounding.
        x = self._current()
        into_domain(self.problem.reg, x)
        return x

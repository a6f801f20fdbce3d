"""APCG: accelerated randomised proximal coordinate gradient method, on the dual and the primal.

References
----------
Q. Lin, Z. Lu, L. Xiao. An accelerated randomized proximal coordinate gradient
method and its application to regularized empirical risk minimization.
SIAM J. Optimization 25, 2015 (Algorithm 3 for the strongly convex case; its
section on regularised risk for the dual).
"""

from typing import NamedTuple

import numpy as np

from ..engine.dispatch import index
from ..engine.kernel_cache import njit
from ..engine.sampling import block_size, draw, generator, partition
from ..engine.threads import single_threaded
from ..model.losses import dual_prox, nearest_feasible
from ..model.regularizers import pair_primal_step
from ..state import dual_pair, dual_pair_cost, primal_pair, primal_pair_cost
from ..state.accelerated import pair_add, pair_cost, pair_fetch, pair_products, rescale
from ..theory import steps as formulas
from ..theory.coupling_constant import column_blocks_norm2, row_blocks_norm2
from .method import Algorithm

#: The factor of u is taken into u when it gets this small.
SMALLEST = 1e-80


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


@njit(inline=True, cache=True)
def dual_changes(loss, order, lo, hi, b, u, v, factor, weights, gamma, c, buffer):
    """Steps of a block; the buffer holds products on entry, changes on return.

    With z = v - factor u and zbar = v + factor u the new value minimises
    phi*(y_i) - (gamma/2) y_i^2 + (weight/2)(y_i - z_i)^2 - y_i (<a_i, x> - gamma zbar_i).
    """
    for k in range(lo, hi):
        i = index(order, k)
        z = v[i] - factor * u[i]
        product = buffer[k - lo] - 2.0 * gamma * factor * u[i]
        change = dual_prox(loss, product, b[i], z, max(weights[i] - gamma, 0.0)) - z
        buffer[k - lo] = change
        u[i] += c.of_u / factor * change
        v[i] += c.of_v * change


@njit
def iterate_dual(pair, loss, reg, b, u, v, blocks, weights, gamma, c, state, ahead, scale,
                 counters, buffer, n_iterations):
    """Steps of blocks of dual coordinates; ``scale`` is the current factor of u."""
    for _ in range(n_iterations):
        lo, hi = draw(blocks, state, ahead)
        pair_fetch(pair, blocks.order, ahead[0], ahead[1])
        factor = scale[0] * c.rho
        counters[2] += pair_products(pair, reg, b, factor, blocks.order, lo, hi, buffer)
        dual_changes(loss, blocks.order, lo, hi, b, u, v, factor, weights, gamma, c, buffer)
        pair_add(pair, blocks.order, lo, hi, buffer, c.of_u / factor, c.of_v)
        counters[0] += pair_cost(pair, blocks.order, lo, hi)
        counters[1] += hi - lo
        scale[0] = factor
        if factor < SMALLEST:
            for i in range(u.shape[0]):
                u[i] *= factor
            rescale(pair, factor)
            scale[0] = 1.0


@njit
def iterate_primal(pair, loss, reg, b, u, v, blocks, weights, moved, c, state, ahead, scale,
                   counters, buffer, n_iterations):
    """Steps of blocks of primal coordinates; ``scale`` is the current factor of u."""
    for _ in range(n_iterations):
        lo, hi = draw(blocks, state, ahead)
        pair_fetch(pair, blocks.order, ahead[0], ahead[1])
        factor = scale[0] * c.rho
        pair_products(pair, loss, b, factor, blocks.order, lo, hi, buffer)
        counters[2] += pair_primal_step(
            reg, blocks.order, lo, hi, u, v, factor, weights, moved, b.shape[0], c.of_u / factor,
            c.of_v, buffer,
        )
        pair_add(pair, blocks.order, lo, hi, buffer, c.of_u / factor, c.of_v)
        counters[0] += pair_cost(pair, blocks.order, lo, hi)
        counters[1] += hi - lo
        scale[0] = factor
        if factor < SMALLEST:
            for j in range(u.shape[0]):
                u[j] *= factor
            rescale(pair, factor)
            scale[0] = 1.0


class _Accelerated(Algorithm):
    """What both share: u, v, the factor of u, and the blocks."""

    def _prepare(self, seeds, total, size, shape, pair, kernel):
        rng = np.random.default_rng(seeds.spawn(1)[0])
        self._blocks = partition(total, size, rng)
        self._u, self._v = np.zeros((2, *shape))
        self._pair = pair
        compiled = isinstance(pair, tuple)
        self._kernel = kernel if compiled else single_threaded(kernel.py_func)
        self._generator = generator(seeds.generate_state(1)[0])
        self._ahead, self._scale = np.full(2, -1), np.ones(1)
        self._buffer = np.empty((self._blocks.largest, *shape[1:]))

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
        return self._scale[0] * self._u + self._v


class APCG(_Accelerated):
    """Accelerated proximal coordinate gradient method on the dual.

    Parameters
    ----------
    m : int or float
        Block size, as a count or a fraction of n. The authors' method is for
        blocks; those of a random partition are drawn.

    Notes
    -----
    (gamma/2n)|y|^2 is moved from the conjugates into the smooth part, whose
    block constants are L_I = |A_I|^2/(lam n^2) + gamma/n. Iterations to
    accuracy eps: O((r + sqrt(r^2 max L_I n/gamma)) log(1/eps)), for m = 1
    O((n + sqrt(n kappa)) log(1/eps)).
    """

    name = "apcg"

    def setup(self, seeds, m=1):
        problem, (n, _) = self.problem, self.problem.shape
        self._prepare(
            seeds, n, block_size(m, n, "m"), (n,), dual_pair(problem.operator), iterate_dual
        )
        norms2, kind = row_blocks_norm2(problem.operator, self._blocks, each=True)
        # Everything times n: the weight of a step is then that of `dual_prox`.
        smoothness = formulas.apcg_dual(n, norms2, problem.lam, problem.gamma)
        self._weights = self._accelerate(smoothness, problem.gamma, problem.gamma)
        self.info.update(m=self._blocks.largest, L_kind=kind)

    def _run(self, n_iterations):
        problem = self.problem
        self._kernel(
            self._pair, problem.loss, problem.reg, problem.b, self._u, self._v, self._blocks,
            self._weights, problem.gamma, self._c, self._generator, self._ahead, self._scale,
            self._counters, self._buffer, n_iterations,
        )

    @property
    def x(self):
        return self.problem.primal_from_dual(self.y)

    @property
    def y(self):
        # A combination of feasible points, feasible but for rounding.
        return nearest_feasible(self.problem.loss, self._current(), self.problem.b)

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        return operator.multiply_adds / dual_pair_cost(
            operator, self._blocks.inverse_probability
        )


class PrimalAPCG(_Accelerated):
    """Accelerated proximal coordinate gradient method on the primal.

    Parameters
    ----------
    q : int or float
        Block size, as a count or a fraction of p.

    Notes
    -----
    The l2 term is moved into the smooth part, whose block constants are
    L_J = |A^J|^2/(gamma n) + lam. An iteration costs O(nnz of the columns), for
    A = UV O(nd). Iterations to accuracy eps: O(s sqrt(max L_J/lam) log(1/eps)).
    """

    name = "apcg_primal"

    def setup(self, seeds, q=1):
        problem, (n, p) = self.problem, self.problem.shape
        self._prepare(
            seeds, p, block_size(q, p, "q"), problem.x_shape, primal_pair(problem.operator),
            iterate_primal,
        )
        norms2, kind = column_blocks_norm2(problem.operator, self._blocks)
        self._moved = problem.reg.moduli(p)
        of_blocks = [self._moved[block] for block in self._blocks.blocks]
        low, high = (np.array([f(of) for of in of_blocks]) for f in (np.min, np.max))
        # The norms are those of the blocks sqrt(lam/lam_j) A^j.
        smoothness = norms2 / (problem.gamma * n) * (high / problem.lam) + high
        self._weights = self._accelerate(smoothness, low, high)
        self.info.update(q=self._blocks.largest, L_kind=kind)

    def _run(self, n_iterations):
        problem = self.problem
        self._kernel(
            self._pair, problem.loss, problem.reg, problem.b, self._u, self._v, self._blocks,
            self._weights, self._moved, self._c, self._generator, self._ahead, self._scale,
            self._counters, self._buffer, n_iterations,
        )

    @property
    def x(self):
        return self._current()

    @property
    def y(self):
        return None

    @property
    def iterations_per_pass(self):
        operator = self.problem.operator
        return operator.multiply_adds / primal_pair_cost(
            operator, self._blocks.inverse_probability
        )

"""PURE-CD: primal-dual coordinate descent with random extrapolation.

References
----------
A. Alacaoglu, O. Fercoq, V. Cevher. Random extrapolation for primal-dual
coordinate descent. ICML 2020 (Algorithm 1; arXiv 2007.06528).

A. Alacaoglu, V. Cevher, S. J. Wright. On the complexity of a simple
primal-dual coordinate method. 2022, published 2025 (arXiv 2201.07684).
"""

import numpy as np

from ..engine.checks import check_number, choose
from ..engine.sampling import weighted
from ..model.losses import dual_prox
from ..model.regularizers import reg_prox
from ..state import touched_state
from ..state.iteration import Ascent
from ..theory import steps as formulas
from ..theory.importance import PROBABILITIES
from .batches import watched_norms2
from .dual_ascent import BatchLoop, DualAscentMethod, Epochs, dual_blocks


class PureCD(DualAscentMethod):
    """Primal-dual coordinate descent with random extrapolation.

    It is applied to the dual: coordinates of y are drawn, and of x those
    move that have entries in the rows drawn.

    Parameters
    ----------
    m : int or float
        Block size, as a count or a fraction of n: the blocks of a random
        partition. The paper and its code have the sum of squares in their
        place; the norm |A_I| is enough, by the same proof.
    probabilities : {"uniform", "importance"}
        All blocks equally likely, or p_I = 1/(2r) + |A_I|^2/(2 sum |A|^2).
        The paper has steps for any probabilities and leaves them open; these
        are the ones of RPDG.
    step_size_factor : float
        Multiplies tau and divides sigma, as in the authors' code. 1 balances
        the moduli of both sides; the authors' 1 balances norms alone.
    norms : {"estimated", "certified"}
        Of blocks, as for `benchmark_dspdc.methods.saga.SAGA`.

    Notes
    -----
    An iteration, with w = A'y/n kept, for the block I and the coordinates j
    that it touches, with probability pi_j:

        xbar_j = prox_{tau_j g_j}(x_j - tau_j w_j)
        y_i    = dual prox with z = <a_i, xbar>, rho = n/sigma_I
        x_j    = xbar_j - theta_j tau_j (change of w_j)

    theta_j = pi_j/min p; see `benchmark_dspdc.theory.steps.pure_cd` for the
    steps. With equal probabilities theta_j is the number of blocks that have
    entries in the column j, so sparse data get larger steps. The authors take
    0.9 of the largest sigma.

    It costs O(nnz) of the rows on sparse data, with nothing lazy; O(mp) on dense
    data and O(d(m + p)) on A = UV, where all of x is touched; and an
    eigendecomposition for each block of x that is touched. Zeros that are stored
    count as entries.

    The correction can take x_j out of the domain of g, and off its exact
    zeros. So what is shown is xbar_j of the last iteration that touched j: a
    proximal point, with the same limit.

    The paper proves linear convergence, with a rate of constants that are not
    known beforehand (metric subregularity), hence there is no predicted rate. With
    equal probabilities its inequality gives more. For

        V = sum_j |x_j - x_j*|^2/(2 tau_j pi_j) + r sum_i |y_i - y_i*|^2/(2 sigma_i)

    E V contracts by 1 - 1/K an iteration with C the share of sigma and

        K = max_ij(1/pi_j + 1/(2 lam tau_j pi_j), r/(1 - C) + n r/(2 gamma sigma_i)),

    which is O(r + sqrt(r kappa_m)), kappa_m = r max |A_I|^2/(n lam gamma).
    """

    name = "pure_cd"
    family = "primal-dual"
    moves_x = True
    requires = (dual_prox, reg_prox)

    @classmethod
    def validate(cls, problem, **options):
        super().validate(problem, **options)
        choose(options.get("probabilities", "uniform"), PROBABILITIES, "probabilities")
        check_number(options.get("step_size_factor", 1.0), "step_size_factor", 0.0, strict=True)

    def setup(self, seeds, m=1, probabilities="uniform", step_size_factor=1.0,
              norms="estimated"):
        choose(probabilities, PROBABILITIES, "probabilities")
        factor = check_number(step_size_factor, "step_size_factor", 0.0, strict=True)
        problem, (n, _) = self.problem, self.problem.shape
        blocks = dual_blocks(n, m, np.random.default_rng(seeds.spawn(1)[0]))
        norms2, kind = watched_norms2(self, blocks, norms)
        shares = np.full(len(norms2), 1.0 / len(norms2))
        choice = Epochs(np.arange(len(norms2)), False)
        if probabilities == "importance":
            if norms2.any():
                shares = 0.5 * shares + 0.5 * norms2 / norms2.sum()
            choice = weighted(blocks, shares)
        touched = problem.operator.touch_probabilities(blocks, shares)
        steps = formulas.pure_cd(n, norms2, shares, touched, problem.lam, problem.gamma, factor)
        rho = np.empty(n)
        rho[blocks.order] = np.repeat(steps.rho, np.diff(blocks.starts))
        state = touched_state(
            problem, blocks.largest, steps.tau, steps.omega, *self._beginning(touched)
        )
        if state.point.y.any():
            self._counters[0] += problem.operator.multiply_adds // 2
        self._ascent = BatchLoop(
            problem, seeds, state, Ascent(problem.loss, rho), blocks, choice, self._counters
        )
        self.info.update(
            m=blocks.largest, r=float(len(norms2)), probabilities=probabilities, tau=steps.tau,
            omega=steps.omega, sigma=n / np.maximum(rho, 1e-300), norms_kind=kind,
            step_size_factor=factor,
        )

    def _beginning(self, touched):
        """x and y to begin at; what is never touched is where g alone has it."""
        problem, start = self.problem, self.start
        y = np.zeros(problem.shape[0]) if start is None else np.array(start.y)
        x = np.zeros(problem.x_shape) if start is None else np.array(start.x)
        never = np.flatnonzero(np.broadcast_to(touched, problem.shape[1]) == 0.0)
        if len(never):
            x[never] = problem.primal_from_dual(np.zeros_like(y))[never]
        return x, y

    @property
    def x(self):
        return self._ascent.state.shown

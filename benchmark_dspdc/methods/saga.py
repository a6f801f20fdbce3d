"""SAGA: incremental gradients with a table of derivatives.

References
----------
A. Defazio, F. Bach, S. Lacoste-Julien. SAGA: a fast incremental gradient
method with support for non-strongly convex composite objectives. NIPS 2014.
"""

from ..engine.checks import check_number, choose
from ..state.lazy import Plain
from ..theory import steps as formulas
from .batches import watched_batches
from .loop import LoopMethod


class SAGA(LoopMethod):
    """SAGA: incremental gradient method with a table of derivatives.

    Parameters
    ----------
    m : int or float
        Batch size, as a count or a fraction of n. Batches are the blocks of a
        random partition, each taken as one of the functions that the theory
        sums: its smoothness L is that of the block's mean loss.
    step : {"third", "strong"} or float
        1/(3L), which adapts to any strong convexity, or 1/(2(lam r + L + lam))
        for lam known, r being the number of batches. In the authors' second
        analysis the l2 term is part of the losses; its exact gradient is used.
    norms : {"estimated", "certified"}
        Norms of batches, where exact ones take more than two passes: estimated from a sample of
        rows, and raised if power iteration, a step now and then, finds a larger one; or exact or
        bounded from above, which can take longer than the run. Single rows are exact.

    Notes
    -----
    The loop is that of SPDC: with the dual step rho = 0, y_i = phi'(<a_i, x>)
    is the table, and x moves along A'y/n, corrected by r times the change of y.
    Iterations to accuracy eps: O((r + L/lam) log(1/eps)).
    """

    name = "saga"
    family = "variance reduced"

    def setup(self, seeds, m=1, step="third", norms="estimated"):
        dual, whole, L, info = watched_batches(self, seeds, m, norms)
        r, lam = dual.inverse_probability, self.problem.lam
        if isinstance(step, str):
            choose(step, formulas.SAGA, "step")
            tau = formulas.SAGA[step](r, L, lam)
        else:
            tau = check_number(step, "step", 0.0, strict=True)
        self.info.update(info, step=step)
        steps = formulas.Steps(tau, float("inf"), 0.0)
        self._start(seeds, dual, whole, steps, kind=Plain())
        self._loop.begin_at(self._loop.point.x)

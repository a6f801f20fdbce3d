"""SDCA: stochastic dual coordinate ascent, proximal form.

References
----------
S. Shalev-Shwartz, T. Zhang. Stochastic dual coordinate ascent methods for
regularized loss minimization. JMLR 14, 2013.

S. Shalev-Shwartz, T. Zhang. Accelerated proximal stochastic dual coordinate
ascent for regularized loss minimization. Math. Programming 155, 2016 (the
proximal form).

M. Takac, A. Bijral, P. Richtarik, N. Srebro. Mini-batch primal and dual
methods for SVMs. ICML 2013 (mini-batches).

P. Zhao, T. Zhang. Stochastic optimization with importance sampling for
regularized loss minimization. ICML 2015 (probabilities).
"""

from ..theory.importance import check_order
from .dual_ascent import DualAscent, DualAscentMethod


class SDCA(DualAscentMethod):
    """Stochastic dual coordinate ascent.

    Parameters
    ----------
    m : int or float
        Batch size, as a count or a fraction of n. Batches are the blocks of a
        random partition, fixed for the run.
    scaling : {"auto", "tight", "safe", "sampled"}
        How much a batch is held back: by the norm of its normalised Gram
        matrix, by m, which is always enough, or by an estimate of that norm
        from samples of 1000 rows. The estimate is cheap where batches are
        large and, though it tends to be too large, not certain to be enough:
        if D(y) falls it is doubled. "auto" is "tight" where the norms take at most
        4 passes or 1e7 multiply-adds, else "sampled" within as much. All the
        same for m = 1.
    order : {"random", "permuted"}
        Batches drawn independently, as the theory has it, or each once an
        epoch in a random order, which takes about half the epochs in
        practice.
    probabilities : {"uniform", "importance"}
        All batches equally likely, or by their norms, p_i ~ 1 + |a_i|^2/(lam gamma n)
        for m = 1; only with order="random".

    Notes
    -----
    Iterations to accuracy eps for m = 1: O((n + kappa) log(1/eps)),
    kappa = max_i |a_i|^2/(lam gamma), with importance the mean of them.
    The primal point is x = grad g*(-A'y/n).
    """

    name = "sdca"

    @classmethod
    def validate(cls, problem, **options):
        super().validate(problem, **options)
        check_order(options.get("probabilities", "uniform"), options.get("order", "random"))

    def setup(self, seeds, m=1, scaling="auto", order="random", probabilities="uniform"):
        check_order(probabilities, order)
        self._begin(DualAscent(
            self.problem, seeds, m, scaling, order, probabilities, self._counters, self._first_y
        ))

    @property
    def x(self):
        return self.problem.primal_from_dual(self._ascent.y)

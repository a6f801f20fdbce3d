"""SPDC: stochastic primal-dual coordinate method.

References
----------
Y. Zhang, L. Xiao. Stochastic primal-dual coordinate method for regularized
empirical risk minimization. ICML 2015, JMLR 18(84), 2017.
"""

import numpy as np

from ..engine.checks import choose
from ..engine.threads import check_threads
from ..theory import steps as formulas
from ..theory.importance import check_sampling, spdc_plan
from ..theory.setting import samplers
from .dspdc import DSPDC


class SPDC(DSPDC):
    """Stochastic primal-dual coordinate method: DSPDC with q = p.

    Parameters
    ----------
    m : int or float
        Dual block size.
    steps : {"authors", "dspdc", "block"}
        Step sizes of Zhang & Xiao's Theorem 1, with the largest row norm, or
        those of DSPDC with q = p, its theorem's or by block (then `theorem`, `Lambda`,
        `heuristic_scale` and `order` are as there).
    sampling : {"partition", "subset"}
    probabilities : {"uniform", "importance"}
        Batches equally likely, or, with its authors' steps, half uniformly and
        half by their norms, p_i = 1/(2n) + |a_i|/(2 sum_k |a_k|) for m = 1, with
        dual steps by p_i; with steps="dspdc" as there.
    threads : int
        As for `DSPDC`.

    Notes
    -----
    Iterations to accuracy eps: O((n/m + sqrt(kappa n/m)) log(1/eps)) with
    kappa = max_i |a_i|^2/(lam gamma). With importance and the authors' steps
    (2r + 2 sum_I |A_I|/sqrt(lam gamma n)) log(1/eps), the mean norm in the place
    of the largest; the constants are as recalled from their section on
    non-uniform sampling and are proved in docs/importance.md, batches included.
    ``info["rate"]`` of the authors' steps is that of their Theorem 1, on expected
    squared distances.
    """

    name = "spdc"
    chooses = ()

    @classmethod
    def settled(cls, **options):
        return options

    def setup(self, seeds, m=1, steps="authors", sampling="partition",
              probabilities="uniform", threads=1, **dspdc_options):
        choose(steps, ("authors", "dspdc", "block"), "steps")
        threads = check_threads(threads)
        self.info.update(steps=steps)
        p = self.problem.shape[1]
        if "q" in dspdc_options:
            raise ValueError(
                f"spdc updates all p primal coordinates, got q={dspdc_options['q']!r}; "
                "use method 'dspdc' for blocks of them"
            )
        if steps != "authors":
            kind = {"dspdc": "theorem", "block": "block"}[steps]
            options = dict(order="random", adaptive=False, column_steps=False) | dspdc_options
            super().setup(seeds, m=m, q=p, sampling=sampling, probabilities=probabilities,
                          threads=threads, steps=kind, **options)
            self.info.update(steps=steps)
            return
        if dspdc_options:
            raise ValueError(
                f"{', '.join(dspdc_options)} can be given only with steps='dspdc' or 'block', "
                f"got steps={steps!r}"
            )
        check_sampling(probabilities, sampling)
        dual, primal = samplers(self.problem, seeds, m, p, sampling)
        self.info.update(sampling=sampling)
        if probabilities == "importance":
            self._start_by(spdc_plan(self.problem, dual, primal), seeds, threads)
            return
        R = float(np.sqrt(self.problem.operator.row_norms2.max()))
        chosen = formulas.spdc(
            self.problem.shape[0], dual.inverse_probability, R, self.problem.lam,
            self.problem.gamma,
        )
        self.info.update(R=R, rate=1.0 - chosen.theta)
        self._start(seeds, dual, primal, chosen, threads=threads)

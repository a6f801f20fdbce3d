"""The constants of a problem: norms of blocks of A, and the condition numbers made of them.

Lambda_{q,m} is the largest |A_I^J|^2 over blocks of m rows and q columns. The
paper's tables speak of four of its cases, and DSPDC's steps of a fifth:

========== ============================================ =================================
Lambda_11  largest a_ij^2, or |A_i^j|_F^2 of a matrix   exact, or Cauchy-Schwarz if A = UV
Lambda_p1  largest |A_i|^2 of a row                     exact
Lambda_1n  largest |A^j|^2 of a column, or of a block   exact, or a certified bound
Lambda_pn  |A|^2                                        exact, or a certified bound
Lambda_qm  of the blocks that DSPDC draws               exact, or a certified bound
========== ============================================ =================================

A is never formed, and a value that is not exact is an upper bound, with a
lower one beside it.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..engine.checks import check_int
from ..engine.sampling import Partition
from ..engine.threads import single_threaded
from ..model.problem import Problem
from .coupling_constant import (
    budget,
    coupling_constant,
    largest_norm2_below,
    norm2,
    partition_constant,
    whole,
)
from .setting import dspdc_setting, practice

#: What a constant may cost here, in units of what it may cost a method that waits for it.
PATIENCE = 10


class Known(NamedTuple):
    """What is known of a constant: its value, or an upper and a lower bound.

    `kind` is "exact" or says how the upper bound was found. Of `seconds`, what an earlier
    constant has left is not counted again.
    """

    value: float
    lower: float
    kind: str
    seconds: float

    @property
    def exact(self):
        """Whether the value is the constant itself, but for rounding."""
        return self.kind == "exact"


@dataclass(frozen=True)
class ProblemConstants:
    """The constants of a problem, as `constants` finds them.

    Attributes
    ----------
    n, p : int
    lam, gamma : float
        Strong convexity of g and of each phi_i*.
    m, q : int
        Largest blocks of DSPDC's partitions.
    r, s : float
        Numbers of its dual and primal blocks.
    Lambda_11, Lambda_p1, Lambda_1n, Lambda_pn, Lambda_qm : Known
    heuristic : float
        The paper's m q Lambda_p1/p in place of Lambda_qm.
    """

    n: int
    p: int
    lam: float
    gamma: float
    m: int
    q: int
    r: float
    s: float
    Lambda_11: Known
    Lambda_p1: Known
    Lambda_1n: Known
    Lambda_pn: Known
    Lambda_qm: Known
    heuristic: float

    @property
    def kappa(self):
        """Lambda_p1/(lam gamma), the condition number of methods that take rows."""
        return self.Lambda_p1.value / (self.lam * self.gamma)

    @property
    def kappa_whole(self):
        """|A|^2/(n lam gamma), that of methods that take all of A."""
        return self.Lambda_pn.value / (self.n * self.lam * self.gamma)

    @property
    def ratio(self):
        """Lambda_qm over the heuristic; above 1 the theorems do not cover the heuristic.

        1 for a matrix of zeros, where both are 0.
        """
        return self.Lambda_qm.value / self.heuristic if self.heuristic > 0.0 else 1.0

    #: Names of the constants, in the order shown.
    NAMES = ("Lambda_11", "Lambda_p1", "Lambda_1n", "Lambda_pn", "Lambda_qm")

    def as_dict(self):
        """All of it as plain numbers and strings, the constants as dicts."""
        plain = ("n", "p", "lam", "gamma", "m", "q", "r", "s", "heuristic", "ratio", "kappa",
                 "kappa_whole")
        found = {name: getattr(self, name) for name in (*plain, *self.NAMES)}
        return found | {name: found[name]._asdict() for name in self.NAMES}

    def __rich__(self):
        from rich import box
        from rich.table import Table

        bounded = not all(getattr(self, name).exact for name in self.NAMES)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in ("constant", "value", *["at least"] * bounded, "what is known", "seconds"):
            left = name in ("constant", "what is known")
            table.add_column(name, justify="left" if left else "right")

        def add(name, value, kind, lower="", seconds=""):
            table.add_row(name, f"{value:.4g}", *[lower] * bounded, kind, seconds)

        for name in self.NAMES:
            known = getattr(self, name)
            sizes = f"m = {self.m}, q = {self.q}: " if name == "Lambda_qm" else ""
            add(name, known.value, sizes + known.kind,
                "" if known.exact else f"{known.lower:.4g}", f"{known.seconds:.3f}")
        add("m q Lambda_p1/p", self.heuristic, f"heuristic, Lambda_qm is {self.ratio:.2g} of it")
        add("Lambda_p1/(lam gamma)", self.kappa, "kappa")
        add("Lambda_pn/(n lam gamma)", self.kappa_whole, "kappa of whole passes")
        return table

    def __str__(self):
        from rich.console import Console

        console = Console(width=80, color_system=None)
        with console.capture() as shown:
            console.print(self)
        return shown.get()


@single_threaded
def constants(problem, m=None, q=None, seed=0):
    """The constants that rates and step sizes are made of, each exact or certified.

    Parameters
    ----------
    problem : Problem
        As from `erm`, `matrix_risk`, `trace_regression` or `mt_lmnn`.
    m, q : int, float or None
        Block sizes of DSPDC, counts or fractions; None for its defaults.
    seed : int
        Of DSPDC, hence of its partitions.

    Returns
    -------
    ProblemConstants
        Printed, it is a table.

    Notes
    -----
    What a constant may cost is bounded, by `PATIENCE` times
    `benchmark_dspdc.theory.coupling_constant.budget`; beyond that an upper bound takes its place.
    Lambda_qm is that of Lambda="partition", within the budget. Where blocks have
    different moduli lam_j of strong convexity, norms are those of
    sqrt(lam/lam_j) A^j with lam the least modulus, which are what step sizes are
    made of.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmark_dspdc import constants, erm
    >>> found = constants(erm(np.eye(4), np.ones(4), lambda2=0.5), m=2, q=2)
    >>> found.Lambda_pn.value, found.kappa
    (1.0, 2.0)
    """
    if not isinstance(problem, Problem):
        raise ValueError(
            "problem must be a Problem, as erm, matrix_risk, trace_regression and mt_lmnn return, "
            f"got {problem!r}"
        )
    check_int(seed, "seed", 0)
    problem = problem.for_steps("each")
    operator = problem.operator
    limit = PATIENCE * budget(operator)
    n, p = operator.shape
    rows, columns = (Partition(np.arange(k + 1), np.arange(k)) for k in (n, p))

    def known(find, dual, primal, begun=None):
        begun = time.perf_counter() if begun is None else begun
        value, kind = find()
        below = value if kind == "exact" else largest_norm2_below(operator, dual, primal)
        return Known(value, min(value, below), kind, time.perf_counter() - begun)

    def largest_column():
        if operator.column_width == 1:
            return float(operator.column_norms2.max()), "exact"
        return partition_constant(operator, whole(n), columns, limit)

    def norm():
        value, kind = norm2(operator, limit)
        return value, "exact" if kind == "|A|^2" else f"upper bound ({kind})"

    begun = time.perf_counter()
    steps, _, adaptive = practice()
    setting = dspdc_setting(
        problem, np.random.SeedSequence(seed), "auto" if m is None else m,
        "auto" if q is None else q, Lambda="partition", steps=steps, adaptive=adaptive,
    )
    dual, primal = setting.dual, setting.primal
    Lambda_qm = known(lambda: setting.constant, dual, primal, begun)
    Lambda_p1 = known(lambda: (float(operator.row_norms2.max()), "exact"), rows, whole(p))
    Lambda_11 = known(lambda: operator.largest_entry2(limit), rows, columns)
    Lambda_1n = known(largest_column, whole(n), columns)
    Lambda_pn = known(norm, whole(n), whole(p))
    return ProblemConstants(
        n, p, problem.lam, problem.gamma, dual.largest, primal.largest, dual.inverse_probability,
        primal.inverse_probability, Lambda_11, Lambda_p1, Lambda_1n, Lambda_pn, Lambda_qm,
        coupling_constant(problem, "heuristic", dual, primal).value,
    )

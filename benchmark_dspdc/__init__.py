"""Primal-dual coordinate methods with certified gaps, and a benchmark of them.

>>> from benchmark_dspdc import erm, solve
>>> problem = erm(A, b, loss="smoothed_hinge", lambda1=1e-3, lambda2=1e-2)
>>> result = solve(problem, method="dspdc", tol=1e-6)

The unknowns may also be positive semi-definite matrices: `matrix_risk`,
`trace_regression`, `mt_lmnn`.
"""

from .matrix_problems import matrix_risk, mt_lmnn, trace_regression
from .problem import Certificate, Problem, erm
from .problem_constants import ProblemConstants, constants
from .solver import Result, methods, solve
from .version import __version__

__all__ = [
    "Certificate",
    "Problem",
    "ProblemConstants",
    "Result",
    "__version__",
    "constants",
    "erm",
    "matrix_risk",
    "methods",
    "mt_lmnn",
    "solve",
    "trace_regression",
]


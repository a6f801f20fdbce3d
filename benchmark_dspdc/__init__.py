"""Primal-dual coordinate methods with certified gaps, and a benchmark of them.

>>> from benchmark_dspdc import erm, solve
>>> problem = erm(A, b, loss="smoothed_hinge", lambda1=1e-3, lambda2=1e-2)
>>> result = solve(problem, method="dspdc", tol=1e-6)

The unknowns may also be positive semi-definite matrices: `matrix_risk`,
`trace_regression`, `mt_lmnn`.
"""

from importlib import import_module

from .version import __version__

#: The module of each public name. They are loaded when they are first asked for: that takes
#: seconds, and most commands of ``python -m benchmark_dspdc`` need few of them.
_MODULES = {
    "Certificate": "problem",
    "Problem": "problem",
    "ProblemConstants": "problem_constants",
    "Result": "solver",
    "constants": "problem_constants",
    "erm": "problem",
    "matrix_risk": "matrix_problems",
    "methods": "solver",
    "mt_lmnn": "matrix_problems",
    "solve": "solver",
    "trace_regression": "matrix_problems",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    # Next time it is found without this function.
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})

"""Primal-dual coordinate methods with certified gaps, and a benchmark of them.

>>> from benchmark_dspdc import erm, solve
>>> problem = erm(A, b, loss="smoothed_hinge", lambda1=1e-3, lambda2=1e-2)
>>> result = solve(problem, method="dspdc", tol=1e-6)

The unknowns may also be positive semi-definite matrices: `matrix_risk`,
`trace_regression`, `mt_lmnn`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from .version import __version__

#: The modules that the package needs, by the names that pip knows them by.
_NEEDED = {
    "numpy": "numpy", "scipy": "scipy", "numba": "numba", "benchopt": "benchopt",
    "libsvmdata": "libsvmdata", "pandas": "pandas", "pyarrow": "pyarrow", "seaborn": "seaborn",
    "scikit-learn": "sklearn", "joblib": "joblib", "threadpoolctl": "threadpoolctl",
    "rich": "rich", "filelock": "filelock", "ruptures": "ruptures",
}

# A bare clone under benchopt has no installer that has seen to them.
if _missing := [name for name, module in _NEEDED.items() if find_spec(module) is None]:
    _clone = Path(__file__).resolve().parents[1]
    _wanted = f"-e {_clone}" if (_clone / "pyproject.toml").exists() else " ".join(_missing)
    raise ModuleNotFoundError(
        f"benchmark_dspdc needs {', '.join(_missing)}, not installed here; run "
        f"`pip install {_wanted}`, or `benchopt install` with conda"
    )

#: The module of each public name. They are loaded when they are first asked for: that takes
#: seconds, and most commands of ``python -m benchmark_dspdc`` need few of them.
_MODULES = {
    "Certificate": "model.problem",
    "ElasticNet": "model.regularizers",
    "Huber": "model.losses",
    "Logistic": "model.losses",
    "MultiTaskLMNN": "sklearn",
    "NonNegative": "model.regularizers",
    "Problem": "model.problem",
    "ProblemConstants": "theory.constants",
    "Result": "result",
    "SmoothedHinge": "model.losses",
    "Square": "model.losses",
    "certify": "problems",
    "compare": "comparing",
    "constants": "theory.constants",
    "erm": "problems",
    "matrix_risk": "problems",
    "methods": "solver",
    "mt_lmnn": "problems",
    "path": "comparing",
    "solve": "solver",
    "trace_regression": "problems",
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


class _Package(ModuleType):
    """This package: a room that has the name of a public function does not take its place."""

    def __setattr__(self, name, value):
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

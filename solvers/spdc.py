from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Stochastic primal-dual coordinate method (Zhang & Xiao, JMLR 18(84), 2017).

    DSPDC with all primal coordinates; `steps` are its authors' or DSPDC's.
    """

    name = "SPDC"
    method = "spdc"
    parameters = {
        "m": [1], "steps": ["authors"], "sampling": ["partition"],
        "probabilities": ["uniform"], "moduli": ["each"], "threads": [1],
    }
    requirements = []

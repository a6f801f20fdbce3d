from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Prox-SVRG (Xiao & Zhang, SIAM J. Optimization 24, 2014).

    `step` in units of 1/L or "practice" or "theory", `epoch` in units of the number of batches.
    """

    name = "SVRG"
    method = "svrg"
    parameters = {
        "m": [1], "step": ["practice"], "epoch": ["auto"], "snapshot": ["average"],
        "norms": ["estimated"], "moduli": ["each"],
    }
    requirements = []

from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """QNing (Lin, Mairal & Harchaoui, SIAM J. Optimization 29, 2019).

    `kappa` in units of L/n, `epoch` in units of the number of batches, `step` in units of 1/L.
    """

    name = "QNing"
    method = "qning"
    parameters = {
        "inner": ["sdca"], "m": [1], "memory": [100], "kappa": [0.5], "epoch": [1.0],
        "order": ["permuted"], "moduli": ["each"],
    }
    requirements = []

from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """L-SVRG (Kovalev, Horvath & Richtarik, ALT 2020).

    `step` in units of 1/L.
    """

    name = "L-SVRG"
    method = "l_svrg"
    parameters = {
        "m": [1], "step": ["theory"], "probability": ["auto"], "norms": ["estimated"],
        "moduli": ["each"],
    }
    requirements = []

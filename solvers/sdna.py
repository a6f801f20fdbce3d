from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Stochastic dual Newton ascent (Qu, Richtarik, Takac & Fercoq, ICML 2016).

    `order` = random is its theory, permuted its practice.
    """

    name = "SDNA"
    method = "sdna"
    parameters = {
        "m": [16], "inner": [0.1], "order": ["permuted"], "blocks": ["fresh"], "moduli": ["each"],
    }
    requirements = []

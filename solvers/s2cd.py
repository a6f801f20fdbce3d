from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Semi-stochastic coordinate descent (Konecny, Qu & Richtarik, arXiv:1412.6293, 2014).

    With blocks and a proximal step as in Zhao, Yu, Wang, Arora & Liu, NIPS 2014. `step` in units
    of 1/L, `epoch` in units of the number of pairs of blocks.
    """

    name = "S2CD"
    method = "s2cd"
    parameters = {
        "m": [1], "q": [0.1], "step": [0.0625], "epoch": [2.0], "snapshot": ["average"],
        "norms": ["estimated"], "moduli": ["each"],
    }
    requirements = []

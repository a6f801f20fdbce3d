from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Katyusha (Allen-Zhu, JMLR 18(221), 2018)."""

    name = "Katyusha"
    method = "katyusha"
    parameters = {
        "m": [1], "epoch": [2.0], "step": ["theory"], "norms": ["estimated"], "moduli": ["each"],
    }
    requirements = []

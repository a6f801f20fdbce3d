from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Accelerated proximal coordinate gradient on the dual (Lin, Lu & Xiao, 2015)."""

    name = "APCG"
    method = "apcg"
    parameters = {"m": [1], "norms": ["estimated"], "moduli": ["each"]}
    requirements = []

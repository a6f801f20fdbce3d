from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Accelerated proximal coordinate gradient on the primal (Lin, Lu & Xiao, 2015)."""

    name = "APCG-primal"
    method = "apcg_primal"
    parameters = {"q": [1], "norms": ["estimated"], "moduli": ["each"]}
    requirements = []

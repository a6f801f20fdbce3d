from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Randomised primal-dual gradient method (Lan & Zhou, Math. Programming 171, 2018)."""

    name = "RPDG"
    method = "rpdg"
    parameters = {"m": [1], "sampling": ["authors"], "norms": ["estimated"], "moduli": ["each"]}
    requirements = []

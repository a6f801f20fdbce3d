from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Accelerated SDCA (Shalev-Shwartz & Zhang, Math. Programming 155, 2016)."""

    name = "ASDCA"
    method = "asdca"
    parameters = {"m": [1], "order": ["permuted"], "scaling": ["auto"], "moduli": ["each"]}
    requirements = []

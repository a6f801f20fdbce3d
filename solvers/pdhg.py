from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Primal-dual hybrid gradient method (Chambolle & Pock, 2011), deterministic."""

    name = "PDHG"
    method = "pdhg"
    parameters = {"step": ["watched"], "moduli": ["each"]}
    requirements = []

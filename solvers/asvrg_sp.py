from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Accelerated SVRG for saddle-point problems (Palaniappan & Bach, NeurIPS 2016).

    Single entries of A are sampled, `batch` of them in an iteration.
    """

    name = "ASVRG-SP"
    method = "asvrg_sp"
    parameters = {
        "sampling": ["nonuniform"], "batch": ["auto"], "acceleration": ["auto"],
        "inner": ["single"], "norms": ["estimated"], "moduli": ["each"],
    }
    requirements = []

from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Accelerated proximal gradient with adaptive restart (O'Donoghue & Candes), deterministic."""

    name = "FISTA"
    method = "fista"
    parameters = {"step": ["backtracking"], "moduli": ["each"]}
    requirements = []

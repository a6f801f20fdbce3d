from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Doubly stochastic primal-dual coordinate method (Yu, Lin & Yang, arXiv:1508.03390).

    Blocks of m dual and q primal coordinates, given as counts or fractions, or
    chosen ("auto"): the pair of the least predicted time, by Theorem 1 with the
    problem's constants and a model of an iteration. `adaptive` steps follow the
    curvature that a run meets; `steps=block` gives every dual block its own, and
    `order=permuted` visits each block once an epoch.
    """

    name = "DSPDC"
    method = "dspdc"
    parameters = {
        "m, q": [("auto", "auto")],
        "adaptive": [False],
        "sampling": ["partition"],
        "Lambda": ["auto"],
        "theorem": [1],
        "heuristic_scale": [1.0],
        "probabilities": ["uniform"],
        "moduli": ["each"],
        "calibrate": [False],
        "threads": [1],
        "steps": ["theorem"],
        "order": ["random"],
    }
    requirements = []

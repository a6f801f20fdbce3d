from benchmark_dspdc.plugins import MethodSolver


class Solver(MethodSolver):
    """Doubly stochastic primal-dual coordinate method (Yu, Lin & Yang, arXiv:1508.03390).

    Blocks of m dual and q primal coordinates, given as counts or fractions.
    """

    name = "DSPDC"
    method = "dspdc"
    parameters = {
        "m, q": [(0.1, 1.0)],
        "sampling": ["partition"],
        "Lambda": ["auto"],
        "theorem": [1],
        "heuristic_scale": [1.0],
        "probabilities": ["uniform"],
        "moduli": ["each"],
    }
    requirements = []

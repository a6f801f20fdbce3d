from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Stochastic dual coordinate ascent, proximal form (Shalev-Shwartz & Zhang, JMLR 14, 2013).

    `order` = random is its theory, permuted its practice.
    """

    name = "SDCA"
    method = "sdca"
    parameters = {
        "m": [1], "order": ["permuted"], "scaling": ["auto"], "probabilities": ["uniform"],
        "moduli": ["each"],
    }
    requirements = []

from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """SAGA (Defazio, Bach & Lacoste-Julien, NIPS 2014).

    `step` = third is 1/(3L), strong the authors' step for a known modulus.
    """

    name = "SAGA"
    method = "saga"
    parameters = {"m": [1], "step": ["third"], "norms": ["estimated"], "moduli": ["each"]}
    requirements = []

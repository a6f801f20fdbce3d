from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """PURE-CD on the dual (Alacaoglu, Fercoq & Cevher, ICML 2020).

    `step_size_factor` multiplies tau and divides sigma, 1 being balanced by the moduli.
    """

    name = "PURE-CD"
    method = "pure_cd"
    parameters = {
        "m": [1], "probabilities": ["uniform"], "step_size_factor": [1.0],
        "norms": ["estimated"], "moduli": ["each"],
    }
    requirements = []

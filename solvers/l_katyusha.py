from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """L-Katyusha (Kovalev, Horvath & Richtarik, ALT 2020)."""

    name = "L-Katyusha"
    method = "l_katyusha"
    parameters = {"m": [1], "probability": ["auto"], "norms": ["estimated"], "moduli": ["each"]}
    requirements = []

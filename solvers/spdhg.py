from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Stochastic PDHG (Chambolle, Ehrhardt, Richtarik & Schoenlieb, SIAM J. Optim. 28, 2018).

    With `adaptive`, Chambolle, Delplancke, Ehrhardt, Schoenlieb & Tang, J. Math. Imaging and
    Vision 66, 2024.
    """

    name = "SPDHG"
    method = "spdhg"
    parameters = {"m": [1], "adaptive": [False], "norms": ["estimated"], "moduli": ["each"]}
    requirements = []

from benchmark_dspdc.bench.plugins import MethodSolver


class Solver(MethodSolver):
    """Restarted Halpern PDHG with reflection (Lu & Yang, arXiv:2407.16144, 2024), deterministic.

    `halpern=False` restarts to averages (Applegate et al., Math. Programming 201, 2023).
    """

    name = "RPDHG"
    method = "rpdhg"
    parameters = {
        "halpern": [True], "reflection": [1.0], "restarts": [True], "smoothing": [0.5],
        "step": ["watched"], "moduli": ["each"],
    }
    requirements = []

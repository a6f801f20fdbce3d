from benchmark_dspdc.bench.plugins import TolerancePeerSolver, needs

needs("celer")


class Solver(TolerancePeerSolver):
    """celer (Massias et al., ICML 2018): the elastic net with the square loss."""

    name = "celer"
    peer = "celer"
    parameters = {}
    requirements = ["pip::celer"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "square", "lambda1": 0.001, "lambda2": 0.01},
    }

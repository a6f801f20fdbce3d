from benchmark_dspdc.bench.plugins import TolerancePeerSolver, needs

needs("skglm")


class Solver(TolerancePeerSolver):
    """skglm (Bertrand et al., NeurIPS 2022): working sets and proximal Newton or Anderson CD."""

    name = "skglm"
    peer = "skglm"
    parameters = {"solver": ["ProxNewton", "AndersonCD"]}
    requirements = ["pip::skglm"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "logistic", "lambda1": 0.001, "lambda2": 0.01},
    }

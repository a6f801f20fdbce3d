from benchmark_dspdc.bench.plugins import PeerSolver


class Solver(PeerSolver):
    """scipy's L-BFGS-B; with an l1 term on x = u - v, both non-negative."""

    name = "scipy-lbfgs"
    peer = "scipy_lbfgs"
    parameters = {}
    requirements = ["pip::scipy"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "smoothed_hinge", "lambda1": 0.001, "lambda2": 0.01},
    }

from benchmark_dspdc.bench.plugins import MetricPeerSolver


class Solver(MetricPeerSolver):
    """pylmnn's LMNN (Chiotellis; large margins by L-BFGS on L)."""

    name = "pylmnn"
    peer = "pylmnn"
    parameters = {"regularization": [0.5]}
    requirements = []
    test_config = {"dataset": {"name": "MTLMNN"}}

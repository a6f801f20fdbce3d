from benchmark_dspdc.bench.plugins import MetricPeerSolver


class Solver(MetricPeerSolver):
    """metric-learn's LMNN (de Vazelhes et al., JMLR 21, 2020): gradient steps on L."""

    name = "metric-learn-lmnn"
    peer = "metric-learn"
    parameters = {"regularization": [0.5]}
    requirements = []
    test_config = {"dataset": {"name": "MTLMNN"}}

from benchmark_dspdc.bench.plugins import EstimatorSolver


class Solver(EstimatorSolver):
    """MultiTaskLMNN: this package's scikit-learn estimator, impostors found again as it learns."""

    name = "MultiTaskLMNN"
    parameters = {"refresh": [3]}
    requirements = []
    test_config = {"dataset": {"name": "MTLMNN"}}

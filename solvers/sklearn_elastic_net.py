from benchmark_dspdc.bench.plugins import PeerSolver


class Solver(PeerSolver):
    """scikit-learn's ElasticNet, coordinate descent on the square loss."""

    name = "sklearn-elastic-net"
    peer = "sklearn_elastic_net"
    parameters = {}
    requirements = ["pip::scikit-learn"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "square", "lambda1": 0.001, "lambda2": 0.01},
    }

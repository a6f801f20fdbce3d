from benchmark_dspdc.bench.plugins import PeerSolver


class Solver(PeerSolver):
    """scikit-learn's Ridge; `solver` is cholesky, sparse_cg, lsqr, saga or sag."""

    name = "sklearn-ridge"
    peer = "sklearn_ridge"
    parameters = {"solver": ["cholesky", "sparse_cg"]}
    requirements = ["pip::scikit-learn"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "square", "lambda1": 0.0, "lambda2": 0.01},
    }

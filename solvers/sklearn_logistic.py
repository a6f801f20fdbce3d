from benchmark_dspdc.bench.plugins import PeerSolver


class Solver(PeerSolver):
    """scikit-learn's LogisticRegression without intercept; liblinear in its dual form."""

    name = "sklearn-logistic"
    peer = "sklearn_logistic"
    parameters = {"solver": ["lbfgs", "liblinear", "saga", "newton-cholesky"]}
    requirements = ["pip::scikit-learn"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "logistic", "lambda1": 0.0, "lambda2": 0.01},
    }

from benchmark_dspdc.bench.plugins import PeerSolver, needs

needs("cyanure")


class Solver(PeerSolver):
    """Cyanure (Mairal, arXiv:1912.08165), its inner solver named."""

    name = "cyanure"
    peer = "cyanure"
    parameters = {"solver": ["qning-svrg", "catalyst-miso", "acc-svrg"]}
    requirements = ["pip::cyanure"]
    test_config = {
        "dataset": {"name": "Sparse"},
        "objective": {"loss": "logistic", "lambda1": 0.0, "lambda2": 0.01},
    }

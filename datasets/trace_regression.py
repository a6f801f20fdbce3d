from benchopt import BaseDataset

from benchmark_dspdc.data import trace_regression_data


class Dataset(BaseDataset):
    """Rank-one measurements of p positive semi-definite matrices of low rank.

    `noise` is relative to the standard deviation of the measurements. For the square loss.
    """

    name = "TraceRegression"
    parameters = {
        "n, p, d": [(2000, 10, 30)],
        "rank": [2],
        "noise": [0.1],
        "random_state": [0],
    }
    test_parameters = {"n, p, d": [(20, 3, 3)]}
    requirements = []

    def get_data(self):
        data = trace_regression_data(
            self.n, self.p, self.d, self.rank, self.noise, self.random_state
        )
        return dict(kind="trace_regression", **data._asdict())

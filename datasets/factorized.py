from benchopt import BaseDataset

from benchmark_dspdc.data import factorized


class Dataset(BaseDataset):
    """The paper's synthetic data, A = UV with a random feature or instance reduction (figure 1).

    The data depend on `random_state` alone, so that all repetitions of a run
    solve one problem and differ by the methods' own randomness. `materialize`
    forms A, as a user with enough memory would.
    """

    name = "Factorized"
    parameters = {
        "n, p, d": [(5000, 100, 20)],
        "reduction": ["feature"],
        "random_state": [0],
        "materialize": [False],
    }
    test_parameters = {"n, p, d": [(60, 20, 5)]}
    requirements = []

    def get_data(self):
        data = factorized(
            n=self.n, p=self.p, d=self.d, reduction=self.reduction, seed=self.random_state
        )
        return dict(A=(data.U, data.V), b=data.b, materialize=self.materialize)

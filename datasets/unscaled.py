from benchopt import BaseDataset

from benchmark_dspdc.data import unscaled_classification


class Dataset(BaseDataset):
    """Synthetic dense rows as they come: columns that are correlated, in units of their own.

    `correlation` is that of any two columns; their units differ by so many `decades`.
    """

    name = "Unscaled"
    parameters = {
        "n, p": [(2000, 100)], "correlation": [0.5], "decades": [0.0], "random_state": [0],
    }
    test_parameters = {"n, p": [(60, 10)], "decades": [2.0]}
    requirements = []

    def get_data(self):
        data = unscaled_classification(
            self.n, self.p, self.correlation, self.decades, self.random_state
        )
        return dict(A=data.X, b=data.b)

from benchopt import BaseDataset

from benchmark_dspdc.data import uneven_classification


class Dataset(BaseDataset):
    """Synthetic sparse rows with norms that differ: log-normal, of this `spread`."""

    name = "SparseUneven"
    parameters = {"n, p, row_nnz": [(8000, 4000, 40)], "spread": [1.0], "random_state": [0]}
    test_parameters = {"n, p, row_nnz": [(80, 50, 5)]}
    requirements = []

    def get_data(self):
        data = uneven_classification(self.n, self.p, self.row_nnz, self.spread, self.random_state)
        return dict(A=data.X, b=data.b)

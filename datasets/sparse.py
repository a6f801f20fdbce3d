from benchopt import BaseDataset

from benchmark_dspdc.data import sparse_classification


class Dataset(BaseDataset):
    """Synthetic sparse rows of unit norm, like text: few popular columns and many rare ones."""

    name = "Sparse"
    parameters = {"n, p, row_nnz": [(20000, 47000, 85)], "random_state": [0]}
    test_parameters = {"n, p, row_nnz": [(80, 50, 5)]}
    requirements = []

    def get_data(self):
        data = sparse_classification(self.n, self.p, self.row_nnz, self.random_state)
        return dict(A=data.X, b=data.b)

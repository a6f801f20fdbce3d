from benchopt import BaseDataset

from benchmark_dspdc.data import matrix_risk_data


class Dataset(BaseDataset):
    """The paper's matrix risk minimisation: standard normal data matrices (figure 3).

    Only their symmetric parts matter and are kept, packed: 1.6 GB at n = p = 100, d = 200.
    """

    name = "MatrixRisk"
    parameters = {"n, p, d": [(100, 100, 100)], "random_state": [0]}
    test_parameters = {"n, p, d": [(20, 4, 3)]}
    requirements = []

    def get_data(self):
        data = matrix_risk_data(self.n, self.p, self.d, self.random_state)
        return dict(kind="matrix_risk", D=data.packed, b=data.b)

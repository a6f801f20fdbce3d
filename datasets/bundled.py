from benchopt import BaseDataset

from benchmark_dspdc.data import load_bundled


class Dataset(BaseDataset):
    """Real data that come with scikit-learn: breast_cancer, digits, diabetes (regression).

    A fifth of the rows is kept for testing. The digits 5 to 9 are +1, 0 to 4 are -1.
    """

    name = "Bundled"
    parameters = {"name": ["breast_cancer"], "scale": ["standardize"], "random_state": [0]}
    requirements = []

    def get_data(self):
        data = load_bundled(self._parameters["name"], scale=self.scale, seed=self.random_state)
        return dict(
            A=data.X, b=data.b, task=data.task, A_test=data.X_test, b_test=data.b_test
        )

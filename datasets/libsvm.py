from benchopt import BaseDataset

from benchmark_dspdc.data import load_libsvm, load_reduced
from benchmark_dspdc.data.libsvm import FromLibsvm


class Dataset(FromLibsvm, BaseDataset):
    """Any data set of the LIBSVM collection, as it is or reduced to A = UV.

    `name` is libsvmdata's, or one imported with
    ``python -m benchmark_dspdc import-libsvm NAME FILE``. Labels are mapped to
    -1 and +1 (smaller label to -1; of several classes the lower half).
    `reduction` is none, feature, instance, svd or nystroem, of rank `d`;
    `materialize` forms the reduced A = UV, as a user with enough memory would.
    """

    name = "LIBSVM"
    parameters = {
        "name": ["a9a"],
        "scale": ["none"],
        "reduction": ["none"],
        "d": [20],
        "random_state": [0],
        "materialize": [False],
    }
    requirements = ["pip::libsvmdata>=0.5"]

    def load(self):
        # benchopt keeps the class's own `name`; the parameter is beside it.
        name = self._parameters["name"]
        if self.reduction == "none":
            data = load_libsvm(name, scale=self.scale)
        else:
            data = load_reduced(name, self.reduction, self.d, self.random_state, self.scale)
        return dict(
            A=data.X, b=data.b, task=data.task, A_test=data.X_test, b_test=data.b_test,
            materialize=self.materialize,
        )

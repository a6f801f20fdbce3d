from benchopt import BaseDataset

from benchmark_dspdc.data import load_metric_learning
from benchmark_dspdc.data.libsvm import FromLibsvm


class Dataset(FromLibsvm, BaseDataset):
    """Multi-task large margin nearest neighbours: a metric for each task (figure 4).

    `source` is aloi, letter, mnist, pendigits (libsvmdata), digits (bundled) or aloi_like
    (synthetic, of ALOI's size: 100 tasks of 10 classes). Tasks are groups of classes, 60 % of
    each class is for training. `d` takes the first principal components, `max_per_class` fewer
    points. `metrics=shared` learns one metric for all tasks.
    """

    name = "MTLMNN"
    parameters = {
        "source": ["digits"],
        "n_neighbors, n_impostors": [(3, 1)],
        "metrics": ["multi-task"],
        "d": [None],
        "n_tasks": [None],
        "n_classes": [None],
        "max_per_class": [None],
        "scale": ["impostor"],
        "random_state": [0],
    }
    test_parameters = {"max_per_class": [12], "d": [4]}
    requirements = ["pip::libsvmdata>=0.5"]
    named_by = "source"

    def __repr__(self):
        # Most parameters are None most of the time.
        shown = ",".join(
            f"{name}={value}" for name, value in sorted(self._parameters.items())
            if value is not None
        )
        return f"{self.name}[{shown}]"

    def load(self):
        data = load_metric_learning(
            self.source, d=self.d, n_tasks=self.n_tasks, scale=self.scale,
            seed=self.random_state, max_per_class=self.max_per_class, n_classes=self.n_classes,
        )
        return dict(
            kind="mt_lmnn", n_neighbors=self.n_neighbors, n_impostors=self.n_impostors,
            metrics=self.metrics, **data._asdict(),
        )

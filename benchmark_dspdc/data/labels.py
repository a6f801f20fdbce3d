"""Labels of classification and regression sets, and the record every loader returns."""

from typing import NamedTuple

import numpy as np

from .common import show_id

# A set that libsvmdata does not list says nothing of its task. More distinct integers than this
# look like a count or a measurement rather than classes.
MAX_GUESSED_CLASSES = 100


class Labelled(NamedTuple):
    """A labelled data set with an optional test part.

    The rows of `X` are samples, float64: a C-contiguous ndarray, a CSR array with sorted indices,
    or, reduced, a pair of factors. `b` is ``-1.0`` or ``+1.0`` for the task "classification", the
    target for "regression"; `label_rule` says how the labels of the source became `b`. A test part
    has the same columns as `X`.
    """

    X: object
    b: np.ndarray
    X_test: object
    b_test: np.ndarray | None
    task: str
    label_rule: str


class LabelRule(NamedTuple):
    """Which classes become -1 and which +1: sorted class labels of either side."""

    negative: tuple
    positive: tuple

    def apply(self, y, what="the labels"):
        """Map class labels to -1.0 and +1.0; `what` names them in the message.

        A label that belongs to neither side is an error. A guess, such as comparing with the cut,
        would silently turn a file that codes its classes differently into wrong labels.
        """
        y = np.asarray(y)
        positive = np.isin(y, self.positive)
        unknown = ~positive & ~np.isin(y, self.negative)
        if unknown.any():
            raise ValueError(
                f"{what} include classes unknown to the training set: got "
                f"{_describe(np.unique(y[unknown]))}, allowed are "
                f"{_describe(self.negative + self.positive)}."
            )
        return np.where(positive, 1.0, -1.0)

    def __str__(self):
        kind = "labels" if len(self.negative) + len(self.positive) == 2 else "classes"
        return f"{kind} {_describe(self.negative)} -> -1, {_describe(self.positive)} -> +1"


def _describe(values):
    """Write sorted class labels briefly: ``4``, ``1..10`` or ``{1, 3, 7}``."""
    values = [float(value) for value in values]
    words = list(map(show_id, values))
    if len(words) == 1:
        return words[0]
    if values[0].is_integer() and (np.diff(values) == 1).all():
        return f"{words[0]}..{words[-1]}"
    if len(words) > 12:
        words[3:-1] = ["..."]
        return f"{{{', '.join(words)}}} ({len(values)} values)"
    return f"{{{', '.join(words)}}}"


def binary_rule(y, name):
    """The `LabelRule` of a training set, whose name is for the message.

    Of ``k`` sorted classes the ``k // 2`` lowest become -1 and the rest +1; with two classes the
    smaller is -1 and the larger +1.
    """
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"dataset {name!r} has one class only: got {_describe(classes)} in all {len(y)} rows, "
            "allowed are two or more classes."
        )
    cut = len(classes) // 2
    return LabelRule(tuple(classes[:cut].tolist()), tuple(classes[cut:].tolist()))


def guess_task(y):
    """Tell classification from regression, where labels are not integers or too many."""
    values = np.unique(y)
    if len(values) > MAX_GUESSED_CLASSES or not np.array_equal(values, np.rint(values)):
        return "regression"
    return "classification"

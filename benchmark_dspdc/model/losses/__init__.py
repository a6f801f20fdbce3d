"""Losses, one file each; `loss` has what they are made of."""

from .huber import Huber
from .logistic import Logistic
from .loss import (
    conjugate_sum,
    derivative_all,
    dual_prox,
    dual_proxes,
    grows_linearly,
    loss_conjugate,
    loss_derivative,
    loss_excess,
    loss_sum,
    loss_value,
    nearest_feasible,
    nearest_in_domain,
)
from .smoothed_hinge import SmoothedHinge
from .square import Square

#: By the names that users give.
LOSSES = {
    "square": Square(), "logistic": Logistic(), "smoothed_hinge": SmoothedHinge(),
    "huber": Huber(),
}

#: Losses whose labels must be -1 or +1.
CLASSIFICATION = tuple(name for name, loss in LOSSES.items() if loss.classification)


def loss_name(loss):
    """The name that a loss has in `LOSSES`, or its type's for one from elsewhere."""
    known = (name for name, other in LOSSES.items() if type(other) is type(loss))
    return next(known, type(loss).__name__)


__all__ = [
    "CLASSIFICATION", "LOSSES", "Huber", "Logistic", "SmoothedHinge", "Square", "conjugate_sum",
    "derivative_all", "dual_prox", "dual_proxes", "grows_linearly", "loss_conjugate",
    "loss_derivative", "loss_excess", "loss_name", "loss_sum", "loss_value", "nearest_feasible",
    "nearest_in_domain",
]

"""The problem: min_x max_y  g(x) + y'Ax/n - (1/n) sum_i phi_i*(y_i)."""

from dataclasses import dataclass

import numpy as np

from ..engine.checks import choose
from ..operators import Operator
from .gradient import loss_gradient
from .losses import conjugate_sum, derivative_all, loss_name, loss_sum
from .regularizers import (
    augmented,
    conjugate_point,
    for_steps,
    miniature,
    reg_conjugate,
    reg_modulus,
    reg_value,
    tilted,
)

#: Step sizes multiply squared norms of A with squared numbers of blocks, values
#: square targets; far below the largest double nothing of that overflows.
LARGEST_SIZE = 1e200


@dataclass(frozen=True)
class Certificate:
    """Values at a pair (x, y), and the gap between them.

    Attributes
    ----------
    primal : float
        P(x).
    dual : float
        The better of D(y) and D(phi'(Ax)): both bound the optimum from below.
    gap : float
        ``primal - dual``, never negative but for rounding.
    relative_gap : float
        ``gap / max(1, |primal|)``.
    own_gap : float
        P(x) - D(y) with the method's own y; Theorem 2 speaks of this one. Equal
        to `gap` for a method that has no y.
    """

    primal: float
    dual: float
    own_gap: float

    @property
    def gap(self):
        return self.primal - self.dual

    @property
    def relative_gap(self):
        return self.gap / max(1.0, abs(self.primal))


class Problem:
    """Regularised empirical risk minimisation in its saddle-point form.

    Parameters
    ----------
    operator : Operator
        The n x p matrix A.
    b : ndarray of shape (n,)
        Labels or targets.
    loss : NamedTuple
        One of `benchmark_dspdc.model.losses`.
    reg : NamedTuple
        One of `benchmark_dspdc.model.regularizers`.

    Notes
    -----
    ::

        P(x) = (1/n) sum_i phi_i(a_i'x) + g(x)
        D(y) = -g*(-A'y/n) - (1/n) sum_i phi_i*(y_i)

    P(x) >= D(y) for all x, y, and the difference bounds how far either is from
    the optimum. All products here are computed afresh and on one thread, so a
    certificate neither trusts a method's own bookkeeping nor depends on how
    many runs share the machine.
    """

    def __init__(self, operator, b, loss, reg):
        self.operator: Operator = operator
        self.b = b
        self.loss = loss
        self.reg = reg

    @property
    def shape(self):
        return self.operator.shape

    @property
    def A(self):
        """The data as they are stored: an ndarray, a CSR array, or the pair (U, V) of A = UV.

        None where a row is made of matrices.
        """
        return self.operator.entries

    @property
    def x_shape(self):
        """Shape of a primal point: (p,), or (p, d, d) for matrices."""
        return self.operator.x_shape

    @property
    def lam(self):
        """Strong convexity of g."""
        return reg_modulus(self.reg)

    @property
    def gamma(self):
        """Strong convexity of each phi_i*."""
        return self.loss.gamma

    def primal(self, x):
        """P(x)."""
        return self._primal(x, self.operator.matvec(x))

    def dual(self, y):
        """D(y); minus infinity outside the domain of the conjugates."""
        conjugates = conjugate_sum(self.loss, y, self.b) / self.shape[0]
        return -reg_conjugate(self.reg, self._pulled_back(y)) - conjugates

    def gap(self, x, y=None):
        """P(x) - max(D(y), D(phi'(Ax))), the certificate of the pair."""
        return self.certify(x, y).gap

    def gap_at(self, y, z):
        """P(x) - D(y) for x = grad g*(-A'y/n) and z = A x, by Fenchel's inequality."""
        both = loss_sum(self.loss, z, self.b) + conjugate_sum(self.loss, y, self.b)
        return (both - float(y @ z)) / len(y)

    def certify(self, x=None, y=None):
        """All values at a pair of which either may be missing.

        Parameters
        ----------
        x : ndarray of shape (p,) or None
            If None, x is the one that y gives through the conjugate.
        y : ndarray of shape (n,) or None
            If None, only y = phi'(Ax) is used.

        Returns
        -------
        Certificate
        """
        if x is None:
            x = self.primal_from_dual(y)
        z = self.operator.matvec(x)
        primal = self._primal(x, z)
        candidate = self.dual(derivative_all(self.loss, z, self.b))
        own = candidate if y is None else self.dual(y)
        return Certificate(primal, max(own, candidate), primal - own)

    def primal_from_dual(self, y):
        """x = grad g*(-A'y/n)."""
        out = np.empty(self.x_shape)
        conjugate_point(self.reg, self._pulled_back(y), out)
        return out

    def _pulled_back(self, y):
        """-A'y/n, matrices packed."""
        w = self.operator.rmatvec_packed(y)
        w /= -self.shape[0]
        return w

    def dual_from_primal(self, x):
        """y = phi'(Ax), feasible for every x."""
        return derivative_all(self.loss, self.operator.matvec(x), self.b)

    def loss_gradient(self, x):
        """A' phi'(A x), n times the gradient of the mean loss."""
        return loss_gradient(self.operator, self.loss, self.b, x)

    def score(self, x, task="classification"):
        """Accuracy of sign(Ax), or R^2 of Ax for a regression task."""
        z = self.operator.matvec(x)
        if task == "classification":
            return {"accuracy": float(np.mean(np.where(z >= 0.0, 1.0, -1.0) == self.b))}
        variation = float(np.sum((self.b - self.b.mean()) ** 2))
        if variation == 0.0:
            return {}
        return {"r2": 1.0 - float(np.sum((self.b - z) ** 2)) / variation}

    def for_steps(self, moduli):
        """The problem as a method's steps see it: by each block's modulus, or by the least one.

        Values and certificates are the same; only the norms that step sizes
        are made of differ.
        """
        choose(moduli, ("each", "least"), "moduli")
        return self._with(for_steps(self.reg, moduli))

    def augmented(self, kappa):
        """The problem with (kappa/2)|x|^2 added to g."""
        return self._with(augmented(self.reg, kappa))

    def tilted(self):
        """The problem with g(x) - <shift, x> for g; its `reg.shift` may be changed in place."""
        return self._with(tilted(self.reg, self.x_shape))

    def _with(self, reg):
        """The problem with another regulariser, whose weights are those of the norms."""
        weights = getattr(reg, "weights", None)
        operator = self.operator if weights is None else self.operator.weighted(weights)
        return Problem(operator, self.b, self.loss, reg)

    def weighted(self, weights):
        """The problem with the norms of A diag(weights)^(1/2), for constants alone; None is 1."""
        if weights is None:
            return self
        return Problem(self.operator.weighted(weights), self.b, self.loss, self.reg)

    def miniature(self):
        """A tiny problem with the same types, for compiling."""
        operator = self.operator.miniature()
        b = np.where(np.arange(operator.shape[0]) % 2, 1.0, -1.0)
        return Problem(operator, b, self.loss, miniature(self.reg, operator))

    def _primal(self, x, z):
        return loss_sum(self.loss, z, self.b) / self.shape[0] + reg_value(self.reg, x)

    def __repr__(self):
        n, p = self.shape
        return f"Problem({self.operator.kind} {n} x {p}, {loss_name(self.loss)}, {self.reg})"


def check_scale(problem):
    """The problem, unless its step sizes or values could overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(problem.operator.row_norms2.sum())
        targets = float(np.mean(problem.b ** 2))
        # Where P(x) <= P(0), |x|^2 is at most `targets / lam` and |Ax|^2 the last of these.
        largest = max(size, size / problem.lam, targets, size / problem.lam * targets)
    if not largest < LARGEST_SIZE:
        raise ValueError(
            "the problem is too badly scaled for double precision: the sum of squares of the "
            "data, that divided by the modulus of strong convexity (lambda2, or the least of lam "
            "and lambda0), the mean square of b, and the product of the last two must be below "
            f"{LARGEST_SIZE:g}, got {size:.3g}, the modulus {problem.lam:g} and the mean square "
            f"{targets:.3g}; scale the data"
        )
    return problem


def check_labels(b, loss):
    """The labels, unless the loss is for other ones."""
    if loss.classification and not np.all(np.abs(b) == 1.0):
        given = np.unique(b)
        shown = ", ".join(f"{v:g}" for v in given[:6]) + (", ..." if len(given) > 6 else "")
        zeros = set(given) <= {0.0, 1.0}
        hint = '; pass labels="01" to erm, or b = 2 * b - 1' if zeros else ""
        raise ValueError(
            f"labels must be -1 or +1 for the {loss_name(loss)} loss, got {len(given)} distinct "
            f"value(s): {shown}{hint}"
        )
    return b

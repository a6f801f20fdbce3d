"""Packages that people use instead, on our problems: the constants of each model, and one fit.

Every package writes the problem

    min_x  (1/n) sum_i phi_i(a_i'x) + lambda1 |x|_1 + (lambda2/2) |x|^2

with constants of its own. They are translated here and nowhere else. A peer
says which problems it covers (`Peer.refuses`), brings A into the layout that
its package reads without a copy, and fits with a budget: a number of the
package's own iterations or a tolerance. A package is imported only when it is
used. To add one: a class here and an entry in `PEERS`.
"""

import importlib
import inspect
import warnings

import numpy as np
import scipy.sparse
from threadpoolctl import ThreadpoolController

from ..engine.checks import choose
from ..model.losses import LOSSES, derivative_all, loss_name, loss_sum
from ..model.regularizers import ElasticNet
from ..problems import erm

#: A tolerance that no run reaches, for packages whose budget is a number of iterations.
TINY = 1e-15

#: Largest side of a matrix that a package forms and factorises; 5000 take seconds already.
LARGEST_SIDE = 5000


def stored(problem, columns=False):
    """A as an ndarray or a sparse array, by rows or by columns."""
    A = problem.operator.entries
    if not scipy.sparse.issparse(A):
        return np.asfortranarray(A) if columns else A
    A = scipy.sparse.csc_array(A) if columns else scipy.sparse.csr_array(A)
    if A.nnz < 2 ** 31 and A.indices.dtype != np.int32:
        A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return A


class Peer:
    """A package's method on a problem that it does not refuse, ready to be fitted.

    `solver` is which of the package's methods, one of ``solvers``; None for the first.
    """

    package = None             # the module to import
    losses = ()                # those that the package has
    budget = "iteration"       # what `fit` is given, or "tolerance"
    solvers = ()               # empty if there is no choice
    takes_factors = False      # whether A = UV need not be formed
    by_columns = False         # how the package reads A without a copy

    @classmethod
    def refuses(cls, problem, solver=None):
        """Why the package cannot solve the problem, or None."""
        if len(problem.x_shape) > 1:
            return f"{cls.package} has no problems with matrices as unknowns"
        if problem.operator.kind == "factorized" and not cls.takes_factors:
            return "A = UV is not formed; use the data set's materialize option"
        try:
            solver = cls._chosen(solver)
        except ValueError as error:
            return str(error)
        if (loss := loss_name(problem.loss)) not in cls.losses:
            known = " and ".join(cls.losses)
            return f"this method of {cls.package} has the {known} loss, not {loss}"
        if not isinstance(problem.reg, ElasticNet):
            return f"{cls.package} is used with the elastic net alone, not with {problem.reg}"
        if (reason := cls._refuses(problem, solver)) is not None:
            return reason
        try:
            importlib.import_module(cls.package)
        except ImportError as error:
            return f"{error}; install with pip install .[peers]"
        return None

    @classmethod
    def _refuses(cls, problem, solver):
        """Further reasons of one package."""

    @classmethod
    def _chosen(cls, solver):
        if not cls.solvers:
            return None
        return cls.solvers[0] if solver is None else choose(solver, cls.solvers, "solver")

    def __init__(self, problem, solver=None):
        self.problem = problem
        self.solver = self._chosen(solver)
        importlib.import_module(self.package)
        self._prepare()
        # Asked once the package has loaded its libraries, as that takes milliseconds.
        self._threads = ThreadpoolController()

    def _prepare(self):
        self.A = None if self.takes_factors else stored(self.problem, self.by_columns)

    def fit(self, budget, seed=0):
        """x after that many iterations, or to that tolerance, from x = 0; on one thread.

        A package's messages that it was stopped before its own goal are expected here.
        """
        if budget <= 0 if self.budget == "iteration" else budget >= 1.0:
            return np.zeros(self.problem.x_shape)
        with self._threads.limit(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.ravel(self._fit(budget, seed % 2 ** 31))

    def constants(self):
        """As most packages have them: lambda1 = alpha l1_ratio, lambda2 = alpha (1 - l1_ratio)."""
        lambda1, lambda2 = self.problem.reg
        return dict(alpha=lambda1 + lambda2, l1_ratio=lambda1 / (lambda1 + lambda2))

    def warm_up(self):
        """Run all that is compiled or loaded at its first use, on a tiny problem."""
        tiny = type(self)(self.problem.miniature(), self.solver)
        tiny.fit(3 if self.budget == "iteration" else 1e-6)


def _one_label(problem):
    """Why a classifier refuses the labels."""
    same = np.all(problem.b == problem.b[0])
    return "the package needs rows of both labels" if same else None


# scikit-learn -----------------------------------------------------------------------------

class Sklearn(Peer):
    """One of scikit-learn's linear models."""

    package = "sklearn"
    model = None

    def _fit(self, budget, seed):
        from sklearn import linear_model

        options = dict(solver=self.solver, random_state=seed) if self.solvers else {}
        return getattr(linear_model, self.model)(
            **self.constants(), **options, fit_intercept=False, tol=TINY, max_iter=budget
        ).fit(self.A, self.problem.b).coef_


class SklearnLogistic(Sklearn):
    """LogisticRegression: C sum_i phi_i + (1 - l1_ratio) |x|^2/2 + l1_ratio |x|_1."""

    model = "LogisticRegression"
    losses = ("logistic",)
    solvers = ("lbfgs", "liblinear", "saga", "newton-cholesky", "newton-cg", "sag")

    @classmethod
    def _refuses(cls, problem, solver):
        if problem.reg.lambda1 > 0.0 and solver != "saga":
            return f"{solver} has no elastic net (of scikit-learn's, saga has); needs lambda1 = 0"
        p = problem.shape[1]
        if solver == "newton-cholesky" and p > LARGEST_SIDE:
            return f"newton-cholesky factorises a p x p matrix; p = {p} is above {LARGEST_SIDE}"
        return _one_label(problem)

    def constants(self):
        """C and l1_ratio, and the penalty where releases before 1.8 want it named."""
        from sklearn.linear_model import LogisticRegression

        alpha, l1_ratio = super().constants().values()
        found = dict(C=1.0 / (self.problem.shape[0] * alpha), l1_ratio=l1_ratio,
                     dual=self.solver == "liblinear")
        penalty = inspect.signature(LogisticRegression).parameters.get("penalty")
        if penalty is not None and penalty.default == "l2":
            found |= dict(penalty="elasticnet") if l1_ratio else dict(penalty="l2", l1_ratio=None)
        return found


class SklearnRidge(Sklearn):
    """Ridge: |Ax - b|^2 + alpha |x|^2."""

    model = "Ridge"
    losses = ("square",)
    solvers = ("cholesky", "sparse_cg", "lsqr", "saga", "sag")

    @classmethod
    def _refuses(cls, problem, solver):
        side = min(problem.shape)
        if solver == "cholesky" and side > LARGEST_SIDE:
            return f"cholesky factorises a matrix of side {side}, above {LARGEST_SIDE}"
        if problem.reg.lambda1 > 0.0:
            return "scikit-learn's Ridge has no l1 term; needs lambda1 = 0"
        return None

    def constants(self):
        return dict(alpha=self.problem.shape[0] * self.problem.reg.lambda2)


class SklearnElasticNet(Sklearn):
    """ElasticNet: |Ax - b|^2/(2n) + alpha (l1_ratio |x|_1 + (1 - l1_ratio) |x|^2/2)."""

    model = "ElasticNet"
    losses = ("square",)
    by_columns = True


# scipy ------------------------------------------------------------------------------------

class ScipyLBFGS(Peer):
    """L-BFGS-B on P itself; for lambda1 > 0 on x = u - v with u, v >= 0."""

    package = "scipy.optimize"
    losses = tuple(LOSSES)
    takes_factors = True

    def _smooth(self, x):
        """The loss and the l2 term, with their gradient."""
        problem, n, lambda2 = self.problem, self.problem.shape[0], self.problem.reg.lambda2
        z = problem.operator.matvec(x)
        gradient = problem.operator.rmatvec(derivative_all(problem.loss, z, problem.b))
        gradient /= n
        gradient += lambda2 * x
        return loss_sum(problem.loss, z, problem.b) / n + 0.5 * lambda2 * (x @ x), gradient

    def _split(self, uv):
        lambda1, p = self.problem.reg.lambda1, self.problem.shape[1]
        value, gradient = self._smooth(uv[:p] - uv[p:])
        return value + lambda1 * uv.sum(), np.concatenate((lambda1 + gradient, lambda1 - gradient))

    def _fit(self, budget, seed):
        from scipy.optimize import Bounds, minimize

        p, split = self.problem.shape[1], self.problem.reg.lambda1 > 0.0
        found = minimize(
            self._split if split else self._smooth, np.zeros(2 * p if split else p), jac=True,
            method="L-BFGS-B", bounds=Bounds(0.0, np.inf) if split else None,
            options=dict(maxiter=budget, maxfun=10 ** 9, ftol=0.0, gtol=0.0),
        ).x
        return found[:p] - found[p:] if split else found


# cyanure ----------------------------------------------------------------------------------

class Cyanure(Peer):
    """Cyanure: our own formula, its lambda_1 being that of the l2 term if that is the only one.

    Its inner solver is named: `auto` takes MISO for the elastic net, which ends
    at another point than the optimum (1.2.2). Its own gap, checked as often as
    it likes, would end runs early; here the budget of passes alone ends them.
    """

    package = "cyanure"
    losses = ("square", "logistic")
    solvers = ("qning-svrg", "catalyst-miso", "acc-svrg")

    @classmethod
    def _refuses(cls, problem, solver):
        if problem.reg.lambda1 > 0.0 and "miso" in solver:
            return f"cyanure's {solver} misses the optimum of the elastic net; needs lambda1 = 0"
        return _one_label(problem) if loss_name(problem.loss) == "logistic" else None

    def constants(self):
        lambda1, lambda2 = self.problem.reg
        if lambda1 == 0.0:
            return dict(penalty="l2", lambda_1=lambda2)
        return dict(penalty="elasticnet", lambda_1=lambda1, lambda_2=lambda2)

    def _fit(self, budget, seed):
        from cyanure.estimators import Classifier, Regression

        options = dict(
            **self.constants(), solver=self.solver, fit_intercept=False, tol=TINY, n_threads=1,
            max_iter=budget, duality_gap_interval=budget + 1, random_state=seed, verbose=False,
        )
        square = loss_name(self.problem.loss) == "square"
        model = Regression(**options) if square else Classifier(loss="logistic", **options)
        return model.fit(self.A, self.problem.b).coef_


# skglm and celer --------------------------------------------------------------------------

class Skglm(Peer):
    """skglm: datafit + alpha (l1_ratio |x|_1 + (1 - l1_ratio) |x|^2/2), means over rows.

    The tolerance is relative to what x = 0 violates the optimality conditions by.
    """

    package = "skglm"
    losses = ("square", "logistic")
    solvers = ("ProxNewton", "AndersonCD")
    budget = "tolerance"
    by_columns = True

    def _prepare(self):
        super()._prepare()
        problem = self.problem
        slope = problem.operator.rmatvec(problem.dual_from_primal(np.zeros(problem.x_shape)))
        worst = np.abs(slope).max() / problem.shape[0] - problem.reg.lambda1
        self.scale = worst if worst > 0.0 else 1.0

    def _fit(self, budget, seed):
        from skglm import datafits, penalties, solvers

        square = loss_name(self.problem.loss) == "square"
        datafit = datafits.Quadratic() if square else datafits.Logistic()
        solver = getattr(solvers, self.solver)(
            max_iter=200, tol=budget * self.scale, fit_intercept=False
        )
        return solver.solve(
            self.A, self.problem.b, datafit, penalties.L1_plus_L2(**self.constants())
        )[0]

    def warm_up(self):
        # It compiles in each process; a tiny problem of the same types takes all turns.
        rng = np.random.default_rng(0)
        A = rng.standard_normal((40, 20))
        b = np.where(A[:, 0] + rng.standard_normal(40) > 0.0, 1.0, -1.0)
        if scipy.sparse.issparse(self.A):
            A = scipy.sparse.csr_array(A)
        lambda1 = 1e-2 if self.problem.reg.lambda1 else 0.0
        tiny = erm(A, b, self.problem.loss, lambda1, 1e-2)
        type(self)(tiny, self.solver).fit(1e-8)


class Celer(Peer):
    """celer: |Ax - b|^2/(2n) + alpha (l1_ratio |x|_1 + (1 - l1_ratio) |x|^2/2), l1_ratio > 0."""

    package = "celer"
    losses = ("square",)
    budget = "tolerance"
    by_columns = True

    @classmethod
    def refuses(cls, problem, solver=None):
        if len(problem.x_shape) == 1 and loss_name(problem.loss) == "logistic":
            return "celer's logistic regression has the l1 term alone, here lambda2 > 0"
        return super().refuses(problem, solver)

    @classmethod
    def _refuses(cls, problem, solver):
        return "celer needs lambda1 > 0" if problem.reg.lambda1 == 0.0 else None

    def _fit(self, budget, seed):
        from celer import celer_path

        alpha, l1_ratio = self.constants().values()
        return celer_path(
            self.A, self.problem.b, "lasso", alphas=[alpha], l1_ratio=l1_ratio, tol=budget,
            max_iter=200,
        )[1][:, 0]


PEERS = {
    "sklearn_logistic": SklearnLogistic, "sklearn_ridge": SklearnRidge,
    "sklearn_elastic_net": SklearnElasticNet, "scipy_lbfgs": ScipyLBFGS, "cyanure": Cyanure,
    "skglm": Skglm, "celer": Celer,
}


def next_budget(kind, budget):
    """The budget after this one: 40 % more iterations, or a third of the tolerance."""
    if kind == "iteration":
        return max(budget + 1, int(1.4 * budget))
    return min(0.1, max(budget / 3.0, 1e-14))

"""The kinds of problems that the benchmark's objective poses, each with its own scores.

A task makes a `Problem` of a data set and the objective's constants, and looks at a point x as a
user would: accuracy, test error, rank. To add one: a class here and an entry in `TASKS`.
"""

import numpy as np

from ..data import task_knn_errors
from ..engine.checks import check_flag
from ..model.losses import CLASSIFICATION
from ..operators import is_factorized, product_refused
from ..problems import erm, matrix_risk, mt_lmnn, trace_regression

#: Eigenvalues below this part of the largest count as zero in a rank.
RANK_TOLERANCE = 1e-6

#: Matrices at most that a mean rank is of.
RANKED = 10


class ERM:
    """Regularised empirical risk, with a test set if there is one."""

    constants = ("lambda1", "lambda2")
    dear, facts = False, {}

    @staticmethod
    def refuses(loss, regularizer="elastic_net", A=None, task="classification",
                materialize=False, **data):
        """Why the data are not for this loss and regulariser, or None."""
        if loss in CLASSIFICATION and task != "classification":
            return f"the {loss} loss needs labels -1 and +1; this data set is {task}"
        if check_flag(materialize, "materialize") and is_factorized(A):
            return product_refused(*A)
        return None

    def __init__(self, constants, loss, A, b, task="classification", A_test=None, b_test=None,
                 materialize=False):
        self.task = task
        self.problem = erm(A, b, loss, materialize=materialize, **constants)
        self.test = None if A_test is None else erm(A_test, b_test, loss, **constants)

    def scores(self, x):
        test = {} if self.test is None else self.test.score(x, self.task)
        test = {f"test_{name}": value for name, value in test.items()}
        return dict(nnz=int(np.count_nonzero(x))) | self.problem.score(x, self.task) | test


class MatrixTask:
    """What problems over matrices have in common."""

    constants = ("lam",)
    losses, needs = None, ""      # None for all

    #: Scores take as long as a certificate, so they are taken at some of the points.
    dear = True
    #: What is told of the problem itself.
    facts = {}

    @classmethod
    def refuses(cls, loss, regularizer="elastic_net", **data):
        if cls.losses and loss not in cls.losses:
            return f"{cls.needs}, got {loss}"
        if regularizer != "elastic_net":
            return f"the regularizer {regularizer} is for vectors; these unknowns are matrices"
        return None


class MatrixRisk(MatrixTask):
    """Multiple-matrix risk minimisation (figure 3)."""

    def __init__(self, constants, loss, D, b):
        self.problem = matrix_risk(D, b, loss, **constants)
        # Section 5.2 of the paper says by these where DSPDC wins over SPDC.
        norms2 = self.problem.operator.block_norms.A ** 2
        largest_row = float(norms2.sum(axis=1).max())
        self.facts = dict(Lambda_11=float(norms2.max()), Lambda_p1=largest_row)

    def scores(self, x):
        return self.problem.score(x) | dict(mean_rank=mean_rank(x))


class TraceRegression(MatrixTask):
    """Trace regression; the error is that of the matrices, relative to the truth."""

    losses = ("square",)
    needs = "trace regression has the square loss"

    def __init__(self, constants, loss, measurements, b, truth=None):
        self.problem = trace_regression(measurements, b, **constants)
        self.truth = truth

    def scores(self, x):
        found = self.problem.score(x, "regression") | dict(mean_rank=mean_rank(x))
        if self.truth is not None:
            found["error"] = float(np.linalg.norm(x - self.truth) / np.linalg.norm(self.truth))
        return found


#: Test points, chosen at random, that errors of metric learning are measured on. Scores are
#: taken at every point of a curve and must not take most of its time.
SCORED = 1000


class MTLMNN(MatrixTask):
    """Multi-task metric learning: errors of 3 nearest neighbours on up to `SCORED` test points."""

    constants = ("lambda0", "lam")
    losses = CLASSIFICATION
    needs = f"metric learning needs one of the losses {', '.join(CLASSIFICATION)}"

    def __init__(self, constants, loss, points, labels, tasks, points_test, labels_test,
                 tasks_test, **options):
        self.problem = mt_lmnn(points, labels, tasks, loss=loss, **constants, **options)
        scored = np.arange(len(labels_test))
        if len(scored) > SCORED:
            scored = np.random.default_rng(0).choice(len(scored), SCORED, replace=False)
        self.split = (
            points, labels, tasks, points_test[scored], labels_test[scored], tasks_test[scored]
        )
        self.facts = dict(test_error_euclidean=task_knn_errors(*self.split).overall)

    def scores(self, x):
        shared = np.repeat(x[:1], len(self.problem.learned.task_names), axis=0)
        return dict(
            test_error=task_knn_errors(*self.split, self.problem.learned.metrics(x)).overall,
            test_error_shared=task_knn_errors(*self.split, shared).overall,
            shared_rank=int(ranks(x[:1])[0]),
            mean_rank=mean_rank(x[1:] if len(x) > 1 else x),
        )


TASKS = {
    "erm": ERM, "matrix_risk": MatrixRisk, "trace_regression": TraceRegression, "mt_lmnn": MTLMNN,
}


def ranks(x):
    """Numerical ranks of positive semi-definite matrices (p, d, d)."""
    values = np.linalg.eigvalsh(x)
    return np.sum(values > RANK_TOLERANCE * np.maximum(values[:, -1:], 1e-300), axis=1)


def mean_rank(x):
    """The mean rank of some of the matrices, the same at every call."""
    return float(np.mean(ranks(x[::max(1, len(x) // RANKED)][:RANKED])))

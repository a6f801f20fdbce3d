import numpy as np
from benchopt import BaseObjective

from benchmark_dspdc import erm
from benchmark_dspdc.losses import CLASSIFICATION


class Objective(BaseObjective):
    """Regularised empirical risk, with a certified primal-dual gap.

    min_x  P(x) = (1/n) sum_i phi_i(a_i'x) + lambda1 |x|_1 + (lambda2/2) |x|^2

    `gap` is P(x) - max(D(y), D(phi'(Ax))), computed here from x and y alone;
    `relative_gap` is gap / max(1, |P|); `own_gap` is P(x) - D(y) with the method's own y.
    `passes` counts multiply-adds in units of one A x plus one A'y.
    """

    name = "ERM"
    url = "https://github.com/benchopt/benchmark_dspdc"
    min_benchopt_version = "1.10"
    requirements = []

    parameters = {
        "loss": ["smoothed_hinge"],
        "lambda1, lambda2": [(1e-3, 1e-2)],
    }
    test_dataset_name = "Factorized"

    def skip(self, A, b, task="classification", **data):
        if self.loss in CLASSIFICATION and task != "classification":
            return True, f"the {self.loss} loss needs labels -1 and +1; this data set is {task}"
        return False, None

    def set_data(self, A, b, task="classification", A_test=None, b_test=None):
        self.task = task
        self.problem = erm(A, b, self.loss, lambda1=self.lambda1, lambda2=self.lambda2)
        self.test = None
        if A_test is not None:
            self.test = erm(A_test, b_test, self.loss, self.lambda1, self.lambda2)

    def get_objective(self):
        return dict(problem=self.problem)

    def evaluate_result(self, x=None, y=None, passes=np.nan, coordinate_updates=np.nan):
        if x is None:
            x = self.problem.primal_from_dual(y)
        certificate = self.problem.certify(x, y)
        scores = {"": self.problem, "test_": self.test}
        return dict(
            value=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
            relative_gap=certificate.relative_gap,
            own_gap=certificate.own_gap,
            passes=passes,
            coordinate_updates=coordinate_updates,
            nnz=int(np.count_nonzero(x)),
            **{
                prefix + name: value
                for prefix, problem in scores.items() if problem is not None
                for name, value in problem.score(x, self.task).items()
            },
        )

    def get_one_result(self):
        return dict(x=np.zeros(self.problem.shape[1]), y=np.zeros(self.problem.shape[0]))

import numpy as np
from benchopt import BaseObjective

from benchmark_dspdc.bench.machine_speed import reference_seconds
from benchmark_dspdc.bench.plugins import Carried
from benchmark_dspdc.bench.tasks import TASKS
from benchmark_dspdc.model.losses import Huber


class Objective(Carried, BaseObjective):
    """Regularised empirical risk, with a certified primal-dual gap.

    min_x  P(x) = (1/n) sum_i phi_i(a_i'x) + g(x)

    For vectors g(x) = lambda1 |x|_1 + (lambda2/2) |x|^2, the regularizer "elastic_net", or the
    same for x >= 0, "non_negative"; `delta` is the Huber loss's. For positive semi-definite
    matrices g(X) = sum_j (lam/2) |X_j|^2, and (lambda0/2) |X_0 - I|^2 for the metric that all
    tasks share.

    `gap` is P(x) - max(D(y), D(phi'(Ax))), computed here from x and y alone;
    `relative_gap` is gap / max(1, |P|); `own_gap` is P(x) - D(y) with the method's own y.
    `passes` counts multiply-adds in units of one A x plus one A'y. `predicted_rate` is
    what a method's theorem promises an iteration, where it has one; `block_rows` and
    `block_columns` are the m and q that it took or chose; `reference_seconds` is the time of
    a loop that stands for the machine's speed, measured here at every point of any solver.
    In multiply-adds, `pass_cost` is that of a pass, `eigendecomposition_cost` d^3, and
    `predicted_cost` what a method's rate says that it takes to 1e-6, where that is cheap to say.
    With `stop_at` a curve ends at 1e-6, or at so many times the time of the fastest one before it.
    `family` and `tuning` are numbers of `benchmark_dspdc.report.looks`. `errors_only` is 1 where
    a package solves another problem: its errors can be compared, its gap says nothing.
    Scores of matrices (errors, accuracy, ranks) are taken where a solver says `scored`.
    """

    name = "ERM"
    url = "https://github.com/benchopt/benchmark_dspdc"
    min_benchopt_version = "1.10"
    # Of the package, which all plug-ins import; as in pyproject.toml.
    requirements = [
        "pip::numpy>=2.0", "pip::scipy>=1.13", "pip::numba>=0.61", "pip::benchopt>=1.10",
        "pip::libsvmdata>=0.5", "pip::pandas>=2.2", "pip::pyarrow>=16", "pip::seaborn>=0.13",
        "pip::scikit-learn>=1.6", "pip::joblib>=1.3", "pip::threadpoolctl>=3.5", "pip::rich>=13",
        "pip::filelock>=4.2", "pip::ruptures>=1.1.9",
    ]

    parameters = {
        "loss": ["smoothed_hinge"],
        "delta": [1.0],
        "regularizer": ["elastic_net"],
        "lambda1, lambda2": [(1e-3, 1e-2)],
        "lambda0, lam": [(0.01, 0.1)],
        "stop_at": [None],
    }
    test_dataset_name = "Factorized"

    def __repr__(self):
        # Of the constants only those that the data set's problem has.
        names = ["loss", *TASKS[getattr(self, "kind", "erm")].constants]
        names += ["delta"] if self.loss == "huber" else []
        names += ["regularizer"] if self.regularizer != "elastic_net" else []
        shown = ",".join(f"{name}={self._parameters[name]}" for name in sorted(names))
        return f"{self.name}[{shown}]"

    def skip(self, kind="erm", unavailable=None, **data):
        reason = unavailable or TASKS[kind].refuses(self.loss, self.regularizer, **data)
        return reason is not None, reason

    def set_data(self, kind="erm", **data):
        self.kind = kind
        constants = {name: self._parameters[name] for name in TASKS[kind].constants}
        if kind == "erm":
            constants["regularizer"] = self.regularizer
        loss = Huber(self.delta) if self.loss == "huber" else self.loss
        self.task = TASKS[kind](constants, loss, **data)
        self.problem, self.unscored = self.task.problem, None
        # With the problem, which is all that solvers are given, those of users too.
        self.problem.stop_at = self.stop_at
        self.problem.names = str(self._dataset), str(self)
        shape = self.problem.x_shape
        self.costs = dict(
            pass_cost=float(self.problem.operator.multiply_adds),
            eigendecomposition_cost=float(shape[-1] ** 3 if len(shape) > 1 else 0),
        )

    def get_objective(self):
        return dict(problem=self.problem)

    def evaluate_result(self, x=None, y=None, iterations=np.nan, predicted_rate=np.nan,
                        passes=np.nan, coordinate_updates=np.nan, eigendecompositions=np.nan,
                        block_rows=np.nan, block_columns=np.nan, predicted_cost=np.nan,
                        family=0, tuning=0, errors_only=0, scored=True):
        # First, while benchopt's clock stands still, as near to the solver's time as can be.
        speed = reference_seconds()
        if x is None:
            x = self.problem.primal_from_dual(y)
        certificate = self.problem.certify(x, y)
        if scored or not self.task.dear or self.unscored is None:
            scores = self.task.scores(x)
            self.unscored = dict.fromkeys(scores, np.nan)
        else:
            scores = self.unscored
        return dict(
            value=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
            relative_gap=certificate.relative_gap,
            own_gap=certificate.own_gap,
            iterations=iterations,
            predicted_rate=predicted_rate,
            passes=passes,
            coordinate_updates=coordinate_updates,
            eigendecompositions=eigendecompositions,
            block_rows=block_rows,
            block_columns=block_columns,
            predicted_cost=predicted_cost,
            family=family,
            tuning=tuning,
            errors_only=errors_only,
            reference_seconds=speed,
            **self.costs,
            **self.task.facts,
            **scores,
        )

    # The certificate is the package's, whoever the solver is. And benchopt caches every budget of
    # a solver that begins anew with each under a key without the data set; so what that is known
    # by belongs to the objective.
    def _get_state(self):
        known = super()._get_state()
        if self._dataset is not None:
            known = known | {"data": self._dataset._get_state()}
        return known

    def get_one_result(self):
        return dict(x=np.zeros(self.problem.x_shape), y=np.zeros(self.problem.shape[0]))

"""Problems whose unknowns are matrices, each beside all that it stands for, written out."""

import numpy as np
import transcriptions
from method_cases import CASES

from benchmark_dspdc import matrix_risk, mt_lmnn, trace_regression
from benchmark_dspdc.engine.symmetric import pack
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.model.problem import Problem
from benchmark_dspdc.model.regularizers import PSDFrobenius
from benchmark_dspdc.operators.matrix_blocks import MatrixOperator


class Written:
    """A problem beside its matrices D (n, p, d, d), moduli, centre and linear term."""

    def __init__(self, problem, D, loss, lam, centre=None, linear=None):
        self.problem, self.D, self.loss, self.b = problem, D, loss, problem.b
        self.lam = np.asarray(lam, dtype=float)
        zero = np.zeros(D.shape[1:])
        self.centre = zero if centre is None else centre
        self.linear = zero if linear is None else linear

    def plain(self, moduli="each"):
        """What the transcriptions take."""
        return transcriptions.Matrices(
            self.D, self.b, self.loss, self.lam, self.centre, self.linear, self.weights(moduli)
        )

    def explicit(self):
        """The same problem with its matrices stored."""
        d = self.D.shape[2]
        reg = PSDFrobenius(self.lam, d, self.centre, self.linear)
        operator = MatrixOperator(pack(self.D), d, reg.weights)
        return Problem(operator, self.b, self.problem.loss, reg)

    def primal(self, X):
        z = np.einsum("ijkl,jkl->i", self.D, X)
        if self.loss == "huber":
            u = np.abs(z - self.b)
            risk = np.where(u <= 1, u ** 2 / 2, u - 0.5)
        else:
            risk = transcriptions.value(self.loss, z, self.b)
        squares = np.sum((X - self.centre) ** 2, axis=(1, 2))
        return risk.mean() + self.lam @ squares / 2 + np.sum(self.linear * X)

    def distance2(self, X, other):
        """Squared distance in the norm in which a gap bounds it."""
        return np.sum((X - other) ** 2, axis=(1, 2)) @ self.lam

    def weights(self, moduli):
        return self.lam.min() / self.lam if moduli == "each" else np.ones(len(self.lam))


def risk_problem(loss="smoothed_hinge", n=24, p=4, d=5, lam=None, seed=0):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((n, p, d, d))
    z = np.einsum("ijkk->i", D) + rng.standard_normal(n)
    b = z if loss in ("square", "huber") else np.where(z >= 0, 1.0, -1.0)
    lam = np.linspace(0.4, 1.0, p) if lam is None else np.broadcast_to(lam, p)
    return Written(matrix_risk(D, b, loss, lam), (D + D.swapaxes(2, 3)) / 2, loss, lam)


def trace_problem(n=30, p=3, d=4, seed=0, lam=None):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, p, d))
    b = np.sum(z[:, :, 0] ** 2, axis=1) + rng.standard_normal(n)
    lam = np.linspace(3.0, 1.0, p) if lam is None else np.broadcast_to(lam, p)
    D = z[..., :, None] * z[..., None, :]
    return Written(trace_regression(z, b, lam), D, "square", lam)


def metric_data(sizes=(6, 4, 6), d=4, seed=0, n_classes=2, named=str):
    """Points of several tasks, not sorted."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat([named(10 * (k + 1)) for k in range(len(sizes))], sizes)
    labels = np.concatenate([np.arange(size) % n_classes for size in sizes])
    points = rng.standard_normal((sum(sizes), d)) + 0.8 * labels[:, None]
    order = rng.permutation(len(points))
    return points[order], labels[order], tasks[order]


def metric_problem(loss="smoothed_hinge", metrics="multi-task", n_neighbors=1, n_impostors=2,
                   lambda0=1.0, lam=2.0, **data):
    points, labels, tasks = metric_data(**data)
    problem = mt_lmnn(
        points, labels, tasks, n_neighbors, n_impostors, lambda0, lam, loss, metrics
    )
    found = transcriptions.mt_lmnn_triplets(points, labels, tasks, n_neighbors, n_impostors)
    n_tasks = len(set(tasks))
    Z, T, C = transcriptions.mt_lmnn_matrices(points, *found, n_tasks)
    n, d, _ = Z.shape
    p = 1 + n_tasks if metrics == "multi-task" else 1
    D = np.zeros((n, p, d, d))
    D[:, 0] = Z
    if p > 1:
        D[np.arange(n), T] = Z
    centre = np.zeros((p, d, d))
    centre[0] = np.eye(d)
    lams = np.array([lambda0] + [lam] * (p - 1))
    written = Written(problem, D, loss, lams, centre, C[:p] / n)
    written.Z, written.T, written.C = Z, T, C
    return written


PROBLEMS = {
    "matrix_risk": risk_problem,
    "matrix_risk-square": lambda: risk_problem("square"),
    "matrix_risk-logistic": lambda: risk_problem("logistic"),
    "matrix_risk-huber": lambda: risk_problem("huber"),
    "trace_regression": trace_problem,
    "mt_lmnn": metric_problem,
    "mt_lmnn-logistic": lambda: metric_problem("logistic"),
    "mt_lmnn-shared": lambda: metric_problem(metrics="shared"),
}



def small_metrics(loss="smoothed_hinge", metrics="multi-task", **moduli):
    return metric_problem(loss, metrics, sizes=(4, 4, 4), d=3, n_impostors=1, **moduli)


def heavy_rows():
    """Two rows are much longer than the others."""
    written = risk_problem("square", n=12, p=4, d=3, lam=[0.5, 0.3, 0.4, 1.0])
    written.D[:2] *= 6.0
    written.b[:2] *= 6.0
    written.problem = written.explicit()
    return written


#: The same, smaller, for transcriptions.
SMALL = {
    "blocks": lambda: risk_problem(n=12, p=4, d=4),
    "blocks, square": lambda: risk_problem("square", n=12, p=4, d=4),
    "blocks, logistic": lambda: risk_problem("logistic", n=12, p=4, d=4),
    "one block": lambda: risk_problem(n=12, p=1, d=4),
    "numbers": lambda: risk_problem(n=12, p=4, d=1),
    "moduli far apart": lambda: risk_problem(n=12, p=4, d=3, lam=[0.3, 0.02, 0.1, 1]),
    "equal moduli": lambda: risk_problem(n=12, p=4, d=3, lam=0.3),
    "heavy rows": heavy_rows,
    "trace": lambda: trace_problem(n=12, p=3, d=3),
    "metrics": lambda: small_metrics(lambda0=0.2, lam=0.7),
    "metrics, logistic": lambda: small_metrics("logistic", lambda0=0.3, lam=0.1),
    "shared metric": lambda: small_metrics(metrics="shared"),
}

#: Cases of the methods that the paper compares on matrices.
RUNS = (
    "dspdc rows", "dspdc columns", "dspdc rows subset", "dspdc columns subset", "spdc batches",
    "spdc subset", "spdc with the steps of dspdc", "sdca", "sdca batches", "sdca safe",
)

#: With one of every other method, in batches where it has them.
ALL_RUNS = RUNS + tuple(
    f"{method} batches" if f"{method} batches" in CASES else method
    for method in METHODS if method not in ("dspdc", "spdc", "sdca")
) + ("asvrg_sp uniform", "dspdc auto", "adaptive", "adaptive blocks")


def run(problem, name, n_iterations, seed=1):
    """A method after so many iterations."""
    algorithm = CASES[name].on(*problem.shape).start(problem, seed)
    algorithm.advance(n_iterations)
    return algorithm


def random_psd(rng, p, d):
    factors = rng.standard_normal((p, d, d)) * rng.exponential(size=(p, 1, 1))
    return factors @ factors.swapaxes(1, 2)


def feasible_dual(written, rng):
    u = rng.random(len(written.b))
    if written.loss in ("square", "huber"):
        return 2.0 * u - 1.0
    return -written.b * u


def flat_of(D, weights):
    """Blocks as vectors, times the roots of their weights."""
    n, p = D.shape[:2]
    return (D * np.sqrt(weights)[:, None, None]).reshape(n, p, -1)


def block_norm2(flat, I, J):
    part = flat[np.ix_(I, J)].reshape(len(I), -1)
    return np.linalg.norm(part, 2) ** 2

"""The problems: regularised risk over vectors, and three over positive semi-definite matrices.

All are of the one form of `benchmark_dspdc.model.problem`. Those over matrices (sections
5.2 and 5.3 of the paper) have blocks x_j = X_j in the cone of d x d positive semi-definite
matrices and their inner product <A, X> = sum of a_kl x_kl; X is an array of shape (p, d, d).
"""

from copy import copy
from typing import NamedTuple

import numpy as np

from .data.common import show_id
from .data.triplets import triplets
from .engine.checks import as_array, as_given, check_flag, check_number, choose
from .engine.symmetric import pack
from .engine.threads import single_threaded
from .model.losses import CLASSIFICATION, LOSSES, loss_value
from .model.problem import Problem, check_labels, check_scale
from .model.regularizers import REGULARIZERS, PSDFrobenius, reg_prox
from .operators import as_operator, is_factorized, materialized
from .operators.matrix_blocks import MatrixOperator
from .operators.rank_one import RankOneOperator

#: What labels of classification may be given as.
LABELS = ("-1+1", "01")


def erm(A, b, loss="smoothed_hinge", lambda1=0.0, lambda2=1e-2, materialize=False,
        regularizer="elastic_net", labels="-1+1"):
    """Regularised empirical risk minimisation.

    min over x of  (1/n) sum_i phi_i(a_i'x) + g(x),
    by default with  g(x) = lambda1 |x|_1 + (lambda2/2) |x|^2

    Parameters
    ----------
    A : ndarray, scipy sparse matrix or array, or pair (U, V)
        The data, n x p; a pair stands for A = UV, which is never formed.
    b : array of shape (n,)
        Labels -1 and +1 for the losses of classification, targets for the others.
    loss : {"square", "logistic", "smoothed_hinge", "huber"}, or a loss
        An object such as ``Huber(delta=0.5)``; see `benchmark_dspdc.model.losses`.
    lambda1 : float, >= 0
    lambda2 : float, > 0
        Constants of a regulariser that is given by its name.
    materialize : bool
        Whether to form A = UV after all, if that takes at most 4 GB.
    regularizer : {"elastic_net", "non_negative"}, or a regulariser
        "non_negative" is the elastic net for x >= 0. An object such as
        ``NonNegative(lambda2=0.1)`` has its own constants.
    labels : {"-1+1", "01"}
        What b holds for a loss of classification: -1 and +1, or 0 and 1 (or booleans), of which
        0 becomes -1.

    Returns
    -------
    Problem
        For `solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmark_dspdc import erm, solve
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((200, 10))
    >>> b = np.sign(A @ np.ones(10) + rng.standard_normal(200))
    >>> result = solve(erm(A, b, loss="logistic", lambda2=0.1), tol=1e-8)
    >>> result.status
    'converged'
    """
    loss = _loss(loss)
    reg = _regularizer(regularizer, lambda1, lambda2)
    if check_flag(materialize, "materialize") and is_factorized(A):
        A = materialized(*A)
    operator = as_operator(A)
    b = _targets(_signs(b, loss, labels), operator.shape[0], loss)
    return check_scale(Problem(operator, b, loss, reg))


def _signs(b, loss, labels):
    """Labels as they are, or -1 and +1 for 0 and 1 where that is said."""
    choose(labels, LABELS, "labels")
    given = as_given(b, "b")
    if not loss.classification:
        return b
    if labels == "-1+1":
        if given.dtype == bool:
            raise ValueError(
                'labels must be -1 or +1, got booleans; pass labels="01", which makes True +1'
            )
        return b
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        shown = ", ".join(map(str, np.unique(given.astype(str))[:6]))
        raise ValueError(f'labels="01" is for labels 0 and 1 or booleans, got {shown}')
    return 2.0 * given - 1.0


def certify(A, b, coef, loss, lambda1=0.0, lambda2=1e-2, dual=None, regularizer="elastic_net",
            labels="-1+1"):
    """How far from the optimum a model is at most that was fitted anywhere.

    Parameters
    ----------
    A, b, loss, lambda1, lambda2, regularizer, labels
        The problem, as for `erm`: a mean of losses plus the regulariser, without an intercept.
        scikit-learn's ``LogisticRegression(C=C, fit_intercept=False)`` has lambda2 = 1/(C n),
        its ``Ridge(alpha)`` lambda2 = alpha/n with the square loss.
    coef : array of shape (p,) or (1, p)
        The model's coefficients.
    dual : array of shape (n,) or None
        A dual point, if the method has one; the better of it and phi'(A coef) counts.

    Returns
    -------
    Certificate
        ``primal`` is the value at coef, ``gap`` a bound on how much better any other point can
        be, ``relative_gap`` that over max(1, |primal|).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression(C=1.0, fit_intercept=False).fit(A, b)
    >>> certify(A, b, model.coef_, loss="logistic", lambda2=1 / len(b)).relative_gap
    """
    problem = erm(A, b, loss, lambda1, lambda2, regularizer=regularizer, labels=labels)
    n, p = problem.shape
    given = as_given(coef, "coef")
    x = as_array(given[0] if given.ndim == 2 and len(given) == 1 else given, "coef", 1)
    if len(x) != p:
        hint = "; an intercept is the coefficient of a column of ones in A" * (len(x) == p + 1)
        raise ValueError(f"coef must have {p} entries, one a column of A, got {len(x)}{hint}")
    if dual is not None:
        dual = as_array(dual, "dual", 1)
        if len(dual) != n:
            raise ValueError(f"dual must have {n} entries, one a row of A, got {len(dual)}")
    return problem.certify(x, dual)


def with_constant(problem, name, value):
    """The problem with another value of a regularisation constant."""
    made = copy(problem)
    if isinstance(problem.reg, PSDFrobenius):
        choose(name, ("lam",), "constant")
        lam = _moduli(value, problem.shape[1])
        if isinstance(problem, MetricProblem):
            # The metric that all tasks share keeps its own.
            lam[0] = problem.reg.lam[0]
        made.reg = problem.reg.with_lam(lam)
        made.operator = problem.operator.weighted(made.reg.weights)
    else:
        known = [field for field in ("lambda1", "lambda2") if hasattr(problem.reg, field)]
        choose(name, known, "constant")
        made.reg = problem.reg._replace(**{name: value}).checked()
    return check_scale(made)


def _loss(given):
    """A loss from its name, or the object itself."""
    if loss_value.covers(type(given)):
        for name, known in LOSSES.items():
            if type(known) is type(given) and given.gamma != known.gamma:
                raise ValueError(
                    f"gamma of the {name} loss is {known.gamma:g}, got {given.gamma!r}"
                )
        return given.checked() if hasattr(given, "checked") else given
    return choose(given, LOSSES, "loss")


def _regularizer(given, lambda1, lambda2):
    """A regulariser from its name and constants, or the object itself."""
    if reg_prox.covers(type(given)):
        if (lambda1, lambda2) != (0.0, 1e-2):
            raise ValueError(
                f"lambda1 and lambda2 are those of the regularizer {given}; give them there, got "
                f"lambda1={lambda1!r}, lambda2={lambda2!r}"
            )
        return given.checked() if hasattr(given, "checked") else given
    return choose(given, REGULARIZERS, "regularizer")(lambda1, lambda2).checked()


def matrix_risk(D, b, loss="smoothed_hinge", lam=0.01):
    """Multiple-matrix risk minimisation, eq. (27) of the paper.

    min over X_j PSD of  (1/n) sum_i phi_i(sum_j <D_i^j, X_j>) + sum_j (lam_j/2) |X_j|_F^2

    Parameters
    ----------
    D : array of shape (n, p, d, d), or (n, p, d (d + 1)/2)
        The data matrices, or their packed form (`benchmark_dspdc.engine.symmetric.pack`), which
        is used without a copy. Matrices need not be symmetric: <D, X> depends on
        their symmetric part alone, and only that is kept.
    b : array of shape (n,)
        Targets for the square loss, labels -1 and +1 for the others.
    loss : {"square", "logistic", "smoothed_hinge", "huber"}, or a loss
    lam : float or array of shape (p,), > 0

    Returns
    -------
    Problem
        For `solve`; its x has shape (p, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from benchmark_dspdc import matrix_risk, solve
    >>> D = np.random.default_rng(0).standard_normal((30, 4, 5, 5))
    >>> b = np.sign(np.trace(D.sum(axis=1), axis1=1, axis2=2))
    >>> solve(matrix_risk(D, b, lam=0.1), m=5, q=2).status
    'converged'
    """
    loss = _loss(loss)
    packed, d = _packed(D)
    n, p = packed.shape[:2]
    b = _targets(b, n, loss)
    reg = PSDFrobenius(_moduli(lam, p), d)
    return check_scale(Problem(MatrixOperator(packed, d, reg.weights), b, loss, reg))


def trace_regression(measurements, b, lam=0.01):
    """Trace regression from rank-one measurements, with the square loss.

    min over X_j PSD of  (1/2n) sum_i (sum_j z_ij' X_j z_ij - b_i)^2 + sum_j (lam_j/2) |X_j|_F^2

    Parameters
    ----------
    measurements : array of shape (n, p, d), or (n, d) for a single matrix
        The vectors z_ij; the matrices z z' are never formed.
    b : array of shape (n,)
    lam : float or array of shape (p,), > 0

    Returns
    -------
    Problem

    References
    ----------
    M. Slawski, P. Li, M. Hein. Regularization-free estimation in trace
    regression with symmetric positive semidefinite matrices. NeurIPS 2015.
    """
    given = as_given(measurements, "measurements")
    z = as_array(given[:, None] if given.ndim == 2 else given, "measurements", 3)
    n, p, d = z.shape
    b = _targets(b, n, LOSSES["square"])
    reg = PSDFrobenius(_moduli(lam, p), d)
    points = np.ascontiguousarray(z.transpose(1, 0, 2)).reshape(p * n, d)
    starts = n * np.arange(p + 1)
    operator = RankOneOperator(
        points, starts, np.stack([np.arange(n * p), np.full(n * p, -1)], axis=1), starts,
        p * np.arange(n + 1), (np.arange(n)[:, None] + n * np.arange(p)).ravel(),
        np.ones(n * p), "own", reg.weights,
    )
    return check_scale(Problem(operator, b, LOSSES["square"], reg))


class Metrics(NamedTuple):
    """How the blocks of a solution make a metric for each task.

    Attributes
    ----------
    task_names : ndarray
        The tasks, sorted.
    blocks : {"both", "shared"}
        Whether a task's metric is X_0 + X_j, or X_0 for all.
    d : int
    """

    task_names: np.ndarray
    blocks: str
    d: int

    def metric(self, x, task):
        """The d x d matrix of the squared distance (z - z')'M(z - z') in a task."""
        found = np.flatnonzero(self.task_names == task) if np.ndim(task) == 0 else ()
        if len(found) != 1:
            shown = ", ".join(map(show_id, self.task_names[:6]))
            more = ", ..." if len(self.task_names) > 6 else ""
            raise ValueError(f"task must be one of {shown}{more}, got {task!r}")
        return x[0].copy() if self.blocks == "shared" else x[0] + x[1 + found[0]]

    def metrics(self, x):
        """The matrices of all tasks, in the order of their names."""
        if self.blocks == "shared":
            return np.repeat(x[:1], len(self.task_names), axis=0)
        return x[0] + x[1:]

    def transform(self, x, Z, task):
        """Points mapped so that their Euclidean distance is that of the task's metric."""
        Z = as_array(Z, "Z", 2)
        if Z.shape[1] != self.d:
            raise ValueError(
                f"Z must have {self.d} columns as the training points, got {Z.shape[1]}"
            )
        values, vectors = np.linalg.eigh(self.metric(x, task))
        return Z @ (vectors * np.sqrt(np.maximum(values, 0.0)))


class MetricProblem(Problem):
    """A problem whose solution is a metric for each task; `learned` says how, a `Metrics`.

    `points` and `classes` are what it was made of, for packages that learn metrics their own way;
    classes of different tasks are different numbers.
    """

    def __init__(self, operator, b, loss, reg, learned, points, classes, n_neighbors):
        super().__init__(operator, b, loss, reg)
        self.learned = learned
        self.points, self.classes, self.n_neighbors = points, classes, n_neighbors

    @property
    def tasks(self):
        """The task of each of `points`."""
        return np.repeat(self.learned.task_names, np.diff(self.operator.starts))


def mt_lmnn(points, labels, tasks, n_neighbors=3, n_impostors=1, lambda0=0.01, lam=0.1,
            loss="smoothed_hinge", metrics="multi-task"):
    """Multi-task large margin nearest neighbours, eq. (32) of the paper.

    A metric X_0 + X_j for each task j, such that points of a class are near
    each other and those of other classes at least 1 further away::

        min  (lambda0/2) |X_0 - I|^2 + sum_j (lam/2) |X_j|^2
             + (1/n) sum over (u,v) of d_j^2(u,v)
             + (1/n) sum over (u,v,w) of phi(d_j^2(u,w) - d_j^2(u,v))

    over positive semi-definite matrices. The pairs (u, v) are a point and its
    nearest ones of the same class, w is one of the nearest of another class.

    Parameters
    ----------
    points : array of shape (N, d)
    labels, tasks : array of shape (N,)
        Class and task of each point. Classes of different tasks have nothing in common.
    n_neighbors : int
    n_impostors : int
        How many w for each (u, v). The text of the paper has one, which gives
        191,808 triplets on ALOI; it reports 1,142,658, which six come near.
    lambda0, lam : float, > 0
        lambda0 below 1e100.
    loss : {"smoothed_hinge", "logistic"}
    metrics : {"multi-task", "shared"}
        "shared": one metric X_0 for all tasks, for comparison.

    Returns
    -------
    MetricProblem
        Its x has shape (1 + number of tasks, d, d), X_0 first; `solve` returns
        a result with ``metric(task)`` and ``transform(Z, task)``.

    Raises
    ------
    ValueError
        Naming the task, if it has a single class or a class with fewer than
        n_neighbors + 1 points.

    References
    ----------
    S. Parameswaran, K. Q. Weinberger. Large margin multi-task metric learning. NeurIPS 2010.
    """
    chosen = LOSSES[choose(loss, CLASSIFICATION, "loss")]
    blocks = choose(metrics, {"multi-task": "both", "shared": "shared"}, "metrics")
    # The conjugate has the square of lambda0 times the identity.
    lambda0 = check_number(lambda0, "lambda0", 0.0, strict=True, high=1e100)
    lam = check_number(lam, "lam", 0.0, strict=True)
    found = triplets(points, labels, tasks, n_neighbors, n_impostors)
    return metric_problem(found, lambda0, lam, chosen, blocks)


@single_threaded
def metric_problem(found, lambda0, lam, loss, blocks):
    """`mt_lmnn` of triplets; blocks are "both", or "shared" for one metric for all tasks."""
    n, d = len(found.near), found.points.shape[1]
    terms = np.stack([found.far, found.near], axis=1).ravel()
    signs = np.tile(np.array([1, -1], dtype=np.int8), n)
    p = 1 + (len(found.task_names) if blocks == "both" else 0)
    moduli = np.concatenate([[lambda0], np.full(p - 1, lam)])
    operator = RankOneOperator(
        found.points, found.starts, found.pairs, found.pair_starts, 2 * np.arange(n + 1), terms,
        signs, blocks, moduli.min() / moduli,
    )
    near = np.zeros(len(found.pairs))
    near[found.neighbor_pairs] = 1.0 / n
    centre = np.zeros((p, d, d))
    centre[0] = np.eye(d)
    reg = PSDFrobenius(moduli, d, centre, operator.sum_of_vectors(near))
    learned = Metrics(found.task_names, blocks, d)
    # Of each task and label.
    pairs = np.stack([
        np.repeat(np.arange(len(found.task_names)), np.diff(found.starts)),
        np.unique(found.labels, return_inverse=True)[1],
    ])
    classes = np.unique(pairs, axis=1, return_inverse=True)[1].ravel()
    problem = MetricProblem(
        operator, np.ones(n), loss, reg, learned, found.points, classes,
        found.neighbors.shape[1],
    )
    return check_scale(problem)


def _packed(D):
    given = as_given(D, "D")
    if given.ndim == 3:
        packed = as_array(given, "D", 3)
        t = packed.shape[2]
        d = round((np.sqrt(8 * t + 1) - 1) / 2)
        if d * (d + 1) // 2 == t:
            return packed, d
    if given.ndim != 4 or given.shape[2] != given.shape[3]:
        raise ValueError(
            "D must have shape (n, p, d, d), or (n, p, d (d + 1)/2) in packed form, got shape "
            f"{given.shape}"
        )
    if given.dtype.kind not in "biuf" or given.size == 0:
        raise ValueError(
            f"D must be a non-empty array of real numbers, got dtype {given.dtype} and shape "
            f"{given.shape}"
        )
    packed = pack(given)
    bad = np.argwhere(~np.isfinite(packed.sum(axis=2)))
    if len(bad):
        i, j = bad[0]
        raise ValueError(f"D must be finite, got an entry that is not in block {j} of row {i} "
                         f"({len(bad)} such blocks in all)")
    return packed, given.shape[2]


def _targets(b, n, loss):
    b = as_array(b, "b", 1)
    if len(b) != n:
        raise ValueError(f"b must have one entry for each of the {n} rows, got {len(b)}")
    return check_labels(b, loss)


def _moduli(lam, p):
    if np.ndim(lam) == 0:
        return np.full(p, check_number(lam, "lam", 0.0, strict=True))
    lam = as_array(lam, "lam", 1)
    if len(lam) != p:
        raise ValueError(f"lam must be a number or one for each of the {p} blocks, got {len(lam)}")
    for j in np.flatnonzero(lam <= 0.0)[:1]:
        raise ValueError(f"lam must be > 0 for every block, got {lam[j]} for block {j}")
    return lam

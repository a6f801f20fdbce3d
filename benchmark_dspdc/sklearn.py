"""`MultiTaskLMNN`: metric learning as an estimator of scikit-learn's kind."""

import math
import warnings
from time import perf_counter

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .data.common import as_ids, show_id
from .data.triplets import kept_triplets, triplets, with_impostors
from .engine.checks import check_flag, check_int, check_number
from .model.losses import LOSSES
from .problems import metric_problem
from .solver import find_method, solve

#: A metric is no metric if its mean eigenvalue is below this; the Euclidean one has 1.
ZERO = 1e-6


class MultiTaskLMNN(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Large margin nearest neighbours, for one task or several, with a certificate.

    Learns a metric for each task, such that points of a class are near each other and those of
    other classes further away by a margin. It is the problem of `benchmark_dspdc.mt_lmnn`, which
    is convex, so that every fit ends with a bound on its distance from the optimum.

    Parameters
    ----------
    n_neighbors : int, default=3
        Target neighbours of a point: the nearest ones of its class. Also the votes of `score`.
    n_impostors : int, default=3
        How many of the nearest points of other classes are to be kept away from each of them.
    lambda0 : float, default=0.01
        How strongly the metric that tasks share is held to the Euclidean one.
    lam : float or None, default=None
        How strongly what a task has of its own is held to zero. None is lambda0 over the number
        of tasks, as a task has that share of the triplets. Of no use with one task.
    margin : float, default=1.0
        What impostors are to be further away, in units of the median squared distance of a point
        to its nearest impostor.
    n_components : int or None, default=None
        Dimensions of the mapped points: those in which the training points of a task spread most
        by its metric. None is all.
    method : str, default="auto"
        One of `benchmark_dspdc.methods`.
    tol : float, default=1e-4
        Relative gap at which a round ends.
    max_seconds : float or None, default=None
        Limit of a fit, over all rounds.
    refresh : int, default=3
        How often impostors are found again, by the metric learned so far.
    n_candidates : int or None, default=4000
        In tasks with more points, neighbours and impostors of a point are looked for among about
        so many: those in cells around it. None is always all.
    random_state : int, RandomState or None, default=None
        For methods that draw rows.
    verbose : bool, default=False
        Show the progress of each round.

    Attributes
    ----------
    metric_ : ndarray of shape (d, d), or (n_tasks, d, d) if fitted with tasks
        The squared distance is (z - z')'M(z - z').
    components_ : ndarray of shape (n_components, d), or (n_tasks, n_components, d)
        L with M = L'L; mapped training points spread less from row to row.
    shared_metric_ : ndarray of shape (d, d)
        What the metrics of all tasks have in common.
    tasks_ : ndarray of shape (n_tasks,) or None
        The tasks, sorted, in the order of the two above.
    gap_ : float
        Relative gap of the last round's problem.
    rounds_ : list of dict
        Of each round its triplets, primal, gap, status, seconds, passes and method.
    n_iter_ : int
        Passes over the triplets, of all rounds.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If X has names that are strings.

    Notes
    -----
    Training points are kept for `score`, but not in a pickle.

    References
    ----------
    K. Q. Weinberger, L. K. Saul. Distance metric learning for large margin nearest neighbor
    classification. Journal of Machine Learning Research 10, 2009.

    S. Parameswaran, K. Q. Weinberger. Large margin multi-task metric learning. NeurIPS 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from benchmark_dspdc.sklearn import MultiTaskLMNN
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(MultiTaskLMNN(), KNeighborsClassifier(3)).fit(X, y)
    """

    def __init__(self, n_neighbors=3, n_impostors=3, lambda0=0.01, lam=None, margin=1.0,
                 n_components=None, method="auto", tol=1e-4, max_seconds=None, refresh=3,
                 n_candidates=4000, random_state=None, verbose=False):
        self.n_neighbors = n_neighbors
        self.n_impostors = n_impostors
        self.lambda0 = lambda0
        self.lam = lam
        self.margin = margin
        self.n_components = n_components
        self.method = method
        self.tol = tol
        self.max_seconds = max_seconds
        self.refresh = refresh
        self.n_candidates = n_candidates
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X, y, tasks=None):
        """Learn the metric of each task.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
            Classes. Those of different tasks have nothing in common.
        tasks : array of shape (n,) or None
            The task of each point: numbers or strings; None is a single task.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        n, d = X.shape
        kept = d if self.n_components is None else check_int(
            self.n_components, "n_components", high=d, reason="the features of X"
        )
        self.tasks_ = None
        codes = np.zeros(n, dtype=np.int64)
        if tasks is not None:
            self.tasks_, codes = np.unique(as_ids(tasks, "tasks", n), return_inverse=True)
        self._training = X, y, codes
        usable = self._usable(y, codes)
        self.shared_metric_, own, interrupted = np.eye(d), {}, False
        self.gap_, self.n_iter_, self.rounds_ = 0.0, 0, []
        if usable.any():
            x, names, interrupted = self._learn(X[usable], y[usable], codes[usable])
            self.shared_metric_, own = x[0], dict(zip(names, x[1:], strict=False))
        metrics = [self.shared_metric_ + own.get(j, 0.0) for j in range(codes.max() + 1)]
        for j, metric in enumerate(metrics):
            if np.trace(metric) < ZERO * d:
                metrics[j] = np.eye(d)
                warnings.warn(
                    f"the best metric{self._of_task(j)} is zero, as points of one class are no "
                    "nearer to each other than to those of others; the Euclidean one is kept. A "
                    "larger lambda0 or a smaller margin may help", UserWarning, stacklevel=2,
                )
        roots = np.array([
            _map(metric, X[codes == j])[:kept] for j, metric in enumerate(metrics)
        ])
        products = roots.transpose(0, 2, 1) @ roots
        self._n_features_out = kept
        self.components_ = roots[0] if tasks is None else roots
        self.metric_ = products[0] if tasks is None else products
        if interrupted:
            # What was learned by then can be used.
            raise KeyboardInterrupt
        return self

    def _check_parameters(self):
        for name in ("n_neighbors", "n_impostors"):
            check_int(getattr(self, name), name)
        for name in ("lambda0", "lam", "margin"):
            if (value := getattr(self, name)) is not None or name != "lam":
                # The conjugate has the square of lambda0 times the identity.
                check_number(value, name, 0.0, strict=True, high=1e100)
        find_method(self.method)
        check_number(self.tol, "tol", 0.0)
        if self.max_seconds is not None:
            check_number(self.max_seconds, "max_seconds", 0.0, strict=True)
        check_int(self.refresh, "refresh", 0)
        if self.n_candidates is not None:
            check_int(self.n_candidates, "n_candidates", 100)
        check_flag(self.verbose, "verbose")

    def _usable(self, y, codes):
        """Which points are in tasks that have triplets; warns of tasks and classes without."""
        usable, small = np.ones(len(y), dtype=bool), []
        for j in range(codes.max() + 1):
            rows = codes == j
            classes, counts = np.unique(y[rows], return_counts=True)
            if len(classes) == 1 or counts.max() == 1:
                usable[rows] = False
                reason = (
                    f"has one class only, {show_id(classes[0])}, hence no impostors"
                    if len(classes) == 1 else "has one point of each class, hence no neighbours"
                )
                if self.tasks_ is None:
                    warnings.warn(
                        f"y {reason}; the metric is the Euclidean one, which solves the problem "
                        "without triplets", UserWarning, stacklevel=3,
                    )
                else:
                    warnings.warn(
                        f"task {show_id(self.tasks_[j])} {reason}; its metric is the one that all "
                        "tasks share", UserWarning, stacklevel=3,
                    )
                continue
            small += [
                (f"class {show_id(c)}{self._of_task(j)}", count)
                for c, count in zip(classes, counts, strict=True) if count <= self.n_neighbors
            ]
        if small:
            (first, count), more = small[0], len(small) - 1
            has = "1 point, hence no neighbours; it is an impostor only" if count == 1 else (
                f"{count} points, so each has {count - 1} target neighbours, not "
                f"{self.n_neighbors}"
            )
            also = f" ({more} more such classes)" if more else ""
            warnings.warn(f"{first} has {has}{also}", UserWarning, stacklevel=3)
        return usable

    def _of_task(self, j):
        return "" if self.tasks_ is None else f" of task {show_id(self.tasks_[j])}"

    def _learn(self, X, y, codes):
        """X_0, X_1, ... of the last round, the tasks of X_1, ..., and whether it was stopped."""
        begun = perf_counter()
        found = triplets(X, y, codes, self.n_neighbors, self.n_impostors, True,
                         self.n_candidates)
        found = found._replace(points=found.points / math.sqrt(self.margin * _unit(found)))
        tasks = found.task_names
        lam = self.lambda0 / len(tasks) if self.lam is None else self.lam
        blocks = "shared" if len(tasks) == 1 else "both"
        given = self.lambda0, lam, LOSSES["smoothed_hinge"], blocks
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        problem, start, left = metric_problem(found, *given), {}, None
        for k in range(self.refresh + 1):
            if self.max_seconds is not None:
                left = max(self.max_seconds - (perf_counter() - begun), 1e-3)
            result = solve(problem, self.method, self.tol, left, seed=seed,
                           progress=self.verbose, **start)
            end = result.history.iloc[-1]
            self.rounds_.append(dict(
                triplets=len(found.near), primal=result.primal, gap=result.relative_gap,
                status=result.status, seconds=float(end["seconds"]), passes=float(end["passes"]),
                method=result.info.get("method", result.method),
            ))
            if result.status != "converged" or k == self.refresh:
                break
            mapped = np.empty_like(found.points)
            for j, metric in enumerate(problem.learned.metrics(result.x)):
                rows = slice(*found.starts[j:j + 2])
                np.matmul(found.points[rows], _root(metric).T, out=mapped[rows])
            before, found = found, with_impostors(
                found, mapped, problem.dual_from_primal(result.x), self.n_candidates
            )
            old, new = kept_triplets(before, found)
            if len(old) == len(found.near):
                break
            problem = metric_problem(found, *given)
            # A triplet that is new begins at rest, so that D(y) stays what it was.
            y0 = np.zeros(len(found.near))
            y0[new] = result.y[old]
            start = dict(x0=result.x, y0=y0)
        self.gap_ = result.relative_gap
        self.n_iter_ = math.ceil(sum(row["passes"] for row in self.rounds_))
        if result.status not in ("converged", "interrupted"):
            warnings.warn(
                f"round {k + 1} of {self.refresh + 1} ended with status {result.status} at a "
                f"relative gap of {result.relative_gap:.1e}, not {self.tol:.1e}",
                ConvergenceWarning, stacklevel=3,
            )
        return result.x, tasks, result.status == "interrupted"

    def get_mahalanobis_matrix(self):
        """`metric_`, by the name that it has in metric-learn."""
        check_is_fitted(self)
        return self.metric_.copy()

    def transform(self, X, tasks=None):
        """Points mapped so that their Euclidean distance is that of their task's metric.

        Parameters
        ----------
        X : array of shape (n, d)
        tasks : array of shape (n,) or None
            The task of each point, if the metric was fitted with tasks.

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._mapped(X, self._codes(tasks, len(X)))

    def _codes(self, tasks, n):
        """The number of each point's task."""
        if self.tasks_ is None:
            if tasks is not None:
                raise ValueError("tasks must be None, as the metric was fitted without tasks")
            return np.zeros(n, dtype=np.int64)
        shown = ", ".join(map(show_id, self.tasks_[:6])) + ", ..." * (len(self.tasks_) > 6)
        if tasks is None:
            raise ValueError(f"tasks are needed, as the metric was fitted with tasks: {shown}")
        tasks = as_ids(tasks, "tasks", n)
        unseen = ~np.isin(tasks, self.tasks_)
        if unseen.any():
            raise ValueError(
                f"tasks must be among those of fit, {shown}, got {show_id(tasks[unseen][0])} "
                f"({np.count_nonzero(unseen)} points of unseen tasks)"
            )
        return np.searchsorted(self.tasks_, tasks)

    def _mapped(self, X, codes):
        maps = np.reshape(self.components_, (-1, *self.components_.shape[-2:]))
        out = np.empty((len(X), maps.shape[1]))
        for j in np.unique(codes):
            out[codes == j] = X[codes == j] @ maps[j].T
        return out

    def fit_transform(self, X, y, tasks=None):
        """`fit`, then `transform` of the same points."""
        return self.fit(X, y, tasks).transform(X, tasks)

    def score(self, X, y, tasks=None):
        """Accuracy of `n_neighbors` nearest training points, in each task by its metric.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
        tasks : array of shape (n,) or None

        Returns
        -------
        float
            The same as of scikit-learn's ``KNeighborsClassifier`` on mapped points.
        """
        check_is_fitted(self)
        if not hasattr(self, "_training"):
            raise NotFittedError(
                "score needs the training points, which are not kept in a pickle; fit "
                "KNeighborsClassifier on transform(X) of them"
            )
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)
        codes, right = self._codes(tasks, len(X)), 0
        points, classes, places = self._training
        for j in np.unique(codes):
            own, asked = places == j, codes == j
            votes = KNeighborsClassifier(min(self.n_neighbors, np.count_nonzero(own)))
            votes.fit(self._mapped(points[own], places[own]), classes[own])
            found = votes.predict(self._mapped(X[asked], codes[asked]))
            right += np.count_nonzero(found == y[asked])
        return right / len(y)

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}


def _root(metric):
    """L with L'L = metric."""
    values, vectors = np.linalg.eigh(metric)
    return (vectors * np.sqrt(np.maximum(values, 0.0))).T


def _map(metric, points):
    """L with L'L = metric, turned such that mapped points spread less from row to row."""
    root = _root(metric)
    mapped = (points - points.mean(axis=0)) @ root.T
    root = np.linalg.eigh(mapped.T @ mapped)[1].T[::-1] @ root
    # Of the two signs of a row, the one with a positive largest entry.
    largest = root[np.arange(len(root)), abs(root).argmax(axis=1)]
    return root * np.where(largest < 0.0, -1.0, 1.0)[:, None]


def _unit(found):
    """The median squared distance of a point to its nearest impostor, 1 if it is zero."""
    nearest = found.far[np.unique(found.pairs[found.far, 0], return_index=True)[1]]
    u, w = found.pairs[nearest].T
    return np.median(((found.points[u] - found.points[w]) ** 2).sum(axis=1)) or 1.0

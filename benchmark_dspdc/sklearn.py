"""`MultiTaskLMNN`: metric learning as an estimator of scikit-learn's kind."""

import math
import warnings
from time import perf_counter

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .data.common import as_ids, show_id
from .data.triplets import kept_triplets, triplets, with_impostors
from .engine.checks import check_flag, check_int, check_number
from .engine.threads import single_threaded
from .model.losses import LOSSES
from .problems import metric_problem
from .solver import find_method, solve

#: A metric is no metric if its mean eigenvalue is below this; the Euclidean one has 1.
ZERO = 1e-6

#: Training points that errors of the learned and the Euclidean metric are compared on.
CHECKED = 2000

#: Squared distances that are no larger are none.
TINY = 1e-280


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
        Limit of solving, over all rounds; the search for impostors is not interrupted.
    refresh : int, default=3
        How often impostors are found again, by the metric learned so far.
    n_candidates : int or None, default=4000
        In tasks with more points, neighbours and impostors of a point are looked for among about
        so many: those in cells around it. None is always all.
    fallback : bool, default=True
        Keep the Euclidean metric, with a warning, if the learned one makes more errors of nearest
        neighbours on training points, each left out in turn.
    random_state : int, RandomState or None, default=None
        For methods that draw rows.
    verbose : bool, default=False
        Show the progress of each round. Long searches show a bar on terminals in any case.

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
    Training points are kept for `score`, but not in a pickle or a copy. For `GridSearchCV` on the
    estimator itself give ``cv=StratifiedKFold()``, as scikit-learn takes it for no classifier.

    References
    ----------
    K. Q. Weinberger, L. K. Saul. Distance metric learning for large margin nearest neighbor
    classification. Journal of Machine Learning Research 10, 2009.

    S. Parameswaran, K. Q. Weinberger. Large margin multi-task metric learning. NeurIPS 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
    >>> from sklearn.pipeline import make_pipeline
    >>> from benchmark_dspdc.sklearn import MultiTaskLMNN
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(MultiTaskLMNN(), KNeighborsClassifier(3)).fit(X, y)
    """

    def __init__(self, n_neighbors=3, n_impostors=3, lambda0=0.01, lam=None, margin=1.0,
                 n_components=None, method="auto", tol=1e-4, max_seconds=None, refresh=3,
                 n_candidates=4000, fallback=True, random_state=None, verbose=False):
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
        self.fallback = fallback
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
        names, codes = None, np.zeros(n, dtype=np.int64)
        if tasks is not None:
            names, codes = np.unique(as_ids(tasks, "tasks", n), return_inverse=True)
        usable = self._usable(y, codes, names)
        shared, own, rounds, interrupted = np.eye(d), {}, [], False
        if usable.any():
            given = codes if names is None else names[codes]
            x, of_task, rounds, interrupted = self._learn(X[usable], y[usable], given[usable])
            shared, own = x[0], dict(zip(of_task, x[1:], strict=False))
        metrics = np.array([
            shared + own.get(j, 0.0) for j in (range(1) if names is None else names.tolist())
        ])
        # No earlier, so that what fails leaves what was fitted before as it was.
        self.tasks_, self.shared_metric_, self.rounds_ = names, shared, rounds
        self._training = X, y, codes
        self.gap_ = rounds[-1]["gap"] if rounds else 0.0
        self.n_iter_ = math.ceil(sum(row["passes"] for row in rounds))
        self._keep(self._better(metrics) if self.fallback and rounds else metrics, kept)
        if interrupted:
            # What was learned by then can be used.
            raise KeyboardInterrupt
        return self

    @single_threaded
    def _keep(self, metrics, kept):
        X, _, codes = self._training
        maps = np.array([_map(metric, X[codes == j])[:kept] for j, metric in enumerate(metrics)])
        products = maps.transpose(0, 2, 1) @ maps
        self._n_features_out = kept
        self.components_ = maps[0] if self.tasks_ is None else maps
        self.metric_ = products[0] if self.tasks_ is None else products

    def _better(self, metrics):
        """The metrics, or the Euclidean ones where these are zero or make more errors."""
        d, plain = metrics.shape[-1], np.broadcast_to(np.eye(metrics.shape[-1]), metrics.shape)
        learned, euclidean = (self._left_out_errors(some) for some in (metrics, plain))
        zero = np.trace(metrics, axis1=1, axis2=2) < ZERO * d
        if learned <= euclidean and not zero.any():
            return metrics
        advice = "A larger lambda0, margin or n_impostors may help, fallback=False keeps it anyway"
        if learned <= euclidean:
            of = "" if self.tasks_ is None else f" of task {show_id(self.tasks_[zero][0])}"
            warnings.warn(f"the best metric{of} is zero, as classes overlap; the Euclidean one is "
                          f"kept. {advice}", UserWarning, stacklevel=3)
            return np.where(zero[:, None, None], plain, metrics)
        warnings.warn(
            f"the learned metric makes more errors on training points, each left out in turn "
            f"({100 * learned:.2f} %), than the Euclidean one ({100 * euclidean:.2f} %), which is "
            f"kept. {advice}", UserWarning, stacklevel=3,
        )
        return plain

    def _left_out_errors(self, metrics):
        """Share of wrong votes on some training points, each left out in turn."""
        X, y, codes = self._training
        asked = np.zeros(len(y), dtype=bool)
        asked[np.unique(np.linspace(0, len(y) - 1, CHECKED).astype(int))] = True
        wrong = 0
        for j, metric in enumerate(metrics):
            own, some = np.flatnonzero(codes == j), np.flatnonzero(asked & (codes == j))
            k = min(self.n_neighbors, len(own) - 1)
            if k == 0 or len(some) == 0:
                wrong += len(some)
                continue
            root = _root(metric).T
            search = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(X[own] @ root)
            near = own[search.kneighbors(X[some] @ root, return_distance=False)]
            # Itself, or the last where copies of it are as near, has no vote.
            out = near == some[:, None]
            out[~out.any(axis=1), -1] = True
            votes = y[near[~out].reshape(-1, k)]
            counts = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
            winners = np.take_along_axis(votes, counts.argmax(axis=1)[:, None], axis=1)[:, 0]
            wrong += np.count_nonzero(winners != y[some])
        return wrong / np.count_nonzero(asked)

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
        check_flag(self.fallback, "fallback")
        check_flag(self.verbose, "verbose")

    def _usable(self, y, codes, names):
        """Which points are in tasks that have triplets; warns of tasks and classes without."""
        usable, small, bare = np.ones(len(y), dtype=bool), [], []
        for j in range(codes.max() + 1):
            rows = codes == j
            classes, counts = np.unique(y[rows], return_counts=True)
            task = "" if names is None else f"task {show_id(names[j])}"
            if len(classes) == 1 or counts.max() == 1:
                usable[rows] = False
                bare.append((task or "y") + (
                    f" has one class only, {show_id(classes[0])}, hence no impostors"
                    if len(classes) == 1 else " has one point of each class, hence no neighbours"
                ))
                continue
            small += [
                (f"class {show_id(c)}" + (task and f" of {task}"), count)
                for c, count in zip(classes, counts, strict=True) if count <= self.n_neighbors
            ]
        if bare:
            kept = "the Euclidean one" if names is None else "the one that all tasks share"
            also = f" ({len(bare) - 1} more such tasks)" if len(bare) > 1 else ""
            warnings.warn(f"{bare[0]}; its metric is {kept}{also}", UserWarning, stacklevel=3)
        if small:
            (first, count), more = small[0], len(small) - 1
            has = "1 point, hence no neighbours; it is an impostor only" if count == 1 else (
                f"{count} points, so each has {count - 1} target neighbours, not "
                f"{self.n_neighbors}"
            )
            also = f" ({more} more such classes)" if more else ""
            warnings.warn(f"{first} has {has}{also}", UserWarning, stacklevel=3)
        return usable

    def _learn(self, X, y, tasks):
        """X_0, X_1, ... of the last round, the tasks of X_1, ..., the rounds, whether stopped."""
        begun, rounds = perf_counter(), []
        found = triplets(X, y, tasks, self.n_neighbors, self.n_impostors, True,
                         self.n_candidates)
        unit = self.margin * _unit(found)
        if not unit > TINY:
            raise ValueError(
                f"margin times the median squared distance to impostors must be above {TINY:g}, "
                f"got {unit:.3g} with margin={self.margin!r}; scale X"
            )
        found = found._replace(points=found.points / math.sqrt(unit))
        alone = len(found.task_names) == 1
        lam = self.lambda0 / len(found.task_names) if self.lam is None else self.lam
        given = self.lambda0, lam, LOSSES["smoothed_hinge"], "shared" if alone else "both"
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        problem, start, left, interrupted = metric_problem(found, *given), {}, None, False
        for k in range(self.refresh + 1):
            if self.max_seconds is not None:
                left = max(self.max_seconds - (perf_counter() - begun), 1e-3)
            result = solve(problem, self.method, self.tol, left, seed=seed,
                           progress=self.verbose, **start)
            end = result.history.iloc[-1]
            rounds.append(dict(
                triplets=len(found.near), primal=result.primal, gap=result.relative_gap,
                status=result.status, seconds=float(end["seconds"]), passes=float(end["passes"]),
                method=result.info.get("method", result.method),
            ))
            if result.status != "converged" or k == self.refresh:
                break
            try:
                before, found = found, self._refreshed(found, problem, result.x)
                old, new = kept_triplets(before, found)
                if len(old) == len(found.near):
                    break
                problem = metric_problem(found, *given)
            except KeyboardInterrupt:
                interrupted = True
                break
            # A triplet that is new begins at rest, so that D(y) stays what it was.
            y0 = np.zeros(len(found.near))
            y0[new] = result.y[old]
            start = dict(x0=result.x, y0=y0)
        if result.status not in ("converged", "interrupted"):
            warnings.warn(
                f"round {k + 1} of {self.refresh + 1} ended with status {result.status} at a "
                f"relative gap of {result.relative_gap:.1e}, not {self.tol:.1e}",
                ConvergenceWarning, stacklevel=3,
            )
        interrupted = interrupted or result.status == "interrupted"
        return result.x, problem.learned.task_names.tolist(), rounds, interrupted

    def _refreshed(self, found, problem, x):
        """The triplets with impostors that are near by the metrics of a solution."""
        mapped = np.empty_like(found.points)
        for j, metric in enumerate(problem.learned.metrics(x)):
            rows = slice(*found.starts[j:j + 2])
            np.matmul(found.points[rows], _root(metric).T, out=mapped[rows])
        return with_impostors(found, mapped, problem.dual_from_primal(x), self.n_candidates)

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
                "score needs the training points, which are not kept in a pickle or a copy; fit "
                "KNeighborsClassifier on transform(X) of them"
            )
        X, y = validate_data(self, X, y, dtype=np.float64, reset=False)
        codes, right = self._codes(tasks, len(X)), 0
        points, classes, places = self._training
        # As objects: NumPy takes 1 and "1" for the same.
        if set(y.tolist()).isdisjoint(classes.tolist()):
            raise ValueError(
                f"y has no class of fit, got {show_id(y[0])}, ...; folds of sorted classes need "
                "cv=StratifiedKFold()"
            )
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

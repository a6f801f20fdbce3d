"""Properties of `MultiTaskLMNN`: what it learns, how it fits scikit-learn, what it refuses."""

import itertools
import pickle
import re

import numpy as np
import pytest
import sklearn
from conftest import REPO
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import benchmark_dspdc
from benchmark_dspdc import mt_lmnn, solve
from benchmark_dspdc.data.triplets import kept_triplets, triplets, with_impostors
from benchmark_dspdc.sklearn import MultiTaskLMNN

pytestmark = pytest.mark.usefixtures("home")


def make_data(n=120, d=4, n_classes=3, n_tasks=2, seed=0):
    """Classes apart in one direction, and noise that hides it in another, which tasks share."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.standard_normal((n, d))
    X[:, 0] = y + 0.3 * X[:, 0]
    X[:, 1] *= 4.0
    return X, y, np.arange(n) % n_tasks


@parametrize_with_checks([MultiTaskLMNN(random_state=0)])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


# --- what is learned ------------------------------------------------------------------------


def nearest_impostor(X, y):
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    distances[y[:, None] == y[None]] = np.inf
    return distances.min(axis=1)


@pytest.mark.parametrize("tasks", [False, True])
def test_metric_is_the_optimum_of_mt_lmnn_in_units_of_impostors(tasks):
    X, y, t = make_data()
    model = MultiTaskLMNN(lambda0=0.05, lam=0.2, margin=2.0, tol=1e-9, refresh=0)
    model.fit(X, y, t if tasks else None)
    t = t if tasks else np.zeros(len(y))
    unit = 2.0 * np.median(np.concatenate([
        nearest_impostor(X[t == j], y[t == j]) for j in np.unique(t)
    ]))
    problem = mt_lmnn(
        X / np.sqrt(unit), y, t, model.n_neighbors, model.n_impostors, 0.05, 0.2,
        metrics="multi-task" if tasks else "shared",
    )
    expected = problem.learned.metrics(solve(problem, tol=1e-11).x)
    np.testing.assert_allclose(np.atleast_3d(model.metric_.T).T.reshape(expected.shape), expected,
                               atol=2e-4)
    assert model.gap_ <= 1e-9 and model.rounds_[0]["status"] == "converged"


@pytest.mark.parametrize("tasks", [False, True])
def test_distances_of_mapped_points_are_those_of_the_metric(tasks):
    X, y, t = make_data()
    t = t if tasks else None
    model = MultiTaskLMNN().fit(X, y, t)
    Z = model.transform(X, t)
    rows = np.arange(len(y)) if t is None else np.flatnonzero(t == 1)
    metric = model.metric_ if t is None else model.metric_[1]
    difference = X[rows[0]] - X[rows[1:]]
    np.testing.assert_allclose(
        ((Z[rows[0]] - Z[rows[1:]]) ** 2).sum(axis=1),
        np.einsum("ij,jk,ik->i", difference, metric, difference), rtol=1e-9,
    )
    np.testing.assert_array_equal(Z, MultiTaskLMNN().fit_transform(X, y, t))
    np.testing.assert_array_equal(model.get_mahalanobis_matrix(), model.metric_)


def test_fewer_components_are_the_leading_ones():
    X, y, _ = make_data()
    whole, two = (MultiTaskLMNN(n_components=k).fit(X, y) for k in (None, 2))
    np.testing.assert_allclose(two.components_, whole.components_[:2], rtol=1e-9)
    assert two.transform(X).shape == (len(X), 2)
    assert list(two.get_feature_names_out()) == ["multitasklmnn0", "multitasklmnn1"]
    assert (np.diff(whole.transform(X).std(axis=0)) <= 0).all()
    assert (two.components_[[0, 1], abs(two.components_).argmax(axis=1)] > 0).all()


def test_shared_metric_and_own_parts_make_the_metrics():
    X, y, t = make_data()
    model = MultiTaskLMNN(lam=1e6).fit(X, y, t)
    np.testing.assert_allclose(model.metric_, [model.shared_metric_] * 2, atol=1e-4)
    model = MultiTaskLMNN(lam=1e-3).fit(X, y, t)
    assert np.linalg.eigvalsh(model.metric_ - model.shared_metric_).min() > -1e-9
    assert np.linalg.norm(model.metric_[1] - model.shared_metric_) > 0.1


def test_lam_is_by_default_the_share_of_a_task():
    X, y, t = make_data()
    one, two = (MultiTaskLMNN(lambda0=0.04, lam=lam).fit(X, y, t) for lam in (None, 0.02))
    np.testing.assert_array_equal(one.metric_, two.metric_)


def test_noise_that_hides_the_classes_is_shortened():
    X, y, t = make_data(n=300)
    X_test, y_test, t_test = make_data(n=300, seed=1)
    for given, asked in ((None, None), (t, t_test)):
        model = MultiTaskLMNN(lambda0=0.01).fit(X, y, given)
        plain = MultiTaskLMNN(lambda0=1e6, lam=1e6, refresh=0).fit(X, y, given)
        assert model.score(X_test, y_test, asked) > plain.score(X_test, y_test, asked) + 0.1
        metric = model.metric_ if given is None else model.metric_[0]
        assert metric[0, 0] > 5 * metric[1, 1]


def test_tasks_that_differ_get_metrics_that_differ():
    # Each task has its classes in a direction of its own.
    X, y, t = make_data(n=400, d=3)
    X[t == 1] = X[t == 1][:, [2, 1, 0]]
    model = MultiTaskLMNN(lambda0=0.1, lam=0.01).fit(X, y, t)
    assert model.metric_[0][0, 0] > 2 * model.metric_[0][2, 2]
    assert model.metric_[1][2, 2] > 2 * model.metric_[1][0, 0]


@pytest.mark.parametrize("tasks", [False, True])
def test_score_is_that_of_scikit_learns_votes_on_mapped_points(tasks):
    X, y, t = make_data()
    X_test, y_test, t_test = make_data(seed=3)
    if not tasks:
        model = MultiTaskLMNN().fit(X, y)
        votes = KNeighborsClassifier(3).fit(model.transform(X), y)
        assert model.score(X_test, y_test) == votes.score(model.transform(X_test), y_test)
        return
    model, right = MultiTaskLMNN().fit(X, y, t), 0.0
    for j in (0, 1):
        own, asked = t == j, t_test == j
        votes = KNeighborsClassifier(3).fit(model.transform(X[own], t[own]), y[own])
        right += asked.sum() * votes.score(
            model.transform(X_test[asked], t_test[asked]), y_test[asked])
    assert model.score(X_test, y_test, t_test) == pytest.approx(right / len(y_test))


def test_equal_seeds_give_equal_metrics_and_tasks_may_have_any_names():
    X, y, t = make_data()
    one, two = (MultiTaskLMNN(method="dspdc", random_state=4).fit(X, y, t) for _ in range(2))
    np.testing.assert_array_equal(one.metric_, two.metric_)
    names = np.array(["left", "right"])[t]
    named = MultiTaskLMNN(method="dspdc", random_state=4).fit(X, y.astype(str), names)
    np.testing.assert_array_equal(named.metric_, one.metric_)
    assert list(named.tasks_) == ["left", "right"]


# --- impostors that follow the metric -------------------------------------------------------


def rounds_of(k, **options):
    X, y, _ = make_data(n=200, seed=5)
    return MultiTaskLMNN(lambda0=0.003, n_impostors=2, tol=1e-7, refresh=k, **options).fit(X, y)


def test_impostors_found_again_raise_the_optimum_and_keep_their_number():
    # As constraints that do something stay, and others come.
    rounds = rounds_of(6).rounds_
    assert 2 < len(rounds) <= 7
    assert {r["triplets"] for r in rounds} == {200 * 3 * 2}
    values = np.array([r["primal"] for r in rounds])
    assert (np.diff(values) >= -2e-7).all() and values[-1] > 1.001 * values[0]
    assert all(r["gap"] <= 1e-7 for r in rounds)


def test_a_refreshed_fit_keeps_more_impostors_away_than_a_fit_without():
    X, y, _ = make_data(n=200, seed=5)

    def violations(model):
        Z, found = model.transform(X), triplets(X, y, np.zeros(len(y)), 3, 2)
        unit = np.median(nearest_impostor(X, y))
        farthest = ((Z[:, None] - Z[found.neighbors]) ** 2).sum(axis=2).max(axis=1)
        return np.maximum(unit - nearest_impostor(Z, y) + farthest, 0.0).mean()
    assert violations(rounds_of(6)) < violations(rounds_of(0))


def test_each_tasks_impostors_are_found_by_its_own_metric(monkeypatch):
    # Each task has its classes in another direction.
    X, y, t = make_data(n=200, d=3)
    X[t == 1] = X[t == 1][:, [2, 1, 0]]
    seen = []

    def spied(found, mapped, weights, candidates):
        seen.append((found, mapped, candidates))
        return with_impostors(found, mapped, weights, candidates)
    monkeypatch.setattr("benchmark_dspdc.sklearn.with_impostors", spied)
    model = MultiTaskLMNN(lam=1e-3, refresh=1, n_candidates=500, fallback=False).fit(X, y, t)
    (found, mapped, candidates), = seen
    assert candidates == 500 and len(model.rounds_) == 2
    first = MultiTaskLMNN(lam=1e-3, refresh=0, fallback=False).fit(X, y, t)
    for j in (0, 1):
        rows = slice(*found.starts[j:j + 2])
        np.testing.assert_allclose(
            mapped[rows] @ mapped[rows].T,
            found.points[rows] @ first.metric_[j] @ found.points[rows].T, atol=1e-8,
        )


def test_a_round_begins_where_the_last_one_ended(monkeypatch):
    first_gaps, duals = [], []

    def watched(*args, **kwargs):
        result = solve(*args, **kwargs)
        first_gaps.append(result.history["relative_gap"].iloc[0])
        duals.append((result.history["dual"].iloc[0], result.dual))
        return result
    monkeypatch.setattr("benchmark_dspdc.sklearn.solve", watched)
    rounds_of(6)
    assert max(first_gaps[1:]) < first_gaps[0]
    for (_, end), (begin, _) in itertools.pairwise(duals):
        assert begin >= end - 1e-6


def by_hand(old, used, new):
    """One point's impostors after a refresh."""
    kept = [w for w, busy in zip(old, used, strict=True) if busy]
    kept += [w for w in new if w not in kept]
    kept += [w for w in old if w not in kept]
    return kept[:len(old)]


@pytest.mark.parametrize("n_impostors", [1, 3])
def test_busy_impostors_stay_and_the_nearest_come(n_impostors):
    X, y, t = make_data(n=60)
    found = triplets(X, y, t, 2, n_impostors)
    rng = np.random.default_rng(0)
    mapped = found.points @ rng.standard_normal((4, 4))
    weights = -(rng.random(len(found.near)) < 0.3).astype(float)
    again = with_impostors(found, mapped, weights)
    busy = np.bincount(found.far, weights=-weights, minlength=len(found.pairs)) > 0
    for u in range(60):
        own = found.pairs[:, 0] == u
        far = [k for k in np.flatnonzero(own) if k not in set(found.neighbor_pairs)]
        rows = np.arange(found.starts[u // 30], found.starts[u // 30 + 1])
        others = rows[found.labels[rows] != found.labels[u]]
        distances = ((mapped[others] - mapped[u]) ** 2).sum(axis=1)
        new = others[np.argsort(distances)][:n_impostors]
        assert list(again.impostors[u]) == by_hand(found.pairs[far, 1], busy[far], new)
    np.testing.assert_array_equal(again.neighbors, found.neighbors)
    assert len(again.near) == len(found.near)


def test_triplets_that_stay_are_recognised():
    X, y, t = make_data(n=60)
    one = triplets(X, y, t, 2, 3)
    two = with_impostors(one, one.points[:, ::-1] ** 3, np.zeros(len(one.near)))

    def names(found):
        return [(*found.pairs[a], found.pairs[b, 1]) for a, b in zip(
            found.near, found.far, strict=True)]
    old, new = kept_triplets(one, two)
    first, second = names(one), names(two)
    assert [first[k] for k in old] == [second[k] for k in new]
    assert {first[k] for k in old} == set(first) & set(second) and 0 < len(old) < len(first)


def test_small_classes_have_the_neighbours_and_impostors_that_there_are():
    # Of task 0 class 0 has one point and class 1 two; task 1 has five impostors for class 1.
    y = np.array([0, 1, 1, 2, 2, 2, 2, 2, *[0] * 5, *[1] * 7])
    t = np.repeat([0, 1], [8, 12])
    X = np.random.default_rng(0).standard_normal((20, 3))
    found = triplets(X, y, t, n_neighbors=2, n_impostors=6, partial=True)
    counted = 0
    for u in range(20):
        same = np.flatnonzero((y == y[u]) & (t == t[u]))
        other = np.flatnonzero((y != y[u]) & (t == t[u]))
        near = sorted(same[same != u], key=lambda v: ((X[v] - X[u]) ** 2).sum())[:2]
        far = sorted(other, key=lambda w: ((X[w] - X[u]) ** 2).sum())[:6]
        assert list(found.neighbors[u][found.neighbors[u] >= 0]) == near
        assert list(found.impostors[u][found.impostors[u] >= 0]) == far
        expected = [(v, w) for v in near for w in far]
        own = found.pairs[found.near, 0] == u
        assert expected == list(zip(
            found.pairs[found.near[own], 1], found.pairs[found.far[own], 1], strict=True))
        counted += len(expected)
    assert counted == len(found.near) and not (found.pairs == 0).all(axis=1).any()
    assert set(range(len(found.pairs))) == {*found.near, *found.far}
    assert found.pair_starts[-1] == len(found.pairs)


# --- in scikit-learn ------------------------------------------------------------------------


def test_goes_into_pipelines_and_searches():
    X, y, _ = make_data()
    pipe = make_pipeline(StandardScaler(), MultiTaskLMNN(), KNeighborsClassifier(3))
    search = GridSearchCV(pipe, {"multitasklmnn__lambda0": [0.01, 1e3]}, cv=3).fit(X, y)
    assert search.best_params_ == {"multitasklmnn__lambda0": 0.01}
    own = GridSearchCV(MultiTaskLMNN(), {"n_components": [1, 4]}, cv=3).fit(X, y)
    assert own.best_score_ > 0.6


def test_tasks_are_routed_as_metadata():
    X, y, t = make_data()
    with sklearn.config_context(enable_metadata_routing=True):
        model = MultiTaskLMNN().set_fit_request(tasks=True).set_score_request(tasks=True)
        search = GridSearchCV(model, {"lambda0": [0.01, 1.0]}, cv=3).fit(X, y, tasks=t)
        assert list(search.best_estimator_.tasks_) == [0, 1]
        pipe = Pipeline([
            ("scale", StandardScaler()),
            ("metric", MultiTaskLMNN().set_fit_request(tasks=True).set_transform_request(
                tasks=True)),
        ]).fit(X, y, tasks=t)
        scaled = StandardScaler().fit_transform(X)
        np.testing.assert_array_equal(
            pipe.transform(X, tasks=t), MultiTaskLMNN().fit_transform(scaled, y, t))


def test_a_pickle_has_the_metric_and_not_the_points():
    X, y, t = make_data(n=2000)
    model = MultiTaskLMNN(refresh=0, tol=1e-2).fit(X, y, t)
    pickled = pickle.dumps(model)
    assert len(pickled) < 4000 < X.nbytes
    loaded = pickle.loads(pickled)
    np.testing.assert_array_equal(loaded.transform(X, t), model.transform(X, t))
    with pytest.raises(NotFittedError, match="training points, which are not kept in a pickle"):
        loaded.score(X, y, t)
    assert not hasattr(clone(model), "metric_")


def test_the_package_has_it_too():
    assert benchmark_dspdc.MultiTaskLMNN is MultiTaskLMNN


def test_ctrl_c_keeps_what_was_learned(monkeypatch):
    X, y, _ = make_data()
    calls = []

    def interrupted(*args, **kwargs):
        calls.append(kwargs)

        def stop(row):
            return len(calls) == 2
        return solve(*args, callback=stop, **kwargs)
    monkeypatch.setattr("benchmark_dspdc.sklearn.solve", interrupted)
    model = MultiTaskLMNN(refresh=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.rounds_) == 2 and model.transform(X).shape == X.shape


def test_ctrl_c_in_a_search_keeps_the_rounds_before_it(monkeypatch):
    X, y, _ = make_data()

    def stop(*given):
        raise KeyboardInterrupt
    monkeypatch.setattr("benchmark_dspdc.sklearn.with_impostors", stop)
    model = MultiTaskLMNN()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.rounds_) == 1
    expected = MultiTaskLMNN(refresh=0).fit(X, y).metric_
    np.testing.assert_array_equal(model.metric_, expected)


def test_a_refit_that_fails_leaves_what_was_fitted():
    X, y, t = make_data()
    model = MultiTaskLMNN().fit(X, y, t)
    before = model.transform(X, t)
    with pytest.raises(ValueError, match="tasks must be as many"):
        model.fit(X, y, t[:3])
    np.testing.assert_array_equal(model.transform(X, t), before)


def test_a_fit_ends_when_no_impostor_changes():
    # Held to the Euclidean metric, by which impostors were found at first.
    X, y, _ = make_data()
    assert len(MultiTaskLMNN(lambda0=1e6, refresh=5).fit(X, y).rounds_) == 1


@pytest.mark.parametrize("verbose", [False, True])
def test_progress_is_shown_if_asked_and_passes_are_those_of_all_rounds(verbose, monkeypatch):
    shown = []

    def spied(*args, **kwargs):
        shown.append(kwargs.pop("progress"))
        return solve(*args, **kwargs)
    monkeypatch.setattr("benchmark_dspdc.sklearn.solve", spied)
    model = rounds_of(2, verbose=verbose)
    assert shown == [verbose] * 3
    assert model.n_iter_ == np.ceil(sum(row["passes"] for row in model.rounds_))


def test_rounds_share_the_limit_of_time(monkeypatch):
    given, clock = [], iter(np.arange(0.0, 1000.0, 4.0))
    monkeypatch.setattr("benchmark_dspdc.sklearn.perf_counter", lambda: next(clock))

    def spied(*args, **kwargs):
        given.append(args[3])
        return solve(*args, **kwargs)
    monkeypatch.setattr("benchmark_dspdc.sklearn.solve", spied)
    rounds_of(2, max_seconds=30.0)
    assert given == [26.0, 22.0, 18.0]


def test_a_limit_of_time_ends_the_fit_with_a_warning():
    X, y, _ = make_data()
    with pytest.warns(ConvergenceWarning, match=r"round 1 of 4 .* max_seconds at a relative gap"):
        model = MultiTaskLMNN(max_seconds=1e-6, tol=1e-13, lambda0=1e-4, refresh=3).fit(X, y)
    assert len(model.rounds_) == 1 and model.gap_ > 1e-13


def test_the_documents_examples_run():
    text = (REPO / "docs" / "metric-learning.md").read_text()
    names = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)
    assert names["model"].shared_metric_.shape == (64, 64) and names["lmnn"].gap_ <= 1e-4


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize("change, message", [
    (dict(X=np.full((6, 2), np.nan)), "contains NaN"),
    (dict(y=[0.5, 0.1, 0.2, 0.3, 0.4, 0.6]), "Unknown label type: continuous"),
    (dict(y=[0, 1]), "inconsistent numbers of samples"),
    (dict(tasks=[0, 1]), "tasks must be as many as the points, 6, got 2"),
    (dict(tasks=[0, 1, np.nan, 0, 0, 0]), "tasks must not be NaN, got one at index 2"),
    (dict(n_components=3), r"n_components must be an integer from 1 to 2 \(the features of X\)"),
    (dict(n_neighbors=0), "n_neighbors must be an integer >= 1, got 0"),
    (dict(lambda0=0.0), "lambda0 must be a finite number > 0"),
    (dict(margin=-1.0), "margin must be a finite number > 0"),
    (dict(refresh=-1), "refresh must be an integer >= 0, got -1"),
    (dict(tol=-1.0), "tol must be a finite number >= 0"),
    (dict(max_seconds=0), "max_seconds must be a finite number > 0"),
    (dict(method="adam"), "method must be one of"),
])
def test_bad_input_is_refused_with_what_was_given_and_what_is_allowed(change, message):
    data = dict(X=np.arange(12.0).reshape(6, 2), y=[0, 1] * 3)
    data |= {name: change[name] for name in ("X", "y", "tasks") if name in change}
    options = {name: value for name, value in change.items() if name not in data}
    with pytest.raises(ValueError, match=message):
        MultiTaskLMNN(**options).fit(**data)


@pytest.mark.parametrize("y, tasks, message", [
    ([0, 0, 0, 0, 0, 1] * 2, None, "class '1' has 2 points, so each has 1 target neighbours"),
    ([0] * 11 + [1], None, "class '1' has 1 point, hence no neighbours; it is an impostor only"),
    ([0, 1] * 3 + ["b"] * 6, ["one"] * 6 + ["two"] * 6, "task 'two' has one class only, 'b'"),
    ([*range(6), 0, 1, 0, 1, 0, 1], [0] * 6 + [1] * 6, "task 0 has one point of each class"),
])
def test_small_classes_and_tasks_are_named_in_a_warning(y, tasks, message):
    X = np.random.default_rng(0).standard_normal((12, 3))
    with pytest.warns(UserWarning, match=message):
        model = MultiTaskLMNN().fit(X, np.array(y).astype(str), tasks)
    assert np.isfinite(model.metric_).all()


def test_a_task_of_one_class_has_the_shared_metric():
    X, y, t = make_data()
    y[t == 1] = 7
    with pytest.warns(UserWarning, match="task 1 has one class only, 7, hence no impostors"):
        model = MultiTaskLMNN().fit(X, y, t)
    alone = MultiTaskLMNN().fit(X[t == 0], y[t == 0])
    np.testing.assert_allclose(model.metric_[1], alone.metric_)


def test_without_impostors_the_metric_is_the_euclidean_one():
    X = np.random.default_rng(0).standard_normal((12, 3))
    with pytest.warns(UserWarning, match="y has one class only, 1, .* the Euclidean one"):
        model = MultiTaskLMNN().fit(X, np.ones(12, dtype=int))
    np.testing.assert_allclose(model.metric_, np.eye(3), atol=1e-12)
    assert model.gap_ == 0.0 and model.n_iter_ == 0 and model.rounds_ == []


def test_where_the_learned_metric_is_zero_the_euclidean_one_is_kept():
    # Of pure noise no metric has points of a class nearer to each other.
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), np.arange(60) % 3
    with pytest.warns(UserWarning, match="Euclidean one.* is kept.* fallback=False keeps it any"):
        model = MultiTaskLMNN().fit(X, y)
    np.testing.assert_allclose(model.metric_, np.eye(4), atol=1e-12)
    zero = MultiTaskLMNN(fallback=False).fit(X, y)
    assert np.trace(zero.metric_) < 1e-6
    # Of two tasks only the one of noise.
    good, _, _ = make_data(n=60, d=4)
    both, tasks = np.vstack([X, good]), np.repeat(["noise", "good"], 60)
    labels = np.concatenate([y, make_data(n=60, d=4)[1]])
    model = MultiTaskLMNN(lambda0=1e-3, lam=1e-4).fit(both, labels, tasks)
    assert (np.trace(model.metric_, axis1=1, axis2=2) > 0.1).all()


def test_a_metric_that_harms_is_not_kept():
    X, y = make_classification(3000, 20, n_informative=10, n_redundant=0, class_sep=0.8,
                               flip_y=0.4, random_state=0)
    with pytest.warns(UserWarning, match=r"more errors on training .* \(3\d\.\d+ %\), wh"):
        model = MultiTaskLMNN(random_state=0).fit(X[:1500], y[:1500])
    plain = KNeighborsClassifier(3).fit(X[:1500], y[:1500]).score(X[1500:], y[1500:])
    assert model.score(X[1500:], y[1500:]) == plain
    harmed = MultiTaskLMNN(random_state=0, fallback=False).fit(X[:1500], y[:1500])
    assert harmed.score(X[1500:], y[1500:]) < plain - 0.01
    assert model.gap_ == harmed.gap_ <= 1e-4


@pytest.mark.parametrize("copies", [1, 3])
def test_errors_of_left_out_points_are_those_of_a_loop(copies):
    X, y, t = make_data(n=90)
    X, y, t = (np.concatenate([part] * copies) for part in (X, y, t))
    model = MultiTaskLMNN().fit(X, y, t)
    wrong = 0
    for k in range(len(y)):
        rest = (np.arange(len(y)) != k) & (t == t[k])
        votes = KNeighborsClassifier(1).fit(model.transform(X[rest], t[rest]), y[rest])
        near = votes.kneighbors(model.transform(X[k:k + 1], t[k:k + 1]), 3)[1][0]
        found = list(y[rest][near])
        wrong += max(found, key=found.count) != y[k]
    # Of copies that are equally near any may come first.
    within = 1e-12 if copies == 1 else 2e-2
    assert model._left_out_errors(model.metric_) == pytest.approx(wrong / len(y), abs=within)


def test_points_of_different_classes_at_one_place_are_no_harm():
    X = np.repeat(np.random.default_rng(0).standard_normal((5, 3)), 8, axis=0)
    model = MultiTaskLMNN().fit(X, np.arange(40) % 2)
    assert np.isfinite(model.metric_).all()


@pytest.mark.parametrize("asked, message", [
    (None, "tasks are needed, as the metric was fitted with tasks: 0, 1"),
    ([0, 2, 5], r"tasks must be among those of fit, 0, 1, got 2 \(2 points of unseen tasks\)"),
    ([0, 1], "tasks must be as many as the points, 3, got 2"),
    (["0", "1", "1"], "tasks must be among those of fit"),
])
def test_transform_names_tasks_that_it_does_not_know(asked, message):
    X, y, t = make_data()
    model = MultiTaskLMNN(refresh=0).fit(X, y, t)
    with pytest.raises(ValueError, match=message):
        model.transform(X[:3], asked)
    with pytest.raises(ValueError, match=message):
        model.score(X[:3], y[:3], asked)


def test_classes_that_were_never_seen_have_no_score():
    X, y, _ = make_data()
    model = MultiTaskLMNN(refresh=0).fit(X, y)
    with pytest.raises(ValueError, match=r"y has no class of fit, got '1'.*StratifiedKFold"):
        model.score(X[y == 1], y[y == 1].astype(str))


def test_messages_name_tasks_as_they_were_given_and_are_few():
    X, y, t = make_data()
    names = np.array(["left", "right"])[t]
    large = np.where(t[:, None] == 1, 1e200 * X, X)
    with pytest.raises(ValueError, match="points of task 'right' are too large"):
        MultiTaskLMNN().fit(large, y, names)
    with pytest.raises(ValueError, match="margin times the median squared distance"):
        MultiTaskLMNN(margin=1e-300).fit(1e-20 * X, y)
    many = np.concatenate([t, np.arange(10, 30)])
    with pytest.warns(UserWarning) as told:
        MultiTaskLMNN().fit(np.vstack([X, X[:20]]), np.concatenate([y, y[:20]]), many)
    assert [str(w.message) for w in told] == [
        f"task 10 has one class only, {y[0]}, hence no impostors; its metric is the one that all "
        "tasks share (19 more such tasks)"
    ]


def test_more_impostors_than_points_are_those_that_there_are():
    X, y, _ = make_data(n=60)
    few, many = (MultiTaskLMNN(n_impostors=k).fit(X, y) for k in (59, 10**6))
    np.testing.assert_array_equal(few.metric_, many.metric_)


def test_tasks_without_fitted_ones_are_refused():
    X, y, t = make_data()
    with pytest.raises(ValueError, match="tasks must be None, as the metric was fitted without"):
        MultiTaskLMNN(refresh=0).fit(X, y).transform(X, t)

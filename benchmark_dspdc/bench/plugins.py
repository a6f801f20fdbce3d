"""What the objective and the benchopt plug-ins under ``solvers/`` share.

Beside `failure_notes`, and `named_problems` when called, no other module imports benchopt.

A plug-in names a method and its options; everything else is in `MethodSolver`
for our own methods and in `PeerSolver` for those of other packages.
"""

import functools
import importlib.metadata
import importlib.util
import json
import math
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy
from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion
from benchopt.utils.parametrized_name_mixin import product_param

from ..engine.checks import check_number, is_auto
from ..engine.psd_projection import ProjectionError
from ..engine.threads import VARIABLE as THREADS
from ..engine.threads import at_most
from ..methods import NAMED
from ..problems import MetricProblem
from ..report.looks import BY_HAND, FAMILIES, SELF_TUNED
from ..solver import chunk, is_large, schedule, warm_up
from ..theory.constants import constants
from ..theory.rates import NoRate, predict, rate_of
from . import metric_peers
from .benchopt_process import CURVE_HASH, LIMITS, TOLERANCE
from .peers import PEERS, next_budget


def tolerance(default, solver=None):
    """The relative gap at which a curve ends, as set where the solver was sent from, or here."""
    given = (getattr(solver, "settings", None) or os.environ).get(TOLERANCE)
    if given is None and getattr(solver, "stop_at", None) is not None:
        return TO
    try:
        return default if given is None else check_number(float(given), TOLERANCE, 0.0)
    except ValueError:
        raise ValueError(f"{TOLERANCE} must be a number of at least 0, got {given!r}") from None


#: Why a curve is skipped that has no time in a round of the paper's figures; see `failure_notes`.
LEFT_OUT = "not in this round"

#: The gap that times are compared at where slow curves are ended early.
TO = 1e-6

#: Seconds to it of the fastest solver so far in this process, by what tells problems apart:
#: benchopt makes them anew for every solver.
FASTEST = {}


class RelativeGap(StoppingCriterion):
    """Stop when the certified relative gap is at most `tol`, or what BENCHMARK_DSPDC_TOL says.

    Also stop after `patience` checks without progress once the gap is at the limit of double
    precision.
    """

    stalls_below = 1e-12

    def __init__(self, tol=1e-8, patience=20, strategy="callback", key_to_monitor="relative_gap",
                 minimize=True):
        self.tol, self.patience = tol, patience
        super().__init__(strategy, key_to_monitor, minimize, tol=tol, patience=patience)

    def should_stop(self, stop_val, objective_list):
        # benchopt takes a large rise for divergence and drops the curve. Gaps may rise and come
        # back; a run that has no number any more ends, and its curve shows it.
        self._prev_objective = math.inf
        if not math.isfinite(objective_list[-1][self.key_to_monitor_]):
            warnings.warn(f"{self.solver} diverged: its gap is not a finite number any more",
                          RuntimeWarning, stacklevel=1)
            return True, "max_runs", stop_val
        return super().should_stop(stop_val, objective_list)

    def check_convergence(self, objective_list):
        gaps = [row[self.key_to_monitor_] for row in objective_list]
        # benchopt gives criteria their solver when a run begins.
        solver = getattr(self, "solver", None)
        if gaps[-1] <= tolerance(self.tol, solver) or getattr(solver, "late", False):
            return True, 1.0
        best = min(range(len(gaps)), key=gaps.__getitem__)
        return len(gaps) - 1 - best >= self.patience and gaps[best] < self.stalls_below, 0.0


class BudgetGap(RelativeGap):
    """`RelativeGap` for solvers that begin anew with every budget.

    If larger budgets bring nothing at any gap, the package has stopped by itself, or can do no
    better.
    """

    stalls_below = math.inf

    def __init__(self, tol=1e-8, patience=10, strategy="iteration",
                 key_to_monitor="relative_gap", minimize=True):
        super().__init__(tol, patience, strategy, key_to_monitor, minimize)


class Finished(BudgetGap):
    """`BudgetGap` for solvers of another problem: they end when they say so, and not by a gap."""

    def check_convergence(self, objective_list):
        return self.solver.finished, 0.0


class Carried:
    """Mixin: what a curve depends on beside its plug-in goes with it, to workers and into keys.

    benchopt's cache knows the plug-in's file and parameters. The numerical package belongs to the
    key as well, as a changed kernel or certificate is another result; and so do settings of the
    environment, which a worker on another machine does not have.
    """

    #: The state of the process that has sent this object, None if it is of this one.
    settings = None

    def _get_state(self):
        return self.settings or {
            # numba's release is in the hash of the sources.
            "sources": CURVE_HASH, "releases": [np.__version__, scipy.__version__],
            **{name: os.environ[name] for name in (TOLERANCE, THREADS, LIMITS)
               if name in os.environ},
        }

    def __setstate__(self, state):
        if state["sources"] != CURVE_HASH:
            # A dask worker may have been started before an edit: its curve would be of other code.
            raise RuntimeError("this worker has other sources of benchmark_dspdc; restart it")
        self.settings = state


@functools.lru_cache(maxsize=1)
def _limits(file):
    return json.loads(Path(file).read_text("utf-8"))


def limit_of(solver, problem):
    """Seconds of its own that a curve may take, by the file that `LIMITS` names; 0 is none.

    The file has a number for curves by the names of data set, objective and solver, and one for
    all others.
    """
    file = (getattr(solver, "settings", None) or os.environ).get(LIMITS)
    if file is None:
        return math.inf
    limits, names = _limits(file), [*getattr(problem, "names", ()), str(solver)]
    return limits["curves"].get("\t".join(names), limits["others"])


class Hurried:
    """Mixin: a curve ends at `stop_at` times the time of the fastest solver to `TO`.

    For sets of problems on which most solvers are far from the best; the objective says so.
    """

    stop_at, late, limit = None, False, math.inf

    @property
    def _posed(self):
        return repr(self.problem), hash(self.problem.b.tobytes())

    def _is_late(self, seconds):
        self.late = seconds >= self.limit
        if self.stop_at is not None and not self.late:
            self.late = seconds > self.stop_at * FASTEST.get(self._posed, math.inf)
        return self.late

    def _arrived(self, x, y, seconds):
        """Take note of a time, if the point is good enough; in nobody's time."""
        if self.stop_at is None or seconds >= FASTEST.get(self._posed, math.inf):
            return
        if self.problem.certify(x, y).relative_gap <= TO:
            FASTEST[self._posed] = seconds


#: Of so many points of a curve one has its scores, from the first on, where these take long.
SCORED_EACH = 4

#: Multiply-adds of a pass of the largest problem that costs are predicted for.
PREDICTED = 10**7


def predicted_cost(method, problem, options):
    """Multiply-adds to a relative accuracy of 1e-6, with d^3 for an eigendecomposition.

    As in the paper's tables, so for blocks of one row and one column; NaN for others, for
    problems that are larger than `PREDICTED`, and where no rate is known.
    """
    sizes = options.get("m", 1), options.get("q", 1)
    ones = all(isinstance(size, int) and size == 1 for size in sizes)
    if problem.operator.multiply_adds > PREDICTED or not ones:
        return math.nan
    try:
        found, rate = _constants_of_ones(problem), rate_of(method, options)
        return float(predict(problem, rate, 1e-6, found, method, **options).overall)
    except NoRate:
        return math.nan


@functools.lru_cache(maxsize=1)
def _constants_of_ones(problem):
    """The constants for blocks of one, once for all solvers of a problem."""
    return constants(problem, 1, 1)


class MethodSolver(Carried, Hurried, BaseSolver):
    """Run one of the package's methods under benchopt, on one thread unless more are asked for.

    A subclass sets ``name``, ``method`` (a key of `NAMED`) and ``parameters``, its options.
    """

    method = None
    predicted_cost = math.nan
    sampling_strategy = "callback"
    stopping_criterion = RelativeGap()

    #: Options that are shown also where they have their defaults.
    always = ("m", "q")

    def __repr__(self):
        default = next(product_param(type(self).parameters))
        try:
            settled = NAMED[self.method].settled(**self._parameters)
        except ValueError:
            # They are skipped with the reason, under a name.
            settled = self._parameters
        shown = [
            f"{name}={settled[name]}" for name, value in self._parameters.items()
            if name in self.always or value != default[name]
        ]
        return f"{self.name}[{','.join(shown)}]" if shown else self.name

    def skip(self, problem):
        try:
            NAMED[self.method].validate(problem, **self.options)
        except ValueError as error:
            return True, str(error)
        self.limit = limit_of(self, problem)
        return (True, LEFT_OUT) if self.limit == 0.0 else (False, None)

    def set_objective(self, problem):
        self.problem, self.stop_at = problem, getattr(problem, "stop_at", None)
        # Not in benchopt's warm_up: that runs once per solver, although other data may need other
        # kernels, and after the clock of --timeout has started.
        warm_up(NAMED[self.method], problem, self.options)
        self.predicted_cost = predicted_cost(self.method, problem, self.options)

    @property
    def options(self):
        return dict(self._parameters)

    def run(self, callback):
        # Set-up is part of a method's time, and a seed belongs to a repetition.
        seed = self.get_seed(use_repetition=True)
        begun, self.late = time.perf_counter(), False
        with at_most(1, self.settings):
            self.algorithm = NAMED[self.method](self.problem, seed=seed, **self.options)
        size, large, step = chunk(self.algorithm), is_large(self.problem), 0
        self.checks = 0
        seconds = time.perf_counter() - begun
        while callback():
            if self._is_late(seconds):
                break
            next_step = schedule(step, large)
            try:
                begun = time.perf_counter()
                # In one call; see `solve`.
                with at_most(1, self.settings):
                    self.algorithm.advance(size * (next_step - step))
                step = next_step
                seconds += time.perf_counter() - begun
            except ProjectionError as error:
                # The points so far are good; what follows would not be.
                warnings.warn(f"{self} ended: {error}", RuntimeWarning, stacklevel=1)
                break
        self._arrived(self.algorithm.x, self.algorithm.y, seconds)
        # benchopt keeps its solvers until the end; what they keep should be small.
        self.outcome = self.get_result()
        self.algorithm = None

    def get_next(self, stop_val):
        return stop_val + 1                  # every call of the callback is a check

    def get_result(self):
        if (own := self.algorithm) is None:
            return self.outcome
        names = ("x", "y", "iterations", "predicted_rate", "passes", "coordinate_updates",
                 "eigendecompositions")
        self.checks += 1
        return {name: getattr(own, name) for name in names} | dict(
            scored=self.checks % SCORED_EACH == 1,
            block_rows=own.info.get("m", math.nan), block_columns=own.info.get("q", math.nan),
            predicted_cost=self.predicted_cost, family=FAMILIES.index(own.family),
            tuning=self._tuning(),
        )

    def _tuning(self):
        """How the options were found, as a number of `benchmark_dspdc.report.page.TUNING`."""
        settled = NAMED[self.method].settled(**self.options)
        chosen = any(is_auto(settled.get(name)) for name in ("m", "q"))
        if self.method == "auto" or settled.get("adaptive") or chosen:
            return SELF_TUNED
        default = next(product_param(type(self).parameters))
        return BY_HAND if self.options != default else 0


def needs(package):
    """Raise an ImportError that names the remedy if a package is not installed.

    For the first lines of a plug-in: benchopt takes it for installed if its file can be imported.
    """
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{package} is not installed; run `pip install {package}`")


class PeerSolver(Carried, Hurried, BaseSolver):
    """Run a method of another package under benchopt.

    A subclass sets ``name``, ``peer`` (a key of `PEERS`) and ``parameters``. Each budget is a run
    of its own from x = 0; the budget 0 is that point itself.
    """

    peer = None
    sampling_strategy = "iteration"
    stopping_criterion = BudgetGap()

    def skip(self, problem):
        reason = PEERS[self.peer].refuses(problem, **self._parameters)
        return reason is not None, reason

    def set_objective(self, problem):
        self.problem, self.stop_at = problem, getattr(problem, "stop_at", None)
        # The layout of A, imports and compilation are not part of a run.
        self.ready = PEERS[self.peer](problem, **self._parameters)
        self.ready.warm_up()

    def run(self, budget):
        begun = time.perf_counter()
        self.x = self.ready.fit(budget, self.get_seed(use_repetition=True))
        seconds = time.perf_counter() - begun
        if not self._is_late(seconds):
            self._arrived(self.x, None, seconds)

    def get_next(self, budget):
        return next_budget(self.sampling_strategy, budget)

    def get_result(self):
        return dict(x=self.x, family=FAMILIES.index("peer"))

    def _get_state(self):
        # The release of the package belongs to the key too: the one that is here.
        return super()._get_state() | {"release": release(PEERS[self.peer].package)}


class TolerancePeerSolver(PeerSolver):
    """A peer whose budget is a tolerance."""

    sampling_strategy = "tolerance"
    stopping_criterion = BudgetGap(strategy="tolerance")


class MetricSolver(Carried, BaseSolver):
    """Run what learns metrics by another problem than that of the data set.

    Its errors and times are compared, and no gaps. Each budget is a fit of its own; the budget 0
    is the Euclidean distance.
    """

    sampling_strategy = "iteration"
    stopping_criterion = Finished()
    finished = False
    family = "peer"

    def set_objective(self, problem):
        self.problem = problem

    def pre_run_hook(self, budget):
        self.finished = False

    def run(self, budget):
        self.x = np.zeros(self.problem.x_shape)
        self.x[0] = np.eye(self.problem.x_shape[-1])
        if budget > 0:
            self.fit(budget)

    def get_next(self, budget):
        # Fits take seconds, so fewer of them than of other peers.
        return max(1, 2 * budget)

    def get_result(self):
        return dict(x=self.x, errors_only=1, family=FAMILIES.index(self.family))


class MetricPeerSolver(MetricSolver):
    """Run a metric-learning package in its own environment, through a worker process.

    A subclass sets ``name`` and ``peer`` (a key of `METRIC_PEERS`). The budget is a number of
    iterations from the package's start. The worker is started, loads its package and gets the
    points outside benchopt's clock.
    """

    peer = None
    worker = None

    def skip(self, problem):
        reason = metric_peers.refuses(self.peer, problem)
        return reason is not None, reason

    def set_objective(self, problem):
        super().set_objective(problem)
        self._release()

    def pre_run_hook(self, budget):
        super().pre_run_hook(budget)
        seed = self.get_seed(use_repetition=True)
        if self.worker is not None and self.worker.seed != seed:
            self._release()
        if budget > 0 and self.worker is None:
            own = self.problem
            self.worker = metric_peers.Worker(
                self.peer, own.points, own.classes, own.n_neighbors, seed, **self._parameters
            )

    def _release(self):
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def fit(self, budget):
        L, *_, iterations = self.worker.fit(budget)
        self.finished = iterations < budget
        # The metric that all tasks share.
        self.x[0] = L.T @ L

    def get_result(self):
        if self.finished:
            # benchopt keeps its solvers until the end.
            self._release()
        return super().get_result()

    def _get_state(self):
        return super()._get_state() | {"pins": metric_peers.pins(self.peer)}


class EstimatorSolver(MetricSolver):
    """Fit `MultiTaskLMNN`, with its own constants, on one thread.

    The tolerance falls from 0.1 by a factor of ten with each doubling of the budget.
    """

    family = "other"
    LAST = 16

    def skip(self, problem):
        if isinstance(problem, MetricProblem):
            return False, None
        return True, metric_peers.not_metrics(self.name)

    def set_objective(self, problem):
        super().set_objective(problem)
        # Compiled before any clock runs.
        self.run(self.LAST)

    def fit(self, budget):
        # scikit-learn takes a second to import, which other solvers do not need.
        from ..sklearn import MultiTaskLMNN

        own, shared = self.problem, len(self.x) == 1
        model = MultiTaskLMNN(
            n_neighbors=own.n_neighbors, tol=0.1 / 10.0 ** np.log2(budget),
            random_state=self.get_seed(use_repetition=True) % 2**31, **self._parameters,
        )
        with at_most(1, self.settings):
            model.fit(own.points, own.classes, None if shared else own.tasks)
        self.x[0] = model.shared_metric_
        if not shared:
            self.x[1:] = model.metric_ - model.shared_metric_
        self.finished = budget >= self.LAST


def release(package):
    """The version of the distribution that a module belongs to, None if it is not there."""
    name = package.partition(".")[0]
    try:
        return importlib.metadata.version({"sklearn": "scikit-learn"}.get(name, name))
    except importlib.metadata.PackageNotFoundError:
        return None

"""What the benchopt plug-ins under ``solvers/`` share; the only module here that imports benchopt.

A plug-in names a method and its options; everything else is in `MethodSolver`.
"""

import warnings

from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion
from benchopt.utils.parametrized_name_mixin import product_param

from .algorithms import METHODS
from .jit import SOURCE_HASH
from .psd import ProjectionError
from .solver import chunk, schedule, warm_up


class RelativeGap(StoppingCriterion):
    """Stop when the certified relative gap is at most `tol`.

    Parameters
    ----------
    tol : float
        Target.
    patience : int
        Also stop after this many checks without progress once the gap is at
        the limit of double precision.
    """

    def __init__(self, tol=1e-8, patience=20, strategy="callback", key_to_monitor="relative_gap",
                 minimize=True):
        self.tol = tol
        self.patience = patience
        super().__init__(
            tol=tol, patience=patience, strategy=strategy, key_to_monitor=key_to_monitor,
            minimize=minimize,
        )

    def check_convergence(self, objective_list):
        gaps = [row[self.key_to_monitor_] for row in objective_list]
        if gaps[-1] <= self.tol:
            return True, 1.0
        best = min(range(len(gaps)), key=gaps.__getitem__)
        stalled = len(gaps) - 1 - best >= self.patience and gaps[best] < 1e-12
        return stalled, 0.0


class MethodSolver(BaseSolver):
    """Run one of the package's methods under benchopt.

    A subclass sets ``name``, ``method`` (a key of `METHODS`) and
    ``parameters``, whose keys are the method's options.
    """

    method = None
    sampling_strategy = "callback"
    stopping_criterion = RelativeGap()

    def __repr__(self):
        # Defaults would hide what differs; the block sizes are always of interest.
        default = next(product_param(type(self).parameters))
        shown = [
            f"{name}={value}" for name, value in self._parameters.items()
            if name in ("m", "q") or value != default[name]
        ]
        return f"{self.name}[{','.join(shown)}]" if shown else self.name

    def skip(self, problem):
        try:
            METHODS[self.method].validate(problem, **self.options)
        except ValueError as error:
            return True, str(error)
        return False, None

    def set_objective(self, problem):
        self.problem = problem
        # Not in benchopt's warm_up: that runs once per solver although another
        # data set may need another compilation, and after the clock of
        # --timeout has started.
        warm_up(METHODS[self.method], problem, self.options)

    @property
    def options(self):
        return dict(self._parameters)

    def run(self, callback):
        # Set-up is part of a method's time, and a seed belongs to a repetition.
        self.algorithm = METHODS[self.method](
            self.problem, seed=self.get_seed(use_repetition=True), **self.options
        )
        size = chunk(self.algorithm)
        while callback():
            try:
                self.algorithm.advance(size)
            except ProjectionError as error:
                # The points so far are good; what follows would not be.
                warnings.warn(f"{self} ended: {error}", RuntimeWarning, stacklevel=1)
                break
        # benchopt keeps its solvers until the end; what they keep should be small.
        self.outcome = self.get_result()
        self.algorithm = None

    def get_next(self, stop_val):
        return schedule(stop_val)

    def get_result(self):
        if self.algorithm is None:
            return self.outcome
        return dict(
            x=self.algorithm.x, y=self.algorithm.y, passes=self.algorithm.passes,
            coordinate_updates=self.algorithm.coordinate_updates,
            eigendecompositions=self.algorithm.eigendecompositions,
        )

    # benchopt's cache knows the plug-in's file and parameters. The numerical
    # package belongs to the key as well: a changed kernel is another result.
    def _get_state(self):
        return {"sources": SOURCE_HASH}

    def __setstate__(self, state):
        pass

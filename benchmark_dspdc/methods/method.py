"""What every method is: an object that advances and can be looked at."""

import time
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ..engine.checks import as_array, choose, is_auto
from ..engine.meter import metered
from ..engine.sampling import block_size
from ..engine.threads import single_threaded
from ..model.losses import (
    dual_prox,
    loss_conjugate,
    loss_derivative,
    loss_value,
    nearest_feasible,
)
from ..model.regularizers import (
    conjugate_blocks,
    conjugate_point,
    into_domain,
    reg_conjugate_gradient,
    reg_modulus,
    reg_prox,
)
from ..model.regularizers.regularizer import coordinate_conjugate, coordinate_value

#: What a certificate asks of the loss and the regulariser.
CERTIFIED = (
    loss_value, loss_derivative, loss_conjugate, reg_modulus, coordinate_value,
    coordinate_conjugate, reg_conjugate_gradient,
)


#: Passes until the norms of batches are looked at for the first time, and how many times as many
#: until the next time: a look is a pass.
FIRST_LOOK, LOOKS = 4, 4


#: How the norms of batches are had: exact where that is cheap and else estimated and watched, or
#: exact or bounded from above in any case.
NORMS = ("estimated", "certified")


def check_requirements(cls, problem):
    """Raise a ValueError if the loss or the regulariser lacks what a method needs."""
    matrices = len(problem.x_shape) > 1
    if matrices != conjugate_blocks.covers(type(problem.reg)):
        raise ValueError(
            f"the unknowns are {'matrices' if matrices else 'numbers'}, and the regulariser "
            f"{type(problem.reg).__name__} is for {'numbers' if matrices else 'matrices'}"
        )
    for function in (*CERTIFIED, *cls.requires):
        part = getattr(problem, function.argument)
        if function.argument == "reg" and matrices:
            continue
        if not function.covers(type(part)):
            raise ValueError(
                f"{cls.name} needs {function.__name__}, which {type(part).__name__} does not "
                "have; register it for that type, or take a method that does without"
            )


class Start(NamedTuple):
    """A point to begin at, both parts in their domains."""

    x: np.ndarray
    y: np.ndarray


def start_of(problem, x=None, y=None):
    """The `Start` at x and y, or at one of them and what belongs to it; None without either."""
    if x is None and y is None:
        return None
    for given, name, shape in ((x, "x0", problem.x_shape), (y, "y0", problem.shape[:1])):
        if given is not None and as_array(given, name, len(shape)).shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {np.shape(given)}")
    y = None if y is None else nearest_feasible(problem.loss, np.array(y, float), problem.b)
    if x is None:
        x = problem.primal_from_dual(y)
    x = np.array(x, float)
    into_domain(problem.reg, x)
    return Start(x, problem.dual_from_primal(x) if y is None else y)


def least_of_g(problem):
    """The `Start` at x = argmin g and y = 0; None where that is zero too."""
    x = np.empty(problem.x_shape)
    conjugate_point(problem.reg, np.zeros(problem.x_shape), x)
    return Start(x, np.zeros(problem.shape[0])) if x.any() else None


class Method(ABC):
    """A method on a problem, from its starting point on.

    Creating one does all the set-up (constants, step sizes, storage);
    `advance` does nothing but iterate. A subclass sets ``name``, gives its
    options as keyword arguments of `setup`, and implements the members below.

    Parameters
    ----------
    problem : Problem
    seed : int
    start : Start or None
        Where to begin; None for x = argmin g and y = 0.
    moduli : {"each", "least"}
        For blocks with different moduli lam_j of strong convexity: step sizes
        by each block's own, tau_j = tau/lam_j with the norms of the blocks
        A^j/sqrt(lam_j), or, as the paper reads, by the least of them for all.

    Attributes
    ----------
    x, y : ndarray
        The current pair (copies); y is None for a method that has none.
    info : dict
        What was chosen: block sizes, constants, step sizes; and ``set_up_passes`` and
        ``set_up_seconds`` of the set-up. What an operator keeps of norms counts for the first
        method that asks for it.
    iterations : int
    predicted_rate : float
        What a published theorem promises for this run: its bound goes down by the factor
        1 - predicted_rate an iteration, in expectation. Which quantity it bounds, the
        method says; NaN if it has no such theorem, or not in this setting.
    iterations_per_pass : float
        About how many iterations do the work of one A x plus one A'y.
    """

    name = None

    #: One of `benchmark_dspdc.report.looks.FAMILIES`.
    family = None

    #: Whether the method has an x of its own, and not only one that belongs to its y.
    moves_x = True

    #: What watches over norms that were estimated, and by how much it has raised them.
    _watch, _raised = None, 1.0

    #: Block sizes for which "auto" may be given.
    chooses = ()

    #: What the method asks of the loss and the regulariser, beside `CERTIFIED`.
    requires = (dual_prox, reg_prox)

    @single_threaded
    def __init__(self, problem, seed=0, moduli="each", start=None, **options):
        self.problem = problem.for_steps(moduli)
        self.start = least_of_g(self.problem) if start is None and self.moves_x else start
        self.iterations = 0
        self.info = {}
        # multiply-adds with A, coordinate updates (primal plus dual), eigendecompositions
        self._counters = np.zeros(3, dtype=np.int64)
        self._seed, self._options = seed, options
        begun = time.perf_counter()
        with metered() as spent:
            self._set_up()
        work = (sum(spent) + float(self._counters[0])) / self.problem.operator.multiply_adds
        self.info.update(set_up_passes=work, set_up_seconds=time.perf_counter() - begun)

    def _set_up(self):
        self._watch = None
        self.setup(np.random.SeedSequence(self._seed), **self._options)
        if self._watch is not None:
            until = max(1, round(FIRST_LOOK * self.iterations_per_pass))
            self._watch.next = self.iterations + until

    @classmethod
    def validate(cls, problem, **options):
        """Raise a ValueError if the method cannot run on this problem with these options."""
        n, p = problem.shape
        check_requirements(cls, problem)
        choose(options.get("moduli", "each"), ("each", "least"), "moduli")
        if "norms" in options:
            choose(options["norms"], NORMS, "norms")
        for name, total in (("m", n), ("q", p)):
            if name in options and not (name in cls.chooses and is_auto(options[name])):
                block_size(options[name], total, name)

    @classmethod
    def settled(cls, **options):
        """The options, and in place of "auto" what that is for them on any problem."""
        return options

    @classmethod
    def parts(cls, problem, every=False, **options):
        """The classes that a run is likely to need, or every one it may, with their options."""
        return [(cls, options)]

    @abstractmethod
    def setup(self, seeds): ...

    @abstractmethod
    def _run(self, n_iterations): ...

    @property
    @abstractmethod
    def x(self): ...

    @property
    def y(self):
        return None

    @property
    @abstractmethod
    def iterations_per_pass(self): ...

    def advance(self, n_iterations):
        """Do that many iterations; 0 only makes sure that everything is compiled."""
        if self._watch is None or n_iterations == 0:
            self._run(n_iterations)
            self.iterations += n_iterations
            return
        while n_iterations > 0:
            count = n_iterations
            if self._watch is not None:
                count = min(count, self._watch.next - self.iterations)
            self._run(count)
            self.iterations += count
            n_iterations -= count
            if self._watch is not None and self.iterations == self._watch.next:
                self._look()

    def _look(self):
        """Watch the norms of batches; if one is too small, begin anew from here with larger."""
        watch = self._watch
        self._counters[0] += self.problem.operator.multiply_adds
        if watch.holds():
            watch.next *= LOOKS
            return
        x, y = self.x, self.y
        self.start = Start(x, self.problem.dual_from_primal(x) if y is None else y)
        if y is None:
            self._counters[0] += self.problem.operator.multiply_adds // 2
        self._raised *= watch.factor
        self.info["raised"] = self._raised
        with single_threaded:
            self._set_up()

    def _in_epochs(self, n_iterations, begin):
        """Do iterations of `_length` an epoch; `begin(done)` is called before each epoch."""
        done = 0
        while done < n_iterations:
            if self._inner == self._length:
                begin(done)
            count = min(n_iterations - done, self._length - self._inner)
            self._inner_iterations(count)
            self._inner += count
            done += count

    @property
    def predicted_rate(self):
        return self.info.get("rate", float("nan"))

    @property
    def passes(self):
        """Multiply-adds done, in units of one A x plus one A'y."""
        return float(self._counters[0] / self.problem.operator.multiply_adds)

    @property
    def coordinate_updates(self):
        """Proximal steps done, primal and dual coordinates together."""
        return int(self._counters[1])

    @property
    def eigendecompositions(self):
        """Eigendecompositions done, whole or of a part of the spectrum."""
        return int(self._counters[2])

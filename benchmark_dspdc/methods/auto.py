"""The method that should be fastest, and a race that corrects that."""

import math
import time
from dataclasses import dataclass, field

from ..engine.checks import choose
from ..theory.ranking import ACCURACY, ranking
from .method import Method, Start

#: Seconds of work of the leader at the first race; the next ones are at twice the last.
FIRST = 0.02

#: Part of the leader's work that a challenger is given.
SHARE = 1.0 / 16.0

#: Passes of a challenger before it is judged.
LEAST_PASSES = 2.0

#: Challengers, beside SDCA, if predicted to take at most so many times the leader's time.
CHALLENGERS, HOPEFUL = 2, 30.0

#: A challenger takes over if what is left would take it less by this factor.
BETTER = 1.3

#: How often the leader may change, and tries in vain after which the race is over.
SWITCHES, TRIES = 3, 8


@dataclass
class Racer:
    """A method in the race: its work in seconds, modelled or measured, and its gaps after it."""

    prediction: tuple
    algorithm: Method
    clock: bool
    work: float = 0.0
    gaps: list = field(default_factory=list)

    def advance(self, n_iterations):
        begun = time.perf_counter()
        self.algorithm.advance(n_iterations)
        taken = time.perf_counter() - begun
        self.work += taken if self.clock else self.prediction.iteration_seconds * n_iterations

    def work_until(self, work):
        """Go on until so much work is done, a pass at most at a time."""
        most = self.algorithm.iterations_per_pass
        while self.work < work:
            left = (work - self.work) / self.prediction.iteration_seconds
            self.advance(max(1, math.ceil(min(left, most))))

    @property
    def method(self):
        return self.prediction.method

    def look(self):
        """Take the certificate of the point; returns the point."""
        problem, x, y = self.algorithm.problem, self.algorithm.x, self.algorithm.y
        found = problem.certify(x, y)
        best = self.gaps[-1][1] if self.gaps else math.inf
        self.gaps.append((self.work, min(found.relative_gap, best)))
        # The y that belongs to x may be the better one.
        if y is None or not found.own_gap <= found.gap:
            y = problem.dual_from_primal(x)
        return Start(x, y)

    @property
    def gap(self):
        return self.gaps[-1][1]

    def left(self, target):
        """Seconds until the gap is `target`, by what the last half of the work gained."""
        (now, gap), since = self.gaps[-1], self.gaps[0]
        for seen in self.gaps:
            if seen[0] <= 0.5 * now:
                since = seen
        gained = math.log(max(since[1], 1e-300) / max(gap, 1e-300))
        if gained <= 0.0 or now <= since[0]:
            return math.inf
        return max(0.0, math.log(gap / target)) * (now - since[0]) / gained


def contenders(problem, race):
    """The first of the ranking, and those that may race with it."""
    first, *others = ranking(problem)
    if not race:
        return [first]
    hopeful = [each for each in others if each.seconds <= HOPEFUL * first.seconds]
    # SDCA is the hardest to predict, and the cheapest to try.
    return [first, *hopeful[:CHALLENGERS], *(
        each for each in hopeful[CHALLENGERS:]
        if each.method == "sdca" and each.set_up_seconds == 0.0
    )]


class Auto(Method):
    """The method that is predicted to be fastest, and the winner of a short race.

    Parameters
    ----------
    race : {"work", "time", False}
        Whether the next two of the ranking are tried beside the first, for a sixteenth of its
        work each, when it has worked for 0.02 seconds and at every doubling. One that would finish
        sooner takes over, from the better point. Work is counted at stored prices, so that equal
        seeds give equal runs; with "time" the clock decides, and with False the prediction.

    Notes
    -----
    ``info["choice"]`` says what was chosen and why. Work and certificates of a race are part of
    the passes and the time.
    """

    name = "auto"
    family = "other"

    #: The classes that it chooses from, by name.
    field = None

    @classmethod
    def parts(cls, problem, every=False, race="work"):
        first, *others = contenders(problem, race)
        likely = others if every or first.seconds >= FIRST else []
        return [(cls.field[each.method], each.options) for each in (first, *likely)]

    def setup(self, seeds, race="work"):
        if race is not False:
            choose(race, ("work", "time"), "race")
        self._race, self._seed = race, int(seeds.entropy)
        first, *self._waiting = contenders(self.problem, race)
        self._why = f"predicted {first.seconds:.2g} s to {ACCURACY:g}" + "".join(
            f", {each.method} {each.seconds:.2g} s" for each in self._waiting[:1]
        )
        self._own = 0
        self._past, self._spent = [], 0.0
        self._switches = self._tries = 0
        self._leader = self._enter(first, self.start)
        self._unit = max(5.0, self._leader.algorithm.iterations_per_pass)
        self._owed, self._next_look = 0.0, FIRST / 4.0
        self._tell()

    def _enter(self, prediction, start=None):
        algorithm = self.field[prediction.method](
            self.problem, seed=self._seed, start=start, **prediction.options
        )
        return Racer(prediction, algorithm, clock=self._race == "time")

    def _tell(self):
        self.info.clear()
        self.info.update(self._leader.algorithm.info)
        self.info.update(method=self._leader.method, choice=f"{self._leader.method}: {self._why}")

    @property
    def x(self):
        return self._leader.algorithm.x

    @property
    def y(self):
        return self._leader.algorithm.y

    @property
    def iterations_per_pass(self):
        return self._unit

    def _run(self, n_iterations):
        if n_iterations == 0:
            self._leader.algorithm.advance(0)
        while n_iterations > 0:
            count = n_iterations
            if self._waiting:
                # No race is to be late because much is asked for at once.
                left = (self._next_look - self._leader.work) / self._leader.prediction.pass_seconds
                count = min(count, max(1, math.ceil(left * self._unit)))
            n_iterations -= count
            self._go_on(self._leader, count / self._unit)
            if self._waiting and self._leader.work >= self._next_look:
                self._look()
        self._count()

    def _go_on(self, racer, passes):
        """Let a racer do so many passes; what is less than an iteration is kept for later."""
        self._owed += passes * racer.algorithm.iterations_per_pass
        whole = int(self._owed)
        self._owed -= whole
        if whole > 0:
            racer.advance(whole)

    def _look(self):
        """Look at the leader, and race if it has worked for long enough."""
        leader = self._leader
        point = leader.look()
        self._certified()
        if self._next_look >= FIRST:
            self._challenge(point)
        if leader is self._leader:
            self._next_look = 2.0 * leader.work

    def _challenge(self, point):
        """Try who would go on faster from the leader's point."""
        leader = self._leader
        target = min(ACCURACY, 0.01 * leader.gap)
        own, budget = leader.left(target), SHARE * (leader.work + self._spent)
        for prediction in list(self._waiting):
            # A challenger has to be able to show something within its share.
            least = LEAST_PASSES * prediction.pass_seconds + prediction.set_up_seconds
            if least > 2.0 * budget:
                continue
            rival = self._enter(prediction, point)
            self._past.append(rival.algorithm)
            # What it loses at first, by a point that was not made for it, counts too.
            rival.gaps.append((0.0, leader.gap))
            rival.work_until(max(budget, least))
            rival.look()
            self._certified()
            self._spent += rival.work
            left = rival.left(target)
            if BETTER * left < own:
                self._take_over(rival, left, own)
                break
            self._tries += 1
        else:
            if self._tries >= TRIES:
                self._waiting, self._why = [], f"{self._why}; a race confirmed it"
        self._tell()

    def _take_over(self, rival, left, own):
        leader = self._leader
        self._past[-1] = leader.algorithm
        self._spent += leader.work
        self._why = (
            f"by a race at {self._spent:.2g} s, {left:.2g} s more to {ACCURACY:g}, "
            f"{leader.method} {own:.2g} s"
        )
        # The others may try again: a first gain may be all that there is.
        self._switches += 1
        self._waiting.remove(rival.prediction)
        self._waiting.append(leader.prediction)
        if self._switches == SWITCHES:
            self._waiting = []
        self._leader, self._owed = rival, 0.0
        self._next_look = max(2.0 * rival.work, 0.25 * self._spent)

    def _certified(self):
        """Count a certificate: A x, A'y, and A' times what belongs to x."""
        self._own += 3 * self.problem.operator.multiply_adds // 2

    def _count(self):
        """The work of all that ran."""
        every = (self._leader.algorithm, *self._past)
        self._counters[:] = sum(each._counters for each in every)
        self._counters[0] += self._own

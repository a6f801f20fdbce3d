"""The method that should be fastest, and a race that corrects that."""

import math
import time
from dataclasses import dataclass, field

from ..engine.checks import choose
from ..theory.ranking import ACCURACY, certificate_seconds, ranking, rivals
from .method import Method, Start

#: Seconds of work of the leader at the first race; the next ones are at twice the last.
FIRST = 0.02

#: Part of the leader's work that a challenger is given, and that certificates may take.
SHARE = 1.0 / 16.0

#: Passes of a challenger before it is judged.
LEAST_PASSES = 2.0

#: Challengers: the next of the ranking, and these, which are the cheapest to try and the least
#: like each other; if predicted to take at most so many times the leader's time.
ALWAYS, HOPEFUL = ("sdca", "fista"), 30.0

#: Passes of SDCA that a run opens with, and the part of the time predicted that they may take.
#: It goes on if what is left would take less than that time by a factor: at first it is fast.
OPENING, OPENING_SHARE, CLEARLY = 4.0, 1.0 / 8.0, 3.0

#: A challenger takes over if what is left would take it less by this factor.
BETTER = 1.3

#: A gap that is smaller, or by rounding negative, counts as this.
LEAST_GAP = 1e-300

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
        """Take the certificate of the point; returns the point and its gap."""
        problem, x, y = self.algorithm.problem, self.algorithm.x, self.algorithm.y
        found = problem.certify(x, y)
        best = self.gaps[-1][1] if self.gaps else math.inf
        # What is no number is no gain; at the limit of double precision a gap may be zero.
        gap = max(found.relative_gap, LEAST_GAP) if found.relative_gap < best else best
        self.gaps.append((self.work, gap))
        # The y that belongs to x may be the better one.
        if y is None or not found.own_gap <= found.gap:
            y = problem.dual_from_primal(x)
        return Start(x, y), found.relative_gap

    @property
    def gap(self):
        return self.gaps[-1][1]

    def left(self, target):
        """Seconds until the gap is `target`, by what the last half of the work gained."""
        (now, gap), since = self.gaps[-1], self.gaps[0]
        for seen in self.gaps:
            if seen[0] <= 0.5 * now:
                since = seen
        if not gap < since[1] < math.inf or now <= since[0]:
            return math.inf
        gained = math.log(since[1] / gap)
        return max(0.0, math.log(gap / target)) * (now - since[0]) / gained


def check_race(race):
    """The kind of race, or False, which benchopt may hand on as a word."""
    if race is False or str(race).lower() == "false":
        return False
    return choose(race, ("work", "time", False), "race")


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

    #: What its methods ask for is theirs to say.
    requires = ()

    #: The classes that it chooses from, by name.
    field = None

    def __init__(self, problem, seed=0, moduli="each", start=None, **options):
        self._moduli = moduli
        super().__init__(problem, seed, moduli, start, **options)

    @classmethod
    def validate(cls, problem, race="work", **options):
        super().validate(problem, **options)
        check_race(race)
        cls.admitted(problem)

    @classmethod
    def admitted(cls, problem):
        """Names of the methods that can run on a problem; raises the error of one if none can."""
        found, refused = [], None
        for name in ("dspdc", *rivals(problem)):
            try:
                cls.field[name].validate(problem)
                found.append(name)
            except ValueError as error:
                refused = error
        if not found:
            raise refused
        return found

    @classmethod
    def ranked(cls, problem):
        """The `Prediction` of every method that can run on a problem, the best first."""
        admitted = cls.admitted(problem)
        return [each for each in ranking(problem) if each.method in admitted]

    @classmethod
    def contenders(cls, problem, race="work"):
        """The first of the ranking, and those that may race with it."""
        first, *others = cls.ranked(problem)
        if not race:
            return [first]
        hopeful = [each for each in others if each.seconds <= HOPEFUL * first.seconds]
        return [first, *(
            each for k, each in enumerate(hopeful) if k == 0 or each.method in ALWAYS
        )]

    @classmethod
    def opens(cls, first, others):
        """The one of the others that begins the run, if any: SDCA, which is hard to predict."""
        if first.seconds < FIRST:
            return None
        for each in others:
            cost = each.set_up_seconds + OPENING * each.pass_seconds
            if each.method == "sdca" and cost <= OPENING_SHARE * first.seconds:
                return each
        return None

    @classmethod
    def parts(cls, problem, every=False, race="work", moduli="each"):
        first, *others = cls.contenders(problem.for_steps(moduli), check_race(race))
        likely = others if every or first.seconds >= FIRST else []
        return [
            (cls.field[each.method], each.options | dict(moduli=moduli))
            for each in (first, *likely)
        ]

    def setup(self, seeds, race="work"):
        self._race, self._seed = check_race(race), int(seeds.entropy)
        first, *self._waiting = self.contenders(self.problem, self._race)
        self._why = f"predicted {first.seconds:.2g} s to {ACCURACY:g}" + "".join(
            f", {each.method} {each.seconds:.2g} s" for each in self._waiting[:1]
        )
        self._looks, self._best, self._least = 0, None, math.inf
        # The counters of those that ran, without what else they hold.
        self._past, self._spent = [], 0.0
        self._switches = self._tries = 0
        self._open(first, self.opens(first, self._waiting))
        self._unit = max(5.0, self._leader.algorithm.iterations_per_pass)
        self._owed = 0.0
        self._tell()

    def _open(self, first, opening):
        """Begin with the first of the ranking, or with the one that a try is cheap of."""
        self._predicted = None
        # Certificates are to be a small part of the work.
        self._seldom = max(FIRST / 4.0, certificate_seconds(self.problem) / SHARE)
        self._next_look = self._seldom
        if opening is not None:
            self._predicted = first
            self._waiting.remove(opening)
            self._next_look = 0.5 * OPENING * opening.pass_seconds
        self._leader = self._enter(opening or first, self.start)

    def _enter(self, prediction, start=None):
        algorithm = self.field[prediction.method](
            self.problem, seed=self._seed, moduli=self._moduli, start=start, **prediction.options
        )
        return Racer(prediction, algorithm, clock=self._race == "time")

    def _tell(self):
        self.info.clear()
        self.info.update(self._leader.algorithm.info)
        self.info.update(method=self._leader.method, choice=f"{self._leader.method}: {self._why}")

    @property
    def predicted_rate(self):
        # A theorem is of the leader's iterations, and those here are parts of passes.
        return math.nan

    @property
    def x(self):
        return self._leader.algorithm.x

    @property
    def y(self):
        return self._leader.algorithm.y

    @property
    def iterations_per_pass(self):
        return self._unit

    @property
    def _undecided(self):
        return bool(self._waiting) or self._predicted is not None

    def _run(self, n_iterations):
        if n_iterations == 0:
            self._leader.algorithm.advance(0)
        while n_iterations > 0:
            count = n_iterations
            if self._undecided:
                # No race is to be late because much is asked for at once.
                left = (self._next_look - self._leader.work) / self._leader.prediction.pass_seconds
                count = min(count, max(1, math.ceil(left * self._unit)))
            n_iterations -= count
            self._go_on(self._leader, count / self._unit)
            if self._undecided and self._leader.work >= self._next_look:
                self._look()
        self._count()
        # What the leader says of itself may have changed.
        self._tell()

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
        self._take_look(leader)
        if self._predicted is not None:
            if len(leader.gaps) == 2:
                self._end_opening()
        elif self._next_look >= FIRST:
            self._challenge()
        if leader is self._leader:
            self._next_look = 2.0 * leader.work
            if self._predicted is None:
                self._next_look = max(self._next_look, self._seldom)

    def _take_look(self, racer):
        """The certificate of a racer's point, which may be the best so far."""
        point, gap = racer.look()
        self._looks += 1
        if self._best is None or gap < self._least:
            self._best, self._least = point, gap

    def _end_opening(self):
        """Go on with the method that opened, or with the one predicted to be the fastest."""
        opening, first, self._predicted = self._leader, self._predicted, None
        target = min(ACCURACY, 0.01 * opening.gap)
        left = opening.left(target)
        if CLEARLY * left < first.seconds:
            self._why = f"after {OPENING:g} passes {left:.2g} s more to {target:.2g}, {self._why}"
            self._waiting.insert(0, first)
            return
        self._past.append(opening.algorithm._counters)
        self._spent += opening.work
        self._waiting.append(opening.prediction)
        self._leader, self._owed = self._enter(first, self._best), 0.0
        self._next_look = self._seldom

    def _challenge(self):
        """Try who would go on faster, from the best point."""
        leader = self._leader
        target = min(ACCURACY, 0.01 * leader.gap)
        own, budget = leader.left(target), SHARE * (leader.work + self._spent)
        if len(leader.gaps) < 2 or own <= leader.work:
            # How fast it is is not known yet, or it will be there before a race would have paid.
            return
        for prediction in list(self._waiting):
            # A challenger has to be able to show something within its share.
            least = LEAST_PASSES * prediction.pass_seconds + prediction.set_up_seconds
            if least > 2.0 * budget:
                continue
            rival = self._enter(prediction, self._best)
            self._past.append(rival.algorithm._counters)
            # What it gains or loses at first, at a point that was not made for it, says nothing
            # of how it goes on: the second half of its work does.
            for part in (0.5, 1.0):
                rival.work_until(part * max(budget, least))
                self._take_look(rival)
            self._spent += rival.work
            left = rival.left(target)
            # Who is only back from what a foreign point has cost it has shown nothing.
            if BETTER * left < own and rival.gap < leader.gap:
                self._take_over(rival, left, own, target)
                break
            self._tries += 1
        else:
            if self._tries >= TRIES:
                self._waiting, self._why = [], f"{self._why}; a race confirmed it"

    def _take_over(self, rival, left, own, target):
        leader = self._leader
        self._past[-1] = leader.algorithm._counters
        self._spent += leader.work
        stuck = "got no nearer" if own == math.inf else f"{own:.2g} s"
        self._why = (
            f"by a race at {self._spent:.2g} s, {left:.2g} s more to {target:.2g}, "
            f"{leader.method} {stuck}"
        )
        # The others may try again: a first gain may be all that there is.
        self._switches += 1
        self._waiting.remove(rival.prediction)
        self._waiting.append(leader.prediction)
        if self._switches == SWITCHES:
            self._waiting = []
        self._leader, self._owed = rival, 0.0
        self._next_look = max(2.0 * rival.work, 0.25 * self._spent)

    def _count(self):
        """The work of all that ran."""
        self._counters[:] = sum((self._leader.algorithm._counters, *self._past))
        # A certificate is A x, A'y, and A' times what belongs to x; of both duals g*.
        self._counters[0] += self._looks * (3 * self.problem.operator.multiply_adds // 2)
        if len(self.problem.x_shape) > 1:
            self._counters[2] += self._looks * 2 * self.problem.shape[1]

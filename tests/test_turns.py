"""Which times one run makes suspicious, and what turns with another commit decide."""

from contextlib import nullcontext

import numpy as np
import pytest
from frames import ELASTIC, factorized, runs, seeds
from test_regress import FOUND, field

from benchmark_dspdc.guard import regress
from benchmark_dspdc.guard.baseline import CannotCompare
from benchmark_dspdc.guard.compared_lines import WORSE, Line
from benchmark_dspdc.guard.curve_figures import BESIDE, TIME
from benchmark_dspdc.guard.paired_runs import (
    ALLOWED,
    FEW,
    MOST,
    UNCLEAR,
    by_turns,
    suspects,
)

#: After how many turns it is decided.
COUNTS = list(UNCLEAR)

SOLVERS = [f"SPDC[m={k + 1}]" for k in range(7)]


def baseline_of(*drifts, **options):
    return regress.make_baseline([field(drift, **options) for drift in drifts])


#: As on a machine whose runs differ by 30 %, so that 60 % are allowed.
NOISY = baseline_of(0.7, 0.9, 1.0, 1.1, 1.3)


def key_of(solver):
    return factorized(), ELASTIC, solver


def suspected(frame, baseline=NOISY):
    lines, _ = regress.compare([frame], baseline)
    return {(line.key[2], line.figure) for line in suspects(lines)}


def test_a_method_alone_is_suspicious_beside_the_others():
    assert suspected(field()) == suspected(field(0.8)) == suspected(field(1.14)) == set()
    for drift in (0.8, 1.0, 1.14):
        assert suspected(field(drift, 1.12)) == {(SOLVERS[0], BESIDE)}
        assert suspected(field(drift, 1.05)) == set()


def test_of_a_problem_whose_methods_are_all_slower_some_are_suspicious():
    found = suspected(field(1.2))
    assert len(found) == FEW and {figure for _, figure in found} == {TIME}
    # The slowest are, and what is beyond what the baseline allows always is.
    assert (SOLVERS[0], TIME) in suspected(field(1.2, 1.1))
    assert len(suspected(field(1.7))) == len(SOLVERS)


def test_of_many_that_seem_slow_the_slowest_are_suspicious():
    known, frame = baseline_of(1.0, 1.0, n=25), field(n=25)
    for row in known["figures"]:
        for time in row["times"].values():
            time["spread"] = 1.0
    slow = 1.0 + 0.01 * frame["solver_name"].str.extract(r"m=(\d+)")[0].astype(int)
    frame["time"] *= slow
    # The one in the middle is longer by 13 %, so others by 10.6 % at most.
    found = suspected(frame, known)
    assert found == {("SPDC[m=25]", BESIDE)}
    frame["time"] *= slow**3
    found = suspected(frame, known)
    assert {name for name, figure in found if figure == BESIDE} == {
        f"SPDC[m={k}]" for k in range(26 - MOST, 26)
    }
    assert {name for name, figure in found if figure == TIME} == {
        f"SPDC[m={k}]" for k in range(26 - FEW, 26)
    }


def test_among_few_methods_every_time_is_looked_at():
    few = baseline_of(0.7, 1.0, 1.3, n=3)
    assert suspected(field(1.1, n=3), few) == set()
    assert suspected(field(1.0, 1.2, n=3), few) == {(SOLVERS[0], TIME)}


class Turns:
    """Made-up runs of both sides, each a factor of all times, for the n-th turn."""

    def __init__(self, then, now, slower=1.0):
        self.then, self.now, self.slower, self.asked, self.told = then, now, slower, [], []

    def __call__(self):
        return nullcontext(("0123456789abcdef", self.turn))

    def turn(self, keys):
        k = len(self.asked)
        self.asked.append([key[2] for key in keys])
        found = field(self.then(k)), field(self.now(k), self.slower)
        return [
            [frame[frame["solver_name"].isin(self.asked[-1])]] for frame in found
        ]

    def decide(self, names):
        lines, _ = regress.compare([field()], NOISY)
        some = [line for line in lines if line.key[2] in names and line.is_time]
        return by_turns(lines, some, NOISY, self, self.told.append)


def steady(_):
    return 1.0


def test_noise_goes_after_the_first_turns_and_a_slower_method_stays():
    turns = Turns(steady, steady, 1.3)
    lines, note = turns.decide(SOLVERS[:3])
    worse = [line for line in lines if line.outcome == WORSE]
    assert {line.key for line in worse} == {key_of(SOLVERS[0])}
    assert {line.figure for line in worse} == {TIME, BESIDE}
    assert all(line.change == pytest.approx(0.3, abs=1e-3) for line in worse)
    assert all(line.tolerance == ALLOWED for line in worse)
    assert turns.asked == (
        [SOLVERS[:3]] * COUNTS[0] + [SOLVERS[:1]] * (COUNTS[2] - COUNTS[0])
    )
    assert note == ("3 methods are compared by turns with commit 0123456789ab, as one run seemed "
                    "long; slower by more than 20%: 1")
    assert turns.told == [
        f"{subject} slower than in the baseline, which may be noise: {count} turns with commit "
        "0123456789ab" for subject, count in zip(
            ["3 methods are"] + ["1 method is"] * 2, np.diff([0, *COUNTS[:3]]), strict=True
        )
    ]


@pytest.mark.parametrize("slower, count", [(1.0, 3), (1.04, 3), (1.08, 6), (1.15, 10)])
def test_what_turns_allow_is_no_regression(slower, count):
    turns = Turns(steady, steady, slower)
    lines, _ = turns.decide(SOLVERS[:1])
    own = [line for line in lines if line.key == key_of(SOLVERS[0]) and line.is_time]
    assert [line.change for line in own] == pytest.approx([slower - 1.0] * 2, abs=1e-3)
    assert not any(line.outcome == WORSE for line in lines)
    assert len(turns.asked) == count


def test_what_is_hardly_more_than_is_allowed_takes_all_turns():
    for slower, wrong in ((1.21, True), (1.19, False)):
        turns = Turns(steady, steady, slower)
        lines, _ = turns.decide(SOLVERS[:1])
        assert any(line.outcome == WORSE for line in lines) == wrong
        assert len(turns.asked) == (COUNTS[3] if wrong else COUNTS[2])


def test_one_undisturbed_turn_of_each_is_enough():
    def disturbed(free):
        return lambda k: 1.0 if k == free else 1.6
    # The ratios of the turns themselves are 1.6 twice, or 1.3 and one 0.8.
    lines, _ = Turns(disturbed(0), disturbed(2)).decide(SOLVERS[:1])
    assert not any(line.outcome == WORSE for line in lines)
    lines, _ = Turns(disturbed(2), disturbed(1), 1.3).decide(SOLVERS[:1])
    assert any(line.outcome == WORSE for line in lines)


def test_a_machine_that_becomes_slower_is_no_regression():
    # Today's runs come after the commit's in every turn here, at worst.
    lines, _ = Turns(lambda k: 1.05**k, lambda k: 1.05 ** (k + 0.5)).decide(SOLVERS)
    assert not any(line.outcome == WORSE for line in lines)


def test_times_to_gaps_are_decided_by_the_same_turns():
    def plain(factor=1.0):
        frame = runs(*seeds("Own", [0.1 * factor] * 3, **FOUND))
        return frame.assign(objective_passes=0.0)
    known = regress.make_baseline([plain(factor) for factor in (0.8, 1.0, 1.2)])
    lines, _ = regress.compare([plain(1.3)], known)
    assert {line.figure for line in suspects(lines)} == {f"time to {g}" for g in (
        "1e-2", "1e-4", "1e-6"
    )}
    for factor, wrong in ((1.0, 0), (1.3, 3)):
        found, _ = by_turns(
            lines, suspects(lines), known, lambda factor=factor: nullcontext(
                ("abc", lambda keys: ([plain()], [plain(factor)]))
            ), str,
        )
        assert sum(line.outcome == WORSE for line in found) == wrong


def test_a_gap_that_is_not_reached_any_more_is_slower_and_one_that_was_not_cannot_be_compared():
    line = Line(key_of("Own"), "time to 1e-6", 1.0, 1.5, 0.1)
    row = dict(dataset=factorized(), objective=ELASTIC, solver="Own", last=[])

    def plain(to):
        frame = runs(*seeds("Own", [0.1] * 3, to=to, **FOUND))
        return frame.assign(objective_passes=0.0)

    def decided(then, now):
        turns = nullcontext(("abc", lambda keys: ([plain(then)], [plain(now)])))
        return by_turns([line], [line], dict(figures=[row]), lambda: turns, str)[0]
    (found,) = decided(1e-8, 1e-4)
    assert found.outcome == WORSE and found.now == np.inf
    with pytest.raises(CannotCompare, match="commit abc has no time to 1e-6 of Own on"):
        decided(1e-4, 1e-8)

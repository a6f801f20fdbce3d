import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from benchmark_dspdc.engine.lanes import LANES
from benchmark_dspdc.model.losses import (
    LOSSES,
    Huber,
    dual_prox,
    loss_conjugate,
    loss_derivative,
    loss_value,
    nearest_in_domain,
)
from benchmark_dspdc.model.losses.logistic import margin_near
from benchmark_dspdc.state.iteration import Ascent, dual_step

CASES = LOSSES | {"huber, delta 0.3": Huber(delta=0.3)}
every_loss = pytest.mark.parametrize("loss", CASES.values(), ids=CASES)

real = st.floats(-1e8, 1e8)
small = st.floats(-30.0, 30.0)
label = st.sampled_from([-1.0, 1.0])
rho = st.one_of(st.just(0.0), st.floats(1e-12, 1e12), st.floats(-12, 12).map(lambda e: 10.0 ** e))
fraction = st.one_of(
    st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e-300, 1e-16, 1 - 1e-16, 0.5])
)


def domain(loss, b):
    """Where phi* is finite."""
    if loss.classification:
        return min(-b, 0.0), max(-b, 0.0)
    largest = getattr(loss, "delta", math.inf)
    return -largest, largest


def feasible(loss, s, b):
    """A point of phi*'s domain from a fraction in [0, 1]."""
    return -b * s if loss.classification else min(domain(loss, b)[1], 10.0) * (2.0 * s - 1.0)


def conjugate_slope(loss, beta, b):
    """(phi*)'(beta), written out again, in the interior of the domain."""
    if loss is not LOSSES["logistic"]:
        return b + beta
    s = -b * beta
    return -b * (math.log(s) - math.log1p(-s))


@every_loss
@settings(max_examples=300, deadline=None)
@given(z=real, b=label, s=fraction, rho=rho)
def test_dual_prox_satisfies_its_optimality_condition(loss, z, b, s, rho):
    y = feasible(loss, s, b)
    beta = dual_prox(loss, 0, z, b, y, rho)
    assert math.isfinite(loss_conjugate(loss, beta, b))

    def slope(at):
        return z - conjugate_slope(loss, at, b) - rho * (at - y)

    # The objective is concave: its slope is >= 0 just below the maximiser and
    # <= 0 just above, up to rounding, unless the domain ends there.
    low, high = domain(loss, b)
    width = 1e-12 * max(1.0, abs(beta)) if high == math.inf else 1e-12
    noise = 1e-14 * (abs(z) + rho * max(1.0, abs(beta), abs(y)) + 1.0)
    if beta - width > low:
        assert slope(beta - width) >= -noise
    if beta + width < high:
        assert slope(beta + width) <= noise


@settings(max_examples=500, deadline=None)
@given(t=st.floats(0.0, 600.0), s=fraction, rho=st.floats(-12, 3).map(lambda e: 10.0 ** e))
@example(t=130.0, s=0.28893568316021906, rho=10.0 ** 2.421875)
def test_logistic_dual_prox_keeps_relative_accuracy_of_tiny_probabilities(t, s, rho):
    # Here s solves log((1-s)/s) = t + rho (s - s0), and is as small as e^-600.
    beta = dual_prox(LOSSES["logistic"], 0, t, 1.0, -s, rho)
    new = -beta
    assume(new < 1e-3 and rho * s < 500.0)
    margin = t + rho * (new - s)
    assert new == pytest.approx(1.0 / (1.0 + math.exp(margin)), rel=1e-9, abs=1e-290)


def exact_smaller_share(c, rho):
    """The u with u = c + rho s and s = 1/(1 + exp(u)), and that s, for c >= -rho/2; 25 digits."""
    with localcontext(prec=60):
        c, rho = Decimal(c), Decimal(rho)
        u, step = max(c, Decimal(0)), Decimal(1)
        # For u >= 0 the function is concave, so Newton's method comes from one side.
        while abs(step) > Decimal("1e-25"):
            e = (-u).exp()
            s = e / (1 + e)
            step = (u - c - rho * s) / (1 + rho * s * (1 - s))
            u -= step
        return u, s


def exact_logistic_dual(t, s0, rho):
    """The s with log((1 - s)/s) = t + rho (s - s0), and s (1 - s)."""
    with localcontext(prec=60):
        t, s0, rho = Decimal(t), Decimal(s0), Decimal(rho)
        c = t - rho * s0
        s = exact_smaller_share(max(c, -rho - c), rho)[1]
        return float(s if c >= -rho / 2 else 1 - s), float(s * (1 - s))


def extreme_cases():
    """t, s0 and rho where single terms of the logistic step vanish, dominate or cancel."""
    t = (0.0, 1e-9, 1.0, 3.0, 30.0, 200.0, 700.0, 1e4, 1e8)
    s0 = (0.0, 1e-300, 1e-16, 1e-3, 0.3, 0.5, 1.0 - 1e-3, 1.0 - 2.0 ** -53, 1.0)
    for rho in (0.0, 1e-12, 1e-3, 0.5, 3.0, 16.0, 300.0, 1e5, 1e12):
        for near, far in itertools.product(s0, t):
            yield from ((far, near, rho), (-far, near, rho))
            # Here the answer is in the middle, or the margin is a difference of large numbers.
            yield from ((far + rho * (near - 0.5), near, rho), (far + rho * near, near, rho))


def steps_one_by_one(z, b, y, rho):
    return [dual_prox(LOSSES["logistic"], 0, *case) for case in zip(z, b, y, rho, strict=True)]


def steps_together(z, b, y, rho):
    y, changes = y.copy(), z.copy()
    assert dual_step(Ascent(LOSSES["logistic"], rho), None, 0, len(y), b, y, changes)
    return y


@pytest.mark.parametrize("steps", [steps_one_by_one, steps_together])
def test_logistic_dual_prox_agrees_with_many_digits_at_extreme_values(steps):
    cases = list(extreme_cases())
    t, s0, rho = np.array(cases).T
    s, slope = np.array([exact_logistic_dual(*case) for case in cases]).T
    # What s changes by where t and rho s0 are changed in their last bit, and its own last bit
    allowed = s + slope * (abs(t) + rho * s0) / (1.0 + rho * slope)
    for b in (np.full(len(t), -1.0), np.full(len(t), 1.0)):
        new = -b * np.array(steps(b * t, b, -b * s0, rho))
        np.testing.assert_array_less(abs(new - s), 2.0 ** -51 * allowed + 1e-305)
        assert new.min() >= 0.0 and new.max() <= 1.0


def test_logistic_dual_prox_starts_within_a_fourth_of_the_margin():
    for log_rho in np.linspace(-5.0, 30.0, 71):
        rho = math.exp(log_rho)
        beyond_middle = np.concatenate(([0.0], np.logspace(-3, math.log10(rho + 50.0), 40)))
        for c in beyond_middle - rho / 2:
            assert abs(margin_near(c, rho) - float(exact_smaller_share(c, rho)[0])) < 0.25


def test_logistic_dual_prox_takes_what_overflowed_and_hands_on_what_is_no_number():
    def new(*numbers):
        return -dual_prox(LOSSES["logistic"], 0, numbers[0], 1.0, -numbers[1], numbers[2])

    for rho in (0.0, 1.0, 1e300):
        assert new(math.inf, 0.4, rho) == 0.0
        assert new(-math.inf, 0.4, rho) == 1.0
    assert new(1.0, 0.4, math.inf) == 0.4
    for k in range(3):
        assert math.isnan(new(*(math.nan if j == k else 0.5 for j in range(3))))


@every_loss
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("by_coordinate", [False, True])
def test_steps_of_a_block_are_those_of_its_coordinates(loss, ordered, by_coordinate):
    rng = np.random.default_rng(0)
    n = 5 * LANES
    b = rng.choice([-1.0, 1.0], n)
    start = np.array([feasible(loss, s, label) for s, label in zip(rng.random(n), b, strict=True)])
    order = rng.permutation(n) if ordered else None
    rho = rng.uniform(0.1, 10.0, n) if by_coordinate else 3.0
    for lo, hi in ((0, n), (3, 3 + 2 * LANES), (2, n - 1), (4, 5), (4, 4)):
        rows = np.arange(n)[lo:hi] if order is None else order[lo:hi]
        z = 3.0 * rng.standard_normal(hi - lo)
        y, changes = start.copy(), z.copy()
        moved = dual_step(Ascent(loss, rho), order, lo, hi, b, y, changes)
        expected = start.copy()
        for i, product in zip(rows, z, strict=True):
            own = rho[i] if by_coordinate else rho
            expected[i] = dual_prox(loss, i, product, b[i], start[i], own)
        np.testing.assert_allclose(y, expected, rtol=1e-14)
        np.testing.assert_array_equal(changes, (y - start)[rows])
        assert moved == (hi > lo)


def test_a_block_that_stays_is_told():
    loss, n = LOSSES["logistic"], 2 * LANES
    y, b, z = np.zeros(n), np.ones(n), np.full(n, 1e4)
    assert not dual_step(Ascent(loss, 0.5), None, 0, n, b, y, z.copy())
    z[LANES + 1] = 0.0
    assert dual_step(Ascent(loss, 0.5), None, 0, n, b, y, z)
    assert np.flatnonzero(y).tolist() == [LANES + 1]


@every_loss
@settings(max_examples=200, deadline=None)
@given(z=real, b=label, s=fraction)
def test_fenchel_inequality_holds_with_equality_at_the_derivative(loss, z, b, s):
    beta = feasible(loss, s, b)
    value, conjugate = loss_value(loss, z, b), loss_conjugate(loss, beta, b)
    rounding = 1e-12 * (1.0 + abs(z * beta) + abs(value))
    assert value + conjugate >= z * beta - rounding
    slope = loss_derivative(loss, z, b)
    scale = 1.0 + abs(z * slope) + abs(value)
    assert value + loss_conjugate(loss, slope, b) == pytest.approx(z * slope, abs=1e-12 * scale)
    # Without a penalty the dual step is the derivative.
    assert dual_prox(loss, 0, z, b, beta, 0.0) == pytest.approx(slope, rel=1e-14, abs=1e-300)


@every_loss
@settings(max_examples=100, deadline=None)
@given(z=small, h=st.floats(1e-3, 1.0), b=label)
def test_derivative_is_lipschitz_with_the_stated_constant_and_matches_differences(loss, z, h, b):
    change = loss_derivative(loss, z + h, b) - loss_derivative(loss, z, b)
    assert 0.0 <= change <= h / loss.gamma * (1 + 1e-9)
    difference = (loss_value(loss, z + h, b) - loss_value(loss, z, b)) / h
    assert loss_derivative(loss, z, b) - 1e-9 <= difference
    assert difference <= loss_derivative(loss, z + h, b) + 1e-9


def test_values_are_those_of_the_textbook():
    z = np.linspace(-4.0, 4.0, 101)
    for b in (-1.0, 1.0):
        expected = {
            "square": (z - b) ** 2 / 2, "logistic": np.logaddexp(0.0, -b * z),
            # The Moreau envelope of the hinge is Huber's function on one side.
            "smoothed_hinge": np.where(b * z < 1.0, scipy.special.huber(1.0, 1.0 - b * z), 0.0),
            "huber": scipy.special.huber(1.0, z - b),
            "huber, delta 0.3": scipy.special.huber(0.3, z - b),
        }
        for name, loss in CASES.items():
            values = [loss_value(loss, each, b) for each in z]
            np.testing.assert_allclose(values, expected[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"square"}))
def test_conjugate_is_infinite_outside_its_domain(name):
    loss = CASES[name]
    for b in (-1.0, 1.0):
        low, high = domain(loss, b)
        for outside, nearest in (
            (low - 0.1, low), (low - 1e-9, low), (high + 1e-9, high), (high + 5.0, high)
        ):
            assert loss_conjugate(loss, outside, b) == math.inf
            assert math.isfinite(loss_conjugate(loss, nearest, b))
            assert nearest_in_domain(loss, outside, b) == nearest
        middle = 0.5 * (low + high)
        assert nearest_in_domain(loss, middle, b) == middle


def test_logistic_value_does_not_overflow():
    for z in (-1e8, -1e3, 0.0, 1e3, 1e8):
        assert np.isfinite(loss_value(LOSSES["logistic"], z, 1.0))
    assert loss_value(LOSSES["logistic"], -1e8, 1.0) == 1e8

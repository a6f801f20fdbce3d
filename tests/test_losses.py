import math

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from benchmark_dspdc.model.losses import (
    LOSSES,
    Huber,
    dual_prox,
    loss_conjugate,
    loss_derivative,
    loss_value,
    nearest_in_domain,
)

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

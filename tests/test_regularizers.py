"""Regularisers, and their proximal steps taken many at once."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmark_dspdc.model.regularizers import (
    ElasticNet,
    NonNegative,
    conjugate_point,
    reg_conjugate,
    reg_modulus,
    reg_prox,
    reg_threshold,
    reg_value,
)
from benchmark_dspdc.model.regularizers.coasting import (
    LONG,
    TABLE,
    coast,
    coast_and_add,
    coasting,
    phase,
    powers_of,
    sum_of_sums,
)
from benchmark_dspdc.state.trackers import Blended, _glide

KINDS = [ElasticNet, NonNegative]
every_kind = pytest.mark.parametrize("kind", KINDS)

point = st.floats(-1e6, 1e6)
l1 = st.one_of(st.just(0.0), st.floats(1e-8, 1e3))
l2 = st.floats(1e-8, 1e3)
three = st.lists(point, min_size=3, max_size=3)


def prox(kind, c, tau, lambda1, lambda2):
    """argmin of g_j(a) + (a - c)^2/(2 tau), written out again."""
    if kind is NonNegative:
        return max(c - tau * lambda1, 0.0) / (1 + tau * lambda2)
    return np.sign(c) * max(abs(c) - tau * lambda1, 0.0) / (1 + tau * lambda2)


@every_kind
@settings(max_examples=200, deadline=None)
@given(c=point, tau=st.floats(1e-8, 1e8), l1=l1, l2=l2)
def test_prox_satisfies_its_optimality_condition(kind, c, tau, l1, l2):
    a = reg_prox(kind(l1, l2), 0, c, tau)
    residual = (c - a) / tau - l2 * a     # must be a subgradient of l1 |.| on the domain
    noise = 1e-12 * (abs(c) / tau + l2 * abs(a) + l1) + 1e-300
    if a != 0.0:
        assert a > 0.0 or kind is ElasticNet
        assert residual == pytest.approx(l1 * np.sign(a), abs=noise)
    else:
        assert residual <= l1 + noise
        assert residual >= -l1 - noise or kind is NonNegative


@every_kind
@settings(max_examples=200, deadline=None)
@given(x=three, w=three, l1=l1, l2=l2)
def test_fenchel_inequality_holds_with_equality_at_the_conjugate_gradient(kind, x, w, l1, l2):
    reg, x, w = kind(l1, l2), np.array(x), np.array(w)
    if kind is NonNegative and x.min() < 0.0:
        assert reg_value(reg, x) == np.inf
        x = np.abs(x)
    scale = 1.0 + abs(x @ w) + reg_value(reg, x) + reg_conjugate(reg, w)
    assert reg_value(reg, x) + reg_conjugate(reg, w) >= x @ w - 1e-12 * scale
    best = np.empty_like(w)
    conjugate_point(reg, w, best)
    scale = 1.0 + np.abs(best * w).sum()
    assert reg_value(reg, best) + reg_conjugate(reg, w) == pytest.approx(
        best @ w, abs=1e-11 * scale
    )
    assert reg_modulus(reg) == l2
    for j in range(3):
        assert reg_threshold(reg, j, w[j]) == pytest.approx(l2 * best[j], rel=1e-12)


# Many steps at once -----------------------------------------------------------------------

signed = st.one_of(
    st.just(0.0), st.builds(lambda s, e: s * 10 ** e, st.sampled_from([-1, 1]), st.floats(-6, 3))
)
any_l1 = st.one_of(st.just(0.0), st.floats(-5, 1).map(lambda e: 10 ** e))


@every_kind
@pytest.mark.parametrize("by_coordinate", [False, True])
@settings(max_examples=100, deadline=None)
@given(x=signed, gradient=signed, lambda1=any_l1, lambda2=st.floats(-12, 1).map(lambda e: 10 ** e),
       tau=st.floats(-3, 2).map(lambda e: 10 ** e), steps=st.integers(0, 2000))
@example(x=1.0, gradient=-0.5, lambda1=0.5, lambda2=1.0, tau=1.0, steps=2000)
@example(x=-1.0, gradient=0.5, lambda1=0.5, lambda2=1.0, tau=1.0, steps=1500)
@example(x=1e-200, gradient=-0.5, lambda1=0.5, lambda2=0.1, tau=1.0, steps=600)
@example(x=0.0, gradient=1.5, lambda1=0.5, lambda2=1e-11, tau=1.0, steps=600)
@example(x=0.0, gradient=-1.5, lambda1=0.5, lambda2=1e-11, tau=1.0, steps=600)
@example(x=3.0, gradient=0.001, lambda1=0.01, lambda2=1e-9, tau=1.0, steps=2000)
def test_coasting_is_one_step_after_the_other(
    kind, by_coordinate, x, gradient, lambda1, lambda2, tau, steps
):
    reg, j = kind(lambda1, lambda2), 1
    constants = coasting(np.array([7.0 * tau, tau]) if by_coordinate else tau, lambda2)
    x = abs(x) if kind is NonNegative else x
    path = [x]
    for _ in range(steps):
        path.append(float(prox(kind, path[-1] - tau * gradient, tau, lambda1, lambda2)))
    path = np.array(path)
    # The second term is what the loop itself is off by.
    noise = 3e-16 * tau * (abs(gradient) + lambda1) * steps
    tol = 1e-11 * np.abs(path).max() + noise
    assert coast(reg, constants, j, x, gradient, steps) == pytest.approx(path[-1], abs=tol)
    end, added = coast_and_add(reg, constants, j, x, gradient, steps)
    assert end == pytest.approx(path[-1], abs=tol)
    tol_sum = 1e-11 * np.abs(path[1:]).sum() + noise * steps
    assert added == pytest.approx(path[1:].sum(), abs=tol_sum)
    if steps:
        k, drift = phase(reg, constants, j, x, gradient, steps)
        assert 0 <= k <= steps
        a = 1 / (1 + tau * lambda2)
        powers = a ** np.arange(k + 1)
        sums = np.append(0.0, np.cumsum(tau * powers[1:]))
        np.testing.assert_allclose(powers * x - drift * sums, path[:k + 1], atol=tol)


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-2])
def test_tables_have_what_is_computed_beyond_them(lam):
    looked_up, computed = coasting(0.3, lam), coasting(np.array([0.3]), lam)
    end = TABLE * LONG
    for k in (0, 1, TABLE - 1, TABLE, TABLE ** 2 + 1, 7 * TABLE ** 2 - 1, end - 1, end, 3 * end):
        expected = np.exp(-computed.rate[0] * k), -np.expm1(-computed.rate[0] * k) / lam
        np.testing.assert_allclose(powers_of(looked_up, 0, k), expected, rtol=1e-12)
        np.testing.assert_allclose(
            sum_of_sums(looked_up, 0, k), sum_of_sums(computed, 0, k), rtol=1e-9
        )


@every_kind
@settings(max_examples=60, deadline=None)
@given(x=signed, gradient=signed, lambda1=any_l1, lambda2=st.floats(-4, 1).map(lambda e: 10 ** e),
       L=st.floats(-1, 3).map(lambda e: 10 ** e), length=st.integers(2, 10000),
       steps=st.integers(1, 1000), point=signed, snapshot=signed, total=signed)
def test_gliding_is_one_step_after_the_other(
    kind, x, gradient, lambda1, lambda2, L, length, steps, point, snapshot, total
):
    tau1 = min(np.sqrt(length * lambda2 / (3 * L)), 0.5)
    alpha = 1 / (3 * tau1 * L)
    decay, beta = 1 / (1 + alpha * lambda2), 0.5 - tau1
    constants, reg = coasting(alpha, lambda2), kind(lambda1, lambda2)
    mix = Blended(tau1, 0.5, beta, decay)

    def step(z, y, added):
        z = float(prox(kind, z - alpha * gradient, alpha, lambda1, lambda2))
        y = tau1 * z + 0.5 * snapshot + beta * y
        return z, y, decay * added + y

    start = abs(x) if kind is NonNegative else x, point, total
    one_by_one, largest = start, max(abs(x), abs(point), abs(snapshot))
    for _ in range(steps):
        one_by_one = step(*one_by_one)
        largest = max(largest, abs(one_by_one[0]), abs(one_by_one[1]))
    at, left = start, steps
    while left:
        k, drift = phase(reg, constants, 0, at[0], gradient, left)
        at = step(*at) if k <= 1 else _glide(mix, constants, 0, k, drift, *at, snapshot)
        left -= max(k, 1)
    # What z drifts to is the scale of the closed form.
    tol = 1e-11 * max(largest, 1e-3 * abs(gradient) / lambda2)
    np.testing.assert_allclose(at[:2], one_by_one[:2], atol=tol)
    np.testing.assert_allclose(
        at[2], one_by_one[2], rtol=1e-11, atol=tol * min(steps, 1 / (1 - decay)) + 1e-300
    )

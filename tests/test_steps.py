from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcriptions import remark_1

from benchmark_dspdc.theory import steps

count = st.integers(1, 10 ** 7)
size = st.floats(-9, 9).map(lambda e: 10.0 ** e)


@settings(max_examples=300, deadline=None)
@given(n=count, r=st.floats(1, 1e6), s=st.floats(1, 1e6), Lambda=size, lam=size, gamma=size,
       theorem=st.sampled_from([1, 2]))
def test_dspdc_steps_solve_the_equations_of_theorem_1(n, r, s, Lambda, lam, gamma, theorem):
    tau, sigma, theta = steps.dspdc(n, r, s, Lambda, lam, gamma, theorem)
    scale = Lambda / (lam * gamma * n)
    if r * r * s * s * scale / max(r, s) > 1e-12:
        assert tau * sigma == pytest.approx(n**2 / (4 * r * s * Lambda), rel=1e-9)
        left, right = s / (2 * lam * tau) + s, n * r / (2 * gamma * sigma) + r
        assert left == pytest.approx(right, rel=1e-9)
    expected = s - s / (theorem * (np.sqrt(scale) * r * s + max(r, s)))
    assert theta == pytest.approx(expected, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(m=st.integers(1, 50), q=st.integers(1, 40), Lambda=st.floats(0.1, 1e3),
       theorem=st.sampled_from([1, 2]))
def test_dspdc_steps_are_those_printed_in_the_paper(m, q, Lambda, theorem):
    n, p, lam, gamma = 50, 40, 0.03, 4.0
    printed = remark_1(n, p, m, q, Lambda, lam, gamma, theorem)
    computed = steps.dspdc(n, n / m, p / q, Lambda, lam, gamma, theorem)
    np.testing.assert_allclose(computed, printed, rtol=1e-9)


def test_steps_do_not_cancel_when_one_side_is_sampled_much_more_often():
    getcontext().prec = 60
    n, r, s, Lambda, lam, gamma = 10 ** 6, 1e6, 1.0, 1e-6, 1.0, 1.0
    sigma = steps.dspdc(n, r, s, Lambda, lam, gamma).sigma
    product = Decimal(r) ** 2 * Decimal(s) ** 2 * Decimal(Lambda) / n
    root = ((Decimal(r) - Decimal(s)) ** 2 + 4 * product).sqrt()
    exact = n * Decimal(r) / ((Decimal(s) - Decimal(r)) + root)
    assert sigma == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(("r", "s"), [(5.0, 2.0), (2.0, 5.0), (3.0, 3.0), (1.0, 1.0)])
def test_without_coupling_the_steps_are_large_and_finite(r, s):
    tau, sigma, theta = steps.dspdc(10, r, s, 0.0, 0.1, 1.0)
    assert np.isfinite([tau, sigma, theta]).all()
    assert min(tau, sigma) > 0
    assert 0 <= theta < s


def test_spdc_steps_are_its_authors():
    n, m, R, lam, gamma = 1000, 10, 3.0, 1e-3, 4.0
    tau, sigma, theta = steps.spdc(n, n / m, R, lam, gamma)
    assert tau == pytest.approx(np.sqrt(m * gamma / (n * lam)) / (2 * R))
    assert n / sigma == pytest.approx(2 * R * np.sqrt(m * gamma / (n * lam)))
    assert theta == pytest.approx(1 - 1 / (n / m + R * np.sqrt(n / (m * lam * gamma))))


def test_sdca_penalty_is_its_authors():
    assert steps.sdca(200, 9.0, 1.0, 0.01) == pytest.approx(9.0 / (0.01 * 200))

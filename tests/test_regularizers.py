import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark_dspdc.model.regularizers import (
    ElasticNet,
    conjugate_point,
    reg_conjugate,
    reg_prox,
    reg_value,
)

point = st.floats(-1e6, 1e6)
l1 = st.one_of(st.just(0.0), st.floats(1e-8, 1e3))
l2 = st.floats(1e-8, 1e3)


@settings(max_examples=300, deadline=None)
@given(c=point, tau=st.floats(1e-8, 1e8), l1=l1, l2=l2)
def test_prox_satisfies_its_optimality_condition(c, tau, l1, l2):
    a = reg_prox(ElasticNet(l1, l2), 0, c, tau)
    residual = (c - a) / tau - l2 * a     # must be in l1 times the subdifferential of |.|
    noise = 1e-12 * (abs(c) / tau + l2 * abs(a) + l1) + 1e-300
    if a == 0.0:
        assert abs(residual) <= l1 + noise
    else:
        assert residual == pytest.approx(l1 * np.sign(a), abs=noise)


@settings(max_examples=200, deadline=None)
@given(x=st.lists(point, min_size=3, max_size=3), w=st.lists(point, min_size=3, max_size=3),
       l1=l1, l2=l2)
def test_fenchel_inequality_holds_with_equality_at_the_conjugate_gradient(x, w, l1, l2):
    reg, x, w = ElasticNet(l1, l2), np.array(x), np.array(w)
    scale = 1.0 + abs(x @ w) + reg_value(reg, x) + reg_conjugate(reg, w)
    assert reg_value(reg, x) + reg_conjugate(reg, w) >= x @ w - 1e-12 * scale
    best = np.empty_like(w)
    conjugate_point(reg, w, best)
    scale = 1.0 + np.abs(best * w).sum()
    assert reg_value(reg, best) + reg_conjugate(reg, w) == pytest.approx(
        best @ w, abs=1e-11 * scale
    )

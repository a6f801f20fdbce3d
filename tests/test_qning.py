"""QNing: what it is without memory, with exact gradients, and with the centre of each round."""

import numpy as np
import pytest
import transcriptions_field as authors
from conftest import daily, make_factors, make_problem
from test_field import lazy_and_eager, sparse_problem
from transcriptions import Vectors

from benchmark_dspdc import erm
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.model.regularizers import (
    ElasticNet,
    NonNegative,
    augmented,
    reg_conjugate_gradient,
    reg_outlook,
    reg_prox,
    tilted,
)
from benchmark_dspdc.model.regularizers.coasting import coasting, powers_of

N, P, D, LAM = 30, 12, 5, 0.05


def small(loss="square", lambda1=0.0):
    problem = make_problem("dense", loss, lambda1, LAM, N, P, D)
    return problem, Vectors(np.dot(*make_factors(N, P, D)), problem.b, loss, lambda1, LAM)


def rounds_of(problem, count, **options):
    """The accepted points and the envelope there, after each of so many rounds."""
    algorithm = METHODS["qning"](problem, seed=3, **options)
    for _ in range(count):
        algorithm.advance(algorithm.info["epoch"])
        yield algorithm, algorithm._at


class Envelope:
    """The exact one of a ridge regression."""

    def __init__(self, plain, kappa):
        self.plain, self.kappa, size = plain, kappa, plain.A.shape[1]
        n = len(plain.b)
        self.M = plain.A.T @ plain.A / n + (plain.lam + kappa) * np.eye(size)
        self.c = plain.A.T @ plain.b / n

    def __call__(self, x):
        """F(x), its gradient, and the minimiser z."""
        z = np.linalg.solve(self.M, self.c + self.kappa * x)
        return self.plain.F(z) + self.kappa / 2 * np.sum((z - x) ** 2), self.kappa * (x - z), z


#: Inner problems solved to the last digits.
EXACT = dict(inner="sdca", order="permuted", epoch=300.0)


def test_without_memory_it_is_the_proximal_point_method():
    """Every next point is the inner method's last z, and there is no line search."""
    for inner in ("svrg", "sdca"):
        for options in (dict(memory=0), dict(memory=0, epoch=0.4)):
            before = None
            for algorithm, at in rounds_of(small("smoothed_hinge")[0], 12, inner=inner, **options):
                if before is not None:
                    np.testing.assert_array_equal(at.x, before.z)
                np.testing.assert_array_equal(algorithm.x, at.z)
                before = at
            assert algorithm.info["shortened"] == 0 < algorithm.info["rounds"]
    problem, plain = small()
    x = np.zeros(P)
    for algorithm, at in rounds_of(problem, 10, memory=0, **EXACT):
        envelope = Envelope(plain, algorithm.info["kappa"])
        np.testing.assert_allclose(at.x, x, atol=1e-11)
        F, g, x = envelope(x)
        np.testing.assert_allclose(at.z, x, atol=1e-11)
        np.testing.assert_allclose(at.gradient, g, atol=1e-11)
        assert at.F == pytest.approx(F, rel=1e-12)


@pytest.mark.parametrize("memory", [2, 100])
def test_with_exact_gradients_it_is_lbfgs_on_the_envelope(memory):
    """NumPy's L-BFGS with the same rule for steps, and scipy's for the optimum."""
    problem, plain = small()
    x, pairs, old = np.zeros(P), [], None
    for algorithm, at in rounds_of(problem, 9, memory=memory, **EXACT):
        kappa = algorithm.info["kappa"]
        F, g, _ = Envelope(plain, kappa)(x)
        np.testing.assert_allclose(at.x, x, atol=1e-9)
        np.testing.assert_allclose(at.gradient, g, atol=1e-9)
        if old is not None:
            # On a quadratic the full step is always good enough here.
            assert F <= old[2] - old[1] @ old[1] / (4 * kappa)
            pairs = (pairs + [(x - old[0], g - old[1])])[-memory:]
        old = x, g, F
        x = x - authors.inverse_bfgs(pairs, 1 / kappa, P) @ g
    assert algorithm.info["shortened"] == 0
    best = np.linalg.solve(plain.A.T @ plain.A / N + LAM * np.eye(P), plain.A.T @ plain.b / N)
    far = np.linalg.norm(best)
    assert np.linalg.norm(algorithm.x - best) < (1e-4 if memory > 2 else 1e-2) * far


@pytest.mark.parametrize("lambda1", [0.0, 0.01])
def test_rate_of_the_proximal_point_method(lambda1):
    """Rockafellar 1976: |x_{k+1} - x*| <= |x_k - x*|/(1 + lam/kappa) with exact steps.

    And Lin, Mairal & Harchaoui 2019 with any memory: by the test of descent and
    |g|^2 >= 2 (lam kappa/(lam + kappa)) (F - F*) the envelope's gap goes down by
    1 - lam/(2 (lam + kappa)) at least, wherever a quasi-Newton step is taken.
    """
    problem, plain = small("smoothed_hinge", lambda1)
    best = authors_optimum(plain)
    for memory in (0, 100):
        before = None
        for algorithm, at in rounds_of(problem, 15, memory=memory, kappa=5.0, **EXACT):
            kappa = algorithm.info["kappa"]
            gap, far = at.F - plain.F(best), np.linalg.norm(at.x - best)
            if before is not None and at.x is not before[2]:
                if memory == 0:
                    assert far <= before[1] / (1 + LAM / kappa) + 1e-9
                assert gap <= (1 - LAM / (2 * (LAM + kappa))) * before[0] + 1e-12
            before = gap, far, at.x
    assert gap < 0.01 * (plain.F(np.zeros(P)) - plain.F(best))


def authors_optimum(plain):
    *_, (x, _) = authors.fista(plain, 3000)
    return x


@pytest.mark.parametrize("base", [ElasticNet(0.1, 0.3), ElasticNet(0.0, 0.3),
                                  NonNegative(0.1, 0.3)])
def test_a_tilt_and_kappa_are_a_square_around_a_centre(base):
    """g + (kappa/2)(x - c)^2: its prox by that of g, and many steps at once one by one."""
    kappa, tau, centre = 0.7, 0.4, np.array([0.8, -1.1, 0.0])
    reg = tilted(augmented(base, kappa), 3)
    reg.shift[:] = kappa * centre
    table = coasting(tau, reg.base.lambda2)
    for j, start in enumerate((1.0, 0.2, 0.5)):
        for gradient in (-0.4, 0.05, 0.9):
            step = tau / (1 + tau * kappa)
            c = start - tau * gradient
            wanted = reg_prox(base, j, (c + tau * kappa * centre[j]) / (1 + tau * kappa), step)
            assert reg_prox(reg, j, c, tau) == pytest.approx(wanted, abs=1e-15)
            power, sums = powers_of(table, j, 3)
            outlook, _, end = reg_outlook(reg, j, power, sums, start, gradient)
            x = start
            for _ in range(3):
                x = reg_prox(reg, j, x - tau * gradient, tau)
            if outlook in (0, 1):
                assert end == pytest.approx(x, abs=1e-14)
        # The conjugate's point is the prox with no gradient of a step without end.
        w = 0.3
        assert reg_conjugate_gradient(reg, j, w) == pytest.approx(
            reg_conjugate_gradient(reg.base, j, w + kappa * centre[j])
        )


@pytest.mark.parametrize("lambda1", daily([0.0, 0.01], 0.01))
def test_lazy_and_eager_iterates_agree(lambda1, monkeypatch):
    one = lazy_and_eager(monkeypatch, "qning", sparse_problem("smoothed_hinge", lambda1))
    assert one.info["rounds"] > 5


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["batches", "non_negative"])
def test_lazy_and_eager_iterates_agree_in_other_settings(kind, monkeypatch):
    A, b, *rest = sparse_problem("smoothed_hinge", 0.001)
    options = dict(m=7) if kind == "batches" else dict(regularizer="non_negative")
    lazy_and_eager(monkeypatch, "qning", (A, b, *rest), (1, 5, 200), **options)


@pytest.mark.parametrize("inner", ["svrg", "sdca"])
def test_work_of_a_round_is_all_counted(inner):
    """The epoch, the value of F, and SVRG's snapshot; SDCA's first round needs no more."""
    algorithm = METHODS["qning"](small()[0], inner=inner)
    for k in range(1, 4):
        algorithm.advance(N)
        # A row that SDCA leaves as it is costs half.
        wanted = k * (2.5 if inner == "svrg" else 1.5)
        assert algorithm.passes == pytest.approx(wanted, abs=0.0 if inner == "svrg" else 0.1)
    assert algorithm.iterations / algorithm.iterations_per_pass == pytest.approx(wanted)


def test_longer_steps_than_good_ones_are_shortened():
    """On a badly conditioned problem with few inner iterations some steps are cut."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 12)) * np.exp(rng.standard_normal(12))
    problem = erm(A, np.sign(A @ np.ones(12)), "logistic", 0.0, 1e-4)
    *_, (algorithm, at) = rounds_of(problem, 60, inner="sdca", epoch=0.5)
    assert 0 < algorithm.info["shortened"] < 50
    assert np.isfinite(at.F)


@pytest.mark.parametrize(("options", "message"), [
    (dict(inner="saga"), "inner must be one of"), (dict(memory=-1), "memory must be"),
    (dict(kappa=0.0), "kappa must be"), (dict(epoch=0), "epoch must be"),
])
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        METHODS["qning"](small()[0], **options)

"""RPDHG without what makes it RPDHG is Halpern's iteration of PDHG, which is sublinear."""

import numpy as np
import pytest
import transcriptions_field as authors
from conftest import make_factors, make_problem
from method_cases import Case, N, P, compare, of_whole
from transcriptions import Vectors

D = 5


@pytest.mark.parametrize("lambda1", [0.0, 0.02])
def test_without_restarts_and_reflection_it_is_halpern_pdhg(lambda1):
    problem = make_problem("dense", "smoothed_hinge", lambda1, 0.02, N, P, D)
    plain = Vectors(np.dot(*make_factors(N, P, D)), problem.b, "smoothed_hinge", lambda1, 0.02)
    options = dict(reflection=0.0, restarts=False, step="norm")
    case = Case("rpdhg", options, of_whole(authors.halpern_pdhg))
    algorithm = case.start(problem)
    iterates = case.transcribed(plain, algorithm, options, 200)
    compare(algorithm, iterates, plain, (1, 2, 9, 60, 200))
    assert algorithm.info["restarts"] == 0

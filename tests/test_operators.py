import numpy as np
import pytest
import scipy.sparse
from conftest import OPERATORS, make_factors, make_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark_dspdc import erm, solve
from benchmark_dspdc.operators import as_operator


def stored(kind, n=37, p=23, d=6, seed=0):
    U, V = make_factors(n, p, d, seed)
    A = U @ V
    if kind == "csr":
        A = np.where(np.abs(A) > 0.5, A, 0.0)
        return A, as_operator(scipy.sparse.csr_array(A))
    return A, as_operator(A if kind == "dense" else (U, V))


@pytest.mark.parametrize("kind", OPERATORS)
@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), p=st.integers(1, 40), d=st.integers(1, 9))
def test_products_and_norms_agree_with_numpy_for_all_shapes(kind, n, p, d):
    A, operator = stored(kind, n, p, d, seed=n + 41 * p)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(p), rng.standard_normal(n)
    assert operator.shape == (n, p)
    np.testing.assert_allclose(operator.matvec(x), A @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.rmatvec(y), A.T @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.row_norms2, (A ** 2).sum(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(operator.column_norms2, (A ** 2).sum(axis=0), rtol=1e-9, atol=1e-12)


def variants():
    rng = np.random.default_rng(3)
    A = np.round(3 * rng.standard_normal((14, 9)))
    A[4] = 0.0
    A[:, 2] = 0.0
    csr = scipy.sparse.csr_array(A)
    unsorted = csr.copy()
    for i in range(14):
        part = slice(unsorted.indptr[i], unsorted.indptr[i + 1])
        unsorted.indices[part] = unsorted.indices[part][::-1].copy()
        unsorted.data[part] = unsorted.data[part][::-1].copy()
    unsorted.has_sorted_indices = False
    half = scipy.sparse.csr_array(
        (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape
    )
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    padded = np.zeros((28, 18))
    padded[::2, ::2] = A
    return A, {
        "int": A.astype(np.int64), "float32": A.astype(np.float32),
        "fortran": np.asfortranarray(A),
        "view": padded[::2, ::2], "list": A.tolist(), "csr": csr, "csc": csr.tocsc(),
        "coo": csr.tocoo(), "csr_matrix": scipy.sparse.csr_matrix(A), "unsorted": unsorted,
        "duplicates": half, "int64 indices": wide, "float32 csr": csr.astype(np.float32),
        "int csr": csr.astype(np.int32), "pair": (A, np.eye(9)),
        "pair of lists": (A.tolist(), np.eye(9).tolist()),
        "float32 pair": (A.astype(np.float32), np.eye(9, dtype=np.float32)),
    }


@pytest.mark.parametrize("name", sorted(variants()[1]))
def test_every_form_of_the_same_matrix_gives_the_same_solution(name):
    A, forms = variants()
    b = np.where(np.arange(14) % 3, 1.0, -1.0)
    # So small a gap leaves x no more room, whatever blocks are chosen for a form.
    reference = solve(erm(A, b, lambda1=0.01, lambda2=0.1), tol=1e-13)
    result = solve(erm(forms[name], b, lambda1=0.01, lambda2=0.1), tol=1e-13)
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, reference.x, atol=1e-5)


@pytest.mark.parametrize("name", sorted(variants()[1]))
def test_inputs_are_never_modified(name):
    _, forms = variants()
    form = forms[name]
    parts = form if isinstance(form, tuple) else (form,)

    def frozen(part):
        if scipy.sparse.issparse(part):
            names = [n for n in ("data", "indices", "indptr", "row", "col") if hasattr(part, n)]
            return [np.array(getattr(part, n)) for n in names]
        return [np.array(part)]

    before = [a for part in parts for a in frozen(part)]
    b = np.where(np.arange(14) % 3, 1, -1)
    for method in ("dspdc", "sdca"):
        solve(erm(form, b), method=method, max_passes=3)
    after = [a for part in parts for a in frozen(part)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(b, np.where(np.arange(14) % 3, 1, -1))


@pytest.mark.parametrize("method", ["dspdc", "spdc", "sdca"])
@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize(("n", "p"), [(1, 1), (1, 6), (7, 1)])
def test_single_rows_and_single_columns_are_solved(method, kind, n, p):
    problem = make_problem(kind, n=n, p=p, d=2)
    assert solve(problem, method=method, tol=1e-9).status == "converged"


@pytest.mark.parametrize("method", ["dspdc", "spdc", "sdca"])
@pytest.mark.parametrize("kind", OPERATORS)
def test_a_matrix_of_zeros_is_solved(method, kind):
    zeros = {"dense": np.zeros((6, 4)), "csr": scipy.sparse.csr_array((6, 4)),
             "factorized": (np.zeros((6, 2)), np.zeros((2, 4)))}[kind]
    result = solve(erm(zeros, np.ones(6), "smoothed_hinge"), method=method, tol=1e-9)
    assert result.status == "converged"
    np.testing.assert_array_equal(result.x, 0.0)


def test_a_factor_that_overflows_is_refused_also_beside_a_factor_of_zeros():
    with pytest.raises(ValueError, match="U must have entries of size below 1e\\+120, got 1.7e"):
        erm((np.full((2, 1), 1.7e308), np.zeros((1, 1))), [-1.0, -1.0])

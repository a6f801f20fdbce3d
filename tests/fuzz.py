"""Input made up at random for whatever takes input: each case ends in a result or in the
documented error, a ValueError of this package that says what is wrong.

tests/test_fuzz.py tries some cases, `make fuzz` many.
"""

import bz2
import contextlib
import datetime
import faulthandler
import gzip
import json
import lzma
import math
import os
import pickle
import re
import sys
import tempfile
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock
from xml.etree import ElementTree

import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
from conftest import make_problem
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from rich.console import Console

from benchmark_dspdc import constants, erm, mt_lmnn, solve
from benchmark_dspdc.bench import predicted_table
from benchmark_dspdc.data import import_file, load_libsvm, raw_libsvm
from benchmark_dspdc.guard import baseline, comparison, comparison_output, trend
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.report import claims, figures, page, report, results, summary
from benchmark_dspdc.solver import option_names

#: Of one case, compiling kernels included; one that takes longer hangs, and ends its process.
LONGEST_SECONDS = 300


class Surface(NamedTuple):
    """Something that takes input.

    Attributes
    ----------
    cases : strategy
        Of what can be pickled.
    run : callable
        Of a case and an empty folder; asserts what a result must have.
    documented : str
        A pattern that the errors' messages have.
    """

    cases: object
    run: object
    documented: str


def outcome(surface, case, folder):
    """"result" or "error"; anything else that a case ends in is raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            surface.run(case, folder)
        except ValueError as error:
            own = type(error) is ValueError or type(error).__module__.startswith("benchmark_dspdc")
            if not own or not re.search(surface.documented, str(error), re.DOTALL):
                raise AssertionError(f"not a documented error: {error!r}") from error
            return "error"
    return "result"


# Odd values ---------------------------------------------------------------------------

EDGES = (
    0.0, -0.0, 1.0, 0.5, -1.0, 5e-324, 1e-310, 1e-300, 1e-160, 1e160, 1e300, 1.7e308, math.inf,
    -math.inf, math.nan,
)
numbers = st.one_of(st.sampled_from(EDGES), st.floats(-3, 3), st.integers(-2, 12), st.floats())
odd = st.one_of(
    st.none(), st.booleans(), numbers, st.integers(), st.text(max_size=4), st.binary(max_size=4),
    st.sampled_from((
        "", "auto", "nan", "1", "0.5", b"auto", (), [], [1], {}, {"m": 1}, 1j, 10**400, -10**400,
        2**63, 2**31, Decimal("0.1"), Fraction(1, 3), np.float32(0.5), np.float16(0.1), np.int8(1),
        np.uint64(2**63), np.bool_(True), np.str_("auto"), np.array(1), np.array([1.0, 2.0]),
        np.array("auto"), np.array(["auto", "auto"]), np.array(None), np.longdouble("1e400"),
        np.datetime64("2020-01-01"), datetime.timedelta(1), range(3), float, slice(1), "\0",
        np.ma.masked, pd.NA, pd.NaT, np.array([]),
    )),
)


def often(draw, strategy, other, times):
    """Mostly of one strategy, now and then of another."""
    # In the middle, as hypothesis prefers the ends.
    return draw(other if draw(st.integers(-times, times)) in (1, 2) else strategy)


def rarely(draw, times):
    """True once in so many draws."""
    return draw(st.integers(0, 2 * times)) in (times, times + 1)


@st.composite
def arrays(draw, shape, plain=False):
    """An array of a shape: mostly finite, sometimes of odd numbers or types."""
    count = math.prod(shape)
    entries = st.floats(-3, 3) if plain or draw(st.booleans()) else numbers
    values = draw(st.lists(entries, min_size=count, max_size=count))
    values = np.array(values, dtype=float).reshape(shape)
    kind = draw(st.sampled_from(["same"] * 12 + list(FORMS)))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FORMS.get(kind, np.asarray)(values)


def read_only(values):
    values.flags.writeable = False
    return values


#: What an array may be given as.
FORMS = {kind: lambda values, kind=kind: values.astype(kind) for kind in (
    "f4", "f2", "i8", "u1", "?", "c16", "U", "S", "O", "M8[s]", "g", ">f8",
)} | {
    "list": np.ndarray.tolist, "fortran": np.asfortranarray, "read-only": read_only,
    "strided": lambda values: np.repeat(values, 2, axis=-1)[..., ::2] if values.ndim else values,
    "masked": lambda values: np.ma.masked_less(values, 0),
    "frame": lambda values: (
        pd.DataFrame(values) if values.ndim == 2 else pd.Series(values.ravel())),
    "matrix": lambda values: np.asmatrix(values) if values.ndim == 2 else values,
    "void": lambda values: np.zeros(values.shape, dtype=[("a", float), ("b", int)]),
}


shapes = st.one_of(
    st.tuples(st.integers(1, 5), st.integers(1, 4)), st.tuples(st.integers(0, 3)),
    st.tuples(*3 * [st.integers(0, 2)]), st.just(()), st.tuples(*2 * [st.integers(0, 2)]),
)


# LIBSVM files -------------------------------------------------------------------------

words = st.one_of(
    numbers.map(repr), st.integers(-1, 30).map(str), st.text(max_size=5),
    st.sampled_from((
        "1e999", "-1e-999", "nan", "inf", "Infinity", "0x10", "1_0", "+1", "1e", "1d3", ".", "-",
        "1,2", "", "1e12", "1000000000000", "4294967297", "2147483647", "268435456", "1048577",
        "99999999999999999999", "qid", "\u0663", "1:2", ":", "#", "1.5.2", "1" * 400, "1e-400",
    )),
)


@st.composite
def lines(draw, tame):
    def usually(*usual):
        return often(draw, st.sampled_from(usual), st.sampled_from(usual) if tame else words, 12)

    entries = [
        f"{usually(str(index))}:{usually('1', '-2e-3', '7.5')}"
        for index in np.cumsum(draw(st.lists(st.integers(1, 3), max_size=4))) - draw(
            st.sampled_from((0, 0, 0, 1)))
    ]
    more = ("# note", "\t", *(() if tame else ("qid:3", "\v", "\x1c", "\0", "1")))
    parts = [usually("1", "-1", "2", "0.5"), *entries, *often(draw, st.just(()), st.tuples(
        st.sampled_from(more)), 6)]
    ending = often(draw, st.just("\n"), st.sampled_from(("\r\n", "\r", "", "\n\n", "\r\r\n")), 6)
    return often(draw, st.just(" "), st.sampled_from(("  ", "\t")), 6).join(parts) + ending


#: Without the time of day, or a seed would not give the same bytes twice.
PACKS = {"bz2": bz2.compress, "gz": partial(gzip.compress, mtime=0), "xz": lzma.compress}


@st.composite
def libsvm_cases(draw):
    tame = draw(st.booleans())
    # Of lists that may be empty too many are, all the same case.
    made = [draw(lines(tame)) for _ in range(draw(st.integers(0, 6)))]
    text = "".join(made).encode("utf-8", "surrogatepass")
    if rarely(draw, 30):
        text = draw(st.binary(max_size=60))
    if rarely(draw, 60):
        text *= draw(st.sampled_from((10, 3000)))
    pack = draw(st.sampled_from([None] * 6 + list(PACKS)))
    text = bytearray(PACKS[pack](text) if pack else text)
    changes = st.tuples(st.integers(0, 10**4), st.integers(0, 255))
    for where, byte in often(draw, st.just(()), st.lists(changes, max_size=3), 6):
        if text:
            text[where % len(text)] = byte
    if rarely(draw, 12):
        text = text[:draw(st.integers(0, 60))]
    name = often(draw, st.just("set"), st.one_of(odd, st.sampled_from((
        "a9a", "../x", "a\0b", ".x", "x" * 200, "set_test", "duke breast-cancer", "yeast",
    ))), 12)
    return dict(
        text=bytes(text), name=name, n_features=often(draw, st.none(), odd, 10),
        max_bytes=often(draw, st.none(), odd, 10),
    )


def run_libsvm(case, folder):
    file = folder / "file"
    file.write_bytes(case["text"])
    before = set(folder.iterdir())
    with mock.patch.dict(os.environ, LIBSVMDATA_HOME=str(folder / "home")):
        found = import_file(case["name"], file, case["n_features"], case["max_bytes"])
        # What was imported is read back, and only the cache was written to.
        again = raw_libsvm(found.name)
        assert again.X.shape == found.shape and len(again.y) == found.shape[0] > 0
        assert str(found)
        assert set(folder.iterdir()) - before <= {folder / "home"}
        assert {path.parent for path in found.files} == {folder / "home" / "libsvm"}
        load_libsvm(found.name, test=False)


LIBSVM = Surface(
    libsvm_cases(), run_libsvm,
    r"dataset name is not valid: got|: .*; allowed|: .* allowed (are|is|by|without)|must be .* got"
    r"|is not supported|multilabel|one class only",
)


# Problems ------------------------------------------------------------------------------

@st.composite
def sparse_matrices(draw, shape):
    n, p = shape
    values = draw(arrays(shape))
    if getattr(values, "dtype", None) not in map(np.dtype, ("f8", "f4", "i8", "u1", "?", "c16")):
        values = np.ones(shape)
    keep = draw(st.lists(st.booleans(), min_size=n * p, max_size=n * p))
    kind = draw(st.sampled_from(("csr", "csc", "coo", "lil", "dok", "dia", "bsr")))
    cls = getattr(scipy.sparse, f"{kind}_{draw(st.sampled_from(('array', 'matrix')))}")
    matrix = cls(np.where(np.reshape(keep, shape), values, 0))
    if kind in ("csr", "csc", "bsr") and draw(st.booleans()):
        # Damaged, as a file from elsewhere can be: scipy looks at the ends only.
        part = draw(st.sampled_from(("indices", "indptr", "data")))
        array = getattr(matrix, part).copy()
        if array.size:
            # Of bytes a remainder.
            array[draw(st.integers(0, len(array) - 1))] = np.array(
                draw(st.sampled_from((0, 1, -1, 2, 7, 10**6)))
            ).astype(array.dtype)
            setattr(matrix, part, array)
        if draw(st.booleans()):
            matrix.indices = matrix.indices.astype(np.int64)
            matrix.indptr = matrix.indptr.astype(np.int64)
    elif kind == "coo" and n * p:
        data = draw(st.lists(numbers, max_size=6))
        at = [[draw(st.integers(0, k - 1)) for _ in data] for k in shape]
        matrix = cls((np.array(data, dtype=float), at), shape=shape)
    return matrix


@st.composite
def erm_cases(draw):
    n, p = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    shape = (n, p)
    kind = draw(st.sampled_from(("dense", "dense", "sparse", "sparse", "factors", "odd")))
    if rarely(draw, 10):
        shape = draw(shapes)
        n = shape[0] if shape else 1
    if kind == "sparse" and len(shape) == 2:
        A = draw(sparse_matrices(shape))
    elif kind == "factors":
        d = draw(st.integers(1, 3))
        A = draw(arrays((n, d))), draw(arrays((often(draw, st.just(d), st.integers(0, 3), 9), p)))
        if rarely(draw, 10):
            A = list(A) + draw(st.lists(odd, max_size=1))
    elif kind == "odd":
        A = draw(st.one_of(odd, st.lists(st.lists(odd, max_size=2), max_size=3)))
    else:
        A = draw(arrays(shape))
    signs = st.lists(st.sampled_from((-1.0, 1.0)), min_size=n, max_size=n).map(np.array)
    b = often(draw, signs, st.one_of(odd, arrays((n,)), shapes.flatmap(arrays)), 5)
    options = {}
    losses = st.sampled_from(("square", "logistic", "smoothed_hinge"))
    for name, usual in (("loss", losses), ("lambda1", st.floats(0, 2)),
                        ("lambda2", st.floats(1e-3, 2)), ("materialize", st.booleans())):
        if draw(st.booleans()):
            options[name] = often(draw, usual, odd, 8)
    return dict(A=A, b=b, **options)


def is_finite(certificate):
    """P and its distance to D are numbers, and D is a lower bound."""
    assert math.isfinite(certificate.primal) and not math.isnan(certificate.dual)
    size = 1.0 + abs(certificate.primal)
    assert certificate.gap >= -1e-6 * size, certificate


def run_erm(case, folder):
    problem = erm(**case)
    assert repr(problem)
    is_finite(problem.certify(np.zeros(problem.x_shape)))


SCALE = "too badly scaled|too large"
ERM = Surface(
    erm_cases(), run_erm,
    rf"must (be|have|not)( .*got|.* empty)|labels must be|{SCALE}|would take .* allowed",
)


@st.composite
def metric_cases(draw):
    n_tasks, n_classes = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    each, d = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    n = n_tasks * n_classes * each
    classes = draw(st.sampled_from((
        np.arange(3), np.array(["a", "b", "c"]), np.array([0.5, 1.5, math.inf]),
        np.array([b"x", b"y", b"z"]), np.array([True, False, True]),
        np.array(["a", 1, None], dtype=object), np.array(["", "\0", "\ud800"], dtype=object),
        np.array([2**63, 1, 2], dtype=np.uint64),
    )))
    points = often(draw, arrays((n, d)), st.one_of(odd, shapes.flatmap(arrays)), 12)
    given_ids = st.one_of(
        odd, st.lists(odd, min_size=n, max_size=n), arrays((n,)), shapes.flatmap(arrays),
    )
    labels = np.tile(np.repeat(classes[:n_classes], each), n_tasks)
    labels = often(draw, st.just(labels), given_ids, 12)
    tasks = often(draw, st.just(np.repeat(classes[:n_tasks], n_classes * each)), given_ids, 12)
    case = dict(points=points, labels=labels, tasks=tasks)
    for name, usual in (
        ("n_neighbors", st.integers(1, 2)), ("n_impostors", st.integers(1, 2)),
        ("lambda0", st.floats(1e-3, 2)), ("lam", st.floats(1e-3, 2)),
        ("loss", st.sampled_from(("smoothed_hinge", "logistic"))),
        ("metrics", st.sampled_from(("multi-task", "shared"))),
    ):
        if draw(st.booleans()) or name == "n_neighbors":
            case[name] = often(draw, usual, odd, 9)
    return case


def run_metric(case, folder):
    problem = mt_lmnn(**case)
    zeros = np.zeros(problem.x_shape)
    assert repr(problem)
    is_finite(problem.certify(zeros))
    for task in problem.task_names:
        assert problem.metric(zeros, task).shape == problem.x_shape[1:]


METRIC = Surface(
    metric_cases(), run_metric,
    rf"must (be|have|not)( .*got|.* empty)|{SCALE}|one class only|too few points"
    r"|too many triplets",
)


# Options of methods --------------------------------------------------------------------

#: What options may be, so that the other ones of a case get their turn.
USUAL = dict(
    m=(1, 2, 5, 0.3, 1.0, "auto"), q=(1, 2, 0.5, 1.0, "auto"), sampling=(
        "partition", "subset", "authors", "uniform", "nonuniform"), theorem=(1, 2),
    Lambda=("auto", "partition", "bound", "heuristic", 3.0), heuristic_scale=(1.0, 2), adaptive=(
        True, False, "true"), probabilities=("uniform", "importance"), calibrate=(False, "False"),
    threads=(1, 1.0), moduli=("each", "least"), steps=("authors", "dspdc"), scaling=(
        "tight", "safe", "sampled"), order=("random", "permuted"), step=("third", "strong", 0.1),
    epoch=(2.0, 1, 0.1), snapshot=("average", "last"), batch=("auto", 1, 3),
    acceleration=("auto", 0.0, 2.0), inner=("single", "theorem"),
)


@cache
def posed(kind):
    """A tiny problem, the same for all cases."""
    if kind == "metric":
        rng = np.random.default_rng(0)
        return mt_lmnn(rng.standard_normal((12, 2)), np.arange(12) % 2, np.arange(12) // 6,
                       n_neighbors=1)
    return make_problem(kind, n=12, p=6, d=3)


@st.composite
def option_cases(draw):
    kind = draw(st.sampled_from(("dense", "csr", "factorized", "metric", "dense", "factorized")))
    method = draw(st.sampled_from(sorted(METHODS)))
    known = sorted(option_names(METHODS[method]))
    chosen = draw(st.lists(st.sampled_from(known), max_size=5, unique=True))
    options = {
        name: often(draw, st.sampled_from(USUAL.get(name, (1,))), odd, 6) for name in chosen
    }
    if rarely(draw, 30):
        options[draw(st.sampled_from((*USUAL, "nothing", "M", "seeds", "self_")))] = draw(odd)
    # One of the two limits is always small, so that no case can take long.
    limits = dict(max_passes=draw(st.sampled_from((0.5, 2, 3.5))))
    for name, usual in (("tol", (1e-6, 0.0, 1e-3)), ("seed", (0, 1, 2**40)),
                        ("max_seconds", (0.05, None)), ("callback", (None,)),
                        ("progress", (False,))):
        if rarely(draw, 4):
            # What a callback raises is the caller's.
            others = odd.filter(lambda value: not callable(value)) if name == "callback" else odd
            limits[name] = often(draw, st.sampled_from(usual), others, 3)
    if rarely(draw, 30):
        method = draw(odd)
    return dict(problem=kind, method=method, **limits, **options)


def run_options(case, folder):
    case = dict(case, problem=posed(case["problem"]))
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        found = solve(**case)
    problem = case["problem"]
    assert found.x.shape == problem.x_shape and found.y.shape == problem.shape[:1]
    assert found.status in (
        "converged", "max_seconds", "max_passes", "interrupted", "stalled", "diverged",
        "eigensolver failed",
    )
    # The history begins at the start, and what is returned is the best of it.
    assert len(found.history) > 0 and math.isfinite(found.primal)
    assert found.gap <= found.history["gap"].iloc[0]


OPTIONS = Surface(
    option_cases(), run_options,
    r"must be .*got|has no option|needs |can be given only|cannot be|updates all p|is for "
    r"|uses the norm",
)


# Result files --------------------------------------------------------------------------

DATASETS = (
    "Factorized[d=20,materialize=False,n=5000,p=100,random_state=0]",
    "Factorized[d=20,materialize=True,n=5000,p=100,random_state=0]",
    "Factorized[d=2,materialize=False,n=20,p=5,random_state=0]",
    "Factorized[d=1000000,materialize=False,n=1000000,p=1000000,random_state=0]",
    "Factorized[a=1].py", "Factorized", "MatrixRisk[d=3,n=20,p=4,random_state=0]",
    "MatrixRisk[d=100,n=100,p=100,random_state=0]", "MatrixRisk[n=x,p=0,d=]",
    "MTLMNN[source=aloi]", "MTLMNN[source=../../x]", "MTLMNN[source=/etc/x]", "MTLMNN",
    "LIBSVM[name=covtype.binary,reduction=feature]", "LIBSVM[reduction=feature]",
    "LIBSVM[name=<script>alert(1)</script>,reduction=feature]", "Bundled[name=digits]",
    "$x^$", "[bold]x[/bold]", "a[b=1,c]", "__proto__", "_", "", "</script><b>", "..", "a/../b",
)
OBJECTIVES = (
    "ERM[lambda1=0.001,lambda2=0.01,loss=smoothed_hinge]", "ERM[lam=0.1,loss=smoothed_hinge]",
    "ERM[lambda1=1e-06,lambda2=1e-05,loss=smoothed_hinge]", "ERM", "evil.py", "ERM[loss=]",
    "ERM[lambda2=0]",
)
SOLVERS = (
    "DSPDC[m=1,q=50,sampling=subset,Lambda=heuristic]", "DSPDC[m=1,q=1,Lambda=partition]",
    "DSPDC[m=1,q=0.5]", "DSPDC[m=5,q=50]", "DSPDC[m=2000,q=0.2]", "DSPDC[m=auto,q=auto]",
    "DSPDC[m=auto,q=auto,adaptive=True]", "DSPDC[m=1,q=x]", "DSPDC[m=1,q=nan]", "DSPDC[q=0]",
    "DSPDC[m=1,q=-3]", "DSPDC[method=x,eps=2]", "DSPDC", "SPDC[m=1]", "SPDC[m=1,steps=dspdc]",
    "SPDC[m=5,steps=dspdc]", "SPDC", "SDCA[m=1]", "SDCA[m=1,order=random]", "SDCA", "ASVRG-SP",
    "ASVRG-SP[sampling=x]", "SAGA[m=1]", "FISTA", "Katyusha[m=1,epoch=2]", "sklearn[x=1]",
    "<img src=x onerror=alert(1)>", "DSPDC[m=1" + "0" * 40 + ",q=1]", "_", "$", "ASDCA[m=2]",
)
names = st.one_of(
    st.text(max_size=6), st.text(alphabet="[]=,.()DSPC1e-'\"", max_size=12),
    st.sampled_from(("\0", "\x1b[2J", "\u202e", "a\nb", "x" * 1001, "\u0663", "m[" + "-" * 200)),
)
OPTIONAL = (
    "objective_own_gap", "objective_iterations", "objective_coordinate_updates",
    "objective_eigendecompositions", "objective_predicted_rate", "objective_nnz",
    "objective_test_accuracy", "objective_test_error", "objective_test_error_euclidean",
    "objective_block_columns", "objective_Lambda_11", "objective_Lambda_p1", "p_solver_m",
    "objective_pass_cost", "objective_eigendecomposition_cost", "objective_predicted_cost",
    "p_solver_theorem", "p_solver_steps", "p_solver_eps", "p_solver_problem", "platform",
    "run_date", "system-cpus", "base_seed", "objective_reference_seconds", "system-processor",
    "benchmark-git-tag",
)

#: Types that a column may be written with, and how.
TYPES = {
    "int": lambda v: pa.array([int(k) if abs(k) < 2**62 else 0 for k in np.nan_to_num(v)]),
    "float32": lambda v: pa.array(v.astype(np.float32)), "half": lambda v: pa.array(
        v.astype(np.float16)), "bool": lambda v: pa.array(v > 0.5), "text": lambda v: pa.array(
        [repr(float(k)) for k in v]), "null": lambda v: pa.nulls(len(v)), "holes": lambda v:
    pa.array([None if k > 0.5 else float(k) for k in v], pa.float64()), "binary": lambda v:
    pa.array([pickle.dumps(Bomb()) for _ in v]), "list": lambda v: pa.array([[1.0]] * len(v)),
    "struct": lambda v: pa.array([{"x": 1}] * len(v)), "time": lambda v: pa.array(
        [datetime.datetime(2020, 1, 1)] * len(v)), "decimal": lambda v: pa.array(
        [Decimal(1)] * len(v)), "dictionary": lambda v: pa.array(
        [repr(float(k)) for k in v]).dictionary_encode(), "uint": lambda v: pa.array(
        np.arange(len(v), dtype=np.uint64)), "bools": lambda v: pa.array(
        [None if k > 0.5 else True for k in v], pa.bool_()),
}


#: What is made of a file: one of them, as each takes a tenth of a second, or all, and written.
VIEWS = ("summary", "verdicts", "page", "complexity", "regress", "trend")


class Bomb:
    """Something that nobody may unpickle."""

    def __reduce__(self):
        return os._exit, (66,)


#: Columns of numbers that every result has, but for that of the repetition.
MEASURED = tuple(c for c in results.REQUIRED if c not in results.RUN)


@st.composite
def result_cases(draw):
    runs = []
    datasets = draw(st.lists(st.sampled_from(DATASETS), min_size=1, max_size=2))
    objectives = draw(st.lists(st.sampled_from(OBJECTIVES), min_size=1, max_size=2))
    for _ in range(draw(st.integers(0, 4))):
        runs.append((
            often(draw, st.sampled_from(datasets), names, 20),
            often(draw, st.sampled_from(objectives), names, 20),
            often(draw, st.sampled_from(SOLVERS), names, 20), draw(st.integers(0, 2)),
            draw(st.integers(0, 4)),
        ))
    count = sum(run[-1] for run in runs)
    tame = draw(st.booleans())

    def column():
        if tame:
            return draw(st.lists(st.floats(1e-9, 10), min_size=count, max_size=count))
        return draw(st.lists(st.one_of(st.floats(0, 2), numbers), min_size=count, max_size=count))
    optional = draw(st.lists(st.sampled_from(OPTIONAL), max_size=5, unique=True))
    columns = {
        name: column() for name in (*MEASURED, *optional)
    }
    changes = often(draw, st.just({}), st.dictionaries(
        st.sampled_from((*results.REQUIRED, *optional)),
        st.sampled_from((*TYPES, "missing", "twice")), max_size=2,
    ), 2)
    damage = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=3)
    return dict(
        runs=runs, columns=columns, changes=changes, again=rarely(draw, 10),
        damage=often(draw, st.just([]), damage, 12), compression=draw(st.sampled_from(
            ("snappy", "zstd", "none"))), view="files" if rarely(draw, 200) else draw(
            st.sampled_from(VIEWS)),
    )


def parquet_of(case, file):
    """Write the file that a case describes."""
    lists = {name: [] for name in results.RUN}
    for *key, points in case["runs"]:
        for name, value in zip(results.RUN, key, strict=True):
            lists[name] += [value] * points
    arrays, columns = [], []
    for name, values in (lists | case["columns"]).items():
        change = case["changes"].get(name)
        if change == "missing":
            continue
        if name in results.NAMES:
            made = pa.array(
                [value.encode("utf-8", "replace").decode() for value in values], pa.string()
            )
            if change in ("null", "binary", "list", "struct", "time", "decimal"):
                made = TYPES[change](np.zeros(len(values)))
            elif change == "dictionary":
                made = made.dictionary_encode()
        else:
            values = np.array(values, dtype=float)
            made = TYPES[change](values) if change in TYPES else pa.array(values)
        arrays += [made] * (2 if change == "twice" else 1)
        columns += [name] * (2 if change == "twice" else 1)
    table = pa.table(arrays, names=columns)
    pq.write_table(table, file, compression=case["compression"])
    if case["damage"]:
        content = bytearray(file.read_bytes())
        for where, byte in case["damage"]:
            content[int(where * (len(content) - 1))] = byte
        file.write_bytes(bytes(content))


def run_results(case, folder):
    file, out = folder / "run.parquet", folder / "out"
    parquet_of(case, file)
    files = [file, file] if case["again"] else [file]
    console = Console(file=open(os.devnull, "w"), width=120)
    frame = results.read_results(files)
    assert len(frame) and np.isfinite(frame[results.GAP]).all()
    if case["view"] == "files":
        report.write_report(files, out, console)
        for axis in ("seconds", "updates"):
            figures.gap_curves(frame, folder / f"{axis}.png", axis)
        # Nothing is written but what was asked for.
        assert set(folder.iterdir()) <= {file, out, folder / "seconds.png", folder / "updates.png"}
        assert all(path.parent == out for path in out.rglob("*"))
    elif case["view"] == "summary":
        summary.print_summary(files, console)
    elif case["view"] == "verdicts":
        report.print_verdicts(claims.judge(frame), console)
    elif case["view"] == "page":
        json.dumps(page.page_data(frame, "run.parquet", []), allow_nan=False)
    elif case["view"] == "complexity":
        problem = posed("factorized")
        for _, rows in results.problems(frame):
            predicted_table.compare(problem, rows, 1e-6, constants(problem))
    elif case["view"] == "trend":
        # Two levels: the same numbers in another order.
        for k in range(4):
            parquet_of(turned(case, k // 2), folder / f"run{k}.parquet")
        json.dumps(trend.trend_data([folder]), allow_nan=False)
    elif case["view"] == "regress":
        parquet_of(turned(case, 1), folder / "other.parquet")
        # As one repetition each, which mostly makes a baseline, and as it is.
        for one in (frame.assign(idx_rep=0.0), frame):
            baseline.write_baseline(baseline.make_baseline([one]), folder / "baseline.json")
            known = baseline.read_baseline(folder / "baseline.json")
            lines = comparison.compare_work([one], known)
            assert all(line.outcome == comparison.SAME for line in lines)
            other = results.read_results([folder / "other.parquet"])
            lines = comparison.compare_work([other.assign(idx_rep=0.0)], known, True)
            comparison_output.print_comparison(lines, ["a note"], console)
            comparison_output.write_json(lines, [], None, folder / "out.json")
            comparison_output.write_junit(lines, [], None, folder / "junit.xml")
            ElementTree.parse(folder / "junit.xml")


def turned(case, k):
    """The case with the numbers of each column moved by k rows."""
    return dict(case, columns={
        name: values[k:] + values[:k] for name, values in case["columns"].items()
    })


RESULTS = Surface(
    result_cases(), run_results,
    r"is not a readable parquet file: .|is not a result of this benchmark: .|has no rows|no point "
    r"has a finite gap|is too large: .* allowed|no column|of \d+ repetitions|column base_seed of "
    r"the result holds|the seeds are |runs of the (baseline|result) are not in|ended after \d+ of "
    r"\d+ checks",
)


SURFACES = {
    "LIBSVM files": LIBSVM, "erm": ERM, "mt_lmnn": METRIC, "options of methods": OPTIONS,
    "result files": RESULTS,
}


# Trying cases ----------------------------------------------------------------------

class Tally:
    """What came of the cases of a surface, each of which gets an empty folder."""

    def __init__(self, surface, scratch):
        self.surface, self.scratch, self.cases, self.outcomes = surface, scratch, [], []

    def __call__(self, case):
        self.cases.append(repr(case))
        faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True, file=sys.__stderr__)
        try:
            with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
                self.outcomes.append(outcome(self.surface, case, Path(folder)))
        finally:
            faulthandler.cancel_dump_traceback_later()


#: hypothesis's own backend makes every other case a variant of an earlier one, and half of those
#: are no new cases. Under another name the same generator draws each case afresh.
providers.AVAILABLE_PROVIDERS["afresh"] = providers.HypothesisProvider


def search(tally, count, seed=None):
    """Try so many examples, those of the seed if there is one."""
    settings = hypothesis.settings(
        max_examples=count, deadline=None, database=None, derandomize=False, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck), backend="afresh",
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    test = settings(hypothesis.given(tally.surface.cases)(lambda case: tally(case)))
    (hypothesis.seed(seed)(test) if seed is not None else test)()

"""Input made up at random for whatever takes input: each case ends in a result or in the
documented error, a ValueError of this package that says what is wrong.

tests/test_fuzz.py tries some cases, `make fuzz` many.
"""

import bz2
import contextlib
import datetime
import gzip
import json
import lzma
import math
import os
import pickle
import re
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import NamedTuple
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
from conftest import make_problem
from frames import curve, runs
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmark_dspdc import constants, erm, mt_lmnn, solve
from benchmark_dspdc.bench import predicted_table
from benchmark_dspdc.data import import_file, load_libsvm, raw_libsvm
from benchmark_dspdc.guard import trend
from benchmark_dspdc.guard.regress import regress
from benchmark_dspdc.methods import METHODS
from benchmark_dspdc.report import claims, figures, page, report, results, summary
from benchmark_dspdc.solver import option_names


class Surface(NamedTuple):
    """Something that takes input."""

    cases: object       # a strategy
    run: object         # of a case and an empty folder; asserts what a result must have
    documented: str     # a pattern that the errors' messages have


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

numbers = st.one_of(
    st.sampled_from((0.0, -0.0, 1.0, 5e-324, 1e-300, 1e-160, 1e160, 1.7e308, math.inf, math.nan)),
    st.floats(-3, 3), st.integers(-2, 12), st.floats(),
)
odd = st.one_of(
    st.none(), st.booleans(), numbers, st.integers(), st.text(max_size=4), st.binary(max_size=4),
    st.sampled_from((
        "auto", "nan", "1", b"auto", (), [], [1], {}, {"m": 1}, 1j, 10**400, 2**63, 2**31,
        Decimal("0.1"), Fraction(1, 3), np.float32(0.5), np.float16(0.1), np.int8(1),
        np.uint64(2**63), np.bool_(True), np.str_("auto"), np.array(1), np.array([1.0, 2.0]),
        np.array("auto"), np.array(["auto", "auto"]), np.array(None), np.longdouble("1e400"),
        np.datetime64("2020-01-01"), datetime.timedelta(1), range(3), float, slice(1), "\0",
        np.ma.masked, pd.NA, pd.NaT, np.array([]),
    )),
)


def mostly(usual, other=odd, times=8):
    """Of the usual values or of a strategy, and of another one once in about so many draws."""
    usual = usual if isinstance(usual, st.SearchStrategy) else st.sampled_from(usual)
    # In the middle, as hypothesis prefers the ends.
    return st.integers(0, times).flatmap(lambda k: other if k == times // 2 + 1 else usual)


def listed(values, count):
    return st.lists(values, min_size=count, max_size=count)


def read_only(values):
    values.flags.writeable = False
    return values


#: What an array may be given as.
FORMS = (
    np.ndarray.tolist, np.asfortranarray, read_only, lambda values: np.ma.masked_less(values, 0),
    lambda values: values.astype("O"), lambda values: values.astype("g"),
    lambda values: np.repeat(values, 2, axis=-1)[..., ::2] if values.ndim else values,
    lambda values: pd.DataFrame(values) if values.ndim == 2 else pd.Series(values.ravel()),
    lambda values: np.asmatrix(values) if values.ndim == 2 else values,
    lambda values: np.zeros(values.shape, dtype=[("a", float), ("b", int)]),
)


def arrays(shape):
    """Arrays of a shape: mostly finite, sometimes of odd numbers, types or forms."""
    plain = hnp.arrays(float, shape, elements=st.floats(-3, 3), fill=st.nothing())
    others = st.one_of(
        hnp.arrays(float, shape, elements=numbers), hnp.arrays(hnp.scalar_dtypes(), shape),
        st.builds(lambda form, values: form(values), st.sampled_from(FORMS), plain),
    )
    return mostly(plain, others, 3)


any_array = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4).flatmap(arrays)

def changes(pieces):
    """Pieces of bytes that are put over those of a file, by their place; None is its end."""
    return mostly(st.just([]), st.lists(
        st.tuples(st.floats(0, 1), st.none() | pieces), min_size=1, max_size=3,
    ), 3)


def changed(content, changes):
    for where, piece in changes:
        place = int(where * len(content))
        rest = b"" if piece is None else piece + content[place + len(piece):]
        content = content[:place] + rest
    return content


damage = changes(st.binary(min_size=1, max_size=1))


# LIBSVM files -------------------------------------------------------------------------

words = st.one_of(
    numbers.map(repr), st.integers(-1, 30).map(str), st.text(max_size=5), st.sampled_from((
        "1e999", "-1e-999", "nan", "inf", "0x10", "1_0", "+1", "1e", "1d3", ".", "-", "1,2", " ",
        "1e12", "1000000000000", "4294967297", "2147483647:1", " 268435456:1", "1048577:1", "\r",
        "99999999999999999999", "qid", "\u0663", ":", "#", "1" * 400, "# note", "\v", "\t", "\0",
        "\r\n", "\n\n", "\x1c", " 1:1 ", ": ", "\n1 ",
    )),
).map(lambda word: word.encode("utf-8", "surrogatepass"))


@st.composite
def texts(draw):
    """Of a good file."""
    rows = st.tuples(st.sampled_from(("1", "-1", "2", "0.5")), st.sets(st.integers(1, 9)))
    return "".join(
        f"{label} {' '.join(f'{k}:{7.5 / k - 2:.3g}' for k in sorted(entries))}\n"
        for label, entries in draw(st.lists(rows, min_size=1, max_size=6))
    ).encode()


PACKS = {"": bytes, "bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress}
libsvm_cases = st.fixed_dictionaries(dict(
    text=mostly(texts(), st.binary(max_size=60), 30), times=mostly((1,), st.just(3000), 60),
    words=changes(words), pack=mostly(("",), st.sampled_from(sorted(PACKS)), 3), damage=damage,
    name=mostly(("set",), odd | st.sampled_from((
        "a9a", "../x", "a\0b", ".x", "x" * 200, "set_test", "duke breast-cancer", "yeast",
    )), 12),
    n_features=mostly((None,)), max_bytes=mostly((None,)),
))


def run_libsvm(case, folder):
    file = folder / "file"
    text = changed(case["text"], case["words"]) * case["times"]
    file.write_bytes(changed(PACKS[case["pack"]](text), case["damage"]))
    with mock.patch.dict(os.environ, LIBSVMDATA_HOME=str(folder / "home")):
        found = import_file(case["name"], file, case["n_features"], case["max_bytes"])
        # What was imported is read back, and only the cache was written to.
        again = raw_libsvm(found.name)
        assert again.X.shape == found.shape and len(again.y) == found.shape[0] > 0
        assert str(found)
        assert {*folder.iterdir()} == {file, folder / "home"}
        assert {path.parent for path in found.files} == {folder / "home" / "libsvm"}
        load_libsvm(found.name, test=False)


LIBSVM = Surface(
    libsvm_cases, run_libsvm,
    r"dataset name is not valid: got|: .*; allowed|: .* allowed (are|is|by|without)|must be .* got"
    r"|is not supported|multilabel|one class only",
)


# Problems ------------------------------------------------------------------------------

@st.composite
def sparse_matrices(draw, shape):
    dtype = draw(st.sampled_from(("f8", "f8", "f4", "i8", "u1", "?", "c16")))
    entries = st.just(0.0) | mostly(st.floats(-3, 3), numbers) if dtype == "f8" else None
    kind = draw(st.sampled_from(("csr", "csc", "coo", "lil", "dok", "dia", "bsr")))
    name = f"{kind}_{draw(st.sampled_from(('array', 'matrix')))}"
    matrix = getattr(scipy.sparse, name)(draw(hnp.arrays(dtype, shape, elements=entries)))
    if kind in ("csr", "csc", "bsr") and draw(st.booleans()):
        # Damaged, as a file from elsewhere can be: scipy looks at the ends only.
        if draw(st.booleans()):
            matrix.indices = matrix.indices.astype(np.int64)
            matrix.indptr = matrix.indptr.astype(np.int64)
        array = getattr(matrix, draw(st.sampled_from(("indices", "indptr", "data"))))
        if array.size:
            value = np.array(draw(st.sampled_from((0, 1, -1, 2, 7, 10**6))))
            # Of bytes a remainder.
            array[draw(st.integers(0, len(array) - 1))] = value.astype(array.dtype)
    return matrix


@st.composite
def erm_cases(draw):
    n, p, d = (draw(st.integers(1, most)) for most in (5, 4, 3))
    factors = st.tuples(arrays((n, d)), mostly(arrays((d, p)), any_array))
    A = draw(st.one_of(
        arrays((n, p)), sparse_matrices((n, p)), factors,
        mostly(arrays((n, p)), any_array | odd | st.lists(st.lists(odd), max_size=3), 2),
    ))
    b = draw(mostly(listed(st.sampled_from((-1.0, 1.0)), n), odd | arrays((n,)) | any_array, 5))
    return dict(A=A, b=b, **draw(st.fixed_dictionaries({}, optional=dict(
        loss=mostly(("square", "logistic", "smoothed_hinge")), lambda1=mostly(st.floats(0, 2)),
        lambda2=mostly(st.floats(1e-3, 2)), materialize=mostly(st.booleans()),
    ))))


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

#: Names of classes and of tasks.
CLASSES = (
    np.arange(3), np.array(["a", "b", "c"]), np.array([0.5, 1.5, math.inf]),
    np.array([b"x", b"y", b"z"]), np.array([True, False, True]),
    np.array(["a", 1, None], dtype=object), np.array(["", "\0", "\ud800"], dtype=object),
    np.array([2**63, 1, 2], dtype=np.uint64),
)


@st.composite
def metric_cases(draw):
    n_tasks, n_classes, each, d = (draw(st.integers(1, most)) for most in (2, 3, 4, 3))
    n = n_tasks * n_classes * each
    classes = draw(st.sampled_from(CLASSES))
    others = odd | any_array | arrays((n,)) | listed(odd, n)
    return draw(st.fixed_dictionaries(
        dict(
            points=mostly(arrays((n, d)), odd | any_array, 12),
            labels=mostly((np.tile(np.repeat(classes[:n_classes], each), n_tasks),), others, 12),
            tasks=mostly((np.repeat(classes[:n_tasks], n_classes * each),), others, 12),
            n_neighbors=mostly((1, 2)),
        ),
        optional=dict(
            n_impostors=mostly((1, 2)), lambda0=mostly(st.floats(1e-3, 2)),
            lam=mostly(st.floats(1e-3, 2)), loss=mostly(("smoothed_hinge", "logistic")),
            metrics=mostly(("multi-task", "shared")),
        ),
    ))


def run_metric(case, folder):
    problem = mt_lmnn(**case)
    zeros = np.zeros(problem.x_shape)
    assert repr(problem)
    is_finite(problem.certify(zeros))
    for task in problem.learned.task_names:
        assert problem.learned.metric(zeros, task).shape == problem.x_shape[1:]


METRIC = Surface(
    metric_cases(), run_metric,
    rf"must (be|have|not)( .*got|.* empty)|{SCALE}|one class only|too few points"
    r"|too many triplets",
)


# Options of methods --------------------------------------------------------------------

#: What options may be, so that the other ones of a case get their turn.
USUAL = dict(
    m=(1, 2, 5, 0.3, 1.0, "auto"), q=(1, 2, 0.5, 1.0, "auto"), theorem=(1, 2),
    sampling=("partition", "subset", "authors", "uniform", "nonuniform"),
    Lambda=("auto", "partition", "bound", "heuristic", 3.0), heuristic_scale=(1.0, 2),
    adaptive=(True, False, "true", "auto"), column_steps=("auto", True, False),
    probabilities=("uniform", "importance"),
    calibrate=(False, "False"), threads=(1, 1.0), moduli=("each", "least"),
    steps=("authors", "dspdc", "block", "theorem", "auto"),
    scaling=("auto", "tight", "safe", "sampled"), norms=("estimated", "certified"),
    step=("third", "strong", "theory", "practice", "norm", "watched", "backtracking", 0.1),
    order=("random", "permuted", "auto"), epoch=("auto", 2.0, 1, 0.1),
    snapshot=("average", "last"), batch=("auto", 1, 3), acceleration=("auto", 0.0, 2.0),
    inner=("single", "theorem", "svrg", "sdca", 0.1), blocks=("fresh", "fixed"),
    probability=("auto", 0.5, 1),
    memory=(0, 3, 100), kappa=(0.5, 10.0), halpern=(True, False), restarts=(True, False),
)
LIMITS = dict(
    tol=mostly((1e-6, 0.0, 1e-3)), seed=mostly((0, 1, 2**40)), max_seconds=mostly((0.05, None)),
    progress=mostly((False,)),
    # What a callback raises is the caller's.
    callback=mostly((None,), odd.filter(lambda value: not callable(value))),
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
    kind = draw(st.sampled_from(("dense", "csr", "factorized", "metric")))
    method = draw(st.sampled_from(sorted(METHODS)))
    known = st.sampled_from(sorted(option_names(METHODS[method])))
    known = mostly(known, st.sampled_from((*USUAL, "nothing", "M", "seeds", "self_")), 40)
    options = {
        name: draw(mostly(USUAL.get(name, (1,)), times=6))
        for name in draw(st.lists(known, max_size=5, unique=True))
    }
    # One of the two limits is always small, so that no case can take long.
    limits = dict(max_passes=draw(st.sampled_from((0.5, 2, 3.5))))
    limits |= draw(mostly(st.just({}), st.fixed_dictionaries({}, optional=LIMITS), 3))
    return dict(problem=kind, method=draw(mostly((method,), times=30))) | limits | options


def run_options(case, folder):
    problem = posed(case["problem"])
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        found = solve(**dict(case, problem=problem))
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
    "Factorized[d=1000000,materialize=False,n=1000000,p=1000000,random_state=0]",
    "Factorized[a=1].py", "MatrixRisk[d=100,n=100,p=100,random_state=0]", "MatrixRisk[n=x,p=0,d=]",
    "MTLMNN[source=aloi]", "MTLMNN[source=../../x]", "MTLMNN", "LIBSVM[reduction=feature]",
    "LIBSVM[name=covtype.binary,reduction=feature]", "LIBSVM[name=<script>alert(1)</script>]",
    "[bold]x[/bold]", "a[b=1,c]", "__proto__", "_", "</script><b>", "a/../b",
)
OBJECTIVES = (
    "ERM[lambda1=0.001,lambda2=0.01,loss=smoothed_hinge]", "ERM[lam=0.1,loss=smoothed_hinge]",
    "ERM[lambda1=1e-06,lambda2=1e-05,loss=smoothed_hinge]", "evil.py", "ERM[lambda2=0]",
)
SOLVERS = (
    "DSPDC[m=1,q=50,sampling=subset,Lambda=heuristic]", "DSPDC[m=1,q=1,Lambda=partition]",
    "DSPDC[m=5,q=50]", "DSPDC[m=2000,q=0.2]", "DSPDC[m=auto,q=auto,adaptive=True]",
    "DSPDC[m=1,q=x]", "DSPDC[m=1,q=nan]", "DSPDC[q=0]", "DSPDC[m=1,q=-3]", "DSPDC", "SPDC[m=1]",
    "SPDC[m=5,steps=dspdc]", "SDCA[m=1,order=random]", "ASVRG-SP[sampling=x]", "SAGA[m=1]",
    "<img src=x onerror=alert(1)>", "DSPDC[m=1" + "0" * 40 + ",q=1]", "$x^$",
)
names = st.one_of(
    st.text(max_size=6), st.text(alphabet="[]=,.()DSPC1e-'\"", max_size=12),
    st.sampled_from(("\x1b[2J", "\u202e", "a\nb", "x" * 1001, "\u0663", "m[" + "-" * 200)),
).map(lambda name: name.encode("utf-8", "replace").decode())
OPTIONAL = (
    "objective_own_gap", "objective_coordinate_updates", "objective_eigendecompositions",
    "objective_predicted_rate", "objective_test_accuracy", "objective_test_error",
    "objective_block_columns", "objective_Lambda_p1", "objective_pass_cost",
    "objective_reference_seconds", "p_solver_m", "p_solver_theorem", "p_solver_eps", "platform",
    "run_date", "base_seed", "system-processor", "benchmark-git-tag",
)


class Bomb:
    """Something that nobody may unpickle."""

    def __reduce__(self):
        return os._exit, (66,)


#: What a column may be instead: of a type, or of the same value in each row; missing, or twice.
TYPES = (pa.float32(), pa.float16(), pa.int64(), pa.bool_(), pa.string())
VALUES = (
    None, True, 7, np.uint64(2**63), "1e-3", pickle.dumps(Bomb()), [1.0], {"x": 1},
    datetime.datetime(2020, 1, 1), Decimal(1),
)
CHANGES = (*TYPES, *VALUES, "dictionary", "holes", "missing", "twice")


@st.composite
def result_cases(draw):
    def some(values):
        return mostly(draw(st.lists(st.sampled_from(values), min_size=1, max_size=2)), names, 20)
    # Mostly one repetition, of which a baseline can be made.
    curves = st.fixed_dictionaries(dict(
        solver=mostly(SOLVERS, names, 20), decade=st.floats(1e-9, 10), dataset=some(DATASETS),
        objective=some(OBJECTIVES), rep=mostly((0,), st.integers(0, 2), 5),
        to=st.floats(1e-12, 1), eigs=st.integers(0, 2), points=st.integers(1, 4),
    ))
    column = st.sampled_from((*results.REQUIRED, *OPTIONAL))
    values = st.lists(st.floats(0, 2) | numbers, min_size=1, max_size=9)
    return dict(
        curves=draw(st.lists(curves, min_size=1, max_size=4)),
        # Of all columns but the names.
        values=draw(st.dictionaries(column.filter(lambda c: c not in results.NAMES), values)),
        changes=draw(mostly(
            st.just({}), st.dictionaries(column, st.sampled_from(CHANGES), max_size=2), 2)),
        compression=draw(st.sampled_from(("snappy", "zstd", "none"))), damage=draw(damage),
        times=draw(mostly((1,), st.just(2), 10)),
        # Pictures take a second.
        view=draw(mostly(sorted({*VIEWS} - {"files"}), st.just("files"), 200)),
    )


def column_of(values, change):
    if change == "dictionary":
        return pa.array(values).dictionary_encode()
    if change == "holes":
        return pa.array([None if k % 2 else value for k, value in enumerate(values)])
    if change in TYPES and values.dtype.kind in "if":
        return pa.array(values).cast(change, safe=False)
    return pa.array([change] * len(values)) if change in VALUES else pa.array(values)


def parquet_of(case, file, turn=0):
    """Write the file that a case describes, with odd values moved by some rows."""
    frame = runs(*(curve(**options) for options in case["curves"]))
    for column, values in case["values"].items():
        frame[column] = np.resize(np.roll(np.array(values, dtype=float), turn), len(frame))
    made = []
    for column, change in (dict.fromkeys(frame, "none") | case["changes"]).items():
        times = 0 if change == "missing" else 2 if change == "twice" else 1
        values = frame.get(column, frame["time"]).to_numpy()
        made += [(column, column_of(values, change))] * times
    table = pa.table([values for _, values in made], names=[column for column, _ in made])
    pq.write_table(table, file, compression=case["compression"])
    file.write_bytes(changed(file.read_bytes(), case["damage"]))
    return file


def written(case, files):
    folder = files[0].parent
    report.write_report(files, folder / "out")
    figures.gap_curves(results.read_results(files), folder / "gaps.png", "updates")
    # Nothing is written but what was asked for.
    assert {*folder.iterdir()} == {files[0], folder / "out", folder / "gaps.png"}
    assert all(path.parent == folder / "out" for path in (folder / "out").rglob("*"))


def compared_with_theory(case, files):
    problem = posed("factorized")
    for _, rows in results.problems(results.read_results(files)):
        predicted_table.compare(problem, rows, 1e-6, constants(problem))


def compared_with_a_baseline(case, files):
    baseline, junit = (files[0].with_suffix(end) for end in (".json", ".xml"))
    regress(files, baseline, update=True)
    assert regress(files, baseline, junit=junit) == 0
    ElementTree.parse(junit)
    regress([parquet_of(case, files[0], 1)], baseline)


def drawn_over_time(case, files):
    # Two levels: the same numbers in another order.
    for k in range(4):
        parquet_of(case, files[0].with_stem(f"run{k}"), k // 2)
    json.dumps(trend.trend_data([files[0].parent]), allow_nan=False)


#: What is made of a file: one of them, as each takes a tenth of a second.
VIEWS = {
    "files": written, "complexity": compared_with_theory, "regress": compared_with_a_baseline,
    "trend": drawn_over_time, "summary": lambda case, files: summary.print_summary(files),
    "verdicts": lambda case, files: claims.judge(results.read_results(files)),
    "page": lambda case, files: json.dumps(
        page.page_data(results.read_results(files), "run.parquet", []), allow_nan=False),
}


def run_results(case, folder):
    files = case["times"] * [parquet_of(case, folder / "run.parquet")]
    frame = results.read_results(files)
    assert len(frame) and np.isfinite(frame[results.GAP]).all()
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        VIEWS[case["view"]](case, files)


RESULTS = Surface(
    result_cases(), run_results,
    r"is not a readable parquet file: .|is not a result of this benchmark: .|has no rows|no point "
    r"has a finite gap|none of the files has a figure to follow: .|is too large: .* allowed"
    r"|no column|of \d+ repetitions|column base_seed of the result holds|the seeds are "
    r"|runs of the (baseline|result) are not in|ended after \d+ of \d+ checks"
    r"|\d+ of \d+ curves reach none of the gaps",
)

SURFACES = {
    "LIBSVM files": LIBSVM, "erm": ERM, "mt_lmnn": METRIC, "options of methods": OPTIONS,
    "result files": RESULTS,
}

"""Files from elsewhere: not run, not larger than they may be, written nowhere else.

Each test builds the malicious file itself.
"""

import bz2
import gzip
import json
import lzma
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchopt.results.parquet import PICKLE_PREFIX, to_parquet
from conftest import REPO
from frames import ELASTIC, STATED, curve, runs

from benchmark_dspdc.cli import main
from benchmark_dspdc.data import libsvm, libsvm_text
from benchmark_dspdc.guard import trend
from benchmark_dspdc.report import figures, plain_files, results
from benchmark_dspdc.report.results import GAP, read_results
from benchmark_dspdc.report.summary import print_answer

SMALL = "Factorized[d=2,materialize=False,n=20,p=5,random_state=0,reduction=feature]"


class Exploit:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


@pytest.fixture
def file(tmp_path):
    """Where a result file is written."""
    return tmp_path / "run.parquet"


def in_a_process(code, *arguments):
    """A script in a process of its own, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=REPO, capture_output=True,
        text=True, timeout=120, env=os.environ | {"PYTHONPATH": str(REPO)},
    )
    assert done.returncode == 0, done.stderr
    return done


def commands(file):
    """Every command that reads a result file."""
    out = file.parent
    return (
        ["summary", str(file)], ["figure", str(file), "-o", str(out / "gaps.png")],
        ["report", str(file), "-o", str(out)],
        ["complexity", SMALL, "-o", ELASTIC, "--results", str(file)],
        ["regress", str(file), "--baseline", str(out / "baseline.json"), "--update"],
        ["regress", str(file), "--baseline", str(out / "baseline.json")],
        ["trend", str(file), "-o", str(out / "trend.html")],
    )


def assert_refused(file, capsys, message):
    for command in commands(file):
        assert main(command) == 2
        assert message in capsys.readouterr().err


# Files are not code -------------------------------------------------------------------

@pytest.mark.parametrize("columns", [
    ("final_results", "p_solver_extra", "platform", "objective_x"), (GAP,),
])
def test_pickled_cells_of_a_result_file_are_never_unpickled(file, capsys, columns):
    marker = file.with_name("marker")
    frame = runs(curve(STATED, 0.1, SMALL), curve("SPDC[m=1]", 0.2, SMALL))
    for column in columns:
        frame[column] = [PICKLE_PREFIX + pickle.dumps(Exploit(marker))] * len(frame)
    to_parquet(frame, file)
    # It is what it is taken for: benchopt's own reader looks into it, and a careless one runs it.
    cell = pq.read_table(file)[columns[0]][0].as_py()
    assert cell.startswith(PICKLE_PREFIX)
    pickle.loads(cell.removeprefix(PICKLE_PREFIX)).close()
    marker.unlink()
    if GAP in columns:
        assert_refused(file, capsys, f"no column {GAP} of numbers")
    else:
        for command in commands(file):
            assert main(command) == 0, capsys.readouterr().err
        assert not set(columns) & set(read_results([file]))
    assert not marker.exists()


# Sizes are checked before memory is taken ---------------------------------------------------

#: Imports a file in a process of its own; prints what came of it, and by how much it grew.
IMPORT = """
import json, sys, time
from benchmark_dspdc.data import import_file
from benchmark_dspdc.bench.processor import peak_memory
before, begun = peak_memory(), time.perf_counter()
for file in sys.argv[1:]:
    try:
        import_file("set", file)
        raise SystemExit("was imported")
    except ValueError as error:
        text = str(error)
    print(json.dumps([text, peak_memory() - before, time.perf_counter() - begun]))
"""


@pytest.mark.nightly
def test_decompression_bombs_are_refused_in_bounded_memory_and_time(tmp_path, home):
    bombs = []
    line = b"1 " + b" ".join(b"%d:1" % k for k in range(1, 60)) + b"\n"
    for text in (line, b" "):
        piece = text * (2**20 // len(text))
        for compress in (bz2.compress, gzip.compress, lzma.compress):
            # Eight gigabytes, as one stream after the other.
            bombs.append(tmp_path / f"{len(bombs)}")
            bombs[-1].write_bytes(compress(piece) * 8000)
    shown = [json.loads(line) for line in in_a_process(IMPORT, *bombs).stdout.splitlines()]
    assert len(shown) == len(bombs)
    for message, grown, seconds in shown:
        assert "unpacks to too much" in message and "max_bytes" in message
        assert grown < 2**28 and seconds < 60
    assert not home.exists()


def test_a_user_who_knows_the_file_can_raise_the_limit(tmp_path, monkeypatch, home, capsys):
    file = tmp_path / "same.bz2"
    file.write_bytes(bz2.compress(b"1 1:1\n2 1:1\n" * 10**5))
    monkeypatch.setattr(libsvm_text, "RATIO_SLACK", 2**16)
    assert main(["import-libsvm", "same", str(file)]) == 2
    assert "unpacks to too much" in capsys.readouterr().err
    assert main(["import-libsvm", "same", str(file), "--max-bytes", "1000000"]) == 2
    assert "allowed by max_bytes are 1000000" in capsys.readouterr().err
    assert main(["import-libsvm", "same", str(file), "--max-bytes", "2000000"]) == 0
    assert libsvm.raw("same").X.shape == (2 * 10**5, 1)


@pytest.mark.parametrize("index, message", [
    (10**12, "line 1 is not in LIBSVM format.*too large"),
    (2**31 - 2, "got 2147483646, allowed by 1 stored entries, without n_features, are 1048576"),
    (2**20 + 1, "got 1048577, allowed"),
])
def test_an_index_alone_claims_no_memory(tmp_path, home, index, message):
    file = tmp_path / "file"
    file.write_text(f"1 {index}:1\n")
    with pytest.raises(ValueError, match=message):
        libsvm.import_file("set", file)
    assert not home.exists()
    # As many as the user means are read again.
    if index < 2**28:
        libsvm.import_file("set", file, n_features=index)
        assert libsvm.raw("set").X.shape == (1, index)


def test_result_files_that_claim_too_much_are_not_read(tmp_path, monkeypatch, capsys):
    wide = tmp_path / "wide.parquet"
    zeros = pa.array(np.zeros(plain_files.MAX_CELLS // 10 + 1, dtype=np.int8))
    pq.write_table(pa.table({f"objective_{k}": zeros for k in range(10)}), wide)
    assert wide.stat().st_size < 10**6
    long = tmp_path / "long.parquet"
    zeros = pa.array(np.zeros(10**6))
    pq.write_table(pa.table({"time": zeros}), long, use_dictionary=False, compression="zstd")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    monkeypatch.setattr(plain_files, "MAX_BYTES", 10**6)
    for file, message in (
        (wide, "it says that it has 100000010 cells, allowed are 100000000"),
        (long, "bytes, allowed are 1000000"),
    ):
        assert_refused(file, capsys, message)


def varint(number, length=None):
    """A positive number as in a Parquet file, in as many bytes as are asked for."""
    left, made = 2 * number, []
    while left or len(made) < (length or 1):
        made.append(left & 127 | 128)
        left >>= 7
    made[-1] &= 127
    return bytes(made)


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_result_file_that_lies_about_what_it_unpacks_to_is_read_to_the_limit(
        file, monkeypatch, dictionary):
    rows = 5 * plain_files.BATCH
    words = pa.array([f"{k:05}" * 200 for k in range(rows)])
    table = pa.Table.from_pandas(runs(curve("SPDC[m=1]", 0.1, points=rows)))
    pq.write_table(table.append_column("platform", words), file, compression="zstd",
                   use_dictionary=dictionary, dictionary_pagesize_limit=2**30)
    content = file.read_bytes()
    size = varint(pq.ParquetFile(file).metadata.row_group(0).total_byte_size)
    assert content.count(size) == 1
    file.write_bytes(content.replace(size, varint(1000, len(size))))
    monkeypatch.setattr(plain_files, "MAX_BYTES", 10**6)
    # Its first batch has 4096 words of 1000 bytes; the others are not unpacked.
    with pytest.raises(ValueError, match="is too large: it unpacks to 4[0-9]{6} bytes or more, "
                                         "allowed are 1000000"):
        read_results([file])


@pytest.mark.parametrize("header", [
    # As a number of 64 bits, below zero, of more than 64 bits; a list that is none.
    b"\x15\x00\x16\x02\x15\x02\x00", b"\x15\x00\x15\x01\x15\x02\x00", b"\x15" + b"\xff" * 10,
    b"\x15\x00\x15\x02\x19\x1b\x02\x00",
    # Structs and a list without end.
    b"\x1c" * 3000, b"\x19\xfc\xff\xff\xff\xff\xff\xff\x7f",
])
def test_headers_of_pages_that_no_writer_makes_are_refused(file, header):
    pq.write_table(pa.table({"time": np.zeros(1000)}), file, use_dictionary=False,
                   compression="none")
    content = file.read_bytes()
    place = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset
    file.write_bytes(content[:place] + header + content[place + len(header):])
    with pytest.raises(ValueError, match="is not a readable parquet file: "):
        plain_files.read_plain(file)


def test_statistics_at_which_pyarrow_ends_the_process_are_an_error(file):
    pq.write_table(pa.table({"time": np.zeros(1000)}), file)
    content = file.read_bytes()
    # Of the lists of levels 0 and 1, none and two entries long, the first gets one of the second.
    levels = b"\x29\x06\x19\x26\x00\xd0\x0f\x00"
    assert content.count(levels) == 1
    file.write_bytes(content.replace(levels, b"\x29\x16\x00\x19\x16\xd0\x0f\x00"))
    code = "import sys; from benchmark_dspdc.cli import main; main(['summary', sys.argv[1]])"
    assert f"{file} is not a readable parquet file: " in in_a_process(code, file).stderr


def test_a_file_that_says_too_much_of_itself_is_refused(file):
    table = pa.table({"time": np.zeros(3)})
    pq.write_table(table.replace_schema_metadata({"note": "x" * plain_files.MAX_FOOTER}), file)
    with pytest.raises(ValueError, match="its footer has [0-9]{7} bytes, allowed are 2097152"):
        plain_files.read_plain(file)


def test_words_that_a_file_repeats_are_counted_before_they_are_written_out(file):
    table = pa.Table.from_pandas(runs(curve("SPDC[m=1]", 0.1, points=2000)))
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), ["x" * 10**6])
    pq.write_table(table.append_column("platform", word), file, compression="zstd",
                   dictionary_pagesize_limit=2**30)
    assert file.stat().st_size < 10**6
    with pytest.raises(ValueError, match="is too large: it unpacks to 20.* bytes or more"):
        read_results([file])


def numbered(count, *columns):
    """A frame of so many rows with other names, or numbers, in each."""
    frame = runs(curve("SPDC[m=1]", 0.1, points=count))
    for column in columns:
        frame[column] = [k if column == "idx_rep" else f"A[m={k}]" for k in range(count)]
    return frame


@pytest.mark.parametrize("columns, most, what", [
    (("dataset_name", "solver_name"), 100, "10201 problems times solvers, allowed are 10000"),
    (("objective_name",), 10_000, "10001 problems times solvers, allowed are 10000"),
    (("solver_name",), 200, "201 solvers of one problem, allowed are 200"),
    (("idx_rep",), 1000, "1001 repetitions of one solver, allowed are 1000"),
])
def test_result_files_have_a_largest_number_of_curves(file, capsys, columns, most, what):
    numbered(most, *columns).to_parquet(file)
    assert len(read_results([file])) == most
    numbered(most + 1, *columns).to_parquet(file)
    assert_refused(file, capsys, f"is too large: it has {what}")


def test_result_files_that_are_read_together_count_together(tmp_path):
    frame, parts = numbered(201, "solver_name"), []
    for k, rows in enumerate((frame[:150], frame[100:])):
        parts.append(tmp_path / f"{k}.parquet")
        rows.to_parquet(parts[-1])
        read_results(parts[-1:])
    with pytest.raises(ValueError, match="1.parquet is too large: with those named before it, it "
                                         "has 201 solvers of one problem"):
        read_results(parts)


def test_problems_without_number_are_refused_before_their_pairs_are_made(file, monkeypatch):
    numbered(20_000, "dataset_name", "solver_name").to_parquet(file)
    monkeypatch.setattr(results, "_lacking", None)
    with pytest.raises(ValueError, match="it has 400000000 problems times solvers"):
        read_results([file])


def test_pictures_have_a_largest_size(tmp_path):
    frame = runs(*(
        curve("SPDC[m=1]", 0.1, f"D{k}", points=2) for k in range(figures.MOST_PANELS + 1)
    ))
    with pytest.raises(ValueError, match="too large: the result files have 61 problems, allowed"):
        figures.gap_curves(frame, tmp_path / "gaps.png")


# Nothing is written elsewhere --------------------------------------------------------------

def test_names_of_figures_are_no_paths_and_none_takes_the_place_of_another():
    sources = ("a_b_1", "a/b", "a b", "a\\b", "é", "../../x", "/etc/x", "x" * 900)
    here = [(("MTLMNN", dict(source=name)), {}, None) for name in sources]
    assert [name for name, _, _ in figures._grids_4(here)] == [
        "figure4_a_b_1", "figure4_a_b", "figure4_a_b_2", "figure4_a_b_3", "figure4__",
        "figure4__x", "figure4__etc_x", "figure4_" + "x" * 60,
    ]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(file, tmp_path):
    victim, place = tmp_path / "victim", tmp_path / "out"
    runs(
        curve("DSPDC[m=2000,q=0.2]", 0.1, "MTLMNN[source=../../x]"),
        curve("../../SPDC[m=/etc/x]", 0.1, "MTLMNN[source=../../x]"),
    ).to_parquet(file)
    victim.write_text("as it was")
    place.mkdir()
    names = ("gaps.png", "gaps.svg", "gaps", "report.html", "verdicts.json", "trend.html",
             "figure4__x.png", "figure4__x.svg")
    for name in names:
        (place / name).symlink_to(victim)
    for name in names[:3]:
        assert main(["figure", str(file), "-o", str(place / name)]) == 0
    assert main(["report", str(file), "-o", str(place)]) == 0
    assert main(["trend", str(file), "-o", str(place / "trend.html")]) == 0
    assert victim.read_text() == "as it was"
    # Nothing else is written, in this folder or another.
    assert {*tmp_path.rglob("*")} == {file, victim, place, *(place / name for name in names)}
    assert not any((place / name).is_symlink() for name in names)


@pytest.mark.parametrize("column", ["dataset_name", "objective_name", "solver_name"])
@pytest.mark.parametrize("name, message", [
    ("a\0b", r"the character '\\x00'"), ("\x1b]0;x\x07", r"the character '\\x1b'"),
    ("a\nb", r"the character '\\n'"), ("\u202egnp.exe", r"the character '\\u202e'"),
    ("x" * 1001, "a name of 1001 characters, allowed are 1000"), (None, "a row without a name"),
    (" ", "the empty name ' '"),
])
def test_names_that_a_terminal_would_obey_are_refused(file, column, name, message):
    runs(curve("SPDC[m=1]", 0.1)).assign(**{column: name}).astype({column: "str"}).to_parquet(file)
    with pytest.raises(ValueError, match=f"column {column} has .*{message}|no column {column}"):
        read_results([file])


#: What a terminal would obey: it names a window, and writes in red.
ESCAPES = "objective_\x1b]0;owned\x07\x1b[31mRED\x9b\u202e"


@pytest.mark.parametrize("how", ["column", "two columns", "name", "name of a bad file", "no gap"])
def test_nothing_that_a_terminal_would_obey_is_shown(tmp_path, capsys, how):
    table = pa.Table.from_pandas(runs(curve("SPDC[m=1]", 0.1)))
    pq.write_table(table, tmp_path / "good.parquet")
    name = ESCAPES if how.startswith(("name", "no gap")) else "run"
    file = tmp_path / f"{name}.parquet"
    if how == "no gap":
        nothing = pa.nulls(len(table), pa.float64())
        table = table.drop_columns(GAP).append_column(GAP, nothing)
    for _ in range({"column": 1, "two columns": 2}.get(how, 0)):
        table = table.append_column(ESCAPES, pa.array(["x"] * len(table)))
    pq.write_table(table, file)
    if how == "name of a bad file":
        file.write_bytes(b"no parquet")
    main(["summary", str(file)])
    made = trend.trend_data([tmp_path])
    for text in ("".join(capsys.readouterr()), " ".join(made["runs"] + made["notes"])):
        assert r"\x1b]0;owned\x07\x1b[31mRED\x9b\u202e" in text.replace("\n", "")
        assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_what_pyarrow_quotes_of_a_file_can_be_shown(file, monkeypatch):
    def fails(*given):
        raise pa.ArrowInvalid(f"no column {ESCAPES}")
    runs(curve("SPDC[m=1]", 0.1)).to_parquet(file)
    monkeypatch.setattr(plain_files, "_sizes", fails)
    with pytest.raises(ValueError, match=r"file: no column objective_\\x1b\]0;owned\\x07"):
        read_results([file])


def test_a_file_name_is_no_pattern(tmp_path, capsys):
    file = tmp_path / "[**].parquet"
    runs(curve("SPDC[m=1]", 0.1)).to_parquet(file)
    (tmp_path / "benchmark_[**].html").write_text("")
    print_answer(file, "report.html")
    assert "benchopt's page" in capsys.readouterr().out


def test_notes_of_a_file_on_how_to_read_it_are_not_followed(file):
    frame = runs(curve("SPDC[m=1]", 0.1))
    table = pa.Table.from_pandas(frame)
    notes = json.loads(table.schema.metadata[b"pandas"])
    notes["index_columns"] = ["time"]
    for column in notes["columns"]:
        column["numpy_type"], column["pandas_type"] = "datetime64[ns]", "datetime"
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(notes)}), file)
    pd.testing.assert_series_equal(read_results([file])["time"], frame["time"])


@pytest.mark.parametrize("change, message", [
    (dict(objective_relative_gap=-1.0), "it has a gap of -1, less than zero"),
    (dict(objective_passes=1.7e308), "it has a number of size 1.7e\\+308, allowed is 1e\\+150"),
])
def test_numbers_that_no_run_has_are_refused(change, message, tmp_path):
    runs(curve("SPDC[m=1]", 0.1).assign(**change)).to_parquet(file := tmp_path / "run.parquet")
    with pytest.raises(ValueError, match=message):
        results.read_results([file])

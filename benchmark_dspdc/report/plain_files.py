"""Reading result files that may come from anyone.

A result file is data, never code. Only columns of numbers, words and truth values are read;
benchopt keeps anything else as pickles in binary columns, and those are not even looked at.
What a file says that it unpacks to is checked before anything is read. As a file may lie, it is
read in batches, and no further than to the limit. Names are held to what this benchmark writes.
"""

import contextlib
import os
import unicodedata
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

#: Rows times columns of a file at most, 800 MB of numbers. The files of `make figures` have some
#: 10^6, those of a night 10^7.
MAX_CELLS = 10**8

#: Bytes that a file may unpack to.
MAX_BYTES = 2**30

#: Rows that are unpacked at a time. A file that lies takes what they unpack to before it is
#: refused; more of them would hardly be faster.
BATCH = 4096

#: Bytes of what a file says of itself, which takes up to 160 times as much memory. The files of
#: `make figures` have some 10^4.
MAX_FOOTER = 2**21

#: Characters of a name. Those of this benchmark have fewer than 300; a longer one would be a
#: picture of any width where it is a title.
MAX_NAME = 1000

#: Categories of characters that no name has: control characters, which a terminal would obey, and
#: those that change the order in which text is shown.
UNSHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def read_plain(file):
    """The columns of a parquet file that hold numbers, words and truth values, as a DataFrame.

    A ValueError says if it is not a parquet file, is damaged, has two columns of one name, or is
    larger than `MAX_FOOTER`, `MAX_CELLS` or `MAX_BYTES` allow.
    """
    with _readable(file):
        with open(file, "rb") as stream:
            stream.seek(-8, os.SEEK_END)
            length, magic = int.from_bytes(stream.read(4), "little"), stream.read(4)
        if magic != b"PAR1":
            raise ValueError("it does not end as parquet files do")
        if length > MAX_FOOTER:
            raise ValueError(f"its footer has {length} bytes, allowed are {MAX_FOOTER}")
        with _opened(file) as parquet:
            fields, sizes = list(parquet.schema_arrow), _sizes(parquet.metadata)
    (name, count), = Counter(field.name for field in fields).most_common(1) or [("", 0)]
    if count > 1:
        raise ValueError(f"{file} is not a result of this benchmark: {count} columns are {name!r}")
    for what, given, most in zip(("cells", "bytes"), sizes, (MAX_CELLS, MAX_BYTES), strict=True):
        if given > most:
            raise ValueError(f"{file} is too large: it says that it has {given} {what}, allowed "
                             f"are {most}")
    words = [field.name for field in fields if _is_words(field.type)]
    plain = [field.name for field in fields if _is_words(field.type) or _is_number(field.type)]
    batches, total = [], 0
    # As dictionaries, in which a word that every row repeats is there once.
    with _readable(file), _opened(file, read_dictionary=words) as parquet:
        schema = pa.schema([parquet.schema_arrow.field(name) for name in plain])
        for batch in parquet.iter_batches(BATCH, columns=plain, use_threads=False):
            batches.append(batch.select(plain))
            batches[-1].validate(full=True)
            total += sum(map(_length, batches[-1].columns))
            if total > MAX_BYTES:
                break
    if total > MAX_BYTES:
        raise ValueError(f"{file} is too large: it unpacks to {total} bytes or more, allowed are "
                         f"{MAX_BYTES}")
    table = pa.Table.from_batches(batches, schema)
    for k, name in enumerate(plain):
        if name in words:
            table = table.set_column(k, name, table[name].cast(pa.large_string()))
    # The file's own notes on how to make a frame of it are not followed.
    return table.to_pandas(ignore_metadata=True)


def check_names(names, column, file):
    """Raise unless all are names that can be shown: on a terminal, over a panel, on the page."""
    for name in names:
        if not isinstance(name, str):
            wrong = "a row without a name"
        elif not name.strip():
            wrong = f"the empty name {name!r}"
        elif len(name) > MAX_NAME:
            wrong = f"a name of {len(name)} characters, allowed are {MAX_NAME}"
        elif unshown := unshown_in(name):
            wrong = f"a name with the character {unshown!a}, allowed are those that can be seen"
        else:
            continue
        raise ValueError(f"{file} is not a result of this benchmark: column {column} has {wrong}")


def unshown_in(name):
    """The first character that no name has; "" if there is none."""
    return next((c for c in name if unicodedata.category(c) in UNSHOWN), "")


def shown(text):
    """The text with every character that no name has as its escape, so that it can be printed."""
    return "".join(ascii(c)[1:-1] if unshown_in(c) else c for c in text)


@contextlib.contextmanager
def _readable(file):
    """Whatever goes wrong inside is wrong with the file."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{file} is not a readable parquet file: {reason}") from None


def _opened(file, **options):
    """A file for pyarrow to read, with limits on lists and words in its footer and its pages."""
    return pq.ParquetFile(
        file, thrift_string_size_limit=MAX_FOOTER, thrift_container_size_limit=MAX_FOOTER,
        **options,
    )


def _sizes(metadata):
    """Cells, and bytes unpacked, that a file says it has.

    Columns are not asked for: where their statistics are damaged pyarrow ends the process.
    """
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    return rows * max(metadata.num_columns, 1), sum(group.total_byte_size for group in groups)


def _is_words(kind):
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind):
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _length(column):
    """Bytes of a column, if each of its words were written out."""
    if not pa.types.is_dictionary(column.type) or not len(column.dictionary):
        return column.nbytes
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(column.indices)).as_py() or 0

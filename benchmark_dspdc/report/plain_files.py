"""Reading result files that may come from anyone.

A result file is data, never code. Only columns of numbers, words and truth values are read;
benchopt keeps anything else as pickles in binary columns, and those are not even looked at.
What a file unpacks to is checked before anything is read, so that a small file cannot claim all
memory, and names are held to what this benchmark writes.
"""

import io
import os
import unicodedata
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .thrift import INT32, INT64, LIST, STRUCT, read_struct

#: Rows times columns of a file at most, 800 MB of numbers. The files of `make figures` have some
#: 10^6, those of a night 10^7.
MAX_CELLS = 10**8

#: Bytes that the pages of a file may unpack to, and bytes of all its words. Reading takes some
#: three times as much, measured with three words of 110 MiB in November 2026.
MAX_BYTES = 2**30

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
    """The columns of a parquet file that hold numbers, words and truth values.

    Parameters
    ----------
    file : path

    Returns
    -------
    DataFrame

    Raises
    ------
    ValueError
        If it is not a parquet file, is damaged, has two columns of one name, or is larger than
        `MAX_CELLS` or `MAX_BYTES` allow.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            fields = list(parquet.schema_arrow)
            columns = parquet.metadata.num_columns
        footer = _footer(file)
        sizes = _cells(footer, columns), _unpacked(file, footer)
    except Exception as error:
        raise _unreadable(file, error) from None
    names = [field.name for field in fields]
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(
                f"{file} is not a result of this benchmark: {count} columns are {name!r}"
            )
    for what, given, most in zip(("cells", "bytes"), sizes, (MAX_CELLS, MAX_BYTES), strict=True):
        if given > most:
            raise ValueError(
                f"{file} is too large: it says that it has {given} {what}, allowed are {most}"
            )
    words = [field.name for field in fields if _is_words(field.type)]
    plain = [field.name for field in fields if _is_words(field.type) or _is_number(field.type)]
    try:
        # As dictionaries, in which a word that every row repeats is there once.
        with pq.ParquetFile(file, read_dictionary=words) as parquet:
            table = parquet.read(columns=plain, use_threads=False).select(plain)
        table.validate(full=True)
        length = sum(map(_length, (table[name] for name in words)))
    except Exception as error:
        raise _unreadable(file, error) from None
    if length > MAX_BYTES:
        raise ValueError(
            f"{file} is too large: its words have {length} bytes, allowed are {MAX_BYTES}"
        )
    for k, name in enumerate(plain):
        if _is_words(table[name].type):
            table = table.set_column(k, name, table[name].cast(pa.large_string()))
    # The file's own notes on how to make a frame of it are not followed.
    return table.to_pandas(ignore_metadata=True)


def check_names(names, column, file):
    """Raise unless all are names that can be shown: on a terminal, over a panel, on the page."""
    for name in names:
        if not isinstance(name, str):
            raise ValueError(
                f"{file} is not a result of this benchmark: column {column} has a row without a "
                "name"
            )
        if not name.strip():
            raise ValueError(
                f"{file} is not a result of this benchmark: column {column} has the empty name "
                f"{name!r}"
            )
        if len(name) > MAX_NAME:
            raise ValueError(
                f"{file} is not a result of this benchmark: column {column} has a name of "
                f"{len(name)} characters, allowed are {MAX_NAME}"
            )
        if unshown := unshown_in(name):
            raise ValueError(
                f"{file} is not a result of this benchmark: column {column} has a name with "
                f"the character {unshown!a}, allowed are those that can be seen"
            )


def unshown_in(name):
    """The first character that no name has; "" if there is none."""
    return next((c for c in name if unicodedata.category(c) in UNSHOWN), "")


def shown(text):
    """The text with every character that no name has as its escape, so that it can be printed."""
    return "".join(ascii(c)[1:-1] if unshown_in(c) else c for c in text)


def _footer(file):
    """What a file says of itself, a `Struct`."""
    with open(file, "rb") as stream:
        stream.seek(-8, os.SEEK_END)
        length = int.from_bytes(stream.read(4), "little")
        if length > MAX_FOOTER:
            raise ValueError(f"its footer has {length} bytes, allowed are {MAX_FOOTER}")
        stream.seek(-8 - length, os.SEEK_END)
        return read_struct(io.BytesIO(stream.read(length)))


def _groups(footer):
    return footer.get((4, LIST), [])


def _rows(group):
    return group[3, INT64]


def _cells(footer, columns):
    """Cells that a file says it has; pyarrow reads no more."""
    return max(footer[3, INT64], sum(map(_rows, _groups(footer)))) * max(columns, 1)


def _unpacked(file, footer):
    """Bytes that the pages of a file unpack to.

    The sizes in the file's footer bind nobody. Those in the headers of its pages do: pyarrow
    unpacks a page into as much memory as its header says, and refuses one that does not fit.
    """
    if not any(map(_rows, _groups(footer))):
        # Columns without rows have no pages, and none is looked for.
        return 0
    chunks = [chunk[3, STRUCT] for group in _groups(footer) for chunk in group[1, LIST]]
    if sum(max(chunk[7, INT64], 0) for chunk in chunks) > Path(file).stat().st_size:
        raise ValueError("columns lie over each other")
    total = 0
    with open(file, "rb") as stream:
        for chunk in chunks:
            # As pyarrow goes through them: from the dictionary on, if there is one.
            size, place, dictionary = chunk[7, INT64], chunk[9, INT64], chunk.get((11, INT64), 0)
            if dictionary:
                place = min(place, dictionary)
            end = place + size
            while place < end:
                stream.seek(place)
                header = read_struct(stream)
                unpacked, packed = header.get((2, INT32), -1), header.get((3, INT32), -1)
                if min(unpacked, packed) < 0:
                    raise ValueError("a page has no size")
                total += unpacked
                place = stream.tell() + packed
    return total


def _is_words(kind):
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind):
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _length(column):
    """Bytes of a column of words, if each were written out."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary) if len(chunk.dictionary) else None
        if lengths is not None:
            total += pc.sum(lengths.cast(pa.int64()).take(chunk.indices)).as_py() or 0
    return total


def _unreadable(file, error):
    reason = " ".join(str(error).split())
    return ValueError(f"{file} is not a readable parquet file: {reason}")

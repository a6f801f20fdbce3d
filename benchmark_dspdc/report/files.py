"""Reading result files that may come from anyone.

A result file is data, never code. Only columns of numbers, words and truth values are read;
benchopt keeps anything else as pickles in binary columns, and those are not even looked at.
What a file unpacks to is checked before anything is read, so that a small file cannot claim all
memory, and names are held to what this benchmark writes.
"""

import unicodedata
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

#: Rows times columns of a file at most, 800 MB of numbers. The files of `make figures` have some
#: 10^6, those of a night 10^7.
MAX_CELLS = 10**8

#: Bytes that the pages of a file may unpack to, and bytes of all its words. Reading takes some
#: three times as much, measured with three words of 110 MiB in November 2026.
MAX_BYTES = 2**30

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
            sizes = _cells(parquet.metadata), _unpacked(file, parquet.metadata)
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


def _groups(metadata):
    return [metadata.row_group(k) for k in range(metadata.num_row_groups)]


def _cells(metadata):
    """Cells that a file says it has; pyarrow reads no more."""
    rows = max(metadata.num_rows, sum(group.num_rows for group in _groups(metadata)))
    return rows * max(metadata.num_columns, 1)


def _unpacked(file, metadata):
    """Bytes that the pages of a file unpack to.

    The sizes in the file's footer bind nobody. Those in the headers of its pages do: pyarrow
    unpacks a page into as much memory as its header says, and refuses one that does not fit.
    """
    if not any(group.num_rows for group in _groups(metadata)):
        # Columns without rows have no pages, and none is looked for.
        return 0
    chunks = [group.column(k) for group in _groups(metadata) for k in range(group.num_columns)]
    stored = sum(max(chunk.total_compressed_size, 0) for chunk in chunks)
    if stored > Path(file).stat().st_size:
        raise ValueError("columns lie over each other")
    total = 0
    with open(file, "rb") as stream:
        for chunk in chunks:
            # As pyarrow goes through them.
            place = chunk.data_page_offset
            if chunk.dictionary_page_offset:
                place = min(place, chunk.dictionary_page_offset)
            end = place + chunk.total_compressed_size
            while place < end:
                stream.seek(place)
                header = _numbers_of_struct(stream)
                unpacked, packed = header.get(2, -1), header.get(3, -1)
                if min(unpacked, packed) < 0:
                    raise ValueError("a page has no size")
                total += unpacked
                place = stream.tell() + packed
    return total


def _numbers_of_struct(stream):
    """The 32-bit numbers of a struct in Thrift's compact protocol, by the ids of their fields.

    Of the protocol only what headers of pages need; the rest is refused, so that nothing is
    understood otherwise than by pyarrow.
    """
    found, field = {}, 0
    while head := stream.read(1)[0]:
        step, kind = divmod(head, 16)
        field += step
        if step == 0 or kind not in _SKIP:
            raise ValueError("a page has an unknown header")
        value = _SKIP[kind](stream)
        if kind == _INT32:
            if value >= 2**32:
                raise ValueError("a page has a size of more than 32 bits")
            # Signs are in the last bit.
            found[field] = value >> 1 ^ -(value & 1)
    return found


def _varint(stream):
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a page has a number of more than 64 bits")


_INT32 = 5

#: What reads a field of each kind: truth values, which the kind tells, bytes, integers, floats,
#: words and structs.
_SKIP = {
    1: lambda stream: None, 2: lambda stream: None, 3: lambda stream: stream.read(1),
    4: _varint, _INT32: _varint, 6: _varint, 7: lambda stream: stream.read(8),
    8: lambda stream: stream.seek(_varint(stream), 1), 12: _numbers_of_struct,
}


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

"""Structs in Thrift's compact protocol, which Parquet files tell of themselves in.

pyarrow gives the places of columns only together with their statistics, and where some of those
are damaged it ends the process. So the few numbers that must be known before a file is read are
taken from its bytes. What the protocol allows and no writer of Parquet files does is refused, so
that nothing is understood otherwise than by pyarrow.
"""

#: Kinds of values.
TRUE, FALSE, BYTE, INT16, INT32, INT64, DOUBLE, WORDS, LIST, SET, MAP, STRUCT = range(1, 13)

_BITS = {INT16: 16, INT32: 32, INT64: 64}

#: Truth values have a byte in lists; the kind of a field tells them.
_BYTES = {TRUE: 1, FALSE: 1, BYTE: 1, DOUBLE: 8}

#: Structs and lists within each other. In Parquet there are at most six.
DEEPEST = 20

#: Fields of Parquet's structs have numbers up to 16. Those of other readers have 16 bits, and
#: begin anew behind them.
LAST_FIELD = 1000


class Struct(dict):
    """Values by number and kind of their fields; those of other kinds than expected are not there.

    Integers are ints, lists lists and structs Structs. Anything else is None.
    """

    def __missing__(self, key):
        raise ValueError(f"a struct lacks its field {key[0]}")


def read_struct(stream, depth=0):
    """The `Struct` that begins here; the stream stands behind it then."""
    if depth > DEEPEST:
        raise ValueError("structs lie too deep in each other")
    found, field = Struct(), 0
    while head := _byte(stream):
        step, kind = divmod(head, 16)
        field += step
        if step == 0 or field > LAST_FIELD:
            raise ValueError("a struct has a field that Parquet does not know")
        found[field, kind] = (
            None if kind in (TRUE, FALSE) else _value(stream, kind, depth + 1)
        )
    return found


def _value(stream, kind, depth):
    if kind in _BITS:
        value = _varint(stream)
        if value >> _BITS[kind]:
            raise ValueError(f"a number has more than {_BITS[kind]} bits")
        # Signs are in the last bit.
        return value >> 1 ^ -(value & 1)
    if kind in _BYTES:
        return _pass_over(stream, _BYTES[kind])
    if kind == WORDS:
        return _pass_over(stream, _varint(stream))
    if kind == LIST:
        return _list(stream, depth)
    if kind == STRUCT:
        return read_struct(stream, depth)
    raise ValueError("a struct has a value of a kind that Parquet does not have")


def _list(stream, depth):
    if depth > DEEPEST:
        raise ValueError("structs lie too deep in each other")
    count, kind = divmod(_byte(stream), 16)
    if count == 15:
        count = _varint(stream)
    if kind in _BYTES:
        return _pass_over(stream, count * _BYTES[kind])
    # Of each a byte is read at least, so that a file ends before a claim without end does.
    return [_value(stream, kind, depth + 1) for _ in range(count)]


def _pass_over(stream, count):
    if count >= 2**31:
        raise ValueError("a struct has no end")
    stream.seek(count, 1)


def _varint(stream):
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a number has more than 64 bits")


def _byte(stream):
    byte = stream.read(1)
    if not byte:
        raise ValueError("a struct has no end")
    return byte[0]

"""LIBSVM text: scikit-learn's reader, with limits on what a file may take."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import warnings
import zlib

from rich.progress import wrap_file

from ..engine.checks import as_array, as_matrix

# A compressed file may unpack to this many times what was read of it so far, and this many bytes
# more: LIBSVM text shrinks to a tenth or so, a decompression bomb to a thousandth and less.
MAX_RATIO = 100
RATIO_SLACK = 2**24

# Of the text if the user gives no other limit; the largest LIBSVM sets have some tens of them.
MAX_TEXT_BYTES = 64 * 2**30

# Room for five million entries in a row; bounds the memory that a file without line ends takes.
MAX_LINE_BYTES = 2**26

#: How a compressed file begins, and what unpacks it.
OPENERS = {b"BZh": bz2.open, b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}


def read_text(path, max_bytes=None, progress=False):
    """Read a LIBSVM-format file: a CSR array X and labels y.

    The file is plain text, or compressed with bzip2, gzip or xz; its first bytes decide, not its
    name. `max_bytes` is the largest accepted size of the text, in the place of the limits above.
    X is as wide as the largest index, which counts from one unless there is an index zero. If the
    file cannot be read so, a ValueError begins with its path.
    """
    if not os.path.isfile(path):
        what = "not a regular file" if os.path.exists(path) else "there is no such file"
        raise ValueError(f"{path}: {what}; allowed is a file in LIBSVM format.")
    with open(path, "rb") as file, contextlib.ExitStack() as shown:
        opener = next((OPENERS[m] for m in OPENERS if file.peek().startswith(m)), None)
        stream = file if not progress else shown.enter_context(wrap_file(
            file, os.path.getsize(path), description=f"reading {os.path.basename(path)}"
        ))
        # Lines of a buffer are read faster than those of what unpacks.
        text = io.BufferedReader(opener(stream), 2**16) if opener else stream
        try:
            return _parse(_Lines(text, file, max_bytes))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


class _TooMuch(ValueError):
    """There is more of a file than may be read."""


class _Lines:
    """The lines of a text, counted and limited, for scikit-learn's reader to iterate over."""

    def __init__(self, stream, file, max_bytes):
        self.stream, self.file, self.max_bytes = stream, file, max_bytes
        self.read = stream.read  # scikit-learn knows a file by it
        self.number, self.line = 0, b""

    def __iter__(self):
        size, rule, allowed = 0, "max_bytes", self.max_bytes or 0
        while line := self.stream.readline(MAX_LINE_BYTES + 1):
            self.number, self.line, size = self.number + 1, line, size + len(line)
            if size > allowed and self.max_bytes is None:
                allowed = min(MAX_RATIO * self.file.tell() + RATIO_SLACK, MAX_TEXT_BYTES)
                rule = f"default, {MAX_RATIO} times as many and {RATIO_SLACK} (see max_bytes),"
            if size > allowed:
                raise _TooMuch(
                    f"the file unpacks to too much: got {size} bytes from the first "
                    f"{self.file.tell()}, allowed by {rule} are {allowed}."
                )
            if len(line) > MAX_LINE_BYTES:
                raise _TooMuch(f"line {self.number} is too long: got more than {MAX_LINE_BYTES} "
                               "bytes, allowed are as many.")
            yield line


def _parse(lines):
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(lines)
    except _TooMuch:
        raise
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(
            f"the data is damaged or cut off after line {lines.number}: got {error}; allowed is a "
            "complete file, plain or compressed with bzip2, gzip or xz."
        ) from error
    except (ValueError, OverflowError) as error:
        start = lines.line[:60].decode("latin-1").rstrip("\r\n")
        reason = "an entry without a colon" if "unpack" in str(error) else error
        raise ValueError(
            f"line {lines.number} is not in LIBSVM format: got {start!r} ({reason}); allowed are "
            "lines 'label index:value index:value ...' with one label and increasing indices, "
            "plain or compressed with bzip2, gzip or xz."
        ) from error
    if X.nnz == 0:
        raise ValueError(
            f"there are no data: got {len(y)} labels without a single index:value, allowed are "
            "lines 'label index:value index:value ...'."
        )
    if not lines.line.endswith(b"\n"):
        warnings.warn(
            "the last line has no line end; if the file was cut off, its last number may be "
            "wrong.", stacklevel=4,
        )
    return as_matrix(X, "X"), as_array(y, "y", 1)

"""Read CSV, plain or gzipped, as text; cells are converted later, where their rows can be named."""

import codecs
import contextlib
import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from cotempo.data.problems import Problems, quote

BLOCK = 1 << 24
LONGEST_HEADER = 1 << 20
NOT_UTF8 = "a CSV file must be UTF-8 text; save it again as UTF-8"


class LimitError(Exception):
    """A file expands beyond the bytes it may take."""


STREAM_ERRORS = (OSError, EOFError, zlib.error, LimitError, pa.ArrowException)


class CappedStream(io.RawIOBase):
    """A stream that stops as soon as more than `limit` bytes have come out of it.

    A few kilobytes of gzip can expand to gigabytes, so that bytes are counted while they are decompressed.
    """

    def __init__(self, stream: BinaryIO | gzip.GzipFile, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def readable(self) -> bool:
        """Return True: this stream is for reading."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, counting."""
        part = self._stream.read(min(len(buffer), BLOCK))
        self._left -= len(part)
        if self._left < 0:
            raise LimitError
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Close the stream underneath, too."""
        self._stream.close()
        super().close()


def open_capped(path: Path, limit: int) -> BinaryIO:
    """Return a CSV's decompressed bytes as a stream of at most `limit` bytes."""
    zipped = path.name.lower().endswith(".gz")
    raw: BinaryIO | gzip.GzipFile = gzip.GzipFile(path, "rb") if zipped else path.open("rb")
    return io.BufferedReader(CappedStream(raw, limit), BLOCK)


def read_header(path: Path, limit: int, client: str | None, problems: Problems) -> list[str]:
    """Return the names in the first row; empty, with a problem noted, where there is none."""
    try:
        with open_capped(path, limit) as stream:
            # Bytes further down that are not UTF-8 are looked for later, where their row can be named.
            head = stream.read(LONGEST_HEADER).decode("utf-8-sig", errors="replace")
        names = next(csv.reader(io.StringIO(head, newline="")), [])
    except (*STREAM_ERRORS, csv.Error) as error:
        problems.add(_reason(path, limit, error), client=client)
        return []
    if any("\N{REPLACEMENT CHARACTER}" in name for name in names):
        problems.add(NOT_UTF8, client=client, row=1)
        return []
    if not names:
        problems.add("a CSV file must begin with a row of column names; this one is empty", client=client)
    return names


def read_csv(path: Path, limit: int, client: str | None, problems: Problems) -> pa.Table | None:
    """Return a CSV as a table of text, or None with every problem noted."""
    names = read_header(path, limit, client, problems)
    if not names:
        return None
    try:
        with open_capped(path, limit) as stream:
            return _parse(stream, names)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # a header without a line end
            return pa.table([pa.array([], pa.string())] * len(names), names=names)
        _explain(path, limit, names, client, problems, error)
    except STREAM_ERRORS as error:
        problems.add(_reason(path, limit, error), client=client)
    return None


def _parse(stream: BinaryIO, names: list[str], handler: object = None) -> pa.Table:
    # Rows are numbered by one thread only; Latin-1 reads any bytes, so that ragged rows are found whatever they hold.
    encoding = "utf-8" if handler is None else "latin-1"
    return arrow_csv.read_csv(
        stream,
        read_options=arrow_csv.ReadOptions(block_size=BLOCK, use_threads=handler is None, encoding=encoding),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=handler),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


def _explain(
    path: Path, limit: int, names: list[str], client: str | None, problems: Problems, error: Exception
) -> None:
    """Note every ragged row and the first that is not UTF-8; where neither is at fault, what Arrow said."""
    ragged: list[tuple[int, int]] = []

    def note(row: arrow_csv.InvalidRow) -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    # The parser stops at the same fault as before, but this time the ragged rows it passed are known.
    with open_capped(path, limit) as stream, contextlib.suppress(*STREAM_ERRORS):
        _parse(stream, names, note)
    for number, cells in ragged:
        problems.add(f"every row must have {len(names)} cells like the header, got {cells}", client=client, row=number)
    line = _line_not_utf8(path, limit)
    if line is not None:
        problems.add(NOT_UTF8, client=client, row=line)
    if not ragged and line is None:
        problems.add(_reason(path, limit, error), client=client)


def _line_not_utf8(path: Path, limit: int) -> int | None:
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with open_capped(path, limit) as stream, contextlib.suppress(*STREAM_ERRORS):
        while block := stream.read(BLOCK):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n")
            line += block.count(b"\n")
    return None


def _reason(path: Path, limit: int, error: Exception) -> str:
    name = quote(path.name)
    if isinstance(error, LimitError):
        return f"{name} must not expand beyond {limit:,} bytes; split it, or raise limit="
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return f"{name} must be a complete gzip file, but it is damaged or cut short; compress it again"
    return f"{name} must be a readable CSV file: {str(error)[:200]}"

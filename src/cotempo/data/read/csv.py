"""Read CSV, plain or gzipped, as text; cells are converted later, where their rows can be named."""

import codecs
import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from cotempo.data.problems import quote
from cotempo.data.read.decimals import guess_commas
from cotempo.errors import DataError, Problem

BLOCK = 1 << 24
SEPARATORS = (",", ";", "\t", "|")
LONGEST_HEADER = 1 << 20
NOT_UTF8 = "a CSV file must be UTF-8 text; save it again as UTF-8"
WINDOWS, UTF16 = "cp1252", "utf-16"
READ_AS = {WINDOWS: f"{WINDOWS} (Windows, Western Europe)", UTF16: "UTF-16"}
NOT_ASCII = re.compile(rb"[\x80-\xff]")
# A zero or a byte that this encoding leaves open; a letter of two, three or four bytes in UTF-8.
NOT_WINDOWS = re.compile(
    rb"[\x00\x81\x8d\x8f\x90\x9d]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
STREAM_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)


def too_large(path: Path, limit: int) -> DataError:
    """Return the error of a file that expands beyond the bytes it may take."""
    must = f"{quote(path.name)} must not expand beyond {limit:,} bytes"
    return DataError(f"{must}; split it, decompress it first, or raise limit=")


MOST_EXPANSION, ALWAYS_ALLOWED = 100, 1 << 26  # tables of numbers expand about fivefold


class CappedGzip(gzip.GzipFile):
    """A gzip file that expands to `limit` bytes at most, and about a hundredfold: kilobytes can hold gigabytes."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(path, "rb")
        self._path, self._limit = path, min(limit, max(ALWAYS_ALLOWED, MOST_EXPANSION * path.stat().st_size))

    def read(self, size: int | None = -1) -> bytes:
        """Read, counting what comes out."""
        part = super().read(size)
        if self.tell() > self._limit:
            raise too_large(self._path, self._limit)
        return part


def _open(path: Path, limit: int) -> BinaryIO | CappedGzip:
    return CappedGzip(path, limit) if path.name.lower().endswith(".gz") else path.open("rb")


def _native(path: Path, limit: int) -> pa.NativeFile:
    """Open a file for Arrow without Python's file objects.

    Arrow's threads let go of those a little after reading has ended. If the interpreter is exiting by then, they cannot
    take its lock, and the process aborts ("terminate called without an active exception").
    """
    if not path.name.lower().endswith(".gz"):
        return pa.OSFile(str(path))
    expanded = pa.BufferOutputStream()
    with _open(path, limit) as stream:
        while block := stream.read(BLOCK):
            expanded.write(block)
    return pa.BufferReader(expanded.getvalue())


def read_header(path: Path, limit: int) -> tuple[list[str], str, str]:
    """Return the names in the first row, what separates them (the sign that gives most names), and the encoding."""
    try:
        with _open(path, limit) as stream:
            # Bytes further down that are not UTF-8 are looked for later, where their row can be named.
            start = stream.read(LONGEST_HEADER)
            encoding = WINDOWS if is_windows(start) else "utf-8"
            encoding = UTF16 if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else encoding
            head = start.decode(encoding, errors="replace").removeprefix("\ufeff")
        rows = {sign: next(csv.reader(io.StringIO(head, newline=""), delimiter=sign), []) for sign in SEPARATORS}
        separator = max(SEPARATORS, key=lambda sign: len(rows[sign]))
        names = rows[separator]
    except (*STREAM_ERRORS, csv.Error) as error:
        raise DataError(_reason(path, error)) from error
    if any("\N{REPLACEMENT CHARACTER}" in name for name in names):
        raise DataError([Problem(NOT_UTF8, row=1)])
    if not names:
        raise DataError(f"a CSV file must begin with a row of column names; {quote(path.name)} is empty")
    return names, separator, encoding


def read_csv(path: Path, limit: int, missing: Sequence[str | float] = (), decimal: str = "") -> tuple[pa.Table, str]:
    """Return a CSV as a table of text, and what was guessed of its signs, or raise with every problem of its rows.

    `missing` are further signs for a missing value; without `decimal`, the sign before decimals is guessed.
    """
    names, separator, encoding = read_header(path, limit)
    if encoding == WINDOWS and not is_windows(_bytes(path, limit)):
        raise DataError(_explain(path, limit, names, separator) or NOT_UTF8)
    try:
        with _native(path, limit) as stream:
            table = _parse(stream, names, separator, encoding=encoding)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):  # a header without a line end
            return pa.table([pa.array([], pa.string())] * len(names), names=names), ""
        problems = _explain(path, limit, names, separator) if encoding != UTF16 else []
        if [problem.must for problem in problems] != [NOT_UTF8] or not is_windows(_bytes(path, limit)):
            raise DataError(problems or _reason(path, error)) from error
        with _native(path, limit) as stream:
            table = _parse(stream, names, separator, encoding=(encoding := WINDOWS))
    except (*STREAM_ERRORS, UnicodeError) as error:
        raise DataError(_reason(path, error)) from error
    guessed = f"not UTF-8, read as {READ_AS[encoding]}" if encoding in READ_AS else ""
    if separator == ",":
        return table, guessed
    if separator != "\t" or not path.name.lower().endswith((".tsv", ".tsv.gz")):
        guessed += "; " * bool(guessed) + f"cells are separated by {separator!r}"
    if decimal:
        return table, guessed
    places = {str(place): column for place, column in enumerate(table.columns)}  # names may not differ yet
    columns, commas = guess_commas(places, separator, missing)
    return pa.table([*columns.values()], names=names), guessed + commas


def is_windows(text: bytes) -> bool:
    """Return whether bytes are text of Windows in Western Europe, and hold no letter as UTF-8 writes it.

    The last tells it from UTF-8 with a damaged byte; other encodings of single bytes look the same.
    """
    return bool(NOT_ASCII.search(text)) and not NOT_WINDOWS.search(text)


def _bytes(path: Path, limit: int) -> bytes:
    with _open(path, limit) as stream:
        return stream.read()


def _parse(
    stream: pa.NativeFile, names: list[str], separator: str, handler: object = None, encoding: str = "utf-8"
) -> pa.Table:
    return arrow_csv.read_csv(
        stream,
        read_options=arrow_csv.ReadOptions(block_size=BLOCK, use_threads=encoding == "utf-8", encoding=encoding),
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=handler),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


def _explain(path: Path, limit: int, names: list[str], separator: str) -> list[Problem]:
    """Return every ragged row and the first that is not UTF-8."""
    ragged: list[Problem] = []

    def note(row: arrow_csv.InvalidRow) -> str:
        must = f"every row must have {len(names)} cells like the header, got {row.actual_columns}"
        must += " (is there a line break in a cell without quotes?)" if row.actual_columns < len(names) else ""
        ragged.append(Problem(must, row=row.number))
        return "skip"

    # The parser stops at the same fault as before, but this time the ragged rows it passed are known.
    with contextlib.suppress(DataError, *STREAM_ERRORS), _native(path, limit) as stream:
        # Rows are numbered by one thread only; Latin-1 reads any bytes, so that ragged rows are found anyway.
        _parse(stream, names, separator, note, "latin-1")
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with _open(path, limit) as stream, contextlib.suppress(DataError, *STREAM_ERRORS):
        while block := stream.read(BLOCK):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return [*ragged, Problem(NOT_UTF8, row=line + error.object[: error.start].count(b"\n"))]
            line += block.count(b"\n")
    return ragged


def _reason(path: Path, error: Exception) -> str:
    name = quote(path.name)
    if isinstance(error, csv.Error) and "field larger" in str(error):
        return f"{name} must have names of columns of at most {csv.field_size_limit():,} letters"
    if isinstance(error, pa.ArrowInvalid) and "straddling" in str(error):
        return f"{name} must have rows of at most {BLOCK:,} bytes; is there a quotation mark that is never closed?"
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return f"{name} must be a complete gzip file, but it is damaged or cut short; compress it again"
    return f"{name} must be a readable CSV file: {str(error)[:200]}"

"""From a path or a dataframe to sheets: columns with known row numbers, one sheet per file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from cotempo.data.problems import Report, duplicates, name_problem, shown
from cotempo.data.read.csv import read_csv, read_header
from cotempo.data.read.parquet import parquet_names, read_parquet
from cotempo.errors import DataError, nearest

SUFFIXES = (".csv", ".csv.gz", ".parquet")
LIMIT = 8 * 1024**3
CSV_FIRST_ROW = 2


@dataclass(frozen=True)
class Sheet:
    """The columns of one file or dataframe.

    Attributes
    ----------
    columns
        Columns by name, all of the same length.
    rows
        The number of rows.
    first_row
        The number a person gives the first row: 2 in a CSV (the header is row 1, blank lines do not count), else 0.
    client
        The client whose rows these are, where no column says so.
    alone
        True for a file in a folder: all its rows belong to the client it is named after.
    """

    columns: dict[str, pa.ChunkedArray]
    rows: int
    first_row: int
    client: str
    alone: bool = False

    def require(self, name: str, report: Report) -> bool:
        """Return whether a column is there; note a problem, with the nearest name, when it is not."""
        if name in self.columns:
            return True
        given = ", ".join(shown(column) for column in list(self.columns)[:10])
        must = f"a column {name!r} must be there{nearest(name, self.columns)}; the columns are: {given}"
        report.add(must, client=self.client if self.alone else None, column=name)
        return False


def load(source: Any, report: Report, limit: int = LIMIT) -> list[Sheet]:
    """Return the sheets of a path, a folder or a dataframe; what cannot be read is noted and left out."""
    if not isinstance(source, str | os.PathLike):
        return _from_dataframe(source, report)
    path = Path(source)
    try:
        if path.is_dir():
            sheets = [_from_file(file, limit, report, alone=True) for file in client_files(path, report)]
        elif path.is_file():
            sheets = [_from_file(path, limit, report, alone=False)]
        else:
            raise DataError(_nothing_at(path))
    except OSError as error:
        raise DataError(f"a source must be readable, {shown(str(path))} is not: {error.strerror}") from error
    return [sheet for sheet in sheets if sheet is not None]


def agree_on_time(stamped: dict[str, bool], report: Report) -> None:
    """Note the files that hold timestamps where others hold plain numbers."""
    if len(set(stamped.values())) > 1:
        first = next(name for name, stamp in stamped.items() if not stamp)
        for name in (name for name, stamp in stamped.items() if stamp):
            must = f"must be plain numbers or timestamps at all clients; {first!r} has numbers, this one timestamps"
            report.add(must, client=name, column="time")


def refuse_no_rows(sheet: Sheet, report: Report) -> bool:
    """Note a sheet without rows; return whether it has none."""
    if sheet.rows == 0:
        report.add("a table must have at least one row", client=sheet.client if sheet.alone else None)
    return sheet.rows == 0


def column_names(source: Any) -> list[str]:
    """Return the names of the columns of a source, reading no rows; of a folder, those of its first file."""
    report = Report()
    names: list[str] = []
    if not isinstance(source, str | os.PathLike):
        names = [name for sheet in _from_dataframe(source, report) for name in sheet.columns]
    else:
        path = Path(source)
        files = client_files(path, report) if path.is_dir() else [path]
        if not files[:1] or not files[0].is_file():
            report.add(_nothing_at(path))
        elif _suffix(files[0]) == ".parquet":
            names = parquet_names(files[0], None, report)
        else:
            names = read_header(files[0], LIMIT, None, report)
    report.check()
    return names


def client_files(folder: Path, report: Report) -> list[Path]:
    """Return the files of a folder, one per client, sorted by the client's name.

    Hidden files and files of other kinds (a README) are passed over; a link that leads out of the folder is refused.
    """
    found: dict[str, Path] = {}
    home = folder.resolve()
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not _suffix(path):
            continue
        client = _stem(path)
        if not path.resolve().is_relative_to(home):
            report.add(
                f"{shown(path.name)} must not be a link that leads out of its folder; copy the file", client=client
            )
        elif not path.is_file():
            report.add(f"{shown(path.name)} must be an ordinary file", client=client)
        elif client in found:
            both = f"{shown(found[client].name)} and {shown(path.name)}"
            report.add(f"a client must have one file, got {both}; remove one", client=client)
        else:
            found[client] = path
    if not found and not report.problems:
        report.add(f"a folder must hold files that end in {', '.join(SUFFIXES)}, but {shown(str(folder))} has none")
    return [found[client] for client in sorted(found)]


def _from_file(path: Path, limit: int, report: Report, *, alone: bool) -> Sheet | None:
    client = _stem(path)
    where = client if alone else None
    suffix = _suffix(path)
    if not suffix:
        report.add(f"a file must end in {', '.join(SUFFIXES)}, got {shown(path.name)}")
        return None
    wrong = name_problem(client) if alone else None
    if wrong:
        report.add(wrong)
        return None
    if path.stat().st_size > limit:
        report.add(f"{shown(path.name)} must have at most {limit:,} bytes; split it, or raise limit=", client=where)
        return None
    table = (read_parquet if suffix == ".parquet" else read_csv)(path, limit, where, report)
    if table is None or not _good_names(table.column_names, where, report):
        return None
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return Sheet(columns, table.num_rows, 0 if suffix == ".parquet" else CSV_FIRST_ROW, client, alone)


def _from_dataframe(source: Any, report: Report) -> list[Sheet]:
    try:
        frame = nw.from_native(source, eager_only=True)
        names = [str(name) for name in frame.columns]
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"column names must differ: {str(error)[:200]}") from error
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        kinds = "a path, or a pandas, polars or pyarrow dataframe (a lazy one: collect it first)"
        raise DataError(f"a source must be {kinds}, got {type(source).__name__}") from error
    if not _good_names(names, None, report):
        return []
    columns = {}
    for name, series in zip(names, frame.iter_columns(), strict=True):
        try:
            columns[name] = pa.chunked_array([series.to_arrow()])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            report.add(f"a column must hold one kind of value: {str(error)[:100]}", column=name)
    return [Sheet(columns, len(frame), 0, "client")] if len(columns) == len(names) else []


def _good_names(names: list[str], client: str | None, report: Report) -> bool:
    before = len(report.problems)
    for name in duplicates(names):
        report.add("column names must differ; rename one of them", client=client, column=name)
    for place, name in enumerate(names):
        if not name.strip():
            must = f"every column must have a name, number {place + 1} has none (a saved index? save without it)"
            report.add(must, client=client)
    return len(report.problems) == before


def _nothing_at(path: Path) -> str:
    return f"a source must be a file, a folder or a dataframe, but there is nothing at '{path}'"


def _suffix(path: Path) -> str:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def _stem(path: Path) -> str:
    return path.name[: len(path.name) - len(_suffix(path))] if _suffix(path) else path.stem

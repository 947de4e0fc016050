"""`load`: the sheets of a path, a folder or a dataframe, one sheet per file."""

import os
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from cotempo.data.problems import Problems, client_name_error, duplicates, quote
from cotempo.data.read.csv import read_csv, read_header
from cotempo.data.read.parquet import parquet_names, read_parquet
from cotempo.data.read.sheet import Reading, Sheet
from cotempo.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".parquet")
CSV_FIRST_ROW = 2


def load(source: Any, reading: Reading) -> list[Sheet]:
    """Return the sheets of a path, a folder or a dataframe; what cannot be read is noted and left out."""
    if not isinstance(source, str | os.PathLike):
        return _from_dataframe(source, reading)
    path = Path(source)
    try:
        if path.is_dir():
            sheets = [_from_file(file, reading, one_client=True) for file in client_files(path, reading.problems)]
        elif path.is_file():
            sheets = [_from_file(path, reading, one_client=False)]
        else:
            raise DataError(_nothing_at(path))
    except OSError as error:
        raise DataError(f"a source must be readable, {quote(str(path))} is not: {error.strerror}") from error
    return [sheet for sheet in sheets if sheet is not None]


def column_names(source: Any) -> list[str]:
    """Return the names of the columns of a source, reading no rows; of a folder, those of its first file."""
    reading = Reading()
    problems, names = reading.problems, list[str]()
    if not isinstance(source, str | os.PathLike):
        names = [name for sheet in _from_dataframe(source, reading) for name in sheet.columns]
    else:
        path = Path(source)
        files = client_files(path, problems) if path.is_dir() else [path]
        if not files[:1] or not files[0].is_file():
            problems.add(_nothing_at(path))
        elif _suffix(files[0]) == ".parquet":
            names = parquet_names(files[0], None, problems)
        else:
            names = read_header(files[0], reading.limit, None, problems)
    problems.raise_any()
    return names


def client_files(folder: Path, problems: Problems) -> list[Path]:
    """Return the files of a folder, one per client, sorted by the client's name.

    Hidden files and files of other kinds (a README) are ignored; a link that leads out of the folder is refused.
    """
    found: dict[str, Path] = {}
    home = folder.resolve()
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not _suffix(path):
            continue
        client = _stem(path)
        if not path.resolve().is_relative_to(home):
            problems.add(
                f"{quote(path.name)} must not be a link that leads out of its folder; copy the file", client=client
            )
        elif not path.is_file():
            problems.add(f"{quote(path.name)} must be an ordinary file", client=client)
        elif client in found:
            both = f"{quote(found[client].name)} and {quote(path.name)}"
            problems.add(f"a client must have one file, got {both}; remove one", client=client)
        else:
            found[client] = path
    if not found and not len(problems):
        problems.add(f"a folder must hold files that end in {', '.join(SUFFIXES)}, but {quote(str(folder))} has none")
    return [found[client] for client in sorted(found)]


def _from_file(path: Path, reading: Reading, *, one_client: bool) -> Sheet | None:
    client, suffix, problems, limit = _stem(path), _suffix(path), reading.problems, reading.limit
    where = client if one_client else None
    wrong = client_name_error(client) if one_client else None
    if not suffix:
        problems.add(f"a file must end in {', '.join(SUFFIXES)}, got {quote(path.name)}")
    elif wrong:
        problems.add(wrong)
    elif path.stat().st_size > limit:
        problems.add(f"{quote(path.name)} must have at most {limit:,} bytes; split it, or raise limit=", client=where)
    else:
        table = (read_parquet if suffix == ".parquet" else read_csv)(path, limit, where, problems)
        if table is not None and _good_names(table.column_names, where, problems):
            columns = dict(zip(table.column_names, table.columns, strict=True))
            first_row = 0 if suffix == ".parquet" else CSV_FIRST_ROW
            return Sheet(reading, columns, table.num_rows, first_row, client, one_client)
    return None


def _from_dataframe(source: Any, reading: Reading) -> list[Sheet]:
    try:
        frame = nw.from_native(source, eager_only=True)
        names = [str(name) for name in frame.columns]
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"column names must differ: {str(error)[:200]}") from error
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        kinds = "a path, or a pandas, polars or pyarrow dataframe (a lazy one: collect it first)"
        raise DataError(f"a source must be {kinds}, got {type(source).__name__}") from error
    if not _good_names(names, None, reading.problems):
        return []
    columns = {}
    for name, series in zip(names, frame.iter_columns(), strict=True):
        try:
            columns[name] = pa.chunked_array([series.to_arrow()])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reading.problems.add(f"a column must hold one kind of value: {str(error)[:100]}", column=name)
    return [Sheet(reading, columns, len(frame), 0, "client")] if len(columns) == len(names) else []


def _good_names(names: list[str], client: str | None, problems: Problems) -> bool:
    before = len(problems)
    for name in duplicates(names):
        problems.add("column names must differ; rename one of them", client=client, column=name)
    for position, name in enumerate(names, 1):
        if not name.strip():
            must = f"every column must have a name, number {position} has none (a saved index? save without it)"
            problems.add(must, client=client)
    return len(problems) == before


def _nothing_at(path: Path) -> str:
    return f"a source must be a file, a folder or a dataframe, but there is nothing at '{path}'"


def _suffix(path: Path) -> str:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def _stem(path: Path) -> str:
    return path.name[: len(path.name) - len(_suffix(path))] if _suffix(path) else path.stem

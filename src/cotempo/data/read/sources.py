"""`load`: a file or a dataframe as a sheet; `split_source`: the files of a folder."""

import os
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from cotempo.data.problems import Problems, client_name_error, duplicates, quote
from cotempo.data.read.csv import read_csv, read_header
from cotempo.data.read.parquet import parquet_names, read_parquet
from cotempo.data.read.sheet import LIMIT, Reading, Sheet, decoded
from cotempo.errors import DataError

SUFFIXES = (".csv", ".csv.gz", ".parquet")
CSV_FIRST_ROW = 2


def split_source(source: Any, problems: Problems) -> list[tuple[str | None, Any]]:
    """Return ``(client, file)`` for each file of a folder; a single file or a dataframe comes with None."""
    if not isinstance(source, str | os.PathLike):
        return [(None, source)]
    path = Path(source)
    if path.is_dir():
        return sorted(_client_files(path, problems).items())
    if not path.is_file():
        raise DataError(f"a source must be a file, a folder or a dataframe, but there is nothing at '{path}'")
    return [(None, path)]


def load(source: Any, client: str | None, reading: Reading) -> Sheet:
    """Return a file or a dataframe as a sheet; all its rows belong to `client`, unless that is None."""
    if not isinstance(source, Path):
        return Sheet(reading, _columns_of(source), 0, client or "client", one_client=client is not None)
    suffix, limit = _suffix(source), reading.limit
    if not suffix:
        raise DataError(f"a file must end in {', '.join(SUFFIXES)}, got {quote(source.name)}")
    if source.stat().st_size > limit:
        raise DataError(f"{quote(source.name)} must have at most {limit:,} bytes; split it, or raise limit=")
    table = read_parquet(source, limit) if suffix == ".parquet" else read_csv(source, limit)
    _check_names(table.column_names)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    first_row = 0 if suffix == ".parquet" else CSV_FIRST_ROW
    return Sheet(reading, columns, first_row, client or _stem(source), one_client=client is not None)


def column_names(source: Any) -> list[str]:
    """Return the names of the columns of a source, reading no rows; of a folder, those of its first file."""
    problems = Problems()
    parts = [part for _, part in split_source(source, problems)]
    problems.raise_any()
    if not isinstance(parts[0], Path):
        return list(_columns_of(parts[0]))
    return parquet_names(parts[0]) if _suffix(parts[0]) == ".parquet" else read_header(parts[0], LIMIT)


def _client_files(folder: Path, problems: Problems) -> dict[str, Path]:
    """Return the file of each client.

    Hidden files and files of other kinds (a README) are ignored; a link that leads out of the folder is refused.
    """
    found: dict[str, Path] = {}
    home = folder.resolve()
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not _suffix(path):
            continue
        client, name = _stem(path), quote(path.name)
        if wrong := client_name_error(client):
            problems.add(wrong)
        elif not path.resolve().is_relative_to(home):
            problems.add(f"{name} must not be a link that leads out of its folder; copy the file", client=client)
        elif not path.is_file():
            problems.add(f"{name} must be an ordinary file", client=client)
        elif client in found:
            both = f"{quote(found[client].name)} and {name}"
            problems.add(f"a client must have one file, got {both}; remove one", client=client)
        else:
            found[client] = path
    if not found and not problems.found:
        problems.add(f"a folder must hold files that end in {', '.join(SUFFIXES)}, but {quote(str(folder))} has none")
    return found


def _columns_of(source: Any) -> dict[str, pa.ChunkedArray]:
    try:
        frame = nw.from_native(source, eager_only=True)
        names = [str(name) for name in frame.columns]
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"column names must differ: {str(error)[:200]}") from error
    except (TypeError, nw.exceptions.NarwhalsError) as error:
        kinds = "a path, or a pandas, polars or pyarrow dataframe (a lazy one: collect it first)"
        raise DataError(f"a source must be {kinds}, got {type(source).__name__}") from error
    _check_names(names)
    problems, columns = Problems(), {}
    for name, series in zip(names, frame.iter_columns(), strict=True):
        try:
            columns[name] = decoded(pa.chunked_array([series.to_arrow()]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            problems.add(f"a column must hold one kind of value: {str(error)[:100]}", column=name)
    problems.raise_any()
    return columns


def _check_names(names: list[str]) -> None:
    problems = Problems()
    for name in duplicates(names):
        problems.add("column names must differ; rename one of them", column=name)
    for position, name in enumerate(names, 1):
        if not name.strip():
            problems.add(f"every column must have a name, number {position} has none (a saved index? save without it)")
    problems.raise_any()


def _suffix(path: Path) -> str:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def _stem(path: Path) -> str:
    return path.name[: -len(_suffix(path))]

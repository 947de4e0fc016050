"""`load`: a file or a dataframe as a sheet; `split_source`: the files of a folder."""

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from cotempo.data.problems import Problems, client_name_error, duplicates, list_names, quote
from cotempo.data.read.csv import read_csv, read_header
from cotempo.data.read.decimals import with_points
from cotempo.data.read.jsonl import read_jsonl
from cotempo.data.read.parquet import parquet_names, read_parquet
from cotempo.data.read.sheet import LIMIT, Reading, Sheet, decoded, is_text
from cotempo.errors import DataError, Problem

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".jsonl")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
FIRST_ROWS = {".parquet": 0, ".jsonl": 1}  # as people count
NUMBER, MOST_HEAD = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?"), 20  # rows to look at for a line of units
INDEXED = ("client", "sequence", "time")
WINDOWS, ALL_WINDOWS = ".windows", "windows"
FIRST_OF_TEXT = 2  # after a header
TRUTH = "truth.csv"
NOTES, NOTE_SUFFIXES = ("README", "LICENSE"), (".md", ".toml", ".html")
LINK = "{} must not be a link that leads out of its folder; copy the file"


def split_source(source: Any, problems: Problems) -> list[tuple[str | None, Any]]:
    """Return ``(client, part)`` for each part of a source; None where the part itself says whose rows it holds.

    Parts are the entries of a mapping, by client; the files of a folder, named after their clients, and its folders,
    each the files of one client; the files of a list or a pattern; or the source itself. Several files of one client
    are a part that is a list: each holds one of its sequences.
    """
    if isinstance(source, Mapping):
        parts = {str(client): _files_of_one(part, problems) for client, part in source.items()}
        return [(client, part) for client, part in parts.items() if not isinstance(part, list) or part]
    if isinstance(source, list | tuple):
        return [(None, _path(part)) for part in source]
    path = _path(source)
    if not isinstance(path, Path):
        return [(None, source)]
    if path.is_dir():
        folders = {folder.name: folder for folder in _client_folders(path)}
        found: dict[str, Any] = _client_files(path, problems) if not folders or _holds_tables(path) else {}
        for client in sorted(found.keys() & folders.keys()):
            both = f"{quote(found[client].name)} and the folder {quote(client)}"
            problems.add(f"a client must have one file or one folder, got {both}; move the file into it", client=client)
        found |= {client: _files_of_one(folder, problems) for client, folder in folders.items()}
        return [(client if folders or len(found) > 1 else None, found[client]) for client in sorted(found)]
    return [(None, file) for file in _matching(path)]


def _files_of_one(part: Any, problems: Problems) -> Any:
    """Return the part of one client: its file or dataframe, or a list of its files."""
    if isinstance(part, list | tuple):
        files = [_path(one) for one in part]
        if not all(isinstance(file, Path) for file in files):
            raise DataError("a list of one client's sequences must name files; join dataframes with pandas.concat")
    elif isinstance(path := _path(part), Path):
        files = list(_client_files(path, problems).values()) if path.is_dir() else _matching(path)
    else:
        return part
    return files[0] if len(files) == 1 else files


def _client_folders(folder: Path) -> list[Path]:
    """Return the folders of a folder that hold tables, each the files of one client."""
    home = folder.resolve()
    inside = [path for path in _folders_inside(folder) if path.resolve().is_relative_to(home)]
    return [path for path in inside if _holds_tables(path)]


def _folders_inside(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]


def _holds_tables(folder: Path) -> bool:
    names = (path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_dir())
    return any(_suffix(path) and not _is_windows(path) and path.name != TRUTH for path in names)


def _matching(path: Path) -> list[Path]:
    """Return the files that a pattern matches; of a path that is none, itself."""
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    files = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if _suffix(Path(name))]
    if not files:
        raise DataError(f"a pattern must match files that end in {', '.join(SUFFIXES)}, got {quote(str(path))}")
    return files


def advise_sheet(name: str) -> str:
    """Return how to read a spreadsheet, which is no table here; nothing for other files."""
    is_sheet = name.lower().endswith(SPREADSHEETS)
    return "; save it as CSV, or read it with pandas.read_excel and pass the dataframe" if is_sheet else ""


def left_out(source: Any) -> list[str]:
    """Return the files of a folder that are no tables and do not look like notes about them."""
    path = _path(source)
    if not isinstance(path, Path) or not path.is_dir():
        return []
    files = [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith((".", *NOTES))]
    return [file.name for file in files if not _suffix(file) and file.suffix not in NOTE_SUFFIXES]


def folders_left_out(source: Any) -> list[str]:
    """Return the folders of a folder that hold tables further down only, or behind a link, or spreadsheets."""
    path = _path(source)
    if not isinstance(path, Path) or not path.is_dir():
        return []
    others = [folder for folder in _folders_inside(path) if folder not in _client_folders(path)]
    kinds = (*SUFFIXES, *SPREADSHEETS)
    return [folder.name for folder in others if any(file.name.lower().endswith(kinds) for file in folder.rglob("*"))]


def windows_beside(source: Any) -> Any:
    """Return the windows beside a file, or in a folder: by client, as `write_clients` writes them, or ``windows.csv``.

    None without any.
    """
    path = _path(source)
    if not isinstance(path, Path):
        return None
    if path.is_dir():
        found = {_stem(file).removesuffix(WINDOWS): file for file in sorted(path.iterdir()) if _is_windows(file)}
        for client, file in found.items():
            if not file.resolve().is_relative_to(path.resolve()):
                raise DataError([Problem(LINK.format(quote(file.name)), client)])
        several = len(_client_files(path, Problems())) + len(_client_folders(path)) > 1
        together = found.pop(ALL_WINDOWS, None)
        return found if several and found else next(iter(found.values()), together)
    stems = (f"{_stem(path)}{WINDOWS}", ALL_WINDOWS)
    beside = [path.with_name(f"{stem}{suffix}") for stem in stems for suffix in SUFFIXES]
    return next((file for file in beside if file.is_file() and file != path), None)


def load(source: Any, client: str | None, reading: Reading) -> Sheet:
    """Return a file or a dataframe as a sheet; all its rows belong to `client`, unless that is None."""
    if isinstance(source, list):
        return _load_sequences(source, client or "client", reading)
    if not isinstance(source, Path):
        found = _columns_of(source, reading)
        names = _without_blanks([*found], reading, client or "client")
        _check_names(names)
        columns = reading.rename(_as_numbers(dict(zip(names, found.values(), strict=True)), reading))
        return Sheet(reading, columns, 0, client or "client", one_client=client is not None)
    suffix, limit = _suffix(source), reading.limit
    if not source.is_file():
        if source.is_dir():
            raise DataError(f"a list must name files, {quote(str(source))} is a folder; pass {{client: folder}}")
        kinds = "a file, a folder, a pattern, a list of files, a dataframe, or one per client"
        raise DataError(f"a source must be {kinds}, but there is nothing at '{source}'")
    if not suffix:
        raise DataError(
            f"a file must end in {', '.join(SUFFIXES)}, got {quote(source.name)}{advise_sheet(source.name)}"
        )
    if source.stat().st_size > limit:
        raise DataError(f"{quote(source.name)} must have at most {limit:,} bytes; split it, or raise limit=")
    guessed = ""
    if suffix == ".parquet":
        table = read_parquet(source, limit)
    elif suffix == ".jsonl":
        table = read_jsonl(source)
    else:
        table, guessed = read_csv(source, limit, reading.all_signs, reading.decimal)
    if guessed:
        reading.remark(guessed, source.name)
    names = _without_blanks(table.column_names, reading, source.name)
    _check_names(names)
    columns = reading.rename(_as_numbers(dict(zip(names, table.columns, strict=True)), reading))
    first_row = FIRST_ROWS.get(suffix, FIRST_OF_TEXT)
    if units := _units_line(columns):
        reading.remark(f"row {first_row} has no time and no number: left out, as units ({units})", source.name)
        columns, first_row = {name: values[1:] for name, values in columns.items()}, first_row + 1
    return Sheet(reading, columns, first_row, client or _stem(source), one_client=client is not None)


def _units_line(columns: Mapping[str, pa.ChunkedArray]) -> str:
    """Return the cells of a first row that has units for numbers and no time; "" where there is no such row.

    Rows after it have times, and numbers where this one has texts.
    """
    if "time" not in columns or len(columns["time"]) < 2 or not all(is_text(each.type) for each in columns.values()):
        return ""
    head = {name: [(cell or "").strip() for cell in values[:MOST_HEAD].to_pylist()] for name, values in columns.items()}
    first, time = {name: cells[0] for name, cells in head.items()}, head["time"]
    numbers = any(first[name] and any(map(NUMBER.fullmatch, cells[1:])) for name, cells in head.items())
    if any(sign.isdecimal() for sign in time[0]) or not any(sign.isdecimal() for sign in time[1]) or not numbers:
        return ""
    return "" if any(map(NUMBER.fullmatch, first.values())) else ", ".join(filter(None, first.values()))


def _load_sequences(files: list[Path], client: str, reading: Reading) -> Sheet:
    """Return several files of one client as one sheet; the sequences of each begin with the file's name."""
    sheets = [load(file, client, reading) for file in files]
    tables = []
    for file, sheet in zip(files, sheets, strict=True):
        own = pa.chunked_array([pa.array([_stem(file)] * sheet.rows, pa.string())])
        if "sequence" in sheet.columns:
            own = compute.binary_join_element_wise(own, sheet.text("sequence").cast(pa.string()), "/")
        tables.append(pa.table({**sheet.columns, "sequence": own}))
    try:
        joined = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:  # a column is text in some files and numbers in others
        as_text = [[column.cast(pa.string()) for column in table.columns] for table in tables]
        named = [pa.table(own, names=table.column_names) for own, table in zip(as_text, tables, strict=True)]
        joined = pa.concat_tables(named, promote_options="permissive")
    places = np.concatenate([np.arange(sheet.rows) + sheet.first_row - sheets[0].first_row for sheet in sheets])
    origin = np.repeat([file.name for file in files], [sheet.rows for sheet in sheets])
    columns = dict(zip(joined.column_names, joined.columns, strict=True))
    return Sheet(reading, columns, sheets[0].first_row, client, one_client=True, places=places, origin=origin)


def source_name(part: Any, client: str | None) -> str:
    """Return the client a part belongs to if it names none itself: a file's is its name without the ending."""
    return client or (_stem(part) if isinstance(part, Path) else "client")


def column_names(source: Any) -> list[str]:
    """Return the names of the columns of a source, reading no rows; of several parts, those of the first."""
    problems = Problems()
    parts = [part for _, part in split_source(source, problems)]
    problems.raise_any()
    if not parts:
        raise DataError("a source must have at least one part, got an empty list or mapping")
    return [name.strip() for name in _names_of(parts[0])]


def _names_of(part: Any) -> list[str]:
    if not isinstance(part, Path):
        return list(_columns_of(part, Reading()))
    if not part.is_file():
        load(part, None, Reading())
    if _suffix(part) == ".jsonl":
        return list(read_jsonl(part).column_names)
    return parquet_names(part) if _suffix(part) == ".parquet" else read_header(part, LIMIT)[0]


def _path(source: Any) -> Any:
    return Path(source) if isinstance(source, str | os.PathLike) else source


def is_shared(windows: Any) -> bool:
    """Return whether windows are those of a folder, in a file of that name."""
    return isinstance(windows, Path) and _stem(windows) == ALL_WINDOWS


def _is_windows(path: Path) -> bool:
    return bool(_suffix(path)) and (is_shared(path) or _stem(path).endswith(WINDOWS))


def _client_files(folder: Path, problems: Problems) -> dict[str, Path]:
    """Return the file of each client.

    Hidden files, files of other kinds (see `left_out`), tables of windows and the truth beside generated tables are
    ignored; a link that leads out of the folder is refused.
    """
    found: dict[str, Path] = {}
    home = folder.resolve()
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not _suffix(path) or _is_windows(path) or path.name == TRUTH:
            continue
        client, name = _stem(path), quote(path.name)
        if wrong := client_name_error(client):
            problems.add(wrong)
        elif not path.resolve().is_relative_to(home):
            problems.add(LINK.format(name), client=client)
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


def _columns_of(source: Any, reading: Reading) -> dict[str, pa.ChunkedArray]:
    try:
        frame = nw.from_native(_with_index(source, reading), eager_only=True)
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
            columns[name] = _one_zone(decoded(pa.chunked_array([series.to_arrow()])), series)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            problems.add(f"a column must hold one kind of value: {str(error)[:100]}", column=name)
    problems.raise_any()
    return columns


def _as_numbers(columns: dict[str, pa.ChunkedArray], reading: Reading) -> dict[str, pa.ChunkedArray]:
    """Return columns with points before decimals, where the reading says which sign they have."""
    texts = {name: values for name, values in columns.items() if reading.decimal and is_text(values.type)}
    return {**columns, **with_points(texts, reading.decimal, reading.all_signs)}


def _with_index(source: Any, reading: Reading) -> Any:
    """Return a pandas dataframe with its index as columns, if that holds times, clients or sequences."""
    index, called = getattr(source, "index", None), reading.named
    known = {*INDEXED, *(called.get(name, name) for name in INDEXED)}
    names = list(getattr(index, "names", ()))
    if names and all(name in known for name in names):
        return source if set(names) & set(source.columns) else source.reset_index()
    if type(index).__name__ == "DatetimeIndex" and not {"time", called.get("time")} & set(source.columns):
        return source.reset_index(names="time")
    return source


def _one_zone(values: pa.ChunkedArray, series: nw.Series[Any]) -> pa.ChunkedArray:
    """Return Python dates in UTC if their offsets differ; Arrow takes the first zone for all, and none for UTC."""
    if series.dtype != nw.Object or not pa.types.is_timestamp(values.type) or not values.type.tz:
        return values
    zones = {date.utcoffset() for date in series.to_list() if hasattr(date, "utcoffset") and date == date}
    if None in zones:
        raise ValueError("dates with and without a time zone")
    return values if len(zones) == 1 else values.cast(pa.timestamp(values.type.unit, "UTC"))


def _without_blanks(names: list[str], reading: Reading, source: str) -> list[str]:
    """Return names of columns without blanks around them, and say so."""
    bare = [name.strip() for name in names]
    if changed := [name for name in names if name != name.strip()]:
        reading.remark(f"blanks around names of columns are left out: {list_names([*map(quote, changed)])}", source)
    return bare


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

"""`write_clients`: the tables of all clients as one tidy file, which the readers read back."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from cotempo.data.clock import Clock
from cotempo.data.tables import FrameKind, Table, make_frame
from cotempo.errors import DataError, ParameterError, warn


def clients_to_frame(clients: Mapping[str, Table], kind: FrameKind = "pandas") -> Any:
    """Return the tables of all clients as one tidy dataframe with a column ``client``.

    Examples
    --------
    >>> from cotempo.data import Series
    >>> clients_to_frame({"a": Series.from_arrays([[1.0]])}, "pyarrow").column_names
    ['client', 'sequence', 'time', 'x0']
    """
    joined = _join({name: table.columns() for name, table in sorted(clients.items())})
    return make_frame(joined, kind, _clocks(clients))


def write_clients(clients: Mapping[str, Table], path: str | os.PathLike[str]) -> list[Path]:
    """Write the tables of all clients into one CSV or Parquet file with a column ``client``.

    The tables are of one kind, and `path` ends in ``.csv`` or ``.parquet``. Dates of clients in several time zones are
    written in UTC, with a `DataWarning` that says how to read them back into their zones.

    Returns
    -------
    list of Path
        The file and, for events, a second one, ``<name>.windows.csv`` or ``.parquet``, with the windows of all
        sequences, also of those without events: what `read_events` takes as ``windows=``.

    Examples
    --------
    >>> import tempfile
    >>> from cotempo.data import make_events, read_events
    >>> clients, _ = make_events(clients=2, sequences=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file, windows = write_clients(clients, f"{folder}/events.csv")
    ...     again = read_events(file, windows=windows)
    >>> again["client-0"].fingerprint() == clients["client-0"].fingerprint()
    True
    """
    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise ParameterError(f"path must end in .csv or .parquet, got {target.name!r}")
    written = [_write(clients_to_frame(clients, "pyarrow"), target)]
    zones = {name: table.clock.zone for name, table in sorted(clients.items()) if table.clock.zone}
    if len(set(zones.values())) > 1:
        warn(f"dates are written in UTC, as clients live in several zones; to keep them, read with zone={zones}")
    side_tables = {name: table.side_tables() for name, table in sorted(clients.items())}
    for side in next(iter(side_tables.values())):
        joined = _join({name: tables[side] for name, tables in side_tables.items()})
        second = target.with_name(f"{target.stem}.{side}{target.suffix}")
        written.append(_write(make_frame(joined, "pyarrow", _clocks(clients)), second))
    return written


def _clocks(clients: Mapping[str, Table]) -> dict[str, Clock]:
    """Return the clock of each column of times; dates of several zones are shown in UTC."""
    clocks = {table.clock for table in clients.values()}
    if len({(clock.unit, bool(clock.zone)) for clock in clocks}) > 1:
        raise DataError("clients must have times of one unit, with a zone or without; write them one by one")
    clock = clocks.pop()
    return dict.fromkeys(next(iter(clients.values())).time_columns, Clock(clock.unit, "UTC") if clocks else clock)


def _join(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    if not tables:
        raise DataError("there must be at least one client")
    names = list(next(iter(tables.values())))
    joined: dict[str, list[Any]] = {"client": [], **{name: [] for name in names}}
    for client, columns in tables.items():
        if list(columns) != names:
            given = f"{', '.join(columns)} of {client!r}"
            raise DataError(f"clients must have the same columns ({', '.join(names)}), got {given}")
        joined["client"] += [client] * len(columns[names[0]])
        for name in names:
            joined[name] += list(columns[name])
    return joined


def _write(table: pa.Table, path: Path) -> Path:
    try:
        if path.suffix == ".csv":
            arrow_csv.write_csv(table, path)
        else:
            parquet.write_table(table, path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"the clients must be writable as {path.name!r}: {str(error)[:200]}") from error
    return path

"""`read_tsf`: the ``.tsf`` files of the Monash time series forecasting archive."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cotempo.data.problems import client_name_error
from cotempo.data.read.series import read_series
from cotempo.data.series import Series
from cotempo.errors import DataError

STEPS = {
    "seconds": pd.DateOffset(seconds=1), "minutes": pd.DateOffset(minutes=1), "minutely": pd.DateOffset(minutes=1),
    "half_hourly": pd.DateOffset(minutes=30), "hourly": pd.DateOffset(hours=1), "daily": pd.DateOffset(days=1),
    "weekly": pd.DateOffset(weeks=1), "monthly": pd.DateOffset(months=1), "quarterly": pd.DateOffset(months=3),
    "yearly": pd.DateOffset(years=1),
}  # fmt: skip


def read_tsf(path: str | Path, *, unit: str = "h") -> dict[str, Series]:
    """Read a ``.tsf`` file, gzipped or not, and return one client per series, sorted by name.

    Parameters
    ----------
    path
        The file: lines ``@attribute``, ``@frequency`` and others, ``@data``, then a series a line, its attributes and
        its values separated by colons, missing values as ``?``.
    unit
        What dates are counted in. Without an attribute ``start_timestamp`` or a known frequency, rows are counted.

    Returns
    -------
    dict of Series
        By the attribute ``series_name``, else by the number of the line; the feature is called ``value``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.tsf"
    >>> head = "@attribute series_name string\\n@attribute start_timestamp date\\n@frequency daily\\n@data\\n"
    >>> _ = path.write_text(head + "T1:1990-01-01 00-00-00:4.0,?,5.5\\n")
    >>> read_tsf(path)
    {'T1': Series(3 rows, 1 sequence, features value, unit h)}
    """
    path = Path(path)
    try:
        with (
            gzip.open(path, "rt", encoding="cp1252") if path.suffix == ".gz" else open(path, encoding="cp1252") as file
        ):
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise DataError(f"{path} must be a text file, got: {error}") from error
    if "@data" not in (line.lower() for line in lines):
        raise DataError(f"{path} must be a .tsf file with a line @data, got none")
    begin = [line.lower() for line in lines].index("@data") + 1
    attributes, frequency = [], ""
    for line in lines[:begin]:
        word, *rest = line.split()[:3] or [""]
        if word.lower() == "@attribute" and rest:
            attributes.append(rest[0])
        elif word.lower() == "@frequency" and rest:
            frequency = rest[0].lower()
    frames = {}
    for number, line in enumerate(lines[begin:], start=begin + 1):
        if line and not line.startswith("#"):
            name, frame = _one_series(line, attributes, frequency, f"{path}, line {number}")
            name = name or f"line-{number}"
            if client_name_error(name) or name in frames:
                raise DataError(
                    f"{path}, line {number}: a series must have a name of its own that can name a file, got {name!r}"
                )
            frames[name] = frame
    if not frames:
        raise DataError(f"{path} must hold a series below @data, got none")
    return read_series(frames, unit=unit)


def _one_series(line: str, attributes: list[str], frequency: str, where: str) -> tuple[str, pd.DataFrame]:
    parts = line.split(":")
    if len(parts) != len(attributes) + 1:
        raise DataError(
            f"{where}: must have {len(attributes)} attributes and values, separated by colons, got {len(parts)} parts"
        )
    known: dict[str, str] = dict(zip(attributes, parts, strict=False))
    try:
        values = np.array([np.nan if text.strip() in ("?", "") else float(text) for text in parts[-1].split(",")])
    except ValueError as error:
        raise DataError(f"{where}: values must be numbers or ?, got: {error}") from error
    time: Any = np.arange(len(values))
    step = _step(frequency)
    if "start_timestamp" in known and step is not None:
        start = pd.to_datetime(known["start_timestamp"], format="%Y-%m-%d %H-%M-%S", errors="coerce")
        if pd.isna(start):
            raise DataError(
                f"{where}: start_timestamp must look like 1990-01-01 00-00-00, got {known['start_timestamp']!r}"
            )
        time = [start + step * number for number in range(len(values))]
    return known.get("series_name", ""), pd.DataFrame({"time": time, "value": values})


def _step(frequency: str) -> pd.DateOffset | None:
    """Return the step of a frequency such as ``hourly`` or ``10_minutes``, None where it is unknown."""
    number, _, word = frequency.rpartition("_")
    if number.isdigit() and word in STEPS:
        return STEPS[word] * int(number)
    return STEPS.get(frequency)

"""`read_forecasting_csv`: one series in a CSV file, as ETT, Stocks and Energy are published."""

from pathlib import Path

import numpy as np
import pandas as pd

from cotempo.data.read.series import read_series
from cotempo.data.series import Series
from cotempo.errors import DataError

DATES = ("date", "time", "timestamp", "datetime")


def read_forecasting_csv(path: str | Path, *, unit: str = "h") -> Series:
    """Read one series from a CSV file, gzipped or not: a column of dates, or none, then one column per feature.

    Parameters
    ----------
    path
        The file. ETT and UCI's Energy have a column ``date``; TimeGAN's Stocks and Energy have none, and their rows
        are counted.
    unit
        What dates are counted in.

    Returns
    -------
    Series
        One sequence; deal its rows to clients with `partition` or by time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ETTh1.csv"
    >>> _ = path.write_text("date,HUFL,OT\\n2016-07-01 00:00:00,5.8,30.5\\n2016-07-01 01:00:00,5.7,27.8\\n")
    >>> read_forecasting_csv(path)
    Series(2 rows, 1 sequence, features HUFL, OT, unit h)
    """
    try:
        frame = pd.read_csv(path, skipinitialspace=True)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} must be a CSV file with a head, got: {error}") from error
    if not len(frame):
        raise DataError(f"{path} must hold at least one row, got none")
    dates = [name for name in frame if str(name).strip().lower() in DATES]
    if len(dates) > 1:
        raise DataError(f"{path} must have one column of dates, got {', '.join(map(str, dates))}")
    frame = frame.rename(columns={dates[0]: "time"}) if dates else frame.assign(time=np.arange(len(frame)))
    features = [name for name in frame if name != "time"]
    wrong = [str(name) for name in features if not pd.api.types.is_numeric_dtype(frame[name])]
    if wrong:
        raise DataError(f"{path} must hold numbers besides its dates, columns {', '.join(wrong)} do not; drop them")
    return read_series({"series": frame}, unit=unit)["series"]

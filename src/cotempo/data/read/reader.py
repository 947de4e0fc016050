"""`read_sheets`: the loop that all readers share; `detect_kind`: which reader a source needs."""

from collections.abc import Callable
from typing import Any, TypeVar

from cotempo.data.read.sheet import Reading, Sheet
from cotempo.data.read.sources import column_names, load
from cotempo.data.tables import KINDS

Part = TypeVar("Part")


def read_sheets(
    source: Any, reading: Reading, read_sheet: Callable[[Sheet], tuple[dict[str, Part], bool | None]]
) -> dict[str, Part]:
    """Read every sheet of a source, so that a bad one does not hide the problems of the others.

    Parameters
    ----------
    source
        A path, a folder or a dataframe.
    reading
        The options of the reader; collects the problems.
    read_sheet
        Returns one sheet's parts by client, none where problems were noted, and whether its times are timestamps
        (None if it has none).

    Returns
    -------
    dict
        The parts of all sheets, sorted by the name of the client.
    """
    found: dict[str, Part] = {}
    stamped: dict[str, bool] = {}
    for sheet in load(source, reading):
        parts, is_stamped = read_sheet(sheet)
        found |= parts
        if is_stamped is not None:
            stamped[sheet.client] = is_stamped
    if len(set(stamped.values())) > 1:
        first = next(name for name, stamp in stamped.items() if not stamp)
        for name in (name for name, stamp in stamped.items() if stamp):
            must = f"must be plain numbers or timestamps at all clients; {first!r} has numbers, this one timestamps"
            reading.problems.add(must, client=name, column="time")
    return dict(sorted(found.items()))


def detect_kind(source: Any) -> str:
    """Return the kind of table a source holds, by its columns.

    Posts have ``text``; events have nothing but ``client``, ``sequence``, ``time``, ``mark``, ``start`` and ``end``;
    everything else is a series.

    Examples
    --------
    >>> import pandas
    >>> detect_kind(pandas.DataFrame({"time": [0.0], "mark": ["a"]}))
    'events'
    """
    names = set(column_names(source)) - {"client"}
    return next((kind for kind, table in KINDS.items() if table.recognizes(names)), "series")

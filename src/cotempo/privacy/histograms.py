"""`histograms` and `locate`: where columns lie, from counts between agreed limits, which are noised like any sums."""

from collections.abc import Mapping, Sequence

import numpy as np

from cotempo.errors import ParameterError
from cotempo.privacy.settings import Range
from cotempo.typing import Floats

BINS = 64
LARGEST = 1e100


def limits(ranges: Range | Mapping[str, Range] | None, names: Sequence[str]) -> Floats:
    """Return the agreed limits of columns, `(columns, 2)`; raise `ParameterError` if there are none for some."""
    if isinstance(ranges, Mapping):
        if missing := [name for name in names if name not in ranges]:
            raise ParameterError(f"ranges must have a pair (low, high) for every column, {missing[0]} has none")
        return np.array([ranges[name] for name in names], dtype=np.float64)
    if ranges is None:
        raise ParameterError(
            "epsilon needs ranges, between which the columns' values are known to lie: bounds read from the data "
            "would tell about its rows; give Privacy(ranges=(low, high)) or one pair by column"
        )
    return np.tile(np.array(ranges, dtype=np.float64), (len(names), 1))


def bounded(values: Floats) -> Floats:
    """Return values whose squares can be summed; an overflow, in units that the server says, would tell of a value."""
    return np.clip(values, -LARGEST, LARGEST)


def histograms(values: Floats, low: Floats, high: Floats) -> Floats:
    """Count the values of each column in `BINS` equal intervals; those beyond the limits are in the outermost ones.

    The server says the limits. With any of them, such as equal ones, every value counts: an error would tell of one.
    """
    seen = ~np.isnan(values)
    with np.errstate(all="ignore"):
        places = np.floor((np.where(seen, values, low) - low) / (high - low) * BINS)
    places = np.clip(np.nan_to_num(places, nan=0.0), 0, BINS - 1).astype(np.intp)
    return np.stack(
        [np.bincount(place[known], minlength=BINS) for place, known in zip(places.T, seen.T, strict=True)]
    ).astype(np.float64)


def locate(counts: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return each column's median, and half the distance between the quantiles that lie one deviation around it."""
    found = []
    for column, first, last in zip(counts, low, high, strict=True):
        below, middle, above = _at((0.159, 0.5, 0.841), column, first, last)
        found.append((middle, max((above - below) / 2, (last - first) / BINS / 4)))
    centre, scale = np.array(found).T
    return centre, scale


def quantiles_of(counts: Floats, low: Floats, high: Floats, places: Floats, deviation: float) -> Floats:
    """Return quantiles of each column at some probabilities, ``(columns, places)``.

    Counts below three times the `deviation` of their noise are taken for noise: many of them would make long tails.
    """
    certain = np.where(counts > 3 * deviation, counts, 0.0)
    certain = np.where(certain.any(axis=1, keepdims=True), certain, counts)
    return np.array([_at(places, *column) for column in zip(certain, low, high, strict=True)])


def _at(places: Sequence[float] | Floats, counts: Floats, low: float, high: float) -> Floats:
    """Return quantiles of one column; counts are noised, so that their sums may fall."""
    share = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(counts)]))
    return np.interp(places, share / max(share[-1], 1e-300), np.linspace(low, high, BINS + 1))

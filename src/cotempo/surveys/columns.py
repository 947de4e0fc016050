"""Figures of one column of a series: size, spread, sign, steps, resolution, limits; free of units but for the first."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cotempo.surveys.others import Figures
from cotempo.surveys.units import conversions
from cotempo.typing import Array, Floats

#: Rows below which a column's figures say little.
FEWEST = 50
FEW_CODES = 12
SHAPE = ("size", "spread", "sign", "skew", "rough", "rise")
NAMES = (*SHAPE, "missing", "whole", "tenth", "edge", "tail", "varies", "same", "lowest")
#: Values that stand for a missing one, and the smallest share of rows that makes one of them suspicious.
SIGNS_OF_MISSING, FEWEST_MISSING = (0.0, -1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0), 0.02

LOGARITHMS = {2.0: "the logarithm to base 2", math.e: "the natural logarithm", 10.0: "the logarithm to base 10"}
#: Larger powers of e are no values that anybody measured.
MOST_EXPONENT = 100.0


def column_figures(values: Floats, first: Array) -> dict[str, float]:
    """Return the figures of a column by name; `first` marks the first row of each sequence."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST:
        return {}
    low, middle, high = np.quantile(known, (0.1, 0.5, 0.9))
    inner = known[(known >= low) & (known <= high)]
    size, spread = np.abs(inner).mean(), np.abs(inner - inner.mean()).mean()
    away, deviation = np.abs(known - middle), known.std()
    steps = np.diff(values)[~first[1:]]
    steps = steps[np.isfinite(steps)]
    found = {
        "missing": 1 - len(known) / len(values),
        "varies": float(np.ptp(known) > 0),
        "whole": float(np.mean(known == np.round(known))),
        "tenth": float(np.mean(np.abs(10 * known - np.round(10 * known)) < 1e-6)),
        "sign": float(np.mean(np.sign(known))),
        "size": math.log(size) if size > 0 else math.nan,
        "spread": math.log(spread) if spread > 1e-12 * size else math.nan,
    }
    if deviation > 1e-12 * size:
        # Not the median, which jumps from one code to the other where half of the rows have each.
        found["skew"] = float(known.mean() - (low + high) / 2) / float(deviation)
        found["tail"] = math.log(away.max() / max(away.mean(), 1e-300))
        if len(steps) >= FEWEST:
            found["rough"] = math.log(max(float(np.abs(steps).mean() / away.mean()), 1e-6))
            found["rise"] = float(np.mean(np.sign(steps)))
            found["same"] = float(np.mean(steps == 0))
        if is_coded(known):
            found["lowest"] = float(known.min())
        else:
            found["edge"] = max(float(np.mean(known == known.max())), float(np.mean(known == known.min())))
    return found


def is_coded(known: Floats) -> bool:
    """Return whether a column holds a few whole numbers only: codes of categories, or counts."""
    distinct = np.unique(known[:2000])
    return len(distinct) <= FEW_CODES and bool((distinct == np.round(distinct)).all())


def corrected(values: Floats, first: Array, own: Figures) -> Iterator[tuple[str, Floats, str]]:
    """Yield a kind, the corrected values and words for everything that may have to be done to a column.

    Pure ratios of units are left out, which need no values.
    """
    known = values[np.isfinite(values)]
    for conversion in conversions():
        words = f"is off as {conversion.words} would be"
        yield "unit", conversion.factor * values + conversion.offset, words
    for base, name in LOGARITHMS.items():
        if np.abs(known).max(initial=0.0) * math.log(base) < MOST_EXPONENT:
            yield "logarithm", base**values, f"looks like {name} of the others': give the values themselves"
        if known.min(initial=1.0) > 0:
            plain = f"looks like the values of which the others' are {name}: take the logarithm"
            yield "logarithm", np.log(values) / math.log(base), plain
    yield "sign", -values, "has the opposite sign of the others'"
    if is_coded(known) and len(np.unique(known)) > 1:
        yield "coding", values - 1, "is coded by numbers that are 1 larger than the others', such as 1/2 against 0/1"
        yield "coding", values + 1, "is coded by numbers that are 1 smaller than the others', such as 0/1 against 1/2"
        reverse = known.min() + known.max() - values
        yield "coding", reverse, "is coded the other way round than the others', such as 1/0 against 0/1"
    for code in SIGNS_OF_MISSING:
        if FEWEST_MISSING <= np.mean(known == code) <= 0.9:
            words = (
                f"has the value {code:g} where the others' have none: a sign of a missing value? Read it with missing="
            )
            yield "missing", np.where(values == code, np.nan, values), words
    steps = np.where(first, np.nan, np.diff(values, prepend=np.nan))
    yield "cumulated", steps, "is cumulated where the others' is not: take differences"
    starts = np.maximum.accumulate(np.where(first, np.arange(len(values)), 0))
    sums = np.cumsum(np.nan_to_num(values))
    before = np.concatenate([[0.0], sums])[starts]
    yield "cumulated", sums - before, "has differences where the others' is cumulated: add it up"

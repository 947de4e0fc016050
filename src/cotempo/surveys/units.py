"""`RATIOS` and `conversions`: pairs of units that tables are often mixed up in, and `named`, which explain a ratio."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Conversion:
    """Turn a value x into ``factor * x + offset``; `words` say which units would explain it."""

    factor: float
    offset: float
    words: str


#: The larger number against the smaller one of the same quantity, by their ratio.
RATIOS = {
    1.6093: "kilometres against miles",
    1.699: "m3/h against cubic feet per minute",
    1.944: "knots against m/s",
    2.119: "cubic feet per minute against l/s",
    2.2046: "pounds against kilograms",
    2.237: "miles per hour against m/s",
    2.54: "centimetres against inches",
    3.2808: "feet against metres",
    3.412: "BTU/h against watts",
    3.6: "m3/h against l/s, km/h against m/s, or MJ against kWh",
    3.785: "litres against US gallons",
    4.184: "joules against calories",
    4.403: "US gallons per minute against m3/h",
    6.2898: "barrels against m3",
    6.8948: "kPa against psi",
    7.5006: "mmHg against kPa",
    10.0: "one decimal place, or units such as mm and cm, or bar and MPa",
    14.5038: "psi against bar",
    16.667: "l/min against m3/h",
    18.016: "mg/dL against mmol/L of glucose",
    24.0: "hours against days",
    25.4: "millimetres against inches",
    28.317: "litres against cubic feet",
    33.864: "hPa against inches of mercury",
    35.315: "cubic feet against m3",
    38.67: "mg/dL against mmol/L of cholesterol",
    60.0: "seconds against minutes, or minutes against hours",
    88.4: "umol/L against mg/dL of creatinine",
    100.0: "percent against a fraction, kPa against bar, or cm against m",
    145.04: "psi against MPa",
    1000.0: "a prefix such as milli or kilo",
    3600.0: "seconds against hours",
    86400.0: "seconds against days",
    1e5: "Pa against bar",
    1e6: "a prefix such as micro or mega",
}
#: A smaller ratio than the smallest of units is how sites differ.
SMALLEST = 1.5
#: Without a pair of units that explains it, a ratio must be larger.
SMALLEST_UNNAMED = 2.0
#: So many pairs of units are named at most.
MOST_NAMED = 2


def conversions() -> Iterator[Conversion]:
    """Yield what a column may have to be converted by besides a ratio."""
    yield Conversion(1.8, 32.0, "degrees Celsius against Fahrenheit")
    yield Conversion(1 / 1.8, -32 / 1.8, "degrees Fahrenheit against Celsius")
    yield Conversion(1.0, 273.15, "degrees Celsius against kelvins")
    yield Conversion(1.0, -273.15, "kelvins against degrees Celsius")


def named(factor: float, evidence: Callable[[float], float], nearly: float) -> str | None:
    """Return words for a factor that brings a column to the others', None if it is too small to be told.

    Parameters
    ----------
    factor
        The estimated factor.
    evidence
        How much a factor explains.
    nearly
        Pairs of units that explain as much as the estimated factor, but for so much, are named, the best first.
    """
    size = max(factor, 1 / factor)
    if size < SMALLEST:
        return None
    explained = {ratio: evidence(ratio if factor > 1 else 1 / ratio) for ratio in RATIOS}
    enough = evidence(factor) - nearly
    units = sorted((ratio for ratio in RATIOS if explained[ratio] > enough), key=lambda ratio: -explained[ratio])
    if size < SMALLEST_UNNAMED and not units:
        return None
    listed = "; or ".join(f"{RATIOS[ratio]} ({number(ratio)})" for ratio in units[:MOST_NAMED])
    return f"is about {times(factor)} the others': {listed or 'another unit'}?"


def number(size: float) -> str:
    """Return a ratio to three digits."""
    return f"{float(f'{size:.3g}'):,.0f}" if size >= 1000 else f"{size:.3g}"


def times(ratio: float) -> str:
    """Return a ratio in words.

    Examples
    --------
    >>> times(18.016), times(1 / 1000)
    ('18 times smaller than', '1,000 times larger than')
    """
    return f"{number(max(ratio, 1 / ratio))} times {'smaller' if ratio > 1 else 'larger'} than"

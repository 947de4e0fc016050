"""`CONVERSIONS`: pairs of units that tables are often mixed up in, as what turns one into the other."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Conversion:
    """Turn a value x into ``factor * x + offset``; `words` say which units would explain it."""

    factor: float
    offset: float
    words: str


RATIOS = {
    18.016: "mg/dL against mmol/L of glucose",
    38.67: "mg/dL against mmol/L of cholesterol",
    88.4: "umol/L against mg/dL of creatinine",
    2.2046: "pounds against kilograms",
    2.54: "centimetres against inches",
    25.4: "millimetres against inches",
    3.2808: "feet against metres",
    1.6093: "kilometres against miles",
    3.6: "km/h against m/s",
    4.184: "joules against calories",
    7.5006: "mmHg against kPa",
    10.0: "one decimal place, or units such as mm and cm",
    24.0: "hours against days",
    60.0: "seconds against minutes, or minutes against hours",
    100.0: "percent against a fraction, or cm against m",
    1000.0: "a prefix such as milli or kilo",
    3600.0: "seconds against hours",
    86400.0: "seconds against days",
    1e6: "a prefix such as micro or mega",
}


def conversions() -> Iterator[Conversion]:
    """Yield what a column may have to be converted by."""
    for ratio, words in RATIOS.items():
        yield Conversion(ratio, 0.0, words)
        yield Conversion(1 / ratio, 0.0, words)
    yield Conversion(1.8, 32.0, "degrees Celsius against Fahrenheit")
    yield Conversion(1 / 1.8, -32 / 1.8, "degrees Fahrenheit against Celsius")
    yield Conversion(1.0, 273.15, "degrees Celsius against kelvins")
    yield Conversion(1.0, -273.15, "kelvins against degrees Celsius")


def times(ratio: float) -> str:
    """Return a ratio in words.

    Examples
    --------
    >>> times(18.016), times(1 / 1000)
    ('18 times smaller than', '1,000 times larger than')
    """
    size = max(ratio, 1 / ratio)
    number = f"{size:,.0f}" if size >= 1000 else f"{size:.3g}"
    return f"{number} times {'smaller' if ratio > 1 else 'larger'} than"

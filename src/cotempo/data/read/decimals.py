"""`with_points`: numbers written with decimal commas, or with signs for thousands, as plain numbers."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as compute

from cotempo.data.read.signs import trimmed

COMMA_NUMBER = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?\s*$"
POINT_NUMBER = r"^\s*[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?([eE][+-]?\d+)?\s*$"
EITHER = r"^\s*[+-]?\d{1,3},\d{3}\s*$"  # 1,234 could be thousands as well
SEVERAL_COMMAS, POINT = r"^\s*[+-]?\d{1,3}(,\d{3}){2,}", r"^\s*[+-]?[\d,]*\.\d+([eE][+-]?\d+)?\s*$"


def with_points(
    columns: dict[str, pa.ChunkedArray], decimal: str, missing: Sequence[str | float]
) -> dict[str, pa.ChunkedArray]:
    """Return columns of text as numbers with points, where most cells are numbers written with this decimal sign."""
    number = COMMA_NUMBER if decimal == "," else POINT_NUMBER
    return {name: _plain(values, number, decimal, missing) for name, values in columns.items()}


def guess_commas(
    columns: dict[str, pa.ChunkedArray], separator: str, missing: Sequence[str | float]
) -> tuple[dict[str, pa.ChunkedArray], str]:
    """Return the columns of a CSV with points for decimal commas, and what was guessed, in words.

    A comma is a decimal one if some cell says so, as 1,5 does. Where all have three digits after it, it is one in a
    file separated by semicolons that has no number with a point and none with two commas.
    """
    commas = {name: values for name, values in columns.items() if _any(values, r"^[^,]*\d,\d+")}
    own = {name: with_points({name: values}, ",", missing)[name] for name, values in commas.items()}
    found = {name: values for name, values in own.items() if not values.equals(columns[name])}
    thousands = [name for name in commas if _any(columns[name], SEVERAL_COMMAS)]
    sure = [name for name in found if _any(columns[name].filter(_match(columns[name], COMMA_NUMBER)), ",", but=EITHER)]
    pointed = any(_any(values, POINT) for values in columns.values())
    if not sure and (separator != ";" or thousands or pointed):
        return columns, ""
    taken = {name: values for name, values in found.items() if name in sure or name not in thousands}
    if not taken:
        return columns, ""
    if sure:
        return {**columns, **taken}, ", decimals by ','"
    example = next(text for text in columns[next(iter(taken))].to_pylist() if text and "," in text).strip()
    read = f"{example} is read as {example.replace(',', '.')}; pass decimal='.' if commas mark thousands"
    return {**columns, **taken}, f", decimals by ',' ({read})"


def _plain(texts: pa.ChunkedArray, number: str, decimal: str, missing: Sequence[str | float]) -> pa.ChunkedArray:
    numbers = _match(texts, number)
    if 2 * (compute.sum(numbers).as_py() or 0) <= compute.count(trimmed(texts, missing)).as_py():
        return texts
    grouped = "." if decimal == "," else ","
    plain = compute.replace_substring(compute.replace_substring(texts, grouped, ""), decimal, ".")
    return compute.if_else(numbers, plain, texts)


def _match(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return compute.match_substring_regex(texts, pattern)


def _any(texts: pa.ChunkedArray, pattern: str, but: str = "") -> bool:
    found = _match(texts, pattern)
    return bool(compute.any(compute.and_not(found, _match(texts, but)) if but else found).as_py())

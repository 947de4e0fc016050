"""Signs for a missing value, the usual ones and those that ``missing=`` names: texts, or numbers such as -999."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from cotempo.typing import Floats

USUAL = ("", "na", "n/a", "nan", "null", "none")
REPEATS = ("replicate", "repeat", "rep", "batch", "run", "plate", "experiment", "series", "subject", "patient")
#: What switches are called, off and on; a column must have one of each.
SWITCHES = (
    ("off", "closed", "stopped", "stop", "false", "no", "aus", "zu", "nein"),
    ("on", "open", "running", "run", "true", "yes", "ein", "an", "auf", "ja"),
)
MOST_SIGNS = 3  # different texts among the numbers of a column that may all mean missing


def trimmed(values: pa.ChunkedArray, missing: Sequence[str | float] = ()) -> pa.ChunkedArray:
    """Return text without white space around it, null where it is one of the usual or given signs for a missing one."""
    texts = compute.utf8_trim_whitespace(values.cast(pa.large_string()))
    signs = pa.array([*USUAL, *map(_text, missing)], pa.large_string())
    return compute.if_else(compute.is_in(compute.utf8_lower(texts), value_set=signs), None, texts)


def with_numbers(texts: pa.ChunkedArray, numbers: Mapping[str, float]) -> pa.ChunkedArray:
    """Return trimmed texts with the numbers that some of them stand for."""
    for sign, number in numbers.items():
        texts = compute.if_else(compute.equal(compute.utf8_lower(texts), _text(sign)), str(float(number)), texts)
    return texts


def signs_among(texts: pa.ChunkedArray, missing: Sequence[str | float]) -> set[str | float]:
    """Return the signs that some of these texts are."""
    known = set(compute.unique(compute.utf8_lower(compute.utf8_trim_whitespace(texts))).to_pylist()) if missing else ()
    return {sign for sign in missing if _text(sign) in known}


def without_signs(numbers: Floats, missing: Sequence[str | float]) -> tuple[Floats, set[str | float]]:
    """Return numbers with NaN where they are a sign, however that is written (-999, -999,00), and the signs found."""
    wanted = {sign: number for sign in missing if (number := _number(sign)) is not None}
    found = {sign for sign, number in wanted.items() if (numbers == number).any()}
    return np.where(np.isin(numbers, [wanted[sign] for sign in found]), np.nan, numbers), found


def other_signs(column: str, texts: list[str]) -> str:
    """Return what to do about texts in a column of numbers: decimal commas, or a few signs that mean missing."""
    if all(re.fullmatch(r"[+-]?[\d.]*,[\d,.]+", text) for text in texts):
        return "; pass decimal=',' if these are decimal commas, decimal='.' if commas mark thousands"
    if is_repeat(column):
        return f"; pass columns={{'sequence': {column!r}}} if that tells sequences apart, or without={[column]}"
    signs = list(dict.fromkeys(texts))
    below = {sign: half for sign in signs if (half := _half_limit(sign)) is not None}
    if below and len(below) <= MOST_SIGNS:
        return f"; pass replace_signs={below}, for half of a limit of detection, or without={[column]}"
    switch = {sign: place for place in range(2) for sign in signs if sign.lower() in SWITCHES[place]}
    if len(switch) == len(signs) == 2 == len(set(switch.values())):
        return f"; pass replace_signs={switch}, or without={[column]}"
    missing = f"missing={signs} if that means missing, or " if len(signs) <= MOST_SIGNS else ""
    return f"; pass {missing}without={[column]}"


def is_repeat(column: str) -> bool:
    """Return whether a column is called as what tells repetitions of one measurement apart."""
    return column.strip().lower() in REPEATS


def _half_limit(sign: str) -> float | None:
    """Return half the number of a text such as <0,1; None where it is no such text."""
    number = _number(sign.removeprefix("<").strip()) if sign.startswith("<") else None
    return None if number is None else number / 2


def _text(sign: str | float) -> str:
    return str(sign).strip().lower()


def _number(sign: str | float) -> float | None:
    try:
        return float(str(sign).replace(",", "."))
    except ValueError:
        return None

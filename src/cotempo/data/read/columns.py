"""Conversions of Arrow columns: text to numbers, and words for missing values to nulls."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

MISSING = pa.array(["", "na", "n/a", "nan", "null", "none"], pa.large_string())


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text of any width."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary-encoded column as plain values, any other as it is."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def to_floats(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers, booleans, or text known to hold numbers as float64, NaN where null."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_temporal(values.type):
        raise pa.ArrowInvalid("times are not numbers")
    # Whole numbers beyond 2**53 are rounded to the nearest float, as everywhere in numerical work.
    floats = values.cast(pa.float64(), safe=False)
    return np.array(floats.fill_null(np.nan).to_numpy(), dtype=np.float64)


def null_if_missing_word(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return trimmed text, null where it is one of the usual words for a missing value."""
    trimmed = compute.utf8_trim_whitespace(values.cast(pa.large_string()))
    return compute.if_else(compute.is_in(compute.utf8_lower(trimmed), value_set=MISSING), None, trimmed)


def uncastable_rows(values: pa.ChunkedArray, kind: pa.DataType) -> NDArray[np.intp]:
    """Return the positions of texts that cannot be cast to a type; Arrow itself only says that there is one."""
    if _casts(values, kind):
        return np.zeros(0, dtype=np.intp)
    distinct = compute.unique(values.drop_null())
    bad = [text for text in distinct.to_pylist() if not _casts(pa.array([text], distinct.type), kind)]
    found = compute.is_in(values, value_set=pa.array(bad, distinct.type))
    return np.flatnonzero(found.to_numpy())


def null_at(values: pa.ChunkedArray, rows: NDArray[np.intp]) -> pa.ChunkedArray:
    """Return values with nulls at the given positions."""
    if len(rows) == 0:
        return values
    mask = np.zeros(len(values), dtype=bool)
    mask[rows] = True
    return compute.if_else(pa.array(mask), None, values)


def _casts(values: Any, kind: pa.DataType) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowException:
        return False
    return True

"""What all tables share: a schema, a size, a fingerprint, and the way out into a dataframe."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cotempo.errors import ParameterError, nearest

FrameKind = Literal["pandas", "polars", "pyarrow"]
FRAME_KINDS: tuple[FrameKind, ...] = ("pandas", "polars", "pyarrow")
UNITS = {"s": 1.0, "h": 3600.0, "D": 86400.0}


@dataclass(frozen=True)
class Schema:
    """What clients must agree on before they learn together.

    Parameters
    ----------
    kind
        ``"events"``, ``"series"`` or ``"posts"``.
    columns
        Features of a series, names of marks of events, optional columns of posts.
    unit
        ``"s"``, ``"h"`` or ``"D"`` where time counts from 1970-01-01 UTC; empty where time is a plain number.

    Examples
    --------
    >>> Schema("series", ("pulse",), "h").columns
    ('pulse',)
    """

    kind: str
    columns: tuple[str, ...]
    unit: str


class Framed(ABC):
    """Something that dataframe libraries can take as it is.

    `polars.DataFrame`, `pyarrow.table`, `pandas.DataFrame.from_arrow` and others read the Arrow stream;
    `pandas.DataFrame` reads the rows, which have no columns to show where there are none.
    """

    @abstractmethod
    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the rows as a dataframe."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule of an Arrow C stream."""
        return self.to_frame("pyarrow").__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, by column."""
        yield from self.to_frame("pyarrow").to_pylist()


class Table(Framed):
    """The common part of `Events`, `Series` and `Posts`.

    A table owns read-only arrays: what is in it cannot change, and nothing it was made from can change it.
    """

    kind: ClassVar[str]
    unit: str

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What clients must agree on."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return the tidy columns, by name."""

    def __len__(self) -> int:
        return self.rows

    def __reduce__(self) -> tuple[type[Table], tuple[Any, ...]]:
        # Rebuilding through the constructor keeps arrays read-only on the other side of a process pool.
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the table as a tidy dataframe.

        Parameters
        ----------
        kind
            ``"pandas"``, ``"polars"`` or ``"pyarrow"``; the library must be installed.
        """
        return make_frame(self.columns(), kind)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the contents, as hexadecimal text.

        Equal contents give equal fingerprints on every machine, whatever source they were read from.
        """
        digest = hashlib.sha256()
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            digest.update(_bytes_of(field.name, getattr(self, field.name)))
        return digest.hexdigest()


def make_frame(columns: Mapping[str, Any], kind: FrameKind = "pandas") -> Any:
    """Return columns as a dataframe of the asked kind.

    Examples
    --------
    >>> make_frame({"time": [0.5, 1.0]}, "pyarrow").column_names
    ['time']
    """
    if kind not in FRAME_KINDS:
        raise ParameterError(f"kind must be one of {', '.join(FRAME_KINDS)}, got {kind!r}{nearest(kind, FRAME_KINDS)}")
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) else list(values) for name, values in columns.items()
    }
    return nw.from_dict(plain, backend=kind).to_native()


def own(values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """Return a contiguous, read-only copy."""
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def stretches(sequence: NDArray[np.str_]) -> Iterator[tuple[str, slice]]:
    """Yield the name and the rows of each sequence; equal names must stand together.

    Examples
    --------
    >>> list(stretches(np.array(["a", "a", "b"])))
    [('a', slice(0, 2, None)), ('b', slice(2, 3, None))]
    """
    if len(sequence) == 0:
        return
    bounds = [0, *(np.flatnonzero(sequence[1:] != sequence[:-1]) + 1).tolist(), len(sequence)]
    for first, last in pairwise(bounds):
        yield str(sequence[first]), slice(first, last)


def numbered(count: int) -> list[str]:
    """Return names that sort in the order they were given.

    Examples
    --------
    >>> numbered(11)[1:3]
    ['01', '02']
    """
    width = len(str(max(count - 1, 0)))
    return [f"{number:0{width}d}" for number in range(count)]


def counted(number: int, word: str) -> str:
    """Return a number with its noun in the right form.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def as_names(names: Sequence[object]) -> tuple[str, ...]:
    """Return names as a tuple of text."""
    return tuple(str(name) for name in names)


def _bytes_of(name: str, value: Any) -> bytes:
    """Return bytes that depend on contents only, not on padding, NaN payloads or the sign of zero."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        body = np.where(np.isnan(value), np.nan, value + 0.0).astype("<f8").tobytes()
        return json.dumps([name, list(value.shape)]).encode() + body
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        value = sorted(value.items())
    return json.dumps([name, value], default=str).encode()

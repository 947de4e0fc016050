"""`Table`, the base class of all kinds of tables, and the registry of kinds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cotempo.data.argument_checks import check_choice
from cotempo.data.clock import Clock
from cotempo.data.html import html_table
from cotempo.errors import ParameterError
from cotempo.typing import Floats, Indices

if TYPE_CHECKING:
    from cotempo.data.description import ClientDescription

FrameKind = Literal["pandas", "polars", "pyarrow"]
FRAME_KINDS: tuple[FrameKind, ...] = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class Schema:
    """What clients must agree on before they learn together.

    Parameters
    ----------
    kind
        The kind of table: ``"events"``, ``"series"``, ``"posts"``.
    columns
        Features of a series, names of marks of events, optional columns of posts.
    unit
        ``"s"``, ``"h"`` or ``"D"`` where time counts from 1970-01-01 UTC; empty where time is a plain number.
    zone
        The time zone of the dates, empty where they came without one. Clients may live in different zones.
    """

    kind: str
    columns: tuple[str, ...]
    unit: str
    zone: str = dataclasses.field(default="", compare=False)

    @property
    def clock(self) -> Clock:
        """How the table counts time."""
        return Clock(self.unit, self.zone)


class Framed(ABC):
    """A result that dataframe libraries accept directly.

    `polars.DataFrame`, `pyarrow.table`, `pandas.DataFrame.from_arrow` and others read the Arrow stream;
    `pandas.DataFrame` reads the rows, so that an empty table has no columns there.
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
    """One client's data: read-only arrays, and everything that depends on the kind of table.

    A new kind is one file: a frozen dataclass that inherits from `Table`, names its `kind` and implements the abstract
    methods, and entries in `READERS` and `GENERATORS`.

    Attributes
    ----------
    kind
        The name of the kind, unique.
    columns_are
        What the columns of the schema are called in a description.
    row_fields
        The fields with one entry per row.
    time_columns
        The tidy columns that hold times.
    time, unit, zone
        Time of each row, ``(rows,)``; ``"s"``, ``"h"`` or ``"D"`` since 1970-01-01 UTC, empty for plain numbers; the
        time zone of the dates, empty where they came without one.
    """

    kind: ClassVar[str]
    columns_are: ClassVar[str] = "columns"
    row_fields: ClassVar[tuple[str, ...]] = ("time",)
    time_columns: ClassVar[tuple[str, ...]] = ("time",)
    time: Floats
    unit: str
    zone: str

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @classmethod
    def recognizes(cls, columns: Set[str]) -> bool:
        """Return whether a source with these columns is of this kind; what nobody recognizes is a series."""
        return False

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What clients must agree on."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.time)

    @property
    def clock(self) -> Clock:
        """How the table counts time: converts between its numbers and dates."""
        return Clock(self.unit, self.zone)

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return the tidy columns, by name."""

    def side_tables(self) -> dict[str, dict[str, Any]]:
        """Return columns that must be written to files of their own, by the name of the table."""
        return {}

    @abstractmethod
    def split_by_time(self, shares: Floats) -> tuple[Self, ...]:
        """Return one table per share, each later than the one before; shares are positive and sum to 1."""

    def sequence_names(self) -> list[str] | None:
        """Return the names of the sequences, sorted; None if every row stands for itself."""
        return None

    def labels(self) -> NDArray[np.str_] | None:
        """Return the label of each sequence, or of each row if there are no sequences; None if unlabelled."""
        return None

    def select(self, rows: ArrayLike) -> Self:
        """Return the chosen rows: a mask, or positions (in rising order where there are sequences)."""
        return dataclasses.replace(self, **self._picked(rows))  # type: ignore[type-var]

    def take(self, units: ArrayLike) -> Self:
        """Return the sequences at these positions, or the rows if there are no sequences."""
        return self.select(units)

    @abstractmethod
    def describe(self, client: str = "client") -> ClientDescription:
        """Return what the table holds and what is odd about it."""

    def faults(self) -> list[str]:
        """Return in words what can hardly be right in the table, which `fit` warns of."""
        return []

    def span(self, start: float, end: float) -> tuple[float | str, float | str]:
        """Return two times as a description shows them: dates as text."""
        clock = self.clock
        return (clock.text(start), clock.text(end)) if clock.dates else (float(start), float(end))

    @abstractmethod
    def with_markers(self, number: int) -> tuple[Self, list[float | str]]:
        """Return the table with recognizable values, different for each `number`, and all that no message may hold."""

    def __len__(self) -> int:
        return self.rows

    def __reduce__(self) -> tuple[type[Table], tuple[Any, ...]]:
        # Rebuilding through the constructor keeps arrays read-only on the other side of a process pool.
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self), tuple(dict(value) if isinstance(value, Mapping) else value for value in values)

    def _own(self, **dtypes: Any) -> None:
        """Replace fields by contiguous, read-only copies."""
        for name, dtype in dtypes.items():
            array = np.array(getattr(self, name), dtype=dtype, order="C")
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def _picked(self, rows: ArrayLike) -> dict[str, Any]:
        """Return the chosen rows of every row-wise field, by name."""
        chosen = np.arange(self.rows)[np.asarray(rows, dtype=None if np.size(rows) else np.intp)]
        return {name: _pick(getattr(self, name), chosen) for name in self.row_fields}

    def _repr_html_(self) -> str:
        found = self.describe()
        rows = [(self.columns_are, ", ".join(self.schema.columns) or "none"), *found.facts().items()]
        return html_table(type(self).__name__, rows, notes=found.warnings)

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the table as a tidy dataframe: ``"pandas"``, ``"polars"`` or ``"pyarrow"``, if it is installed.

        Times that were read from dates are dates again, in their time zone.
        """
        return make_frame(self.columns(), kind, dict.fromkeys(self.time_columns, self.clock))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the contents, as hexadecimal text.

        Equal contents give equal fingerprints on every machine, whatever source they were read from. The zone is left
        out, because it says how times are shown, not when they were, and so are weights and whether windows were
        guessed, which are no contents.
        """
        digest = hashlib.sha256()
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.name not in ("zone", "weights", "guessed"):
                digest.update(_bytes_of(field.name, getattr(self, field.name)))
        return digest.hexdigest()


#: Every kind of table by name, with its reader and its generator; the file of a kind adds its own.
KINDS: dict[str, type[Table]] = {}
READERS: dict[str, Callable[..., Any]] = {}
GENERATORS: dict[str, Callable[..., tuple[Any, Any]]] = {}


def make_frame(
    columns: Mapping[str, Any], kind: FrameKind = "pandas", clocks: Mapping[str, Clock] | None = None
) -> Any:
    """Return columns as a dataframe; those with a clock hold times, which become dates where they were dates."""
    check_choice("kind", kind, FRAME_KINDS)
    plain = {name: v.tolist() if isinstance(v, np.ndarray) else list(v) for name, v in columns.items()}
    for name, clock in (clocks or {}).items():
        if name in plain and clock.dates:
            plain[name] = _dates(clock, plain[name], kind)
    if kind == "pandas":
        plain = {name: _whole(values) if isinstance(values, list) else values for name, values in plain.items()}
    try:
        return nw.from_dict(plain, backend=kind).to_native()
    except ModuleNotFoundError as error:
        raise ParameterError(f"kind={kind!r} needs a package that is not installed: pip install {kind}") from error


def _whole(values: list[Any]) -> Any:
    """Return whole numbers beside gaps so that pandas keeps them: as floats, long ids of posts lose digits."""
    kinds = {type(value) for value in values}
    if kinds != {int, type(None)}:
        return values
    import pandas as pd

    return pd.array(values, dtype="Int64")


def _dates(clock: Clock, numbers: list[float], kind: FrameKind) -> Any:
    import pyarrow as pa

    if kind == "polars" and clock.zone[:1] in ("+", "-"):  # polars knows zones by name only
        clock = Clock(clock.unit, "UTC")
    found = clock.dates_of(numbers)
    return found if kind == "pandas" else pa.array(found)


def runs_of(sequence: NDArray[np.str_]) -> Iterator[tuple[str, slice]]:
    """Yield each name and the slice of its rows; rows of a name must be adjacent."""
    bounds = np.flatnonzero(np.r_[True, sequence[1:] != sequence[:-1], True]) if len(sequence) else ()
    for first, last in pairwise(bounds):
        yield str(sequence[first]), slice(int(first), int(last))


def part_bounds(shares: Floats, count: int) -> Indices:
    """Return where the parts of `count` rows begin and end, ``(parts + 1,)``."""
    return np.concatenate([[0], np.round(np.cumsum(shares[:-1]) * count), [count]]).astype(np.intp)


def numbered(count: int) -> list[str]:
    """Return zero-padded numbers as text, which sort as numbers do."""
    width = len(str(max(count - 1, 0)))
    return [f"{number:0{width}d}" for number in range(count)]


def client_names(count: int) -> list[str]:
    """Return ``client-0``, ``client-1``, ..., zero-padded."""
    return [f"client-{number}" for number in numbered(count)]


def pluralize(number: int, word: str) -> str:
    """Return a number with its noun in the right form: 1 row, 2,000 rows."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _pick(values: Any, rows: Indices) -> Any:
    if isinstance(values, Mapping):
        return {name: _pick(column, rows) for name, column in values.items()}
    return values[rows] if isinstance(values, np.ndarray) else tuple(values[row] for row in rows.tolist())


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

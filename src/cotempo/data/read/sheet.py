"""`Sheet`: the columns of one file or dataframe, converted on request; what does not convert is noted with its row."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
from numpy.typing import NDArray

from cotempo.data.argument_checks import check_choice
from cotempo.data.clock import UNITS, Clock, is_zone
from cotempo.data.problems import Problems, client_name_error, duplicates, list_names, quote
from cotempo.data.read.signs import other_signs, signs_among, trimmed, with_numbers, without_signs
from cotempo.errors import ParameterError, nearest, warn
from cotempo.typing import Floats, Indices

LIMIT = 8 * 1024**3
MOST_ROWS_PER_RULE = 1000
DATE = re.compile(r"\s*\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?!\d)")
DECIMALS = (",", ".")
HOURS = ("first", "second")
TIME_AS_NAME = re.compile(r"(t_?)?\d+([.,]\d+)?\s*(s|sec|m|min|h|hr|hrs|hours?|d|days?)?|\d{4}-\d\d-\d\d([ t].*)?")
MANY_TIMES = 4
MEANINGS = ("client", "time", "sequence", "author", "event")  # of columns

Columns = Mapping[str, str | Mapping[str, str]]
"""What columns are called in a source, by the name they get; or that by client, where sources differ."""

DateFormat = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""How dates are written; several ways, of which one fits all dates of a column; or one by client."""


@dataclass(frozen=True)
class Reading:
    """One call of a reader: its options, and what was found so far."""

    columns: Columns | None = None  # what columns are called in the source, by the name they get, or that by client
    unit: str = "s"  # of dates
    zone: str | Mapping[str, str] = ""  # of dates that come without one, or that by client
    date_format: DateFormat = ""  # of dates that are not ISO 8601
    limit: int = LIMIT  # the most bytes one file may expand to
    missing: Sequence[str | float] = ()  # further signs for a missing value
    without: Sequence[str] = ()  # columns to leave out, by their names in the source
    decimal: str = ""  # the sign before decimals; guessed if empty
    ambiguous: str = ""  # which hour is meant, "first" or "second", where clocks repeat one; refused if empty
    replace_signs: Mapping[str, float] = field(default_factory=dict)  # numbers that texts stand for
    ordered: bool = False  # rows of a sequence follow each other in time, which tells a repeated hour apart
    problems: Problems = field(default_factory=Problems)
    clocks: dict[str, Clock] = field(default_factory=dict)  # of the times of each sheet, by its client
    seen: set[str] = field(default_factory=set)  # names of columns in any source
    signs: set[str | float] = field(default_factory=set)  # of `missing`, those found in any source
    notes: dict[str, list[str]] = field(default_factory=dict)  # what was guessed or left out, and in which sources

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, UNITS)
        for zone in (self.zone,) if isinstance(self.zone, str) else self.zone.values():
            if not is_zone(zone):
                raise ParameterError(f"zone must be a time zone such as 'Europe/Berlin' or '+01:00', got {zone!r}")
        each: list[Mapping[str, Any]] = [*self.by_client.values()] or [self.columns or {}]
        if not all(isinstance(name, str) for one in each for pair in one.items() for name in pair):
            raise ParameterError(
                "columns must map names to names, such as {'time': 'Aufnahme'}, or clients to such mappings, "
                f"got {self.columns!r}"
            )
        if self.ambiguous:
            check_choice("ambiguous", self.ambiguous, HOURS)
        if self.decimal:
            check_choice("decimal", self.decimal, DECIMALS)
        kinds: tuple[tuple[str, Any, str], ...] = (
            ("missing", str | int | float, "texts or numbers, such as ['n.d.', -999]"),
            ("without", str, "texts, such as ['operator']"),
        )
        for option, kind, what in kinds:
            given = getattr(self, option)
            if isinstance(given, str) or not all(isinstance(name, kind) for name in given):
                raise ParameterError(f"{option} must be a list of {what}, got {given!r}")

        numbers = {sign: number for sign, number in self.replace_signs.items() if not isinstance(number, bool)}
        if not all(isinstance(sign, str) and isinstance(number, int | float) for sign, number in numbers.items()):
            raise ParameterError(
                f"replace_signs must map texts to numbers, such as {{'<0,1': 0.05}}, got {self.replace_signs!r}"
            )

    @property
    def all_signs(self) -> tuple[str | float, ...]:
        """Texts and numbers in columns of numbers that are no numbers of their own."""
        return (*self.missing, *self.replace_signs)

    @property
    def date_formats(self) -> tuple[str, ...]:
        """The formats that dates may have beside ISO 8601."""
        given = self.date_format
        if isinstance(given, Mapping):
            return ()
        return ((given,) if given else ()) if isinstance(given, str) else tuple(given)

    @property
    def dates_by_client(self) -> bool:
        """Whether zones or formats of dates are given by client."""
        return isinstance(self.zone, Mapping) or isinstance(self.date_format, Mapping)

    @property
    def by_client(self) -> dict[str, Mapping[str, str]]:
        """What columns are called, by client; empty where all sources name them alike."""
        given = self.columns or {}
        return {name: one for name, one in given.items() if isinstance(one, Mapping)} if _all_mappings(given) else {}

    @property
    def named(self) -> dict[str, str]:
        """What columns are called in one source."""
        return {name: called.strip() for name, called in (self.columns or {}).items() if isinstance(called, str)}

    @property
    def local_zone(self) -> str:
        """The zone of dates that come without one, in one source; none where every client has its own."""
        return self.zone if isinstance(self.zone, str) else ""

    def of(self, client: str) -> Self:
        """Return the reading of one client's source, which adds to the same problems and notes."""
        if not self.by_client and not self.dates_by_client:
            return self
        columns = _of_client(self.by_client, client, {}) if self.by_client else self.columns
        zone = self.zone if isinstance(self.zone, str) else _of_client(self.zone, client, "")
        dates = self.date_format
        written = _of_client(dates, client, "") if isinstance(dates, Mapping) else dates
        return replace(self, columns=columns, zone=zone, date_format=written, seen=set())

    def remark(self, note: str, source: str) -> None:
        """Keep a note for `finish`."""
        if source not in self.notes.setdefault(note, []):
            self.notes[note].append(source)

    def finish(self) -> None:
        """Raise all problems, or else warn of what was guessed or left out, one warning per note."""
        self.problems.raise_any()
        for option, signs in (("missing", self.missing), ("replace_signs", self.replace_signs)):
            for sign in signs:
                if sign not in self.signs:
                    self.remark(f"no cell holds this sign, which {option}= names", repr(sign))
        for note, sources in self.notes.items():
            warn(f"{list_names(sources)}: {note}")

    def rename(self, columns: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
        """Return the columns of a source under the names that readers know."""
        self.seen.update(columns)
        left_out = {name.strip() for name in self.without}
        new = {old: name for name, old in self.named.items() if old in columns}
        columns = {name: part for name, part in columns.items() if not {name, new.get(name)} & left_out}
        renamed = [new.get(name, name) for name in columns]
        problems = Problems()
        for name in duplicates(renamed):
            both = " and ".join(repr(old) for old, own in zip(columns, renamed, strict=True) if own == name)
            problems.add(f"must be one column, got {both}; drop or rename one of them", column=name)
        problems.raise_any()
        return dict(zip(renamed, columns.values(), strict=True))


def check_columns(columns: Columns | None, known: Sequence[str]) -> None:
    """Refuse names in ``columns=`` that a reader gives no column."""
    for one in (columns or {}).values() if _all_mappings(columns or {}) else ():
        check_columns(one, known)  # type: ignore[arg-type]
    for name in () if _all_mappings(columns or {}) else columns or {}:
        if name not in known:
            raise ParameterError(
                f"columns= must name columns that are known ({', '.join(known)}), got {name!r}{nearest(name, known)}; "
                "write it as {'time': 'Aufnahme'}"
            )


@dataclass(frozen=True)
class Keys:
    """Sorted names, and the position of each row's name among them; -1 where it is missing."""

    names: tuple[str, ...]
    codes: Indices


@dataclass(frozen=True)
class Sheet:
    """The columns of one file or dataframe."""

    reading: Reading
    columns: dict[str, pa.ChunkedArray]
    first_row: int  # as people count: 2 in a CSV (the header is row 1, blank lines do not count), else 0
    client: str  # whose rows these are, if no column says so
    one_client: bool = False  # a file in a folder: all rows belong to the client it is named after
    problems: Problems = field(default_factory=Problems)
    places: Indices | None = None  # of rows in the source, where these are some of its rows
    origin: NDArray[np.str_] | None = None  # the file of each row, where a client has several

    def row_number(self, row: int) -> int:
        """Return the number of a row in the source, as people count."""
        return self.first_row + (row if self.places is None else int(self.places[row]))

    def _of_file(self, row: int) -> str:
        return "" if self.origin is None else f" (in {self.origin[row]})"

    def by_client(self, everyone: Reading) -> list[Self]:
        """Return a sheet for each client that rows name, if everyone's reading has zones or formats by client."""
        if self.one_client or "client" not in self.columns or not everyone.dates_by_client:
            return [self]
        options = {"zone": everyone.zone, "date_format": everyone.date_format}
        given = {option: each for option, each in options.items() if isinstance(each, Mapping)}
        found = []
        for code, name in enumerate(self.clients.names):
            places = np.flatnonzero(self.clients.codes == code)
            own = {column: values.take(pa.array(places)) for column, values in self.columns.items()}
            dates = {option: _of_client(each, name, getattr(self.reading, option)) for option, each in given.items()}
            reading = replace(self.reading, **dates)
            found.append(replace(self, reading=reading, columns=own, client=name, problems=Problems(), places=places))
        self.problems.raise_any()
        return found

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def repeated(self) -> int:
        """Return how many rows are equal to one before in every column."""
        return self.rows - self.distinct(self.columns)

    def distinct(self, names: Iterable[str]) -> int:
        """Return how many rows differ in some columns."""
        try:
            texts = [self.columns[name].combine_chunks().dictionary_encode().indices for name in names]
        except pa.ArrowException:  # lists cannot be told apart
            return self.rows
        return len(np.unique(np.column_stack([codes.fill_null(-1) for codes in texts]), axis=0))

    def note(self, must: str, column: str | None = None, row: int | None = None) -> None:
        """Note a problem of the sheet."""
        self.problems.add(must, column=column, row=row)

    def note_rows(self, rows: Indices, must: str | Callable[[int], str], column: str) -> None:
        """Note a problem of each row, with the row's client; `must` is given the position of the row."""
        # A rule can be broken in millions of rows: list the first and count the rest, to bound the memory.
        for row in rows[:MOST_ROWS_PER_RULE].tolist():
            # The column of clients itself cannot name the client.
            code = self.clients.codes[row] if column != "client" else -1
            client = self.clients.names[code] if code >= 0 else None
            text = (must if isinstance(must, str) else must(row)) + self._of_file(row)
            self.problems.add(text, client=client, column=column, row=self.row_number(row))
        if len(rows) > MOST_ROWS_PER_RULE:
            last = self.problems.found.pop()
            self.problems.found.append(replace(last, more=len(rows) - MOST_ROWS_PER_RULE))

    def require(self, *names: str) -> None:
        """Raise all problems noted so far if a column is missing, with the nearest name, or there are no rows."""
        missing = [name for name in names if name not in self.columns]
        called = self.reading.named
        # As the file has them, not as they were renamed.
        present = [called.get(column, column) for column in self.columns]
        given = ", ".join(map(quote, present[:10]))
        for name in missing:
            wanted = called.get(name, name)
            advice = f"; the columns are: {given}" + ("" if wanted != name else f"; pass columns={{{name!r}: ...}}")
            # A column with a meaning of its own, such as time, is no misspelt text; and times look like dates.
            others = [column for column in present if column not in MEANINGS]
            dates = [called.get(column, column) for column, values in self.columns.items() if _seems_dates(values)]
            near = f" (did you mean {dates[0]!r}?)" if name == "time" and dates else nearest(wanted, others)
            if name == "time" and 2 * sum(map(looks_like_a_time, present)) > max(len(present), MANY_TIMES):
                advice = "; are times the names of columns? transpose it, frame.set_index(...).T, and add a column time"
            self.note(f"a column {wanted!r} must be there{near}{advice}", name)
        if not missing and self.rows == 0:
            self.note("a table must have at least one row")
        if missing or self.rows == 0:
            self.problems.raise_any()

    @cached_property
    def clients(self) -> Keys:
        """The client of each row; invalid names are noted."""
        keys = self.keys("client", self.client)
        for code, name in enumerate(keys.names):
            wrong = client_name_error(name)
            if self.one_client and name.casefold() != self.client.casefold():
                wrong = f"every row here must belong to client {self.client!r}, got {quote(name)}"
            if wrong:
                row = self.row_number(int(np.argmax(keys.codes == code))) if "client" in self.columns else None
                # The text holds the name escaped: raw, it could write on a terminal.
                self.note(wrong, "client", row)
        return keys

    def keys(self, column: str, default: str = "0") -> Keys:
        """Return a column of names as keys; every row must have one. Without the column all have the default."""
        if column not in self.columns:
            return Keys((default,), np.zeros(self.rows, dtype=np.intp))
        encoded = self.text(column).combine_chunks().dictionary_encode()
        names = [str(name) for name in encoded.dictionary.to_pylist()]
        found = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.full(len(names) + 1, -1, dtype=np.intp)
        rank[order] = np.arange(len(names))
        codes = rank[found]  # a missing name has the code -1, which is the last entry of rank
        self.note_rows(np.flatnonzero(codes < 0), "must be given in every row", column)
        return Keys(tuple(names[position] for position in order), codes)

    def text(self, column: str) -> pa.ChunkedArray:
        """Return a column as text; whole numbers lose their ``.0``, so that 3 and 3.0 are one name."""
        values = self.columns[column]
        try:
            if pa.types.is_floating(values.type):
                values = compute.if_else(compute.is_nan(values), None, values)
                if compute.all(compute.equal(compute.floor(values), values)).as_py() is not False:
                    values = values.cast(pa.int64())
            return values.cast(pa.large_string())
        except pa.ArrowException:
            self.note(f"must hold names or numbers, got {self.columns[column].type}", column)
            return pa.chunked_array([pa.nulls(self.rows, pa.large_string())])

    def numbers(self, column: str) -> Floats:
        """Return a column as float64, NaN where missing; text that is not a number and infinite values are noted."""
        values = self.columns[column]
        if is_text(values.type):
            self.reading.signs.update(signs_among(values, self.reading.all_signs))
            texts, advise = trimmed(values, self.reading.missing), lambda texts: other_signs(column, texts)
            texts = with_numbers(texts, self.reading.replace_signs)
            values, _ = self.cast(column, texts, pa.float64(), "must be a number or empty", advise)
        try:
            numbers = to_floats(values)
        except pa.ArrowException:
            self.note(f"must hold numbers, got {values.type}", column)
            return np.full(self.rows, np.nan)
        numbers, signs = without_signs(numbers, self.reading.missing)
        self.reading.signs.update(signs)
        self.note_rows(np.flatnonzero(np.isinf(numbers)), "must be finite; leave missing values empty", column)
        return numbers

    def cast(
        self,
        column: str,
        texts: pa.ChunkedArray,
        kind: pa.DataType,
        must: str,
        advise: Callable[[list[str]], str] | None = None,
    ) -> tuple[pa.ChunkedArray, Indices]:
        """Return texts of a column as another type and the positions that break the rule: null there, and noted.

        `advise` is given some of the texts that break it and returns what to do.
        """
        whole = _cast(texts, kind)
        if whole is not None:
            return whole, np.zeros(0, dtype=np.intp)
        # Arrow says that a text cannot be cast, but not which one.
        distinct = compute.unique(texts.drop_null())
        wrong = [text for text in distinct.to_pylist() if _cast(pa.array([text], distinct.type), kind) is None]
        found = compute.is_in(texts, value_set=pa.array(wrong, distinct.type))
        rows, given = np.flatnonzero(found.to_numpy()), self.columns[column]
        written = compute.unique(given.filter(found)).slice(0, 100).to_pylist()
        advice = advise([text.strip() for text in written]) if advise else ""
        self.note_rows(rows, lambda row: f"{must}, got {quote(given[row].as_py().strip())}{advice}", column)
        return compute.if_else(found, None, texts).cast(kind), rows


def _of_client(given: Mapping[str, Any], client: str, default: Any) -> Any:
    """Return what is given for a client, whose name may be written in other capitals."""
    return next((each for name, each in given.items() if name.casefold() == client.casefold()), default)


def looks_like_a_time(name: str) -> bool:
    """Return whether the name of a column is a time, as in a table that lies on its side.

    Examples
    --------
    >>> [looks_like_a_time(name) for name in ("12h", "t30", "2026-03-01 08:00", "gene", "p53")]
    [True, True, True, False, False]
    """
    return TIME_AS_NAME.fullmatch(name.strip().lower()) is not None


def _all_mappings(given: Mapping[str, Any]) -> bool:
    return bool(given) and all(isinstance(one, Mapping) for one in given.values())


def _seems_dates(values: pa.ChunkedArray) -> bool:
    """Return whether a column has dates, by its first cells."""
    if pa.types.is_temporal(values.type):
        return True
    first = values.drop_null().slice(0, 5).to_pylist() if is_text(values.type) else []
    return bool(first) and all(DATE.match(text) for text in first)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text of any width."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary-encoded column as plain values, any other as it is."""
    if not pa.types.is_dictionary(values.type):
        return values
    return values.cast(pa.large_string() if is_text(values.type.value_type) else values.type.value_type)


def to_floats(values: pa.ChunkedArray) -> Floats:
    """Return numbers or booleans as float64, NaN where null."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_temporal(values.type):
        raise pa.ArrowInvalid("times are not numbers")
    # Whole numbers beyond 2**53 are rounded to the nearest float, as everywhere in numerical work.
    floats = values.cast(pa.float64(), safe=False)
    return np.array(floats.fill_null(np.nan).to_numpy(), dtype=np.float64)


def _cast(values: Any, kind: pa.DataType) -> Any:
    try:
        return values.cast(kind)
    except pa.ArrowException:
        return None

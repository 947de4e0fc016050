"""`PageTable`: a table of a page, shown in part where it is long, with all rows as CSV; `Picture`: a figure of it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from matplotlib.figure import Figure

from cotempo.drawing.svg import embed, file_name, narrow, read_data

MOST_ROWS, LARGEST_CSV = 40, 300_000


@dataclass(frozen=True)
class PageTable:
    """A table with a header; of more than 40 rows the first are shown, or with `both_ends` the first and the last."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    both_ends: bool = False
    longest: int = 500  # letters of a cell

    @classmethod
    def of(cls, frame: Any, note: str = "") -> "PageTable":
        """Return a dataframe as a table of the page."""
        return cls(tuple(map(str, frame.columns)), list(frame.itertuples(index=False, name=None)), note, longest=120)

    @property
    def shown(self) -> list[Sequence[Any]]:
        """The rows on the page."""
        if len(self.rows) <= MOST_ROWS:
            return list(self.rows)
        half = MOST_ROWS // 4
        return [*self.rows[:half], *self.rows[-half:]] if self.both_ends else list(self.rows[: MOST_ROWS // 2])

    @property
    def kinds(self) -> list[bool]:
        """Whether each column holds numbers, which stand right."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.header)
        return [all(_is_number(cell) for cell in column) for column in columns]

    @property
    def notes(self) -> str:
        """What is to know of the table, with the number of rows that are not shown and where they are."""
        left = len(self.rows) - len(self.shown)
        where = "in the CSV" if self.csv else "written by cotempo export"
        rest = f"{left:,} rows between the first and the last" if self.both_ends else f"{left:,} more rows"
        return " ".join(part for part in (self.note, f"{rest} are {where}." if left else "") if part)

    @property
    def csv(self) -> str:
        """All rows as the URL of a CSV file; empty if that would be too large."""
        return csv_url(self.header, self.rows)


@dataclass(frozen=True)
class Picture:
    """A figure as two images, for desks and for phones, and its data."""

    title: str
    wide: str
    narrow: str
    size: tuple[int, int]
    csv: str

    @classmethod
    def of(cls, title: str, figure: Figure) -> "Picture":
        """Draw a figure twice; the figure itself is changed by that."""
        header, rows = read_data(figure)
        url = csv_url(header, rows) if rows else ""
        size = tuple(round(96 * inches) for inches in figure.get_size_inches())
        return cls(title, embed(figure), embed(narrow(figure)), size, url)

    @property
    def file(self) -> str:
        """The name of the file of its data."""
        return f"{file_name(self.title)}.csv"


def csv_url(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as the URL of a CSV file; empty if it would be too large."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(harmless, header))
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    content = text.getvalue()
    if len(content) > LARGEST_CSV:
        return ""
    return "data:text/csv;charset=utf-8," + quote(content, safe="/:;,=.()+-*!$@?")


def harmless(value: Any) -> Any:
    """Return a cell of a CSV file: floats with six digits, and no text that a spreadsheet would compute."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return without_formula(value)


def without_formula(value: Any) -> Any:
    """Return a cell whose text no spreadsheet computes.

    Examples
    --------
    >>> without_formula("=1+1"), without_formula("rate"), without_formula(-1.5)
    ("'=1+1", 'rate', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r\n") else value


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def number(value: Any, longest: int = 500) -> str:
    """Format a value for people: integers in full, other numbers with four digits, nothing for what is unknown."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        text = str(value)
        return text if len(text) <= longest else f"{text[: longest - 1]}…"
    return f"{value:,}" if isinstance(value, int) else f"{value + 0.0:.4g}"  # no minus before a zero


def size(count: float) -> str:
    """Return a number of bytes as people say it.

    Examples
    --------
    >>> size(17), size(1234), size(39_903_832)
    ('17 bytes', '1.23 kB', '39.9 MB')
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    unit, factor = next((name, scale) for name, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if count >= scale)
    return f"{count / factor:.3g} {unit}"

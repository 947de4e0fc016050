"""Ties between pages and result files: every number below a marker must be one of the files it names.

A marker is a comment of Markdown, which no reader sees, before a table or a paragraph:

    <!-- results: events-truths | GP on roots = gp-roots | columns: coverage | settings: 95 | by hand: 14 -->

First the files; then, where page and file use other words, what a word of the page is called in the file; then the
columns to look in, if not all; then the numbers that are no measurements; then those that are, but of no file. A
number ties to a file if it is a value of it, or the sum, mean, standard deviation or standard error over seeds of one,
as it is, in percent or in the unit that follows it (seconds and bytes in files), rounded as printed. Only rows that
hold the words of the table's row and column count, and only the column that the table's column is named after, where
there is one. That is a search, not a proof: an altered digit may meet another value of the same rows by chance
(`tests/test_bench.py` measures how often).
`<!-- no measurements -->` says so of a whole block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from book.files import FOLDER, ResultFile, Row, differences, result_file, statistics

MARKER = re.compile(r"^<!-- (results: (.*?)|no measurements) -->$")
NUMBER = re.compile(r"(?<![\w.,/^])([-+]?)((?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w/]|[.,]\d)( ?%)?")
ERROR = re.compile(r"error|_se$|_sd$|deviation")
DIFFERENCE = re.compile(r"\b(minus|less|difference|against)\b")
UNIT = re.compile(r"(?<![\w.])(?:ms|s|min|h|[kMG]?B)\b")
SCALES = {"ms": 1e3, "min": 1 / 60, "h": 1 / 3600, "kB": 1e-3, "MB": 1e-6, "GB": 1e-9}
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+|<[^>]*>")


class Quote(NamedTuple):
    """A number on a page, where it stands, what follows it, and the words of its row and column."""

    line: int
    text: str
    percent: bool
    unit: str
    row: str
    column: str


@dataclass
class Block:
    """A paragraph or table of a page, with the marker before it, if any."""

    line: int
    lines: list[str]
    marker: str | None = None
    free: bool = False
    files: list[str] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for part in (self.marker or "").split("|"):
            clause, _, rest = part.strip().partition(":")
            if clause in ("settings", "by hand", "columns"):
                setattr(self, clause.replace(" ", "_"), rest.split() if clause != "columns" else _split(rest))
            elif " = " in part:
                pairs = (f"{pair} ".split(" = ") for pair in part.split(";"))
                self.words = {page.strip().lower(): file.strip().lower() for page, file in pairs}
            else:
                self.files += part.split()

    @property
    def quotes(self) -> list[Quote]:
        """Return the block's numbers; of tables those below the head, in columns that do not say what a row is of."""
        if not self.lines[0].startswith("|"):
            joined = ((self.line + i, text, "", "") for i, text in enumerate(self.lines))
            return [quote for place in joined for quote in _numbers(*place)]
        head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in self.lines]
        keys = {key.lower() for name in self.files for key in result_file(name).keys}
        labels = {0, *(i for i, title in enumerate(head) if _in_words_of_the_file(title, self.words) in keys)}
        found, above = [], ""
        for offset, cells in enumerate(body):
            above = cells[0] or above
            label = ", ".join([above, *(cells[i] for i in sorted(labels - {0}))])
            for i, cell in enumerate(cells):
                found += [] if i in labels else _numbers(self.line + 2 + offset, cell, label, head[i])
        return found


def blocks(page: Path) -> Iterator[Block]:
    """Yield the paragraphs and tables of a page, without code."""
    lines, fenced, marker, free = page.read_text().splitlines(), False, None, False
    pending: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        fenced ^= line.lstrip().startswith("```")
        found = MARKER.match(line)
        ends = not line.strip() or fenced or line.startswith(("#", "```", "<!--"))
        if pending and (ends or line.startswith("|") != pending[0].startswith("|")):
            yield Block(number - len(pending), pending, marker, free)
            pending, marker, free = [], None, False
        if found:
            marker, free = found[2], found[2] is None
        elif not ends:
            pending = [*pending, line]


def untied(block: Block) -> list[Quote]:
    """Return the numbers of a marked block that none of its files holds."""
    left = [quote for quote in block.quotes if quote.text not in (*block.settings, *block.by_hand)]
    return [
        quote
        for quote in left
        if not any(same(quote, value) for name in block.files for value in candidates(result_file(name), quote, block))
    ]


def missing_files(block: Block) -> list[str]:
    """Return the files that a marker names and that are not there."""
    return [name for name in block.files if not (FOLDER / f"{name}.csv").is_file()]


def candidates(file: ResultFile, quote: Quote, block: Block) -> list[float]:
    """Return what a number of a page may be: the values of the rows and the column that its words name."""
    title = _in_words_of_the_file(quote.column, block.words)
    rows = agreeing(file, title, agreeing(file, _in_words_of_the_file(quote.row, block.words), file.rows))
    own = [name for name in block.columns if name in file.rows[0]] or list(file.rows[0])
    named = _named(title, own)
    columns = [name for name in own if not named or name in named or ERROR.search(name)]
    found = [*file.numbers(rows, columns), *statistics(file, rows, columns)]
    return [*found, *differences(file, rows, columns)] if DIFFERENCE.search(title) else found


def agreeing(file: ResultFile, label: str, rows: list[Row]) -> list[Row]:
    """Return the rows that hold the words of a label; a column whose values it does not name rules out nothing."""
    for name in file.keys:
        named = _named(label, {row[name] for row in rows if row[name]})
        rows = [row for row in rows if row[name] in named] if named else rows
    return rows


def _named(label: str, names: Iterable[str]) -> set[str]:
    """Return the names that a label holds as whole words; "FedTDD, paper" is not also "FedTDD"."""
    found = set()
    for name in sorted(names, key=len, reverse=True):
        label, times = re.subn(rf"(?<![\w.,-]){re.escape(name.lower())}(?![\w.]|,\d)", "", label)
        found |= {name} if times else set()
    return found


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(";")]


def _in_words_of_the_file(label: str, words: dict[str, str]) -> str:
    label = re.sub(r"`|\*\*", "", label.lower())
    label = re.sub(r"(?<=\d),(?=\d{3})", "", label)
    label = re.sub(r"(?<!\d)\.(?=\d)", "0.", label)
    for page in sorted(words, key=len, reverse=True):
        label = label.replace(page, words[page])
    return label


def same(quote: Quote, value: float) -> bool:
    digits = quote.text.replace(",", "").lstrip("+-")
    mantissa, _, power = digits.partition("e")
    half = 0.5 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2])) * (1 + 1e-6)
    wanted, scales = float(digits), {1.0, SCALES.get(quote.unit, 1.0)}
    scales |= {100.0} if quote.percent or not quote.column else set()
    return any(abs(abs(value) * scale - wanted) <= half + 1e-9 * abs(value) * scale for scale in scales)


def _numbers(line: int, text: str, row: str, column: str) -> list[Quote]:
    text = CODE.sub(lambda code: "~" * len(code[0]), text)
    table = bool(column or row) and ("%" in text or "%" in column)
    numbers = [found for found in NUMBER.finditer(text) if found[2]]
    units = (UNIT.search(text, found.end()) for found in numbers)
    marked = zip(numbers, (unit[0] if unit else "" for unit in units), strict=True)
    return [Quote(line, found[1] + found[2], table or bool(found[3]), unit, row, column) for found, unit in marked]

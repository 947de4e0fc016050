"""Collecting everything wrong with a source, to raise it as one error."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import DataError, Problem

LONGEST_NAME = 100
MOST_ROWS_PER_RULE = 1000


class Report:
    """A growing list of problems; `check` raises them together.

    Examples
    --------
    >>> report = Report()
    >>> report.add("a table must have at least one row", client="north")
    >>> report.problems[0].client
    'north'
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, must: str, *, client: str | None = None, column: str | None = None, row: int | None = None) -> None:
        """Note one problem."""
        self.problems.append(Problem(must, client, column, row))

    def add_rows(
        self,
        places: NDArray[np.intp],
        must: Callable[[int], str],
        *,
        column: str,
        first_row: int,
        client: Callable[[int], str | None],
    ) -> None:
        """Note one problem for each of `places`, positions of rows in a source.

        A broken rule can hold for millions of rows; the first thousand are listed one by one and the rest counted,
        so that the report cannot exhaust the memory.
        """
        for place in places[:MOST_ROWS_PER_RULE].tolist():
            self.add(must(place), client=client(place), column=column, row=place + first_row)
        left = len(places) - MOST_ROWS_PER_RULE
        if left > 0:
            self.add(f"{left} more rows break the same rule", column=column)

    def check(self) -> None:
        """Raise one `DataError` with all problems, if there are any."""
        if self.problems:
            raise DataError(self.problems)


def shown(value: object) -> str:
    """Return a value as an error shows it: quoted, escaped and short."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def name_problem(name: str) -> str | None:
    r"""Return what must hold for a client's name, or None when it is a good one.

    Names of clients become names of folders and stand in reports, so that separators of paths and control characters
    are refused.

    Examples
    --------
    >>> name_problem("hospital-3") is None
    True
    >>> name_problem("../secret")
    "a client's name must not begin with '.', got '../secret'; rename the client"
    """
    rule = None
    if not name.strip():
        rule = "must not be empty"
    elif len(name) > LONGEST_NAME:
        rule = f"must have at most {LONGEST_NAME} characters"
    elif name.startswith("."):
        rule = "must not begin with '.'"
    elif "/" in name or "\\" in name:
        rule = "must not hold '/' or '\\'"
    elif any(unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for letter in name):
        rule = "must not hold control characters"
    return None if rule is None else f"a client's name {rule}, got {shown(name)}; rename the client"


def duplicates(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once, in order of appearance."""
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]

"""`Problems`: everything wrong with a source, raised as one error."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cotempo.errors import DataError, Problem

LONGEST_NAME = 100


class Problems:
    """A growing list of problems; `raise_any` raises them together."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, must: str, client: str | None = None, column: str | None = None, row: int | None = None) -> None:
        """Note one problem."""
        self.found.append(Problem(must, client, column, row))

    @contextmanager
    def collect(self, client: str | None = None, prefix: str = "") -> Iterator[None]:
        """Note the problems of a `DataError` raised inside and go on; those that name no client get this one."""
        try:
            yield
        except DataError as error:
            for problem in error.problems:
                self.found.append(replace(problem, must=prefix + problem.must, client=problem.client or client))

    def raise_any(self) -> None:
        """Raise one `DataError` with all problems, if there are any."""
        if self.found:
            raise DataError(self.found)


def quote(value: object) -> str:
    """Return a value as errors show it: quoted, escaped and short."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def list_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def client_name_error(name: str) -> str | None:
    r"""Return what must hold for a client's name, or None if the name is valid.

    Names of clients become names of folders and appear in reports: path separators and control characters are refused.
    """
    rules = {
        "must not be empty": name.strip(),
        f"must have at most {LONGEST_NAME} characters": len(name) <= LONGEST_NAME,
        "must not begin with '.'": not name.startswith("."),
        "must not hold '/' or '\\'": not {"/", "\\"} & set(name),
        "must not hold control characters": not {"Cc", "Cf", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, name)),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    return f"a client's name {broken[0]}, got {quote(name)}; rename the client" if broken else None


def duplicates(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once, in order of appearance."""
    return [name for name, count in Counter(names).items() if count > 1]

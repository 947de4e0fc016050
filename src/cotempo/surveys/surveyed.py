"""`Surveyed`: the base of what a survey makes of a table, one subclass per kind of table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cotempo.data import Table
from cotempo.surveys.columns import FEWEST
from cotempo.surveys.others import LEAST_OTHERS, Key, Others
from cotempo.surveys.trials import Correction, Finding, Oddity, decide
from cotempo.typing import Floats

#: A name is one that nearly all others have, or nearly none.
ALL_BUT_FEW = 0.9
#: What is said of a column that too few sites have enough of.
NOT_COMPARED = f"not compared: fewer than {LEAST_OTHERS + 1} sites with {FEWEST} rows"


@dataclass(eq=False)
class Surveyed(ABC):
    """A client's table and the columns that any client has: figures, and what could be wrong with them."""

    table: Table
    columns: tuple[str, ...]

    @staticmethod
    @abstractmethod
    def layout(columns: Sequence[str]) -> list[Key]:
        """Return the keys of all figures, in the order in which they are sent."""

    @classmethod
    def limits(cls, columns: Sequence[str], sums: Mapping[str, Floats]) -> dict[str, str]:
        """Return by column, from the sums of all clients' figures, what could not be compared; here nothing."""
        return {}

    @cached_property
    @abstractmethod
    def own(self) -> dict[Key, float]:
        """The figures of this table; what it has not is left out."""

    @abstractmethod
    def trials(self, others: Others) -> Iterator[Correction]:
        """Yield corrections to be tried."""

    @abstractmethod
    def oddities(self) -> Iterator[Oddity]:
        """Yield figures that should not stand out."""

    def findings(self, others: Others) -> list[Finding]:
        """Return what is probably wrong with the table."""
        return [*self.names(others), *decide(self.own, others, self.trials(others), self.oddities())]

    def names(self, others: Others) -> Iterator[Finding]:
        """Yield a finding if this client has names that hardly any other has, in place of some that nearly all have."""
        shares = {column: others.mean((column, "has")) for column in self.columns}
        mine = {column for column in self.columns if self.own.get((column, "has"))}
        alone = sorted(column for column in mine if shares[column] < 1 - ALL_BUT_FEW)
        lacking = sorted(column for column in {*self.columns} - mine if shares[column] > ALL_BUT_FEW)
        if alone and lacking:
            what = self.table.columns_are
            words = f"your {what} are called {', '.join(alone)} where the others' are {', '.join(lacking)}"
            yield Finding("coding", what, f"{words}: the same in other words? Rename them")


def vocabulary_keys(columns: Sequence[str]) -> list[Key]:
    """Return the keys that say which names a client has."""
    return [(column, "has") for column in columns]

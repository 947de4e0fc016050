"""`FittedSurvey`: what a survey found; each client's findings stay with it, the coordinator has their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotempo.data.tables import make_frame, pluralize
from cotempo.federation import Fitted
from cotempo.storage.files import write_whole
from cotempo.surveys.surveyed import NOT_COMPARED
from cotempo.surveys.trials import KINDS, Finding
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.surveys.method import Survey

MOST_LISTED = 12  # columns that have the same limits


@dataclass(frozen=True)
class SurveyState:
    """State of the server: names of columns, sums of figures, and how many findings of each kind there are.

    The last entry of `found` counts the clients that have any.
    """

    phase: str
    columns: tuple[str, ...]
    known: Floats
    total: Floats
    squares: Floats
    clients: float
    found: Floats


@dataclass(frozen=True)
class SurveyMemory:
    """What a client keeps: whether its figures are in the sums, and its findings."""

    sent: bool
    kinds: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class FittedSurvey(Fitted):
    """The result of a survey."""

    method: Survey

    @property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """By client, what is probably wrong with its table, in words; at a site, the site's own."""
        return {name: self[name] for name in sorted(self.outcome.memories)}

    def __getitem__(self, client: str) -> tuple[Finding, ...]:
        """Return the findings of one client."""
        super().__getitem__(client)
        kept = self.outcome.memories.get(client, SurveyMemory(False))
        return tuple(Finding(*parts) for parts in zip(kept.kinds, kept.subjects, kept.words, strict=True))

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each kind all clients have together, those with none left out."""
        return {kind: round(number) for kind, number in zip(KINDS, self.state.found[:-1], strict=True) if number}

    @property
    def limits(self) -> dict[str, str]:
        """By column of series, what could not be compared for want of rows, or could with few sites only roughly."""
        sums = {name: getattr(self.state, name) for name in ("known", "total", "squares")}
        return self.method.surveyed.limits(self.state.columns, sums)

    def answer(self) -> str:
        """Return the number of findings in one sentence."""
        every = pluralize(round(self.state.clients), "client")
        if {*self.state.columns} == {column for column, words in self.limits.items() if words == NOT_COMPARED}:
            return f"nothing could be compared in the tables of {every}"
        if not self.counts:
            return f"nothing was found in the tables of {every}"
        listed = ", ".join(f"{kind} {number}" for kind, number in self.counts.items())
        return f"{round(self.state.found[-1])} of {every} have something to look at: {listed}"

    def advice(self) -> list[str]:
        """Return every finding known here with its client."""
        return [f"{client}: {finding}" for client, own in self.findings.items() for finding in own]

    def lines(self) -> list[str]:
        """Return the answer and the findings in plain words."""
        known = sum(map(len, self.findings.values()))
        elsewhere = ["each site has the words of its own findings"] if known < sum(self.counts.values()) else []
        return [self.answer(), *self.advice(), *elsewhere, *self._limits()]

    def _limits(self) -> list[str]:
        """Return the limits, once for all columns that have the same."""
        told = {finding.subject for own in self.findings.values() for finding in own}
        columns: dict[str, list[str]] = {}
        for column, words in self.limits.items():
            if column not in told:
                columns.setdefault(words, []).append(column)
        return [
            f"{', '.join(some[:MOST_LISTED])}{' and others' * (len(some) > MOST_LISTED)}: {words}"
            for words, some in columns.items()
        ]

    def save(self, folder: str | Path) -> Path:
        """Write the result, and the findings known here as ``findings.txt``: at a site, what the site is told."""
        folder = super().save(folder)
        write_whole(folder / "findings.txt", "".join(f"{line}\n" for line in self.lines()).encode())
        return folder

    def tables(self) -> Mapping[str, Any]:
        """Return the findings as a dataframe."""
        rows = [(client, *vars(finding).values()) for client, own in self.findings.items() for finding in own]
        names = ("client", "kind", "about", "finding")
        return {"findings": make_frame({name: [row[k] for row in rows] for k, name in enumerate(names)})}

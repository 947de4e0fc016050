"""`Audit` of one run, and `ShieldTable` of runs with each shield on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotempo.auditing.bounds import MembershipBound
from cotempo.auditing.differencing import Difference
from cotempo.auditing.reconstruction import Recovered
from cotempo.data.html import html_table
from cotempo.data.tables import FrameKind, make_frame


@dataclass(frozen=True, repr=False)
class Audit:
    """What attacks on one run found.

    Attributes
    ----------
    method, shields
        What was run, and what protected it, in words.
    promised
        The epsilon that the run promised; None without noise.
    delta, confidence
        Of the lower bound.
    unit
        What the canaries are.
    membership
        What the scores of canaries tell.
    recovered
        What was reconstructed of the tables of clients without canaries.
    differences
        What sums in a site's ledger tell, if one was given.
    run_seconds, seconds
        How long the run with canaries took, and everything beyond it.
    """

    method: str
    shields: str
    promised: float | None
    delta: float
    confidence: float
    unit: str
    membership: MembershipBound
    recovered: Recovered
    differences: tuple[Difference, ...]
    run_seconds: float
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether neither lower bound exceeds the promise; true where nothing was promised."""
        found = self.membership
        return self.promised is None or max(found.epsilon, found.gaussian_epsilon) <= self.promised

    def rows(self) -> list[tuple[str, float, str]]:
        """Return each figure with its name and what it means."""
        found, guesses, back = self.membership, self.membership.guesses, self.recovered
        sure = f"with {self.confidence:.0%} confidence at delta {self.delta:g}"
        promised = "nothing promised" if self.promised is None else f"promised {self.promised:g}"
        about = f"{guesses.canaries} canary {self.unit}"
        rows = [
            ("lower bound of epsilon", found.epsilon, f"{promised}; {sure}"),
            ("the same for Gaussian noise", found.gaussian_epsilon, f"{promised}; {sure}"),
            ("right guesses", guesses.right / guesses.made, f"{guesses.right} of {guesses.made} about {about}"),
            ("area under the curve", found.auc, "0.5 is chance"),
            ("members found at 1 % false positives", found.true_positives, about),
            (f"{back.what} reconstructed", back.share, f"{back.found} of {back.of} within {back.within}"),
        ]
        isolated = sum(len(one.isolated) for one in self.differences)
        return rows + ([("clients or pairs isolated", float(isolated), "by differencing")] if self.differences else [])

    def sentence(self) -> str:
        """Return the finding in one sentence, for `fitted.privacy["audit"]` and the report."""
        found, back = self.membership, self.recovered
        promised = "no epsilon was promised" if self.promised is None else f"{self.promised:g} was promised"
        if self.promised is None:
            judged = "the run tells who is in it" if found.epsilon > 0 else "no canary was found out"
        else:
            judged = "the promise held" if self.holds else "THE PROMISE WAS BROKEN"
        return (
            f"epsilon is at least {found.epsilon:.3g} by {found.guesses.canaries} canary {self.unit} "
            f"({self.confidence:.0%} confidence), {promised}: {judged}. Members found at 1 % false positives: "
            f"{found.true_positives:.0%}. Reconstructed: {back.found} of {back.of} {back.what} within {back.within}."
        )

    def __repr__(self) -> str:
        promised = "nothing promised" if self.promised is None else f"promised {self.promised:g}"
        found, back = self.membership, self.recovered
        return (
            f"<Audit of {self.method}, {self.shields}: epsilon at least {found.epsilon:.3g} ({promised}), "
            f"{back.found} of {back.of} {back.what} reconstructed>"
        )

    def _repr_html_(self) -> str:
        title = f"Audit of {self.method}, {self.shields}"
        return html_table(title, self.rows(), ("", "value", ""), [one.sentence() for one in self.differences])

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the figures as a dataframe with the columns ``figure``, ``value`` and ``about``."""
        names, values, about = zip(*self.rows(), strict=True)
        return make_frame({"figure": names, "value": values, "about": about}, kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, for JSON."""
        return {
            "method": self.method, "shields": self.shields, "promised": self.promised, "holds": self.holds,
            "delta": self.delta, "confidence": self.confidence, "unit": self.unit,
            **self.membership._replace(guesses=None)._asdict(),  # type: ignore[arg-type]
            "guesses": self.membership.guesses._asdict(),
            "recovered": self.recovered._asdict(),
            "differences": [one._asdict() for one in self.differences],
            "run_seconds": self.run_seconds, "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class ShieldTable:
    """The same attacks with each shield on: one column a shield, one row a figure."""

    audits: Mapping[str, Audit]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a row for each figure, with its value under each shield; the promise first."""
        columns = [audit.rows() for audit in self.audits.values()]
        promised = [math.nan if audit.promised is None else audit.promised for audit in self.audits.values()]
        return [
            ("epsilon promised", *promised),
            *((cells[0][0], *(value for _, value, _ in cells)) for cells in zip(*columns, strict=True)),
        ]

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name} {audit.membership.epsilon:.3g}" for name, audit in self.audits.items())
        return f"<ShieldTable: epsilon at least {bounds}>"

    def _repr_html_(self) -> str:
        return html_table("Attack by shield", self.rows(), ("", *self.audits))

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return the table as a dataframe, with the column ``figure`` and one for each shield."""
        names = ("figure", *self.audits)
        return make_frame({name: [row[place] for row in self.rows()] for place, name in enumerate(names)}, kind)

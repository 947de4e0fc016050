"""`Correction` and `Oddity`: what could be wrong with a table, and `decide`, which of it is.

A trial is a correction: if the corrected table's figures fit the others' much better, the correction is advised. An
oddity is a figure that no honest client would have, where nothing can be corrected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from cotempo.surveys.others import INDEPENDENT, Figures, Key, Others

#: A correction is advised if it makes the figures more likely by a factor of exp(EVIDENCE), of a table with up to
#: `USUAL` parts; where there are more to be wrong by chance, by as many times more.
EVIDENCE, USUAL = 12.0, 10
#: An oddity is told if fewer than this share of honest clients' figures would be as far off.
CHANCE = 1e-4
#: What findings are about; a survey's server is told how many there are of each.
KINDS = (
    "unit", "sign", "columns", "coding", "missing", "limits", "rounding", "constant", "cumulated", "lag", "repeats",
    "sampling", "zone", "dates", "clock", "texts",
    "logarithm",
)  # fmt: skip


@dataclass(frozen=True)
class Correction:
    """A correction: what it is about, the figures it changes, and what its owner is told."""

    kind: str
    subjects: tuple[str, ...]
    changed: Figures
    words: str
    independent: int = INDEPENDENT

    def evidence(self, own: Figures, others: Others, settled: Set[Key] = frozenset()) -> float:
        """Return by how much the corrected figures are more likely, but for those that are settled."""
        left = {key: value for key, value in self.changed.items() if key not in settled}
        return others.evidence(own, left, self.independent)


@dataclass(frozen=True)
class Oddity:
    """A figure that should not be far from the others': at least `effect` above them, or below if negative."""

    kind: str
    subject: str
    key: Key
    effect: float
    words: str


@dataclass(frozen=True)
class Finding:
    """What is probably wrong with a table: its kind, the column or other part, and the words its owner is told."""

    kind: str
    subject: str
    words: str

    def __str__(self) -> str:
        return self.words


def decide(own: Figures, others: Others, trials: Iterable[Correction], oddities: Iterable[Oddity]) -> list[Finding]:
    """Return the findings: the best correction of every part of the table, then what is odd about the other parts."""
    weighed = sorted(((trial.evidence(own, others), trial) for trial in trials), key=lambda pair: -pair[0])
    enough = enough_evidence(len({subject for _, trial in weighed for subject in trial.subjects}))
    findings: list[Finding] = []
    explained: set[str] = set()
    settled: set[Key] = set()  # figures that a correction accepted before explains
    for evidence, trial in weighed:
        if evidence < enough or explained & {*trial.subjects}:
            continue
        if trial.evidence(own, others, settled) >= enough:
            findings.append(Finding(trial.kind, " and ".join(trial.subjects), trial.words))
            explained |= {*trial.subjects}
            settled |= trial.changed.keys()
    for oddity in oddities:
        value, mean = own.get(oddity.key, math.nan), others.mean(oddity.key)
        gap = (value - mean) * math.copysign(1.0, oddity.effect)
        if (
            oddity.subject not in explained
            and gap >= abs(oddity.effect)
            and others.chance(oddity.key, value) < CHANCE * math.exp(EVIDENCE - enough)
        ):
            findings.append(Finding(oddity.kind, oddity.subject, oddity.words))
            explained.add(oddity.subject)
    return findings


def enough_evidence(parts: int) -> float:
    """Return from which evidence on a correction is advised, of a table with so many parts."""
    return EVIDENCE + math.log(max(1.0, parts / USUAL))


def counts_of(findings: Sequence[Finding]) -> Iterator[float]:
    """Yield the number of findings of each kind."""
    yield from (float(sum(finding.kind == kind for finding in findings)) for kind in KINDS)

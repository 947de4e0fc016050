"""`SiteHistory`: what left a site, run by run, and what each run brought it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cotempo.data.tables import pluralize
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.words import expectations, read_purpose
from cotempo.errors import CotempoError
from cotempo.federation.fitted import load
from cotempo.federation.registry import find_method
from cotempo.privacy.ledger import Entry
from cotempo.report.tables import number, size


@dataclass(frozen=True)
class PastRun:
    """A run that something left for."""

    service: SiteService
    entry: Entry
    sent: list[Entry]
    sums: list[Entry]
    is_whole: bool

    @property
    def title(self) -> str:
        """The method, and on what."""
        return f"{self.entry['method']} on your {self.entry['data']}"

    @property
    def purpose(self) -> str:
        """What the coordinator said it was for; empty if nothing."""
        contract = self.service.contract(self.entry["run"])
        return "" if contract is None else read_purpose(contract)

    @property
    def left(self) -> str:
        """How much left, and who could read it."""
        masked = sum(entry["bytes"] for entry in self.sent if entry["is_masked"])
        clear = sum(entry["bytes"] for entry in self.sent) - masked
        parts = [f"{size(masked)} masked, readable only as a sum over sites"] if masked else []
        parts += [f"{size(clear)} readable by the coordinator"] if clear else []
        messages = pluralize(len(self.sent), "message")
        nothing = "nothing was sent" if self.is_whole else "nothing that can still be read"
        return f"{'' if self.is_whole else 'at least '}{messages}: {'; '.join(parts)}" if parts else nothing

    @property
    def epsilon(self) -> str:
        """The noise that was added."""
        epsilon = self.entry["privacy"].get("epsilon")
        return "no noise" if epsilon is None else f"epsilon {epsilon:g}"

    @cached_property
    def benefit(self) -> str:
        """Whether joining helped this site, in words."""
        folder = self.service.home / "runs" / self.entry["run"] / "result"
        if not folder.is_dir():
            return "Not known here: the coordinator has not shared the result."
        try:
            found = load(folder).benefit.get(self.service.settings.name)
        except CotempoError as problem:
            return f"Not known: the result cannot be read ({problem})."
        if found is None:
            noised = self.entry["privacy"].get("epsilon") is not None
            why = "a run with noise compares nobody" if noised else "there was nothing to compare on"
            return f"Not measured: {why}."
        error = "" if found.error is None else f" ± {number(found.error)}"
        better = "higher" if found.higher_is_better else "lower"
        verdict = {"helped": "Joining helped you.", "harmed": "Joining did harm to you."}.get(
            found.verdict,
            "Joining made no clear difference." if found.verdict == "no difference shown" else "It was not tested.",
        )
        return (
            f"{verdict} Alone {number(found.alone)}, together {number(found.together)}, a gain of "
            f"{number(found.gain)}{error} ({found.metric}; {better} is better)."
        )

    @property
    def phases(self) -> list[tuple[str, int, str, list[str]]]:
        """What left phase by phase: how often, how much of it readable by whom, and every field in words."""
        words = self._descriptions()
        found = []
        for phase in dict.fromkeys(entry["phase"] for entry in self.sent):
            own = [entry for entry in self.sent if entry["phase"] == phase]
            fate = "masked" if all(entry["is_masked"] for entry in own) else "readable by the coordinator"
            told = f"{size(sum(entry['bytes'] for entry in own))}, {fate}"
            found.append((phase, len(own), told, words.get(phase, [])))
        return found

    def _descriptions(self) -> Mapping[str, list[str]]:
        """Return what each field tells, phase by phase; nothing where this site cannot tell."""
        try:
            method = find_method(self.entry["method"])(**self.entry["parameters"])
            found = expectations(method, self.service.read_table(method.kind).schema) or {}
        except CotempoError:
            return {}
        return {
            phase: [spec.description or name for name, spec in expect.fields.items()]
            for phase, expect in found.items()
            if expect
        }

    @property
    def questions(self) -> str:
        """How many questions came, and how many of them were refused, in words."""
        path = self.service.home / "runs" / self.entry["run"] / "questions.jsonl"
        asked = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        refused = sum(entry["refused"] is not None for entry in asked)
        return f"{pluralize(len(asked), 'question')} came, {refused or 'none'} refused"


@dataclass(frozen=True)
class SiteHistory:
    """All that left a site."""

    service: SiteService

    @cached_property
    def _read(self) -> tuple[list[Entry], str]:
        return self.service.ledger.read_intact()

    @property
    def verdict(self) -> tuple[bool, str]:
        """Whether the ledger is as it was written, and in words."""
        entries, problem = self._read
        if problem:
            return False, problem
        return True, f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}, each as it was written"

    @cached_property
    def runs(self) -> list[PastRun]:
        """The runs, the newest first; of a ledger that was tampered with, those that can still be read."""
        entries, problem = self._read

        def among(run: str, kind: str) -> list[Entry]:
            return [entry for entry in entries if entry["run"] == run and entry["kind"] == kind]

        begun = [entry for entry in entries if entry["kind"] == "run"]
        return [
            PastRun(self.service, entry, among(entry["run"], "message"), among(entry["run"], "sum"), not problem)
            for entry in reversed(begun)
        ]

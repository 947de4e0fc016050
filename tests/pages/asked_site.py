"""A site with a kit's folder that a coordinator asks to join runs; without processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from paper_consortium import PaperConsortium

import cotempo as ct
from cotempo.data import write_clients
from cotempo.engines.flower.protocol import Part, Parts, ResultReference, Verb
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.federation import EMPTY, Question
from cotempo.federation.wire import question_to_bytes

SETTINGS = """name = "ash"
server = "h:1"
data = "data.csv"
methods = ["FedMean", "OneRound"]
[privacy]
secure_sum = false
[approval]
ask = true
"""


@dataclass(frozen=True)
class AskedSite:
    """A site's kit, and its coordinator."""

    consortium: PaperConsortium

    @property
    def kit(self) -> Path:
        return self.consortium.folder / "ash"

    @property
    def service(self) -> SiteService:
        return SiteService(SiteSettings.from_kit(self.kit), self.kit / "home")

    def join(self, **changes: Any) -> Parts:
        """Ask the site to join; with its consent, show it the signatures of all."""
        asked = {"method": "FedMean", "parameters": ct.FedMean().model_dump(mode="json"), "purpose": "Compare wards."}
        parts = self.consortium.invite(**{**asked, **changes})
        service = self.service
        answer = service.handle(Verb.JOIN, parts)
        if Part.SCHEMA in answer:
            service.handle(Verb.AGREE, {Part.CONSENTS: self.consortium.sign(parts[Part.CONTRACT])})
        return answer

    def end(self, run: str) -> Parts:
        """Tell the site that a run has ended, without its result."""
        return self.service.handle(Verb.RESULT, {Part.REFERENCE: ResultReference(run=run, version=0).to_bytes()})

    def ask(self, run: str, step: int = 1) -> Parts:
        """Ask a question of a run of `FedMean`."""
        question = Question(run, step, step, "mean", "ash", 0, 0, EMPTY, EMPTY)
        parts = {Part.QUESTION: question_to_bytes(question), Part.COMMON: EMPTY.to_bytes()}
        return self.service.handle(Verb.ASK, parts)


def make_site(folder: Path) -> AskedSite:
    """Return a site whose people are asked."""
    made = AskedSite(PaperConsortium(folder, ("ash", "birch", "cedar")))
    table = ct.Series.from_arrays(np.random.default_rng(0).normal(size=(80, 2)), features=("pulse", "pressure"))
    write_clients({"ash": table}, made.kit / "data.csv")
    (made.kit / "site.toml").write_text(SETTINGS)
    return made

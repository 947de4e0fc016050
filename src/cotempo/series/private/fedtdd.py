"""`PrivateFedTDD`: FedTDD of which nothing crosses but noised moments.

    ranges, moments    as `PrivateMoments` has them: only noised totals are used
    distil             the coordinator learns from public data
    correct .. score   clients learn at their own place, from public networks, noised moments and their own rows; they
                       send nothing, no loss, no share and no score

What a client makes of its own rows is not noised and stays with it. Hence nothing may be released: with `alpha` above 0
synthetic windows would leave, made by networks that learned without noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from cotempo.data import Series, Table
from cotempo.errors import ParameterError
from cotempo.federation import (
    NOT_COMPARED,
    Answers,
    Ask,
    Expect,
    Fitted,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
)
from cotempo.privacy.private_form import PrivateForm, without_values
from cotempo.privacy.settings import Privacy
from cotempo.series.fedmoments import FedMoments, MomentsMemory, NamedRows
from cotempo.series.fedtdd import HELD_OUT, ClientData, ClientMemory, FedTDDState, Reply
from cotempo.series.filling.calibration import Calibration
from cotempo.series.moments.private import PrivateMoments, PrivateMomentsState
from cotempo.series.windows import Scale, SeriesRows


@dataclass(frozen=True)
class PrivateFedTDDState:
    """State of the coordinator: of the noised moments, and of FedTDD, which goes on once they are known."""

    noised: PrivateMomentsState
    inner: FedTDDState


class PrivateFedTDD(PrivateForm):
    """The private form of FedTDD without releases."""

    phases: ClassVar[tuple[str, ...]] = ("ranges", "moments", "distil", "correct", "impute", "train", "score")
    State: ClassVar[type] = PrivateFedTDDState

    @classmethod
    def of(cls, inner: Method, privacy: Privacy) -> Self:
        """Return the private form; refuse what would let networks' windows out, or has no moments to learn from."""
        found = super().of(inner, privacy)
        if found.inner.alpha or found.inner.distiller != "conditional":
            raise ParameterError(
                "epsilon needs alpha=0 and distiller='conditional' with FedTDD: released windows come from networks "
                "that learn without noise; to share windows, sample() from SeriesDiffusion().fit(table, privacy=...)"
            )
        return found

    @property
    def moments(self) -> PrivateMoments:
        """The part that learns noised moments, with windows as short as noise wants them."""
        return PrivateMoments.of(FedMoments(minimum_rows=self.inner.minimum_rows), self.privacy)

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """All of it is for moments."""
        return self.moments.budget

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return scales for one time point more or less."""
        return self.moments.scales(phase, message)

    def promise(self) -> dict[str, Any]:
        """Return what was promised, and of what."""
        found = super().promise()
        return {**found, "mechanism": f"{found['mechanism']}, on moments; clients' own networks stay with them"}

    @property
    def most_questions(self) -> Mapping[str, int]:
        """By phase, how many questions a site answers."""
        known = self.inner.most_questions
        return {phase: known.get(phase, 1) if phase not in self.budget else 1 for phase in self.phases}

    def work(self, state: PrivateFedTDDState) -> tuple[float, float]:
        """Return how much training is done, and in all."""
        found: tuple[float, float] = self.inner.work(state.inner)
        return found

    # At a client.

    def prepare(self, table: Table) -> ClientData:
        """Cut the series as the method does; refuse it for how many rows it has, and not for which were measured."""
        assert isinstance(table, Series)  # `check` saw the schema
        features = self.inner.prepare(without_values(table)).features
        rows = SeriesRows.of(table.select(features=features))
        return ClientData(rows, *rows.split(HELD_OUT, self.inner.window), Scale.of(rows.values), features)

    def begin(self, prepared: ClientData, rng: Rng) -> ClientMemory:
        """Draw initial weights."""
        found: ClientMemory = self.inner.begin(prepared, rng)
        return found

    def answer(self, question: Question, prepared: ClientData, memory: ClientMemory, rng: Rng) -> Reply:
        """Answer as one of a cohort of one."""
        return self.answer_all([question], [prepared], [memory], [rng])[0]

    def answer_all(
        self, questions: Sequence[Question], prepared: Sequence[ClientData], memories: Sequence[ClientMemory],
        rngs: Sequence[Rng],
    ) -> list[Reply]:  # fmt: skip
        """Send histograms or moments, to which `Noise` adds noise; else learn, and send nothing."""
        if questions[0].phase in self.budget:
            form, none = self.moments, MomentsMemory(Calibration.none(0))
            return [
                (form.answer(question, NamedRows(data.trained, data.features), none, rng)[0], None)
                for question, data, rng in zip(questions, prepared, rngs, strict=True)
            ]
        learned = self.inner.answer_all(questions, prepared, memories, rngs)
        # No comparison and no rows to show: a result on one machine, and its report, would tell them.
        return [(Message(), replace(kept, compared=NOT_COMPARED, excerpt=np.zeros((0, 0)))) for _, kept in learned]

    # At the coordinator.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PrivateFedTDDState:
        """Start with the agreed limits, behind the lines of the plan in which clients count and sum."""
        inner = self.inner.open(roster, public, rng)
        counted = sum(line.phase in ("join", "sums") for line in self.inner.plan())
        inner = replace(inner, place=counted, clients=len(roster.names))
        return PrivateFedTDDState(self.moments.open(roster, public, rng), inner)

    def ask(self, state: PrivateFedTDDState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for noised moments, then the next line of the plan."""
        form: Any = self.moments if state.noised.phase in self.budget else self.inner
        asked: Ask | None = form.ask(state.noised if form is not self.inner else state.inner, cohort, rng)
        return asked

    def absorb(
        self, state: PrivateFedTDDState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateFedTDDState, Metrics]:
        """Learn the moments, train the distiller, or go on."""
        if state.noised.phase in self.budget:
            noised, metrics = self.moments.absorb(state.noised, answers, public, rng)
            known = noised.phase not in self.budget
            inner = replace(state.inner, moments=self.moments.learned(noised)) if known else state.inner
            return PrivateFedTDDState(noised, inner), metrics
        inner = state.inner
        if list(self.inner.plan())[inner.place].phase == "distil":
            inner, metrics = self.inner.absorb(inner, answers, public, rng)
            return replace(state, inner=inner), metrics
        informed = tuple(sorted({*inner.informed, *answers.names}))
        return replace(state, inner=replace(inner, place=inner.place + 1, informed=informed)), {}

    def expects(self, state: PrivateFedTDDState, phase: str) -> Expect:
        """Expect noised sums, then nothing."""
        return self.moments.expects(state.noised, phase)

    def result(self, outcome: Outcome) -> Fitted:
        """Return FedTDD's result."""
        fitted: Fitted = self.inner.result(replace(outcome, method=self.inner, state=outcome.state.inner))
        return fitted

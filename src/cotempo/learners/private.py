"""`PrivateLearner`: federated averaging from clipped and noised updates, so that all one client holds is hidden.

    train    clients send by how much training changed the model, clipped to a norm; only noised totals are used
    finish   clients send nothing; each keeps the model it ends with

Without one client's data a total changes by at most the norm, `clip`. Rounds compose in closed form: each of R rounds
has ``sqrt(R)`` times the noise that one would need. Every client counts the same, however many rows it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cotempo.data import Table
from cotempo.federation import Answers, Ask, Expect, Fitted, Message, Metrics, Outcome, Question, Rng, Roster, Spec
from cotempo.privacy.private_form import PrivateForm
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.learners.state import LearnerState


class PrivateLearner(PrivateForm):
    """The private form of learners whose server needs only the mean of the clients' models."""

    phases: ClassVar[tuple[str, ...]] = ("train", "finish")

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """All of it for training, the same in every round."""
        return {"train": (1.0, self.inner.rounds)}

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return the scale for all that one client sends."""
        return {"update": self.clip(len(message["update"]))}

    def clip(self, parameters: int) -> float:
        """Return the largest norm of an update; by default that of one step of Adam, which moves every parameter."""
        return self.privacy.clip or float(self.inner.learning_rate) * math.sqrt(parameters)

    # At a client.

    def begin(self, prepared: Any, rng: Rng) -> Any:
        """Begin as the learner does."""
        return self.inner.begin(prepared, rng)

    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """Train and send the clipped update; at the end send nothing."""
        message, kept = self.inner.answer(question, prepared, memory, rng)
        if question.phase == "finish":
            return Message(), kept
        update = message["weights"].astype(np.float64) - question.common["weights"]
        return Message({"update": clipped(update, self.clip(len(update)))}), kept

    # At the server.

    @property
    def State(self) -> type:  # type: ignore[override]  # noqa: N802 - the state is the learner's own
        """Return the class of the learner's state."""
        state: type = self.inner.State
        return state

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers."""
        return {"train": self.inner.rounds, "finish": 1}

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> LearnerState:
        """Draw the first model."""
        state: LearnerState = self.inner.open(roster, public, rng)
        return state

    def ask(self, state: LearnerState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask what the learner asks."""
        ask: Ask | None = self.inner.ask(state, cohort, rng)
        return ask

    def absorb(
        self, state: LearnerState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[LearnerState, Metrics]:
        """Move the model by the mean update, as far as it stands out from the noise."""
        if state.round == self.inner.rounds:
            return replace(state, finished=True), {}
        total, counted = answers.sum["update"], len(answers.names)
        deviation = self.total_deviation("train", self.clip(len(total)), counted, counted + len(answers.failures))
        kept = shrinkage(total, deviation)
        moved = (state.weights + kept * total / counted).astype(np.float32)
        silent = {"loss": 0.0, "score": 0.0, "scored": 0.0}  # what a learner sends besides, and a private one does not
        trained = replace(answers, total=Message({"weights": moved, **silent}, weight=1.0))
        return self.inner.absorb(state, trained, public, rng)[0], {"kept": kept}

    def expects(self, state: LearnerState, phase: str) -> Expect:
        """Expect noised updates, then nothing."""
        about = "by how much your rows change the model's parameters, clipped, with noise"
        fields = {"update": Spec((len(state.weights),), description=about)} if phase == "train" else {}
        return Expect(fields, sums=True, weight=(1, 1))

    def work(self, state: LearnerState) -> tuple[float, float]:
        """Return rounds done and in all."""
        done, total = self.inner.work(state)
        return done, total

    def result(self, outcome: Outcome) -> Fitted:
        """Return the learner's own result."""
        fitted: Fitted = self.inner.result(replace(outcome, method=self.inner))
        return fitted


def clipped(update: Floats, norm: float) -> Floats:
    """Return an update scaled down to a norm; one that is not finite is taken for none.

    Examples
    --------
    >>> clipped(np.array([3.0, 4.0]), 1.0)
    array([0.6, 0.8])
    """
    length = float(np.linalg.norm(update))
    return update * min(1.0, norm / max(length, 1e-300)) if math.isfinite(length) else np.zeros_like(update)


def shrinkage(total: Floats, deviation: float) -> float:
    """Return by how much to multiply a noised total: the positive part of James and Stein's estimate.

    Noise alone has a squared norm of about ``len(total) * deviation**2``; a total that is no longer says nothing.
    """
    return max(0.0, 1 - len(total) * deviation**2 / max(float(total @ total), 1e-300))

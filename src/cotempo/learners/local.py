"""Local: every client trains alone. The baseline that any federation has to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cotempo.federation import Answers, Expect, Message, Rng
from cotempo.learners.learner import Learner, is_better
from cotempo.learners.state import Trained
from cotempo.learners.training import descend
from cotempo.learners.vector import Vector, to_vector


class Local(Learner):
    """Clients train alone; nothing but scores is sent.

    Parameters
    ----------
    restart
        Begin every round from the first model again, as a published comparison did by accident.
    """

    restart: bool = False

    def train_client(self, told: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Go on from the own model."""
        start = memory.personal if memory.personal.size and not self.restart else told["weights"]
        model = self.new_model(told["inputs"], start)
        loss = descend(self, model, data, rng("batches"))
        own = to_vector(model)
        return Trained(np.zeros(0, np.float32), own, loss, replace(memory, personal=own))

    def combine(self, state: Any, answers: Answers) -> Any:
        """Nothing to combine."""
        return state

    def expects(self, state: Any, phase: str) -> Expect:
        """No model is sent."""
        expect = super().expects(state, phase)
        if phase != "train":
            return expect
        empty = replace(expect.fields["weights"], shape=(0,), about="nothing")
        return replace(expect, fields={**expect.fields, "weights": empty})

    def final(self, told: Message, data: Any, memory: Any, rng: Rng) -> Vector:
        """The own model."""
        own: Vector = memory.personal if memory.personal.size else told["weights"]
        return own


def train_alone(learner: Learner, told: Message, data: Any, rng: Rng) -> Vector:
    """Train a model alone for as many rounds as the federation took, and return the best by validation."""
    model = learner.new_model(told["inputs"], told["first"])
    best, best_score = to_vector(model), None
    for round in range(learner.rounds):
        descend(learner, model, data, rng(f"alone {round}"))
        score = learner.score(model, data, "validation")
        if learner.keep == "last" or is_better(score, best_score):
            best, best_score = to_vector(model), score
    return best

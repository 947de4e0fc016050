"""Local: every client trains alone. The baseline that any federation has to beat."""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from cotempo.federation import Answers, Expect, Message, Rng
from cotempo.learners.learner import Learner, is_better
from cotempo.learners.state import Trained
from cotempo.learners.training import to_vector, train_epochs
from cotempo.typing import Singles


class LocalLearner(Learner):
    """Clients train alone; nothing but scores is sent."""

    restart: bool = Field(
        default=False,
        description="Start every round from the first model again, as a published comparison did by accident.",
    )

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Go on from the own model."""
        start = memory.personal if memory.personal.size and not self.restart else received["weights"]
        model = self.new_model(received["inputs"], start)
        loss = train_epochs(self, model, data, rng("batches"))
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
        empty = replace(expect.fields["weights"], shape=(0,), description="nothing")
        return replace(expect, fields={**expect.fields, "weights": empty})

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """The own model."""
        own: Singles = memory.personal if memory.personal.size else received["weights"]
        return own


def train_alone(learner: Learner, received: Message, data: Any, rng: Rng) -> Singles:
    """Train a model alone for as many rounds as the federation took, and return the best by validation."""
    model = learner.new_model(received["inputs"], received["first"])
    best, best_score = to_vector(model), None
    for round in range(learner.rounds):
        train_epochs(learner, model, data, rng(f"alone {round}"))
        score = learner.score(model, data, "validation")
        if learner.keep == "last" or is_better(score, best_score):
            best, best_score = to_vector(model), score
    return best

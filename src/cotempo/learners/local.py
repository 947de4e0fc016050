"""Local: every client trains alone. The baseline that any federation has to beat."""

from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field

from cotempo.federation import Answers, Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.state import NONE
from cotempo.learners.training import Trained, to_vector, train_epochs


class LocalLearner(Learner):
    """Clients train alone; nothing but scores is sent."""

    personal: ClassVar[bool] = True
    sends_model: ClassVar[bool] = False
    private_units: ClassVar[tuple[str, ...]] = ()

    restart: bool = Field(
        default=False,
        description="Start every round from the first model again, as a published comparison did by accident.",
    )

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Go on from the own model."""
        start = received["weights"] if self.restart else memory.personal_or(received)
        model = self.new_model(received["inputs"], start)
        loss = train_epochs(self, model, data, rng("batches"))
        own = to_vector(model)
        return Trained(NONE, own, loss, replace(memory, personal=own))

    def combine(self, state: Any, answers: Answers) -> Any:
        """Combine nothing."""
        return state

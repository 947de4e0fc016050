"""Ditto: a personal model beside the common one, held near it.

References
----------
Li et al., Ditto: fair and robust federated learning through personalization, ICML 2021.
"""

from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.fedavg import FedAvgLearner
from cotempo.learners.training import Trained, proximal_penalty, to_vector, train_epochs


class DittoLearner(FedAvgLearner):
    """The common model is FedAvg's; each client also trains ``L_k(v) + proximity / 2 |v - theta_server|^2``."""

    personal: ClassVar[bool] = True

    proximity: float = Field(default=0.1, ge=0, description="Strength of the proximal penalty.")

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train the common model to send, and the personal one to keep."""
        common = super().train_client(received, data, memory, rng)
        model = self.new_model(received["inputs"], memory.personal_or(received))
        loss = train_epochs(self, model, data, rng("personal"), proximal_penalty(received["weights"], self.proximity))
        own = to_vector(model)
        return Trained(common.sent, own, loss, replace(memory, personal=own))

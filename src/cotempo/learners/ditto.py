"""Ditto: a personal model beside the common one, held near it.

References
----------
Li et al., Ditto: fair and robust federated learning through personalization, ICML 2021.
"""

from dataclasses import replace
from typing import Any

from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.fedavg import FedAvgLearner
from cotempo.learners.state import Trained
from cotempo.learners.training import proximal_penalty, to_vector, train_epochs
from cotempo.typing import Singles


class DittoLearner(FedAvgLearner):
    """The common model is FedAvg's; each client also trains ``L_k(v) + proximity / 2 |v - theta_server|^2``."""

    proximity: float = Field(default=0.1, ge=0, description="Strength of the proximal penalty.")

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train the common model to send, and the personal one to keep."""
        common = super().train_client(received, data, memory, rng)
        start = memory.personal if memory.personal.size else received["weights"]
        model = self.new_model(received["inputs"], start)
        loss = train_epochs(self, model, data, rng("personal"), proximal_penalty(received["weights"], self.proximity))
        own = to_vector(model)
        return Trained(common.sent, own, loss, replace(memory, personal=own))

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """The personal model."""
        own: Singles = memory.personal if memory.personal.size else received["weights"]
        return own

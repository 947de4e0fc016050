"""Ditto: a personal model beside the common one, held near it.

References
----------
Li et al., Ditto: fair and robust federated learning through personalization, ICML 2021.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.fedavg import FedAvg
from cotempo.learners.state import Trained
from cotempo.learners.training import descend, near
from cotempo.learners.vector import Vector, to_vector


class Ditto(FedAvg):
    """The common model is FedAvg's; each client also trains ``L_k(v) + proximity / 2 |v - theta_server|^2``."""

    proximity: float = Field(0.1, ge=0)

    def train_client(self, told: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train the common model to send, and the personal one to keep."""
        common = super().train_client(told, data, memory, rng)
        start = memory.personal if memory.personal.size else told["weights"]
        model = self.new_model(told["inputs"], start)
        loss = descend(self, model, data, rng("personal"), near(told["weights"], self.proximity))
        own = to_vector(model)
        return Trained(common.sent, own, loss, replace(memory, personal=own))

    def final(self, told: Message, data: Any, memory: Any, rng: Rng) -> Vector:
        """The personal model."""
        own: Vector = memory.personal if memory.personal.size else told["weights"]
        return own

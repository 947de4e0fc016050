"""FedALA: each client learns, parameter by parameter, how much of the server's model to take.

References
----------
Zhang et al., FedALA: adaptive local aggregation for personalized federated learning, AAAI 2023.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.training import Trained, gradient_at, to_singles, to_vector, train_epochs
from cotempo.typing import Singles

FIRST_EPOCHS = 10
"""Passes over the batches to learn W in the second round, the first to mix; later, one."""
PATIENCE = 3
"""Passes without a lower loss after which learning W stops."""


class FedALALearner(Learner):
    """Training starts from ``theta_own + (theta_server - theta_own) * W`` with W learned in [0, 1] by its gradient."""

    tensors: int = Field(
        default=4,
        ge=1,
        description="How many of the model's last parameter tensors are mixed; others are the server's.",
    )
    mixing_rate: float = Field(default=1.0, gt=0, description="Step size of W.")

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Mix, then train on."""
        memory = self._mixed(received, data, memory, rng)
        model = self.new_model(received["inputs"], memory.personal)
        loss = train_epochs(self, model, data, rng("batches"))
        own = to_vector(model)
        return Trained(own, own, loss, replace(memory, personal=own))

    def _mixed(self, received: Message, data: Any, memory: Any, rng: Rng) -> Any:
        """Return the memory with W learned and the mixture as its personal model.

        Projected gradient steps; by the chain rule ``dL/dW = dL/dtheta * (theta_server - theta_own)``.
        """
        if not memory.personal.size:
            return replace(memory, personal=received["weights"])
        model = self.new_model(received["inputs"])
        own = self.tensor(memory.personal)
        gap = self.tensor(received["weights"]) - own
        last = sum(parameter.numel() for parameter in list(model.parameters())[-self.tensors :])
        mixing = self.tensor(np.ones_like(memory.personal))
        if memory.mixing.size:
            mixing[-last:] = self.tensor(memory.mixing)
        lowest, waited = np.inf, 0
        for epoch in range(1 if memory.mixing.size else FIRST_EPOCHS):
            losses = []
            for batch in self.epoch_batches(data, rng(f"mixing {epoch}")):
                loss, slope = gradient_at(self, model, own + gap * mixing, batch)
                mixing[-last:] = (mixing - self.mixing_rate * slope * gap)[-last:].clamp(0, 1)
                losses.append(loss)
            mean = float(np.mean(losses or [0.0]))
            waited = 0 if mean < lowest else waited + 1
            lowest = min(lowest, mean)
            if waited >= PATIENCE:
                break
        return replace(memory, personal=to_singles(own + gap * mixing), mixing=to_singles(mixing[-last:]))

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """Return the own model mixed with the server's last."""
        personal: Singles = self._mixed(received, data, memory, rng).personal
        return personal

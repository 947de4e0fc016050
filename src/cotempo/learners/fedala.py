"""FedALA: each client learns, parameter by parameter, how much of the server's model to take.

References
----------
Zhang et al., FedALA: adaptive local aggregation for personalized federated learning, AAAI 2023.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.state import Trained
from cotempo.learners.training import gradient_at, to_vector, train_epochs
from cotempo.typing import Singles

if TYPE_CHECKING:
    import torch


class FedALALearner(Learner):
    """Training starts from ``theta_own + (theta_server - theta_own) * W`` with W learned in [0, 1] by its gradient."""

    tensors: int = Field(
        default=4,
        ge=1,
        description="How many of the model's last parameter tensors are mixed; others are the server's.",
    )
    mixing_rate: float = Field(default=1.0, gt=0, description="Step size of W.")
    mixing_epochs: int = Field(
        default=10,
        ge=1,
        description="Passes over the batches to learn W in the second round, the first to mix; later, one.",
    )
    patience: int = Field(default=3, ge=1, description="Passes without a lower loss after which learning W stops.")

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Mix, then train on."""
        memory = self._mixed(received, data, memory, rng)
        model = self.new_model(received["inputs"], memory.personal)
        loss = train_epochs(self, model, data, rng("batches"))
        own = to_vector(model)
        return Trained(own, own, loss, replace(memory, personal=own))

    def _mixed(self, received: Message, data: Any, memory: Any, rng: Rng) -> Any:
        """The memory with W learned and the mixture as its personal model."""
        import torch

        if not memory.personal.size:
            return replace(memory, personal=received["weights"])
        model = self.new_model(received["inputs"])
        own = torch.from_numpy(np.array(memory.personal)).to(self.device)
        gap = torch.from_numpy(np.array(received["weights"])).to(self.device) - own
        last = sum(parameter.numel() for parameter in list(model.parameters())[-self.tensors :])
        mixing = torch.ones_like(own)
        if memory.mixing.size:
            mixing[-last:] = torch.from_numpy(np.array(memory.mixing)).to(self.device)
        epochs = 1 if memory.mixing.size else self.mixing_epochs
        mixing = self._learn(model, own, gap, mixing, last, epochs, data, rng)
        kept = np.array(mixing[-last:].cpu().numpy(), dtype=np.float32)
        personal: Singles = np.array((own + gap * mixing).cpu().numpy(), dtype=np.float32)
        return replace(memory, personal=personal, mixing=kept)

    def _learn(
        self, model: Any, own: torch.Tensor, gap: torch.Tensor, mixing: torch.Tensor, last: int, epochs: int,
        data: Any, rng: Rng,
    ) -> torch.Tensor:  # fmt: skip
        """Projected gradient steps; by the chain rule ``dL/dW = dL/dtheta * (theta_server - theta_own)``."""
        lowest, waited = np.inf, 0
        for epoch in range(epochs):
            losses = []
            for batch in self.epoch_batches(data, rng(f"mixing {epoch}")):
                loss, slope = gradient_at(self, model, own + gap * mixing, batch)
                mixing[-last:] = (mixing - self.mixing_rate * slope * gap)[-last:].clamp(0, 1)
                losses.append(loss)
            mean = float(np.mean(losses or [0.0]))
            waited = 0 if mean < lowest else waited + 1
            lowest = min(lowest, mean)
            if waited >= self.patience:
                break
        return mixing

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """The own model mixed with the server's last."""
        personal: Singles = self._mixed(received, data, memory, rng).personal
        return personal

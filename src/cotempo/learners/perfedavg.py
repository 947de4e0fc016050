"""Per-FedAvg: a common model from which one step of training leads to a good personal one.

References
----------
Fallah et al., Personalized federated learning with theoretical guarantees: a model-agnostic meta-learning approach,
NeurIPS 2020; the first-order variant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.state import Trained
from cotempo.learners.training import descend, gradient_at
from cotempo.learners.vector import Vector, from_vector, to_vector


class PerFedAvg(Learner):
    """Each step moves along ``grad L(theta - inner_rate * grad L(theta; B); B')`` with two batches B and B'."""

    inner_rate: float = Field(1e-2, gt=0)

    def train_client(self, told: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train for what one more step will make of the model."""
        import torch

        model = self.new_model(told["inputs"], told["weights"])
        probe = self.new_model(told["inputs"])
        optimiser = torch.optim.Adam(model.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        losses = []
        for _ in range(self.epochs):
            pairs = zip(self.epoch_batches(data, rng("inner")), self.epoch_batches(data, rng("outer")), strict=False)
            for inner, outer in pairs:
                here = torch.from_numpy(to_vector(model)).to(self.device)
                _, slope = gradient_at(self, probe, here, inner)
                loss, slope = gradient_at(self, probe, here - self.inner_rate * slope, outer)
                self._step(model, optimiser, slope)
                losses.append(loss)
        personal = self._adapt(told, data, told["weights"], rng)
        return Trained(to_vector(model), personal, float(np.mean(losses or [0.0])), memory)

    def _step(self, model: Any, optimiser: Any, slope: Any) -> None:
        start = 0
        for parameter in model.parameters():
            parameter.grad = slope[start : start + parameter.numel()].reshape(parameter.shape).clone()
            start += parameter.numel()
        optimiser.step()

    def _adapt(self, told: Message, data: Any, weights: Vector, rng: Rng) -> Vector:
        """Fine-tune the common model on the own rows."""
        model = self.new_model(told["inputs"])
        from_vector(model, weights)
        descend(self, model, data, rng("adapt"))
        return to_vector(model)

    def final(self, told: Message, data: Any, memory: Any, rng: Rng) -> Vector:
        """The server's model, fine-tuned."""
        return self._adapt(told, data, told["weights"], rng)

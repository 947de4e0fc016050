"""Per-FedAvg: a common model from which one step of training leads to a good personal one.

References
----------
Fallah et al., Personalized federated learning with theoretical guarantees: a model-agnostic meta-learning approach,
NeurIPS 2020; the first-order variant.
"""

from typing import Any

import numpy as np
from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.state import Trained
from cotempo.learners.training import from_vector, gradient_at, to_vector, train_epochs
from cotempo.typing import Singles


class PerFedAvgLearner(Learner):
    """Each step moves along ``grad L(theta - inner_rate * grad L(theta; B); B')`` with two batches B and B'."""

    inner_rate: float = Field(default=1e-2, gt=0, description="Step size of the inner gradient.")

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train for what one more step will make of the model."""
        import torch

        model = self.new_model(received["inputs"], received["weights"])
        probe = self.new_model(received["inputs"])
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
        personal = self._adapt(received, data, received["weights"], rng)
        return Trained(to_vector(model), personal, float(np.mean(losses or [0.0])), memory)

    def _step(self, model: Any, optimiser: Any, slope: Any) -> None:
        start = 0
        for parameter in model.parameters():
            parameter.grad = slope[start : start + parameter.numel()].reshape(parameter.shape).clone()
            start += parameter.numel()
        optimiser.step()

    def _adapt(self, received: Message, data: Any, weights: Singles, rng: Rng) -> Singles:
        """Fine-tune the common model on the own rows."""
        model = self.new_model(received["inputs"])
        from_vector(model, weights)
        train_epochs(self, model, data, rng("adapt"))
        return to_vector(model)

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """The server's model, fine-tuned."""
        return self._adapt(received, data, received["weights"], rng)

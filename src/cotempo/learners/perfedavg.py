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
from cotempo.learners.training import Trained, adam, gradient_at, to_singles, to_vector, train_epochs
from cotempo.typing import Singles


class PerFedAvgLearner(Learner):
    """Each step moves along ``grad L(theta - inner_rate * grad L(theta; B); B')`` with two batches B and B'."""

    inner_rate: float = Field(default=1e-2, gt=0, description="Step size of the inner gradient.")

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train for what one more step will make of the model."""
        import torch

        model = self.new_model(received["inputs"])
        theta = torch.nn.Parameter(self.tensor(received["weights"]))
        optimiser = adam(self, [theta])
        losses = []
        for _ in range(self.epochs):
            pairs = zip(self.epoch_batches(data, rng("inner")), self.epoch_batches(data, rng("outer")), strict=False)
            for inner, outer in pairs:
                _, slope = gradient_at(self, model, theta.detach(), inner)
                loss, theta.grad = gradient_at(self, model, theta.detach() - self.inner_rate * slope, outer)
                optimiser.step()
                losses.append(loss)
        personal = self.final_model(received, data, memory, rng)
        return Trained(to_singles(theta), personal, float(np.mean(losses or [0.0])), memory)

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """Fine-tune the server's model on the client's own rows."""
        model = self.new_model(received["inputs"], received["weights"])
        train_epochs(self, model, data, rng("adapt"))
        return to_vector(model)

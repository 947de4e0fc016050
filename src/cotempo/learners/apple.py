"""APPLE: every client sees all core models and learns how much to take of each.

References
----------
Luo and Wu, Adapt to adaptation: learning personalization for cross-silo federated learning, IJCAI 2022.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.training import Trained, adam, gradient_at, to_singles
from cotempo.typing import Singles


class APPLELearner(Learner):
    """The personal model is ``sum_j p_j core_j``; its loss moves the own core and the relations p.

    Relations are held near equal shares by ``pull_r * mu / 2 |p - 1/K|^2``; the pull falls to zero over the first
    fifth of the rounds. All cores go to everyone: traffic grows with the number of clients.
    """

    sums: ClassVar[bool] = False
    private_units: ClassVar[tuple[str, ...]] = ()

    relation_rate: float = Field(default=1e-2, gt=0, description="Step size of the relations.")
    mu: float = Field(default=0.1, ge=0, description="How strongly relations are held at first.")

    def own_message(self, state: Any, client: str) -> Message:
        """Send all cores, the own first and others in the order they came, so that relations keep their meaning."""
        own = state.models.get(client, state.weights)
        others = [state.models[name] for name in state.models if name != client]
        return Message({"cores": np.stack([own, *others])})

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train the own core and the relations through the personal model."""
        import torch

        cores = self.tensor(received["cores"])
        relations = self.tensor(self._relations(memory, len(cores)))
        equal = 1.0 / len(cores)
        pull = self.mu * max(0.0, 1 - received["round"] / max(self.rounds / 5, 1))
        model = self.new_model(received["inputs"])
        core = torch.nn.Parameter(cores[0].clone())
        optimiser = adam(self, [core])
        losses = []
        for _ in range(self.epochs):
            for batch in self.epoch_batches(data, rng("batches")):
                cores[0] = core.detach()
                loss, slope = gradient_at(self, model, relations @ cores, batch)
                core.grad = relations[0] * slope
                optimiser.step()
                # A step is measured against the size of the gradient: relations are few and parameters many.
                move = cores @ slope / (slope.norm() * cores.norm(dim=1).mean() + 1e-12)
                relations = relations - self.relation_rate * (move + pull * (relations - equal))
                losses.append(loss)
        cores[0] = core.detach()
        personal = to_singles(relations @ cores)
        kept = replace(memory, personal=personal, mixing=to_singles(relations))
        return Trained(to_singles(cores[0]), personal, float(np.mean(losses or [0.0])), kept)

    def _relations(self, memory: Any, count: int) -> Singles:
        """Return the relations so far: equal shares at first, and zero for clients that came later."""
        if not memory.mixing.size:
            return np.full(count, 1 / count, np.float32)
        kept = np.zeros(count, np.float32)
        kept[: min(count, memory.mixing.size)] = memory.mixing[:count]
        return kept

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """Return the personal model made of the last cores."""
        relations = self._relations(memory, len(received["cores"]))
        return np.asarray(relations @ received["cores"], dtype=np.float32)

"""FedAvg, the mean of the clients' models weighted by their rows, and FedProx, whose clients stay near it.

References
----------
McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017.
Li et al., Federated optimization in heterogeneous networks, MLSys 2020.
"""

from typing import Any

from pydantic import Field

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.training import Penalty, Trained, proximal_penalty, to_vector, train_epochs


class FedAvgLearner(Learner):
    """Every client trains the server's model; the server takes the mean, ``theta <- sum_k N_k / N theta_k``."""

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train the server's model; the one to judge is the server's as it came."""
        model = self.new_model(received["inputs"], received["weights"])
        loss = train_epochs(self, model, data, rng("batches"), self.penalty(received))
        return Trained(to_vector(model), received["weights"], loss, memory)

    def penalty(self, received: Message) -> Penalty | None:
        """Return what is added to the loss."""
        return None


class FedProxLearner(FedAvgLearner):
    """Clients minimise ``L_k(theta) + proximity / 2 |theta - theta_server|^2``."""

    proximity: float = Field(default=0.1, ge=0, description="Strength of the proximal penalty.")

    def penalty(self, received: Message) -> Penalty | None:
        """Return the distance from the model that was sent."""
        return proximal_penalty(received["weights"], self.proximity)

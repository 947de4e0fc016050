"""FedAvg: the mean of the clients' models, weighted by their rows.

References
----------
McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017.
"""

from typing import Any

from cotempo.federation import Message, Rng
from cotempo.learners.learner import Learner
from cotempo.learners.state import Penalty, Trained
from cotempo.learners.training import to_vector, train_epochs


class FedAvgLearner(Learner):
    """Every client trains the server's model; the server takes the mean, ``theta <- sum_k N_k / N theta_k``."""

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Train the server's model; the one to judge is the server's as it came."""
        model = self.new_model(received["inputs"], received["weights"])
        loss = train_epochs(self, model, data, rng("batches"), self.penalty(received))
        return Trained(to_vector(model), received["weights"], loss, memory)

    def penalty(self, received: Message) -> Penalty | None:
        """What is added to the loss."""
        return None

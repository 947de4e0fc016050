"""FedProx: FedAvg whose clients stay near the server's model.

References
----------
Li et al., Federated optimization in heterogeneous networks, MLSys 2020.
"""

from pydantic import Field

from cotempo.federation import Message
from cotempo.learners.fedavg import FedAvgLearner
from cotempo.learners.state import Penalty
from cotempo.learners.training import proximal_penalty


class FedProxLearner(FedAvgLearner):
    """Clients minimise ``L_k(theta) + proximity / 2 |theta - theta_server|^2``."""

    proximity: float = Field(default=0.1, ge=0, description="Strength of the proximal penalty.")

    def penalty(self, received: Message) -> Penalty | None:
        """The distance from the server's model."""
        return proximal_penalty(received["weights"], self.proximity)

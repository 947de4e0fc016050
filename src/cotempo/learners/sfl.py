"""SFL: each client is sent a mixture of models, weighted along a graph of clients.

References
----------
Chen et al., Personalized federated learning with a graph, IJCAI 2022.
"""

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from cotempo.federation import EMPTY, Message
from cotempo.learners.fedavg import FedProxLearner
from cotempo.typing import Floats, Singles


class SFLLearner(FedProxLearner):
    """Client k is sent ``sum_j (A^layers)_kj theta_j``, where ``A`` is a softmax of minus the models' distances.

    Distances are Euclidean, in units of their mean; local training stays near what was sent.
    """

    sums: ClassVar[bool] = False
    private_units: ClassVar[tuple[str, ...]] = ()

    layers: int = Field(default=2, ge=1, description="How often models are mixed along the graph.")

    def own_message(self, state: Any, client: str) -> Message:
        """Send the client's mixture instead of the mean."""
        if client not in state.models:
            return EMPTY
        names = sorted(state.models)
        stacked = np.stack([state.models[name] for name in names])
        row = relation_graph(stacked, self.layers)[names.index(client)]
        return Message({"weights": (row @ stacked.astype(np.float64)).astype(np.float32)})


def relation_graph(models: Singles, layers: int) -> Floats:
    """Return how much each client takes of each model, ``(clients, clients)``; rows sum to one.

    Examples
    --------
    >>> relation_graph(np.array([[0.0], [0.0], [9.0]], np.float32), 1).round(2).tolist()
    [[0.47, 0.47, 0.05], [0.47, 0.47, 0.05], [0.09, 0.09, 0.83]]
    """
    values = models.astype(np.float64)
    gaps = np.array([np.linalg.norm(values - row, axis=1) for row in values])
    scaled = np.exp(-gaps / max(float(gaps.mean()), 1e-12))
    share = scaled / scaled.sum(axis=1, keepdims=True)
    return np.asarray(np.linalg.matrix_power(share, layers))

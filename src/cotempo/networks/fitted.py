"""What a method of this family returns: a network, its picture, and its scores where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cotempo.federation.fitted import Fitted, Outcome
from cotempo.networks.metrics import score_network
from cotempo.networks.network import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedNetwork(Fitted):
    """One network for all clients; `fitted[client]` is the same network."""

    def __init__(self, outcome: Outcome, network: Network):
        super().__init__(outcome)
        self.network = network

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """The learned network, beside the true one where it is known."""
        from cotempo.networks.plot import plot_networks

        known = truth if isinstance(truth, Network) else None
        title = "The learned network beside the true one" if known else "The learned network"
        return {title: plot_networks(self.network, known)}

    def scores(self, truth: Any) -> Mapping[str, float]:
        """Distances and rates of `score_network`."""
        return score_network(self.network, truth)

    def plot(self, truth: Network | None = None) -> Figure:
        """Draw the network."""
        from cotempo.networks.plot import plot_networks

        return plot_networks(self.network, truth)

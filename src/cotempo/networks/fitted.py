"""What a method of this family returns: a network, its picture, and its scores where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cotempo.federation import Fitted, Outcome
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
        from cotempo.networks.plots.page import plot_networks

        known = truth if isinstance(truth, Network) else None
        title = "The learned network beside the true one" if known else "The learned network"
        return {title: plot_networks(self.network, known)}

    def scores(self, truth: Any) -> Mapping[str, float]:
        """Distances and rates of `score_network`; where each client has a truth of its own, means over them."""
        if isinstance(truth, Mapping):
            return score_network({name: self[name].network for name in truth}, truth)
        return score_network(self.network, truth)

    def plot(self, truth: Network | None = None) -> Figure:
        """Draw the network."""
        from cotempo.networks.plots.page import plot_networks

        return plot_networks(self.network, truth)


@dataclass(frozen=True)
class ClientNetwork:
    """One client's own network."""

    network: Network

    def plot(self, truth: Network | None = None) -> Figure:
        """Draw the network."""
        from cotempo.networks.plots.page import plot_networks

        return plot_networks(self.network, truth)


class FittedPersonal(FittedNetwork):
    """A network for every client, `fitted[client].network`, beside the common one, `fitted.network`.

    Clients' own networks come from their memories and never crossed.
    """

    def __init__(self, outcome: Outcome, network: Network, own: Mapping[str, Network]):
        super().__init__(outcome, network)
        self.own = own

    def __getitem__(self, client: str) -> Any:
        """The client's own network; the common one for a client that never took part."""
        super().__getitem__(client)
        return ClientNetwork(self.own.get(client, self.network))

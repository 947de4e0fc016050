"""What drives what, now and later: federated dynamic Bayesian networks."""

from cotempo.networks.fdbnl import FDBNL
from cotempo.networks.fitted import FittedNetwork
from cotempo.networks.generate import make_networks
from cotempo.networks.metrics import score_network
from cotempo.networks.network import Network

__all__ = ["FDBNL", "FittedNetwork", "Network", "make_networks", "score_network"]

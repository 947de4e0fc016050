"""Federated dynamic Bayesian networks: what drives what, now and later."""

from cotempo.networks.data.generate import make_lorenz96, make_networks
from cotempo.networks.data.loaders import read_dream4, read_netsim
from cotempo.networks.fdbnl import FDBNL
from cotempo.networks.fitted import FittedNetwork, Ranking
from cotempo.networks.metrics import score_network
from cotempo.networks.network import Network
from cotempo.networks.oneround import OneRound
from cotempo.networks.pfdbnl import PFDBNL
from cotempo.networks.ranking import EdgeRanking, rank_edges

__all__ = [
    "FDBNL",
    "PFDBNL",
    "EdgeRanking",
    "FittedNetwork",
    "Network",
    "OneRound",
    "Ranking",
    "make_lorenz96",
    "make_networks",
    "rank_edges",
    "read_dream4",
    "read_netsim",
    "score_network",
]

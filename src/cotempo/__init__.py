"""Learn together from time-stamped data that must not leave its owners."""

from cotempo.data import (
    Events,
    Posts,
    Series,
    make_events,
    make_posts,
    make_series,
    read_events,
    read_posts,
    read_series,
)
from cotempo.errors import CotempoError
from cotempo.federation.fitted import load
from cotempo.federation.mean import FedMean
from cotempo.federation.participation import Participation
from cotempo.fitting import dry_run, fit, resume
from cotempo.networks import (
    FDBNL,
    PFDBNL,
    EdgeRanking,
    Network,
    OneRound,
    make_lorenz96,
    make_networks,
    rank_edges,
    read_dream4,
    read_netsim,
    score_network,
)

__version__ = "0.1.0"

__all__ = [
    "FDBNL",
    "PFDBNL",
    "CotempoError",
    "EdgeRanking",
    "Events",
    "FedMean",
    "Network",
    "OneRound",
    "Participation",
    "Posts",
    "Series",
    "dry_run",
    "fit",
    "load",
    "make_events",
    "make_lorenz96",
    "make_networks",
    "make_posts",
    "make_series",
    "rank_edges",
    "read_dream4",
    "read_events",
    "read_netsim",
    "read_posts",
    "read_series",
    "resume",
    "score_network",
]

"""Learn together from time-stamped data that must not leave its owners."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cotempo.federation.registry import announce

if TYPE_CHECKING:
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
    from cotempo.events import FedPP, SigmoidCox, read_event_archive
    from cotempo.federation.fitted import load
    from cotempo.federation.mean import FedMean
    from cotempo.federation.participation import Participation
    from cotempo.federation.simulated_time import Delays
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
    from cotempo.runs.run import dry_run, fit, resume, simulate_delays
    from cotempo.series import FedMoments, FedTDD, SeriesDiffusion, SeriesMoments
    from cotempo.social import DAMe, EventDetector

__version__ = "0.1.0"

# Names come from where they live when they are first used: importing cotempo costs nothing that is not needed.
_HOMES = {
    "cotempo.data": (
        "Events", "Posts", "Series", "make_events", "make_posts", "make_series", "read_events", "read_posts",
        "read_series",
    ),
    "cotempo.errors": ("CotempoError",),
    "cotempo.events": ("FedPP", "SigmoidCox", "read_event_archive"),
    "cotempo.federation.simulated_time": ("Delays",),
    "cotempo.federation.fitted": ("load",),
    "cotempo.federation.mean": ("FedMean",),
    "cotempo.federation.participation": ("Participation",),
    "cotempo.runs.run": ("dry_run", "fit", "resume", "simulate_delays"),
    "cotempo.networks": (
        "FDBNL", "PFDBNL", "EdgeRanking", "Network", "OneRound", "make_lorenz96", "make_networks", "rank_edges",
        "read_dream4", "read_netsim", "score_network",
    ),
    "cotempo.series": ("FedMoments", "FedTDD", "SeriesDiffusion", "SeriesMoments"),
    "cotempo.social": ("DAMe", "EventDetector"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_FAMILIES = ("events", "series", "social", "networks")
_PACKAGES = ("data", "learners", "testing", *_FAMILIES)

announce("cotempo.federation.mean", *(f"cotempo.{family}" for family in _FAMILIES))

__all__ = [
    "FDBNL",
    "PFDBNL",
    "CotempoError",
    "DAMe",
    "Delays",
    "EdgeRanking",
    "EventDetector",
    "Events",
    "FedMean",
    "FedMoments",
    "FedPP",
    "FedTDD",
    "Network",
    "OneRound",
    "Participation",
    "Posts",
    "Series",
    "SeriesDiffusion",
    "SeriesMoments",
    "SigmoidCox",
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
    "read_event_archive",
    "read_events",
    "read_netsim",
    "read_posts",
    "read_series",
    "resume",
    "score_network",
    "simulate_delays",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"cotempo.{name}")
    raise AttributeError(f"module 'cotempo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])

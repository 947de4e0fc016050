"""Events: Cox processes and their simpler relatives, alone and together."""

from cotempo.events.aggregation import Normal, aggregate, divergence
from cotempo.events.archive import EventArchive, read_event_archive
from cotempo.events.curve import Band, Curve, NextEvent
from cotempo.events.diagnostics import coverage, crps, probability_transform, rescaling_test
from cotempo.events.fedpp import FedPP
from cotempo.events.sigmoid_cox import FittedCox, SigmoidCox
from cotempo.events.simple import FedSimple

__all__ = [
    "Band",
    "Curve",
    "EventArchive",
    "FedPP",
    "FedSimple",
    "FittedCox",
    "NextEvent",
    "Normal",
    "SigmoidCox",
    "aggregate",
    "coverage",
    "crps",
    "divergence",
    "probability_transform",
    "read_event_archive",
    "rescaling_test",
]

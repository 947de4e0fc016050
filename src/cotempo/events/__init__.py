"""Events: Cox processes and their simpler relatives, alone and together."""

from cotempo.events.aggregation import Normal, aggregate, divergence
from cotempo.events.archive import EventArchive, read_event_archive
from cotempo.events.conditional import Conditional
from cotempo.events.curve import Band, Curve, NextEvent
from cotempo.events.diagnostics import coverage, crps, probability_transform, rescaling_test
from cotempo.events.encoded import EncodedIntensity
from cotempo.events.fedpp import FedPP
from cotempo.events.neural import FedNeural
from cotempo.events.neural_hawkes import NeuralHawkes, make_neural_hawkes
from cotempo.events.sigmoid_cox import FittedCox, SigmoidCox
from cotempo.events.simple import FedSimple

__all__ = [
    "Band",
    "Conditional",
    "Curve",
    "EncodedIntensity",
    "EventArchive",
    "FedNeural",
    "FedPP",
    "FedSimple",
    "FittedCox",
    "NeuralHawkes",
    "NextEvent",
    "Normal",
    "SigmoidCox",
    "aggregate",
    "coverage",
    "crps",
    "divergence",
    "make_neural_hawkes",
    "probability_transform",
    "read_event_archive",
    "rescaling_test",
]

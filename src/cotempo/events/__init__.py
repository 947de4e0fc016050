"""Events: Cox processes and their simpler relatives, alone and together."""

from cotempo.events.archive import EventArchive, read_event_archive
from cotempo.events.cox.aggregation import Normal, aggregate, divergence
from cotempo.events.diagnostics import coverage, crps, probability_transform, rescaling_test
from cotempo.events.fedpp import FedPP
from cotempo.events.intensities.encoder_intensity import EncodedIntensity
from cotempo.events.intensities.given_history import Conditional
from cotempo.events.intensities.over_time import Band, Curve, NextEvent
from cotempo.events.neural.federated import FedNeural
from cotempo.events.neural_hawkes import NeuralHawkes, make_neural_hawkes
from cotempo.events.processes.federated import FedSimple
from cotempo.events.sigmoid_cox import FittedCox, SigmoidCox

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

"""Events: Cox processes and their simpler relatives, alone and together."""

from cotempo.events.archive import EventArchive, read_event_archive
from cotempo.events.cox.aggregation import Normal, aggregate, divergence
from cotempo.events.fedpp import FedPP, SharedPrior
from cotempo.events.intensities.base import Band, Count, IntensityGivenHistory, IntensityOverTime
from cotempo.events.intensities.fitted import EncoderIntensity
from cotempo.events.intensities.next_event import NextEvent
from cotempo.events.neural.federated import FedNeural
from cotempo.events.processes.federated import FedPointProcess
from cotempo.events.scores import coverage, rescaling_test
from cotempo.events.shared_function.method import SharedFunction
from cotempo.events.sigmoid_cox import FittedCox, SigmoidCox

__all__ = [
    "Band",
    "Count",
    "EncoderIntensity",
    "EventArchive",
    "FedNeural",
    "FedPP",
    "FedPointProcess",
    "FittedCox",
    "IntensityGivenHistory",
    "IntensityOverTime",
    "NextEvent",
    "Normal",
    "SharedFunction",
    "SharedPrior",
    "SigmoidCox",
    "aggregate",
    "coverage",
    "divergence",
    "read_event_archive",
    "rescaling_test",
]

"""Federated learners for any torch model and loss; a family says what its model, batches, loss and score are."""

from cotempo.learners.apple import APPLELearner
from cotempo.learners.ditto import DittoLearner
from cotempo.learners.dual import DualLearner, DualState, RoundRecord
from cotempo.learners.fedala import FedALALearner
from cotempo.learners.fedavg import FedAvgLearner, FedProxLearner
from cotempo.learners.learner import Learner
from cotempo.learners.local import LocalLearner
from cotempo.learners.perfedavg import PerFedAvgLearner
from cotempo.learners.sfl import SFLLearner
from cotempo.learners.state import LearnerMemory, LearnerState

__all__ = [
    "APPLELearner",
    "DittoLearner",
    "DualLearner",
    "DualState",
    "FedALALearner",
    "FedAvgLearner",
    "FedProxLearner",
    "Learner",
    "LearnerMemory",
    "LearnerState",
    "LocalLearner",
    "PerFedAvgLearner",
    "RoundRecord",
    "SFLLearner",
]

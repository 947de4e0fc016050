"""Federated learners for any torch model and loss; a family says what its model, batches, loss and score are."""

from cotempo.learners.apple import APPLE
from cotempo.learners.ditto import Ditto
from cotempo.learners.fedala import FedALA
from cotempo.learners.fedavg import FedAvg
from cotempo.learners.fedprox import FedProx
from cotempo.learners.learner import Learner
from cotempo.learners.local import Local
from cotempo.learners.perfedavg import PerFedAvg
from cotempo.learners.sfl import SFL
from cotempo.learners.state import LearnerMemory, LearnerState

__all__ = [
    "APPLE",
    "SFL",
    "Ditto",
    "FedALA",
    "FedAvg",
    "FedProx",
    "Learner",
    "LearnerMemory",
    "LearnerState",
    "Local",
    "PerFedAvg",
]

"""`EventState` and `EventMemory`: what the server and a client of a graph learner keep between rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cotempo.learners import LearnerMemory, LearnerState
from cotempo.social.encoders.shared import SharedEncoder
from cotempo.typing import Floats, Singles


@dataclass(frozen=True)
class RoundRecord:
    """DAMe's decisions in a round: local weights and groups by client, and similarities, ``(clients, clients)``."""

    weights: Mapping[str, float]
    groups: Mapping[str, int]
    similarities: Floats


@dataclass(frozen=True)
class EventState(LearnerState):
    """A learner's state with the shared encoder, the clients that have received it, and the record of rounds."""

    shared: SharedEncoder = field(default_factory=lambda: SharedEncoder(0, 0, 0))
    equipped: tuple[str, ...] = ()
    record: tuple[RoundRecord, ...] = ()


@dataclass(frozen=True)
class EventMemory(LearnerMemory):
    """A learner's memory with the features of the client's posts, and the part each post belongs to."""

    features: Singles = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    part: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))

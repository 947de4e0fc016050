"""`LearnerState` and `LearnerMemory`, what the server and a client keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cotempo.federation import NOT_COMPARED, Joining, Message
from cotempo.typing import Floats, Singles

NONE = np.zeros(0, np.float32)


@dataclass(frozen=True)
class LearnerState:
    """The server's model as one vector, the one everyone began with, and the number of inputs.

    `models` are the clients' last ones, where the algorithm needs them singly; `joining` what it was worth, on
    rows neither model saw.
    """

    weights: Singles
    first: Singles
    inputs: int
    round: int = 0
    finished: bool = False
    models: Mapping[str, Singles] = field(default_factory=dict)
    joining: Joining = field(default_factory=Joining)


@dataclass(frozen=True)
class LearnerMemory:
    """A client's own model, empty before the first round, and its best by its validation rows with its score there.

    `mixing` is what some algorithms learn beside the model: weights of others' models or of single parameters;
    `compared` the score of a model learned alone and of the own best, without an error.
    """

    personal: Singles = field(default_factory=lambda: NONE)
    best: Singles = field(default_factory=lambda: NONE)
    best_score: float | None = None
    mixing: Singles = field(default_factory=lambda: NONE)
    compared: Floats = field(default_factory=lambda: NOT_COMPARED)

    def personal_or(self, received: Message) -> Singles:
        """Return the client's own model, or the server's before it has one."""
        model: Singles = self.personal if self.personal.size else received["weights"]
        return model

"""`LearnerState` and `LearnerMemory`, what the server and a client keep, and the scores that they compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cotempo.federation import Answers, Benefit, Message
from cotempo.typing import Singles

NONE = np.zeros(0, np.float32)


@dataclass(frozen=True)
class LearnerState:
    """The server's model as one vector, the one everyone began with, and the number of inputs.

    `models` are the clients' last ones, where the algorithm needs them singly; `scores` the score of each client alone
    and together, on rows neither model saw.
    """

    weights: Singles
    first: Singles
    inputs: int
    round: int = 0
    finished: bool = False
    models: Mapping[str, Singles] = field(default_factory=dict)
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class LearnerMemory:
    """A client's own model, empty before the first round, and its best by its validation rows with its score there.

    `mixing` is what some algorithms learn beside the model: weights of others' models or of single parameters.
    """

    personal: Singles = field(default_factory=lambda: NONE)
    best: Singles = field(default_factory=lambda: NONE)
    best_score: float | None = None
    mixing: Singles = field(default_factory=lambda: NONE)

    def personal_or(self, received: Message) -> Singles:
        """Return the client's own model, or the server's before it has one."""
        model: Singles = self.personal if self.personal.size else received["weights"]
        return model


def two_or_none(scores: np.ndarray) -> str | None:
    """Rule: scores are two, alone and together, or three with the standard error of their difference, or none."""
    return None if scores.shape in ((0,), (2,), (3,)) else f"scores must be two, three or none, got {len(scores)}"


def known_scores(answers: Answers) -> dict[str, tuple[float, ...]]:
    """Return the scores of the clients that have them, as `two_or_none` has them."""
    scores = {name: tuple(answers[name]["scores"].tolist()) for name in answers.names}
    return {name: found for name, found in scores.items() if found}


def benefits(metric: str, scores: Mapping[str, tuple[float, ...]]) -> dict[str, Benefit]:
    """Return what joining was worth to each client; higher scores are better."""
    return {
        name: Benefit(metric, alone, together, higher_is_better=True, error=error[0] if error else None)
        for name, (alone, together, *error) in scores.items()
    }

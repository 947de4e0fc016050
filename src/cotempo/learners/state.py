"""`LearnerState`, `LearnerMemory` and `Trained`: what the server keeps, what a client keeps, what training returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cotempo.learners.training import NONE
from cotempo.typing import Singles

if TYPE_CHECKING:
    import torch
    from torch import nn

Penalty = Callable[["nn.Module", Any], "torch.Tensor"]
"""What is added to the loss of a model on a batch."""


@dataclass(frozen=True)
class LearnerState:
    """What the server keeps.

    Attributes
    ----------
    weights
        The server's model as one vector.
    first
        The model everyone began with.
    inputs
        How many inputs the model has.
    models
        The clients' last models, where the algorithm needs them singly.
    scores
        Per client, the score alone and together, on rows neither model saw.
    """

    weights: Singles
    first: Singles
    inputs: int
    round: int = 0
    finished: bool = False
    models: Mapping[str, Singles] = field(default_factory=dict)
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class LearnerMemory:
    """What a client keeps.

    Attributes
    ----------
    personal
        Its own model, empty before the first round.
    best, best_score
        Its best model so far by its validation rows, and its score there; None before it has one.
    mixing
        What some algorithms learn beside the model: weights of others' models or of single parameters.
    """

    personal: Singles = field(default_factory=lambda: NONE)
    best: Singles = field(default_factory=lambda: NONE)
    best_score: float | None = None
    mixing: Singles = field(default_factory=lambda: NONE)


class Trained(NamedTuple):
    """What a round of training returns: the model to send, the one to judge, the loss, and the memory."""

    sent: Singles
    candidate: Singles
    loss: float
    memory: LearnerMemory

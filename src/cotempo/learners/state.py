"""What learners pass round: the server's state, a client's memory, and what a round of training gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cotempo.learners.vector import NONE, Vector

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

    weights: Vector
    first: Vector
    inputs: int
    round: int = 0
    finished: bool = False
    models: Mapping[str, Vector] = field(default_factory=dict)
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

    personal: Vector = field(default_factory=lambda: NONE)
    best: Vector = field(default_factory=lambda: NONE)
    best_score: float | None = None
    mixing: Vector = field(default_factory=lambda: NONE)


class Trained(NamedTuple):
    """What a round of training gives: the model to send, the one to judge, the loss, and the memory."""

    sent: Vector
    candidate: Vector
    loss: float
    memory: LearnerMemory

"""`train_epochs` and `gradient_at`: training on models whose parameters are one vector, to send, mix and keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cotempo.federation import EMPTY, Message
from cotempo.typing import Singles

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cotempo.learners.learner import Learner

Penalty = Callable[["nn.Module", Any], "torch.Tensor"]
"""What is added to the loss of a model on a batch."""


class Trained(NamedTuple):
    """What a round of training returns: the model to send, the one to judge, the loss, the memory, and other fields."""

    sent: Singles
    candidate: Singles
    loss: float
    memory: Any
    extra: Message = EMPTY


def to_vector(model: nn.Module) -> Singles:
    """Return all parameters as one vector of single precision, ``(parameters,)``.

    Examples
    --------
    >>> from torch import nn
    >>> to_vector(nn.Linear(2, 1)).shape
    (3,)
    """
    from torch.nn.utils import parameters_to_vector

    return to_singles(parameters_to_vector(model.parameters()))


def to_singles(tensor: torch.Tensor) -> Singles:
    """Return a copy of a tensor as an array of single precision."""
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float32)


def from_vector(model: nn.Module, vector: Singles | torch.Tensor) -> None:
    """Write a vector into the parameters of a model."""
    import torch

    source = vector if isinstance(vector, torch.Tensor) else torch.from_numpy(np.array(vector))
    start = 0
    with torch.no_grad():
        for parameter in model.parameters():
            part = source[start : start + parameter.numel()]
            parameter.copy_(part.reshape(parameter.shape).to(parameter.device))
            start += parameter.numel()


def train_epochs(
    learner: Learner, model: nn.Module, data: Any, rng: np.random.Generator, penalty: Penalty | None = None
) -> float:
    """Train a model in place for the learner's epochs and return the mean loss, without the penalty."""
    optimiser = adam(learner, model.parameters())
    losses = []
    for _ in range(learner.epochs):
        for batch in learner.epoch_batches(data, rng):
            optimiser.zero_grad()
            loss = learner.loss(model, batch)
            total = loss if penalty is None else loss + penalty(model, batch)
            if total.requires_grad:
                total.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            losses.append(float(loss.detach()))
    return float(np.mean(losses or [0.0]))


def adam(learner: Learner, parameters: Any) -> torch.optim.Adam:
    """Return a new optimiser with the learner's step size and weight decay."""
    import torch

    return torch.optim.Adam(parameters, lr=learner.learning_rate, weight_decay=learner.weight_decay)


def proximal_penalty(weights: Singles, strength: float) -> Penalty:
    """Return the penalty ``strength / 2 * |theta - weights|^2``."""
    import torch

    target = torch.from_numpy(np.array(weights))

    def penalty(model: nn.Module, batch: Any) -> torch.Tensor:
        flat = torch.nn.utils.parameters_to_vector(model.parameters())
        return strength / 2 * ((flat - target.to(flat.device)) ** 2).sum()

    return penalty


def gradient_at(learner: Learner, model: nn.Module, point: torch.Tensor, batch: Any) -> tuple[float, torch.Tensor]:
    """Return the loss of a batch and its gradient at a point in the space of parameters, ``(parameters,)``.

    The gradient is zero where a parameter had no part in the loss.
    """
    import torch

    from_vector(model, point)
    model.zero_grad()
    loss = learner.loss(model, batch)
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    slopes = [torch.zeros_like(one) if one.grad is None else one.grad for one in model.parameters()]
    return float(loss.detach()), torch.nn.utils.parameters_to_vector(slopes)

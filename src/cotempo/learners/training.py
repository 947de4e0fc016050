"""Training on models whose parameters are one vector: what is sent, averaged, mixed and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.typing import Singles

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cotempo.learners.learner import Learner
    from cotempo.learners.state import Penalty

NONE = np.zeros(0, np.float32)


def to_vector(model: nn.Module) -> Singles:
    """Return all parameters as one vector of single precision, ``(parameters,)``.

    Examples
    --------
    >>> from torch import nn
    >>> to_vector(nn.Linear(2, 1)).shape
    (3,)
    """
    import torch

    with torch.no_grad():
        flat = torch.cat([parameter.reshape(-1) for parameter in model.parameters()])
    return np.array(flat.cpu().numpy(), dtype=np.float32)


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


def flat_gradient(model: nn.Module) -> torch.Tensor:
    """Return the gradients of all parameters as one vector; zero where a parameter had no part in the loss."""
    import torch

    parts = [
        (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).reshape(-1)
        for parameter in model.parameters()
    ]
    return torch.cat(parts).detach()


def train_epochs(
    learner: Learner, model: nn.Module, data: Any, rng: np.random.Generator, penalty: Penalty | None = None
) -> float:
    """Train a model in place for the learner's epochs and return the mean loss, without the penalty."""
    import torch

    optimiser = torch.optim.Adam(model.parameters(), lr=learner.learning_rate, weight_decay=learner.weight_decay)
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
    return float(np.mean(losses)) if losses else 0.0


def proximal_penalty(weights: Singles, strength: float) -> Penalty:
    """Return the penalty ``strength / 2 * |theta - weights|^2``."""
    import torch

    target = torch.from_numpy(np.array(weights))

    def penalty(model: nn.Module, batch: Any) -> torch.Tensor:
        flat = torch.cat([parameter.reshape(-1) for parameter in model.parameters()])
        return strength / 2 * ((flat - target.to(flat.device)) ** 2).sum()

    return penalty


def gradient_at(learner: Learner, model: nn.Module, point: torch.Tensor, batch: Any) -> tuple[float, torch.Tensor]:
    """Return the loss of a batch and its gradient at a point in the space of parameters, ``(parameters,)``."""
    from_vector(model, point)
    model.zero_grad()
    loss = learner.loss(model, batch)
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), flat_gradient(model)

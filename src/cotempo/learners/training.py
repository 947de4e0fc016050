"""Local training: passes of Adam over a client's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.learners.vector import Vector, flat_gradient, from_vector

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cotempo.learners.learner import Learner
    from cotempo.learners.state import Penalty


def descend(
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


def near(weights: Vector, strength: float) -> Penalty:
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

"""A model's parameters as one vector: what is sent, averaged, mixed and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import nn

Vector = NDArray[np.float32]
NONE = np.zeros(0, np.float32)


def to_vector(model: nn.Module) -> Vector:
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


def from_vector(model: nn.Module, vector: Vector | torch.Tensor) -> None:
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

r"""Kernels: RBF on features, and the features themselves, with any number of leading batch dimensions.

Inducing values are whitened: :math:`u = L v` with :math:`K_{zz} = L L^\top`, so that :math:`v \sim N(0, I)` and
:math:`f(x) = \psi(x)^\top v` with the basis :math:`\psi(x) = L^{-1} k_z(x)`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cotempo.errors import CotempoError

JITTER = 1e-6


def squared_distances(first: Tensor, second: Tensor) -> Tensor:
    """Distances between rows, ``(..., rows, others)``, by one matrix product, which batches well."""
    cross = first @ second.mT
    square = first.square().sum(-1)[..., :, None] + second.square().sum(-1)[..., None, :] - 2 * cross
    return square.clamp_min(0.0)


def cholesky(matrix: Tensor) -> Tensor:
    """Cholesky factor of a matrix of unit scale; jitter grows until the factor exists."""
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    jitter = JITTER
    while jitter <= 1e-2:
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(matrix + jitter * eye)
        if not bool(failed.any()):
            return factor
        jitter *= 10
    raise CotempoError(
        "a kernel matrix must be positive definite, it is not even with jitter 0.01; use fewer inducing points"
    )


def basis(features: Tensor, inducing: Tensor, log_amplitude: Tensor, log_length: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return :math:`\psi(x)`, ``(..., rows, inducing)``, and the variance that the inducing values leave open.

    Parameters
    ----------
    features, inducing
        Inputs, ``(..., rows, dimensions)`` and ``(..., inducing, dimensions)``.
    log_amplitude
        Logarithm of the prior variance of :math:`f`, ``(...)``.
    log_length
        Logarithm of the length scale of each dimension, ``(..., dimensions)``.
    """
    scale = log_length.exp()[..., None, :]
    near, far = inducing / scale, features / scale
    factor = cholesky(torch.exp(-0.5 * squared_distances(near, near)))
    rows = torch.linalg.solve_triangular(factor, torch.exp(-0.5 * squared_distances(near, far)), upper=False).mT
    amplitude = log_amplitude.exp()[..., None]
    open_variance = (1.0 - rows.square().sum(-1)).clamp_min(0.0)
    return rows * amplitude.sqrt()[..., None], open_variance * amplitude

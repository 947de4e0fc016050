r"""RBF kernels on features, and the features of kernels of time, with any number of leading batch dimensions.

Inducing values are whitened: :math:`u = L v` with :math:`K_{zz} = L L^\top`, so that :math:`v \sim N(0, I)` and
:math:`f(x) = \psi(x)^\top v` with the basis :math:`\psi(x) = L^{-1} k_z(x)`.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cotempo.errors import CotempoError
from cotempo.typing import Floats

JITTER = 1e-6
# Width of the deep kernel's layer, and the dimension of its embedding.
HIDDEN, EMBEDDING = 16, 2


def squared_distances(first: Tensor, second: Tensor) -> Tensor:
    """Return distances between rows, ``(..., rows, others)``, by one matrix product, which batches well."""
    cross = first @ second.mT
    square = first.square().sum(-1)[..., :, None] + second.square().sum(-1)[..., None, :] - 2 * cross
    return square.clamp_min(0.0)


def cholesky(matrix: Tensor) -> Tensor:
    """Return Cholesky factor of a matrix of unit scale; jitter grows until the factor exists."""
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
    r"""Return :math:`\psi(x)`, ``(..., rows, inducing)``, and the variance that the inducing values leave open (8).

    `log_amplitude` is the log prior variance of :math:`f`, ``(...)``; `log_length` has the log length scale of each
    dimension, ``(..., dimensions)``.
    """
    scale = log_length.exp()[..., None, :]
    near, far = inducing / scale, features / scale
    factor = cholesky(torch.exp(-0.5 * squared_distances(near, near)))
    rows = torch.linalg.solve_triangular(factor, torch.exp(-0.5 * squared_distances(near, far)), upper=False).mT
    amplitude = log_amplitude.exp()[..., None]
    open_variance = (1.0 - rows.square().sum(-1)).clamp_min(0.0)
    return rows * amplitude.sqrt()[..., None], open_variance * amplitude


class KernelFeatures(NamedTuple):
    """Features of the cells and of the inducing inputs, and the logarithms of amplitude and length."""

    features: Tensor
    inducing: Tensor
    amplitude: Tensor
    length: Tensor


def size_of(kernel: str) -> int:
    """Return how many weights a kernel has: those of the network, then log amplitude and log length."""
    return 2 if kernel == "time" else HIDDEN * (2 + EMBEDDING) + 2


def first_weights(kernel: str, rng: np.random.Generator) -> Floats:
    """Return where the mean of the first prior lies: a random network, an amplitude of 1.5, a length of 0.3."""
    network = rng.standard_normal(size_of(kernel) - 2)
    network[2 * HIDDEN :] /= np.sqrt(HIDDEN)
    return np.concatenate([network, np.log([1.5, 0.3])])


def make_kernel(kernel: str, weights: Tensor, at: Tensor, inducing: Tensor) -> KernelFeatures:
    r"""Make kernels of weights, ``(clients, weights)``, at times on the scale ``[-1, 1]``, ``(clients, cells, 1)``.

    The deep kernel is an RBF on :math:`(t, 0) + \tanh(t W_1 + b_1) W_2`: a network of one layer with a skip connection.
    """
    amplitude, length = weights[..., -2], weights[..., -1:]
    if kernel == "time":
        return KernelFeatures(at, inducing, amplitude, length)
    first, bias = weights[..., None, :HIDDEN], weights[..., None, HIDDEN : 2 * HIDDEN]
    second = weights[..., 2 * HIDDEN : -2].reshape(*weights.shape[:-1], HIDDEN, EMBEDDING)

    def embed(times: Tensor) -> Tensor:
        skip = torch.cat([times, torch.zeros_like(times)], dim=-1)
        return skip + torch.tanh(times @ first + bias) @ second

    return KernelFeatures(embed(at), embed(inducing), amplitude, length.expand(*weights.shape[:-1], EMBEDDING))

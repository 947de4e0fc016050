"""From weights to kernels: what a vector of weights means, for a batch of clients with weights of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cotempo.events.records.record import Floats

HIDDEN = 16
EMBEDDING = 2


class Kernel(NamedTuple):
    """Features of the cells and of the inducing inputs, and the logarithms of amplitude and length."""

    features: Tensor
    inducing: Tensor
    amplitude: Tensor
    length: Tensor


def size_of(kernel: str) -> int:
    """How many weights a kernel has: those of the network, then log amplitude and log length."""
    return 2 if kernel == "time" else HIDDEN * (2 + EMBEDDING) + 2


def first_weights(kernel: str, rng: np.random.Generator) -> Floats:
    """Where the mean of the first prior lies: a random network, an amplitude of 1.5, a length of 0.3."""
    network = rng.standard_normal(size_of(kernel) - 2)
    network[2 * HIDDEN :] /= np.sqrt(HIDDEN)
    return np.concatenate([network, np.log([1.5, 0.3])])


def make_kernel(kernel: str, weights: Tensor, at: Tensor, inducing: Tensor) -> Kernel:
    r"""Make kernels of weights, ``(clients, weights)``, at times on the scale ``[-1, 1]``, ``(clients, cells, 1)``.

    The deep kernel is an RBF on :math:`(t, 0) + \tanh(t W_1 + b_1) W_2`: a network of one layer with a skip connection.
    """
    amplitude, length = weights[..., -2], weights[..., -1:]
    if kernel == "time":
        return Kernel(at, inducing, amplitude, length)
    first, bias = weights[..., None, :HIDDEN], weights[..., None, HIDDEN : 2 * HIDDEN]
    second = weights[..., 2 * HIDDEN : -2].reshape(*weights.shape[:-1], HIDDEN, EMBEDDING)

    def embed(times: Tensor) -> Tensor:
        skip = torch.cat([times, torch.zeros_like(times)], dim=-1)
        return skip + torch.tanh(times @ first + bias) @ second

    return Kernel(embed(at), embed(inducing), amplitude, length.expand(*weights.shape[:-1], EMBEDDING))

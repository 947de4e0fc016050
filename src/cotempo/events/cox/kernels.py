r"""Kernels of time and of the history: RBF kernels on features, for a batch of clients with weights of their own.

Inducing values are whitened: :math:`u = L v` with :math:`K_{zz} = L L^\top`, so that :math:`v \sim N(0, I)` and
:math:`f(x) = \psi(x)^\top v` with the basis :math:`\psi(x) = L^{-1} k_z(x)`.

Kernels of the history look back over the events before a row. The deep ones are an RBF on :math:`(P h, \log
\text{elapsed}, t)`, where an LSTM or causal attention made :math:`h` of the events strictly before; the light one is an
RBF on elapsed time, decayed counts and time. Inducing inputs live in the space of these features and are weights like
all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cotempo.errors import CotempoError
from cotempo.events.records.design import place_inducing
from cotempo.events.records.encoder_inputs import LIGHT, EncoderInputs
from cotempo.typing import Floats

JITTER = 1e-6
# Of the deep kernel of time: the width of its layer, and the dimension of its embedding.
HIDDEN, TIME_EMBEDDING = 16, 2
# Of the encoders of the history: layers, their width, heads; dimensions of the embedding, of types and of a step.
LAYERS, WIDTH, HEADS = 2, 32, 4
EMBEDDING, TYPE_WIDTH, STEP = 4, 4, 3


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


def make_kernel(kernel: str, weights: Tensor, at: Tensor, inducing: Tensor) -> KernelFeatures:
    r"""Make kernels of weights, ``(clients, weights)``, at times on the scale ``[-1, 1]``, ``(clients, cells, 1)``.

    The deep kernel is an RBF on :math:`(t, 0) + \tanh(t W_1 + b_1) W_2`: a network of one layer with a skip connection.
    """
    amplitude, length = weights[..., -2], weights[..., -1:]
    if kernel == "time":
        return KernelFeatures(at, inducing, amplitude, length)
    first, bias = weights[..., None, :HIDDEN], weights[..., None, HIDDEN : 2 * HIDDEN]
    second = weights[..., 2 * HIDDEN : -2].reshape(*weights.shape[:-1], HIDDEN, TIME_EMBEDDING)

    def embed(times: Tensor) -> Tensor:
        skip = torch.cat([times, torch.zeros_like(times)], dim=-1)
        return skip + torch.tanh(times @ first + bias) @ second

    return KernelFeatures(embed(at), embed(inducing), amplitude, length.expand(*weights.shape[:-1], TIME_EMBEDDING))


class EncoderBatch(NamedTuple):
    """`EncoderInputs` of clients as tensors, ``(clients, pieces, ...)``."""

    steps: Tensor
    types: Tensor
    before: Tensor
    light: Tensor
    events: Tensor
    exposure: Tensor

    @classmethod
    def of(cls, clients: list[EncoderInputs], device: torch.device | str = "cpu") -> EncoderBatch:
        """Stack clients; those with fewer pieces, steps or rows are padded with what counts nothing."""
        fields = []
        for name in cls._fields:
            parts = [getattr(one, name) for one in clients]
            size = tuple(np.max([part.shape for part in parts], axis=0))
            padded = np.zeros((len(parts), *size), dtype=parts[0].dtype)
            for target, part in zip(padded, parts, strict=True):
                target[tuple(slice(length) for length in part.shape)] = part
            fields.append(torch.from_numpy(padded).to(device))
        return cls(*fields)


def shapes(kernel: str, types: int, inducing: int) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the weights, in order."""
    found: dict[str, tuple[int, ...]] = {}
    if kernel != "history":
        found["types"] = (types, TYPE_WIDTH)
        width = STEP + (TYPE_WIDTH if types else 0)
        if kernel == "attention":
            found["lift"], width = (width, WIDTH), WIDTH
        for layer in range(LAYERS):
            if kernel == "lstm":
                sizes = {"input": (width, 4 * WIDTH), "state": (WIDTH, 4 * WIDTH), "bias": (1, 4 * WIDTH)}
            else:
                square = (WIDTH, WIDTH)
                sizes = {"look": (width, 3 * WIDTH), "join": square, "up": square, "down": square}
            found |= {f"{name} {layer}": size for name, size in sizes.items()}
            width = WIDTH
        found["embed"] = (WIDTH, EMBEDDING)
    size = LIGHT if kernel == "history" else EMBEDDING + 2
    return {**found, "inducing": (inducing, size), "amplitude": (1,), "length": (size,)}


def first_weights(kernel: str, types: int, inducing: int, rng: np.random.Generator) -> Floats:
    """Return the mean of the first prior: a random network, and the logs of an amplitude of 1.5 and a length of 0.3.

    Of the history, inducing inputs spread evenly through a normal besides, and amplitude 1 and lengths 1.5.
    """
    if kernel in ("time", "deep"):
        network = rng.standard_normal(0 if kernel == "time" else HIDDEN * (2 + TIME_EMBEDDING))
        network[2 * HIDDEN :] /= np.sqrt(HIDDEN)
        return np.concatenate([network, np.log([1.5, 0.3])])
    parts = []
    for name, shape in shapes(kernel, types, inducing).items():
        if name == "inducing":
            parts.append(place_inducing(inducing, shape[1]))
        elif name in ("amplitude", "length"):
            parts.append(np.full(shape, 0.0 if name == "amplitude" else np.log(1.5)))
        elif name.startswith("bias"):
            # A forget gate that starts open remembers.
            parts.append(np.repeat([0.0, 1.0, 0.0, 0.0], WIDTH)[None])
        else:
            unscaled = name == "types" or (name == "embed" and kernel == "lstm")
            parts.append(rng.standard_normal(shape) / np.sqrt(1.0 if unscaled else shape[0]))
    return np.concatenate([part.ravel() for part in parts])


def plain_weights(kernel: str, types: int, inducing: int) -> int:
    """Return how many weights come before the Bayesian ones: those of the encoder, which are point estimates."""
    sizes = shapes(kernel, types, inducing)
    before = list(sizes).index("embed" if "embed" in sizes else "inducing")
    return sum(int(np.prod(shape)) for shape in list(sizes.values())[:before])


def unpack(weights: Tensor, sizes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Return weights by name, ``(clients, ...)`` each."""
    counts = [int(np.prod(shape)) for shape in sizes.values()]
    parts = torch.split(weights, counts, dim=-1)
    return {name: part.reshape(len(weights), *shape) for (name, shape), part in zip(sizes.items(), parts, strict=True)}


def make_history_kernel(kernel: str, weights: Tensor, batch: EncoderBatch, inducing: int) -> KernelFeatures:
    """Return features of all rows, ``(clients, pieces * rows, dimensions)``, and of the inducing inputs."""
    known = unpack(weights, shapes(kernel, batch.types.shape[-1], inducing))
    features = batch.light
    if kernel != "history":
        # Bounded, so that the inducing inputs always cover it.
        read = 2 * torch.tanh(encode(kernel, known, batch) @ known["embed"][:, None])
        index = batch.before[..., None].expand(*batch.before.shape, EMBEDDING)
        features = torch.cat([read.gather(2, index), batch.light[..., :1], batch.light[..., -1:]], dim=-1)
    return KernelFeatures(features.flatten(1, 2), known["inducing"], known["amplitude"][:, 0], known["length"])


def encode(kernel: str, known: dict[str, Tensor], batch: EncoderBatch) -> Tensor:
    """Return what is known after 0, 1, 2, ... steps, ``(clients, pieces, steps + 1, width)``."""
    steps = batch.steps
    if batch.types.shape[-1]:
        steps = torch.cat([steps, batch.types @ known["types"][:, None]], dim=-1)
    if kernel == "attention":
        steps = steps @ known["lift"][:, None]
    for layer in range(LAYERS):
        steps = (_lstm if kernel == "lstm" else _attend)(known, layer, steps)
    if kernel == "attention":
        steps = steps * (1 + steps.square().mean(-1, keepdim=True)).rsqrt()
    return torch.cat([torch.zeros_like(steps[:, :, :1]), steps], dim=2)


def _lstm(known: dict[str, Tensor], layer: int, steps: Tensor) -> Tensor:
    """Return one layer of long short-term memory (Hochreiter and Schmidhuber, 1997)."""
    driven = steps @ known[f"input {layer}"][:, None] + known[f"bias {layer}"][:, None]
    state = cell = torch.zeros(*steps.shape[:2], WIDTH, dtype=steps.dtype, device=steps.device)
    out = []
    for number in range(steps.shape[2]):
        gates = driven[:, :, number] + state @ known[f"state {layer}"]
        enter, forget, leave = torch.sigmoid(gates[..., : 3 * WIDTH]).chunk(3, dim=-1)
        cell = forget * cell + enter * torch.tanh(gates[..., 3 * WIDTH :])
        state = leave * torch.tanh(cell)
        out.append(state)
    return torch.stack(out, dim=2)


def _attend(known: dict[str, Tensor], layer: int, steps: Tensor) -> Tensor:
    """Return one layer of causal attention with a residual network; nearer steps weigh more, by a slope per head.

    (Vaswani et al., 2017; the slopes are those of Press et al., 2022.)
    """
    count = steps.shape[2]
    looked = (steps @ known[f"look {layer}"][:, None]).reshape(*steps.shape[:-1], 3, HEADS, WIDTH // HEADS)
    query, key, value = looked.movedim(-3, 0).transpose(-3, -2)
    place = torch.arange(count, device=steps.device)
    behind = (place[:, None] - place).to(steps.dtype)
    slope = 2.0 ** -torch.arange(1, HEADS + 1, dtype=steps.dtype, device=steps.device)
    score = query @ key.mT / (WIDTH // HEADS) ** 0.5 - slope[:, None, None] * behind
    share = score.masked_fill(behind < 0, -torch.inf).softmax(-1)
    joined = (share @ value).transpose(-3, -2).flatten(-2) @ known[f"join {layer}"][:, None]
    steps = steps + joined
    return steps + torch.tanh(steps @ known[f"up {layer}"][:, None]) @ known[f"down {layer}"][:, None]

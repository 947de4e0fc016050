r"""Encoders of the history, for a batch of clients with weights of their own: none, an LSTM, causal attention.

A row looks back over the events before it. The deep kernel is an RBF on :math:`(P h, \log \text{elapsed}, t)`, where
:math:`h` is what the encoder made of the events strictly before; the light kernel is an RBF on elapsed time, decayed
counts and time. Inducing inputs live in the space of these features and are weights like all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import norm, qmc
from torch import Tensor

from cotempo.events.cox.kernels import KernelFeatures
from cotempo.events.records.encoder_inputs import LIGHT, EncoderInputs
from cotempo.typing import Floats

LAYERS, WIDTH, HEADS = 2, 32, 4
EMBEDDING, TYPE_WIDTH = 4, 4
STEP = 3


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


def dimensions(kernel: str) -> int:
    """Return how many features the kernel sees."""
    return LIGHT if kernel == "history" else EMBEDDING + 2


def shapes(kernel: str, types: int, inducing: int) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the weights, in order."""
    found: dict[str, tuple[int, ...]] = {}
    if kernel != "history":
        found["types"] = (types, TYPE_WIDTH)
        width = STEP + (TYPE_WIDTH if types else 0)
        if kernel == "attention":
            found["lift"], width = (width, WIDTH), WIDTH
        for layer in range(LAYERS):
            found |= _layer_shapes(kernel, layer, width)
            width = WIDTH
        found["embed"] = (WIDTH, EMBEDDING)
    size = dimensions(kernel)
    return {**found, "inducing": (inducing, size), "amplitude": (1,), "length": (size,)}


def _layer_shapes(kernel: str, layer: int, width: int) -> dict[str, tuple[int, ...]]:
    if kernel == "lstm":
        sizes: dict[str, tuple[int, ...]] = {
            "input": (width, 4 * WIDTH), "state": (WIDTH, 4 * WIDTH), "bias": (1, 4 * WIDTH)
        }  # fmt: skip
    else:
        sizes = {"look": (width, 3 * WIDTH), "join": (WIDTH, WIDTH), "up": (WIDTH, WIDTH), "down": (WIDTH, WIDTH)}
    return {f"{name} {layer}": size for name, size in sizes.items()}


def first_weights(kernel: str, types: int, inducing: int, rng: np.random.Generator) -> Floats:
    """Return a random network, inducing inputs spread evenly through a normal, amplitude 1 and lengths 1.5."""
    parts = []
    for name, shape in shapes(kernel, types, inducing).items():
        if name == "inducing":
            parts.append(1.3 * norm.ppf(qmc.Halton(shape[1], scramble=False).random(inducing + 1)[1:]))
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

"""What server and clients keep while they learn a shared function, and the way of it into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.events.record import Floats, Record
from cotempo.events.rows import Design, Rows

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP
    from cotempo.events.shared import Common, Data, Kernels, Own

NONE = np.zeros(0)
# Where lengths of the shared and of the personal function start, by kernel.
FIRST_LENGTHS = {"time": (2.0, 15.0), "history": (2.0, 2.0)}


@dataclass(frozen=True)
class FunctionState:
    """What the server keeps.

    `rate` holds shape and rate of the prior of m, the dispersion of bursts and the design effect of sequences;
    `kernel` the logarithms of amplitude and lengths, of the shared and of the personal function; `curvature` the
    summed information about the shared function.
    """

    stage: str
    step: int
    clients: int
    span: Floats
    design: Design
    candidates: Mapping[str, Floats]
    inducing: Floats
    own_inducing: Floats
    kernel: Floats
    drift: Floats
    swing: Floats
    mean: Floats
    root: Floats
    rate: Floats
    curvature: Floats
    compared: Mapping[str, Floats]


@dataclass(frozen=True)
class FunctionMemory:
    """What a client keeps: its rows, its deviation and rate, its joint information, its events and exposure, and the
    waits between events that were held out, on the model's clock."""

    rows: Rows
    mean: Floats
    root: Floats
    shape: float
    rate: float
    information: Floats
    seen: Floats
    waits: Floats


def first_state(method: FedPP, clients: int) -> FunctionState:
    """Nothing is known yet but, perhaps, the window."""
    design = Design(method.kernel, NONE, method.period or 0.0, "poisson", NONE, NONE, NONE)
    span = np.array(method.window) if method.window else np.array([np.inf, -np.inf])
    stage = "describe" if method.window else "span"
    return FunctionState(
        stage, 0, clients, span, design, {}, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
        np.array([4.0, 2.0, 1.0, 1.0]), NONE, {},
    )  # fmt: skip


def first_memory(record: Record) -> FunctionMemory:
    """No rows yet."""
    rows = Rows(np.zeros((0, 1)), NONE, NONE, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    seen = np.array([record.events, record.exposure])
    return FunctionMemory(rows, NONE, np.zeros((0, 0)), 4.0, 2.0, np.zeros((0, 0)), seen, NONE)


def first_kernel(kernel: str, dimensions: int) -> Floats:
    """Log amplitude and lengths of the shared function, then of the personal one; also the centres of their priors.

    The shared function of time starts wiggly: what it cannot follow would count as bursts, and never be learned.
    """
    shared, personal = FIRST_LENGTHS[kernel]
    start = np.concatenate([[1.0], np.full(dimensions, shared), [0.1], np.full(dimensions, personal)])
    return np.asarray(np.log(start))


def gather(rows: Sequence[Rows], everything: bool) -> Data:
    """Rows of clients as one padded batch; what is held out counts nothing unless `everything` is asked for."""
    import torch

    from cotempo.events.cox import Cells
    from cotempo.events.shared import Data

    size = max(len(part.events) for part in rows)
    features = np.zeros((len(rows), size, rows[0].features.shape[1]))
    events, exposure = np.zeros((2, len(rows), size))
    place = np.zeros((len(rows), size), dtype=np.int64)
    for i, part in enumerate(rows):
        count = len(part.events)
        weight = np.ones(count) if everything else 1.0 - part.held
        features[i, :count], place[i, :count] = part.features, part.bin
        events[i, :count], exposure[i, :count] = part.events * weight, part.exposure * weight
    cells = Cells(torch.from_numpy(events), torch.from_numpy(exposure))
    return Data(torch.from_numpy(features), cells, torch.from_numpy(place))


def to_torch(state: FunctionState, memories: Sequence[FunctionMemory]) -> tuple[Common, Kernels, Own]:
    """The server's and the clients' beliefs as tensors."""
    import torch

    from cotempo.events.shared import Common, Kernels, Own

    def tensor(values: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(values, dtype=np.float64))

    dimensions = state.inducing.shape[1]
    kernel = tensor(state.kernel).expand(len(memories), -1)
    split = [1, dimensions, 1, dimensions]
    amplitude, length, own_amplitude, own_length = torch.split(kernel, split, dim=-1)
    common = Common(
        tensor(state.inducing), tensor(state.own_inducing), tensor(state.mean), tensor(state.root), *state.rate.tolist()
    )
    own = Own(
        *(tensor(np.stack([getattr(memory, name) for memory in memories])) for name in ("mean", "root")),
        *(tensor([getattr(memory, name) for memory in memories]) for name in ("shape", "rate")),
    )
    return common, Kernels(amplitude[:, 0], length, own_amplitude[:, 0], own_length), own

"""What server and clients keep while they learn together, and the way of a shared function into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.events.curves.timeline import Timeline
from cotempo.events.records.design import DIMENSIONS, Design, Rows
from cotempo.events.records.record import Floats, Record

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP
    from cotempo.events.shared_function.updates import Common, Data, Kernel

NONE = np.zeros(0)
FIRST_LENGTH = 2.0


@dataclass(frozen=True)
class FunctionState:
    """What the server keeps.

    `rate` holds shape and rate of the prior of m and the design effect of sequences; `kernel` the logarithms of
    amplitude and lengths; `curvature` the summed information about the shared function; `kept` which model is: the
    ``"curve"`` of time, the ``"base"`` measure alone or the ``"function"`` on it. With `judged` false nothing is held
    out to compare.
    """

    stage: str
    step: int
    clients: int
    judged: bool
    span: Floats
    design: Design
    timeline: Timeline
    candidates: Mapping[str, Floats]
    inducing: Floats
    kernel: Floats
    drift: Floats
    swing: Floats
    mean: Floats
    root: Floats
    rate: Floats
    curvature: Floats
    kept: str
    compared: Mapping[str, Floats]


@dataclass(frozen=True)
class FunctionMemory:
    """What a client keeps: its events and exposure in cells of time, ``(2, cells)``; its rows and the base measure they
    are made on, its rate and its joint information; its number of events and its exposure, and waits between held-out
    events on the clock of each model."""

    cells: Floats
    rows: Rows
    base: Floats
    shape: float
    rate: float
    information: Floats
    seen: Floats
    waits: Mapping[str, Floats]


def first_state(method: FedPP, clients: int, *, judged: bool = True) -> FunctionState:
    """Nothing is known yet but, perhaps, the window."""
    design = Design(NONE, method.period or 0.0, method.cells, "poisson", NONE, NONE, NONE)
    span = np.array(method.window) if method.window else np.array([np.inf, -np.inf])
    return FunctionState(
        "describe" if method.window else "span", 0, clients, judged, span, design,
        Timeline(np.zeros((2, 0, 0)), np.zeros((0, 0)), "flat", 1.0, np.array([2.0, 1.0, 0.0]), 1.0), {},
        np.zeros((0, DIMENSIONS)), NONE, NONE, NONE, NONE, NONE, np.array([4.0, 2.0, 1.0]), NONE, "curve", {},
    )  # fmt: skip


def first_memory(record: Record) -> FunctionMemory:
    """No rows yet."""
    seen = np.array([record.events, record.exposure])
    return FunctionMemory(np.zeros((2, 0)), no_rows(), NONE, 4.0, 2.0, np.zeros((0, 0)), seen, {})


def no_rows(features: Floats = np.zeros((0, DIMENSIONS))) -> Rows:  # noqa: B008
    """Rows at which nothing was seen."""
    nothing = np.zeros(len(features))
    return Rows(features, nothing, nothing, nothing.astype(bool))


def without_function(state: FunctionState) -> FunctionState:
    """The base measure alone: the function is left at 0, where the sigmoid is a half, and levels centre on 2."""
    kernel = np.where(np.arange(len(state.kernel)) == 0, -20.0, state.kernel)
    shape, _, effect = state.rate.tolist()
    return replace(state, mean=np.zeros_like(state.mean), kernel=kernel, rate=np.array([shape, shape / 2, effect]))


def first_kernel() -> Floats:
    """Log amplitude and lengths where the kernel starts; also the centres of their priors."""
    return np.append(0.0, np.full(DIMENSIONS, np.log(FIRST_LENGTH)))


def gather(rows: Sequence[Rows], everything: bool) -> Data:
    """Rows of clients as one padded batch; what is held out counts nothing unless `everything` is asked for."""
    import torch

    from cotempo.events.cox.updates import Cells
    from cotempo.events.shared_function.updates import Data

    size = max(len(part.events) for part in rows)
    features = np.zeros((len(rows), size, DIMENSIONS))
    events, exposure = np.zeros((2, len(rows), size))
    for i, part in enumerate(rows):
        count = len(part.events)
        weight = np.ones(count) if everything else 1.0 - part.held
        features[i, :count] = part.features
        events[i, :count], exposure[i, :count] = part.events * weight, part.exposure * weight
    return Data(torch.from_numpy(features), Cells(torch.from_numpy(events), torch.from_numpy(exposure)))


def to_torch(state: FunctionState, clients: int = 1) -> tuple[Common, Kernel]:
    """The server's beliefs as tensors, the kernel once for each client."""
    import torch

    from cotempo.events.shared_function.updates import Common, Kernel

    def tensor(values: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(values, dtype=np.float64))

    kernel = tensor(state.kernel).expand(clients, -1)
    common = Common(tensor(state.inducing), tensor(state.mean), tensor(state.root), *state.rate.tolist())
    return common, Kernel(kernel[:, 0], kernel[:, 1:])

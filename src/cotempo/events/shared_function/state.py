"""State of the shared function at server and clients, and its conversion into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cotempo.events.base_measure import NONE, BaseMeasure, open_measure
from cotempo.events.records.design import DIMENSIONS, FeatureRows
from cotempo.typing import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.cox.updates import CellCounts
    from cotempo.events.shared_function.method import SharedFunction
    from cotempo.events.shared_function.updates import SharedBelief

FIRST_LENGTH = 2.0


@dataclass(frozen=True)
class FunctionState(BaseMeasure):
    """What the server keeps, beside the base measure.

    `judged` says whether something is held out to compare models. `inducing` are inducing inputs, `kernel` the logs of
    amplitude and lengths, with Adam's moments of its gradient. `mean` and `root` are the posterior of the shared
    function: mean, and root of its precision. `rate` has shape and rate of the prior of m, and the design effect of
    sequences. `curvature` is the summed information about the shared function. `kept` is the model in use: the
    ``"curve"`` of time, the ``"base"`` measure alone or the ``"function"`` on it. `compared` has each client's held-out
    gain, alone and together.
    """

    clients: int
    judged: bool
    inducing: Floats
    kernel: Floats
    first_moment: Floats
    second_moment: Floats
    mean: Floats
    root: Floats
    rate: Floats
    curvature: Floats
    kept: str
    compared: Mapping[str, Floats]


@dataclass(frozen=True)
class FunctionMemory:
    """What a client keeps: `cells`, its events and exposure in cells of time, ``(2, cells)``; its `rows` and the `base`
    measure they are made on; shape and rate of its level, and its joint information; events and exposure `seen`; and
    `waits` between held-out events on the clock of each model."""

    cells: Floats
    rows: FeatureRows
    base: Floats
    shape: float
    rate: float
    information: Floats
    seen: Floats
    waits: Mapping[str, Floats]


def first_state(method: SharedFunction, clients: int, *, judged: bool = True) -> FunctionState:
    """Return the state before anything is known."""
    return FunctionState(
        **vars(open_measure(method)), clients=clients, judged=judged, inducing=np.zeros((0, DIMENSIONS)), kernel=NONE,
        first_moment=NONE, second_moment=NONE, mean=NONE, root=NONE, rate=np.array([4.0, 2.0, 1.0]), curvature=NONE,
        kept="curve", compared={},
    )  # fmt: skip


def first_memory(events: float, exposure: float) -> FunctionMemory:
    """Return a memory without rows."""
    seen = np.array([events, exposure])
    return FunctionMemory(np.zeros((2, 0)), no_rows(), NONE, 4.0, 2.0, np.zeros((0, 0)), seen, {})


def no_rows(features: Floats = np.zeros((0, DIMENSIONS))) -> FeatureRows:  # noqa: B008
    """Return rows at which nothing was seen."""
    nothing = np.zeros(len(features))
    return FeatureRows(features, nothing, nothing, nothing.astype(bool))


def without_function(state: FunctionState) -> FunctionState:
    """Return the base measure alone: the function is left at 0, where the sigmoid is a half, and levels centre on 2."""
    kernel = np.where(np.arange(len(state.kernel)) == 0, -20.0, state.kernel)
    shape, _, effect = state.rate.tolist()
    return replace(state, mean=np.zeros_like(state.mean), kernel=kernel, rate=np.array([shape, shape / 2, effect]))


def first_kernel() -> Floats:
    """Return log amplitude and lengths where the kernel starts; also the centres of their priors."""
    return np.append(0.0, np.full(DIMENSIONS, np.log(FIRST_LENGTH)))


def gather(rows: Sequence[FeatureRows], everything: bool) -> tuple[Tensor, CellCounts]:
    """Return features and counts of clients, padded to one batch; what is held out counts if `everything` is set."""
    import torch

    from cotempo.events.cox.updates import CellCounts

    size = max(len(part.events) for part in rows)
    features = np.zeros((len(rows), size, DIMENSIONS))
    events, exposure = np.zeros((2, len(rows), size))
    for i, part in enumerate(rows):
        count = len(part.events)
        weight = np.ones(count) if everything else 1.0 - part.held
        features[i, :count] = part.features
        events[i, :count], exposure[i, :count] = part.events * weight, part.exposure * weight
    return torch.from_numpy(features), CellCounts(torch.from_numpy(events), torch.from_numpy(exposure))


def to_torch(state: FunctionState, clients: int = 1) -> tuple[SharedBelief, Tensor]:
    """Return the server's beliefs as tensors, and the kernel once for each client."""
    import torch

    from cotempo.events.shared_function.updates import SharedBelief

    inducing, mean, root, kernel = (
        torch.from_numpy(np.array(part, dtype=np.float64))
        for part in (state.inducing, state.mean, state.root, state.kernel)
    )
    return SharedBelief(inducing, mean, root, *state.rate.tolist()), kernel.expand(clients, -1)

"""CohortData: what clients train kernels on as one batch, ``(clients, types, rows)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cotempo.events.cox.kernels import (
    EncoderBatch,
    KernelFeatures,
    basis,
    make_history_kernel,
    make_kernel,
    plain_weights,
)
from cotempo.events.cox.updates import CellCounts
from cotempo.events.records.design import FeatureDesign
from cotempo.events.records.encoder_inputs import HISTORY, inputs_of_record
from cotempo.events.records.record import Grid, Record
from cotempo.federation import Rng
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.fedpp import SharedPrior


class KernelRows(NamedTuple):
    """Basis and Nystrom residual variance, ``(clients, 1, rows, ...)``, and what was seen there."""

    basis: Tensor
    residual: Tensor
    cells: CellCounts


@dataclass(frozen=True)
class CohortData:
    """A cohort's data.

    `features` makes the kernel's features from the number of an epoch and weights, ``(clients, weights)``. `cells` are
    counts and exposures of each local epoch, and at last of everything. `totals` has events by type, ``(clients,
    types)``, and exposure, ``(clients, 1)``. The first `plain` weights are point estimates.
    """

    features: Callable[[int, Tensor], KernelFeatures]
    cells: Sequence[CellCounts]
    totals: tuple[Tensor, Tensor]
    plain: int = 0

    def rows(self, epoch: int, weights: Tensor) -> KernelRows:
        """Return the rows of a local epoch; epoch -1 is everything there is."""
        psi, residual = basis(*self.features(epoch, weights))
        return KernelRows(psi[:, None], residual[:, None], self.cells[epoch])


def make_cohort(
    method: SharedPrior,
    span: Floats,
    design: FeatureDesign,
    records: Sequence[Record],
    rngs: Sequence[Rng],
    device: torch.device | str = "cpu",
) -> CohortData:
    """Return a cohort's data: events counted in cells of time, or rows each with its own history."""
    streams = [rng("sequences") for rng in rngs]
    if method.kernel in HISTORY:
        return _over_histories(method, design, records, streams, device)
    grid = Grid(float(span[0]), float(span[1]), method.cells)
    parts = [_epochs(method, grid, record, stream) for record, stream in zip(records, streams, strict=True)]
    counts = torch.from_numpy(np.stack(parts, axis=1)).to(device)
    at = torch.linspace(-1, 1, 2 * method.cells + 1, dtype=torch.float64, device=device)[1::2, None]
    inducing = torch.linspace(-1, 1, method.inducing, dtype=torch.float64, device=device)[:, None]
    at, inducing = (part.expand(len(records), -1, -1) for part in (at, inducing))
    total = counts[-1].sum(-1)
    return CohortData(
        lambda _, weights: make_kernel(method.kernel, weights, at, inducing),
        [CellCounts(part[:, :1], part[:, 1:]) for part in counts],
        (total[:, :1], total[:, 1:]),
    )


def _epochs(method: SharedPrior, grid: Grid, record: Record, stream: np.random.Generator) -> Floats:
    """Return events and exposure of each local epoch, of all sequences or of a few drawn ones, and of everything,
    ``(epochs + 1, 2, cells)``."""
    everything = np.stack([grid.count(record), grid.expose(record)])
    sequences = len(record.start)
    if method.batch is None or method.batch >= sequences:
        return np.repeat(everything[None], method.epochs + 1, axis=0)
    drawn = []
    for _ in range(method.epochs):
        chosen = np.isin(np.arange(sequences), stream.choice(sequences, method.batch, replace=False))
        count = np.where(chosen[record.sequence], record.count, 0.0)
        part = replace(record, count=count, start=record.start[chosen], end=record.end[chosen])
        drawn.append(np.stack([grid.count(part), grid.expose(part)]) * (sequences / method.batch))
    return np.stack([*drawn, everything])


def _over_histories(
    method: SharedPrior,
    design: FeatureDesign,
    records: Sequence[Record],
    streams: Sequence[np.random.Generator],
    device: torch.device | str,
) -> CohortData:
    """Return rows at events and between them; pieces of histories are drawn where a batch is smaller than all."""
    inputs = [inputs_of_record(record.whole(), design) for record in records]
    everything = EncoderBatch.of(inputs, device)
    size = method.batch
    batches = [everything] * (method.epochs + 1)
    if size is not None and any(size < len(one.steps) for one in inputs):
        for epoch in range(method.epochs):
            drawn = [one.choose(size, stream) for one, stream in zip(inputs, streams, strict=True)]
            batches[epoch] = EncoderBatch.of(drawn, device)
    return CohortData(
        lambda epoch, weights: make_history_kernel(method.kernel, weights, batches[epoch], method.inducing),
        [CellCounts(b.events.transpose(1, 2).flatten(2), b.exposure.flatten(1)[:, None]) for b in batches],
        (everything.events.sum((1, 3)), everything.exposure.sum((1, 2))[:, None]),
        plain_weights(method.kernel, everything.types.shape[-1], method.inducing),
    )

"""CohortData: what clients train kernels on as one batch, events and exposure, and the kernel's rows for given weights.

Everything has a dimension of clients and one of types of events, ``(clients, types, rows)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from cotempo.events.cox import updates as cox
from cotempo.events.cox.history_kernels import EncoderBatch, make_history_kernel, plain_weights
from cotempo.events.cox.kernels import KernelFeatures, basis, make_kernel
from cotempo.events.records.design import FeatureDesign
from cotempo.events.records.encoder_inputs import HISTORY, inputs_of_record
from cotempo.events.records.grid import Grid
from cotempo.events.records.record import Floats, Record
from cotempo.federation import Rng

if TYPE_CHECKING:
    from cotempo.events.fedpp import SharedPrior


class KernelRows(NamedTuple):
    """Basis and open variance, ``(clients, 1, rows, ...)``, and what was seen there."""

    basis: Tensor
    residual: Tensor
    cells: cox.CellCounts


class CohortData(Protocol):
    """A cohort's data; `plain` counts the weights before the Bayesian ones."""

    plain: int

    def rows(self, epoch: int, weights: Tensor) -> KernelRows:
        """Return the rows of a local epoch, ``(clients, weights)`` given; epoch -1 is everything there is."""

    def totals(self) -> tuple[Tensor, Tensor]:
        """Return events by type, ``(clients, types)``, and exposure, ``(clients, 1)``."""


def make_cohort(
    method: SharedPrior,
    span: Floats,
    design: FeatureDesign,
    records: Sequence[Record],
    rngs: Sequence[Rng],
    device: torch.device | str = "cpu",
) -> CohortData:
    """Return the data of a cohort, over time or over histories."""
    if method.kernel in HISTORY:
        return HistoryCohort(method, design, records, rngs, device)
    return TimeCohort(method, Grid(float(span[0]), float(span[1]), method.cells), records, rngs, device)


class TimeCohort:
    """Events counted in cells of time."""

    plain = 0

    def __init__(
        self,
        method: SharedPrior,
        grid: Grid,
        records: Sequence[Record],
        rngs: Sequence[Rng],
        device: torch.device | str,
    ):
        parts = [_epochs(method, grid, record, rng) for record, rng in zip(records, rngs, strict=True)]
        self._cells = torch.from_numpy(np.stack(parts)).to(device)
        self._kernel, clients = method.kernel, len(records)
        at = torch.linspace(-1, 1, 2 * method.cells + 1, dtype=torch.float64, device=device)[1::2, None]
        inducing = torch.linspace(-1, 1, method.inducing, dtype=torch.float64, device=device)[:, None]
        self._at, self._inducing = at.expand(clients, -1, -1), inducing.expand(clients, -1, -1)

    def rows(self, epoch: int, weights: Tensor) -> KernelRows:
        """Return the same cells in every epoch, with other counts where sequences are drawn."""
        cells = cox.CellCounts(self._cells[:, epoch, :1], self._cells[:, epoch, 1:])
        return _rows(make_kernel(self._kernel, weights, self._at, self._inducing), cells)

    def totals(self) -> tuple[Tensor, Tensor]:
        """Return sums over cells."""
        whole = self._cells[:, -1].sum(-1)
        return whole[:, :1], whole[:, 1:]


class HistoryCohort:
    """Rows at events and between them, each with its own history; nothing superposes here."""

    def __init__(
        self,
        method: SharedPrior,
        design: FeatureDesign,
        records: Sequence[Record],
        rngs: Sequence[Rng],
        device: torch.device | str,
    ):
        pieces = [inputs_of_record(record.whole(), design) for record in records]
        self._whole = EncoderBatch.of(pieces, device)
        self._drawn = []
        streams = [rng("sequences") for rng in rngs]
        few = method.batch is not None and any(method.batch < len(one.steps) for one in pieces)
        for _ in range(method.epochs if few and rngs else 0):
            drawn = [one.choose(method.batch or 1, stream) for one, stream in zip(pieces, streams, strict=True)]
            self._drawn.append(EncoderBatch.of(drawn, device))
        self._kernel, self._inducing = method.kernel, method.inducing
        self.plain = plain_weights(method.kernel, self._whole.types.shape[-1], method.inducing)

    def rows(self, epoch: int, weights: Tensor) -> KernelRows:
        """Return drawn pieces, or all of them."""
        batch = self._drawn[epoch] if self._drawn and epoch >= 0 else self._whole
        cells = cox.CellCounts(batch.events.transpose(1, 2).flatten(2), batch.exposure.flatten(1)[:, None])
        return _rows(make_history_kernel(self._kernel, weights, batch, self._inducing), cells)

    def totals(self) -> tuple[Tensor, Tensor]:
        """Return sums over pieces and rows."""
        return self._whole.events.sum((1, 3)), self._whole.exposure.sum((1, 2))[:, None]


def _rows(kernel: KernelFeatures, cells: cox.CellCounts) -> KernelRows:
    psi, residual = basis(kernel.features, kernel.inducing, kernel.amplitude, kernel.length)
    return KernelRows(psi[:, None], residual[:, None], cells)


def _epochs(method: SharedPrior, grid: Grid, record: Record, rng: Rng) -> Floats:
    """Return events and exposure for each local epoch, of all sequences or of a few drawn ones, then of all of them,
    ``(epochs + 1, 2, cells)``."""
    whole = np.stack([grid.count(record), grid.expose(record)])
    sequences = len(record.start)
    if method.batch is None or method.batch >= sequences:
        return np.repeat(whole[None], method.epochs + 1, axis=0)
    stream, drawn = rng("sequences"), []
    for _ in range(method.epochs):
        chosen = np.isin(np.arange(sequences), stream.choice(sequences, method.batch, replace=False))
        part = replace(
            record, count=np.where(chosen[record.sequence], record.count, 0.0),
            start=record.start[chosen], end=record.end[chosen],
        )  # fmt: skip
        drawn.append(np.stack([grid.count(part), grid.expose(part)]) * (sequences / method.batch))
    return np.stack([*drawn, whole])

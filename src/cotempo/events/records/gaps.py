"""Sequences as padded gaps between events, for neural models that read one sequence after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cotempo.events.records.history import SPIKES
from cotempo.events.records.record import Record
from cotempo.typing import Floats

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LONGEST = 256
EVENT, START, PADDING = 0, 1, 2


class Gaps(NamedTuple):
    """Gaps of sequences, ``(sequences, gaps)`` each.

    `time` is when a gap begins, since its sequence began; `before` how long the gap before was; `kind` what began it:
    the start of the window, an event, or nothing (padding). It has a `length` and ends with so many `events`. `phase`
    is when it begins, from -1 to 1 over the period or the client's own span.
    """

    time: Floats
    before: Floats
    kind: Floats
    length: Floats
    events: Floats
    phase: Floats

    def choose(self, rows: Any) -> Gaps:
        """Return some of the sequences."""
        return Gaps(*(part[rows] for part in self))

    def in_units(self, unit: float) -> Gaps:
        """Return the same with times counted in `unit`."""
        return self._replace(time=self.time / unit, before=self.before / unit, length=self.length / unit)


def make_gaps(record: Record, first: float, period: float) -> Gaps:
    """Cut a record into gaps; longer sequences than 256 distinct times are split."""
    parts: list[Floats] = []
    bounds = np.searchsorted(record.sequence, np.arange(len(record.origin) + 1))
    for start, end, number in zip(record.start, record.end, record.window_sequence, strict=True):
        inside = slice(int(bounds[number]), int(bounds[number + 1]))
        times, counts = record.time[inside], record.count[inside]
        for low in range(0, max(len(times), 1), LONGEST):
            begin = start if not low else times[low - 1]
            here, last = times[low : low + LONGEST], low + LONGEST >= len(times)
            edges = np.concatenate([[begin], here, [end] if last else []])
            count = np.append(counts[low : low + LONGEST], 0.0 if last else [])
            parts.append(_columns(edges, count, first, period))
    size = max((part.shape[1] for part in parts), default=1)
    padded = np.zeros((len(Gaps._fields), len(parts), size))
    padded[Gaps._fields.index("kind")] = PADDING
    for row, part in enumerate(parts):
        padded[:, row, : part.shape[1]] = part
    return Gaps(*padded)


def _columns(edges: Floats, count: Floats, first: float, period: float) -> Floats:
    length = np.diff(edges)
    kind = np.append(START, np.full(len(length) - 1, EVENT))
    phase = 2 * np.mod((edges[:-1] - first) / period, 1.0) - 1
    before = np.append(0.0, length[:-1])
    return np.stack([edges[:-1] - edges[0], before, kind, length, count, phase])


def log_likelihood_parts(model: Any, gaps: Gaps) -> tuple[Tensor, Tensor]:
    """Return log intensity of the counted events, summed, and the integral of the intensity, per unit of time."""
    import torch

    place = place_of(model)
    length, events = (torch.from_numpy(part.astype(np.float32)).to(place) for part in (gaps.length, gaps.events))
    cuts = torch.from_numpy(SPIKES.astype(np.float32)).to(place)
    ahead = length[..., None] * torch.cat([(cuts[1:] + cuts[:-1]) / 2, cuts[-1:]])
    rate = model.rate(*(part.to(place) for part in model_inputs(gaps)), ahead).clamp_min(1e-9)
    return (events * rate[..., -1].log()).sum(), (rate[..., :-1] * length[..., None] * cuts.diff()).sum()


def place_of(model: Any) -> torch.device:
    """Return the device a model is on."""
    device: torch.device = next(model.parameters()).device
    return device


def model_inputs(gaps: Gaps) -> tuple[Tensor, ...]:
    """Return times, gaps before, kinds and phases as tensors."""
    import torch

    time, before, phase = (torch.from_numpy(part.astype(np.float32)) for part in (gaps.time, gaps.before, gaps.phase))
    return time, before, torch.from_numpy(gaps.kind.astype(np.int64)), phase

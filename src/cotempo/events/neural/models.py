"""Neural intensities: what all share, a perceptron of our own, and those wrapped from easy-tpp.

Each has one verb, `rate`: the intensity at times `ahead` of the start of each gap. One that knows its integral says so
by `rate_and_mass`, and one that is not trained by its likelihood has a `loss` of its own.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cotempo.errors import CotempoError
from cotempo.events.neural.federated import PADDING, Gaps
from cotempo.events.records.history import SPIKES
from cotempo.typing import Floats

WIDTH, LEAST = 32, 1e-9
#: easy-tpp's classes by the names of `FedNeural`.
WRAPPED = {"rmtpp": "RMTPP", "sahp": "SAHP", "thp": "THP", "nhp": "NHP", "attnhp": "AttNHP", "odetpp": "ODETPP"}
Parts = tuple[Tensor, Tensor]


class GapModel(nn.Module, ABC):
    """An intensity from the start of each gap on; its inputs are those of `model_inputs`."""

    @abstractmethod
    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""

    def rate_and_mass(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, end: Tensor) -> Parts:
        """Return the rate at the `end` of each gap, and its integral over the gap, by midpoints of six cells."""
        cuts = torch.tensor(SPIKES, dtype=end.dtype, device=end.device)
        ahead = end[..., None] * torch.cat([(cuts[1:] + cuts[:-1]) / 2, cuts[-1:]])
        rate = self.rate(time, before, kind, phase, ahead).clamp_min(LEAST)
        return rate[..., -1], (rate[..., :-1] * end[..., None] * cuts.diff()).sum(-1)

    def loss(self, gaps: Gaps, random: torch.Generator) -> Tensor:
        """Return minus the log-likelihood per event."""
        seen, mass = log_likelihood_parts(self, gaps)
        return (mass - seen) / max(float(gaps.events.sum()), 1.0)


class Perceptron(GapModel):
    """The intensity by two layers of width 32 from the elapsed time, the last two gaps and the phase."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)
        )  # fmt: skip

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""
        earlier = torch.cat([torch.zeros_like(before[:, :1]), before[:, :-1]], dim=1)
        known = torch.stack([(before + 0.1).log(), (earlier + 0.1).log(), phase], dim=-1)
        known = known[:, :, None].expand(-1, -1, ahead.shape[-1], -1)
        at = torch.cat([(ahead[..., None] + 0.01).log(), known], dim=-1)
        rate: Tensor = self.layers(at)[..., 0].clamp(-12, 12).exp()
        return rate


class Wrapped(GapModel):
    """A model of easy-tpp 0.3.0 for events of one type; the start of a window is a second type."""

    def __init__(self, name: str) -> None:
        super().__init__()
        try:
            models = import_module("easy_tpp.model")
        except ImportError as error:
            text = f"{', '.join(WRAPPED)} need easy-tpp, which is not installed; pip install 'cotempo[baselines]'"
            raise CotempoError(text) from error
        config = SimpleNamespace(
            loss_integral_num_sample_per_step=1, hidden_size=WIDTH, num_event_types=1, num_event_types_pad=3,
            pad_token_id=PADDING, thinning=None, gpu=-1, use_mc_samples=True, time_emb_size=16, use_ln=False,
            num_layers=2, num_heads=2, dropout_rate=0.0, model_specs={"ode_num_sample_per_step": 2},
        )  # fmt: skip
        self.inner: Any = getattr(models, WRAPPED[name])(config)
        self.counts_from_start = name == "attnhp"

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``; AttNHP is asked by times since the start."""
        ahead = ahead + time[..., None] if self.counts_from_start else ahead
        found: Tensor = self.inner.compute_intensities_at_sample_times(time, before, kind, ahead)[..., 0]
        return found


def log_likelihood_parts(model: GapModel, gaps: Gaps) -> Parts:
    """Return log intensity of the counted events, summed, and the integral of the intensity, per unit of time."""
    inputs = model_inputs(model, gaps, gaps.length)
    events = torch.from_numpy(gaps.events.astype(np.float32)).to(inputs[0].device)
    rate, mass = model.rate_and_mass(*inputs)
    return (events * rate.log()).sum(), mass.sum()


def model_inputs(model: Any, gaps: Gaps, ahead: Floats) -> tuple[Tensor, ...]:
    """Return what `rate` takes, on the device of the model."""
    device = next(model.parameters()).device
    parts = (gaps.time, gaps.before, gaps.kind.astype(np.int64), gaps.phase, ahead)
    tensors = (torch.from_numpy(part if part.dtype.kind == "i" else part.astype(np.float32)) for part in parts)
    return tuple(part.to(device) for part in tensors)

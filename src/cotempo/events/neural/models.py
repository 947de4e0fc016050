"""Neural intensities: a perceptron of our own, and four recurrent or attentive ones wrapped from easy-tpp.

Each has one verb, `rate`: the intensity at times `ahead` of the start of each gap.
"""

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

WIDTH = 32


class Perceptron(nn.Module):
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


class Wrapped(nn.Module):
    """A model of easy-tpp 0.3.0 for events of one type; the start of a window is a second type."""

    def __init__(self, name: str) -> None:
        super().__init__()
        try:
            models = import_module("easy_tpp.model")
        except ImportError as error:
            text = "rmtpp, sahp, thp and nhp need easy-tpp, which is not installed; pip install 'cotempo[baselines]'"
            raise CotempoError(text) from error
        config = SimpleNamespace(
            loss_integral_num_sample_per_step=1, hidden_size=WIDTH, num_event_types=1, num_event_types_pad=3,
            pad_token_id=PADDING, thinning=None, gpu=-1, use_mc_samples=True, time_emb_size=16, use_ln=False,
            num_layers=2, num_heads=2, dropout_rate=0.0, model_specs={},
        )  # fmt: skip
        self.inner: Any = getattr(models, name.upper())(config)

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""
        found: Tensor = self.inner.compute_intensities_at_sample_times(time, before, kind, ahead)[..., 0]
        return found


def log_likelihood_parts(model: Any, gaps: Gaps) -> tuple[Tensor, Tensor]:
    """Return log intensity of the counted events, summed, and the integral of the intensity, per unit of time."""
    cuts = SPIKES.astype(np.float32)
    ahead = gaps.length.astype(np.float32)[..., None] * np.append((cuts[1:] + cuts[:-1]) / 2, cuts[-1:])
    inputs = model_inputs(model, gaps, ahead)
    length, events = (torch.from_numpy(part.astype(np.float32)).to(inputs[0].device) for part in gaps[3:5])
    rate = model.rate(*inputs).clamp_min(1e-9)
    widths = torch.from_numpy(np.diff(cuts)).to(length.device)
    return (events * rate[..., -1].log()).sum(), (rate[..., :-1] * length[..., None] * widths).sum()


def model_inputs(model: Any, gaps: Gaps, ahead: Floats) -> tuple[Tensor, ...]:
    """Return what `rate` takes, on the device of the model."""
    device = next(model.parameters()).device
    parts = (gaps.time, gaps.before, gaps.kind.astype(np.int64), gaps.phase, ahead)
    tensors = (torch.from_numpy(part if part.dtype.kind == "i" else part.astype(np.float32)) for part in parts)
    return tuple(part.to(device) for part in tensors)

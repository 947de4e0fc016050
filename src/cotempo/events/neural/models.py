"""Neural intensities: a perceptron of our own, and four recurrent or attentive ones wrapped from easy-tpp.

Each has one verb, `rate`: the intensity at times `ahead` of the start of each gap.
"""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from cotempo.errors import CotempoError
from cotempo.events.records.gaps import PADDING

WIDTH = 32
WRAPPED = {"rmtpp": "RMTPP", "sahp": "SAHP", "thp": "THP", "nhp": "NHP"}


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
        self.inner: Any = getattr(models, WRAPPED[name])(config)

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""
        found: Tensor = self.inner.compute_intensities_at_sample_times(time, before, kind, ahead)[..., 0]
        return found

"""Backbone, the denoising transformer of Diffusion-TS, and NoiseSchedule, the noise that it removes."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from cotempo.series.nn import layers
from cotempo.series.nn.layers import Weights, linear, normalise
from cotempo.series.nn.parameters import ParameterSpec, ParameterSpecs

DEGREE = 3


@dataclass(frozen=True)
class NoiseSchedule:
    r"""Noise that grows over `steps` steps.

    .. math:: x_t = \sqrt{\bar\alpha_t} x_0 + \sqrt{1 - \bar\alpha_t} \varepsilon, \qquad
              \bar\alpha_t = \prod_{s \le t} (1 - \beta_s), \qquad
              \beta_t = \min\left(1 - \frac{f(t + 1)}{f(t)}, .999\right)

    with :math:`f(t) = \cos^2\left(\frac{t / T + .008}{1.008} \frac{\pi}{2}\right)`.

    References
    ----------
    Nichol and Dhariwal, "Improved denoising diffusion probabilistic models", 2021.
    """

    steps: int = 500

    @cached_property
    def betas(self) -> Tensor:
        """Return the variance added in every step, ``(steps,)``."""
        time = torch.linspace(0, 1, self.steps + 1, dtype=torch.float64)
        level = torch.cos((time + 0.008) / 1.008 * math.pi / 2) ** 2
        return (1 - level[1:] / level[:-1]).clamp(0, 0.999)

    @cached_property
    def kept(self) -> Tensor:
        r"""Return the share of the signal's variance left at every step, :math:`\bar\alpha`, ``(steps,)``."""
        return torch.cumprod(1 - self.betas, 0)

    @cached_property
    def weights(self) -> Tensor:
        """Return the weight of every step in the loss: the root of equation (3)'s, as the released code has it."""
        betas, kept = self.betas, self.kept
        return ((1 - betas) * (1 - kept)).sqrt() / betas / 100

    def levels(self, time: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return factors of signal and noise at steps ``[networks, batch]`` (equation 10)."""
        kept = _table(self, "kept", like.device, like.dtype)[time][..., None, None]
        return kept.sqrt(), (1 - kept).sqrt()

    def weight(self, time: Tensor, like: Tensor) -> Tensor:
        """Return the weight of each window in the loss."""
        return _table(self, "weights", like.device, like.dtype)[time]


@lru_cache
def _table(noise: NoiseSchedule, name: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    found: Tensor = getattr(noise, name).to(device, dtype)
    return found


@dataclass(frozen=True)
class Parts:
    """A window in parts that add up to the whole, each ``[networks, batch, length, features]``."""

    trend: Tensor
    season: Tensor
    residual: Tensor

    @property
    def whole(self) -> Tensor:
        """Return the predicted clean window (equation 21)."""
        return self.trend + self.season + self.residual


@dataclass(frozen=True)
class Backbone:
    r"""An encoder-decoder that predicts the clean window from a noisy one.

    Every decoder layer adds a cubic polynomial and the strongest Fourier components of its state:

    .. math:: \hat x_0 = \sum_d \left(C_d\, p(t) + W_s \operatorname{top}_k F(h_d)\right) + r

    References
    ----------
    Yuan and Qiao, "Diffusion-TS: interpretable diffusion for general time series generation", ICLR 2024.
    """

    length: int = 24
    width: int = 64
    encoders: int = 2
    decoders: int = 2
    heads: int = 4

    @property
    def norms(self) -> int:
        """Return how many adaptive norms there are."""
        return 2 * self.encoders + 3 * self.decoders

    def specs(self, features: int) -> ParameterSpecs:
        """Return the parameters."""
        width = self.width
        found: dict[str, ParameterSpec] = {
            **layers.features_in_specs("input", 3, features, width),
            "place.encoder": ParameterSpec((self.length, width), 0.02),
            "place.decoder": ParameterSpec((self.length, width), 0.02),
            **layers.linear_specs("time.up", width, 4 * width),
            **layers.linear_specs("time.down", 4 * width, 2 * width * self.norms, gain=0.1),
        }
        for layer in range(self.encoders):
            found |= layers.attention_specs(f"encoder.{layer}.attention", width)
            found |= layers.mlp_specs(f"encoder.{layer}.mlp", width)
        for layer in range(self.decoders):
            name = f"decoder.{layer}"
            found |= layers.attention_specs(f"{name}.attention", width)
            found |= layers.attention_specs(f"{name}.cross", width)
            found |= layers.mlp_specs(f"{name}.mlp", width)
            found |= layers.linear_specs(f"{name}.degrees", self.length, DEGREE)
            found |= layers.linear_specs(f"{name}.trend", width, features, gain=0.3)
        for name in ("season", "level", "residual"):
            found |= layers.linear_specs(name, width, features, gain=0.3)
        return found

    def __call__(self, weights: Weights, noisy: Tensor, time: Tensor, exists: Tensor) -> Parts:
        """Predict; `time` is ``[networks, batch]``, and `exists` is false for features that are padding."""
        around = functional.pad(noisy, (0, 0, 1, 1))
        taps = torch.stack([around[..., :-2, :], noisy, around[..., 2:, :]], dim=-2)
        embedded = layers.features_in(weights, "input", taps)
        tone = AdaptiveNorm(self, weights, time, noisy.dtype)
        x = embedded + weights["place.encoder"][:, None]
        for layer in range(self.encoders):
            normed = tone(x)
            x = x + layers.attention(weights, f"encoder.{layer}.attention", normed, normed, self.heads)
            x = x + layers.mlp(weights, f"encoder.{layer}.mlp", tone(x))
        context = normalise(x)
        x = embedded + weights["place.decoder"][:, None]
        trend, season = torch.zeros_like(noisy), torch.zeros_like(x)
        for layer in range(self.decoders):
            name = f"decoder.{layer}"
            normed = tone(x)
            x = x + layers.attention(weights, f"{name}.attention", normed, normed, self.heads)
            x = x + layers.attention(weights, f"{name}.cross", tone(x), context, self.heads)
            trend = trend + self._polynomial(weights, name, x)
            season = season + top_frequencies(x)
            x = x + layers.mlp(weights, f"{name}.mlp", tone(x))
        normed = normalise(x)
        level = linear(weights, "level", normed.mean(-2, keepdim=True))
        parts = (trend + level, linear(weights, "season", season), linear(weights, "residual", normed))
        return Parts(*(part * exists for part in parts))

    def _polynomial(self, weights: Weights, name: str, x: Tensor) -> Tensor:
        """Return a polynomial in time per feature, without its constant, which is the level's (equation 18)."""
        degrees = functional.gelu(linear(weights, f"{name}.degrees", x.transpose(-1, -2)))
        coefficients = linear(weights, f"{name}.trend", degrees.transpose(-1, -2))
        time = torch.linspace(0, 1, self.length, device=x.device, dtype=x.dtype)
        powers = torch.stack([time**power for power in range(1, DEGREE + 1)], dim=-1)
        return powers @ coefficients


class AdaptiveNorm:
    """Layer norms whose scale and shift follow the step of diffusion; one after the other is handed out."""

    def __init__(self, backbone: Backbone, weights: Weights, time: Tensor, dtype: torch.dtype):
        half = backbone.width // 2
        rates = torch.exp(torch.arange(half, device=time.device, dtype=dtype) * (-math.log(10_000) / max(half - 1, 1)))
        angle = time[..., None].to(dtype) * rates
        wave = torch.cat([angle.sin(), angle.cos()], dim=-1)
        hidden = functional.silu(linear(weights, "time.up", wave))
        self.tones = iter(linear(weights, "time.down", hidden)[:, :, None, :].chunk(backbone.norms, -1))

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the next norm."""
        scale, shift = next(self.tones).chunk(2, -1)
        return normalise(x) * (1 + scale) + shift


def top_frequencies(x: Tensor) -> Tensor:
    """Keep the strongest Fourier components of each channel over time, without its mean (equations 19 and 20)."""
    length = x.shape[-2]
    spectrum = torch.fft.rfft(x.transpose(-1, -2))[..., 1:]
    power = spectrum.real**2 + spectrum.imag**2
    count = max(1, int(math.log(max(length // 2, 2))))
    least = power.topk(min(count, power.shape[-1]), dim=-1).values[..., -1:].detach()
    kept = spectrum * (power.detach() >= least)
    season: Tensor = torch.fft.irfft(functional.pad(kept, (1, 0)), n=length)
    return season.transpose(-1, -2)

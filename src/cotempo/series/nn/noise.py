"""NoiseSchedule: the cosine schedule of noise, and the weight of each step in the loss."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


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

    def table(self, name: str, like: Tensor) -> Tensor:
        """Return a table on the device and with the precision of a tensor; cached."""
        tables = self.__dict__.setdefault("_tables", {})
        key = (name, like.device, like.dtype)
        if key not in tables:
            tables[key] = getattr(self, name).to(like)
        found: Tensor = tables[key]
        return found

    def levels(self, time: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return factors of signal and noise at steps ``[networks, batch]`` (equation 10)."""
        kept = self.table("kept", like)[time][..., None, None]
        return kept.sqrt(), (1 - kept).sqrt()

    def weight(self, time: Tensor, like: Tensor) -> Tensor:
        """Return the weight of each window in the loss."""
        return self.table("weights", like)[time]

r"""TCVAE and TCDDM: the next gap by a generative decoder, given a recurrent code of the gaps before.

Both make the log gap :math:`x` a mixture of normals over what is latent: 64 fixed quasi-random draws, or, where it has
one dimension, the points of a grid with their chances. So density and survival, and with them the intensity
:math:`p / S` and its integral :math:`-\log S`, are means of normal densities and distribution functions. Training
follows each model's own bound; the likelihood is for scoring.

References
----------
Lin et al., Exploring generative neural temporal point process, TMLR 2022. There both models report bounds alone, and
the last gap of a window, which no event ends, is left out; here it counts by its survival (TCVAE) or as a gap whose
end the model itself draws (TCDDM).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from cotempo.events.neural.federated import PADDING, START, Gaps
from cotempo.events.neural.models import LEAST, WIDTH, GapModel, Parts, model_inputs

DRAWS, LATENT = 64, 4
# Noise of the diffusion's steps and of each gap in a step of training; log gaps are shifted and scaled to be about
# standard normal, and their law is followed on a grid of points no further apart than the least noise is wide.
STEPS, LEAST_NOISE, MOST_NOISE, NOISES = 16, 0.04, 0.5, 8
CENTRE, SCALE, FARTHEST, POINTS = -0.5, 1.5, 6.0, 64
SHORTEST = 1e-6


class Mixture(NamedTuple):
    """Normals that the log gap is a mixture of, with the logs of their shares, ``(sequences, gaps, parts)``."""

    mean: Tensor
    deviation: Tensor
    log_share: Tensor

    def log_survival(self, gap: Tensor) -> Tensor:
        """Return the log chance of a longer gap, ``(sequences, gaps, times)``."""
        total: Tensor = (torch.special.log_ndtr(-self._scaled(gap)) + self.log_share[:, :, None]).logsumexp(-1)
        return total

    def log_density(self, gap: Tensor) -> Tensor:
        """Return the log density of the gap itself, ``(sequences, gaps, times)``."""
        logs = self.log_share[:, :, None] - self._scaled(gap) ** 2 / 2 - self.deviation.log()[:, :, None]
        return logs.logsumexp(-1) - math.log(2 * math.pi) / 2 - gap.clamp_min(SHORTEST).log()

    def draw_longer(self, gap: Tensor, random: torch.Generator) -> Tensor:
        """Draw the log of a gap given that it is longer than one gap each, ``(sequences, gaps)``."""
        scaled = self._scaled(gap[..., None])[:, :, 0]
        chances = (self.log_share + torch.special.log_ndtr(-scaled)).softmax(-1).flatten(0, 1)
        chosen = torch.multinomial(chances.cpu(), 1, generator=random).to(gap.device).reshape(*gap.shape, 1)
        mean, deviation, low = (part.gather(2, chosen)[..., 0] for part in (self.mean, self.deviation, scaled))
        uniform = torch.rand(gap.shape, generator=random).to(gap.device)
        beyond = torch.special.ndtri((uniform * torch.special.ndtr(-low)).clamp_min(1e-30))
        return torch.maximum(mean - deviation * beyond, gap.log())

    def _scaled(self, gap: Tensor) -> Tensor:
        at = gap.clamp_min(SHORTEST).log()[..., None]
        return (at - self.mean[:, :, None]) / self.deviation[:, :, None]


class GenerativeModel(GapModel):
    """A recurrent encoder and, by subclasses, a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(4, WIDTH, batch_first=True)

    def encode(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor) -> Tensor:
        """Return what is known when each gap begins, ``(sequences, gaps, width)``."""
        start = (kind == START).to(phase.dtype)
        known = torch.stack([(before + 0.01).log(), (before + 1).log(), start, phase], dim=-1)
        code: Tensor = self.encoder(known)[0]
        return code

    @abstractmethod
    def mixture(self, code: Tensor) -> Mixture:
        """Return the distribution of the log gap."""

    @abstractmethod
    def bound(self, code: Tensor, gap: Tensor, ends: Tensor, random: torch.Generator) -> Tensor:
        """Return minus the bound on the log-likelihood of gaps, ``(gaps,)``; some have no event at their end."""

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""
        drawn = self.mixture(self.encode(time, before, kind, phase))
        return (drawn.log_density(ahead) - drawn.log_survival(ahead)).exp()

    def rate_and_mass(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, end: Tensor) -> Parts:
        """Return the rate at the `end` of each gap, and its integral over the gap."""
        drawn, end = self.mixture(self.encode(time, before, kind, phase)), end[..., None]
        log_survival = drawn.log_survival(end)[..., 0]
        rate = (drawn.log_density(end)[..., 0] - log_survival).exp().clamp_min(LEAST)
        return rate, torch.where(kind == PADDING, 0.0, -log_survival)

    def loss(self, gaps: Gaps, random: torch.Generator) -> Tensor:
        """Return minus the bound per event."""
        *inputs, length = model_inputs(self, gaps, gaps.length)
        here = inputs[2] != PADDING
        ends = torch.from_numpy(gaps.events > 0).to(here.device)[here]
        code = self.encode(*inputs)[here]
        return self.bound(code, length[here].clamp_min(SHORTEST), ends, random).sum() / max(float(ends.sum()), 1.0)


class VariationalDecoder(GenerativeModel):
    r"""TCVAE: :math:`x \mid z, h \sim N`, :math:`z \sim N(0, I_4)`, and a posterior :math:`q(z \mid x, h)`."""

    draws: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.posterior = _perceptron(WIDTH + 1, 2 * LATENT)
        self.decoder = _perceptron(WIDTH + LATENT, 2)
        self.register_buffer("draws", _normal_draws(LATENT))

    def decode(self, latent: Tensor, code: Tensor) -> Parts:
        """Return mean and deviation of the log gap."""
        mean, width = self.decoder(torch.cat([latent, code], dim=-1)).unbind(-1)
        return mean, width.clamp(-5, 3).exp()

    def mixture(self, code: Tensor) -> Mixture:
        """Decode draws of z."""
        shape = (*code.shape[:-1], DRAWS, -1)
        mean, deviation = self.decode(self.draws.expand(shape), code[..., None, :].expand(shape))
        return Mixture(mean, deviation, torch.full_like(mean, -math.log(DRAWS)))

    def bound(self, code: Tensor, gap: Tensor, ends: Tensor, random: torch.Generator) -> Tensor:
        """Return minus the evidence bound where an event ends the gap, minus the log survival elsewhere."""
        known, log_gap = code[ends], gap[ends].log()
        centre, width = self.posterior(torch.cat([log_gap[:, None], known], dim=-1)).chunk(2, dim=-1)
        chosen = Normal(centre, width.clamp(-5, 3).exp())
        latent = chosen.mean + chosen.stddev * _noise(centre, random)
        divergence = torch.distributions.kl_divergence(chosen, Normal(torch.zeros_like(centre), 1.0)).sum(-1)
        seen = Normal(*self.decode(latent, known)).log_prob(log_gap) - log_gap  # type: ignore[no-untyped-call]
        survived = self.mixture(code[~ends][None]).log_survival(gap[~ends][None, :, None]).flatten()
        return torch.cat([divergence - seen, -survived])


class DiffusionDecoder(GenerativeModel):
    r"""TCDDM: a diffusion of :math:`x` in 16 steps; each step back is normal, so the last one mixes normals."""

    beta: Tensor
    kept: Tensor
    points: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.noise = _perceptron(WIDTH + 3, 1)
        self.register_buffer("beta", torch.linspace(LEAST_NOISE, MOST_NOISE, STEPS))
        self.register_buffer("kept", (1 - self.beta).cumprod(0))
        self.register_buffer("points", torch.linspace(-FARTHEST, FARTHEST, POINTS))

    def predict_noise(self, noised: Tensor, step: Tensor, code: Tensor) -> Tensor:
        """Return what was added to the log gap."""
        level = self.kept[step].expand(noised.shape)
        known = torch.stack([noised, level.sqrt(), (1 - level).sqrt()], dim=-1)
        found: Tensor = self.noise(torch.cat([known, code], dim=-1))[..., 0]
        return found

    def mixture(self, code: Tensor) -> Mixture:
        """Follow the law of the chain back from noise to its last step, on the grid."""
        shape = (*code.shape[:-1], POINTS)
        wide, points = code[..., None, :].expand(*shape, -1), self.points.expand(shape)
        chance = (-(points**2) / 2).softmax(-1)
        for step in reversed(range(STEPS)):
            beta, number = self.beta[step], torch.tensor(step, device=code.device)
            mean = points - beta / (1 - self.kept[step]).sqrt() * self.predict_noise(points, number, wide)
            mean = mean / (1 - beta).sqrt()
            if step:
                ways = (-((self.points - mean[..., None]) ** 2) / (2 * beta)).softmax(-1)
                chance = (chance[..., None, :] @ ways)[..., 0, :]
        deviation = (SCALE * self.beta[0].sqrt()).expand(shape)
        return Mixture(CENTRE + SCALE * mean, deviation, chance.clamp_min(1e-30).log())

    def bound(self, code: Tensor, gap: Tensor, ends: Tensor, random: torch.Generator) -> Tensor:
        """Return the squared error of the predicted noise, all steps alike; open gaps are ended by the model."""
        log_gap = gap.log()
        with torch.no_grad():
            log_gap[~ends] = self.mixture(code[None, ~ends]).draw_longer(gap[None, ~ends], random)[0]
        log_gap, code = log_gap.repeat(NOISES), code.repeat(NOISES, 1)
        step = torch.randint(STEPS, log_gap.shape, generator=random).to(gap.device)
        noise, level = _noise(log_gap, random), self.kept[step]
        noised = level.sqrt() * (log_gap - CENTRE) / SCALE + (1 - level).sqrt() * noise
        return (self.predict_noise(noised, step, code) - noise) ** 2 / NOISES


def _perceptron(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[Any] = [nn.Linear(inputs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, outputs))


def _normal_draws(size: int) -> Tensor:
    """Return fixed quasi-random standard normal numbers, ``(draws, size)``."""
    uniform = torch.quasirandom.SobolEngine(size, scramble=True, seed=0).draw(DRAWS)  # type: ignore[no-untyped-call]
    draws: Tensor = torch.special.ndtri(uniform.clamp(1e-4, 1 - 1e-4))
    return draws


def _noise(like: Tensor, random: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=random).to(like.device)

"""Accounting for Gaussian noise: from noise multipliers to (epsilon, delta), and back.

Releases without sampling compose in closed form (Balle and Wang 2018; Dong, Roth and Su 2022): several with noise of
standard deviation ``multiplier * sensitivity`` tell as much as one with the multiplier that `compose` returns.
Poisson-sampled releases, as in DP-SGD, compose numerically through the distribution of the privacy loss (Gopi, Lee and
Wutschitz 2021).
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from cotempo.errors import ParameterError
from cotempo.typing import Floats

# Share of delta that pays for the truncated tails and the grid of a sampled composition, and the accuracy of epsilon.
TAIL, ACCURACY = 1e-3, 4e-3


def compose(multipliers: Iterable[float]) -> float:
    """Return the noise multiplier of one release that tells as much as all of these."""
    total = math.fsum(multiplier**-2 for multiplier in multipliers)
    return 1 / math.sqrt(total) if total else math.inf


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """Return the delta of one Gaussian release at an epsilon; eq. 6 of Balle and Wang."""
    if math.isinf(multiplier):
        return 0.0
    mu = 1 / multiplier
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """Return the epsilon of one Gaussian release at a delta; for several, `compose` them first."""
    _check(delta=delta)
    if gaussian_delta(multiplier, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(multiplier, high) > delta:
        high *= 2
    return float(brentq(lambda epsilon: gaussian_delta(multiplier, epsilon) - delta, 0.0, high, xtol=1e-12))


def gaussian_multiplier(epsilon: float, delta: float, releases: int = 1) -> float:
    """Return the noise multiplier that each of `releases` needs so that together they spend (epsilon, delta)."""
    _check(epsilon=epsilon, delta=delta)
    low = high = 1.0
    while gaussian_delta(high, epsilon) > delta:
        high *= 2
    while gaussian_delta(low, epsilon) <= delta:
        low /= 2
    one = brentq(lambda multiplier: gaussian_delta(multiplier, epsilon) - delta, low, high, xtol=1e-12)
    return float(one) * math.sqrt(releases)


def sampled_epsilon(multiplier: float, delta: float, *, rate: float, steps: int, beside: float = math.inf) -> float:
    """Return the epsilon of `steps` Gaussian releases, each on rows drawn with probability `rate`.

    `beside` is the noise multiplier of what else was released of all rows. Neighbours differ by one row added or
    removed; the larger of the two directions counts.
    """
    _check(delta=delta)
    if not 0 < rate <= 1:
        raise ParameterError(f"rate must lie in (0, 1], got {rate}")
    if rate == 1:
        return gaussian_epsilon(compose([multiplier / math.sqrt(steps), beside]), delta)
    parts = [(multiplier, rate, steps)] + [(beside, 1.0, 1)] * math.isfinite(beside)
    return max(_composed_epsilon(parts, delta, removed) for removed in (True, False))


def sampled_multiplier(epsilon: float, delta: float, *, rate: float, steps: int, beside: float = math.inf) -> float:
    """Return the noise multiplier of DP-SGD that spends (epsilon, delta) in `steps` steps, with what is `beside`."""
    _check(epsilon=epsilon, delta=delta)

    if gaussian_epsilon(beside, delta) >= epsilon:
        raise ParameterError(
            f"what is released beside must leave some of epsilon {epsilon}, its multiplier is {beside}"
        )

    def excess(place: float) -> float:
        return sampled_epsilon(math.exp(place), delta, rate=rate, steps=steps, beside=beside) - epsilon

    low = high = math.log(gaussian_multiplier(epsilon, delta, steps))  # enough without sampling, if nothing is beside
    while excess(high) > 0:
        low, high = high, high + 1
    while low > math.log(1e-2) and excess(low) <= 0:
        high, low = low, low - 1
    found = brentq(excess, low, high, xtol=1e-4) if excess(low) > 0 else low
    while excess(found) > 0:
        found += 1e-4
    return math.exp(found)


def _composed_epsilon(parts: Sequence[tuple[float, float, int]], delta: float, removed: bool) -> float:
    """Compose the privacy loss of one direction on a grid by the fast Fourier transform.

    Each part has a noise multiplier, a rate and how many releases there are.
    """
    moments = [(*_loss_moments(multiplier, rate, removed), steps) for multiplier, rate, steps in parts]
    deviation = math.sqrt(sum(spread**2 * steps for _, spread, _, steps in moments))
    middle = sum(abs(mean) * steps for mean, _, _, steps in moments)
    width = 2 * (middle + deviation * 12 + max(reach for _, _, reach, _ in moments))
    count = sum(steps for *_, steps in parts)
    size = 2 ** math.ceil(math.log2(max(width / (ACCURACY / math.sqrt(count) / 4), 2**12)))
    size = min(size, 2**20)
    grid = width / size
    losses = (np.arange(size) - size // 2) * grid
    spectrum, shift = np.ones(size // 2 + 1, dtype=np.complex128), 0.0
    for (multiplier, rate, steps), (mean, *_) in zip(parts, moments, strict=True):
        mass = np.diff(_loss_cdf(losses + grid / 2, multiplier, rate, removed), prepend=0.0)
        mass[-1] += 1 - mass.sum()
        # Rounding to the nearest point moves the mean; moved back, errors of single steps cancel (Gopi, Lemma 5.4).
        shift += steps * (mean - float(losses @ mass))
        spectrum *= np.fft.rfft(np.fft.ifftshift(mass)) ** steps
    total = np.maximum(np.fft.fftshift(np.fft.irfft(spectrum, size)), 0.0)
    places = losses + shift

    def excess(epsilon: float) -> float:
        beyond = places > epsilon
        unexplained = float(np.dot(total[beyond], -np.expm1(epsilon - places[beyond])))
        return unexplained - float(delta * (1 - TAIL))

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    found = float(brentq(excess, 0.0, high, xtol=1e-9))
    return float(found + grid * math.sqrt(count))


def _loss_cdf(losses: Floats, multiplier: float, rate: float, removed: bool) -> Floats:
    """Return the chance that the privacy loss of one step is at most each of these."""
    variance = multiplier**2
    ratio = losses if removed else -losses
    floor = _log(1 - rate)
    inside = ratio > floor
    with np.errstate(over="ignore", divide="ignore"):
        # Where the ratio (1 - rate) + rate exp((2x - 1) / (2 variance)) is exp(loss).
        argument = np.where(inside, ratio + np.log(-np.expm1(np.minimum(floor - ratio, 0.0))), -np.inf)
    place = variance * (argument - math.log(rate)) + 0.5
    below = ndtr(place / multiplier)
    if removed:
        return np.asarray((1 - rate) * below + rate * ndtr((place - 1) / multiplier))
    return np.asarray(1 - below)


def _loss_moments(multiplier: float, rate: float, removed: bool) -> tuple[float, float, float]:
    """Return mean, standard deviation and reach of the privacy loss of one step, by quadrature."""
    place = np.linspace(-12 * multiplier, 12 * multiplier + 1, 200_001)
    ratio = np.logaddexp(_log(1 - rate), math.log(rate) + (2 * place - 1) / (2 * multiplier**2))
    density = np.exp(-((place / multiplier) ** 2) / 2)
    if removed:
        density = (1 - rate) * density + rate * np.exp(-(((place - 1) / multiplier) ** 2) / 2)
    density /= density.sum()
    loss = ratio if removed else -ratio
    mean = float(density @ loss)
    return mean, math.sqrt(float(density @ (loss - mean) ** 2)), float(np.abs(loss).max())


def _log(chance: float) -> float:
    return math.log(chance) if chance else -math.inf


def _check(*, epsilon: float = 1.0, delta: float = 0.5) -> None:
    if not epsilon > 0 or math.isinf(epsilon):
        raise ParameterError(f"epsilon must be a finite number above 0, got {epsilon}")
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie between 0 and 1, got {delta}")

r"""Aggregation guided by a divergence: one normal prior that lies nearest to the clients' normal posteriors.

Clients hold :math:`q_c(w) = N(r_c, \mathrm{diag}\,\delta_c^2)`; the server looks for :math:`p_\theta(w) =
N(\mu, \mathrm{diag}\,\sigma^2)` with the least :math:`\sum_c D(q_c, p_\theta)`. Nothing here knows a point process: the
rules serve any Bayesian torch model whose weights are independent normals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cotempo.errors import ParameterError, nearest

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Rule = Literal["kl", "wasserstein", "fedavg", "mmd"]
WIDTH = 1.0


class Normal(NamedTuple):
    """Independent normals: mean and standard deviation of each weight."""

    mean: Floats
    deviation: Floats


def aggregate(means: ArrayLike, deviations: ArrayLike, rule: str = "kl", width: float = WIDTH) -> Normal:
    r"""Return the prior nearest to the clients' posteriors.

    - kl: :math:`\mu = \bar r`, :math:`\sigma^2 = \overline{\delta^2 + r^2} - \mu^2`;
    - wasserstein (squared): :math:`\mu = \bar r`, :math:`\sigma = \bar\delta`;
    - fedavg: :math:`\mu = \bar r`, :math:`\sigma^2 = \overline{\delta^2}`, a plain mean that minimises neither;
    - mmd: the numeric minimum of the summed squared maximum mean discrepancy with an RBF kernel of `width`.

    Parameters
    ----------
    means, deviations
        Posteriors of the clients, ``(clients, weights)``.
    rule
        One of the above.
    width
        Width of the kernel of `mmd`.

    Examples
    --------
    >>> aggregate([[0.0], [2.0]], [[1.0], [1.0]], "kl").deviation.round(3)
    array([1.414])
    """
    r, delta = np.asarray(means, dtype=np.float64), np.asarray(deviations, dtype=np.float64)
    if r.shape != delta.shape or r.ndim != 2 or not len(r):
        raise ParameterError(f"means and deviations must be (clients, weights) alike, got {r.shape} and {delta.shape}")
    if not (delta > 0).all():
        raise ParameterError("deviations must be positive")
    if rule == "mmd":
        return nearest_by_mmd(r, delta, width)
    if rule not in SUMMANDS:
        raise ParameterError(f"rule must be kl, wasserstein, fedavg or mmd, got {rule!r}{nearest(rule, RULES)}")
    return from_sums(rule, {name: value.sum(axis=0) for name, value in SUMMANDS[rule](r, delta).items()}, len(r))


SUMMANDS: dict[str, Callable[[Floats, Floats], dict[str, Floats]]] = {
    "kl": lambda r, delta: {"first": r, "second": delta**2 + r**2},
    "wasserstein": lambda r, delta: {"first": r, "second": delta},
    "fedavg": lambda r, delta: {"first": r, "second": delta**2},
}
RULES = (*SUMMANDS, "mmd")


def from_sums(rule: str, sums: Mapping[str, Floats], weight: float) -> Normal:
    """The prior from two sums over clients, so that a secure sum is enough; not for `mmd`."""
    mean, second = sums["first"] / weight, sums["second"] / weight
    if rule == "wasserstein":
        return Normal(mean, second)
    variance = second - mean**2 if rule == "kl" else second
    # Rounding can eat a variance that is tiny beside the squared mean.
    return Normal(mean, np.sqrt(np.maximum(variance, 1e-12)))


def divergence(rule: str, mean: Tensor, deviation: Tensor, prior: Normal, width: float = WIDTH) -> Tensor:
    """The divergence of a client's posterior from the prior, summed over the last axis; for `fedavg` that of `kl`."""
    import torch

    mu, sigma = (torch.tensor(part, dtype=mean.dtype, device=mean.device) for part in prior)
    if rule == "wasserstein":
        return ((mean - mu).square() + (deviation - sigma).square()).sum(-1)
    if rule == "mmd":
        return mmd_squared(mean, deviation, mu, sigma, width).sum(-1)
    ratio = deviation / sigma
    return 0.5 * (((mean - mu) / sigma).square() + ratio.square() - 1 - 2 * ratio.log()).sum(-1)


def mmd_squared(m1: Tensor, s1: Tensor, m2: Tensor, s2: Tensor, width: float) -> Tensor:
    r"""Squared maximum mean discrepancy of two normals with kernel :math:`\exp(-(x - y)^2 / d^2)`, per weight."""
    d2 = width**2
    own = width * ((d2 + 4 * s1.square()).rsqrt() + (d2 + 4 * s2.square()).rsqrt())
    both = d2 + 2 * s1.square() + 2 * s2.square()
    return own - 2 * width * both.rsqrt() * (-(m1 - m2).square() / both).exp()


def nearest_by_mmd(r: Floats, delta: Floats, width: float, starts: int = 20) -> Normal:
    """Minimise the summed discrepancy per weight: Newton's method from several starts, the best of them kept.

    The sum has local minima, one near each group of clients, so that starts are spread over the clients' means.
    """
    quantiles = np.quantile(r, np.linspace(0, 1, starts - 1), axis=0)
    centres = np.concatenate([r.mean(axis=0)[None], quantiles])
    spreads = np.log(np.sqrt((delta**2).mean(axis=0)))[None] * np.ones((starts, 1))
    found = [_descend(r, delta, width, centre, spread) for centre, spread in zip(centres, spreads, strict=True)]
    values = np.stack([value for _, _, value in found])
    best, weights = values.argmin(axis=0), np.arange(r.shape[1])
    mean = np.stack([centre for centre, _, _ in found])[best, weights]
    return Normal(mean, np.exp(np.stack([spread for _, spread, _ in found])[best, weights]))


def _descend(
    r: Floats, delta: Floats, width: float, centre: Floats, spread: Floats, steps: int = 200
) -> tuple[Floats, Floats, Floats]:
    """Levenberg-Marquardt on (mu, log sigma), two unknowns a weight, all weights at once."""
    at = np.stack([centre, spread])
    damping = np.ones(r.shape[1])
    value, gradient, hessian = _summed_mmd(r, delta, width, at)
    for _ in range(steps):
        size = np.abs(hessian).sum(axis=(0, 1)) + 1e-12
        a, b, c = hessian[0, 0] + damping * size, hessian[0, 1], hessian[1, 1] + damping * size
        safe = np.where((a > 0) & (a * c - b * b > 0), a * c - b * b, np.inf)
        step = np.stack([(b * gradient[1] - c * gradient[0]) / safe, (b * gradient[0] - a * gradient[1]) / safe])
        trial = at + np.clip(step, -1, 1)
        new = _summed_mmd(r, delta, width, trial)
        better = (new[0] < value) & np.isfinite(safe)
        at, value = np.where(better, trial, at), np.where(better, new[0], value)
        gradient, hessian = np.where(better, new[1], gradient), np.where(better, new[2], hessian)
        damping = np.clip(np.where(better, damping / 5, damping * 4), 1e-12, 1e6)
        if ((np.abs(gradient).max(axis=0) < 1e-10) | (damping >= 1e6)).all():
            break
    return at[0], at[1], value


def _summed_mmd(r: Floats, delta: Floats, width: float, at: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, gradient ``(2, weights)`` and Hessian ``(2, 2, weights)`` in (mu, log sigma) of the summed discrepancy."""
    mu, variance = at[0], np.exp(2 * at[1])
    d2, gap = width**2, mu - r
    own, both = d2 + 4 * variance, d2 + 2 * delta**2 + 2 * variance
    kernel = 2 * width * both**-0.5 * np.exp(-(gap**2) / both)
    count = len(r)
    value = (width * (d2 + 4 * delta**2) ** -0.5 - kernel).sum(axis=0) + count * width * own**-0.5
    # By s = 2 sigma^2, whose derivative in log sigma is 2 s: log(kernel) has slope g1 in mu and g2 in s.
    s = 2 * variance
    g1, g2 = -2 * gap / both, -0.5 / both + gap**2 / both**2
    slope = np.stack([-(kernel * g1).sum(axis=0), 2 * s * (-(kernel * g2).sum(axis=0) - count * width * own**-1.5)])
    h11 = -(kernel * (g1**2 - 2 / both)).sum(axis=0)
    h12 = -(kernel * (g1 * g2 + 2 * gap / both**2)).sum(axis=0) * 2 * s
    curve = -(kernel * (g2**2 + 0.5 / both**2 - 2 * gap**2 / both**3)).sum(axis=0) + 3 * count * width * own**-2.5
    h22 = curve * (2 * s) ** 2 + 2 * slope[1]
    return value, slope, np.array([[h11, h12], [h12, h22]])

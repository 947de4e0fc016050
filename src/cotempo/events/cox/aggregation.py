r"""Aggregation guided by a divergence: one normal prior that lies nearest to the clients' normal posteriors.

Clients hold :math:`q_c(w) = N(r_c, \mathrm{diag}\,\delta_c^2)`; the server looks for :math:`p_\theta(w) =
N(\mu, \mathrm{diag}\,\sigma^2)` with the least :math:`\sum_c D(q_c, p_\theta)`. Nothing here knows a point process: the
rules serve any Bayesian torch model whose weights are independent normals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cotempo.errors import ParameterError, nearest
from cotempo.typing import Floats

if TYPE_CHECKING:
    from torch import Tensor

# The width d of MMD's kernel, and how many starts its minimiser has.
WIDTH, STARTS = 1.0, 20


class Normal(NamedTuple):
    """Independent normals: mean and standard deviation of each weight."""

    mean: Floats
    deviation: Floats


def aggregate(means: ArrayLike, deviations: ArrayLike, rule: str = "kl") -> Normal:
    r"""Return the prior nearest to the clients' posteriors, eq. (10).

    - kl, eq. (12): :math:`\mu = \bar r`, :math:`\sigma^2 = \overline{\delta^2 + r^2} - \mu^2`;
    - wasserstein (squared), eq. (14): :math:`\mu = \bar r`, :math:`\sigma = \bar\delta`;
    - fedavg: :math:`\mu = \bar r`, :math:`\sigma^2 = \overline{\delta^2}`, a plain mean that minimises neither;
    - mmd: the numeric minimum of the summed squared maximum mean discrepancy with an RBF kernel of width 1.

    Posteriors of the clients are ``(clients, weights)``.

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
        return nearest_by_mmd(r, delta)
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
    """Return the prior from two sums over clients, so that a secure sum is enough; not for `mmd`."""
    mean, second = sums["first"] / weight, sums["second"] / weight
    if rule == "wasserstein":
        return Normal(mean, second)
    variance = second - mean**2 if rule == "kl" else second
    # Rounding can eat a variance that is tiny beside the squared mean.
    return Normal(mean, np.sqrt(np.maximum(variance, 1e-12)))


def divergence(rule: str, mean: Tensor, deviation: Tensor, prior: Normal) -> Tensor:
    """Return the divergence of a posterior from the prior, summed over the last axis; for `fedavg` that of `kl`."""
    import torch

    mu, sigma = (torch.tensor(part, dtype=mean.dtype, device=mean.device) for part in prior)
    if rule == "wasserstein":
        return ((mean - mu).square() + (deviation - sigma).square()).sum(-1)
    if rule == "mmd":
        return mmd_squared(mean, deviation, mu, sigma).sum(-1)
    ratio = deviation / sigma
    return 0.5 * (((mean - mu) / sigma).square() + ratio.square() - 1 - 2 * ratio.log()).sum(-1)


def mmd_squared(m1: Tensor, s1: Tensor, m2: Tensor, s2: Tensor) -> Tensor:
    r"""Return the squared MMD of two normals with kernel :math:`\exp(-(x - y)^2 / d^2)`, per weight."""
    d2 = WIDTH**2
    own = WIDTH * ((d2 + 4 * s1.square()).rsqrt() + (d2 + 4 * s2.square()).rsqrt())
    both = d2 + 2 * s1.square() + 2 * s2.square()
    return own - 2 * WIDTH * both.rsqrt() * (-(m1 - m2).square() / both).exp()


def nearest_by_mmd(r: Floats, delta: Floats) -> Normal:
    """Minimise the summed discrepancy per weight by L-BFGS from several starts at once; keep the best of each weight.

    The sum has local minima, one near each group of clients, so that starts are spread over the clients' means.
    """
    import torch

    means, deviations = torch.from_numpy(r)[:, None], torch.from_numpy(delta)[:, None]
    quantiles = np.quantile(r, np.linspace(0, 1, STARTS - 1), axis=0)
    mu = torch.from_numpy(np.concatenate([r.mean(axis=0)[None], quantiles])).requires_grad_()
    spread = np.log(np.sqrt((delta**2).mean(axis=0)))
    log_sigma = torch.from_numpy(np.tile(spread, (STARTS, 1))).requires_grad_()

    def summed() -> Tensor:
        return mmd_squared(means, deviations, mu, log_sigma.exp()).sum(0)

    optimiser = torch.optim.LBFGS(
        [mu, log_sigma], max_iter=200, tolerance_grad=1e-7, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        optimiser.zero_grad()
        total = summed().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return float(total.detach())

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        best = summed().argmin(0, keepdim=True)
        return Normal(mu.gather(0, best)[0].numpy(), log_sigma.gather(0, best)[0].exp().numpy())

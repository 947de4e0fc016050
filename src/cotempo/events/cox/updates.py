r"""The sigmoid Cox process: closed-form variational updates, the collapsed bound, and the `Posterior` at any rows.

The intensity is :math:`\lambda(x) = m\,\sigma(\nu + f(x))`, :math:`f = \psi^\top v`, :math:`v \sim N(0, I)`,
:math:`m \sim \mathrm{Gamma}(a_0, b_0)`. Data are cells: `events` happened in a cell that was watched for `exposure`.
Everything takes leading batch dimensions, so that a cohort of clients is one batch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cotempo.events.cox.kernels import KernelFeatures
from cotempo.events.cox.kernels import basis as make_basis
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.fedpp import PriorMemory


class CellCounts(NamedTuple):
    """What was seen: number of events and exposure of each cell, ``(..., cells)``."""

    events: Tensor
    exposure: Tensor


class CoxPrior(NamedTuple):
    """Shape and rate of the Gamma prior of m, and the mean of the Gaussian process, ``(...)`` each."""

    shape: Tensor
    rate: Tensor
    mean: Tensor


class Belief(NamedTuple):
    """The variational posterior: v is normal with `mean` and precision `root @ root.T`, m is Gamma(shape, rate)."""

    mean: Tensor
    root: Tensor
    shape: Tensor
    rate: Tensor

    @property
    def log_rate(self) -> Tensor:
        """The expectation of log m."""
        return torch.digamma(self.shape) - self.rate.log()


class Tilt(NamedTuple):
    """f at the cells: its mean, its variance and the Pólya-Gamma tilt c."""

    centre: Tensor
    spread: Tensor
    tilt: Tensor


def start(prior: CoxPrior, inducing: int) -> Belief:
    """Return the belief before any data."""
    batch = prior.shape.shape
    mean = torch.zeros(*batch, inducing, dtype=prior.shape.dtype, device=prior.shape.device)
    root = torch.eye(inducing, dtype=mean.dtype, device=mean.device).expand(*batch, inducing, inducing)
    return Belief(mean, root, prior.shape, prior.rate)


def project(basis: Tensor, residual: Tensor, belief: Belief, prior: CoxPrior) -> Tilt:
    r"""Return mean :math:`\bar f`, variance and :math:`c = \sqrt{\bar f^2 + \mathrm{var}}` at the rows of the basis."""
    centre = prior.mean[..., None] + (basis @ belief.mean[..., None])[..., 0]
    return tilt(centre, basis, residual, belief.root)


def tilt(centre: Tensor, basis: Tensor, residual: Tensor, root: Tensor) -> Tilt:
    """Return f at the cells, given its mean there and the root of the precision of v."""
    spread = residual + torch.linalg.solve_triangular(root, basis.mT, upper=False).square().sum(-2)
    return Tilt(centre, spread, (centre.square() + spread).clamp_min(1e-12).sqrt())


def log_two_cosh_half(c: Tensor) -> Tensor:
    """Return log(2 cosh(c / 2)), for c of any size."""
    return 0.5 * c + torch.nn.functional.softplus(-c)


def polya_gamma_mean(c: Tensor) -> Tensor:
    """Return the expectation of a PG(1, c) variable, tanh(c / 2) / (2 c), by its series near 0."""
    safe = c.clamp_min(1e-3)
    return torch.where(c < 1e-3, 0.25 - c.square() / 48, torch.tanh(safe / 2) / (2 * safe))


def latent_share(at: Tilt) -> Tensor:
    r"""Return events the latent process has per unit of rate and exposure: :math:`e^{-\bar f/2} / (2 \cosh(c/2))`."""
    return torch.exp(-0.5 * at.centre - log_two_cosh_half(at.tilt))


def curvature(cells: CellCounts, at: Tilt, latent: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the quadratic and the linear weight of f at each cell: :math:`A` and :math:`B` of
    :math:`U(f) = -\tfrac12 \int A f^2 + \int B f`."""
    return polya_gamma_mean(at.tilt) * (cells.events + latent), 0.5 * (cells.events - latent)


def update(basis: Tensor, residual: Tensor, cells: CellCounts, belief: Belief, prior: CoxPrior) -> Belief:
    r"""Make one sweep: the Pólya-Gamma variables and the latent process at their optimum, then v and m at theirs (21).

    .. math::

       \Lambda &= e\,\exp(E \log m - \bar f / 2) / (2 \cosh(c / 2)), \qquad
       q(m) = \mathrm{Gamma}(a_0 + N + \textstyle\int \Lambda,\; b_0 + \int e), \\
       \Sigma^{-1} &= I + \textstyle\int A\,\psi\psi^\top, \qquad
       \mu = \Sigma \int (B - A \nu)\,\psi .
    """
    at = project(basis, residual, belief, prior)
    latent = cells.exposure * belief.log_rate.exp()[..., None] * latent_share(at)
    quadratic, linear = curvature(cells, at, latent)
    shape = prior.shape + (cells.events + latent).sum(-1)
    rate = prior.rate + cells.exposure.sum(-1)
    eye = torch.eye(basis.shape[-1], dtype=basis.dtype, device=basis.device)
    root = torch.linalg.cholesky(eye + (basis * quadratic[..., None]).mT @ basis)
    target = basis.mT @ (linear - quadratic * prior.mean[..., None])[..., None]
    return Belief(torch.cholesky_solve(target, root)[..., 0], root, shape, rate)


def best_mean(basis: Tensor, residual: Tensor, cells: CellCounts, belief: Belief, prior: CoxPrior) -> Tensor:
    r"""Return the mean of the process that is best for the belief: :math:`\nu = \int (B - A \bar f) / \int A`."""
    at = project(basis, residual, belief, prior)
    latent = cells.exposure * belief.log_rate.exp()[..., None] * latent_share(at)
    quadratic, linear = curvature(cells, at, latent)
    function = at.centre - prior.mean[..., None]
    return (linear - quadratic * function).sum(-1) / quadratic.sum(-1).clamp_min(1e-12)


def evidence_bound(basis: Tensor, residual: Tensor, cells: CellCounts, belief: Belief, prior: CoxPrior) -> Tensor:
    """Return the collapsed bound on the log evidence (22), ``(...)``; it rises with every `update`."""
    at = project(basis, residual, belief, prior)
    log_rate = belief.log_rate[..., None]
    seen = cells.events * (log_rate + 0.5 * at.centre - log_two_cosh_half(at.tilt))
    latent = cells.exposure * log_rate.exp() * latent_share(at)
    expected = belief.shape / belief.rate * cells.exposure.sum(-1)
    return (seen + latent).sum(-1) - expected - normal_divergence(belief) - gamma_divergence(belief, prior)


def normal_divergence(belief: Belief) -> Tensor:
    """Return KL divergence of the belief in v from its standard normal prior."""
    size = belief.mean.shape[-1]
    eye = torch.eye(size, dtype=belief.mean.dtype, device=belief.mean.device)
    trace = torch.linalg.solve_triangular(belief.root, eye, upper=False).square().sum((-1, -2))
    log_determinant = 2 * belief.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    divergence: Tensor = 0.5 * (trace + belief.mean.square().sum(-1) - size + log_determinant)
    return divergence


def gamma_divergence(belief: Belief, prior: CoxPrior) -> Tensor:
    """Return KL divergence of the belief in m from its Gamma prior."""
    a, b, a0, b0 = belief.shape, belief.rate, prior.shape, prior.rate
    return (
        (a - a0) * torch.digamma(a) - torch.lgamma(a) + torch.lgamma(a0)
        + a0 * (b.log() - b0.log()) + a * (b0 - b) / b
    )  # fmt: skip


def mean_sigmoid(centre: Tensor, spread: Tensor) -> Tensor:
    """Return the expectation of the sigmoid of a normal variable, by 20 Gauss-Hermite points."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    at = torch.as_tensor(nodes, dtype=centre.dtype, device=centre.device)
    share = torch.as_tensor(weights / math.sqrt(2 * math.pi), dtype=centre.dtype, device=centre.device)
    return (torch.sigmoid(centre[..., None] + spread.clamp_min(0).sqrt()[..., None] * at) * share).sum(-1)


def information(basis: Tensor, cells: CellCounts, centre: Tensor, rate: Tensor) -> Tensor:
    r"""Return Fisher information of the cells in (v, log m), ``(..., inducing + 1, inducing + 1)``.

    The gradient of :math:`\log \lambda = \log m + \log \sigma(f)` is :math:`((1 - \sigma)\,\psi, 1)`, and each cell
    weighs with its expected events. Unlike the factorised posterior it lets a higher rate be traded for a lower
    function, which is what most of the uncertainty is made of.
    """
    share = torch.sigmoid(centre)
    expected = rate[..., None] * cells.exposure * share
    gradient = log_gradient(basis, share)
    return (gradient * expected[..., None]).mT @ gradient


def log_gradient(basis: Tensor, share: Tensor) -> Tensor:
    """Return gradient of log intensity in (v, log m) at the rows of the basis."""
    return torch.cat([(1 - share)[..., None] * basis, torch.ones_like(share)[..., None]], dim=-1)


class Relative(NamedTuple):
    """m times the sigmoid at rows: its mean, and centre and deviation of its logarithm, ``(..., rows)`` each."""

    mean: Floats
    centre: Floats
    deviation: Floats


class Posterior(NamedTuple):
    r"""The posterior of the intensity at any rows: one place for means and bands.

    With :math:`\log \lambda = \log m + \log \sigma(f)` and :math:`f = \psi^\top v + r`, the pair :math:`(v, \log m)`
    is jointly normal (Laplace), and :math:`r` is the Nystrom residual: what the inducing points leave open of the
    Gaussian process, of variance :math:`k(x, x) - \psi^\top\psi`.

    `basis` is :math:`\psi`, ``(..., rows, inducing)``, and `residual` the variance of the Nystrom residual, ``(...,
    rows)``; `centre` and `spread` are mean and variance of f with the residual, ``(..., rows)``; `root` is the Cholesky
    root of the joint precision of (v, log m), and `level` the expected m, ``(...)``.
    """

    basis: Tensor
    residual: Tensor
    centre: Tensor
    spread: Tensor
    root: Tensor
    level: Tensor

    @classmethod
    def from_memory(cls, memory: PriorMemory, kernel: KernelFeatures, which: int | slice = slice(None)) -> Posterior:
        """Return a client's posterior at the features of a kernel, for all types of events or one of them."""
        psi, residual = make_basis(*kernel)
        values, root, mean, joint, level = (
            torch.from_numpy(np.array(part[which]))
            for part in (memory.values, memory.root, memory.centre, memory.information, memory.shape / memory.rate)
        )
        spread = residual + torch.linalg.solve_triangular(root, psi.mT, upper=False).square().sum(-2)
        return cls(psi, residual, mean[..., None] + values @ psi.mT, spread, joint, level)

    def relative(self) -> Relative:
        r"""Return mean, and centre and deviation of the logarithm by the delta method.

        .. math:: \mathrm{sd}^2 = \nabla^\top J^{-1} \nabla + (1 - \sigma)^2\,\mathrm{var}\,r, \qquad
                  \nabla = ((1 - \sigma)\,\psi, 1)
        """
        share = torch.sigmoid(self.centre)
        gradient = log_gradient(self.basis.expand(*share.shape, -1), share)
        joint = torch.linalg.solve_triangular(self.root, gradient.mT, upper=False).square().sum(-2)
        deviation = (joint + (1 - share).square() * self.residual).sqrt()
        level = self.level[..., None]
        mean = level * mean_sigmoid(self.centre, self.spread)
        centre = level.log() + torch.nn.functional.logsigmoid(self.centre)
        return Relative(mean.numpy(), centre.numpy(), deviation.numpy())

r"""One function of history for all: clients send two sums, the server has its posterior.

The intensity of client c is :math:`\lambda_c = \lambda_0\, m_c\, \sigma(f_0)`, with a base measure :math:`\lambda_0`
and a shared function :math:`f_0 = \psi^\top v`. With :math:`\Lambda`, :math:`A`, :math:`B` as in
`cotempo.events.cox.updates`, a client sends

.. math:: S_c = \int A_c\, \psi \psi^\top, \qquad h_c = \int B_c\, \psi,

and the server has :math:`\Sigma^{-1} = I + \sum_c S_c`, :math:`\mu = \Sigma \sum_c h_c`. Everything takes a leading
dimension of clients.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cotempo.events.cox import updates as cox
from cotempo.events.cox.kernels import basis


class RBFParameters(NamedTuple):
    """Log amplitude, ``(clients,)``, and log lengths, ``(clients, dimensions)``."""

    amplitude: Tensor
    length: Tensor


class SharedBelief(NamedTuple):
    """What the server tells: inducing inputs, belief in the shared function, prior and design effect of the rate."""

    inducing: Tensor
    mean: Tensor
    root: Tensor
    shape: float
    rate: float
    design_effect: float


class RatePosterior(NamedTuple):
    """A client's own belief in its rate, a Gamma, ``(clients,)``."""

    shape: Tensor
    rate: Tensor


class RowBatch(NamedTuple):
    """Rows of the clients, padded with rows without events and exposure, ``(clients, rows, ...)``."""

    features: Tensor
    cells: cox.CellCounts


class FunctionAtRows(NamedTuple):
    """The shared function at rows: basis, Nystrom residual variance, mean and variance, ``(clients, rows, ...)``."""

    basis: Tensor
    residual: Tensor
    centre: Tensor
    spread: Tensor


class ClientSums(NamedTuple):
    """What a client sends, ``(clients, ...)``."""

    quadratic: Tensor
    linear: Tensor
    gradient: RBFParameters
    fit: Tensor


def function_at(data: RowBatch, common: SharedBelief, kernel: RBFParameters) -> FunctionAtRows:
    """Return the shared function at the rows."""
    rows, residual = basis(data.features, common.inducing, *kernel)
    variance = residual + torch.linalg.solve_triangular(common.root, rows.mT, upper=False).square().sum(-2)
    return FunctionAtRows(rows, residual, rows @ common.mean, variance)


def respond(data: RowBatch, common: SharedBelief, kernel: RBFParameters) -> tuple[ClientSums, RatePosterior]:
    """Learn the own rate, then say what the data mean for the shared function and its kernel."""
    leaves = RBFParameters(*(part.detach().clone().requires_grad_() for part in kernel))
    at = function_at(data, common, leaves)
    tilt = _tilt(at)
    with torch.no_grad():
        own = _rate(data.cells, at, common)
        latent = data.cells.exposure * _log_rate(own).exp()[..., None] * cox.latent_share(tilt)
        quadratic, linear = cox.curvature(data.cells, tilt, latent)
        upward = (at.basis * quadratic[..., None]).mT @ at.basis
        target = (at.basis.mT @ linear[..., None])[..., 0]
    seen = data.cells.events * (0.5 * at.centre - cox.log_two_cosh_half(tilt.tilt))
    fit = (seen + data.cells.exposure * _log_rate(own)[..., None].exp() * cox.latent_share(tilt)).sum(-1)
    gradient = RBFParameters(*torch.autograd.grad(fit.sum(), tuple(leaves)))
    return ClientSums(upward, target, gradient, fit.detach()), own


def _tilt(at: FunctionAtRows) -> cox.Tilt:
    return cox.Tilt(at.centre, at.spread, (at.centre.square() + at.spread).clamp_min(1e-12).sqrt())


def _log_rate(own: RatePosterior) -> Tensor:
    """Return the expectation of log m."""
    return torch.digamma(own.shape) - own.rate.log()


def _rate(cells: cox.CellCounts, at: FunctionAtRows, common: SharedBelief) -> RatePosterior:
    """Return the Gamma posterior of the rate given the function; by the design effect clusters count less."""
    exposed = (cells.exposure * cox.mean_sigmoid(at.centre, at.spread)).sum(-1)
    return RatePosterior(
        common.shape + cells.events.sum(-1) / common.design_effect, common.rate + exposed / common.design_effect
    )


def own_information(data: RowBatch, common: SharedBelief, kernel: RBFParameters) -> tuple[Tensor, RatePosterior]:
    """Return the client's own joint information in (v, log m), with the prior of m, and its rate."""
    with torch.no_grad():
        at = function_at(data, common, kernel)
        own = _rate(data.cells, at, common)
        rate = own.shape / own.rate
        information = cox.information(at.basis, data.cells, at.centre, rate)
        # Events of a sequence come in clusters: the rate knows no more than its design effect allows.
        weight = torch.ones(information.shape[-1], dtype=information.dtype)
        weight[-1] = common.design_effect**-0.5
        information = information * weight * weight[:, None]
        information[..., -1, -1] += common.rate * rate
        return information, own


def about_shared(information: Tensor) -> Tensor:
    """Return what is left of a client's information about v when its rate is unknown."""
    cross = information[..., :-1, -1:]
    left: Tensor = information[..., :-1, :-1] - cross @ cross.mT / (information[..., -1:, -1:] + 1e-9)
    return left

r"""One function of history for all clients: each sends two sums (`respond`), from which the server has the posterior.

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


class SharedBelief(NamedTuple):
    """What the server sends: inducing inputs, belief in the shared function, prior and design effect of the rate."""

    inducing: Tensor
    mean: Tensor
    root: Tensor
    shape: float
    rate: float
    design_effect: float


class ClientSums(NamedTuple):
    """What a client sends, and shape and rate of its own Gamma posterior of m, ``(clients, ...)``."""

    quadratic: Tensor
    linear: Tensor
    gradient: Tensor
    fit: Tensor
    shape: Tensor
    rate: Tensor


def function_at(features: Tensor, common: SharedBelief, kernel: Tensor) -> tuple[Tensor, Tensor, cox.Tilt]:
    """Return basis and Nystrom residual variance at rows, ``(clients, rows, ...)``, and the shared function there.

    `kernel` has log amplitude and log lengths, ``(clients, 1 + dimensions)``.
    """
    rows, residual = basis(features, common.inducing, kernel[:, 0], kernel[:, 1:])
    return rows, residual, cox.tilt(rows @ common.mean, rows, residual, common.root)


def respond(features: Tensor, cells: cox.CellCounts, common: SharedBelief, kernel: Tensor) -> ClientSums:
    """Learn the own rate, then say what the data mean for the shared function and its kernel."""
    leaf = kernel.detach().clone().requires_grad_()
    rows, _, at = function_at(features, common, leaf)
    with torch.no_grad():
        shape, rate = _rate(cells, at, common)
        log_rate = (torch.digamma(shape) - rate.log())[..., None]
        latent = cells.exposure * log_rate.exp() * cox.latent_share(at)
        quadratic, linear = cox.curvature(cells, at, latent)
        upward = (rows * quadratic[..., None]).mT @ rows
        target = (rows.mT @ linear[..., None])[..., 0]
    seen = cells.events * (0.5 * at.centre - cox.log_two_cosh_half(at.tilt))
    fit = (seen + cells.exposure * log_rate.exp() * cox.latent_share(at)).sum(-1)
    (gradient,) = torch.autograd.grad(fit.sum(), leaf)
    return ClientSums(upward, target, gradient, fit.detach(), shape, rate)


def _rate(cells: cox.CellCounts, at: cox.Tilt, common: SharedBelief) -> tuple[Tensor, Tensor]:
    """Return shape and rate of the posterior of m given the function; clusters count less by the design effect."""
    exposed = (cells.exposure * cox.mean_sigmoid(at.centre, at.spread)).sum(-1)
    effect = common.design_effect
    return common.shape + cells.events.sum(-1) / effect, common.rate + exposed / effect


def own_information(
    features: Tensor, cells: cox.CellCounts, common: SharedBelief, kernel: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the client's own joint information in (v, log m), with the prior of m, and shape and rate of m."""
    with torch.no_grad():
        rows, _, at = function_at(features, common, kernel)
        shape, rate = _rate(cells, at, common)
        level = shape / rate
        information = cox.information(rows, cells, at.centre, level)
        # Events of a sequence come in clusters: the rate knows no more than its design effect allows.
        weight = torch.ones(information.shape[-1], dtype=information.dtype)
        weight[-1] = common.design_effect**-0.5
        information = information * weight * weight[:, None]
        information[..., -1, -1] += common.rate * level
        return information, shape, rate


def about_shared(information: Tensor) -> Tensor:
    """Return what is left of a client's information about v when its rate is unknown."""
    cross = information[..., :-1, -1:]
    left: Tensor = information[..., :-1, :-1] - cross @ cross.mT / (information[..., -1:, -1:] + 1e-9)
    return left

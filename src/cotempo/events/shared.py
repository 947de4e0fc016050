r"""One function for all: clients send two sums, the server has its posterior.

The intensity of client c is :math:`\lambda_c = \lambda_0\, m_c\, \sigma(f_0 + g_c)`, with a base measure
:math:`\lambda_0`, a shared function :math:`f_0 = \psi_0^\top v_0` and a personal deviation
:math:`g_c = \psi_g^\top v_g`. With :math:`\Lambda`, :math:`A`, :math:`B` as in `cotempo.events.cox`, a client sends

.. math:: S_c = \int A_c\, \psi_0 \psi_0^\top, \qquad h_c = \int (B_c - A_c\, \bar g_c)\, \psi_0,

and the server has :math:`\Sigma_0^{-1} = I + \sum_c S_c`, :math:`\mu_0 = \Sigma_0 \sum_c h_c`. Everything takes a
leading dimension of clients.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cotempo.events import cox
from cotempo.events.kernels import basis

SWEEPS = 3
COARSE = 20


class Kernels(NamedTuple):
    """Log amplitude and log lengths of the shared and of the personal function, ``(clients, ...)``."""

    amplitude: Tensor
    length: Tensor
    own_amplitude: Tensor
    own_length: Tensor


class Common(NamedTuple):
    """What the server tells: inducing inputs, belief in the shared function, prior of the rate, tempering."""

    inducing: Tensor
    own_inducing: Tensor
    mean: Tensor
    root: Tensor
    shape: float
    rate: float
    dispersion: float
    design_effect: float


class Own(NamedTuple):
    """A client's own belief: its deviation (mean and precision root) and its rate (Gamma), ``(clients, ...)``."""

    mean: Tensor
    root: Tensor
    shape: Tensor
    rate: Tensor


class Data(NamedTuple):
    """Rows of the clients, padded with rows without events and exposure, ``(clients, rows, ...)``."""

    features: Tensor
    cells: cox.Cells
    bin: Tensor


class Response(NamedTuple):
    """What a client sends, ``(clients, ...)``."""

    quadratic: Tensor
    linear: Tensor
    gradient: Kernels
    fit: Tensor
    surplus: Tensor
    expected: Tensor


def bases(data: Data, common: Common, kernels: Kernels) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Basis and open variance of the shared and of the personal function."""
    shared = basis(data.features, common.inducing, kernels.amplitude, kernels.length)
    personal = basis(data.features, common.own_inducing, kernels.own_amplitude, kernels.own_length)
    if not common.own_inducing.shape[-2]:
        return shared, (personal[0], torch.zeros_like(shared[1]))
    return shared, personal


def spread(rows: Tensor, open_variance: Tensor, root: Tensor) -> Tensor:
    """Variance of a function at the rows."""
    variance: Tensor = open_variance + torch.linalg.solve_triangular(root, rows.mT, upper=False).square().sum(-2)
    return variance


def respond(data: Data, common: Common, kernels: Kernels, own: Own) -> tuple[Response, Own]:
    """Sweep over the client's own parts, then say what the data mean for the shared function and the kernels."""
    leaves = Kernels(*(part.detach().clone().requires_grad_() for part in kernels))
    shared, personal = bases(data, common, leaves)
    with torch.no_grad():
        fixed = (shared[0] @ common.mean, spread(*shared, common.root))
        for _ in range(SWEEPS):
            at = _tilt(fixed, personal, own)
            share = cox.latent_share(at)
            own = _rate(data.cells, at, common, own)
            latent = data.cells.exposure * cox.Belief(*own).log_rate.exp()[..., None] * share
            quadratic, linear = cox.curvature(data.cells, at, latent)
            quadratic, linear = quadratic / common.dispersion, linear / common.dispersion
            own = Own(*cox.solve(personal[0], quadratic, linear - quadratic * fixed[0]), own.shape, own.rate)
        deviation = (personal[0] @ own.mean[..., None])[..., 0]
        upward = (shared[0] * quadratic[..., None]).mT @ shared[0]
        target = (shared[0].mT @ (linear - quadratic * deviation)[..., None])[..., 0]
        surplus, expected = _overdispersion(data, cox.Belief(*own), share)
    at = _tilt((shared[0] @ common.mean, spread(*shared, common.root)), personal, own)
    log_rate = cox.Belief(*own).log_rate[..., None]
    seen = data.cells.events * (0.5 * at.centre - cox.log_two_cosh_half(at.tilt))
    fit = (seen + data.cells.exposure * log_rate.exp() * cox.latent_share(at)).sum(-1) / common.dispersion
    gradient = torch.autograd.grad(fit.sum(), tuple(leaves), allow_unused=True)
    filled = Kernels(*(torch.zeros_like(k) if g is None else g for g, k in zip(gradient, kernels, strict=True)))
    return Response(upward, target, filled, fit.detach(), surplus, expected), own


def _tilt(fixed: tuple[Tensor, Tensor], personal: tuple[Tensor, Tensor], own: Own) -> cox.Tilt:
    centre = fixed[0] + (personal[0] @ own.mean[..., None])[..., 0]
    variance = fixed[1] + spread(*personal, own.root)
    return cox.Tilt(centre, variance, (centre.square() + variance).clamp_min(1e-12).sqrt())


def _rate(cells: cox.Cells, at: cox.Tilt, common: Common, own: Own) -> Own:
    """The rate's posterior given the function, without the detour over the latent process, whose steps are small.

    Sequences that cluster count for less, by the design effect.
    """
    shape = common.shape + cells.events.sum(-1) / common.design_effect
    exposed = (cells.exposure * cox.mean_sigmoid(at.centre, at.spread)).sum(-1)
    rate = common.rate + exposed / common.design_effect
    return own._replace(shape=shape, rate=rate)


def _overdispersion(data: Data, belief: cox.Belief, share: Tensor) -> tuple[Tensor, Tensor]:
    """Squared misfit and expected events over coarse stretches of time, summed."""
    rate = (belief.shape / belief.rate)[..., None]
    expected = rate * data.cells.exposure * (1 - share)
    size = (*expected.shape[:-1], COARSE)
    observed = torch.zeros(size, dtype=expected.dtype).scatter_add_(-1, data.bin, data.cells.events)
    predicted = torch.zeros(size, dtype=expected.dtype).scatter_add_(-1, data.bin, expected)
    return (observed - predicted).square().sum(-1), predicted.sum(-1)


def function_at(data: Data, common: Common, kernels: Kernels, own: Own) -> tuple[Tensor, Tensor, Tensor]:
    """Both bases side by side, and mean and variance of the whole function at the rows."""
    with torch.no_grad():
        shared, personal = bases(data, common, kernels)
        at = _tilt((shared[0] @ common.mean, spread(*shared, common.root)), personal, own)
        return torch.cat([shared[0], personal[0]], dim=-1), at.centre, at.spread


def own_information(data: Data, common: Common, kernels: Kernels, own: Own) -> Tensor:
    """The client's own joint information in (v_0, v_g, log m), with the priors of v_g and m."""
    rows, centre, _ = function_at(data, common, kernels, own)
    rate = own.shape / own.rate
    information = cox.information(rows, data.cells, centre, rate) / common.dispersion
    size, shared = information.shape[-1], common.inducing.shape[-2]
    prior = torch.zeros(*information.shape[:-2], size, dtype=information.dtype)
    prior[..., shared:-1] = 1.0
    # Events of a sequence come in clusters: the rate knows no more than its own design effect allows.
    weight = torch.ones(size, dtype=information.dtype)
    weight[-1] = (common.dispersion / common.design_effect) ** 0.5
    information = information * weight * weight[:, None]
    prior[..., -1] = common.rate * rate
    return information + torch.diag_embed(prior)


def about_shared(information: Tensor, shared: int) -> Tensor:
    """What is left of a client's information about v_0 when its deviation and its rate are unknown."""
    rest = information[..., shared:, shared:]
    cross = information[..., shared:, :shared]
    eye = 1e-9 * torch.eye(rest.shape[-1], dtype=rest.dtype)
    left: Tensor = information[..., :shared, :shared] - cross.mT @ torch.linalg.solve(rest + eye, cross)
    return left

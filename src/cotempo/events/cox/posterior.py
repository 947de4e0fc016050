r"""The posterior of a sigmoid Cox intensity at any rows: one place for means and bands.

With :math:`\log \lambda = \log m + \log \sigma(f)` and :math:`f = \psi^\top v + r`, the pair :math:`(v, \log m)` is
jointly normal (Laplace), and :math:`r` is the Nystrom residual: what the inducing points leave open of the Gaussian
process, of variance :math:`k(x, x) - \psi^\top\psi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cotempo.events.cox import updates as cox
from cotempo.events.cox.kernels import KernelFeatures, basis
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.fedpp import PriorMemory


class Relative(NamedTuple):
    """m times the sigmoid at rows: its mean, and centre and deviation of its logarithm, ``(..., rows)`` each."""

    mean: Floats
    centre: Floats
    deviation: Floats


class Posterior(NamedTuple):
    """What is believed at rows.

    `basis` is :math:`\\psi`, ``(..., rows, inducing)``, and `residual` the variance of the Nystrom residual, ``(...,
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
        psi, residual = basis(*kernel)
        values, root, joint, level = (
            torch.from_numpy(np.array(part[which]))
            for part in (memory.values, memory.root, memory.information, memory.shape / memory.rate)
        )
        spread = residual + torch.linalg.solve_triangular(root, psi.mT, upper=False).square().sum(-2)
        return cls(psi, residual, values @ psi.mT, spread, joint, level)

    def relative(self) -> Relative:
        r"""Return mean, and centre and deviation of the logarithm by the delta method.

        .. math:: \mathrm{sd}^2 = \nabla^\top J^{-1} \nabla + (1 - \sigma)^2\,\mathrm{var}\,r, \qquad
                  \nabla = ((1 - \sigma)\,\psi, 1)
        """
        share = torch.sigmoid(self.centre)
        gradient = cox.log_gradient(self.basis.expand(*share.shape, -1), share)
        joint = torch.linalg.solve_triangular(self.root, gradient.mT, upper=False).square().sum(-2)
        deviation = (joint + (1 - share).square() * self.residual).sqrt()
        level = self.level[..., None]
        mean = level * cox.mean_sigmoid(self.centre, self.spread)
        centre = level.log() + torch.nn.functional.logsigmoid(self.centre)
        return Relative(mean.numpy(), centre.numpy(), deviation.numpy())

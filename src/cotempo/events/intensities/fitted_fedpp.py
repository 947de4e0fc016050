"""What FedPP returns: every client's intensity, with its verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.errors import DataError, Problem
from cotempo.events.diagnostics import rescaling_test
from cotempo.events.intensities.encoder_intensity import EncodedIntensity
from cotempo.events.intensities.fitted import complete, make_intensity
from cotempo.events.intensities.over_time import Curve
from cotempo.events.published import KernelMemory
from cotempo.events.records.encoder_inputs import HISTORY
from cotempo.events.records.grid import Grid
from cotempo.events.records.record import Floats
from cotempo.federation import Fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from cotempo.events.cox.posterior import Posterior
    from cotempo.events.fedpp import FedPP


class FittedFedPP(Fitted):
    """The result of FedPP; index it by a client's name."""

    method: FedPP

    def __getitem__(self, client: str) -> Any:
        """A client's intensity: a `Curve` over time, or one that needs a history.

        A client whose memory is not here, because it lies at its own place, gets the shared function at the level
        all clients have together.
        """
        super().__getitem__(client)
        memory = self.outcome.memories.get(client)
        state = self.state
        if state.kernel is not None:
            if memory is None or not len(memory.kernel.values):
                raise DataError([Problem("the client never took part, and its kernel stays at its place", client)])
            if self.method.kernel in HISTORY:
                return EncodedIntensity(self.method, state.kernel, memory.kernel, state.marks)
            return KernelCurve(self.method, memory.kernel)
        return make_intensity(state.function, complete(state.function, None if memory is None else memory.function))

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Intensities of the first clients, how well they tell what was held out, and whether joining helped."""
        from cotempo.events.plots import plot_benefit, plot_intensities, plot_quantiles

        figures = {}
        known = [name for name in self.names if name in self.outcome.memories][:4]
        curves = {name: model for name in known if isinstance(model := self[name], Curve)}
        if curves:
            figures["Intensity with its 95 % band"] = plot_intensities(curves, truth)
        kept = {name: self.outcome.memories[name].function for name in known}
        waits = {n: one.waits[self.state.function.kept] for n, one in kept.items() if one is not None and one.waits}
        tests = {name: rescaling_test([one]) for name, one in waits.items() if len(one)}
        if tests:
            figures["Waits between held-out events on the model's clock"] = plot_quantiles(tests)
        if self.benefit:
            figures["Held-out gain, alone and together"] = plot_benefit(self.benefit)
        return figures


class KernelCurve(Curve):
    """A client's intensity over time where a prior over kernels is shared."""

    def __init__(self, method: FedPP, memory: KernelMemory):
        self.method, self.memory = method, memory
        self.grid = Grid(float(memory.span[0]), float(memory.span[1]), method.cells)
        self.reference = max(float(memory.seen[0]), 0.5) / float(memory.seen[1])

    @property
    def ceiling(self) -> float:
        """The expected rate m: the sigmoid never exceeds 1."""
        return float(self.memory.shape[0] / self.memory.rate[0])

    def _rows(self, times: Floats) -> tuple[Tensor, Tensor]:
        import torch

        from cotempo.events.cox.encoders import make_kernel
        from cotempo.events.cox.kernels import basis

        at = torch.from_numpy(self.grid.scale(times) / 50 - 1)[:, None]
        inducing = torch.linspace(-1, 1, self.method.inducing, dtype=torch.float64)[:, None]
        kernel = make_kernel(self.method.kernel, torch.from_numpy(np.array(self.memory.mean)), at, inducing)
        return basis(kernel.features, kernel.inducing, kernel.amplitude, kernel.length)

    def _posterior(self, times: Floats) -> Posterior:
        """What is believed at the mean of the kernel's posterior."""
        import torch

        from cotempo.events.cox.posterior import Posterior

        rows, residual = self._rows(times)
        memory = self.memory
        values, root, joint, level = (
            torch.from_numpy(np.array(part[0]))
            for part in (memory.values, memory.root, memory.information, memory.shape / memory.rate)
        )
        spread = residual + torch.linalg.solve_triangular(root, rows.mT, upper=False).square().sum(-2)
        return Posterior(rows, residual, rows @ values, spread, joint, level)

    def evaluate(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """By the joint information in (v, log m)."""
        return self._posterior(times).relative()

    def draw(self, times: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """From the joint normal of (v, log m)."""
        return self._posterior(times).draw(draws, rng)

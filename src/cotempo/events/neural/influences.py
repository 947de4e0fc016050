r"""DecoupledODE: every event has an influence of its own, which follows a differential equation (Dec-ODE).

.. math:: \lambda(t) = \mu + \sum_{t_i < t} \mathrm{softplus}\, g(h_i(t)), \qquad
   \frac{dh_i}{ds} = f(h_i), \quad s = \log(1 + (t - t_i) / 0.01)

The start of a window counts as an event. Influences are solved on one grid of ages by Runge and Kutta's rule and are
linear in between, so that the integral of the intensity is exact.

References
----------
Song et al., Decoupled marked temporal point process using neural ordinary differential equations, ICLR 2024.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from cotempo.events.neural.federated import PADDING
from cotempo.events.neural.models import WIDTH, GapModel, Parts

# Ages of the grid, in the client's mean gaps: even in s, from 0 to 400.
SHORT, OLDEST, STEPS = 0.01, 400.0, 40


class DecoupledODE(GapModel):
    """The intensity as a sum of decoupled influences; the first state of an event knows its phase and its kind."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.zeros(()))
        self.kind = nn.Embedding(PADDING + 1, WIDTH)
        self.phase = nn.Linear(1, WIDTH, bias=False)
        self.change = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.influence = nn.Linear(WIDTH, 1)
        nn.init.constant_(self.influence.bias, -2.0)

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""
        solved = self._solve(kind, phase)
        return functional.softplus(self.base) + self._sum_past(time, ahead, solved)[0]

    def rate_and_mass(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, end: Tensor) -> Parts:
        """Return the rate at the `end` of each gap, and its integral over the gap."""
        base = functional.softplus(self.base)
        rate, total = (part[..., 0] for part in self._sum_past(time, end[..., None], self._solve(kind, phase)))
        # Gaps follow each other: what had come by the end of one had come by the start of the next.
        gained = total.diff(dim=1, prepend=torch.zeros_like(total[:, :1]))
        return base + rate, torch.where(kind == PADDING, 0.0, base * end + gained)

    def _solve(self, kind: Tensor, phase: Tensor) -> Parts:
        """Return the influence of each event at the ages of the grid, and its integral, ``(sequences, gaps, ages)``."""
        state = self.kind(kind) + self.phase(phase[..., None])
        step, states = _last() / STEPS, [state]
        for _ in range(STEPS):
            first = self.change(state)
            second = self.change(state + step / 2 * first)
            third = self.change(state + step / 2 * second)
            fourth = self.change(state + step * third)
            state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
            states.append(state)
        value = functional.softplus(self.influence(torch.stack(states, dim=2))[..., 0])
        cells = (value[..., 1:] + value[..., :-1]) / 2 * _ages(value).diff()
        return value, functional.pad(cells.cumsum(-1), (1, 0))

    def _sum_past(self, time: Tensor, ahead: Tensor, solved: Parts) -> Parts:
        """Sum influences and integrals of all events up to each gap's own, ``(sequences, gaps, times)``."""
        value, integral = solved
        many, gaps, times = ahead.shape
        age = (time[:, :, None] + ahead).reshape(many, 1, -1) - time[:, :, None]  # (sequences, past, gaps * times)
        known = age.clamp(0, OLDEST)
        grid = _ages(age)
        cell = (torch.log1p(known / SHORT) * (STEPS / _last())).long().clamp_max(STEPS - 1)
        low, high = value.gather(2, cell), value.gather(2, cell + 1)
        start = grid[cell]
        here = low + (high - low) * (known - start) / (grid[cell + 1] - start)
        total = integral.gather(2, cell) + (known - start) * (low + here) / 2 + (age - known).clamp_min(0) * here
        place = torch.arange(gaps, device=age.device)
        past = (place[:, None] <= place)[None, :, :, None]
        parts = (part.reshape(many, gaps, gaps, times) * past for part in (here, total))
        rate, mass = (part.sum(1) for part in parts)
        return rate, mass


def _last() -> float:
    return float(torch.log1p(torch.tensor(OLDEST / SHORT)))


def _ages(like: Tensor) -> Tensor:
    return SHORT * torch.expm1(torch.linspace(0, _last(), STEPS + 1, dtype=like.dtype, device=like.device))

r"""DecoupledODE: every event has an influence of its own, which follows a differential equation (Dec-ODE).

.. math:: \lambda(t) = \mu + \sum_{t_i < t} \mathrm{softplus}\, g(h_i(t)), \qquad
   \frac{dh_i}{ds} = f(h_i), \quad s = \log(1 + (t - t_i) / 0.01)

An event's first state is that of its type: here of an event, or of the start of the window, which counts as one. All
events of a type share one solution, by Runge and Kutta's rule on a grid of ages; influences are linear in between, so
that the integral of the intensity is exact.

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
    """The intensity as a sum of decoupled influences."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.zeros(()))
        self.first = nn.Embedding(PADDING + 1, WIDTH)
        self.change = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.influence = nn.Linear(WIDTH, 1)
        # Begin with influences that fall like one over the age: constant ones add up to far too much.
        weight = self.influence.weight.detach()[0]
        nn.init.constant_(self.influence.bias, 1.0)
        self.change[2].bias.data = -weight / weight.square().sum()

    def rate(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, ahead: Tensor) -> Tensor:
        """Return per unit of time, ``(sequences, gaps, times)``."""
        return functional.softplus(self.base) + self._sum_past(time, kind, ahead)[0]

    def rate_and_mass(self, time: Tensor, before: Tensor, kind: Tensor, phase: Tensor, end: Tensor) -> Parts:
        """Return the rate at the `end` of each gap, and its integral over the gap."""
        base = functional.softplus(self.base)
        rate, total = (part[..., 0] for part in self._sum_past(time, kind, end[..., None]))
        # Gaps follow each other: what had come by the end of one had come by the start of the next.
        gained = total.diff(dim=1, prepend=torch.zeros_like(total[:, :1]))
        return base + rate, torch.where(kind == PADDING, 0.0, base * end + gained)

    def _solve(self) -> Parts:
        """Return the influence of each type of event at the ages of the grid, and its integral, ``(types, ages)``."""
        state, step = self.first.weight, _last() / STEPS
        states = [state]
        for _ in range(STEPS):
            first = self.change(state)
            second = self.change(state + step / 2 * first)
            third = self.change(state + step / 2 * second)
            fourth = self.change(state + step * third)
            state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
            states.append(state)
        value = functional.softplus(self.influence(torch.stack(states, dim=1))[..., 0])
        cells = (value[..., 1:] + value[..., :-1]) / 2 * _ages(value).diff()
        return value, functional.pad(cells.cumsum(-1), (1, 0))

    def _sum_past(self, time: Tensor, kind: Tensor, ahead: Tensor) -> Parts:
        """Sum influences and integrals of all events up to each gap's own, ``(sequences, gaps, times)``."""
        value, integral = self._solve()
        many, gaps, times = ahead.shape
        age = (time[:, :, None] + ahead).reshape(many, 1, -1) - time[:, :, None]  # (sequences, past, gaps * times)
        known, grid = age.clamp(0, OLDEST), _ages(age)
        cell = (torch.log1p(known / SHORT) * (STEPS / _last())).long().clamp_max(STEPS - 1)
        of = kind[:, :, None].expand_as(cell)
        low, high, start = value[of, cell], value[of, cell + 1], grid[cell]
        here = low + (high - low) * (known - start) / (grid[cell + 1] - start)
        total = integral[of, cell] + (known - start) * (low + here) / 2 + (age - known).clamp_min(0) * here
        place = torch.arange(gaps, device=age.device)
        past = (place[:, None] <= place)[None, :, :, None]
        rate, mass = ((part.reshape(many, gaps, gaps, times) * past).sum(1) for part in (here, total))
        return rate, mass


def _last() -> float:
    return float(torch.log1p(torch.tensor(OLDEST / SHORT)))


def _ages(like: Tensor) -> Tensor:
    return SHORT * torch.expm1(torch.linspace(0, _last(), STEPS + 1, dtype=like.dtype, device=like.device))

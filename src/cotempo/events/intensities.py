"""A client's intensity as FedPP learned it: over time, or given the events before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Events
from cotempo.events.conditional import Conditional
from cotempo.events.curve import Curve
from cotempo.events.function_client import likelihood
from cotempo.events.function_state import FunctionMemory, FunctionState, gather, to_torch
from cotempo.events.grid import Grid
from cotempo.events.history import look_back, unroll
from cotempo.events.record import Floats, Record, as_events
from cotempo.events.rows import FINE, PIECES, Rows, even_pieces

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.fedpp import FedPP


class SharedFunction:
    """The shared function as one client sees it: mean and joint uncertainty at any features."""

    def __init__(self, method: FedPP, state: FunctionState, memory: FunctionMemory):
        self.method, self.state, self.memory = method, state, memory
        self._root = _cavity_root(state, memory)

    @property
    def level(self) -> float:
        """The expected m."""
        return self.memory.shape / self.memory.rate

    def function(self, features: Floats) -> tuple[Tensor, Tensor, Tensor]:
        """Basis, mean and variance of the function."""
        from cotempo.events import shared

        nothing = np.zeros(len(features))
        rows = Rows(features, nothing, nothing, nothing.astype(np.int64), nothing.astype(bool))
        beliefs = to_torch(self.state, [self.memory])
        basis, centre, spread = shared.function_at(gather([rows], everything=True), *beliefs)
        return basis[0], centre[0], spread[0]

    def relative(self, features: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean of m times the sigmoid, and centre and deviation of its logarithm."""
        import torch

        from cotempo.events import cox

        basis, centre, spread = self.function(features)
        gradient = cox.log_gradient(basis, torch.sigmoid(centre))
        deviation = torch.linalg.solve_triangular(self._root, gradient.mT, upper=False).square().sum(-2).sqrt()
        mean = self.level * cox.mean_sigmoid(centre, spread)
        log_centre = np.log(self.level) + torch.nn.functional.logsigmoid(centre)
        return mean.numpy(), log_centre.numpy(), deviation.numpy()

    def draws(self, features: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Draws of m times the sigmoid, ``(draws, rows)``."""
        import torch

        basis, centre, _ = self.function(features)
        noise = torch.as_tensor(rng.standard_normal((len(self._root), count)))
        shift = torch.linalg.solve_triangular(self._root.mT, noise, upper=True)
        drawn: Floats = (self.level * shift[-1].exp() * torch.sigmoid(centre[:, None] + basis @ shift[:-1])).T.numpy()
        return drawn


def _cavity_root(state: FunctionState, memory: FunctionMemory) -> Tensor:
    """Joint precision in (v_0, v_g, log m): the client's own, and of v_0 what the prior and the others say."""
    import torch

    from cotempo.events.shared import about_shared

    own = torch.from_numpy(np.array(memory.information))
    size = len(state.inducing)
    others = torch.from_numpy(np.array(state.curvature)) - about_shared(own, size)
    values, vectors = torch.linalg.eigh((others + others.mT) / 2)
    # A client that was not in the sum would take away what is not there.
    others = (vectors * values.clamp_min(0.0)) @ vectors.mT
    joint = own.clone()
    joint[:size, :size] += others + torch.eye(size, dtype=own.dtype)
    root: Tensor = torch.linalg.cholesky((joint + joint.mT) / 2)
    return root


class SharedCurve(Curve):
    """A client's intensity over time, by the shared function and the client's own deviation and level."""

    def __init__(self, method: FedPP, state: FunctionState, memory: FunctionMemory):
        self.method, self.state, self.memory = method, state, memory
        self._shared = SharedFunction(method, state, memory)
        self._base = float(state.design.parameters[0])
        self.grid = Grid(float(state.span[0]), float(state.span[1]), method.cells)
        self.reference = max(float(memory.seen[0]), 0.5) / float(memory.seen[1])

    @property
    def ceiling(self) -> float:
        """Base rate times level: the sigmoid never exceeds 1."""
        return self._base * self._shared.level

    def _features(self, times: Floats) -> Floats:
        return self.state.design.features(times, np.zeros(0), np.zeros(0))

    def evaluate(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """By the joint information in the shared function, the deviation and the level."""
        mean, centre, deviation = self._shared.relative(self._features(times))
        return self._base * mean, np.log(self._base) + centre, deviation

    def draw(self, times: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """From the joint normal."""
        return self._base * self._shared.draws(self._features(times), draws, rng)

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """As every curve, and `gain_over_pooled`, over the rate of all clients together."""
        table = as_events(events, window)
        gains = likelihood(self.method, self.state, self.memory, Record.of(table))
        return {**super().score(table), "gain": gains["gain"], "gain_over_pooled": gains["gain_over_pooled"]}


class HistoryIntensity(Conditional):
    """A client's intensity given the events before, by the shared function."""

    def __init__(self, method: FedPP, state: FunctionState, memory: FunctionMemory):
        self.method, self.state, self.memory = method, state, memory
        self.origin = float(state.span[0])
        self._shared = SharedFunction(method, state, memory)

    def given(
        self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]
    ) -> tuple[Floats, Floats, Floats]:
        """The base measure times what the function makes of it."""
        design = self.state.design
        unrolled = look_back(times, history, start, design.decays)
        base = np.exp(design.log_base(unrolled))
        features = design.features(unrolled.time, unrolled.elapsed, unrolled.recency)
        mean, centre, deviation = self._shared.relative(features)
        return base * mean, np.log(base) + centre, deviation

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Gains in nats per event over the client's own and the pooled homogeneous rate, and the ratio of counts."""
        return likelihood(self.method, self.state, self.memory, Record.of(as_events(events, window)))

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        return self.rescale_record(Record.of(as_events(events, window)))

    def rescale_record(self, record: Record) -> list[Floats]:
        """Waiting times of a record."""
        design = self.state.design
        unrolled = unroll(record, design.decays, FINE)
        mass, elapsed, time, recency = even_pieces(unrolled, design.base_mass(unrolled))
        pieces = mass * self._shared.relative(design.features(time, elapsed, recency))[0]
        gaps = pieces.reshape(-1, PIECES).sum(axis=1)
        owner = unrolled.cell_sequence[:: len(FINE) - 1]
        ended = np.bincount(record.sequence, weights=record.count > 0, minlength=len(record.origin)).astype(np.intp)
        return [gaps[owner == number][: ended[number]] for number in range(len(record.origin))]

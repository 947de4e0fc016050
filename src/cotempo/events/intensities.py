"""A client's intensity as FedPP learned it: over time, or given the events before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from cotempo.data import Events
from cotempo.errors import DataError, ParameterError
from cotempo.events.curve import Band, Curve, NextEvent
from cotempo.events.function_client import likelihood
from cotempo.events.function_state import FunctionMemory, FunctionState, gather, to_torch
from cotempo.events.grid import Grid
from cotempo.events.history import look_back, unroll
from cotempo.events.record import Floats, Record, as_events
from cotempo.events.rows import FINE, PIECES, Rows, even_pieces

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.fedpp import FedPP

# Steps of a forecast, as shares of the time looked ahead: fine at first, where hazards have their spikes.
AHEAD = np.unique(np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 200), np.linspace(0.0, 1.0, 201)]))


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


class HistoryIntensity:
    """A client's intensity given the events before."""

    def __init__(self, method: FedPP, state: FunctionState, memory: FunctionMemory):
        self.method, self.state, self.memory = method, state, memory
        self._shared = SharedFunction(method, state, memory)

    def intensity(
        self, times: ArrayLike, history: ArrayLike = (), start: float | None = None, level: float = 0.95
    ) -> Band:
        """Return mean, lower and upper end of a band, given the events of the sequence.

        Parameters
        ----------
        times
            Where, in the unit of the events.
        history
            Sorted times of the sequence's events; only those before a time count for it.
        start
            When the sequence began to be watched; by default the start of the span.
        level
            The share of the truths the band should hold.
        """
        if not 0 < level < 1:
            raise ParameterError(f"level must lie between 0 and 1, got {level}")
        at, past = np.asarray(times, dtype=np.float64), np.asarray(history, dtype=np.float64)
        if not np.isfinite(at).all() or not np.isfinite(past).all() or (np.diff(past) < 0).any():
            raise DataError("times must be finite, and the history sorted")
        design = self.state.design
        origin = float(self.state.span[0]) if start is None else start
        unrolled = look_back(at.ravel(), past, origin, design.decays)
        base = np.exp(design.log_base(unrolled))
        features = design.features(unrolled.time, unrolled.elapsed, unrolled.recency)
        mean, centre, deviation = self._shared.relative(features)
        half = norm.ppf(0.5 + level / 2) * deviation
        parts = (base * mean, base * np.exp(centre - half), base * np.exp(centre + half))
        return Band(*(part.reshape(at.shape) for part in parts))

    def predict_next(self, history: ArrayLike, until: float, start: float | None = None) -> NextEvent:
        """The distribution of the first event after the last of `history`, looked for until `until`."""
        past = np.asarray(history, dtype=np.float64)
        last = float(past[-1]) if len(past) else float(self.state.span[0]) if start is None else start
        if not last < until:
            raise ParameterError(f"until must lie after the last event at {last:g}, got {until:g}")
        edges = last + (until - last) * AHEAD
        mean = self.intensity((edges[1:] + edges[:-1]) / 2, past, start).mean
        return NextEvent(edges, np.exp(-np.append(0.0, np.cumsum(mean * np.diff(edges)))))

    def sample(self, start: float, end: float, rng: np.random.Generator | int = 0, count: int = 1) -> Events:
        """Draw sequences event by event, each from the distribution of the next given those before."""
        stream = np.random.default_rng(rng)
        sequences = []
        for _ in range(count):
            past: list[float] = []
            while (past[-1] if past else start) < end:
                time = self.predict_next(past, end, start).quantile(stream.uniform())
                if not time < end:
                    break
                past.append(time)
            sequences.append(past)
        return Events.from_arrays(sequences, (start, end))

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Gains in nats per event over the client's own and the pooled homogeneous rate, and the ratio of counts."""
        return likelihood(self.method, self.state, self.memory, Record.of(as_events(events, window)))

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        record = Record.of(as_events(events, window))
        design = self.state.design
        unrolled = unroll(record, design.decays, FINE)
        mass, elapsed, time, recency = even_pieces(unrolled, design.base_mass(unrolled))
        pieces = mass * self._shared.relative(design.features(time, elapsed, recency))[0]
        gaps = pieces.reshape(-1, PIECES).sum(axis=1)
        owner = unrolled.cell_sequence[:: len(FINE) - 1]
        ended = np.bincount(record.sequence, weights=record.count > 0, minlength=len(record.origin)).astype(np.intp)
        return [gaps[owner == number][: ended[number]] for number in range(len(record.origin))]

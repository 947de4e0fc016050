"""A client's intensity as FedPP learned it: over time, or given the events before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Events
from cotempo.events.curves.levels import Kept
from cotempo.events.curves.timeline import FLOOR, CurvePosterior
from cotempo.events.intensities.given_history import Conditional
from cotempo.events.intensities.over_time import Band, Curve
from cotempo.events.processes.base import Profile
from cotempo.events.records.design import FINE, even_pieces
from cotempo.events.records.grid import Grid
from cotempo.events.records.history import WHOLE, look_back, unroll, waits
from cotempo.events.records.record import Floats, Record, as_events
from cotempo.events.records.summary import Summary
from cotempo.events.shared_function.client import curve_rate, inform, likelihood
from cotempo.events.shared_function.state import FunctionMemory, FunctionState, gather, no_rows, to_torch

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.cox.posterior import Posterior


def make_intensity(state: FunctionState, memory: FunctionMemory) -> SharedCurve | HistoryIntensity:
    """A client's intensity by the model that was kept."""
    return SharedCurve(state, memory) if state.kept == "curve" else HistoryIntensity(state, memory)


def complete(state: FunctionState, memory: FunctionMemory | None) -> FunctionMemory:
    """What is believed of a client: one that was not asked last by what it kept, one without a memory as all are."""
    if memory is None:
        summary = Summary.from_array(state.design.summary)
        seen = np.array([summary.events, summary.exposure])
        memory = FunctionMemory(np.zeros((2, 0)), no_rows(), np.zeros(0), 0.0, 0.0, np.zeros((0, 0)), seen, {})
    if state.kept == "curve":
        return memory if memory.cells.size else replace(memory, cells=np.zeros((2, state.design.cells)))
    return memory if len(memory.information) else inform(state, memory)


class SharedCurve(Curve):
    """A client's intensity over time: the shared curve at the client's level, with its deviation."""

    def __init__(self, state: FunctionState, memory: FunctionMemory):
        self.state, self.memory = state, memory
        self.grid = Grid(float(state.span[0]), float(state.span[1]), state.design.cells)
        self.reference = max(float(memory.seen[0]), 0.5) / float(memory.seen[1])

    @cached_property
    def _kept(self) -> Kept:
        return curve_rate(self.state, self.memory)

    @cached_property
    def _curve(self) -> CurvePosterior:
        return CurvePosterior(self.state.timeline)

    def _drawn(self, times: Floats) -> Floats:
        """Draws of the client's rate, ``(draws, times)``."""
        cell = self._profile.place(times)
        drawn = self._curve.draws(self._profile.share(times), cell)
        noise = np.random.default_rng(1).standard_normal((len(drawn), 1))
        own = self._kept.rate / self.state.timeline.curves[-1]
        return np.asarray(drawn * own[cell] * self._balance * np.exp(noise * np.sqrt(self._kept.variance[cell])))

    @cached_property
    def _balance(self) -> Floats:
        """How much higher the level is given each draw of the curve than given its mean, ``(draws, 1)``.

        The client's own events fix the product of level and curve: what a draw has more of, its level has less.
        """
        strength = float(self.state.timeline.own[0])
        if np.isinf(strength):
            return np.ones((1, 1))
        cells = np.arange(self.state.design.cells)
        drawn = self._curve.draws((cells + 0.5) / len(cells), cells) / self.state.timeline.curves[-1]
        mass = self.memory.cells[1] * self._kept.rate
        return np.asarray((strength + mass.sum()) / (strength + drawn @ mass))[:, None]

    @property
    def ceiling(self) -> float:
        """A bound on the rate: within a cell it changes little."""
        return float(1.5 * self._kept.rate.max())

    @property
    def _profile(self) -> Profile:
        summary = Summary.from_array(self.state.design.summary)
        period = self.state.design.period or summary.end - summary.start
        return Profile(summary, period, self.state.design.cells)

    def mean(self, times: Floats) -> Floats:
        """The curve at the client's level, with its deviation."""
        cell = self._profile.place(times)
        own = self._kept.rate / self.state.timeline.curves[-1]
        return np.asarray(self._curve.mean(self._profile.share(times), cell) * own[cell])

    def band(self, times: Floats, level: float) -> Band:
        """Quantiles of the draws."""
        mean = self.mean(times)
        lower, upper = np.quantile(self._drawn(times), (0.5 - level / 2, 0.5 + level / 2), axis=0)
        return Band(mean, np.minimum(lower, mean), np.maximum(upper, mean))

    def evaluate(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, and centre and deviation of the logarithm of the draws."""
        mean = self.mean(times)
        logs = np.log(np.maximum(self._drawn(times), FLOOR * mean))
        return mean, logs.mean(axis=0), logs.std(axis=0)

    def draw(self, times: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """From the posterior of the curve, the level and the deviation."""
        drawn = self._drawn(times)
        return drawn[rng.integers(len(drawn), size=draws)]

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """As every curve, and `gain_over_pooled`, over the rate of all clients together."""
        table = as_events(events, window)
        gains = likelihood(self.state, self.memory, Record.of(table))
        return {**super().score(table), **gains}

    def rescale_record(self, record: Record) -> list[Floats]:
        """Waiting times of a record."""
        unrolled = unroll(record, np.zeros(0), WHOLE)
        return waits(unrolled, self._profile.mass(unrolled, self._kept[0]))


class HistoryIntensity(Conditional):
    """A client's intensity given the events before, by the shared function."""

    def __init__(self, state: FunctionState, memory: FunctionMemory):
        self.state, self.memory = state, memory
        self.origin = float(state.span[0])

    @cached_property
    def _root(self) -> Tensor:
        """Root of the joint precision in (v, log m): the client's own, and of v what the prior and the others say."""
        import torch

        from cotempo.events.shared_function.updates import about_shared

        own = torch.from_numpy(np.array(self.memory.information))
        others = torch.from_numpy(np.array(self.state.curvature)) - about_shared(own)
        values, vectors = torch.linalg.eigh((others + others.mT) / 2)
        # A client that was not in the sum would take away what is not there.
        others = (vectors * values.clamp_min(0.0)) @ vectors.mT
        joint = own.clone()
        joint[:-1, :-1] += others + torch.eye(len(others), dtype=own.dtype)
        root: Tensor = torch.linalg.cholesky((joint + joint.mT) / 2)
        return root

    def posterior(self, features: Floats) -> Posterior:
        """What is believed of m times the sigmoid at features."""
        import torch

        from cotempo.events.cox.posterior import Posterior
        from cotempo.events.shared_function.updates import function_at

        with torch.no_grad():
            at = function_at(gather([no_rows(features)], everything=True), *to_torch(self.state))
        level = torch.tensor(self.memory.shape / self.memory.rate, dtype=torch.float64)
        return Posterior(at.basis[0], at.residual[0], at.centre[0], at.spread[0], self._root, level)

    def _mean(self, features: Floats) -> Floats:
        """The posterior mean of m times the sigmoid."""
        import torch

        from cotempo.events.cox import updates as cox
        from cotempo.events.shared_function import updates as shared

        with torch.no_grad():
            at = shared.function_at(gather([no_rows(features)], everything=True), *to_torch(self.state))
            mean = self.memory.shape / self.memory.rate * cox.mean_sigmoid(at.centre, at.spread)[0]
        return mean.numpy()

    def given(
        self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]
    ) -> tuple[Floats, Floats, Floats]:
        """The base measure times what the function makes of it."""
        design = self.state.design
        unrolled = look_back(times, history, start, design.decays)
        base = np.exp(design.log_base(unrolled))
        features = design.features(unrolled.time, unrolled.elapsed, unrolled.recency)
        mean, centre, deviation = self.posterior(features).relative()
        return base * mean, np.log(base) + centre, deviation

    def score(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Gains in nats per event over the client's own and the pooled homogeneous rate, and the ratio of counts."""
        return likelihood(self.state, self.memory, Record.of(as_events(events, window)))

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        return self.rescale_record(Record.of(as_events(events, window)))

    def rescale_record(self, record: Record) -> list[Floats]:
        """Waiting times of a record."""
        design = self.state.design
        unrolled = unroll(record, design.decays, FINE)
        mass, elapsed, time, recency = even_pieces(unrolled, design.base_mass(unrolled))
        return waits(unrolled, mass * self._mean(design.features(time, elapsed, recency)))

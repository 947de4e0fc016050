"""EncoderIntensity: an intensity given the events before, by a kernel of history; also by type of event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Events
from cotempo.events.fedpp import PriorMemory, PriorState, SharedPrior
from cotempo.events.intensities.given_history import IntensityGivenHistory
from cotempo.events.intensities.marks import add_types, as_history, by_type, gain_of_marks
from cotempo.events.intensities.over_time import Band
from cotempo.events.likelihood_gain import gains, seen_likelihood
from cotempo.events.records.encoder_inputs import EncoderInputs, inputs_at_times, inputs_of_record
from cotempo.events.records.history import SPIKES, WHOLE, look_back, unroll, waits
from cotempo.events.records.record import Record, as_events
from cotempo.events.records.summary import Summary
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.cox.posterior import Relative


class EncoderIntensity(IntensityGivenHistory):
    """A client's intensity given the events before; with marks, the sum of one intensity per type."""

    def __init__(self, method: SharedPrior, state: PriorState, memory: PriorMemory):
        self.method, self.state, self.memory = method, state, memory
        self.marks = state.marks if method.marks else ()
        self.origin = float(state.span[0])

    def relative(self, inputs: EncoderInputs) -> Relative:
        """Return what the functions make of the base measure."""
        import torch

        from cotempo.events.cox.history_kernels import EncoderBatch, make_history_kernel
        from cotempo.events.cox.posterior import Posterior

        with torch.no_grad():
            weights = torch.from_numpy(np.array(self.memory.mean))[None]
            kernel = make_history_kernel(self.method.kernel, weights, EncoderBatch.of([inputs]), self.method.inducing)
            place = torch.from_numpy(inputs.where[:, 0] * inputs.before.shape[1] + inputs.where[:, 1])
            kernel = kernel._replace(features=kernel.features[:, place])
            return Posterior.from_memory(self.memory, type(kernel)(*(part[0] for part in kernel))).relative()

    def _at(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> tuple[Floats, Relative]:
        """Return the base measure, and what is made of it."""
        record = as_history(history, start, marks, self.marks, times)
        design = self.state.design
        base = np.exp(design.log_base(look_back(times, history, start, design.decays)))
        return base, self.relative(inputs_at_times(times, record, design))

    def given(
        self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]
    ) -> tuple[Floats, Floats, Floats]:
        """Return the intensity of all types together."""
        base, found = self._at(times, history, start, marks)
        mean, centre, deviation = add_types(*found)
        return base * mean, np.log(base) + centre, deviation

    def intensity_by_type(
        self,
        times: ArrayLike,
        history: ArrayLike = (),
        marks: tuple[str, ...] = (),
        start: float | None = None,
        level: float = 0.95,
    ) -> Mapping[str, Band]:
        """Return mean, lower and upper end of a band for each type of events; the means sum to that of `intensity`."""
        at, past = np.asarray(times, dtype=np.float64), np.asarray(history, dtype=np.float64)
        base, found = self._at(at.ravel(), past, self.origin if start is None else start, marks)
        bands = by_type(self.marks, found, base, level)
        return {mark: band.reshape(at.shape) for mark, band in bands.items()}

    def draw_mark(
        self, time: float, history: list[float], start: float, marks: list[str], rng: np.random.Generator
    ) -> str | None:
        """Return a type with the chance its intensity has in the total."""
        if not self.marks:
            return None
        mean = self._at(np.array([time]), np.array(history), start, tuple(marks))[1].mean[:, 0]
        return str(rng.choice(self.marks, p=mean / mean.sum()))

    def read(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Record:
        """Return a table as a record, with types where they matter."""
        return Record.of(as_events(events, window), marks=self.method.marks)

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        design, inputs = self.state.design, inputs_of_record(record, self.state.design)
        found = self.relative(inputs).mean
        seen = inputs.events[inputs.where[:, 0], :, inputs.where[:, 1]].T
        exposure = inputs.exposure[inputs.where[:, 0], inputs.where[:, 1]]
        mass = float((found.sum(axis=0) * exposure).sum())
        fit = seen_likelihood(design.log_base(unrolled := unroll(record, design.decays, WHOLE)), unrolled)
        fit += float((seen.sum(axis=0) * np.log(found.sum(axis=0))).sum()) - mass
        summary = Summary.from_array(design.summary)
        rates = {"gain": tuple(self.memory.seen[:2]), "gain_over_pooled": (summary.events, summary.exposure)}
        scores = gains(fit, mass, record.events, record.exposure, rates)
        if self.marks:
            scores["gain_of_marks"] = gain_of_marks(seen, found, self.memory.seen[2:])
        return scores

    def rescale(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> list[Floats]:
        """Return waiting times on the clock of the model, per sequence: unit exponentials where the model is right."""
        record = self.read(events, window)
        inputs = inputs_of_record(record, self.state.design)
        exposure = inputs.exposure[inputs.where[:, 0], inputs.where[:, 1]]
        rows = int((record.count > 0).sum())
        mass = (self.relative(inputs).mean.sum(axis=0) * exposure)[rows:]
        return waits(unroll(record, self.state.design.decays, SPIKES), mass)

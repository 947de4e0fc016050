"""EncoderIntensity: an intensity given the events before, by a kernel of history; also by type of event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Events
from cotempo.errors import DataError, nearest
from cotempo.events.fedpp import PriorMemory, PriorState, SharedPrior
from cotempo.events.intensities.base import Band, IntensityGivenHistory, check_times
from cotempo.events.records.encoder_inputs import EncoderInputs, inputs_at_times, inputs_of_record
from cotempo.events.records.history import SPIKES, WHOLE, look_back, unroll, waits
from cotempo.events.records.record import Record, Summary, as_events
from cotempo.events.scores import gains, seen_likelihood
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.events.cox.updates import Relative


class EncoderIntensity(IntensityGivenHistory):
    """A client's intensity given the events before; with marks, the sum of one intensity per type."""

    def __init__(self, method: SharedPrior, state: PriorState, memory: PriorMemory):
        self.method, self.state, self.memory = method, state, memory
        self.marks = state.marks if method.marks else ()
        self.origin = float(state.span[0])

    def relative(self, inputs: EncoderInputs) -> Relative:
        """Return what the functions make of the base measure."""
        import torch

        from cotempo.events.cox.kernels import EncoderBatch, make_history_kernel
        from cotempo.events.cox.updates import Posterior

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
        base, (mean, centre, deviation) = self._at(times, history, start, marks)
        # The sum of independent intensities, its logarithm by the delta method.
        level = np.exp(centre)
        total = level.sum(axis=0)
        spread = np.sqrt(((level / total * deviation) ** 2).sum(axis=0))
        return base * mean.sum(axis=0), np.log(base) + np.log(total), spread

    def intensity_by_type(
        self,
        times: ArrayLike,
        history: ArrayLike = (),
        marks: tuple[str, ...] = (),
        start: float | None = None,
        level: float = 0.95,
    ) -> Mapping[str, Band]:
        """Return mean, lower and upper end of a band for each type of events; the means sum to that of `intensity`."""
        if not self.marks:
            raise DataError("there must be types of events to tell apart, the model learned without; use marks=True")
        at, past = check_times(times, history, level)
        base, found = self._at(at.ravel(), past, self.origin if start is None else start, marks)
        parts = zip(self.marks, base * found.mean, np.log(base) + found.centre, found.deviation, strict=True)
        return {
            mark: Band.from_logarithm(mean, centre, deviation, level).reshape(at.shape)
            for mark, mean, centre, deviation in parts
        }

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
            usual = (self.memory.seen[2:] + 0.5) / (self.memory.seen[2:] + 0.5).sum()
            gained = np.log(found / found.sum(axis=0)) - np.log(usual)[:, None]
            scores["gain_of_marks"] = float((seen * gained).sum() / max(seen.sum(), 1.0))
        return scores

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        inputs = inputs_of_record(record, self.state.design)
        exposure = inputs.exposure[inputs.where[:, 0], inputs.where[:, 1]]
        rows = int((record.count > 0).sum())
        mass = (self.relative(inputs).mean.sum(axis=0) * exposure)[rows:]
        return waits(unroll(record, self.state.design.decays, SPIKES), mass)


def as_history(history: Floats, start: float, marks: tuple[str, ...], known: tuple[str, ...], times: Floats) -> Record:
    """Return one sequence as a record, watched until after the last of `times`; its types must be known ones."""
    if known and len(marks) != len(history):
        raise DataError(f"marks must name the type of each event of the history, got {len(marks)} for {len(history)}")
    for mark in marks:
        if mark not in known:
            raise DataError(f"a mark must be one of {', '.join(known) or 'none'}, got {mark!r}{nearest(mark, known)}")
    if len(history) and history[0] < start:
        raise DataError(f"the history must not begin before {start:g}, it begins at {history[0]:g}; pass start=")
    end = max([start, *history[-1:].tolist(), *times.tolist()])
    window = (start, np.nextafter(end, np.inf) if end > start else start + 1.0)
    table = Events.from_arrays([history], window, [list(marks)] if known else None, known or None)
    return Record.of(table, condition=False, marks=bool(known))

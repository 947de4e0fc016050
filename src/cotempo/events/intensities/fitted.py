"""Results of FedPP, and the intensities of clients that they give: over time, or given the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.errors import DataError, Problem, nearest
from cotempo.events.curves.shapes import Shape, draws_at, learn_shapes, mean_at
from cotempo.events.curves.timeline import CELLS, FLOOR, OwnRate
from cotempo.events.fedpp import PriorMemory, PriorState, SharedPrior
from cotempo.events.intensities.base import (
    Band,
    DrawnIntensity,
    IntensityGivenHistory,
    IntensityOverTime,
    LogNormal,
    check_level,
)
from cotempo.events.processes.models import RateProfile
from cotempo.events.records.design import FINE, even_pieces
from cotempo.events.records.encoder_inputs import HISTORY, EncoderInputs, inputs_at_times, inputs_of_record
from cotempo.events.records.history import SPIKES, WHOLE, look_back, unroll, waits
from cotempo.events.records.record import Grid, Record, Summary, as_events
from cotempo.events.scores import gains, rescaling_test, seen_likelihood
from cotempo.events.shared_function import client as shared
from cotempo.events.shared_function.client import FunctionMemory, FunctionState
from cotempo.federation import Fitted
from cotempo.typing import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from cotempo.events.cox.updates import Posterior, Relative


# Panels of a figure, and what each model that can be kept is called.
MOST_PANELS = 4
MOST_SENTENCES = 2
# Below which correlation a client's period is unlike another's, in how many places, and from how many events.
UNLIKE, UNLIKE_AT, FEWEST_UNLIKE = 0.0, 500, 100
# Whose the shared curve is called, at the level of all clients together; its band says how far levels differ.
ANYBODY = "any client"
KEPT = {"curve": "a curve of time", "base": "a base measure", "function": "a function of history on a base measure"}


class FittedFedPP(Fitted):
    """The result of FedPP; index it by a client's name."""

    def __getitem__(self, client: str) -> SharedCurve | HistoryIntensity | KernelCurve | EncoderIntensity:
        """Return a client's intensity: an `IntensityOverTime` or an `IntensityGivenHistory`.

        Where a function is shared, a client whose memory is not here, because it stays at its site, gets the shared
        function at the level all clients have together.
        """
        super().__getitem__(client)
        memory, clock = self.outcome.memories.get(client), self.outcome.schemas[client].clock
        state = self.state
        if isinstance(state, FunctionState):
            if memory is None:
                summary = Summary.from_array(state.design.summary)
                memory = shared.first_memory(summary.events, summary.exposure)
            # A client that was not asked last has no cells or information yet.
            if state.kept == "curve" and not memory.cells.size:
                memory = replace(memory, cells=np.zeros((2, state.design.cells)))
            elif state.kept != "curve" and not len(memory.information):
                memory = shared.inform(state, memory)
            return make_intensity(state, memory, clock)
        if memory is None or not len(memory.values):
            words = "the client never took part; call adapt(client, table) where its table is"
            raise DataError([Problem(words, client)])
        return self._of_kernel(memory, clock)

    def adapt(self, client: str, table: Events) -> KernelCurve | EncoderIntensity:
        """Return the intensity of a client that never took part where a prior over kernels is shared.

        Its kernel weights are those of the prior; function and rate are learned from its table, which stays where it
        is.
        """
        super().__getitem__(client)
        state = self.state
        if not isinstance(state, PriorState):
            raise DataError("clients that share a function need not adapt; index the result by the client's name")
        record = self.method.prepare(table)
        first, last = state.span.tolist()
        if not first <= record.start.min() <= record.end.max() <= last:
            found = f"{record.start.min():g} to {record.end.max():g}"
            raise DataError(
                [Problem(f"windows must lie in the span learned, {first:g} to {last:g}, got {found}", client)]
            )
        memory = cast("SharedPrior", self.method).adapt(state, record)
        return self._of_kernel(memory, self.outcome.schemas[client].clock)

    def _of_kernel(self, memory: PriorMemory, clock: Clock) -> KernelCurve | EncoderIntensity:
        method = cast("SharedPrior", self.method)
        history = method.kernel in HISTORY
        return EncoderIntensity(method, self.state, memory, clock) if history else KernelCurve(method, memory, clock)

    def headline(self) -> str:
        """Return the method, its size, and which model was kept."""
        state, line = self.state, super().headline()
        if not isinstance(state, FunctionState):
            return line
        base = f" ({state.design.base})" if state.kept != "curve" else ""
        return f"{line}, kept {KEPT[state.kept]}{base}"

    def plot(self, clients: Mapping[str, Events] | Sequence[str] | None = None, truth: Any = None) -> Figure:
        """Draw the intensities of some clients, above the events of those whose tables are given.

        `clients` are tables or names. Of names all are drawn, else four, the one most unlike the others among them, and
        the figure says how many there are. Intensities given the history need the tables.
        """
        from cotempo.events.plots import plot_intensities

        known = [name for name in clients or self.names if name in self.outcome.memories]
        tables = clients if isinstance(clients, Mapping) else None
        if not clients and not known and self._curves:
            return plot_intensities(self._curves, truth)
        if clients and tables is None:
            for name in clients:
                super().__getitem__(name)
        shown = known if clients and tables is None else self._drawn(known)
        models = {name: self[name] for name in shown}
        if not tables and not (models and all(isinstance(model, IntensityOverTime) for model in models.values())):
            words = "clients must hold tables where the intensity depends on the events before, got none"
            raise DataError(f"{words}; pass those to draw it along")
        figure = plot_intensities(models, truth, tables)
        if len(shown) < len(known):
            figure.suptitle(_of_all(len(shown), len(known)))
        return figure

    def warnings(self) -> list[str]:
        """Return a sentence on each client that was left out, and on each whose counts grew or fell where only a
        rhythm is learned."""
        lines, curve = super().warnings(), getattr(self.state, "kept", "") == "curve"
        for name, memory in self.outcome.memories.items() if curve else ():
            if change := memory.course.change():
                moved = (
                    f"counts {'grew' if change > 0 else 'fell'} by {abs(change):.0%} from its first third to its last"
                )
                lines.append(
                    f"{name}: {moved}, which a curve of one period cannot follow: it shows the mean level of the data; "
                    f"after them it starts from the level of late ({memory.course.level:.2f} of the mean), less surely"
                )
        return lines

    @property
    def _curves(self) -> dict[str, IntensityOverTime]:
        """Curves over time of clients whose memories are here; where there are none, as at a coordinator, any one's."""
        known = {name: name for name in self.names if name in self.outcome.memories}
        if not known and isinstance(self.state, FunctionState):
            known = {ANYBODY: self.names[0]}
        return {shown: model for shown, name in known.items() if isinstance(model := self[name], IntensityOverTime)}

    def _drawn(self, known: list[str]) -> list[str]:
        """Return the clients to draw: the first, and the one most unlike the others.

        That is one left out as such, or else the one whose curve has the shape most unlike the mean shape.
        """
        suspects = [name for name in known if name in self.suspects]
        curves = self._curves if len(known) > MOST_PANELS and not suspects else {}
        if shapes := {
            name: curve.intensity(np.linspace(*curve.shown, UNLIKE_AT)).mean for name, curve in curves.items()
        }:
            rates = np.array([rate / rate.mean() for rate in shapes.values()])
            unlike = np.round(np.square(rates - rates.mean(axis=0)).mean(axis=1), 6)
            suspects = [[*shapes][int(unlike.argmax())]]
        first = known[:MOST_PANELS]
        return [*first[:-1], suspects[0]] if suspects and not {*suspects} & {*first} else first

    def answer(self) -> str:
        """Return when events are most frequent at the clients with most events, and at one whose period is unlike
        theirs, with the 95 % band."""
        models = self._curves
        ranked = sorted(models, key=lambda name: -models[name].seen[0])
        largest = ranked[:MOST_SENTENCES]
        if largest and models[largest[0]].period:
            rates = {name: models[name].intensity(np.linspace(*models[name].shown, UNLIKE_AT)).mean for name in ranked}
            alike = {name: np.corrcoef(rates[name], rates[largest[0]])[0, 1] for name in ranked}
            others = [name for name in ranked[MOST_SENTENCES:] if models[name].seen[0] >= FEWEST_UNLIKE]
            largest += sorted((name for name in others if alike[name] < UNLIKE), key=lambda name: alike[name])[:1]
        curves = {name: models[name] for name in largest}
        if not curves:
            return super().answer()
        peaks = []
        for name, model in curves.items():
            times = np.linspace(*model.shown, 3000)
            band = model.intensity(times)
            peak = int(band.mean.argmax())
            when, rate = _in_words(float(times[peak]), model), f"{band.mean[peak]:.3g} {model.clock.rate_label}"
            peaks.append(f"for {name} {when}: {rate} (95 % band {band.lower[peak]:.3g} to {band.upper[peak]:.3g})")
        return f"Events are most frequent {'; '.join(peaks)}."

    def tables(self) -> Mapping[str, Any]:
        """Return the benefit, and the rates over time with their 95 % bands where a curve was kept."""
        import pandas as pd

        rates = [model.to_frame().assign(client=name) for name, model in self._curves.items()]
        if not rates:
            return super().tables()
        joined = pd.concat(rates, ignore_index=True)
        return {**super().tables(), "rates": joined[["client", *joined.columns.drop("client")]]}

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Draw intensities of some clients, and how well they fit what was held out."""
        from cotempo.events.plots import plot_intensities, plot_quantiles

        figures = {}
        everyone = [name for name in self.names if name in self.outcome.memories]
        known = self._drawn(everyone)
        part = f" ({_of_all(len(known), len(everyone))})" if len(known) < len(everyone) else ""
        curves = {name: model for name, model in self._curves.items() if name in known or name not in everyone}
        if curves:
            figures[f"Intensity with its 95 % band{part}"] = plot_intensities(curves, truth)
        waits = {}
        if isinstance(self.state, FunctionState):
            waits = {name: self.outcome.memories[name].waits.get(self.state.kept, ()) for name in known}
        if tests := {name: rescaling_test([held]) for name, held in waits.items() if len(held)}:
            figures[f"Waits between held-out events on the model's clock{part}"] = plot_quantiles(tests)
        return figures


def _of_all(shown: int, everyone: int) -> str:
    return f"{shown} of {everyone} clients; plot(['NAME', ...]) draws others"


def _in_words(time: float, model: IntensityOverTime) -> str:
    """Return when something is, in words: of a period, which day of the week or time of day."""
    clock = model.clock
    if not clock.dates:
        return f"at {time:.3g}"
    if not (rhythm := clock.rhythm(model.period)):
        return f"at {clock.text(time)[:16]}"
    date = clock.date(time)
    return f"{f'on {date.day_name()}s ' if rhythm == 'week' else ''}at {date:%H:%M}"


class KernelCurve(IntensityOverTime):
    """A client's intensity over time where a prior over kernels is shared."""

    def __init__(self, method: SharedPrior, memory: PriorMemory, clock: Clock):
        self.method, self.memory, self.clock = method, memory, clock
        self.grid = Grid(float(memory.span[0]), float(memory.span[1]), method.cells)
        self.seen = (float(memory.seen[0]), float(memory.seen[1]))

    @property
    def ceiling(self) -> float:
        """The expected rate m: the sigmoid never exceeds 1."""
        return float(self.memory.shape[0] / self.memory.rate[0])

    def _posterior(self, times: Floats) -> Posterior:
        """Return what is believed at the mean of the kernel's posterior."""
        import torch

        from cotempo.events.cox.kernels import make_kernel
        from cotempo.events.cox.updates import Posterior

        scaled = (times - self.grid.start) * (100.0 / (self.grid.end - self.grid.start))
        at = torch.from_numpy(scaled / 50 - 1)[:, None]
        inducing = torch.linspace(-1, 1, self.method.inducing, dtype=torch.float64)[:, None]
        kernel = make_kernel(self.method.kernel, torch.from_numpy(np.array(self.memory.mean)), at, inducing)
        return Posterior.from_memory(self.memory, kernel, 0)

    def mean(self, times: Floats) -> Floats:
        """Return the posterior mean."""
        return self._posterior(times).relative().mean

    def band(self, times: Floats, level: float) -> Band:
        """Return a band by the joint information in (v, log m)."""
        return Band.from_logarithm(*self._posterior(times).relative(), level)

    def masses(self, stretch: Grid) -> Floats:
        """Return integrals of intensities that lie everywhere as high in the band."""
        _, centre, deviation = self._posterior(stretch.middles).relative()
        noise = np.random.default_rng(0).standard_normal((CELLS, 1))
        return np.asarray(np.exp(centre + noise * deviation).sum(axis=1) * stretch.width)


def make_intensity(state: FunctionState, memory: FunctionMemory, clock: Clock) -> SharedCurve | HistoryIntensity:
    """Return a client's intensity by the model that was kept."""
    return (SharedCurve if state.kept == "curve" else HistoryIntensity)(state, memory, clock)


class SharedCurve(DrawnIntensity):
    """A client's intensity over time: the shared curve at the client's level, with its deviation.

    The uncertainty of the curve is that of smooth curves, steps and bins (`shapes`), whichever estimate was chosen.
    """

    def __init__(self, state: FunctionState, memory: FunctionMemory, clock: Clock):
        self.state, self.memory, self.clock = state, memory, clock
        self.anytime, self.period = state.design.repeats, state.design.period if state.design.repeats else None
        first, last = (2 * state.span - self.local(state.span)).tolist()
        self.grid = Grid(first, last, state.design.cells)
        self.seen = (float(memory.seen[0]), float(memory.seen[1]))
        self.curve, self.course = state.timeline.curves[-1], memory.course

    @cached_property
    def _kept(self) -> OwnRate:
        return shared.curve_rate(self.state, self.memory)

    @cached_property
    def _profile(self) -> RateProfile:
        profile = self.state.design.process("curve")
        assert isinstance(profile, RateProfile)
        return profile

    @cached_property
    def shapes(self) -> list[Shape]:
        """The models the posterior of the curve is made of."""
        events, exposure = self.state.timeline.sums.sum(axis=1) / self.state.timeline.temper
        return learn_shapes(events, exposure, min(len(events), CELLS), self.state.design.repeats)

    @cached_property
    def _known(self) -> Floats:
        """The posterior mean of the curve in its cells."""
        middles = (np.arange(len(self.curve)) + 0.5) / len(self.curve)
        return np.asarray(np.maximum(mean_at(middles, self.shapes), FLOOR * self.curve))

    def _curves(self, place: Floats, cell: Indices) -> Floats:
        """Return draws of the curve, ``(draws, places)``: of the posterior, moved part of the way to the estimate.

        How far each is moved is uniform: where the estimate and the posterior disagree, the band holds both.
        """
        drawn = draws_at(place, self.shapes)
        moved = np.random.default_rng(0).uniform(size=(len(drawn), 1))
        return np.asarray(drawn * (self.curve[cell] / self._known[cell]) ** moved)

    def drawn_inside(self, times: Floats) -> Floats:
        """Return draws of the client's rate, ``(draws, times)``."""
        times = self.local(times)
        drawn = self._drawn(self._profile.share(times), self._profile.place(times))
        return drawn * self.course.draw(len(drawn))[:, self.course.block(times)]

    def _drawn(self, place: Floats, cell: Indices) -> Floats:
        """Return draws of the client's rate at places of the curve, from 0 to 1, and their cells."""
        drawn = self._curves(place, cell)
        kept, stream = self._kept, np.random.default_rng(1)
        level = np.sqrt(kept.level) * stream.standard_normal((len(drawn), 1))
        # By their covariance: hours that deviate one by one say little about a week, if they did together much.
        size = len(kept.covariance)
        bent = stream.multivariate_normal(np.zeros(size), kept.covariance, len(drawn), "ignore", method="eigh")
        own = (kept.rate / self.curve)[cell] * np.exp(level + bent[:, cell * size // len(self.curve)])
        return np.asarray(drawn * own * self._balance)

    @cached_property
    def _balance(self) -> Floats:
        """How much higher the level is given each draw of the curve than given its mean, ``(draws, 1)``.

        The client's own events fix the product of level and curve: what a draw has more of, its level has less.
        """
        strength = float(self.state.timeline.own[0])
        if np.isinf(strength):
            return np.ones((1, 1))
        cells = np.arange(len(self.curve))
        drawn = self._curves((cells + 0.5) / len(cells), cells) / self.curve
        mass = self.memory.cells[1] * self._kept.rate
        return np.asarray((strength + mass.sum()) / (strength + drawn @ mass))[:, None]

    def _watched(self, stretch: Grid) -> Floats:
        """Return how long a stretch of time is in each cell of the period, up to the end of the client's windows and
        in each block ahead, ``(1 + blocks, cells)``."""
        cuts = self.course.cuts
        found = np.zeros((1 + len(cuts), len(self.curve)))
        for first, last in self.clock.local_parts(stretch.start, stretch.end):
            edges = np.array([first, *cuts[(first < cuts) & (cuts < last)], last])
            for begin, end in pairwise(edges):
                found[self.course.block(np.array([end]))] += self._profile.exposure(np.array([begin]), np.array([end]))
        return found

    def mass(self, stretch: Grid) -> float:
        """Return the sum over cells: middles of a grid may meet peaks of the curve too often or never."""
        if not self.anytime:
            return super().mass(stretch)
        watched = self._watched(stretch)
        return float((watched[0] + self.course.level * watched[1:].sum(axis=0)) @ self._kept.rate)

    def masses(self, stretch: Grid) -> Floats:
        """Return the sums of the draws over cells."""
        if not self.anytime:
            return super().masses(stretch)
        cells = np.arange(len(self.curve))
        drawn = self._drawn((cells + 0.5) / len(cells), cells)
        return np.asarray(((drawn @ self._watched(stretch).T) * self.course.draw(len(drawn))).sum(axis=1))

    @property
    def ceiling(self) -> float:
        """A bound on the rate: within a cell it changes little."""
        return float(1.5 * self._kept.rate.max() * max(self.course.level, 1.0))

    def inside(self, times: Floats) -> Floats:
        """Return the curve at the client's level, with its deviation; a smooth estimate changes within cells.

        After the end of the client's windows the level is that of late (`LevelCourse`).
        """
        times = self.local(times)
        cell, curve = self._profile.place(times), self.curve
        smooth = self.state.timeline.smoother in ("average", "density")
        within = mean_at(self._profile.share(times), self.shapes) / self._known[cell] if smooth else 1.0
        level = np.where(self.course.block(times) > 0, self.course.level, 1.0)
        return np.asarray(curve[cell] * within * (self._kept.rate / curve)[cell] * level)

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        known = self._knows(record)
        return shared.likelihood(self.state, self.memory, record) if known else super().score_record(record)

    @property
    def references(self) -> dict[str, tuple[float, float]]:
        """The client's own events, and those of all clients."""
        summary = Summary.from_array(self.state.design.summary)
        return {"gain": self.seen, "gain_over_pooled": (summary.events, summary.exposure)}

    def _knows(self, record: Record) -> bool:
        """Whether a record lies in the span: there, sums over the cells are exact."""
        first, last = self.span
        return self.anytime or bool(first <= record.start.min() and record.end.max() <= last)

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        if not self._knows(record):
            return super().rescale_record(record)
        unrolled = unroll(record, np.zeros(0), WHOLE)
        level = np.where(self.course.block(unrolled.begin) > 0, self.course.level, 1.0)
        return waits(unrolled, level * self._profile.mass(unrolled, self._kept.rate))


class HistoryIntensity(IntensityGivenHistory):
    """A client's intensity given the events before, by the shared function."""

    def __init__(self, state: FunctionState, memory: FunctionMemory, clock: Clock):
        self.state, self.memory, self.clock = state, memory, clock
        self.anytime, self.period = state.design.repeats, state.design.period if state.design.repeats else None
        self.span = tuple((2 * state.span - self.local(state.span)).tolist())
        self.seen = (float(memory.seen[0]), float(memory.seen[1]))

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
        """Return what is believed of m times the sigmoid at features."""
        import torch

        from cotempo.events.cox.updates import Posterior
        from cotempo.events.shared_function.updates import function_at

        with torch.no_grad():
            rows, residual, at = function_at(torch.from_numpy(features)[None], *shared.to_torch(self.state))
        level = torch.tensor(self.memory.shape / self.memory.rate, dtype=torch.float64)
        return Posterior(rows[0], residual[0], at.centre[0], at.spread[0], self._root, level)

    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Return the base measure times what the function makes of it."""
        design = self.state.design
        times, history, start = self.local(times), np.sort(self.local(history)), float(self.local(np.array([start]))[0])
        unrolled = look_back(times, history, start, design.decays)
        base = np.exp(design.log_base(unrolled))
        features = design.features(unrolled.time, unrolled.elapsed, unrolled.recency)
        mean, centre, deviation = self.posterior(features).relative()
        return base * mean, np.log(base) + centre, deviation

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        return shared.likelihood(self.state, self.memory, record)

    def rescale_record(self, record: Record) -> list[Floats]:
        """Return the waiting times of a record on the clock of the model."""
        design = self.state.design
        unrolled = unroll(record, design.decays, FINE)
        mass, elapsed, time, recency = even_pieces(unrolled, design.base_mass(unrolled))
        features = design.features(time, elapsed, recency)
        return waits(unrolled, mass * shared.relative_mean(self.state, self.memory, features))


class EncoderIntensity(IntensityGivenHistory):
    """A client's intensity given the events before; with marks, the sum of one intensity per type."""

    def __init__(self, method: SharedPrior, state: PriorState, memory: PriorMemory, clock: Clock):
        self.method, self.state, self.memory, self.clock = method, state, memory, clock
        self.marks = state.marks if method.marks else ()
        self.span = (float(state.span[0]), float(state.span[1]))
        self.seen = (float(memory.seen[0]), float(memory.seen[1]))
        self.anytime = state.design.repeats

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

    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Return the intensity of all types together."""
        base, (mean, centre, deviation) = self._at(times, history, start, marks)
        # The sum of independent intensities, its logarithm by the delta method.
        level = np.exp(centre)
        total = level.sum(axis=0)
        spread = np.sqrt(((level / total * deviation) ** 2).sum(axis=0))
        return base * mean.sum(axis=0), np.log(base) + np.log(total), spread

    def intensity_by_type(
        self,
        times: Any,
        history: Any = (),
        marks: tuple[str, ...] = (),
        start: Any = None,
        level: float = 0.95,
    ) -> Mapping[str, Band]:
        """Return mean, lower and upper end of a band for each type of events; the means sum to that of `intensity`."""
        if not self.marks:
            raise DataError("there must be types of events to tell apart, the model learned without; use marks=True")
        check_level(level)
        at, past, begin = self.look_back(times, history, start)
        base, found = self._at(at.ravel(), past, begin, marks)
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

    def read(self, events: Any, window: tuple[Any, Any] | None = None) -> Record:
        """Return a table as a record, with types where they matter."""
        return Record.of(as_events(events, window, self.clock), marks=self.method.marks)

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
    end = max([start, *history[-1:].tolist(), *times.tolist()])
    window = (start, np.nextafter(end, np.inf) if end > start else start + 1.0)
    table = Events.from_arrays([history], window, [list(marks)] if known else None, known or None)
    return Record.of(table, condition=False, marks=bool(known))

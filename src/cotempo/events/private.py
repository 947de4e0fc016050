"""`PrivateCurve`: FedPP's curve of time from counts in cells that are noised once.

    total    clients send how many events they have; the noised total says how many cells the noise allows
    counts   clients send how many events they have in each cell of the agreed window, and how long they watched it
    keep     clients send nothing; each finds its own level of the curve, and keeps it

What one unit adds to the counts is bounded. One event adds 1 to one cell, however wide: fewer cells have less noise.
Windows are then taken as known. A sequence adds a vector of counts, which is scaled down to the norm ``sqrt(clip)``,
that of `clip` events in different cells, and of its window at most 1 to each of `BLOCKS` parts of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cotempo.data import Events, Schema, Table
from cotempo.data.clock import Clock
from cotempo.data.stamps import step_of_each
from cotempo.errors import DataError, MessageError, ParameterError, Problem, warn
from cotempo.events.base_measure import cells_of, first_design
from cotempo.events.curves.timeline import LEAST_CELLS, Timeline, fit_curve
from cotempo.events.records.design import FeatureDesign, dispersion
from cotempo.events.records.record import Record, Summary, gap_quantiles, read_record
from cotempo.events.shared_function.client import FunctionMemory, FunctionState, first_memory, first_state
from cotempo.federation import Answers, Ask, Expect, Fitted, Message, Metrics, Outcome, Question, Rng, Roster, Spec
from cotempo.privacy.private_form import PrivateForm
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.privacy.settings import Privacy

#: Of one sequence: events in different cells that count in full, by default.
CLIP = 50.0
#: Parts of time in which the exposure of sequences is told, and the share of the budget for it.
BLOCKS, EXPOSURE = 12, 0.1
#: Share of the budget for the total, which only chooses the cells.
TOTAL = 0.02
#: The variance of the noise in a cell is at most this share of its mean count; there are at least so many cells.
NOISE, FEWEST_CELLS = 0.1, 12
#: An event whose time was cut down to a step is counted in so many equal parts over it.
PARTS = 12
#: Own events must speak for a level of one's own by more than this, as in Akaike's criterion.
PENALTY = 2.0
#: Pseudo-events that draw a client's level to that of all, so that a client without any has one.
STRENGTH = 0.5


@dataclass(frozen=True)
class PrivateCurveState:
    """State of the server: the number of cells, noised events and exposure in them, the curve, and its temper.

    An estimate believes one in `temper` events.
    """

    phase: str
    cells: int = 0
    events: Floats = field(default_factory=lambda: np.zeros(0))
    exposure: Floats = field(default_factory=lambda: np.zeros(0))
    curve: Floats = field(default_factory=lambda: np.zeros(0))
    temper: float = 1.0


class PrivateCurve(PrivateForm):
    """The private form of FedPP with the kernel ``time``."""

    phases: ClassVar[tuple[str, ...]] = ("total", "counts", "keep")
    State: ClassVar[type] = PrivateCurveState

    @classmethod
    def of_method(cls, method: Any, privacy: Privacy) -> PrivateCurve:
        """Return the form; refuse what counts in cells cannot give."""
        if method.share != "function" or method.kernel != "time" or method.window is None:
            raise ParameterError(
                "epsilon needs kernel='time' and a window all clients agreed on, FedPP(kernel='time', window=(start, "
                f"end)), got share={method.share!r}, kernel={method.kernel!r} and window={method.window}"
            )
        if privacy.unit == "sequence" and method.period is not None:
            raise ParameterError("period must be left out with unit='sequence', whose windows may hold many periods")
        return cls.of(method, privacy)

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """Nearly all of it for the counts."""
        return {"total": (TOTAL, 1), "counts": (1 - TOTAL, 1)}

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return scales for one event or one sequence; windows do not change with one event."""
        if phase == "total":
            return {"total": 1.0 if self.privacy.unit == "row" else self.norm}
        if self.privacy.unit == "row":
            return {"events": 1.0, "exposure": 0.0}
        return {"events": self.norm / math.sqrt(1 - EXPOSURE), "exposure": math.sqrt(BLOCKS / EXPOSURE)}

    @property
    def norm(self) -> float:
        """The largest norm of a sequence's counts."""
        return math.sqrt(self.privacy.clip or CLIP)

    def design(self, cells: int) -> FeatureDesign:
        """Return how events are counted in so many cells, from what was agreed on."""
        start, end = self.inner.window
        summary = Summary(1.0, 1.0, start, end, gap_quantiles(np.zeros(1), 1.0, np.array([start, end])))
        return replace(first_design(self.inner), summary=summary.to_array(), cells=cells)

    # At a client.

    def public_schema(self, schema: Schema) -> Schema:
        """Leave out the marks, which mean nothing to a curve of all events: one may occur in a single event."""
        return replace(schema, columns=())

    def prepare(self, table: Table) -> Record:
        """Read events and windows; which step times were cut down to is told by each of them alone."""
        assert isinstance(table, Events)  # `check` saw the schema
        if table.guessed and self.privacy.unit == "row":
            must = "windows must be given with epsilon: those from the first event to the last tell when these were"
            raise DataError([Problem(f"{must}; pass windows= or columns start and end")])
        if self.privacy.unit == "sequence":
            low, high = self.inner.window
            inside = (low <= table.start) & (table.end <= high)
            if not inside.all():  # to refuse the table would tell of one sequence
                warn(f"sequences with a window that is not in {low:g} to {high:g} are left out, {(~inside).sum()} are")
            table = table.take(np.flatnonzero(inside))
        self.inner.prepare(table)
        record = read_record(table, local=self.inner.period is not None, spread=False)
        return spread_alone(record, record.time if self.inner.period else table.clock.local(record.time), table.clock)

    def begin(self, prepared: Record, rng: Rng) -> FunctionMemory:
        """Begin with nothing known."""
        return first_memory(prepared.events, prepared.exposure)

    def answer(
        self, question: Question, prepared: Record, memory: FunctionMemory, rng: Rng
    ) -> tuple[Message, FunctionMemory | None]:
        """Send the total, then counts in the cells that were chosen; at the end find the own level."""
        if question.phase == "keep":
            return Message(), replace(memory, cells=self._level(question.common["curve"], prepared))
        by_sequence = self.privacy.unit == "sequence"
        if question.phase == "total":
            totals = np.bincount(prepared.sequence, weights=prepared.count)
            return Message({"total": np.array([np.minimum(totals, self.norm if by_sequence else np.inf).sum()])}), None
        cells = question.common["cells"]
        if not (isinstance(cells, int) and 1 <= cells <= self.inner.cells):  # an error later would tell of events
            raise MessageError(f"cells must be a whole number from 1 to {self.inner.cells}")
        design = self.design(cells)
        if by_sequence:
            exposure = cells_of(self.design(BLOCKS), prepared)[1] * BLOCKS / self._length
            return Message({"events": self._clipped(design, prepared), "exposure": exposure}), None
        events, watched = cells_of(design, prepared)
        return Message({"events": events, "exposure": watched * design.cells / self._length}), None

    def _clipped(self, design: FeatureDesign, record: Record) -> Floats:
        """Return the sum over sequences of their counts in cells, each scaled down to the largest norm."""
        place = design.process("curve").place(record.time)  # type: ignore[attr-defined]
        total = np.zeros(design.cells)
        for sequence in np.unique(record.sequence):
            own = record.sequence == sequence
            counts = np.bincount(place[own], weights=record.count[own], minlength=design.cells)
            total += counts * min(1.0, self.norm / max(float(np.linalg.norm(counts)), 1e-300))
        return total

    def _level(self, curve: Floats, record: Record) -> Floats:
        """Return the events that the client's own level of the curve expects, and its exposure, ``(2, cells)``."""
        design = self.design(len(curve))
        events, exposure = cells_of(design, record)
        misfit, expected, _ = dispersion(record, design.process("curve"), curve).sum(axis=0)
        level = own_level(float(events.sum()), float(exposure @ curve), misfit / max(expected, 1e-300))
        return np.stack([level * exposure * curve, exposure])

    @property
    def _length(self) -> float:
        return float(self.inner.period or self.inner.window[1] - self.inner.window[0])

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PrivateCurveState:
        """Begin with nothing known."""
        return PrivateCurveState("total")

    def ask(self, state: PrivateCurveState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for the total, then for counts; then tell the curve."""
        if state.phase == "finished":
            return None
        told: dict[str, Any] = {"total": {}, "counts": {"cells": state.cells}, "keep": {"curve": state.curve}}
        return Ask(state.phase, cohort, Message(told[state.phase]), ends_round=state.phase == "keep")

    def absorb(
        self, state: PrivateCurveState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateCurveState, Metrics]:
        """Choose the cells, then learn the curve from the counts in them."""
        if state.phase == "keep":
            return replace(state, phase="finished"), {}
        counted, asked = len(answers.names), len(answers.names) + len(answers.failures)
        deviation = self.total_deviation("counts", self.scales("counts", Message())["events"], counted, asked)
        if state.phase == "total":
            cells = choose_cells(float(answers.sum["total"][0]), deviation, int(self.inner.cells))
            return PrivateCurveState("counts", cells), {"cells": float(cells)}
        # An estimate needs some cells: counts are spread evenly over them.
        cells = state.cells * math.ceil(LEAST_CELLS / state.cells)
        events = np.repeat(np.maximum(answers.sum["events"], 0.0), cells // state.cells) * state.cells / cells
        told = np.append(0.0, np.cumsum(answers.sum["exposure"]))
        exposure = np.interp(np.linspace(0, 1, cells + 1), np.linspace(0, 1, len(told)), told)
        # Exposure is told in units of a cell, or of a block.
        exposure = np.maximum(np.diff(exposure), 0.0) * self._length / (len(told) - 1)
        exposure = np.maximum(exposure, max(1e-9 * float(exposure.max()), 1e-300))
        # A count varies by its own size and by the noise: the estimate is to believe one event in so many.
        temper = 1 + deviation**2 * state.cells / max(float(events.sum()), 1.0)
        curve = fit_curve("average", temper, events, exposure, self.design(cells).repeats)
        return PrivateCurveState("keep", cells, events, exposure, curve, temper), {"events": float(events.sum())}

    def expects(self, state: PrivateCurveState, phase: str) -> Expect:
        """Expect noised sums, then nothing."""
        if phase == "keep":
            return Expect({}, sums=True, weight=(1, 1))
        if phase == "total":
            about = "how many events you have, with noise"
            return Expect({"total": Spec((1,), description=about)}, sums=True, weight=(1, 1))
        exposed = "how long you watched each cell of time"
        if self.privacy.unit == "sequence":
            exposed = "how long you watched each twelfth of the time, with noise"
        fields = {
            "events": Spec((state.cells,), description="how many events you have in each cell of time, with noise"),
            "exposure": Spec((state.cells if self.privacy.unit == "row" else BLOCKS,), description=exposed),
        }
        return Expect(fields, sums=True, weight=(1, 1))

    def result(self, outcome: Outcome) -> Fitted:
        """Return FedPP's result, with the curve learned from the noised counts."""
        fitted: Fitted = self.inner.result(
            replace(outcome, method=self.inner, state=self._learned(outcome.state, len(outcome.schemas)))
        )
        return fitted

    def _learned(self, state: PrivateCurveState, clients: int) -> FunctionState:
        start, end = self.inner.window
        events, exposure = state.events, state.exposure
        total = max(float(events.sum()), 1.0)
        gaps = gap_quantiles(np.zeros(1), float(exposure.sum()) / total, np.array([start, end]))
        summary = Summary(total, float(exposure.sum()), start, end, gaps)
        own, sums = np.array([STRENGTH, 1.0, 0.0]), np.stack([events, exposure])[:, None]
        line = Timeline(sums, state.curve[None], "average", state.temper, own, 1.0)
        rate = np.array([summary.rate])
        design = replace(self.design(len(events)), summary=summary.to_array(), parameters=rate)
        first = first_state(self.inner, clients, judged=False)
        return replace(first, stage="done", span=np.array([start, end]), design=design, timeline=line, kept="curve")


def spread_alone(record: Record, shown: Floats, clock: Clock) -> Record:
    """Return the record with events in equal parts over the step of their time, which depends on no other event.

    A step told by all times together would move all events when one more comes. `shown` are times of the local clock.
    """
    step = step_of_each(shown, clock)
    window = np.searchsorted(record.window_sequence, record.sequence)
    room = np.minimum(step, record.end[window] - record.time)
    parts = np.where(step > 0, PARTS, 1)
    row = np.repeat(np.arange(len(step)), parts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    time = record.time[row] + (part + 0.5) / PARTS * room[row]
    order = np.lexsort((time, record.sequence[row]))
    row, share = row[order], 1 / parts[row[order]]
    return replace(
        record, time=time[order], count=record.count[row] * share, sequence=record.sequence[row], held=record.held[row],
        size=record.size[row] * share, types=record.types[row] * share[:, None],
    )  # fmt: skip


def choose_cells(total: float, deviation: float, most: int) -> int:
    """Return how many cells to count in: the most in which noise adds little to the variance of a count.

    Examples
    --------
    >>> choose_cells(1400, 1.7, 1008), choose_cells(1e6, 1.7, 1008), choose_cells(-20, 1.7, 1008)
    (48, 1008, 12)
    """
    return int(np.clip(NOISE * max(total, 0.0) / max(deviation, 1e-9) ** 2, min(FEWEST_CELLS, most), most))


def own_level(events: float, expected: float, effect: float) -> float:
    """Return a client's level of a curve: 1, that of all, unless its events differ by more than chance explains.

    It is ``1 + w (n / e - 1)`` with ``w = max(0, 1 - 2 effect e / (n - e)**2)``, where sequences' counts vary `effect`
    times as much as Poisson's.

    Examples
    --------
    >>> own_level(110, 100, 1.0), own_level(200, 100, 1.0)
    (1.0, 1.98)
    """
    if not expected > 0:
        return 1.0
    kept = max(0.0, 1 - PENALTY * max(effect, 1.0) * expected / max((events - expected) ** 2, 1e-300))
    return 1 + kept * (events / expected - 1)

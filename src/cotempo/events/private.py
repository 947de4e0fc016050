"""`PrivateCurve`: FedPP's curve of time from counts in cells that are noised once.

    counts   clients send how many events they have in each cell of the agreed window, and how long they watched it
    keep     clients send nothing; each keeps its own counts, which its level is made of

What one unit adds to the counts is bounded. One event adds 1 to one cell; windows are then taken as known. A sequence
adds a vector of counts, which is scaled down to the norm ``sqrt(clip)``, that of `clip` events in different cells, and
of its window at most 1 to each of `BLOCKS` parts of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cotempo.data import Table
from cotempo.errors import ParameterError
from cotempo.events.base_measure import cells_of, first_design
from cotempo.events.curves.timeline import LEAST_CELLS, Timeline, fit_curve
from cotempo.events.records.design import FeatureDesign
from cotempo.events.records.record import Record, Summary, gap_quantiles
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
#: Cells are joined until the mean count is this many deviations of its noise.
CLEARLY = 3.0
FEWEST_PARTS = 12
#: Pseudo-events that draw a client's level to that of all.
STRENGTH = 8.0


@dataclass(frozen=True)
class PrivateCurveState:
    """State of the server: noised events and exposure in cells, and how many events count as one."""

    phase: str
    events: Floats = field(default_factory=lambda: np.zeros(0))
    exposure: Floats = field(default_factory=lambda: np.zeros(0))
    temper: float = 1.0


class PrivateCurve(PrivateForm):
    """The private form of FedPP with the kernel ``time``."""

    kind: ClassVar[str] = "events"
    phases: ClassVar[tuple[str, ...]] = ("counts", "keep")
    State: ClassVar[type] = PrivateCurveState
    Memory: ClassVar[type | None] = FunctionMemory
    units: ClassVar[tuple[str, ...]] = ("row", "sequence")

    @classmethod
    def of_method(cls, method: Any, privacy: Privacy) -> PrivateCurve:
        """Return the form; refuse what counts in cells cannot give."""
        if method.kernel != "time" or method.window is None:
            raise ParameterError(
                "epsilon needs kernel='time' and a window all clients agreed on, FedPP(kernel='time', window=(start, "
                f"end)), got kernel={method.kernel!r} and window={method.window}"
            )
        if privacy.unit == "sequence" and method.period is not None:
            raise ParameterError("period must be left out with unit='sequence', whose windows may hold many periods")
        return cls.of(method, privacy)

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """All of it for the counts."""
        return {"counts": (1.0, 1)}

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return scales for one event or one sequence; windows do not change with one event."""
        if self.privacy.unit == "row":
            return {"events": 1.0, "exposure": 0.0}
        return {"events": self.norm / math.sqrt(1 - EXPOSURE), "exposure": math.sqrt(BLOCKS / EXPOSURE)}

    @property
    def norm(self) -> float:
        """The largest norm of a sequence's counts."""
        return math.sqrt(self.privacy.clip or CLIP)

    @property
    def design(self) -> FeatureDesign:
        """How events are counted, from what was agreed on."""
        start, end = self.inner.window
        summary = Summary(1.0, 1.0, start, end, gap_quantiles(np.zeros(1), 1.0, np.array([start, end])))
        return replace(first_design(self.inner), summary=summary.to_array())

    # At a client.

    def prepare(self, table: Table) -> Record:
        """Read events and windows as arrays."""
        record: Record = self.inner.prepare(table)
        return record

    def begin(self, prepared: Record, rng: Rng) -> FunctionMemory:
        """Begin with nothing known."""
        return first_memory(prepared.events, prepared.exposure)

    def answer(
        self, question: Question, prepared: Record, memory: FunctionMemory, rng: Rng
    ) -> tuple[Message, FunctionMemory | None]:
        """Send counts, or keep them in the cells that were chosen."""
        if question.phase == "keep":
            return Message(), replace(
                memory, cells=cells_of(replace(self.design, cells=question.common["cells"]), prepared)
            )
        events, watched = cells_of(self.design, prepared)
        if self.privacy.unit == "row":
            return Message({"events": events, "exposure": watched / self._width}), None
        exposure = cells_of(replace(self.design, cells=BLOCKS), prepared)[1] * BLOCKS / self._length
        return Message({"events": self._clipped(prepared), "exposure": exposure}), None

    def _clipped(self, record: Record) -> Floats:
        """Return the sum over sequences of their counts in cells, each scaled down to the largest norm."""
        place = self.design.process("curve").place(record.time)  # type: ignore[attr-defined]
        total = np.zeros(self.inner.cells)
        for sequence in np.unique(record.sequence):
            own = record.sequence == sequence
            counts = np.bincount(place[own], weights=record.count[own], minlength=self.inner.cells)
            total += counts * min(1.0, self.norm / max(float(np.linalg.norm(counts)), 1e-300))
        return total

    @property
    def _length(self) -> float:
        return float(self.inner.period or self.inner.window[1] - self.inner.window[0])

    @property
    def _width(self) -> float:
        return self._length / float(self.inner.cells)

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PrivateCurveState:
        """Begin with nothing known."""
        return PrivateCurveState("counts")

    def ask(self, state: PrivateCurveState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for counts; then say in which cells each client keeps its own."""
        if state.phase == "finished":
            return None
        common = Message({"cells": len(state.events)}) if state.phase == "keep" else Message()
        return Ask(state.phase, cohort, common, ends_round=state.phase == "keep")

    def absorb(
        self, state: PrivateCurveState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateCurveState, Metrics]:
        """Join cells until their counts stand out from the noise."""
        if state.phase == "keep":
            return replace(state, phase="finished"), {}
        scale = self.scales("counts", answers.sum)["events"]
        asked = len(answers.names) + len(answers.failures)
        deviation = self.total_deviation("counts", scale, len(answers.names), asked)
        events, exposure = answers.sum["events"], answers.sum["exposure"]
        parts = choose_parts(len(events), float(events.mean()), deviation)
        joined = np.maximum(events.reshape(parts, -1).sum(axis=1), 0.0)
        # An estimate needs some cells: parts are spread evenly over them.
        cells = max(parts, parts * math.ceil(LEAST_CELLS / parts))
        deviation *= math.sqrt(len(events) / parts)
        events = np.repeat(joined, cells // parts) * parts / cells
        exposure = np.interp(
            np.linspace(0, 1, cells + 1), np.linspace(0, 1, len(exposure) + 1), np.append(0.0, np.cumsum(exposure))
        )
        # Exposure is told in units of a cell, or of a block, of its own.
        unit = self._width if self.privacy.unit == "row" else self._length / BLOCKS
        exposure = np.maximum(np.diff(exposure), 0.0) * unit
        # A count varies by its own size and by the noise: the estimate is to believe one event in so many.
        temper = 1 + deviation**2 * parts / max(float(events.sum()), 1.0)
        metrics = {"events": float(events.sum()), "parts": float(parts), "temper": temper}
        return PrivateCurveState("keep", events, exposure, temper), metrics

    def expects(self, state: PrivateCurveState, phase: str) -> Expect:
        """Expect noised sums, then nothing."""
        if phase == "keep":
            return Expect({}, sums=True, weight=(1, 1))
        cells = int(self.inner.cells)
        exposed = "how long you watched each cell of time"
        if self.privacy.unit == "sequence":
            exposed = "how long you watched each twelfth of the time, with noise"
        fields = {
            "events": Spec((cells,), description="how many events you have in each cell of time, with noise"),
            "exposure": Spec((cells if self.privacy.unit == "row" else BLOCKS,), description=exposed),
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
        events, exposure = state.events, np.maximum(state.exposure, 1e-9 * state.exposure.max())
        total = max(float(events.sum()), 1.0)
        gaps = gap_quantiles(np.zeros(1), float(exposure.sum()) / total, np.array([start, end]))
        summary = Summary(total, float(exposure.sum()), start, end, gaps)
        own = np.array([STRENGTH, 1.0, 0.0])
        sums = np.stack([events, exposure])[:, None]
        rate = np.array([summary.rate])
        design = replace(self.design, cells=len(events), summary=summary.to_array(), parameters=rate)
        curve = fit_curve("average", state.temper, events, exposure, design.repeats)
        line = Timeline(sums, curve[None], "average", state.temper, own, 1.0)
        first = first_state(self.inner, clients, judged=False)
        return replace(first, stage="done", span=np.array([start, end]), design=design, timeline=line, kept="curve")


def choose_parts(cells: int, mean: float, deviation: float) -> int:
    """Return into how many parts to join cells, the most whose mean count stands out from its noise."""
    joined = (CLEARLY * deviation / max(mean, 1e-9)) ** 2
    fitting = [parts for parts in range(1, cells + 1) if cells % parts == 0]
    return max((parts for parts in fitting if parts >= FEWEST_PARTS and cells / parts >= joined), default=FEWEST_PARTS)

"""FedNeural: neural point processes by federated averaging, the baseline from deep learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from cotempo.data import Events, Table, make_events
from cotempo.data.clock import Clock
from cotempo.errors import DataError, Problem
from cotempo.events.intensities.base import IntensityGivenHistory, LogNormal
from cotempo.events.records.record import Record, read_record
from cotempo.events.scores import gains
from cotempo.federation import Fitted, Method, Outcome, Rng, Roster, register
from cotempo.learners import FedAvgLearner
from cotempo.learners.state import LearnerMemory
from cotempo.typing import Floats

if TYPE_CHECKING:
    from torch import Tensor, nn

PARTS = {"validation": 4, "test": 9}
LONGEST = 256
EVENT, START, PADDING = 0, 1, 2


class Gaps(NamedTuple):
    """Gaps of sequences, ``(sequences, gaps)`` each.

    `time` is when a gap begins, since its sequence began; `before` how long the gap before was; `kind` what began it:
    the start of the window, an event, or nothing (padding). It has a `length` and ends with so many `events`. `phase`
    is when it begins, from -1 to 1 over the period or the client's own span.
    """

    time: Floats
    before: Floats
    kind: Floats
    length: Floats
    events: Floats
    phase: Floats

    def choose(self, rows: Any) -> Gaps:
        """Return some of the sequences."""
        return Gaps(*(part[rows] for part in self))

    def in_units(self, unit: float) -> Gaps:
        """Return the same with times counted in `unit`."""
        return self._replace(time=self.time / unit, before=self.before / unit, length=self.length / unit)


def make_gaps(record: Record, first: float, period: float) -> Gaps:
    """Cut a record into gaps; longer sequences than 256 distinct times are split."""
    parts: list[Floats] = []
    bounds = np.searchsorted(record.sequence, np.arange(len(record.origin) + 1))
    for start, end, number in zip(record.start, record.end, record.window_sequence, strict=True):
        inside = slice(int(bounds[number]), int(bounds[number + 1]))
        times, counts = record.time[inside], record.count[inside]
        for low in range(0, max(len(times), 1), LONGEST):
            begin = start if not low else times[low - 1]
            here, last = times[low : low + LONGEST], low + LONGEST >= len(times)
            edges = np.concatenate([[begin], here, [end] if last else []])
            count = np.append(counts[low : low + LONGEST], 0.0 if last else [])
            length = np.diff(edges)
            kind = np.append(START, np.full(len(length) - 1, EVENT))
            phase = 2 * np.mod((edges[:-1] - first) / period, 1.0) - 1
            parts.append(np.stack([edges[:-1] - edges[0], np.append(0.0, length[:-1]), kind, length, count, phase]))
    size = max((part.shape[1] for part in parts), default=1)
    padded = np.zeros((len(Gaps._fields), len(parts), size))
    padded[Gaps._fields.index("kind")] = PADDING
    for row, part in enumerate(parts):
        padded[:, row, : part.shape[1]] = part
    return Gaps(*padded)


class Batch(NamedTuple):
    """Sequences of one step of training, and the seed of the noise it draws."""

    gaps: Gaps
    seed: int


@dataclass(frozen=True)
class NeuralMemory(LearnerMemory):
    """What a client keeps: models, and how it counts time: its mean gap, its first start and its period."""

    unit: float = 1.0
    first: float = 0.0
    period: float = 1.0
    events: float = 0.0
    exposure: float = 1.0


@dataclass(frozen=True)
class NeuralData:
    """Gaps in the client's own unit, its mean gap among those it learns from."""

    gaps: Gaps
    memory: NeuralMemory


@register("fed-neural")
class FedNeural(FedAvgLearner):
    """A neural intensity given the events before; the server's model is the mean of the clients'.

    Clients count time in their own mean gaps, so that one model serves all levels of activity.

    Examples
    --------
    >>> clients, truth = make_events(clients=2, sequences=10, kind="hawkes")
    >>> fitted = FedNeural(rounds=2).fit(clients)
    >>> float(fitted["client-0"].intensity([1.0], [0.9]).mean[0]) > 0
    True
    """

    kind: ClassVar[str] = "events"
    uses_public: ClassVar[bool] = False
    metric: ClassVar[str] = "held-out gain in nats per event"
    Memory: ClassVar[type | None] = NeuralMemory

    model: Literal["mlp", "dec-ode", "tcvae", "tcddm", "rmtpp", "sahp", "thp", "nhp", "attnhp", "odetpp"] = Field(
        default="mlp",
        description="``'mlp'`` (a perceptron of elapsed time, last gaps and time), ``'dec-ode'`` (an influence of each "
        "event that follows a differential equation), ``'tcvae'`` or ``'tcddm'`` (the next gap by a variational or a "
        "diffusion decoder), or one of easy-tpp's (extra `baselines`): ``'rmtpp'``, ``'sahp'``, ``'thp'``, ``'nhp'``, "
        "``'attnhp'``, ``'odetpp'``",
    )
    learning_rate: float = Field(default=5e-3, gt=0, description="Adam's step")
    batch: int = Field(default=16, ge=1, description="sequences a step of training takes")
    period: float | None = Field(default=None, gt=0, description="period of time where there is one, such as a day")

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Table], None]:
        """Return a small instance for the contract."""
        clients, _ = make_events(clients=4, sequences=10, length=4.0, kind="hawkes", seed=0)
        return cls(rounds=2), dict(clients), None

    def prepare(self, table: Table) -> NeuralData:
        """Cut a table into gaps between events."""
        record = read_record(table)
        first, last = float(record.start.min()), float(record.end.max())
        period = self.period or last - first
        gaps = make_gaps(record, first, period)
        learned = gaps.choose(_rows(len(gaps.time), "train"))
        events, exposure = float(learned.events.sum()), float(learned.length.sum())
        unit = exposure / (events + 1)
        memory = NeuralMemory(unit=unit, first=first, period=period, events=events, exposure=exposure)
        return NeuralData(gaps.in_units(unit), memory)

    def begin(self, prepared: NeuralData, rng: Rng) -> NeuralMemory:
        """Begin with nothing learned."""
        return prepared.memory

    def inputs(self, roster: Roster) -> int:
        """Return 0: there are no inputs but gaps."""
        return 0

    def make_model(self, inputs: int) -> nn.Module:
        """Return the intensity."""
        from cotempo.events.neural.generative import DiffusionDecoder, VariationalDecoder
        from cotempo.events.neural.influences import DecoupledODE
        from cotempo.events.neural.models import Perceptron, Wrapped

        own: dict[str, Callable[[], nn.Module]]
        own = {"mlp": Perceptron, "dec-ode": DecoupledODE, "tcvae": VariationalDecoder, "tcddm": DiffusionDecoder}
        return own[self.model]() if self.model in own else Wrapped(self.model)

    def size(self, data: NeuralData) -> int:
        """Return the number of events learned from."""
        return int(data.gaps.choose(_rows(len(data.gaps.time), "train")).events.sum())

    def epoch_batches(self, data: NeuralData, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield few sequences at a time."""
        rows = rng.permutation(_rows(len(data.gaps.time), "train"))
        starts = range(0, len(rows), self.batch)
        for start, stream in zip(starts, rng.spawn(len(starts)), strict=True):
            yield Batch(data.gaps.choose(rows[start : start + self.batch]), int(stream.integers(2**31)))

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """Return minus the log-likelihood per event, or its bound."""
        import torch

        loss: Tensor = model.loss(batch.gaps, torch.Generator().manual_seed(batch.seed))
        return loss

    def score(self, model: Any, data: NeuralData, part: str) -> float | None:
        """Return the gain in nats per event over the client's own homogeneous rate; None where nothing is held out."""
        rows = _rows(len(data.gaps.time), part)
        return score_gaps(model, data.gaps.choose(rows), data.memory)["gain"] if len(rows) else None

    def result(self, outcome: Outcome) -> FittedNeural:
        """Return each client's intensity."""
        return FittedNeural(outcome)


def _rows(sequences: int, part: str) -> Any:
    """Return sequences to learn from, to choose by and to test on; where there are few, all are learned from."""
    place = np.arange(sequences) % 10
    if sequences < 10:
        return np.arange(sequences) if part == "train" else np.zeros(0, dtype=np.intp)
    held = np.isin(place, list(PARTS.values()))
    return np.flatnonzero(~held if part == "train" else place == PARTS[part])


def score_gaps(model: Any, sequences: Gaps, memory: NeuralMemory) -> dict[str, float]:
    """Return gain in nats per event over the client's own homogeneous rate, and expected over observed events."""
    import torch

    from cotempo.events.neural.models import log_likelihood_parts

    with torch.no_grad():
        seen, mass = (float(part) for part in log_likelihood_parts(model, sequences))
    own = (memory.events, memory.exposure / memory.unit)
    return gains(seen - mass, mass, float(sequences.events.sum()), float(sequences.length.sum()), {"gain": own})


class FittedNeural(Fitted):
    """The result of FedNeural; index it by a client's name."""

    method: FedNeural

    def __getitem__(self, client: str) -> NeuralIntensity:
        """Return a client's intensity, by the best model it has seen."""
        super().__getitem__(client)
        memory = self.outcome.memories.get(client)
        if memory is None or not memory.best.size:
            raise DataError([Problem("its last answer did not count, so there is no model for it", client)])
        return NeuralIntensity(self.method, memory, self.outcome.schemas[client].clock)


class NeuralIntensity(IntensityGivenHistory):
    """A client's neural intensity; a single model has no band, and its ends are NaN."""

    def __init__(self, method: FedNeural, memory: NeuralMemory, clock: Clock):
        self.method, self.memory, self.clock = method, memory, clock
        self.model: Any = method.new_model(0, memory.best)
        self.span = (memory.first, memory.first + memory.period)
        self.seen = (memory.events, memory.exposure)
        self.anytime = method.period is not None

    def _gaps(self, record: Record) -> Gaps:
        return make_gaps(record, self.memory.first, self.memory.period).in_units(self.memory.unit)

    def given(self, times: Floats, history: Floats, start: float, marks: tuple[str, ...]) -> LogNormal:
        """Look ahead to each time from the last event before it."""
        import torch

        from cotempo.events.neural.models import model_inputs

        end = max([start, *history.tolist(), *times.tolist()]) + self.memory.unit
        record = Record.of(Events.from_arrays([history], (start, end)), condition=False)
        gaps = self._gaps(record)
        edges = np.append(start, record.time)
        place = np.searchsorted(record.time, times, side="left")
        ahead = np.zeros((*gaps.time.shape, len(times)), dtype=np.float32)
        flat = ahead.reshape(-1, len(times))
        used = np.flatnonzero((gaps.kind != 2).ravel())
        flat[used[np.minimum(place, len(used) - 1)], np.arange(len(times))] = (times - edges[place]) / self.memory.unit
        with torch.no_grad():
            rate = self.model.rate(*model_inputs(self.model, gaps, ahead)).cpu().numpy().reshape(-1, len(times))
        mean = rate[used[np.minimum(place, len(used) - 1)], np.arange(len(times))].astype(np.float64)
        mean = np.maximum(mean, 1e-12) / self.memory.unit
        return mean, np.log(mean), np.full(len(times), np.nan)

    def score_record(self, record: Record) -> Mapping[str, float]:
        """Return the scores of a record."""
        return score_gaps(self.model, self._gaps(record), self.memory)

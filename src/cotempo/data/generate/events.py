"""`make_events`: Poisson and Hawkes processes with a known intensity."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data.argument_checks import as_generator, check_choice, check_counts, check_number
from cotempo.data.events import Events
from cotempo.data.tables import GENERATORS, client_names, numbered
from cotempo.errors import ParameterError, nearest
from cotempo.typing import Floats

PROCESSES = ("poisson", "hawkes")
RATE, SWING, DECAY = 2.0, 0.8, 2.0


@dataclass(frozen=True)
class EventsTruth:
    r"""The process behind `make_events`; every sequence begins at time 0.

    With :math:`r` a client's own rate and :math:`t_i` the events so far,

    - poisson: :math:`\lambda(t) = r\,(1 + a \sin(2\pi t / p))`,
    - hawkes: :math:`\lambda(t) = r + \sum_{t_i < t} b\,\beta\,e^{-\beta (t - t_i)}`,

    where the swing :math:`a = 0.8`, the period :math:`p`, half the length, the excitation :math:`b` and the decay
    :math:`\beta = 2` are the same at all clients.
    """

    kind: str
    rates: dict[str, float]
    length: float
    excitation: float
    mark_probabilities: tuple[float, ...]

    def intensity(self, client: str, times: ArrayLike, history: ArrayLike = ()) -> Floats:
        """Return the intensity just before each of `times`, ``(times,)``.

        `history` holds the events of the sequence, sorted; only those before a time count. Poisson events have none.
        """
        rate, at, past = self._rate(client), np.asarray(times, np.float64), np.asarray(history, np.float64)
        if self.kind == "poisson":
            return np.asarray(rate * (1 + SWING * np.sin(2 * np.pi * at / (self.length / 2))))
        lag = np.where(past < at[..., None], at[..., None] - past, np.inf)
        return np.asarray(rate + self.excitation * DECAY * np.exp(-DECAY * lag).sum(axis=-1))

    def compensator(self, client: str, times: ArrayLike, history: ArrayLike = ()) -> Floats:
        """Return the integral of the intensity from 0 to each of `times`; parameters as in `intensity`."""
        rate, at, past = self._rate(client), np.asarray(times, np.float64), np.asarray(history, np.float64)
        if self.kind == "poisson":
            period = self.length / 2
            wave = period / (2 * np.pi) * (1 - np.cos(2 * np.pi * at / period))
            return np.asarray(rate * (at + SWING * wave))
        lag = np.maximum(at[..., None] - past, 0)
        return np.asarray(rate * at + self.excitation * (1 - np.exp(-DECAY * lag)).sum(axis=-1))

    def _rate(self, client: str) -> float:
        if client not in self.rates:
            raise ParameterError(f"client must be a generated client, got {client!r}{nearest(client, self.rates)}")
        return self.rates[client]


def make_events(
    clients: int = 5,
    sequences: int = 20,
    length: float = 10.0,
    kind: Literal["poisson", "hawkes"] = "poisson",
    *,
    spread: float = 0.5,
    marks: int = 0,
    excitation: float = 0.5,
    seed: int = 0,
) -> tuple[dict[str, Events], EventsTruth]:
    """Generate events with a known intensity; clients share its shape and have their own rates.

    Returns the table of each client, and the truth.

    Parameters
    ----------
    clients, sequences
        The number of clients, and of sequences of each.
    length
        Every sequence is observed in ``[0, length]``.
    kind
        ``"poisson"`` (inhomogeneous, two waves in a window) or ``"hawkes"``.
    spread
        A client's rate is 2 times the exponential of a normal number of this standard deviation.
    marks
        The number of marks, drawn independently with known probabilities; 0 for unmarked events.
    excitation
        The expected number of events that one event triggers.
    seed
        Equal seeds give equal events.

    Examples
    --------
    >>> clients, truth = make_events(clients=2, sequences=3, seed=1)
    >>> truth.intensity("client-0", [0.0]) == truth.rates["client-0"]
    array([ True])
    """
    check_counts(clients=clients, sequences=sequences)
    check_counts(0, marks=marks)
    check_number("length", length, 0, open_low=True)
    check_number("spread", spread, 0)
    check_number("excitation", excitation, 0, 0.99)
    check_choice("kind", kind, PROCESSES)
    rng = as_generator(seed)
    names = client_names(clients)
    rates = {name: float(RATE * np.exp(spread * rng.standard_normal())) for name in names}
    chances = rng.dirichlet(np.full(marks, 5.0)) if marks else np.zeros(0)
    truth = EventsTruth(kind, rates, float(length), float(excitation), tuple(chances.tolist()))
    streams = zip(names, rng.spawn(clients), strict=True)
    return {name: _client(truth, name, sequences, stream) for name, stream in streams}, truth


GENERATORS["events"] = make_events


def _client(truth: EventsTruth, name: str, sequences: int, rng: np.random.Generator) -> Events:
    draw = {"poisson": _poisson, "hawkes": _hawkes}[truth.kind]
    times = [draw(truth, name, rng) for _ in range(sequences)]
    labels = [f"mark-{number}" for number in numbered(len(truth.mark_probabilities))]
    marks = [rng.choice(labels, len(part), p=truth.mark_probabilities).tolist() for part in times] if labels else None
    return Events.from_arrays(times, (0.0, truth.length), marks, labels if labels else None)


def _poisson(truth: EventsTruth, client: str, rng: np.random.Generator) -> Floats:
    """Thin a homogeneous process at the highest intensity (Lewis and Shedler, 1979)."""
    top = truth.rates[client] * (1 + SWING)
    times = np.sort(rng.uniform(0, truth.length, rng.poisson(top * truth.length)))
    return np.asarray(times[rng.uniform(0, top, len(times)) < truth.intensity(client, times)])


def _hawkes(truth: EventsTruth, client: str, rng: np.random.Generator) -> Floats:
    """Thin under the intensity after the last point, which only falls until the next (Ogata, 1981)."""
    found: list[float] = []
    rate, time, excited = truth.rates[client], 0.0, 0.0
    while True:
        top = rate + excited
        wait = rng.exponential(1 / top)
        time += wait
        if time > truth.length:
            return np.array(found)
        excited *= float(np.exp(-DECAY * wait))
        if rng.uniform(0, top) < rate + excited:
            found.append(time)
            excited += truth.excitation * DECAY

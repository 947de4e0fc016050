r"""Events of several types from a random continuous-time LSTM: the recipe of the Conttime data.

(Mei and Eisner, The neural Hawkes process, NeurIPS 2017: five types, width 32, all weights uniform in [-1, 1].)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from cotempo.data import Events
from cotempo.errors import ParameterError

Floats = NDArray[np.float64]
GATES = 7


@dataclass(frozen=True)
class Cell:
    """The memory after an event: it runs from `now` to `later` at the speed `decay`, read through `output`."""

    now: Floats
    later: Floats
    decay: Floats
    output: Floats

    def after(self, wait: Floats) -> Floats:
        """What is read after a while, ``(waits, width)``."""
        memory = self.later + (self.now - self.later) * np.exp(-self.decay * wait[:, None])
        return np.asarray(self.output * np.tanh(memory))


@dataclass(frozen=True)
class NeuralHawkes:
    r"""A process whose intensities :math:`\lambda_k(t) = \mathrm{softplus}(w_k^\top h(t))` follow an LSTM whose
    memory decays between events.

    Parameters
    ----------
    embed, gates, read
        Weights: types ``(types + 1, width)`` (the last stands for the start), gates ``(7, 2 width + 1, width)`` and
        intensities ``(types, width)``.
    """

    embed: Floats
    gates: Floats
    read: Floats

    @classmethod
    def draw(cls, types: int = 5, width: int = 32, rng: np.random.Generator | int = 0) -> NeuralHawkes:
        """Draw all weights uniformly from [-1, 1]."""
        if types < 1 or width < 1:
            raise ParameterError(f"types and width must be at least 1, got {types} and {width}")
        stream = np.random.default_rng(rng)
        sizes = ((types + 1, width), (GATES, 2 * width + 1, width), (types, width))
        return cls(*(stream.uniform(-1, 1, size) for size in sizes))

    def start(self) -> Cell:
        """The memory when nothing has happened yet."""
        nothing = np.zeros(self.read.shape[1])
        return self.step(Cell(nothing, nothing, nothing, nothing), 0.0, len(self.embed) - 1)

    def step(self, cell: Cell, wait: float, kind: int) -> Cell:
        """The memory after an event of a type, `wait` after the one before."""
        hidden = cell.after(np.array([wait]))[0]
        memory = cell.later + (cell.now - cell.later) * np.exp(-cell.decay * wait)
        enter, forget, output, value, enter_later, forget_later, decay = (
            np.concatenate([self.embed[kind], hidden, [1.0]]) @ self.gates
        )
        value = 2 * expit(value) - 1
        return Cell(
            expit(forget) * memory + expit(enter) * value,
            expit(forget_later) * cell.later + expit(enter_later) * value,
            np.logaddexp(0.0, decay),
            expit(output),
        )

    def rates(self, cell: Cell, wait: ArrayLike) -> Floats:
        """Intensities of all types, ``(waits, types)``."""
        hidden = cell.after(np.atleast_1d(np.asarray(wait, dtype=np.float64)))
        return np.asarray(np.logaddexp(0.0, hidden @ self.read.T))

    @property
    def ceiling(self) -> float:
        """No intensity in total exceeds this: what is read lies between -1 and 1."""
        return float(np.logaddexp(0.0, np.abs(self.read).sum(axis=1)).sum())

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
        """Times and types of the first `count` events, by thinning."""
        times, kinds = np.zeros(count), np.zeros(count, dtype=np.int64)
        cell, last = self.start(), 0.0
        for number in range(count):
            time = last
            while True:
                # The memory runs monotonely to `later`: its ends bound each coordinate until the next event.
                ends = cell.after(np.array([time - last, np.inf]))
                top = np.logaddexp(0.0, np.maximum(self.read * ends[0], self.read * ends[1]).sum(axis=1)).sum()
                time += rng.exponential(1 / top)
                rates = self.rates(cell, time - last)[0]
                if rng.uniform(0, top) < rates.sum():
                    break
            kind = int(rng.choice(len(rates), p=rates / rates.sum()))
            cell = self.step(cell, time - last, kind)
            times[number], kinds[number], last = time, kind, time
        return times, kinds

    def compensator(self, times: ArrayLike, kinds: ArrayLike, points: int = 200) -> Floats:
        """Waits on the clock of the process: the integral of the total intensity over each gap."""
        waits, cell, last = [], self.start(), 0.0
        share = (np.arange(points) + 0.5) / points
        for time, kind in zip(np.asarray(times), np.asarray(kinds), strict=True):
            waits.append(self.rates(cell, (time - last) * share).sum(axis=1).mean() * (time - last))
            cell, last = self.step(cell, time - last, int(kind)), time
        return np.array(waits)


def make_neural_hawkes(
    clients: int = 5, sequences: int = 20, shortest: int = 20, longest: int = 100, types: int = 5, seed: int = 0
) -> tuple[dict[str, Events], NeuralHawkes]:
    """Make events of several types from one random neural Hawkes process.

    Parameters
    ----------
    clients, sequences
        The number of clients, and of sequences of each.
    shortest, longest
        Bounds of the number of events of a sequence, drawn evenly; a window ends with its last event.
    types
        The number of types.
    seed
        Equal seeds give equal events.

    Examples
    --------
    >>> clients, truth = make_neural_hawkes(clients=1, sequences=2, longest=30)
    >>> clients["client-0"].marks
    ('0', '1', '2', '3', '4')
    """
    if not 1 <= shortest <= longest or clients < 1 or sequences < 1:
        raise ParameterError("clients, sequences and shortest must be at least 1, and longest not below shortest")
    rng = np.random.default_rng(seed)
    truth = NeuralHawkes.draw(types, rng=rng)
    made = {}
    for number, stream in enumerate(rng.spawn(clients)):
        drawn = [truth.sample(int(stream.integers(shortest, longest + 1)), stream) for _ in range(sequences)]
        windows = [(0.0, times[-1]) for times, _ in drawn]
        marks = [[str(kind) for kind in kinds] for _, kinds in drawn]
        names = [str(kind) for kind in range(types)]
        made[f"client-{number}"] = Events.from_arrays([times for times, _ in drawn], windows, marks, names)
    return made, truth

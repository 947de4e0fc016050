"""Scores of canaries: how likely each was in a run, by what the coordinator saw.

The messages read here are sums over units. Who knows all of the data but the canaries can subtract what the rest adds;
what is left is a sum of what single canaries add, plus noise. Which of them are in it is a linear problem, solved for
the posterior mean of each (linear minimum mean square error). This reader is the one that differential privacy is
about, and knows more than a coordinator does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cotempo.auditing.canaries import Canaries
from cotempo.auditing.listening import Heard, Listener
from cotempo.data import Table
from cotempo.errors import DataWarning, ParameterError
from cotempo.federation import Message, Method, Rng
from cotempo.privacy.private_form import PrivateForm
from cotempo.typing import Array, Floats

#: Where there is no noise, its size as a share of what canaries add: rounding is about so large.
ROUNDING = 1e-7
#: Draws of weights of rows from which a reader who does not know them learns how much they blur.
DRAWS = 4
Part = Callable[[Array], Array]


def whole(values: Array) -> Array:
    """Return a field as it is."""
    return values


def all_parts(values: Array) -> Array:
    """Return the sum over parts of the rows, such as folds."""
    return np.asarray(values.sum(axis=0))


def last_part(values: Array) -> Array:
    """Return the last of several sums, that of all rows."""
    return np.asarray(values[-1])


class SummedPhase(NamedTuple):
    """A phase of a run whose messages are sums over units, and the fields to read, each with the part that counts."""

    phase: str
    fields: Mapping[str, Part]


#: By class of the method or of its private form. Each phase is read where it was asked last.
READINGS: Mapping[str, tuple[SummedPhase, ...]] = {
    "OneRound": (SummedPhase("products", {"sums": all_parts, "products": all_parts}),),
    "EdgeRanking": (SummedPhase("moments", {"sums": all_parts, "products": all_parts}),),
    "TrialThenFit": (SummedPhase("centre", {"sums": last_part}), SummedPhase("spread", {"squares": last_part})),
    "PrivateNetwork": (SummedPhase("moments", {"sums": whole, "squares": whole, "products": whole}),),
    "FedPP": (SummedPhase("recount", {"events": all_parts}),),
    "PrivateCurve": (SummedPhase("counts", {"events": whole}),),
    "EventDetector": (SummedPhase("sums", {"frequency": whole}),),
    "PrivateDetector": (SummedPhase("sums", {"frequency": whole}),),
    "FedMoments": (SummedPhase("moments", {"products": last_part}),),
    "PrivateMoments": (SummedPhase("moments", {"squares": whole, "products": whole}),),
}


def readings(method: Method) -> tuple[SummedPhase, ...]:
    """Return which messages of a method are read; raise `ParameterError` if there are no canaries for it."""
    for cls in type(method).__mro__:
        found = READINGS.get(cls.__name__, ())
        if found and all(reading.phase in method.phases for reading in found):
            return found
    known = "OneRound, FDBNL, PFDBNL, EdgeRanking, FedPP(share='function'), EventDetector, FedMoments, FedTDD"
    name = type(getattr(method, "inner", method)).__name__
    raise ParameterError(f"there must be canaries for the method, {name} has none; those with canaries are {known}")


class Replay:
    """Answers a run's questions again, for any table, as an honest client without noise would."""

    def __init__(self, method: Method, listener: Listener):
        self.method = allow_few_rows(method)
        self.heard: list[tuple[SummedPhase, Heard]] = []
        for reading in readings(method):
            self.heard.append((reading, listener.phase(reading.phase)[-1]))

    def add_up(self, tables: Iterable[Table | None]) -> list[Floats]:
        """Return the sum of what tables add to each field read; None adds nothing."""
        total: list[Any] = [0.0] * sum(len(reading.fields) for reading, _ in self.heard)
        for table in tables:
            if table is not None:
                total = [one + other for one, other in zip(total, self._answer(table), strict=True)]
        return [np.asarray(one) for one in total]

    def _answer(self, table: Table) -> list[Floats]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # of few rows, which say nothing about the client's table
            prepared = self.method.prepare(table)
        memory, found = self.method.begin(prepared, Rng(0)), []
        for reading, heard in self.heard:
            message, _ = self.method.answer(heard.question, prepared, memory, Rng(0))
            found += pick(reading, message)
        return found

    def observe(self, client: str) -> list[Floats]:
        """Return what was seen of a client, or of the total."""
        found = []
        for reading, heard in self.heard:
            message = heard.seen_of(client)
            assert message is not None  # sums have a total, and others single messages
            found += pick(reading, message)
        return found

    def noise(self, clients: int, *, masked: bool) -> list[float]:
        """Return the deviation of the noise in each field; zeros where there is none."""
        method, found = self.method, []
        for reading, heard in self.heard:
            if not isinstance(method, PrivateForm):
                found += [0.0] * len(reading.fields)
                continue
            message = heard.total if heard.total is not None else next(iter(heard.singles.values()))
            scales, counted = method.scales(reading.phase, message), clients if masked else 1
            found += [method.total_deviation(reading.phase, scales[name], counted, clients) for name in reading.fields]
        return found


def pick(reading: SummedPhase, message: Message) -> list[Floats]:
    """Return the fields that are read, each as a vector."""
    return [np.asarray(part(message[name]), np.float64).ravel() for name, part in reading.fields.items()]


def allow_few_rows(method: Method) -> Method:
    """Return the method without its least number of rows: here it answers for a few at a time."""
    if isinstance(method, PrivateForm):
        return method.model_copy(update={"inner": allow_few_rows(method.inner)})
    return method.model_copy(update={"minimum_rows": 1}) if hasattr(method, "minimum_rows") else method


def score_canaries(
    replay: Replay, canaries: Canaries, client: str, tables: Mapping[str, Table], *, weighed: bool = False
) -> Floats:
    """Return for each canary how likely it was in the run, about 0 or 1 where nothing is hidden.

    Parameters
    ----------
    tables
        The clients' tables before the canaries were put in.
    weighed
        Whether clients weighed their rows, by weights the reader does not know.
    """
    masked = client not in replay.heard[0][1].singles
    own = canaries.insert(np.zeros(canaries.count, np.bool_))
    rest = [own, *(table for name, table in tables.items() if name != client and masked)]
    known = replay.add_up(rest)
    effects = effects_of(replay, canaries)
    left = [seen - base for seen, base in zip(replay.observe(client), known, strict=True)]
    blurs = blur(replay, rest, known, canaries.stream) if weighed else [0.0] * len(known)
    noises = replay.noise(len(tables), masked=masked)
    deviations = [
        math.hypot(noise, by_weights, ROUNDING * math.sqrt(np.mean(effect**2)), 1e-300)
        for noise, by_weights, effect in zip(noises, blurs, effects, strict=True)
    ]
    scaled = np.hstack([effect / one for effect, one in zip(effects, deviations, strict=True)])
    residual = np.concatenate([part / one for part, one in zip(left, deviations, strict=True)])
    return most_likely(scaled, residual)


def effects_of(replay: Replay, canaries: Canaries) -> list[Floats]:
    """Return what each canary adds to each field, ``(canaries, numbers)``."""
    each = []
    for place in range(canaries.count):
        present, absent = (replay.add_up([canaries.around(place, present=one)]) for one in (True, False))
        each.append([one - other for one, other in zip(present, absent, strict=True)])
    return [np.stack(fields) for fields in zip(*each, strict=True)]


def blur(replay: Replay, tables: list[Table], known: list[Floats], stream: np.random.Generator) -> list[float]:
    """Return by how much weights of rows, drawn as clients draw them, change each field."""
    drawn = [replay.add_up([table.weigh_rows(stream) for table in tables]) for _ in range(DRAWS)]  # type: ignore[attr-defined]
    return [float(np.sqrt(np.mean([(one[place] - base) ** 2 for one in drawn]))) for place, base in enumerate(known)]


def most_likely(effects: Floats, residual: Floats) -> Floats:
    """Return the posterior mean of each canary's presence, given their sum with unit noise.

    With effects Phi, ``(canaries, numbers)``, and presences of mean 1/2 and variance 1/4 it is
    ``1/2 + (Phi Phi' + 4 I)^-1 Phi (residual - Phi' 1/2)``.
    """
    centred = residual - effects.sum(axis=0) / 2
    square = effects @ effects.T + 4 * np.eye(len(effects))
    return np.asarray(0.5 + np.linalg.solve(square, effects @ centred))

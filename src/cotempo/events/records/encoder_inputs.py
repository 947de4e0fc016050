"""EncoderInputs: a record cut into pieces, the steps an encoder reads and the rows between them where it is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotempo.events.records.design import FeatureDesign
from cotempo.events.records.history import SPIKES, look_back, place_in_sequence, unroll
from cotempo.events.records.record import Record, Summary
from cotempo.typing import Floats

# An encoder looks back over this many distinct times at least, and over twice as many at most.
MEMORY = 64
HISTORY = ("history", "lstm", "attention")
LIGHT = 5


@dataclass(frozen=True)
class EncoderInputs:
    """Inputs of an encoder for each piece of a sequence, padded with steps and rows that count nothing.

    `steps` has log gap, log size and phase of each distinct time, ``(pieces, steps, 3)``, and `types` the share of each
    type among its events, ``(pieces, steps, types)``. A row has `before` steps behind it, ``(pieces, rows)``; `light`
    is its log elapsed time, log decayed counts and phase, ``(pieces, rows, 5)``; `events` and `exposure` are its events
    of each type, ``(pieces, types, rows)``, and its base exposure, ``(pieces, rows)``. `where` has the piece, and the
    row within it, of each row in the order given, ``(all rows, 2)``.
    """

    steps: Floats
    types: Floats
    before: NDArray[np.int64]
    light: Floats
    events: Floats
    exposure: Floats
    where: NDArray[np.int64]

    def choose(self, number: int, rng: np.random.Generator) -> EncoderInputs:
        """Return a few pieces drawn at random, weighted so that they stand for all."""
        total = len(self.steps)
        if number >= total:
            return self
        kept = np.sort(rng.choice(total, number, replace=False))
        weight = total / number
        return EncoderInputs(
            self.steps[kept], self.types[kept], self.before[kept], self.light[kept],
            weight * self.events[kept], weight * self.exposure[kept], self.where[:0],
        )  # fmt: skip


def light_features(design: FeatureDesign, time: Floats, elapsed: Floats, recency: Floats) -> Floats:
    """Return features that know no unit of time, each of about unit size, ``(rows, 5)``."""
    raw = design.raw(time, elapsed, recency)
    raw[:, 0] -= np.log(Summary.from_array(design.summary).gaps[1])
    raw[:, :-1] /= 2
    raw[:, -1] = raw[:, -1] * (2 / 3) - 1
    return raw


def inputs_of_record(record: Record, design: FeatureDesign) -> EncoderInputs:
    """Return rows at counted events, then in the cells between events, grouped by what their encoder reads."""
    unrolled = unroll(record, design.decays, SPIKES)
    counted = unrolled.count > 0
    types = record.types if record.types.shape[1] else record.size[:, None]
    seen = (types * (record.count / record.size)[:, None])[counted]
    watched = design.base_mass(unrolled)
    places = (unrolled.at_events(), unrolled.at_middles())
    light = np.concatenate([light_features(design, *place) for place in places])
    return _group(
        record,
        design,
        np.append(unrolled.sequence[counted], unrolled.cell_sequence),
        np.append(place_in_sequence(record)[counted], unrolled.cell_before),
        light,
        np.concatenate([seen, np.zeros((len(watched), seen.shape[1]))]),
        np.append(np.zeros(len(seen)), watched),
    )


def inputs_at_times(times: Floats, record: Record, design: FeatureDesign) -> EncoderInputs:
    """Return rows at any times of the one sequence in the record."""
    past = np.repeat(record.time, record.size.astype(np.intp))
    back = look_back(times, past, float(record.origin[0]), design.decays)
    before = np.searchsorted(record.time, times, side="left")
    nothing = np.zeros((len(times), max(record.types.shape[1], 1)))
    light = light_features(design, times, back.elapsed, back.recency)
    return _group(record, design, np.zeros_like(before), before, light, nothing, np.zeros(len(times)))


def _group(
    record: Record,
    design: FeatureDesign,
    sequence: NDArray[np.int64],
    before: NDArray[np.int64],
    light: Floats,
    events: Floats,
    exposure: Floats,
) -> EncoderInputs:
    """Group rows that look back from the same stretch of events into one piece."""
    part = before // MEMORY
    order = np.lexsort((part, sequence))
    keys = np.column_stack([sequence, part])[order]
    new = np.append(True, (np.diff(keys, axis=0) != 0).any(axis=1))[: len(keys)]
    piece, first = np.cumsum(new) - 1, np.flatnonzero(new)
    place = np.arange(len(keys)) - first[piece]
    count, rows = len(first), int(place.max()) + 1 if len(place) else 0
    skipped = np.maximum(keys[:, 1] - 1, 0) * MEMORY
    padded = [np.zeros((count, rows, *values.shape[1:]), dtype=values.dtype) for values in (light, events, exposure)]
    behind = np.zeros((count, rows), dtype=np.int64)
    behind[piece, place] = before[order] - skipped
    for target, values in zip(padded, (light, events, exposure), strict=True):
        target[piece, place] = values[order]
    steps, types = _steps(record, design, keys[first], max(int(behind.max(initial=0)), 1))
    where = np.zeros((len(keys), 2), dtype=np.int64)
    where[order] = np.column_stack([piece, place])
    return EncoderInputs(steps, types, behind, padded[0], np.swapaxes(padded[1], 1, 2).copy(), padded[2], where)


def _steps(record: Record, design: FeatureDesign, keys: NDArray[np.int64], longest: int) -> tuple[Floats, Floats]:
    """Return what the encoder reads of each piece: the last times before its rows."""
    gap = unroll(record, design.decays).elapsed
    summary = Summary.from_array(design.summary)
    inputs = np.column_stack(
        [
            np.log((gap + 0.1 * summary.gaps[0]) / summary.gaps[1]) / 2,
            np.log(record.size),
            light_features(design, record.time, gap, np.ones((len(gap), len(design.decays))))[:, -1],
        ]
    )
    shares = record.types / record.size[:, None]
    steps, types = np.zeros((len(keys), longest, 3)), np.zeros((len(keys), longest, shares.shape[1]))
    bounds = np.searchsorted(record.sequence, np.arange(len(record.origin) + 1))
    for number, (sequence, part) in enumerate(keys.tolist()):
        start = bounds[sequence] + max(part - 1, 0) * MEMORY
        stop = min(start + longest, bounds[sequence + 1])
        steps[number, : stop - start], types[number, : stop - start] = inputs[start:stop], shares[start:stop]
    return steps, types

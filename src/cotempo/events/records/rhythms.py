"""`say_rhythms`: counts that follow the hour of the day or the day of the week, which need a period to be learned."""

from __future__ import annotations

import numpy as np

from cotempo.data import Table
from cotempo.data.clock import UNITS
from cotempo.events.records.record import Record, read_record
from cotempo.rhythms import FEWEST, RHYTHMS, WAVES, regular_chance

#: The chance of an alarm for each rhythm.
CHANCE = 1e-3


def say_rhythms(table: Table) -> list[str]:
    """Return in words which rhythms counts follow, where times are dates, and the period to pass."""
    if not table.unit or not table.rows:
        return []
    record, size = read_record(table, local=True), UNITS[table.unit]
    found = {seconds: followed for seconds, followed, _ in RHYTHMS if rhythm_chance(record, seconds / size) < CHANCE}
    if not found:
        return []
    period = f"period={max(found) / size:g}"
    return [f"counts follow {' and '.join(found.values())}, which is hardly learned without a period: pass {period}"]


def rhythm_chance(record: Record, period: float) -> float:
    """Return how probable as regular a wave in every period is by chance; 1 where that cannot be told.

    Waves are sums over the events of each period that was watched as a whole, less those of a line through the
    periods around it. By chance they point anywhere, however much events come in bursts or rates grow.
    """
    first, last = np.ceil(record.start / period), np.floor(record.end / period)
    watched = [np.arange(*pair) for pair in zip(first.tolist(), last.tolist(), strict=True)]
    days, sequences = np.unique(np.concatenate(watched), return_counts=True)
    if len(days) < FEWEST:
        return 1.0
    turn = record.time / period
    whole = (np.floor(turn) >= first[record.sequence]) & (np.floor(turn) < last[record.sequence])
    turn, count = turn[whole], record.count[whole]
    place, number = np.searchsorted(days, np.floor(turn)), np.arange(1, WAVES + 1)
    total = np.bincount(place, count, len(days))
    slope = np.gradient(total / sequences, days) * sequences
    waves = np.zeros((len(days), WAVES), dtype=complex)
    np.add.at(waves, place, count[:, None] * np.exp(2j * np.pi * turn[:, None] * number))
    waves -= slope[:, None] / (2j * np.pi * number)
    return float(regular_chance(np.stack([waves.real, waves.imag], axis=1)[..., None])[0])

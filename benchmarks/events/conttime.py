"""Conttime, generated: sequences of a continuous-time LSTM with random weights, as Mei and Eisner (2017) made them.

Five types, width 32, all weights uniform in [-1, 1], softplus intensities, sequences of 20 to 100 events, drawn by
thinning. 9,000 sequences (7,000 to learn from, 1,000 to choose by, 1,000 to test on), as FedPP's Table I.4 counts them.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
from numpy.typing import NDArray

TYPES, WIDTH, SHORTEST, LONGEST = 5, 32, 20, 100
SPLITS = (7000, 1000, 1000)
FILE = Path("runs/conttime_generated.npz")
Floats = NDArray[np.float64]


def conttime_file() -> Path:
    """Return the archive of the generated data, made where it is not there yet."""
    if not FILE.exists():
        FILE.parent.mkdir(parents=True, exist_ok=True)
        times, types, lengths = generate(sum(SPLITS), seed=0)
        ends = np.cumsum(lengths)
        made = {
            "times": times, "types": types, "offsets": np.append(0, ends), "t_start": np.zeros(len(ends)),
            "t_end": times[ends - 1], "split": np.repeat(np.arange(3), SPLITS).astype(np.int8),
        }  # fmt: skip
        with NamedTemporaryFile(dir=FILE.parent, delete=False) as file:
            np.savez_compressed(file, **made)
        os.replace(file.name, FILE)
    return FILE


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def softplus(x: Floats) -> Floats:
    return np.logaddexp(0, x)


def generate(sequences: int, seed: int) -> tuple[Floats, NDArray[np.int16], NDArray[np.int64]]:
    """Return times and types of all sequences, one after the other, and how many events each has."""
    rng = np.random.default_rng(seed)
    embedding = rng.uniform(-1, 1, (TYPES + 1, WIDTH))  # the last is the start of a sequence
    gates = rng.uniform(-1, 1, (2 * WIDTH + 1, 7 * WIDTH))
    read = rng.uniform(-1, 1, (WIDTH, TYPES))
    scale = np.exp(rng.uniform(-1, 1, TYPES))
    wanted = rng.integers(SHORTEST, LONGEST + 1, sequences)
    times, types = np.zeros((sequences, LONGEST)), np.zeros((sequences, LONGEST), dtype=np.int16)
    count, last, now = np.zeros(sequences, dtype=np.int64), np.zeros(sequences), np.zeros(sequences)
    cell, target = np.zeros((sequences, WIDTH)), np.zeros((sequences, WIDTH))
    decay, output = np.ones((sequences, WIDTH)), np.zeros((sequences, WIDTH))

    def observe(rows: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
        """Update the memory of some sequences at an event."""
        faded = target[rows] + (cell[rows] - target[rows]) * np.exp(-decay[rows] * (now[rows] - last[rows])[:, None])
        before = output[rows] * np.tanh(faded)
        known = np.concatenate([embedding[kinds], before, np.ones((len(rows), 1))], axis=1) @ gates
        keep, take, far_keep, far_take, out, fresh, rate = np.split(known, 7, axis=1)
        fresh = 2 * sigmoid(fresh) - 1
        cell[rows] = sigmoid(keep) * faded + sigmoid(take) * fresh
        target[rows] = sigmoid(far_keep) * target[rows] + sigmoid(far_take) * fresh
        output[rows], decay[rows], last[rows] = sigmoid(out), softplus(rate), now[rows]

    def intensities(rows: NDArray[np.int64]) -> Floats:
        faded = target[rows] + (cell[rows] - target[rows]) * np.exp(-decay[rows] * (now[rows] - last[rows])[:, None])
        return np.asarray(scale * softplus((output[rows] * np.tanh(faded)) @ read / scale))

    observe(np.arange(sequences), np.full(sequences, TYPES))
    while len(rows := np.flatnonzero(count < wanted)):
        # Each cell moves from where it is to its target: its highest contribution is at one of the two.
        ends = np.stack([np.tanh(cell[rows]), np.tanh(target[rows])]) * output[rows]
        highest = np.maximum(ends[0][:, :, None] * read, ends[1][:, :, None] * read).sum(axis=1)
        bound = (scale * softplus(highest / scale)).sum(axis=1)
        now[rows] += rng.exponential(1 / bound)
        rates = intensities(rows)
        mark = (rng.random(len(rows)) * bound)[:, None] < np.cumsum(rates, axis=1)
        found = mark.any(axis=1)
        hit, kinds = rows[found], mark[found].argmax(axis=1)
        times[hit, count[hit]], types[hit, count[hit]] = now[hit], kinds
        count[hit] += 1
        observe(hit, kinds)
    used = np.arange(LONGEST) < wanted[:, None]
    return times[used], types[used], wanted

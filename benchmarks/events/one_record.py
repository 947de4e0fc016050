"""Bands from one long record a client: FedPP's beside those of SigmoidCox alone, by width and by coverage.

python benchmarks/events/one_record.py run --seeds 0 1        (0 to 19 by default)
python benchmarks/events/one_record.py bursts --seeds 0 1     (0 to 9 by default: records of Hawkes processes)
python benchmarks/events/one_record.py table

Three sites, each with one record of six weeks, in hours, and some 740 events; levels differ by 40 %. The truth they
share is constant, a slow wave, a daily rhythm, or a step, in turn.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from common import write_results
from numpy.typing import NDArray
from parts import FOLDER, about, do_part, read_parts

from cotempo.data import Events
from cotempo.events import FedPP, IntensityOverTime, SigmoidCox, coverage
from cotempo.events.records.record import Grid

Floats = NDArray[np.float64]
CLIENTS, HOURS, EVENTS, SPREAD = 3, 1008.0, 740, 0.4
# Mean hours to an offspring, and offspring an event, of records that come in bursts.
BURSTS = ((2.0, 0.6), (12.0, 0.7))
POINTS = Grid(0.0, HOURS, 500).middles
TRUTHS = {
    "constant": lambda t: np.ones_like(t),
    "wave": lambda t: 1 + 0.6 * np.sin(2 * np.pi * 1.5 * t / HOURS),
    "daily": lambda t: 1 + 0.6 * np.sin(2 * np.pi * t / 24),
    "step": lambda t: np.where(t < 0.4 * HOURS, 0.7, 1.2),
}


def draw(shape: Any, level: float, rng: np.random.Generator) -> Events:
    """A site's record, by thinning."""
    top = 1.7 * level
    times = np.sort(rng.uniform(0, HOURS, rng.poisson(top * HOURS)))
    return Events.from_arrays([times[rng.uniform(0, top, len(times)) < level * shape(times)]], (0.0, HOURS))


def measure(seed: int) -> dict[str, Any]:
    """One federation."""
    rng = np.random.default_rng([seed, 740])
    truth = list(TRUTHS)[seed % len(TRUTHS)]
    shape = TRUTHS[truth]
    levels = EVENTS / HOURS * np.exp(SPREAD * rng.standard_normal(CLIENTS))
    clients = {f"site-{i}": draw(shape, level, rng) for i, level in enumerate(levels)}
    began = time.process_time()
    fitted = FedPP(rounds=10, compare=False).fit(clients, progress=False, seed=seed)
    seconds = time.process_time() - began
    found = []
    for (name, table), level in zip(clients.items(), levels, strict=True):
        model, true = fitted[name], level * shape(POINTS)
        given = () if isinstance(model, IntensityOverTime) else (table.time, 0.0)
        together, alone = model.intensity(POINTS, *given), SigmoidCox().fit(table).intensity(POINTS)
        widths = [float((band.upper - band.lower).mean()) for band in (together, alone)]
        errors = [float(np.sqrt(((band.mean - true) ** 2).mean()) / true.mean()) for band in (together, alone)]
        found.append([widths[0] / widths[1], coverage(together, true), coverage(alone, true), *errors])
    names = ("width_ratio", "coverage", "coverage_alone", "error", "error_alone")
    means = dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))
    effect = fitted.state.timeline.effect
    widest = max(part[0] for part in found)
    return {
        "truth": truth, "kept": fitted.state.kept, "effect": effect, "widest": widest, **means, "seconds": seconds
    }  # fmt: skip


def measure_bursts(hours: float, branching: float, seed: int) -> dict[str, Any]:
    """Three records of Hawkes processes with a constant mean rate: how often does a curve's band hold it?"""
    rng = np.random.default_rng([seed, 741])
    levels = EVENTS / HOURS * np.exp(SPREAD * rng.standard_normal(CLIENTS))
    tables = [draw_bursts(level, hours, branching, rng) for level in levels]
    clients = {f"site-{i}": table for i, table in enumerate(tables)}
    fitted = FedPP(kernel="time", compare=False).fit(clients, progress=False, seed=seed)
    found = []
    for (name, table), level in zip(clients.items(), levels, strict=True):
        bands = fitted[name].intensity(POINTS), SigmoidCox().fit(table).intensity(POINTS)
        found.append([coverage(band, np.full(len(POINTS), level)) for band in bands])
    together, alone = np.mean(found, axis=0).tolist()
    return {"effect": fitted.state.timeline.effect, "coverage": together, "coverage_alone": alone}


def draw_bursts(level: float, hours: float, branching: float, rng: np.random.Generator) -> Events:
    """A record of immigrants, and of their offspring after exponential times of this mean."""
    waiting = rng.uniform(0, HOURS, rng.poisson(level * (1 - branching) * HOURS)).tolist()
    times: list[float] = []
    while waiting:
        times.append(waiting.pop())
        later = times[-1] + rng.exponential(hours, rng.poisson(branching))
        waiting += later[later < HOURS].tolist()
    return Events.from_arrays([np.sort(times)], (0.0, HOURS))


def write_bursts() -> None:
    rows, parts = [], [part for part in read_parts(FOLDER) if "bursts" in part]
    for hours, branching in BURSTS:
        chosen = [part for part in parts if part["bursts"] == hours]
        row: dict[str, Any] = {"mean_wait_hours": hours, "branching": branching, "seeds": len(chosen)}
        for name in ("effect", "coverage", "coverage_alone"):
            values = np.array([part[name] for part in chosen])
            row |= {name: float(values.mean()), f"{name}_se": float(values.std(ddof=1) / np.sqrt(len(values)))}
        rows.append(row)
        print(row)
    seeds = sorted({part["seed"] for part in parts})
    write_results("events-one-record-bursts", rows, seed=seeds, note=f"means over sites and seeds; {about(parts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "bursts", "table"))
    parser.add_argument("--seeds", nargs="+", type=int)
    given = parser.parse_args()
    seeds = given.seeds or list(range(10 if given.what == "bursts" else 20))
    if given.what == "bursts":
        for hours, branching in BURSTS:
            for seed in seeds:
                do_part(FOLDER, {"bursts": hours, "seed": seed}, partial(measure_bursts, hours, branching, seed))
        return
    if given.what == "run":
        for seed in seeds:
            do_part(FOLDER, {"one record": True, "seed": seed}, partial(measure, seed))
        return
    parts = [part for part in read_parts(FOLDER) if "one record" in part and part["seed"] in seeds]
    names = ("width_ratio", "coverage", "coverage_alone", "error", "error_alone", "seconds")
    rows = []
    for truth in (*TRUTHS, "all"):
        chosen = [part for part in parts if truth in (part["truth"], "all")]
        row: dict[str, Any] = {"truth": truth, "seeds": len(chosen), "widest": max(part["widest"] for part in chosen)}
        for name in names:
            values = np.array([part[name] for part in chosen])
            row[name] = float(values.mean())
            row[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(values)))
        rows.append(row)
        print(row)
    write_bursts()
    write_results("events-one-record", rows, seed=seeds, note=f"means over sites and seeds; {about(parts)}")


if __name__ == "__main__":
    main()

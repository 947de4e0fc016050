"""Rhythms and what comes after the data: does a period close, and how many events will the next week have?

python benchmarks/events/ahead.py period --seeds 0 1     (0 to 19 by default)
python benchmarks/events/ahead.py count --seeds 0 1      (0 to 19 by default)
python benchmarks/events/ahead.py table

`period`: three sites with a smooth daily rhythm, 28 days, whose windows begin at midnight or at 17 h in turn; the band
of all times, and within an hour of where the windows begin, and the step there over the median step.
`count`: three sites with one record of six weeks, as in `one_record.py`, the daily rhythm ending at all hours; the next
week's count of a curve without a period, over the truth, beside the last value kept and the site's mean rate.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from common import write_results
from one_record import CLIENTS, EVENTS, HOURS, SPREAD, TRUTHS
from parts import FOLDER, about, do_part, read_parts

from cotempo.data import Events
from cotempo.events import FedPP

LEVELS, DAYS, WEEK = {"a": 1.2, "b": 0.8, "c": 0.25}, 28, 168.0


def thin(rate: Any, top: float, window: tuple[float, float], rng: np.random.Generator) -> Events:
    times = np.sort(rng.uniform(*window, rng.poisson(top * (window[1] - window[0]))))
    return Events.from_arrays([times[rng.uniform(0, top, len(times)) < rate(times)]], window)


def measure_period(seed: int) -> dict[str, Any]:
    rng, begin = np.random.default_rng([seed, 24]), 17.0 * (seed % 2)

    def rate(level: float, t: Any) -> Any:
        return level * (1 + 0.8 * np.sin(2 * np.pi * (t - 12) / 24))

    window = (begin, begin + DAYS * 24)
    clients = {name: thin(partial(rate, level), 1.8 * level, window, rng) for name, level in LEVELS.items()}
    began = time.process_time()
    fitted = FedPP(period=24, kernel="time", compare=False).fit(clients, seed=seed, progress=False)
    seconds, at = time.process_time() - began, 48 + np.arange(240) / 10
    near = np.abs((at - begin + 12) % 24 - 12) <= 1
    held, errors, steps = [], [], []
    for name, level in LEVELS.items():
        band, true = fitted[name].intensity(at), rate(level, at)
        inside = (band.lower <= true) & (true <= band.upper)
        held.append([inside.mean(), inside[near].mean()])
        errors.append(np.sqrt(((band.mean - true) ** 2).mean()) / level)
        step = np.abs(np.diff(band.mean, append=band.mean[0]))
        seam = int(np.argmin(np.abs((at - begin + 12) % 24 - 12)))
        steps.append(max(step[seam - 1], step[seam]) / np.median(step))
    coverage, coverage_near = np.mean(held, axis=0).tolist()
    return {
        "coverage": coverage, "coverage_near": coverage_near, "error": float(np.mean(errors)),
        "step": float(np.mean(steps)), "seconds": seconds,
    }  # fmt: skip


def measure_count(truth: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, list(TRUTHS).index(truth), 168])
    ahead = 5.0 * seed if truth == "daily" else 0.0  # the hour of the day that the record ends at
    levels = EVENTS / HOURS * np.exp(SPREAD * rng.standard_normal(CLIENTS))

    def rate(level: float, t: Any) -> Any:
        return level * TRUTHS[truth](t + ahead)

    clients = {f"site-{i}": thin(partial(rate, x), 1.7 * x, (0.0, HOURS), rng) for i, x in enumerate(levels)}
    fitted = FedPP(kernel="time", compare=False).fit(clients, seed=seed, progress=False)
    found = []
    for (name, table), level in zip(clients.items(), levels, strict=True):
        true = float(rate(level, HOURS + (np.arange(1680) + 0.5) / 10).sum() / 10)
        came, model = rng.poisson(true), fitted[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            count = model.predict_count(HOURS, HOURS + WEEK)
        last, mean = float(model.intensity([HOURS - 1e-6]).mean[0]) * WEEK, table.rows / HOURS * WEEK
        errors = [abs(float(np.log(each / true))) for each in (count.mean, last, mean)]
        found.append([*errors, count.lower <= came <= count.upper])
    names = ("error", "error_of_last_value", "error_of_mean_rate", "coverage")
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))


def summarize(parts: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    row: dict[str, Any] = {"seeds": len(parts)}
    for name in names:
        values = np.array([part[name] for part in parts])
        row |= {name: float(values.mean()), f"{name}_se": float(values.std(ddof=1) / np.sqrt(len(values)))}
    print(row)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("period", "count", "table"))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(20)))
    given = parser.parse_args()
    for seed in given.seeds if given.what == "period" else ():
        do_part(FOLDER, {"ahead": "period", "seed": seed}, partial(measure_period, seed))
    for seed in given.seeds if given.what == "count" else ():
        for truth in TRUTHS:
            do_part(FOLDER, {"ahead": "count", "truth": truth, "seed": seed}, partial(measure_count, truth, seed))
    if given.what == "table":
        periods = [part for part in read_parts(FOLDER, ahead="period") if part["seed"] in given.seeds]
        names: tuple[str, ...] = ("coverage", "coverage_near", "error", "step", "seconds")
        seeds = sorted({part["seed"] for part in periods})
        write_results("events-period", [summarize(periods, names)], seed=seeds, note=about(periods))
        counts = [part for part in read_parts(FOLDER, ahead="count") if part["seed"] in given.seeds]
        names = ("error", "error_of_last_value", "error_of_mean_rate", "coverage")
        rows = [
            {"truth": truth, **summarize([part for part in counts if part["truth"] == truth], names)}
            for truth in TRUTHS
        ]
        seeds = sorted({part["seed"] for part in counts})
        write_results("events-next-week", rows, seed=seeds, note=f"mean |log| of counts over truth; {about(counts)}")


if __name__ == "__main__":
    main()

"""Filling by window moments: one owner and ten, on ETTh1, Energy and Stocks by time.

    python benchmarks/series/moments.py measure --data etth --seeds 0       seconds to a minute on one CPU thread
    python benchmarks/series/moments.py measure --data etth --seeds 0 --methods diffusion clock --device cuda
    python benchmarks/series/moments.py measure --data etth --seeds 0 --methods federated
    python benchmarks/series/moments.py table

The first four fifths are learned from. Of the last fifth half of the rows or cells are missing, or twelve rows in every
48, beginning anywhere. Errors are in units of half the range of a feature. `window48` and `window96` are conditional
means of a Gaussian over windows with a covariance shrunk as by Ledoit and Wolf, without any structure in time;
`federated` are ten owners of blocks of time, and `pooled` one owner of these blocks. `diffusion` is `SeriesDiffusion`
of bare rows, `clock` the same with the time of every row, so that it can find a season, as `seasonal` is told.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import load  # noqa: E402
from short import UNITS  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.data import Series, mask_cells, mask_rows  # noqa: E402
from cotempo.series import interpolate  # noqa: E402

DATA = ("etth", "energy", "stocks")
PERIOD = {"etth": 24, "energy": 144, "stocks": 5}
SIMPLE = ("linear", "seasonal", "window48", "window96", "moments48", "moments")
CLIENTS = 10
Fill = Callable[[np.ndarray], np.ndarray]


def mask_gaps(shape: tuple[int, int], share: float, seed: int) -> np.ndarray:
    """Twelve rows in every 48, beginning anywhere."""
    stream, mask = np.random.default_rng([seed, 5]), np.zeros(shape, dtype=bool)
    for first in range(0, shape[0], 48):
        start = first + stream.integers(36)
        mask[start : start + 12] = True
    return mask


MASKS = {"rows": mask_rows, "cells": mask_cells, "gaps": mask_gaps}


def parts_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is learned from, what is filled, and half the range."""
    rows, _ = load(name)
    cut = int(0.8 * len(rows))
    return rows[:cut], rows[cut:], (rows[:cut].max(axis=0) - rows[:cut].min(axis=0)) / 2


def fill_linear(holes: np.ndarray) -> np.ndarray:
    """Between neighbours."""
    return interpolate(Series.from_arrays(holes)).values


def learn_seasonal(train: np.ndarray, period: int, begins: int) -> Fill:
    """Interpolation of what is left when the mean of the same time of day is taken away."""
    means = np.stack([train[phase::period].mean(axis=0) for phase in range(period)])

    def fill(holes: np.ndarray) -> np.ndarray:
        usual = means[(begins + np.arange(len(holes))) % period]
        return fill_linear(holes - usual) + usual

    return fill


def learn_windows(train: np.ndarray, window: int) -> Fill:
    """A Gaussian over windows, by Ledoit and Wolf's shrinkage to a multiple of the identity."""
    centre, spread = train.mean(axis=0), train.std(axis=0)
    seen = (
        sliding_window_view((train - centre) / spread, window, axis=0)
        .transpose(0, 2, 1)
        .reshape(-1, window * len(centre))
    )
    count, side = seen.shape
    found = seen.T @ seen / count
    level = np.trace(found) / side
    off = ((found - level * np.eye(side)) ** 2).sum()
    noise = ((seen**2).sum(axis=1) ** 2).sum() / count**2 - (found**2).sum() / count
    share = min(max(noise / off, 0.0), 1.0)
    precision = np.linalg.inv((1 - share) * found + share * level * np.eye(side))

    def fill(holes: np.ndarray) -> np.ndarray:
        values, filled, half = (holes - centre) / spread, holes.copy(), window // 2
        starts = sorted({*range(0, len(holes) - window, half), len(holes) - window})
        edges = [0, *((a + window + b) // 2 for a, b in pairwise(starts)), len(holes)]
        for start, (first, end) in zip(starts, pairwise(edges), strict=True):
            flat = values[start : start + window].ravel().copy()
            gone = np.isnan(flat)
            known = precision[np.ix_(gone, ~gone)] @ flat[~gone]
            flat[gone] = -np.linalg.solve(precision[np.ix_(gone, gone)], known)
            part = flat.reshape(window, -1)[first - start : end - start]
            filled[first:end] = np.where(np.isnan(holes[first:end]), part * spread + centre, holes[first:end])
        return filled

    return fill


def timed(name: str, rows: np.ndarray, begins: int) -> Series:
    """Rows with their times, in the unit of the data."""
    unit, a_unit = UNITS[name]
    return Series.from_arrays(rows, time=(begins + np.arange(len(rows))) / a_unit, unit=unit)


def learn(method: str, name: str, train: np.ndarray, seed: int, device: str) -> tuple[Fill, object]:
    """What fills, and the model if it has intervals."""
    if method == "linear":
        return fill_linear, None
    if method == "seasonal":
        return learn_seasonal(train, PERIOD[name], len(train)), None
    if method.startswith("window"):
        return learn_windows(train, int(method.removeprefix("window"))), None
    if method == "federated":
        blocks = np.array_split(train, CLIENTS)
        clients = {f"client-{k:02d}": Series.from_arrays(block) for k, block in enumerate(blocks)}
        model = ct.FedMoments().fit(clients, seed=seed, progress=False).model
    elif method == "pooled":
        model = ct.SeriesMoments().fit(Series.from_arrays(np.array_split(train, CLIENTS)))
    elif method == "diffusion":
        model = ct.SeriesDiffusion(steps=1, device=device).fit(Series.from_arrays(train), seed=seed)
    elif method == "clock":
        model = ct.SeriesDiffusion(steps=1, device=device).fit(timed(name, train, 0), seed=seed)
        return lambda holes: model.impute(timed(name, holes, len(train))).values, model
    elif method == "saits":
        import torch
        from baselines import train_saits

        torch.manual_seed(seed)
        model = train_saits(Series.from_arrays(train), epochs=60)
    else:
        window = {"window": int(rest)} if (rest := method.removeprefix("moments")) else {}
        model = ct.SeriesMoments(**window).fit(Series.from_arrays(train))
    return lambda holes: model.impute(Series.from_arrays(holes)).values, model


def measure(name: str, method: str, seed: int, device: str) -> dict:
    """Errors, how often intervals of 90 % hold a missing cell, and CPU seconds."""
    train, test, half = parts_of(name)
    began = time.process_time()
    fill, model = learn(method, name, train, seed, device)
    learned, rows = time.process_time() - began, []
    for mask_name, mask in MASKS.items():
        gone = mask(test.shape, 0.5, seed)
        holes = np.where(gone, np.nan, test)
        began = time.process_time()
        filled = fill(holes)
        row = {"data": name, "mask": mask_name, "method": method, "seed": seed}
        row |= {"MAE": float((np.abs(filled - test) / half)[gone].mean())}
        row |= {"learning CPU seconds": learned, "filling CPU seconds": time.process_time() - began, "covered": None}
        if method in ("moments", "diffusion"):
            sure = model.impute(Series.from_arrays(holes), draws=20, level=0.9, seed=seed)
            row["covered"] = float(((sure.low <= test) & (test <= sure.high))[gone].mean())
        rows.append(row)
        print(row, flush=True)
    return {"rows": rows}


def table(parts: list[dict]) -> list[dict]:
    """Means over seeds with standard errors, and the mean of paired differences to `moments`, relative to it."""
    rows = [row for part in parts for row in part["rows"]]
    errors = {(row["data"], row["mask"], row["method"], row["seed"]): row["MAE"] for row in rows}
    found = []
    for data, mask, method in sorted({key[:3] for key in errors}):
        chosen = [row for row in rows if (row["data"], row["mask"], row["method"]) == (data, mask, method)]
        values = np.array([row["MAE"] for row in chosen])
        ratios = np.array(
            [row["MAE"] / base - 1 for row in chosen if (base := errors.get((data, mask, "moments", row["seed"])))]
        )
        held = [row["covered"] for row in chosen if row["covered"] is not None]
        line = {"data": data, "mask": mask, "method": method, "seeds": len(values), "MAE": float(values.mean())}
        line |= {"standard error": _error(values), "beside moments": float(ratios.mean()) if len(ratios) else ""}
        line |= {"its standard error": _error(ratios), "covered": float(np.mean(held)) if held else ""}
        for key in ("learning CPU seconds", "filling CPU seconds"):
            line[key] = float(np.mean([row[key] for row in chosen]))
        found.append(line)
        print(line, flush=True)
    return found


def _error(values: np.ndarray) -> float | str:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "table"])
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--methods", nargs="*", default=list(SIMPLE))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    given = parser.parse_args()
    if given.what == "table":
        parts = [part for part in read_parts(given.parts) if "moments" in part]
        rows = table(parts)
        seeds = sorted({row["seed"] for part in parts for row in part["rows"]})
        write_results("series/moments", rows, seed=seeds, note=about(parts))
        return
    for name in given.data:
        for method in given.methods:
            for seed in given.seeds:
                key = {"moments": name, "method": method, "seed": seed}
                do_part(given.parts, key, partial(measure, name, method, seed, given.device))


if __name__ == "__main__":
    main()

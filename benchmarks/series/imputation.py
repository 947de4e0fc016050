"""Filling gaps: one owner of ETTh1, and ten owners of ETTh1, Stocks and Energy, against linear interpolation.

python benchmarks/series/imputation.py --size mini|gpu
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

from cotempo.data import Series, hide, make_series, mask_cells, mask_rows
from cotempo.series import FedTDD, SeriesDiffusion, carry_forward, interpolate

sys.path.insert(0, str(Path(__file__).parent))
from setting import WINDOW, load, make_setting

SIZES = {
    "tiny": {
        "single": {"imputer_steps": 3, "steps": 1},
        "federated": {"pretrain_steps": 3, "imputer_steps": 2, "batch": 8},
        "seeds": 1,
    },
    "mini": {"single": {"steps": 1}, "federated": {"pretrain_steps": 1000, "imputer_steps": 300}, "seeds": 1},
    "gpu": {
        "single": {"steps": 1},
        "federated": {"pretrain_steps": 3000, "imputer_steps": 400, "batch": 64},
        "seeds": 5,
    },
}


def single_owner(size: dict, seeds: int) -> list[dict]:
    """ETTh1 by time, 80 % to learn from: half of the rows or cells of the rest missing, [-1, 1] scale."""
    rows, _ = load("etth")
    cut = int(0.8 * len(rows))
    half = (rows[:cut].max(axis=0) - rows[:cut].min(axis=0)) / 2
    test, found = Series.from_arrays(rows[cut:]), []
    windows = Series.from_arrays([rows[k : k + WINDOW] for k in range(cut, len(rows) - WINDOW + 1, WINDOW)])
    for seed in range(seeds):
        began = time.perf_counter()
        model = SeriesDiffusion(**size).fit(Series.from_arrays(rows[:cut]), seed=seed)
        seconds = time.perf_counter() - began
        for protocol, table in (("whole series", test), ("single windows", windows)):
            for name, mask in (("rows", mask_rows), ("cells", mask_cells)):
                holes, _ = hide(table, mask(table.values.shape, 0.5, seed))
                gone = np.isnan(holes.values)
                fills = {"ours": model.impute(holes), "linear": interpolate(holes), "last value": carry_forward(holes)}
                errors = {
                    f"{key} MAE": float(np.abs((fill.values - table.values) / half)[gone].mean())
                    for key, fill in fills.items()
                }
                gain = 1 - errors["ours MAE"] / errors["linear MAE"]
                found.append(
                    {"protocol": protocol, "mask": name, "seed": seed, **errors, "gain": gain, "seconds": seconds}
                )
                print(found[-1], flush=True)
    return found


def factor_data(size: dict, seeds: int) -> list[dict]:
    """Generated factors, where the best guess of a missing cell is known."""
    found = []
    for seed in range(seeds):
        made, truth = make_series(clients=1, length=4000, features=5, seed=seed)
        test, _ = make_series(clients=1, length=4000, features=5, seed=seed)
        model = SeriesDiffusion(**size).fit(made["client-0"].select(np.arange(3200)), seed=seed)
        table = test["client-0"].select(np.arange(3200, 4000))
        for name, mask in (("rows", mask_rows), ("cells", mask_cells)):
            holes, _ = hide(table, mask(table.values.shape, 0.5, seed))
            gone = np.isnan(holes.values)
            fills = {
                "ours": model.impute(holes).values,
                "best": truth.conditional_mean(holes, window=400),
                "linear": interpolate(holes).values,
            }
            errors = {f"{key} MAE": float(np.abs(fill - table.values)[gone].mean()) for key, fill in fills.items()}
            found.append(
                {"mask": name, "seed": seed, **errors, "above best": errors["ours MAE"] / errors["best MAE"] - 1}
            )
            print(found[-1], flush=True)
    return found


def federated(name: str, size: dict, seed: int) -> list[dict]:
    """Ten owners for each kind of hole, all beside one public series."""
    settings = {mask: make_setting(name, mask=mask, seed=seed) for mask in ("rows", "cells", "feature")}
    clients = {f"{mask}-{key}": series for mask in settings for key, series in settings[mask].clients.items()}
    first = settings["rows"]
    method = FedTDD(common=first.common, rounds=1, first_steps=1, alpha=0.0, public_windows=0, **size)
    began = time.perf_counter()
    fitted = method.fit(clients, public=first.public, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    means = dict(zip(first.common, np.nanmean(first.public.values, axis=0), strict=True))
    print(name, seed, f"{seconds:.0f} s", flush=True)
    return [row for mask in settings for row in measure(name, mask, settings[mask], fitted, means, seed, seconds)]


def measure(name, mask, setting, fitted, means, seed, seconds) -> list[dict]:
    """Errors of each client on the cells it misses."""
    rows = []
    for key, owner in setting.owners.items():
        model = fitted[f"{mask}-{key}"]
        half = np.array([setting.half_range[feature] for feature in owner.series.features])
        ours, lines = model.impute(owner.series).values, interpolate(owner.series).values
        if mask == "feature":
            constant = np.array([means.get(feature, 0.0) for feature in owner.series.features])
            lines = np.where(np.isnan(owner.series.values), constant, owner.series.values)
        common = np.isin(owner.series.features, setting.common)
        for group, chosen in (("common", common), ("exclusive", ~common)):
            gone = owner.hidden & chosen
            if gone.any():
                errors = [float(np.abs((fill - owner.complete.values) / half)[gone].mean()) for fill in (ours, lines)]
                place = {"data": name, "mask": mask, "features": group, "seed": seed, "client": key}
                gain = 1 - errors[0] / max(errors[1], 1e-12)
                measured = {"cells": int(gone.sum()), "ours MAE": errors[0], "baseline MAE": errors[1], "gain": gain}
                rows.append({**place, **measured, "seconds": seconds})
    return rows


def summary(rows: list[dict]) -> list[dict]:
    """Per data set, kind of hole and group of features: the change over all cells, and the worst client."""
    found = []
    for key in sorted({(row["data"], row["mask"], row["features"]) for row in rows}):
        chosen = [row for row in rows if (row["data"], row["mask"], row["features"]) == key]
        seeds = sorted({row["seed"] for row in chosen})
        sums = [
            [sum(r[f"{who} MAE"] * r["cells"] for r in chosen if r["seed"] == seed) for seed in seeds]
            for who in ("ours", "baseline")
        ]
        gains = 1 - np.array(sums[0]) / np.array(sums[1])
        cells = sum(row["cells"] for row in chosen)
        found.append(
            {"data": key[0], "mask": key[1], "features": key[2], "seeds": len(seeds), "ours MAE": sum(sums[0]) / cells,
             "baseline MAE": sum(sums[1]) / cells, "gain": float(gains.mean()), "gain deviation": float(gains.std()),
             "worst client gain": min(row["gain"] for row in chosen)}
        )  # fmt: skip
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="mini")
    parser.add_argument("--data", nargs="*", default=["etth", "stocks", "energy"])
    parser.add_argument("--parts", nargs="*", default=["single", "factors", "federated"])
    given = parser.parse_args()
    size, note = SIZES[given.size], f"size {given.size}"
    if "single" in given.parts:
        write_results(
            "series/imputation-single", single_owner(size["single"], min(3, size["seeds"])), seed=0, note=note
        )
    if "factors" in given.parts:
        write_results(
            "series/imputation-factors", factor_data(size["single"], min(3, size["seeds"])), seed=0, note=note
        )
    if "federated" in given.parts:
        for name in given.data:
            rows: list[dict] = []
            for seed in range(size["seeds"]):
                rows += federated(name, size["federated"], seed)
                write_results(f"series/imputation-{name}", summary(rows), seed=list(range(seed + 1)), note=note)
                write_results(f"series/imputation-{name}-clients", rows, seed=list(range(seed + 1)), note=note)


if __name__ == "__main__":
    main()

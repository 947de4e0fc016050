"""Filling gaps: one owner of ETTh1, and ten owners of ETTh1, Stocks and Energy, against linear interpolation.

python benchmarks/series/imputation.py --size ties|mini|gpu --what single factors federated

Every seed of the federated setting is written as a part; its tables are made of all there are.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from baselines import carry_forward
from parts import FOLDER, about, do_part, read_parts
from results import write_results

from cotempo.data import Series, hide, make_series, mask_cells, mask_rows
from cotempo.series import FedTDD, SeriesDiffusion, interpolate

sys.path.insert(0, str(Path(__file__).parent))
from setting import NEAR, WINDOW, load, make_setting, standard_error

MASKS = (("rows", mask_rows), ("cells", mask_cells))
SIZES = {
    "tiny": {
        "rates": (4e-3,),
        "contexts": (32,),
        "single": {"imputer_steps": 3, "steps": 1},
        "federated": {"pretrain_steps": 3, "corrector_steps": 2, "batch": 8},
        "seeds": 1,
    },
    "ties": {  # networks as good as untrained: what the closed forms do by themselves
        "rates": (4e-3,),
        "contexts": (32,),
        "single": {"imputer_steps": 1, "steps": 1},
        "federated": {
            "pretrain_steps": 1,
            "corrector_steps": 0,
            "batch": 8,
            "imputer_width": 8,
            "imputer_layers": 1,
            "width": 8,
            "encoders": 1,
            "decoders": 1,
            "sampler_steps": 4,
        },
        "seeds": 5,
    },
    "mini": {
        "rates": (4e-3,),
        "contexts": (32,),
        "single": {"steps": 1},
        "federated": {"pretrain_steps": 500, "corrector_steps": 0, "batch": 64, "imputer_width": 48},
        "seeds": 3,
    },
    "gpu": {
        "rates": (1e-3, 2e-3, 4e-3),
        "contexts": (24, 32, 48),
        "single": {"steps": 1},
        "federated": {"corrector_steps": 400, "batch": 64, "chunk": 500},
        "seeds": 5,
    },
}


def choose(size: dict) -> tuple[dict, list[dict]]:
    """Rate and context of the imputer: learned from the first 60 % of ETTh1, chosen on the next 20 %."""
    rows, _ = load("etth")
    first, cut = int(0.6 * len(rows)), int(0.8 * len(rows))
    half = (rows[:first].max(axis=0) - rows[:first].min(axis=0)) / 2
    table, found = Series.from_arrays(rows[first:cut]), []
    for rate in size["rates"]:
        for context in size["contexts"]:
            options = {"imputer_rate": rate, "context": context}
            model = SeriesDiffusion(**size["single"], **options).fit(Series.from_arrays(rows[:first]))
            errors = {name: errors_of({"ours": model.impute}, table, mask, 0, half)["ours MAE"] for name, mask in MASKS}
            found.append({**options, **errors})
            print(found[-1], flush=True)
    best = min(found, key=lambda row: sum(row[name] for name, _ in MASKS))
    return {key: best[key] for key in ("imputer_rate", "context")}, found


def errors_of(fillers: dict, table: Series, mask, seed: int, half: np.ndarray) -> dict[str, float]:
    """Mean absolute error of each filler on half of the rows or cells of a table."""
    holes, _ = hide(table, mask(table.values.shape, 0.5, seed))
    gone = np.isnan(holes.values)
    return {
        f"{key} MAE": float(np.abs((fill(holes).values - table.values) / half)[gone].mean())
        for key, fill in fillers.items()
    }


def single_owner(size: dict, options: dict, seeds: int) -> list[dict]:
    """ETTh1 by time, 80 % to learn from: half of the rows or cells of the rest missing, [-1, 1] scale."""
    rows, _ = load("etth")
    cut = int(0.8 * len(rows))
    half = (rows[:cut].max(axis=0) - rows[:cut].min(axis=0)) / 2
    windows = Series.from_arrays([rows[k : k + WINDOW] for k in range(cut, len(rows) - WINDOW + 1, WINDOW)])
    found = []
    for seed in range(seeds):
        began = time.perf_counter()
        model = SeriesDiffusion(**size, **options).fit(Series.from_arrays(rows[:cut]), seed=seed)
        seconds = time.perf_counter() - began
        fillers = {"ours": model.impute, "linear": interpolate, "last value": carry_forward}
        for protocol, table in (("whole series", Series.from_arrays(rows[cut:])), ("single windows", windows)):
            for name, mask in MASKS:
                errors = errors_of(fillers, table, mask, seed, half)
                gain = 1 - errors["ours MAE"] / errors["linear MAE"]
                place = {"protocol": protocol, "mask": name, "seed": seed, **options}
                found.append({**place, **errors, "gain": gain, "seconds": seconds})
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
        for name, mask in MASKS:
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


def federated(name: str, size: dict, seed: int) -> dict:
    """Ten owners for each kind of hole, all beside one public series."""
    settings = {mask: make_setting(name, mask=mask, seed=seed) for mask in ("rows", "cells", "feature")}
    clients = {f"{mask}-{key}": series for mask in settings for key, series in settings[mask].clients.items()}
    first = settings["rows"]
    idle = {"rounds": 1, "start_steps": 0, "first_steps": 1, "last_steps": 0, "alpha": 0.0}
    method = FedTDD(common=first.common, **idle, **size)
    began = time.perf_counter()
    fitted = method.fit(clients, public=first.public, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    means = dict(zip(first.common, np.nanmean(first.public.values, axis=0), strict=True))
    print(name, seed, f"{seconds:.0f} s", flush=True)
    rows = [measure(name, mask, settings[mask], fitted, means, seed, seconds) for mask in settings]
    return {"rows": [row for part in rows for row in part]}


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
        for group, chosen in (("common", common), ("exclusive", ~common), ("all", common | ~common)):
            gone = owner.hidden & chosen
            if gone.any():
                errors = [np.abs((fill - owner.complete.values) / half)[gone] for fill in (ours, lines)]
                gains, block = errors[1] - errors[0], np.nonzero(gone)[0] // NEAR
                place = {"data": name, "mask": mask, "features": group, "seed": seed, "client": key}
                base = max(float(errors[1].mean()), 1e-12)
                measured = {
                    "cells": int(gone.sum()), "ours MAE": float(errors[0].mean()), "baseline MAE": base,
                    "gain": float(gains.mean()) / base, "gain error": standard_error(gains, block) / base,
                }  # fmt: skip
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
    parser.add_argument("--what", nargs="*", default=["single", "factors", "federated"])
    parser.add_argument("--seeds", nargs="*", type=int, help="of the federated setting")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    size, note = SIZES[given.size], f"size {given.size}"
    size = {**size, **{key: {**size[key], "device": given.device} for key in ("single", "federated")}}
    ending = "" if given.size == "gpu" else f"-{given.size}"
    if "single" in given.what:
        options, tried = choose(size)
        write_results("series/imputation-choice", tried, seed=0, note=note)
        rows = single_owner(size["single"], options, min(3, size["seeds"]))
        write_results("series/imputation-single", rows, seed=0, note=note)
    if "factors" in given.what:
        write_results(
            "series/imputation-factors", factor_data(size["single"], min(3, size["seeds"])), seed=0, note=note
        )
    if "federated" in given.what:
        for name in given.data:
            key = {"imputation": name, "size": given.size}
            for seed in given.seeds or range(size["seeds"]):
                do_part(given.parts, {**key, "seed": seed}, partial(federated, name, size["federated"], seed))
            parts = sorted(read_parts(given.parts, **key), key=lambda part: part["seed"])
            rows = [row for part in parts for row in part["rows"]]
            seeds, found = [part["seed"] for part in parts], f"{note}; {about(parts)}"
            write_results(f"series/imputation-{name}{ending}", summary(rows), seed=seeds, note=found)
            write_results(f"series/imputation-{name}{ending}-clients", rows, seed=seeds, note=found)


if __name__ == "__main__":
    main()

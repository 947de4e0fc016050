"""Filling many short sequences: ETTh1, Energy and Stocks cut into pieces of 12, 24, 30, 48 and of 5 to 60 rows.

    python benchmarks/series/short.py --data etth --cut 24 --seeds 0 --device cuda     one case a process
    python benchmarks/series/short.py --collect                                        the table of all parts

The first four fifths of the pieces are learned from, complete; half of the rows or cells of the others are missing.
Settings are chosen with `--until 0.8`, which ends the series before the pieces that are reported on.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from imputation import MASKS  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import load, standard_error  # noqa: E402

from cotempo.data import Series, hide  # noqa: E402
from cotempo.series import SeriesDiffusion, SeriesMoments, interpolate  # noqa: E402

CUTS = ("12", "24", "30", "48", "ragged")
PERIODS = {"etth": 24, "energy": 144, "stocks": 5}
UNITS = {"etth": ("h", 1.0), "energy": ("h", 6.0), "stocks": ("D", 1.0)}
SIZES = {
    "tiny": {"imputer_steps": 50, "imputer_width": 16, "imputer_layers": 1, "steps": 1, "batch": 32},
    "brief": {"imputer_steps": 1000, "steps": 1},
    "filling": {"steps": 1},  # the diffusion model, which filling does not use, as good as untrained
    "full": {},
}


def cut_up(rows: np.ndarray, cut: str, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pieces in order of time, and the times of their rows."""
    lengths = (
        np.random.default_rng([seed, 14]).integers(5, 61, len(rows)) if cut == "ragged" else [int(cut)] * len(rows)
    )
    ends = np.cumsum(lengths)
    ends = [0, *ends[ends <= len(rows)]]
    spans = list(pairwise(ends))
    return [rows[first:end] for first, end in spans], [np.arange(first, end, dtype=float) for first, end in spans]


def seasonal(learned: Series, holes: Series, period: int, a_unit: float) -> np.ndarray:
    """Linear interpolation of the deviation from the mean of the same phase, after `a_unit` rows a unit of time."""
    phase, level = (np.rint(table.time * a_unit).astype(int) % period for table in (learned, holes))
    level = np.stack([learned.values[phase == k].mean(axis=0) for k in range(period)])[level]
    return interpolate(replace(holes, values=holes.values - level)).values + level


def measure(name: str, cut: str, seed: int, size: str, until: float, device: str) -> dict:
    """Errors in units of half the range, of each way to fill."""
    rows, _ = load(name)
    pieces, times = cut_up(rows[: int(until * len(rows))], cut, seed)
    border = int(0.8 * len(pieces))
    unit, a_unit = UNITS[name]
    times = [part / a_unit for part in times]
    learned = Series.from_arrays(pieces[:border], time=times[:border], unit=unit)
    test = Series.from_arrays(pieces[border:], time=times[border:], unit=unit)
    half = (learned.values.max(axis=0) - learned.values.min(axis=0)) / 2
    began, used = time.perf_counter(), time.process_time()
    model = SeriesDiffusion(**SIZES[size], device=device).fit(learned, seed=seed)
    spent = {"seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - used}
    moments = SeriesMoments().fit(learned)
    blocks, found = np.unique(test.sequence, return_inverse=True)[1], []
    for mask_name, mask in MASKS:
        holes, _ = hide(test, mask(test.values.shape, 0.5, seed))
        gone = np.isnan(holes.values)
        fillings = {
            "linear": interpolate(holes).values,
            "seasonal": seasonal(learned, holes, PERIODS[name], a_unit),
            "moments": moments.impute(holes).values,
            "ours": model.impute(holes).values,
        }
        errors = {key: np.abs((filled - test.values) / half)[gone] for key, filled in fillings.items()}
        line, gains = errors["linear"].mean(), errors["linear"] - errors["ours"]
        row = {"data": name, "cut": cut, "mask": mask_name, "seed": seed, "cells": int(gone.sum())}
        row |= {f"{key} MAE": float(part.mean()) for key, part in errors.items()}
        error = standard_error(gains, blocks[gone.nonzero()[0]])
        row |= {"gain": float(gains.mean() / line), "gain error": float(error / line)}
        found.append({**row, **spent})
        print(found[-1], flush=True)
    return {"rows": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=sorted(PERIODS), default=["etth", "energy", "stocks"])
    parser.add_argument("--cut", nargs="*", choices=CUTS, default=list(CUTS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument("--until", type=float, default=1.0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in () if given.collect else given.data:
        for cut in given.cut:
            for seed in given.seeds:
                key = {"short": name, "cut": cut, "seed": seed, "size": given.size, "until": given.until}
                do_part(given.parts, key, partial(measure, name, cut, seed, given.size, given.until, given.device))
    if given.collect:
        parts = [part for part in read_parts(given.parts, size=given.size, until=given.until) if "short" in part]
        parts.sort(key=lambda part: (part["short"], CUTS.index(part["cut"]), part["seed"]))
        rows = [row for part in parts for row in part["rows"]]
        write_results("series/short", rows, seed=sorted({row["seed"] for row in rows}), note=about(parts))


if __name__ == "__main__":
    main()

"""How often intervals hold the missing cells they stand for, on real series cut by time.

    python benchmarks/series/coverage.py --data stocks etth energy     about eight minutes a set on one CPU thread

The first four fifths (`--cut`) are learned from. Of the next fifth half of the rows or cells are missing, or twelve
rows in 48.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from imputation import MASKS  # noqa: E402
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402
from setting import NAMES, load  # noqa: E402

from cotempo.data import Series, hide  # noqa: E402
from cotempo.series import SeriesDiffusion, interpolate  # noqa: E402
from cotempo.series.windows import Scale  # noqa: E402


def mask_gaps(shape: tuple[int, int], share: float, seed: int) -> NDArray[np.bool_]:
    """Twelve rows in 48."""
    return np.broadcast_to(((np.arange(shape[0]) + seed) % 48 < 12)[:, None], shape)


LEVELS = (0.5, 0.9)
DRAWS = 20


def measure(name: str, seed: int, learned: float, device: str) -> dict:
    """Shares of missing cells inside their intervals, how wide these are, and errors, in units of half the range."""
    rows, _ = load(name)
    cut, end = (int(share * len(rows)) for share in (learned, learned + 0.2))
    scale = Scale.of(rows[:cut])
    half = (scale.high - scale.low) / 2
    model = SeriesDiffusion(device=device).fit(Series.from_arrays(rows[:cut]), seed=seed)
    test, found = Series.from_arrays(rows[cut:end]), []
    for mask_name, mask in (*MASKS, ("gaps", mask_gaps)):
        holes, _ = hide(test, mask(test.values.shape, 0.5, seed))
        gone = np.isnan(holes.values)
        for level in LEVELS:
            filled = model.impute(holes, draws=DRAWS, level=level, seed=seed)
            inside = (filled.low <= test.values) & (test.values <= filled.high)
            width = ((filled.high - filled.low) / 2 / half)[gone].mean()
            row = {"data": name, "learned": learned, "mask": mask_name, "seed": seed, "level": level}
            row |= {"covered": float(inside[gone].mean()), "half width": float(width)}
            for key, guess in (("MAE", filled), ("interpolation MAE", interpolate(holes))):
                row[key] = float((np.abs(guess.values - test.values) / half)[gone].mean())
            found.append(row)
            print(found[-1], flush=True)
    return {"rows": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=NAMES, default=["stocks", "etth"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--cut", type=float, default=0.8)
    parser.add_argument("--parts", type=Path, default=FOLDER)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in () if given.collect else given.data:
        for seed in given.seeds:
            key = {"coverage": name, "seed": seed, "learned": given.cut}
            do_part(given.parts, key, partial(measure, name, seed, given.cut, given.device))
    parts = [part for part in read_parts(given.parts) if "learned" in part]
    parts.sort(key=lambda part: (part["learned"], part["coverage"], part["seed"]))
    rows = [row for part in parts for row in part["rows"]]
    write_results("series/coverage", rows, seed=sorted({row["seed"] for row in rows}), note=about(parts))


if __name__ == "__main__":
    main()

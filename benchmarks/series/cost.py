"""What filling costs on one CPU thread: the imputer beside 200 guided steps of the diffusion model, on ETTh1.

python benchmarks/series/cost.py --windows 64 --steps 3000
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from results import write_results
from setting import WINDOW, load

from cotempo.data import Series, hide, mask_rows
from cotempo.federation import Rng
from cotempo.series import SeriesDiffusion, interpolate
from cotempo.series.fedtdd import GuidedFiller
from cotempo.series.windows import SeriesRows

GUIDED = {"sampler": "ddim", "sampler_steps": 200, "warm_start": 1.0}
WARM = {"sampler": "ddim", "sampler_steps": 25, "warm_start": 0.3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, _ = load("etth")
    cut = int(0.8 * len(rows))
    sizes = SeriesDiffusion(imputer_steps=given.steps, steps=given.steps, device=given.device)
    model = sizes.fit(Series.from_arrays(rows[:cut]))
    model.settings = sizes = sizes.model_copy(update={"device": "cpu"})  # trained where it is fast
    half = (rows[:cut].max(axis=0) - rows[:cut].min(axis=0)) / 2
    starts = np.linspace(cut, len(rows) - WINDOW, given.windows).astype(int)
    table = Series.from_arrays([rows[k : k + WINDOW] for k in starts])
    holes, _ = hide(table, mask_rows(table.values.shape, 0.5, 0))
    gone, scale = np.isnan(holes.values), model.scale
    guided = GuidedFiller(scale, len(scale.low), model.weights, None, Rng(0))
    fillers = {
        "linear interpolation": lambda: interpolate(holes).values,
        "imputer": lambda: model.impute(holes).values,
        "200 guided steps": lambda: guided.rows(SeriesRows.of(holes), sizes.model_copy(update=GUIDED)),
        "25 guided steps from the interpolant": lambda: guided.rows(
            SeriesRows.of(holes), sizes.model_copy(update=WARM)
        ),
    }
    found = []
    for name, fill in fillers.items():
        fill()
        began = time.process_time()
        filled = fill()
        seconds = time.process_time() - began
        error = float(np.abs((filled - table.values) / half)[gone].mean())
        found.append({"method": name, "MAE": error, "CPU milliseconds a window": 1e3 * seconds / given.windows})
        print(found[-1], flush=True)
    write_results("series/cost", found, seed=0, note=f"{given.windows} windows, {given.steps} training steps")


if __name__ == "__main__":
    main()

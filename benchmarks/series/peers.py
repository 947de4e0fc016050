"""ETTh1 by time, half of the rows or cells missing: `SeriesDiffusion` beside SAITS trained for the same CPU time.

python benchmarks/series/peers.py --seeds 0 1 2        one CPU thread, about twelve minutes a seed
python benchmarks/series/peers.py --collect FOLDER     result file from parts of separate runs
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from baselines import train_saits
from imputation import MASKS, errors_of
from results import write_results
from setting import WINDOW, load

from cotempo.data import Series
from cotempo.series import SeriesDiffusion, interpolate


def compare(seed: int, steps: int) -> list[dict]:
    """Train ours, then SAITS for as many CPU seconds."""
    rows, _ = load("etth")
    cut = int(0.8 * len(rows))
    half = (rows[:cut].max(axis=0) - rows[:cut].min(axis=0)) / 2
    train, test = Series.from_arrays(rows[:cut]), Series.from_arrays(rows[cut:])
    began = time.process_time()
    model = SeriesDiffusion(imputer_steps=steps, steps=1).fit(train, seed=seed)
    seconds = {"ours": time.process_time() - began, "linear": 0.0}
    fillers = {"ours": model.impute, "linear": interpolate}
    torch.manual_seed(seed)
    taken = []
    for epochs in (1, 2):
        began = time.process_time()
        train_saits(train, epochs=epochs)
        taken.append(time.process_time() - began)
    began = time.process_time()
    peer = train_saits(train, epochs=max(1, round(seconds["ours"] / (taken[1] - taken[0]))))
    seconds["saits"] = time.process_time() - began
    fillers["saits"] = peer.impute
    found = []
    for mask_name, mask in MASKS:
        errors = errors_of(fillers, test, mask, seed, half)
        for name in fillers:
            place = {"mask": mask_name, "seed": seed, "method": name, "window": WINDOW}
            found.append({**place, "MAE": errors[f"{name} MAE"], "training CPU seconds": seconds[name]})
            print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--parts", type=Path, help="write a part for each seed here instead of the result file")
    parser.add_argument("--collect", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.collect:
        parts = [json.loads(path.read_text()) for path in sorted(given.collect.glob("series-peers-*.json"))]
    else:
        parts = []
        for seed in given.seeds:
            parts.append(compare(seed, given.steps))
            if given.parts:
                (given.parts / f"series-peers-{seed}.json").write_text(json.dumps(parts[-1]))
    if not given.parts:
        rows = [row for part in parts for row in part]
        write_results("series/imputation-peers", rows, seed=sorted({row["seed"] for row in rows}))


if __name__ == "__main__":
    main()

"""How long a stacked training step takes: the diffusion backbone at Stocks size, batches of 2 x 64 windows a client.

python benchmarks/series/speed.py --clients 1 10 100
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

from cotempo.federation import Rng
from cotempo.series.nn import layers
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.nn.training import TrainingWindows, train
from cotempo.series.settings import SeriesSettings

FEATURES = 6


def step_milliseconds(clients: int, steps: int, device: str) -> float:
    """Of one step: the difference of two runs, so that what is done once does not count."""
    sizes = SeriesSettings(batch=128, device=device)
    task = sizes.denoising()
    datasets = [TrainingWindows.plain(np.random.default_rng(0).standard_normal((300, 24, FEATURES)))] * clients
    rngs = [Rng(0, str(k)) for k in range(clients)]
    fresh = [NetworkState.fresh(task.specs(FEATURES), rng("backbone"), "float32") for rng in rngs]
    clock = time.perf_counter if device == "cuda" else time.process_time
    taken = []
    for count in (max(4, min(120, steps)), steps, 2 * steps):
        began = clock()
        train(task, fresh, datasets, count, sizes.schedule(2 * steps), rngs)
        taken.append(clock() - began)
    return 1e3 * (taken[2] - taken[1]) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", nargs="*", type=int, default=[1, 10, 100])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if given.device == "cuda" else "one CPU thread"
    rows = []
    for count in given.clients:
        milliseconds = step_milliseconds(count, given.steps, given.device)
        row = {"device": name, "clients": count, "milliseconds a step": milliseconds}
        if given.device == "cuda":
            with mock.patch.object(layers, "SHORT", 0):
                row["with the library's attention"] = step_milliseconds(count, given.steps, given.device)
        rows.append(row)
        print(row, flush=True)
    write_results(f"series/speed-{given.device}", rows, seed=0)


if __name__ == "__main__":
    main()

"""SigmoidCox on a known intensity: relative error, coverage of the 95 % bands, and seconds, by number of events.

python benchmarks/events/truth.py --repeats 20
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import write_results
from numpy.typing import NDArray

from cotempo.events import SigmoidCox, coverage

WINDOW = (0.0, 50.0)
SCALES = (0.7, 2.0, 4.0, 8.0, 21.5, 215.0)


def truth(times: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(2 * np.exp(-times / 15) + np.exp(-(((times - 25) / 10) ** 2)))


def simulate(scale: float, seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    top = 2.2 * scale
    times = np.sort(rng.uniform(*WINDOW, rng.poisson(top * WINDOW[1])))
    return times[rng.uniform(0, top, len(times)) < scale * truth(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    grid = np.linspace(0.1, 49.9, 400)
    rows = []
    for scale in SCALES:
        found = []
        for seed in range(repeats):
            times, began = simulate(scale, seed), time.process_time()
            band = SigmoidCox().fit(times, WINDOW).intensity(grid)
            true = scale * truth(grid)
            error = np.sqrt(np.mean((band.mean - true) ** 2)) / true.mean()
            found.append([len(times), error, coverage(band, true), time.process_time() - began])
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        names = ("events", "relative_rmse", "coverage", "cpu_seconds")
        rows.append(dict(zip(names, mean.tolist(), strict=True)) | {"coverage_sd": float(spread[2])})
        print(rows[-1], flush=True)
    write_results("events-truth", rows, seed=f"0 to {repeats - 1}", note="means over repeats")


if __name__ == "__main__":
    main()

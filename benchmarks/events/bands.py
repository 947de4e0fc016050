"""FedPP's bands on known intensities: coverage of the 95 % bands and relative error, by truth and number of events.

python benchmarks/events/bands.py run --seeds 0 --truths spike --sizes 10000        (one part; all by default)
python benchmarks/events/bands.py table

Five clients with two sequences each and levels of their own share one of the truths of `truths.py`; the number of
events is that of all clients together.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from common import write_results
from parts import FOLDER, about, do_part, read_parts
from truths import POINTS, SIZES, TRUTHS, WINDOW, intensity

from cotempo.data import Events
from cotempo.events import FedPP, coverage

CLIENTS, SEQUENCES, SPREAD = 5, 2, 0.4


def measure(truth: str, size: int, seed: int) -> dict[str, Any]:
    """One federation."""
    rng = np.random.default_rng([seed, size, *truth.encode()])
    level = np.exp(SPREAD * rng.standard_normal(CLIENTS))
    level *= 1 / (SEQUENCES * level.sum())
    clients = {f"client-{i}": draw(truth, size * share, rng) for i, share in enumerate(level)}
    began = time.process_time()
    fitted = FedPP(kernel="time", compare=False, window=WINDOW).fit(clients, progress=False, seed=seed)
    seconds = time.process_time() - began
    found = []
    for name, share in zip(clients, level, strict=True):
        band, true = fitted[name].intensity(POINTS), intensity(truth, size, POINTS) * share
        error = float(np.sqrt(np.mean((band.mean - true) ** 2)) / true.mean())
        found.append([coverage(band, true), error])
    covered, error = np.mean(found, axis=0).tolist()
    line = fitted.state.timeline
    return {
        "coverage": covered,
        "relative_rmse": error,
        "curve": line.smoother,
        "temper": line.temper,
        "seconds": seconds,
    }


def draw(truth: str, size: float, rng: np.random.Generator) -> Events:
    """A client's sequences, by thinning; `size` is the expected number of events of each."""
    top = 1.01 * float(intensity(truth, 1, np.linspace(*WINDOW, 100_001)).max()) * size
    parts = []
    for _ in range(SEQUENCES):
        times = np.sort(rng.uniform(*WINDOW, rng.poisson(top * WINDOW[1])))
        parts.append(times[rng.uniform(0, top, len(times)) < intensity(truth, 1, times) * size])
    return Events.from_arrays(parts, WINDOW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--truths", nargs="+", choices=TRUTHS, default=list(TRUTHS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    given = parser.parse_args()
    if given.what == "run":
        for truth in given.truths:
            for size in given.sizes:
                for seed in given.seeds:
                    key = {"bands": truth, "size": size, "seed": seed}
                    do_part(FOLDER, key, partial(measure, truth, size, seed))
        return
    parts = [part for part in read_parts(FOLDER) if "bands" in part]
    rows = []
    for truth in TRUTHS:
        for size in SIZES:
            found = [part for part in parts if part["bands"] == truth and part["size"] == size]
            if found:
                names = ("coverage", "relative_rmse", "seconds")
                means = {name: float(np.mean([part[name] for part in found])) for name in names}
                spread = float(np.std([part["coverage"] for part in found]))
                rows.append({"truth": truth, "events": size, "seeds": len(found), **means, "coverage_sd": spread})
                print(rows[-1])
    seeds = sorted({part["seed"] for part in parts})
    write_results("events-bands", rows, seed=seeds, note=f"means over seeds and clients; {about(parts)}")


if __name__ == "__main__":
    main()

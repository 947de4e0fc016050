"""Are edges as sure as OneRound says? Stated probability against the share that is right, over 50 data sets.

Run: python benchmarks/networks/calibration.py [--seeds 50] [--samples 120 200 512] [--draws 40]
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
from measuring import finish, options, show

import cotempo as ct
from drawing import plot_calibration

EDGES = (0.0, 0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 1.0)
KINDS: dict[str, dict[str, Any]] = {"equal": {}, "unequal": {"noise": "unequal"}}


def main() -> None:
    chosen = options(__doc__, seeds=50, samples=[120, 200, 512], variables=6, draws=40, scaled=0)
    if not chosen.plot:
        run(chosen)
    plot_calibration("calibration_scaled" if chosen.scaled else "calibration")


def run(chosen: argparse.Namespace) -> None:
    """All bins of all settings."""
    rows = []
    for noise, kind in KINDS.items():
        for samples in chosen.samples:
            data = {"variables": chosen.variables, "clients": 4, "samples": samples, "degree": 2.0, **kind}
            parts = [stated_and_right(data, seed, chosen.draws, bool(chosen.scaled)) for seed in range(chosen.seeds)]
            stated, right = (np.concatenate(part) for part in zip(*parts, strict=True))
            for low, high in pairwise(EDGES):
                inside = (stated >= low) & ((stated < high) | (high == 1.0))
                row = {"noise": noise, "samples": samples, "low": low, "high": high, "edges": int(inside.sum())}
                rows.append({**row, "stated": mean(stated[inside]), "right": mean(right[inside])})
            show(rows[-2])
    said = "; ".join(
        f"n={row['samples']} {row['noise']}: {row['right']:.0%} of {row['edges']}" for row in rows if row["low"] == 0.85
    )
    name = "calibration_scaled" if chosen.scaled else "calibration"
    finish(name, rows, chosen.seeds, f"right of the edges stated at .85 to .95 (target 80 to 100 %): {said}")


def stated_and_right(data: dict[str, Any], seed: int, draws: int, scaled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of all possible edges of one data set, and whether they are there."""
    clients, truth = ct.make_networks(seed=seed, **data)
    fitted = ct.OneRound(compare=False, scaled=scaled).fit(clients, progress=False)
    confidence = fitted.confidence(draws, seed=seed)
    off = ~np.eye(data["variables"], dtype=bool)
    stated = np.concatenate([confidence.within[off], confidence.across.ravel()])
    return stated, np.concatenate([(truth.within != 0)[off], (truth.across != 0).ravel()])


def mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


if __name__ == "__main__":
    main()

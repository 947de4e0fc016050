"""Figures: two clients' intensities recovered, quantiles of rescaled waits on Taobao, and gain by rounds and clients.

python benchmarks/events/figures.py recovery
python benchmarks/events/figures.py quantiles --share 0.1
python benchmarks/events/figures.py curves            (of what `published.py clients` measured)

They are written as pictures beside the result files.
"""

from __future__ import annotations

import argparse
import csv
from typing import Any

import numpy as np
from common import PERIODS, deal, write_results
from matplotlib.figure import Figure
from numpy.typing import NDArray
from results import FOLDER

from cotempo.data import Events
from cotempo.events import FedPointProcess, FedPP, coverage, rescaling_test
from cotempo.events.plots import plot_intensities, plot_quantiles

LENGTH = 100.0


def true_intensity(client: int, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two clients of one kernel: sums of waves with the same length scale and other phases."""
    wave = np.sin(times / 8 + 2 * client) + 0.7 * np.sin(times / 13 - client)
    return np.asarray((6.0, 10.0)[client] / (1 + np.exp(-1.5 * wave)))


def recover(seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    tables = {}
    for client in range(2):
        times = np.sort(rng.uniform(0, LENGTH, rng.poisson(10 * LENGTH)))
        kept = times[rng.uniform(0, 10, len(times)) < true_intensity(client, times)]
        tables[f"client {client + 1}"] = Events.from_arrays([kept], (0.0, LENGTH))
    fitted = FedPP(preset="paper", rounds=40, window=(0.0, LENGTH)).fit(tables, progress=False, seed=seed)
    curves = {name: fitted[name] for name in tables}
    figure = plot_intensities(curves, None, tables)
    grid, rows = np.linspace(0.5, LENGTH - 0.5, 400), []
    for client, (axes, (name, curve)) in enumerate(zip(figure.axes, curves.items(), strict=False)):
        true, band = true_intensity(client, grid), curve.intensity(grid)
        axes.plot(grid, true, color="#c0392b", linewidth=1, linestyle="--", label="truth")
        axes.legend(frameon=False, fontsize=8)
        error = float(np.sqrt(np.mean((band.mean - true) ** 2)) / true.mean())
        row = {"client": name, "events": tables[name].rows, "relative_rmse": error, "coverage": coverage(band, true)}
        rows.append(row)
        print(row)
    path = write_results("events-recovery", rows, seed=seed, note="preset paper, 40 rounds")
    figure.savefig(path.with_suffix(".png"), dpi=120)


def compare_quantiles(share: float, clients: int, seed: int = 0) -> None:
    train, test = deal("taobao", clients, share, seed)
    period = PERIODS["taobao"]
    methods: dict[str, Any] = {
        "homogeneous": FedPointProcess(process="poisson"),
        "FedPP of time": FedPP(kernel="time", compare=False),
        "Hawkes": FedPointProcess(process="hawkes"),
        "FedPP of history": FedPP(kernel="history", period=period, compare=False),
    }
    tests, rows = {}, []
    for name, method in methods.items():
        fitted = method.fit(train, progress=False, seed=seed)
        waits = [part for client in test for part in fitted[client].rescale(test[client])]
        tests[name] = rescaling_test(waits)
        rows.append({"model": name, "distance": tests[name].statistic, "waits": len(tests[name].waits)})
        print(rows[-1], flush=True)
    path = write_results("events-quantiles-taobao", rows, seed=seed, note=f"share {share:g}, test sequences")
    plot_quantiles(tests).savefig(path.with_suffix(".png"), dpi=120)


def draw_curves(data: str) -> None:
    with open(FOLDER / f"events-clients-{data}.csv") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for clients in sorted({int(row["clients"]) for row in rows}):
        found: dict[int, list[float]] = {}
        for row in rows:
            if int(row["clients"]) == clients:
                found.setdefault(int(row["rounds"]), []).append(float(row["gain"]))
        rounds = sorted(found)
        spread = [np.std(found[number]) for number in rounds]
        axes.errorbar(rounds, [np.mean(found[number]) for number in rounds], spread, label=f"{clients} clients")
    axes.axhline(0, color="#8a8a8a", linewidth=0.6)
    axes.set_xlabel("rounds, a tenth of the clients in each")
    axes.set_ylabel("held-out gain, nats per event")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FOLDER / f"events-clients-{data}.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("recovery", "quantiles", "curves"))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--clients", type=int, default=10)
    given = parser.parse_args()
    if given.what == "recovery":
        recover()
    elif given.what == "curves":
        draw_curves("taobao")
    else:
        compare_quantiles(given.share, given.clients)


if __name__ == "__main__":
    main()

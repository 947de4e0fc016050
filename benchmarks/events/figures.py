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
from cotempo.federation.reducers import PlainReducer

LENGTH, GRID = 100.0, np.linspace(0.0, 100.0, 401)
KERNELS = ((1.5, 10.0), (2.0, 8.0))
READINGS = {"50 in all": 0.5, "50 a unit": 50.0}


def true_intensity(client: int, highest: float, seed: int) -> NDArray[np.float64]:
    """Return m times the sigmoid of a draw from the client's Gaussian process, on `GRID`."""
    variance, length = KERNELS[client]
    kernel = variance * np.exp(-0.5 * ((GRID[:, None] - GRID) / length) ** 2)
    draw = np.random.default_rng([seed, client]).multivariate_normal(np.zeros(len(GRID)), kernel, method="svd")
    return np.asarray(highest / (1 + np.exp(-draw)))


def recover(seeds: list[int], rounds: int) -> None:
    """Figure J.3: kernels of variance and length [1.5, 10] and [2, 8], m = 50, 50 inducing points.

    The paper has T = 1 and draws time from 0 to 100, so m may be events in all or events a unit of that axis: both.
    """
    rows = []
    for seed in seeds:
        for reading, highest in READINGS.items():
            rng, tables, truths = np.random.default_rng([seed, 2]), {}, {}
            for client in range(2):
                name = f"client {client + 1}"
                truths[name] = true_intensity(client, highest, seed)
                times = np.sort(rng.uniform(0, LENGTH, rng.poisson(highest * LENGTH)))
                kept = times[rng.uniform(0, highest, len(times)) < np.interp(times, GRID, truths[name])]
                tables[name] = Events.from_arrays([kept], (0.0, LENGTH))
            method = FedPP(preset="paper", kernel="time", rounds=rounds, window=(0.0, LENGTH))
            fitted = method.fit(tables, progress=False, seed=seed, reducer=PlainReducer())
            inside = slice(2, -2)
            for name, truth in truths.items():
                band, true = fitted[name].intensity(GRID[inside]), truth[inside]
                error = float(np.sqrt(np.mean((band.mean - true) ** 2)) / true.mean())
                flat = float(np.sqrt(np.mean((tables[name].rows / LENGTH - true) ** 2)) / true.mean())
                scores = {"relative_rmse": error, "flat_rmse": flat, "coverage": coverage(band, true)}
                rows.append({"m": reading, "client": name, "seed": seed, "events": tables[name].rows, **scores})
                print(rows[-1], flush=True)
            if seed == seeds[0] and highest > 1:
                figure = plot_intensities({name: fitted[name] for name in tables}, None, tables)
                for axes, truth in zip(figure.axes, truths.values(), strict=False):
                    axes.plot(GRID, truth, color="#c0392b", linewidth=1, linestyle="--", label="truth")
                    axes.legend(frameon=False, fontsize=8)
    path = write_results(
        "events-recovery", rows, seed=seeds, note=f"preset paper, {rounds} rounds, draws of Gaussian processes"
    )
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
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    if given.what == "recovery":
        recover(given.seeds, given.rounds)
    elif given.what == "curves":
        draw_curves("taobao")
    else:
        compare_quantiles(given.share, given.clients)


if __name__ == "__main__":
    main()

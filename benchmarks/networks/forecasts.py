"""One-step forecasts on later rows: their errors beside two baselines, and how often the 90 % bounds hold.

Three clients of 200 rows, 5 variables, noise variances unequal; judged are the next 100 rows of each. `lacking`: the
forecasting table holds all variables but one, in turn by client, and bounds and errors are of those it holds.

Run: python benchmarks/networks/forecasts.py [--seeds 8]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measuring import finish, options, show

import cotempo as ct

SEEN, JUDGED, BACK = 200, 100, 40
METHODS = {
    "FDBNL": ct.FDBNL(compare=False),
    "PFDBNL": ct.PFDBNL(compare=False),
    "OneRound": ct.OneRound(compare=False),
}


def main() -> None:
    chosen = options(__doc__, seeds=8)
    rows = []
    for name, method in METHODS.items():
        for lacking in (False, True):
            found = np.array([measure(method, seed, lacking) for seed in range(chosen.seeds)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
            names = ("error", "error_of_last_row", "error_of_mean", "coverage")
            row = {"method": name, "lacking": lacking}
            for place, label in enumerate(names):
                row |= {label: mean[place], f"{label}_se": error[place]}
            rows.append(row)
            show(row)
    finish("forecasts", rows, chosen.seeds, "squared errors over the variance of the rows; bounds of 90 %")


def measure(method: ct.Method, seed: int, lacking: bool) -> tuple[float, float, float, float]:
    """Return squared errors of forecast, last row and mean, over the variance, and the share inside the bounds."""
    clients, _ = ct.make_networks(variables=5, clients=3, samples=3 * (SEEN + JUDGED), noise="unequal", seed=seed)
    fitted = method.fit({name: table.select(np.arange(table.rows) < SEEN) for name, table in clients.items()})
    found = np.array([one for case in enumerate(clients.items()) for one in judge(fitted, *case, lacking)])
    errors, last, plain, inside = found.mean(axis=0)
    return errors / plain, last / plain, 1.0, inside


def judge(fitted, number: int, client: tuple[str, ct.Series], lacking: bool) -> Iterator[tuple[float, ...]]:
    name, table = client
    network, gone = fitted[name].network, number if lacking else -1
    kept = [place for place in range(len(table.features)) if place != gone]
    for row in range(SEEN, SEEN + JUDGED):
        past = table.select(np.arange(row - BACK, row), features=[table.features[place] for place in kept])
        ahead, true = network.forecast(past, 1), table.values[row, kept]
        scale = np.asarray(network.scale)[kept]
        low, high = ahead.low[0, kept], ahead.high[0, kept]
        errors = ((ahead.values[0, kept] - true) / scale) ** 2
        last = ((past.values[-1] - true) / scale) ** 2
        plain = ((np.asarray(network.mean)[kept] - true) / scale) ** 2
        yield errors.mean(), last.mean(), plain.mean(), ((low < true) & (true < high)).mean()


if __name__ == "__main__":
    main()

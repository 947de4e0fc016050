"""What it costs not to know that columns share one unit, and to assume it where they do not.

Wrong edges within a time step, a reversed one counting two, of FDBNL and OneRound: with scaled columns (the default,
the same in any units), with `scaled=False` on columns of one unit, and with `scaled=False` on mixed units.

Run: python benchmarks/networks/units.py [--seeds 5]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from measuring import finish, options, show

import cotempo as ct
from cotempo.threads import limit_threads

METHODS = {"FDBNL": ct.FDBNL, "OneRound": ct.OneRound}
SIZES = ({"variables": 20, "samples": 512}, {"variables": 10, "samples": 100})
SPREAD = 100.0
WAYS = ("scaled", "one unit", "mixed units")


def wrong_edges(method: str, way: str, clients: Mapping[str, ct.Series], truth: ct.Network) -> float:
    """Distance within a time step; mixed units are taken back before edges are compared."""
    factor = np.ones(len(truth.variables))
    if way == "mixed units":
        factor = SPREAD ** np.random.default_rng(0).uniform(-0.5, 0.5, len(factor))
    tables = {n: ct.Series.from_arrays(t.values * factor, features=t.features) for n, t in clients.items()}
    with limit_threads(1):
        fitted = METHODS[method](scaled=way == "scaled", compare=False).fit(tables, progress=False)
    return ct.score_network(fitted.network, truth)["within_shd_double"]


def main() -> None:
    chosen = options(__doc__, seeds=5)
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        for noise in ("equal", "unequal"):
            # Settings were looked at on seeds below 400.
            data = [ct.make_networks(**size, clients=8, noise=noise, seed=400 + s) for s in range(chosen.seeds)]
            for method in METHODS:
                row = {**size, "noise": noise, "method": method, "seeds": chosen.seeds}
                for way in WAYS:
                    found = [wrong_edges(method, way, *one) for one in data]
                    row |= {
                        way: float(np.mean(found)),
                        f"{way}_error": float(np.std(found, ddof=1) / len(found) ** 0.5),
                    }
                rows.append(row)
                show(row)
    finish("units", rows, chosen.seeds, "8 clients; seeds from 400 on; wrong edges of W, a reversed one counting 2")


if __name__ == "__main__":
    main()

"""Three labs measured the expression of genes over time, not all of them the same genes. Which gene drives which?

Run: python examples/labs.py [FOLDER]

The labs' files, written first, stand for what a systems biologist gets: one CSV a lab, times in hours, a few missing
cells, and genes that a lab did not measure. From there on nothing is known but the files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cotempo as ct

GENES = ["abrB", "codY", "comK", "degU", "sigB", "spo0A"]
LACKING = {"kyoto": ["comK"], "lima": ["sigB"]}


def main(folder: Path, hours: int = 400) -> Any:
    """Write the labs' files, learn from them, and leave edges, a figure and a report beside them."""
    write_labs(folder / "labs", hours)

    labs = ct.read_series(folder / "labs")
    for lab, table in labs.items():
        print(f"{lab}: {table}")

    fitted = ct.OneRound(lags=1).fit(labs)
    edges = fitted.edges()
    edges.to_csv(folder / "edges.csv", index=False)
    sure = edges[(edges["probability"] >= 0.9) & (edges["source"] != edges["target"])]
    print("Edges stated at .9 or more:", sure.to_string(index=False), sep="\n")
    print("Direction open:", fitted.undirected or "none")
    for lab, benefit in fitted.benefit.items():
        print(f"{lab}: joining {benefit.verdict} ({benefit.gain:+.2f} nats per row)")

    forecast = fitted.network.forecast(labs["basel"], steps=6)
    forecast.to_frame().to_csv(folder / "forecast.csv", index=False)
    fitted.plot().savefig(folder / "network.png", dpi=120)
    print("Report:", fitted.report(folder / "report.html"))
    return fitted


def write_labs(folder: Path, hours: int) -> None:
    """Write one CSV a lab: the same regulation everywhere, other genes measured."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    clients, _ = ct.make_networks(variables=len(GENES), clients=3, samples=3 * hours, degree=2.0, seed=4)
    for lab, table in zip(("basel", "kyoto", "lima"), clients.values(), strict=True):
        start = np.datetime64("2025-03-03T08:00") + np.timedelta64(int(rng.integers(0, 72)), "h")
        values = np.where(rng.random(table.values.shape) < 0.01, np.nan, table.values + 8.0)
        frame = pd.DataFrame(values.round(4), columns=GENES)
        frame.insert(0, "time", start + np.arange(len(values)).astype("timedelta64[h]"))
        frame.drop(columns=LACKING.get(lab, [])).to_csv(folder / f"{lab}.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "labs-demo"))

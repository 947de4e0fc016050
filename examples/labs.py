"""
Labs: which gene drives which?
==============================

Three labs measured the expression of genes over time, not all of them the same genes. Each file alone is short;
together they tell more, and no lab shows its measurements.
"""

# %%
# The files
# ---------
# One CSV a lab, times in hours, a few missing cells, and genes that a lab did not measure. We make them up, so the
# truth is known.

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct

OUT = Path("labs")
HOURS = 400
GENES = ["abrB", "codY", "comK", "degU", "sigB", "spo0A"]
LACKING = {"kyoto": ["comK"], "lima": ["sigB"]}

rng = np.random.default_rng(4)
made, truth = ct.make_networks(variables=len(GENES), clients=3, samples=3 * HOURS, degree=2.0, seed=4)
(OUT / "raw").mkdir(parents=True, exist_ok=True)
for lab, table in zip(("basel", "kyoto", "lima"), made.values(), strict=True):
    start = np.datetime64("2025-03-03T08:00") + np.timedelta64(int(rng.integers(0, 72)), "h")
    values = np.where(rng.random(table.values.shape) < 0.01, np.nan, table.values + 8.0)
    frame = pd.DataFrame(values.round(4), columns=GENES)
    frame.insert(0, "time", start + np.arange(len(values)).astype("timedelta64[h]"))
    frame.drop(columns=LACKING.get(lab, [])).to_csv(OUT / "raw" / f"{lab}.csv", index=False)

# %%
# Read
# ----

labs = ct.read_series(OUT / "raw")
for lab, table in labs.items():
    print(f"{lab}: {table}")

# %%
# Learn
# -----
# Labs lack genes, so gaps are filled as expected, by sums; a warning says so. Every edge has a probability, and those
# within a time step say whether the data tell their direction.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    fitted = ct.OneRound(lags=1).fit(labs)
edges = fitted.edges()
edges[(edges["probability"] >= 0.9) & (edges["source"] != edges["target"])]

# %%
# The matrix and the arrows, weights in standard deviations:

figure = fitted.plot()

# %%
# How right is it? Here the truth is known: of edges stated at .9 or more, so many are true.

sure = edges[(edges["probability"] >= 0.9) & (edges["source"] != edges["target"])]
places = {gene: place for place, gene in enumerate(GENES)}
true = [
    bool((truth.within if lag == 0 else truth.across[lag - 1])[places[source], places[target]])
    for source, target, lag in zip(sure["source"], sure["target"], sure["lag"], strict=True)
]
print(f"{sum(true)} of {len(true)} edges are true")
print("direction open:", fitted.undirected or "none")

# %%
# Did joining help?
# -----------------

for lab, benefit in fitted.benefit.items():
    print(f"{lab}: joining {benefit.verdict} ({benefit.gain:+.2f} nats per row)")
print(*fitted.advice(), sep="\n")

# %%
# Forecast, table, report
# -----------------------

forecast = fitted.network.forecast(labs["basel"], steps=6)
forecast.to_frame().to_csv(OUT / "forecast.csv", index=False)
edges.to_csv(OUT / "edges.csv", index=False)
figure.savefig(OUT / "network.png", dpi=120)
print("report:", fitted.report(OUT / "report.html"))

# %%
# Next: prior knowledge (``OneRound(forbidden=..., required=..., tiers=...)``), a network per lab (``personal=True``),
# and the same run between the labs themselves: :doc:`/networks`, :doc:`/consortium`.

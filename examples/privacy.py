"""
Privacy: what leaves, and what each shield costs
================================================

Five clinics want to know which vital sign drives which. Before anything leaves, their security officers ask: what
leaves, what could it tell, and what does it cost to tell less? Here all clinics are on this machine, so everything can
be tried.
"""

# %%
# The data, and what would leave
# ------------------------------
# A dry run goes through the method and lists every message, in words; nothing is sent anywhere.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import cotempo as ct

OUT = Path("privacy")
ROWS = 20_000
SEEDS = 3

clinics, truth = ct.make_networks(variables=6, clients=5, samples=ROWS, seed=1)
method = ct.OneRound(compare=False)
print(ct.dry_run(method, clinics))

# %%
# Shield 1: the secure sum
# ------------------------
# Each clinic masks its numbers; masks cancel in the sum, so that nobody reads a single clinic's. The result is the same
# to the ninth digit. Between organisations it is on without being asked for.

plain = method.fit(clinics)
summed = method.fit(clinics, privacy=ct.Privacy(secure_sum=True))
print("largest difference:", np.abs(plain.network.within - summed.network.within).max())

# %%
# Shield 2: noise
# ---------------
# Also a sum tells a little about single rows. Noise bounds that, for good: epsilon says how sure an attacker who knows
# all other rows could become about one. Values must be clipped to ranges that everybody may know.


def agreement(epsilon: float | None, seed: int) -> float:
    tables, known = ct.make_networks(variables=6, clients=5, samples=ROWS, seed=seed)
    privacy = None if epsilon is None else ct.Privacy(epsilon=epsilon, ranges=(-15.0, 15.0))
    found = ct.score_network(method.fit(tables, privacy=privacy).network, known)
    return (found["within_f1"] + found["across_f1"]) / 2


levels = [0.3, 1.0, 3.0, 8.0]
curve = pd.DataFrame({level: [agreement(level, 10 + seed) for seed in range(SEEDS)] for level in levels})
without = np.mean([agreement(None, 10 + seed) for seed in range(SEEDS)])
print(curve.T.round(2))

# %%
# More rows make the same noise cheaper: try ``ROWS = 2_000``.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.errorbar(
    levels, curve.mean(), yerr=curve.sem(), marker="o", capsize=3, label="with noise, mean and standard error"
)
axes.axhline(without, color="0.4", linestyle="--", label="without noise")
axes.set(xscale="log", xlabel="epsilon (less is more private)", ylabel="F1 of edges", ylim=(0, 1.05))
axes.set_xticks(levels, [f"{level:g}" for level in levels], minor=False)
axes.minorticks_off()
axes.legend(frameon=False)

# %%
# Does the promise hold?
# ----------------------
# An audit hides known rows in the data, attacks the run, and counts how often it can tell which of them took part. That
# gives a lower bound of epsilon, which must lie below what was promised.

small, _ = ct.make_networks(variables=4, clients=5, samples=750, seed=2)
table = ct.audit_shields(method, small, ct.Privacy(epsilon=1.0, ranges=(-15.0, 15.0)), canaries=20)
table.to_frame()

# %%
# For the officer
# ---------------
# The report says the same in words: what left, what is promised and to whom.

private = method.fit(clinics, privacy=ct.Privacy(epsilon=1.0, ranges=(-15.0, 15.0), secure_sum=True))
OUT.mkdir(exist_ok=True)
figure.savefig(OUT / "epsilon.png", dpi=120)
print("report:", private.report(OUT / "report.html"))

# %%
# Next: what each method sends and which shield fits it (:doc:`/privacy`), what a lying member can do (:doc:`/threats`),
# and how a site approves a run, keeps a ledger and a budget (:doc:`/site-officer`).

"""
Plants: fill the gaps of sensors
================================

Three plants measure different things in different zones. Sensors fail for hours, and whole rows are missing where a
plant was offline. They want their gaps filled with honest intervals, and a forecast for tomorrow; measurements stay
at home.
"""

# %%
# The exports
# -----------
# Semicolons, decimal commas and German dates; dates in UTC; dates with an offset. We make such files up, and keep what
# sensors would have shown without gaps, to judge by.

from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct

OUT = Path("plants")
HOURS = 24 * 42
BEGIN = pd.Timestamp("2025-03-03", tz="UTC")
ZONES = {"albany": "America/New_York", "berlin": "Europe/Berlin", "chennai": "Asia/Kolkata"}
COMMON = ["load", "outdoor"]
OWN = {"albany": ["oil"], "berlin": ["vibration"], "chennai": ["oil", "pressure"]}


def make_sensors(rng):
    """Make what one plant's sensors would show without gaps, hour by hour."""
    hour, weather = np.arange(HOURS), np.zeros(HOURS)
    for now in range(1, HOURS):
        weather[now] = 0.97 * weather[now - 1] + rng.normal(scale=0.5)
    outdoor = 9 + 5 * np.sin((hour - 9) * np.pi / 12) + weather
    load = 60 + 12 * np.sin((hour - 8) * np.pi / 12) - 1.5 * weather + rng.normal(scale=2, size=HOURS)
    oil = 40 + 0.3 * load + 0.4 * outdoor + rng.normal(scale=0.4, size=HOURS)
    vibration = 0.02 * load + rng.normal(scale=0.1, size=HOURS)
    pressure = 5 + 0.05 * oil + rng.normal(scale=0.05, size=HOURS)
    columns = {"load": load, "outdoor": outdoor, "oil": oil, "vibration": vibration, "pressure": pressure}
    return pd.DataFrame(columns, index=BEGIN + pd.to_timedelta(hour, unit="h")).round(3)


def make_holes(whole, rng):
    """Let sensors fail for up to twelve hours, and the plant be offline four times."""
    holes = whole.copy()
    for sensor in holes:
        for first in rng.integers(0, HOURS, HOURS // 60):
            holes.iloc[first : first + rng.integers(1, 12), holes.columns.get_loc(sensor)] = np.nan
    offline = np.concatenate([np.arange(first, first + 8) for first in rng.integers(5, HOURS - 20, 4)])
    return holes.drop(holes.index[np.unique(offline)])


rng, raw, truth = np.random.default_rng(0), OUT / "raw", {}
raw.mkdir(parents=True, exist_ok=True)
for plant, zone in ZONES.items():
    truth[plant] = make_sensors(rng)[[*COMMON, *OWN[plant]]].tz_convert(zone)
    messy = make_holes(truth[plant], rng)
    if plant == "berlin":
        messy.index = messy.index.strftime("%d.%m.%Y %H:%M")
        messy.to_csv(raw / "berlin.csv", sep=";", decimal=",", index_label="Zeit")
    else:
        messy.index = [time.isoformat() for time in (messy.tz_convert("UTC") if plant == "albany" else messy).index]
        messy.to_csv(raw / f"{plant}.csv", index_label="time")

# %%
# Read and check
# --------------
# Separators and decimal commas are guessed, with a word of warning; each plant keeps its zone.

clients = {}
for plant, zone in ZONES.items():
    german = {"columns": {"time": "Zeit"}, "date_format": "%d.%m.%Y %H:%M"} if plant == "berlin" else {}
    clients |= ct.read_series({plant: raw / f"{plant}.csv"}, zone=zone, unit="h", **german)
print("\n".join(ct.describe(clients).lines()))

# %%
# Does it pay?
# ------------
# The last fifth of each table is kept to see whether a model beats interpolation and the same hour yesterday. One round
# of sums takes seconds.

parts = {plant: ct.split_by_time(table, (0.8, 0.2)) for plant, table in clients.items()}
trial = ct.FedMoments(window=24).fit({plant: learned for plant, (learned, _) in parts.items()})
print(trial["berlin"].compare(parts["berlin"][1]))
print(trial["berlin"].compare(parts["berlin"][1], horizon=24).verdict)

# %%
# Fill
# ----
# Learn from all rows, and fill cells and missing rows, with intervals that hold 50 and 90 of 100 values.

fitted = ct.FedMoments(window=24).fit(clients)
for plant, table in clients.items():
    filled = fitted[plant].impute(table, level=(0.5, 0.9))
    print(f"{plant}: {filled}")
    filled.to_frame().to_csv(OUT / f"{plant}-filled.csv", index=False)
figure = fitted["berlin"].plot(clients["berlin"], rows=240)

# %%
# Here the truth is known: how large are the errors of filled loads, beside a line between neighbours?

for plant, whole in truth.items():
    filled = pd.read_csv(OUT / f"{plant}-filled.csv")
    gone = (filled["load_low_90"] < filled["load_high_90"]).to_numpy()
    load = whole["load"].to_numpy()
    line = pd.Series(np.where(gone, np.nan, load)).interpolate().bfill().to_numpy()
    inside = ((filled["load_low_90"] <= load) & (load <= filled["load_high_90"])).to_numpy()[gone]
    error, simple = (np.abs(guess - load)[gone].mean() for guess in (filled["load"].to_numpy(), line))
    print(f"{plant}: error {error:.2f}, interpolation {simple:.2f}; {inside.mean():.0%} inside the 90 % interval")

# %%
# Tomorrow
# --------

tomorrow = fitted["chennai"].forecast(clients["chennai"], horizon=48)
ahead = tomorrow.plot()

# %%
# Keep and show
# -------------

figure.savefig(OUT / "berlin.png", dpi=150)
ahead.savefig(OUT / "chennai-forecast.png", dpi=150)
fitted.save(OUT / "fitted")
print("report:", fitted.report(OUT / "report.html"))

# %%
# Next: ``ct.FedTDD(common=["load", "outdoor"]).fit(clients, public=...)`` trains imputers and generators together
# with a public series; it takes longer, and :doc:`/series` says when it pays. Synthetic data to share:
# ``fitted["berlin"].release(clients["berlin"], 50)``. Between the plants themselves: :doc:`/consortium`.

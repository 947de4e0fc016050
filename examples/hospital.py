"""
Hospitals: when do patients come?
=================================

Three hospitals want to know their admission rates by the hour, when the next patient comes, and how many to expect in
the late shift. Together they learn the rhythm of the day, each keeps its own level, and no admission leaves its
hospital. Mary is small, and wonders whether joining helps.
"""

# %%
# The exports
# -----------
# Each site exports its admissions in its own way: semicolons, German names and German dates without a zone; ISO dates
# with an offset; dates in UTC beside columns nobody needs. We make such files up, with a daily rhythm and a level of
# its own for each site.

from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct

OUT = Path("hospital")
WEEKS = 6
ZONE, BEGIN = "Europe/Berlin", pd.Timestamp("2025-01-06", tz="Europe/Berlin")
RATES = {"nord": 0.9, "lakeside": 0.5, "mary": 0.2}  # admissions an hour


def draw_admissions(rate, rng):
    """Draw times of admissions, most in the afternoon."""
    hours = WEEKS * 168.0
    candidates = np.sort(rng.uniform(0, hours, rng.poisson(1.6 * rate * hours)))
    busy = 1 + 0.6 * np.sin(2 * np.pi * (candidates - 8) / 24)
    kept = candidates[rng.uniform(0, 1.6, len(candidates)) < busy]
    return BEGIN + pd.to_timedelta(np.round(kept * 3600), unit="s")


rng = np.random.default_rng(0)
nord, lakeside, mary = (draw_admissions(rate, rng) for rate in RATES.values())
raw = OUT / "raw"
raw.mkdir(parents=True, exist_ok=True)
german = pd.DataFrame({"Klinik": "Nord", "Aufnahme": nord.strftime("%d.%m.%Y %H:%M:%S"), "Alter": 50})
german.to_csv(raw / "nord.csv", sep=";", index=False)
pd.DataFrame({"time": [time.isoformat() for time in lakeside]}).to_csv(raw / "lakeside.csv", index=False)
utc = pd.DataFrame({"admitted": mary.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ"), "ward": "A"})
utc.to_csv(raw / "mary.csv", index=False)
end = BEGIN + pd.Timedelta(weeks=WEEKS)
watched = pd.DataFrame({"client": list(RATES), "start": BEGIN.isoformat(), "end": end.isoformat()})

# %%
# Read and check
# --------------
# Columns have other names by site; dates without an offset are in the hospital's zone; rates will be per hour. The
# windows say when each site was watched, so that quiet hours count.

columns = {"nord": {"time": "Aufnahme"}, "mary": {"time": "admitted"}}
clients = ct.read_events(
    {site: raw / f"{site}.csv" for site in RATES}, columns=columns, date_format="%d.%m.%Y %H:%M:%S",
    zone=ZONE, unit="h", windows=watched,
)  # fmt: skip
print("\n".join(ct.describe(clients).lines()))

# %%
# What would leave?
# -----------------
# Before anything is learned, the data-protection officer reads what each site would send.

method = ct.FedPP(kernel="time", period=24.0, cells=96)
print(ct.dry_run(method, clients))

# %%
# Learn together
# --------------
# One curve of the day for all, at each site's own level; the band is for the site's rate.

fitted = method.fit(clients)
figure = fitted.plot(clients)

# %%
# Did joining help? Each site compares with what it would have learned alone, on events neither model saw.

for site, benefit in fitted.benefit.items():
    print(f"{site}: {benefit.alone:.3f} nats an event alone, {benefit.together:.3f} together: {benefit.verdict}")

# %%
# Ask
# ---
# Mary asks at noon of the last day: when does the next patient come, and how many in the late shift?

mary = fitted["mary"]
noon = end - pd.Timedelta(hours=12)
ahead = mary.predict_next(noon)
chance = ahead.chance(by=noon + pd.Timedelta(hours=3))
print(f"after {noon}: half of all times by {ahead.quantile(0.5):%H:%M}, by 15:00 with chance {chance:.2f}")
shift = noon + pd.Timedelta(hours=2), noon + pd.Timedelta(hours=10)
print("late shift:", mary.predict_count(*shift))
print(mary.sample(*shift, count=2).to_frame()[["sequence", "time"]])

# %%
# Keep and show
# -------------
# The curve as a table, the model for tomorrow, and one page for the boss.

mary.to_frame().to_csv(OUT / "mary.csv", index=False)
figure.savefig(OUT / "intensity.png", dpi=150)
fitted.save(OUT / "fitted")
print("report:", fitted.report(OUT / "report.html"))

# %%
# From laptop to consortium
# -------------------------
# The same method runs between the hospitals themselves, each with its own keys, policy and ledger, sums masked so
# that the coordinator sees no site's counts: :doc:`/consortium`. With ``privacy=ct.Privacy(epsilon=1)`` what is
# learned hardly depends on any one admission: :doc:`/privacy`.

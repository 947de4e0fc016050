"""A hospital's data engineer: admissions of three sites, from messy files to figures, forecasts and a report.

    python examples/hospital.py --out hospital

The three sites export their admissions in three ways: semicolons, German names and German dates without a zone; ISO
dates with an offset; dates in UTC beside columns nobody needs. The script writes such files first, with a daily rhythm
and a level of its own for each site.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct
from cotempo.data import Events

ZONE, BEGIN = "Europe/Berlin", pd.Timestamp("2025-01-06", tz="Europe/Berlin")
RATES = {"nord": 0.9, "lakeside": 0.5, "mary": 0.2}  # admissions an hour


def write_exports(folder: Path, weeks: int, seed: int = 0) -> None:
    """Write one file a site, as it exports it, and a file that says when each was watched."""
    rng, hours = np.random.default_rng(seed), weeks * 168.0
    folder.mkdir(parents=True, exist_ok=True)
    times = {}
    for site, rate in RATES.items():
        candidates = np.sort(rng.uniform(0, hours, rng.poisson(1.6 * rate * hours)))
        busy = 1 + 0.6 * np.sin(2 * np.pi * (candidates - 8) / 24)  # most in the afternoon
        kept = candidates[rng.uniform(0, 1.6, len(candidates)) < busy]
        times[site] = BEGIN + pd.to_timedelta(np.round(kept * 3600), unit="s")
    german = pd.DataFrame({"Klinik": "Nord", "Aufnahme": times["nord"].strftime("%d.%m.%Y %H:%M:%S"), "Alter": 50})
    german.to_csv(folder / "nord.csv", sep=";", index=False)
    iso = pd.DataFrame({"time": [time.isoformat() for time in times["lakeside"]]})
    iso.to_csv(folder / "lakeside.csv", index=False)
    utc = pd.DataFrame({"admitted": times["mary"].tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ"), "ward": "A"})
    utc.to_csv(folder / "mary.csv", index=False)
    end = BEGIN + pd.Timedelta(hours=hours)
    windows = pd.DataFrame({"client": list(RATES), "start": BEGIN.isoformat(), "end": end.isoformat()})
    windows.to_csv(folder / "watched.csv", index=False)


def read_exports(folder: Path) -> dict[str, Events]:
    """Read the files of the three sites, each with its own names; rates will be per hour."""
    watched = pd.read_csv(folder / "watched.csv").set_index("client")

    def read(site: str, columns: dict[str, str] | None = None, date_format: str = "") -> Events:
        tables = ct.read_events(
            {site: folder / f"{site}.csv"}, columns=columns, date_format=date_format, zone=ZONE, unit="h",
            windows=watched.loc[[site]].reset_index(),
        )  # fmt: skip
        return tables[site]

    return {
        "nord": read("nord", {"time": "Aufnahme"}, "%d.%m.%Y %H:%M:%S"),
        "lakeside": read("lakeside"),
        "mary": read("mary", {"time": "admitted"}),
    }


def main() -> None:
    """Go from files to a figure, forecasts and a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("hospital"))
    parser.add_argument("--weeks", type=int, default=6)
    given = parser.parse_args()

    write_exports(given.out / "raw", given.weeks)
    clients = read_exports(given.out / "raw")
    print("\n".join(ct.describe(clients).lines()))

    # A curve of the day that all sites share, each at its own level; events and levels stay at the sites.
    fitted = ct.FedPP(kernel="time", period=24.0, cells=96).fit(clients)
    print(fitted)
    for site, benefit in fitted.benefit.items():
        print(f"{site}: {benefit.alone:.3f} nats an event alone, {benefit.together:.3f} together")

    # Mary asks: when does the next patient come, and how many in the late shift of the last day?
    mary = fitted["mary"]
    noon = BEGIN + pd.Timedelta(weeks=given.weeks) - pd.Timedelta(hours=12)
    ahead = mary.predict_next(noon)
    shift = noon + pd.Timedelta(hours=2), noon + pd.Timedelta(hours=10)
    print(f"after {noon}: half of all times by {ahead.quantile(0.5):%H:%M}, by 15:00 with chance "
          f"{ahead.chance(by=noon + pd.Timedelta(hours=3)):.2f}")  # fmt: skip
    print(f"late shift: {mary.predict_count(*shift).mean:.1f} expected; two made-up ones:")
    print(mary.sample(*shift, count=2).to_frame()[["sequence", "time"]].to_string(index=False))

    # How far above its mean is the afternoon, with its band? As a table, and as a figure.
    mary.to_frame().to_csv(given.out / "mary.csv", index=False)
    fitted.plot(clients).savefig(given.out / "intensity.png", dpi=150)
    fitted.save(given.out / "fitted")
    print("report:", fitted.report(given.out / "report.html"))


if __name__ == "__main__":
    main()

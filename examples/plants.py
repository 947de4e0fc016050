"""A plant engineer: sensors of three plants, from messy files to filled gaps, forecasts, a figure and a report.

    python examples/plants.py --out plants

The plants measure different things in different zones and export them in different ways: semicolons, decimal commas and
German dates; dates in UTC; dates with an offset. Sensors fail for hours, and whole rows are missing where a plant was
offline. A public table of a grid operator has what all plants measure. The script writes such files first. With its
usual size it takes some minutes on one CPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import cotempo as ct
from cotempo.data import Series

BEGIN = pd.Timestamp("2025-03-03", tz="UTC")
ZONES = {"albany": "America/New_York", "berlin": "Europe/Berlin", "chennai": "Asia/Kolkata"}
COMMON = ("load", "outdoor")
OWN = {"albany": ("oil",), "berlin": ("vibration",), "chennai": ("oil", "pressure")}


def make_sensors(hours: int, rng: np.random.Generator) -> pd.DataFrame:
    """Make what one plant's sensors would show without gaps, hour by hour."""
    hour = np.arange(hours)
    weather = np.zeros(hours)
    for now in range(1, hours):
        weather[now] = 0.97 * weather[now - 1] + rng.normal(scale=0.5)
    outdoor = 9 + 5 * np.sin((hour - 9) * np.pi / 12) + weather
    load = 60 + 12 * np.sin((hour - 8) * np.pi / 12) - 1.5 * weather + rng.normal(scale=2, size=hours)
    oil = 40 + 0.3 * load + 0.4 * outdoor + rng.normal(scale=0.4, size=hours)
    vibration = 0.02 * load + rng.normal(scale=0.1, size=hours)
    pressure = 5 + 0.05 * oil + rng.normal(scale=0.05, size=hours)
    columns = {"load": load, "outdoor": outdoor, "oil": oil, "vibration": vibration, "pressure": pressure}
    return pd.DataFrame(columns, index=BEGIN + pd.to_timedelta(hour, unit="h")).round(3)


def write_exports(folder: Path, hours: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Write one file a plant, as it exports it, and the public table; return what sensors would show without gaps."""
    rng, truth = np.random.default_rng(seed), {}
    folder.mkdir(parents=True, exist_ok=True)
    for plant, zone in ZONES.items():
        whole = make_sensors(hours, rng)[[*COMMON, *OWN[plant]]].tz_convert(zone)
        holes = whole.copy()
        for sensor in holes:
            for first in rng.integers(0, hours, hours // 60):
                holes.iloc[first : first + rng.integers(1, 12), holes.columns.get_loc(sensor)] = np.nan
        offline = np.concatenate([np.arange(first, first + 8) for first in rng.integers(5, hours - 20, 4)])
        truth[plant], messy = whole, holes.drop(holes.index[np.unique(offline)])
        if plant == "berlin":
            messy.index = messy.index.strftime("%d.%m.%Y %H:%M")
            messy.to_csv(folder / "berlin.csv", sep=";", decimal=",", index_label="Zeit")
        else:
            messy.index = [time.isoformat() for time in (messy.tz_convert("UTC") if plant == "albany" else messy).index]
            messy.to_csv(folder / f"{plant}.csv", index_label="time")
    make_sensors(hours, rng)[list(COMMON)].to_csv(folder / "grid.csv", index_label="time")
    return truth


def read_exports(folder: Path) -> tuple[dict[str, Series], Series]:
    """Read the plants' files, each as it is, and the public table."""
    clients = {}
    for plant, zone in ZONES.items():
        german = {"columns": {"time": "Zeit"}, "date_format": "%d.%m.%Y %H:%M"} if plant == "berlin" else {}
        clients |= ct.read_series({plant: folder / f"{plant}.csv"}, zone=zone, unit="h", **german)
    return clients, ct.read_series(folder / "grid.csv", unit="h")["grid"]


def main() -> None:
    """Go from files to filled gaps, a comparison with simple baselines, a forecast, a figure and a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("plants"))
    parser.add_argument("--hours", type=int, default=24 * 70)
    parser.add_argument("--steps", type=int, default=200, help="training steps of each network")
    given = parser.parse_args()

    write_exports(given.out / "raw", given.hours)
    clients, public = read_exports(given.out / "raw")
    print("\n".join(ct.describe(clients).lines()))

    # The last fifth is kept to see whether all this pays.
    parts = {plant: ct.split_by_time(table, (0.8, 0.2)) for plant, table in clients.items()}
    steps = dict.fromkeys(("pretrain_steps", "start_steps", "corrector_steps", "first_steps"), given.steps)
    sizes = {"rounds": 1, "token_steps": 0, "last_steps": 0, "width": 16, "imputer_width": 16, "imputer_layers": 2}
    method = ct.FedTDD(common=COMMON, **steps, **sizes)
    fitted = method.fit({plant: learned for plant, (learned, _) in parts.items()}, public=public)
    print(fitted)

    for plant, (_, kept) in parts.items():
        model = fitted[plant]
        print(f"\n{plant}\n{model.compare(kept)}\n{model.compare(kept, horizon=24)}")
        filled = model.impute(clients[plant], level=(0.5, 0.9))
        print(filled)
        filled.to_frame().to_csv(given.out / f"{plant}-filled.csv", index=False)
    fitted["berlin"].plot(clients["berlin"], rows=240).savefig(given.out / "berlin.png", dpi=150)
    tomorrow = fitted["chennai"].forecast(clients["chennai"], horizon=48)
    tomorrow.plot().savefig(given.out / "chennai-forecast.png", dpi=150)
    print(tomorrow.to_frame().iloc[[0, -1]].to_string(index=False, float_format="%.2f"))
    fitted.save(given.out / "fitted")
    print("report:", fitted.report(given.out / "report.html"))


if __name__ == "__main__":
    main()

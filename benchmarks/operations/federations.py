"""Clean federations for surveys: generated ones whose sites differ as real populations do, and real data dealt out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cotempo as ct
from cotempo.data import Events, Posts, Series
from cotempo.surveys.posts import COMMON_WORDS

DATA = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[3] / "shared" / "data"))
Clients = dict[str, Any]
START = 1_672_531_200.0  # 2023-01-01
HOUR, DAY = 3600.0, 86400.0


def smooth(rng: np.random.Generator, rows: int, keep: float) -> np.ndarray:
    """An autoregressive series of variance 1."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([np.sqrt(1 - keep**2)], [1, -keep], rng.standard_normal(rows)))


def series_of_wards(
    seed: int, clients: int = 6, days: int = 250, spread: float = 1.0, dated: bool = True
) -> dict[str, Series]:
    """Hourly measurements of wards, which differ in their patients: `spread` times as much as is usual."""
    found = {}
    for number in range(clients):
        rng = np.random.default_rng([seed, number])
        rows = days * 24 - int(rng.integers(0, 24 * 20))
        hour = np.arange(rows) % 24

        def site(size: float, rng: np.random.Generator = rng) -> float:
            return float(np.exp(spread * size * rng.standard_normal()))

        wave = np.cos(2 * np.pi * (hour - 15) / 24) * site(0.15)
        illness, load = smooth(rng, rows, 0.95), smooth(rng, rows, 0.6)
        glucose = 115 * site(0.08) * np.exp(0.2 * site(0.1) * (illness + smooth(rng, rows, 0.7)) / 1.4 + 0.08 * wave)
        temperature = 36.8 + 0.15 * spread * rng.standard_normal() + 0.35 * site(0.1) * (illness + wave)
        systolic = 124 * site(0.04) + 14 * site(0.1) * (load + 0.5 * smooth(rng, rows, 0.5)) + 4 * wave
        diastolic = 76 * site(0.04) + 9 * site(0.1) * (0.8 * load + 0.6 * smooth(rng, rows, 0.5)) + 3 * wave
        intake = rng.gamma(1.5, 60 * site(0.15), rows) * np.exp(0.3 * wave)
        balance = 0.5 * (intake - intake.mean()) + 40 * site(0.1) * smooth(rng, rows, 0.5) + 5 * rng.standard_normal()
        columns = {
            "glucose": glucose,
            "temperature": temperature,
            "pulse": 78 * site(0.05) + 9 * site(0.1) * (0.6 * load + 0.8 * smooth(rng, rows, 0.8)) + 3 * wave,
            "systolic": systolic,
            "diastolic": diastolic,
            "saturation": 96.5 + 0.4 * spread * rng.standard_normal() - 1.2 * np.abs(smooth(rng, rows, 0.9)),
            "sex": (rng.random(rows) < np.clip(0.45 + 0.06 * spread * rng.standard_normal(), 0.1, 0.9)).astype(float),
            "balance": balance,
            "intake": intake,
        }
        values = np.column_stack(list(columns.values())).round(3)
        hidden = rng.random(values.shape) < 0.02 * site(0.5)
        hidden[:, list(columns).index("sex")] = False
        time = START + HOUR * np.arange(rows) if dated else np.arange(rows, dtype=float)
        found[f"ward-{number}"] = Series.from_arrays(
            np.where(hidden, np.nan, values), time, list(columns), unit="s" if dated else ""
        )
    return found


def events_of_wards(seed: int, clients: int = 6, spread: float = 1.0) -> dict[str, Events]:
    """Events of wards from January to April, more by day, with three marks."""
    found = {}
    for number in range(clients):
        rng = np.random.default_rng([seed, number, 1])
        first, last = START + DAY * rng.integers(0, 6), START + DAY * rng.integers(85, 100)
        many = rng.poisson(900 * np.exp(0.4 * spread * rng.standard_normal()))
        time = rng.uniform(first, last, 3 * many)
        peak = 14 + 0.4 * spread * rng.standard_normal()
        kept = rng.random(len(time)) < 0.5 + 0.45 * np.cos(2 * np.pi * (time / HOUR % 24 - peak) / 24)
        time = np.sort(time[kept])
        shares = rng.dirichlet(np.array([20.0, 10.0, 3.0]) * 6 / spread)
        marks = rng.choice(["fall", "fever", "pain"], len(time), p=shares)
        found[f"ward-{number}"] = Events.from_arrays(
            [time], windows=(first, last), marks=[marks], mark_names=["fall", "fever", "pain"], unit="s"
        )
    return found


def posts_of_towns(seed: int, clients: int = 6, language: str = "English") -> dict[str, Posts]:
    """Posts of towns in one language, over three months, more in the evening."""
    common = COMMON_WORDS[language].split()
    letters = np.array(list("aeinorstlmdubcpgh" + ("üäö" if language == "German" else "éè")))
    words = np.random.default_rng(seed)
    vocabulary = ["".join(words.choice(letters, int(words.integers(4, 11)))) for _ in range(800)]
    found = {}
    for number in range(clients):
        rng = np.random.default_rng([seed, number, 2])
        rows = int(rng.integers(500, 900))
        time = rng.uniform(START, START + 90 * DAY, 4 * rows)
        peak = 19 + 0.5 * rng.standard_normal()
        time = time[rng.random(len(time)) < 0.5 + 0.45 * np.cos(2 * np.pi * (time / HOUR % 24 - peak) / 24)]
        time = np.sort(rng.choice(time, rows, replace=False))
        share = 0.3 + 0.03 * rng.standard_normal()
        own = rng.choice(vocabulary, 400, replace=False)
        texts = []
        for _ in range(rows):
            size = int(rng.integers(6, 22))
            texts.append(" ".join(rng.choice(common) if rng.random() < share else rng.choice(own) for _ in range(size)))
        found[f"town-{number}"] = Posts(time=time, text=tuple(texts), unit="s")
    return found


# Real data, dealt out in ways that depend on the seed; None where they are not there.


def blocks(table: Series, seed: int) -> dict[str, Series]:
    """A table cut into 4 to 8 blocks of time, of different lengths: what drifts, drifts between clients."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(int(rng.integers(4, 9)), 20.0))
    return {f"client-{number}": part for number, part in enumerate(table.split_by_time(shares))}


def frame(name: str) -> pd.DataFrame | None:
    path = DATA / "series" / name
    return pd.read_csv(path) if path.exists() else None


def etth(seed: int) -> Clients | None:
    table = frame("ETTh1.csv.gz")
    if table is None:
        return None
    time = pd.to_datetime(table.pop("date")).to_numpy()
    return blocks(Series.from_arrays(table.to_numpy(), time, list(table), unit="s"), seed)


def weeks(seed: int) -> Clients | None:
    """ETTh1, whole weeks dealt at random to five clients."""
    table = frame("ETTh1.csv.gz")
    if table is None:
        return None
    time = pd.to_datetime(table.pop("date")).to_numpy()
    week = np.arange(len(table)) // 168
    owner = np.random.default_rng(seed).integers(0, 5, week.max() + 1)[week]
    whole = Series.from_arrays(table.to_numpy(), time, list(table), unit="s")
    return {f"client-{number}": whole.select(owner == number) for number in range(5)}


def energy(seed: int) -> Clients | None:
    table = frame("energy_data.csv.gz")
    return None if table is None else blocks(Series.from_arrays(table.to_numpy(), features=list(table)), seed)


def stocks(seed: int) -> Clients | None:
    table = frame("stock_data.csv.gz")
    return None if table is None else blocks(Series.from_arrays(table.to_numpy(), features=list(table)), seed)


def fmri(seed: int) -> Clients | None:
    """Subjects of simulation 2 as clients."""
    path = DATA / "networks" / "netsim_sim1_sim2_sim3.npz"
    if not path.exists():
        return None
    chosen = np.random.default_rng(seed).choice(50, 6, replace=False) + 1
    return dict(ct.read_netsim(path, 10, subjects=chosen.tolist())[0])


def genes(seed: int) -> Clients | None:
    """Ten series of one network of 100 genes, dealt to five clients."""
    path = DATA / "networks" / "dream4_insilico_size100.npz"
    return dict(ct.read_dream4(path, seed % 5 + 1)[0]) if path.exists() else None


def archive(name: str) -> Callable[[int], Clients | None]:
    """Sequences of an archive, 200 of them, dealt at random to five clients."""

    def deal(seed: int) -> Clients | None:
        path = DATA / "events" / name
        if not path.exists():
            return None
        whole = ct.read_event_archive(path)
        chosen = np.random.default_rng(seed).permutation(len(whole.times))[:200]
        return {
            f"client-{number}": whole.select(np.sort(part)) for number, part in enumerate(np.array_split(chosen, 5))
        }

    return deal


def crises(names: tuple[str, ...]) -> Callable[[int], Clients | None]:
    """Real posts of natural clients, half of each."""

    def deal(seed: int) -> Clients | None:
        path = DATA / "social" / "crisis_clients.parquet"
        if not path.exists():
            return None
        found = ct.read_posts(path, unit="s")
        rng = np.random.default_rng(seed)
        return {name: found[name].select(rng.random(found[name].rows) < 0.5) for name in names}

    return deal


def generated(maker: Callable[..., tuple[Mapping[str, Any], Any]], **options: Any) -> Callable[[int], Clients]:
    return lambda seed: dict(maker(seed=seed, **options)[0])


CLEAN: dict[str, Callable[[int], Clients | None]] = {
    "wards": series_of_wards,
    "wards, populations twice as different": lambda seed: series_of_wards(seed, spread=2.0),
    "wards, 4 sites": lambda seed: series_of_wards(seed, clients=4),
    "wards, 12 sites of 30 days": lambda seed: series_of_wards(seed, clients=12, days=40),
    "wards, without dates": lambda seed: series_of_wards(seed, days=30, dated=False),
    "make_series": generated(ct.make_series, length=400, missing=0.1),
    "make_networks": generated(ct.make_networks, variables=8, clients=6, samples=1800),
    "events of wards": events_of_wards,
    "events of wards, twice as different": lambda seed: events_of_wards(seed, spread=2.0),
    "make_events, marks": generated(ct.make_events, marks=3),
    "make_events, Hawkes": generated(ct.make_events, kind="hawkes", clients=8),
    "posts of towns": posts_of_towns,
    "make_posts, 5 languages": generated(ct.make_posts, clients=5),
    "ETTh1 by time": etth,
    "ETTh1, weeks at random": weeks,
    "energy by time": energy,
    "stocks by time": stocks,
    "fMRI subjects": fmri,
    "DREAM4": genes,
    "taobao": archive("taobao.npz"),
    "stackoverflow": archive("stackoverflow_22types.npz"),
    "taxi": archive("tritpp_taxi.npz"),
    "crisis posts, English": crises(("en_americas", "en_europe", "en_pacific")),
    "crisis posts, all languages": crises(("en_americas", "en_europe", "en_pacific", "es", "it", "mix")),
}

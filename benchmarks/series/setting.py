"""The paper's setting on its data sets: owners of blocks of time, with different features and half of it missing.

Data are looked for in the folder `COTEMPO_DATA`, or in `../shared/data` beside the repository.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from cotempo.data import Series, hide, mask_cells, mask_rows

WINDOW = 24
NEAR = 8
NAMES = ("stocks", "etth", "energy", "mujoco", "fmri")
ROOT = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[3] / "shared" / "data")) / "series"


def load(name: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """A data set as rows and the lengths of its contiguous pieces."""
    if name == "mujoco":
        cube = np.load(ROOT / "mujoco_hopper_10000x24x14.npz")["x"].astype(float)
        return cube.reshape(-1, cube.shape[2]), (cube.shape[1],) * len(cube)
    if name == "fmri":
        rows = np.load(ROOT / "fmri_sim4.npz")["ts"].astype(float)
        return rows, (200,) * (len(rows) // 200)
    file = {"stocks": "stock_data.csv.gz", "etth": "ETTh1.csv.gz", "energy": "energy_data.csv.gz"}[name]
    table = pd.read_csv(ROOT / file)
    rows = table.drop(columns=[column for column in ("date", "Date") if column in table]).to_numpy(float)
    return rows, (len(rows),)


def standard_error(gains: np.ndarray, block: np.ndarray) -> float:
    """Of the mean gain, with cells of one block erring together."""
    _, index = np.unique(block, return_inverse=True)
    sums, counts = np.bincount(index, gains), np.bincount(index)
    spread = np.sqrt(((sums - gains.mean() * counts) ** 2).sum() * len(sums) / max(len(sums) - 1, 1))
    return float(spread / counts.sum())


@dataclass(frozen=True)
class Owner:
    """A client: what it has, the same rows complete and with all features, and held-out windows of its features."""

    series: Series
    complete: Series
    whole: Series
    held: np.ndarray

    @property
    def hidden(self) -> np.ndarray:
        return np.isnan(self.series.values) & ~np.isnan(self.complete.values)


@dataclass(frozen=True)
class Setting:
    """Owners, the public series, and the scale of the whole data set for measuring errors."""

    owners: dict[str, Owner]
    public: Series
    common: tuple[str, ...]
    half_range: dict[str, float]

    @property
    def clients(self) -> dict[str, Series]:
        return {name: owner.series for name, owner in self.owners.items()}


def make_setting(
    name: str, *, clients: int = 10, public: float = 0.5, split: float = 0.5, missing: float = 0.5, common: float = 0.5,
    mask: str = "rows", imbalanced: bool = False, protocol: str = "blocks", held: float = 0.0,
    most: int | None = None, seed: int = 0,
) -> Setting:  # fmt: skip
    """Deal data to the public series and to clients, hold a share of each client's out, and make holes in the rest.

    With `protocol` ``"windows"``, as published, what is dealt are all windows of the data, a step apart, at random;
    with ``"blocks"`` they are blocks of time, which do not overlap. `most` takes only so many windows, at random.
    """
    rows, lengths = load(name)
    stream = np.random.default_rng([seed, 20])
    features = tuple(f"f{k:02d}" for k in range(rows.shape[1]))
    shared = np.sort(stream.permutation(len(features))[: max(1, int(common * len(features)))])
    low, high = rows.min(axis=0), rows.max(axis=0)
    pieces = _windows(rows, lengths) if protocol == "windows" else _blocks(rows, lengths, clients, public)
    if most is not None and len(pieces) > most:
        pieces = [pieces[k] for k in np.sort(np.random.default_rng([seed, 22]).permutation(len(pieces))[:most])]
    blocks, given = _deal(pieces, clients, public, imbalanced, stream)
    owners = {}
    for number, own in enumerate(blocks):
        if held:
            order = np.random.default_rng([seed, 21, number]).permutation(len(own))
            kept, out = np.split(order, [len(own) - max(1, round(held * len(own)))])
            own, apart = [own[k] for k in np.sort(kept)], [own[k] for k in np.sort(out)]
        count = int(stream.integers(1, len(features) + 1))
        extra = [k for k in stream.permutation(len(features))[:count] if k not in shared]
        columns = np.sort(np.concatenate([shared, np.array(extra, dtype=int)]))
        whole = _series(own, features)
        complete = Series(tuple(features[k] for k in columns), whole.sequence, whole.time, whole.values[:, columns])
        hole = make_mask(mask, complete.values.shape, np.isin(columns, shared), split, missing, stream)
        tested = np.concatenate(_windows_of(apart))[:, :, columns] if held else np.zeros((0, WINDOW, len(columns)))
        owners[f"client-{number:02d}"] = Owner(hide(complete, hole)[0], complete, whole, tested)
    table = _series(given, features)
    common_names = tuple(features[k] for k in shared)
    table = Series(common_names, table.sequence, table.time, table.values[:, shared])
    return Setting(owners, table, common_names, dict(zip(features, (high - low) / 2, strict=True)))


def make_mask(
    kind: str, shape: tuple[int, int], common: np.ndarray, split: float, missing: float, stream: np.random.Generator
) -> np.ndarray:
    """Holes: in a share `split` of the windows in common features only; or one common feature, wholly."""
    if kind == "feature":
        hole = np.zeros(shape, dtype=bool)
        hole[:, stream.choice(np.flatnonzero(common))] = True
        return hole
    hole = (mask_rows if kind == "rows" else mask_cells)(shape, missing, stream)
    only_common = np.repeat(stream.random(shape[0] // WINDOW + 1) < split, WINDOW)[: shape[0]]
    hole[np.ix_(only_common, ~common)] = False
    return hole


def _windows_of(pieces):
    return [sliding_window_view(piece, WINDOW, axis=0).swapaxes(1, 2) for piece in pieces if len(piece) >= WINDOW]


def _windows(rows, lengths):
    """All windows of all contiguous pieces, a step apart."""
    ends = np.cumsum((0, *lengths))
    return list(np.concatenate(_windows_of([rows[first:end] for first, end in pairwise(ends)])))


def _blocks(rows, lengths, clients, public):
    """Blocks of time, five a client."""
    size = max(2 * WINDOW, int(len(rows) * (1 - public) / clients / 5))
    ends = np.cumsum((0, *lengths))
    blocks = []
    for first, end in pairwise(ends):
        count = max(1, (end - first) // size)
        blocks += np.array_split(rows[first:end], count)
    return blocks


def _deal(blocks, clients, public, imbalanced, stream):
    """Blocks of each client and of the public series; imbalanced, clients get blocks sorted by k-means label."""
    order = stream.permutation(len(blocks))
    shown = max(1, round(public * len(blocks)))
    given, rest = np.sort(order[:shown]), order[shown:]
    if imbalanced:
        from sklearn.cluster import KMeans

        means = np.stack([np.concatenate([blocks[k].mean(axis=0), blocks[k].std(axis=0)]) for k in rest])
        means = (means - means.mean(axis=0)) / (means.std(axis=0) + 1e-9)
        labels = KMeans(clients, n_init=1, random_state=int(stream.integers(1 << 30))).fit_predict(means)
        rest = rest[np.argsort(labels, kind="stable")]
    parts = np.array_split(rest, clients)
    return [[blocks[k] for k in np.sort(part)] for part in parts], [blocks[k] for k in given]


def _series(pieces, features):
    return Series.from_arrays([np.asarray(piece) for piece in pieces], features=features)

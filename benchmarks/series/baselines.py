"""Baselines: a diffusion model of every owner alone, one of all data in one place, and SAITS as PyPOTS ships it.

References
----------
Du et al., "SAITS: self-attention-based imputation for time series", Expert Systems with Applications 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np

from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.federation import Rng
from cotempo.series.filling.calibration import Calibration, add_imputation_errors, imputation_errors
from cotempo.series.filling.gaps import neighbours
from cotempo.series.filling.stages import Filler
from cotempo.series.fitted import SeriesModel
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.nn.training import TrainingWindows, train
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, Scale, SeriesRows, Timing, windows_of

REDRAWN = 250
SIZES = {"n_layers": 2, "d_model": 64, "n_heads": 4, "d_k": 16, "d_v": 16, "d_ffn": 128, "dropout": 0.1}


def train_local(
    clients: Mapping[str, Series],
    settings: SeriesSettings,
    steps: int,
    *,
    fill: Literal["zero", "linear", "rough"] = "linear",
    seed: int = 0,
) -> dict[str, SeriesModel]:
    """Train every owner's diffusion model alone, all in one stack.

    Parameters
    ----------
    fill
        What stands in gaps: the middle of the scale (``"zero"``, the paper's Local; only measured cells count then),
        linear interpolation, or that with errors added which are redrawn now and then (``"rough"``).

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=2, length=40, missing=0.2)
    >>> settings = SeriesSettings(window=8, width=8, heads=1, diffusion_steps=4, sampler_steps=2)
    >>> train_local(clients, settings, 2)["client-0"].sample(2)
    Series(16 rows, 2 sequences, features x0, x1, x2, x3)
    """
    task = settings.denoising()
    owners = [
        LocalData(SeriesRows.of(series), fill, settings, Rng(seed, name, "local")) for name, series in clients.items()
    ]
    networks = [
        NetworkState.fresh(task.specs(owner.rows.values.shape[1]), owner.rng("backbone"), settings.precision)
        for owner in owners
    ]
    for first in range(0, steps, REDRAWN):
        rngs = [Rng(seed, name, "local", first) for name in clients]
        datasets = [owner.dataset(rng) for owner, rng in zip(owners, rngs, strict=True)]
        networks, _ = train(task, networks, datasets, min(REDRAWN, steps - first), settings.schedule(steps), rngs)
    models = {}
    for (name, series), owner, network in zip(clients.items(), owners, networks, strict=True):
        order, calibration = np.arange(len(series.features)), Calibration.none(len(series.features))
        given = (Timing.of(series), settings, owner.filler, network.average, owner.filler.scale)
        models[name] = SeriesModel(series.features, order, settings.window, calibration, *given)
    return models


class LocalData:
    """Rows of one owner with their gaps filled by lines, or not at all."""

    def __init__(self, rows: SeriesRows, fill: str, settings: SeriesSettings, rng: Rng):
        self.rows, self.settings, self.rng = rows, settings, rng
        self.filler = Filler.closed(Scale.of(rows.values))
        self.filled = rows.values if fill == "zero" else self.filler.rows(rows, settings)
        self.errors = rows.values[:0]
        if fill == "rough":
            self.errors = imputation_errors(self.filler, rows, settings, rng("errors"))

    def dataset(self, rng: Rng) -> TrainingWindows:
        """Return windows to train on, with fresh errors."""
        rough = add_imputation_errors(self.filled, np.isnan(self.rows.values), self.errors, rng("roughness"))
        return TrainingWindows.plain(
            self.filler.scale.apply(windows_of(SeriesRows(rough, self.rows.lengths), self.settings.window))
        )


def train_central(
    clients: Mapping[str, Series], public: Series, settings: SeriesSettings, steps: int, *, seed: int = 0
) -> SeriesModel:
    """Train one diffusion model on all data; features a client lacks, and gaps, are filled with zeros.

    With complete tables of equal features this is the paper's Centralized*, else its Centralized.
    """
    features = tuple(sorted({name for series in (*clients.values(), public) for name in series.features}))
    pieces = []
    for series in (*clients.values(), public):
        wide = np.full((series.rows, len(features)), np.nan)
        wide[:, [features.index(name) for name in series.features]] = series.values
        table = Series(features, series.sequence, series.time, wide, series.unit, series.zone)
        pieces += [values for _, values in table.pieces()]
    scale = Scale.of(np.concatenate(pieces))
    zeros = [np.where(np.isnan(piece), scale.undo(np.zeros(len(features))), piece) for piece in pieces]
    whole = Series.from_arrays([piece for piece in zeros if len(piece)], features=features)
    return train_local({"all": whole}, settings, steps, fill="zero", seed=seed)["all"]


def carry_forward(series: Series) -> Series:
    """Fill each feature with its last measurement in the piece; before the first, with the first."""
    rows = SeriesRows.of(series)
    found, columns = rows.values, np.arange(rows.values.shape[1])
    for place in neighbours(rows, ~np.isnan(found)):
        found = np.where(np.isnan(found) & (place >= 0), rows.values[place, columns], found)
    return replace(series, values=np.where(np.isnan(found), np.nan_to_num(np.nanmean(rows.values, axis=0)), found))


@dataclass(frozen=True)
class Saits:
    """A fitted SAITS."""

    network: Any
    scale: Scale
    window: int

    def impute(self, series: Series) -> Series:
        """Fill the missing cells; windows overlap by half."""
        rows = SeriesRows.of(series)
        cover = Cover(rows, self.window, max(1, self.window // 2))
        windows = cover.windows(self.scale.apply(rows.values))
        found = np.asarray(self.network.impute({"X": windows.astype(np.float32)}), dtype=np.float64)
        filled = self.scale.undo(cover.blend(found))
        return replace(series, values=np.where(np.isnan(series.values), filled, series.values))


def train_saits(series: Series, *, epochs: int, window: int = 24) -> Saits:
    """Train SAITS on all windows of one owner's series, `epochs` passes over them.

    Raises
    ------
    ParameterError
        Where PyPOTS is not installed.
    """
    try:
        imputation = import_module("pypots.imputation")
    except ImportError:
        raise ParameterError("PyPOTS must be installed, got none; run: pip install 'cotempo[baselines]'") from None
    scale = Scale.of(series.values)
    windows = scale.apply(SeriesRows.of(series).windows(window)).astype(np.float32)
    network = imputation.SAITS(
        n_steps=window, n_features=windows.shape[2], batch_size=128, epochs=epochs, verbose=False, device="cpu", **SIZES
    )
    network.fit({"X": windows})
    return Saits(network, scale, window)

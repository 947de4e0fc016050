"""What FedTDD is compared with: every owner by itself, and all data in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from cotempo.data import Series
from cotempo.federation.rng import Rng
from cotempo.series.calibration import Calibration
from cotempo.series.filling import Filler, open_gates
from cotempo.series.interpolation import interpolate
from cotempo.series.learned import Learned
from cotempo.series.owner import SeriesModel
from cotempo.series.scale import Scale
from cotempo.series.settings import Sizes
from cotempo.series.ties import Ties
from cotempo.series.windows import Rows


def train_local(
    clients: Mapping[str, Series],
    sizes: Sizes,
    steps: int,
    *,
    fill: Literal["zero", "linear"] = "linear",
    seed: int = 0,
) -> dict[str, SeriesModel]:
    """Every owner's diffusion model by itself, all trained in one stack.

    Parameters
    ----------
    fill
        What stands in gaps: the middle of the scale (``"zero"``, the paper's Local), or linear interpolation. Only
        measured cells count in the loss with the first, all cells with the second.

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=2, length=40, missing=0.2)
    >>> sizes = Sizes(window=8, width=8, heads=1, diffusion_steps=4, sampler_steps=2)
    >>> train_local(clients, sizes, 2)["client-0"].sample(2)
    Series(16 rows, 2 sequences, features x0, x1, x2, x3)
    """
    from cotempo.series.noise import Noise
    from cotempo.series.tasks import Denoising
    from cotempo.series.training import Material, train

    task = Denoising(sizes.backbone(), Noise(sizes.diffusion_steps))
    scales = {name: Scale.of(series.values) for name, series in clients.items()}
    materials = []
    for name, series in clients.items():
        filled = interpolate(series) if fill == "linear" else series
        windows = Rows.of(filled).windows(sizes.window)
        scaled = np.nan_to_num(scales[name].apply(windows))
        features = windows.shape[2]
        whole = np.ones(features, dtype=bool)
        materials.append(Material(scaled, ~np.isnan(windows), len(windows), Ties.none(features), whole))
    rngs = [Rng(seed, name, "local") for name in clients]
    learned = [
        Learned.fresh(task.leaves(material.features), rng("backbone"), sizes.precision)
        for material, rng in zip(materials, rngs, strict=True)
    ]
    made, _ = train(task, learned, materials, steps, sizes.schedule(steps), rngs)
    models = {}
    for (name, series), network in zip(clients.items(), made, strict=True):
        features = len(series.features)
        filler = Filler(scales[name], Ties.none(features), None, None, 0 * open_gates(), features)
        models[name] = SeriesModel(
            sizes,
            series.features,
            np.arange(features),
            filler,
            network.average,
            scales[name],
            Calibration.none(features),
        )
    return models


def train_central(
    clients: Mapping[str, Series], public: Series, sizes: Sizes, steps: int, *, seed: int = 0
) -> SeriesModel:
    """One diffusion model on all data in one place; features a client lacks, and gaps, are filled with zeros.

    With complete tables of equal features this is the paper's Centralized*, else its Centralized.
    """
    features = tuple(sorted({name for series in (*clients.values(), public) for name in series.features}))
    pieces = []
    for series in (*clients.values(), public):
        wide = np.full((series.rows, len(features)), np.nan)
        wide[:, [features.index(name) for name in series.features]] = series.values
        table = Series(features, series.sequence, series.time, wide, series.unit)
        pieces += [values for _, values in table.pieces()]
    scale = Scale.of(np.concatenate(pieces))
    zeros = [np.where(np.isnan(piece), scale.undo(np.zeros(len(features))), piece) for piece in pieces]
    whole = Series.from_arrays([piece for piece in zeros if len(piece)], features=features)
    return train_local({"all": whole}, sizes, steps, fill="zero", seed=seed)["all"]

"""What FedTDD is compared with: every owner by itself, and all data in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from cotempo.data import Series
from cotempo.federation import Rng
from cotempo.series.filling.calibration import Calibration
from cotempo.series.filling.stages import Filler
from cotempo.series.nn.state import Learned
from cotempo.series.owner import SeriesModel
from cotempo.series.filling.residual_noise import find_errors, roughen
from cotempo.series.scale import Scale
from cotempo.series.settings import Sizes
from cotempo.series.windows import Rows, windows_of

if TYPE_CHECKING:
    from cotempo.series.nn.training import Material

ANEW = 250


def train_local(
    clients: Mapping[str, Series],
    sizes: Sizes,
    steps: int,
    *,
    fill: Literal["zero", "linear", "rough"] = "linear",
    seed: int = 0,
) -> dict[str, SeriesModel]:
    """Every owner's diffusion model by itself, all trained in one stack.

    Parameters
    ----------
    fill
        What stands in gaps: the middle of the scale (``"zero"``, the paper's Local; only measured cells count then),
        linear interpolation, or that with errors added which are drawn anew now and then (``"rough"``).

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=2, length=40, missing=0.2)
    >>> sizes = Sizes(window=8, width=8, heads=1, diffusion_steps=4, sampler_steps=2)
    >>> train_local(clients, sizes, 2)["client-0"].sample(2)
    Series(16 rows, 2 sequences, features x0, x1, x2, x3)
    """
    from cotempo.series.nn.noise import Noise
    from cotempo.series.nn.losses import Denoising
    from cotempo.series.nn.training import train

    task = Denoising(sizes.backbone(), Noise(sizes.diffusion_steps))
    owners = [_Owner(Rows.of(series), fill, sizes, Rng(seed, name, "local")) for name, series in clients.items()]
    networks = [
        Learned.fresh(task.leaves(owner.rows.values.shape[1]), owner.rng("backbone"), sizes.precision)
        for owner in owners
    ]
    for first in range(0, steps, ANEW):
        rngs = [Rng(seed, name, "local", first) for name in clients]
        materials = [owner.material(rng) for owner, rng in zip(owners, rngs, strict=True)]
        networks, _ = train(task, networks, materials, min(ANEW, steps - first), sizes.schedule(steps), rngs)
    models = {}
    for (name, series), owner, network in zip(clients.items(), owners, networks, strict=True):
        order, calibration = np.arange(len(series.features)), Calibration.none(len(series.features))
        given = (owner.filler, network.average, owner.filler.scale, calibration)
        models[name] = SeriesModel(sizes, series.features, order, *given)
    return models


class _Owner:
    """Rows of one owner with their gaps filled by lines, or not at all."""

    def __init__(self, rows: Rows, fill: str, sizes: Sizes, rng: Rng):
        self.rows, self.sizes, self.rng = rows, sizes, rng
        self.filler = Filler.closed(Scale.of(rows.values))
        self.filled = rows.values if fill == "zero" else self.filler.rows(rows, sizes)
        self.errors = rows.values[:0]
        if fill == "rough":
            self.errors = find_errors(self.filler, rows, sizes, rng("errors"))

    def material(self, rng: Rng) -> Material:
        """Windows to learn from, with errors drawn anew."""
        from cotempo.series.nn.training import Material

        rough = roughen(self.filled, np.isnan(self.rows.values), self.errors, rng("roughness"))
        return Material.plain(self.filler.scale.apply(windows_of(Rows(rough, self.rows.lengths), self.sizes.window)))


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

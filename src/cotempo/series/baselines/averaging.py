"""FedAvg of imputers padded to all features anybody has: good for exclusive features, but weights leave clients.

References
----------
McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from cotempo.data import Series
from cotempo.federation import Rng
from cotempo.series.filling.stages import Filler, Networks, Tied
from cotempo.series.filling.gates import Trial, choose_gates, try_out
from cotempo.series.nn.state import Learned
from cotempo.series.scale import Scale
from cotempo.series.settings import Sizes
from cotempo.series.filling.factor_models import Ties
from cotempo.series.windows import Rows, windows_of

HELD = 0.2


@dataclass(frozen=True)
class AveragedImputer:
    """The averaged imputer at one client."""

    sizes: Sizes
    features: tuple[str, ...]
    filler: Filler

    def impute(self, series: Series) -> Series:
        """Fill the missing cells."""
        filled = self.filler.rows(_widened(series, self.features), self.sizes)
        columns = [self.features.index(name) for name in series.features]
        return replace(series, values=filled[:, columns])


def average_imputers(
    clients: Mapping[str, Series], sizes: Sizes, steps: int, *, rounds: int = 5, seed: int = 0
) -> dict[str, AveragedImputer]:
    """Train one imputer by FedAvg, each client on the features it has, and let it in where it proves better.

    Parameters
    ----------
    steps
        Training steps of each client over all rounds.
    rounds
        How often weights are averaged, by the number of windows; moments of Adam stay at the clients.

    Examples
    --------
    >>> from cotempo.data import make_series
    >>> clients, _ = make_series(clients=2, length=40, missing=0.2)
    >>> sizes = Sizes(window=8, imputer_width=8, imputer_layers=1, batch=4)
    >>> made = average_imputers(clients, sizes, 4, rounds=2)
    >>> bool(np.isnan(made["client-0"].impute(clients["client-0"]).values).any())
    False
    """
    from cotempo.series.nn.losses import Filling
    from cotempo.series.nn.training import Material, train

    features = tuple(sorted({name for series in clients.values() for name in series.features}))
    rows = {name: _widened(series, features) for name, series in clients.items()}
    scale = Scale.of(np.concatenate([part.values for part in rows.values()]))
    task, ties, held, materials = Filling(sizes.imputer()), {}, {}, []
    for name, part in rows.items():
        kept, held[name] = part.split(HELD, sizes.window)
        scaled = Rows(scale.apply(kept.values), kept.lengths)
        found, windows = Ties.of(scaled, scale), windows_of(scaled, sizes.reach)
        # A feature without spread does not exist for the network.
        ties[name] = replace(found, spread=np.where(np.isnan(part.values).all(axis=0), 0.0, found.spread))
        materials.append(Material.plain(windows, ties[name]))
    first = Learned.fresh(task.leaves(len(features)), Rng(seed, "average")("imputer"), sizes.precision)
    learned, shares = [first] * len(rows), np.array([len(material.windows) for material in materials], dtype=float)
    for number in range(rounds):
        size = steps * (number + 1) // rounds - steps * number // rounds
        rngs = [Rng(seed, name, number) for name in rows]
        learned, _ = train(task, learned, materials, size, sizes.schedule(steps, sizes.imputer_rate), rngs)
        weights, average = (
            np.average([getattr(item, part) for item in learned], axis=0, weights=shares).astype(sizes.precision)
            for part in ("weights", "average")
        )
        learned = [replace(item, weights=weights, average=average) for item in learned]
    own = learned[0].average
    fillers = {name: Filler.closed(scale, (Tied(ties[name]), Networks(ties[name], None, own))) for name in rows}
    trials = [
        try_out(filler, held[name], sizes, Rng(seed, name)("gates"))
        for name, filler in fillers.items()
        if len(held[name].values)
    ]
    if trials:
        gates = choose_gates(fillers[min(rows)], reduce(Trial.join, trials))
        fillers = {name: replace(filler, gates=gates) for name, filler in fillers.items()}
    return {name: AveragedImputer(sizes, features, filler) for name, filler in fillers.items()}


def _widened(series: Series, features: tuple[str, ...]) -> Rows:
    """Rows with all features; those the client lacks are missing."""
    rows = Rows.of(series)
    wide = np.full((len(rows.values), len(features)), np.nan)
    wide[:, [features.index(name) for name in series.features]] = rows.values
    return Rows(wide, rows.lengths)

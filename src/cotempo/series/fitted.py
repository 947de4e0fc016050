"""The result of FedTDD: a model for each client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.errors import DataError, Problem
from cotempo.federation import Fitted, Rng
from cotempo.series.owned import inner_order, make_filler
from cotempo.series.owner import SeriesModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedFedTDD(Fitted):
    """What FedTDD found: ``fitted[client]`` fills, samples, forecasts and decomposes that client's series."""

    def __getitem__(self, client: str) -> SeriesModel:
        """The model of one client, which lies in the client's memory."""
        super().__getitem__(client)
        memory = self.outcome.memories.get(client)
        if memory is None or memory.taught is None:
            must = "its model must be in this process to be used; it lies at the client, or the client never answered"
            raise DataError([Problem(must, client=client)])
        features = self.outcome.schemas[client].columns
        method: Any = self.method
        order = [features.index(name) for name in inner_order(method, features)]
        filler = make_filler(method, memory, Rng("fitted"))
        places = np.array(order, dtype=np.intp)
        weights = memory.backbone.average
        return SeriesModel(method, features, places, filler, weights, memory.made, memory.calibration)

    @property
    def withheld(self) -> Mapping[str, int]:
        """How many synthetic windows each client kept back because they lay too near to real ones."""
        found: Mapping[str, int] = self.state.withheld
        return found

    @property
    def membership(self) -> Mapping[str, float]:
        """How well each client's released windows tell who was trained on; 0.5 is not at all."""
        found: Mapping[str, float] = self.state.membership
        return found

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Synthetic windows of the first clients."""
        from cotempo.series.plots import plot_samples

        names = [name for name in self.names if name in self.outcome.memories][:3]
        return {f"Synthetic windows of {name}": plot_samples(self[name].sample(20)) for name in names}

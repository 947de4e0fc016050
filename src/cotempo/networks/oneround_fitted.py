"""What OneRound returns: the network, how sure each edge is, and clients that join or leave by one addition."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.data.tables import FrameKind, make_frame
from cotempo.errors import DataError, Problem
from cotempo.federation import Rng
from cotempo.networks.fitted import FittedPersonal
from cotempo.networks.gram import Sums
from cotempo.networks.search.confidence import Confidence, edge_confidence

if TYPE_CHECKING:
    from cotempo.networks.oneround import OneRound
    from cotempo.networks.oneround_state import OneRoundState


class FittedOneRound(FittedPersonal):
    """The result of OneRound."""

    method: OneRound
    state: OneRoundState

    @property
    def undirected(self) -> NDArray[np.bool_]:
        """Edges (symmetric) whose direction the data do not tell, `(variables, variables)`."""
        return self.state.as_shown(self.state.undirected)

    def confidence(self, draws: int = 100, *, seed: int = 0) -> Confidence:
        """Return the probability of every edge, from draws of Gram matrices that might as well have been summed."""
        rng = Rng(seed, "server", "confidence")
        found = edge_confidence(self.method.search(self.state, rng), rng("draws"), draws)
        return Confidence(self.state.as_shown(found.within), self.state.as_shown(found.across))

    def edges(self, draws: int = 100, *, seed: int = 0, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a table, each with its weight, its probability and whether its direction is told."""
        probability = self.confidence(draws, seed=seed)
        rows = self.network.edges()
        place = {name: index for index, name in enumerate(self.network.variables)}
        stacked = np.concatenate([probability.within[None], probability.across])
        columns: dict[str, list[Any]] = {
            name: [] for name in ("source", "target", "lag", "weight", "probability", "directed")
        }
        for source, target, lag, weight in rows:
            i, j = place[source], place[target]
            values = (source, target, lag, weight, float(stacked[lag, i, j]), bool(lag or not self.undirected[i, j]))
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return make_frame(columns, kind)

    def add(self, clients: Mapping[str, Series], *, seed: int = 0) -> FittedOneRound:
        """Return the result with late clients added: their sums join the others', and the search runs again."""
        present = [Problem("is part of the result already", client=name) for name in clients if name in self.names]
        if present:
            raise DataError(present)
        return self._change(clients, 1.0, seed)

    def remove(self, clients: Mapping[str, Series], *, seed: int = 0) -> FittedOneRound:
        """Return the result without clients that leave; they send their sums again, to be subtracted."""
        absent = [Problem("is not part of the result", client=name) for name in clients if name not in self.names]
        if absent:
            raise DataError(absent)
        warnings.warn(
            "whoever holds the sums before and after knows, by their difference, the sums of the client that left",
            stacklevel=2,
        )
        return self._change(clients, -1.0, seed)

    def _change(self, clients: Mapping[str, Series], sign: float, seed: int) -> FittedOneRound:
        state = self.state
        for name, table in sorted(clients.items()):
            own = self.method.late_sums(state, name, table)
            state = replace(
                state,
                pairwise=state.pairwise or own["counts"].shape != state.counts.shape,
                **{field: getattr(state, field) + sign * own[field] for field in Sums._fields},
            )
        state, _ = self.method.learn(state, Rng(seed, "server", "change"))
        schemas = dict(self.outcome.schemas)
        for name, table in clients.items():
            if sign > 0:
                schemas[name] = table.schema
            else:
                del schemas[name]
        kept: dict[str, Any] = {name: memory for name, memory in self.outcome.memories.items() if name in schemas}
        result: FittedOneRound = self.method.result(replace(self.outcome, state=state, schemas=schemas, memories=kept))
        return result

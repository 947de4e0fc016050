"""`FittedOneRound`: the result of OneRound."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.data import Series, read_series
from cotempo.data.tables import FrameKind
from cotempo.errors import DataError, Problem
from cotempo.federation import Rng
from cotempo.federation.benefit import NOT_COMPARED, Joining
from cotempo.networks.fitted import ClientNetwork, FittedNetwork, FittedPersonal, count_edges, when
from cotempo.networks.moments import weight_errors
from cotempo.networks.network import Network
from cotempo.networks.search.edge_confidence import Confidence, edge_confidence
from cotempo.typing import Bools, Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.networks.oneround import OneRound, OneRoundState

#: Draws behind probabilities of edges.
DRAWS = 100
#: Of more variables probabilities take long; reports leave them out, and so do clients' own networks.
MOST_VARIABLES = 30
#: Fewer rows than this times columns are told: on 60 genes of DREAM4 with 84 rows 3 of 14 edges at .9 were true.
FEW_ROWS = 2.0
#: A client that joining harms by so many nats per row has a table unlike the others'.
FAR = 20.0
#: So large a design effect is told; with generated rows, which follow the model, it is 1.
TELLING_DESIGN = 1.2


class FittedOneRound(FittedPersonal):
    """The result of OneRound: clients join or leave by one addition, and every edge has a probability."""

    method: OneRound
    state: OneRoundState

    @property
    def undirected(self) -> list[tuple[str, str]]:
        """Pairs of variables joined within a time step whose direction is not told: not `directed` in `edges`."""
        names, joined = self.network.variables, self.network.within != 0
        untold = joined & ~self._common().directed
        return [(names[first], names[second]) for first, second in np.argwhere(np.triu(untold | untold.T)).tolist()]

    def _open_ends(self) -> Bools:
        return np.asarray(self.state.as_shown(self.state.undirected), dtype=np.bool_)

    def confidence(self, draws: int = DRAWS, *, seed: int = 0) -> Confidence:
        """Return the probability of every edge, from parametric-bootstrap draws of the summed Gram matrix."""
        rng = Rng(seed, "server", "confidence")
        search = self.method.search(self.state, rng)
        found = edge_confidence(search, rng("draws"), draws, filled=self.state.gaps, design=self.state.design)
        return Confidence(self.state.as_shown(found.within), self.state.as_shown(found.across))

    def edges(self, draws: int = DRAWS, *, seed: int = 0, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a dataframe, the surest first.

        Each has its weight with its standard `error` if the edges are right, its probability, and whether it is
        `directed`: across time steps always, within one where the data tell the direction and it is at least nine times
        as probable as the reverse. Report and export take the same draws.
        """
        is_default = (draws, seed) == (DRAWS, 0)
        return (self._probable if is_default else self._with_probabilities(draws, seed)).edges(kind)

    def plot(self, truth: Network | None = None, least: float = 0.0) -> Figure:
        """Draw the network, or its edges of at least so high a probability, against the true one where known."""
        return (self._probable if least > 0 else self._common()).plot(truth, least)

    def _common(self) -> ClientNetwork:
        """Return the network with its probabilities, unless it is so large that they take long."""
        return super()._common() if len(self.network.variables) > MOST_VARIABLES else self._probable

    @cached_property
    def _probable(self) -> ClientNetwork:
        return self._with_probabilities(DRAWS, 0)

    def _with_probabilities(self, draws: int, seed: int) -> ClientNetwork:
        found = self.confidence(draws, seed=seed)
        sure = np.concatenate([found.within[None], found.across])
        return ClientNetwork(self.network, self._open_ends(), sure, self._weight_errors())

    def _weight_errors(self) -> Floats:
        state = self.state
        errors = weight_errors(state.pooled().gram, Network(state.within, state.across), state.variance)
        return state.as_shown(np.sqrt(state.design) * errors)

    def advice(self) -> list[str]:
        """Return what to know of the result; also how far the rows are from the model, which makes edges less sure."""
        rows, design = self.state.pooled().rows, self.state.design
        lines, columns = super().advice(), len(self.state.variables) * (self.method.lags + 1)
        harmed = {name: item for name, item in self.benefit.items() if item.verdict == "harmed"}
        if harmed and not self.method.personal:
            lines.append(f"a network of its own for {', '.join(harmed)}, which borrows what fits: personal=True")
        lines += self.unlike()
        if rows < FEW_ROWS * columns:
            lines.append(
                f"{rows:.0f} rows are few for {columns} columns (variables and their lags): also edges of high "
                "probability are often wrong then; take fewer variables or more rows, or rank them: ct.rank_edges"
            )
        if design < TELLING_DESIGN:
            return lines
        return [
            *lines,
            f"errors lean one way at single clients, {np.sqrt(design):.1f} times as far as chance lets them (clients "
            "differ, effects are not linear, or something that acts was not measured): probabilities of edges count "
            f"{rows:.0f} rows as {rows / design:.0f}, and an edge may still stand for a detour",
        ]

    def unlike(self) -> list[str]:
        """Return which tables are unlike the others', by far."""
        far = {name: -item.gain for name, item in self.benefit.items() if item.verdict == "harmed" and item.gain < -FAR}
        if not far:
            return []
        least = (
            f"the rows of {', '.join(far)} are {min(far.values()):.0f} nats or more each less probable by the network "
        )
        if len(far) == 1:
            blame = "the table is unlike the others'"
        else:
            blame = "one table, theirs or another's, is unlike the others' and outweighs them"
        return [f"{least}of all than by their own: {blame} (another unit or transformation?); run cotempo survey"]

    def answer(self) -> str:
        """Return how many edges are sure, and the surest."""
        if self._sure_edges is None:
            return FittedNetwork.answer(self).partition(" OneRound gives")[0] + self._drowned()
        edges = self._sure_edges[self._sure_edges["source"] != self._sure_edges["target"]]
        own = len(self._sure_edges) - len(edges)
        found = f"Found {count_edges(len(edges), own, len(self.network.variables))}"
        if not len(edges):
            return f"{found}.{self._drowned()}"
        sure, first = int((edges["probability"] >= 0.9).sum()), edges.iloc[0]
        arrow = "→" if first["directed"] else "–"
        surest = f"{first['source']} {arrow} {first['target']}, {when(first['lag'])}, {_percent(first['probability'])}"
        return f"{found}, {sure} of them with a probability of at least 90 %; the surest: {surest}.{self._drowned()}"

    @cached_property
    def _sure_edges(self) -> Any:
        """Edges with their probabilities; `None` for a large network, where they take long."""
        return None if len(self.network.variables) > MOST_VARIABLES else self.edges()

    def tables(self) -> Mapping[str, Any]:
        """Return the edges, in networks that are not large with their probabilities, beside what every result has."""
        found = dict(super().tables())
        return found if self._sure_edges is None else {**found, "network": self._sure_edges}

    def add(self, clients: Mapping[str, Any], *, seed: int = 0) -> FittedOneRound:
        """Return the result with late clients added: their sums join the others', and the search runs again.

        Whether joining helps is not measured again: `benefit` is empty. `clients` maps names to tables or
        dataframes, as in `fit`.
        """
        present = [Problem("is part of the result already", client=name) for name in clients if name in self.names]
        if present:
            raise DataError(present)
        return self._change(clients, 1.0, seed)

    def remove(self, clients: Mapping[str, Any], *, seed: int = 0) -> FittedOneRound:
        """Return the result without clients that leave; they send their sums again, to be subtracted.

        Whether joining helps those who stay is not measured again: `benefit` is empty.
        """
        absent = [Problem("is not part of the result", client=name) for name in clients if name not in self.names]
        if absent:
            raise DataError(absent)
        warnings.warn(
            "whoever holds the sums before and after knows, by their difference, the sums of the client that left",
            stacklevel=2,
        )
        return self._change(clients, -1.0, seed)

    def _change(self, given: Mapping[str, Any], sign: float, seed: int) -> FittedOneRound:
        if self.privacy.get("epsilon") is not None:
            raise DataError("a private result must stay as it is: sums of a late client have no noise; run again")
        read = {name: table for name, table in given.items() if not isinstance(table, Series)}
        clients: dict[str, Series] = {**given, **(read_series(read) if read else {})}
        state = self.state
        for client, table in sorted(clients.items()):
            own = self.method.late_sums(state, client, table)
            sums = {name: getattr(state, name) + sign * getattr(own, name) for name in ("counts", "sums", "products")}
            if own.gaps:
                before = state.pairs if state.gaps else np.broadcast_to(state.counts, state.products.shape)
                sums["pairs"] = before + sign * own.pairs
            state = replace(own, **sums)
        state, _ = self.method.learn(state, Rng(seed, "server", "change"))
        schemas = {name: schema for name, schema in self.outcome.schemas.items() if name not in clients}
        if sign > 0:
            schemas |= {name: table.schema for name, table in clients.items()}
        # What was measured on the rows of others is of no use now; who holds which variables may have changed.
        held = [set(schema.columns) for schema in schemas.values()]
        shared = tuple(name for name in state.variables if all(name in columns for columns in held))
        state = replace(state, shared=shared, lost=(0.0, 0.0), joining=Joining())
        kept: dict[str, Any] = {
            name: replace(memory, compared=NOT_COMPARED)
            for name, memory in self.outcome.memories.items()
            if name in schemas
        }
        result: FittedOneRound = self.method.result(replace(self.outcome, state=state, schemas=schemas, memories=kept))
        return result


def _percent(probability: float) -> str:
    """Return a probability in words; that it was so in every draw does not make it certain."""
    return "more than 99 %" if probability > 0.99 else f"{probability:.0%}"

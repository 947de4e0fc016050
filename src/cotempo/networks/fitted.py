"""Results of this family: `FittedNetwork` for all clients, `FittedPersonal` for each, and a `Ranking` of edges."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series, read_series
from cotempo.data.html import html_table
from cotempo.data.tables import Framed, FrameKind, pluralize
from cotempo.errors import DataError, Problem
from cotempo.federation import Fitted, Outcome, Rng
from cotempo.networks.metrics import areas, score_network
from cotempo.networks.network import Network, edge_frame
from cotempo.networks.search.edge_confidence import Confidence, edge_confidence
from cotempo.storage.saved import Saved
from cotempo.typing import Bools, Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.networks.admm.trial_then_fit import TrialThenFit
    from cotempo.networks.oneround import OneRound, OneRoundState

#: A direction is told if it is at least so many times as probable as the reverse.
TOLD = 9.0
#: Clients' own networks that a report draws.
MOST_PICTURES = 4


@dataclass(frozen=True)
class ClientNetwork(Saved):
    """One client's own network."""

    network: Network

    def plot(self, truth: Network | None = None) -> Figure:
        """Draw the network, beside the true one where it is known."""
        from cotempo.networks.plots import plot_networks

        return plot_networks(self.network, truth)

    def _repr_html_(self) -> str:
        return self.network._repr_html_()


class FittedNetwork(Fitted):
    """One network for all clients; `fitted[client]` is the same network."""

    method: TrialThenFit | OneRound

    def __init__(self, outcome: Outcome, network: Network):
        super().__init__(outcome)
        self.network = network

    def plot(self, truth: Network | None = None) -> Figure:
        """Draw the network, beside the true one where it is known."""
        return ClientNetwork(self.network).plot(truth)

    def answer(self) -> str:
        """Return how many edges were found, and the strongest."""
        between = [edge for edge in self.network.edges() if edge[0] != edge[1]]
        count = f"{pluralize(len(between), 'edge')} between {pluralize(len(self.network.variables), 'variable')}"
        if not between:
            return f"Found no {count[2:]}."
        strength = {edge[:3]: abs(edge[3]) for edge in self.network.standardised().edges()}
        source, target, lag, weight = max(between, key=lambda edge: strength[edge[:3]])
        strongest = f"the strongest: {source} → {target}, {_when(lag)}, weight {weight:.3g}"
        return f"Found {count}; {strongest}. {type(self.method).__name__} gives edges no probability; OneRound does."

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Return the picture of the learned network, marked against the true one where it is known."""
        known = truth if isinstance(truth, Network) else None
        if known is None and not self.network.edges():
            return {}
        title = "The learned network against the true one" if known else "The learned network"
        return {title: self.plot(known)}

    def tables(self) -> Mapping[str, Any]:
        """Return the edges beside what every result has."""
        open_ends, place = self._open_ends(), {name: index for index, name in enumerate(self.network.variables)}
        rows = [
            (*edge, bool(edge[2] or not open_ends[place[edge[0]], place[edge[1]]])) for edge in self.network.edges()
        ]
        columns = {"lag": nw.Int64(), "weight": nw.Float64(), "directed": nw.Boolean()}
        return {"network": edge_frame(rows, columns, "pandas"), **super().tables()}

    def _open_ends(self) -> Bools:
        """Return between which variables the direction within a time step is not known."""
        count = len(self.network.variables)
        return np.full((count, count), getattr(self.method, "scaled", False), dtype=np.bool_)

    def advice(self) -> list[str]:
        """Return what to know of the result, such as what directions are worth, or variables that some clients lack."""
        return [*super().advice(), *self.method.notes(self.state)]

    def scores(self, truth: Any) -> Mapping[str, float]:
        """Return distances and rates of `score_network`; means over clients that each have a truth of their own."""
        if isinstance(truth, Mapping):
            return score_network({name: self[name].network for name in truth}, truth)
        return score_network(self.network, truth)


class FittedPersonal(FittedNetwork):
    """A network for every client, `fitted[client].network`, beside the common one, `fitted.network`.

    Clients' own networks come from their memories and never crossed.
    """

    def __init__(self, outcome: Outcome, network: Network, own: Mapping[str, Network]):
        super().__init__(outcome, network)
        self.own = own

    def __getitem__(self, client: str) -> Any:
        """Return the client's own network; the common one for a client that never took part."""
        super().__getitem__(client)
        return ClientNetwork(self.own.get(client, self.network))

    def for_newcomer(self) -> ClientNetwork | None:
        """Return the common network, unless clients have their own."""
        return None if self.own else ClientNetwork(self.network)

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Return pictures of the common network and of the first clients' own, beside the true ones where known."""
        truths = truth if isinstance(truth, Mapping) else dict.fromkeys(self.own, truth)
        shown = list(self.own)[:MOST_PICTURES]
        own = {f"The own network of {name}": self[name].plot(truths.get(name)) for name in shown}
        return {**super().figures(truth), **own}

    def tables(self) -> Mapping[str, Any]:
        """Return the edges of clients' own networks beside those of the common one."""
        rows = [(*edge, name) for name, network in self.own.items() for edge in network.edges()]
        columns = {"lag": nw.Int64(), "weight": nw.Float64(), "client": nw.String()}
        if not self.own:
            return super().tables()
        frame = edge_frame(rows, columns, "pandas")
        return {**super().tables(), "client_networks": frame[["client", *(c for c in frame if c != "client")]]}


class FittedOneRound(FittedPersonal):
    """The result of OneRound: clients join or leave by one addition, and every edge has a probability."""

    method: OneRound
    state: OneRoundState

    @property
    def undirected(self) -> list[tuple[str, str]]:
        """Pairs of variables joined within a time step whose direction the data leave open."""
        names = self.network.variables
        pairs = np.argwhere(np.triu(self.state.as_shown(self.state.undirected))).tolist()
        return [(names[first], names[second]) for first, second in pairs]

    def _open_ends(self) -> Bools:
        return np.asarray(self.state.as_shown(self.state.undirected), dtype=np.bool_)

    def confidence(self, draws: int = 100, *, seed: int = 0) -> Confidence:
        """Return the probability of every edge, from parametric-bootstrap draws of the summed Gram matrix."""
        rng = Rng(seed, "server", "confidence")
        search = self.method.search(self.state, rng)
        found = edge_confidence(search, rng("draws"), draws, filled=self.state.gaps)
        return Confidence(self.state.as_shown(found.within), self.state.as_shown(found.across))

    def edges(self, draws: int = 100, *, seed: int = 0, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a dataframe, the surest first.

        Each has its weight, its probability, and whether it is `directed`: across time steps always, within one where
        the data tell the direction and it is at least nine times as probable as the reverse.
        """
        probability = self.confidence(draws, seed=seed)
        stacked = np.concatenate([probability.within[None], probability.across])
        place = {name: index for index, name in enumerate(self.network.variables)}
        told = ~self._open_ends() & (probability.within >= TOLD * probability.within.T)
        rows = []
        for source, target, lag, weight in self.network.edges():
            i, j = place[source], place[target]
            rows.append((source, target, lag, weight, float(stacked[lag, i, j]), bool(lag or told[i, j])))
        rows.sort(key=lambda row: -row[4])
        numbers = {"lag": nw.Int64(), "weight": nw.Float64(), "probability": nw.Float64(), "directed": nw.Boolean()}
        return edge_frame(rows, numbers, kind)

    def answer(self) -> str:
        """Return how many edges are sure, and the surest."""
        if self._sure_edges is None:
            return super().answer().partition(" OneRound gives")[0]
        edges = self._sure_edges[self._sure_edges["source"] != self._sure_edges["target"]]
        names = pluralize(len(self.network.variables), "variable")
        found = f"Found {pluralize(len(edges), 'edge')} between {names}"
        if not len(edges):
            return f"{found}."
        sure, first = int((edges["probability"] >= 0.9).sum()), edges.iloc[0]
        arrow = "→" if first["directed"] else "–"
        surest = f"{first['source']} {arrow} {first['target']}, {_when(first['lag'])}, {first['probability']:.0%}"
        return f"{found}, {sure} of them with a probability of at least 90 %; the surest: {surest}."

    @cached_property
    def _sure_edges(self) -> Any:
        """Edges with their probabilities; `None` for a large network, where they take long."""
        return None if len(self.network.variables) > 30 else self.edges(draws=30)

    def tables(self) -> Mapping[str, Any]:
        """Return the edges, in networks that are not large with their probabilities, beside what every result has."""
        found = dict(super().tables())
        return found if self._sure_edges is None else {**found, "network": self._sure_edges}

    def add(self, clients: Mapping[str, Any], *, seed: int = 0) -> FittedOneRound:
        """Return the result with late clients added: their sums join the others', and the search runs again.

        `clients` maps names to tables or dataframes, as in `fit`.
        """
        present = [Problem("is part of the result already", client=name) for name in clients if name in self.names]
        if present:
            raise DataError(present)
        return self._change(clients, 1.0, seed)

    def remove(self, clients: Mapping[str, Any], *, seed: int = 0) -> FittedOneRound:
        """Return the result without clients that leave; they send their sums again, to be subtracted."""
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
        kept: dict[str, Any] = {name: memory for name, memory in self.outcome.memories.items() if name in schemas}
        result: FittedOneRound = self.method.result(replace(self.outcome, state=state, schemas=schemas, memories=kept))
        return result


@dataclass(frozen=True, eq=False)
class Ranking(Framed, Saved):
    """Every pair of different variables with a score: the higher, the surer the edge.

    Attributes
    ----------
    scores : (variables, variables)
        ``[source, target]``, NaN on the diagonal, minus infinity where a variable does not vary.
    score, choice : str
        The name of the score, and of the features that were chosen, where the score chooses.
    likelihoods : mapping from str to float
        Predictive log-likelihood of every candidate it chose from.
    left_out : tuple of str
        Variables that do not vary, candidates that are too large or look back too far, and features that do not vary.

    Examples
    --------
    >>> ranking = Ranking(np.array([[np.nan, 2.0], [1.0, np.nan]]), ("rain", "river"), "granger")
    >>> ranking.top(1)
    [('rain', 'river', 2.0)]
    >>> ranking.compare(np.array([[0, 1], [0, 0]]))
    {'auroc': 1.0, 'aupr': 1.0}
    """

    scores: Floats
    variables: tuple[str, ...]
    score: str
    choice: str = ""
    likelihoods: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Ranking({pluralize(len(self.variables), 'variable')}, score {self.score})"

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.top(len(self.variables) ** 2), ("source", "target", "score"))

    def top(self, count: int) -> list[tuple[str, str, float]]:
        """Return the surest edges as (source, target, score)."""
        sources, targets = np.nonzero(self._off_diagonal)
        values = self.scores[sources, targets]
        return [
            (self.variables[sources[edge]], self.variables[targets[edge]], float(values[edge]))
            for edge in np.argsort(-values, kind="stable")[:count]
        ]

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a dataframe of the library `kind`, with the columns source, target and score, surest edge first."""
        return edge_frame(self.top(len(self.variables) ** 2), {"score": nw.Float64()}, kind)

    def compare(self, truth: Network | NDArray[Any]) -> dict[str, float]:
        """Return the areas under the ROC and the precision-recall curve, off the diagonal; edges of any lag count."""
        edges, off = edges_of(truth), self._off_diagonal
        if edges.shape != self.scores.shape:
            raise DataError(f"truth must be {self.scores.shape}, one row and column per variable, got {edges.shape}")
        return areas(self.scores[off], edges[off])

    @property
    def _off_diagonal(self) -> Bools:
        return ~np.eye(len(self.variables), dtype=np.bool_)

    def plot(self) -> Figure:
        """Draw the scores as a matrix, each cell by its rank."""
        from cotempo.networks.plots import plot_ranks

        return plot_ranks(self.scores, self.variables)


class FittedRanking(Fitted):
    """A ranking of edges, the same for all clients."""

    def __init__(self, outcome: Outcome, ranking: Ranking):
        super().__init__(outcome)
        self.ranking = ranking

    def tables(self) -> Mapping[str, Any]:
        """Return the ranking beside what every result has."""
        return {"ranking": self.ranking.to_frame(), **super().tables()}

    def scores(self, truth: Any) -> Mapping[str, float]:
        """Return the areas under the ROC and the precision-recall curve."""
        return self.ranking.compare(truth)

    def plot(self) -> Figure:
        """Draw the scores as a matrix, each cell by its rank."""
        return self.ranking.plot()

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Return the scores as a matrix."""
        return {"Edges by rank": self.ranking.plot()}


def _when(lag: int) -> str:
    return f"{pluralize(lag, 'step')} later" if lag else "within a step"


def edges_of(truth: Network | NDArray[Any]) -> Bools:
    """Return which variable drives which, at whatever lag, ``[source, target]``."""
    edges = (truth.stacked != 0).any(axis=0) if isinstance(truth, Network) else np.asarray(truth) != 0
    return np.asarray(edges, dtype=np.bool_)

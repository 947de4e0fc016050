"""Results of this family: `FittedNetwork` for all clients, `FittedPersonal` for each, and a `Ranking` of edges.

That of OneRound is in `fitted_oneround`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from cotempo.data.html import html_table
from cotempo.data.problems import list_names
from cotempo.data.tables import Framed, FrameKind, pluralize
from cotempo.errors import DataError, ParameterError
from cotempo.federation import Fitted, Outcome
from cotempo.networks.metrics import areas, score_network, warn_of_further
from cotempo.networks.network import Network, edge_frame, read_edges
from cotempo.storage.saved import Saved
from cotempo.typing import Bools, Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.networks.admm.trial_then_fit import TrialThenFit
    from cotempo.networks.oneround import OneRound

#: A direction is told if it is at least so many times as probable as the reverse.
TOLD = 9.0
#: An edge of at least this probability is sure.
SURE = 0.9
#: Clients' own networks that a report draws.
MOST_PICTURES = 4


@dataclass(frozen=True)
class ClientNetwork(Saved):
    """One client's own network.

    `undirected`, `(variables, variables)`, says where the direction within a time step is not known, `probability`,
    ``[lag, source, target]``, that of every edge, and `error` the standard error of its weight; they are empty where
    the method has none.
    """

    network: Network
    undirected: Bools
    probability: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    error: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))

    @property
    def directed(self) -> Bools:
        """Where the direction within a time step is told, ``[source, target]``.

        That is where it is known and, with probabilities, at least nine times as probable as the reverse.
        """
        told = ~self.undirected
        return told & (self.probability[0] >= TOLD * self.probability[0].T) if self.probability.size else told

    def edges(self, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a dataframe: weight, error and probability if there are any, whether it is `directed`."""
        return edge_table(self.network, self.directed, self.probability, kind, self.error)

    def plot(self, truth: Network | None = None, least: float = 0.0) -> Figure:
        """Draw the network, or its edges of at least so high a probability, against the true one where known.

        Within a time step a line without a tip stands for a direction that is not told.
        """
        from cotempo.networks.plots import plot_networks

        network = self.network
        if truth is not None and not isinstance(truth, Network):
            truth = Network.from_frame(truth, network.variables, network.lags)
        if least > 0:
            if not self.probability.size:
                raise ParameterError("least needs probabilities of edges; OneRound of at most 30 variables has them")
            weights = np.where(self.probability >= least, network.stacked, 0.0)
            network = replace(network, within=weights[0], across=weights[1:])
        return plot_networks(network, truth, ~self.directed)

    def __repr__(self) -> str:
        sure = f", {int((self.probability >= SURE).sum())} at {SURE} or more" if self.probability.size else ""
        return f"ClientNetwork({self.network!r}{sure})"

    def _repr_html_(self) -> str:
        return self.network._repr_html_()


class FittedNetwork(Fitted):
    """One network for all clients; `fitted[client]` is the same network."""

    method: TrialThenFit | OneRound

    def __init__(self, outcome: Outcome, network: Network):
        super().__init__(outcome)
        self.network = network

    def plot(self, truth: Network | None = None, least: float = 0.0) -> Figure:
        """Draw the network, or its edges of at least so high a probability, against the true one where known."""
        return self._common().plot(truth, least)

    def edges(self, *, kind: FrameKind = "pandas") -> Any:
        """Return the edges as a dataframe: source, target, lag, weight and whether the edge is `directed`."""
        return self._common().edges(kind)

    def _common(self) -> ClientNetwork:
        return ClientNetwork(self.network, self._open_ends())

    def answer(self) -> str:
        """Return how many edges were found, and the strongest."""
        edges = self.network.edge_list()
        between = [edge for edge in edges if edge[0] != edge[1]]
        count = count_edges(len(between), len(edges) - len(between), len(self.network.variables))
        if not between:
            return f"Found no {count[2:]}.{self._drowned()}"
        strength = {edge[:3]: abs(edge[3]) for edge in self.network.standardised().edge_list()}
        source, target, lag, weight = max(between, key=lambda edge: strength[edge[:3]])
        place, common = self.network.variables.index, self._common()
        arrow = "→" if lag or common.directed[place(source), place(target)] else "–"
        strongest = f"the strongest: {source} {arrow} {target}, {when(lag)}, weight {weight:.3g}"
        told = f"{type(self.method).__name__} gives edges no probability; OneRound does."
        return f"Found {count}; {strongest}. {told}{self._drowned()}"

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Return the picture of the learned network, marked against the true one where it is known."""
        known = truth if isinstance(truth, Network) else None
        if known is None and not self.network.edge_list():
            return {}
        title = "The learned network against the true one" if known else "The learned network"
        return {title: self.plot(known)}

    def tables(self) -> Mapping[str, Any]:
        """Return the edges beside what every result has."""
        return {"network": self.edges(), **super().tables()}

    def _open_ends(self) -> Bools:
        """Return between which variables the direction within a time step is not known."""
        count = len(self.network.variables)
        return np.full((count, count), getattr(self.method, "scaled", False), dtype=np.bool_)

    def advice(self) -> list[str]:
        """Return what to know of the result, such as what directions are worth, or variables that some clients lack."""
        return [*super().advice(), *self.method.notes(self.state), *self._noise()]

    def _noise(self) -> list[str]:
        """Return how much the noise of epsilon takes away, where it is more than half of what the rows tell."""
        noised = [record["metrics"] for record in self.history if "summed" in record["metrics"]]
        if not noised:
            return []
        rows, summed = noised[-1]["rows"], max(noised[-1]["summed"], 1.0)
        if rows > summed / 2:
            return []
        needed = float(f"{(1 / rows - 1 / summed) * summed**2:.1g}")  # the noise of a mean falls as 1 / rows
        return [
            f"the noise of epsilon {self.privacy['epsilon']:g} leaves of about {summed:,.0f} rows what {rows:.0f} "
            f"tell without it: an edge that is missing here says nothing; at this epsilon some {needed:,.0f} rows are "
            "needed"
        ]

    def _drowned(self) -> str:
        return (
            " Noise drowned most of what the rows tell, so that a missing edge says nothing." if self._noise() else ""
        )

    def scores(self, truth: Any) -> Mapping[str, float]:
        """Return distances and rates of `score_network`; means over clients that each have a truth of their own."""
        if isinstance(truth, Mapping):
            return score_network({name: self[name].network for name in truth}, truth)
        return score_network(self.network, truth)


class FittedPersonal(FittedNetwork):
    """A network for every client, `fitted[client].network`, beside the common one, `fitted.network`.

    Clients' own networks come from their memories and never crossed.
    """

    def __init__(self, outcome: Outcome, network: Network, own: Mapping[str, ClientNetwork]):
        super().__init__(outcome, network)
        self.own = own

    def __getitem__(self, client: str) -> Any:
        """Return the client's own network; the common one for a client that never took part."""
        super().__getitem__(client)
        return self.own[client] if client in self.own else self._common()

    def answer(self) -> str:
        """Return what the common network tells, and how many edges clients' own ones have."""
        counts = sorted(sum(edge[0] != edge[1] for edge in own.network.edge_list()) for own in self.own.values())
        if not counts:
            return super().answer()
        found = f"{counts[0]} to {counts[-1]}" if counts[0] < counts[-1] else f"{counts[0]}"
        return f"In common: {super().answer()} Clients' own networks have {found} edges between different variables."

    def for_newcomer(self) -> ClientNetwork | None:
        """Return the common network, unless clients have their own."""
        return None if self.own else self._common()

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Return pictures of the common network and of the first clients' own, beside the true ones where known."""
        truths = truth if isinstance(truth, Mapping) else dict.fromkeys(self.own, truth)
        shown = list(self.own)[:MOST_PICTURES]
        own = {f"The own network of {name}": self[name].plot(truths.get(name)) for name in shown}
        return {**super().figures(truth), **own}

    def tables(self) -> Mapping[str, Any]:
        """Return the edges of clients' own networks beside those of the common one."""
        if not self.own:
            return super().tables()
        import pandas

        frames = {name: own.edges() for name, own in self.own.items()}
        frame = pandas.concat(frames, names=["client"]).reset_index("client").reset_index(drop=True)
        return {**super().tables(), "client_networks": frame}


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

    def compare(self, truth: Any) -> dict[str, float]:
        """Return the areas under the ROC and the precision-recall curve, off the diagonal; edges of any lag count.

        The truth is a `Network` or a dataframe, as of `Network.from_frame`, with these variables in whatever order, and
        maybe others, which are left out; or an array, ``[source, target]``, whose rows and columns stand in the order
        of `ranking.variables`.
        """
        edges, off = self._edges_of(truth), self._off_diagonal
        if edges.shape != self.scores.shape:
            raise DataError(f"truth must be {self.scores.shape}, one row and column per variable, got {edges.shape}")
        return areas(self.scores[off], edges[off])

    def _edges_of(self, truth: Any) -> Bools:
        """Return which variable drives which in truth, in this order; refuse other variables."""
        if isinstance(truth, Network):
            names, edges = list(truth.variables), truth.edge_list()
        elif hasattr(truth, "columns"):
            names, edges = read_edges(truth, 1)
        else:
            return edges_of(truth)
        told = set(names or (name for edge in edges for name in edge[:2]))
        if lacking := sorted(set(self.variables) - told) if names else []:
            raise DataError(f"truth must have the variables of the ranking, it lacks {list_names(lacking)}")
        if told and not told & set(self.variables):
            raise DataError(f"truth must have variables of the ranking, it has {list_names(sorted(told))}")
        warn_of_further(told, self.variables)
        found = np.zeros(self.scores.shape, dtype=np.bool_)
        for source, target, _, weight in edges:
            if source in self.variables and target in self.variables:
                found[self.variables.index(source), self.variables.index(target)] |= weight != 0
        return found

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

    def top(self, count: int) -> list[tuple[str, str, float]]:
        """Return the surest edges as (source, target, score)."""
        return self.ranking.top(count)

    def compare(self, truth: Any) -> dict[str, float]:
        """Return the areas under the ROC and the precision-recall curve; see `Ranking.compare`."""
        return self.ranking.compare(truth)

    def answer(self) -> str:
        """Return the surest edges."""
        edges = ", ".join(f"{source} → {target}" for source, target, _ in self.top(3))
        count = pluralize(len(self.ranking.variables), "variable")
        return f"Ranked the edges between {count} by {self.ranking.score}; the surest: {edges}."

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


def count_edges(between: int, own: int, variables: int) -> str:
    """Return how many edges are between how many variables, and how many are effects on themselves.

    Examples
    --------
    >>> count_edges(22, 8, 8), count_edges(1, 0, 2)
    ('22 edges between 8 variables (and 8 effects on themselves)', '1 edge between 2 variables')
    """
    besides = f" (and {pluralize(own, 'effect')} on themselves)" if own else ""
    return f"{pluralize(between, 'edge')} between {pluralize(variables, 'variable')}{besides}"


def when(lag: int) -> str:
    """Return a lag in words."""
    return f"{pluralize(lag, 'step')} later" if lag else "within a step"


def edge_table(
    network: Network,
    directed: Bools,
    probability: Floats,
    kind: FrameKind = "pandas",
    error: Floats | None = None,
) -> Any:
    """Return edges as a dataframe with weight, `directed` and, unless they are empty, error and probability.

    Across time steps all are directed. The surest come first.
    """
    place = {name: index for index, name in enumerate(network.variables)}
    known = {"error": error, "probability": probability}
    further = {name: each for name, each in known.items() if each is not None and each.size}
    edges = [(edge, (edge[2], place[edge[0]], place[edge[1]])) for edge in network.edge_list()]
    if "probability" in further:
        edges.sort(key=lambda item: -float(probability[item[1]]))
    rows = [
        (*edge, *(float(each[at]) for each in further.values()), bool(at[0] or directed[at[1:]])) for edge, at in edges
    ]
    numbers = dict.fromkeys(("weight", *further), nw.Float64())
    return edge_frame(rows, {"lag": nw.Int64(), **numbers, "directed": nw.Boolean()}, kind)


def edges_of(truth: Network | NDArray[Any]) -> Bools:
    """Return which variable drives which, at whatever lag, ``[source, target]``."""
    edges = (truth.stacked != 0).any(axis=0) if isinstance(truth, Network) else np.asarray(truth) != 0
    return np.asarray(edges, dtype=np.bool_)

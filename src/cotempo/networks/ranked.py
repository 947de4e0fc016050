"""Ranked edges, and what a fit that ranks returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from cotempo.data.tables import Framed
from cotempo.errors import DataError, ParameterError, nearest
from cotempo.federation import Fitted, Outcome
from cotempo.networks.metrics import area_under_roc, average_precision
from cotempo.networks.network import FrameKind, Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ranking(Framed):
    """Every pair of different variables with a score: the higher, the surer the edge.

    Attributes
    ----------
    scores : (variables, variables)
        ``[source, target]``, NaN on the diagonal.
    variables : tuple of str
    score : str
        What the score is.
    choice : str
        The features that were chosen, where the score chooses.
    likelihoods : mapping from str to float
        Predictive log-likelihood of every candidate it chose from.
    left_out : tuple of str
        What was not looked at, and why: variables that do not vary (their edges come last, with a score of minus
        infinity), candidates that are too large or look back too far, and features that do not vary.

    Examples
    --------
    >>> import numpy as np
    >>> ranking = Ranking(np.array([[np.nan, 2.0], [1.0, np.nan]]), ("rain", "river"), "granger")
    >>> ranking.top(1)
    [('rain', 'river', 2.0)]
    >>> ranking.compare(np.array([[0, 1], [0, 0]]))
    {'auroc': 1.0, 'aupr': 1.0}
    """

    scores: FloatArray
    variables: tuple[str, ...]
    score: str
    choice: str = ""
    likelihoods: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def top(self, count: int) -> list[tuple[str, str, float]]:
        """Return the surest edges as (source, target, score)."""
        sources, targets = np.nonzero(~np.eye(len(self.variables), dtype=np.bool_))
        values = self.scores[sources, targets]
        return [
            (self.variables[sources[edge]], self.variables[targets[edge]], float(values[edge]))
            for edge in np.argsort(-values, kind="stable")[:count]
        ]

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a table with the columns source, target and score, surest edge first.

        Parameters
        ----------
        kind : {"pandas", "polars", "pyarrow"}
            The library whose dataframe is wanted.
        """
        kinds = get_args(FrameKind)
        if kind not in kinds:
            raise ParameterError(f"kind must be one of {kinds}; got {kind!r}{nearest(kind, kinds)}")
        columns = list(zip(*self.top(len(self.variables) ** 2), strict=True)) or [(), (), ()]
        schema = {"source": nw.String(), "target": nw.String(), "score": nw.Float64()}
        data = {name: list(column) for name, column in zip(schema, columns, strict=True)}
        return nw.from_dict(data, schema=schema, backend=kind).to_native()

    def compare(self, truth: Network | NDArray[Any]) -> dict[str, float]:
        """Return the areas under the ROC and the precision-recall curve, off the diagonal.

        Parameters
        ----------
        truth : Network, or (variables, variables) array
            An edge is an edge at whatever lag.
        """
        edges = edges_of(truth)
        if edges.shape != self.scores.shape:
            raise DataError(f"truth must be {self.scores.shape}, one row and column per variable; got {edges.shape}")
        off = ~np.eye(len(edges), dtype=np.bool_)
        return {
            "auroc": area_under_roc(self.scores[off], edges[off]),
            "aupr": average_precision(self.scores[off], edges[off]),
        }

    def plot(self) -> Figure:
        """Draw the scores as a matrix, each cell by its rank."""
        from matplotlib.figure import Figure
        from scipy.stats import rankdata

        off = ~np.eye(len(self.variables), dtype=np.bool_)
        ranks = np.full(self.scores.shape, np.nan)
        ranks[off] = rankdata(self.scores[off]) / max(off.sum(), 1)
        figure = Figure(figsize=(5.5, 5.0), layout="constrained")
        ax = figure.subplots()
        image = ax.imshow(ranks, cmap="viridis", vmin=0.0, vmax=1.0)
        if len(self.variables) <= 30:
            ax.set_xticks(range(len(self.variables)), self.variables, rotation=90)
            ax.set_yticks(range(len(self.variables)), self.variables)
        ax.set_xlabel("target")
        ax.set_ylabel("source")
        figure.colorbar(image, ax=ax, label="share of pairs ranked at or below")
        return figure


class FittedRanking(Fitted):
    """A ranking of edges, the same for all clients."""

    def __init__(self, outcome: Outcome, ranking: Ranking):
        super().__init__(outcome)
        self.ranking = ranking

    def scores(self, truth: Any) -> Mapping[str, float]:
        """Areas under the ROC and the precision-recall curve."""
        return self.ranking.compare(truth)

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """The scores as a matrix."""
        return {"Edges by rank": self.ranking.plot()}


def edges_of(truth: Network | NDArray[Any]) -> BoolArray:
    """Return which variable drives which, at whatever lag, ``[source, target]``.

    Examples
    --------
    >>> edges_of(Network([[0.0, 0.5], [0.0, 0.0]], [[[0.9, 0.0], [0.4, 0.0]]])).tolist()
    [[True, True], [True, False]]
    """
    if isinstance(truth, Network):
        return np.asarray((truth.within != 0) | (truth.across != 0).any(axis=0), dtype=np.bool_)
    return np.asarray(np.asarray(truth) != 0, dtype=np.bool_)
